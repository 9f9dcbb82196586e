"""What the benchmarks share: alternating timing, memory in a process of its own, the report."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("RESULTS.md")
THREADS = 2

Task = Callable[[], object]


def limit_threads() -> None:
    """Give every library the same number of threads; call before importing any of them."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(THREADS)


def alternate(tasks: Mapping[str, Task], rounds: int) -> dict[str, list[float]]:
    """Wall times of each task, run in turn so that a noisy moment strikes all of them.

    Each task runs once before the clock starts: compilation and first-touch costs are apart.
    """
    for task in tasks.values():
        task()
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            gc.collect()
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    return times


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def in_own_process(module: str, *arguments: str) -> dict[str, Any]:
    """Run `python -m module arguments` and read the JSON on its last line of output."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def peak_megabytes() -> float:
    """The largest resident size that this process has had."""
    # ru_maxrss survives exec and so can be the parent's; VmHWM is this program's own.
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024  # type: ignore[index]
    import resource

    scale = 1024 if platform.system() == "Linux" else 1024**2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def machine(packages: Iterable[str]) -> str:
    """One line on the machine and the versions, for the report."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (match := re.search(r"model name\s*: (.*)", info.read_text())):
        cpu = match[1]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return (
        f"{cpu}, {os.cpu_count()} CPUs, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


# What benchmarks write themselves.
WRITTEN = ("benchmarks/RESULTS.md", "README.md", "docs")


@functools.cache
def commit() -> str:
    """The commit that was measured, with a mark if code had changes when it was asked first."""
    without = [f":(exclude){path}" for path in WRITTEN]
    try:
        name, changes = (
            subprocess.run(
                ["git", *arguments], check=True, capture_output=True, text=True,
                cwd=RESULTS.parents[1],
            ).stdout.strip()
            for arguments in (
                ("describe", "--always", "--abbrev=10"),
                ("status", "--porcelain", "--untracked-files=no", "--", ".", *without),
            )
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}-dirty" if changes else name


class KeptLines:
    """A file of JSON lines, one per fit, that an interrupted run goes on from.

    Half a line, which an interrupt leaves, is dropped. A file whose lines lack one of `fields` is
    refused and left as it is. Without a path nothing is kept.
    """

    def __init__(self, path: Path | None, fields: Iterable[str]) -> None:
        self.path, self.records = path, list[dict[str, Any]]()
        if path is None or not path.exists():
            return
        whole, wanted = path.read_bytes(), set(fields)
        kept = whole[: whole.rfind(b"\n") + 1]
        self.records = [json.loads(line) for line in kept.decode().splitlines()]
        ours = all(isinstance(each, dict) and wanted <= each.keys() for each in self.records)
        if not ours or (whole and not kept):
            raise SystemExit(f"{path} must be a file of kept fits. Got another: name a new one.")
        if len(kept) < len(whole):
            path.write_bytes(kept)

    def add(self, record: dict[str, Any]) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def report(name: str, title: str, command: str, packages: Iterable[str], body: str) -> None:
    """Print a section and put it into RESULTS.md in place of the section of the same name."""
    section = (
        f"<!-- {name} -->\n## {title}\n\n"
        f"Command: `{command}`, commit {commit()}.\n\nMachine: {machine(packages)}.\n\n{body}\n"
        f"<!-- /{name} -->\n"
    )
    print(section)
    head = "# Results\n\nEvery section is written by the command that stands in it.\n\n"
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else head
    pattern = re.compile(rf"<!-- {name} -->.*<!-- /{name} -->\n", re.DOTALL)
    if pattern.search(text):
        text = pattern.sub(lambda _: section, text)
    else:
        text = text.rstrip("\n") + "\n\n" + section
    RESULTS.write_text(text, encoding="utf-8")


_ANSWER = re.compile(r"<!-- answer -->\n.*?<!-- /answer -->\n\n", re.S)


def write_page(path: Path, text: str) -> None:
    """Write a page of the documents, or a picture; the answer that a page opens with is kept.

    It is written by hand: `tests/test_docs.py` says where the new figures do not have its numbers,
    and `python tools/draw_studies.py` draws its picture.
    """
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if answer := _ANSWER.search(before):
        title, _, rest = text.partition("\n\n")
        text = f"{title}\n\n{answer[0]}{rest}"
    path.write_text(text, encoding="utf-8")

"""Fits of many candidates in a pool of processes, kept in a file from which a run goes on."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.common import KeptLines
from benchmarks.real_data import Split

Sets = Mapping[str, Sequence[Split]]
Record = dict[str, Any]


class Task(Hashable, Protocol):
    """One fit, a named tuple: its fields are the first of the line that is kept."""

    candidate: str
    set_name: str
    fold: int

    def _asdict(self) -> dict[str, Any]: ...


def source() -> str:
    """What identifies Rankgrove's code: the tree of `src` in git, and a sum of its changes."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    words = ("rev-parse", "HEAD:src"), ("diff", "HEAD", "--", "src")
    said = [
        subprocess.run([*git, *each], check=False, capture_output=True).stdout for each in words
    ]
    return f"{zlib.crc32(said[0]):08x} {zlib.crc32(said[1]):08x}"


class Results:
    """Fits that are done, kept in a file."""

    def __init__(self, path: Path | None, kind: Any) -> None:
        self._file, self._kind, self.found = (
            KeptLines(path, kind._fields),
            kind,
            dict[Any, Record](),
        )
        for record in self._file.records:
            self._keep(record)

    def _keep(self, record: Record) -> None:
        self.found[self._kind(*(record[name] for name in self._kind._fields))] = record

    def add(self, record: Record) -> None:
        self._keep(record)
        self._file.add(record)


# The data of this process of the pool.
_SETS: dict[str, Sequence[Split]] = {}


def _start_worker(sets: Sets) -> None:
    """Keep the data for all fits of this process; an interrupt is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _SETS.update(sets)


def _fit_in_worker(job: tuple[Callable[..., Record], Any]) -> Record:
    """What the fit gives, or what went wrong: one failure must not end the others."""
    fit, task = job
    try:
        return fit(_SETS[task.set_name], task)
    except Exception as error:
        return {**task._asdict(), "error": f"{type(error).__name__}: {error}"}


def compute(
    tasks: Sequence[Any], sets: Sets, results: Results, n_workers: int,
    fit: Callable[[Sequence[Split], Any], Record],
) -> list[str]:  # fmt: skip
    """Fit what is missing, in the order of the tasks; what failed."""
    missing = [task for task in tasks if task not in results.found]
    print(f"{len(tasks)} fits, {len(missing)} to do", file=sys.stderr, flush=True)
    failed: list[str] = []
    if not missing:
        return failed
    # Forked processes would inherit the threads of the libraries in a state that hangs.
    context = multiprocessing.get_context("spawn")
    start = last = time.monotonic()
    jobs = ((fit, task) for task in missing)
    with context.Pool(n_workers, _start_worker, (dict(sets),)) as pool:
        try:
            for done, record in enumerate(pool.imap_unordered(_fit_in_worker, jobs), 1):
                if "error" in record:
                    failed.append(f"{record['candidate']} on {record['set_name']}, fold "
                                  f"{record['fold']}: {record['error']}")  # fmt: skip
                    print(failed[-1], file=sys.stderr, flush=True)
                else:
                    results.add(record)
                if time.monotonic() - last > 60 or done == len(missing):
                    last = time.monotonic()
                    print(f"{done} of {len(missing)}, {(last - start) / 60:.0f} min, "
                          f"{record['candidate']}", file=sys.stderr, flush=True)  # fmt: skip
        except KeyboardInterrupt:
            pool.terminate()
            raise SystemExit("interrupted: the same command goes on from here") from None
    return failed

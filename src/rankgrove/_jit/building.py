"""Compiling listed kernels ahead, in several processes: into files of the package or the cache.

A process takes one kernel after the other from its standard input, as a line of JSON, and answers
each by a line. Nothing but the type of arguments is needed, so no kernel is called: code can be
made for processors that this machine does not have.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from rankgrove._jit.caching import NATIVE, code_of, source_digest
from rankgrove._jit.compilation import modules_inside
from rankgrove._jit.signatures import Listed, parse_signature
from rankgrove._jit.store import Compiled, compilers, environment_of, file_of, write_store
from rankgrove._jit.threads import available_cpus
from rankgrove.errors import RankgroveError

_PACKAGES = str(Path(__file__).parents[2])
_PROCESS = """
import sys
sys.path[:] = sys.argv[1:]
from rankgrove._jit.building import run_process
run_process()
"""


class CompilationError(RankgroveError):
    """A process that compiles kernels has failed."""


@dataclass(frozen=True)
class Answer:
    """What a process says of one kernel.

    Attributes
    ----------
    listed
        The kernel.
    source
        The digest of what it was compiled from.
    origin
        Where its code came from: "package", "cache" or "compiler".
    folder
        That of the cache, if it was looked into and can be written.
    """

    listed: Listed
    source: str
    origin: str
    folder: str | None


def build_store(
    listed: Sequence[Listed], level: str, folder: Path, n_processes: int | None = None
) -> Path:
    """Compile kernels for a level of processors into a file of the package."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = {each: os.path.join(scratch, str(i)) for i, each in enumerate(listed)}
        answers = _compile(listed, paths, environment_of(level), n_processes)
        kernels = [
            Compiled(
                f"{answer.listed.module}.{answer.listed.name}", answer.listed.signature,
                answer.source, Path(paths[answer.listed]).read_bytes(),
            )
            for answer in answers
        ]  # fmt: skip
    path = file_of(level, folder)
    write_store(path, {**compilers(), "level": level}, kernels)
    return path


def fill_cache(
    listed: Sequence[Listed], *, native: bool = False, n_processes: int | None = None
) -> list[Answer]:
    """Have kernels in the cache of this machine, unless they are there or came with the package."""
    return _compile(listed, {}, {NATIVE: "1"} if native else {}, n_processes)


def _compile(
    listed: Sequence[Listed],
    paths: dict[Listed, str],
    environment: dict[str, str],
    n_processes: int | None,
) -> list[Answer]:
    """Have processes compile kernels, each with a file to write its code to if there is one."""
    waiting, answers = list(listed)[::-1], list[Answer]()
    failures: list[str] = []
    # Not by PYTHONPATH: where pip builds apart, its sitecustomize takes folders out of that.
    command = [sys.executable, "-c", _PROCESS, _PACKAGES, *filter(None, sys.path)]

    def work() -> None:
        with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
            command, env={**os.environ, **environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        ) as process:  # fmt: skip
            stdin, stdout = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
            while waiting and not failures:
                try:
                    each = waiting.pop()
                except IndexError:
                    break
                job = [each.module, each.name, each.signature, paths.get(each)]
                with contextlib.suppress(BrokenPipeError):  # the answer is missing then
                    print(json.dumps(job), file=stdin, flush=True)
                line = stdout.readline()
                if not line:
                    process.wait()
                    errors.seek(0)
                    words = errors.read().strip()
                    failures.append(f"{each.module}.{each.name}: {words[-2000:]}")
                    break
                answers.append(Answer(each, *json.loads(line)))
            with contextlib.suppress(BrokenPipeError):
                stdin.close()

    n_threads = max(1, min(n_processes or available_cpus(), len(waiting)))
    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise CompilationError(f"could not compile {failures[0]}")
    return answers


def run_process() -> None:
    """Compile what standard input asks for."""
    for line in sys.stdin:
        module, name, signature, path = json.loads(line)
        kernel: Any = getattr(import_module(module), name)
        source = source_digest(sorted(modules_inside(kernel.py_func)))
        result = kernel.compile(parse_signature(signature), keep=path is None)
        answer = [source, "compiler", None]
        if path is not None:
            Path(path).write_bytes(code_of(result))
        elif kernel.cache is not None:
            origin = kernel.cache.origin
            answer[1:] = [origin, None if origin == "package" else kernel.cache.cache_path]
        print(json.dumps(answer), flush=True)

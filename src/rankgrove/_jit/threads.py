"""How work is spread over threads: chunks whose bounds do not depend on their number."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from rankgrove.errors import refusal, word


def available_cpus() -> int:
    """CPUs this process may use: its affinity, capped by a cgroup quota where there is one."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    return max(1, min(cpus, _cgroup_quota(cpus)))


def _cgroup_quota(default: int) -> int:
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return default
    return default if quota == "max" else max(1, int(quota) // int(period))


def resolve_n_jobs(n_jobs: int | None) -> int:
    """The number of threads: None and -1 mean all CPUs, -2 all but one, and so on.

    >>> resolve_n_jobs(3)
    3
    """
    if n_jobs is None:
        return available_cpus()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise refusal(
            "n_jobs",
            f"be a positive integer, a negative one counting back from all CPUs, or {word(None)}",
            n_jobs,
        )
    return int(n_jobs) if n_jobs > 0 else max(1, available_cpus() + 1 + int(n_jobs))


class _Pool:
    """One executor for the process, made on first need and made anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def get(self, size: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._size < size:
                # Large enough at once for all usual calls: replacing it runs clean-up code that
                # can swallow a Ctrl-C. One that others still use finishes what it was given.
                self._size = max(size, available_cpus())
                self._executor = ThreadPoolExecutor(self._size, thread_name_prefix="rankgrove")
            return self._executor

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def submit(n_jobs: int, task: Callable[..., Any], *args: Any) -> Future[Any]:
    """Run one task in the pool, for work that arrives piece by piece."""
    return _pool.get(n_jobs).submit(task, *args)


def run_chunks(task: Callable[[int], None], n_chunks: int, n_jobs: int | None = None) -> None:
    """Call `task(chunk)` for every chunk, on up to `n_jobs` threads, the caller's among them.

    A task must write only where no other chunk writes. The first error, or an interrupt, stops
    the hand-out of further chunks, waits for those under way and is raised.
    """
    # (To ask for all CPUs takes longer than a small chunk.)
    workers = 1 if n_jobs is None and n_chunks <= 1 else min(resolve_n_jobs(n_jobs), n_chunks)
    if workers <= 1:
        for chunk in range(n_chunks):
            task(chunk)
        return
    chunks = iter(range(n_chunks))
    stop = threading.Event()

    def work() -> None:
        # next() on a range iterator is atomic under the interpreter lock, and without the
        # lock (free-threaded builds) range iterators are still safe to share.
        try:
            while not stop.is_set() and (chunk := next(chunks, None)) is not None:
                task(chunk)
        except BaseException:
            stop.set()
            raise

    futures = [submit(workers - 1, work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        # A worker that never started (the pool is busy) has nothing left to do.
        waiting = [future for future in futures if not future.cancel()]
        errors = [future.exception() for future in waiting]
    for error in errors:
        if error is not None:
            raise error


def run_queries(
    task: Callable[[int, int], None], bounds: Sequence[int], n_jobs: int | None = None
) -> None:
    """Call `task(first, last)` for each run of queries between two bounds, as `run_chunks` does."""
    run_chunks(lambda chunk: task(bounds[chunk], bounds[chunk + 1]), len(bounds) - 1, n_jobs)


def chunk_queries(offsets: np.ndarray, documents: int) -> np.ndarray:
    """Bounds that cut the queries into runs of about `documents` documents each.

    The bounds depend on the data only, never on the number of threads.

    >>> chunk_queries(np.array([0, 3, 5, 9, 10]), documents=5).tolist()
    [0, 2, 4]
    """
    n_queries = len(offsets) - 1
    if n_queries <= 0:
        return np.zeros(1, dtype=np.int64)
    if offsets[-1] <= documents:
        return np.array([0, n_queries])
    targets = np.arange(documents, offsets[-1] + documents, documents)
    bounds = np.searchsorted(offsets, targets, side="left")
    return np.unique(np.concatenate([[0], bounds, [n_queries]]).clip(0, n_queries)).astype(np.int64)

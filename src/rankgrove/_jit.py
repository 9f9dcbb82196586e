"""The only importer of Numba: how kernels are compiled and how work is spread over threads.

Kernels are serial and release the interpreter lock. Parallelism is a thread pool over chunks
whose bounds do not depend on the number of threads and whose writes are disjoint, so a result
has the same bits on 1 thread or 64. Numba's own `parallel` mode is never used: its thread
layers abort or die when entered from two Python threads or after a fork, and its float
reductions depend on the thread count.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.extending import intrinsic

from rankgrove.errors import ParameterError

# Compiled on first call and kept on disk. "numpy" means that x / 0 is inf or nan, not an
# exception; kernels cannot raise. Bounds are checked when NUMBA_BOUNDSCHECK=1 is set. Nobody calls
# a kernel from C, and the wrapper for it would take time to compile.
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_compile = numba.njit(**_OPTIONS)

_kernels_of_module: dict[str, list[Kernel]] = {}
_resolving = threading.RLock()


class Kernel:
    """A function that becomes a Numba dispatcher when a kernel of its module is first called.

    Making a dispatcher looks for a place to cache it on disk, which is too slow to do for every
    kernel on import. All kernels of a module are made at once and put in their names' places,
    because they call each other by name.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._dispatcher: Any = None
        _kernels_of_module.setdefault(function.__module__, []).append(self)

    def __call__(self, *args: Any) -> Any:
        if self._dispatcher is None:
            self._resolve()
        return self._dispatcher(*args)

    def _resolve(self) -> None:
        with _resolving:
            _make_dispatchers(self.py_func.__globals__)

    @property
    def signatures(self) -> list[Any]:
        """The argument types it was compiled for so far."""
        return [] if self._dispatcher is None else list(self._dispatcher.signatures)


def kernel(function: Callable[..., Any]) -> Any:
    """Mark a function as a kernel: serial, compiled on first call, without the interpreter lock."""
    return Kernel(function)


def _make_dispatchers(names: dict[str, Any]) -> None:
    """Make the dispatchers of a module's kernels, and before them of those they call elsewhere.

    Numba looks for changes in a kernel's own file only before it takes compiled code from the
    cache. What comes from other files is inside that code, so their state has to agree too.
    """
    module = names["__name__"]
    kernels = _kernels_of_module.pop(module, [])
    stamps = {}
    for name, other in list(names.items()):
        function = getattr(other, "py_func", None)
        if function is None or function.__module__ == module:
            continue
        if isinstance(other, Kernel):
            if other._dispatcher is None:
                other._resolve()
            names[name] = other._dispatcher
        stamps[function.__module__] = _stamp(names[name])
    for one in kernels:
        dispatcher = _compile(one.py_func)
        if stamps and (own := _stamp(dispatcher)) is not None:
            dispatcher._cache._cache_file._source_stamp = (own, *sorted(stamps.items()))
        names[one.py_func.__name__] = dispatcher
        one._dispatcher = dispatcher


def _stamp(dispatcher: Any) -> Any:
    """What tells Numba's cache that a kernel's file has changed; None if nothing is cached."""
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    return None if file is None else file._source_stamp


@functools.lru_cache(maxsize=64)
def compile_swaps(function: Any) -> Any:
    """A kernel that fills in swap deltas by a function that Numba has compiled; else None.

    It takes labels in rank order, which it changes and restores, the ranks that the upper document
    of a pair may have, the ranks between the two at most, and the matrix to write to.
    """
    if not hasattr(function, "py_func") or not hasattr(function, "signatures"):
        return None

    def fill(labels: Any, depth: Any, neighbours: Any, out: Any) -> None:
        before = function(labels)
        for a in range(min(depth, len(labels))):
            for b in range(a + 1, min(len(labels), a + neighbours + 1)):
                if labels[a] != labels[b]:
                    labels[a], labels[b] = labels[b], labels[a]
                    out[a, b] = function(labels) - before
                    labels[a], labels[b] = labels[b], labels[a]

    return numba.njit(nogil=True, error_model="numpy")(fill)


class _CompileNotice(event.Listener):
    """Says once, on stderr, that a first use compiles; silent when the cache answers."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__ or ""
        if not self.said and module.startswith("rankgrove."):
            self.said = True
            print(
                "rankgrove: compiling on first use; the result is cached "
                "('rankgrove warmup' does this ahead)",
                file=sys.stderr,
            )

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _CompileNotice())


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
        raise ParameterError(
            f"n_jobs must be a positive integer, a negative one counting back from all CPUs, "
            f"or None. Got {n_jobs!r}."
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
    workers = min(resolve_n_jobs(n_jobs), n_chunks)
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


def chunk_queries(offsets: np.ndarray, documents: int) -> np.ndarray:
    """Bounds that cut the queries into runs of about `documents` documents each.

    The bounds depend on the data only, never on the number of threads.

    >>> chunk_queries(np.array([0, 3, 5, 9, 10]), documents=5).tolist()
    [0, 2, 4]
    """
    n_queries = len(offsets) - 1
    if n_queries <= 0:
        return np.zeros(1, dtype=np.int64)
    targets = np.arange(documents, offsets[-1] + documents, documents)
    bounds = np.searchsorted(offsets, targets, side="left")
    return np.unique(np.concatenate([[0], bounds, [n_queries]]).clip(0, n_queries)).astype(np.int64)


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """In a kernel: ask for the cache line of a one-dimensional array's element ahead of its use."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0",
        )
        # For reading, to be kept in all levels of the cache, as data.
        builder.call(function, [builder.bitcast(place, byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)


def _cycles(typing_context: Any) -> Any:
    """In a kernel: the processor's clock, to see where time goes in what runs as one piece."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(64), []), "llvm.readcyclecounter"
        )
        return builder.call(function, [])

    return types.int64(), generate


cycles: Any = intrinsic(_cycles)


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of an element of a one-dimensional array, the first two arguments."""
    array_type = signature.args[0]
    struct = context.make_array(array_type)(context, builder, arguments[0])
    return cgutils.get_item_pointer(
        context, builder, array_type, struct, [arguments[1]], wraparound=False
    )


def _atomic_load(typing_context: Any, array: Any, index: Any) -> Any:
    """In a kernel: an element of an int64 array that another thread may be writing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(array, index), generate


atomic_load: Any = intrinsic(_atomic_load)


def _atomic_store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """In a kernel: write an element of an int64 array, after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, index, types.int64), generate


atomic_store: Any = intrinsic(_atomic_store)


def _atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """In a kernel: add to an element of an int64 array in one step; what it was before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, index, types.int64), generate


atomic_add: Any = intrinsic(_atomic_add)


def _give_way(typing_context: Any) -> Any:
    """In a kernel that waits for another thread: let it run, if it has to run here."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield"
            )
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


give_way: Any = intrinsic(_give_way)


def _pause(typing_context: Any) -> Any:
    """In a kernel that waits for another thread: leave the processor's units to others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse2.pause"
            )
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


pause: Any = intrinsic(_pause)


def as_input(array: Any, dtype: Any) -> np.ndarray:
    """The array as kernels take their inputs: of this type, contiguous and read-only.

    Numba compiles a kernel anew for each combination of type, layout and writability, so
    every input passes through here and a kernel keeps one signature.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view

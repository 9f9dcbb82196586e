"""The only importer of Numba: how kernels are compiled and how work is spread over threads.

Kernels are serial and release the interpreter lock. Parallelism is a thread pool over chunks
whose bounds do not depend on the number of threads and whose writes are disjoint, so a result
has the same bits on 1 thread or 64. Numba's own `parallel` mode is never used: its thread
layers abort or die when entered from two Python threads or after a fork, and its float
reductions depend on the thread count.
"""

from rankgrove._jit.addresses import by_address
from rankgrove._jit.compilation import (
    Kernel,
    as_input,
    compile_swaps,
    inline_kernel,
    kernel,
)
from rankgrove._jit.intrinsics import (
    LANES,
    add_lanes,
    atomic_add,
    atomic_load,
    atomic_store,
    bits_of,
    choose_bytes,
    cycles,
    empty,
    flattened,
    float_of,
    give_way,
    local_floats,
    pause,
    prefetch,
    prefetch_to_second,
    reinterpret,
    subtract_lanes,
    sum_lanes,
)
from rankgrove._jit.scan_lanes import next_above
from rankgrove._jit.threads import (
    available_cpus,
    chunk_queries,
    resolve_n_jobs,
    run_chunks,
    run_queries,
    submit,
)

__all__ = [
    "LANES",
    "Kernel",
    "add_lanes",
    "as_input",
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "available_cpus",
    "bits_of",
    "by_address",
    "choose_bytes",
    "chunk_queries",
    "compile_swaps",
    "cycles",
    "empty",
    "flattened",
    "float_of",
    "give_way",
    "inline_kernel",
    "kernel",
    "local_floats",
    "next_above",
    "pause",
    "prefetch",
    "prefetch_to_second",
    "reinterpret",
    "resolve_n_jobs",
    "run_chunks",
    "run_queries",
    "submit",
    "subtract_lanes",
    "sum_lanes",
]

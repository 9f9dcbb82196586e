"""Code for levels of processors, which wheels have, against code for this very processor.

    python -m benchmarks.native

Each is used by a process of its own, which makes its data once, compiles and warms up before any
clock starts, and then does what it is told: the processes take turns, so that a noisy moment
strikes all of them. Nothing that came with the package is used: each compiles its kernels itself,
as the build of a wheel does for a level, and Numba keeps them apart by the processor's name.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import llvmlite.binding as llvm

from benchmarks.commits import ROOT, Worker, environment, row
from benchmarks.common import THREADS, report, table
from rankgrove._jit.caching import NATIVE, processor_features
from rankgrove._jit.store import environment_of, supported_levels

COMMAND = "python -m benchmarks.native"
PACKAGES = ("numpy", "numba")
# How often each task is done in a turn: what is short is done more often.
TASKS = {
    "train, YetiRank, oblivious, 15 trees": 1,
    "train, LambdaMART, 63 leaves, 15 trees": 1,
    "score, 300 trees": 3,
    "read LETOR text": 5,
}


def start_workers(queries: int) -> dict[str, Worker]:
    """A process with native code, and one for each level that this processor supports."""
    variables = environment(ROOT, **{NATIVE: "1"})
    for name in environment_of(""):
        variables.pop(name, None)
    levels = supported_levels(processor_features())
    return {
        "native": Worker(variables, queries),
        **{level: Worker({**variables, **environment_of(level)}, queries) for level in levels},
    }


def measure(rounds: int, queries: int, only: str) -> list[tuple[str, ...]]:
    """Rows of seconds and of ratios, by task and level."""
    workers = start_workers(queries)
    for worker in workers.values():
        worker.answer()  # it is ready
    rows = []
    for task in (task for task in TASKS if only in task):
        seconds: dict[str, list[float]] = {name: [] for name in workers}
        for turn in range(rounds):
            # All take each place in the order equally often.
            for name in (list(workers) * 2)[turn % len(workers) :][: len(workers)]:
                taken = [workers[name].seconds(task) for _ in range(TASKS[task])]
                seconds[name].append(statistics.fmean(taken))
        native = seconds.pop("native")
        rows += [(task, *row(level, native, taken)) for level, taken in seconds.items()]
        print(*rows[-len(seconds) :], sep="\n", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.end()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--queries", type=int, default=2000, help="of some 120 documents")
    parser.add_argument("--only", default="", help="tasks whose name has this text in it")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    options = parser.parse_args()
    rounds, queries = (3, 100) if options.quick else (options.rounds, options.queries)
    header = ("task", "level", "seconds, native", "seconds, level", "ratio", "middle half")
    rows = measure(rounds, queries, options.only)
    body = (
        f"Native is code for `{llvm.get_host_cpu_name()}`; {THREADS} threads. A ratio above 1 says "
        f"that native code is faster: medians of {rounds} rounds, in turns, of about "
        f"{120 * queries:,} documents (reading: a quarter of them), without compiling. "
        f"Of the levels that a processor supports the highest is used.\n\n{table(header, rows)}"
    )
    if options.quick or options.only:
        print(body)
    else:
        report("native", "Code for levels of processors", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

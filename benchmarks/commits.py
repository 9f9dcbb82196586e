"""Training, scoring, reading and compiling: this checkout against another one, in turns.

    git worktree add ../old 425aad7
    python -m benchmarks.commits ../old

Each checkout has a process of its own, which makes its data once, warms up and then does what it is
told, one task at a time: the two take turns, so that a noisy moment strikes both. Compiling is
measured in new processes with an empty cache, in seconds of processor time. Only the public API is
used, and what has another default since is given.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import limit_threads, report, table

limit_threads()

COMMAND = "python -m benchmarks.commits"
PACKAGES = ("numpy", "numba")
N_FEATURES = 136
# The old value of what has another default since commit 425aad7.
LAMBDAMART: dict[str, Any] = {
    "objective": "lambdamart",
    "metric": "ndcg(ties=stable)",
    "truncation": 30,
    "grower": "leafwise",
    "max_leaves": 63,
}
YETIRANK: dict[str, Any] = {"objective": "yetirank", "grower": "oblivious"}
ROOT = Path(__file__).parents[1]


def make_tasks(folder: Path, queries: int) -> dict[str, Callable[[], object]]:
    """What one process can be told to do, by name; data and models are made here."""
    from rankgrove import Ranker, make_web_search, read_letor, write_letor

    large = make_web_search(queries, N_FEATURES, seed=0)
    small = make_web_search(max(queries // 25, 20), N_FEATURES, seed=1)
    text = folder / "documents.txt"
    write_letor(make_web_search(max(queries // 4, 20), N_FEATURES, seed=2), text)

    def fit(data: Any, trees: int, **parameters: Any) -> Any:
        return Ranker(n_estimators=trees, n_jobs=2, **parameters).fit(data)

    model = fit(small, 300, **LAMBDAMART)
    few = small.features[:100]
    return {
        "train, LambdaMART, 63 leaves, 15 trees": lambda: fit(large, 15, **LAMBDAMART),
        "train, YetiRank, oblivious, 15 trees": lambda: fit(large, 15, **YETIRANK),
        "train, few documents, 60 trees": lambda: fit(small, 60, **LAMBDAMART),
        "score, 300 trees": lambda: model.predict(large.features),
        "score, 100 documents, 200 times": lambda: [model.predict(few) for _ in range(200)],
        "read LETOR text": lambda: read_letor(text),
    }


def serve(queries: int) -> None:
    """Do each task that a line of input names, and answer with its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = make_tasks(Path(folder), queries)
        for task in tasks.values():
            task()
        print(json.dumps(list(tasks)), flush=True)
        for line in sys.stdin:
            start = time.perf_counter()
            tasks[line.strip()]()
            print(time.perf_counter() - start, flush=True)


def compile_once(name: str) -> None:
    """Train two trees on a few queries, and print the seconds of processor time."""
    from rankgrove import Ranker, make_web_search

    data = make_web_search(20, 20, seed=0)
    used = resource.getrusage(resource.RUSAGE_SELF)
    before = used.ru_utime + used.ru_stime
    parameters = LAMBDAMART if name == "lambdamart" else YETIRANK
    Ranker(n_estimators=2, n_jobs=2, **parameters).fit(data).predict(data)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime - before)


def environment(checkout: Path, **more: str) -> dict[str, str]:
    # The benchmarks of this checkout run over the package of the other one.
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "benchmarks.commits", *arguments]


class Worker:
    """A process that runs tasks in an environment, which says where its package is."""

    def __init__(self, variables: Mapping[str, str], queries: int) -> None:
        self.process = subprocess.Popen(
            command("--serve", "--queries", str(queries)),
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> Any:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit("a process of the benchmark has ended; what it said is above")
        return json.loads(line)

    def seconds(self, task: str) -> float:
        print(task, file=self.process.stdin, flush=True)
        return float(self.answer())

    def end(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def compile_seconds(checkout: Path, name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            command("--compile", name),
            env=environment(checkout, NUMBA_CACHE_DIR=cache),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return float(done.stdout.split()[-1])


def row(name: str, old: list[float], new: list[float]) -> tuple[str, ...]:
    """Medians of both, and the median of the ratios of turns that stood side by side."""
    ratios = sorted(mine / theirs for theirs, mine in zip(old, new, strict=True))
    middle = statistics.median(ratios)
    quarter = len(ratios) // 4
    return (
        name,
        f"{statistics.median(old):.3f}",
        f"{statistics.median(new):.3f}",
        f"{middle:.3f}",
        f"{ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}",
    )


def compare(old: Path, rounds: int, queries: int, only: str) -> list[tuple[str, ...]]:
    checkouts = (old, ROOT)
    rows = []
    for name in ("lambdamart", "yetirank") if only in "compile" else ():
        times: list[list[float]] = [[], []]
        for turn in range(max(rounds // 3, 3)):
            for side in (0, 1) if turn % 2 else (1, 0):
                times[side].append(compile_seconds(checkouts[side], name))
        rows.append(row(f"compile, {name} (CPU)", *times))
        print(rows[-1], file=sys.stderr, flush=True)
    workers = [Worker(environment(checkout), queries) for checkout in checkouts]
    for name in [workers[0].answer(), workers[1].answer()][1]:
        if only not in name:
            continue
        times = [[], []]
        for turn in range(rounds):
            for side in (0, 1) if turn % 2 else (1, 0):
                times[side].append(workers[side].seconds(name))
        rows.append(row(name, *times))
        print(rows[-1], file=sys.stderr, flush=True)
    for worker in workers:
        worker.end()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, nargs="?", help="the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--queries", type=int, default=2000, help="of some 120 documents")
    parser.add_argument("--only", default="", help="tasks whose name has this text in it")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.queries)
    elif given.compile:
        compile_once(given.compile)
    elif given.old is None or not (given.old / "src" / "rankgrove").is_dir():
        parser.error("OLD must be a checkout with src/rankgrove in it")
    else:
        old = given.old.resolve()
        rows = compare(old, given.rounds, given.queries, given.only)
        commit = subprocess.run(
            ["git", "-C", str(old), "describe", "--always", "--dirty", "--abbrev=10"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        header = ("task", f"seconds, {commit}", "seconds, this commit", "ratio", "middle half")
        report("commits", f"Against {commit}", f"{COMMAND} OLD", PACKAGES, table(header, rows))


if __name__ == "__main__":
    main()

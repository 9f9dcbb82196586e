"""What a tree costs each of several workers, on the processes of a Dask cluster on one machine.

Machines are dear, so a worker is a process with one thread, and its cost is the processor time of
that thread: rows, seconds, of them in communication, bytes beside the formula. LightGBM and XGBoost
run on the same processes and partitions. The same run makes docs/cost-of-workers.md, a model of the
cost in which every constant is measured here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import KeptLines, commit, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks import distributed_tasks as tasks  # noqa: E402
from benchmarks.worker_bytes import Growing, bytes_of, tree_calls  # noqa: E402
from rankgrove.distributed import new_token  # noqa: E402

COMMAND = "python -m benchmarks.distributed"
PACKAGES = ("numpy", "numba", "dask", "distributed", "lightgbm", "xgboost-cpu")
SIZES = (1, 2, 4)
ROWS = (50_000, 125_000, 250_000, 500_000)
N_FEATURES, MANY_FEATURES = 136, 700
MANY_ROWS = (15_000, 45_000)
SILENT_SIZES = (2, 4, 8, 16, 64)
LARGE_BYTES = 1 << 21
ALGORITHMS: dict[str, dict[str, Any]] = {
    "YetiRank, oblivious, depth 6": {"objective": "yetirank"},
    "LambdaMART, 63 leaves": {"objective": "lambdamart", "grower": "leafwise", "max_leaves": 63},
}
PEERS = ("lightgbm", "xgboost")
CLAIMED_SHARE, CLAIMED_EFFICIENCY = 0.05, 0.8
Record = dict[str, Any]


class Cluster:
    """Worker processes of one thread each, and tasks that are pinned to them."""

    def __init__(self, size: int) -> None:
        from dask.distributed import Client, LocalCluster

        self._cluster = LocalCluster(
            n_workers=size, threads_per_worker=1, memory_limit=None, dashboard_address=None
        )
        self.client = Client(self._cluster)
        self.addresses = list(self.client.scheduler_info(n_workers=-1)["workers"])

    def run(self, size: int, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What a task of connected workers gives on each of the first ones."""
        token = new_token()
        ports = self.each(size, lambda _: (tasks.open_port, token))
        return self.each(size, lambda rank: (task, rank, ports, token, *arguments))

    def each(self, size: int, call: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """What calls, a function and its arguments, give on each of the first workers."""
        futures = [
            self.client.submit(*call(rank), workers=[self.addresses[rank]], pure=False)
            for rank in range(size)
        ]
        results: list[Any] = self.client.gather(futures)
        return results

    def close(self) -> None:
        self.client.close()
        self._cluster.close()


def least(trees: Sequence[Record], name: str) -> float:
    return float(min(tree[name] for tree in trees))


def point_of(results: Sequence[Record], algorithm: str, size: int) -> Record:
    """One record of a run on several workers: means over workers of the least of all trees."""
    first = results[0]
    oblivious = "oblivious" in algorithm
    growing = Growing(
        first["cells"], first["narrow bytes"], first["blocks"], 64 if oblivious else 63,
        6 if oblivious else None,
    )  # fmt: skip
    n_trees = len(first["trees"])
    by_call = 0
    # Workers that say nothing grow each its own tree.
    for number in range(n_trees if size > 1 else 0):
        every = [result["trees"][number]["calls"] for result in results]
        calls = [(own[0][0], [call[1][0] for call in own]) for own in zip(*every, strict=True)]
        by_call += bytes_of(calls, size)
    talk = [[tree["packing"] + tree["talking"] for tree in each["trees"]] for each in results]
    return {
        "rows": statistics.mean(each["rows"] for each in results),
        "processor": statistics.mean(least(each["trees"], "processor") for each in results),
        "median": statistics.mean(
            statistics.median(tree["processor"] for tree in each["trees"]) for each in results
        ),
        "wall": max(least(each["trees"], "wall") for each in results),
        "communication": statistics.mean(min(each) for each in talk),
        "sockets": statistics.mean(least(each["trees"], "talking") for each in results),
        "exchanges": statistics.mean(len(tree["calls"]) for tree in first["trees"]),
        "histograms": statistics.median(
            sum(name == "scatter" for name, _ in tree["calls"]) for tree in first["trees"]
        ),
        "sent": sum(each["sent"] for each in results) / n_trees,
        "by_call": by_call / n_trees,
        "full_tree": bytes_of(tree_calls(growing, size), size),
        "cells": first["cells"],
        "narrow bytes": first["narrow bytes"],
        "blocks": first["blocks"],
    }  # fmt: skip


def best_of(rounds: Sequence[Record]) -> Record:
    """Of all measurements of one point the least of each time."""
    times = ("processor", "median", "wall", "communication", "sockets")
    return {**rounds[-1], **{name: least(rounds, name) for name in times}}


class Peer:
    """LightGBM's and XGBoost's own use of Dask, on the same processes and partitions."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name

    def seconds_per_tree(
        self, size: int, data: tuple[int, int, int], trees: tuple[int, int]
    ) -> float:
        """Processor seconds per worker and tree: the difference of two fits."""
        import dask.array
        from dask.delayed import delayed

        parts = [
            self.cluster.client.submit(
                tasks.part_of, rank, *data, workers=[self.cluster.addresses[rank]], pure=False
            )
            for rank in range(size)
        ]
        groups = self.cluster.client.gather(
            [self.cluster.client.submit(lambda part: part.group, part) for part in parts]
        )
        rows = [int(group.sum()) for group in groups]

        def array(take: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any) -> Any:
            return [
                dask.array.from_delayed(delayed(take)(part), (n, *shape), dtype)
                for part, n in zip(parts, rows, strict=True)
            ]

        features = dask.array.concatenate(array(lambda part: part.features, (data[1],), np.float32))
        labels = dask.array.concatenate(array(lambda part: part.labels, (), np.float32))
        features, labels = self.cluster.client.persist([features, labels])
        used = []
        self._fit(1, features, labels, groups)  # what is imported and compiled is apart
        for n_trees in trees:
            before = self.cluster.each(size, lambda _: (tasks.processor_seconds,))
            self._fit(n_trees, features, labels, groups)
            after = self.cluster.each(size, lambda _: (tasks.processor_seconds,))
            used.append(sum(after) - sum(before))
        return float((used[1] - used[0]) / (trees[1] - trees[0]) / size)

    def _fit(self, n_trees: int, features: Any, labels: Any, groups: list[Any]) -> None:
        import dask.array

        if self.name == "lightgbm":
            from lightgbm.dask import DaskLGBMRanker

            group = dask.array.concatenate(
                [dask.array.from_array(each, chunks=len(each)) for each in groups]
            )
            DaskLGBMRanker(
                n_estimators=n_trees, num_leaves=63, max_bin=255, min_child_samples=20,
                client=self.cluster.client, verbose=-1
            ).fit(features, labels, group=group)  # fmt: skip
            return
        from xgboost import dask as xgboost_dask

        chunks = [
            np.repeat(np.arange(len(each)) + 10_000_000 * part, each)
            for part, each in enumerate(groups)
        ]
        queries = dask.array.concatenate(
            [dask.array.from_array(each, chunks=len(each)) for each in chunks]
        )
        ranker = xgboost_dask.DaskXGBRanker(
            n_estimators=n_trees, max_leaves=63, max_depth=0, grow_policy="lossguide",
            tree_method="hist", max_bin=256, objective="rank:ndcg", n_jobs=1,
            allow_group_split=True,
        )  # fmt: skip
        ranker.client = self.cluster.client
        ranker.fit(features, labels, qid=queries)


class Study:
    """All that is measured, one line per record in a file, from which a run goes on."""

    def __init__(self, path: Path | None, quick: bool) -> None:
        self.kept = KeptLines(path, ("kind", "key"))
        self.records: dict[tuple[str, str], Record] = {
            (each["kind"], each["key"]): each["value"] for each in self.kept.records
        }
        self.rows = (2_000, 4_000, 6_000, 8_000) if quick else ROWS
        self.many_rows = (1_000, 2_000) if quick else MANY_ROWS
        self.trees, self.rounds = (2, 1) if quick else (4, 4)
        self.peer_trees = (2, 4) if quick else (3, 13)
        self.cluster: Cluster | None = None

    def measured(self, kind: str, key: str, measure: Callable[[Cluster], Any]) -> Any:
        """A record, measured now if it is not there."""
        if (kind, key) not in self.records:
            if self.cluster is None:
                self.cluster = Cluster(max(SIZES))
            value = measure(self.cluster)
            self.records[kind, key] = value
            self.kept.add({"kind": kind, "key": key, "value": value})
            print(kind, key, value, file=sys.stderr, flush=True)
        return self.records[kind, key]

    def rounds_of(self, kind: str, key: str, measure: Callable[[Cluster], Any]) -> list[Any]:
        """The records of all rounds so far, the last one measured now if it is not there."""
        return [self.measured(kind, f"{key}; {number}", measure) for number in range(self.rounds)]

    def point(self, algorithm: str, size: int, rows: int) -> Record:
        """Training with some workers, with so many rows on each."""
        data = (rows, N_FEATURES, self.rows[-1])

        def measure(cluster: Cluster) -> Record:
            results = cluster.run(size, tasks.train, data, ALGORITHMS[algorithm], self.trees)
            return point_of(results, algorithm, size)

        return best_of(self.rounds_of("point", f"{algorithm}; {size}; {rows}", measure))

    def silent(
        self, algorithm: str, size: int, rows: int, n_features: int = N_FEATURES, beside: int = 1
    ) -> Record:
        """Training as one of workers that say nothing, or alone, in some processes at once."""
        most = self.rows[-1] if n_features == N_FEATURES else self.many_rows[-1]
        arguments = (size, (rows, n_features, most), ALGORITHMS[algorithm], self.trees)

        def measure(cluster: Cluster) -> Record:
            return point_of(cluster.run(beside, tasks.train_silently, *arguments), algorithm, 1)

        key = f"{algorithm}; {size}; {rows}; {n_features}; {beside}"
        return best_of(self.rounds_of("silent", key, measure))

    def calls(self, size: int) -> dict[str, float]:
        """Seconds of a small gather and of a scatter of 2 MiB, means over workers."""

        def measure(cluster: Cluster) -> dict[str, float]:
            times = cluster.run(size, tasks.measure_calls, LARGE_BYTES, 100)
            return {name: statistics.mean(each[name] for each in times) for name in times[0]}

        rounds = self.rounds_of("calls", str(size), measure)
        return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}

    def peer(self, name: str, size: int, rows: int) -> float:
        data = (rows, N_FEATURES, self.rows[-1])
        measure = lambda cluster: Peer(cluster, name).seconds_per_tree(size, data, self.peer_trees)  # noqa: E731
        return float(self.measured("peer", f"{name}; {size}; {rows}", measure))

    def measure_all(self) -> None:
        """Measure everything once in each round, so that a noisy moment strikes no point alone."""
        wanted = self.rounds
        for self.rounds in range(1, wanted + 1):
            for algorithm in ALGORITHMS:
                for rows in self.rows:
                    for size in SIZES:
                        self.point(algorithm, size, rows)
                        self.silent(algorithm, size, rows, beside=size)
                for size in SILENT_SIZES:
                    self.silent(algorithm, size, self.rows[0])
            for size in SIZES[1:]:
                self.calls(size)
        for name in PEERS:
            for size in SIZES:
                self.peer(name, size, self.rows[-2])
        # Last, as workers keep the rows of one number of features only.
        for self.rounds in range(1, wanted + 1):
            for algorithm in ALGORITHMS:
                for rows in self.many_rows:
                    self.silent(algorithm, 1, rows, MANY_FEATURES)
                self.silent(algorithm, SILENT_SIZES[-1], self.many_rows[0], MANY_FEATURES)

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.close()


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"


def megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.2f}"


def cost_table(study: Study, algorithm: str) -> str:
    header = (
        "workers", "rows per worker", "processor, ms per tree", "of it communication, ms", "share",
        "exchanges", "of histograms", "MB sent by all", "by the formula", "MB of a full tree",
    )  # fmt: skip
    rows = []
    for size in SIZES:
        for wanted in study.rows:
            point = study.point(algorithm, size, wanted)
            same = (
                "the same bytes"
                if round(point["sent"] - point["by_call"]) == 0
                else (f"{megabytes(point['by_call'])}: NOT the same")
            )
            rows.append((
                size, f"{point['rows']:,.0f}", milliseconds(point["processor"]),
                milliseconds(point["communication"]) if size > 1 else "",
                f"{100 * point['communication'] / point['processor']:.1f} %" if size > 1 else "",
                f"{point['exchanges']:.0f}" if size > 1 else "",
                f"{point['histograms']:.0f}" if size > 1 else "",
                megabytes(point["sent"]) if size > 1 else "", same if size > 1 else "",
                megabytes(point["full_tree"]) if size > 1 else "",
            ))  # fmt: skip
    return table(header, rows)


def claim_rows(study: Study) -> list[tuple[str, ...]]:
    """Every claim, what was measured, and whether it holds."""
    rows: list[tuple[str, ...]] = []

    def add(claim: str, value: str, holds: bool) -> None:
        rows.append((claim, value, "yes" if holds else "**no**"))

    for algorithm in ALGORITHMS:
        for size in SIZES[1:]:
            point = study.point(algorithm, size, study.rows[-2])
            share = point["communication"] / point["processor"]
            add(
                f"{algorithm}: communication at most 5 % of processor time with {size} workers of "
                f"{study.rows[-2]:,} rows", f"{100 * share:.1f} %", share <= CLAIMED_SHARE,
            )  # fmt: skip
        alone = study.point(algorithm, 1, study.rows[-1])
        for size in SIZES[1:]:
            point = study.point(algorithm, size, study.rows[-1])
            efficiency = alone["processor"] / alone["rows"] / (point["processor"] / point["rows"])
            add(
                f"{algorithm}: efficiency at least 80 % with {size} workers of "
                f"{study.rows[-1]:,} rows", f"{100 * efficiency:.0f} %",
                efficiency >= CLAIMED_EFFICIENCY,
            )  # fmt: skip
        points = [study.point(algorithm, size, rows) for size in SIZES[1:] for rows in study.rows]
        same = sum(round(point["sent"] - point["by_call"]) == 0 for point in points)
        add(
            f"{algorithm}: bytes sent are those of the formula, to the byte",
            f"{same} of {len(points)} points", same == len(points),
        )  # fmt: skip
    levels = {
        study.point(next(iter(ALGORITHMS)), size, rows)["histograms"]
        for size in SIZES[1:] for rows in study.rows
    }  # fmt: skip
    add(
        "an oblivious tree of depth 6: 6 exchanges of histograms",
        ", ".join(f"{each:.0f}" for each in sorted(levels)), levels == {6},
    )  # fmt: skip
    return rows


def peer_table(study: Study) -> str:
    rows = []
    names = {f"Rankgrove, {name}": name for name in ALGORITHMS}
    for shown, algorithm in names.items():
        seconds = [study.point(algorithm, size, study.rows[-2])["median"] for size in SIZES]
        rows.append((shown, *map(milliseconds, seconds)))
    for name in PEERS:
        seconds = [study.peer(name, size, study.rows[-2]) for size in SIZES]
        rows.append((f"`{name}.dask`, 63 leaves", *map(milliseconds, seconds)))
    return table(("processor, ms per tree and worker", *(f"W = {size}" for size in SIZES)), rows)


def section(study: Study) -> str:
    load = os.getloadavg()[0]
    parts = [
        "Worker processes of Dask on one machine, one thread each, "
        f"{N_FEATURES} features. Every worker has a partition of its own, so W workers have W "
        "times the rows. Times are processor time of a worker, the least of "
        f"{study.rounds * study.trees} trees in {study.rounds} rounds, in each of which every "
        f"point is measured: {os.cpu_count()} CPUs are shared by all workers and "
        f"by other programs (the load at the end was {load:.1f}), so wall time would say nothing. "
        "Communication is all that is done for other workers: packing, sending, waiting in the "
        "processor, adding and unpacking. The bytes of a full tree are less than those sent where "
        "rows are counted again or numbers do not fit into 5 bytes, and more where nodes have no "
        "rows.",
        table(("claim", "measured", "holds"), claim_rows(study)),
    ]
    for algorithm in ALGORITHMS:
        parts += [f"### {algorithm}", cost_table(study, algorithm)]
    parts += [
        f"### Beside others, {study.rows[-2]:,} rows per worker",
        "Rankgrove's are medians of trees. The others' are the processor time of all threads of a "
        f"worker, for {study.peer_trees[1]} trees less that for {study.peer_trees[0]}, so that "
        "reading and binning cancel; once only, so they are less exact.",
        peer_table(study),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--keep", type=Path, help="a file of what is measured, to go on from")
    parser.add_argument("--rounds", type=int, help="how often each point is measured")
    arguments = parser.parse_args()
    from benchmarks.cost_of_workers import page, write_page

    commit()  # before files of it are written
    study = Study(arguments.keep, arguments.quick)
    study.rounds = arguments.rounds or study.rounds
    try:
        study.measure_all()
        body = section(study)
        if arguments.quick:
            print(body)
            print(page(study))
        else:
            write_page(study)
            report("distributed", "Cost of workers", COMMAND, PACKAGES, body)
    finally:
        study.close()


if __name__ == "__main__":
    main()

"""Lists the kernels and types that are compiled ahead, by calling them all.

python tools/list_signatures.py

writes `src/rankgrove/_jit/signatures.json`: run it when a test says that the list is not complete.
The kernels of the common commands are marked. All take tiny data.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from typer.testing import CliRunner

from rankgrove._jit import Kernel
from rankgrove._jit.signatures import Listed, signature_text, write_list
from rankgrove.boosting.parameters import Parameters
from rankgrove.cli.main import app
from rankgrove.data.dataset import Dataset
from rankgrove.data.describe import describe
from rankgrove.data.json_numbers import read_apart
from rankgrove.data.letor import parse_letor, read_letor, write_letor
from rankgrove.data.rows import GrowingRows
from rankgrove.data.synthetic import make_web_search
from rankgrove.distributed.warming import train_a_little
from rankgrove.estimators.ranker import Ranker
from rankgrove.experiments.combine.combine import combine_two
from rankgrove.experiments.compare.significance import bootstrap_interval, randomisation
from rankgrove.experiments.optimality import is_local_maximum
from rankgrove.metrics.evaluate import evaluate
from rankgrove.metrics.spec import METRICS, parse_metric
from rankgrove.metrics.ties import TIES
from rankgrove.objectives.registry import OBJECTIVES, make_objective
from rankgrove.report.build import make_report

# What a new user runs in the first hour, in a folder of its own.
COMMON: list[list[str]] = [
    ["quickstart", "--queries", "10"],
    ["inspect", "rankgrove-quickstart/train.txt"],
    ["evaluate", "rankgrove-quickstart/test.txt", "--column", "1"],
    ["evaluate", "rankgrove-quickstart/best.txt", "rankgrove-quickstart/test.txt"],
    ["convert", "rankgrove-quickstart/train.txt", "train.csv"],
    ["train", "train.csv", "--valid", "train.csv", "--n-estimators", "2", "-o", "m.safetensors"],
    ["score", "m.safetensors", "train.csv"],
    ["evaluate", "m.safetensors", "train.csv"],
    ["explain", "m.safetensors", "train.csv", "--query", "3", "--document", "1"],
    ["explain", "m.safetensors", "train.csv", "--query", "3", "--why", "1", "2"],
    ["convert", "train.csv", "train.txt.gz", "--out-absent", "missing"],
    ["inspect", "train.txt.gz", "--absent", "missing", "--n-jobs", "2"],
]


def _call_synthetic() -> None:
    make_web_search(3, 20, mean_documents=5.0)


def _call_letor() -> None:
    # A query in two pieces is brought together, which moves rows.
    data = parse_letor(b"1 qid:1 2:1\n0 qid:2 1:1\n0 qid:1 1:1\n", split_queries="group")
    with tempfile.TemporaryDirectory() as directory:
        write_letor(data, Path(directory) / "data.txt")
    # Columns that turn up late, or not at all, are only met in long files.
    rows = GrowingRows("", 1, 0.0)
    rows.reserve(2)
    rows.widen(2, 3, 0, 3)
    rows.finish(2, 2)


def _call_json() -> None:
    read_apart(b"[0]", 0, 1, 0)


def _call_describe() -> None:
    # Equal rows with different labels, so that repeats and contradictions are looked for.
    describe(Dataset.from_arrays([[0.0, 1.0]] * 4, [0, 1, 0, 1], group=[2, 2]))


def _call_metrics() -> None:
    metrics = [
        parse_metric(f"{metric.name}{'@3' if metric.has_cutoff else ''}(ties={ties})")
        for metric in METRICS.values()
        for ties in TIES
    ]
    # Fractions and whole grades are ranked by different kernels.
    for labels in ([2, 0, 1, 0, 1, 0, 0], [2, 0, 0.5, 0, 1, 0, 0]):
        evaluate(labels, [3, 2, 2, 1, 0, 0, 1], metrics, group=[4, 3], document_ids=list("abcdefg"))
        for metric in metrics:
            metric.swap_deltas(labels)


def _call_training() -> None:
    # Enough rows that large nodes are divided in parts, and curvatures so uneven that rows of
    # small leaves have to be counted; then categories and samples.
    rng = np.random.default_rng(0)
    features = rng.integers(0, 99, (70_000, 2)).astype(np.float32)
    labels = rng.integers(0, 5, len(features))
    data = Dataset.from_arrays(features, labels, group=[20_000, *[20] * 2500])
    Ranker("lambdamart", n_estimators=2, max_leaves=40, min_samples_leaf=50).fit(data, valid=data)
    some = data.take_queries(range(500, 520))
    ranker = Ranker(n_estimators=2, min_samples_leaf=2, categorical=[0], subsample=0.5)
    ranker.fit(some, valid=some.take_queries([0]))
    # Codes of features that are kept once are read where they stand.
    for grower in ("oblivious", "leafwise"):
        Ranker(grower=grower, n_estimators=1, layout="rows").fit(some)
    # Of features that have one code in most rows only other codes are kept.
    sparse = rng.integers(1, 9, (400, 20)) * (rng.random((400, 20)) < 0.1)
    wide = Dataset.from_arrays(sparse, labels[:400], group=[20] * 20)
    Ranker(n_estimators=2, subsample=0.5).fit(wide, valid=wide)
    Ranker(grower="leafwise", n_estimators=2).fit(wide)
    for sampling in ("document", "variance"):
        Ranker(n_estimators=1, subsample=0.5, sampling=sampling).fit(some)
    for trained in (ranker, Ranker(n_estimators=2, min_samples_leaf=2).fit(some)):
        trained.model_.predict(some)
        trained.model_.contributions(some)
    two_classes = replace(some, labels=(some.labels > 1).astype(np.float32))
    for objective in OBJECTIVES:
        ranker = Ranker(objective, n_estimators=2, min_samples_leaf=2, temperature=1e4)
        ranker.fit(two_classes)
        # What a network's loss is worth.
        make_objective(objective).prepare(two_classes).cost(np.zeros(some.n_documents))
    Ranker("yetiloss", n_estimators=2, grower="oblivious").fit(some)
    Ranker("yetiloss", metric="ndcg@3", n_estimators=1).fit(some)
    for objective in ("yetirank", "rankmart", "lambdamart"):
        Ranker(objective, leaf="joint", n_estimators=1, min_samples_leaf=2).fit(some)
    Ranker("lambdamart", truncation=3, truncation_anchors="ideal", n_estimators=1).fit(some)
    Ranker("rankmart", n_estimators=1, min_samples_leaf=2).fit(some, preferences=[(1, 0)])


def _call_sparse_data() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 9, (300, 80)) * (rng.random((300, 80)) < 0.1)
    values[:, 1] = np.arange(300)
    rows = Dataset.from_arrays(csr_array(values), rng.integers(0, 3, 300), group=[20] * 15)
    describe(rows)
    with tempfile.TemporaryDirectory() as directory:
        write_letor(rows, Path(directory) / "data.txt")
        data = read_letor(Path(directory) / "data.txt")
    ranker = Ranker(n_estimators=2, min_samples_leaf=2, subsample=0.5)
    ranker.fit(data, valid=rows).predict(data)
    data.features_checksum()
    data.features[:, 0].sum()


def _call_comparing() -> None:
    ours, theirs = np.arange(30.0), np.arange(30.0) % 7
    # Of which the bootstrap's p-values take the same kernel.
    randomisation(ours, theirs, rounds=20)
    bootstrap_interval(ours, rounds=20)


def _call_combining() -> None:
    features = np.arange(60.0).reshape(-1, 1) % 7
    data = Dataset.from_arrays(features, np.arange(60) % 3, group=[20, 20, 20])
    # Documents that tie everywhere are measured at every step by the second metric.
    for metric in ("ndcg@10", "mrr(ties=expected)"):
        combine_two(data, features[:, 0], -(features[:, 0] ** 2), metric)
    model = Ranker(n_estimators=1, min_samples_leaf=5).fit(data).model_
    is_local_maximum(model, data, delta=0.5, p0=0.5)


def _call_reports() -> None:
    data = make_web_search(30, 16, mean_documents=12.0)
    parts = [data.take_queries(range(first, first + 10)) for first in (0, 10, 20)]
    fitted = {
        name: Ranker(name, n_estimators=3).fit(parts[0], valid=parts[1])
        for name in ("yetirank", "lambdamart")
    }
    make_report(parts[2], fitted, train=parts[0], valid=parts[1])


def _call_workers() -> None:
    for grower in ("oblivious", "leafwise"):
        for layout in ("both", "rows"):
            train_a_little(Parameters(grower=grower, layout=layout), n_workers=2)
        train_a_little(Parameters(grower=grower), n_workers=2, sparse=True)


# All that is called, by what it is for; a module with kernels adds what calls them.
STEPS: dict[str, Callable[[], None]] = {
    "synthetic data": _call_synthetic,
    "LETOR files": _call_letor,
    "JSON of requests": _call_json,
    "descriptions": _call_describe,
    "metrics": _call_metrics,
    "training": _call_training,
    "sparse data": _call_sparse_data,
    "comparing": _call_comparing,
    "combining": _call_combining,
    "reports": _call_reports,
    "workers": _call_workers,
}


def find_kernels() -> Iterator[Kernel]:
    """The kernels of all modules of Rankgrove that are imported, compiled or not."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rankgrove."):
            for value in list(vars(module).values()):
                if isinstance(value, Kernel) and value.py_func.__module__ == name:
                    yield value


def run_common(folder: Path) -> None:
    """Run the common commands in a folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        for args in COMMON:
            result = CliRunner().invoke(app, args)
            if result.exit_code:
                raise SystemExit(f"{' '.join(args)}: {result.stderr}")
    finally:
        os.chdir(before)


def called_so_far() -> set[tuple[str, str, str]]:
    """Module, name and signature of all that Python has called."""
    return {
        (kernel.py_func.__module__, kernel.py_func.__name__, signature_text(signature))
        for kernel in find_kernels()
        for signature in kernel.signatures
    }


def size_of(module: str, name: str) -> int:
    """The length of a kernel with all that is compiled into it: the longest take longest."""
    found: set[Any] = set()
    waiting = [getattr(sys.modules[module], name)]
    while waiting:
        kernel = waiting.pop()
        if isinstance(kernel, Kernel) and kernel not in found:
            found.add(kernel)
            names = kernel.py_func.__globals__
            waiting += [names.get(each) for each in kernel.py_func.__code__.co_names]
    return sum(len(each.py_func.__code__.co_code) for each in found)


def make_list() -> list[Listed]:
    """Call everything: all kernels and types, those that take longest to compile first."""
    with tempfile.TemporaryDirectory() as folder:
        run_common(Path(folder))
    common = called_so_far()
    for step in STEPS.values():
        step()
    listed = [Listed(*each, is_common=each in common) for each in called_so_far()]
    return sorted(
        listed, key=lambda each: (-size_of(each.module, each.name), each.name, each.signature)
    )


if __name__ == "__main__":
    write_list(make_list())

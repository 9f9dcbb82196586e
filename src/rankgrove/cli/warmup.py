# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove warmup`: compile every kernel ahead, so that no later command waits for it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rankgrove.cli.console import count, show, show_json
from rankgrove.cli.options import Json


def _warm_synthetic() -> None:
    from rankgrove.data.synthetic import make_web_search

    make_web_search(3, 20, mean_documents=5.0)


def _warm_letor() -> None:
    from rankgrove.data.letor import parse_letor, write_letor
    from rankgrove.data.rows import GrowingRows

    # A query in two pieces is brought together, which moves rows.
    data = parse_letor(b"1 qid:1 2:1\n0 qid:2 1:1\n0 qid:1 1:1\n", split_queries="group")
    with tempfile.TemporaryDirectory() as directory:
        write_letor(data, Path(directory) / "data.txt")
    # Columns that turn up late, or not at all, are only met in long files.
    rows = GrowingRows("", 1, 0.0)
    rows.reserve(2)
    rows.widen(2, 3, 0, 3)
    rows.finish(2, 2)


def _warm_describe() -> None:
    from rankgrove.data.dataset import Dataset
    from rankgrove.data.describe import describe

    # Equal rows with different labels, so that repeats and contradictions are looked for.
    describe(Dataset.from_arrays([[0.0, 1.0]] * 4, [0, 1, 0, 1], group=[2, 2]))


def _warm_metrics() -> None:
    from rankgrove.metrics.evaluate import evaluate
    from rankgrove.metrics.spec import METRICS, parse_metric
    from rankgrove.metrics.ties import TIES

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


def _warm_training() -> None:
    from dataclasses import replace

    import numpy as np

    from rankgrove.data.dataset import Dataset
    from rankgrove.estimators.ranker import Ranker
    from rankgrove.objectives.registry import OBJECTIVES, make_objective

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
    Ranker("rankmart", n_estimators=1, min_samples_leaf=2).fit(some, preferences=[(1, 0)])


def _warm_comparing() -> None:
    import numpy as np

    from rankgrove.experiments.compare.significance import bootstrap_interval, randomisation

    ours, theirs = np.arange(30.0), np.arange(30.0) % 7
    # Of which the bootstrap's p-values take the same kernel.
    randomisation(ours, theirs, rounds=20)
    bootstrap_interval(ours, rounds=20)


def _warm_combining() -> None:
    import numpy as np

    from rankgrove.data.dataset import Dataset
    from rankgrove.estimators.ranker import Ranker
    from rankgrove.experiments.combine.combine import combine_two
    from rankgrove.experiments.optimality import is_local_maximum

    features = np.arange(60.0).reshape(-1, 1) % 7
    data = Dataset.from_arrays(features, np.arange(60) % 3, group=[20, 20, 20])
    # Documents that tie everywhere are measured at every step by the second metric.
    for metric in ("ndcg@10", "mrr(ties=expected)"):
        combine_two(data, features[:, 0], -(features[:, 0] ** 2), metric)
    model = Ranker(n_estimators=1, min_samples_leaf=5).fit(data).model_
    is_local_maximum(model, data, delta=0.5, p0=0.5)


# All that `warmup` runs, on tiny data; a module with kernels adds what runs them.
STEPS: dict[str, Callable[[], None]] = {
    "synthetic data": _warm_synthetic,
    "LETOR files": _warm_letor,
    "descriptions": _warm_describe,
    "metrics": _warm_metrics,
    "training": _warm_training,
    "comparing": _warm_comparing,
    "combining": _warm_combining,
}


def warmup(json: Json = False) -> None:
    """Compile everything ahead, so that no later command waits for it.

    What is compiled is kept on disk, until Rankgrove, Numba or the machine changes.
    """
    seconds = {}
    width = max(map(len, STEPS))
    for name, step in STEPS.items():
        start = time.perf_counter()
        step()
        seconds[name] = time.perf_counter() - start
        if not json:
            show(f"{name:<{width}}  {seconds[name]:5.1f} s")
    stats = [kernel.stats for kernel in find_kernels() if kernel.signatures]
    compiled = sum(sum(stat.cache_misses.values()) for stat in stats)
    loaded = sum(sum(stat.cache_hits.values()) for stat in stats)
    directories = sorted({str(stat.cache_path) for stat in stats})
    if json:
        kernels = {"compiled": compiled, "loaded": loaded, "cache_directories": directories}
        show_json({"seconds": seconds, **kernels})
        return
    show(f"{'all':<{width}}  {sum(seconds.values()):5.1f} s", "")
    show(f"{count(compiled, 'kernel')} compiled, {loaded:,} found in the cache:")
    show(*(f"  {directory}" for directory in directories))


def find_kernels() -> Iterator[Any]:
    """The kernels of all modules of Rankgrove that are imported, compiled or not."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rankgrove."):
            for value in list(vars(module).values()):
                function = getattr(value, "py_func", None)
                if getattr(function, "__module__", None) == name:
                    yield value

"""Metrics of a million documents in 10,000 queries: Rankgrove against the metric packages,
and against the NDCG that LightGBM and XGBoost compute while they train.

The metric packages take dictionaries; what it costs to make these from arrays is shown apart.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from benchmarks.common import (
    THREADS,
    alternate,
    in_own_process,
    limit_threads,
    medians,
    peak_megabytes,
    report,
    table,
)

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)
from numpy.typing import NDArray  # noqa: E402

COMMAND = "python -m benchmarks.metrics"
PACKAGES = ("numpy", "numba", "ranx", "ir-measures", "pytrec-eval-terrier", "lightgbm",
            "xgboost-cpu", "catboost")  # fmt: skip
N_QUERIES, N_DOCUMENTS = 10_000, 1_000_000
FOUR = ["ndcg@10", "map", "mrr", "err"]

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def make_arrays() -> Arrays:
    """Labels, scores and query sizes; lengths log-normal, grades skewed, scores of some use."""
    rng = np.random.default_rng(0)
    sizes = rng.lognormal(0.0, 0.7, N_QUERIES)
    group = np.maximum(1, np.round(sizes * N_DOCUMENTS / sizes.sum()).astype(np.int64))
    group[0] += N_DOCUMENTS - group.sum()
    labels = rng.choice(5, N_DOCUMENTS, p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(np.float32)
    return labels, labels + rng.normal(0, 2, N_DOCUMENTS), group


class Rankgrove:
    """From arrays, no conversion."""

    def __init__(self, arrays: Arrays) -> None:
        self.labels, self.scores, self.group = arrays

    def convert(self) -> None:
        """Nothing to do: the arrays are what it takes."""

    def measure(self, metrics: list[str] = FOUR) -> object:
        from rankgrove import evaluate

        return evaluate(self.labels, self.scores, metrics, group=self.group, n_jobs=THREADS)


class _Dictionaries:
    def __init__(self, arrays: Arrays) -> None:
        labels, scores, group = arrays
        self.labels, self.scores = labels.astype(int), scores
        self.offsets = np.concatenate([[0], np.cumsum(group)])

    def convert(self) -> None:
        labels, scores = self.labels.tolist(), self.scores.tolist()
        names = [f"d{i}" for i in range(max(np.diff(self.offsets)))]
        self.qrels, self.run = {}, {}
        bounds = self.offsets.tolist()
        for query in range(len(bounds) - 1):
            lo, hi = bounds[query], bounds[query + 1]
            ids = names[: hi - lo]
            self.qrels[f"q{query}"] = dict(zip(ids, labels[lo:hi], strict=True))
            self.run[f"q{query}"] = dict(zip(ids, scores[lo:hi], strict=True))


class PytrecEval(_Dictionaries):
    """trec_eval has no ERR."""

    def measure(self) -> object:
        import pytrec_eval

        names = {"ndcg_cut.10", "map", "recip_rank"}
        return pytrec_eval.RelevanceEvaluator(self.qrels, names).evaluate(self.run)


class IrMeasures(_Dictionaries):
    """Its ERR needs an outside Perl program and is left out."""

    def measure(self) -> object:
        import ir_measures

        wanted = [ir_measures.nDCG @ 10, ir_measures.AP, ir_measures.RR]
        return ir_measures.calc_aggregate(wanted, self.qrels, self.run)


class Ranx(_Dictionaries):
    """It has no ERR."""

    def convert(self) -> None:
        import ranx

        super().convert()
        self.qrels_ranx, self.run_ranx = ranx.Qrels(self.qrels), ranx.Run(self.run)

    def measure(self) -> object:
        import ranx

        return ranx.evaluate(self.qrels_ranx, self.run_ranx, ["ndcg@10", "map", "mrr"])


class LightGBM:
    """The NDCG of its training loop, on its own data set with the scores already inside."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def convert(self) -> None:
        import lightgbm

        labels, scores, group = self.arrays
        features = np.random.default_rng(1).random((len(labels), 1))
        quiet = {"verbose": -1, "num_threads": THREADS}
        data = lightgbm.Dataset(features, labels, group=group, init_score=scores, params=quiet)
        self.booster = lightgbm.Booster(
            {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], **quiet}, data
        )

    def measure(self) -> object:
        return self.booster.eval_train()


class XGBoost:
    """As LightGBM."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def convert(self) -> None:
        import xgboost

        labels, scores, group = self.arrays
        self.data = xgboost.DMatrix(
            np.zeros((len(labels), 1)), labels, group=group, base_margin=scores, nthread=THREADS
        )
        self.booster = xgboost.Booster(
            {"objective": "rank:ndcg", "eval_metric": "ndcg@10", "nthread": THREADS},
            [self.data],
        )

    def measure(self) -> object:
        return self.booster.eval(self.data)


class CatBoost:
    """catboost.utils.eval_metric, one call a metric, from the same arrays."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def convert(self) -> None:
        labels, _, group = self.arrays
        self.qid = np.repeat(np.arange(len(group)), group)
        self.grades = labels / 4  # its ERR takes the chance to stop as the label

    def measure(self) -> object:
        from catboost.utils import eval_metric

        names = ["NDCG:top=10;type=Exp", "MAP", "MRR", "ERR"]
        return [
            eval_metric(self.grades, self.arrays[1], name, group_id=self.qid, thread_count=THREADS)
            for name in names
        ]


TOOLS: dict[str, Callable[[Arrays], Any]] = {
    "rankgrove": Rankgrove,
    "pytrec_eval": PytrecEval,
    "ir-measures": IrMeasures,
    "ranx": Ranx,
    "catboost": CatBoost,
    "lightgbm": LightGBM,
    "xgboost": XGBoost,
}


def _child(tool: str) -> None:
    """Peak memory of one tool from the arrays to the numbers, above the arrays."""
    arrays = make_arrays()
    if tool != "nothing":
        runner = TOOLS[tool](arrays)
        runner.convert()
        runner.measure()
    print(json.dumps({"peak": peak_megabytes()}))


def _metric_packages(arrays: Arrays, rounds: int) -> str:
    runners = {
        name: make(arrays) for name, make in TOOLS.items() if name not in ("lightgbm", "xgboost")
    }
    convert = medians(alternate({n: r.convert for n, r in runners.items()}, rounds))
    measure = medians(alternate({n: r.measure for n, r in runners.items()}, rounds))
    base = in_own_process("benchmarks.metrics", "--child", "nothing")["peak"]
    ours = convert["rankgrove"] + measure["rankgrove"]
    rows = []
    for name in runners:
        total = convert[name] + measure[name]
        peak = in_own_process("benchmarks.metrics", "--child", name)["peak"] - base
        rows.append(
            (name, f"{convert[name]:.3f}", f"{measure[name]:.3f}", f"{total / ours:.0f}",
             f"{measure[name] / ours:.1f}", f"{peak:.0f}")
        )  # fmt: skip
    header = ("tool", "convert, s", "measure, s", "whole / ours", "measure alone / ours",
              "peak memory above the arrays, MB")  # fmt: skip
    return (
        f"NDCG@10, MAP, MRR and ERR of {N_DOCUMENTS:,} documents in {N_QUERIES:,} queries, from "
        f"the same arrays; {THREADS} threads; medians of {rounds} alternating rounds. ranx, "
        "ir-measures and pytrec_eval compute three of the four (no ERR); CatBoost all four.\n\n"
        + table(header, rows)
    )


def _training_ndcg(arrays: Arrays, rounds: int) -> str:
    ours, light, xgb = Rankgrove(arrays), LightGBM(arrays), XGBoost(arrays)
    for runner in (light, xgb):
        runner.convert()
    tasks = {
        "rankgrove": lambda: ours.measure(["ndcg@10"]),
        "rankgrove, ties=stable": lambda: ours.measure(["ndcg@10(ties=stable)"]),
        "lightgbm": light.measure,
        "xgboost": xgb.measure,
    }
    times = medians(alternate(tasks, rounds))
    rows = [
        (name, f"{1000 * value:.1f}", f"{value / times['rankgrove']:.2f}")
        for name, value in times.items()
    ]
    return (
        f"NDCG@10 alone, against what LightGBM and XGBoost compute during training from data "
        f"already in their own format (LightGBM has the ideal DCG from before; ours includes "
        f"checking the arrays and the ideal DCG); {rounds} alternating rounds.\n\n"
        + table(("tool", "ms", "/ ours"), rows)
    )


def _single_metrics(arrays: Arrays, rounds: int) -> str:
    ours = Rankgrove(arrays)
    specs = ["ndcg@10", "ndcg", "map", "mrr", "err", "precision@10", "pair_accuracy", "tau"]
    specs += [f"{spec}(ties=expected)" for spec in ("ndcg@10", "map", "err")]
    times = medians(alternate({s: lambda s=s: ours.measure([s]) for s in specs}, rounds))  # type: ignore[misc]
    return "Each metric alone.\n\n" + table(
        ("metric", "ms"), [(name, f"{1000 * value:.1f}") for name, value in times.items()]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.child)
        return
    arrays = make_arrays()
    body = "\n\n".join(
        [
            _metric_packages(arrays, arguments.rounds),
            _training_ndcg(arrays, 4 * arguments.rounds),
            _single_metrics(arrays, 2 * arguments.rounds),
        ]
    )
    report("metrics", "Metrics", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

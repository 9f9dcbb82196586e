"""Scoring and contributions: Rankgrove against LightGBM on the very same trees, and against
models of the same size that XGBoost and CatBoost grow themselves.

LightGBM trains 500 trees of 63 leaves; Rankgrove scores a copy of them, and must give the same
scores to the bit.

A call that scores one query consists of trees and of the rest. The rest is the time of the same
call with no tree to score: by a model without trees, which is Python's part, and by the first 0
trees of the model, which also turns the values of the documents into codes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.common import THREADS, Task, alternate, limit_threads, medians, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)
import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
import pyarrow as pa  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from rankgrove import Ranker  # noqa: E402
from rankgrove.data.dataset import Dataset, default_feature_names  # noqa: E402
from rankgrove.data.synthetic import make_web_search  # noqa: E402
from rankgrove.model.model import Model  # noqa: E402
from rankgrove.model.schema import Schema  # noqa: E402
from rankgrove.testing.lightgbm_trees import ensemble_of  # noqa: E402
from rankgrove.testing.peers import fit_peer, peer_settings  # noqa: E402
from rankgrove.trees.contributions import Explainer  # noqa: E402
from rankgrove.trees.ensemble import Ensemble  # noqa: E402
from rankgrove.trees.predict import PreparedEnsemble  # noqa: E402

COMMAND = "python -m benchmarks.score"
PACKAGES = (
    "numpy", "numba", "pandas", "polars", "pyarrow", "lightgbm", "xgboost-cpu", "catboost",
)  # fmt: skip
N_FEATURES, N_TREES, N_LEAVES, DEPTH = 136, 500, 63, 6
N_DOCUMENTS, QUERY, N_QUERIES, N_EXPLAINED = 100_000, 100, 20, 200
# How often each is called in a row, and how often that is timed.
N_CALLS, CALL_ROUNDS = 40, 9
SPARSE_TREES = 100

Features = NDArray[Any]
# From threads and features to scores.
Score = Callable[[int, Features], Any]
# From the documents of one query to scores.
Call = Callable[[Any], Any]


def train(tool: str, data: Dataset, parameters: Mapping[str, Any], **settings: Any) -> Any:
    """A peer's model of N_TREES trees."""
    settings = {**peer_settings(tool, parameters, THREADS), **settings}
    return fit_peer(tool, settings, data, N_TREES).model


def make_scores(data: Dataset) -> tuple[dict[str, Score], Any, Any]:
    """The tools by name, and the trees of LightGBM: its own and ours."""
    given = {"objective": "lambdamart", "max_leaves": N_LEAVES, "learning_rate": 0.05}
    booster = train("lightgbm", data, given)
    ensemble = ensemble_of(booster)
    scorer = PreparedEnsemble(ensemble)
    forest = train("xgboost", data, {**given, "max_depth": 0}, grow_policy="lossguide")
    oblivious = train("catboost", data, {"objective": "queryrmse", "max_depth": DEPTH})

    def xgboost(threads: int, features: Features) -> Any:
        forest.set_param("nthread", threads)
        return forest.inplace_predict(features, predict_type="margin", validate_features=False)

    return (
        {
            "rankgrove": lambda threads, features: scorer.score(features, n_jobs=threads),
            "lightgbm": lambda threads, features: booster.predict(features, num_threads=threads),
            "xgboost": xgboost,
            "catboost": lambda threads, features: oblivious.predict(features, thread_count=threads),
        },
        booster,
        ensemble,
    )


def time_scores(scores: dict[str, Score], features: Features, rounds: int) -> str:
    """A batch of many documents, and queries one by one, on one thread and on two."""
    # LightGBM takes both; which is faster differs with the size of the batch.
    wide = features.astype(np.float64)
    columns: list[dict[str, float]] = []
    for threads in (1, THREADS):
        for size, n_batches in ((len(features), 1), (QUERY, N_QUERIES)):
            tasks: dict[str, Task] = {
                tool: partial(_score_all, score, threads, _cut(features, size, n_batches))
                for tool, score in scores.items()
            }
            batches = _cut(wide, size, n_batches)
            tasks["wide"] = partial(_score_all, scores["lightgbm"], threads, batches)
            seconds = medians(alternate(tasks, rounds))
            seconds["lightgbm"] = min(seconds["lightgbm"], seconds.pop("wide"))
            per = size if n_batches == 1 else n_batches
            columns.append({tool: value / per for tool, value in seconds.items()})
    rows = []
    for tool in scores:
        cells = [_named(tool)]
        for column in columns:
            cells += [f"{1e6 * column[tool]:.2f}", f"{column[tool] / column['rankgrove']:.1f}"]
        rows.append(cells)
    header = ["tool"]
    for threads in (1, THREADS):
        header += [f"us a document, batch, {threads} thr.", "ratio"]
        header += [f"us a query, {threads} thr.", "ratio"]
    return (
        f"{N_TREES} trees of {N_LEAVES} leaves, {N_FEATURES} features; a batch of "
        f"{len(features):,} documents, and single queries of {QUERY}. Rankgrove and LightGBM "
        f"score the same trees (equal to the bit); XGBoost has grown its own of the same size, "
        f"CatBoost {N_TREES} oblivious trees of depth {DEPTH}. LightGBM's time is the better one "
        f"of float32 and float64 input.\n\n" + table(header, rows)
    )


def forms_of(features: Features) -> dict[str, Any]:
    """The documents of one query in all forms that services have them in."""
    names = default_feature_names(N_FEATURES)
    columns = dict(zip(names, features.T.copy(), strict=True))
    return {
        "NumPy, float32": features,
        "NumPy, float64": features.astype(np.float64),
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "pyarrow": pa.table(columns),
        "lists": features.tolist(),
        "dicts": [dict(zip(names, row, strict=True)) for row in features.tolist()],
    }


def time_calls(scores: dict[str, Score], ensemble: Ensemble, features: Features) -> str:
    """One query, and one document, at a time: what a call takes, and what of it besides trees."""
    schema = Schema(default_feature_names(N_FEATURES))
    model = Model(ensemble, schema, {}, {})
    bare = Model(Ensemble.from_trees([]), schema, {}, {})
    tools: dict[str, Call] = {
        "rankgrove, scorer": model.scorer(),
        "rankgrove, predict": model.predict,
    }
    tools |= {tool: partial(scores[tool], 1) for tool in ("lightgbm", "xgboost", "catboost")}
    rest: dict[str, Call] = {
        "a scorer without trees: Python's part": bare.scorer(),
        "`predict` without trees: Python's part": bare.predict,
        "the scorer with its first 0 trees: also codes": model.scorer(n_trees=0),
    }
    by_tool: list[list[str]] = [[_named(tool)] for tool in tools]
    by_form: list[list[str]] = [[form] for form in forms_of(features[:1])]
    by_rest: list[list[str]] = [[name] for name in rest]
    for size in (QUERY, 1):
        forms = forms_of(features[:size])
        plain = forms["NumPy, float32"]
        calls = {tool: (call, plain) for tool, call in tools.items()}
        calls["wide"] = tools["lightgbm"], forms["NumPy, float64"]
        seconds = _time_each(calls)
        seconds["lightgbm"] = min(seconds["lightgbm"], seconds.pop("wide"))
        frames = _time_each({tool: (call, forms["pandas"]) for tool, call in tools.items()})
        for cells, tool in zip(by_tool, tools, strict=True):
            ratio = seconds[tool] / seconds["rankgrove, scorer"]
            cells += [f"{seconds[tool]:.1f}", f"{ratio:.1f}", f"{frames[tool]:.0f}"]
        scorer = tools["rankgrove, scorer"]
        of_form = _time_each({form: (scorer, query) for form, query in forms.items()})
        of_rest = _time_each({name: (call, plain) for name, call in rest.items()})
        for rows, found in ((by_form, of_form), (by_rest, of_rest)):
            for cells, value in zip(rows, found.values(), strict=True):
                cells.append(f"{value:.1f}")
    sizes = [f"{QUERY} documents", "1 document"]
    header = [name for size in sizes for name in (f"us a call, {size}", "ratio", f"pandas, {size}")]
    columns = [f"us, {size}" for size in sizes]
    return (
        f"One call at a time on one thread, the same trees: a query of {QUERY} documents, and one "
        f"document, from a float32 array and from a pandas frame.\n\n"
        f"{table(['tool', *header], by_tool)}\n\n"
        f"Rankgrove's scorer by what the documents come in.\n\n"
        f"{table(['form', *columns], by_form)}\n\n"
        f"What a call takes besides the trees, from a float32 array.\n\n"
        f"{table(['call', *columns], by_rest)}"
    )


def _named(tool: str) -> str:
    return tool + (" (other trees)" if tool in ("xgboost", "catboost") else "")


def _time_each(calls: Mapping[str, tuple[Call, Any]]) -> dict[str, float]:
    """Microseconds of each call, called in turn."""

    def repeat(call: Call, query: Any) -> None:
        for _ in range(N_CALLS):
            call(query)

    tasks: dict[str, Task] = {name: partial(repeat, *call) for name, call in calls.items()}
    found = medians(alternate(tasks, CALL_ROUNDS))
    return {name: 1e6 * seconds / N_CALLS for name, seconds in found.items()}


def _cut(features: Features, size: int, n_batches: int) -> list[Features]:
    return [features[i * size : (i + 1) * size] for i in range(n_batches)]


def _score_all(score: Score, threads: int, batches: list[Features]) -> None:
    for batch in batches:
        score(threads, batch)


def time_contributions(booster: Any, ensemble: Any, features: Features, rounds: int) -> str:
    rows = []
    few = features[:N_EXPLAINED]
    explainer = Explainer(ensemble)
    ours, theirs = explainer.contributions(few), booster.predict(few, pred_contrib=True)
    worst = float(np.abs(ours - theirs).max())
    for n_documents, batch in ((N_EXPLAINED, few), (1, few[:1])):
        for threads in (1, THREADS):
            tasks: dict[str, Task] = {
                "rankgrove": partial(explainer.contributions, batch, threads),
                "lightgbm": partial(booster.predict, batch, pred_contrib=True, num_threads=threads),
            }
            seconds = medians(alternate(tasks, rounds))
            rows += [
                (tool, n_documents, threads, f"{1000 * value / n_documents:.3f}",
                 f"{value / seconds['rankgrove']:.1f}")
                for tool, value in seconds.items()
            ]  # fmt: skip
    return (
        f"Contributions (TreeSHAP) of the same trees; the two differ by {worst:.0e} at most.\n\n"
        + table(("tool", "documents", "threads", "ms a document", "ratio"), rows)
    )


def time_sparse_rows(rounds: int) -> str:
    """Sparse rows against their dense form, and against dense rows of as many values, by ours."""
    rng = np.random.default_rng(0)
    size, density = (20_000, 3_000), 0.01
    sparse = sp.random_array(
        size, density=density, format="csr", dtype=np.float32, rng=rng,
        data_sampler=lambda size: rng.standard_normal(size, dtype=np.float32),
    )  # fmt: skip
    few = rng.standard_normal((size[0], round(size[1] * density)), dtype=np.float32)
    group = [QUERY] * (size[0] // QUERY)

    def fit(features: Any) -> Model:
        scores = features @ rng.normal(size=features.shape[1]) + rng.normal(size=size[0])
        labels = np.digitize(scores, np.quantile(scores, [0.5, 0.8, 0.95]))
        ranker = Ranker("lambdamart", n_estimators=SPARSE_TREES, max_leaves=N_LEAVES)
        model: Model = ranker.fit(features, labels, group=group).model_
        return model

    of_many, of_few, dense = fit(sparse), fit(few), sparse.toarray()
    tasks: dict[str, Task] = {
        "sparse": lambda: of_many.predict(sparse, n_jobs=1),
        "their dense form": lambda: of_many.predict(dense, n_jobs=1),
        "dense rows of as many values, a model of these": lambda: of_few.predict(few, n_jobs=1),
    }
    seconds = medians(alternate(tasks, rounds))
    rows = [
        (name, f"{1e6 * taken / size[0]:.2f}", f"{seconds['sparse'] / taken:.2f}")
        for name, taken in seconds.items()
    ]
    header = ("rows", "us a document", "sparse / these")
    return (
        f"### Sparse rows\n\n{size[0]:,} documents of {size[1]:,} features, {100 * density:g} % of "
        f"them not 0, by {SPARSE_TREES} trees of {N_LEAVES} leaves, one thread; medians of "
        f"{rounds} alternating rounds.\n\n" + table(header, rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    data = make_web_search(500, N_FEATURES, seed=0)
    features = make_web_search(1000, N_FEATURES, seed=1).features[:N_DOCUMENTS]
    scores, booster, ensemble = make_scores(data)
    start = time.perf_counter()
    ours = scores["rankgrove"](THREADS, features)
    first = time.perf_counter() - start
    if not np.array_equal(ours, booster.predict(features)):
        raise RuntimeError("Rankgrove must give the scores of LightGBM to the bit.")
    body = "\n\n".join(
        [
            time_scores(scores, features, arguments.rounds),
            time_calls(scores, ensemble, features),
            time_sparse_rows(arguments.rounds),
            time_contributions(booster, ensemble, features, arguments.rounds),
            f"The first call, with compiling or loading the compiled code, took {first:.1f} s.",
        ]
    )
    report("score", "Scoring", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

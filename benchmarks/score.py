"""Scoring and contributions: Rankgrove against LightGBM on the very same trees, and against
models of the same size that XGBoost and CatBoost grow themselves.

LightGBM trains 500 trees of 63 leaves; Rankgrove scores a copy of them, and must give the same
scores to the bit.
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
from numpy.typing import NDArray  # noqa: E402

from rankgrove.data.dataset import Dataset  # noqa: E402
from rankgrove.data.synthetic import make_web_search  # noqa: E402
from rankgrove.testing.lightgbm_trees import ensemble_of  # noqa: E402
from rankgrove.testing.peers import fit_peer, peer_settings  # noqa: E402
from rankgrove.trees.contributions import Explainer  # noqa: E402
from rankgrove.trees.predict import PreparedEnsemble  # noqa: E402

COMMAND = "python -m benchmarks.score"
PACKAGES = ("numpy", "numba", "lightgbm", "xgboost-cpu", "catboost")
N_FEATURES, N_TREES, N_LEAVES, DEPTH = 136, 500, 63, 6
N_DOCUMENTS, QUERY, N_QUERIES, N_EXPLAINED = 100_000, 100, 20, 200

Features = NDArray[Any]
# From threads and features to scores.
Score = Callable[[int, Features], Any]


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
        return forest.inplace_predict(features, predict_type="margin")

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
        cells = [tool + (" (other trees)" if tool in ("xgboost", "catboost") else "")]
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
            time_contributions(booster, ensemble, features, arguments.rounds),
            f"The first call, with compiling or loading the compiled code, took {first:.1f} s.",
        ]
    )
    report("score", "Scoring", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

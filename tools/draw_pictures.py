"""Draw the pictures of docs/pictures.md again: the same bits each time.

python tools/draw_pictures.py            # all
python tools/draw_pictures.py ranking    # those whose name has this text in it
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rankgrove as rg
from rankgrove import Dataset, Display, Ranker

IMAGES = Path(__file__).parents[1] / "docs" / "images" / "pictures"


@cache
def parts() -> tuple[Dataset, Dataset, Dataset]:
    """Train, validation and test queries."""
    train, valid, test = rg.make_web_search(600, 40, mean_documents=20, seed=3).split(
        0.4, 0.2, 0.4, seed=1
    )
    return train, valid, test


@cache
def ranker(name: str) -> Ranker:
    """An old ranker and a new one; both watch the validation queries."""
    train, valid, _ = parts()
    given: dict[str, Any] = {
        "old": {"objective": "queryrmse", "n_estimators": 20},
        "new": {"objective": "lambdamart", "n_estimators": 150, "early_stopping_rounds": 30},
    }[name]
    return Ranker(**given, max_leaves=15).fit(train, valid={"train": train, "valid": valid})


@cache
def comparison() -> rg.Comparison:
    candidates = {"old": ranker("old"), "new": ranker("new")}
    return rg.compare(parts()[2], candidates, baseline="old", slices=["length", "relevant"])


def changed_query() -> object:
    """Of the queries with many documents and three grades, the one that changed most."""
    _, _, test = parts()
    rich = [
        test.query_ids[q]
        for q in range(test.n_queries)
        for labels in [test.labels[test.offsets[q] : test.offsets[q + 1]]]
        if len(labels) > 15 and len(set(labels.tolist())) > 2
    ]
    changes = comparison().changed("ndcg@10", "new", "old", test.n_queries)
    return next(change.query for change in changes if change.query in rich)


def front() -> Display:
    """Six weights of NDCG by judgements and by clicks, which depend on one feature."""
    clicked = []
    for number, part in enumerate(parts()):
        signal = part.features[:, 4] + np.random.default_rng(number).normal(size=part.n_documents)
        clicks = np.digitize(signal, np.quantile(signal, [0.7, 0.9]))
        clicked.append(replace(part, more_labels={"clicks": clicks.astype(np.float32)}))
    both = ("ndcg@10", "ndcg@10 of clicks")
    how: dict[str, Any] = {"objective": "lambdamart", "n_estimators": 60, "max_leaves": 15}
    weights = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    return rg.plot_front(
        rg.pareto_front(clicked[0], None, *both, weights=weights, **how), clicked[2], both
    )


def gap() -> Display:
    train, _, test = parts()
    return rg.generalisation_gap({"new": ranker("new")}, train, test).plot("ndcg@10")


def why() -> Display:
    """The first two documents of that query, as the new ranker has them."""
    _, _, test = parts()
    at = test.query_ids.tolist().index(changed_query())
    scores = ranker("new").predict(test)[test.offsets[at] : test.offsets[at + 1]]
    first, second = (int(test.offsets[at] + row) for row in (-scores).argsort()[:2])
    model: rg.Model = ranker("new").model_
    return model.why(test, first, second).plot()


def permutation() -> Display:
    found = ranker("new").model_.permutation_importance(parts()[2])
    return rg.plot_importance(found, top=12)


def dependence() -> Display:
    names = rg.plot_importance(ranker("new"), top=2).feature_names
    return rg.plot_dependence(ranker("new"), parts()[2], names)


def weights() -> Display:
    train = parts()[0]
    return rg.is_local_maximum(ranker("new"), train, p0=0.2, delta=0.1).plot(6)


PICTURES: dict[str, Callable[[], Display]] = {
    "learning-curves": lambda: rg.plot_learning_curves(
        {"old": ranker("old"), "new": ranker("new")}
    ),
    "shrinkage": lambda: rg.plot_shrinkage(*parts()[:2], n_estimators=100, max_leaves=15),
    "gap": gap,
    "scatter": lambda: comparison().plot(kind="scatter"),
    "change": lambda: comparison().plot(kind="change"),
    "distribution": lambda: comparison().plot(kind="distribution"),
    "slices": lambda: comparison().plot_slices(),
    "front": front,
    "ranking": lambda: rg.plot_ranking(
        parts()[2], {"old": ranker("old"), "new": ranker("new")}, changed_query()
    ),
    "why": why,
    "importance": permutation,
    "dependence": dependence,
    "scores-by-label": lambda: rg.plot_scores_by_label(parts()[2], ranker("new")),
    "pair-loss": rg.plot_pair_loss,
    "paper-relative": rg.plot_relative,
    "train-test": lambda: rg.plot_train_test(tables=["22"]),
    "weights": weights,
}


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:] or [""]
    for name, draw in PICTURES.items():
        if any(text in name for text in wanted):
            draw().save(IMAGES / f"{name}.svg")
            print(IMAGES / f"{name}.svg")


if __name__ == "__main__":
    main()

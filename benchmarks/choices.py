"""What options of pairwise objectives bring on synthetic data, as a first filter.

Models are trained on queries of `make_web_search` and measured on 1,500 others, for three draws of
both; a variant stands beside the base of its group with the paired difference over queries.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.common import THREADS, limit_threads, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import Floats, paired_difference  # noqa: E402
from rankgrove import Ranker  # noqa: E402
from rankgrove.data.dataset import Dataset  # noqa: E402
from rankgrove.data.synthetic import make_web_search  # noqa: E402
from rankgrove.metrics.evaluate import evaluate  # noqa: E402

N_TRAIN, N_TEST, N_FEATURES, N_DRAWS, N_TREES = (300, 1500), 1500, 30, 3, 100
MRR = "mrr(relevant>=3)"

_LAMBDAMART = {"objective": "lambdamart", "metric": "ndcg"}
_YETIRANK = {"objective": "yetirank"}

# What is measured, the base, and its variants: names and what differs.
GROUPS: dict[str, tuple[str, dict[str, Any], dict[str, dict[str, Any]]]] = {
    **{
        f"anchors, truncation {truncation}": (
            "ndcg@10", _LAMBDAMART | {"truncation": truncation},
            {"ideal": {"truncation_anchors": "ideal"}, "truncation 1000": {"truncation": 1000}},
        )
        for truncation in (3, 10, 30)
    },
    "leaves": (
        "ndcg@10", _YETIRANK,
        {
            "new noise": {"leaf_noise": "new"},
            "joint": {"leaf": "joint"},
            "joint, new noise": {"leaf": "joint", "leaf_noise": "new"},
        },
    ),
    "mrr": (
        MRR, {"objective": "lambdamart", "metric": MRR},
        {
            "yetiloss": {"objective": "yetiloss"},
            "ndcg@10": {"metric": "ndcg@10"},
        },
    ),
}  # fmt: skip


def values_of(train: Dataset, test: Dataset, metric: str, parameters: dict[str, Any]) -> Floats:
    """The metric of each test query."""
    ranker = Ranker(**{"n_estimators": N_TREES, **parameters}, n_jobs=THREADS).fit(train)
    return evaluate(test, ranker.predict(test), metric, n_jobs=THREADS).per_query(metric)


def measure(group: str, n_train: int, n_draws: int, n_test: int) -> list[tuple[str, ...]]:
    """A line for the base of a group and for each of its variants."""
    metric, base, variants = GROUPS[group]
    found: dict[str, list[Floats]] = {"base": [], **{name: [] for name in variants}}
    for draw in range(n_draws):
        train = make_web_search(n_train, N_FEATURES, seed=10 + draw)
        test = make_web_search(n_test, N_FEATURES, seed=1000 + draw)
        for name, values in found.items():
            parameters = {**base, **variants.get(name, {}), "random_state": draw}
            values.append(values_of(train, test, metric, parameters))
    joined = {name: np.concatenate(values) for name, values in found.items()}
    return [
        (group, str(n_train), name, f"{np.nanmean(values):.4f}",
         "" if name == "base" else str(paired_difference(values, joined["base"])))
        for name, values in joined.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="groups whose names contain this")
    parser.add_argument("--quick", action="store_true", help="one draw of few queries")
    arguments = parser.parse_args()
    sizes, n_draws, n_test = ((30,), 1, 60) if arguments.quick else (N_TRAIN, N_DRAWS, N_TEST)
    rows = [
        row
        for group in GROUPS
        if arguments.only is None or arguments.only in group
        for n_train in sizes
        for row in measure(group, n_train, n_draws, n_test)
    ]
    print(table(("group", "queries", "variant", "value", "less base"), rows))


if __name__ == "__main__":
    main()

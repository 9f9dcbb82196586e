"""LambdaMART's forces are those of LightGBM's `lambdarank`.

LightGBM shows its gradients nowhere, but a tree in which every document is a leaf of its own
does: a leaf's weight is the sum of its hessians, and its value is minus the sum of its
gradients over that. Documents with the same quotient gain nothing by a split and stay together
in one leaf, so sums over leaves are compared.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from objectives.naive_forces import forces_of_query, table
from rankgrove.data.dataset import Dataset
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.pairwise import LambdaMART
from rankgrove.testing.peers import peer_data, peer_settings

# LightGBM adds every pair into a float32, so each of up to 120 additions rounds by 2^-24 of the
# sum so far: 7e-6 of the absolute forces on a document at the very worst, 7e-7 seen. It also
# holds 0.01 as a float32. So near comes an oracle that looks rho up in LightGBM's table.
ROUNDING = 2e-6

# LightGBM looks rho up in a table of 2^20 entries over sigma * (z_i - z_j) in [-25, 25] and
# takes the entry below, so its argument is too low by up to 50 * 2^-20. The slopes of log rho
# and of log rho (1 - rho) are at most 1, so each of its pairs is off by up to that factor.
TABLE = 50 / 2**20

# A leaf of less weight than this is not split off, for LightGBM finds each child by subtraction
# and would split at what rounding left behind. It adds 1e-15 to every hessian.
SMALLEST_WEIGHT = 1e-8
TINY = 1e-13


class Query(NamedTuple):
    labels: list[int]
    scores: list[float]


def random_queries(seed: int, decimals: int) -> list[Query]:
    """Rows of ties with few decimals; one document, equal labels and equal scores among them."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 3, 20, 40, 80, 120]
    queries = [
        Query(
            rng.choice(5, size=n, p=[0.5, 0.3, 0.1, 0.06, 0.04]).tolist(),
            np.round(2 * rng.normal(size=n), decimals).tolist(),
        )
        for n in sizes
    ]
    flat = Query([1] * 6, rng.normal(size=6).tolist())
    tied = Query(rng.integers(0, 5, size=12).tolist(), [0.5] * 12)
    return [*queries, flat, tied]


class Leaves(NamedTuple):
    """Which leaf each document is in, and each leaf's force and curvature."""

    leaf: np.ndarray
    forces: np.ndarray
    curvatures: np.ndarray

    def sums(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.leaf, weights=values, minlength=len(self.forces))


def dataset_of(queries: list[Query], weights: list[float] | None) -> Dataset:
    """One feature, the number of the row: a split can tell any two documents apart."""
    group = [len(query.labels) for query in queries]
    labels = np.concatenate([query.labels for query in queries])
    return Dataset.from_arrays(
        np.arange(len(labels), dtype=float)[:, None], labels, group=group, weights=weights
    )


def scores_of(queries: list[Query]) -> np.ndarray:
    return np.concatenate([query.scores for query in queries])


def lightgbm_leaves(queries, weights, also=None, **parameters) -> Leaves:
    """The parameters in our words, `also` in LightGBM's."""
    lgb = pytest.importorskip("lightgbm")
    documents = dataset_of(queries, weights)
    n = documents.n_documents
    given = {
        "objective": "lambdamart", "max_leaves": n, "min_samples_leaf": 0, "max_bins": 2 * n,
        "learning_rate": 1.0, **parameters,
    }  # fmt: skip
    settings = peer_settings("lightgbm", given, n_jobs=1) | {
        "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": SMALLEST_WEIGHT,
        "feature_pre_filter": False,
        **(also or {}),
    }
    data = peer_data("lightgbm", documents, settings, init_score=scores_of(queries))
    booster = lgb.Booster(settings, data)
    booster.update()
    nodes = [booster.dump_model()["tree_info"][0]["tree_structure"]]
    values, hessians = np.zeros(n), np.zeros(n)
    while nodes:
        node = nodes.pop()
        if "leaf_index" in node:
            values[node["leaf_index"]] = node["leaf_value"]
            hessians[node["leaf_index"]] = node["leaf_weight"]
        else:
            nodes += [node["left_child"], node["right_child"]]
    leaf = booster.predict(documents.features, pred_leaf=True).ravel().astype(int)
    return Leaves(leaf, values * hessians, hessians)


def table_sigmoid(sigma: float):
    """LightGBM's table of rho, as its `ConstructSigmoidTable` and `GetSigmoid` define it."""
    lowest, bins = -25.0 / sigma, 2**20
    factor = bins / (-2 * lowest)

    def rho(distance: float) -> float:
        at = int((min(max(distance, lowest), -lowest) - lowest) * factor)
        return 1 / (1 + math.exp(sigma * (min(at, bins - 1) / factor + lowest)))

    return rho


def naive(queries, weights, *, sigmoid=None, **options):
    parts = [
        forces_of_query(
            query.scores,
            query.labels,
            weight=1.0 if weights is None else weights[at],
            sigmoid=sigmoid,
            ties="stable",
            **options,
        )
        for at, query in enumerate(queries)
    ]
    return [np.concatenate([part[which] for part in parts]) for which in range(3)]


def ours(queries, weights, **parameters):
    data = dataset_of(queries, weights)
    forces, curvatures = np.empty(data.n_documents), np.empty(data.n_documents)
    # LightGBM ranks equal scores in the order of the rows.
    metric = replace(parse_metric(parameters.pop("metric", "ndcg")), ties="stable")
    objective = LambdaMART(metric=metric, **{"truncation": 30, **parameters})
    objective.prepare(data).compute(scores_of(queries), 0, forces, curvatures)
    return forces, curvatures


def assert_near(leaves, forces, curvatures, expected, tolerance):
    """Relative to the absolute forces, and to the curvatures, that the pairs of a leaf add up."""
    _, bends, sizes = expected
    assert np.all(
        np.abs(leaves.sums(forces) - leaves.forces) <= tolerance * leaves.sums(sizes) + TINY
    )
    assert np.all(
        np.abs(leaves.sums(curvatures) - leaves.curvatures) <= tolerance * leaves.sums(bends) + TINY
    )


WEIGHTS = [1.0, 2.0, 0.5, 0.125, 3.0, 0.25, 1.5, 1.0, 2.5]


@pytest.mark.parametrize("decimals", [0, 1, 15])
@pytest.mark.parametrize("sigma", [1.0, 2.0])
@pytest.mark.parametrize("truncation", [30, 5, 1, 1000])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("normalise", [True, False])
def test_forces_equal_lightgbm(normalise, weights, truncation, sigma, decimals):
    queries = random_queries(truncation + decimals, decimals)
    options = {"sigma": sigma, "truncation": truncation, "normalise": normalise}
    leaves = lightgbm_leaves(queries, weights, **options)
    tabled = naive(queries, weights, sigmoid=table_sigmoid(sigma), **options)
    assert_near(leaves, tabled[0], tabled[1], tabled, ROUNDING)
    exact = naive(queries, weights, **options)
    forces, curvatures = ours(queries, weights, **options)
    assert_near(leaves, forces, curvatures, exact, TABLE + ROUNDING)


def test_nearly_every_document_has_a_leaf_of_its_own():
    queries = random_queries(1, 15)
    leaves = lightgbm_leaves(queries, None)
    # All but those without a pair: the query of one document and the one of equal labels.
    n = sum(len(query.labels) for query in queries)
    assert len(np.unique(leaves.leaf)) >= 0.9 * n


def test_defaults_are_those_of_lightgbm():
    queries = random_queries(2, 15)
    leaves = lightgbm_leaves(queries, None)
    exact = naive(queries, None, truncation=30, normalise=True)
    assert_near(leaves, *ours(queries, None), exact, TABLE + ROUNDING)


def test_a_gain_table_equals_label_gain():
    gains = [0.0, 0.0, 2.0, 2.5, 11.0]
    queries = random_queries(3, 1)
    leaves = lightgbm_leaves(queries, None, {"label_gain": gains})
    exact = naive(queries, None, gain=table(*gains), truncation=30, normalise=True)
    forces, curvatures = ours(queries, None, metric=f"ndcg(gain={gains})")
    assert_near(leaves, forces, curvatures, exact, TABLE + ROUNDING)


def test_with_a_truncation_the_cut_off_of_the_metric_plays_no_role():
    queries = random_queries(4, 15)
    for metric in ("ndcg@3", "ndcg@1000"):
        assert np.array_equal(ours(queries, None, metric=metric), ours(queries, None))

"""A weighted mean over queries is a mean: weights never push it past 1."""

import numpy as np
import pytest

from rankgrove import evaluate
from rankgrove.metrics.spec import PRESETS

EMPTY = ["skip", "zero", "one"]
TIES = ["worst", "best", "stable", "expected"]

# Every metric whose largest value is 1.
BOUNDED = ["ndcg", "ndcg@5", "map", "map@2", "mrr", "err", "precision@3", "recall@3", "rbp",
           "pair_accuracy", "tau"]  # fmt: skip

# (weight of a query with relevant documents, weight of one without)
WEIGHTS = [(1.0, 1.0), (0.01, 100.0), (100.0, 0.01), (0.5, 0.0), (1e-300, 1e300)]


@pytest.fixture(params=["perfect", "random"])
def data(request):
    """40 queries of 1 to 8 documents, every second one without a relevant document."""
    rng = np.random.default_rng(11)
    group = rng.integers(1, 9, size=40)
    group[:2] = 1
    query = np.repeat(np.arange(40), group)
    labels = rng.integers(0, 5, size=len(query))
    labels[np.cumsum(group) - group] = 4
    labels[query % 2 == 1] = 0
    scores = labels if request.param == "perfect" else rng.integers(0, 4, size=len(query))
    ids = [f"d{row}" for row in range(len(query))]
    return {"data": labels, "scores": scores, "group": group, "document_ids": ids}


def query_weights(relevant, empty):
    return np.where(np.arange(40) % 2 == 0, relevant, empty)


def mean_of_values(row, weights):
    counted = ~np.isnan(row.values)
    return np.average(row.values[counted], weights=weights[counted])


@pytest.mark.parametrize("pair", WEIGHTS, ids=str)
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("ties", TIES)
def test_weights_never_push_a_mean_past_1(data, ties, empty, pair):
    weights = query_weights(*pair)
    specs = [f"{name}(ties={ties}, empty={empty})" for name in BOUNDED]
    for row in evaluate(**data, metrics=specs, weights=weights).results.values():
        assert row.mean <= 1.0, row.metric
        # The two sums differ in rounding only.
        assert row.mean == pytest.approx(mean_of_values(row, weights), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("pair", WEIGHTS, ids=str)
@pytest.mark.parametrize("preset", PRESETS)
def test_weights_never_push_a_mean_past_1_under_a_preset(data, preset, pair):
    weights = query_weights(*pair)
    names = [name for name in PRESETS[preset] if name not in ("dcg", "err")]
    specs = [name + "@3" * (name in ("ndcg", "map", "precision", "recall")) for name in names]
    for row in evaluate(**data, metrics=specs, weights=weights, preset=preset).results.values():
        assert row.mean <= 1.0, row.metric
        # The two sums differ in rounding only.
        assert row.mean == pytest.approx(mean_of_values(row, weights), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("empty", EMPTY)
def test_an_empty_query_counts_by_its_weight(empty):
    result = evaluate(
        [1, 0, 0, 0], [0, 1, 0, 1], f"ndcg(empty={empty})", group=[2, 2], weights=[1, 3]
    )
    first = 1 / np.log2(3)
    expected = {"skip": first, "zero": first / 4, "one": (first + 3) / 4}[empty]
    # One division and one sum of two terms.
    assert list(result.values()) == pytest.approx([expected], rel=1e-15)


def test_weight_2_is_the_query_twice():
    labels, scores = [1, 0, 2, 0, 1, 0], [1, 2, 3, 3, 0, 1]
    weighted = evaluate(labels, scores, BOUNDED[:9], group=[3, 3], weights=[2, 1])
    twice = evaluate(labels[:3] + labels, scores[:3] + scores, BOUNDED[:9], group=[3, 3, 3])
    # A sum of three terms against one of two.
    assert dict(weighted) == pytest.approx(dict(twice), rel=1e-15)

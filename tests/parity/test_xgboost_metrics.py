"""The preset `xgboost` gives XGBoost's own numbers for scores in float32."""

import numpy as np
import pytest

from rankgrove import evaluate

# XGBoost ranks float32 scores, sums in float64 and prints 17 digits, so what remains is the
# order of sums of up to 3000 terms: less than 3000 * 2^-52 for a value in [0, 1].
TOLERANCE = 1e-12

CUTOFFS = (1, 3, 10, 35, 5000)


def at_cutoffs(*metrics):
    return [f"{metric}@{k}" for metric in metrics for k in CUTOFFS]


def ours(case, names, weighted=False):
    weights = case.weights if weighted else None
    result = evaluate(
        case.labels, case.scores, names, group=case.group, weights=weights, preset="xgboost"
    )
    return list(result.values())


def test_ndcg_equals_xgboost(case, xgboost_mean):
    case = case.single_precision()
    names = ["ndcg", *at_cutoffs("ndcg")]
    assert ours(case, names) == pytest.approx(xgboost_mean(case, names), rel=0, abs=TOLERANCE)


def test_each_query_equals_xgboost(case, xgboost_mean):
    case = case.single_precision().binary()
    names = ["ndcg", "map", *at_cutoffs("ndcg", "map")]
    result = evaluate(case.labels, case.scores, names, group=case.group, preset="xgboost")
    for at, query in enumerate(case.queries()):
        values = [row.values[at] for row in result.results.values()]
        assert values == pytest.approx(xgboost_mean(query, names), rel=0, abs=TOLERANCE)


def test_linear_gain_is_xgboost_without_exponential_gain(case, xgboost_mean):
    case = case.single_precision()
    names = at_cutoffs("ndcg")
    expected = xgboost_mean(case, names, ndcg_exp_gain=False)
    assert ours(case, [f"{name}(gain=linear)" for name in names]) == pytest.approx(
        expected, rel=0, abs=TOLERANCE
    )


def test_map_equals_xgboost(case, xgboost_mean):
    case = case.single_precision().binary()
    names = ["map", *at_cutoffs("map")]
    assert ours(case, names) == pytest.approx(xgboost_mean(case, names), rel=0, abs=TOLERANCE)


def test_empty_zero_is_the_minus_of_xgboost(case, xgboost_mean):
    case = case.single_precision().binary()
    names = at_cutoffs("ndcg", "map")
    expected = xgboost_mean(case, names, empty="zero")
    assert ours(case, [f"{name}(empty=zero)" for name in names]) == pytest.approx(
        expected, rel=0, abs=TOLERANCE
    )


@pytest.mark.parametrize("k", [1, 3, 10, 32])
def test_precision_equals_xgboost_for_queries_of_k_documents_or_more(case, xgboost_mean, k):
    case = case.single_precision().binary()
    case = case.take(case.group >= k)
    name = "precision" if k == 32 else f"precision@{k}"
    assert ours(case, [name]) == pytest.approx(xgboost_mean(case, [name]), rel=0, abs=TOLERANCE)


@pytest.mark.parametrize("k", CUTOFFS)
def test_xgboost_divides_precision_by_the_documents_of_a_shorter_query(case, xgboost_mean, k):
    case = case.single_precision().binary()
    name = f"precision@{k}"
    assert ours(case, [name]) == pytest.approx(xgboost_mean(case, [name]), rel=0, abs=TOLERANCE)


def test_weighted_metrics_equal_xgboost(case, xgboost_mean):
    case = case.single_precision().binary()
    names = ["precision@1", *at_cutoffs("map")]
    expected = xgboost_mean(case, names, weighted=True)
    assert ours(case, names, weighted=True) == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_weighted_ndcg_with_empty_zero_equals_xgboost(case, xgboost_mean):
    case = case.single_precision()
    names = at_cutoffs("ndcg")
    expected = xgboost_mean(case, names, weighted=True, empty="zero")
    weighted = ours(case, [f"{name}(empty=zero)" for name in names], weighted=True)
    assert weighted == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_weighted_ndcg_equals_xgboost_where_each_query_has_a_relevant_document(case, xgboost_mean):
    # XGBoost counts a query without one by 1 and not by its weight: no policy of a mean.
    case = case.single_precision()
    case = case.take(case.has_relevant)
    names = at_cutoffs("ndcg")
    expected = xgboost_mean(case, names, weighted=True)
    assert ours(case, names, weighted=True) == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_xgboost_without_a_cutoff_stops_at_rank_32(make, xgboost_mean):
    names = ["ndcg", "map", "precision"]
    for rank in (32, 33):
        labels = np.zeros(40)
        labels[rank - 1] = 1
        case = make(labels, -np.arange(40), [40])
        assert ours(case, names) == pytest.approx(xgboost_mean(case, names), rel=0, abs=TOLERANCE)
        assert all(value > 0 for value in ours(case, names)) == (rank == 32)


def test_xgboost_ties_scores_that_are_equal_in_float32(make, xgboost_mean):
    case = make([0, 1], [1.0, 1.0 + 1e-9], [2])
    assert ours(case, ["ndcg@1"]) == [1.0]
    assert ours(case.single_precision(), ["ndcg@1"]) == xgboost_mean(case, ["ndcg@1"]) == [0.0]

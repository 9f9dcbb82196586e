"""The preset `lightgbm` gives LightGBM's own numbers."""

import pytest

from rankgrove import evaluate

# Both sides compute in float64. Only the order of sums of up to 3000 terms differs, which
# moves a value in [0, 1] by less than 3000 * 2^-52.
TOLERANCE = 1e-12

CUTOFFS = (1, 3, 10, 35, 5000)
NAMES = [f"{metric}@{k}" for metric in ("ndcg", "map") for k in CUTOFFS]


def ours(case, names, weighted=False):
    weights = case.weights if weighted else None
    result = evaluate(
        case.labels, case.scores, names, group=case.group, weights=weights, preset="lightgbm"
    )
    return list(result.values())


def test_ndcg_and_map_equal_lightgbm(case, lightgbm_mean):
    assert ours(case, NAMES) == pytest.approx(lightgbm_mean(case, NAMES), rel=0, abs=TOLERANCE)


def test_each_query_equals_lightgbm(case, lightgbm_mean):
    result = evaluate(case.labels, case.scores, NAMES, group=case.group, preset="lightgbm")
    for at, query in enumerate(case.queries()):
        values = [row.values[at] for row in result.results.values()]
        assert values == pytest.approx(lightgbm_mean(query, NAMES), rel=0, abs=TOLERANCE)


def test_a_gain_table_equals_label_gain(case, lightgbm_mean):
    gains = [0, 0, 2, 2.5, 11]
    names = [f"ndcg@{k}" for k in CUTOFFS]
    expected = lightgbm_mean(case, names, label_gain=gains)
    assert ours(case, [f"{name}(gain={gains})" for name in names]) == pytest.approx(
        expected, rel=0, abs=TOLERANCE
    )


def test_weighted_map_equals_lightgbm(case, lightgbm_mean):
    names = [f"map@{k}" for k in CUTOFFS]
    expected = lightgbm_mean(case, names, weighted=True)
    assert ours(case, names, weighted=True) == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_weighted_ndcg_equals_lightgbm_where_each_query_has_a_relevant_document(
    case, lightgbm_mean
):
    # LightGBM counts a query without one by 1 and not by its weight: no policy of a mean.
    case = case.take(case.has_relevant)
    names = [f"ndcg@{k}" for k in CUTOFFS]
    expected = lightgbm_mean(case, names, weighted=True)
    assert ours(case, names, weighted=True) == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_lightgbm_calls_a_label_above_one_half_relevant(make, lightgbm_mean):
    case = make([0.0, 0.5, 0.625, 1.0], [4, 3, 2, 1], [4])
    expected = lightgbm_mean(case, ["map@4"])
    assert ours(case, ["map@4(relevant>=0.625)"]) == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_lightgbm_ranks_by_float64_scores(make, lightgbm_mean):
    case = make([0, 1], [1.0, 1.0 + 1e-15], [2])
    assert ours(case, ["ndcg@1"]) == lightgbm_mean(case, ["ndcg@1"]) == [1.0]

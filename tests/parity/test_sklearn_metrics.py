"""The preset `sklearn` gives scikit-learn's own numbers; its and SciPy's relatives of ours."""

import numpy as np
import pytest

from rankgrove import evaluate

# All sides compute in float64. Only the order of sums of up to 3000 terms differs: less than
# 3000 * 2^-52 of a value.
TOLERANCE = 1e-12

CUTOFFS = (None, 1, 3, 10, 35, 5000)


def close(expected):
    return pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


def at(metric, k):
    return metric if k is None else f"{metric}@{k}"


def several_documents(case):
    """scikit-learn refuses queries of one document."""
    return case.take(case.group > 1)


def several_labels(case):
    """Queries with at least one pair; without, scikit-learn and SciPy give NaN."""
    return case.take([len(np.unique(query.labels)) > 1 for query in case.queries()])


def per_query(case, name, **options):
    result = evaluate(case.labels, case.scores, name, group=case.group, **options)
    (row,) = result.results.values()
    return row.values


@pytest.mark.parametrize("metric", ["ndcg", "dcg"])
def test_ndcg_and_dcg_equal_sklearn(case, metric):
    peer = getattr(pytest.importorskip("sklearn.metrics"), f"{metric}_score")
    case = several_documents(case)
    for k in CUTOFFS:
        expected = [peer([query.labels], [query.scores], k=k) for query in case.queries()]
        assert per_query(case, at(metric, k), preset="sklearn") == close(expected)


def test_the_mean_over_queries_equals_sklearn():
    peer = pytest.importorskip("sklearn.metrics").ndcg_score
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 5, (40, 25)), np.round(rng.normal(size=(40, 25)), 1)
    labels[:5] = 0
    weights = rng.random(40)
    result = evaluate(
        labels.ravel(), scores.ravel(), "ndcg@10", group=[25] * 40, weights=weights,
        preset="sklearn",
    )  # fmt: skip
    assert list(result.values()) == close([peer(labels, scores, k=10, sample_weight=weights)])


def test_map_without_ties_is_label_ranking_average_precision(case):
    # With ties scikit-learn counts all tied documents above each other: no order does that.
    peer = pytest.importorskip("sklearn.metrics").label_ranking_average_precision_score
    case = case.binary().without_ties()
    expected = [peer([query.labels], [query.scores]) for query in case.queries()]
    assert per_query(case, "map(empty=one)") == close(expected)


def test_map_without_ties_is_average_precision(case):
    peer = pytest.importorskip("sklearn.metrics").average_precision_score
    case = case.take(case.has_relevant).binary().without_ties()
    expected = [peer(query.labels, query.scores) for query in case.queries()]
    assert per_query(case, "map") == close(expected)


def test_pair_accuracy_of_binary_labels_with_expected_ties_is_the_area_under_the_curve(case):
    peer = pytest.importorskip("sklearn.metrics").roc_auc_score
    case = several_labels(case.binary())
    expected = [peer(query.labels, query.scores) for query in case.queries()]
    assert per_query(case, "pair_accuracy(ties=expected)") == close(expected)


def test_pair_accuracy_with_expected_ties_is_somers_d(case):
    # Somers' D is (concordant - discordant) / (pairs with different labels); SciPy gives NaN
    # where all scores are equal.
    peer = pytest.importorskip("scipy.stats").somersd
    case = several_labels(case)
    case = case.take([len(np.unique(query.scores)) > 1 for query in case.queries()])
    expected = [peer(query.labels, query.scores).statistic for query in case.queries()]
    assert 2 * per_query(case, "pair_accuracy(ties=expected)") - 1 == close(expected)


def test_tau_without_ties_is_kendalltau(case):
    peer = pytest.importorskip("scipy.stats").kendalltau
    case = several_labels(case).without_ties()
    expected = [peer(query.labels, query.scores).statistic for query in case.queries()]
    for ties in ("worst", "best", "stable", "expected"):
        assert per_query(case, f"tau(ties={ties})") == close(expected)


def test_tau_with_expected_ties_is_kendalltau_over_all_pairs(case):
    # tau-b divides by the pairs that differ in score, tau here by all pairs.
    peer = pytest.importorskip("scipy.stats").kendalltau
    case = several_labels(case)
    expected = []
    for query in case.queries():
        n = len(query.scores)
        _, counts = np.unique(query.scores, return_counts=True)
        differ = n * (n - 1) / 2 - (counts * (counts - 1) / 2).sum()
        tau = peer(query.labels, query.scores).statistic if differ else 0.0
        expected.append(tau * np.sqrt(differ / (n * (n - 1) / 2)))
    assert per_query(case, "tau(ties=expected)") == close(expected)

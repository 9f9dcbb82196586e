"""The preset `catboost` gives CatBoost's own numbers."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from rankgrove import evaluate

# Both sides compute in float64 from float32 labels. Only the order of sums of up to 3000 terms
# differs: less than 3000 * 2^-52 of a value.
TOLERANCE = 1e-12

CUTOFFS = (1, 3, 10, 35, 5000)
WEIGHTED = ["ndcg", "dcg", "mrr"]
UNWEIGHTED = ["map", "recall@1", "recall@3", "recall@35"]


def at_cutoffs(*metrics):
    return [f"{metric}@{k}" for metric in metrics for k in CUTOFFS]


def measure(case, names, weighted=False, preset="catboost"):
    weights = case.weights if weighted else None
    return evaluate(
        case.labels, case.scores, names, group=case.group, weights=weights, preset=preset
    )


def close(expected):
    return pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


def with_chances(case):
    """Labels from 0 to 1: CatBoost takes the label itself as ERR's chance to stop."""
    return replace(case, labels=case.labels / case.labels.max())


NAMES = ["ndcg", "dcg", "map", "mrr", *at_cutoffs("ndcg", "dcg", "map", "mrr", "recall")]


def test_metrics_equal_catboost(case, catboost_mean):
    assert list(measure(case, NAMES).values()) == close(catboost_mean(case, NAMES))


def test_each_query_equals_catboost(case, catboost_mean):
    names = ["ndcg", "dcg@3", "map", "map@3", "mrr", "recall@3", "recall@35"]
    result = measure(case, names)
    for at, query in enumerate(case.queries()):
        values = [row.values[at] for row in result.results.values()]
        assert values == close(catboost_mean(query, names))


def test_exponential_gain_is_type_exp_of_catboost(case, catboost_mean):
    names = ["ndcg", "dcg", *at_cutoffs("ndcg", "dcg")]
    result = measure(case, [f"{name}(gain=exponential)" for name in names])
    assert list(result.values()) == close(catboost_mean(case, names, type="Exp"))


def test_err_equals_catboost(case, catboost_mean):
    case = with_chances(case)
    names = ["err", *at_cutoffs("err")]
    assert list(measure(case, names).values()) == close(catboost_mean(case, names))
    weighted = measure(case, names, weighted=True)
    assert list(weighted.values()) == close(catboost_mean(case, names, weighted=True))


@pytest.mark.parametrize("k", [1, 3, 10, 35])
def test_precision_equals_catboost_for_queries_of_k_documents_or_more(case, catboost_mean, k):
    case = case.take(case.group >= k)
    name = f"precision@{k}"
    assert list(measure(case, name).values()) == close(catboost_mean(case, [name]))


@pytest.mark.parametrize("k", CUTOFFS)
def test_catboost_divides_precision_by_the_documents_of_a_shorter_query(case, catboost_mean, k):
    name = f"precision@{k}"
    assert list(measure(case, name).values()) == close(catboost_mean(case, [name]))


def test_weighted_metrics_equal_catboost(case, catboost_mean):
    names = [*WEIGHTED, *at_cutoffs(*WEIGHTED)]
    result = measure(case, names, weighted=True)
    assert list(result.values()) == close(catboost_mean(case, names, weighted=True))


def test_catboost_leaves_weights_out_of_map_precision_and_recall(case, catboost_mean):
    names = [*UNWEIGHTED, "precision@1"]
    assert list(measure(case, names).values()) == close(catboost_mean(case, names, weighted=True))


def test_a_threshold_is_the_border_of_catboost(case, catboost_mean):
    names = ["map", "map@3", "mrr", "recall@3"]
    result = measure(case, [f"{name}(relevant>=2)" for name in names])
    assert list(result.values()) == close(catboost_mean(case, names, border=1.5))


def test_pair_accuracy_with_expected_ties_is_the_ranking_query_auc(case, catboost_mean):
    result = measure(case, "pair_accuracy(ties=expected, empty=zero)", preset=None)
    expected = catboost_mean(case, ["pair_accuracy"], type="Ranking")
    assert list(result.values()) == close(expected)


def test_pair_accuracy_weighted_by_pairs_is_pair_accuracy_of_catboost(case):
    # CatBoost pools the pairs of all queries: the mean over queries with their pairs as weights.
    utils = pytest.importorskip("catboost.utils")
    case = case.take((case.group < 100) & case.has_relevant)
    pairs, counts = [], []
    for first, size in zip(np.cumsum(case.group) - case.group, case.group, strict=True):
        known = len(pairs)
        for i, j in combinations(range(first, first + size), 2):
            if case.labels[i] != case.labels[j]:
                pairs.append((i, j) if case.labels[i] > case.labels[j] else (j, i))
        counts.append(len(pairs) - known)
    expected = utils.eval_metric(
        case.labels, case.scores, "PairAccuracy", group_id=case.qid, pairs=np.array(pairs)
    )
    result = evaluate(
        case.labels, case.scores, "pair_accuracy(ties=worst)", group=case.group, weights=counts
    )
    assert list(result.values()) == close(expected)


def test_catboost_ranks_by_float64_scores(make, catboost_mean):
    case = make([0, 1], [1.0, 1.0 + 1e-15], [2])
    assert list(measure(case, "ndcg@1").values()) == catboost_mean(case, ["ndcg@1"]) == [1.0]

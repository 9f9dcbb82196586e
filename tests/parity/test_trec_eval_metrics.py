"""The preset `trec_eval` gives trec_eval's own numbers for scores in float32, query by query."""

import numpy as np
import pytest

from rankgrove import evaluate

# trec_eval ranks float32 scores and sums in float64. Only the order of sums of up to 3000
# terms differs: less than 3000 * 2^-52 for a value in [0, 1].
TOLERANCE = 1e-12

CUTOFFS = (1, 3, 10, 35, 5000)
NAMES = [
    "map",
    "mrr",
    "ndcg",
    *(f"{metric}@{k}" for metric in ("map", "ndcg", "precision", "recall") for k in CUTOFFS),
]


def measure(case, names=NAMES):
    return evaluate(
        case.labels,
        case.scores,
        names,
        group=case.group,
        document_ids=case.document_ids,
        preset="trec_eval",
    )


def per_query(result):
    return np.column_stack([row.values for row in result.results.values()])


def test_each_query_and_the_mean_equal_trec_eval(case, trec_eval_values):
    result = measure(case.single_precision())
    expected = trec_eval_values(case, NAMES)
    np.testing.assert_allclose(per_query(result), expected, rtol=0, atol=TOLERANCE)
    assert list(result.values()) == pytest.approx(expected.mean(axis=0), rel=0, abs=TOLERANCE)


def test_a_threshold_is_the_relevance_level_of_trec_eval(case, trec_eval_values):
    names = [name for name in NAMES if not name.startswith("ndcg")]
    result = measure(case.single_precision(), [f"{name}(relevant>=2)" for name in names])
    expected = trec_eval_values(case, names, relevance_level=2)
    np.testing.assert_allclose(per_query(result), expected, rtol=0, atol=TOLERANCE)


def test_the_relevance_level_leaves_the_gains_of_ndcg_alone(case, trec_eval_values):
    names = ["ndcg", "ndcg@3"]
    result = measure(case.single_precision(), names)
    expected = trec_eval_values(case, names, relevance_level=2)
    np.testing.assert_allclose(per_query(result), expected, rtol=0, atol=TOLERANCE)


def test_trec_eval_ranks_the_larger_document_id_first_as_text(make, trec_eval_values):
    # "d9" stands above "d10": text, not numbers.
    labels = np.zeros(11)
    labels[9] = 1
    case = make(labels, np.ones(11), [11])
    (expected,) = trec_eval_values(case, ["mrr"])[0]
    assert measure(case, ["mrr"])["mrr(ties=document_id, empty=zero)"] == expected == 1.0


def test_trec_eval_ties_scores_that_are_equal_in_float32(make, trec_eval_values):
    # Of the tie, "d1" is first by its id.
    case = make([1, 0], [1.0 + 1e-9, 1.0], [2])
    assert list(measure(case, ["mrr"]).values()) == [1.0]
    assert list(measure(case.single_precision(), ["mrr"]).values()) == [0.5]
    assert trec_eval_values(case, ["mrr"]).tolist() == [[0.5]]

"""`evaluate`: the table, its inputs and what it refuses."""

import json
import math

import numpy as np
import pytest

from rankgrove import Dataset, evaluate
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics import average, cascade, discounted, pairs, ties
from rankgrove.metrics.spec import METRICS

LABELS = [2, 0, 1, 0, 1, 0]
SCORES = [0.9, 0.8, 0.1, 0.5, 0.6, 0.5]
QID = ["a", "a", "a", "b", "b", "b"]


def test_mean_per_query_and_error_agree():
    table = evaluate(LABELS, SCORES, "mrr", qid=QID)
    values = table.per_query("mrr")
    assert values.tolist() == [1.0, 1.0]
    assert table["mrr"] == values.mean()
    scores = [0.1, 0.8, 0.9, 0.5, 0.6, 0.7]
    result = evaluate(LABELS, scores, "map", qid=QID).results["map"]
    spread = result.values.std(ddof=1) / math.sqrt(2)
    assert result.standard_error == pytest.approx(spread, rel=1e-12)
    assert (result.counted, result.skipped) == (2, 0)


def test_standard_error_of_weighted_queries_is_that_of_the_weighted_mean():
    rng = np.random.default_rng(0)
    n_queries = 400
    labels, scores = rng.integers(0, 3, 10 * n_queries), rng.normal(size=10 * n_queries)
    weights = rng.integers(0, 4, n_queries).astype(float)
    group = np.full(n_queries, 10)
    result = evaluate(labels, scores, "ndcg@5", group=group, weights=weights).results["ndcg@5"]
    resampled = []
    for _ in range(400):
        chosen = rng.integers(0, n_queries, n_queries)
        chosen = chosen[~np.isnan(result.values[chosen])]
        resampled.append(np.average(result.values[chosen], weights=weights[chosen]))
    assert result.standard_error == pytest.approx(np.std(resampled), rel=0.2)


def test_dataset_brings_its_queries_weights_and_document_ids():
    features = np.zeros((6, 1))
    data = Dataset.from_arrays(
        features, LABELS, qid=QID, weights=[1, 3], document_ids=list("uvwxyz")
    )
    by_hand = evaluate(LABELS, SCORES, "ndcg@2", qid=QID, weights=[1, 3])
    assert evaluate(data, SCORES, "ndcg@2") == by_hand
    tied = evaluate(data, np.zeros(6), "mrr(ties=document_id)")
    # Descending ids: w, v, u and z, y, x; the relevant ones are u and w, then y.
    assert tied.per_query("mrr(ties=document_id)").tolist() == [1.0, 0.5]


def test_rows_of_a_query_may_be_brought_together():
    order = [0, 3, 1, 4, 2, 5]
    labels, scores = np.array(LABELS)[order], np.array(SCORES)[order]
    qid = np.array(QID)[order]
    with pytest.raises(DataError, match="query 'a' is split"):
        evaluate(labels, scores, "map", qid=qid)
    grouped = evaluate(labels, scores, "map", qid=qid, split_queries="group")
    assert grouped == evaluate(LABELS, SCORES, "map", qid=QID)


def test_empty_queries_are_skipped_by_default_and_counted_on_request():
    labels, scores, group = [1, 0, 0, 0], [0.2, 0.9, 0.5, 0.4], [2, 2]
    skip = evaluate(labels, scores, "mrr", group=group)
    assert skip["mrr"] == 0.5
    assert (skip.results["mrr"].counted, skip.results["mrr"].skipped) == (1, 1)
    table = evaluate(labels, scores, ["mrr(empty=zero)", "mrr(empty=one)"], group=group)
    assert list(table.values()) == [0.25, 0.75]


def test_nothing_but_empty_queries_is_an_error_not_nan():
    with pytest.raises(DataError, match="all 2 have no relevant document"):
        evaluate([0, 0], [1, 2], "ndcg@10", group=[1, 1])


def test_table_prints_and_becomes_json():
    table = evaluate([1, 0], [1, 2], ["mrr", "ndcg@10"], group=[2])
    assert "mrr      0.5000          -        1        0" in str(table)
    assert "ndcg@10=0.6309" in repr(table)
    assert json.loads(json.dumps(table.to_dict()))["mrr"]["standard_error"] is None


def test_infinite_scores_rank_first_and_last():
    labels, scores = [1, 0, 0], [-np.inf, 0.0, np.inf]
    assert evaluate(labels, scores, "mrr", group=[3])["mrr"] == pytest.approx(1 / 3)


def test_negative_zero_ties_with_zero():
    assert evaluate([1, 0], [0.0, -0.0], "mrr", group=[2])["mrr"] == 0.5


def test_float32_scores_keep_their_ties():
    scores = np.array([0.1, 0.1], dtype=np.float32)
    assert evaluate([1, 0], scores, "mrr", group=[2])["mrr"] == 0.5


@pytest.mark.parametrize(
    ("labels", "scores", "options", "message"),
    [
        ([1, 0], [1.0], {"group": [2]}, "scores must be one per document, 2"),
        ([1, 0], [1.0, np.nan], {"group": [2]}, "NaN at row 1"),
        ([1, 0], ["a", "b"], {"group": [2]}, "scores must be numbers"),
        ([1, np.nan], [1.0, 2.0], {"group": [2]}, "every label must be finite. Got nan at row 1"),
        ([1, np.inf], [1.0, 2.0], {"group": [2]}, "every label must be finite. Got inf at row 1"),
        ([], [], {"group": []}, "at least one entry"),
        ([1, 0], [1.0, 2.0], {}, "exactly one of qid"),
        ([1, 0], [1.0, 2.0], {"group": [3]}, "add up to the number of rows, 2. Got 3"),
        ([1, 0], [1.0, 2.0], {"group": [2], "weights": [1, 2]}, "weights must be one per query, 1"),
        ([1, 0], [1.0, 2.0], {"group": [2], "weights": [-1]}, "finite and 0 or more"),
        ([1, 0], [1.0, 2.0], {"group": [2], "weights": [0]}, "weight above 0"),
        ([1, 0], [1.0, 2.0], {"group": [2], "document_ids": ["a"]}, "ids must be one per document"),
        ([1, -1], [1.0, 2.0], {"group": [2]}, "labels must be 0 or more for ndcg@10. Got -1"),
    ],
)
def test_bad_input_gets_one_clear_error(labels, scores, options, message):
    with pytest.raises(DataError, match=message):
        evaluate(labels, scores, "ndcg@10", **options)


@pytest.mark.parametrize(
    ("spec", "labels", "message"),
    [
        ("ndcg", [5000, 0], "at most 1000 for the exponential gain"),
        ("ndcg(gain=[0, 1])", [2, 0], "whole numbers below 2"),
        ("ndcg(gain=[0, 1])", [0.5, 0], "Got fractions"),
        ("err", [5, 0], r"at most 4 for err. Got 5: write err\(\(2\^r-1\)/2\^5\)"),
        ("err(r/1)", [4, 0], r"write err\(r/4\)"),
        ("mrr(ties=document_id)", [1, 0], "must have document ids"),
    ],
)
def test_labels_that_a_metric_cannot_take_are_refused_with_what_to_do(spec, labels, message):
    with pytest.raises(DataError, match=message):
        evaluate(labels, [1.0, 2.0], spec, group=[2])


def test_dataset_with_qid_is_refused():
    data = Dataset.from_arrays(np.zeros((2, 1)), [0, 1], group=[2])
    with pytest.raises(DataError, match="must not be given with a Dataset"):
        evaluate(data, [1, 2], qid=[1, 1])


def test_bad_n_jobs_is_refused():
    with pytest.raises(ParameterError, match="n_jobs must be"):
        evaluate([1, 0], [1, 2], "mrr", group=[2], n_jobs=0)


def test_31_grades_and_10000_documents_are_no_limit():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 200, 20_000)
    table = evaluate(labels, labels, ["ndcg@10", "ndcg", "map", "tau"], group=[20_000])
    assert table["ndcg@10"] == table["ndcg"] == pytest.approx(1.0)


def test_each_kernel_has_one_signature():
    """Whatever types come in, wrappers normalise them: a second signature costs a compilation."""
    rng = np.random.default_rng(2)
    read_only = np.array([2, 0, 1, 0], dtype=np.float32)
    read_only.flags.writeable = False
    for labels in (read_only, [2, 0, 1, 0], np.array([2, 0, 1, 0])[::1], np.arange(8)[::2] // 2):
        for scores in (rng.normal(size=4), rng.normal(size=8)[::2].astype(np.float32)):
            for policy in ("worst", "expected"):
                specs = [
                    f"{name}{'@2' if metric.has_cutoff else ''}(ties={policy})"
                    for name, metric in METRICS.items()
                ]
                evaluate(labels, scores, specs, group=[3, 1])
        for metric in METRICS.values():
            metric(k=2 if metric.has_cutoff else None).swap_deltas(labels)
    for module in (average, cascade, discounted, pairs, ties):
        # Those with an underscore are called by kernels only, which know constants apart.
        kernels = {
            name: value
            for name, value in vars(module).items()
            if hasattr(value, "signatures") and not name.startswith("_")
        }
        assert kernels
        assert all(len(kernel.signatures) <= 1 for kernel in kernels.values()), kernels

"""Metrics that are prepared once for many scores: the bits of `evaluate`, label work done once."""

import importlib

import numpy as np
import pytest

from rankgrove import evaluate, make_web_search, parse_metric
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.metrics import base
from rankgrove.metrics.evaluate import prepare_metrics

# (The package has a function of the module's name.)
MEASURING = importlib.import_module("rankgrove.metrics.evaluate")

METRICS = [
    "ndcg@10", "ndcg", "ndcg@5(ties=expected)", "dcg@3(ties=stable)", "expdcg", "map", "mrr@5",
    "err(ties=best)", "precision@4", "recall@7(empty=one)", "rbp", "pair_accuracy", "tau",
    "ndcg@10(ties=document_id)",
]  # fmt: skip


def make_data(weighted):
    data = make_web_search(30, 16, mean_documents=20, seed=3)
    ids = np.array([f"d{row % 17}" for row in range(data.n_documents)])
    weights = np.random.default_rng(1).uniform(0.5, 2, data.n_queries) if weighted else None
    return Dataset.from_arrays(
        data.features, data.labels, group=data.group, weights=weights, document_ids=ids
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_evaluate_to_the_bit_for_scores_one_after_the_other(weighted):
    data = make_data(weighted)
    metrics = [parse_metric(name) for name in METRICS]
    prepared = prepare_metrics(data, metrics, n_jobs=1)
    rng = np.random.default_rng(2)
    # Few different scores, so that ties count, and then many.
    for scores in (rng.integers(0, 4, data.n_documents), rng.normal(size=data.n_documents)):
        found = evaluate(data, scores, metrics)
        assert prepared(scores) == [found[str(metric)] for metric in metrics]
    for metric in metrics:
        alone = prepare_metrics(data, [metric])
        assert alone(scores) == [evaluate(data, scores, metric)[str(metric)]]


def test_labels_are_ranked_once_however_many_scores_come(monkeypatch):
    ranked = []
    rank = base.Rankings._rank
    monkeypatch.setattr(
        base.Rankings, "_rank", lambda self, *key: ranked.append(key[0]) or rank(self, *key)
    )
    data = make_data(False)
    prepared = prepare_metrics(data, [parse_metric("ndcg@10")])
    for seed in range(3):
        prepared(np.random.default_rng(seed).normal(size=data.n_documents))
    assert ranked.count("ideal") == 1
    assert ranked.count("worst") == 4


def test_a_function_may_leave_queries_out_for_their_scores():
    data = make_data(True)

    def grade_at_the_top(labels):
        return labels[0] or np.nan

    rng = np.random.default_rng(4)
    metrics = [parse_metric(grade_at_the_top), parse_metric("map")]
    prepared = prepare_metrics(data, metrics, n_jobs=1)
    for scores in (rng.normal(size=data.n_documents) for _ in range(3)):
        found = evaluate(data, scores, metrics)
        assert found.results["custom(grade_at_the_top)"].skipped > 0
        assert prepared(scores) == list(found.values())


def test_only_values_depend_on_scores_so_that_one_sum_is_exchanged(monkeypatch):
    columns = []
    exact = MEASURING.exact_sums
    monkeypatch.setattr(
        MEASURING, "exact_sums", lambda *args: columns.append(len(args[0])) or exact(*args)
    )
    data = make_data(True)
    prepared = prepare_metrics(data, [parse_metric(name) for name in METRICS])
    columns.clear()
    prepared(np.arange(data.n_documents))
    assert columns == [len(METRICS)]


@pytest.mark.parametrize(
    ("labels", "metric", "problem"),
    [
        ([0, -1], "ndcg", "labels must be 0 or more for ndcg"),
        ([0, 0], "ndcg", "ndcg must have at least one query to average"),
        ([0, 1], "ndcg(ties=document_id)", "must have document ids"),
    ],
)
def test_data_that_cannot_be_measured_are_refused_before_any_scores_come(labels, metric, problem):
    data = Dataset.from_arrays(np.zeros((2, 1)), labels, group=[2])
    with pytest.raises(DataError, match=problem):
        prepare_metrics(data, [parse_metric(metric)])


def test_scores_are_checked_each_time():
    data = make_data(False)
    prepared = prepare_metrics(data, [parse_metric("map")])
    with pytest.raises(DataError, match="scores must be one"):
        prepared([1.0])
    with pytest.raises(DataError, match="must not be NaN"):
        prepared(np.full(data.n_documents, np.nan))

"""Sums of metrics, and metrics of further labels: names, values and refusals."""

import numpy as np
import pytest

from rankgrove import Dataset, evaluate, make_web_search, parse_metric
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.evaluate import measure_dataset, prepare_metrics
from rankgrove.metrics.sums import MetricSum, OfLabel

SPELLINGS = {
    "ndcg@10 + 0.3*map": {"ndcg@10": 1, "map": 0.3},
    "2*ndcg@10": {"NDCG @ 10": 2},
    "err(r/4) + 0.5*map(relevant>=2) of clicks": {
        "err(r/4)": 1.0,
        "map( relevant>=2 )  OF clicks": 0.5,
    },
    "ndcg@10(ties=expected) of paid clicks": {"ndcg@10(ties=expected) of paid clicks": 1},
}


@pytest.mark.parametrize(("name", "mapping"), SPELLINGS.items())
def test_a_mapping_and_its_name_are_the_same_metric_and_the_name_parses_back(name, mapping):
    metric = parse_metric(mapping)
    assert str(metric) == name
    assert parse_metric(name) == metric == parse_metric(str(metric))
    assert hash(parse_metric(name)) == hash(metric)


def test_one_metric_that_counts_1_is_itself():
    assert parse_metric({"ndcg@10": 1}) == parse_metric("1 * ndcg@10") == parse_metric("ndcg@10")


def test_a_sum_within_a_sum_is_its_parts_with_the_product_of_weights():
    assert str(parse_metric({"ndcg + 0.5*map": 2, "mrr": 1})) == "2*ndcg + map + mrr"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"map": 1, "MAP": 2}, "name each once. Got map twice"),
        ("map + 2*map", "name each once. Got map twice"),
        ({"map": 0}, "a finite number above 0. Got 0"),
        ({"map": -1.0}, "a finite number above 0. Got -1.0"),
        ({"map": float("nan")}, "a finite number above 0. Got nan"),
        ({"map": float("inf")}, "a finite number above 0. Got inf"),
        ({"map": "1"}, "a finite number above 0. Got '1'"),
        ({"map": True}, "a finite number above 0. Got True"),
        ({"mapp": 1}, "did you mean 'map'"),
        ("ndcg + mapp", "did you mean 'map'"),
        ("a*map", "must be a number. Got 'a'"),
        ("+ map", "must be named like"),
        ({}, "name at least one"),
    ],
)
def test_a_bad_sum_is_refused(spec, words):
    with pytest.raises(ParameterError) as caught:
        parse_metric(spec)
    assert words in str(caught.value)


def test_a_sum_has_the_weighted_sum_of_the_values_of_each_query():
    data = make_web_search(50, 16)
    scores = np.random.default_rng(0).normal(size=data.n_documents)
    names = ["ndcg@10", "map(relevant>=2)", "mrr(relevant>=3)"]
    table = evaluate(data, scores, [*names, "ndcg@10 + 0.3*map(relevant>=2) + 2*mrr(relevant>=3)"])
    *parts, summed = (table.per_query(name) for name in table)
    assert 0 < np.isnan(parts[2]).sum() < data.n_queries
    expected = parts[0] + 0.3 * np.nan_to_num(parts[1]) + 2 * np.nan_to_num(parts[2])
    counts = ~np.isnan(np.array(parts)).all(axis=0)
    np.testing.assert_allclose(summed[counts], expected[counts], rtol=1e-15)
    assert np.isnan(summed[~counts]).all()


def test_swap_deltas_of_a_sum_are_the_weighted_sum_of_those_of_its_parts():
    labels = [0, 2, 1, 0, 3]
    first, second = parse_metric("ndcg@3"), parse_metric("map(relevant>=1)")
    both = parse_metric({first: 1, second: 0.3})
    expected = first.swap_deltas(labels) + 0.3 * second.swap_deltas(labels)
    differ = np.not_equal.outer(labels, labels)
    np.testing.assert_allclose(both.swap_deltas(labels)[differ], expected[differ], atol=1e-15)


def clicked(n_queries=30, seed=0):
    data = make_web_search(n_queries, 16, seed=seed)
    clicks = np.random.default_rng(seed).integers(0, 3, size=data.n_documents)
    return Dataset.from_arrays(
        data.features, data.labels, qid=data.qid, more_labels={"clicks": clicks}
    )


@pytest.mark.parametrize("name", ["ndcg@5", "map(relevant>=1)", "err", "tau", "dcg(ties=expected)"])
def test_a_metric_of_a_label_is_the_metric_of_data_with_that_label(name):
    data = clicked()
    scores = np.round(np.random.default_rng(1).normal(size=data.n_documents))
    found = evaluate(data, scores, [f"{name} of clicks", name])
    other = evaluate(data.with_label("clicks"), scores, name)
    assert found.per_query(f"{name} of clicks").tolist() == other.per_query(name).tolist()
    assert found[name] == evaluate(data, scores, name)[name]


def test_further_labels_follow_the_rows_when_queries_are_brought_together():
    rows = {"qid": [1, 2, 1, 2], "more_labels": {"clicks": [1, 0, 0, 2]}}
    scores = [3.0, 2.0, 1.0, 4.0]
    mixed = evaluate([0, 1, 1, 0], scores, "ndcg of clicks", split_queries="group", **rows)
    order = [0, 2, 1, 3]
    sorted_ = evaluate(
        np.array([0, 1, 1, 0])[order], np.array(scores)[order], "ndcg of clicks",
        qid=[1, 1, 2, 2], more_labels={"clicks": np.array([1, 0, 0, 2])[order]},
    )  # fmt: skip
    assert (
        mixed.per_query("ndcg of clicks").tolist() == sorted_.per_query("ndcg of clicks").tolist()
    )


def test_prepared_measures_of_labels_and_sums_are_those_of_evaluate():
    data = clicked()
    metrics = [parse_metric(m) for m in ("ndcg@5 of clicks", "ndcg@5 + 2*err of clicks", "mrr")]
    measure = prepare_metrics(data, metrics, 1)
    for seed in range(3):
        scores = np.random.default_rng(seed).normal(size=data.n_documents)
        assert measure(scores) == list(measure_dataset(data, scores, metrics).values())


def test_data_without_the_label_are_refused_with_the_names_that_they_have():
    with pytest.raises(DataError, match=r"must have labels 'sales'.* Got clicks only"):
        evaluate(clicked(), np.zeros(clicked().n_documents), "ndcg of sales")
    with pytest.raises(DataError, match=r"must have labels 'clicks'.* Got none besides"):
        evaluate([1, 0], [1, 0], "ndcg of clicks", group=[2])


def test_a_label_of_a_sum_and_of_a_label_is_refused():
    several = parse_metric("ndcg + map")
    assert isinstance(several, MetricSum)
    with pytest.raises(ParameterError, match="must be a single one"):
        OfLabel(metric=several, label="clicks")

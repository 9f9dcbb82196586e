"""Importance: what the trees say, and what shuffling a feature costs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model.samples import NAMES, make_dataset, make_model
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.evaluate import evaluate
from rankgrove.metrics.spec import parse_metric


@pytest.mark.parametrize("seed", range(3))
def test_gain_and_split_importance_are_sums_over_the_splits(seed):
    model = make_model(seed)
    gains, splits = np.zeros(5), np.zeros(5)
    for feature, gain in zip(model.ensemble.feature, model.ensemble.gain, strict=True):
        gains[feature] += gain
        splits[feature] += 1
    assert np.array_equal(model.importance("gain"), gains)
    assert np.array_equal(model.importance(), gains)
    assert np.array_equal(model.importance("split"), splits)
    assert model.importance("split").dtype == np.float64


@pytest.mark.parametrize("kind", ["gain", "split"])
def test_a_feature_that_no_tree_uses_has_no_importance(kind):
    importance = make_model(used=3).importance(kind)
    assert (importance[:3] > 0).all()
    assert importance[3:].tolist() == [0, 0]


def test_a_kind_of_importance_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(
        ParameterError, match=r"one of gain, split, contribution\. Got 'gian'; did you mean 'gai"
    ):
        make_model().importance("gian")


def naive_drops(model, data, metric, repeats, seed):
    """By definition: shuffle the values as the caller has them, predict, measure."""

    def measure(features):
        return evaluate(data, model.predict(features), metric)[metric]

    drops = np.zeros((5, repeats))
    for feature in np.unique(model.ensemble.feature):
        for repeat in range(repeats):
            rng = np.random.default_rng([seed, feature, repeat])
            features = data.features.copy()
            features[:, feature] = features[rng.permutation(len(features)), feature]
            drops[feature, repeat] = measure(data.features) - measure(features)
    return drops


@pytest.mark.parametrize("metric", ["ndcg@10", "map"])
def test_permutation_importance_is_the_drop_by_definition(metric):
    model, data = make_model(used=4), make_dataset()
    found = model.permutation_importance(data, metric, repeats=3, seed=7)
    drops = naive_drops(model, data, metric, 3, 7)
    assert found.metric == parse_metric(metric)
    assert found.baseline == evaluate(data, model.predict(data), metric)[metric]
    assert np.array_equal(found.mean, drops.mean(axis=1))
    assert np.array_equal(found.std, drops.std(axis=1))


def test_a_feature_that_no_tree_uses_costs_exactly_nothing():
    found = make_model(used=3).permutation_importance(make_dataset())
    assert found.mean[3:].tolist() == [0, 0]
    assert found.std[3:].tolist() == [0, 0]
    assert np.count_nonzero(found.mean[:3]) > 0


def test_permutation_importance_has_the_same_bits_on_any_number_of_threads():
    model, data = make_model(), make_dataset()
    first = model.permutation_importance(data, n_jobs=1)
    for n_jobs in (2, None):
        again = model.permutation_importance(data, n_jobs=n_jobs)
        assert again.mean.tobytes() == first.mean.tobytes()
        assert again.std.tobytes() == first.std.tobytes()
    other = model.permutation_importance(data, seed=1)
    assert other.mean.tobytes() != first.mean.tobytes()


def test_the_feature_that_orders_the_documents_is_the_important_one():
    model, data = make_model(), make_dataset()
    judged = dataclasses.replace(data, labels=np.digitize(model.predict(data), [-2, 0, 2]) * 1.0)
    found = model.permutation_importance(judged)
    assert found.baseline > 0.99
    assert (found.mean > 0).all()


def test_base_scores_count_in_permutation_importance():
    model = make_model(needs_base_scores=True)
    base = np.linspace(0, 1000, 120)
    with pytest.raises(DataError, match="base_scores"):
        model.permutation_importance(make_dataset())
    by_data = model.permutation_importance(make_dataset(base_scores=base))
    given = model.permutation_importance(make_dataset(), base_scores=base)
    assert by_data.mean.tobytes() == given.mean.tobytes()
    assert by_data.baseline == given.baseline
    assert by_data.baseline != model.permutation_importance(make_dataset(), base_scores=0).baseline


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"repeats": 0}, "repeats must be a whole number, 1 or more"),
        ({"seed": -1}, "seed must be a whole number, 0 or more"),
        ({"metric": "ndgc"}, "did you mean 'ndcg'"),
    ],
)
def test_arguments_that_break_a_rule_are_refused(change, problem):
    with pytest.raises(ParameterError, match=problem):
        make_model().permutation_importance(make_dataset(), **change)


def test_data_without_labels_are_refused():
    with pytest.raises(ParameterError, match=r"must be given a Dataset, for its labels\. Got nd"):
        make_model().permutation_importance(make_dataset().features)


def test_permutation_importance_prints_the_largest_drop_first():
    found = make_model(used=2).permutation_importance(make_dataset())
    lines = str(found).splitlines()
    order = np.argsort(-found.mean, kind="stable")
    assert lines[0].startswith(f"ndcg@10 {found.baseline:.4f}; its drop")
    assert [line.split()[0] for line in lines[2:]] == [NAMES[i] for i in order]


def test_the_printed_table_of_many_features_ends():
    names = tuple(f"f{i}" for i in range(1, 31))
    model = make_model(names=names, categories={})
    data = Dataset.from_arrays(np.zeros((4, 30)), [0, 1, 2, 0], group=[4])
    assert str(model.permutation_importance(data, repeats=1)).endswith("... and 10 more features")


def test_only_features_that_are_asked_for_are_tried():
    model, data = make_model(), make_dataset()
    whole = model.permutation_importance(data, repeats=2)
    some = model.permutation_importance(data, repeats=2, features=[0, model.feature_names[2]])
    assert some.mean[[0, 2]].tolist() == whole.mean[[0, 2]].tolist()
    assert np.isnan(np.delete(some.mean, [0, 2])).all()
    assert "nan" not in str(some)
    with pytest.raises(ParameterError, match="a feature of features must be one of"):
        model.permutation_importance(data, features=["none"])

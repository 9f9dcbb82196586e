"""Integrated gradients: against sums straight from the formula, and what they add up to."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from neural.samples import make_parts
from rankgrove import Dataset, Ranker, RankNet
from rankgrove.errors import ParameterError
from rankgrove.neural.gradients import TOLERANCE
from rankgrove.neural.networks import build_network
from rankgrove.neural.transform import Transform

QUICK = {"max_epochs": 2, "batch_queries": 8, "dropout": 0.0}
N_FEATURES = 4


def make_features(n_rows=12, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    features[:, 3] = rng.integers(0, 3, n_rows)
    return features


def make_fitted(features, transform="standard", **options):
    """A network on few features, of which all but the last have missing values."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, len(features))
    data = Dataset.from_arrays(features, labels, group=[len(features) // 4] * 4)
    return RankNet(hidden=(5, 3), transform=transform, **QUICK | options).fit(data).model_


def naive_contributions(model, features, n_points=2000):
    """The formula by the midpoint rule, one input at a time, with derivatives by differences."""
    network = copy.deepcopy(model.module).double()
    transform = model.transform

    def score(inputs):
        with torch.no_grad():
            return network(torch.from_numpy(inputs)).numpy()[:, 0]

    medians = transform.medians.astype(np.float64)
    at_median = transform.apply(medians.astype(np.float32)[None], 1)[0].astype(np.float64)
    times = (np.arange(n_points) + 0.5) / n_points
    step = 1e-6
    rows = []
    for inputs in transform.apply(features, 1).astype(np.float64):
        way = at_median + times[:, None] * (inputs - at_median)
        by_input = []
        for at in range(len(inputs)):
            nudge = np.zeros(len(inputs))
            nudge[at] = step
            slopes = (score(way + nudge) - score(way - nudge)) / (2 * step)
            by_input.append((inputs[at] - at_median[at]) * slopes.mean())
        total = np.array(by_input[:N_FEATURES])
        for place, feature in enumerate(transform.indicated):
            total[feature] += by_input[N_FEATURES + place]
        rows.append([*total, score(at_median[None])[0]])
    return np.array(rows)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_contributions_are_those_of_the_formula(activation):
    features = make_features(16)
    model = make_fitted(features, activation=activation)
    assert len(model.transform.indicated) == 3
    found = model.contributions(features[:4])
    # The naive sum is off by about a step of its grid at each kink.
    np.testing.assert_allclose(found, naive_contributions(model, features[:4]), atol=2e-4)


@pytest.mark.parametrize("transform", ["quantile", "log1p", "standard", None])
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_contributions_add_up_to_the_score_within_the_tolerance(transform, activation):
    train, test = make_parts()
    fitted = RankNet(hidden=(32, 16), activation=activation, transform=transform, **QUICK)
    model = fitted.fit(train).model_
    scores = model.predict(test)
    gaps = np.abs(model.contributions(test).sum(axis=1) - scores)
    assert (gaps <= TOLERANCE * np.maximum(1, np.abs(scores))).all()


def test_a_linear_network_adds_its_weight_times_the_distance_from_the_median():
    train, test = make_parts()
    model = RankNet(hidden=(), transform="standard", **QUICK).fit(train).model_
    weights = model.module[0].weight.detach().numpy()[0].astype(np.float64)
    inputs = model.transform.apply(test.features).astype(np.float64)
    by_input = weights * (inputs - model.transform.median_inputs())
    expected = by_input[:, : test.n_features]
    assert len(model.transform.indicated) == 2
    expected[:, model.transform.indicated] += by_input[:, test.n_features :]
    found = model.contributions(test)[:, :-1]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_feature_at_its_median_adds_nothing_and_a_missing_one_what_missing_tells():
    features = make_features(20)
    features[:, 0] = np.nan_to_num(features[:, 0])
    model = make_fitted(features)
    assert 0 not in model.transform.indicated
    row = features[:1].copy()
    row[0, 0] = np.nan  # never missing in training
    row[0, 1] = np.nan
    row[0, 3] = model.transform.medians[3]
    parts = model.contributions(row)[0]
    assert parts[0] == parts[3] == 0.0
    assert parts[1] != 0.0
    reference = np.full((1, N_FEATURES), np.nan, np.float32)
    reference[0] = model.transform.medians
    assert np.abs(model.contributions(reference)[0, :-1]).max() < 1e-6


def test_infinite_values_add_what_the_largest_ones_would():
    features = make_features(20)
    model = make_fitted(features)
    row = np.repeat(features[:1], 2, axis=0)
    row[:, 2] = [np.inf, model.transform.largest[2]]
    found = model.contributions(row)
    np.testing.assert_array_equal(found[0], found[1])


def test_threads_and_neighbours_do_not_change_the_bits():
    train, test = make_parts(80)
    model = RankNet(hidden=(8,), **QUICK).fit(train).model_
    assert test.n_documents > 200
    whole = model.contributions(test, n_jobs=1)
    np.testing.assert_array_equal(whole, model.contributions(test, n_jobs=2))


def test_trees_below_a_network_add_their_contributions():
    train, test = make_parts()
    trees = Ranker(n_estimators=3).fit(train).model_
    model = RankNet(hidden=(4,), **QUICK).fit(train, base_model=trees).model_
    alone = RankNet(hidden=(4,), **QUICK).fit(train).model_
    scores = model.predict(test)
    parts = model.contributions(test)
    np.testing.assert_allclose(parts.sum(axis=1), scores, atol=TOLERANCE * np.abs(scores).max())
    assert parts.shape == alone.contributions(test).shape
    used = np.flatnonzero(trees.importance("split"))
    assert len(used)
    found = model.why(test, 0, 1)
    assert found.differences[-1].total == pytest.approx(scores[0] - scores[1], abs=1e-4)


def test_base_scores_stand_in_the_last_column_and_in_a_comparison():
    train, test = make_parts()
    model = RankNet(hidden=(4,), **QUICK).fit(train, base_model=lambda x: x[:, 0] / 9).model_
    base = np.linspace(-1, 1, test.n_documents)
    zero = model.contributions(test, base_scores=0.0)
    found = model.contributions(test, base_scores=base)
    np.testing.assert_array_equal(found[:, :-1], zero[:, :-1])
    np.testing.assert_allclose(found[:, -1], zero[:, -1] + base)
    rows = {row.feature: row for row in model.why(test, 5, 2, base_scores=base).differences}
    assert rows["(base score)"].difference == base[5] - base[2]


def test_importance_is_the_mean_size_of_contributions_and_permutation_works():
    train, test = make_parts()
    model = RankNet(hidden=(4,), **QUICK).fit(train).model_
    parts = model.contributions(test)[:, :-1]
    np.testing.assert_allclose(model.importance(data=test), np.abs(parts).mean(axis=0))
    drops = model.permutation_importance(test, "ndcg@5", repeats=1)
    assert drops.baseline == RankNet(metric="ndcg@5", hidden=(4,), **QUICK).fit(train).score(test)
    with pytest.raises(ParameterError, match=r"data must be given for the importance .* a network"):
        model.importance()


class Steps(nn.Module):
    """Not continuous: its gradient is 0 and its score is not constant."""

    def __init__(self, n_inputs):
        super().__init__()
        self.linear = nn.Linear(n_inputs, 1)

    def forward(self, inputs):
        return torch.round(3 * self.linear(inputs)) + 0.1 * self.linear(inputs)


class Single(nn.Linear):
    """Of float32, whatever it is told."""

    def forward(self, inputs):
        return super().forward(inputs.float())


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (Steps, "must change continuously with its inputs"),
        (lambda n: Single(n, 1), "must run in float64, with gradients"),
    ],
)
def test_a_module_that_cannot_be_explained_is_refused(module, problem):
    train, test = make_parts()
    model = RankNet(module=module, **QUICK).fit(train).model_
    with pytest.raises(ParameterError, match=problem):
        model.contributions(test)


def test_a_module_of_ones_own_is_explained():
    train, test = make_parts()
    own = RankNet(module=lambda n: build_network(n, (3,), "tanh", 0.0), **QUICK).fit(train).model_
    scores = own.predict(test)
    gaps = np.abs(own.contributions(test).sum(axis=1) - scores)
    assert (gaps <= TOLERANCE * np.maximum(1, np.abs(scores))).all()


def test_median_inputs_are_those_of_a_document_of_medians():
    features = np.array([[1, 4], [2, np.nan], [9, 5]], np.float32)
    transform = Transform.fit("standard", features)
    expected = transform.apply(np.array([[2, 4.5]], np.float32))[0]
    np.testing.assert_array_equal(transform.median_inputs(), expected)

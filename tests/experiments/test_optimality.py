"""The test of local optimality: its numbers, its directions, and what it says of known models."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rankgrove import Dataset, Model, Ranker, evaluate, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.optimality import _leaves_of, directions_needed, is_local_maximum
from rankgrove.trees.ensemble import Ensemble

FEW = {"delta": 0.1, "p0": 0.1}


@pytest.fixture(scope="module")
def data():
    return make_web_search(40, 16, mean_documents=15, seed=2)


@pytest.fixture(scope="module")
def model(data):
    return Ranker(n_estimators=6, min_samples_leaf=5).fit(data).model_


def moved(model, change):
    """The same trees with other leaf values."""
    ensemble = replace(model.ensemble, value=model.ensemble.value + change)
    return Model(ensemble, model.schema, {}, {})


@pytest.mark.parametrize(
    ("delta", "p0", "n"), [(0.01, 0.01, 459), (0.05, 0.05, 59), (0.01, 0.1, 44), (0.9, 0.9, 1)]
)
def test_number_of_directions_is_the_least_that_the_bound_allows(delta, p0, n):
    assert directions_needed(delta, p0) == n
    assert (1 - p0) ** n <= delta
    assert n == 1 or (1 - p0) ** (n - 1) > delta


def test_each_value_is_that_of_a_model_whose_leaves_were_moved(data, model):
    found = is_local_maximum(model, data, "map", step=0.5, seed=7, **FEW)
    sizes = np.diff(model.ensemble.split_offsets) + 1
    spread = np.repeat([np.std(model.ensemble.tree(t).value) for t in range(6)], sizes)
    for number in (0, 5, found.n_directions - 1):
        normal = np.random.default_rng([7, number]).standard_normal(len(spread))
        other = moved(model, 0.5 * spread * normal)
        expected = evaluate(data, other.predict(data), "map")["map"]
        # Scores are added up in another order; only documents closer than that could trade.
        assert found.values[number] == pytest.approx(expected, abs=1e-12)
    assert found.value == evaluate(data, model.predict(data), "map")["map"]


def test_leaves_are_those_that_a_walk_reaches(data, model):
    leaves = _leaves_of(model.ensemble, model.schema.encode(data.features), 1)
    for number in range(model.n_trees):
        tree = model.ensemble.tree(number)
        alone = Model(Ensemble.from_trees([tree]), model.schema, {}, {})
        assert np.array_equal(tree.value[leaves[number]], alone.predict(data))


def test_bits_are_the_same_for_any_number_of_threads(data, model):
    one, two = (is_local_maximum(model, data, n_jobs=n, **FEW) for n in (1, 2))
    assert np.array_equal(one.values, two.values)
    other = is_local_maximum(model, data, seed=1, **FEW)
    assert not np.array_equal(one.values, other.values)


def linear(rows, labels):
    features = np.array(rows, dtype=float)
    data = Dataset.from_arrays(features, labels, qid=np.zeros(len(labels)))
    return data, lambda weights: features @ weights


def test_maximum_is_recognised_and_a_slope_is_not_taken_for_one():
    data, scores = linear([[2, 0], [1, 1], [0, 2]], [2, 1, 0])
    best = is_local_maximum(([1.0, 0.0], scores), data, "ndcg", step=0.05)
    assert (best.value, best.n_directions, best.is_local_maximum) == (1.0, 459, True)
    assert (best.n_rising, best.share_rising, best.largest_rise) == (0, 0.0, 0.0)
    assert best.share_bound <= 0.01
    assert "rises in none of 459 random directions" in str(best)
    assert "With confidence 99 %, it rises in at most 1 % of all" in str(best)
    edge = is_local_maximum(([1.0, 1.01], scores), data, "ndcg", step=0.05)
    assert not edge.is_local_maximum
    # The two weights turn the other way round with a chance of 0.44; 0.023 is one deviation.
    assert 0.35 < edge.share_rising < 0.53
    assert edge.share_rising < edge.share_bound < 1
    assert edge.value + edge.largest_rise == pytest.approx(1.0)
    assert "not at a local maximum" in str(edge)


def test_bound_holds_the_share_that_rises():
    # The share of directions that raise the metric is 1/2, by symmetry of the normal.
    data, scores = linear([[1, 0], [0, 1]], [1, 0])
    bounds = [
        is_local_maximum(
            ([1.0, 1.0], scores), data, "mrr", seed=seed, delta=0.1, p0=0.1
        ).share_bound
        for seed in range(40)
    ]
    # Each is too low with a chance of 0.1: 12 of 40 or more with a chance of 0.0004.
    assert sum(bound < 0.5 for bound in bounds) < 12
    assert max(bounds) < 1.0


def test_flat_metric_is_no_rise():
    data, scores = linear([[1, 0], [0, 1]], [1, 0])
    found = is_local_maximum(([0.0, 1.0], scores), data, "mrr", step=1e-6, **FEW)
    assert (found.value, found.is_local_maximum) == (0.5, True)


def test_curve_along_a_direction_goes_through_the_model(data, model):
    found = is_local_maximum(model, data, step=0.4, **FEW)
    curve = found.along(3)
    assert curve.x[20] == 0.0
    assert curve.values[20] == found.value
    at_step = found.along(3, [-0.4, 0.0, 0.4])
    assert at_step.values[2] == found.values[3]
    own = found.along(np.ones(len(model.ensemble.value)), [-1.0, 0.0, 1.0])
    # All leaves by the same: all documents move by the same, and no rank changes.
    assert own.values.tolist() == [found.value] * 3
    assert "ndcg@10 by step" in curve.to_svg()


def test_random_weights_are_told_from_trained_ones():
    data, best = make_web_search(80, 16, mean_documents=20, noise=0.0, seed=1, best_scores=True)
    features = np.column_stack([best, np.random.default_rng(0).normal(size=(len(best), 4))])

    def scores(weights):
        return features @ weights

    perfect = is_local_maximum((np.array([1.0, 0, 0, 0, 0]), scores), data, step=0.3, **FEW)
    poor = is_local_maximum((np.array([0.1, 1, -1, 1, 1]), scores), data, step=0.3, **FEW)
    assert perfect.is_local_maximum
    assert poor.share_rising > 0.2


def test_model_on_top_of_base_scores_is_measured_with_them(data):
    based = replace(data, base_scores=np.arange(data.n_documents) % 3.0)
    model = Ranker(n_estimators=2, min_samples_leaf=5).fit(based).model_
    found = is_local_maximum(model, based, **FEW)
    assert found.value == evaluate(based, model.predict(based), "ndcg@10")["ndcg@10"]


def test_progress_is_told(data, model):
    told = []
    is_local_maximum(model, data, **FEW, progress=lambda done, total: told.append((done, total)))
    assert told == [(16, 22), (22, 22)]


def test_calls_that_make_no_sense_are_refused(data, model):
    for name in ("delta", "p0"):
        for wrong in (0, 1, -0.5, math.nan, "0.1", True):
            with pytest.raises(ParameterError, match=f"{name} must be a number between 0 and 1"):
                is_local_maximum(model, data, **{name: wrong})
    for wrong in (0, -1, math.inf, math.nan, None):
        with pytest.raises(ParameterError, match="step must be a number above 0"):
            is_local_maximum(model, data, step=wrong)
    with pytest.raises(ParameterError, match="seed must be a whole number"):
        is_local_maximum(model, data, seed=-1)
    with pytest.raises(ParameterError, match="data must be a Dataset"):
        is_local_maximum(model, data.features)
    with pytest.raises(ParameterError, match="model must be a Model, or weights and a function"):
        is_local_maximum("model.safetensors", data)
    with pytest.raises(DataError, match="weights must be finite and not all 0"):
        is_local_maximum(([0.0, 0.0], lambda w: data.labels), data)
    empty = Model(Ensemble.from_trees([]), model.schema, {}, {})
    with pytest.raises(DataError, match="must have leaves to move"):
        is_local_maximum(empty, data)
    found = is_local_maximum(model, data, **FEW)
    with pytest.raises(ParameterError, match="direction must be a whole number, from 0 to 21"):
        found.along(22)
    with pytest.raises(ParameterError, match="direction must be a finite number per weight"):
        found.along([1.0, 2.0])
    with pytest.raises(ParameterError, match="steps must be finite and rise"):
        found.along(0, [1.0, 0.0])


def test_single_weights_are_moved_alone(data, model):
    found = is_local_maximum(model, data, step=0.4, **FEW)
    leaf = 2
    curve = found.along_weight(leaf, [-1.0, 0.0, 1.0])
    change = np.zeros(len(model.ensemble.value))
    change[leaf] = np.std(model.ensemble.tree(0).value)
    for step, value in zip(curve.x, curve.values, strict=True):
        scores = moved(model, step * change).predict(data)
        table = evaluate(data.labels, scores, "ndcg@10", group=data.group)
        assert value == pytest.approx(table["ndcg@10"], abs=1e-9)


def test_the_picture_has_a_panel_for_each_weight_through_the_model(data, model):
    found = is_local_maximum(model, data, step=0.4, **FEW)
    chart = found.plot([0, 3], [-1.0, 0.0, 1.0]).chart()
    for weight, panel in zip((0, 3), chart.panels, strict=True):
        upright, level, line = panel.marks
        assert (upright.at, level.at) == (0.0, found.value)
        assert line.y == found.along_weight(weight, [-1.0, 0.0, 1.0]).values.tolist()
        assert f"weight {weight} of" in panel.title
    assert len(found.plot(4, [-1.0, 0.0, 1.0]).chart().panels) == 4
    with pytest.raises(ParameterError, match="weights must be at least one"):
        found.plot([])
    with pytest.raises(ParameterError, match="weight must be a whole number"):
        found.along_weight(10**9)

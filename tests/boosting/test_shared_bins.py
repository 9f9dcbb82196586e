"""Runs that share bins give the bits of runs that make their own."""

from __future__ import annotations

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data
from rankgrove.boosting import binned
from rankgrove.boosting.binned import SharedBins
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.training.trees import start_trees

RUNS = [
    {"learning_rate": 0.05},
    {"learning_rate": 0.5, "grower": "oblivious", "max_depth": 3},
    {"objective": "yetirank", "subsample": 0.5},
    {"max_bins": 15},
    {"max_bins": 15, "learning_rate": 0.3},
    {"max_bins": 255, "l2": 3.0},
    {"random_state": 3},
]


def run(data, valid, shared, **parameters):
    made = Parameters(**{**QUICK, **parameters})
    return start_trees(data, valid, made, shared_bins=shared, n_jobs=1).run()


@pytest.fixture
def made(monkeypatch):
    """Notes each time that data are binned."""
    noted = []
    make = binned.Bins.fit

    def fit(features, *args, **options):
        noted.append(len(features))
        return make(features, *args, **options)

    monkeypatch.setattr(binned.Bins, "fit", fit)
    return noted


def test_runs_that_share_bins_have_the_bits_of_runs_that_do_not():
    data, valid = make_data(0, missing=0.1), {"a": make_data(1, missing=0.2), "b": make_data(2)}
    shared = SharedBins()
    for parameters in RUNS:
        together, alone = (run(data, valid, bins, **parameters) for bins in (shared, None))
        assert bits(together) == bits(alone)
        assert together.history == alone.history


def test_runs_with_categories_share_them():
    data, valid = make_data(0, n_categories=5), {"valid": make_data(1, n_categories=7)}
    shared, last = SharedBins(), data.n_features - 1
    for parameters in ({"categorical": [last]}, {}, {"categorical": [data.feature_names[last]]}):
        together, alone = (run(data, valid, bins, **parameters) for bins in (shared, None))
        assert bits(together) == bits(alone)
        assert together.history == alone.history


def test_data_are_binned_once_for_all_runs_of_the_same_bins(made):
    data, valid, shared = make_data(0), {"valid": make_data(1)}, SharedBins()
    for rate in (0.1, 0.2, 0.3):
        run(data, valid, shared, learning_rate=rate)
    assert len(made) == 1


@pytest.mark.parametrize("other", [{"max_bins": 15}, {"categorical": [0]}, {"random_state": 1}])
def test_other_bins_are_made_anew(made, other):
    data, shared = make_data(0), SharedBins()
    run(data, {}, shared)
    run(data, {}, shared, **other)
    assert len(made) == 2


def test_other_data_are_never_taken_for_the_same(made):
    data, valid, shared = make_data(0), make_data(1), SharedBins()
    runs = [
        (data, {}),
        (data, {"v": valid}),
        (data, {"w": valid}),
        (valid, {}),
        (data, {"v": data}),
    ]
    for train, sets in runs:
        assert bits(run(train, sets, shared)) == bits(run(train, sets, None))
    # Once with and once without sharing.
    assert len(made) == 2 * len(runs)


def test_data_with_the_same_numbers_in_another_place_are_others(made):
    shared = SharedBins()
    for _ in range(2):
        run(make_data(0), {}, shared)
    assert len(made) == 2


def test_validation_on_the_training_data_is_measured_as_ever():
    data = make_data(0)
    shared = SharedBins()
    for _ in range(2):
        together, alone = (run(data, {"t": data}, bins) for bins in (shared, None))
        assert together.history == alone.history


def test_infinite_categories_are_refused_as_ever():
    features = np.ones((20, 2), dtype=np.float32)
    features[0, 1] = np.inf
    data = Dataset.from_arrays(features, np.arange(20) % 2, group=[10, 10])
    with pytest.raises(ValueError, match="categories must be finite"):
        run(data, {}, SharedBins(), categorical=[1])

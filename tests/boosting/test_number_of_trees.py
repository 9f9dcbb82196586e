"""How many trees there are when nobody says so."""

from __future__ import annotations

import pytest

from boosting.samples import make_data
from rankgrove import Ranker
from rankgrove.boosting.number_of_trees import LEARNED, default_n_estimators
from rankgrove.boosting.parameters import Parameters

FAST = {"min_samples_leaf": 5, "max_depth": 2, "learning_rate": 0.5}


@pytest.mark.parametrize("rate", [0.003, 0.03, 0.1, 0.3, 1.0])
def test_trees_times_rate_are_the_same_at_any_rate(rate):
    assert abs(default_n_estimators(rate) * rate - LEARNED) <= rate / 2


def test_there_is_always_a_tree():
    assert default_n_estimators(1000.0) == 1


@pytest.mark.parametrize("valid", [None, make_data(seed=1)], ids=["alone", "watched"])
def test_trees_by_default_are_those_of_the_rule_unless_validation_ends_training(valid):
    ranker = Ranker(**FAST).fit(make_data(), valid=valid)
    assert ranker.model_.n_trees == default_n_estimators(0.5)


def test_early_stopping_has_trees_enough_to_stop_among():
    for rate, most in ((0.3, 500), (0.1, 500), (0.01, 5000)):
        given = Parameters(early_stopping_rounds=10, learning_rate=rate)
        assert given.resolve().n_estimators == most
    ranker = Ranker(**FAST, early_stopping_rounds=20).fit(make_data(), valid=make_data(seed=1))
    assert len(ranker.history_["valid"]["ndcg@10"]) > default_n_estimators(0.5)


def test_a_number_is_a_number_and_the_plan_has_no_auto():
    assert Parameters(n_estimators=7).resolve().as_json()["n_estimators"] == 7
    assert Parameters().resolve().as_json()["n_estimators"] == default_n_estimators(0.1)


def test_a_checkpoint_goes_on_to_the_same_trees_as_one_run(tmp_path):
    data, path = make_data(), tmp_path / "c.safetensors"
    whole = Ranker(**FAST).fit(data)
    Ranker(**FAST).fit(
        data, checkpoint=path, checkpoint_every=2, callbacks=[lambda run: len(run.trees) == 5]
    )
    resumed = Ranker(**FAST).fit(data, resume=path)
    assert resumed.predict(data).tobytes() == whole.predict(data).tobytes()

"""How several models become one: what is asked for, and what is refused before the work."""

import numpy as np
import pytest

from rankgrove import Ranker, make_web_search
from rankgrove.boosting import binned
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.training.recipe import Recipe, kinds_of, split_mix


@pytest.fixture
def data():
    return make_web_search(30, 16, mean_documents=8, seed=2)


@pytest.fixture
def no_bins(monkeypatch):
    """Fails the test as soon as data are binned."""
    monkeypatch.setattr(binned.Bins, "fit", lambda *_, **__: pytest.fail("the data were binned"))


@pytest.mark.parametrize(
    ("recipe", "has_valid", "plan"),
    [
        ({}, True, (1, None, False)),
        ({"effort": "medium"}, True, (5, None, False)),
        ({"effort": "high"}, True, (3, "auto", True)),
        ({"effort": "high"}, False, (3, "auto", False)),
        ({"effort": "high", "members": 2, "refit": False}, True, (2, "auto", False)),
        ({"mix": "yetirank,queryrmse"}, False, (1, "yetirank,queryrmse", False)),
    ],
)
def test_effort_says_what_is_left_open(recipe, has_valid, plan):
    found = Recipe(**recipe).plan(has_valid=has_valid)
    assert (found.members, found.mix, found.refit) == plan


def test_a_mix_may_be_text_names_or_parameters():
    assert split_mix(" yetirank ,lambdarank") == ["yetirank", "lambdarank"]
    entries = ["yetirank", {"objective": "lambdarank", "hidden": (8,)}]
    kinds = kinds_of(Parameters(random_state=7), entries)
    assert [kind.name for kind in kinds] == ["yetirank", "lambdarank"]
    assert kinds[1].parameters.hidden == (8,)
    assert kinds[1].parameters.random_state == 7


def test_parameters_of_the_run_count_for_every_kind_that_has_them():
    given = Parameters(permutations=7, learning_rate=0.3, metric="map", leaf="newton_cross_leaf")
    kinds = {
        kind.name: kind.parameters for kind in kinds_of(given, "yetiloss,queryrmse,lambdarank")
    }
    assert kinds["yetiloss"].permutations == 7
    assert kinds["queryrmse"].permutations == "auto"
    assert kinds["queryrmse"].learning_rate == 0.3
    assert (kinds["yetiloss"].leaf, kinds["queryrmse"].leaf) == ("newton_cross_leaf", "newton")
    assert isinstance(kinds["lambdarank"], NetworkParameters)
    assert kinds["lambdarank"].metric == "map"
    # A step of a network is no share of a tree's.
    assert kinds["lambdarank"].learning_rate == NetworkParameters().learning_rate


def test_auto_has_the_objective_that_is_named_and_each_kind_once():
    names = [kind.name for kind in kinds_of(Parameters(objective="softmax"), "auto")]
    assert names[0] == "softmax"
    assert len(set(names)) == len(names) == 5
    assert kinds_of(Parameters(metric="map"), "auto")[0].name == "yetiloss"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "members must be a whole number, 1 or more. Got 0"),
        ({"members": 2.5}, "members must be a whole number"),
        ({"mix": "yetirnk"}, "did you mean 'yetirank'"),
        ({"mix": ""}, "mix must have members that are names"),
        ({"mix": []}, "mix must be 'auto', or names"),
        ({"mix": "yetirank, yetirank"}, "name each member once. Got 'yetirank' twice"),
        ({"mix": [{"hidden": (3,)}]}, "mix must have members that are names"),
        ({"mix": [{"objective": "yetirank", "learning_rat": 1}]}, "did you mean 'learning_rate'"),
        ({"mix": "yetirank", "objective": "lambdamart"}, "objective must be left out with a mix"),
        ({"effort": "hi"}, "did you mean 'high'"),
        ({"refit": True}, "refit must have validation data"),
        ({"refit": "yes"}, "refit must be True or False"),
        (
            {"members": 2, "metric": "ndcg@10", "constraints": {"err": 0.1}},
            "constraints must be left out",
        ),
    ],
)
@pytest.mark.usefixtures("no_bins")
def test_what_cannot_be_done_is_refused_before_the_work(data, options, message):
    with pytest.raises(ParameterError, match=message):
        Ranker(**options).fit(data)


@pytest.mark.usefixtures("no_bins")
@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        ({"members": 2}, {"base_model": lambda rows: rows[:, 0]}, "base_model must be left out"),
        ({"members": 2}, {"base_scores": "zeros"}, "base_scores must be left out"),
        ({"mix": "lambdamart,queryrmse"}, {"preferences": [(0, 1)]}, "rankmart or lambdamart"),
        ({"mix": "auto"}, {"preferences": [(0, 1)]}, "mix must be left out with preferences"),
        ({"members": 2}, {"resume": "model"}, "resume must be a checkpoint of members"),
    ],
)
def test_what_does_not_go_with_members_is_refused_before_the_work(data, options, fit, message):
    if fit.get("base_scores") == "zeros":
        fit = {"base_scores": np.zeros(data.n_documents)}
        with pytest.raises(ParameterError, match=message):
            Ranker(**options).fit(np.asarray(data.features), data.labels, qid=data.qid, **fit)
        return
    if fit.get("resume") == "model":
        fit = {"resume": object()}
    with pytest.raises(ParameterError, match=message):
        Ranker(**options).fit(data, **fit)

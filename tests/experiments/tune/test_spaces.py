"""Search spaces: those of the paper by default, the user's own checked before any work."""

from __future__ import annotations

import json
import math

import pytest

from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError
from rankgrove.experiments.tune.spaces import (
    Choices,
    Range,
    check_fixed,
    default_space,
    parse_space,
)
from rankgrove.objectives.registry import OBJECTIVES

RATE = Range(1e-3, 1, log=True)
PAPER = {
    # Section 4.1: LightGBM, whose lambdarank ours is.
    "lambdamart": {
        "learning_rate": RATE,
        "l2": Range(0.1, 100, log=True),
        "max_depth": Range(6, 16, whole=True),
        "max_leaves": Range(16, 256, log=True, whole=True),
        "min_samples_leaf": Range(1, 1000, log=True, whole=True),
    },
    "yetirank": {
        "learning_rate": RATE,
        "l2_documents": Range(0.001, 100, log=True),
        "max_depth": Range(6, 8, whole=True),
    },
    "stochasticrank": {
        "learning_rate": RATE,
        "max_depth": Range(6, 10, whole=True),
        "shrink_rate": Range(1e-5, 1e-2, log=True),
        "temperature": Range(1e8, 1e11, log=True),
        "mu": Range(1e-2, 10, log=True),
    },
}
PAPER["yetiloss"] = PAPER["queryrmse"] = PAPER["yetirank"]


@pytest.mark.parametrize("objective", PAPER)
def test_default_spaces_are_those_of_section_4_1(objective):
    space, held = default_space(objective, {})
    assert space == PAPER[objective]
    assert held["grower"] == ("leafwise" if objective == "lambdamart" else "oblivious")
    assert held.get("min_samples_leaf") == (None if objective == "lambdamart" else 10)
    assert held.get("l2_documents") == (0 if objective == "stochasticrank" else None)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("fixed", [{}, {"grower": "oblivious"}, {"grower": "depthwise"}])
def test_default_spaces_are_of_parameters_that_training_accepts(objective, fixed):
    space, held = default_space(objective, fixed)
    for end in ("low", "high"):
        drawn = {name: getattr(entry, end) for name, entry in space.items()}
        given = Parameters(objective=objective, **fixed, **held, **drawn)
        assert given.make_objective().name == objective
    assert parse_space(space, Parameters(objective=objective, **fixed, **held)) == space


def test_lambdamart_on_oblivious_trees_has_the_papers_space_of_it():
    space, held = default_space("lambdamart", {"grower": "oblivious"})
    assert space == PAPER["yetirank"]
    assert "grower" not in held


def test_a_grower_that_is_left_to_the_objective_is_chosen_here():
    assert default_space("yetirank", {"grower": "auto"}) == default_space("yetirank", {})


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("fixed", [{}, {"max_leaves": 31}, {"max_depth": 20}, {"monotone": [1]}])
def test_trees_are_those_that_training_takes_with_the_same_parameters(objective, fixed):
    _, held = default_space(objective, fixed)
    assert held["grower"] == Parameters(objective=objective, **fixed).resolve().trees.grower


def test_what_is_fixed_is_not_drawn():
    space, held = default_space("lambdamart", {"max_leaves": 31, "l2_documents": 5.0})
    assert not {"max_leaves", "l2", "l2_documents"} & (space.keys() | held.keys())
    space, held = default_space("stochasticrank", {"l2": 1.0})
    assert not {"l2", "l2_documents"} & (space.keys() | held.keys())


@pytest.mark.parametrize("fixed", [{"monotone": {0: 1}}, {"categorical": [0]}])
def test_naming_features_does_not_change_what_is_searched(fixed):
    space, held = default_space("yetirank", fixed)
    assert held["grower"] == "oblivious"
    assert (space, held) == default_space("yetirank", {})
    Parameters(objective="yetirank", **fixed, **held)


def test_spaces_of_ones_own_take_every_form():
    given = {
        "learning_rate": (0.01, 1, "log"),
        "max_leaves": (8, 64),
        "l2": (0, 10),
        "grower": ["leafwise", "depthwise"],
        "max_depth": [None, 4],
        "subsample": {"low": 0.5, "high": 1.0},
        "colsample": {"choices": [0.5, 1.0]},
        "min_samples_leaf": {"low": 1, "high": 9, "log": True},
    }
    space = parse_space(given, Parameters())
    assert space == {
        "learning_rate": Range(0.01, 1.0, log=True),
        "max_leaves": Range(8, 64, whole=True),
        "l2": Range(0.0, 10.0),
        "grower": Choices(("leafwise", "depthwise")),
        "max_depth": Choices((None, 4)),
        "subsample": Range(0.5, 1.0),
        "colsample": Choices((0.5, 1.0)),
        "min_samples_leaf": Range(1, 9, log=True, whole=True),
    }
    assert isinstance(space["l2"].high, float)
    written = {name: entry.as_json() for name, entry in space.items()}
    assert parse_space(json.loads(json.dumps(written)), Parameters()) == space


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        ({"learning_rat": (0, 1)}, "did you mean 'learning_rate'"),
        ({"n_estimators": (1, 100)}, "validation finds the number of trees"),
        ({"objective": ["yetirank"]}, "give objective= to tune"),
        ({"eval_metric": ["map"]}, "give metric= to tune"),
        ({"max_leaves": (8, 64, "lgo")}, "must be \\(low, high\\)"),
        ({"max_leaves": (8,)}, "must be \\(low, high\\)"),
        ({"max_leaves": 8}, "must be \\(low, high\\)"),
        ({"max_leaves": {"low": 8, "hihg": 64}}, "must be \\(low, high\\)"),
        ({"max_leaves": {"low": 8, "high": 64, "log": "yes"}}, "log of max_leaves must be true"),
        ({"max_leaves": (64, 8)}, "must rise"),
        ({"max_leaves": (8.5, 64)}, "whole numbers"),
        ({"learning_rate": (0, 1, "log")}, "above 0 for its logarithm"),
        ({"learning_rate": (0.1, math.nan)}, "finite numbers"),
        ({"learning_rate": ("0.1", 1)}, "finite numbers"),
        ({"learning_rate": (-1.0, 1.0)}, "the space of learning_rate .* must be a finite number"),
        ({"grower": ("leafwise", "depthwise")}, "must be a list of values"),
        ({"normalise": (0, 1)}, "must be a list of values"),
        ({"grower": ["leafwise", "leafwis"]}, "did you mean 'leafwise'"),
        ({"grower": []}, "at least one"),
        ({"max_leaves": [8, 8]}, "must differ"),
        ({"max_leaves": [[8], [9]]}, "must be numbers, words"),
        ({"samples": (1, 10)}, "samples must be left out for lambdamart"),
        ({}, "must be a mapping"),
        (["max_leaves"], "must be a mapping"),
    ],
)
def test_spaces_that_are_wrong_are_refused(space, problem):
    with pytest.raises(ParameterError, match=problem):
        parse_space(space, Parameters(objective="lambdamart"))


@pytest.mark.parametrize(
    ("fixed", "problem"),
    [
        ({"max_leafs": 3}, "did you mean 'max_leaves'"),
        ({"n_estimators": 3}, "give max_trees= to tune"),
        ({"early_stopping_rounds": 3}, "give early_stopping_rounds= to tune"),
        (["max_leaves"], "must be a mapping"),
    ],
)
def test_fixed_parameters_that_are_wrong_are_refused(fixed, problem):
    with pytest.raises(ParameterError, match=problem):
        check_fixed(fixed)


def test_ranges_and_choices_say_what_they_are():
    assert str(RATE) == "0.001 to 1, evenly in the logarithm"
    assert str(Choices((1, None))) == "one of 1, None"

"""Objectives by name."""

import pytest

from rankgrove.errors import ParameterError
from rankgrove.objectives.pairwise import LambdaMART
from rankgrove.objectives.registry import OBJECTIVES, make_objective


def test_every_objective_is_made_by_its_name_with_defaults():
    for name, objective in OBJECTIVES.items():
        assert make_objective(name) == objective()
        assert name == objective.name
        assert all((objective.title, objective.formula, objective.reference))


def test_parameters_go_to_the_objective():
    made = make_objective("LambdaMART", metric="dcg@3", truncation=None)
    assert made == LambdaMART(metric="dcg@3", truncation=None)


def test_an_objective_is_returned_with_changed_parameters():
    objective = LambdaMART(sigma=2.0)
    assert make_objective(objective) == objective
    assert make_objective(objective, normalise=False) == LambdaMART(sigma=2.0, normalise=False)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'lambdamart'"):
        make_objective("lambdarank")


def test_something_else_than_a_name_is_refused():
    with pytest.raises(ParameterError, match="objective must be one of"):
        make_objective(3)


def test_an_unknown_parameter_is_refused_with_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'truncation'"):
        make_objective("lambdamart", truncaton=3)
    with pytest.raises(ParameterError, match="a parameter of lambdamart must be one of sigma"):
        make_objective(LambdaMART(), depth=3)

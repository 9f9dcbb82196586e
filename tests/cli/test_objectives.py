"""`rankgrove objectives`: the registry, whole."""

from __future__ import annotations

from dataclasses import fields

import pytest

from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.training.network_parameters import FORCES_OF


def test_every_objective_is_listed_with_formula_and_reference(cli):
    page = " ".join(cli("objectives").stdout.split())
    for name, objective in OBJECTIVES.items():
        assert name in page
        assert " ".join(objective.formula.split()) in page
        assert objective.reference in page


@pytest.mark.parametrize("name", OBJECTIVES)
def test_one_objective_is_shown_with_all_its_options(cli, name):
    page = cli("objectives", name).stdout
    assert OBJECTIVES[name].title in page
    for field in fields(OBJECTIVES[name]):
        assert f"--{field.name.replace('_', '-')}" in page


def test_json_has_the_parameters_and_their_defaults(cli_json):
    got = {entry["name"]: entry for entry in cli_json("objectives")["objectives"]}
    assert list(got) == [*OBJECTIVES, *FORCES_OF]
    assert got["yetirank"]["parameters"]["permutations"] == 10
    assert got["queryrmse"]["parameters"] == {}


@pytest.mark.parametrize("name", FORCES_OF)
def test_objective_of_a_network_is_shown_with_the_options_that_it_has(cli, name):
    page = cli("objectives", name).stdout
    assert OBJECTIVES[FORCES_OF[name]].formula in page
    assert "--sigma" in page
    assert "--neighbours" not in page


def test_options_mean_what_they_mean_to_the_objective(cli):
    assert "The scale of the noise." in cli("objectives", "stochasticrank").stdout
    assert "What scores are multiplied by." in cli("objectives", "listnet").stdout
    assert "pairs whose better-ranked document" in cli("objectives", "lambdamart").stdout


def test_unknown_one_is_refused_with_the_nearest(cli):
    result = cli("objectives", "yetirnk")
    assert result.exit_code == 2
    assert "did you mean 'yetirank'" in result.stderr

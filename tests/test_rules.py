"""Rules of parameters: one field says what is allowed, and every check and text comes from it."""

from dataclasses import dataclass
from typing import Literal

import pytest

from rankgrove.errors import ParameterError
from rankgrove.rules import AUTO, Auto, check_options, option, options_of, union_of


@dataclass(frozen=True, kw_only=True)
class Trees:
    rate: float = option(0.1, "Step.", above=0, most=1)
    depth: int | None = option(None, "Depth.", least=1, none="no limit")
    near: int | Literal["all"] = option(AUTO, "Reach.", least=1, auto="all", settle=lambda _: "all")
    grower: Literal["leafwise", "oblivious"] | Auto = option(AUTO, "Shape.", auto="oblivious")
    flat: bool = option(False, "Whether.")

    def __post_init__(self):
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class SmallTrees(Trees):
    depth: int | None = 3
    near: int | Literal["all"] = option(2, "How far.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": 0}, "rate must be a finite number above 0 and at most 1. Got 0."),
        ({"rate": float("nan")}, "rate must be a finite number above 0 and at most 1. Got nan."),
        ({"rate": True}, "rate must be a finite number above 0 and at most 1. Got True."),
        ({"depth": 0}, "depth must be a whole number, 1 or more, or None for no limit. Got 0."),
        ({"near": "al"}, "near must be a whole number, 1 or more, or all. Got 'al'."),
        ({"grower": "leafwis"}, "grower must be one of leafwise, oblivious. Got 'leafwis'; did"),
        ({"flat": 1}, "flat must be True or False. Got 1."),
    ],
    ids=str,
)
def test_value_that_breaks_its_rule_is_refused_in_four_parts(given, message):
    with pytest.raises(ParameterError) as caught:
        Trees(**given)
    assert str(caught.value).startswith(message)
    assert caught.value.name == next(iter(given))


def test_what_follows_from_others_is_settled():
    assert Trees().near == "all"
    assert Trees(near=3).near == 3
    assert Trees().grower == AUTO


def test_subclass_changes_what_it_says_and_keeps_the_rest():
    options = options_of(SmallTrees)
    assert (options["depth"].default, options["depth"].rule) == (3, options_of(Trees)["depth"].rule)
    assert (options["near"].rule.help, options["near"].rule.least) == ("How far.", 1)
    with pytest.raises(ParameterError, match="near must be a whole number, 1 or more"):
        SmallTrees(near=0)


def test_union_says_what_a_parameter_means_to_each_owner():
    union = union_of({"tall": Trees, "small": SmallTrees}, "Trees")
    assert union["near"].rule.help == "Reach. Of small: How far."
    assert union["near"].rule.auto == "the objective's own"
    assert union["rate"].rule.help == "Step."
    assert union["rate"].rule.auto == "0.1"
    assert {entry.default for entry in union.values()} == {AUTO}
    assert {entry.rule.panel for entry in union.values()} == {"Trees"}

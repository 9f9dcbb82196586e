"""Errors: what a message says of parameters, and what survives a process boundary."""

import pickle

import pytest

from rankgrove.errors import DataError, ParameterError, ParseError, parameter, refusal, word


def test_error_names_the_parameter_that_it_is_about():
    error = refusal("max_depth", f"be 1 or more, or {word(None)}", 0, advice="leave it out")
    assert error.name == "max_depth"
    assert str(error) == "max_depth must be 1 or more, or None. Got 0: leave it out."
    assert refusal(f"a width in {parameter('hidden')}", "be whole", 0.5).name == "hidden"
    assert ParameterError(f"a rule about {word(None)}").name is None


def test_marked_message_keeps_its_marks_within_another():
    inner = DataError(f"pass {parameter('n_features', 16)}.")
    outer = DataError(f"train.txt: {inner.marked}")
    assert str(outer) == "train.txt: pass n_features=16."
    assert outer.told(lambda *mark: f"<{mark}>") == "train.txt: pass <('n_features', '16')>."


@pytest.mark.parametrize(
    "error",
    [
        refusal("max_depth", "be 1 or more", 0),
        ParseError(f"pass {parameter('group=')}.", "a.txt", 1, 2),
    ],
)
def test_error_is_the_same_after_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))

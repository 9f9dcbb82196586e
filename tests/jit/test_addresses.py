"""Tuples that are handed on by address, and arrays whose references nobody counts."""

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from rankgrove._jit import insides, kernel
from rankgrove._jit.addresses import Addressed, by_address

# Trains, scores and measures, and counts the arrays that kernels have made and let go.
COUNT = """
from numba.core.runtime import rtsys
from rankgrove import Ranker, evaluate, make_web_search
data = make_web_search(30, 16, seed=1)
for objective in ("yetirank", "lambdamart", "stochasticrank", "queryrmse"):
    ranker = Ranker(objective, n_estimators=2).fit(data)
    evaluate(data, ranker.predict(data), ["ndcg@10", "map(ties=expected)", "err"])
counts = rtsys.get_allocation_stats()
print(counts.mi_alloc, counts.mi_free)
"""


@by_address
class Pair(NamedTuple):
    numbers: np.ndarray
    factor: float
    out: np.ndarray


@kernel
def scale(pair, i):
    pair.out[i] = pair.factor * pair.numbers[i]


@kernel
def scale_all(pair):
    for i in range(len(pair.numbers)):
        scale(pair, i)


@kernel
def scale_copy(pair):
    room = np.empty(len(pair.numbers), np.float64)
    for i in range(len(room)):
        room[i] = pair.factor * pair.numbers[i]
    for i in range(len(room)):
        pair.out[i] = room[i]


@kernel
def choose(pair, other):
    """What is for None does not compile with another tuple, and what is not, with None."""
    if other is None:
        return pair.factor + other_is_missing
    return pair.factor + other.factor


other_is_missing = "not a number"


def make_pair():
    return Pair(np.arange(5.0), 2.0, np.zeros(5))


@pytest.mark.parametrize("function", [scale_all, scale_copy])
def test_kernels_read_and_write_what_a_tuple_consists_of(function):
    pair = make_pair()
    function(pair)
    np.testing.assert_array_equal(pair.out, [0, 2, 4, 6, 8])
    assert isinstance(function.signatures[0][0], Addressed)


@pytest.mark.parametrize("function", [scale_all, scale_copy])
def test_nothing_holds_on_to_its_arrays(function):
    pair = make_pair()
    before = [sys.getrefcount(each) for each in pair]
    for _ in range(3):
        function(pair)
    assert [sys.getrefcount(each) for each in pair] == before


def test_what_is_for_none_is_not_compiled_where_there_is_a_tuple():
    assert choose(make_pair(), make_pair()) == 4.0
    with pytest.raises(numba.TypingError):
        choose(make_pair(), None)


def test_a_field_that_a_tuple_does_not_have_is_an_error_of_types():
    wrong = kernel(lambda pair: pair.weights)
    with pytest.raises(numba.TypingError, match="weights"):
        wrong(make_pair())


def test_only_kernels_that_make_arrays_or_call_such_count_references():
    caller = kernel(lambda pair, i: (scale_copy(pair), i))
    assert (scale_all.allocates, scale_copy.allocates, caller.allocates) == (False, True, True)


def test_arrays_that_kernels_make_are_let_go():
    source = os.path.dirname(os.path.dirname(os.path.dirname(insides.__file__)))
    variables = {**os.environ, "NUMBA_NRT_STATS": "1", "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", COUNT], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made, freed = map(int, done.stdout.split()[-2:])
    assert made == freed > 0


def test_without_counting_references_numba_refuses_to_make_an_array():
    def make(n):
        return len(np.empty(n, np.float64))

    refused = numba.njit(_nrt=False)(make)
    with pytest.raises(numba.TypingError):
        refused(3)

"""The short forms of reading, writing and calling give what Python gives."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from rankgrove._jit import empty, kernel


@kernel
def read_one(values, i):
    return values[i]


@kernel
def read_three(values, i, j, k):
    return values[i, j, k]


@kernel
def read_through_views(values, i, j, k):
    return values[i][j][k], values[i, j][k], values[i][j, k], len(values[i]), values[i].shape[1]


@kernel
def write_three(values, i, j, k, number):
    values[i, j, k] = number
    row = values[i, j]
    row[0] += number


@kernel
def read_constant_places(values):
    return values[0, 1, 2], values[-1, -1, -1], values[1][-2, 0]


@kernel
def keep_a_view(n):
    table = empty((n, 4), np.int64)
    for i in range(n):
        for j in range(4):
            table[i, j] = 4 * i + j
    return table[n - 1]


@kernel
def _halve(number):
    half = number // 2
    return half, number - 2 * half


@kernel
def count_ones(number):
    """The ones in the binary form of a number, by calls."""
    ones = 0
    while number:
        number, last = _halve(number)
        ones += last
    return ones


@kernel
def _set_first(values, number):
    values[0] = number


@kernel
def set_firsts(table):
    for i in range(len(table)):
        _set_first(table[i], i)


def cube(dtype=np.float64):
    return np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("index", [np.int64, np.int32, np.uint8, np.uint64])
def test_elements_are_read_for_every_type_of_number_and_place(dtype, index):
    values = np.array([0, 1, 5, 7]).astype(dtype)
    assert [read_one(values, index(i)) for i in range(4)] == values.tolist()


def test_places_below_zero_count_from_the_end():
    values = cube()
    for place in itertools.product(range(-2, 2), range(-3, 3), range(-4, 4)):
        assert read_three(values, *place) == values[place]
        assert read_through_views(values, *place) == (values[place],) * 3 + (3, 4)
    assert read_constant_places(values) == (values[0, 1, 2], values[-1, -1, -1], values[1, -2, 0])


@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 3), (-1, -2, -3)])
def test_elements_are_written_where_python_writes_them(place):
    values, expected = cube(np.float32), cube(np.float32)
    write_three(values, *place, 100)
    expected[place] = 100
    expected[place[:2]][0] += 100
    np.testing.assert_array_equal(values, expected)


def test_arrays_whose_elements_stand_apart_are_read_and_written():
    values = cube()[:, ::2, ::-1]
    assert read_three(values, 1, -1, 0) == values[1, -1, 0]
    assert read_through_views(values, 1, 1, 3) == (values[1, 1, 3],) * 3 + (2, 4)
    write_three(values, 0, 1, 2, 50.0)
    assert values[0, 1, 2] == 50.0


def test_a_view_keeps_the_array_that_it_is_part_of():
    rows = [keep_a_view(500) for _ in range(20)]
    for row in rows:
        np.testing.assert_array_equal(row, 4 * 499 + np.arange(4))


def test_parts_give_back_several_values_or_none():
    assert [count_ones(n) for n in (0, 1, 255, 2**40 - 1)] == [0, 1, 8, 40]
    table = np.full((3, 2), 9)
    set_firsts(table)
    np.testing.assert_array_equal(table, [[0, 9], [1, 9], [2, 9]])


OUTSIDE = """
import numpy as np
from rankgrove._jit import kernel

@kernel
def read(values, i):
    return values[i]

@kernel
def read_after(values, i):
    return read(values, i) + 1.0

print(read_after(np.zeros(3), 2))
try:
    read_after(np.zeros(3), 3)
except IndexError as error:
    print("refused:", error)
"""


def test_with_bounds_checked_what_a_part_refuses_reaches_python(tmp_path):
    (tmp_path / "outside.py").write_text(OUTSIDE)
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "outside.py"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.stdout == "1.0\nrefused: index is out of bounds\n", run.stderr


@kernel
def smaller_and_larger(a, b):
    return min(a, b), max(a, b)


@pytest.mark.parametrize("b", [2, 2.5, -1, float("nan"), -0.0, np.float32(0.1), np.int32(7)])
@pytest.mark.parametrize("a", [2, 0.0, float("nan"), np.int8(3), np.uint64(1)])
def test_the_smaller_and_the_larger_of_two_numbers_are_those_of_python(a, b):
    expected = min(a, b), max(a, b)
    for found, right in zip(smaller_and_larger(a, b), expected, strict=True):
        assert np.float64(found).tobytes() == np.float64(right).tobytes() or found != found
        assert (found != found) == (right != right)

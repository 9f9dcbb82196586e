"""Arrays that kernels make."""

import numpy as np
import pytest

from rankgrove._jit import (
    LANES,
    add_lanes,
    bits_of,
    choose_bytes,
    empty,
    flattened,
    float_of,
    kernel,
    local_floats,
    reinterpret,
    subtract_lanes,
    sum_lanes,
)
from rankgrove._jit.intrinsics import (
    _add_lanes_plainly,
    _choose_bytes_plainly,
    _subtract_lanes_plainly,
    _sum_lanes_plainly,
)


@kernel
def make(n):
    one, two = empty(n, np.int32), empty((n, 3), np.float32)
    for i in range(n):
        one[i] = i
        for j in range(3):
            two[i, j] = 10 * i + j
    return one, two


@kernel
def sum_backwards(values):
    """The sum of up to 256 values, each less the one before it in reverse."""
    kept = local_floats()
    n = len(values)
    for i in range(n):
        kept[i] = values[n - 1 - i]
    total = 0.0
    for i in range(1, n):
        total += (kept[i] - kept[i - 1]) * i
    return total, kept.size, kept.nbytes


@kernel
def choose(codes, code, less, highest, out, a, b, place):
    choose_bytes(
        codes, np.uint64(code), np.uint8(less), np.uint8(highest), out, np.uint64(a), np.uint64(b),
        np.uint64(place),
    )  # fmt: skip


@kernel
def flip_signs(values):
    bits = reinterpret(values, np.int32)
    for i in range(len(bits)):
        bits[i] ^= np.int32(-(2**31))
    made = reinterpret(empty(3, np.float64), np.int64)
    made[0] = 0
    return made[0]


@kernel
def fold(row, added_to, taken_from):
    return sum_lanes(row), add_lanes(row, added_to), subtract_lanes(row, taken_from)


@kernel
def halve(number):
    """Half of a number, by its exponent."""
    return float_of(bits_of(number) - (1 << 52))


@pytest.mark.parametrize("n", [0, 8, 16, 200])
def test_sums_in_lanes_have_one_order_and_change_what_they_are_folded_into(n):
    rng = np.random.default_rng(n)
    row, sums = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n), rng.normal(size=n)
    added, taken = sums.copy(), sums.copy()
    found = fold(row, added, taken)
    lanes = [0.0] * 8
    for i, value in enumerate(row):
        lanes[i % 8] += value
    pairs = [lanes[i] + lanes[i + 4] for i in range(4)]
    assert found == ((pairs[0] + pairs[2]) + (pairs[1] + pairs[3]),) * 3
    np.testing.assert_array_equal(added, sums + row)
    np.testing.assert_array_equal(taken, sums - row)
    others = [sums.copy(), sums.copy()]
    plainly = _add_lanes_plainly(row, others[0]), _subtract_lanes_plainly(row, others[1])
    assert (_sum_lanes_plainly(row), *plainly) == found
    np.testing.assert_array_equal(others, [added, taken])


def test_the_bits_of_a_float_are_read_and_written():
    for number in (1.0, -3.5, 1e300, 2.0**-1000):
        assert halve(number) == number / 2


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_kernel_makes_arrays_of_one_and_two_dimensions(n):
    one, two = make(n)
    assert (one.dtype, one.shape, two.dtype, two.shape) == (np.int32, (n,), np.float32, (n, 3))
    assert one.flags.c_contiguous
    assert two.flags.c_contiguous
    np.testing.assert_array_equal(one, np.arange(n))
    np.testing.assert_array_equal(two, 10 * np.arange(n)[:, None] + np.arange(3))


def test_an_array_outlives_the_kernel_that_made_it():
    made = [make(1000) for _ in range(20)]
    for one, two in made:
        np.testing.assert_array_equal(one, np.arange(1000))
        np.testing.assert_array_equal(two[:, 2], 10 * np.arange(1000) + 2)


def test_numbers_on_the_stack_are_read_as_they_were_written():
    values = np.random.default_rng(0).normal(size=256)
    expected = np.sum(np.diff(values[::-1]) * np.arange(1, 256))
    total, size, n_bytes = sum_backwards(values)
    assert total == pytest.approx(expected)
    assert (size, n_bytes) == (256, 2048)


def test_an_array_is_seen_as_numbers_of_another_type_in_the_same_place():
    values = np.array([1.5, -0.0, np.inf], np.float32)
    assert flip_signs(values) == 0
    np.testing.assert_array_equal(values, [-1.5, 0.0, -np.inf])
    assert not np.signbit(values[1])


@pytest.mark.parametrize("less", [0, 1])
@pytest.mark.parametrize("highest", [0, 100, 254, 255])
@pytest.mark.parametrize("places", [(0, 32, 64), (7, 50, 101), (40, 3, 40), (3, 40, 40)])
def test_bytes_are_chosen_one_by_one_and_no_other_is_written(less, highest, places):
    rng = np.random.default_rng(highest)
    codes = rng.integers(0, 256, 90).astype(np.uint8)
    codes[::5] = [0, 255, highest] * 6
    before = rng.integers(0, 256, 160).astype(np.uint8)
    a, b, place = places
    wanted = before.copy()
    for i in range(LANES):
        goes = (int(codes[11 + i]) - less) % 256 <= highest
        wanted[place + i] = before[(a if goes else b) + i]
    for function in (choose, _choose_bytes_plainly):
        out = before.copy()
        function(codes, 11, np.uint8(less), np.uint8(highest), out, *places)
        np.testing.assert_array_equal(out, wanted)


@kernel
def flatten_and_add(table):
    """Add 1 to all numbers, as one row, and make a row that outlives what it was part of."""
    row = flattened(table)
    for i in range(len(row)):
        row[i] += 1
    made = empty((3, 2), np.int64)
    for i in range(3):
        for j in range(2):
            made[i, j] = 2 * i + j
    return row.size, row.nbytes, flattened(made)


def test_an_array_is_seen_as_one_row():
    table = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for _ in range(20):
        size, n_bytes, made = flatten_and_add(table)
        assert (size, n_bytes, made.tolist()) == (24, 96, [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(table.reshape(-1), np.arange(24) + 20)

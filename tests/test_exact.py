"""Sums and order statistics that do not depend on the order of the numbers, or on who has them."""

import math
from fractions import Fraction

import numpy as np
import pytest

from rankgrove._jit.elementary import cosine, exponential, normal_of
from rankgrove._jit.exact import Scale, exact_sums
from rankgrove._jit.hashing import mix
from rankgrove._jit.selection import nth_largest, threshold_of_mean
from workers import run_workers

VALUES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "far apart": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.uniform(-30, 30, n),
    "cancelling": lambda rng, n: np.concatenate([x := rng.normal(size=n) * 1e9, -x, [1e-9]]),
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-300,
    "huge": lambda rng, n: rng.normal(size=n) * 1e300,
    "equal": lambda rng, n: np.full(n, 0.1),
    "zero": lambda rng, n: np.zeros(n),
    "none": lambda rng, n: np.zeros(0),
}


def exact(values):
    return sum((Fraction(value) for value in values.tolist()), Fraction(0))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("n", [1, 3, 1000, 200_000])
def test_a_sum_is_right_to_the_last_bits_of_the_largest_number(kind, n):
    values = VALUES[kind](np.random.default_rng(n), n)
    (found,) = exact_sums([values])
    wanted = exact(values)
    largest = np.abs(values).max(initial=0.0)
    lost = max(Fraction(len(values) ** 3, 2**122), Fraction(len(values), 2**100))
    rounding = abs(wanted) * Fraction(3, 2**53) + Fraction(float(largest)) * lost
    if kind == "tiny":
        # Numbers are cut as if the largest were 2^-952.
        rounding += Fraction(n, 2 ** (952 + 2 * min(62 - n.bit_length(), 50)))
    assert abs(Fraction(found) - wanted) <= rounding


@pytest.mark.parametrize("kind", VALUES)
def test_the_order_of_numbers_does_not_matter(kind):
    rng = np.random.default_rng(1)
    values = VALUES[kind](rng, 150_000)
    (found,) = exact_sums([values], n_jobs=1)
    for n_jobs in (1, 2, 4):
        assert exact_sums([rng.permutation(values)], n_jobs=n_jobs) == [found]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_who_has_which_numbers_does_not_matter(size):
    rng = np.random.default_rng(2)
    columns = [VALUES["far apart"](rng, 5000), np.abs(rng.normal(size=5000))]
    wanted = exact_sums(columns)
    owner = rng.integers(0, size, 5000)
    owner[owner == 1] = 0  # one worker has nothing

    def task(peers):
        mine = [column[owner == peers.rank] for column in columns]
        return exact_sums(mine, 5000, 1, peers)

    results, _ = run_workers(size, task)
    assert all(result == wanted for result in results)


def test_sizes_are_absolute_values():
    values = np.random.default_rng(0).normal(size=70_000)
    assert exact_sums([values], sizes=True) == exact_sums([np.abs(values)])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_sum_with_what_is_no_number_is_nan(wrong):
    assert math.isnan(exact_sums([np.array([1.0, wrong, 2.0])])[0])


def test_sums_of_whole_numbers_do_not_overflow():
    n = 1000
    scale = Scale.of(1.0, n)
    values = np.full(n, 1.0)
    assert exact_sums([values]) == [n]
    # The largest number is at most 2^bits large units, and n of them stay below 2^62.
    assert scale.inverse * n < 2**62


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 500, 3999, 4000])
def test_the_nth_largest_is_that_of_sorted_keys(size, n):
    rng = np.random.default_rng(n)
    keys = rng.integers(0, 1 << 63, 4000, dtype=np.uint64) * np.uint64(2)
    keys[rng.random(4000) < 0.3] = keys[0]
    wanted = np.sort(keys)[::-1][n - 1]
    results, _ = run_workers(size, lambda p: nth_largest(keys[p.rank :: size], n, p))
    assert all(result == wanted for result in results)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["wide", "equal", "few"])
def test_the_threshold_makes_the_mean(size, share, kind):
    rng = np.random.default_rng(5)
    sizes = {
        "wide": 10.0 ** rng.uniform(-8, 5, 3000),
        "equal": np.full(3000, 0.3),
        "few": rng.integers(0, 4, 3000).astype(np.float64) + (np.arange(3000) < 2950),
    }[kind]
    target = share * len(sizes)
    results, _ = run_workers(
        size, lambda p: threshold_of_mean(sizes[p.rank :: size], target, len(sizes), p)
    )
    assert np.minimum(1.0, sizes / results[0]).sum() == pytest.approx(target, rel=1e-9)
    assert all(result == results[0] for result in results)


def test_elementary_functions_are_those_of_the_library_to_the_last_digits():
    for turns in np.random.default_rng(0).random(5000):
        assert cosine(turns) == pytest.approx(math.cos(2 * math.pi * turns), abs=2e-15)
    for x in (0.0, -3.5, 1e-9, 50.25, 699.0):
        assert exponential(x) == pytest.approx(math.exp(x), rel=1e-15)
    assert exponential(1e9) == exponential(700.0)


def test_normal_numbers_are_those_of_box_and_muller():
    for number in range(2000):
        one, other = (np.uint64(mix(np.uint64(n))) for n in (number, number + 10**6))
        share = ((int(one) >> 12) + 0.5) * 2.0**-52
        turns = (int(other) >> 12) * 2.0**-52
        wanted = math.sqrt(-2 * math.log(share)) * math.cos(2 * math.pi * turns)
        assert normal_of(one, other) == pytest.approx(wanted, rel=1e-13, abs=1e-15)

"""Significance: equal to SciPy's and to naive tests, right under the null, never NaN."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.compare import significance
from rankgrove.experiments.compare.significance import (
    bootstrap,
    bootstrap_interval,
    effect_size,
    holm,
    mean_interval,
    paired_t,
    randomisation,
    wins_ties_losses,
)

ALTERNATIVES = ("greater", "less", "two-sided")
TESTS = (paired_t, randomisation, bootstrap)
MASK = 2**64 - 1


def samples(n, seed=0, shift=0.05):
    """Values of n queries under two rankings, as metrics have them: from 0 to 1, many equal."""
    rng = np.random.default_rng(seed)
    b = rng.integers(0, 11, n) / 10
    a = np.clip(b + shift + rng.integers(-3, 4, n) / 10, 0, 1)
    return a, b


def naive_randomisation(a, b, alternative, sign_rounds):
    """The share of sign flips whose mean difference is at least as extreme as the one seen."""
    d = np.asarray(a) - np.asarray(b)
    count = total = 0
    for signs in sign_rounds:
        value, seen = (d * signs).mean(), d.mean()
        if alternative == "less":
            value, seen = -value, -seen
        elif alternative == "two-sided":
            value, seen = abs(value), abs(seen)
        count += value >= seen - 1e-13
        total += 1
    return count, total


def naive_mix(number):
    """Splitmix64 in Python's whole numbers."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK
    return mixed ^ mixed >> 31


def naive_signs(n, rounds, seed):
    """The signs of each round, a bit of a hash each."""
    for number in range(rounds):
        start = naive_mix(naive_mix(seed) + number & MASK)
        words = [naive_mix(start + word & MASK) for word in range(-(-n // 64))]
        yield np.array([1 - 2 * (words[at // 64] >> at % 64 & 1) for at in range(n)])


def naive_draws(n, rounds, seed):
    """The rows that each round draws, 32 bits of a hash each."""
    for number in range(rounds):
        start = naive_mix(naive_mix(seed) + number & MASK)
        words = [naive_mix(start + word & MASK) for word in range(-(-n // 2))]
        yield np.array(
            [(words[at // 2] >> 32 * (at % 2) & 0xFFFFFFFF) * n >> 32 for at in range(n)]
        )


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [2, 5, 40, 1000])
def test_paired_t_equals_scipy(n, alternative):
    a, b = samples(n, seed=3 * n)
    expected = stats.ttest_rel(a, b, alternative=alternative).pvalue
    assert paired_t(a, b, alternative) == pytest.approx(expected, rel=1e-9)


def test_paired_t_by_hand():
    # d = 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt(3); with 2 degrees of freedom the
    # tail above t is 1/2 - t / (2 sqrt(2 + t^2)).
    t = 0.2 / (0.1 / math.sqrt(3))
    expected = 0.5 - t / (2 * math.sqrt(2 + t**2))
    assert paired_t([0.1, 0.2, 0.3], [0, 0, 0]) == pytest.approx(expected)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_randomisation_of_few_queries_is_the_enumeration_of_all_signs(alternative):
    for n in (2, 3, 8):
        a, b = samples(n, seed=n)
        count, total = naive_randomisation(a, b, alternative, itertools.product([1, -1], repeat=n))
        assert randomisation(a, b, alternative) == count / total


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_exact_randomisation_equals_scipy(alternative):
    a, b = samples(9, seed=1)
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples",
        alternative=alternative, n_resamples=np.inf, vectorized=True,
    ).pvalue  # fmt: skip
    got = randomisation(a, b, alternative)
    # SciPy gives twice the smaller tail, which by symmetry is the share of both tails.
    assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [64, 65, 130])
def test_drawn_randomisation_equals_the_naive_one_with_the_same_signs(n, alternative):
    a, b = samples(n, seed=n)
    rounds = 300
    count, _ = naive_randomisation(a, b, alternative, naive_signs(n, rounds, 7))
    assert randomisation(a, b, alternative, rounds, seed=7) == (1 + count) / (1 + rounds)


def test_many_blocks_of_differences_are_all_flipped():
    # More than a block of 256 words: each round must have about as many minuses as pluses.
    n = 64 * 256 + 100
    sums = significance.flipped_sums(np.ones(n), 400, 1, False)
    # The standard deviation of a sum of n signs is sqrt(n); that of 400 of them is known to 4 %.
    assert abs(sums.mean()) < 5 * math.sqrt(n / 400)
    assert sums.std() == pytest.approx(math.sqrt(n), rel=0.15)
    last = np.zeros(n)
    last[-1] = 1.0
    assert set(significance.flipped_sums(last, 400, 1, False)) == {-1.0, 1.0}


def naive_hall(d):
    """Hall's transformation of the t of differences; SciPy's skewness is sqrt(n) of ours."""
    t, g = stats.ttest_1samp(d, 0).statistic, stats.skew(d) / math.sqrt(len(d))
    return t + g * t**2 / 3 + g**2 * t**3 / 27 + g / 6


def naive_bootstrap(d, alternative, sign_rounds):
    """How many rounds have a transformed t as extreme as the one seen, and of how many."""
    sided = {"greater": lambda h: h, "less": lambda h: -h, "two-sided": abs}[alternative]
    seen = sided(naive_hall(d))
    found = [sided(naive_hall(d * np.array(signs))) >= seen - 1e-9 for signs in sign_rounds]
    return sum(found), len(found)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [31, 64, 100])
def test_bootstrap_equals_the_naive_one_with_the_same_signs(n, alternative):
    a, b = samples(n, seed=5, shift=0.0)
    rounds = 200
    count, _ = naive_bootstrap(a - b, alternative, naive_signs(n, rounds, 11))
    assert 0 < count < rounds
    assert bootstrap(a, b, alternative, rounds, seed=11) == (1 + count) / (1 + rounds)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_bootstrap_of_few_queries_is_the_enumeration_of_all_signs(alternative):
    for n in (3, 8):
        d = np.random.default_rng(n).normal(0.3, 1, n)
        count, total = naive_bootstrap(d, alternative, itertools.product([1, -1], repeat=n))
        assert bootstrap(d, np.zeros(n), alternative) == count / total


def test_bootstrap_with_weights_takes_moments_of_weighted_differences():
    rng = np.random.default_rng(3)
    d, w, rounds = rng.normal(0.2, 1, 70), rng.random(70) + 0.1, 150

    def hall(d):
        mean = (w * d).sum() / w.sum()
        r = w * (d - mean)
        t = (w * d).sum() / math.sqrt((r**2).sum() * 70 / 69)
        g = (r**3).sum() / (r**2).sum() ** 1.5
        return t + g * t**2 / 3 + g**2 * t**3 / 27 + g / 6

    count = sum(hall(d * signs) >= hall(d) for signs in naive_signs(70, rounds, 2))
    got = bootstrap(d, np.zeros(70), rounds=rounds, seed=2, weights=w)
    assert got == (1 + count) / (1 + rounds)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_bootstrap_of_two_queries_is_a_share_of_four(alternative):
    for d, greater in (([0.1, 0.3], 0.25), ([0.2, 0.2], 0.25), ([0.2, -0.2], 0.75)):
        expected = {"greater": greater, "less": 1.0, "two-sided": 2 * greater}[alternative]
        if d == [0.2, -0.2]:
            # Both mixed signs have t = 0, which two of four are as large as, or larger.
            expected = 1.0 if alternative == "two-sided" else 0.75
        assert bootstrap(d, [0.0, 0.0], alternative) == expected


def test_a_change_of_scale_changes_no_p_value():
    a, b = samples(40, seed=12)
    for test in TESTS:
        assert test(1e-9 * a, 1e-9 * b) == pytest.approx(test(a, b), rel=1e-9)


def test_bootstrap_draws_queries_for_an_interval_as_the_naive_one():
    values = samples(31, seed=5)[0]
    sample = significance.sample_of(values)
    expected = [values[rows].mean() for rows in naive_draws(31, 50, 11)]
    assert significance.drawn_means(sample, 50, 11) == pytest.approx(expected)


def test_the_tests_agree_where_there_are_many_queries():
    a, b = samples(800, seed=2, shift=0.01)
    p = paired_t(a, b)
    assert 0.001 < p < 0.5
    # Three standard errors of a share of 10,000 rounds.
    near = 3 * math.sqrt(p * (1 - p) / 10_000) + 0.005
    assert randomisation(a, b) == pytest.approx(p, abs=near)
    assert bootstrap(a, b) == pytest.approx(p, abs=near)


@pytest.mark.parametrize("test", [randomisation, bootstrap])
def test_same_result_for_any_number_of_threads_and_another_for_another_seed(test):
    a, b = samples(150, seed=4, shift=0.0)
    results = {test(a, b, "two-sided", 3000, seed=9, n_jobs=n_jobs) for n_jobs in (1, 2, 5)}
    assert len(results) == 1
    assert test(a, b, "two-sided", 3000, seed=10) not in results


@pytest.mark.parametrize("test", [randomisation, bootstrap])
def test_more_rounds_begin_with_the_same_rounds(test):
    a, b = samples(150, seed=4, shift=0.0)
    few = round(test(a, b, rounds=1000, seed=1) * 1001) - 1
    many = round(test(a, b, rounds=1500, seed=1) * 1501) - 1
    assert few <= many <= few + 500


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_equal_values_have_p_of_one(test, alternative):
    values = [0.5, 0.25, 1.0, 0.0]
    assert test(values, values, alternative) == 1.0
    # 0.1 + 0.2 is not 0.3 in binary: rounding is no difference.
    assert test([0.1 + 0.2, 0.5], [0.3, 0.5], alternative) == 1.0


@pytest.mark.parametrize("test", TESTS)
def test_a_constant_difference_is_significant_in_its_direction_only(test):
    a = np.linspace(0, 0.8, 20)
    assert test(a + 0.1, a, "greater") < 0.001
    assert test(a + 0.1, a, "two-sided") < 0.001
    assert test(a + 0.1, a, "less") == 1.0
    assert test(a - 0.1, a, "greater") == 1.0


@pytest.mark.parametrize("test", TESTS)
def test_queries_without_a_value_are_left_out_of_both(test):
    a, b = samples(30, seed=6)
    with_nan = np.insert(a, [0, 12], np.nan), np.insert(b, [0, 12], [0.3, np.nan])
    assert test(*with_nan) == test(a, b)
    assert wins_ties_losses(*with_nan) == wins_ties_losses(a, b)


@pytest.mark.parametrize("test", [*TESTS, effect_size])
def test_equal_weights_change_nothing_and_weight_0_leaves_a_query_out(test):
    a, b = samples(30, seed=8)
    assert test(a, b, weights=np.full(30, 2.0)) == pytest.approx(test(a, b), rel=1e-12)
    weights = np.ones(32)
    weights[[3, 20]] = 0
    there = weights > 0
    longer = np.empty(32), np.empty(32)
    for values, given in zip(longer, (a, b), strict=True):
        values[there], values[~there] = given, [1.0, 0.0]
    assert test(*longer, weights=weights) == pytest.approx(test(a, b), rel=1e-12)


@pytest.mark.parametrize("test", [*TESTS, effect_size, wins_ties_losses])
@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ([0.5], [0.4], "at least two queries"),
        ([], [], "at least two queries"),
        ([0.5, np.nan, 0.5], [0.4, 0.3, np.nan], "Got 1 of 3"),
        ([0.5, 0.4], [0.4, 0.3, 0.2], "same queries. Got 2 and 3"),
        ([0.5, np.inf], [0.4, 0.3], "must be finite"),
        ([[0.5, 0.4]], [[0.4, 0.3]], "one-dimensional"),
        (["a", "b"], [0.4, 0.3], "must be numbers"),
    ],
)
def test_bad_values_are_refused(test, a, b, problem):
    with pytest.raises(DataError, match=problem):
        test(a, b)


def test_bad_parameters_are_refused():
    a, b = samples(5)
    with pytest.raises(ParameterError, match="did you mean 'greater'"):
        paired_t(a, b, "greatr")
    with pytest.raises(ParameterError, match="rounds must be"):
        randomisation(a, b, rounds=0)
    with pytest.raises(ParameterError, match="seed must be"):
        bootstrap(a, b, seed=-1)
    with pytest.raises(ParameterError, match="level must be"):
        mean_interval(a, 1.0)
    with pytest.raises(DataError, match=r"weights must be one per query, 5\. Got 4"):
        paired_t(a, b, weights=np.ones(4))
    with pytest.raises(DataError, match="0 or more"):
        paired_t(a, b, weights=[1, 1, 1, 1, -1])


def test_mean_interval_equals_scipy():
    values = samples(25, seed=3)[0]
    expected = stats.t.interval(0.9, 24, values.mean(), stats.sem(values))
    assert mean_interval(values, 0.9) == pytest.approx(expected)
    assert mean_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)


def test_bootstrap_interval_is_near_scipys():
    values = np.random.default_rng(1).exponential(1.0, 40)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(2)
    ).confidence_interval
    got = bootstrap_interval(values, rounds=20_000)
    # The ends of an interval by 20,000 draws are known to about 2 % of a standard error.
    assert got == pytest.approx(tuple(expected), abs=0.1 * stats.sem(values))
    assert bootstrap_interval(values, n_jobs=1) == bootstrap_interval(values, n_jobs=3)
    assert bootstrap_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)


def naive_holm(p_values):
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for step, at in enumerate(order):
        highest = max(highest, (len(order) - step) * p_values[at])
        adjusted[at] = min(1.0, highest)
    return adjusted


def test_holm_equals_the_naive_step_down():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7):
        p = (rng.random(n) ** 3).tolist()
        assert holm(p).tolist() == pytest.approx(naive_holm(p))
    assert holm([]).tolist() == []
    assert holm([0.5, 0.5]).tolist() == [1.0, 1.0]
    with pytest.raises(DataError, match=r"from 0 to 1\. Got nan"):
        holm([0.1, np.nan])


def test_effect_size_is_mean_over_standard_deviation():
    a, b = samples(20, seed=9)
    d = a - b
    assert effect_size(a, b) == pytest.approx(d.mean() / d.std(ddof=1))
    assert effect_size(a, a) == 0.0
    assert effect_size([0.5, 0.6], [0.25, 0.35]) == math.inf


def test_wins_ties_and_losses_are_counted():
    assert wins_ties_losses([0.5, 0.2, 0.1 + 0.2, 0.9], [0.4, 0.5, 0.3, 0.1]) == (2, 1, 1)


def metric_like(rng, n):
    """Differences of two rankings that are alike: bounded, three in ten queries equal."""
    return (rng.beta(2, 2, n) - rng.beta(2, 2, n)) * (rng.random(n) < 0.7)


def heavy_tailed(rng, n):
    return rng.standard_t(4, n) * (rng.random(n) < 0.7)


def false_positives(test, law, n, alternative, trials=2000):
    """How often a test at level 0.05 tells apart what is alike."""
    rng = np.random.default_rng(13)
    # So many that 10 queries have all their signs, as with the rounds by default.
    more = {} if test is paired_t else {"rounds": 1024 if n == 10 else 399, "n_jobs": 1}
    zeros = np.zeros(n)
    found = [test(law(rng, n), zeros, alternative, **more) <= 0.05 for _ in range(trials)]
    return sum(found) / trials


# Four standard errors of a share of 2,000.
NEAR = 4 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("law", [metric_like, heavy_tailed])
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_false_positives_are_as_many_as_the_level_says(test, law, alternative):
    assert false_positives(test, law, 30, alternative) == pytest.approx(0.05, abs=NEAR)


def normal(rng, n):
    return rng.normal(0, 1, n)


@pytest.mark.parametrize(
    ("law", "n", "alternative"),
    [(normal, 10, "greater"), (normal, 100, "less"), (heavy_tailed, 10, "greater"),
     (heavy_tailed, 10, "two-sided"), (heavy_tailed, 100, "greater")],
)  # fmt: skip
def test_false_positives_of_the_bootstrap_are_as_many_with_10_queries_as_with_100(
    law, n, alternative
):
    assert false_positives(bootstrap, law, n, alternative) == pytest.approx(0.05, abs=NEAR)


def skewed(rng, n):
    """A mean of 0 and a skewness of 1.4."""
    return rng.gamma(2.0, 1.0, n) - 2.0


def test_the_bootstrap_takes_skewed_differences_where_the_others_miss_the_level():
    for alternative in ("greater", "less"):
        assert false_positives(bootstrap, skewed, 100, alternative) == pytest.approx(0.05, abs=NEAR)
    few = {test: false_positives(test, skewed, 30, "less") for test in TESTS}
    assert few[bootstrap] < 0.075 < min(few[paired_t], few[randomisation])


def test_holm_keeps_false_positives_of_a_family_at_the_level():
    rng = np.random.default_rng(17)
    trials, level = 800, 0.05
    plain = corrected = 0
    for _ in range(trials):
        base = rng.random(25)
        p = [paired_t(base + rng.normal(0, 1, 25), base) for _ in range(8)]
        plain += min(p) <= level
        corrected += holm(p).min() <= level
    assert corrected / trials < level + 4 * math.sqrt(level / trials)
    # Without it, some 1 - 0.95^8 = 0.34 of the families have a false positive.
    assert plain / trials > 0.25

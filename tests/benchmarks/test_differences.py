"""The errors of differences: what is added, with which degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.differences import (
    Part,
    drawn_difference,
    mean_difference,
    paired_difference,
    satterthwaite,
)
from scipy import stats

RNG = np.random.default_rng(5)
SIZES = (30, 200)
N_DRAWS = 5


def values_of(shift=0.0, of_draws=0.0, seed=0):
    """By set, draw and query: a shift of ours, and a deviation that all queries of a draw share."""
    rng = np.random.default_rng(seed)
    pairs = []
    for size in SIZES:
        theirs = rng.normal(0.5, 0.2, (1, size)) + rng.normal(0, 0.05, (N_DRAWS, size))
        ours = theirs + shift + rng.normal(0, 0.05, (N_DRAWS, size))
        pairs.append((ours + of_draws * rng.normal(0, 1, (N_DRAWS, 1)), theirs))
    return pairs


def test_the_error_of_drawn_values_has_the_variance_over_queries_and_that_over_draws():
    pairs = values_of(0.02, of_draws=0.01)
    found, squares = drawn_difference(pairs), []
    for ours, theirs in pairs:
        off = ours - theirs
        squares.append(off.mean(axis=0).var(ddof=1) / off.shape[1])
        squares.append(off.mean(axis=1).var(ddof=1) / N_DRAWS)
    freedoms = [size - 1 for size in SIZES]
    parts = [squares[0] ** 2 / freedoms[0], squares[1] ** 2 / 4, squares[2] ** 2 / freedoms[1],
             squares[3] ** 2 / 4]  # fmt: skip
    freedom = sum(squares) ** 2 / sum(parts)
    assert found.mean == pytest.approx(np.mean([np.mean(a - b) for a, b in pairs]))
    assert found.error == pytest.approx(np.sqrt(sum(squares)) / 2)
    assert found.p_value == pytest.approx(2 * stats.t.sf(found.mean / found.error, freedom))
    assert found.high - found.mean == pytest.approx(found.error * stats.t.ppf(0.975, freedom))


def test_a_deviation_that_draws_share_widens_the_error_and_one_draw_is_refused():
    quiet, noisy = (drawn_difference(values_of(0.0, each, seed=3)) for each in (0.0, 0.05))
    assert noisy.error > 2 * quiet.error
    with pytest.raises(ValueError, match="at least two"):
        drawn_difference([(ours[:1], theirs[:1]) for ours, theirs in values_of()])


def test_draws_that_are_all_the_same_leave_the_paired_test():
    ours, theirs = RNG.random(40), RNG.random(40)
    drawn = drawn_difference([(np.tile(ours, (N_DRAWS, 1)), np.tile(theirs, (N_DRAWS, 1)))])
    assert drawn == pytest.approx(paired_difference(ours, theirs))
    assert drawn == pytest.approx(mean_difference([(ours, theirs)]))


def test_queries_that_a_metric_skips_are_left_out_in_all_draws():
    pairs = values_of(0.02)
    longer = [
        tuple(np.column_stack([each, np.full(N_DRAWS, np.nan)]) for each in pair) for pair in pairs
    ]
    assert drawn_difference(longer) == pytest.approx(drawn_difference(pairs))


def test_equals_are_told_apart_in_about_a_twentieth_of_trials():
    p_values = [drawn_difference(values_of(0.0, 0.01, seed)).p_value for seed in range(400)]
    assert 0.01 < np.mean(np.array(p_values) < 0.05) < 0.08


def test_degrees_of_freedom_are_between_the_fewest_and_the_sum():
    parts = [Part(0.3, 4), Part(0.1, 99), Part(0.02, 7)]
    assert 4 < satterthwaite(parts) < 110
    # Welch's, for two samples.
    a, b = RNG.normal(0, 1, 9), RNG.normal(0, 4, 23)
    welch = stats.ttest_ind(a, b, equal_var=False).df
    variances = [Part(each.var(ddof=1) / len(each), len(each) - 1) for each in (a, b)]
    assert satterthwaite(variances) == pytest.approx(welch)
    assert satterthwaite([Part(0.0, 3)]) == 1.0

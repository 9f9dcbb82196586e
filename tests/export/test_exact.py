"""The laws of thresholds and sets that every format rests on."""

from __future__ import annotations

import numpy as np
import pytest

from export.ensembles import HARD_THRESHOLDS
from rankgrove.export.exact import (
    SOLR_SLACK,
    after_widened,
    membership,
    next_float32,
    widened,
    without_slack,
)

N_PAIRS = 100_000


def any_float32s(seed, number):
    """Floats of all sizes: every pattern of bits is as likely as any other."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, size=number, dtype=np.uint32)
    floats = bits.view(np.float32)
    floats = np.where(np.isnan(floats), np.float32(1.5), floats)
    floats[: len(HARD_THRESHOLDS)] = HARD_THRESHOLDS
    return floats


def rounded(values):
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


@pytest.fixture(scope="module")
def pairs():
    """Thresholds, and for each a float64 near it: on the middle of two floats, or beside it."""
    random = np.random.default_rng(1)
    thresholds = any_float32s(0, N_PAIRS)
    with np.errstate(over="ignore", under="ignore"):
        other = np.nextafter(thresholds, np.where(random.random(N_PAIRS) < 0.5, np.inf, -np.inf))
        ends = np.where(np.isinf(other), np.copysign(2.0**128, other), other.astype(np.float64))
        middle = (thresholds.astype(np.float64) + ends) / 2
        step = random.integers(-2, 3, size=N_PAIRS)
        for _ in range(2):
            middle = np.where(step > 0, np.nextafter(middle, np.inf), middle)
            middle = np.where(step < 0, np.nextafter(middle, -np.inf), middle)
            step -= np.sign(step)
    far = random.permutation(thresholds).astype(np.float64)
    return thresholds, np.where(random.random(N_PAIRS) < 0.8, middle, far)


def test_a_widened_threshold_rounds_to_the_threshold():
    thresholds = any_float32s(2, N_PAIRS)
    np.testing.assert_array_equal(rounded(widened(thresholds)), thresholds)


def test_a_widened_threshold_decides_as_the_threshold_does_for_every_float64(pairs):
    thresholds, values = pairs
    here = rounded(values) <= thresholds
    assert 0.05 < here.mean() < 0.95
    np.testing.assert_array_equal(values <= widened(thresholds), here)


def test_the_number_after_a_widened_threshold_decides_so_where_others_ask_for_less(pairs):
    thresholds, values = pairs
    finite = thresholds < np.inf
    here = rounded(values) <= thresholds
    np.testing.assert_array_equal((values < after_widened(thresholds))[finite], here[finite])


def test_the_next_float32_decides_so_among_floats():
    thresholds, values = any_float32s(3, N_PAIRS), any_float32s(4, N_PAIRS)
    beside = np.random.default_rng(5).random(N_PAIRS) < 0.5
    with np.errstate(over="ignore", under="ignore"):
        near = np.nextafter(thresholds, np.where(beside, np.inf, -np.inf).astype(np.float32))
    for tried in (values, thresholds, near):
        asked = (thresholds < np.inf) & (tried < np.inf)
        here = (tried <= thresholds)[asked]
        np.testing.assert_array_equal((tried < next_float32(thresholds))[asked], here)


def test_what_solr_adds_is_taken_off_exactly_for_thresholds_that_are_not_small():
    random = np.random.default_rng(6)
    thresholds = random.normal(size=N_PAIRS).astype(np.float32) * np.float32(10.0) ** (
        random.integers(-2, 20, size=N_PAIRS).astype(np.float32)
    )
    thresholds = thresholds[np.abs(thresholds) >= 1e-3]
    thresholds = np.concatenate([thresholds, np.float32([0.0, np.inf, -np.inf])])
    found = without_slack(thresholds)
    np.testing.assert_array_equal(found.reached, thresholds)
    np.testing.assert_array_equal(found.thresholds + SOLR_SLACK, thresholds)


def test_what_solr_adds_brings_a_small_threshold_at_most_a_little_above():
    thresholds = np.random.default_rng(7).uniform(-1e-3, 1e-3, size=N_PAIRS).astype(np.float32)
    found = without_slack(thresholds)
    np.testing.assert_array_equal(found.thresholds + SOLR_SLACK, found.reached)
    above = found.reached.astype(np.float64) - thresholds
    assert above.min() >= 0.0
    assert 0.0 < above.max() <= 6e-11


@pytest.mark.parametrize("missing_left", [True, False])
def test_what_is_in_no_set_goes_where_missing_values_go(missing_left):
    random = np.random.default_rng(8)
    for n_categories in (1, 5, 31, 32, 33, 256):
        goes_left = random.random(256) < 0.5
        test = membership(goes_left, n_categories, missing_left, left=10, right=20)
        assert test.outside == (10 if missing_left else 20)
        for code in range(n_categories):
            child = test.inside if code in test.codes else test.outside
            assert child == (10 if goes_left[code] else 20)
        assert max(test.codes, default=0) < n_categories

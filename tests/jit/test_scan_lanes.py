"""Looking for cuts that may gain more than a floor, held to the gains themselves."""

import numpy as np
import pytest

from rankgrove._jit import as_input, kernel, next_above

N_BINS, LANES = 40, 16


@kernel
def find(histogram, first, sums, total, least, l2, floor, chosen):
    return next_above(
        histogram, first, len(histogram) // 16, sums, total, np.int32(least), np.float32(l2),
        np.float32(floor), chosen
    )  # fmt: skip


def make_histogram(seed, size):
    """Packed sums of which half are empty; forces have both signs."""
    rng = np.random.default_rng(seed)
    shape = (N_BINS, LANES)
    forces, curvatures = rng.integers(-size, size, shape), rng.integers(0, size, shape)
    return np.where(rng.random(shape) < 0.5, 0, (forces << 32) + curvatures)


def gains_of(histogram, before, total, least, l2):
    """The gain of each cut as it is defined, 0 where a child is too light."""
    left = before + np.cumsum(histogram, axis=0)
    right = total - left
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = sum((s >> 32) ** 2.0 / ((s & 0xFFFFFFFF) + l2) for s in (left, right))
    light = np.minimum(left & 0xFFFFFFFF, right & 0xFFFFFFFF) < least
    return np.where(light, 0.0, gains), left


@pytest.mark.parametrize("size", [50, 1 << 24])
@pytest.mark.parametrize("l2", [0.0, 300.0, 2.0**32])
@pytest.mark.parametrize("chosen", [0xFFFF, 0x8421])
def test_the_cuts_that_are_found_are_those_that_gain_more_than_the_floor(size, l2, chosen):
    lanes = (chosen >> np.arange(LANES)) & 1
    for seed in range(5):
        histogram = make_histogram(seed, size)
        before = make_histogram(seed + 50, size)[0]
        # All features have the rows of one node: what a lane lacks is in its last bin.
        whole = histogram.sum(axis=0) + before
        total = int((5 * size << 32) + (whole & 0xFFFFFFFF).max() + size)
        histogram[-1] += total - whole
        gains, left = gains_of(histogram, before, total, size // 2, l2)
        # Half-way between two gains: what is found does not depend on the last digits.
        ranked = np.unique(gains)
        for at in np.linspace(0, len(ranked) - 2, 7).astype(int):
            floor = (ranked[at] + ranked[at + 1]) / 2
            if ranked[at + 1] < ranked[at] * (1 + 1e-5):
                continue
            expected = (gains > floor) & (lanes == 1) & (histogram != 0)
            expected[0] = (gains[0] > floor) & (lanes == 1)
            sums, b = before.copy(), 0
            for found_at in [*np.flatnonzero(expected.any(axis=1)), N_BINS]:
                found = find(
                    as_input(histogram.reshape(-1), np.int64), b, sums, total, size // 2, l2,
                    floor, chosen,
                )  # fmt: skip
                assert found >> 16 == found_at
                assert np.array_equal(sums, left[min(found_at, N_BINS - 1)])
                if found_at < N_BINS:
                    assert found & 0xFFFF == expected[found_at] @ (1 << np.arange(LANES))
                b = found_at + 1

"""Paired differences of queries: of one data set, and the mean over several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.experiments.compare.significance import differences, moments, t_quantile

Floats = NDArray[np.float64]

SIGNIFICANT = 0.05
MEAN = "mean of the sets"


class Difference(NamedTuple):
    """A mean difference of paired values: its standard error, 95 % interval and p-value."""

    mean: float
    error: float
    low: float
    high: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.error:.4f}"

    @property
    def interval(self) -> str:
        return f"{self.low:+.4f} to {self.high:+.4f}"

    @property
    def p(self) -> str:
        return "p < 0.001" if self.p_value < 0.001 else f"p {self.p_value:.3f}"


def _tested(mean: float, error: float, freedom: float) -> Difference:
    from scipy.special import stdtr

    if error == 0.0:
        return Difference(mean, 0.0, mean, mean, 1.0 if mean == 0.0 else 0.0)
    reach = t_quantile(0.95, freedom) * error
    p_value = 2 * float(stdtr(freedom, -abs(mean) / error))
    return Difference(mean, error, mean - reach, mean + reach, p_value)


def paired_difference(ours: Floats, theirs: Floats) -> Difference:
    """Ours less theirs, with the paired t-test; pairs that lack a value are left out."""
    sample = differences(ours, theirs)
    mean, error, _ = moments(sample)
    return _tested(mean, error, sample.size - 1)


def mean_difference(pairs: Iterable[tuple[Floats, Floats]]) -> Difference:
    """The mean over data sets of ours less theirs, with Welch's test: all sets weigh the same."""
    samples = [differences(ours, theirs) for ours, theirs in pairs]
    found = [moments(sample) for sample in samples]
    squares = sum(each.error**2 for each in found)
    fourths = sum(
        each.error**4 / (sample.size - 1) for each, sample in zip(found, samples, strict=True)
    )
    mean, error = float(np.mean([each.mean for each in found])), squares**0.5 / len(found)
    return _tested(mean, error, squares**2 / fourths if fourths else 1.0)


def differences_of_sets(
    ours: dict[str, Floats], theirs: dict[str, Floats]
) -> dict[str, Difference]:
    """By data set, and in the mean of them."""
    pairs = {name: (ours[name], theirs[name]) for name in ours}
    found = {name: paired_difference(*pair) for name, pair in pairs.items()}
    return {**found, MEAN: mean_difference(pairs.values())}

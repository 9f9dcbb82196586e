"""Paired differences of queries: of one data set, and the mean over several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def below(difference: Difference) -> float:
    """The one-tailed p-value of the first being below the second."""
    return difference.p_value / 2 if difference.mean < 0 else 1 - difference.p_value / 2


def above(difference: Difference) -> float:
    """The one-tailed p-value of the first being above the second."""
    return below(Difference(-difference.mean, *difference[1:]))


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


class Part(NamedTuple):
    """A part of the variance of a mean, and the degrees of freedom that it is estimated with."""

    variance: float
    freedom: float


def satterthwaite(parts: Sequence[Part]) -> float:
    """The degrees of freedom of a sum of estimated variances: (sum v)^2 / sum(v^2 / freedom).

    They are between those of the part with the fewest and the sum of all; 1 where all are 0.

    >>> satterthwaite([Part(2.0, 4), Part(2.0, 4)])
    8.0
    >>> satterthwaite([Part(2.0, 4), Part(0.0, 100)])
    4.0
    """
    total = sum(part.variance for part in parts)
    squares = sum(part.variance**2 / part.freedom for part in parts)
    return total**2 / squares if squares else 1.0


def _mean_of(means: Sequence[float], parts: Sequence[Part]) -> Difference:
    """The mean of means that weigh the same, from the parts of the variances of all of them."""
    error = sum(part.variance for part in parts) ** 0.5 / len(means)
    return _tested(float(np.mean(means)), error, satterthwaite(parts))


def mean_difference(pairs: Iterable[tuple[Floats, Floats]]) -> Difference:
    """The mean over data sets of ours less theirs, with Welch's test: all sets weigh the same."""
    samples = [differences(ours, theirs) for ours, theirs in pairs]
    found = [moments(sample) for sample in samples]
    parts = [
        Part(each.error**2, sample.size - 1) for each, sample in zip(found, samples, strict=True)
    ]
    return _mean_of([each.mean for each in found], parts)


def drawn_difference(pairs: Iterable[tuple[Floats, Floats]]) -> Difference:
    """The mean over data sets of ours less theirs, where each was trained on several draws.

    Values of a set are by draw and query. Its variance has two parts: over queries, of the
    differences that are the mean over draws, and over draws, of the mean differences. (Noise of the
    draws is in the first part, too, so that the sum is rather too large than too small. But
    draws of the same queries overlap, so what another training set would do is more than the second
    part says.) At least two draws are needed.
    """
    means, parts = list[float](), list[Part]()
    for ours, theirs in pairs:
        by_query = differences(ours.mean(axis=0), theirs.mean(axis=0))
        by_draw = differences(np.nanmean(ours, axis=1), np.nanmean(theirs, axis=1))
        of_queries, of_draws = moments(by_query), moments(by_draw)
        means.append(of_queries.mean)
        parts.append(Part(of_queries.error**2, by_query.size - 1))
        parts.append(Part(of_draws.error**2, by_draw.size - 1))
    return _mean_of(means, parts)


def differences_of_sets(
    ours: dict[str, Floats], theirs: dict[str, Floats]
) -> dict[str, Difference]:
    """By data set, and in the mean of them."""
    pairs = {name: (ours[name], theirs[name]) for name in ours}
    found = {name: paired_difference(*pair) for name, pair in pairs.items()}
    return {**found, MEAN: mean_difference(pairs.values())}

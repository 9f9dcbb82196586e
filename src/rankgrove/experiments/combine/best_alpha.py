"""The best alpha between two rankers, from the steps of their queries.

Sorted and added up, the steps of all queries are the mean metric on every interval between them.
Floats are the catch. Around each step lies a zone where rounding decides on the order of two
documents; zones that overlap merge, and only the gaps between them are sure. So a gap is measured
before it is believed, and where zones of several steps merge, or documents tie at one point, the
points themselves are measured if the steps could add up to more than the best gap has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.experiments.combine.alpha_steps import Steps, TwoRankers, near, some_orders_are_nan
from rankgrove.experiments.combine.curve import Curve
from rankgrove.metrics.base import Floats

# Values that differ by less than this are equal but for rounding.
ROUNDING = 1e-12
# A gap between steps that is narrower has no number of float64 safely inside.
_NARROWEST = 2.0**-50
# How many gaps are tried where the scores round differently from what the sweep expects.
_TRIES = 64
# So many places where steps come together are measured before the best so far is looked at.
_BLOCK = 256


class Best(NamedTuple):
    """An alpha, its value as measured, and the interval around it that has the same."""

    value: float
    alpha: float
    interval: tuple[float, float]


def find_best_alpha(two: TwoRankers) -> tuple[Best, Curve, tuple[float, float]]:
    """The best alpha, the curve, and the values at 1 and 0."""
    metric, data = two.metric, two.data
    results = [two.measure(alpha) for alpha in (1.0, 0.0)]
    counted = ~np.isnan(results[0].values)
    if np.any(counted == np.isnan(results[1].values)):
        raise some_orders_are_nan(metric)
    weights = counted.astype(float) if data.weights is None else data.weights * counted
    shares = weights / weights.sum()
    gaps = _Gaps(two, two.find_steps(shares))
    best = gaps.best()
    for result, alpha in zip(results, (1.0, 0.0), strict=True):
        if result.mean > best.value + gaps.tolerance:
            best = Best(result.mean, alpha, (alpha, alpha))
    best = gaps.better_between(best, shares)
    curve = gaps.curve(("alpha", str(metric)), best.alpha)
    return best, curve, (results[0].mean, results[1].mean)


class _Gaps:
    """The intervals between steps, on which the metric is the same for sure, and their values."""

    def __init__(self, two: TwoRankers, steps: Steps) -> None:
        self.two, self.steps = two, steps
        before = np.clip(steps.alpha - steps.half, 0.0, 1.0)
        after = np.clip(steps.alpha + steps.half, 0.0, 1.0)
        # Step i lies between gaps i and i + 1; where steps overlap there is no gap.
        self.starts = np.concatenate([[0.0], np.maximum.accumulate(after)])
        self.ends = np.append(np.minimum.accumulate(before[::-1])[::-1], 1.0)
        self.widths = self.ends - self.starts
        self.middles = (self.starts + self.ends) / 2
        self.levels = np.append(0.0, _running_sums(steps.change))
        # Any gap tells how high all are; the widest is the least in danger from rounding.
        widest = int(np.argmax(self.widths))
        self.levels += two.measure(self.middles[widest]).mean - self.levels[widest]
        self.sure = np.flatnonzero(self.widths > _NARROWEST)
        self.tolerance = ROUNDING * max(1.0, float(np.abs(self.levels).max()))

    def best(self) -> Best:
        """The widest of the gaps with the highest value, as it is measured."""
        best = Best(-np.inf, 0.0, (0.0, 0.0))
        left = self.sure
        for _ in range(_TRIES):
            if len(left) == 0 or best.value >= self.levels[left].max() - self.tolerance:
                break
            equal = left[self.levels[left] >= self.levels[left].max() - self.tolerance]
            gap = equal[np.argmax(self.widths[equal])]
            alpha = float(self.middles[gap])
            value = self.two.measure(alpha).mean
            if value > best.value:
                best = Best(value, alpha, (float(self.starts[gap]), float(self.ends[gap])))
            left = left[left != gap]
        return best

    def better_between(self, best: Best, shares: Floats) -> Best:
        """The best where steps come together, if it is better.

        There documents tie, or stand in an order that only rounding decides. What can come of it
        is bounded by the peaks of the steps, and measured where the bound is high enough.
        """
        steps, sure = self.steps, self.sure
        if len(steps.alpha) == 0:
            return best
        firsts = sure[sure < len(steps.alpha)]
        if len(firsts) == 0 or firsts[0] > 0:
            firsts = np.append(0, firsts)
        peaks = np.add.reduceat(steps.peak, firsts)
        changes = np.add.reduceat(steps.change, firsts)
        bounds = self.levels[firsts] + peaks
        several = peaks > np.maximum(changes, 0.0) + self.tolerance
        lasts = np.append(firsts[1:], len(steps.alpha))
        order = np.argsort(-bounds, kind="stable")
        order = order[several[order] & (bounds[order] > best.value + self.tolerance)]
        for start in range(0, len(order), _BLOCK):
            block = order[start : start + _BLOCK]
            block = block[bounds[block] > best.value + self.tolerance]
            if len(block) == 0:
                break
            points, values = self._measure_between(firsts[block], lasts[block], shares)
            for at in np.argsort(-values, kind="stable")[:_TRIES]:
                if values[at] <= best.value + self.tolerance:
                    break
                value = self.two.measure(points[at]).mean
                if value > best.value + self.tolerance:
                    best = Best(value, float(points[at]), (float(points[at]), float(points[at])))
        return best

    def _measure_between(
        self, firsts: NDArray[np.int64], lasts: NDArray[np.int64], shares: Floats
    ) -> tuple[Floats, Floats]:
        """Points where steps come together, and the values there: only their queries are ranked."""
        points, values = [], []
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            at = np.unique(self.steps.alpha[first:last])
            own = np.unique(np.concatenate([near(at).ravel(), (at[1:] + at[:-1]) / 2]))
            moved = np.unique(self.steps.query[first:last])
            reference = first if self.widths[first] > _NARROWEST else last
            tried = np.append(own, self.middles[reference])
            table = self.two.measure_queries(
                np.tile(moved, len(tried)), np.repeat(tried, len(moved))
            ).reshape(len(tried), len(moved))
            points.append(own)
            values.append(self.levels[reference] + (table[:-1] - table[-1]) @ shares[moved])
        return np.concatenate(points), np.concatenate(values)

    def curve(self, names: tuple[str, str], mark: float) -> Curve:
        x = np.append(0.0, self.steps.alpha)
        last = np.append(x[1:] != x[:-1], True)
        x, levels = x[last], self.levels[last]
        new = np.append(True, levels[1:] != levels[:-1])
        return Curve(x[new], levels[new], names, 1.0, mark)


def _running_sums(changes: Floats) -> Floats:
    """The sum of all changes up to each, with what rounding loses carried along."""
    sums = np.cumsum(changes)
    before = np.append(0.0, sums[:-1])
    larger = np.abs(before) >= np.abs(changes)
    lost = np.where(larger, (before - sums) + changes, (changes - sums) + before)
    return np.asarray(sums + np.cumsum(lost))

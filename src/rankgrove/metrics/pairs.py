"""Metrics of pairs: pair accuracy and Kendall's tau.

Both count pairs of documents with different labels: concordant if the better one is ranked
above. Counting is a merge sort of the labels in rank order, O(n log n). Both are linear in the
number of concordant pairs, and a random order of tied documents gets half of their pairs right,
so the expectation over ties is exactly the middle between the worst and the best order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import kernel
from rankgrove.metrics.base import Floats, Metric, Rankings, one_query
from rankgrove.metrics.forms import PAIRS, Form


@kernel
def _count_discordant(values, n, spare):
    """Pairs i < j with values[i] < values[j]; sorts the first n values, highest first."""
    count = 0
    width = 1
    while width < n:
        for lo in range(0, n, 2 * width):
            mid = min(lo + width, n)
            hi = min(lo + 2 * width, n)
            i = lo
            j = mid
            for at in range(lo, hi):
                if j >= hi or (i < mid and values[i] >= values[j]):
                    spare[at] = values[i]
                    i += 1
                else:
                    spare[at] = values[j]
                    j += 1
                    count += mid - i
        for at in range(n):
            values[at] = spare[at]
        width *= 2
    return count


@kernel
def count_pairs(ranked, starts, first, last, out_pairs, out_discordant):
    """For queries first to last: pairs with different labels, and those in the wrong order."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, starts[q + 1] - starts[q])
    values = np.empty(longest, np.float32)
    spare = np.empty(longest, np.float32)
    for q in range(first, last):
        lo = starts[q]
        n = starts[q + 1] - lo
        for i in range(n):
            values[i] = ranked[lo + i]
        out_discordant[q] = _count_discordant(values, n, spare)
        same = 0
        start = 0
        for i in range(1, n + 1):
            if i == n or values[i] != values[start]:
                same += (i - start) * (i - start - 1) // 2
                start = i
        out_pairs[q] = n * (n - 1) // 2 - same


@kernel
def _seen_below(tree, grade):
    """How many grades below `grade` a Fenwick tree has seen."""
    count = 0
    while grade > 0:
        count += tree[grade]
        grade -= grade & -grade
    return count


@kernel
def sweep_pairs(grades, rank_a, n_grades, out):
    """Change of (concordant - discordant) when rank_a trades places with each rank below.

    `grades` are the labels in rank order as dense ranks 0, 1, … A document between the two
    that differs from one of them by sign d changes its pair with it by 2d.
    """
    tree = np.zeros(n_grades + 1, np.int64)
    grade_a = grades[rank_a]
    above_a = 0
    below_a = 0
    for rank_b in range(rank_a + 1, len(grades)):
        grade_b = grades[rank_b]
        between = rank_b - rank_a - 1
        below_b = _seen_below(tree, grade_b)
        above_b = between - _seen_below(tree, grade_b + 1)
        own = (grade_b > grade_a) * 1 - (grade_b < grade_a) * 1
        out[rank_b] = 2 * (own + (below_b - above_b) - (below_a - above_a))
        above_a += grade_b > grade_a
        below_a += grade_b < grade_a
        at = grade_b + 1
        while at <= n_grades:
            tree[at] += 1
            at += at & -at


@dataclass(frozen=True, kw_only=True, repr=False)
class _Pairs(Metric):
    has_cutoff: ClassVar[bool] = False
    expected_ties: ClassVar[str] = "closed form: the middle of worst and best"

    def check_labels(self, rankings: Rankings) -> None:
        """Any finite label has its meaning here: only their order counts."""

    def _from_counts(self, pairs: Floats, discordant: Floats, sizes: Floats) -> Floats:
        raise NotImplementedError

    def _worth(self, pairs: Floats, sizes: NDArray[np.int64]) -> Floats:
        """What one more concordant pair gives."""
        raise NotImplementedError

    def _compute(self, rankings: Rankings) -> Floats:
        if self.ties == "expected":
            worst = replace(self, ties="worst")._compute(rankings)
            return (worst + replace(self, ties="best")._compute(rankings)) / 2
        ranked, starts = rankings.ranked(self.ties, rankings.longest)
        pairs = np.empty(rankings.n_queries)
        discordant = np.empty(rankings.n_queries)
        rankings.run(lambda q0, q1: count_pairs(ranked, starts, q0, q1, pairs, discordant))
        pairs[pairs == 0] = np.nan
        return self._from_counts(pairs, discordant, np.diff(rankings.offsets).astype(float))

    def form(self, rankings: Rankings) -> Form:
        pairs, discordant = np.empty(rankings.n_queries), np.empty(rankings.n_queries)
        count_pairs(rankings.labels, rankings.offsets, 0, rankings.n_queries, pairs, discordant)
        pairs[pairs == 0] = np.nan
        values, longest = rankings.labels.astype(np.float64), rankings.longest
        # The step from one discount to the next is 1 everywhere.
        steps = np.arange(float(longest), 0.0, -1.0)
        return Form(PAIRS, values, steps, self._worth(pairs, np.diff(rankings.offsets)), longest)

    def fill_deltas(self, labels: Floats, depth: int, neighbours: int, out: Floats) -> None:
        scale = self.form(Rankings.of_order(one_query(labels))).scales[0]
        if np.isnan(scale):
            return
        levels, grades = np.unique(labels, return_inverse=True)
        for rank_a in range(min(depth, len(labels))):
            sweep_pairs(grades, rank_a, len(levels), out[rank_a])
            # (concordant - discordant) rises by 2 for each pair that becomes concordant.
            out[rank_a, rank_a + 1 :] *= scale / 2
            out[rank_a, rank_a + neighbours + 1 :] = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class PairAccuracy(_Pairs):
    """The share of pairs with different labels that are ranked in the right order.

    >>> print(PairAccuracy(ties="expected"))
    pair_accuracy(ties=expected)
    """

    name: ClassVar[str] = "pair_accuracy"
    title: ClassVar[str] = "pair accuracy"
    formula: ClassVar[str] = "concordant / (pairs with different labels)"
    reference: ClassVar[str] = "as CatBoost's PairAccuracy without weights"

    def _from_counts(self, pairs: Floats, discordant: Floats, sizes: Floats) -> Floats:
        return np.asarray((pairs - discordant) / pairs)

    def _worth(self, pairs: Floats, sizes: NDArray[np.int64]) -> Floats:
        return np.asarray(1.0 / pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class Tau(_Pairs):
    """Kendall's tau-b between the ranking and the labels, from -1 to 1.

    tau = (concordant - discordant) / sqrt(pairs with different labels * all pairs). Tied scores
    are put in an order by the tie policy, so they do not shrink the second factor as they do in
    `scipy.stats.kendalltau`; without tied scores the two are equal.

    >>> print(Tau())
    tau
    """

    name: ClassVar[str] = "tau"
    aliases: ClassVar[tuple[str, ...]] = ("kendall",)
    title: ClassVar[str] = "Kendall's tau"
    formula: ClassVar[str] = "(concordant - discordant) / sqrt(pairs with different labels * pairs)"
    reference: ClassVar[str] = "Kendall 1945"

    def _from_counts(self, pairs: Floats, discordant: Floats, sizes: Floats) -> Floats:
        return np.asarray((pairs - 2 * discordant) / np.sqrt(pairs * sizes * (sizes - 1) / 2))

    def _worth(self, pairs: Floats, sizes: NDArray[np.int64]) -> Floats:
        return np.asarray(2.0 / np.sqrt(pairs * sizes * (sizes - 1) / 2))

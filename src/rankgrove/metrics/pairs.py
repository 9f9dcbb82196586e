"""Metrics of pairs: pair accuracy and Kendall's tau.

Both count pairs of documents with different labels: concordant if the better one is ranked
above. Counting goes down the ranks with a Fenwick tree of the grades above, O(n log n). Both are
linear in the number of concordant pairs, and a random order of tied documents gets half of their
pairs right, so the expectation over ties is exactly the middle between the worst and the best
order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, empty, kernel
from rankgrove._jit.ranking import longest_query
from rankgrove.metrics.base import Floats, Metric, Rankings, one_query
from rankgrove.metrics.forms import PAIRS, Form


@kernel
def _seen_below(tree, grade):
    """What a Fenwick tree has seen of the grades below `grade`."""
    total = tree[0]
    while grade > 0:
        total += tree[grade]
        grade -= grade & -grade
    return total


@kernel
def _see(tree, grade, amount):
    """Add to what a Fenwick tree has seen of a grade; its first entry stays 0."""
    at = grade + 1
    while at < len(tree):
        tree[at] += amount
        at += at & -at


@kernel
def _number_grades(labels, out):
    """The labels of one query as dense ranks 0, 1, …; returns how many there are."""
    order = np.argsort(labels)
    grade = 0
    for i in range(len(labels)):
        if i > 0 and labels[order[i]] != labels[order[i - 1]]:
            grade += 1
        out[order[i]] = grade
    return grade + 1


@kernel
def count_pairs(ranked, weights, starts, first, last, out_pairs, out_discordant):
    """For queries first to last: pairs with different labels, and those in the wrong order.

    `weights` are none, or one per document in rank order: a pair counts the product of the two.
    """
    longest = longest_query(starts, first, last)
    grades = empty(longest, np.int64)
    worse, better = empty(longest + 1, np.float64), empty(longest + 1, np.float64)
    for q in range(first, last):
        lo = starts[q]
        n = starts[q + 1] - lo
        n_grades = _number_grades(ranked[lo : lo + n], grades)
        # What has been seen of each grade, from the worst and from the best: a sum of no grades
        # is 0, with no rounding.
        from_worst, from_best = worse[: n_grades + 1], better[: n_grades + 1]
        from_worst[:], from_best[:] = 0.0, 0.0
        discordant, concordant = 0.0, 0.0
        for i in range(n):
            weight = weights[lo + i] if len(weights) else 1.0
            grade, from_top = grades[i], n_grades - 1 - grades[i]
            discordant += weight * _seen_below(from_worst, grade)
            concordant += weight * _seen_below(from_best, from_top)
            _see(from_worst, grade, weight)
            _see(from_best, from_top, weight)
        out_pairs[q] = discordant + concordant
        out_discordant[q] = discordant


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
        _see(tree, grade_b, 1)


def _counts(
    rankings: Rankings, ranked: NDArray[np.float32], weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """The pairs of each query, NaN if there are none, and the discordant ones."""
    pairs, discordant = np.empty(rankings.n_queries), np.empty(rankings.n_queries)
    inputs = ranked, as_input([] if weights is None else weights, np.float64), rankings.offsets
    rankings.run(lambda q0, q1: count_pairs(*inputs, q0, q1, pairs, discordant))
    pairs[pairs == 0] = np.nan
    return pairs, discordant


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
        sizes = np.diff(rankings.offsets).astype(float)
        if self.weighs_documents and rankings.document_weights is not None:
            order = rankings.order(self.ties)
            labels = as_input(rankings.labels[order], np.float32)
            counts = _counts(rankings, labels, rankings.document_weights[order])
            return self._from_counts(*counts, sizes)
        labels = rankings.ranked(self.ties, rankings.longest).labels
        return self._from_counts(*_counts(rankings, labels), sizes)

    def form(self, rankings: Rankings) -> Form:
        pairs, _ = _counts(rankings, rankings.labels)
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

    With weights of documents a pair counts the product of the two, as in the forces of pairs: the
    sum of w_i w_j over pairs with label i > label j and i ranked above j, divided by that over all
    pairs with label i > label j. A query whose pairs all count 0 is empty.

    >>> print(PairAccuracy(ties="expected"))
    pair_accuracy(ties=expected)
    """

    name: ClassVar[str] = "pair_accuracy"
    title: ClassVar[str] = "pair accuracy"
    formula: ClassVar[str] = "concordant / (pairs with different labels)"
    reference: ClassVar[str] = "as CatBoost's PairAccuracy without weights"
    weighs_documents: ClassVar[bool] = True

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

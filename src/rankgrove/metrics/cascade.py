"""The cascade: ERR and MRR.

A user reads from the top and stops at a document with probability R. Both metrics are
`sum over ranks p of R_p / p * product over m < p of (1 - R_m)`: for ERR, R grows with the
grade; for MRR, R is 1 for a relevant document and 0 otherwise.

Expected ties are exact. With q = 1 - R, let A_x be the mean over all orders of a tie group of
the product of its first x values of q: an elementary symmetric mean, built one document at a
time by `A_x <- (1 - x/j) A_x + (x/j) q_j A_(x-1)`, where all terms are positive, so that
nothing cancels. The chance to stop at the x-th place of the group is then A_(x-1) - A_x. This
costs O(m^2) for m tied documents; for values of 0 and 1 only, a recurrence in O(m) is used.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankgrove._jit import as_input, empty, kernel
from rankgrove._jit.ranking import longest_query
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.base import Binary, Floats, Metric, Rankings, show_number
from rankgrove.metrics.forms import CASCADE, Form
from rankgrove.metrics.grades import BINARY, EXPONENTIAL, LINEAR, TABLE, worth, worths


@kernel
def _any_stop(labels, lo, hi, kind, table):
    for i in range(lo, hi):
        if worth(labels[i], kind, table) > 0.0:
            return True
    return False


@kernel
def cascade(labels, offsets, ranked, starts, first, last, depth, kind, table, out):
    """The metric of queries first to last from labels in rank order; NaN where none stops."""
    for q in range(first, last):
        lo = starts[q]
        reach = 1.0
        total = 0.0
        for i in range(min(starts[q + 1] - lo, depth)):
            stop = worth(ranked[lo + i], kind, table)
            total += reach * stop / (i + 1)
            reach *= 1.0 - stop
            if reach == 0.0:
                break
        if total == 0.0 and not _any_stop(labels, offsets[q], offsets[q + 1], kind, table):
            total = np.nan
        out[q] = total


@kernel
def _group_means(ranked, start, end, kind, table, means):
    """Fill means[x] = A_x for the tie group ranked[start:end]; see the module."""
    size = end - start
    sure = 0
    binary = True
    for i in range(start, end):
        stop = worth(ranked[i], kind, table)
        sure += stop == 1.0
        binary &= stop == 1.0 or stop == 0.0
    means[0] = 1.0
    if binary:
        for x in range(1, size + 1):
            means[x] = means[x - 1] * max(size - sure - x + 1, 0) / (size - x + 1)
        return
    for x in range(1, size + 1):
        means[x] = 0.0
    for j in range(1, size + 1):
        go_on = 1.0 - worth(ranked[start + j - 1], kind, table)
        for x in range(j, 0, -1):
            share = x / j
            means[x] = (1.0 - share) * means[x] + share * go_on * means[x - 1]


@kernel
def cascade_expected(ranked, ends, offsets, first, last, depth, kind, table, out):
    """As `cascade`, the mean over all orders inside the tie groups."""
    longest = longest_query(offsets, first, last)
    means = empty(longest + 1, np.float64)
    for q in range(first, last):
        lo = offsets[q]
        n = min(offsets[q + 1] - lo, depth)
        reach = 1.0
        total = 0.0
        start = 0
        while start < n and reach > 0.0:
            end = ends[lo + start]
            if end == start + 1:
                stop = worth(ranked[lo + start], kind, table)
                total += reach * stop / end
                reach *= 1.0 - stop
            else:
                _group_means(ranked, lo + start, lo + end, kind, table, means)
                for x in range(1, min(end, n) - start + 1):
                    total += reach * (means[x - 1] - means[x]) / (start + x)
                reach *= means[end - start]
            start = end
        if total == 0.0 and not _any_stop(ranked, lo, offsets[q + 1], kind, table):
            total = np.nan
        out[q] = total


class Cascade(Metric):
    def stopping(self, rankings: Rankings) -> tuple[int, Floats]:
        """The kind of R and its table."""
        raise NotImplementedError

    def _compute(self, rankings: Rankings) -> Floats:
        parameters = (self.depth(rankings.longest), *self.stopping(rankings))
        return self._measure(rankings, cascade, cascade_expected, parameters)

    def form(self, rankings: Rankings) -> Form:
        stops = worths(rankings.labels, *self.stopping(rankings))
        highest = np.maximum.reduceat(stops, rankings.offsets[:-1])
        scales = np.where(highest == 0, np.nan, 1.0)
        inverse_ranks = 1.0 / np.arange(1, self.depth(rankings.longest) + 1)
        return Form.of_ranks(CASCADE, stops, inverse_ranks, scales, rankings.longest)


@dataclass(frozen=True, kw_only=True, repr=False)
class MRR(Binary, Cascade):
    """One over the rank of the first relevant document, 0 if there is none above the cut-off.

    >>> print(MRR(k=10, relevant=3))
    mrr@10(relevant>=3)
    """

    name: ClassVar[str] = "mrr"
    aliases: ClassVar[tuple[str, ...]] = ("rr",)
    title: ClassVar[str] = "reciprocal rank"
    formula: ClassVar[str] = "1 / (rank of the first relevant document), 0 past k"
    reference: ClassVar[str] = "Voorhees 1999; Lyzhin et al. 2022, section 2.2"
    expected_ties: ClassVar[str] = "exact recurrence, linear in the tie group"

    def stopping(self, rankings: Rankings) -> tuple[int, Floats]:
        return BINARY, as_input([self.threshold], np.float64)


@dataclass(frozen=True, kw_only=True, repr=False)
class ERR(Cascade):
    """Expected reciprocal rank: one over the rank at which a user is satisfied, on average.

    Two conventions for the chance to be satisfied by grade r of at most r_max: the original
    (2^r - 1) / 2^r_max, written `err((2^r-1)/2^4)`, and r / r_max, written `err(r/4)`. The
    default is the first with r_max = 4. A label above r_max is an error.

    >>> print(ERR(k=10), ERR(stop="linear"), ERR(r_max=2))
    err@10 err(r/4) err((2^r-1)/2^2)
    """

    stop: str = "exponential"
    r_max: float = 4.0

    name: ClassVar[str] = "err"
    title: ClassVar[str] = "expected reciprocal rank"
    formula: ClassVar[str] = (
        "sum_{p<=k} R_p/p * prod_{m<p} (1 - R_m), R = (2^r-1)/2^r_max or r/r_max"
    )
    reference: ClassVar[str] = "Chapelle et al. 2009; Burges 2010, section 3; Lyzhin et al. 2022"
    expected_ties: ClassVar[str] = "exact dynamic programming, quadratic in the tie group"
    words: ClassVar[dict[str, tuple[str, ...]]] = {"stop": ("exponential", "linear")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.r_max) and 0 < self.r_max <= 1000):
            raise ParameterError(
                f"r_max of err must be above 0 and at most 1000. Got {self.r_max:g}."
            )

    def stopping(self, rankings: Rankings) -> tuple[int, Floats]:
        if not rankings.whole_labels:
            kind = LINEAR if self.stop == "linear" else EXPONENTIAL
            return kind, as_input([self.r_max], np.float64)
        grades = np.arange(rankings.label_range[1] + 1)
        if self.stop == "linear":
            return TABLE, as_input(grades / self.r_max, np.float64)
        return TABLE, as_input((np.exp2(grades) - 1) / np.exp2(self.r_max), np.float64)

    def check_labels(self, rankings: Rankings) -> None:
        super().check_labels(rankings)
        _, highest = rankings.label_range
        if highest > self.r_max:
            shape = "r/{0}" if self.stop == "linear" else "(2^r-1)/2^{0}"
            raise DataError(
                f"labels must be at most {self.r_max:g} for {self}. Got {highest:g}: "
                f"write err({shape.format(f'{highest:g}')})."
            )

    def __str__(self) -> str:
        text = super().__str__()
        r_max = show_number(self.r_max)
        stop = f"r/{r_max}" if self.stop == "linear" else f"(2^r-1)/2^{r_max}"
        named = {f"stop={self.stop}", f"r_max={r_max}"}
        name, _, arguments = text.partition("(")
        given = arguments[:-1].split(", ") if arguments else []
        kept = [argument for argument in given if argument not in named]
        if len(kept) < len(given):
            kept.insert(0, stop)
        return name + (f"({', '.join(kept)})" if kept else "")

    @classmethod
    def read_positional(cls, text: str) -> dict[str, Any] | None:
        compact = text.replace(" ", "")
        if match := re.fullmatch(r"r/([0-9.e+-]+)", compact):
            return {"stop": "linear", "r_max": float(match[1])}
        if match := re.fullmatch(r"\(2\^r-1\)/2\^([0-9.e+-]+)", compact):
            return {"stop": "exponential", "r_max": float(match[1])}
        return None

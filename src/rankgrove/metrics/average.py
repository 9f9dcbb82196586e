"""Average precision, whose mean over queries is MAP.

`AP@k = 1/N * sum over relevant ranks p <= k of c_p / p`, with c_p the relevant documents among
the first p and N those of the query.

Expected ties have a closed form (McSherry and Najork 2008): in a tie group of m documents, r of
them relevant, that stands below s documents, c of them relevant, the x-th place is relevant with
chance r/m and then has c + 1 + (x - 1)(r - 1)/(m - 1) relevant documents down to it on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankgrove._jit import kernel
from rankgrove.metrics.base import Binary, Floats, Rankings
from rankgrove.metrics.forms import PRECISION, Form


@kernel
def _count_relevant(labels, lo, hi, relevant):
    count = 0
    for i in range(lo, hi):
        count += labels[i] >= relevant
    return count


@kernel
def average_precision(labels, offsets, ranked, starts, first, last, depth, relevant, capped, out):
    """The average precision of queries first to last; NaN without a relevant document."""
    for q in range(first, last):
        lo = starts[q]
        hits = 0
        total = 0.0
        for i in range(min(starts[q + 1] - lo, depth)):
            hit = ranked[lo + i] >= relevant
            hits += hit
            total += hit * (hits / (i + 1))
        count = _count_relevant(labels, offsets[q], offsets[q + 1], relevant)
        divisor = min(count, depth) if capped else count
        out[q] = total / divisor if count > 0 else np.nan


@kernel
def average_precision_expected(ranked, ends, offsets, first, last, depth, relevant, capped, out):
    """As `average_precision`, the mean over all orders inside the tie groups."""
    for q in range(first, last):
        lo = offsets[q]
        n = min(offsets[q + 1] - lo, depth)
        above = 0
        total = 0.0
        start = 0
        while start < n:
            end = ends[lo + start]
            size = end - start
            hits = _count_relevant(ranked, lo + start, lo + end, relevant)
            step = (hits - 1) / (size - 1) if size > 1 else 0.0
            for x in range(1, min(end, n) - start + 1):
                total += hits / size * (above + 1 + (x - 1) * step) / (start + x)
            above += hits
            start = end
        count = _count_relevant(ranked, lo, offsets[q + 1], relevant)
        divisor = min(count, depth) if capped else count
        out[q] = total / divisor if count > 0 else np.nan


@dataclass(frozen=True, kw_only=True, repr=False)
class MAP(Binary):
    """The mean of the precision at each relevant document; over queries, MAP.

    Parameters
    ----------
    relevant
        A document is relevant from this label on.
    norm
        What a cut-off divides by: `relevant`, all relevant documents of the query (trec_eval),
        or `cutoff`, at most k of them (LightGBM), so that a perfect ranking has 1.

    Examples
    --------
    >>> print(MAP(k=100, ties="expected", relevant=2))
    map@100(ties=expected, relevant>=2)
    """

    norm: str = "relevant"

    name: ClassVar[str] = "map"
    aliases: ClassVar[tuple[str, ...]] = ("ap",)
    title: ClassVar[str] = "average precision"
    formula: ClassVar[str] = "1/N * sum_{p<=k} rel_p * (relevant documents at ranks <= p) / p"
    reference: ClassVar[str] = "Lyzhin et al. 2022, section 2.2; ties: McSherry and Najork 2008"
    expected_ties: ClassVar[str] = "closed form"
    words: ClassVar[dict[str, tuple[str, ...]]] = {"norm": ("relevant", "cutoff")}

    def _compute(self, rankings: Rankings) -> Floats:
        parameters = (self.depth(rankings.longest), self.threshold, self.norm == "cutoff")
        return self._measure(rankings, average_precision, average_precision_expected, parameters)

    def form(self, rankings: Rankings) -> Form:
        depth = self.depth(rankings.longest)
        relevant = (rankings.labels >= self.threshold).astype(np.float64)
        counts = np.add.reduceat(relevant, rankings.offsets[:-1])
        capped = np.minimum(counts, depth) if self.norm == "cutoff" else counts
        scales = 1.0 / np.where(counts > 0, capped, np.nan)
        inverse_ranks = 1.0 / np.arange(1, depth + 1)
        return Form.of_ranks(PRECISION, relevant, inverse_ranks, scales, rankings.longest)

"""The curvatures of pairs summed by the two leaves that their documents are in.

Each query is summed by itself, in the order of its pairs; its sums are then cut into whole numbers
and added to those of all queries, so that the sums have the same bits for any number of threads
and workers. Where rankings have few pairs, as those of neighbours, the pairs are kept when forces
are computed: to sum them by leaf takes a fraction of the time that it takes to draw them again.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, by_address, kernel
from rankgrove._jit.exact import Scale, cut

Leaves = NDArray[np.int32]
Floats = NDArray[np.float64]

# The places of the two documents of a pair that is kept share 32 bits.
_PLACE_BITS, _PLACE = np.uint32(16), np.uint32(0xFFFF)
LONGEST_KEPT = 1 << 16

# The most pairs of a document, over all rankings, that are kept: 12 bytes each.
MOST_KEPT = 32


@by_address
class Between(NamedTuple):
    """What the pairs of queries are summed into, by one thread.

    Attributes
    ----------
    n_leaves
        How many leaves there are: a pair of leaves (a, b) is the number a * n_leaves + b.
    counts
        One per query: how often it counts.
    inverse, ratio
        How sums of a query are cut: `Scale`.
    summed
        The sums of one query by pair of leaves; all 0 between queries.
    touched, n_touched
        Which of them are not 0, and how many.
    sums
        Those of all queries as whole numbers, large and small ones.
    """

    n_leaves: int
    counts: Floats
    inverse: float
    ratio: float
    summed: Floats
    touched: NDArray[np.int64]
    n_touched: NDArray[np.int64]
    sums: NDArray[np.int64]


@by_address
class Kept(NamedTuple):
    """The pairs of the last forces, query by query.

    Attributes
    ----------
    starts, ends
        One per query: where its pairs start, and where they end.
    pairs
        The places of both documents in their query, 16 bits each.
    curvatures
        One per pair, without the factor.
    factors
        One per query.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    pairs: NDArray[np.uint32]
    curvatures: Floats
    factors: Floats

    @classmethod
    def make(cls, offsets: NDArray[np.int64], pairs_a_document: int) -> Kept:
        """With room for so many pairs of each document; memory that is not used is not taken."""
        room = int(offsets[-1]) * pairs_a_document
        n_queries = len(offsets) - 1
        return cls(
            as_input(offsets[:-1] * pairs_a_document, np.int64), np.zeros(n_queries, np.int64),
            np.empty(room, np.uint32), np.empty(room), np.zeros(n_queries),
        )  # fmt: skip


@kernel
def keep_pairs(kept, q, upper, lower, curvatures):
    """Add to those of a query the pairs that have a curvature; upper and lower are places."""
    pairs, own, end = kept.pairs, kept.curvatures, kept.ends[q]
    for i in range(len(curvatures)):
        # (No branch: which pairs have different labels cannot be foreseen.)
        pairs[end] = np.uint32(upper[i]) << _PLACE_BITS | np.uint32(lower[i])
        own[end] = curvatures[i]
        end += curvatures[i] > 0.0
    kept.ends[q] = end


@kernel
def add_row(between, leaf, leaves, curvatures):
    """Add the pairs of a document in one leaf with documents in these leaves."""
    summed, touched, n = between.summed, between.touched, between.n_touched[0]
    row = leaf * between.n_leaves
    for i in range(len(curvatures)):
        pair = row + leaves[i]
        before = summed[pair]
        touched[n] = pair
        n += (before == 0.0) & (curvatures[i] > 0.0)
        summed[pair] = before + curvatures[i]
    between.n_touched[0] = n


@kernel
def add_diagonal(between, upper, lower, curvatures):
    """Add pairs of documents in these leaves."""
    summed, touched, n = between.summed, between.touched, between.n_touched[0]
    for i in range(len(curvatures)):
        pair = upper[i] * between.n_leaves + lower[i]
        before = summed[pair]
        touched[n] = pair
        n += (before == 0.0) & (curvatures[i] > 0.0)
        summed[pair] = before + curvatures[i]
    between.n_touched[0] = n


@kernel
def end_query(between, factor):
    """Add the sums of a query, times a factor, to those of all, and make them 0."""
    summed, sums, touched = between.summed, between.sums, between.touched
    for place in range(between.n_touched[0]):
        pair = touched[place]
        high, low = cut(summed[pair] * factor, between.inverse, between.ratio)
        sums[pair, 0] += high
        sums[pair, 1] += low
        summed[pair] = 0.0
    between.n_touched[0] = 0


@kernel
def sum_kept(kept, offsets, leaves, first, last, between):
    """Sum the kept pairs of queries first to last, also those within a leaf."""
    n_leaves, sums, inverse, ratio = between.n_leaves, between.sums, between.inverse, between.ratio
    pairs, curvatures = kept.pairs, kept.curvatures
    for q in range(first, last):
        factor = kept.factors[q] * between.counts[q]
        if factor == 0.0:
            continue
        own = leaves[offsets[q] : offsets[q + 1]]
        for i in range(kept.starts[q], kept.ends[q]):
            pair = pairs[i]
            at = np.int64(own[pair >> _PLACE_BITS]) * n_leaves + own[pair & _PLACE]
            # Few pairs of a query share their leaves: each is cut by itself.
            high, low = cut(curvatures[i] * factor, inverse, ratio)
            sums[at, 0] += high
            sums[at, 1] += low


def scale_of_sums(largest: float, longest: int, n_leaves: int, n_documents: int) -> Scale:
    """How to cut curvatures of pairs: sums of a query by leaves, or each pair that is kept.

    No curvature of a document is above the largest, and no query has more than `longest` of so many
    documents. All that stands in a row of the matrix may be added up.
    """
    return Scale.of(largest * longest, 2 * n_documents * max(MOST_KEPT, n_leaves))


class LeafSums:
    """Sums by pair of leaves, which threads add to.

    Parameters
    ----------
    leaves, n_leaves
        The leaf of each document, and how many there are.
    counts
        One per query: how often its pairs count.
    scale
        How sums of a query are cut: by `scale_of_sums`.

    Attributes
    ----------
    leaves
        As kernels take them.
    """

    def __init__(self, leaves: Leaves, n_leaves: int, counts: Floats, scale: Scale) -> None:
        self.leaves = as_input(leaves, np.int32)
        self._n_leaves, self._scale = n_leaves, scale
        self._counts = as_input(counts, np.float64)
        self._lock = threading.Lock()
        self._free: list[Between] = []
        self._all: list[Between] = []

    @contextmanager
    def weighed(self, weight: float) -> Iterator[LeafSums]:
        """Sums of which each pair counts so much; they are added to these in the end."""
        part = LeafSums(self.leaves, self._n_leaves, weight * self._counts, self._scale)
        yield part
        self._all += part._all

    @contextmanager
    def between(self) -> Iterator[Between]:
        """Something to add to, which no other thread has."""
        with self._lock:
            mine = self._free.pop() if self._free else self._make()
        yield mine
        with self._lock:
            self._free.append(mine)

    def _make(self) -> Between:
        n = self._n_leaves**2
        made = Between(
            self._n_leaves, self._counts, *self._scale, np.zeros(n), np.empty(n + 1, np.int64),
            np.zeros(1, np.int64), np.zeros((n, 2), np.int64),
        )  # fmt: skip
        self._all.append(made)
        return made

    def whole(self) -> NDArray[np.int64]:
        """The sums of all queries: leaves by leaves, large and small numbers.

        A pair stands at its leaves in one order or the other. What stands at the same leaf twice
        means nothing.
        """
        sums = np.zeros((self._n_leaves**2, 2), np.int64)
        for each in self._all:
            sums += each.sums
        return sums.reshape(self._n_leaves, self._n_leaves, 2)

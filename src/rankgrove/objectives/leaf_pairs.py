"""The curvatures of pairs summed by the two leaves that their documents are in.

Each query is summed by itself, in the order of its pairs; its sums are then rounded to whole
numbers of one unit and added to those of all queries, so that the sums have the same bits for any
number of threads and workers. The unit is at most 2^-60 of what all pairs can come to. Where
rankings have few pairs, as those of neighbours, the pairs are kept when forces are computed: to sum
them by leaf takes a fraction of the time that it takes to draw them again.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, bits_of, by_address, kernel

Leaves = NDArray[np.int32]
Floats = NDArray[np.float64]

# A pair is kept in 8 bytes: the places of its documents stand in the last bits of its curvature,
# which changes that by 2^-38 of it for queries of 128 documents, and 2^-20 for the longest ones.
LONGEST_KEPT = 1 << 16

# The most pairs of a document, over all rankings, that are kept.
MOST_KEPT = 32

# Of the unit of whole numbers: its inverse is finite, too.
_LEAST_EXPONENT = -1000


@by_address
class Between(NamedTuple):
    """What the pairs of queries are summed into, by one thread.

    Attributes
    ----------
    n_leaves
        How many leaves there are: a pair of leaves (a, b) is the number a * n_leaves + b.
    counts
        One per query: how often it counts.
    inverse
        1 / the unit of whole numbers.
    summed
        The sums of one query by pair of leaves; all 0 between queries.
    touched, n_touched
        Which of them are not 0, and how many.
    sums
        Those of all queries as whole numbers.
    """

    n_leaves: int
    counts: Floats
    inverse: float
    summed: Floats
    touched: NDArray[np.int64]
    n_touched: NDArray[np.int64]
    sums: NDArray[np.int64]


@by_address
class Kept(NamedTuple):
    """The pairs of the last forces, query by query.

    Attributes
    ----------
    pairs_a_document
        How many there may be.
    starts, ends
        One per query: where its pairs start, and where they end.
    place_bits
        One per query: how many bits the place of a document in it takes.
    pairs
        One per pair: its curvature, without the factor, as bits, of which the last are the places
        of its documents.
    factors
        One per query.
    """

    pairs_a_document: int
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    place_bits: NDArray[np.int64]
    pairs: NDArray[np.int64]
    factors: Floats

    @classmethod
    def make(cls, offsets: NDArray[np.int64], pairs_a_document: int) -> Kept:
        """With room for so many pairs of each document; memory that is not used is not taken."""
        sizes = np.diff(offsets)
        place_bits = np.array([(n - 1).bit_length() for n in sizes.tolist()], np.int64)
        pairs = np.empty(int(offsets[-1]) * pairs_a_document, np.int64)
        starts, ends = np.zeros((2, len(sizes)), np.int64)
        return cls(pairs_a_document, starts, ends, place_bits, pairs, np.zeros(len(sizes)))


@kernel
def start_query(kept, offsets, first, q):
    """Have the pairs of a query follow those of the one before, from query `first` on."""
    start = kept.ends[q - 1] if q > first else offsets[q] * kept.pairs_a_document
    kept.starts[q] = start
    kept.ends[q] = start


@kernel
def keep_pairs(kept, q, upper, lower, curvatures):
    """Add to those of a query the pairs that have a curvature; upper and lower are places."""
    pairs, end, n_bits = kept.pairs, kept.ends[q], kept.place_bits[q]
    high_bits = np.int64(-1) << (2 * n_bits)
    for i in range(len(curvatures)):
        # (No branch: which pairs have different labels cannot be foreseen.)
        places = np.int64(upper[i]) << n_bits | np.int64(lower[i])
        pairs[end] = bits_of(curvatures[i]) & high_bits | places
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
def _rounded(value):
    """The nearest whole number of a value that is not negative."""
    return np.int64(value + 0.5)


@kernel
def end_query(between, factor):
    """Add the sums of a query, times a factor, to those of all, and make them 0."""
    summed, sums, touched = between.summed, between.sums, between.touched
    factor *= between.inverse
    for place in range(between.n_touched[0]):
        pair = touched[place]
        sums[pair] += _rounded(summed[pair] * factor)
        summed[pair] = 0.0
    between.n_touched[0] = 0


@kernel
def sum_kept(kept, offsets, leaves, first, last, between):
    """Sum the kept pairs of queries first to last, also those within a leaf."""
    n_leaves, sums = np.uint64(between.n_leaves), between.sums
    pairs, curvatures = kept.pairs, kept.pairs.view(np.float64)
    for q in range(first, last):
        factor = kept.factors[q] * between.counts[q] * between.inverse
        if factor == 0.0:
            continue
        own = leaves[offsets[q] : offsets[q + 1]]
        n_bits = np.uint64(kept.place_bits[q])
        last_bits = (np.uint64(1) << n_bits) - np.uint64(1)
        for i in range(kept.starts[q], kept.ends[q]):
            # (A number without a sign is a place as it stands.)
            pair = np.uint64(pairs[i])
            upper, lower = own[pair >> n_bits & last_bits], own[pair & last_bits]
            at = np.uint64(upper) * n_leaves + np.uint64(lower)
            # Few pairs of a query share their leaves: each is rounded by itself.
            sums[at] += _rounded(curvatures[i] * factor)


def unit_of_sums(largest: float, n_documents: int) -> float:
    """The unit of whole numbers: a power of two, with which no sum is 2^61 or more.

    No curvature of so many documents is above the largest, and those of all pairs come to half of
    what those of documents do. If the largest is not finite, sums are NaN.

    >>> unit_of_sums(0.25, 1000) == 2.0**-53
    True
    """
    whole = largest * n_documents
    if not math.isfinite(whole):
        return math.nan
    return math.ldexp(1.0, max(math.frexp(whole)[1] - 61, _LEAST_EXPONENT))


class LeafSums:
    """Sums by pair of leaves, which threads add to.

    Parameters
    ----------
    leaves, n_leaves
        The leaf of each document, and how many there are.
    counts
        One per query: how often its pairs count.
    unit
        Of whole numbers: by `unit_of_sums`.

    Attributes
    ----------
    leaves
        As kernels take them.
    """

    def __init__(self, leaves: Leaves, n_leaves: int, counts: Floats, unit: float) -> None:
        self.leaves = as_input(leaves, np.int32)
        self._n_leaves, self._unit = n_leaves, unit
        self._counts = as_input(counts, np.float64)
        self._lock = threading.Lock()
        self._free: list[Between] = []
        self._all: list[Between] = []

    @contextmanager
    def weighed(self, weight: float) -> Iterator[LeafSums]:
        """Sums of which each pair counts so much; they are added to these in the end."""
        part = LeafSums(self.leaves, self._n_leaves, weight * self._counts, self._unit)
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
            self._n_leaves, self._counts, 1.0 / self._unit, np.zeros(n), np.empty(n + 1, np.int64),
            np.zeros(1, np.int64), np.zeros(n, np.int64),
        )  # fmt: skip
        self._all.append(made)
        return made

    def whole(self) -> NDArray[np.int64]:
        """The sums of all queries in units: leaves by leaves.

        A pair stands at its leaves in one order or the other. What stands at the same leaf twice
        means nothing.
        """
        sums = np.zeros(self._n_leaves**2, np.int64)
        for each in self._all:
            sums += each.sums
        return sums.reshape(self._n_leaves, self._n_leaves)

"""Documents that belong to the first ranks of the ideal ranking: their pairs count, too.

A truncation counts the pairs of the documents at the first ranks. A good document that stands below
them is then pulled up only by the pairs with those that stand above it, and never held against what
stands beside it (Marcuzzi, Lucchese, Orlando 2023).
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, by_address, kernel

Floats = NDArray[np.float64]


@by_address
class Anchors(NamedTuple):
    """Which documents are in the ideal first ranks: the order of all does not depend on scores.

    Attributes
    ----------
    thresholds
        One per query: the least value among its ideal first ranks.
    counts
        One per query: how many of that value are there; of equal documents those with the better
        ranks are taken.
    """

    thresholds: Floats
    counts: NDArray[np.int64]

    @classmethod
    def make(cls, values: Floats, offsets: NDArray[np.int64], depth: int) -> Anchors:
        """Of the ideal first `depth` ranks by these values.

        >>> Anchors.make(np.array([1.0, 2.0, 1.0, 1.0]), np.array([0, 4]), 3).counts.tolist()
        [2]
        """
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        ideal = values[np.lexsort((-values, query))]
        last = np.minimum(offsets[:-1] + depth, offsets[1:]) - 1
        thresholds = ideal[last]
        above = np.bincount(query, values > thresholds[query], len(offsets) - 1)
        counts = last - offsets[:-1] + 1 - above.astype(np.int64)
        return cls(as_input(thresholds, np.float64), as_input(counts, np.int64))


@kernel
def mark_anchors(anchors, q, scale, x, marks):
    """Write 1 for those of the ranked documents of query q that are anchors, 0 for others.

    Returns the last rank of one, from 0.
    """
    threshold, left, last = anchors.thresholds[q] * scale, anchors.counts[q], -1
    for rank in range(len(marks)):
        is_anchor = x[rank] > threshold
        if x[rank] == threshold and left > 0:
            is_anchor = True
            left -= 1
        marks[rank] = 1.0 if is_anchor else 0.0
        last = rank if is_anchor else last
    return last

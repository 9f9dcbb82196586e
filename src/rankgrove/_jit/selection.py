"""Order statistics over all workers, 16 bits at a time: messages do not grow with the data."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.compilation import as_input, kernel
from rankgrove._jit.exact import cut, scales_of
from rankgrove._jit.peers import ALONE, Peers

_BITS = 16
_N_BUCKETS = 1 << _BITS
_SHIFTS = (48, 32, 16, 0)


@kernel
def _count_keys(keys, prefix, shift, counts):
    """Of the keys that begin with a prefix, how many have each value of the next 16 bits."""
    for i in range(len(keys)):
        rest = keys[i] >> shift
        if rest >> np.uint64(16) == prefix:
            counts[rest & np.uint64(0xFFFF)] += 1


@kernel
def _count_sizes(keys, sizes, inverse, ratio, prefix, shift, table):
    """As `_count_keys`, with the exact sums of what the keys are the bits of."""
    for i in range(len(keys)):
        rest = keys[i] >> shift
        if rest >> np.uint64(16) == prefix:
            bucket = rest & np.uint64(0xFFFF)
            high, low = cut(sizes[i], inverse, ratio)
            table[0, bucket] += 1
            table[1, bucket] += high
            table[2, bucket] += low


def nth_largest(keys: NDArray[np.uint64], n: int, peers: Peers = ALONE) -> np.uint64:
    """The nth largest of the keys of all workers, from 1 on.

    >>> int(nth_largest(np.array([5, 3, 9, 3], dtype=np.uint64), 2))
    5
    """
    keys = as_input(keys, np.uint64)
    prefix = np.uint64(0)
    for shift in _SHIFTS:
        counts = np.zeros(_N_BUCKETS, dtype=np.int64)
        _count_keys(keys, prefix, np.uint64(shift), counts)
        peers.sum(counts)
        # How many there are from each bucket on.
        above = counts[::-1].cumsum()[::-1]
        bucket = int(np.flatnonzero(above >= n)[-1])
        n -= int(above[bucket] - counts[bucket])
        prefix = (prefix << np.uint64(_BITS)) | np.uint64(bucket)
    return prefix


def threshold_of_mean(
    sizes: NDArray[np.float64], target: float, n_all: int, peers: Peers = ALONE
) -> float:
    """The mu for which the sum of min(1, size / mu) over all workers is the target.

    The sum falls as mu rises. More than `target` sizes must be above 0, and none below; `n_all` is
    how many there are in all.

    >>> threshold_of_mean(np.array([1.0, 1.0, 10.0]), 2.0, 3)
    2.0
    """
    sizes = as_input(sizes, np.float64)
    keys = as_input(sizes.view(np.uint64), np.uint64)
    (scale,) = scales_of([sizes], n_all, 1, peers)
    prefix, n_above, below = np.uint64(0), 0, np.zeros(2, dtype=np.int64)
    for shift in _SHIFTS:
        table = np.zeros((3, _N_BUCKETS), dtype=np.int64)
        _count_sizes(keys, sizes, *scale, prefix, np.uint64(shift), table)
        peers.sum(table)
        counts, sums = table[0], table[1:].T
        # At the lower edge of each bucket: those from it on count 1, and smaller ones their size
        # by the edge.
        from_here = n_above + counts[::-1].cumsum()[::-1]
        before = below + np.cumsum(sums, axis=0) - sums
        buckets = (prefix << np.uint64(_BITS)) | np.arange(_N_BUCKETS, dtype=np.uint64)
        edges = (buckets << np.uint64(shift)).view(np.float64)
        with np.errstate(all="ignore"):
            reached = from_here + scale.total(before) / edges >= target
        bucket = int(np.flatnonzero(reached | (buckets == 0))[-1])
        n_above, below = int(from_here[bucket] - counts[bucket]), before[bucket]
        prefix = buckets[bucket]
        if counts[bucket] == 0:
            break
    if counts[bucket]:
        below = below + sums[bucket]
    return float(scale.total(below)) / (target - n_above)

"""Sums of floats that have the same bits in any order: over threads, chunks and workers.

Each number is cut into two whole numbers, of a large unit and of a small one. Units are powers of
two, chosen by the largest number of all and by how many there are, so that no sum of whole numbers
overflows. Whole numbers are added in any order; the two sums become one float at the end. What is
lost is, for n numbers, at most n^3 / 2^122 of the largest, or n / 2^100 if that is more: 2^-62 of
it for a million.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.compilation import as_input, kernel
from rankgrove._jit.elementary import ROUNDER, ROUNDER_BITS
from rankgrove._jit.intrinsics import bits_of
from rankgrove._jit.peers import ALONE, Peers
from rankgrove._jit.threads import run_chunks

Floats = NDArray[np.float64]

_CHUNK = 1 << 16
# Sums of whole numbers stay below 2^62, and each of them below 2^50.
_SUM_BITS, _MOST_BITS = 62, 50
# Smaller numbers are cut as if the largest were 2^-952: then no unit is below the smallest float.
_LEAST_EXPONENT = -952
_SIGN_OFF = np.int64(0x7FFFFFFFFFFFFFFF)


class Scale(NamedTuple):
    """How numbers are cut: 1 / large unit, and large unit / small unit."""

    inverse: float
    ratio: float

    @classmethod
    def of(cls, largest: float, count: int) -> Scale:
        """For so many numbers, none of them larger in size; if it is not finite, sums are NaN."""
        if not math.isfinite(largest):
            return cls(math.nan, 1.0)
        bits = min(_SUM_BITS - int(count).bit_length(), _MOST_BITS)
        exponent = max(math.frexp(largest)[1], _LEAST_EXPONENT)
        return cls(math.ldexp(1.0, bits - exponent), math.ldexp(1.0, bits))

    def total(self, sums: NDArray[np.int64]) -> Floats:
        """What sums of whole numbers, large and small ones along the last axis, come to."""
        high, low = sums[..., 0].astype(np.float64), sums[..., 1].astype(np.float64)
        return np.asarray((high + low / self.ratio) / self.inverse)


@kernel
def cut(value, inverse, ratio):
    """The whole numbers of a value, of the large unit and of the small one."""
    scaled = value * inverse
    high = scaled + ROUNDER
    low = (scaled - (high - ROUNDER)) * ratio + ROUNDER
    return bits_of(high) - ROUNDER_BITS, bits_of(low) - ROUNDER_BITS


@kernel
def _largest_bits(bits, first, last):
    """The largest absolute value, as the bits of a float: these rise as the values do."""
    largest = np.int64(0)
    own = bits[first:last]
    for i in range(len(own)):
        largest = max(largest, own[i] & _SIGN_OFF)
    return largest


@kernel
def _add_up(values, sizes, inverse, ratio, first, last, sums):
    high = np.int64(0)
    low = np.int64(0)
    own = values[first:last]
    for i in range(len(own)):
        large, small = cut(abs(own[i]) if sizes else own[i], inverse, ratio)
        high += large
        low += small
    sums[0] = high
    sums[1] = low


def scales_of(
    columns: Sequence[Floats], n_all: int, n_jobs: int | None = None, peers: Peers = ALONE
) -> list[Scale]:
    """How to cut the numbers of each array of at most `n_all` numbers over all workers."""
    largest = np.zeros(len(columns))
    for place, column in enumerate(columns):
        # (The same array may come twice.)
        first = next(at for at in range(place + 1) if columns[at] is column)
        largest[place] = _largest_of(column, n_jobs) if first == place else largest[first]
    peers.max(largest)
    return [Scale.of(each, n_all) for each in largest.tolist()]


def _largest_of(column: Floats, n_jobs: int | None) -> float:
    """The largest absolute value of an array, or 0 for one without any."""
    bits = as_input(column, np.float64).view(np.int64)
    found = np.zeros(max(-(-len(bits) // _CHUNK), 1), dtype=np.int64)

    def task(chunk: int) -> None:
        first = chunk * _CHUNK
        found[chunk] = _largest_bits(bits, first, min(first + _CHUNK, len(bits)))

    run_chunks(task, len(found), n_jobs)
    return float(found.max(keepdims=True).view(np.float64)[0])


def exact_sums(
    columns: Sequence[Floats],
    n_all: int | None = None,
    n_jobs: int | None = None,
    peers: Peers = ALONE,
    *,
    sizes: bool = False,
    scales: Sequence[Scale] | None = None,
) -> list[float]:
    """The sum of each array over all workers, the same bits in any order.

    `n_all` is how many numbers an array has over all workers, or more. With `sizes` the absolute
    values are added. `scales` are what `scales_of` gives for the arrays, if that is known.

    >>> exact_sums([np.array([1e16, 1.0, -1e16])])
    [1.0]
    """
    n_all = max((len(column) for column in columns), default=0) if n_all is None else n_all
    scales = scales_of(columns, n_all, n_jobs, peers) if scales is None else scales
    totals = np.zeros((len(columns), 2), dtype=np.int64)
    for column, scale, total in zip(columns, scales, totals, strict=True):
        values = as_input(column, np.float64)
        sums = np.empty((-(-len(values) // _CHUNK), 2), dtype=np.int64)

        def task(chunk: int, values=values, scale=scale, sums=sums) -> None:
            first = chunk * _CHUNK
            last = min(first + _CHUNK, len(values))
            _add_up(values, sizes, *scale, first, last, sums[chunk])

        run_chunks(task, len(sums), n_jobs)
        total[:] = sums.sum(axis=0)
    peers.sum(totals)
    return [float(scale.total(sums)) for scale, sums in zip(scales, totals, strict=True)]

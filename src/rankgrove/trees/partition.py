"""Rows in parts of bounded size: summing leaves, adding their values to scores."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.exact import cut

# Parts of this many rows are divided, summed or walked at a time: some 0.1 ms of work.
PART_ROWS = 1 << 14

# Parts of fewer rows than this, on average, would cost more than they save.
_FEW_ROWS = 64


@kernel
def sum_parts(rows, forces, curvatures, force_scale, curvature_scale, parts, first, last, sums):
    """The sums of forces and curvatures of stretches of rows, as whole numbers."""
    force_inverse, force_ratio = force_scale
    curvature_inverse, curvature_ratio = curvature_scale
    for p in range(first, last):
        force_high = force_low = curvature_high = curvature_low = np.int64(0)
        own = rows[parts[p, 1] : parts[p, 2]]
        for i in range(len(own)):
            # (A number without a sign is a place as it stands.)
            row = np.uint64(own[i])
            high, low = cut(forces[row], force_inverse, force_ratio)
            force_high += high
            force_low += low
            high, low = cut(curvatures[row], curvature_inverse, curvature_ratio)
            curvature_high += high
            curvature_low += low
        sums[p, 0, 0], sums[p, 0, 1] = force_high, force_low
        sums[p, 1, 0], sums[p, 1, 1] = curvature_high, curvature_low


@kernel
def add_to_parts(rows, parts, values, first, last, scores):
    """Add the value of its leaf to the score of every row."""
    for p in range(first, last):
        value = values[parts[p, 0]]
        own = rows[parts[p, 1] : parts[p, 2]]
        for i in range(len(own)):
            scores[np.uint64(own[i])] += value


@kernel
def number_parts(rows, parts, first, last, leaves):
    """The number of its leaf for every row."""
    for p in range(first, last):
        leaf = parts[p, 0]
        own = rows[parts[p, 1] : parts[p, 2]]
        for i in range(len(own)):
            leaves[np.uint64(own[i])] = leaf


@kernel
def walk_rows(codes, places, tables, left, right, values, scores):
    """Add to the score of every row the value of the leaf that its codes lead to."""
    for row in range(len(codes)):
        node = np.int64(0) if len(left) else np.int64(-1)
        while node >= 0:
            code = codes[row, places[node]]
            node = np.int64(left[node]) if tables[node, code] else np.int64(right[node])
        scores[row] += values[~node]


@kernel
def _cut_by_range(rows, start, end, range_rows, parts):
    """Cut stretches of rising row numbers where these pass from one range to the next."""
    n_stretches = len(start)
    n_ranges = len(parts) // max(n_stretches, 1)
    for stretch in range(n_stretches):
        at = start[stretch]
        for number in range(n_ranges):
            part = parts[number * n_stretches + stretch]
            part[0], part[1] = stretch, at
            high = end[stretch]
            # The first row that is beyond the range.
            while at < high:
                middle = (at + high) // 2
                if rows[middle] < (number + 1) * range_rows:
                    at = middle + 1
                else:
                    high = middle
            part[2] = at


def make_parts(
    rows: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64], n_rows: int
) -> NDArray[np.int64]:
    """Cut stretches of rows of a matrix of `n_rows` into parts (stretch, start, end).

    For one range of row numbers after the other there is a part of each stretch, which may be
    empty. What is known of the rows of a range is read from memory once, and for all stretches but
    the first from the cache.
    """
    most = max(PART_ROWS, _FEW_ROWS * len(start))
    sizes = end - start
    n_ranges = max(-(-int(sizes.sum()) // most), 1)
    parts = np.empty((n_ranges * len(start), 3), dtype=np.int64)
    starts, ends = as_input(start, np.int64), as_input(end, np.int64)
    _cut_by_range(as_input(rows, np.int32), starts, ends, -(-n_rows // n_ranges), parts)
    return as_input(parts, np.int64)


def run_parts(task: Callable[[int, int], None], parts: NDArray[np.int64], n_jobs: int) -> None:
    """Call `task(first, last)` for runs of parts that have about `PART_ROWS` rows together."""
    sizes = parts[:, 2] - parts[:, 1]
    if n_jobs == 1 or sizes.sum() <= 2 * PART_ROWS:
        task(0, len(parts))
        return
    ends = np.cumsum(sizes)
    bounds = np.searchsorted(ends, np.arange(PART_ROWS, ends[-1], PART_ROWS)) + 1
    at = np.unique(np.concatenate([[0], bounds, [len(parts)]])).tolist()
    run_chunks(lambda c: task(at[c], at[c + 1]), len(at) - 1, n_jobs)

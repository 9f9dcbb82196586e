"""Rows in parts of bounded size: dividing large nodes, summing leaves, adding to scores."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove.trees.expand import divide_parts, put_parts_back

# Parts of this many rows are divided, summed or walked at a time: some 0.1 ms of work.
PART_ROWS = 1 << 14


@kernel
def sum_parts(rows, forces, curvatures, parts, first, last, sums):
    """The sums of forces and curvatures of stretches of rows, each in the order of its rows."""
    for p in range(first, last):
        force = 0.0
        curvature = 0.0
        for i in range(parts[p, 1], parts[p, 2]):
            row = rows[i]
            force += forces[row]
            curvature += curvatures[row]
        sums[p, 0] = force
        sums[p, 1] = curvature


@kernel
def add_to_parts(rows, parts, values, first, last, scores):
    """Add the value of its leaf to the score of every row."""
    for p in range(first, last):
        value = values[parts[p, 0]]
        for i in range(parts[p, 1], parts[p, 2]):
            scores[rows[i]] += value


@kernel
def walk_rows(codes, places, tables, left, right, values, first, last, scores):
    """Add to the score of every row the value of the leaf that its codes lead to."""
    for row in range(first, last):
        node = np.int64(0) if len(left) else np.int64(-1)
        while node >= 0:
            code = codes[row, places[node]]
            node = np.int64(left[node]) if tables[node, code] else np.int64(right[node])
        scores[row] += values[~node]


def make_parts(stretches: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Cut stretches of rows into parts (stretch, start, end) of bounded size."""
    parts = [
        (number, first, min(first + PART_ROWS, end))
        for number, (start, end) in enumerate(stretches)
        for first in range(start, end, PART_ROWS)
    ]
    return as_input(np.array(parts, dtype=np.int64).reshape(-1, 3), np.int64)


def run_parts(task: Callable[[int, int], None], parts: NDArray[np.int64], n_jobs: int) -> None:
    """Call `task(first, last)` for runs of parts that have about `PART_ROWS` rows together."""
    ends = np.cumsum(parts[:, 2] - parts[:, 1])
    bounds = np.searchsorted(ends, np.arange(PART_ROWS, ends[-1], PART_ROWS)) + 1
    at = np.unique(np.concatenate([[0], bounds, [len(parts)]])).tolist()
    run_chunks(lambda c: task(at[c], at[c + 1]), len(at) - 1, n_jobs)


def divide(
    column: NDArray[np.uint8],
    table: NDArray[np.uint8],
    rows: NDArray[np.int32],
    spare: NDArray[np.int32],
    start: int,
    end: int,
    n_jobs: int,
) -> tuple[int, int]:
    """Divide a stretch of rows; how many went left, and the cycles that all threads spent.

    The table says which codes go left.
    """
    parts = make_parts([(start, end)])
    table = as_input(table, np.uint8)
    n_left = np.empty(len(parts), dtype=np.int64)
    spent = np.zeros(len(parts), dtype=np.int64)

    def task(first: int, last: int) -> None:
        spent[first] += divide_parts(column, table, rows, spare, parts, first, last, n_left)

    run_parts(task, parts, n_jobs)
    counts = as_input(n_left, np.int64)
    before = np.cumsum(n_left) - n_left
    left_at = as_input(start + before, np.int64)
    # Rows of the parts before, less those that went left, stand after all left ones.
    n_all = int(n_left.sum())
    right_at = as_input(n_all + parts[:, 1] - before, np.int64)

    def put(first: int, last: int) -> None:
        spent[first] += put_parts_back(rows, spare, parts, counts, left_at, right_at, first, last)

    run_parts(put, parts, n_jobs)
    return n_all, int(spent.sum())

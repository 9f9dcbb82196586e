"""Rows of leaves in parts: against cutting them row by row."""

import numpy as np
import pytest

from rankgrove.trees import partition
from rankgrove.trees.partition import add_to_parts, make_parts, run_parts

N_ROWS = 3000


def make_leaves(n_leaves, share=1.0, seed=0):
    """Rows in the order of their leaves, rising in each, and the stretch of each leaf."""
    rng = np.random.default_rng(seed)
    chosen = np.flatnonzero(rng.random(N_ROWS) < share)
    # Leaf 1 has no rows, as in an oblivious tree.
    leaf = rng.choice([at for at in range(n_leaves) if at != 1], len(chosen))
    rows = chosen[np.argsort(leaf, kind="stable")].astype(np.int32)
    counts = np.bincount(leaf, minlength=n_leaves)
    end = np.cumsum(counts)
    return rows, end - counts, end


def naive_parts(rows, start, end, range_rows, n_ranges):
    return [
        (leaf, [row for row in rows[a:b].tolist() if row // range_rows == number])
        for number in range(n_ranges)
        for leaf, (a, b) in enumerate(zip(start.tolist(), end.tolist(), strict=True))
    ]


@pytest.mark.parametrize("n_leaves", [1, 2, 7, 40])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.0])
def test_parts_are_the_rows_of_each_leaf_in_one_range_after_the_other(n_leaves, share, monkeypatch):
    monkeypatch.setattr(partition, "PART_ROWS", 500)
    monkeypatch.setattr(partition, "_FEW_ROWS", 20)
    rows, start, end = make_leaves(n_leaves, share)
    parts = make_parts(rows, start, end, N_ROWS)
    n_ranges = max(-(-len(rows) // max(500, 20 * n_leaves)), 1)
    got = [(leaf, rows[a:b].tolist()) for leaf, a, b in parts.tolist()]
    assert got == naive_parts(rows, start, end, -(-N_ROWS // n_ranges), n_ranges)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_row_gets_the_value_of_its_leaf_once(n_jobs, monkeypatch):
    monkeypatch.setattr(partition, "PART_ROWS", 300)
    rows, start, end = make_leaves(9, 0.7)
    values, scores = np.arange(1.0, 10.0), np.zeros(N_ROWS)
    expected = scores.copy()
    for leaf in range(9):
        expected[rows[start[leaf] : end[leaf]]] = values[leaf]
    parts = make_parts(rows, start, end, N_ROWS)
    run_parts(lambda a, b: add_to_parts(rows, parts, values, a, b, scores), parts, n_jobs)
    np.testing.assert_array_equal(scores, expected)

"""A walk through the trees of a file, all documents at once: what emulators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def reached_leaves(
    n_rows: int,
    left: Sequence[int] | NDArray[Any],
    right: Sequence[int] | NDArray[Any],
    goes_left: Callable[[Places, Places], NDArray[np.bool_]],
    root: int = 0,
) -> Places:
    """The leaf of one tree that each document comes to.

    Parameters
    ----------
    n_rows
        How many documents there are.
    left, right
        The children of each split: a split, or ~n for leaf n. Where there are none, the tree is
        leaf 0.
    goes_left
        Of splits and of the documents that stand at them, whether each goes left.
    root
        The split to start at.

    >>> reached_leaves(2, [~0], [~1], lambda splits, rows: rows == 1).tolist()
    [1, 0]
    """
    if not len(left):
        return np.zeros(n_rows, dtype=np.int64)
    children = np.stack([np.asarray(right), np.asarray(left)]).astype(np.int64)
    node = np.full(n_rows, root, dtype=np.int64)
    walking = np.arange(n_rows)
    while len(walking):
        at = node[walking]
        node[walking] = children[goes_left(at, walking).astype(np.int64), at]
        walking = walking[node[walking] >= 0]
    return ~node

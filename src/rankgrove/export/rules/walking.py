"""Walks through a parsed tree, for all documents at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
# What a node does with some documents: a leaf gives its value; a split gives its left child, its
# right child and which of the documents go left.
Step = float | tuple[Any, Any, NDArray[np.bool_]]


def walk(
    root: Any, n_documents: int, step: Callable[[Any, Rows], Step], dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """The value of the leaf that each document reaches, in the type in which an engine has it."""
    values = np.empty(n_documents, dtype=dtype)
    pending = [(root, np.arange(n_documents))]
    while pending:
        node, rows = pending.pop()
        found = step(node, rows)
        if isinstance(found, tuple):
            left, right, goes_left = found
            pending += [(left, rows[goes_left]), (right, rows[~goes_left])]
        else:
            values[rows] = found
    return values


def float32_of(text: object) -> np.float32:
    """A number as Java's Float.parseFloat reads it; what is past all of float32 is infinite."""
    with np.errstate(over="ignore"):
        return np.float32(float(str(text)))

"""What a document is worth by its grade: a gain, or the chance that a user stops at it."""

from __future__ import annotations

import numpy as np

from rankgrove._jit import empty, kernel

TABLE, BINARY, LINEAR, EXPONENTIAL = range(4)


@kernel
def worth(label, kind, table):
    """A table by grade; or its first entry is the threshold, or what is worth 1, or r_max."""
    if kind == TABLE:
        return table[int(label)]
    if kind == BINARY:
        return 1.0 if label >= table[0] else 0.0
    if kind == LINEAR:
        return np.float64(label) / table[0]
    return (2.0 ** np.float64(label) - 1.0) / 2.0 ** table[0]


@kernel
def worths(labels, kind, table):
    """What each document is worth."""
    out = empty(len(labels), np.float64)
    for i in range(len(labels)):
        out[i] = worth(labels[i], kind, table)
    return out

"""Histograms: the sums of forces and curvatures of the rows of a node, by feature and bin.

Force and curvature of a row are integers in the two halves of one int64 (see `quantise`), so one
addition sums both, the order of additions does not matter, and the histogram of the larger child
is exactly that of the parent minus that of the smaller one.

A histogram has the shape (256, 16) for a block of features: bin-major, so that the scan for splits
goes through 16 features side by side in vector registers.
"""

# mypy: disable-error-code="assignment, call-arg"
# (Numba gives the variables of kernels their types, and prefetch its first argument.)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import kernel, prefetch

# Sums of absolute values stay below this, so that no half overflows into the other.
_LARGEST_SUM = float(1 << 30)

# Rows of a node are scattered over the codes: fetching this far ahead halves the time (measured).
_AHEAD = 32


@kernel
def pack_rows(forces, curvatures, force_unit, curvature_unit, out):
    """Round forces and curvatures to whole units and pack them: force << 32 plus curvature."""
    for row in range(len(forces)):
        force = np.int64(np.rint(forces[row] / force_unit))
        curvature = np.int64(np.rint(curvatures[row] / curvature_unit))
        out[row] = (force << 32) + curvature


@kernel
def _clear(histogram):
    for cell in range(len(histogram)):
        histogram[cell] = 0


@kernel
def sum_all_rows(codes, packed, first_block, last_block, histograms):
    """The histograms of all rows, for some blocks.

    IN: codes, (blocks, rows * 16). OUT: histograms, (blocks, 4096).
    """
    for block in range(first_block, last_block):
        histogram = histograms[block]
        _clear(histogram)
        block_codes = codes[block]
        for row in range(len(packed)):
            value = packed[row]
            base = np.uint64(row) * np.uint64(16)
            for column in range(16):
                cell = np.uint64(block_codes[base + np.uint64(column)]) * np.uint64(16)
                histogram[cell + np.uint64(column)] += value


@kernel
def sum_rows(codes, packed, rows, first_block, last_block, parent, child):
    """The histograms of the rows of a child, and those of its sibling in place of the parent's.

    IN: rows of the smaller child, int32; codes, (blocks, rows * 16). OUT: child; parent, which
    becomes the larger child.
    """
    n = len(rows)
    for block in range(first_block, last_block):
        histogram = child[block]
        _clear(histogram)
        block_codes = codes[block]
        for i in range(n):
            if i + _AHEAD < n:
                prefetch(block_codes, np.int64(rows[i + _AHEAD]) * 16)
            row = np.uint64(rows[i])
            value = packed[row]
            base = row * np.uint64(16)
            for column in range(16):
                cell = np.uint64(block_codes[base + np.uint64(column)]) * np.uint64(16)
                histogram[cell + np.uint64(column)] += value
        whole = parent[block]
        for cell in range(len(whole)):
            whole[cell] -= histogram[cell]


@kernel
def unpack(total, force_unit, curvature_unit):
    """The (force, curvature) of a packed sum."""
    return (total >> 32) * force_unit, (total & 0xFFFFFFFF) * curvature_unit


def units(forces: NDArray[np.float64], curvatures: NDArray[np.float64]) -> tuple[float, float]:
    """What one step of the packed integers is worth, for forces and for curvatures.

    The sum of absolute values becomes 2^30 less half a step for each row.
    """
    room = _LARGEST_SUM - len(forces)
    force = float(np.abs(forces).sum()) / room
    curvature = float(curvatures.sum()) / room
    # Without any force or curvature a step may be worth anything.
    return force or 1.0, curvature or 1.0

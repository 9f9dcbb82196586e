"""Forces and curvatures as whole numbers, so that their sums do not depend on the order.

Both are rounded to multiples of a unit of their own, chosen for each tree, and packed into the
two halves of one int64: one addition sums both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.hashing import mix

# Sums of absolute values stay below this, so that no half overflows into the other.
_LARGEST_SUM = float(1 << 30)

_CHUNK_ROWS = 1 << 16


@kernel
def pack_rows(forces, curvatures, force_unit, curvature_unit, seed, first, last, out):
    """Round forces and curvatures to whole units and pack them: force << 32 plus curvature.

    A fraction is rounded up with its own probability, by a hash of the row: the sum over many
    small values stays right, where rounding to the nearest would lose them all.
    """
    for row in range(first, last):
        draw = mix(np.uint64(row) + seed)
        low = np.float64(draw & np.uint64(0xFFFFFFFF)) * 2.0**-32
        high = np.float64(draw >> np.uint64(32)) * 2.0**-32
        force = np.int64(np.floor(forces[row] / force_unit + low))
        curvature = np.int64(np.floor(curvatures[row] / curvature_unit + high))
        out[row] = (force << 32) + curvature


@kernel
def _sum_sizes(forces, curvatures, first, last):
    """The sums of the absolute forces and of the curvatures of some rows."""
    force = 0.0
    curvature = 0.0
    for row in range(first, last):
        force += abs(forces[row])
        curvature += curvatures[row]
    return force, curvature


def quantise(
    forces: NDArray[np.float64],
    curvatures: NDArray[np.float64],
    seed: int,
    n_jobs: int | None = None,
) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """The packed rows, and what one unit of force and one of curvature are worth.

    The sums of absolute values become 2^30 units less one for each row, which rounding may add.
    """
    n_rows = len(forces)
    packed = np.empty(n_rows, dtype=np.int64)
    forces, curvatures = as_input(forces, np.float64), as_input(curvatures, np.float64)
    chunks = [(first, min(first + _CHUNK_ROWS, n_rows)) for first in range(0, n_rows, _CHUNK_ROWS)]
    sums = np.empty((len(chunks), 2))

    def add_up(chunk: int) -> None:
        sums[chunk] = _sum_sizes(forces, curvatures, *chunks[chunk])

    run_chunks(add_up, len(chunks), n_jobs)
    force, curvature = (float(total) / (_LARGEST_SUM - n_rows) for total in sums.sum(axis=0))
    # Without any force or curvature a unit may be worth anything.
    units = force or 1.0, curvature or 1.0
    start = np.uint64(seed)

    def pack(chunk: int) -> None:
        pack_rows(forces, curvatures, *units, start, *chunks[chunk], packed)

    run_chunks(pack, len(chunks), n_jobs)
    return packed, units

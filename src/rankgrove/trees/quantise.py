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
def pack_rows(forces, curvatures, force_unit, curvature_unit, seed, first_row, first, last, out):
    """Round forces and curvatures to whole units and pack them: force << 32 plus curvature.

    A fraction is rounded up with its own probability, by a hash of the row's number, which counts
    from `first_row`: the sum over many small values stays right, where rounding to the nearest
    would lose them all.
    """
    for row in range(first, last):
        draw = mix(np.uint64(first_row + row) + seed)
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


def units_of(
    forces: NDArray[np.float64], curvatures: NDArray[np.float64], n_jobs: int | None = None
) -> tuple[float, float]:
    """What one unit of force and one of curvature are worth.

    The sums of absolute values become 2^30 units less one for each row, which rounding may add.
    """
    n_rows = len(forces)
    forces, curvatures = as_input(forces, np.float64), as_input(curvatures, np.float64)
    sums = np.empty((-(-n_rows // _CHUNK_ROWS), 2))

    def add_up(chunk: int) -> None:
        first = chunk * _CHUNK_ROWS
        last = min(first + _CHUNK_ROWS, n_rows)
        sums[chunk] = _sum_sizes(forces, curvatures, first, last)

    run_chunks(add_up, len(sums), n_jobs)
    force, curvature = (float(total) / (_LARGEST_SUM - n_rows) for total in sums.sum(axis=0))
    # Without any force or curvature a unit may be worth anything.
    return force or 1.0, curvature or 1.0


def quantise(
    forces: NDArray[np.float64],
    curvatures: NDArray[np.float64],
    seed: int,
    n_jobs: int | None = None,
    *,
    first_row: int = 0,
    units: tuple[float, float] | None = None,
) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """The packed rows, and what one unit of force and one of curvature are worth.

    Where these are only some of the rows, `first_row` is the number of the first among all of them,
    and `units` are those of all.
    """
    n_rows = len(forces)
    packed = np.empty(n_rows, dtype=np.int64)
    forces, curvatures = as_input(forces, np.float64), as_input(curvatures, np.float64)
    units = units_of(forces, curvatures, n_jobs) if units is None else units
    fixed = (*units, np.uint64(seed), first_row)

    def pack(chunk: int) -> None:
        first = chunk * _CHUNK_ROWS
        pack_rows(
            forces, curvatures, *fixed, first, min(first + _CHUNK_ROWS, n_rows), packed
        )  # fmt: skip

    run_chunks(pack, -(-n_rows // _CHUNK_ROWS), n_jobs)
    return packed, units

"""Forces and curvatures as whole numbers, so that their sums do not depend on the order.

Both are rounded to multiples of a unit of their own, chosen for each tree, and packed into the
two halves of one int64: one addition sums both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, chunk_queries, kernel, run_chunks
from rankgrove._jit.exact import Scale, exact_sums
from rankgrove._jit.hashing import mix
from rankgrove._jit.peers import ALONE, Peers

Floats = NDArray[np.float64]

# Sums of absolute values stay below this, so that no half overflows into the other.
_LARGEST_SUM = float(1 << 30)

_CHUNK_ROWS = 1 << 16


@kernel
def pack_rows(
    forces, curvatures, force_unit, curvature_unit, seed, offsets, places, first, last, out
):  # fmt: skip
    """Round forces and curvatures to whole units and pack them: force << 32 plus curvature.

    A fraction is rounded up with its own probability, by a hash of the row's number among all rows:
    the sum over many small values stays right, where rounding to the nearest would lose them all.
    """
    for q in range(first, last):
        rows = slice(offsets[q], offsets[q + 1])
        # Slices, whose places from 0 on are seen to be within: else nothing would be vectorised.
        own_forces, own_curvatures, own = forces[rows], curvatures[rows], out[rows]
        for i in range(len(own)):
            draw = mix(np.uint64(places[q] + i) + seed)
            low = np.float64(draw & np.uint64(0xFFFFFFFF)) * 2.0**-32
            high = np.float64(draw >> np.uint64(32)) * 2.0**-32
            force = np.int64(np.floor(own_forces[i] / force_unit + low))
            curvature = np.int64(np.floor(own_curvatures[i] / curvature_unit + high))
            own[i] = (force << 32) + curvature


class Quantised(NamedTuple):
    """Packed rows, what units of force and curvature are worth, and the sum of all curvatures."""

    packed: NDArray[np.int64]
    units: tuple[float, float]
    curvature: float


def quantise(
    forces: Floats,
    curvatures: Floats,
    seed: int,
    n_jobs: int | None = None,
    *,
    offsets: NDArray[np.int64] | None = None,
    places: NDArray[np.int64] | None = None,
    n_all: int | None = None,
    peers: Peers = ALONE,
    scales: Sequence[Scale] | None = None,
) -> Quantised:
    """Forces and curvatures in whole units.

    The sums of absolute values become 2^30 units less one for each row, which rounding may add.

    Parameters
    ----------
    offsets, places, n_all, peers
        Where these are only some of the rows: stretches of them, the number of the first row of
        each among all rows, how many there are in all, and the workers that have the others.
    scales
        Of both, by `scales_of`, if they are known.
    """
    n_rows = len(forces)
    forces, curvatures = as_input(forces, np.float64), as_input(curvatures, np.float64)
    if offsets is None or places is None:
        offsets = np.unique([*range(0, n_rows, _CHUNK_ROWS), n_rows])
        places = offsets[:-1]
    n_all = n_rows if n_all is None else n_all
    sums = exact_sums([forces, curvatures], n_all, n_jobs, peers, sizes=True, scales=scales)
    # Without any force or curvature a unit may be worth anything.
    force_unit, curvature_unit = (total / (_LARGEST_SUM - n_all) or 1.0 for total in sums)
    packed = np.empty(n_rows, dtype=np.int64)
    fixed = (force_unit, curvature_unit, np.uint64(seed))
    stretches = as_input(offsets, np.int64), as_input(places, np.int64)
    bounds = chunk_queries(offsets, _CHUNK_ROWS).tolist()

    def pack(chunk: int) -> None:
        first, last = bounds[chunk], bounds[chunk + 1]
        pack_rows(forces, curvatures, *fixed, *stretches, first, last, packed)

    run_chunks(pack, len(bounds) - 1, n_jobs)
    return Quantised(packed, (force_unit, curvature_unit), sums[1])

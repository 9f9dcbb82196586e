"""Features of few bins, two of which share a code: one addition sums both.

The code of the first is the upper half of a byte, that of the second the lower half. Sums by byte
are then added up over either half. Sums are of whole numbers, so trees are the same bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, run_chunks
from rankgrove.trees.binning import BLOCK, PLAIN, BinnedMatrix, Bins, padded_width

# Half a byte has so many values.
FEW_BINS = 16

# Codes are shared where that saves at least this share of all blocks.
LEAST_SAVED = 1 / 8

_CHUNK_ROWS = 1 << 10


def share_codes(matrix: BinnedMatrix, bins: Bins, n_jobs: int | None = None) -> BinnedMatrix:
    """The same, with features of few bins two by two in one code.

    It is itself if there are few of them, or no codes by feature, which rows are divided by.
    """
    if matrix.others is not None or matrix.n_pairs or not len(matrix.by_feature):
        return matrix
    features = matrix.features[matrix.features >= 0]
    is_few = (bins.kinds[features] == PLAIN) & (bins.n_bins[features] <= FEW_BINS)
    n_few = int(np.count_nonzero(is_few))
    # Two blocks become one, if the second of them has a feature.
    n_pairs = n_few // (2 * BLOCK) + (n_few % (2 * BLOCK) > BLOCK)
    if n_pairs < max(LEAST_SAVED * matrix.n_blocks, 1):
        return matrix
    taken = np.flatnonzero(is_few)[-2 * BLOCK * n_pairs :]
    paired, rest = features[taken], np.delete(features, taken)
    width = padded_width(len(rest))
    order = np.full(width + 2 * BLOCK * n_pairs, -1, dtype=np.int64)
    order[: len(rest)], order[width : width + len(paired)] = rest, paired
    slots = np.where(order >= 0, matrix.slots[order], -1)
    codes = _shared_codes(matrix, slots, width, n_jobs)
    by_feature = matrix.by_feature[slots]
    by_feature[slots < 0] = 0
    return replace(BinnedMatrix.of(codes, bins, by_feature, order), n_pairs=n_pairs)


def _shared_codes(
    matrix: BinnedMatrix, slots: NDArray[np.int64], width: int, n_jobs: int | None
) -> NDArray[np.uint8]:
    """The codes of a matrix at other places: by itself up to a width, and two in one from there."""
    halves = slots[width:].reshape(-1, 2, BLOCK)
    first, second = halves[:, 0].reshape(-1), halves[:, 1].reshape(-1)
    out = np.empty((matrix.n_rows, width + len(first)), dtype=np.uint8)
    absent, lacking = slots[:width] < 0, second < 0

    def task(chunk: int) -> None:
        rows = slice(chunk * _CHUNK_ROWS, (chunk + 1) * _CHUNK_ROWS)
        codes, into = matrix.codes[rows], out[rows]
        into[:, :width] = codes[:, slots[:width]]
        into[:, :width][:, absent] = 0
        lower = codes[:, second]
        lower[:, lacking] = 0
        into[:, width:] = codes[:, first] << np.uint8(4) | lower

    run_chunks(task, -(-matrix.n_rows // _CHUNK_ROWS), n_jobs)
    return as_input(out, np.uint8)

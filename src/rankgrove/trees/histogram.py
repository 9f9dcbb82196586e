"""Sums of forces and curvatures by bin: the histograms that splits are found in.

Force and curvature of a row are whole numbers in the two halves of one int64, so one addition
sums both, the order of additions does not matter, and the histogram of the larger child is
exactly that of the parent minus that of the smaller one.

A histogram has the shape (256, 16) for a block of features: bin-major, so that the scan for
splits goes through 16 features side by side in vector registers.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import flattened, inline_kernel, kernel, prefetch

# Rows of a node are scattered over the codes: fetching this far ahead halves the time (measured).
AHEAD = 16

# Rows that are summed block by block before the next ones: their codes fit into the second-level
# cache for hundreds of features.
TILE_ROWS = 1024


@kernel
def clear(histogram, n_cells):
    for cell in range(n_cells):
        histogram[cell] = 0
    for cell in range(4080, 4096):
        histogram[cell] = 0


@kernel
def add(whole, part, n_cells):
    for cell in range(n_cells):
        whole[cell] += part[cell]
    for cell in range(4080, 4096):
        whole[cell] += part[cell]


@kernel
def subtract(whole, part, n_cells):
    for cell in range(n_cells):
        whole[cell] -= part[cell]
    for cell in range(4080, 4096):
        whole[cell] -= part[cell]


@inline_kernel
def _add_half(word, value, histogram, first):
    """Add one row to the histogram of half a block, whose 8 codes are the bytes of a word."""
    for column in range(8):
        code = (word >> np.uint64(8 * column)) & np.uint64(255)
        histogram[code * np.uint64(16) + np.uint64(column) + first] += value


@kernel
def sum_block(words, packed, rows, block, features, histogram):
    """Add rows to the flat histogram of one block; all rows alike if `packed` is a single one."""
    n_words = len(features) // 8
    n = len(rows)
    half = features[block * 16 + 8] < 0
    alike = len(packed) == 1
    for i in range(n):
        if i + AHEAD < n:
            prefetch(words, np.int64(rows[i + AHEAD]) * n_words + 2 * block)
        at = np.uint64(rows[i]) * np.uint64(n_words) + np.uint64(2 * block)
        value = packed[0 if alike else rows[i]]
        _add_half(words[at], value, histogram, np.uint64(0))
        if not half:
            _add_half(words[at + np.uint64(1)], value, histogram, np.uint64(8))


@kernel
def sum_rows(words, packed, rows, features, histograms, codes):
    """Add rows to the histograms of all blocks, tile by tile.

    The codes of a tile's rows, which are scattered over memory, are gathered first. Then they are
    in the second-level cache, while one histogram after the other goes through the first-level one.
    The last column of `codes` is for their packed forces and curvatures.
    """
    n_words = len(features) // 8
    for start in range(0, len(rows), len(codes)):
        own = rows[start : min(start + len(codes), len(rows))]
        n = len(own)
        for i in range(n):
            if i + AHEAD < n:
                ahead = np.int64(own[i + AHEAD])
                prefetch(packed, ahead)
                for word in range(0, n_words, 8):
                    prefetch(words, ahead * n_words + word)
                prefetch(words, ahead * n_words + n_words - 1)
            at = np.uint64(own[i]) * np.uint64(n_words)
            row = codes[i]
            for word in range(n_words):
                row[word] = words[at + np.uint64(word)]
            row[n_words] = np.uint64(packed[own[i]])
        for block in range(len(histograms)):
            histogram = flattened(histograms[block])
            if features[block * 16 + 8] < 0:
                # The last block, half empty.
                for i in range(n):
                    value = np.int64(codes[i, n_words])
                    _add_half(codes[i, 2 * block], value, histogram, np.uint64(0))
                continue
            for i in range(n):
                # All loads come before the stores: the processor does not know them to be apart.
                low, high = codes[i, 2 * block], codes[i, 2 * block + 1]
                value = np.int64(codes[i, n_words])
                _add_half(low, value, histogram, np.uint64(0))
                _add_half(high, value, histogram, np.uint64(8))

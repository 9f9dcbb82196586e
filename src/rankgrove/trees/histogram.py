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

from rankgrove._jit import (
    flattened,
    inline_kernel,
    kernel,
    local_floats,
    prefetch,
    reinterpret,
)

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


@inline_kernel
def _add_half_shared(word, value, histogram, first):
    """As `_add_half`, of codes that are the lower halves of the bytes of a word."""
    for column in range(8):
        code = (word >> np.uint64(8 * column)) & np.uint64(15)
        histogram[code * np.uint64(16) + np.uint64(column) + first] += value


@kernel
def sum_block(words, packed, rows, block, features, n_pairs, histogram):
    """Add rows to the flat histogram of one block; all rows alike if `packed` is a single one."""
    n_plain = len(features) // 16 - 2 * n_pairs
    n_words = 2 * (n_plain + n_pairs)
    n = len(rows)
    half = features[block * 16 + 8] < 0
    alike = len(packed) == 1
    shared = block >= n_plain
    column, shift = np.int64(2 * block), np.uint64(0)
    if shared:
        column = 2 * (n_plain + (block - n_plain) // 2)
        shift = np.uint64(0 if (block - n_plain) % 2 else 4)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(words, np.int64(rows[i + AHEAD]) * n_words + column)
        at = np.uint64(rows[i]) * np.uint64(n_words) + np.uint64(column)
        value = packed[0 if alike else rows[i]]
        if shared:
            _add_half_shared(words[at] >> shift, value, histogram, np.uint64(0))
            _add_half_shared(words[at + np.uint64(1)] >> shift, value, histogram, np.uint64(8))
            continue
        _add_half(words[at], value, histogram, np.uint64(0))
        if not half:
            _add_half(words[at + np.uint64(1)], value, histogram, np.uint64(8))


@kernel
def _add_tile(codes, n, word, half, histogram):
    """Add the first rows of a tile to the flat histogram of the block at a word, or half of it."""
    n_words = codes.shape[1] - 1
    if half:
        for i in range(n):
            value = np.int64(codes[i, n_words])
            _add_half(codes[i, word], value, histogram, np.uint64(0))
        return
    for i in range(n):
        # All loads come before the stores: the processor does not know them to be apart.
        low, high = codes[i, word], codes[i, word + 1]
        value = np.int64(codes[i, n_words])
        _add_half(low, value, histogram, np.uint64(0))
        _add_half(high, value, histogram, np.uint64(8))


@kernel
def _add_halves(shared, first, second):
    """Add sums by shared code, of 16 pairs, to those by the code of either feature; all flat."""
    # On the stack: then the compiler knows that they are apart from the rest.
    upper, lower = reinterpret(local_floats(), np.int64), reinterpret(local_floats(), np.int64)
    for i in range(256):
        lower[i] = 0
    for code in range(16):
        for f in range(16):
            upper[f] = 0
        for other in range(16):
            at = (code * 16 + other) * 16
            for f in range(16):
                upper[f] += shared[at + f]
                lower[other * 16 + f] += shared[at + f]
        for f in range(16):
            first[code * 16 + f] += upper[f]
    for i in range(256):
        second[i] += lower[i]


@kernel
def sum_rows(words, packed, rows, features, n_pairs, histograms, codes, shared):
    """Add rows to the histograms of all blocks, tile by tile.

    The codes of a tile's rows, which are scattered over memory, are gathered first. Then they are
    in the second-level cache, while one histogram after the other goes through the first-level one.
    The last column of `codes` is for their packed forces and curvatures; `shared` are histograms
    for codes that two features share.
    """
    n_words = codes.shape[1] - 1
    n_plain = len(histograms) - 2 * n_pairs
    for pair in range(n_pairs):
        clear(flattened(shared[pair]), 4080)
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
        for block in range(n_plain):
            half = features[block * 16 + 8] < 0
            _add_tile(codes, n, 2 * block, half, flattened(histograms[block]))
        for pair in range(n_pairs):
            _add_tile(codes, n, 2 * (n_plain + pair), False, flattened(shared[pair]))
    for pair in range(n_pairs):
        first, second = histograms[n_plain + 2 * pair], histograms[n_plain + 2 * pair + 1]
        _add_halves(flattened(shared[pair]), flattened(first), flattened(second))

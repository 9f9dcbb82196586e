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
from numpy.typing import NDArray

from rankgrove._jit import (
    flattened,
    inline_kernel,
    kernel,
    local_floats,
    prefetch,
    prefetch_to_second,
    reinterpret,
)

# Rows of a node are scattered over the codes: fetching this far ahead halves the time (measured).
AHEAD = 16

# Rows that are summed block by block before the next ones, at most and at least: the codes of these
# and of the next ones fit into the second-level cache for a thousand features. Of a short list
# there are fewer, as the first ones are waited for (measured).
_MOST_ROWS, _LEAST_ROWS = 256, 64

# So many words between the codes of two blocks of a tile belong to neither: without them the same
# row of all blocks would have the same place in the first-level cache.
_GAP = 8


def make_tiles(n_tiles: int, n_words: int) -> NDArray[np.uint64]:
    """Memory for tiles of rows of so many words, as `sum_rows` takes it."""
    return np.empty((n_tiles, n_words // 2 + 1, 2 * _MOST_ROWS + _GAP), dtype=np.uint64)


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
def _gather_tile(words, packed, rows, fetches, tile):
    """Copy the codes of rows into a tile, block by block, and their packed forces behind them."""
    n_words = 2 * (len(tile) - 1)
    values = tile[len(tile) - 1]
    for i in range(len(rows)):
        if fetches and i + AHEAD < len(rows):
            ahead = np.int64(rows[i + AHEAD])
            prefetch(packed, ahead)
            for word in range(0, n_words, 8):
                prefetch(words, ahead * n_words + word)
            prefetch(words, ahead * n_words + n_words - 1)
        at = np.uint64(rows[i]) * np.uint64(n_words)
        for block in range(len(tile) - 1):
            # Both words are read before one is written: then they are copied as one.
            low, high = words[at], words[at + np.uint64(1)]
            at += np.uint64(2)
            tile[block, 2 * i], tile[block, 2 * i + 1] = low, high
        values[i] = np.uint64(packed[rows[i]])


@inline_kernel
def _fetch_ahead(words, packed, rows, i, n_words, block):
    """Ask for the part of a row of the next tile that falls to a block."""
    if i < len(rows) and 8 * block < n_words + 8:
        row = np.int64(rows[i])
        prefetch_to_second(words, row * n_words + min(8 * block, n_words - 1))
        if block == 0:
            prefetch_to_second(packed, row)


@kernel
def _add_tile(tile, n, block, half, histogram, words, packed, next_rows):
    """Add the first rows of a tile to the flat histogram of a block, or half of it.

    Meanwhile the memory is free to fetch a part of the codes of the next tile.
    """
    n_words = 2 * (len(tile) - 1)
    codes, values = tile[block], tile[len(tile) - 1]
    if half:
        for i in range(n):
            _fetch_ahead(words, packed, next_rows, i, n_words, block)
            _add_half(codes[2 * i], np.int64(values[i]), histogram, np.uint64(0))
        return
    for i in range(n):
        _fetch_ahead(words, packed, next_rows, i, n_words, block)
        # All loads come before the stores: the processor does not know them to be apart.
        low, high, value = codes[2 * i], codes[2 * i + 1], np.int64(values[i])
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
def sum_rows(words, packed, rows, features, n_pairs, histograms, tile, shared):
    """Add rows to the histograms of all blocks, tile by tile.

    The codes of a tile's rows, which are scattered over memory, are gathered first. Then they are
    in the second-level cache, while one histogram after the other goes through the first-level one.
    `tile` is one of `make_tiles`; `shared` are histograms for codes that two features share.
    """
    n_plain = len(histograms) - 2 * n_pairs
    for pair in range(n_pairs):
        clear(flattened(shared[pair]), 4080)
    most = min(max(len(rows) // 4, _LEAST_ROWS), _MOST_ROWS)
    for start in range(0, len(rows), most):
        end = min(start + most, len(rows))
        next_rows = rows[end : min(end + most, len(rows))]
        _gather_tile(words, packed, rows[start:end], start == 0, tile)
        for block in range(n_plain + n_pairs):
            half = block < n_plain and features[block * 16 + 8] < 0
            summed = histograms[block] if block < n_plain else shared[block - n_plain]
            _add_tile(
                tile, end - start, block, half, flattened(summed), words, packed, next_rows
            )  # fmt: skip
    for pair in range(n_pairs):
        first, second = histograms[n_plain + 2 * pair], histograms[n_plain + 2 * pair + 1]
        _add_halves(flattened(shared[pair]), flattened(first), flattened(second))

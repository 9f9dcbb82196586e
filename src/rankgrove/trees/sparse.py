"""Features that have one code in most rows: only the other codes are kept, and added up.

The code that most rows have is the feature's common one. A row holds, for each of its other codes,
the cell of the histograms that it is added to; a feature holds its rows with other codes, to divide
by it. What the rows with the common code come to is what is left of the node's total: sums are of
whole numbers, so that is exact, and trees are the same bits as with all codes kept.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, by_address, flattened, kernel, prefetch, run_chunks
from rankgrove._jit.peers import ALONE, Peers
from rankgrove._jit.ranking import first_place
from rankgrove.trees.histogram import clear

# As for codes by row: so many rows ahead.
_AHEAD = 8

# The cells of the histogram of a block, and its columns.
_BLOCK_CELLS, _BLOCK = 4096, 16

# Rows by which the common code of a feature is found, and of which the codes are gone through at a
# time.
_SAMPLED = 1 << 13
_CHUNK_ROWS = 1 << 10

# Where a stretch of rows has this many times fewer rows than there are codes in it, each row is
# looked for by halving.
_FEW = 16

# Where it has this many times more rows than codes, rows between two codes are copied at once.
_RUN = 4


@by_address
class OtherCodes(NamedTuple):
    """The codes of sparse features that are not the common ones, as kernels take them.

    Attributes
    ----------
    first_block
        Blocks from here on are of sparse features.
    starts, cells
        Of row r, `cells[starts[r]:starts[r + 1]]`, place after place: `block * 4096 + code * 16 +
        column`.
    column_starts, column_rows, column_codes
        Of the feature at place p, from the first place of the first block on, the rows and their
        codes, in rising order of rows.
    common
        The common code of each place.
    """

    first_block: int
    starts: NDArray[np.int64]
    cells: NDArray[np.uint32]
    column_starts: NDArray[np.int64]
    column_rows: NDArray[np.int32]
    column_codes: NDArray[np.uint8]
    common: NDArray[np.int64]


@kernel
def sum_cells(others, packed, rows, flat):
    """Add rows to the flat histograms of all blocks, but for their common codes."""
    starts, cells = others.starts, others.cells
    n = len(rows)
    for i in range(n):
        if i + _AHEAD < n:
            ahead = np.int64(rows[i + _AHEAD])
            prefetch(packed, ahead)
            prefetch(cells, starts[ahead])
        row = np.int64(rows[i])
        value = packed[row]
        for at in range(np.uint64(starts[row]), np.uint64(starts[row + 1])):
            flat[cells[at]] += value


@kernel
def _place_among(rows, at, row):
    """The first place from `at` on of rising rows whose row is not below a row.

    Rows are whole numbers: the place is at most `row - rows[at]` further on, and near there in a
    node that has most rows. So it is looked for from there back.
    """
    if at == len(rows) or rows[at] >= row:
        return at
    high = min(at + row - np.int64(rows[at]), len(rows))
    low, step = high - 1, 1
    while low > at and rows[low] >= row:
        high = low
        low = max(low - step, at)
        step *= 2
    return first_place(rows, low + 1, high, row)


@kernel
def sum_cells_of_block(others, packed, rows, block, flat):
    """Add rows to the flat histogram of one block; all rows alike if `packed` is a single one.

    Where the block has few codes for so many rows, these are looked up among the rows.
    """
    starts, cells = others.starts, others.cells
    alike = len(packed) == 1
    base = np.int64(block) * _BLOCK_CELLS
    place = (np.int64(block) - others.first_block) * _BLOCK
    n_cells = others.column_starts[place + _BLOCK] - others.column_starts[place]
    if n_cells < len(rows):
        for column in range(_BLOCK):
            at = np.int64(0)
            last = others.column_starts[place + column + 1]
            for i in range(others.column_starts[place + column], last):
                row = np.int64(others.column_rows[i])
                at = _place_among(rows, at, row)
                if at < len(rows) and rows[at] == row:
                    code = np.int64(others.column_codes[i])
                    flat[code * _BLOCK + column] += packed[0 if alike else row]
        return
    for i in range(len(rows)):
        row = np.int64(rows[i])
        value = packed[0 if alike else row]
        last = starts[row + 1]
        at = first_place(cells, starts[row], last, base)
        while at < last and cells[at] < base + _BLOCK_CELLS:
            flat[np.int64(cells[at]) - base] += value
            at += 1


@kernel
def add_common(others, histogram, block, n_bins, total, left):
    """Give the common code of each feature of a block what is left of the node's total.

    `left` is scratch for 16 numbers.
    """
    first = (block - others.first_block) * _BLOCK
    for column in range(_BLOCK):
        histogram[others.common[first + column], column] = 0
        left[column] = total - histogram[255, column]
    for code in range(n_bins):
        row = histogram[code]
        for column in range(_BLOCK):
            left[column] -= row[column]
    for column in range(_BLOCK):
        histogram[others.common[first + column], column] = left[column]


@kernel
def may_be_cut(others, histogram, block, total, at_least):
    """Whether some feature of a block has enough curvature beside its common code for a child.

    Every cut leaves a child without the common code.
    """
    first = (block - others.first_block) * _BLOCK
    curvature = total & 0xFFFFFFFF
    most = np.int64(0)
    for column in range(_BLOCK):
        common = histogram[others.common[first + column], column] & 0xFFFFFFFF
        most = max(most, curvature - common)
    return most >= at_least


@kernel
def add_places(others, packed, rows, sums):
    """What rows with other codes come to, for each feature, from the rows of a node."""
    sums[:] = 0
    starts, cells = others.starts, others.cells
    for i in range(len(rows)):
        row = np.int64(rows[i])
        for at in range(starts[row], starts[row + 1]):
            sums[_place_of(cells[at], others.first_block)] += packed[row]


@kernel
def take_cells(others, packed, rows, total, sums, whole):
    """Take rows away from the flat histograms of all blocks, their common codes as well.

    `total` is what the rows come to, and `sums` what those with other codes do for each feature.
    """
    starts, cells = others.starts, others.cells
    for i in range(len(rows)):
        row = np.int64(rows[i])
        value = packed[row]
        for at in range(starts[row], starts[row + 1]):
            whole[cells[at]] -= value
    for place in range(len(sums)):
        block = others.first_block + place // _BLOCK
        at = block * _BLOCK_CELLS + others.common[place] * _BLOCK + place % _BLOCK
        whole[at] -= total - sums[place]


@kernel
def make_block(
    others, packed, row_tags, tag, block, n_bins, total, at_least, known, sums, histogram
):  # fmt: skip
    """Make the histogram of a block from the rows of its features; whether some may be cut.

    Parameters
    ----------
    row_tags, tag
        The mark of each row, and that of the rows that count.
    at_least
        The curvature beside the common code without which a feature is not cut: what rows with
        other codes come to is then left with the common one.
    known, sums
        What rows with other codes come to for each feature, if known; else it is found.
    """
    first = (block - others.first_block) * _BLOCK
    starts, rows, codes = others.column_starts, others.column_rows, others.column_codes
    most = np.int64(0)
    for column in range(_BLOCK):
        if not known:
            found = np.int64(0)
            for i in range(starts[first + column], starts[first + column + 1]):
                row = np.int64(rows[i])
                found += packed[row] if row_tags[row] == tag else 0
            sums[column] = found
        most = max(most, sums[column] & 0xFFFFFFFF)
    if most < at_least:
        return False
    flat = flattened(histogram)
    clear(flat, n_bins * _BLOCK)
    for column in range(_BLOCK):
        common = others.common[first + column]
        histogram[common, column] = total
        if (sums[column] & 0xFFFFFFFF) < at_least:
            continue
        for i in range(starts[first + column], starts[first + column + 1]):
            row = np.int64(rows[i])
            if row_tags[row] == tag:
                flat[np.int64(codes[i]) * _BLOCK + column] += packed[row]
        histogram[common, column] -= sums[column]
    return True


@kernel
def count_others(others, row_tags, tag, place, n_rows, counts):
    """Count the rows of a node by their codes at a place; all counts must be 0 before."""
    place -= others.first_block * _BLOCK
    common, n_others = others.common[place], np.int64(0)
    for i in range(others.column_starts[place], others.column_starts[place + 1]):
        if row_tags[others.column_rows[i]] == tag:
            counts[others.column_codes[i]] += 1
            n_others += 1
    counts[common] += n_rows - n_others


@kernel
def _copy_run(rows, first, last, goes_left, spare, left, right):
    """Copy rows that all go one way, to the front of what is left of a stretch, or to its back."""
    n = last - first
    if goes_left:
        for i in range(n):
            spare[left + i] = rows[first + i]
    else:
        for i in range(n):
            spare[right - i] = rows[first + i]


@kernel
def _divide_by_runs(its_rows, its_codes, common, table, stretch, spare, left, right):
    """Divide a stretch of rows among which few have other codes: how many go left.

    Rows between two of these all go the way of the common code, and are copied at once.
    """
    start, done = left, np.int64(0)
    for at in range(len(its_rows)):
        row = its_rows[at]
        goes_left = np.int64(table[its_codes[at]])
        found = _place_among(stretch, done, np.int64(row))
        if goes_left == common or found == len(stretch) or stretch[found] != row:
            continue
        _copy_run(stretch, done, found, common, spare, left, right)
        left += common * (found - done)
        right -= (1 - common) * (found - done)
        spare[left if goes_left else right] = row
        left += goes_left
        right -= 1 - goes_left
        done = found + 1
    _copy_run(stretch, done, len(stretch), common, spare, left, right)
    return left + common * (len(stretch) - done) - start


@kernel
def divide_by_others(others, place, table, rows, spare, start, end):
    """As `divide_stretch`, by a feature of which only codes that are not common are kept."""
    place -= others.first_block * _BLOCK
    first, last = others.column_starts[place], others.column_starts[place + 1]
    its_rows, its_codes = others.column_rows[first:last], others.column_codes[first:last]
    common = np.int64(table[others.common[place]])
    left, right = start, end - 1
    at, last = np.int64(0), len(its_rows)
    if start < end:
        at = first_place(its_rows, at, last, rows[start])
        last = first_place(its_rows, at, last, rows[end - 1] + 1)
    if _RUN * (last - at) < end - start:
        stretch = rows[start:end]
        return _divide_by_runs(
            its_rows[at:last], its_codes[at:last], common, table, stretch, spare, left, right
        )
    halves = last - at > _FEW * (end - start)
    for i in range(start, end):
        row = rows[i]
        if halves:
            at = first_place(its_rows, at, last, row)
        else:
            while at < last and its_rows[at] < row:
                at += 1
        goes_left = common
        if at < last and its_rows[at] == row:
            goes_left = np.int64(table[its_codes[at]])
        spare[left] = row
        spare[right] = row
        left += goes_left
        right -= 1 - goes_left
    return left - start


@kernel
def spread_columns(others, places, first, last, codes):
    """Write the codes of rows first to last at some places; those below 0 are left as they are."""
    for k in range(len(places)):
        place = places[k]
        if place < 0:
            continue
        common = others.common[place]
        for row in range(last - first):
            codes[row, k] = common
        end = others.column_starts[place + 1]
        at = first_place(others.column_rows, others.column_starts[place], end, first)
        while at < end and others.column_rows[at] < last:
            codes[others.column_rows[at] - first, k] = others.column_codes[at]
            at += 1


@kernel
def _count_others(codes, places, common, first, last, starts):
    """How many codes of each row are not common, into the place after the row's own."""
    for row in range(first, last):
        n = 0
        for i in range(len(places)):
            n += codes[row, places[i]] != common[i]
        starts[row + 1] = n


@kernel
def _write_cells(codes, places, common, first_block, first, last, starts, cells):
    """Write the cells of rows."""
    for row in range(first, last):
        at = starts[row]
        for i in range(len(places)):
            code = codes[row, places[i]]
            if code != common[i]:
                block = first_block + i // _BLOCK
                cells[at] = block * _BLOCK_CELLS + np.int64(code) * _BLOCK + i % _BLOCK
                at += 1


@kernel
def _count_of_columns(cells, first_block, ends):
    """How many cells there are of each place."""
    for i in range(len(cells)):
        ends[_place_of(cells[i], first_block) + 1] += 1


@kernel
def _place_of(cell, first_block):
    return (np.int64(cell) // _BLOCK_CELLS - first_block) * _BLOCK + np.int64(cell) % _BLOCK


@kernel
def _turn(starts, cells, first_block, at, column_rows, column_codes):
    """Write rows and codes by place; `at` is where those of each place go on."""
    for row in range(len(starts) - 1):
        for i in range(starts[row], starts[row + 1]):
            place = _place_of(cells[i], first_block)
            column_rows[at[place]] = row
            column_codes[at[place]] = (np.int64(cells[i]) // _BLOCK) % 256
            at[place] += 1


def rows_to_count(n_rows: int) -> NDArray[np.int64]:
    """The rows by which the common code of a feature is found."""
    return np.linspace(0, n_rows - 1, min(n_rows, _SAMPLED)).astype(np.int64)


def common_codes(
    codes: NDArray[np.uint8], peers: Peers = ALONE
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The code that most rows have at each place, and their share, by a sample of the rows."""
    n_rows, width = codes.shape
    rows = rows_to_count(n_rows)
    counts = np.zeros((width, 256), dtype=np.int64)
    for first in range(0, width, _BLOCK):
        numbers = codes[rows, first : first + _BLOCK] + 256 * np.arange(_BLOCK)
        found = np.bincount(numbers.reshape(-1), minlength=256 * _BLOCK)
        counts[first : first + _BLOCK] = found.reshape(_BLOCK, 256)
    return most_common(counts, peers)


def most_common(
    counts: NDArray[np.int64], peers: Peers
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The code with the highest count at each place, and its share, over all peers."""
    peers.sum(counts)
    return counts.argmax(axis=1), counts.max(axis=1) / np.maximum(counts.sum(axis=1), 1)


def others_of(
    codes: NDArray[np.uint8],
    places: NDArray[np.int64],
    common: NDArray[np.int64],
    first_block: int,
    n_jobs: int | None = None,
) -> OtherCodes:
    """What is kept of the features at some places of all codes."""
    n_rows = len(codes)
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    places, common = as_input(places, np.int64), as_input(common, np.int64)

    def count(chunk: int) -> None:
        first, last = chunk * _CHUNK_ROWS, min((chunk + 1) * _CHUNK_ROWS, n_rows)
        _count_others(codes, places, common, first, last, starts)

    def write(chunk: int) -> None:
        first, last = chunk * _CHUNK_ROWS, min((chunk + 1) * _CHUNK_ROWS, n_rows)
        _write_cells(codes, places, common, first_block, first, last, starts, cells)

    n_chunks = -(-n_rows // _CHUNK_ROWS)
    run_chunks(count, n_chunks, n_jobs)
    np.cumsum(starts, out=starts)
    cells = np.empty(starts[-1], dtype=np.uint32)
    run_chunks(write, n_chunks, n_jobs)
    return _with_columns(first_block, starts, cells, common)


def _with_columns(
    first_block: int,
    starts: NDArray[np.int64],
    cells: NDArray[np.uint32],
    common: NDArray[np.int64],
) -> OtherCodes:
    """All that is kept, from what rows have."""
    n_places = -(-len(common) // _BLOCK) * _BLOCK
    ends = np.zeros(n_places + 1, dtype=np.int64)
    _count_of_columns(cells, first_block, ends)
    np.cumsum(ends, out=ends)
    rows, codes = np.empty(len(cells), dtype=np.int32), np.empty(len(cells), dtype=np.uint8)
    _turn(starts, cells, first_block, ends[:-1].copy(), rows, codes)
    return make_others(first_block, starts, cells, ends, rows, codes, common)


def make_others(
    first_block: int,
    starts: NDArray[np.int64],
    cells: NDArray[np.uint32],
    ends: NDArray[np.int64],
    rows: NDArray[np.int32],
    codes: NDArray[np.uint8],
    common: NDArray[np.int64],
) -> OtherCodes:
    """All that is kept, as kernels take it; there may be fewer common codes than places."""
    padded = np.zeros(len(ends) - 1, dtype=np.int64)
    padded[: len(common)] = common
    return OtherCodes(
        first_block=first_block,
        starts=as_input(starts, np.int64),
        cells=as_input(cells, np.uint32),
        column_starts=as_input(ends, np.int64),
        column_rows=as_input(rows, np.int32),
        column_codes=as_input(codes, np.uint8),
        common=as_input(padded, np.int64),
    )

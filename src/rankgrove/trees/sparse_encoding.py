"""Codes of sparse features: from the values that are stored, never by a dense matrix.

The matrix is the one that `encode` and `BinnedMatrix.with_sparse` make of the dense form.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.peers import ALONE, Peers
from rankgrove.data.queries import offsets_of, spans
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.trees.binning import (
    BLOCK,
    MISSING_CODE,
    BinnedMatrix,
    Bins,
    CategoryCodes,
    SparseLayout,
    padded_width,
)
from rankgrove.trees.sparse import OtherCodes, make_others, most_common, rows_to_count

_CHUNK_ROWS = 1 << 12
_CHUNK_VALUES = 1 << 16


@kernel
def encode_values(columns, values, edges, first, last, codes):
    """The codes of values of some features, from first to last; see `encode_rows`."""
    for i in range(first, last):
        cut = edges[columns[i]]
        value = values[i]
        at = np.int64(0)
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            at += step * (cut[at + step - 1] < value)
        codes[i] = np.uint8(255) if value != value else np.uint8(at)


@kernel
def write_all_codes(starts, columns, codes, place_of, absent, first, last, out):
    """Write all codes of rows, of features that have a place; `absent` is a row without values."""
    for row in range(first, last):
        into = out[row]
        for place in range(len(into)):
            into[place] = absent[place]
        for i in range(starts[row], starts[row + 1]):
            place = place_of[columns[i]]
            if place >= 0:
                into[place] = codes[i]


@kernel
def turn_codes(starts, columns, codes, place_of, at, turned_rows, turned_codes):
    """Write rows and codes by place; `at` is where those of each place go on."""
    for row in range(len(starts) - 1):
        for i in range(starts[row], starts[row + 1]):
            place = place_of[columns[i]]
            if place >= 0:
                turned_rows[at[place]] = row
                turned_codes[at[place]] = codes[i]
                at[place] += 1


@kernel
def find_others(starts, rows, codes, common, absent, n_rows, place, out_rows, out_codes):
    """The rows of a place with another code than the common one, and these codes; how many.

    `starts`, `rows` and `codes` are what is stored, by place, and `absent` the code of a row that
    has nothing stored there. Without room in `out_rows` they are only counted.
    """
    writes = len(out_rows) > 0
    at, end = starts[place], starts[place + 1]
    is_common = absent[place] == common[place]
    n = 0
    for step in range(end - at if is_common else n_rows):
        row = np.int64(rows[at]) if is_common else step
        code = absent[place]
        if at < end and rows[at] == row:
            code = codes[at]
            at += 1
        if code != common[place]:
            if writes:
                out_rows[n] = row
                out_codes[n] = code
            n += 1
    return n


@kernel
def turn_cells(column_starts, column_rows, column_codes, first_block, at, cells):
    """Write the cells of each row, place after place; `at` is where those of each row go on."""
    for place in range(len(column_starts) - 1):
        base = (first_block + place // BLOCK) * 256 * BLOCK + place % BLOCK
        for i in range(column_starts[place], column_starts[place + 1]):
            row = column_rows[i]
            cells[at[row]] = base + np.int64(column_codes[i]) * BLOCK
            at[row] += 1


def encode_sparse(
    features: SparseFeatures, bins: Bins, peers: Peers = ALONE, n_jobs: int | None = None
) -> BinnedMatrix:
    """The codes of sparse features: all of them, or for sparse places those that are not common."""
    codes = _codes_of(features.columns, features.values, bins, n_jobs)
    every = as_input(np.arange(features.n_columns), np.int32)
    absent = np.full(features.n_columns, features.absent, dtype=np.float32)
    absent_codes = _codes_of(every, as_input(absent, np.float32), bins, 1)
    placed = np.full(padded_width(len(bins.n_bins)), -1, dtype=np.int64)
    placed[: len(bins.n_bins)] = bins.order
    counts = _count_codes(features, codes, absent_codes, placed)
    layout = SparseLayout.of(*most_common(counts, peers), placed)
    del counts
    dense = bins.order if layout is None else layout.dense
    kept = _all_codes(features, codes, absent_codes, dense, n_jobs)
    if layout is None:
        return BinnedMatrix.of(kept, bins)
    others = _others_of(features, codes, absent_codes, layout, n_jobs)
    return BinnedMatrix.of(kept, bins, None, layout.order, others)


def _codes_of(
    columns: NDArray[np.int32], values: NDArray[np.float32], bins: Bins, n_jobs: int | None
) -> NDArray[np.uint8]:
    """The code of each value, which is one of the feature `columns` names."""
    codes = np.empty(len(values), dtype=np.uint8)
    edges = as_input(bins.edges, np.float32)

    def task(chunk: int) -> None:
        first = chunk * _CHUNK_VALUES
        last = min(first + _CHUNK_VALUES, len(values))
        encode_values(columns, values, edges, first, last, codes)

    run_chunks(task, -(-len(values) // _CHUNK_VALUES), n_jobs)
    for feature, categories in bins.categories.items():
        places = np.flatnonzero(columns == feature)
        found = CategoryCodes(categories)(values[places])
        codes[places] = np.where(found < 0, MISSING_CODE, found)
    return as_input(codes, np.uint8)


def _count_codes(
    features: SparseFeatures,
    codes: NDArray[np.uint8],
    absent_codes: NDArray[np.uint8],
    placed: NDArray[np.int64],
) -> NDArray[np.int64]:
    """As `common_codes` counts them: how many of some rows have each code at each place."""
    rows = rows_to_count(len(features))
    places = spans(features.starts[rows], np.diff(features.starts)[rows])
    numbers = features.columns[places].astype(np.int64) * 256 + codes[places]
    counts = np.bincount(numbers, minlength=256 * features.n_columns).reshape(-1, 256)
    everywhere = np.arange(features.n_columns)
    counts[everywhere, absent_codes] += len(rows) - counts.sum(axis=1)
    by_place = np.zeros((len(placed), 256), dtype=np.int64)
    by_place[placed >= 0] = counts[placed[placed >= 0]]
    by_place[placed < 0, 0] = len(rows)
    return by_place


def _all_codes(
    features: SparseFeatures,
    codes: NDArray[np.uint8],
    absent_codes: NDArray[np.uint8],
    dense: NDArray[np.int64],
    n_jobs: int | None,
) -> NDArray[np.uint8]:
    """All codes of some features, in whole blocks."""
    n_rows, width = len(features), padded_width(len(dense))
    place_of = np.full(features.n_columns, -1, dtype=np.int64)
    place_of[dense] = np.arange(len(dense))
    absent = np.zeros(width, dtype=np.uint8)
    absent[: len(dense)] = absent_codes[dense]
    place_of, absent = as_input(place_of, np.int64), as_input(absent, np.uint8)
    out = np.empty((n_rows, width), dtype=np.uint8)

    def task(chunk: int) -> None:
        first, last = chunk * _CHUNK_ROWS, min((chunk + 1) * _CHUNK_ROWS, n_rows)
        write_all_codes(
            features.starts, features.columns, codes, place_of, absent, first, last, out
        )

    if len(dense):
        run_chunks(task, -(-n_rows // _CHUNK_ROWS), n_jobs)
    return out


def _others_of(
    features: SparseFeatures,
    codes: NDArray[np.uint8],
    absent_codes: NDArray[np.uint8],
    layout: SparseLayout,
    n_jobs: int | None,
) -> OtherCodes:
    """The codes of sparse places that are not common, by place and by row."""
    ends, rows, column_codes = _columns_of_others(features, codes, absent_codes, layout, n_jobs)
    first_block = layout.width // BLOCK
    starts = offsets_of(np.bincount(rows, minlength=len(features)))
    cells = np.empty(len(rows), dtype=np.uint32)
    turn_cells(ends, rows, column_codes, first_block, starts[:-1].copy(), cells)
    return make_others(first_block, starts, cells, ends, rows, column_codes, layout.common)


def _columns_of_others(
    features: SparseFeatures,
    codes: NDArray[np.uint8],
    absent_codes: NDArray[np.uint8],
    layout: SparseLayout,
    n_jobs: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """Where the others of each place begin, and the end; their rows and codes."""
    n_places = len(layout.sparse)
    stored, turned_rows, turned_codes = _turned(features, codes, layout.sparse)
    by_place = (
        stored, turned_rows, turned_codes, as_input(layout.common, np.int64),
        as_input(absent_codes[layout.sparse], np.uint8), len(features),
    )  # fmt: skip
    none = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8)
    ends = np.zeros(padded_width(n_places) + 1, dtype=np.int64)

    def count(place: int) -> None:
        ends[place + 1] = find_others(*by_place, place, *none)

    def write(place: int) -> None:
        part = slice(ends[place], ends[place + 1])
        find_others(*by_place, place, rows[part], column_codes[part])

    run_chunks(count, n_places, n_jobs)
    np.cumsum(ends, out=ends)
    rows = np.empty(ends[-1], dtype=np.int32)
    column_codes = np.empty(ends[-1], dtype=np.uint8)
    run_chunks(write, n_places, n_jobs)
    return ends, rows, column_codes


def _turned(
    features: SparseFeatures, codes: NDArray[np.uint8], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """What is stored of some features: where each begins, rows and codes."""
    place_of = np.full(features.n_columns, -1, dtype=np.int64)
    place_of[chosen] = np.arange(len(chosen))
    sizes = np.bincount(features.columns, minlength=features.n_columns)
    starts = offsets_of(sizes[chosen])
    rows, turned = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=np.uint8)
    turn_codes(
        features.starts, features.columns, codes, as_input(place_of, np.int64),
        starts[:-1].copy(), rows, turned,
    )  # fmt: skip
    return as_input(starts, np.int64), as_input(rows, np.int32), as_input(turned, np.uint8)

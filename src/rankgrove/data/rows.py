"""Rows of a matrix whose height and width are not known ahead, grown and moved in place.

The memory never holds two copies of the matrix: it grows by `realloc`, which moves large blocks
without a copy where the system can, and rows are laid out anew inside it.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import kernel
from rankgrove._jit.elementary import copy
from rankgrove.errors import DataError

# A matrix of up to this many values is widened to what is needed and no more, as doing that
# again costs little; a larger one is widened by an eighth at least.
_SMALL = 1 << 24


class GrowingRows:
    """Features and labels of rows that arrive bit by bit.

    Attributes
    ----------
    matrix
        The features, flat: row after row of `width` values.
    labels
        One per row.
    width
        The columns of a row.
    """

    def __init__(self, name: str, width: int, absent: float) -> None:
        self.name = name
        self.width = width
        self.absent = np.float32(absent)
        self.matrix: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self.labels: NDArray[np.float32] = np.empty(0, dtype=np.float32)

    def fits(self, n_rows: int) -> bool:
        return n_rows <= len(self.labels)

    def reserve(self, n_rows: int, expected: int = 0) -> None:
        """Make room for `n_rows`, and ahead for `expected` in all or for an eighth more."""
        # The expectation is only that: it counts as too much when it is so by far.
        check_dense_memory(self.name, max(n_rows, expected // 2), self.width)
        most = physical_memory() // (4 * max(1, self.width))
        ahead = min(most, expected or n_rows + n_rows // 8)
        self._resize(max(n_rows, ahead), self.width)

    def widen(self, n_rows: int, width: int, shift: int, widest: int) -> None:
        """Give the rows `width` columns or more, up to `widest`, moved up by `shift`."""
        if n_rows * self.width > _SMALL:
            width = max(width, min(widest, self.width + self.width // 8))
        check_dense_memory(self.name, n_rows, width)
        if len(self.labels):
            self._resize(len(self.labels), width)
            widen_rows(self.matrix, n_rows, self.width, width, shift, self.absent)
        self.width = width

    def drop_matrix(self) -> None:
        """Keep labels only, and make room for no features from now on."""
        self.matrix, self.width = np.empty(0, dtype=np.float32), 0

    def compress(
        self, n_rows: int, base: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """What rows have that is not absent: indices from a base on, values, how many in each row.

        The matrix is let go.
        """
        matrix = self.matrix[: n_rows * self.width].reshape(n_rows, self.width)
        stored = matrix.view(np.uint32) != self.absent.view(np.uint32)
        columns = np.nonzero(stored)[1].astype(np.int32) + np.int32(base)
        compressed = columns, matrix[stored], np.count_nonzero(stored, axis=1)
        self.drop_matrix()
        return compressed

    def _resize(self, capacity: int, width: int) -> None:
        try:
            if len(self.labels) == 0:
                # Pages that are never written take no memory; resize would write zeros to them.
                self.matrix = np.empty(capacity * width, dtype=np.float32)
                self.labels = np.empty(capacity, dtype=np.float32)
            else:
                self.matrix.resize(capacity * width, refcheck=False)
                self.labels.resize(capacity, refcheck=False)
        except MemoryError:
            raise _too_large(self.name, capacity, width) from None

    def finish(self, n_rows: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The features, one row per document, and the labels, cut to size."""
        if width < self.width:
            narrow_rows(self.matrix, n_rows, self.width, width)
        self.matrix.resize((n_rows, width), refcheck=False)
        self.labels.resize(n_rows, refcheck=False)
        return self.matrix, self.labels


def check_dense_memory(name: str, n_rows: int, width: int) -> None:
    """Refuse a dense matrix that no memory could hold."""
    if 4 * n_rows * width > physical_memory():
        raise _too_large(name, n_rows, width)


def check_sparse_memory(name: str, n_rows: int, n_stored: int) -> None:
    """Refuse sparse rows that no memory could hold."""
    if 8 * n_stored > physical_memory():
        raise DataError(
            f"{name}: the features must fit into memory. Got {n_stored} values in {n_rows} rows, "
            f"{8e-9 * n_stored:.3g} GB, with {physical_memory() / 1e9:.3g} GB of memory. Read the "
            f"file in blocks, with 'rankgrove bin'."
        )


def _too_large(name: str, n_rows: int, width: int) -> DataError:
    return DataError(
        f"{name}: the features must fit into memory as a dense float32 matrix. Got "
        f"{n_rows} rows and {width} features, {4e-9 * n_rows * width:.3g} GB, with "
        f"{physical_memory() / 1e9:.3g} GB of memory. Check the largest feature index, or "
        f"read the file in blocks, with 'rankgrove bin'."
    )


def physical_memory() -> int:
    """The bytes of memory this process may use; a terabyte where the system does not tell."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 40
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            return min(total, int(file.read()))
    except (OSError, ValueError):
        return total


@kernel
def widen_rows(matrix, n_rows, old_width, new_width, shift, absent):
    """Give the rows of a flat matrix a larger width, in place, columns moved up by `shift`."""
    for row in range(n_rows - 1, -1, -1):
        for column in range(new_width - 1, -1, -1):
            old = column - shift
            value = absent
            if 0 <= old < old_width:
                value = matrix[row * old_width + old]
            matrix[row * new_width + column] = value


@kernel
def narrow_rows(matrix, n_rows, old_width, new_width):
    """Cut the rows of a flat matrix to a smaller width, in place."""
    for row in range(n_rows):
        for column in range(new_width):
            matrix[row * new_width + column] = matrix[row * old_width + column]


@kernel
def permute_rows(matrix, order):
    """Make row `i` the former row `order[i]`, in place."""
    done = np.zeros(len(matrix), dtype=np.bool_)
    kept = np.empty(matrix.shape[1], dtype=matrix.dtype)
    for first in range(len(matrix)):
        if done[first] or order[first] == first:
            continue
        copy(matrix[first], kept)
        row = first
        while order[row] != first:
            copy(matrix[order[row]], matrix[row])
            done[row] = True
            row = order[row]
        copy(kept, matrix[row])
        done[row] = True

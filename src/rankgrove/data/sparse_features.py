"""Sparse features: rows of which only the values are stored that differ from what is absent.

They stand in `Dataset.features` where data come sparse, wide and with few values, and everything
takes them: what has no use for the form sees the dense matrix, by `numpy.asarray`.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel
from rankgrove._jit.ranking import first_place
from rankgrove.data.queries import offsets_of, spans
from rankgrove.data.rows import check_dense_memory

# Data stay sparse from so many features on, if at most this share of their values is stored:
# a stored value takes two words, and an absent one takes time wherever features are few.
LEAST_FEATURES = 64
LARGEST_SHARE = 0.2

# The values of a dense block of rows.
_BLOCK_VALUES = 1 << 20


def stays_sparse(n_rows: int, n_features: int, n_stored: int) -> bool:
    """Whether data that come sparse are kept so.

    >>> stays_sparse(10, 100, 200), stays_sparse(10, 100, 201), stays_sparse(10, 63, 1)
    (True, False, False)
    """
    return n_features >= LEAST_FEATURES and n_stored <= LARGEST_SHARE * n_rows * n_features


@kernel
def spread_rows(starts, columns, values, first, last, absent, out):
    """Write all values of rows first to last, absent ones too."""
    for row in range(first, last):
        into = out[row - first]
        for column in range(len(into)):
            into[column] = absent
        for at in range(starts[row], starts[row + 1]):
            into[columns[at]] = values[at]


@kernel
def find_column(starts, columns, values, column, out):
    """Write the values of a column to the rows that have one."""
    for row in range(len(starts) - 1):
        end = starts[row + 1]
        at = first_place(columns, starts[row], end, column)
        if at < end and columns[at] == column:
            out[row] = values[at]


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A matrix of float32 of which a row has only its values that differ from one. Immutable.

    It is indexed as an array: rows by slices, numbers or masks give sparse features, one row or
    one column an array. `numpy.asarray` gives all of it, which takes the memory of a dense matrix.

    Attributes
    ----------
    starts
        int64; the values of row r are those from `starts[r]` to before `starts[r + 1]`.
    columns, values
        int32, rising within a row, and float32. No value has the bits of `absent`.
    n_columns
        The columns of the matrix.
    absent
        What is not stored: 0 or NaN.

    >>> two = SparseFeatures.of([0, 1, 3], [2, 0, 1], [0.5, 7, 0], 3)
    >>> two[1:], two[:, 2].tolist(), np.asarray(two).tolist()
    (<SparseFeatures: 1 rows of 3, 1 stored>, [0.5, 0.0], [[0.0, 0.0, 0.5], [7.0, 0.0, 0.0]])
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    n_columns: int
    absent: float = 0.0

    ndim: ClassVar[int] = 2
    dtype: ClassVar[np.dtype[np.float32]] = np.dtype(np.float32)

    def __post_init__(self) -> None:
        for name, dtype in (("starts", np.int64), ("columns", np.int32), ("values", np.float32)):
            object.__setattr__(self, name, as_input(getattr(self, name), dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        # Out of a pickle or a deep copy, arrays come writable: they are locked again.
        return type(self), (self.starts, self.columns, self.values, self.n_columns, self.absent)

    @classmethod
    def of(
        cls, starts: Any, columns: Any, values: Any, n_columns: int, absent: float = 0.0
    ) -> SparseFeatures:
        """The matrix of values of which some may be what is absent."""
        values = np.asarray(values, dtype=np.float32)
        stored = values.view(np.uint32) != np.float32(absent).view(np.uint32)
        if not stored.all():
            starts = offsets_of(stored)[np.asarray(starts)]
            columns, values = np.asarray(columns)[stored], values[stored]
        return cls(starts, columns, values, n_columns, absent)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_columns

    @property
    def size(self) -> int:
        return len(self) * self.n_columns

    @property
    def n_stored(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.starts.nbytes + self.columns.nbytes + self.values.nbytes

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        check_dense_memory("sparse features", *self.shape)
        out = np.empty(self.shape, dtype=np.float32)
        self.spread(0, len(self), out)
        return out if dtype is None else out.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rows, columns = key
            if isinstance(rows, (int, np.integer)):
                return self[rows][columns]
            every = isinstance(rows, slice) and rows == slice(None)
            some = self if every else self[rows]
            if isinstance(columns, (int, np.integer)):
                return some._column(range(self.n_columns)[columns])
            return np.asarray(some)[:, columns]
        if isinstance(key, (int, np.integer)):
            row = range(len(self))[key]
            return np.asarray(self[row : row + 1])[0]
        if isinstance(key, slice):
            first, last, step = key.indices(len(self))
            if step == 1:
                return self._stretch(first, max(first, last))
        return self._chosen(np.arange(len(self))[key])

    def _stretch(self, first: int, last: int) -> SparseFeatures:
        """Rows that follow each other: they share memory with all."""
        starts = self.starts[first : last + 1]
        part = slice(starts[0], starts[-1])
        return self._with(starts - starts[0], self.columns[part], self.values[part])

    def _chosen(self, rows: NDArray[np.int64]) -> SparseFeatures:
        sizes = np.diff(self.starts)[rows]
        places = spans(self.starts[rows], sizes)
        return self._with(offsets_of(sizes), self.columns[places], self.values[places])

    def _with(self, starts: Any, columns: Any, values: Any) -> SparseFeatures:
        return SparseFeatures(starts, columns, values, self.n_columns, self.absent)

    def _column(self, column: int) -> NDArray[np.float32]:
        out = np.full(len(self), self.absent, dtype=np.float32)
        find_column(self.starts, self.columns, self.values, column, out)
        return out

    def spread(self, first: int, last: int, out: NDArray[np.float32]) -> None:
        """Write all values of rows first to last into a dense matrix."""
        absent = np.float32(self.absent)
        spread_rows(self.starts, self.columns, self.values, first, last, absent, out)

    def with_columns(self, columns: Mapping[int, NDArray[np.float32]]) -> SparseFeatures:
        """The same with other values in some columns."""
        others = ~np.isin(self.columns, list(columns))
        rows = np.repeat(np.arange(len(self)), np.diff(self.starts))[others]
        numbers = np.arange(len(self))
        all_rows = np.concatenate([rows, *(numbers for _ in columns)])
        places = [np.full(len(self), column) for column in columns]
        all_columns = np.concatenate([self.columns[others], *places])
        all_values = np.concatenate([self.values[others], *columns.values()])
        order = np.lexsort((all_columns, all_rows))
        starts = offsets_of(np.bincount(all_rows, minlength=len(self)))
        return SparseFeatures.of(
            starts, all_columns[order], all_values[order], self.n_columns, self.absent
        )

    def __repr__(self) -> str:
        return f"<SparseFeatures: {len(self)} rows of {self.n_columns}, {self.n_stored} stored>"


Features = NDArray[np.float32] | SparseFeatures


def with_columns(features: Features, columns: Mapping[int, NDArray[np.float32]]) -> Features:
    """A copy of features, dense or sparse, with other values in some columns."""
    if isinstance(features, SparseFeatures):
        return features.with_columns(columns)
    out = features.copy()
    for column, values in columns.items():
        out[:, column] = values
    return out


def dense_blocks(features: Features) -> Iterator[NDArray[np.float32]]:
    """Dense blocks of rows, one after the other: all at once of a dense matrix."""
    if not isinstance(features, SparseFeatures):
        yield features
        return
    step = max(1, _BLOCK_VALUES // max(1, features.n_columns))
    for first in range(0, len(features), step):
        yield np.asarray(features[first : first + step])

"""Data frames of one query: few rows of plain numbers, read without Narwhals.

Narwhals takes 0.1 ms for each column, however few its rows: 37 ms for a pandas frame of 136
features that the trees then score in 0.2 ms. What is not plain numbers is left to it, and so is
every error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of more rows the matrix is better written tile by tile.
_MOST_ROWS = 1024

# Names of types, in polars and Arrow, whose columns NumPy gets as numbers, missing ones as NaN.
_INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_NUMBERS = _INTEGERS | {"float", "float32", "float64", "double"}


def features_of_small_frame(frame: Any, names: Sequence[str]) -> NDArray[np.float32] | None:
    """The columns of these names, in this order, or None where it takes more than to copy them."""
    class_ = type(frame)
    read = _READERS.get((class_.__module__.partition(".")[0], class_.__name__))
    if read is None or not 0 < len(frame) <= _MOST_ROWS:
        return None
    try:
        with np.errstate(over="raise"):
            return read(frame, list(names))
    except FloatingPointError:
        return None


def _read_pandas(frame: Any, names: list[str]) -> NDArray[np.float32] | None:
    columns = frame.columns.tolist()
    if columns != names:
        if len(set(columns)) != len(columns) or not set(names).issubset(columns):
            return None
        frame = frame[names]
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in frame.dtypes):
        return None
    return np.ascontiguousarray(frame.to_numpy(dtype=np.float32))


def _read_polars(frame: Any, names: list[str]) -> NDArray[np.float32] | None:
    types = dict(zip(frame.columns, frame.dtypes, strict=True))
    if not all(str(types.get(name)).lower() in _NUMBERS for name in names):
        return None
    return _stack([frame.get_column(name).to_numpy() for name in names], len(frame))


def _read_arrow(table: Any, names: list[str]) -> NDArray[np.float32] | None:
    types = dict(zip(table.schema.names, map(str, table.schema.types), strict=True))
    if len(types) != table.num_columns or not all(types.get(name) in _NUMBERS for name in names):
        return None
    return _stack([table.column(name).to_numpy() for name in names], len(table))


def _stack(columns: Sequence[NDArray[Any]], n_rows: int) -> NDArray[np.float32]:
    out = np.empty((n_rows, len(columns)), dtype=np.float32)
    for number, values in enumerate(columns):
        out[:, number] = values
    return out


_READERS: dict[tuple[str, str], Callable[[Any, list[str]], NDArray[np.float32] | None]] = {
    ("pandas", "DataFrame"): _read_pandas,
    ("polars", "DataFrame"): _read_polars,
    ("pyarrow", "Table"): _read_arrow,
}

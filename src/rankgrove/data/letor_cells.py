"""Kernels of LETOR text that names few features: what it names becomes cells, not a matrix."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import by_address, kernel, reinterpret
from rankgrove._jit.ranking import first_place
from rankgrove.data.letor_numbers import HARD, MALFORMED, ends_token, parse_feature, skip_blanks
from rankgrove.data.letor_outcome import (
    BAD_FEATURE,
    BAD_VALUE,
    END_INDEX,
    INCOMPLETE,
    INDEX_RANGE,
    INDEX_TWICE,
    INDEX_ZERO,
    OK,
    UNSET,
    VALUE_RANGE,
    ZERO_AT,
    note_hard,
)

# A number that is left to Python is found again, among cells, by its row and its index.
TO_ROW = 1 << 32


@by_address
class Cells(NamedTuple):
    """What a chunk's rows name, where they do not go into a matrix.

    Attributes
    ----------
    columns, values
        The indices, as they stand in the text, and numbers; rising within a row. What is equal to
        an absent value is left out.
    ends
        Where the rows of the chunk begin, and the last one ends.
    absent_bits
        Those of an absent value.
    """

    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    ends: NDArray[np.int64]
    absent_bits: int

    @classmethod
    def make(cls, n_bytes: int, n_rows: int, absent: float) -> Cells:
        """Room for all that so many bytes can name: an index, a colon, a number and a blank."""
        n, bits = n_bytes // 4 + 2, np.float32(absent).view(np.int32)
        columns, values = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32)
        return cls(columns, values, np.zeros(n_rows + 1, dtype=np.int64), int(bits))


@kernel
def put_cell(cells, at, index, value):
    """Write a cell, unless it is equal to an absent value: the end of the cells."""
    cells.columns[at] = index
    cells.values[at] = value
    return at + (reinterpret(cells.values, np.int32)[at] != cells.absent_bits)


@kernel
def _sort_cells(columns, values, first, last):
    """Put cells into the order of their columns (Shell's sort, by Knuth's steps)."""
    step = 1
    while step < (last - first) // 3:
        step = 3 * step + 1
    while step > 0:
        for i in range(first + step, last):
            column, value = columns[i], values[i]
            k = i
            while k >= first + step and columns[k - step] > column:
                columns[k] = columns[k - step]
                values[k] = values[k - step]
                k -= step
            columns[k] = column
            values[k] = value
        step //= 3


@kernel
def _find_repeat(text, p, columns, bits, first, last):
    """The place of the first feature from `p` on whose index has come before; there is one.

    Its indices are sorted. What has come is marked.
    """
    while True:
        p = skip_blanks(text, p)
        index, _, end, _, _ = parse_feature(text, p)
        place = first_place(columns, first, last, index)
        if bits[place] == UNSET:
            return p
        bits[place] = UNSET
        p = end


@kernel
def parse_any_cells(text, p, row, base, lowest, highest, cells, hards, outcome):
    """As `_parse_any_features`, into cells, for a row by its number in the chunk."""
    columns, values, bits = cells.columns, cells.values, reinterpret(cells.values, np.int32)
    features = p
    first = cells.ends[row]
    last = first
    code = OK
    while code == OK:
        p = skip_blanks(text, p)
        if ends_token(text[p]):
            break
        index, at_value, end, value, kind = parse_feature(text, p)
        if index < 0:
            code = BAD_FEATURE
        elif index < lowest:
            code = INDEX_ZERO
        elif index > highest:
            code = INDEX_RANGE
        if code == OK:
            if index < base:
                outcome[INCOMPLETE] = 1
                if outcome[ZERO_AT] < 0:
                    outcome[ZERO_AT] = np.int64(p)
            if kind < HARD:
                code = BAD_VALUE if kind == MALFORMED else VALUE_RANGE
                end = at_value
            elif kind == HARD:
                note_hard(at_value, row * TO_ROW + index, hards, outcome)
            columns[last] = index
            values[last] = value
            last += 1
            outcome[END_INDEX] = max(outcome[END_INDEX], index + 1)
            p = end
    _sort_cells(columns, values, first, last)
    for i in range(first + 1, last):
        if columns[i] == columns[i - 1]:
            # It comes before any other error: that was the end of the row.
            return _find_repeat(text, features, columns, bits, first, last), INDEX_TWICE
    end = first
    for i in range(first, last):
        end = put_cell(cells, end, columns[i], values[i])
    cells.ends[row + 1] = end
    return p, code

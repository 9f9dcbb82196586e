"""Kernels that format rows as LETOR text, each number in the fewest digits that read back."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit import kernel
from rankgrove.data.letor_numbers import PLAIN, POWERS, TO_POWER, decimal_to_float32

NEWLINE, BLANK, HASH, MINUS, DOT, ZERO, COLON, LETTER_E = 10, 32, 35, 45, 46, 48, 58, 101

# The bytes of the longest number, such as -0.0000123456789.
NUMBER_BYTES = 16


@kernel
def _reads_back(mantissa, exponent, value):
    """Whether the reader takes `mantissa * 10**exponent` for a positive float32, without doubt."""
    number, kind = decimal_to_float32(np.uint64(mantissa), exponent)
    return kind == PLAIN and number == value


@kernel
def _shortest(value):
    """The (mantissa, exponent) of the fewest digits that read back as a positive float32.

    Tries one more decimal at a time, from the first that can matter. Nine significant digits
    always read back (a float32 has 24 bits, and 10**8 > 2**24).
    """
    exact = np.float64(value)
    exponent = 0
    if 0 < exact < 1e-5 or exact >= 1e9:
        exponent = np.int64(math.floor(math.log10(exact)))
    mantissa = np.int64(np.rint(exact * POWERS[TO_POWER - exponent]))
    while mantissa < 100_000_000 and not _reads_back(mantissa, exponent, value):
        exponent -= 1
        mantissa = np.int64(np.rint(exact * POWERS[TO_POWER - exponent]))
    return mantissa, exponent


@kernel
def _count_digits(number):
    n_digits = 1
    while number >= 10:
        number //= 10
        n_digits += 1
    return n_digits


@kernel
def _put_digits(number, n_digits, out, n):
    """Write `number` with that many digits; the new length."""
    for i in range(n + n_digits - 1, n - 1, -1):
        out[i] = ZERO + number % 10
        number //= 10
    return n + n_digits


@kernel
def _put_rare(value, out, n):
    """Write a float32 that is infinite, missing, very small or very large; the new length."""
    if value != value:
        out[n], out[n + 1], out[n + 2] = 110, 97, 110
        return n + 3
    if value < 0:
        out[n] = MINUS
        n += 1
    if abs(value) == np.inf:
        out[n], out[n + 1], out[n + 2] = 105, 110, 102
        return n + 3
    mantissa, power = _shortest(abs(value))
    while mantissa % 10 == 0:
        mantissa //= 10
        power += 1
    decimals = _count_digits(mantissa) - 1
    power += decimals
    scale = np.int64(POWERS[TO_POWER + decimals])
    n = _put_digits(mantissa // scale, 1, out, n)
    if decimals:
        out[n] = DOT
        n = _put_digits(mantissa % scale, decimals, out, n + 1)
    out[n] = LETTER_E
    n += 1
    if power < 0:
        out[n] = MINUS
        n += 1
    return _put_digits(abs(power), _count_digits(abs(power)), out, n)


@kernel
def _put_values(values, indexed, base, absent_is_nan, telling, out, n):
    """Write the features of a row, each with its index, or bare numbers; the new length.

    Features that are absent are left out, but for the last one, and for index 0, of a `telling`
    row. This is where the time goes. It is one function because Numba counts references whenever an
    array is passed on.
    """
    width = len(values)
    for column in range(width):
        value = values[column]
        negative = math.copysign(1.0, value) < 0
        if indexed:
            if absent_is_nan:
                absent = value != value
            else:
                absent = value == 0 and not negative
            if absent and not (telling and (column == width - 1 or column + base == 0)):
                continue
            out[n] = BLANK
            index = base + column
            end = n + 1 + _count_digits(index)
            for i in range(end - 1, n, -1):
                out[i] = ZERO + index % 10
                index //= 10
            out[end] = COLON
            n = end + 1
        size = abs(value)
        if size == 0 or 1e-5 <= size < 1e9:
            if negative:
                out[n] = MINUS
                n += 1
            mantissa, exponent = _shortest(size)
            last = n + max(_count_digits(mantissa), 1 - exponent) - 1
            if exponent:
                point = last + 1 + exponent
                last += 1
                for i in range(last, point, -1):
                    out[i] = ZERO + mantissa % 10
                    mantissa //= 10
                out[point] = DOT
                end = point
            else:
                end = last + 1
            for i in range(end - 1, n - 1, -1):
                out[i] = ZERO + mantissa % 10
                mantissa //= 10
            n = last + 1
        else:
            n = _put_rare(value, out, n)
    return n


@kernel
def _put_bytes(source, start, end, out, n):
    for i in range(start, end):
        out[n + i - start] = source[i]
    return n + end - start


@kernel
def format_rows(
    features, labels, first, last, offsets, query, id_text, id_bounds, note_text, note_bounds,
    base, absent_is_nan, out,
):  # fmt: skip
    """Write the rows from `first` to before `last`; the bytes written.

    Parameters
    ----------
    features
        IN: of these rows.
    labels, offsets
        IN: as in a Dataset. `query` is the number of the query of row `first`.
    id_text, id_bounds
        IN: the bytes of all query ids in one, and where each begins, and the end.
    note_text, note_bounds
        IN: the same for the comments of these rows; no bounds: no comments.
    base, absent_is_nan
        IN: the index of the first feature; whether NaN is left out, or 0.0.
    out
        OUT: large enough for the longest text that these rows can have.
    """
    n = 0
    for row in range(first, last):
        while offsets[query + 1] <= row:
            query += 1
        n = _put_values(labels[row : row + 1], False, base, False, False, out, n)
        out[n], out[n + 1], out[n + 2], out[n + 3], out[n + 4] = BLANK, 113, 105, 100, COLON
        n = _put_bytes(id_text, id_bounds[query], id_bounds[query + 1], out, n + 5)
        # The first row tells a reader the width, and whether indices start at 0.
        n = _put_values(features[row - first], True, base, absent_is_nan, row == 0, out, n)
        if len(note_bounds) and note_bounds[row - first] < note_bounds[row - first + 1]:
            out[n], out[n + 1], out[n + 2] = BLANK, HASH, BLANK
            start, end = note_bounds[row - first], note_bounds[row - first + 1]
            n = _put_bytes(note_text, start, end, out, n + 3)
        out[n] = NEWLINE
        n += 1
    return n

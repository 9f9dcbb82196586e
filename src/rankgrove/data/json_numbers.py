"""The numbers of a request in JSON, read apart from the rest of it.

A body of 100 documents has some ten thousand numbers and little else. As Python objects they take
most of the time of a request, so a kernel reads them into an array, and what is left of the body,
its outline, is short. Only what is regular is read so: lists of numbers of one length, or objects
of numbers with the same names in the same order and spacing. Of everything else `read_apart` says
nothing: it is left to a reader of all JSON, which also says what is wrong.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel
from rankgrove.data.letor_numbers import (
    BLANK,
    COLON,
    DOT,
    LETTER_E,
    MALFORMED,
    MINUS,
    MISSING,
    NEWLINE,
    ONE,
    PLAIN,
    RETURN,
    TAB,
    ZERO,
    decimal_to_float32,
    parse_digits,
    parse_power,
)

QUOTE, COMMA, BACKSLASH = 34, 44, 92
# A closing bracket is the opening one and two.
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125
LETTER_L, LETTER_N, LETTER_U = 108, 110, 117

# What a place is where something else stands than what is looked for.
NOWHERE = np.uint64(0)


class Apart(NamedTuple):
    """Numbers and what stood around them.

    Attributes
    ----------
    numbers
        Those of each list or object, one row each. null is NaN.
    outline
        The text, with these lists and objects empty.
    first
        The first of them, with zeros for its numbers.
    end
        Where the text ended.
    """

    numbers: NDArray[np.float32]
    outline: bytes
    first: bytes
    end: int


def read_apart(text: bytes | memoryview, start: int, depth: int, most_names: int) -> Apart | None:
    """The numbers of the lists, or objects, that stand so deep in a value; None if irregular.

    Parameters
    ----------
    text
        JSON.
    start
        Where the value starts, with a bracket.
    depth
        Of the lists or objects, the value itself being at 1.
    most_names
        How many numbers an object may have.

    Examples
    --------
    >>> read_apart(b'[{"a": 1, "b": 2.5}, {"a": null, "b": 4e1}]', 0, 2, 2)
    Apart(numbers=array([[ 1. ,  2.5],
           [ nan, 40. ]], dtype=float32), outline=b'[{}, {}]', first=b'{"a": 0, "b": 0}', end=43)
    """
    codes = as_input(np.frombuffer(text, dtype=np.uint8), np.uint8)
    # Every number is followed by a comma or a bracket.
    numbers = np.empty(len(codes) // 2, dtype=np.float32)
    outline = np.empty(len(codes), dtype=np.uint8)
    bounds = np.empty((most_names + 1, 2), dtype=np.int64)
    end, n_outline, n_rows, width = separate(codes, start, depth, numbers, outline, bounds)
    if n_rows == 0 or width == 0:
        return None
    matrix = numbers[: n_rows * width].reshape(n_rows, width)
    return Apart(matrix, outline[:n_outline].tobytes(), _with_zeros(text, bounds, width), end)


def _with_zeros(text: bytes | memoryview, bounds: NDArray[np.int64], width: int) -> bytes:
    """The first object with zeros for its numbers; nothing if it was a list."""
    if bounds[0, 0] < 0:
        return b""
    return b"0".join(bytes(text[first:last]) for first, last in bounds[: width + 1].tolist())


@kernel
def skip_space(text, p):
    while text[p] == BLANK or text[p] == NEWLINE or text[p] == RETURN or text[p] == TAB:
        p += ONE
    return p


@kernel
def after_string(text, p):
    """The place behind a string that starts at `p`, or NOWHERE. What is in it is not looked at."""
    size = np.uint64(len(text))
    if text[p] != QUOTE:
        return NOWHERE
    p += ONE
    while p < size and text[p] != QUOTE:
        p += ONE + np.uint64(text[p] == BACKSLASH)
    return p + ONE if p < size else NOWHERE


@kernel
def parse_json_number(text, p):
    """A number as JSON has it, or null: (end, float32, kind).

    The end is the first byte that cannot belong to it. It is the float32 nearest to the nearest
    float64; below PLAIN it is not known here, or is no number.
    """
    if text[p] == LETTER_N:
        for letter in (LETTER_U, LETTER_L, LETTER_L):
            p += ONE
            if text[p] != letter:
                return p, np.float32(0.0), MALFORMED
        return p + ONE, np.float32(np.nan), MISSING
    negative = text[p] == MINUS
    if negative:
        p += ONE
    first = p
    mantissa = np.uint64(0)
    digit = np.uint64(text[p]) - np.uint64(ZERO)
    while digit <= np.uint64(9):
        mantissa = mantissa * np.uint64(10) + digit
        p += ONE
        digit = np.uint64(text[p]) - np.uint64(ZERO)
    n_digits = np.int64(p - first)
    # A zero that others follow is no number.
    if n_digits == 0 or (n_digits > 1 and text[first] == ZERO):
        return p, np.float32(0.0), MALFORMED
    exponent = 0
    if text[p] != DOT and (text[p] | 32) != LETTER_E:
        # A whole number, of which zero has no sign.
        negative = negative and mantissa != np.uint64(0)
    elif text[p] == DOT:
        p += ONE
        point = p
        digit = np.uint64(text[p]) - np.uint64(ZERO)
        while digit <= np.uint64(9):
            mantissa = mantissa * np.uint64(10) + digit
            p += ONE
            digit = np.uint64(text[p]) - np.uint64(ZERO)
        exponent = np.int64(point) - np.int64(p)
        if exponent == 0:
            return p, np.float32(0.0), MALFORMED
    if n_digits - exponent > 18:
        # The mantissa has run over, unless it starts with zeros.
        p, mantissa, exponent, _ = parse_digits(text, first)
    if (text[p] | 32) == LETTER_E:
        p, power, has_digits = parse_power(text, p + ONE)
        exponent += power
        if not has_digits:
            return p, np.float32(0.0), MALFORMED
    value, kind = decimal_to_float32(mantissa, exponent)
    return p, -value if negative else value, kind


@kernel
def _read_container(text, p, numbers, at, bounds):
    """A list or an object of numbers, into `numbers[at:]`: (place behind it or NOWHERE, end).

    There must be one at least. Of an object, `bounds` gets the places between which text stands
    that is no number.
    """
    closing = np.int64(text[p]) + 2
    is_object = closing == CLOSE_OBJECT
    if is_object:
        bounds[0, 0] = np.int64(p)
    n_names = 0
    p = skip_space(text, p + ONE)
    while True:
        if is_object:
            p = after_string(text, p)
            if p == NOWHERE or n_names + 1 == len(bounds):
                return NOWHERE, at
            p = skip_space(text, p)
            if text[p] != COLON:
                return NOWHERE, at
            p = skip_space(text, p + ONE)
            bounds[n_names, 1] = np.int64(p)
        p, value, kind = parse_json_number(text, p)
        if kind < PLAIN or at == len(numbers):
            return NOWHERE, at
        numbers[at] = value
        at += 1
        if is_object:
            n_names += 1
            bounds[n_names, 0] = np.int64(p)
        p = skip_space(text, p)
        if text[p] == closing:
            if is_object:
                bounds[n_names, 1] = np.int64(p + ONE)
            return p + ONE, at
        if text[p] != COMMA:
            return NOWHERE, at
        p = skip_space(text, p + ONE)


@kernel
def _read_like_first(text, p, numbers, at, bounds, width):
    """An object with the text of the first but for its numbers: as `_read_container`."""
    size = np.uint64(len(text))
    if at + width > len(numbers):
        return NOWHERE, at
    for number in range(width + 1):
        q = np.uint64(bounds[number, 0])
        last = np.uint64(bounds[number, 1])
        if p + (last - q) > size:
            return NOWHERE, at
        while q < last:
            if text[p] != text[q]:
                return NOWHERE, at
            p += ONE
            q += ONE
        if number < width:
            p, value, kind = parse_json_number(text, p)
            if kind < PLAIN:
                return NOWHERE, at
            numbers[at] = value
            at += 1
    return p, at


@kernel
def separate(text, start, depth, numbers, outline, bounds):
    """Read the lists or objects of numbers at a depth, and copy what stands around them.

    Gives (end of the value, length of the outline, lists or objects, numbers in each): the third
    is 0 where one of them has other things in it than numbers and null, or is not like the first.
    The outline is copied as it is: it is for others to say whether it is JSON. `bounds[0, 0]` is
    negative if the first is a list.

    No number, and no space, goes on behind a bracket: where text ends with one, no loop that reads
    them leaves it.
    """
    size = np.uint64(len(text))
    while size > NOWHERE and text[size - ONE] <= BLANK:
        size -= ONE
    bounds[0, 0] = -1
    irregular = (0, 0, 0, 0)
    if size == NOWHERE or (text[size - ONE] != CLOSE_OBJECT and text[size - ONE] != CLOSE_LIST):
        return irregular
    p = np.uint64(start)
    first = p
    level = 0
    length = 0
    at = 0
    n_rows = 0
    width = 0
    while p < size:
        byte = text[p]
        last = p + ONE
        if byte == QUOTE:
            last = after_string(text, p)
            if last == NOWHERE:
                return irregular
        elif (byte == OPEN_LIST) | (byte == OPEN_OBJECT):
            level += 1
            if level == depth:
                row, opened = at, p
                if n_rows and byte != text[first]:
                    return irregular
                if n_rows and byte == OPEN_OBJECT:
                    p, at = _read_like_first(text, p, numbers, at, bounds, width)
                else:
                    p, at = _read_container(text, p, numbers, at, bounds)
                if n_rows == 0:
                    first = opened
                    width = at - row
                if p == NOWHERE or at - row != width:
                    return irregular
                n_rows += 1
                outline[length] = byte
                length += 1
                # Its closing bracket is copied as any other.
                last = p
                p -= ONE
                level -= 1
        elif (byte == CLOSE_LIST) | (byte == CLOSE_OBJECT):
            level -= 1
        while p < last:
            outline[length] = text[p]
            length += 1
            p += ONE
        if level == 0:
            return np.int64(p), length, n_rows, width
    return irregular

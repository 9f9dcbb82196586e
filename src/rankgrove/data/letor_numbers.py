"""Kernels of the numbers of LETOR text: decimal digits to the nearest float32.

Every loop stops at the end of a token at the latest, and a token ends with a newline at the
latest, so no position is checked against the end of the text. Positions are unsigned: Numba then
leaves out the test for a negative index.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel

ONE = np.uint64(1)

TAB, NEWLINE, RETURN, BLANK, HASH = 9, 10, 13, 32, 35
PLUS, MINUS, DOT, COLON, LETTER_E = 43, 45, 46, 58, 101
# byte ^ ZERO is the digit, and 10 or more for any byte that is not a digit.
ZERO = 48

# What a number can be: below PLAIN, its value is not known here, or it has none.
PLAIN, MISSING, INFINITE, HARD, MALFORMED, TOO_LARGE = 0, 1, 2, -1, -2, -3

# POWERS[TO_POWER + k] is 10**k, correctly rounded, for k from -80 to 80.
POWERS = np.array([float(f"1e{power}") for power in range(-80, 81)])
TO_POWER = 80


@kernel
def ends_token(byte):
    # (To look into a tuple takes longer to compile.)
    return (byte == BLANK) | (byte == NEWLINE) | (byte == TAB) | (byte == RETURN) | (byte == HASH)


@kernel
def skip_blanks(text, p):
    while text[p] == BLANK or text[p] == TAB:
        p += ONE
    return p


@kernel
def decimal_to_float32(mantissa, exponent):
    """`mantissa * 10**exponent` as (float32, kind): the float32 nearest to the nearest float64.

    A mantissa below 2**53 and a power up to 10**22 are exact in float64, so one multiplication
    or division rounds correctly (Clinger 1990, "How to read floating point numbers
    accurately"). Otherwise the product is within 2**-50 of the true value: where both ends of
    that interval round to one float32, so does the nearest float64. Where not, the number is
    HARD and left to the caller.
    """
    if mantissa == np.uint64(0) or exponent < -80:
        return np.float32(0.0), PLAIN
    if exponent > 40:
        return np.float32(np.inf), TOO_LARGE
    if mantissa < np.uint64(1 << 53) and -22 <= exponent <= 22:
        if exponent < 0:
            return np.float32(np.float64(mantissa) / POWERS[TO_POWER - exponent]), PLAIN
        return np.float32(np.float64(mantissa) * POWERS[TO_POWER + exponent]), PLAIN
    value = np.float64(mantissa) * POWERS[TO_POWER + exponent]
    low = np.float32(value * (1.0 - 2.0**-50))
    high = np.float32(value * (1.0 + 2.0**-50))
    if low != high:
        return high, HARD
    if high == np.inf:
        return high, TOO_LARGE
    return high, PLAIN


@kernel
def _parse_word(text, p, signed):
    """nan, inf, infinity, and without a sign also null, na, in any case: (end, value, kind)."""
    word = np.uint64(0)
    letters = 0
    while 97 <= (text[p] | 32) <= 122 and letters < 9:
        word = (word << np.uint64(8)) | np.uint64(text[p] | 32)
        letters += 1
        p += ONE
    if letters <= 8 and ends_token(text[p]):
        if word == np.uint64(0x6E616E):
            return p, np.float32(np.nan), MISSING
        if word == np.uint64(0x696E66) or word == np.uint64(0x696E66696E697479):
            return p, np.float32(np.inf), INFINITE
        if not signed and (word == np.uint64(0x6E756C6C) or word == np.uint64(0x6E61)):
            return p, np.float32(np.nan), MISSING
    return p, np.float32(0.0), MALFORMED


@kernel
def parse_power(text, p):
    """What follows an e: (end, power, whether it has digits)."""
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += ONE
    first = p
    power = 0
    while np.int64(text[p]) ^ ZERO <= 9:
        # No text is long enough for its digits to bring a larger power back into range.
        if power < 1 << 50:
            power = power * 10 + (np.int64(text[p]) ^ ZERO)
        p += ONE
    return p, -power if negative else power, p > first


@kernel
def parse_digits(text, p):
    """Any number of digits with at most one point: (end, mantissa, exponent, points).

    Digits past the 19th only move the exponent.
    """
    mantissa = np.uint64(0)
    n_kept = 0
    exponent = 0
    points = 0
    while True:
        digit = np.int64(text[p]) ^ ZERO
        if digit <= 9:
            if n_kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(digit)
                n_kept += mantissa > np.uint64(0)
                exponent -= points
            else:
                exponent += 1 - points
        elif text[p] == DOT and points == 0:
            points = 1
        else:
            break
        p += ONE
    return p, mantissa, exponent, points


@kernel
def parse_number(text, p):
    """Any number: (end, value, kind)."""
    negative = text[p] == MINUS
    signed = negative or text[p] == PLUS
    if signed:
        p += ONE
    first = p
    p, mantissa, exponent, points = parse_digits(text, p)
    kind = PLAIN
    value = np.float32(0.0)
    if p == first:
        p, value, kind = _parse_word(text, p, signed)
        negative = negative and kind == INFINITE
    elif np.int64(p - first) == points:
        kind = MALFORMED
    elif (text[p] | 32) == LETTER_E:
        p, power, has_digits = parse_power(text, p + ONE)
        exponent += power
        if not has_digits or not ends_token(text[p]):
            kind = MALFORMED
    elif not ends_token(text[p]):
        kind = MALFORMED
    if kind == PLAIN:
        value, kind = decimal_to_float32(mantissa, exponent)
    return p, -value if negative else value, kind


@kernel
def parse_feature(text, p):
    """Any one feature: (index or -1, place of its value, end, value, kind)."""
    token = p
    index = 0
    while np.int64(text[p]) ^ ZERO <= 9:
        if index < 1 << 50:
            index = index * 10 + (np.int64(text[p]) ^ ZERO)
        p += ONE
    if text[p] != COLON or p == token:
        return -1, token, token, np.float32(0.0), MALFORMED
    end, value, kind = parse_number(text, p + ONE)
    return index, p + ONE, end, value, kind

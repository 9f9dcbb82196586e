"""Elementary functions and noise for kernels: loops of IEEE steps that LLVM vectorises.

The libraries' own e^x and log are called one by one, and differ between machines.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit.compilation import kernel
from rankgrove._jit.hashing import mix, open_share_of, share_of

# The smallest exponent: e^-700 is still a normal number.
SMALLEST = -700.0

# Scores are cut to this, so that the difference of any two is finite.
LARGEST = 8e307

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has 32 bits, so that its product with a small integer is exact.
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10

# The bits of sqrt(1/2).
_BITS_ROOT_HALF = 0x3FE6A09E667F3BCD

# Loops go over a multiple of this, so that a vector loop has no remainder to do one by one; and a
# sum is of this many lanes, whatever the machine's width.
LANES = 8

# Kinds of noise.
NO_NOISE, LOGISTIC, GAUSSIAN, GUMBEL = range(4)
NOISES = {"none": NO_NOISE, "logistic": LOGISTIC, "gaussian": GAUSSIAN, "gumbel": GUMBEL}


@kernel
def exponentials(x, bits, powers, out):
    """e^x to within 2 units of the last place, for x cut to -700 and 700.

    `powers` is `bits` seen as floats: an exponent written as an integer is read as 2^k. `out` must
    not be x: then nothing would be vectorised.
    """
    for i in range(len(x)):
        at = min(max(x[i], SMALLEST), -SMALLEST)
        k = np.floor(at * _LOG2_E + 0.5)
        bits[i] = (np.int64(k) + 1023) << 52
        r = (at - k * _LN2_HIGH) - k * _LN2_LOW
        # The series of e^r up to r^13, |r| <= ln(2) / 2.
        e = 1.0 / 6227020800.0
        e = e * r + 1.0 / 479001600.0
        e = e * r + 1.0 / 39916800.0
        e = e * r + 1.0 / 3628800.0
        e = e * r + 1.0 / 362880.0
        e = e * r + 1.0 / 40320.0
        e = e * r + 1.0 / 5040.0
        e = e * r + 1.0 / 720.0
        e = e * r + 1.0 / 120.0
        e = e * r + 1.0 / 24.0
        e = e * r + 1.0 / 6.0
        e = e * r + 0.5
        e = e * r + 1.0
        out[i] = e * r + 1.0
    for i in range(len(x)):
        out[i] *= powers[i]


def exponential(x: float) -> float:
    """e^x of one number, cut to -700 and 700, by IEEE steps only.

    >>> exponential(0.0)
    1.0
    """
    bits, out = np.empty(1, dtype=np.int64), np.empty(1)
    exponentials(np.array([float(x)]), bits, bits.view(np.float64), out)
    return float(out[0])


def logarithm(x: float) -> float:
    """Ln x of one positive normal number, by IEEE steps only.

    >>> logarithm(1.0)
    0.0
    """
    powers, out = np.array([float(x)]), np.empty(1)
    logarithms(powers.view(np.int64), powers, out)
    return float(out[0])


@kernel
def split_power(x):
    """2^x to within a unit of the last place: the bits of a power of 2, and its factor.

    For x from -1000 to 1000. A loop of it is vectorised if it writes the bits, and reads them as
    floats in another loop.
    """
    k = np.floor(x + 0.5)
    r = x - k
    # 1 + r q(r) is 2^r to within 2e-17, |r| <= 1/2: q meets (2^r - 1) / r at 11 Chebyshev nodes.
    # Even and odd terms apart: neither waits for the other.
    square = r * r
    even = 4.454960598186519e-10
    odd = 7.072585949269224e-09
    even = even * square + 1.0178062445845774e-07
    odd = odd * square + 1.321544258792169e-06
    even = even * square + 1.525273382983612e-05
    odd = odd * square + 0.0001540353044173605
    even = even * square + 0.0013333558146416936
    odd = odd * square + 0.009618129107606888
    even = even * square + 0.0555041086648216
    odd = odd * square + 0.24022650695910097
    even = even * square + 0.6931471805599453
    return (np.int64(k) + 1023) << 52, (even + odd * r) * r + 1.0


@kernel
def logarithms(bits, powers, out):
    """Ln x of positive normal numbers, given as their bits; `powers` is `bits` seen as floats.

    The bits are overwritten.
    """
    for i in range(len(bits)):
        # x = 2^k m with m between sqrt(1/2) and sqrt(2).
        k = (bits[i] - _BITS_ROOT_HALF) >> 52
        bits[i] -= k << 52
        out[i] = np.float64(k)
    for i in range(len(bits)):
        m = powers[i]
        # ln m = 2 artanh t, |t| < 0.172: the series up to t^21.
        t = (m - 1.0) / (m + 1.0)
        square = t * t
        series = 1.0 / 21.0
        series = series * square + 1.0 / 19.0
        series = series * square + 1.0 / 17.0
        series = series * square + 1.0 / 15.0
        series = series * square + 1.0 / 13.0
        series = series * square + 1.0 / 11.0
        series = series * square + 1.0 / 9.0
        series = series * square + 1.0 / 7.0
        series = series * square + 1.0 / 5.0
        series = series * square + 1.0 / 3.0
        series = series * square + 1.0
        out[i] = out[i] * _LN2_LOW + 2.0 * t * series + out[i] * _LN2_HIGH


@kernel
def cosine(turns):
    """The cosine of a number of turns from 0 to 1, by IEEE steps only, to within 2e-16."""
    # The nearest quarter, and what is left: an eighth of a turn at most.
    quarter = np.floor(4.0 * turns + 0.5)
    x = (turns - 0.25 * quarter) * 6.283185307179586
    square = x * x
    cos = 1.0 / 20922789888000.0
    cos = cos * square - 1.0 / 87178291200.0
    cos = cos * square + 1.0 / 479001600.0
    cos = cos * square - 1.0 / 3628800.0
    cos = cos * square + 1.0 / 40320.0
    cos = cos * square - 1.0 / 720.0
    cos = cos * square + 1.0 / 24.0
    cos = cos * square - 0.5
    cos = cos * square + 1.0
    sin = -1.0 / 1307674368000.0
    sin = sin * square + 1.0 / 6227020800.0
    sin = sin * square - 1.0 / 39916800.0
    sin = sin * square + 1.0 / 362880.0
    sin = sin * square - 1.0 / 5040.0
    sin = sin * square + 1.0 / 120.0
    sin = sin * square - 1.0 / 6.0
    sin = (sin * square + 1.0) * x
    value = sin if quarter == 1.0 or quarter == 3.0 else cos
    return -value if quarter == 1.0 or quarter == 2.0 else value


@kernel
def _split_logarithm(x):
    """The power of 2 next to x, and ln of what is left of x, between sqrt(1/2) and sqrt(2)."""
    m, k = math.frexp(x)
    if m < 0.7071067811865476:
        m *= 2.0
        k -= 1
    # ln m = 2 artanh t, |t| < 0.172: the series up to t^21.
    t = (m - 1.0) / (m + 1.0)
    series = 0.0
    for term in range(21, 0, -2):
        series = series * t * t + 1.0 / term
    return k, 2.0 * t * series


@kernel
def log2_1p(x):
    """log2(1 + x) for x > 0, by IEEE steps only."""
    u = 1.0 + x
    if u == 1.0:
        return x * _LOG2_E
    k, rest = _split_logarithm(u)
    # The last factor makes up for what 1 + x has lost of a small x.
    return (k + rest * _LOG2_E) * (x / (u - 1.0))


@kernel
def normal_of(bits, other_bits):
    """A standard normal number from two independent hashes (Box and Muller), by IEEE steps only."""
    k, rest = _split_logarithm(open_share_of(bits))
    logarithm = k * _LN2_LOW + rest + k * _LN2_HIGH
    return math.sqrt(-2.0 * logarithm) * cosine(share_of(other_bits))


@kernel
def draw_noise(kind, key, bits, powers, out):
    """Independent noise of scale 1: logistic, Gumbel or standard normal; by the key only."""
    n = len(out)
    if kind == LOGISTIC:
        for i in range(n):
            share = open_share_of(mix(key + np.uint64(i)))
            powers[i] = share / (1.0 - share)
        logarithms(bits[:n], powers[:n], out)
        return
    if kind == GUMBEL:
        for i in range(n):
            powers[i] = open_share_of(mix(key + np.uint64(i)))
        logarithms(bits[:n], powers[:n], out)
        for i in range(n):
            powers[i] = -out[i]
        logarithms(bits[:n], powers[:n], out)
        for i in range(n):
            out[i] = -out[i]
        return
    # Box and Muller.
    for i in range(n):
        powers[i] = open_share_of(mix(key + np.uint64(2 * i)))
    logarithms(bits[:n], powers[:n], out)
    for i in range(n):
        turns = share_of(mix(key + np.uint64(2 * i + 1)))
        out[i] = math.sqrt(-2.0 * out[i]) * cosine(turns)


@kernel
def sum_lanes(values):
    """The sum of a multiple of 8 values, in an order that suits vectors of any width."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, len(values), LANES):
        lane = values[i : i + LANES]
        s0 += lane[0]
        s1 += lane[1]
        s2 += lane[2]
        s3 += lane[3]
        s4 += lane[4]
        s5 += lane[5]
        s6 += lane[6]
        s7 += lane[7]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@kernel
def copy(row, out):
    """Copy a row.

    A loop, as `out[:] = row` takes seconds to compile: it brings the text of an error of shapes.
    """
    for i in range(len(row)):
        out[i] = row[i]


@kernel
def add(row, sums):
    """Add a row to sums; to add to one array a pass is faster than to several at once."""
    for i in range(len(row)):
        sums[i] += row[i]


@kernel
def subtract(row, sums):
    """Take a row from sums."""
    for i in range(len(row)):
        sums[i] -= row[i]

"""Elementary functions and noise for kernels: loops of IEEE steps that LLVM vectorises.

The libraries' own e^x and log are called one by one, and differ between machines.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit.compilation import inline_kernel, kernel
from rankgrove._jit.hashing import mix, open_share_of, share_of
from rankgrove._jit.intrinsics import SUM_LANES, bits_of, float_of

# The smallest exponent: e^-700 is still a normal number.
SMALLEST = -700.0

# Scores are cut to this, so that the difference of any two is finite.
LARGEST = 8e307

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has 32 bits, so that its product with a small integer is exact.
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10

# The bits of sqrt(1/2), and of 1.
_BITS_ROOT_HALF = 0x3FE6A09E667F3BCD
_BITS_ONE = 0x3FF0000000000000

# To this a float of less than 2^51 is added to be rounded to a whole number, which then stands in
# the last bits. Many processors cannot turn several floats at once into int64, nor back.
ROUNDER, ROUNDER_BITS = 1.5 * 2.0**52, 0x4338000000000000

# Loops go over a multiple of this, so that a vector loop has no remainder to do one by one.
LANES = SUM_LANES

# Kinds of noise.
NO_NOISE, LOGISTIC, GAUSSIAN, GUMBEL = range(4)
NOISES = {"none": NO_NOISE, "logistic": LOGISTIC, "gaussian": GAUSSIAN, "gumbel": GUMBEL}


@inline_kernel
def _power_of(k):
    """2^k of a whole number from -1022 to 1023.

    The last bits of k + ROUNDER are those of k, and the first bits of 2^k those of k + 1023.
    """
    return float_of((bits_of(k + ROUNDER) << 52) + _BITS_ONE)


@inline_kernel
def exponential_of(x):
    """e^x to within 2 units of the last place, for x cut to -700 and 700."""
    at = min(max(x, SMALLEST), -SMALLEST)
    k = np.floor(at * _LOG2_E + 0.5)
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
    return (e * r + 1.0) * _power_of(k)


@kernel
def exponentials(x, out):
    """e^x of each x; `out` must not be x: then nothing would be vectorised."""
    for i in range(len(x)):
        out[i] = exponential_of(x[i])


def exponential(x: float) -> float:
    """e^x of one number, cut to -700 and 700, by IEEE steps only.

    >>> exponential(0.0)
    1.0
    """
    out = np.empty(1)
    exponentials(np.array([float(x)]), out)
    return float(out[0])


def logarithm(x: float) -> float:
    """Ln x of one positive normal number, by IEEE steps only.

    >>> logarithm(1.0)
    0.0
    """
    out = np.empty(1)
    logarithms(np.array([float(x)]), out)
    return float(out[0])


@inline_kernel
def split_power(x):
    """2^x to within a unit of the last place, for x from -1000 to 1000: 2^k and its factor."""
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
    return _power_of(k), (even + odd * r) * r + 1.0


@inline_kernel
def logarithm_of(x):
    """Ln x of a positive normal number."""
    # x = 2^k m with m between sqrt(1/2) and sqrt(2).
    k = (bits_of(x) - _BITS_ROOT_HALF) >> 52
    m = float_of(bits_of(x) - (k << 52))
    power = float_of(k + ROUNDER_BITS) - ROUNDER
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
    return power * _LN2_LOW + 2.0 * t * series + power * _LN2_HIGH


@kernel
def logarithms(x, out):
    """Ln x of positive normal numbers."""
    for i in range(len(x)):
        out[i] = logarithm_of(x[i])


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
def draw_noise(kind, key, out):
    """Independent noise of scale 1: logistic, Gumbel or standard normal; by the key only.

    Loops are short: a processor then works on more documents at once.
    """
    if kind == LOGISTIC:
        for i in range(len(out)):
            share = open_share_of(mix(key + np.uint64(i)))
            out[i] = share / (1.0 - share)
        for i in range(len(out)):
            out[i] = logarithm_of(out[i])
        return
    step = np.uint64(1 if kind == GUMBEL else 2)
    for i in range(len(out)):
        out[i] = open_share_of(mix(key + step * np.uint64(i)))
    for i in range(len(out)):
        out[i] = -logarithm_of(out[i])
    if kind == GUMBEL:
        for i in range(len(out)):
            out[i] = -logarithm_of(out[i])
        return
    # Box and Muller.
    for i in range(len(out)):
        turns = share_of(mix(key + np.uint64(2 * i + 1)))
        out[i] = math.sqrt(2.0 * out[i]) * cosine(turns)


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

"""Random numbers that are a hash of what they are for: no state, so no dependence on threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.compilation import kernel
from rankgrove._jit.intrinsics import float_of

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)

# The last bits, which a share does without; and the bits of 2^52, of which they are those of 2^52
# and a whole number below.
_LAST, _BITS_2_52 = np.uint64(12), 0x4330000000000000

# Told apart from other numbers that are drawn by seed and iteration.
_FORCES = 0x6E6F697365


@kernel
def finalise(bits):
    """The last step of splitmix64: every bit in reaches every bit out."""
    bits = (bits ^ (bits >> _SHIFT_1)) * _FACTOR_1
    bits = (bits ^ (bits >> _SHIFT_2)) * _FACTOR_2
    return bits ^ (bits >> _SHIFT_3)


@kernel
def mix(number):
    """Spread a number over 64 bits (splitmix64)."""
    return finalise((number + np.uint64(1)) * GOLDEN)


@kernel
def draw_bits(key, place):
    """64 random bits: those at this place of the stream of `key`."""
    return finalise(key + GOLDEN * np.uint64(place + 1))


@kernel
def share_of(bits):
    """A number from 0 to 1, 1 excluded, from the upper 52 bits."""
    return (float_of(np.int64(bits >> _LAST) | _BITS_2_52) - 2.0**52) * 2.0**-52


@kernel
def open_share_of(bits):
    """A number from 0 to 1, both excluded, from the upper 52 bits."""
    return ((float_of(np.int64(bits >> _LAST) | _BITS_2_52) - 2.0**52) + 0.5) * 2.0**-52


def open_shares(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """As `open_share_of`, without compiling anything."""
    return np.asarray(((bits >> _LAST).astype(np.float64) + 0.5) * 2.0**-52)


def draw_array(
    seed: int, iteration: int, purpose: int, numbers: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Hashes of seed, iteration, what they are for, and each of these numbers."""
    key = np.uint64(seed)
    with np.errstate(over="ignore"):
        for number in (iteration, purpose):
            key = mix_array(key) + np.uint64(number)
        hashes: NDArray[np.uint64] = mix_array(numbers.astype(np.uint64) + mix_array(key))
    return hashes


def iteration_key(seed: int, iteration: int) -> np.uint64:
    """The number by which the noise in the forces of an iteration is drawn."""
    key = np.uint64(seed)
    with np.errstate(over="ignore"):
        for number in (iteration, _FORCES):
            key = finalise.py_func(key + np.uint64(number + 1) * GOLDEN)
    return key


def mix_array(number: Any) -> Any:
    """As `mix`, of NumPy's numbers and arrays, without compiling anything."""
    return finalise.py_func((number + np.uint64(1)) * GOLDEN)

"""The rules by which a split keeps its meaning in a program that compares in another way.

Rankgrove goes left if `float32(x) <= t`, where t is a float32. Others compare float64 numbers, or
with `<`, or add something to the threshold first. For each there is a threshold that decides as t
does, for every x; only for Solr some are out of reach.

A split by categories sends some of the known ones left, and a missing or unknown value where
`missing_left` says. Others know only "is one of these". So the side is tested that a missing value
does not take: what is in no set then falls through to the other one, as it should.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# What Solr adds to each threshold, in float32.
SOLR_SLACK = np.float32(1e-6)

_UP, _DOWN = np.float32(np.inf), np.float32(-np.inf)
# The number after the largest float32, if its exponent went on.
_PAST_LARGEST = 2.0**128


def float32s(values: Iterable[float]) -> NDArray[np.float32]:
    """Numbers as an array of float32."""
    return np.array(list(values), dtype=np.float32)


def widened(thresholds: NDArray[np.float32]) -> NDArray[np.float64]:
    """For each threshold the largest float64 that rounds to it, u(t).

    `x <= u(t)` in float64 decides as `float32(x) <= t` does, for every float64 x; and as u(t)
    rounds to t, a program that keeps thresholds as float32 gets t itself.

    >>> widened(np.float32([1.0, np.inf])).tolist()
    [1.0000000596046448, inf]
    """
    low = np.asarray(thresholds, dtype=np.float32)
    with np.errstate(over="ignore", under="ignore"):
        high = np.nextafter(low, _UP)
    lower = np.where(np.isneginf(low), -_PAST_LARGEST, low.astype(np.float64))
    upper = np.where(np.isposinf(high), _PAST_LARGEST, high.astype(np.float64))
    middle = (lower + upper) / 2
    # The middle rounds to that of the two whose last bit is 0; infinity counts as even.
    is_even = (low.view(np.uint32) & 1) == 0
    found = np.where(is_even, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isposinf(low), np.inf, found)


def after_widened(thresholds: NDArray[np.float32]) -> NDArray[np.float64]:
    """What `x < t'` in float64 takes to decide as `float32(x) <= t` does.

    No number decides so for a threshold of infinity: then it is infinity, and a value of infinity
    goes the other way.
    """
    return np.nextafter(widened(thresholds), np.inf)


def next_float32(thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """What `x < t'` in float32 takes to decide as `x <= t` does, t+; infinity as above.

    >>> next_float32(np.float32([1.0, 0.0])).tolist()
    [1.0000001192092896, 1.401298464324817e-45]
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.nextafter(np.asarray(thresholds, dtype=np.float32), _UP)


class Slackened(NamedTuple):
    """Thresholds from which a slack is taken away.

    Attributes
    ----------
    thresholds
        What is to be written.
    reached
        What each becomes when the slack is added: the threshold it stands for, or, where that is
        out of reach, the next number above it that is not.
    """

    thresholds: NDArray[np.float32]
    reached: NDArray[np.float32]


def without_slack(thresholds: NDArray[np.float32]) -> Slackened:
    """For each threshold t the t' with `float32(t' + 1e-6) == t`, for Solr.

    There is one for each t that is 0 or at least 0.001 away from it; for some of the others only
    one that comes to the next number above, at most 1.5e-11 away.

    >>> without_slack(np.float32([1.0, 0.0])).reached.tolist()
    [1.0, 0.0]
    """
    wanted = np.asarray(thresholds, dtype=np.float32)
    with np.errstate(over="ignore", under="ignore"):
        tried = wanted - SOLR_SLACK
        for _ in range(4):
            tried = np.nextafter(tried, _DOWN)
        best, reached = np.full_like(wanted, _UP), np.full_like(wanted, _UP)
        for _ in range(9):
            comes_to = tried + SOLR_SLACK
            is_better = (comes_to >= wanted) & (comes_to < reached)
            best, reached = np.where(is_better, tried, best), np.where(is_better, comes_to, reached)
            tried = np.nextafter(tried, _UP)
    return Slackened(best, reached)


class Membership(NamedTuple):
    """A split by categories as "is one of these", which no missing or unknown value is.

    Attributes
    ----------
    codes
        The codes that are tested for, in rising order.
    inside, outside
        The child of a document whose code is one of them, and that of any other.
    """

    codes: tuple[int, ...]
    inside: int
    outside: int


def membership(
    goes_left: NDArray[np.bool_], n_categories: int, missing_left: bool, left: int, right: int
) -> Membership:
    """The side of a split by categories that a missing value does not take.

    Parameters
    ----------
    goes_left
        For each code whether its bit is set; codes past the known categories do not count.
    n_categories
        How many are known.
    missing_left
        Whether a missing value goes left.
    left, right
        The children.

    >>> membership(np.array([True, False, True]), 3, True, 1, 2)
    Membership(codes=(1,), inside=2, outside=1)
    """
    known = np.asarray(goes_left[:n_categories], dtype=bool)
    tested = ~known if missing_left else known
    codes = tuple(np.flatnonzero(tested).tolist())
    return Membership(codes, right, left) if missing_left else Membership(codes, left, right)

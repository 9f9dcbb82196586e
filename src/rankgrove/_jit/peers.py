"""The workers that have the data between them, as the one here sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Up to so many workers talk directly, each with every other one; more of them in steps of pairs.
MOST_DIRECT = 8


class Peers(Protocol):
    """All workers, this one among them. Each calls the same functions in the same order."""

    @property
    def rank(self) -> int:
        """Which of them this one is, from 0 on."""

    @property
    def size(self) -> int:
        """How many they are."""

    def sum(self, numbers: NDArray[np.int64]) -> None:
        """Put in place of whole numbers their sums over all workers."""

    def reduce_scatter(
        self, numbers: NDArray[np.int64], bounds: Sequence[int]
    ) -> NDArray[np.int64]:
        """The sums over all other workers of this one's part, between its `bounds`.

        The others get theirs. This one's part of the numbers may hold anything; all are spoilt.
        """

    def scatter(self, messages: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """What all other workers have for this one, by their ranks, until the next call.

        `messages` are one for each worker; nobody reads that for this one.
        """

    def max(self, values: NDArray[np.float64]) -> None:
        """Put in place of values the largest of each over all workers."""

    def gather(self, message: bytes, lengths: Sequence[int] | None = None) -> list[bytes]:
        """The messages of all workers, in the order of their ranks; their lengths if known."""


class Alone:
    """One worker that has all data.

    >>> Alone().gather(b"here")
    [b'here']
    """

    rank, size = 0, 1

    def sum(self, numbers: NDArray[np.int64]) -> None:
        """What it has is the sum."""

    def reduce_scatter(
        self, numbers: NDArray[np.int64], bounds: Sequence[int]
    ) -> NDArray[np.int64]:
        """There are no others."""
        return np.zeros_like(numbers)

    def scatter(self, messages: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """There are no others."""
        return []

    def max(self, values: NDArray[np.float64]) -> None:
        """What it has is the largest."""

    def gather(self, message: bytes, lengths: Sequence[int] | None = None) -> list[bytes]:
        """Its own message."""
        return [message]


ALONE = Alone()

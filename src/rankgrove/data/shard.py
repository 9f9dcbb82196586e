"""Which queries of all a worker has, where several workers have them between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.peers import ALONE, Peers


@dataclass(frozen=True, eq=False)
class Shard:
    """The place of a data set's queries among those of all workers.

    What is drawn at random, and every sum, goes by these numbers, so that a model does not depend
    on which worker has which queries.

    Attributes
    ----------
    offsets
        As those of the data set.
    numbers, places
        One per query: its number among all queries, and that of its first row among all rows.
    n_queries, n_documents
        Of all workers together.
    peers
        The workers.
    """

    offsets: NDArray[np.int64]
    numbers: NDArray[np.int64]
    places: NDArray[np.int64]
    n_queries: int
    n_documents: int
    peers: Peers = ALONE

    @classmethod
    def whole(cls, offsets: NDArray[np.int64]) -> Shard:
        """All queries, in their order.

        >>> Shard.whole(np.array([0, 2, 5])).places.tolist()
        [0, 2]
        """
        n_queries = len(offsets) - 1
        numbers = np.arange(n_queries, dtype=np.int64)
        return cls(offsets, numbers, offsets[:-1], n_queries, int(offsets[-1]))

    def is_of_others(self, offsets: NDArray[np.int64]) -> bool:
        """Whether a whole data set has other queries: `dataclasses.replace` hands a shard on."""
        return self.peers is ALONE and not np.array_equal(self.offsets, offsets)

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The number of each row among all rows."""
        ahead = self.places - self.offsets[:-1]
        numbers = np.arange(self.offsets[-1], dtype=np.int64)
        if ahead.any():
            numbers += np.repeat(ahead, np.diff(self.offsets))
        return numbers

    def count(self, n: int) -> int:
        """The sum of a whole number over all workers."""
        total = np.array([n], dtype=np.int64)
        self.peers.sum(total)
        return int(total[0])

    def any(self, condition: bool) -> bool:
        """Whether a condition holds for a worker at least."""
        return self.count(int(condition)) > 0

"""Reducing an array over all workers, in as few and as short messages as their number allows.

Up to 8 workers talk directly, each with every other one. More of them halve and double: in each
step a worker talks with one other, so 64 workers need 6 steps, not 63 messages. If their number is
no power of two, some hand their numbers to a neighbour first (fold in) and get the result at the
end (fold out).

All combinations are of whole numbers and have no order, so the result is the same on all workers,
for any number of them and any order of arrival. Sums that leave int64 wrap around, modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.peers import MOST_DIRECT
from rankgrove.distributed.mesh import Mesh
from rankgrove.distributed.wire import start_at

# Up to so many bytes are sent as they are, in one step; more in two steps and fewer bytes.
SMALL = 1 << 16
# Numbers of steps: those of halving and of doubling are counted from these on.
FOLD_IN, HALVING, DOUBLING, FOLD_OUT = 0, 100, 200, 300

Whole = NDArray[np.int64]


def even_bounds(length: int, count: int) -> list[int]:
    """The bounds of parts that are as equal as they can be.

    >>> even_bounds(10, 4)
    [0, 2, 5, 7, 10]
    """
    return [length * part // count for part in range(count + 1)]


def max_keys(values: NDArray[np.float64]) -> Whole:
    """Whole numbers in the order of floats: -0.0 below 0.0, NaN above all.

    With them a maximum does not depend on the order in which it is taken, down to the sign of 0.
    """
    bits = np.where(np.isnan(values), np.nan, values).astype("<f8").view("<i8")
    return _flip(bits)


def values_of_keys(keys: Whole) -> NDArray[np.float64]:
    """The floats of such whole numbers."""
    return _flip(keys).view("<f8")


def _flip(bits: Whole) -> Whole:
    flipped: Whole = bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
    return flipped


class Folding:
    """Which workers take part in halving and doubling: a power of two of them.

    The first 2 * `n_folded` workers are pairs, of which the even one stands for both. Those that
    take part have places from 0 to `n_places`.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.n_places = 1 << (size.bit_length() - 1)
        self.n_folded = size - self.n_places
        self.is_pair = rank < 2 * self.n_folded
        self.is_folded = self.is_pair and rank % 2 == 1
        self.place = rank // 2 if self.is_pair else rank - self.n_folded

    @property
    def neighbour(self) -> int:
        """The other one of the pair."""
        return self.rank ^ 1

    def worker_at(self, place: int) -> int:
        """The rank at a place."""
        return 2 * place if place < self.n_folded else place + self.n_folded

    def partners(self) -> list[int]:
        """The ranks that this one talks with, the nearest first."""
        steps = range(self.n_places.bit_length() - 1)
        return [self.worker_at(self.place ^ (1 << step)) for step in steps]

    def halves(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Step, partner, and places: first and end of what is kept and of what is given away."""
        first, end, step = 0, self.n_places, 0
        while end - first > 1:
            middle = (first + end) // 2
            partner = self.worker_at(self.place ^ ((end - first) // 2))
            if self.place < middle:
                yield step, partner, first, middle, middle, end
                end = middle
            else:
                yield step, partner, middle, end, first, middle
                first = middle
            step += 1


class Reduction:
    """Reduces arrays: `combine` is np.add, np.maximum or np.bitwise_or."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh, self._scratch = mesh, Scratch()

    def all(self, start: bytes, combine: np.ufunc, array: Whole) -> None:
        """Put in place of the numbers what they come to over all workers, on every worker."""
        size = self._mesh.size
        if size > MOST_DIRECT:
            Halving(self._mesh, start, combine, self._scratch).all(array)
        elif size == 2 or (size - 1) * array.nbytes <= SMALL:
            self._whole_directly(start, combine, array)
        else:
            bounds = even_bounds(len(array), size)
            mine = _part(array, bounds, self._mesh.rank)
            sums = np.empty_like(mine)
            self._scatter_directly(start, combine, array, bounds, sums)
            combine(mine, sums, out=mine)
            others = self._mesh.others
            theirs = [_part(array, bounds, rank) for rank in others]
            self._mesh.exchange(start_at(start, 1), others, [mine] * len(others), theirs)

    def scatter(self, start: bytes, array: Whole, bounds: Sequence[int]) -> Whole:
        """What the part of this worker sums up to over all others; the rest is left undefined."""
        mine = _part(array, bounds, self._mesh.rank)
        if 1 < self._mesh.size <= MOST_DIRECT:
            self._scatter_directly(start, np.add, array, bounds, mine)
            return mine
        mine[:] = 0
        if self._mesh.size > 1:
            Halving(self._mesh, start, np.add, self._scratch).scatter(array, bounds)
        return mine

    def _whole_directly(self, start: bytes, combine: np.ufunc, array: Whole) -> None:
        others = self._mesh.others
        received = self._scratch.take(len(others), len(array))
        self._mesh.exchange(start, others, [array] * len(others), received)
        for row in received:
            combine(array, row, out=array)

    def _scatter_directly(
        self, start: bytes, combine: np.ufunc, array: Whole, bounds: Sequence[int], out: Whole
    ) -> None:
        """Send each worker its part, and combine what comes for this one."""
        others = self._mesh.others
        received = [out, *self._scratch.take(len(others) - 1, len(out))]
        parts = [_part(array, bounds, rank) for rank in others]
        self._mesh.exchange(start, others, parts, received)
        for row in received[1:]:
            combine(out, row, out=out)


class Halving:
    """One call that reduces an array by halving and doubling."""

    def __init__(self, mesh: Mesh, start: bytes, combine: np.ufunc, scratch: Scratch) -> None:
        self._mesh, self._start, self._combine, self._scratch = mesh, start, combine, scratch

    def all(self, array: Whole) -> None:
        """Put in place of the numbers what they come to over all workers."""
        folding = Folding(self._mesh.rank, self._mesh.size)
        self._fold_in(folding, array)
        if not folding.is_folded:
            partners = folding.partners()
            if len(partners) * array.nbytes <= SMALL:
                for step, partner in enumerate(partners):
                    self._take_in(DOUBLING + step, partner, array, array)
            else:
                bounds = even_bounds(len(array), folding.n_places)
                self._halve(folding, array, bounds)
                self._double(folding, array, bounds)
        if folding.is_pair:
            self._hand_over(folding, array)

    def scatter(self, array: Whole, bounds: Sequence[int]) -> None:
        """Do so with the part of this worker; the rest is left undefined."""
        folding = Folding(self._mesh.rank, self._mesh.size)
        self._fold_in(folding, array)
        if not folding.is_folded:
            # The part of a pair is that of both; they are neighbours, so it is one piece.
            ranks = [folding.worker_at(place) for place in range(folding.n_places)]
            self._halve(folding, array, [*(bounds[rank] for rank in ranks), bounds[-1]])
        if folding.is_pair:
            self._hand_over(folding, _part(array, bounds, folding.rank | 1))

    def _fold_in(self, folding: Folding, array: Whole) -> None:
        if folding.is_folded:
            self._step(FOLD_IN, folding.neighbour, array, array[:0])
        elif folding.is_pair:
            self._take_in(FOLD_IN, folding.neighbour, array[:0], array)

    def _hand_over(self, folding: Folding, array: Whole) -> None:
        nothing = array[:0]
        if folding.is_folded:
            self._step(FOLD_OUT, folding.neighbour, nothing, array)
        else:
            self._step(FOLD_OUT, folding.neighbour, array, nothing)

    def _halve(self, folding: Folding, array: Whole, bounds: Sequence[int]) -> None:
        for step, partner, first, end, first_given, end_given in folding.halves():
            given = array[bounds[first_given] : bounds[end_given]]
            self._take_in(HALVING + step, partner, given, array[bounds[first] : bounds[end]])

    def _double(self, folding: Folding, array: Whole, bounds: Sequence[int]) -> None:
        for step, partner, first, end, first_given, end_given in reversed(list(folding.halves())):
            mine = array[bounds[first] : bounds[end]]
            theirs = array[bounds[first_given] : bounds[end_given]]
            self._step(DOUBLING + step, partner, mine, theirs)

    def _take_in(self, step: int, partner: int, sent: Whole, kept: Whole) -> None:
        """Send some numbers, and combine those that come with those that are kept."""
        (received,) = self._scratch.take(1, len(kept))
        self._step(step, partner, sent, received)
        self._combine(kept, received, out=kept)

    def _step(self, step: int, partner: int, sent: Whole, received: Whole) -> None:
        self._mesh.exchange(start_at(self._start, step), (partner,), (sent,), (received,))


class Scratch:
    """Memory for numbers that come, kept from call to call."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, dtype="<i8")

    def take(self, count: int, length: int) -> list[Whole]:
        """Arrays of some length, whatever is in them."""
        if len(self._numbers) < count * length:
            self._numbers = np.empty(count * length, dtype="<i8")
        return [self._numbers[i * length : (i + 1) * length] for i in range(count)]


def _part(array: Whole, bounds: Sequence[int], rank: int) -> Whole:
    return array[bounds[rank] : bounds[rank + 1]]

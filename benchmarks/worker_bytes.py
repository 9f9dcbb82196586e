"""How many bytes workers send while they grow a tree, as docs/distributed.md has the formula.

`tree_calls` lists the calls of a tree, and `sent_by_all` says what each costs on the wire. Numbers
of workers above 8 must be powers of two: with others, some hand their numbers to neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.peers import MOST_DIRECT
from rankgrove.distributed.collectives import SMALL
from rankgrove.distributed.wire import HEADER_BYTES
from rankgrove.trees.exchange import CUT_WORDS

# The name of a call, and the bytes that each worker gives to it.
Call = tuple[str, list[int]]
# What stands before each message of a gather above 8 workers: a rank and a length.
GATHER_ENTRY = 12


def narrow_bytes_of(block_bins: NDArray[np.int64], n_features: NDArray[np.int64]) -> int:
    """Bytes of a histogram as up to 8 workers send it, from the bins and features of its blocks.

    Numbers of a block of 16 features take 5 bytes, but for those of missing values, and a word says
    how many do not fit: each of these takes 16 bytes more, at most until all take 8.
    """
    whole = n_features == 16
    bins = block_bins + 1 - whole
    return int(8 * (bins * n_features)[~whole].sum() + (80 * bins + 8 * 17)[whole].sum())


def steps_of(size: int) -> int:
    """How many other workers each one talks with in a call that is made once."""
    return size - 1 if size <= MOST_DIRECT else size.bit_length() - 1


def sent_by_all(call: Call, size: int) -> int:
    """The bytes that all workers together send in one call."""
    name, lengths = call
    if size == 1:
        return 0
    if size > MOST_DIRECT and size & (size - 1):
        raise ValueError(f"size must be at most {MOST_DIRECT} or a power of two. Got {size}.")
    steps = steps_of(size)
    headers = HEADER_BYTES * size * steps
    if name == "scatter":
        return sum(lengths) + HEADER_BYTES * size * (size - 1)
    if name == "gather":
        entries = 0 if size <= MOST_DIRECT else GATHER_ENTRY * size
        return (size - 1) * (sum(lengths) + entries) + headers
    n_bytes = lengths[0]
    if name == "reduce_scatter":
        return (size - 1) * n_bytes + headers
    if steps * n_bytes <= SMALL or size == 2:
        return size * steps * n_bytes + headers
    return 2 * ((size - 1) * n_bytes + headers)


def waits_of(call: Call, size: int) -> int:
    """How many messages a worker waits for, one after the other, in one call."""
    if size == 1:
        return 0
    once = 1 if size <= MOST_DIRECT else size.bit_length() - 1
    name, lengths = call
    is_small = size == 2 or steps_of(size) * lengths[0] <= SMALL
    return once if name in ("gather", "scatter", "reduce_scatter") or is_small else 2 * once


@dataclass(frozen=True)
class Growing:
    """A tree of full size, as it is grown by workers that own blocks of features.

    Attributes
    ----------
    cells
        Numbers in a histogram: of every feature that may be split by, the bins of its block and
        one for missing values.
    narrow_bytes
        Bytes of a histogram as up to 8 workers send it, if all of its numbers fit: see
        `narrow_bytes_of`.
    n_blocks
        Blocks of 16 features.
    leaves, depth
        Of the tree; with a depth it is oblivious and has 2^depth leaves.
    """

    cells: int
    narrow_bytes: int
    n_blocks: int
    leaves: int
    depth: int | None = None

    def histograms(self) -> list[tuple[int, int]]:
        """How many histograms and how many counts of rows each exchange of them has."""
        if self.depth is None:
            return [(1, 1)] * (self.leaves - 1)
        # The root; of every later level the histogram of one of two children.
        return [(1, 1), *((1 << level, 1 << level) for level in range(self.depth - 1))]

    def calls(self, size: int) -> Iterator[Call]:
        """The calls that grow the tree, in their order."""
        n_owners = min(size, self.n_blocks)
        for number, (n_histograms, n_counts) in enumerate(self.histograms()):
            if size <= MOST_DIRECT:
                # How much of it each worker sends depends on whose the blocks are.
                n_bytes = n_histograms * self.narrow_bytes + 16 * n_counts * size
                yield "scatter", [(size - 1) * n_bytes, *[0] * (size - 1)]
            else:
                n_bytes = 8 * (n_histograms * self.cells + 2 * n_counts * size)
                yield "reduce_scatter", [n_bytes] * size
            if self.depth is None:
                cut = 8 * CUT_WORDS * (2 if number else 1)
            else:
                cut = 8 * (CUT_WORDS + (1 << number))
            yield "gather", [cut] * n_owners + [0] * (size - n_owners)
        last = 1 if self.depth is None else 1 << (self.depth - 1)
        yield "sum", [16 * last] * size


def tree_calls(growing: Growing, size: int) -> list[Call]:
    """All calls of one iteration: units, the tree, values of its leaves."""
    return [
        ("max", [32] * size),
        ("sum", [32] * size),
        *growing.calls(size),
        ("sum", [32 * growing.leaves] * size),
    ]


def bytes_of(calls: Sequence[Call], size: int) -> int:
    """What all workers together send in some calls."""
    return sum(sent_by_all(call, size) for call in calls)

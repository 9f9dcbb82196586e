"""What several growers, each of which has some of the rows, tell each other to grow one tree.

Every grower decides from the same numbers, so all take the same steps. Sums are of whole numbers:
the tree is that of one grower with all rows, to the bit.

Histograms are large, so each grower owns some blocks of features: it gets the sums of these blocks
only and searches only them, and then all growers compare their best cuts, in messages of a hundred
bytes or so. `docs/distributed.md` says how many bytes that makes.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, flattened, inline_kernel, kernel
from rankgrove._jit.peers import MOST_DIRECT, Peers
from rankgrove.errors import RankgroveError
from rankgrove.trees.search import Layout, sum_left
from rankgrove.trees.steps import best_block
from rankgrove.trees.team import (
    COMPARE,
    COUNT,
    LEVEL_END,
    N_PENDING,
    N_PENDING_INTS,
    N_SPLITS,
    OTHER,
    PENDING_COUNT,
    PENDING_SLOT,
    PENDING_TOTAL,
    REDUCE,
    SLOT,
    STEP,
    Growing,
    Pending,
)

# A cut in a message: what it is compared by and its gain; the place of its feature, its bin and the
# packed sum that goes left; which of the 256 codes do, a bit each.
CUT_WORDS = 9

# From so many bytes of a histogram on, growers own different blocks. A smaller one is summed on all
# of them: to wait for one more message takes longer than what is saved (measured).
LEAST_SHARED_BYTES = 1 << 17


# What is done with the columns of a block: they are copied to a message or from it, or added; and
# where few workers send each other messages directly, written in 5 bytes each, or added from them.
_PACK, _SET, _ADD, _NARROW, _ADD_NARROW = range(5)

# Of 40 bits the lower half is a curvature, the upper one a force with its sign.
_LOW, _HIGH, _WORD = 0xFFFFF, 0xFFFFF << 20, 0xFFFFFFFF
_SIGN, _BEYOND = 1 << 51, ~0x000FFFFF_000FFFFF


class Searched(NamedTuple):
    """Of all that a team works on, what is read and written to compare cuts. See `Growing`."""

    histograms: NDArray[np.int64]
    nodes: NDArray[np.int64]
    team: NDArray[np.int64]
    block_gains: NDArray[np.float64]
    block_cuts: NDArray[np.int64]
    block_tables: NDArray[np.uint8]


@kernel
def _copy_numbers(flat, message, way):
    """Copy numbers to a message or from it, or add those of the message."""
    if way == _PACK:
        for i in range(len(message)):
            message[i] = flat[i]
    elif way == _SET:
        for i in range(len(message)):
            flat[i] = message[i]
    else:
        for i in range(len(message)):
            flat[i] += message[i]


@inline_kernel
def _narrow(cell):
    """The lower 20 bits of both halves of a packed sum, side by side."""
    return (cell & _LOW) | ((cell >> 12) & _HIGH)


@inline_kernel
def _widen(bits):
    """The packed sum that has such bits."""
    return (((bits & _LOW) | ((bits & _HIGH) << 12)) ^ _SIGN) - _SIGN


@kernel
def _narrow_words(cells, out):
    """Write 32 of 40 bits of all cells: the first half of them to lower halves of words."""
    first, second = cells[: len(out)], cells[len(out) :]
    for i in range(len(out)):
        out[i] = (_narrow(first[i]) & _WORD) | (_narrow(second[i]) << 32)


@kernel
def _narrow_bytes(cells, out):
    """Write the upper 8 of 40 bits of all cells: the first eighth of them to lowest bytes."""
    n = len(out)
    for eighth in range(8):
        some, shift = cells[n * eighth : n * (eighth + 1)], 8 * eighth
        for i in range(n):
            out[i] = (out[i] if eighth else 0) | ((_narrow(some[i]) >> 32) << shift)


@kernel
def _add_narrow(cells, words, shift, uppers, upper_shift):
    """Add cells of which words have the lower bits and bytes of others the upper ones."""
    for i in range(len(cells)):
        upper = (uppers[i] >> upper_shift) & 0xFF
        cells[i] += _widen(((words[i] >> shift) & _WORD) | (upper << 32))


@kernel
def _bits_beyond(cells):
    """The bits that cells have beyond those that are written, all of them together."""
    beyond = np.int64(0)
    for i in range(len(cells)):
        beyond |= (cells[i] + _SIGN) & _BEYOND
    return beyond


@kernel
def _pack_narrow(cells, message, at):
    """Write cells in 5 bytes each: how many need more, 32 and 8 bits of each, and what is missing.

    A cell that needs more is written as its place and what it has beyond the 40 bits. If that makes
    more bytes than 8 for each, all are written as they are, after a -1. Returns the place after it.
    """
    n = len(cells)
    end, most = at + 1 + n // 2 + n // 8, at + 1 + n
    _narrow_words(cells, message[at + 1 : at + 1 + n // 2])
    _narrow_bytes(cells, message[at + 1 + n // 2 : end])
    message[at] = 0
    for start in range(0, n, 32):
        some = cells[start : start + 32]
        if _bits_beyond(some) == 0:
            continue
        for i in range(len(some)):
            missing = some[i] - _widen(_narrow(some[i]))
            if missing == 0:
                continue
            if end + 2 > most:
                message[at] = -1
                _copy_numbers(cells, message[at + 1 : most], _PACK)
                return most
            message[end] = start + i
            message[end + 1] = missing
            end += 2
            message[at] += 1
    return end


@kernel
def _take_narrow(cells, message, at):
    """Add cells that are written so; the place after them, beyond a message that is too short."""
    n = len(cells)
    if at + 1 + n // 2 + n // 8 > len(message):
        return len(message) + 1
    n_more = message[at]
    at += 1
    if n_more < 0:
        if at + n <= len(message):
            _copy_numbers(cells, message[at : at + n], _ADD)
        return at + n
    length = n // 8
    uppers = message[at + n // 2 : at + n // 2 + length]
    for eighth in range(8):
        start = at + length * (eighth % 4)
        _add_narrow(
            cells[length * eighth : length * (eighth + 1)], message[start : start + length],
            32 * (eighth // 4), uppers, 8 * eighth
        )  # fmt: skip
    at += n // 2 + length
    if at + 2 * n_more <= len(message):
        for _ in range(n_more):
            cells[message[at] % n] += message[at + 1]
            at += 2
        return at
    return len(message) + 1


@kernel
def _copy_block(flat, n_bins, columns, n_columns, message, at, way):
    """Copy or add the columns of a block that are sent: the place after them in the message."""
    first = 0
    if way >= _NARROW and n_columns == 16:
        # Missing values of a feature are one number, which is often large.
        cells, first = flat[: 16 * n_bins], n_bins
        if way == _NARROW:
            at = _pack_narrow(cells, message, at)
        else:
            at = _take_narrow(cells, message, at)
    if way >= _NARROW:
        way = _PACK if way == _NARROW else _ADD
    n_numbers = (n_bins - first + 1) * n_columns
    if at + n_numbers > len(message):
        return len(message) + 1
    for start, end in ((first, n_bins), (255, 256)):
        if n_columns == 16:
            # All of them stand side by side.
            n = 16 * (end - start)
            _copy_numbers(flat[16 * start :], message[at : at + n], way)
            at += n
            continue
        for row in range(start, end):
            for i in range(n_columns):
                cell = 16 * row + columns[i]
                if way == _PACK:
                    message[at + i] = flat[cell]
                else:
                    flat[cell] = message[at + i] + (flat[cell] if way == _ADD else 0)
            at += n_columns
    return at


@kernel
def _pack_sums(
    histograms, pending, n_pending, block_bins, columns, n_columns, block_bounds, rank, message,
    bounds, way
):  # fmt: skip
    """Write what is sent to each other grower: its blocks of all histograms, and all other sums.

    OUT: message, but for the part of the grower of this rank, and the bounds of parts. Returns
    whether there are histograms: without them the other sums are written once.
    """
    n_slots = np.int64(0)
    for i in range(n_pending):
        n_slots += pending[i, PENDING_SLOT] >= 0
    at = np.int64(0)
    for part in range(len(block_bounds) - 1):
        if part == rank and n_slots > 0:
            if way == _PACK:
                for block in range(block_bounds[part], block_bounds[part + 1]):
                    at += n_slots * (block_bins[block] + 1) * n_columns[block]
                at += 2 * n_pending
            bounds[part + 1] = at
            continue
        for i in range(n_pending):
            slot = pending[i, PENDING_SLOT]
            if slot >= 0:
                for block in range(block_bounds[part], block_bounds[part + 1]):
                    at = _copy_block(
                        flattened(histograms[slot, block]), block_bins[block], columns[block],
                        n_columns[block], message, at, way
                    )  # fmt: skip
        for i in range(n_pending):
            message[at] = pending[i, PENDING_COUNT]
            message[at + 1] = pending[i, PENDING_TOTAL]
            at += 2
        bounds[part + 1] = at
        if n_slots == 0:
            return False
    return True


@kernel
def _take_sums(
    histograms, pending, n_pending, block_bins, columns, n_columns, first, end, message, way
):  # fmt: skip
    """Put sums of some blocks, and the other ones, where they belong, or add them to what is there.

    OUT: histograms, pending. Returns the length of such a message; an empty one adds nothing.
    """
    at = np.int64(0)
    if len(message) == 0:
        return at
    for i in range(n_pending):
        slot = pending[i, PENDING_SLOT]
        if slot >= 0:
            for block in range(first, end):
                at = _copy_block(
                    flattened(histograms[slot, block]), block_bins[block], columns[block],
                    n_columns[block], message, at, way
                )  # fmt: skip
    if at + 2 * n_pending > len(message):
        return len(message) + 1
    for i in range(n_pending):
        for j in range(2):
            here = pending[i, PENDING_COUNT + j] if way != _SET else 0
            pending[i, PENDING_COUNT + j] = message[at] + here
            at += 1
    return at


@kernel
def _pack_cut(g, side, block, words):
    """Write the cut of a block, or one that gains nothing if there is none."""
    words[:] = 0
    if block < 0:
        return
    for i in range(2):
        words[i] = np.float64(g.block_gains[block, side, i]).view(np.int64)
    for i in range(3):
        words[2 + i] = g.block_cuts[block, side, i]
    for code in range(256):
        words[5 + code // 64] |= np.int64(g.block_tables[block, side, code]) << np.int64(code % 64)


@kernel
def _pack_cuts(g, features, n_bins, by_level, first, end, words):
    """Write the best cuts of some blocks, and what goes left under that of a level in its nodes."""
    if not by_level:
        for side in range(len(words) // CUT_WORDS):
            at = side * CUT_WORDS
            block = best_block(g, side, first, end, features)
            _pack_cut(g, side, block, words[at : at + CUT_WORDS])
        return
    side = np.int64(0)
    block = best_block(g, side, first, end, features)
    _pack_cut(g, side, block, words[:CUT_WORDS])
    for at in range(CUT_WORDS, len(words)):
        node = g.nodes[g.team[N_SPLITS] + at - CUT_WORDS]
        words[at] = 0
        if block >= 0 and node[SLOT] >= 0 and node[COUNT] > 0:
            place = g.block_cuts[block, 0, 0]
            words[at] = sum_left(
                g.histograms[node[SLOT], block], place % 16, n_bins[features[place]],
                g.block_tables[block, 0]
            )  # fmt: skip


@kernel
def _take_cuts(g, n_cuts, words, left_totals):
    """Put the best cuts of all growers where those of blocks stand, one per grower."""
    g.block_gains[:] = 0.0
    for i in range(len(words)):
        for side in range(n_cuts):
            at = side * CUT_WORDS
            for j in range(2):
                g.block_gains[i, side, j] = np.int64(words[i, at + j]).view(np.float64)
            for j in range(3):
                g.block_cuts[i, side, j] = words[i, at + 2 + j]
            for code in range(256):
                word = words[i, at + 5 + code // 64]
                g.block_tables[i, side, code] = (word >> np.int64(code % 64)) & 1
        for at in range(CUT_WORDS * n_cuts, words.shape[1]):
            left_totals[i, at - CUT_WORDS * n_cuts] = words[i, at]


class Exchange:
    """What one of several growers adds up and compares with the others.

    Parameters
    ----------
    peers, layout, most_nodes, by_level
        All growers; the features; how many sums may be pending at once; and whether a whole level
        has one cut.

    Attributes
    ----------
    pending
        What the growing kernel knows of it.
    """

    def __init__(self, peers: Peers, layout: Layout, most_nodes: int, by_level: bool) -> None:
        self._peers, self._layout, self._by_level = peers, layout, by_level
        n_blocks = len(layout.block_bins)
        n_bytes = 128 * int((layout.block_bins + 1).sum())
        shared = peers.size > 1 and n_blocks > 1 and n_bytes >= LEAST_SHARED_BYTES
        n_parts = peers.size if shared else 1
        self._block_bounds = n_blocks * np.arange(n_parts + 1, dtype=np.int64) // n_parts
        self._owners = [first < end for first, end in pairwise(self._block_bounds.tolist())]
        part = peers.rank if shared else 0
        self._blocks = (self._block_bounds[part], self._block_bounds[part + 1])
        self.pending = Pending(
            sums=np.empty((most_nodes, N_PENDING_INTS), dtype=np.int64),
            left_totals=np.empty((n_blocks, most_nodes if by_level else 0), dtype=np.int64),
            first_block=int(self._blocks[0]),
            end_block=int(self._blocks[1]),
            shared=shared,
        )
        # What is sent is not written where nobody reads it, as all of it is after a sum.
        self._unsent_rank = np.int64(part if shared else -1)
        self._bounds = np.zeros(n_parts + 1, dtype=np.int64)
        self._message = np.empty(0, dtype=np.int64)
        self._allowed = b""

    def begin_tree(self, state: Growing) -> None:
        """Take note of the features that may be split by: no others are sent."""
        self._searched = Searched(*(getattr(state, name) for name in Searched._fields))
        allowed = state.allowed.tobytes()
        if allowed == self._allowed:
            return
        self._allowed = allowed
        features, block_bins = self._layout.features.reshape(-1, 16), self._layout.block_bins
        sent = (features >= 0) & state.allowed[features]
        n_columns = as_input(np.count_nonzero(sent, axis=1), np.int64)
        columns = as_input(np.argsort(~sent, axis=1, kind="stable"), np.int64)
        self._columns = (block_bins, columns, n_columns)
        self._n_cells = int(((block_bins + 1) * n_columns).sum())

    def run(self, state: Growing) -> None:
        """Do what the growing kernel has come back for."""
        step = state.team[STEP]
        if step == REDUCE:
            self._add_up()
        elif step == COMPARE:
            self._compare()

    def _add_up(self) -> None:
        """Add up the pending counts, totals and histograms, all in one message."""
        histograms, bounds = self._searched.histograms, self._bounds
        n_pending = self._searched.team[N_PENDING]
        pending = (self.pending.sums, n_pending)
        most = n_pending * (self._n_cells + len(self._layout.block_bins) + 2 * (len(bounds) - 1))
        if len(self._message) < most:
            self._message = np.empty(most, dtype=np.int64)
        is_direct = self.pending.shared and self._peers.size <= MOST_DIRECT
        has_histograms = _pack_sums(
            histograms, *pending, *self._columns, self._block_bounds, self._unsent_rank,
            self._message, bounds, _NARROW if is_direct else _PACK
        )  # fmt: skip
        edges = bounds.tolist()
        if has_histograms and is_direct:
            parts = [self._message[first:end] for first, end in pairwise(edges)]
            received, way = self._peers.scatter(parts), _ADD_NARROW
        elif has_histograms and self.pending.shared:
            received = [self._peers.reduce_scatter(self._message[: edges[-1]], edges)]
            way = _ADD
        else:
            received = [self._message[: edges[-1] if has_histograms else 2 * n_pending]]
            way = _SET
            self._peers.sum(received[0])
        for sums in received:
            length = _take_sums(histograms, *pending, *self._columns, *self._blocks, sums, way)
            if length != len(sums):
                raise RankgroveError(
                    f"a message of sums must have as many numbers as features of all workers say. "
                    f"Got {len(sums)}: train on data of the same features."
                )

    def _compare(self) -> None:
        """Let every grower know the best cuts of each; one that owns no block sends nothing."""
        team, first, end = self._searched.team, *self._blocks
        n_cuts = 1 if self._by_level or team[OTHER] < 0 else 2
        n_totals = team[LEVEL_END] - team[N_SPLITS] if self._by_level else 0
        message = np.empty(CUT_WORDS * n_cuts + n_totals, dtype=np.int64)
        layout = (self._layout.features, self._layout.n_bins)
        _pack_cuts(self._searched, *layout, self._by_level, first, end, message)
        lengths = [message.nbytes * owns_blocks for owns_blocks in self._owners]
        everybodys = self._peers.gather(message.tobytes() if first < end else b"", lengths)
        words = np.frombuffer(b"".join(everybodys), dtype=np.int64).reshape(-1, len(message))
        _take_cuts(self._searched, n_cuts, words, self.pending.left_totals)

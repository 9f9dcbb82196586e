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

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel
from rankgrove._jit.peers import Peers
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


@kernel
def _copy_block(flat, n_bins, columns, n_columns, message, at, back):
    """Copy the columns of a block that are sent to a message, or back: the place after them."""
    for start, end in ((0, n_bins), (255, 256)):
        if n_columns == 16:
            # All of them stand side by side.
            n = 16 * (end - start)
            if back:
                flat[16 * start : 16 * end] = message[at : at + n]
            else:
                message[at : at + n] = flat[16 * start : 16 * end]
            at += n
            continue
        for row in range(start, end):
            for i in range(n_columns):
                if back:
                    flat[16 * row + columns[i]] = message[at + i]
                else:
                    message[at + i] = flat[16 * row + columns[i]]
            at += n_columns
    return at


@kernel
def _pack_sums(histograms, slots, block_bins, columns, n_columns, block_bounds, sums, message):
    """Write what is sent to each grower: its blocks of all histograms, and all other sums."""
    at = np.int64(0)
    for part in range(len(block_bounds) - 1):
        for slot in slots:
            for block in range(block_bounds[part], block_bounds[part + 1]):
                at = _copy_block(
                    histograms[slot, block].reshape(4096), block_bins[block], columns[block],
                    n_columns[block], message, at, False
                )  # fmt: skip
        for i in range(len(sums)):
            message[at] = sums[i]
            at += 1


@kernel
def _take_sums(histograms, slots, block_bins, columns, n_columns, first, end, message, sums):
    """Put the sums of some blocks, and the other ones, where they belong."""
    at = np.int64(0)
    for slot in slots:
        for block in range(first, end):
            at = _copy_block(
                histograms[slot, block].reshape(4096), block_bins[block], columns[block],
                n_columns[block], message, at, True
            )  # fmt: skip
    for i in range(len(sums)):
        sums[i] = message[at + i]


@kernel
def _pack_cut(g, side, block, words, floats):
    """Write the cut of a block, or one that gains nothing if there is none."""
    words[:] = 0
    if block < 0:
        return
    for i in range(2):
        floats[i] = g.block_gains[block, side, i]
    for i in range(3):
        words[2 + i] = g.block_cuts[block, side, i]
    for code in range(256):
        words[5 + code // 64] |= np.int64(g.block_tables[block, side, code]) << np.int64(code % 64)


@kernel
def _pack_cuts(g, layout, by_level, first, end, words, floats):
    """Write the best cuts of some blocks, and what goes left under that of a level in its nodes."""
    if not by_level:
        for side in range(len(words) // CUT_WORDS):
            at = side * CUT_WORDS
            block = best_block(g, side, first, end, layout.features)
            _pack_cut(g, side, block, words[at : at + CUT_WORDS], floats[at:])
        return
    side = np.int64(0)
    block = best_block(g, side, first, end, layout.features)
    _pack_cut(g, side, block, words[:CUT_WORDS], floats)
    for at in range(CUT_WORDS, len(words)):
        node = g.nodes[g.team[N_SPLITS] + at - CUT_WORDS]
        words[at] = 0
        if block >= 0 and node[SLOT] >= 0 and node[COUNT] > 0:
            place = g.block_cuts[block, 0, 0]
            words[at] = sum_left(
                g.histograms[node[SLOT], block], place % 16, layout.n_bins[layout.features[place]],
                g.block_tables[block, 0]
            )  # fmt: skip


@kernel
def _take_cuts(g, n_cuts, words, floats, left_totals):
    """Put the best cuts of all growers where those of blocks stand, one per grower."""
    g.block_gains[:] = 0.0
    for i in range(len(words)):
        for side in range(n_cuts):
            at = side * CUT_WORDS
            for j in range(2):
                g.block_gains[i, side, j] = floats[i, at + j]
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
        part = peers.rank if shared else 0
        self.pending = Pending(
            sums=np.empty((most_nodes, N_PENDING_INTS), dtype=np.int64),
            left_totals=np.empty((n_blocks, most_nodes if by_level else 0), dtype=np.int64),
            first_block=int(self._block_bounds[part]),
            end_block=int(self._block_bounds[part + 1]),
            shared=shared,
        )
        self._message = np.empty(0, dtype=np.int64)

    def begin_tree(self, allowed: NDArray[np.bool_]) -> None:
        """Take note of the features that may be split by: no others are sent."""
        features = self._layout.features.reshape(-1, 16)
        sent = (features >= 0) & allowed[features]
        self._n_columns = np.count_nonzero(sent, axis=1)
        self._columns = as_input(np.argsort(~sent, axis=1, kind="stable"), np.int64)
        cells = (self._layout.block_bins + 1) * self._n_columns
        ends = np.concatenate([[0], np.cumsum(cells)])[self._block_bounds]
        self._part_cells = as_input(np.diff(ends), np.int64)

    def run(self, state: Growing) -> None:
        """Do what the growing kernel has come back for."""
        if state.team[STEP] == REDUCE:
            self._add_up(state)
        elif state.team[STEP] == COMPARE:
            self._compare(state)

    def _add_up(self, state: Growing) -> None:
        """Add up the pending counts, totals and histograms, all in one message."""
        pending, own = self.pending, self.pending.sums[: state.team[N_PENDING]]
        slots = as_input(own[own[:, PENDING_SLOT] >= 0, PENDING_SLOT], np.int64)
        sums = np.ascontiguousarray(own[:, [PENDING_COUNT, PENDING_TOTAL]]).reshape(-1)
        if len(slots) == 0:
            self._peers.sum(sums)
        else:
            layout = (self._layout.block_bins, self._columns, self._n_columns)
            lengths = self._part_cells * len(slots) + len(sums)
            bounds = [0, *np.cumsum(lengths).tolist()]
            if len(self._message) < bounds[-1]:
                self._message = np.empty(bounds[-1], dtype=np.int64)
            message = self._message[: bounds[-1]]
            _pack_sums(state.histograms, slots, *layout, self._block_bounds, sums, message)
            if pending.shared:
                message = self._peers.reduce_scatter(message, bounds)
            else:
                self._peers.sum(message)
            blocks = (np.int64(pending.first_block), np.int64(pending.end_block))
            _take_sums(state.histograms, slots, *layout, *blocks, message, sums)
        own[:, [PENDING_COUNT, PENDING_TOTAL]] = sums.reshape(-1, 2)

    def _compare(self, state: Growing) -> None:
        """Let every grower know the best cuts of each; one that owns no block sends nothing."""
        team, pending = state.team, self.pending
        n_cuts = np.int64(1 if self._by_level or team[OTHER] < 0 else 2)
        n_totals = team[LEVEL_END] - team[N_SPLITS] if self._by_level else 0
        message = np.empty(CUT_WORDS * n_cuts + n_totals, dtype=np.int64)
        blocks = (np.int64(pending.first_block), np.int64(pending.end_block))
        floats = message.view(np.float64)
        _pack_cuts(state, self._layout, self._by_level, *blocks, message, floats)
        own = message.tobytes() if pending.first_block < pending.end_block else b""
        words = np.frombuffer(bytearray().join(self._peers.gather(own)), dtype=np.int64)
        words = words.reshape(-1, len(message))
        _take_cuts(state, n_cuts, words, words.view(np.float64), pending.left_totals)

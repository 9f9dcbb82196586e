"""Growing trees on one binned matrix, with memory that is kept from tree to tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, resolve_n_jobs, run_chunks
from rankgrove._jit.peers import Peers
from rankgrove.trees.binning import BLOCK, CATEGORICAL, BinnedMatrix, Bins
from rankgrove.trees.exchange import Exchange
from rankgrove.trees.growth import grow
from rankgrove.trees.histogram import make_tiles
from rankgrove.trees.partition import make_parts
from rankgrove.trees.search import N_RULES, Layout
from rankgrove.trees.team import (
    BIN,
    COUNT,
    DONE,
    END,
    GAIN,
    HAS_SUMMED,
    HIGH,
    KEY,
    LEAVE,
    LEFT,
    LOW,
    MOST_REMADE,
    N_CYCLES,
    N_NODE_FLOATS,
    N_NODE_INTS,
    N_PART_INTS,
    N_SPLITS,
    OVER,
    PLACE,
    SLOT,
    START,
    STEP,
    TICKET,
    TOTAL,
    Growing,
    Level,
    Settings,
)

Growth = Literal["leafwise", "depthwise", "oblivious"]
GROWERS: tuple[str, ...] = get_args(Growth)

_NO_DEPTH = float(1 << 40)

# With at most so many codes of sparse features for each cell of their histograms, most cells are
# empty in all but the largest nodes.
_MOST_CODES = 2

# One more thread pays for so much work of a tree, half a millisecond: to call it and to wait for it
# takes a tenth of one.
WORK_A_THREAD = 1 << 16

# How often the rows of all nodes that are summed make up all rows, about.
_TIMES_SUMMED = 6


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """How a tree grows. See `Ranker` for what each means."""

    grower: Growth = "leafwise"
    max_leaves: int = 63
    max_depth: int | None = None
    min_samples_leaf: int = 20
    min_child_weight: float = 1e-3
    l2: float = 0.0
    category_l2: float = 10.0
    category_smoothing: float = 10.0
    max_categories: int = 32


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree as it was grown, in terms of codes, before its leaves have values.

    Attributes
    ----------
    features, bins, tables, gains, left, right
        One per split: its feature, the last bin that goes left, which codes go left, the gain, and
        the children as in `Tree`.
    start, end, count, low, high
        One per leaf: its stretch of rows, their number, and bounds of its value.
    parts
        The rows of leaves in parts (leaf, start, end), by `make_parts`.
    """

    features: NDArray[np.int64]
    bins: NDArray[np.int64]
    tables: NDArray[np.uint8]
    gains: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    count: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    parts: NDArray[np.int64]

    @property
    def n_leaves(self) -> int:
        return len(self.start)


def _has_mostly_empty_cells(matrix: BinnedMatrix) -> bool:
    """Whether sparse features have few codes for so many cells: small nodes then keep none."""
    others = matrix.others
    if others is None:
        return False
    n_cells = BLOCK * int(matrix.block_bins[others.first_block :].sum())
    return len(others.cells) <= _MOST_CODES * n_cells


def _work(matrix: BinnedMatrix, max_leaves: int) -> int:
    """How much work a tree is: bins of blocks that are searched, rows that are added to them."""
    searched = 2 * max_leaves * int(matrix.block_bins.sum())
    return searched + _TIMES_SUMMED * matrix.n_rows * matrix.n_blocks


class Grower:
    """Grows trees on one binned matrix, with memory that it keeps from tree to tree.

    Parameters
    ----------
    matrix, bins, options, signs
        The rows, how their features were cut, how trees grow, and the sign of each feature that
        is monotone, 0 for others.
    peers
        The growers that have other rows of the same data; None if this one has all of them.
    part_rows
        Rows of a node are divided, put in order and, if there are many, summed in parts of this
        size.
    few_rows
        A smaller child with at most so many rows is summed block by block, not part by part.
    kept_rows
        The histograms of a node with at most so many rows, no more than `few_rows`, are not kept
        but summed again if needed. With peers all are kept.
    remade_share
        Where sparse features have few codes for so many cells of histograms, a node with at most
        this share of the rows keeps none of them: what it needs is made from the rows that have
        these codes. With peers all are kept.

    Attributes
    ----------
    cycles
        Processor cycles that each thread has spent on dividing rows, on summing and on scanning
        histograms.
    """

    def __init__(
        self,
        matrix: BinnedMatrix,
        bins: Bins,
        options: TreeOptions,
        *,
        signs: NDArray[np.int8] | None = None,
        n_jobs: int | None = None,
        peers: Peers | None = None,
        part_rows: int = 1 << 13,
        few_rows: int = 1 << 10,
        kept_rows: int = 1 << 9,
        remade_share: float = 1 / 16,
    ) -> None:
        self.matrix, self.options, self._peers = matrix, options, peers
        self._most_remade = max(int(remade_share * matrix.n_rows), kept_rows)
        self._remakes = peers is None and _has_mostly_empty_cells(matrix)
        if matrix.others is not None and not self._remakes:
            # To look for the cells of a row in each block takes as long as to go over the cells of
            # all histograms for each two rows and bin.
            n_bins = matrix.block_bins[matrix.others.first_block :]
            few_rows = min(few_rows, 2 * int(n_bins.sum()) // len(n_bins))
            kept_rows = min(kept_rows, few_rows)
        most_threads = max(_work(matrix, options.max_leaves) // WORK_A_THREAD, 1)
        self.n_jobs = min(resolve_n_jobs(n_jobs), most_threads)
        signs = np.zeros(len(bins.n_bins), np.int8) if signs is None else signs
        self._layout = Layout(
            block_kinds=as_input(matrix.block_kinds, np.int64),
            block_bins=as_input(matrix.block_bins, np.int64),
            features=as_input(matrix.features, np.int64),
            kinds=as_input(bins.kinds, np.int64),
            n_bins=as_input(bins.n_bins, np.int64),
            signs=as_input(signs, np.float64),
            n_pairs=matrix.n_pairs,
        )
        self._settings = Settings(
            has_monotone=bool(np.any(signs)),
            best_first=options.grower == "leafwise",
            max_leaves=options.max_leaves,
            part_rows=part_rows,
            few_rows=few_rows,
            kept_rows=kept_rows if peers is None else -1,
        )
        self.cycles = np.zeros((self.n_jobs, N_CYCLES), dtype=np.int64)
        self._level = self._allocate_level() if options.grower == "oblivious" else None
        self._exchange = None
        if peers is not None:
            by_level = options.grower == "oblivious"
            self._exchange = Exchange(peers, self._layout, options.max_leaves, by_level)
        self._state = self._allocate()
        self._all_free = np.arange(len(self._state.free))[::-1].copy()

    def _allocate(self) -> Growing:
        """All arrays, but those that every tree brings."""
        matrix, max_leaves, n_jobs = self.matrix, self.options.max_leaves, self.n_jobs
        n_nodes, n_blocks = 2 * max_leaves - 1, matrix.n_blocks
        n_words = matrix.codes.shape[1] // 8
        # Pages that no tree needs are never touched, and so cost no memory.
        block, n_histograms = (n_blocks, 256, 16), max_leaves
        if self._peers is None:
            n_kept = matrix.n_rows // (self._settings.kept_rows + 1) + 1
            n_histograms = min(max_leaves, n_kept)
        else:
            # One more to count rows in.
            n_histograms += 1
        others = matrix.others if self._peers is None else None
        n_sums = len(others.common) if others is not None and self._remakes else 0
        n_parts = -(-matrix.n_rows // self._settings.part_rows) + 16
        none = as_input([], np.int64)
        return Growing(
            packed=none,
            ones=as_input([1], np.int64),
            rows=np.empty(0, dtype=np.int32),
            spare=np.empty(matrix.n_rows, dtype=np.int32),
            allowed=as_input([], np.bool_),
            rules=as_input([], np.float64),
            # Without a copy by feature, columns are read where they stand.
            columns=as_input(matrix.by_feature, np.uint8)
            if len(matrix.by_feature) or not n_words
            else matrix.codes.T,
            words=as_input(matrix.codes.view(np.uint64).reshape(-1), np.uint64),
            histograms=np.empty((n_histograms, *block), dtype=np.int64),
            partials=np.empty((n_jobs - 1, *block), dtype=np.int64),
            free=np.empty(n_histograms, dtype=np.int64),
            nodes=np.zeros((n_nodes, N_NODE_INTS), dtype=np.int64),
            node_floats=np.zeros((n_nodes, N_NODE_FLOATS)),
            tables=np.empty((n_nodes, 256), dtype=np.uint8),
            splits=np.empty(n_nodes, dtype=np.int64),
            parts=np.empty((n_parts, N_PART_INTS), dtype=np.int64),
            side_rules=np.empty((2, N_RULES)),
            block_gains=np.empty((n_blocks, 2, 2)),
            block_cuts=np.empty((n_blocks, 2, 3), dtype=np.int64),
            block_tables=np.empty((n_blocks, 2, 256), dtype=np.uint8),
            team=np.zeros(HAS_SUMMED + n_jobs, dtype=np.int64),
            row_tags=np.empty(0 if others is None else matrix.n_rows, dtype=np.int32),
            place_sums=np.empty((2 if n_sums else 0, n_sums), dtype=np.int64),
            tiles=make_tiles(n_jobs, n_words),
            scratch=np.empty((n_jobs, max(matrix.n_pairs, 1), 256, 16), dtype=np.int64),
            scan_rules=np.empty((n_jobs, N_RULES)),
            scan_gains=np.empty((n_jobs, 16)),
            scan_ints=np.empty((n_jobs, 3, 16), dtype=np.int64),
            counts=np.empty((n_jobs, 256), dtype=np.int64),
            orders=np.empty((n_jobs, 256), dtype=np.int64),
            cycles=self.cycles,
        )

    def _allocate_level(self) -> Level:
        has_categories = bool(np.any(self._layout.block_kinds == CATEGORICAL))
        has_orders = self._settings.has_monotone or has_categories
        n_places = 16 * self.matrix.n_blocks
        return Level(
            gains=np.empty((self.n_jobs, 2, 256, 16)),
            orders=np.zeros((n_places, 256), dtype=np.int64) if has_orders else None,
            n_ordered=np.zeros(n_places, dtype=np.int64) if has_orders else None,
        )

    def grow(
        self,
        packed: NDArray[np.int64],
        units: tuple[float, float],
        rows: NDArray[np.int32],
        allowed: NDArray[np.bool_],
        more_l2: float = 0.0,
        category_unit: float = 1.0,
        noise: tuple[float, int] = (0.0, 0),
    ) -> GrownTree:
        """Grow a tree on these rows, which are put into the order of its leaves.

        Parameters
        ----------
        packed, units
            Forces and curvatures in whole units, and what these are worth.
        rows
            The rows that count, in rising order.
        allowed
            Whether each feature may be split by.
        more_l2
            Added to the `l2` of the options.
        category_unit
            The curvature that `category_l2` and `category_smoothing` are counted in.
        noise
            The scale of normal noise in the roots of the sums that features are compared by, and
            the number that it is drawn by.
        """
        gain_unit = units[0] * units[0] / units[1]
        state = self._state._replace(
            packed=as_input(packed, np.int64),
            rows=rows,
            allowed=as_input(allowed, np.bool_),
            rules=self._rules_in(units[1], more_l2, category_unit, noise[0] / math.sqrt(gain_unit)),
        )
        root = state.nodes[0]
        state.free[:] = self._all_free
        if len(state.row_tags):
            state.row_tags.fill(-1)
            state.row_tags[rows] = 0
        root[:] = 0
        root[END] = root[COUNT] = len(rows)
        root[SLOT], root[PLACE] = state.free[-1], -1
        whole = len(rows) == len(packed)
        root[TOTAL] = packed.sum() if whole else packed[rows].sum()
        state.node_floats[0] = 0.0, -np.inf, np.inf
        if self.options.max_leaves > 1 or self._peers is not None:
            if self._exchange is not None:
                self._exchange.begin_tree(state)
            self._run(state, gain_unit, noise[1])
        return self._grown(rows, int(state.team[N_SPLITS]))

    def _run(self, state: Growing, gain_unit: float, key: int) -> None:
        """Have the team grow the tree, and talk with peers whenever it comes back for that."""
        team, exchange = state.team, self._exchange
        fixed = (self._layout, self.matrix.others, self._settings)
        pending = None if exchange is None else exchange.pending
        team[:] = 0
        team[KEY], team[MOST_REMADE] = key, self._most_remade

        def task(worker: int) -> None:
            try:
                grow(state, *fixed, worker, gain_unit, self._level, pending)
            except BaseException:
                # The others must not wait for what this one would have done.
                team[LEAVE] = 1
                raise

        while team[STEP] != OVER:
            if exchange is not None:
                exchange.run(state)
            team[[TICKET, DONE, LEAVE]] = 0
            run_chunks(task, self.n_jobs, self.n_jobs)

    def _rules_in(
        self, unit: float, more_l2: float, category_unit: float, noise: float
    ) -> NDArray[np.float64]:
        options = self.options
        rules = [
            options.min_child_weight / unit,
            (options.l2 + more_l2) / unit,
            options.min_samples_leaf,
            options.category_l2 * category_unit / unit,
            options.category_smoothing * category_unit / unit,
            options.max_categories,
            _NO_DEPTH if options.max_depth is None else options.max_depth,
            options.category_smoothing,
            noise,
            0.0,
        ]
        return as_input(rules, np.float64)

    def _grown(self, rows: NDArray[np.int32], n_splits: int) -> GrownTree:
        splits = self._state.splits[:n_splits]
        nodes, floats = self._state.nodes, self._state.node_floats
        # A split has the number of its turn, and a leaf ~ its own, in the order of their parents:
        # that of the nodes, in which the children of a split come next to each other.
        leaves = np.flatnonzero(nodes[: 2 * n_splits + 1, LEFT] == 0)
        numbers = np.empty(2 * n_splits + 1, dtype=np.int32)
        numbers[splits] = np.arange(n_splits)
        numbers[leaves] = ~np.arange(len(leaves), dtype=np.int32)
        # (Whole rows are taken faster than elements of them.)
        split, leaf, bounds = nodes[splits], nodes[leaves], floats[leaves]
        start, end = leaf[:, START].copy(), leaf[:, END].copy()
        return GrownTree(
            features=self.matrix.features[split[:, PLACE]],
            bins=split[:, BIN],
            tables=self._state.tables[splits],
            gains=floats[splits, GAIN],
            left=numbers[1::2].copy(),
            right=numbers[2::2].copy(),
            start=start,
            end=end,
            count=leaf[:, COUNT].copy(),
            low=bounds[:, LOW],
            high=bounds[:, HIGH],
            parts=make_parts(rows, start, end, self.matrix.n_rows),
        )

"""Growing one tree: which node is split next, and the bookkeeping of its rows and histograms.

Nodes are expanded in small batches: besides the best node those that come next are divided and
searched too, since they will nearly always be wanted, and one hand-out of work to the threads
serves them all. A batch depends on the data only, so the tree does not depend on the threads.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, resolve_n_jobs, run_chunks
from rankgrove.trees.binning import PLAIN, BinnedMatrix, Bins
from rankgrove.trees.expand import (
    DIVIDING,
    L2,
    LEFT_BOUNDS,
    LEFT_CUT,
    LEFT_GAIN,
    LEFT_SUM,
    N_FOUND_FLOATS,
    N_FOUND_INTS,
    N_LEFT,
    N_RULES,
    RIGHT_CUT,
    ROOT,
    UNDIVIDED,
    expand,
    left_of,
    node_rules,
    search_counted,
)
from rankgrove.trees.partition import PART_ROWS, divide

Growth = Literal["leafwise", "depthwise"]
GROWERS: tuple[str, ...] = get_args(Growth)

# Nodes that are expanded together: enough rows to keep threads busy, or so many nodes.
_BATCH_ROWS = 1 << 15
_BATCH_NODES = 8

# A node of more rows is divided by all threads, and its blocks are searched as work of their own.
_LARGE = PART_ROWS

# A block costs about this many rows besides those it sums: clearing, subtracting, scanning.
_BLOCK_ROWS = 1500
# The least work that is worth handing to another thread, in rows of a block.
_LEAST_WORK = 10_000

_MASK = 0xFFFFFFFF
_NO_DEPTH = float(1 << 40)


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


class Node:
    """A node: a stretch of rows, their packed sum, bounds of its value, and its best cut."""

    __slots__ = (
        "children", "cut", "depth", "end", "gain", "high", "low", "new_slot", "slot", "start",
        "table", "total",
    )  # fmt: skip

    def __init__(self, start: int, end: int, depth: int, total: int) -> None:
        self.start, self.end, self.depth, self.total = start, end, depth, total
        self.low, self.high = -np.inf, np.inf
        self.gain = 0.0
        self.cut = (-1, 0, 0)
        # Where its histogram is, and where that of its smaller child will be.
        self.slot = self.new_slot = -1
        self.table: NDArray[np.uint8] | None = None
        self.children: tuple[Node, Node] | None = None

    @property
    def n_rows(self) -> int:
        return self.end - self.start


class _Found:
    """What expanding a node has found: how it was divided, and its children's best cuts."""

    __slots__ = ("bounds", "cuts", "gains", "left_sum", "n_left")

    def __init__(self, ints: list[int], floats: list[float]) -> None:
        self.n_left, self.left_sum = ints[N_LEFT], ints[LEFT_SUM]
        self.cuts = [ints[LEFT_CUT : LEFT_CUT + 3], ints[RIGHT_CUT : RIGHT_CUT + 3]]
        self.gains = floats[LEFT_GAIN : LEFT_GAIN + 2]
        self.bounds = floats[LEFT_BOUNDS:]

    def join(self, ints: list[int], floats: list[float], features: NDArray[np.int64]) -> None:
        """Take over better cuts among other blocks; of equal ones that of the lower feature."""
        for side in range(2):
            gain, cut = (
                floats[LEFT_GAIN + side],
                ints[LEFT_CUT + 3 * side : LEFT_CUT + 3 * side + 3],
            )
            better = gain > self.gains[side]
            if gain == self.gains[side] and gain > 0:
                better = features[cut[0]] < features[self.cuts[side][0]]
            if better:
                self.gains[side], self.cuts[side] = gain, cut


@dataclass(eq=False)
class GrownTree:
    """A tree as it was grown, in terms of codes, before its leaves have values.

    Attributes
    ----------
    places, tables, left, right
        One a split: the place of its feature in the binned matrix, which codes go left, and the
        children as in `Tree`.
    nodes
        One a split.
    leaves
        One a leaf.
    """

    places: NDArray[np.int64]
    tables: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    nodes: list[Node] = field(default_factory=list)
    leaves: list[Node] = field(default_factory=list)


class Grower:
    """Grows trees on one binned matrix, with memory that it keeps from tree to tree."""

    def __init__(
        self,
        matrix: BinnedMatrix,
        bins: Bins,
        options: TreeOptions,
        *,
        signs: NDArray[np.int8] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.matrix, self.bins, self.options = matrix, bins, options
        self.n_jobs = resolve_n_jobs(n_jobs)
        n_features = len(bins.n_bins)
        self._careful = signs is not None and bool(np.any(signs))
        signs = np.zeros(n_features, np.int8) if signs is None else signs
        self._signs = as_input(signs, np.float64)
        self._features = as_input(matrix.features, np.int64)
        self._block_kinds = as_input(matrix.block_kinds, np.int64)
        self._block_bins = as_input(matrix.block_bins, np.int64)
        self._n_bins = as_input(bins.n_bins, np.int64)
        self._kinds = as_input(bins.kinds, np.int64)
        # Every leaf may hold one, and two if it is expanded ahead. Pages that no tree needs are
        # never touched, and so cost no memory.
        slots = 2 * options.max_leaves
        self._histograms = np.empty((slots, matrix.n_blocks, 256, 16), dtype=np.int64)
        self._ones: NDArray[np.int64] | None = None
        # Processor cycles that kernels spent on dividing rows, summing and scanning histograms.
        self.cycles = dict.fromkeys(("divide", "sum", "scan"), 0)
        self._spare = np.empty(matrix.n_rows, dtype=np.int32)
        self._words = as_input(matrix.codes.view(np.uint64).reshape(-1), np.uint64)

    def grow(
        self,
        packed: NDArray[np.int64],
        units: tuple[float, float],
        rows: NDArray[np.int32],
        allowed: NDArray[np.bool_],
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
        """
        self._packed = as_input(packed, np.int64)
        self._rows = rows
        self._allowed = as_input(allowed, np.bool_)
        self._rules = self._rules_in(units[1])
        self._gain_unit = units[0] * units[0] / units[1]
        self._free = list(range(len(self._histograms) - 1, -1, -1))
        whole = len(rows) == len(packed)
        root = Node(0, len(rows), 0, int(packed.sum() if whole else packed[rows].sum()))
        if self.options.max_leaves > 1:
            self._search_root(root)
        return self._grow_from(root)

    def _grow_from(self, root: Node) -> GrownTree:
        waiting: list[tuple[float, int, Node]] = []
        numbers = itertools.count()
        splits: list[Node] = []

        def add(node: Node, number: int) -> None:
            if node.gain > 0:
                first = -node.gain if self.options.grower == "leafwise" else float(node.depth)
                heapq.heappush(waiting, (first, number, node))

        add(root, next(numbers))
        n_leaves = 1
        while waiting and n_leaves < self.options.max_leaves:
            node = waiting[0][2]
            if node.children is None:
                batch = self._next_batch(waiting, self.options.max_leaves - n_leaves)
                if self._expand(batch):
                    # Some cut did not hold, so the order may have changed.
                    entries = waiting.copy()
                    waiting.clear()
                    for _, number, other in entries:
                        add(other, number)
                continue
            heapq.heappop(waiting)
            splits.append(node)
            n_leaves += 1
            for child in node.children:
                add(child, next(numbers))
        return self._finish(root, splits)

    @staticmethod
    def _next_batch(waiting: list[tuple[float, int, Node]], room: int) -> list[Node]:
        batch: list[Node] = []
        n_rows = 0
        for _, _, node in heapq.nsmallest(min(_BATCH_NODES, -(-room // 2)), waiting):
            if n_rows >= _BATCH_ROWS:
                break
            if node.children is None:
                batch.append(node)
                n_rows += node.n_rows
        return batch

    def _rules_in(self, unit: float) -> NDArray[np.float64]:
        options = self.options
        rules = [
            options.min_child_weight / unit,
            options.l2 / unit,
            options.min_samples_leaf,
            options.category_l2 / unit,
            options.category_smoothing / unit,
            options.max_categories,
            _NO_DEPTH if options.max_depth is None else options.max_depth,
            options.category_smoothing,
        ]
        return as_input(rules, np.float64)

    def _set_cut(self, node: Node, gain: float, cut: list[int]) -> None:
        force, curvature = node.total >> 32, node.total & _MASK
        weight = curvature + self._rules[L2]
        own = force * force / weight if weight > 0 else 0.0
        # A gain in the last digits of its own terms is none.
        node.gain = (gain - own) * self._gain_unit if gain > own * (1 + 1e-12) else 0.0
        node.cut = (cut[0], cut[1], cut[2])

    def _job(self, node: Node, state: int, left_total: int) -> list[int]:
        """One row of work for `expand`, on all blocks."""
        return [
            node.start, node.end, node.slot, node.new_slot, node.total, *node.cut, node.depth,
            state, left_total, 0, self.matrix.n_blocks,
        ]  # fmt: skip

    def _search_root(self, root: Node) -> None:
        root.slot = root.new_slot = self._free.pop()
        found = self._run([root], [ROOT], [0])[0]
        self._set_cut(root, found.gains[0], found.cuts[0])

    def _expand(self, batch: list[Node]) -> bool:
        """Divide nodes and search their children; whether some cut did not hold."""
        states, totals = [UNDIVIDED] * len(batch), [0] * len(batch)
        large = [i for i, node in enumerate(batch) if node.n_rows > _LARGE]
        if large:
            tables = np.empty((len(large), 256), dtype=np.uint8)
            for i, table in zip(large, tables, strict=True):
                totals[i] = self._table_of(batch[i], table)
                batch[i].table = table
            counts = divide(
                self.matrix.by_feature, [batch[i].cut[0] for i in large], tables, self._rows,
                self._spare, [(batch[i].start, batch[i].end) for i in large], self.n_jobs,
            )  # fmt: skip
            for i, n_left in zip(large, counts, strict=True):
                states[i] = n_left
        for node in batch:
            node.new_slot = self._free.pop()
        failed = False
        fewest = self.options.min_samples_leaf
        for node, found in zip(batch, self._run(batch, states, totals), strict=True):
            n_right = node.n_rows - found.n_left
            if found.n_left < fewest or n_right < fewest:
                self._free.append(node.new_slot)
                self._rows[node.start : node.end].sort()
                self._count_exactly(node)
                failed = True
            else:
                self._make_children(node, found)
        return failed

    def _make_children(self, node: Node, found: _Found) -> None:
        middle = node.start + found.n_left
        left = Node(node.start, middle, node.depth + 1, found.left_sum)
        right = Node(middle, node.end, node.depth + 1, node.total - found.left_sum)
        # The smaller child's histogram is new, the larger one's is in the parent's place.
        slots = node.new_slot, node.slot
        left.slot, right.slot = slots if left.n_rows <= right.n_rows else slots[::-1]
        left.low, left.high, right.low, right.high = found.bounds
        for child, gain, cut in zip((left, right), found.gains, found.cuts, strict=True):
            self._set_cut(child, gain, cut)
            if child.gain <= 0:
                self._free.append(child.slot)
        node.children = left, right

    def _run(self, nodes: list[Node], states: list[int], totals: list[int]) -> list[_Found]:
        """Expand nodes on the threads: small ones whole, large ones by blocks."""
        n_blocks = self.matrix.n_blocks
        jobs, bounds, owners, at, work = [], [], [], [0], 0
        for i, (node, state, total) in enumerate(zip(nodes, states, totals, strict=True)):
            # The smaller child has at most half of the rows.
            rows = node.n_rows if state == ROOT else min(state, node.n_rows - state)
            rows = node.n_rows // 3 if state == UNDIVIDED else rows
            by_block = rows + _BLOCK_ROWS
            # The fewer parts, the less is fetched twice: a row's codes stand side by side.
            step = n_blocks if state == UNDIVIDED else -(-n_blocks // self.n_jobs)
            for first in range(0, n_blocks, step):
                job = self._job(node, state, total)
                job[-2:] = first, min(first + step, n_blocks)
                jobs.append(job)
                bounds.append((node.low, node.high))
                owners.append(i)
                work += by_block * (job[-1] - first)
                if work >= _LEAST_WORK:
                    at.append(len(jobs))
                    work = 0
        if at[-1] < len(jobs):
            at.append(len(jobs))
        table, limits = as_input(jobs, np.int64), as_input(bounds, np.float64)
        ints = np.empty((len(jobs), N_FOUND_INTS), dtype=np.int64)
        floats = np.empty((len(jobs), N_FOUND_FLOATS))
        tables = np.empty((len(jobs), 256), dtype=np.uint8)

        def task(chunk: int) -> None:
            expand(
                self.matrix.by_feature, self._words, self._packed, self._rows, self._spare, table,
                limits, self._rules, self._careful, self._histograms, self._block_kinds,
                self._block_bins, self._features, self._kinds, self._n_bins, self._allowed,
                self._signs, at[chunk], at[chunk + 1], tables, ints, floats,
            )  # fmt: skip

        run_chunks(task, len(at) - 1, self.n_jobs)
        for name, spent in zip(self.cycles, ints[:, DIVIDING:].sum(axis=0).tolist(), strict=True):
            self.cycles[name] += spent
        found: list[_Found] = []
        for j, (i, whole, real) in enumerate(
            zip(owners, ints.tolist(), floats.tolist(), strict=True)
        ):
            if i == len(found):
                found.append(_Found(whole, real))
                if states[i] == UNDIVIDED:
                    nodes[i].table = tables[j]
            else:
                found[i].join(whole, real, self._features)
        return found

    def _table_of(self, node: Node, table: NDArray[np.uint8]) -> int:
        """Which codes go left under the cut of a node, and the packed sum of their rows."""
        place, bin_, kind = node.cut
        rules = np.empty(N_RULES)
        node_rules(self._rules, float(node.total & _MASK), node.n_rows, rules)
        histogram = self._histograms[node.slot, place // 16]
        n_bins = int(self._n_bins[self._features[place]])
        return int(left_of(histogram, place % 16, n_bins, bin_, kind, rules, table))

    def _count_exactly(self, node: Node) -> None:
        """Find the best cut again with rows counted, where the estimate let a leaf too small by.

        The estimate still holds, so the new cut is never better than the old one, and it does not
        matter whether it is found ahead or when the node's turn has come.
        """
        if self._ones is None:
            self._ones = as_input(np.ones(self.matrix.n_rows), np.int64)
        cut = np.empty(3, dtype=np.int64)
        gain = search_counted(
            self._words, self._rows, node.start, node.end, node.total, self._rules,
            as_input([node.low, node.high], np.float64), self._histograms[node.slot],
            self._features, self._kinds, self._n_bins, self._allowed, self._signs, self._ones, cut,
        )  # fmt: skip
        self._set_cut(node, gain, cut.tolist())

    def _finish(self, root: Node, splits: list[Node]) -> GrownTree:
        number = {id(node): i for i, node in enumerate(splits)}
        leaves: list[Node] = []

        def child_number(node: Node) -> int:
            if id(node) in number:
                return number[id(node)]
            if node.children is not None:
                # Divided ahead and not wanted: back into rising order.
                self._rows[node.start : node.end].sort()
            leaves.append(node)
            return ~(len(leaves) - 1)

        if not splits:
            leaves.append(root)
        children = [[child_number(child) for child in node.children or ()] for node in splits]
        pairs = np.array(children, dtype=np.int32).reshape(-1, 2)
        tables = np.array([node.table for node in splits], dtype=np.uint8).reshape(-1, 256)
        for node, table in zip(splits, tables, strict=True):
            if self._kinds[self._features[node.cut[0]]] == PLAIN and node.children is not None:
                # Nothing was missing here in training: a missing value goes with the majority.
                table[255] = node.children[0].n_rows >= node.children[1].n_rows
        return GrownTree(
            places=np.array([node.cut[0] for node in splits], dtype=np.int64),
            tables=tables,
            left=np.ascontiguousarray(pairs[:, 0]),
            right=np.ascontiguousarray(pairs[:, 1]),
            nodes=splits,
            leaves=leaves,
        )

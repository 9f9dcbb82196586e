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
    RECOUNT,
    RIGHT_CUT,
    ROOT,
    STATE,
    UNDIVIDED,
    expand,
    left_of,
    node_rules,
    sum_part,
)
from rankgrove.trees.partition import divide

Growth = Literal["leafwise", "depthwise"]
GROWERS: tuple[str, ...] = get_args(Growth)

# Small nodes are expanded together, each on one thread: so many nodes, or enough rows to keep
# threads busy. A large node is expanded by all threads.
_BATCH_NODES = 8
_BATCH_ROWS = 1 << 16
_LARGE = 1 << 15

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
        "children", "cut", "depth", "end", "gain", "high", "low", "new_slot", "number", "slot",
        "start", "table", "total",
    )  # fmt: skip

    def __init__(self, start: int, end: int, depth: int, total: int) -> None:
        self.start, self.end, self.depth, self.total = start, end, depth, total
        self.low, self.high = -np.inf, np.inf
        self.number = 0
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

    __slots__ = ("bounds", "cuts", "cycles", "gains", "left_sum", "n_left")

    def __init__(self, ints: list[int], floats: list[float]) -> None:
        self.n_left, self.left_sum = ints[N_LEFT], ints[LEFT_SUM]
        self.cuts = [ints[LEFT_CUT : LEFT_CUT + 3], ints[RIGHT_CUT : RIGHT_CUT + 3]]
        self.gains = floats[LEFT_GAIN : LEFT_GAIN + 2]
        self.bounds = floats[LEFT_BOUNDS:]
        self.cycles = ints[DIVIDING:]

    def join(self, other: _Found, features: NDArray[np.int64]) -> None:
        """Take over better cuts among other blocks; of equal ones that of the lower feature."""
        for side in range(2):
            gain, cut = other.gains[side], other.cuts[side]
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
        # A leaf holds one, and what is expanded ahead some more. Pages that no tree needs are never
        # touched, and so cost no memory.
        slots = options.max_leaves + 8 * _BATCH_NODES
        self._histograms = np.empty((slots, matrix.n_blocks, 256, 16), dtype=np.int64)
        # Processor cycles that kernels spent on dividing rows, summing and scanning histograms.
        self.cycles = dict.fromkeys(("divide", "sum", "scan"), 0)
        self._spare = np.empty(matrix.n_rows, dtype=np.int32)
        # The histograms of parts of a large node's rows; how many parts does not matter.
        self._partials = np.empty((self.n_jobs, matrix.n_blocks, 256, 16), dtype=np.int64)
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
        # Leaves that may be split, the next one first.
        waiting: list[tuple[float, int, Node]] = []
        # Nodes to expand, those first that are likely to be wanted soon.
        ahead: list[tuple[float, int, Node]] = []
        numbers, tickets = itertools.count(), itertools.count()
        splits: list[Node] = []
        leafwise = self.options.grower == "leafwise"

        def first_of(node: Node) -> float:
            return -node.gain if leafwise else float(node.depth)

        def wait(node: Node) -> None:
            if node.gain > 0:
                heapq.heappush(waiting, (first_of(node), node.number, node))

        root.number = next(numbers)
        wait(root)
        n_leaves = 1
        while waiting and n_leaves < self.options.max_leaves:
            node = waiting[0][2]
            if node.children is None:
                room = self.options.max_leaves - n_leaves
                batch = self._next_batch(node, ahead, room)
                if self._expand(batch):
                    # Some cut did not hold, so the order may have changed.
                    nodes = [entry[2] for entry in waiting]
                    waiting.clear()
                    for other in nodes:
                        wait(other)
                for other in batch:
                    for later in other.children or (other,):
                        if later.gain > 0:
                            # A child is not split before its parent.
                            first = max(first_of(later), first_of(other))
                            heapq.heappush(ahead, (first, next(tickets), later))
                continue
            heapq.heappop(waiting)
            splits.append(node)
            n_leaves += 1
            for child in node.children:
                child.number = next(numbers)
                wait(child)
        return self._finish(root, splits)

    def _next_batch(
        self, node: Node, ahead: list[tuple[float, int, Node]], room: int
    ) -> list[Node]:
        """A node, and if it is small others that are likely to be wanted."""
        batch = [node]
        if node.n_rows > _LARGE:
            return batch
        # Every split to come takes a histogram more; what is left may go to work ahead.
        most = min(_BATCH_NODES, -(-room // 4), len(self._free) - room)
        n_rows = node.n_rows
        while ahead and len(batch) < most and n_rows < _BATCH_ROWS:
            other = heapq.heappop(ahead)[2]
            if other is not node and other.children is None and other.n_rows <= _LARGE:
                batch.append(other)
                n_rows += other.n_rows
        return sorted(batch, key=lambda other: -other.n_rows)

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

    def _search_root(self, root: Node) -> None:
        root.slot = root.new_slot = self._free.pop()
        found = self._search_large(root, ROOT, 0)
        self._set_cut(root, found.gains[0], found.cuts[0])

    def _expand(self, batch: list[Node]) -> bool:
        """Divide nodes and search their children; whether some cut did not hold."""
        for node in batch:
            node.new_slot = self._free.pop()
        if batch[0].n_rows > _LARGE:
            found = [self._expand_large(batch[0])]
        else:
            found = self._expand_small(batch)
        failed = False
        for node, one in zip(batch, found, strict=True):
            if one.n_left == RECOUNT:
                self._free.append(node.new_slot)
                self._set_cut(node, one.gains[0], one.cuts[0])
                failed = True
            else:
                self._make_children(node, one)
        return failed

    def _expand_small(self, batch: list[Node]) -> list[_Found]:
        """Expand nodes side by side, each by one thread."""
        n_blocks = self.matrix.n_blocks
        jobs, at, work = [], [0], 0
        for node in batch:
            jobs.append(self._job(node, UNDIVIDED, 0, 0, n_blocks))
            # Of the smaller child, which has at most half of the rows.
            work += (node.n_rows // 3 + _BLOCK_ROWS) * n_blocks
            if work >= _LEAST_WORK:
                at.append(len(jobs))
                work = 0
        if at[-1] < len(jobs):
            at.append(len(jobs))
        return self._run(jobs, at, batch)

    def _expand_large(self, node: Node) -> _Found:
        """Expand one node by all threads."""
        node.table = np.empty(256, dtype=np.uint8)
        total = self._table_of(node, node.table)
        n_left, spent = divide(
            self.matrix.by_feature[node.cut[0]], node.table, self._rows, self._spare, node.start,
            node.end, self.n_jobs,
        )  # fmt: skip
        self.cycles["divide"] += spent
        if min(n_left, node.n_rows - n_left) < self.options.min_samples_leaf:
            self._rows[node.start : node.end].sort()
            return self._run(
                [self._job(node, RECOUNT, 0, 0, self.matrix.n_blocks)], [0, 1], [node]
            )[0]
        return self._search_large(node, n_left, total)

    def _search_large(self, node: Node, state: int, total: int) -> _Found:
        """Sum the smaller child of a divided node, or the root, by rows; search by blocks."""
        first, last = node.start, node.end
        if state != ROOT:
            middle = node.start + state
            first, last = (first, middle) if state <= node.n_rows - state else (middle, last)
        n_parts = len(self._partials)
        bounds = [first + (last - first) * part // n_parts for part in range(n_parts + 1)]
        spent = [0] * n_parts

        def task(part: int) -> None:
            spent[part] = sum_part(
                self._words, self._packed, self._rows, bounds[part], bounds[part + 1],
                self._block_bins, self._features, self._partials[part],
            )  # fmt: skip

        run_chunks(task, n_parts, self.n_jobs)
        self.cycles["sum"] += sum(spent)
        n_blocks = self.matrix.n_blocks
        step = -(-n_blocks // n_parts)
        jobs = [
            self._job(node, state, total, block, min(block + step, n_blocks))
            for block in range(0, n_blocks, step)
        ]
        found, *others = self._run(jobs, list(range(len(jobs) + 1)), [node] * len(jobs))
        for other in others:
            found.join(other, self._features)
        return found

    @staticmethod
    def _job(node: Node, state: int, left_total: int, first: int, last: int) -> list[int]:
        """One row of work for `expand`, on some blocks."""
        return [
            node.start, node.end, node.slot, node.new_slot, node.total, *node.cut, node.depth,
            state, left_total, first, last,
        ]  # fmt: skip

    def _run(self, jobs: list[list[int]], at: list[int], nodes: list[Node]) -> list[_Found]:
        """Do the jobs of nodes on the threads, those from at[i] to at[i + 1] together."""
        table = as_input(jobs, np.int64)
        bounds = as_input([(node.low, node.high) for node in nodes], np.float64)
        ints = np.empty((len(jobs), N_FOUND_INTS), dtype=np.int64)
        floats = np.empty((len(jobs), N_FOUND_FLOATS))
        tables = np.empty((len(jobs), 256), dtype=np.uint8)

        def task(chunk: int) -> None:
            expand(
                self.matrix.by_feature, self._words, self._packed, self._rows, self._spare,
                self._partials, table, bounds, self._rules, self._careful, self._histograms,
                self._block_kinds, self._block_bins, self._features, self._kinds, self._n_bins,
                self._allowed, self._signs, at[chunk], at[chunk + 1], tables, ints, floats,
            )  # fmt: skip

        run_chunks(task, len(at) - 1, self.n_jobs)
        found = [_Found(*both) for both in zip(ints.tolist(), floats.tolist(), strict=True)]
        for one in found:
            for name, spent in zip(self.cycles, one.cycles, strict=True):
                self.cycles[name] += spent
        for node, job, left in zip(nodes, jobs, tables, strict=True):
            if job[STATE] == UNDIVIDED:
                node.table = left
        return found

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

    def _table_of(self, node: Node, table: NDArray[np.uint8]) -> int:
        """Which codes go left under the cut of a node, and the packed sum of their rows."""
        place, bin_, kind = node.cut
        rules = np.empty(N_RULES)
        node_rules(self._rules, float(node.total & _MASK), node.n_rows, rules)
        histogram = self._histograms[node.slot, place // 16]
        n_bins = int(self._n_bins[self._features[place]])
        return int(left_of(histogram, place % 16, n_bins, bin_, kind, rules, table))

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

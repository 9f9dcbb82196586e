"""What a team of threads works on while it grows a tree: all arrays, and what their columns are.

`docs/architecture.md` has a table of who writes each array in which step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import by_address

# The columns of the table of nodes: its stretch of rows and their number, depth, packed sum and
# histogram; its best cut, and the packed sum that goes left there; its left child or 0, the right
# one comes next; and what its rows are marked by, which the larger child takes over, so that few
# have to be marked anew. Then the gain of the cut, and bounds of its value. What is decided depends
# on the number; how work is cut, on the stretch: where rows are spread over several growers, the
# stretch holds only some of them.
START, END, COUNT, DEPTH, TOTAL, SLOT, PLACE, BIN, LEFT_TOTAL, LEFT, TAG, N_NODE_INTS = range(12)
GAIN, LOW, HIGH, N_NODE_FLOATS = range(4)

# The places of what a team shares, each written often on a cache line of its own: tasks still to
# take, tasks done, whether threads are to leave. Then what the tasks are: the step that they make
# up; the node that is divided; the one that is searched, and its sibling or -1; which of the rows
# that are divided are summed by their parts, and in which histogram; whether the packed sum of
# those that go left is, too; the number and the size of the parts. Then what the leader remembers:
# splits so far, free histograms, where a level ends, what noise is drawn by; the step whose sums
# or cuts all growers are to know, and how many sums; the most rows of a node that keeps no
# histograms of sparse features. The rest is one per thread: whether it has begun a histogram.
TICKET, DONE, LEAVE = 0, 8, 16
STEP, NODE, SUMMED, OTHER, SUM_SIDE, SUM_SLOT, SUMS_LEFT, N_PARTS, PART_ROWS = range(24, 33)
N_SPLITS, N_FREE, LEVEL_END, KEY, DUE, N_PENDING, MOST_REMADE = range(33, 40)
HAS_SUMMED = 40

# Which of the rows that are divided are summed by their parts.
NEITHER, LEFT_SIDE, RIGHT_SIDE, BOTH = range(4)

# The steps: sum the root, part by part; search it, or two children, block by block; divide the rows
# of a node, part by part; search it again with its rows counted, if that leaves a child too small;
# or put its rows back in order, and sum those of the smaller child if there are many. In an
# oblivious tree the histograms of children are only finished, and then a whole level is searched.
# With several growers, histograms are finished and rows counted before they are searched, and
# threads leave at REDUCE, to come back when the sums are those of all growers, and at COMPARE, to
# come back when the cuts are. A step may have no tasks; the tree is grown when the step is OVER.
(
    BEGIN, SUM, FINISH, SEARCH, DIVIDE, COUNT_ROWS, RECOUNT, PUT_BACK, SEARCH_LEVEL, REDUCE,
    COMPARE, OVER,
) = range(12)  # fmt: skip

# Where the cycles of a thread went.
DIVIDING, SUMMING, SCANNING, N_CYCLES = 0, 1, 2, 8

# The columns of the table of parts: how many rows go left, where those and the others go, and the
# packed sum of those that go left.
N_LEFT, LEFT_AT, RIGHT_AT, LEFT_SUM, N_PART_INTS = range(5)

# The columns of the table of pending sums: a histogram or -1; the node that it is made for, the
# root or one that is divided; rows, and their packed sum, of the root or that go left.
PENDING_SLOT, PENDING_NODE, PENDING_COUNT, PENDING_TOTAL, N_PENDING_INTS = range(5)


@by_address
class Growing(NamedTuple):
    """All that a team works on.

    Attributes
    ----------
    packed, ones, rows, spare, allowed, rules
        Of the tree: packed forces and curvatures, and ones in their place to count rows with; the
        rows and scratch for as many, which features may be used, and the rules of splitting.
    columns, words
        The codes by feature, and by row as words of eight.
    histograms, partials, free
        Histograms of nodes, of what threads other than the first have summed, and a stack of the
        numbers of the free ones.
    nodes, node_floats, tables, splits
        The tree: its nodes, which codes go left at the cut of each, and the nodes in the order in
        which they are split.
    parts
        How the rows of the node that is divided are cut into parts.
    side_rules, block_gains, block_cuts, block_tables
        Of the two nodes that are searched: their rules, and the best cut of each block: what it is
        compared by and its gain; the place of its feature, the bin and the packed sum that goes
        left; and which codes do.
    team
        What threads tell each other.
    row_tags, place_sums
        For sparse features: the mark of each row's node, -1 if it does not count; and what each
        feature comes to in the two nodes that are searched, where small nodes keep no histograms.
    tiles, scratch, scan_rules, scan_gains, scan_ints, counts, orders, cycles
        For each thread: codes of rows; blocks of a histogram, the rules of its node, what is found
        in it for each of its features, the rows of each code of one of them, an order of
        categories; and where its time went.
    """

    packed: NDArray[np.int64]
    ones: NDArray[np.int64]
    rows: NDArray[np.int32]
    spare: NDArray[np.int32]
    allowed: NDArray[np.bool_]
    rules: NDArray[np.float64]
    columns: NDArray[np.uint8]
    words: NDArray[np.uint64]
    histograms: NDArray[np.int64]
    partials: NDArray[np.int64]
    free: NDArray[np.int64]
    nodes: NDArray[np.int64]
    node_floats: NDArray[np.float64]
    tables: NDArray[np.uint8]
    splits: NDArray[np.int64]
    parts: NDArray[np.int64]
    side_rules: NDArray[np.float64]
    block_gains: NDArray[np.float64]
    block_cuts: NDArray[np.int64]
    block_tables: NDArray[np.uint8]
    team: NDArray[np.int64]
    row_tags: NDArray[np.int32]
    place_sums: NDArray[np.int64]
    tiles: NDArray[np.uint64]
    scratch: NDArray[np.int64]
    scan_rules: NDArray[np.float64]
    scan_gains: NDArray[np.float64]
    scan_ints: NDArray[np.int64]
    counts: NDArray[np.int64]
    orders: NDArray[np.int64]
    cycles: NDArray[np.int64]


@by_address
class Level(NamedTuple):
    """What only oblivious trees need.

    Attributes
    ----------
    gains
        For each thread, those of all cuts of a block.
    orders, n_ordered
        The categories of each feature in the order in which cuts take them, and how many there are;
        None where no feature is monotone or has categories.
    """

    gains: NDArray[np.float64]
    orders: NDArray[np.int64] | None
    n_ordered: NDArray[np.int64] | None


@by_address
class Pending(NamedTuple):
    """What only one of several growers needs.

    Attributes
    ----------
    sums
        What is to be added up over all growers.
    left_totals
        For the best cut of each grower that owns blocks, what goes left in the nodes of a level.
    first_block, end_block
        The blocks that this grower owns: of these it gets the sums of all growers.
    shared
        Whether growers own different blocks, and so have to compare their cuts.
    """

    sums: NDArray[np.int64]
    left_totals: NDArray[np.int64]
    first_block: int
    end_block: int
    shared: bool


class Settings(NamedTuple):
    """What does not change: how trees grow, and how large the pieces of work are."""

    has_monotone: bool
    best_first: bool
    max_leaves: int
    part_rows: int
    few_rows: int
    kept_rows: int

"""What a team of threads works on while it grows a tree: all arrays, and what their columns are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The columns of the table of nodes: its stretch of rows and their number, depth, packed sum and
# histogram; its best cut, and the packed sum that goes left there; its left child or 0, the right
# one comes next. Then the gain of the cut, and bounds of its value. What is decided depends on the
# number; how work is cut, on the stretch: where rows are spread over several growers, the stretch
# holds only some of them.
START, END, COUNT, DEPTH, TOTAL, SLOT, PLACE, BIN, LEFT_TOTAL, LEFT, N_NODE_INTS = range(11)
GAIN, LOW, HIGH, N_NODE_FLOATS = range(4)

# The places of what a team shares, each written often on a cache line of its own: tasks still to
# take, tasks done, whether threads are to leave. Then what the tasks are: the step that they make
# up; the node that is divided; the one that is summed, and its sibling or -1; whether it is summed
# by parts of its rows; the number and the size of the parts. Then what the leader keeps in mind:
# splits so far, free histograms; of a level of an oblivious tree, where it ends; whether what goes
# left is summed while rows are divided; what noise is drawn by. The rest is one per thread: whether
# it has begun a histogram.
TICKET, DONE, LEAVE = 0, 8, 16
STEP, NODE, SUMMED, OTHER, BY_PARTS, N_PARTS, PART_ROWS = range(24, 31)
N_SPLITS, N_FREE, LEVEL_END, SUMS_LEFT, KEY = range(31, 36)
HAS_SUMMED = 40

# The steps: sum the root, part by part; search it, or two children, block by block; divide the rows
# of a node, part by part; search it again with its rows counted, if that leaves a child too small;
# or put its rows back in order, and sum those of the smaller child if there are many. In an
# oblivious tree the histograms of children are only made, and then a whole level is searched. A
# step may have no tasks; the tree is grown when the step is OVER.
BEGIN, SUM, SEARCH, DIVIDE, RECOUNT, PUT_BACK, SEARCH_LEVEL, OVER = range(8)

# How a tree grows: the best node next, the highest one next, or one cut a level.
LEAFWISE, DEPTHWISE, OBLIVIOUS = range(3)

# Where the cycles of a thread went.
DIVIDING, SUMMING, SCANNING, N_CYCLES = 0, 1, 2, 8

# The columns of the table of parts: how many rows go left, where those and the others go, and the
# packed sum of those that go left.
N_LEFT, LEFT_AT, RIGHT_AT, LEFT_SUM, N_PART_INTS = range(5)


class Growing(NamedTuple):
    """All that a team works on.

    Attributes
    ----------
    packed, ones, rows, spare, allowed, rules
        Of the tree: packed forces and curvatures, and ones in their place to count rows with; the
        rows and room for as many, which features may be used, and the rules of splitting.
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
    own_rules, found_gains, found_cuts, found_tables
        Of the two nodes that are searched: their rules, and the best cut of each block; what they
        are compared by comes first, then their gains. A cut is the place of its feature, the bin
        and the packed sum that goes left, and which codes do.
    team
        What threads tell each other.
    codes, room, floats, ints, cycles
        For each thread: codes of rows, a block of a histogram, numbers, and where its time went.
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
    own_rules: NDArray[np.float64]
    found_gains: NDArray[np.float64]
    found_cuts: NDArray[np.int64]
    found_tables: NDArray[np.uint8]
    team: NDArray[np.int64]
    codes: NDArray[np.uint64]
    room: NDArray[np.int64]
    floats: NDArray[np.float64]
    ints: NDArray[np.int64]
    cycles: NDArray[np.int64]


class How(NamedTuple):
    """What does not change: how trees grow, and how large the pieces of work are."""

    careful: bool
    growth: int
    max_leaves: int
    part_rows: int
    few_rows: int
    kept_rows: int

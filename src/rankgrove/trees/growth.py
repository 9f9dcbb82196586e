"""Growing one tree by a team of threads, all of it in one kernel.

One thread leads: it chooses the node to split and cuts the work on it into tasks. All threads
take tasks until none is left, by adding to a shared counter, so that handing out work costs less
than a microsecond. Which thread does a task does not matter: what tasks write is disjoint, or a
sum of whole numbers. A thread that comes late, or never, is not waited for.

The rows of a node are a stretch of one array of row numbers. A split puts those that go left in
front of the others; both keep their order, so the rows of every node are in rising order and
sums over them are always taken in the same order.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import (
    atomic_add,
    atomic_load,
    atomic_store,
    cycles,
    give_way,
    kernel,
    pause,
    prefetch,
)
from rankgrove.trees.binning import PLAIN
from rankgrove.trees.histogram import AHEAD, add, clear, subtract, sum_block, sum_rows
from rankgrove.trees.search import (
    FEWEST,
    L2,
    MAX_DEPTH,
    left_of,
    middle_of_children,
    node_rules,
    search_block,
)

# The columns of the table of nodes: its rows, depth, packed sum and histogram; its best cut, and
# its left child or 0; the right one comes next. Then the gain of the cut, and bounds of its value.
START, END, DEPTH, TOTAL, SLOT, PLACE, BIN, KIND, LEFT, N_NODE_INTS = range(10)
GAIN, LOW, HIGH, N_NODE_FLOATS = range(4)

# The places of what a team shares, each written often on a cache line of its own: tasks still to
# take, tasks done, whether all is over. Then what the tasks are: the step that they make up; the
# node that is divided; the one that is summed, and its sibling or -1; whether it is summed by parts
# of its rows; the number and the size of the parts. Then what the leader keeps in mind: splits so
# far, free histograms, and of the node being divided the packed sum that goes left. The rest is one
# a thread: whether it has begun a histogram.
TICKET, DONE, OVER = 0, 8, 16
STEP, NODE, SUMMED, OTHER, BY_PARTS, N_PARTS, PART_ROWS = range(24, 31)
N_SPLITS, N_FREE, LEFT_TOTAL = range(31, 34)
HAS_SUMMED = 40

# The steps: sum the root, part by part; search it, or two children, block by block; divide the rows
# of a node, part by part; search it again with its rows counted, if that leaves a child too small;
# or put its rows back in order, and sum those of the smaller child if there are many.
BEGIN, SUM, SEARCH, DIVIDE, RECOUNT, PUT_BACK = range(6)

# A ticket holds the number of tasks and the next one.
_TICKET_BITS = 24
_TICKET_MASK = (1 << _TICKET_BITS) - 1

# A thread that waits longer than this many looks lets others run.
_LOOKS = 2000

# Where the cycles of a thread went.
DIVIDING, SUMMING, SCANNING, N_CYCLES = 0, 1, 2, 8

# The columns of the table of parts: how many rows go left, and where those and the others go.
N_LEFT, LEFT_AT, RIGHT_AT = range(3)


class Growing(NamedTuple):
    """All that a team works on.

    Attributes
    ----------
    packed, rows, spare, allowed, rules
        Of the tree: packed forces and curvatures, the rows and room for as many, which features
        may be used, and the rules of splitting.
    columns, words
        The codes by feature, and by row as words of eight.
    histograms, partials, free
        Histograms of nodes, of what threads other than the first have summed, and a stack of the
        numbers of the free ones.
    nodes, node_floats, tables, splits
        The tree: its nodes, which codes go left at each split, and the nodes in the order in
        which they are split.
    parts
        How the rows of the node that is divided are cut into parts.
    own_rules, found_gains, found_cuts
        Of the two nodes that are searched: their rules, and the best cut of each block.
    team
        What threads tell each other.
    codes, floats, ints, cycles
        Room for each thread, and where its time went.
    """

    packed: NDArray[np.int64]
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
    team: NDArray[np.int64]
    codes: NDArray[np.uint64]
    floats: NDArray[np.float64]
    ints: NDArray[np.int64]
    cycles: NDArray[np.int64]


class How(NamedTuple):
    """What does not change: how trees grow, and how large the pieces of work are."""

    careful: bool
    leafwise: bool
    max_leaves: int
    part_rows: int
    few_rows: int


@kernel
def divide_stretch(column, table, rows, spare, start, end):
    """Divide rows by their codes: left ones to the front of the stretch in `spare`, others back.

    Returns how many went left. The others stand in reverse order.
    """
    left = start
    right = end - 1
    for i in range(start, end):
        if i + AHEAD < end:
            prefetch(column, np.int64(rows[i + AHEAD]))
        row = rows[i]
        # Both are written, and the wrong one is overwritten by what follows: no branch.
        spare[left] = row
        spare[right] = row
        goes_left = np.int64(table[column[row]])
        left += goes_left
        right -= 1 - goes_left
    return left - start


@kernel
def _put_back(rows, spare, start, end, n_left, left_at, right_at):
    """Copy a divided stretch from `spare`: its left rows, and its others in their old order."""
    for i in range(n_left):
        rows[left_at + i] = spare[start + i]
    for i in range(end - start - n_left):
        rows[right_at + i] = spare[end - 1 - i]


@kernel
def _sum_part(g, layout, rows, worker):
    """Add rows to this thread's histograms of the node that is summed; the leader's are final."""
    n_blocks = len(layout.block_bins)
    own = g.histograms[g.nodes[g.team[SUMMED], SLOT]] if worker == 0 else g.partials[worker - 1]
    if g.team[HAS_SUMMED + worker] == 0:
        g.team[HAS_SUMMED + worker] = 1
        for block in range(n_blocks):
            clear(own[block].reshape(4096), layout.block_bins[block] * 16)
    sum_rows(g.words, 2 * n_blocks, g.packed, rows, layout.features, own, g.codes[worker])


@kernel
def _do_part(g, layout, step, part, worker):
    """Divide, put back or sum one part of a node's rows."""
    node = g.nodes[g.team[NODE]]
    start = node[START] + part * g.team[PART_ROWS]
    end = min(start + g.team[PART_ROWS], node[END])
    own = g.parts[part]
    clock = cycles()
    if step == DIVIDE:
        table = g.tables[g.team[N_SPLITS]]
        own[N_LEFT] = divide_stretch(g.columns[node[PLACE]], table, g.rows, g.spare, start, end)
    elif step == PUT_BACK:
        _put_back(g.rows, g.spare, start, end, own[N_LEFT], own[LEFT_AT], own[RIGHT_AT])
    now = cycles()
    g.cycles[worker, DIVIDING] += now - clock
    if step == SUM:
        _sum_part(g, layout, g.rows[start:end], worker)
    elif step == PUT_BACK and g.team[BY_PARTS]:
        middle = start + own[N_LEFT]
        is_left = g.team[SUMMED] == node[LEFT]
        _sum_part(g, layout, g.spare[start:middle] if is_left else g.spare[middle:end], worker)
    g.cycles[worker, SUMMING] += cycles() - now


@kernel
def _sum_block(g, layout, block):
    """Sum a block of the histogram of the node in question, or add up what threads have summed."""
    team = g.team
    node = g.nodes[team[SUMMED]]
    n_cells = layout.block_bins[block] * 16
    histogram = g.histograms[node[SLOT], block]
    flat = histogram.reshape(4096)
    if not team[BY_PARTS] or not team[HAS_SUMMED]:
        clear(flat, n_cells)
    if team[BY_PARTS]:
        for other in range(len(g.partials)):
            if team[HAS_SUMMED + 1 + other]:
                add(flat, g.partials[other, block].reshape(4096), n_cells)
    else:
        rows = g.rows[node[START] : node[END]]
        n_words = 2 * len(layout.block_bins)
        sum_block(g.words, n_words, g.packed, False, rows, block, layout.features, histogram)
    if team[OTHER] >= 0:
        subtract(g.histograms[g.nodes[team[OTHER], SLOT], block].reshape(4096), flat, n_cells)


@kernel
def _do_block(g, layout, how, recount, block, worker):
    """Sum and search one block of two children, or of the root; or count one and search again.

    Rows are counted in a free histogram. The estimate from curvatures still holds then, so the cut
    is never better than the one found without counting, and it does not matter when it is found.
    """
    team = g.team
    clock = cycles()
    counts = g.histograms[g.free[team[N_FREE] - 1], block]
    if recount:
        node = g.nodes[team[SUMMED]]
        clear(counts.reshape(4096), layout.block_bins[block] * 16)
        rows = g.rows[node[START] : node[END]]
        n_words = 2 * len(layout.block_bins)
        sum_block(g.words, n_words, g.packed, True, rows, block, layout.features, counts)
    else:
        _sum_block(g, layout, block)
    now = cycles()
    g.cycles[worker, SUMMING] += now - clock
    for side in range(2):
        at = team[OTHER] if side else team[SUMMED]
        g.found_gains[block, side] = 0.0
        if at < 0 or g.nodes[at, END] - g.nodes[at, START] < 2 * g.rules[FEWEST]:
            continue
        histogram = g.histograms[g.nodes[at, SLOT], block]
        g.found_gains[block, side] = search_block(
            histogram, counts if recount else histogram, recount, block, g.nodes[at, TOTAL],
            g.nodes[at, END] - g.nodes[at, START], g.own_rules[side], g.node_floats[at, LOW:],
            how.careful, layout, g.allowed, g.floats[worker], g.ints[worker],
            g.found_cuts[block, side]
        )  # fmt: skip
    g.cycles[worker, SCANNING] += cycles() - now


@kernel
def _set_rules(team, nodes, rules, own_rules):
    """The rules for the nodes that are searched."""
    for side in range(2):
        at = team[OTHER] if side else team[SUMMED]
        if at >= 0:
            curvature = np.float64(nodes[at, TOTAL] & 0xFFFFFFFF)
            node_rules(rules, curvature, nodes[at, END] - nodes[at, START], own_rules[side])


@kernel
def _set_cut(node, values, found_gains, found_cuts, features, l2, unit):
    """Give a node the best of the cuts that were found in its blocks."""
    force = np.float64(node[TOTAL] >> 32)
    weight = np.float64(node[TOTAL] & 0xFFFFFFFF) + l2
    own = force * force / weight if weight > 0 else 0.0
    best = 0.0
    for block in range(len(found_gains)):
        gain = found_gains[block]
        place = found_cuts[block, 0]
        if gain > best or (gain == best > 0.0 and features[place] < features[node[PLACE]]):
            best = gain
            node[PLACE] = place
            node[BIN] = found_cuts[block, 1]
            node[KIND] = found_cuts[block, 2]
    # A gain in the last digits of its own terms is none.
    values[GAIN] = (best - own) * unit if best > own * (1.0 + 1e-12) else 0.0


@kernel
def _release(team, nodes, node_floats, free):
    """Free the histograms of nodes that will not be split."""
    for at in (team[SUMMED], team[OTHER]):
        if at >= 0 and node_floats[at, GAIN] <= 0.0:
            free[team[N_FREE]] = nodes[at, SLOT]
            team[N_FREE] += 1


@kernel
def _next_node(nodes, node_floats, n_nodes, leafwise):
    """The node to split next, or -1: the one of the largest gain, or the highest one."""
    best = -1
    for at in range(n_nodes):
        if nodes[at, LEFT] != 0 or node_floats[at, GAIN] <= 0.0:
            continue
        if best < 0:
            best = at
        elif leafwise:
            best = at if node_floats[at, GAIN] > node_floats[best, GAIN] else best
        else:
            best = at if nodes[at, DEPTH] < nodes[best, DEPTH] else best
    return best


@kernel
def _make_parts(team, node, most):
    """Cut the rows of a node into parts for the team."""
    n_rows = node[END] - node[START]
    team[PART_ROWS] = min(max((n_rows + 15) // 16, most // 8), most)
    team[N_PARTS] = (n_rows + team[PART_ROWS] - 1) // team[PART_ROWS]


@kernel
def _place_parts(team, node, parts):
    """Where the rows of divided parts go; returns how many go left in all."""
    n_left = np.int64(0)
    for part in range(team[N_PARTS]):
        parts[part, LEFT_AT] = node[START] + n_left
        n_left += parts[part, N_LEFT]
    for part in range(team[N_PARTS]):
        # Rows of the parts before, less those that went left, stand after all left ones.
        before = part * team[PART_ROWS] - (parts[part, LEFT_AT] - node[START])
        parts[part, RIGHT_AT] = node[START] + n_left + before
    return n_left


@kernel
def _make_children(nodes, node_floats, at, left, n_left, left_total, sign, l2):
    """Two new nodes, with the bounds that a monotone split sets them."""
    node = nodes[at]
    node[LEFT] = left
    middle = node[START] + n_left
    for child in (left, left + 1):
        nodes[child, START] = node[START] if child == left else middle
        nodes[child, END] = middle if child == left else node[END]
        nodes[child, TOTAL] = left_total if child == left else node[TOTAL] - left_total
        nodes[child, DEPTH] = node[DEPTH] + 1
        nodes[child, PLACE] = -1
        nodes[child, LEFT] = 0
        node_floats[child, GAIN] = 0.0
        node_floats[child, LOW] = node_floats[at, LOW]
        node_floats[child, HIGH] = node_floats[at, HIGH]
    if sign != 0:
        low, high = node_floats[at, LOW], node_floats[at, HIGH]
        value = middle_of_children(node[TOTAL], left_total, l2, low, high)
        node_floats[left, HIGH if sign > 0 else LOW] = value
        node_floats[left + 1, LOW if sign > 0 else HIGH] = value


@kernel
def _plan_children(team, nodes, free, rules, max_leaves, few_rows):
    """Which child is summed, how, and where; or none, if neither may be split."""
    left = nodes[team[NODE], LEFT]
    right = left + 1
    n_left = nodes[left, END] - nodes[left, START]
    n_right = nodes[right, END] - nodes[right, START]
    slot = nodes[team[NODE], SLOT]
    wanted = team[N_SPLITS] + 1 < max_leaves and nodes[left, DEPTH] < rules[MAX_DEPTH]
    team[BY_PARTS] = 0
    if not wanted or max(n_left, n_right) < 2 * rules[FEWEST]:
        team[SUMMED] = -1
        free[team[N_FREE]] = slot
        team[N_FREE] += 1
        return
    small, large = (left, right) if n_left <= n_right else (right, left)
    # The smaller child's histogram is new, the larger one's is in the parent's place.
    team[N_FREE] -= 1
    nodes[small, SLOT] = free[team[N_FREE]]
    nodes[large, SLOT] = slot
    team[SUMMED] = small
    team[OTHER] = large
    team[BY_PARTS] = min(n_left, n_right) > few_rows


@kernel
def _after_division(g, layout, how):
    """Make the children of a divided node, or have its cut searched again: the next step."""
    team, nodes = g.team, g.nodes
    at = team[NODE]
    node = nodes[at]
    n_rows = node[END] - node[START]
    n_left = _place_parts(team, node, g.parts)
    if min(n_left, n_rows - n_left) < g.rules[FEWEST]:
        node[PLACE] = -1
        team[SUMMED] = at
        team[OTHER] = -1
        return RECOUNT
    split = team[N_SPLITS]
    feature = layout.features[node[PLACE]]
    if layout.kinds[feature] == PLAIN:
        # Nothing was missing here in training: a missing value goes with the majority.
        g.tables[split, 255] = 2 * n_left >= n_rows
    _make_children(
        nodes, g.node_floats, at, 2 * split + 1, n_left, team[LEFT_TOTAL], layout.signs[feature],
        g.rules[L2]
    )  # fmt: skip
    g.splits[split] = at
    team[N_SPLITS] += 1
    _plan_children(team, nodes, g.free, g.rules, how.max_leaves, how.few_rows)
    return PUT_BACK


@kernel
def _choose(g, layout, how):
    """Choose a node to split and prepare its division: the next step, or BEGIN if there is none."""
    team, nodes = g.team, g.nodes
    if team[N_SPLITS] + 1 >= how.max_leaves:
        return BEGIN
    at = _next_node(nodes, g.node_floats, 2 * team[N_SPLITS] + 1, how.leafwise)
    if at < 0:
        return BEGIN
    node = nodes[at]
    team[NODE] = at
    team[SUMMED] = at
    team[OTHER] = -1
    _set_rules(team, nodes, g.rules, g.own_rules)
    place = node[PLACE]
    team[LEFT_TOTAL] = left_of(
        g.histograms[node[SLOT], place // 16], place % 16, layout.n_bins[layout.features[place]],
        node[BIN], node[KIND], g.own_rules[0], g.tables[team[N_SPLITS]]
    )  # fmt: skip
    _make_parts(team, node, how.part_rows)
    return DIVIDE


@kernel
def _next_step(g, layout, how, unit):
    """What follows the step that is done: the number of its tasks, 0 at the end."""
    team = g.team
    step = team[STEP]
    if step == BEGIN:
        _make_parts(team, g.nodes[0], how.part_rows)
        team[N_FREE] = len(g.free) - 1
        team[OTHER] = -1
        team[BY_PARTS] = 1
        step = SUM
    elif step == DIVIDE:
        step = _after_division(g, layout, how)
    elif step == SUM or (step == PUT_BACK and team[SUMMED] >= 0):
        _set_rules(team, g.nodes, g.rules, g.own_rules)
        step = SEARCH
    else:
        if step != PUT_BACK:
            for side in range(2):
                at = team[OTHER] if side else team[SUMMED]
                if at >= 0:
                    _set_cut(
                        g.nodes[at], g.node_floats[at], g.found_gains[:, side],
                        g.found_cuts[:, side], layout.features, g.rules[L2], unit
                    )  # fmt: skip
            if step == SEARCH or g.node_floats[team[SUMMED], GAIN] <= 0.0:
                _release(team, g.nodes, g.node_floats, g.free)
        step = _choose(g, layout, how)
    if step in (SUM, PUT_BACK):
        for worker in range(len(g.cycles)):
            team[HAS_SUMMED + worker] = 0
    team[STEP] = step
    if step == BEGIN:
        return 0
    return len(layout.block_bins) if step in (SEARCH, RECOUNT) else team[N_PARTS]


@kernel
def _take(team):
    """Take a task, or -1 if none is left."""
    ticket = atomic_load(team, TICKET)
    if (ticket & _TICKET_MASK) >= (ticket >> _TICKET_BITS):
        return -1
    ticket = atomic_add(team, TICKET, 1)
    task = ticket & _TICKET_MASK
    return task if task < (ticket >> _TICKET_BITS) else -1


@kernel
def grow(g, layout, how, worker, unit):
    """Lead a team that grows a tree, as worker 0, or help it.

    `unit` is what gains are counted in. The root is the first node. OUT: nodes, splits, tables, and
    the number of splits in `team`.
    """
    team = g.team
    n_tasks = 0
    looks = 0
    while not atomic_load(team, OVER):
        task = _take(team)
        if task < 0 and worker == 0 and atomic_load(team, DONE) == n_tasks:
            n_tasks = _next_step(g, layout, how, unit)
            if n_tasks == 0:
                atomic_store(team, OVER, 1)
            else:
                # The first task is the leader's.
                task = 0
                atomic_store(team, DONE, 0)
                atomic_store(team, TICKET, (n_tasks << _TICKET_BITS) + 1)
        if task >= 0:
            looks = 0
            step = team[STEP]
            if step in (SEARCH, RECOUNT):
                _do_block(g, layout, how, step == RECOUNT, task, worker)
            else:
                _do_part(g, layout, step, task, worker)
            atomic_add(team, DONE, 1)
        else:
            pause()
            looks += 1
            if looks > _LOOKS:
                give_way()

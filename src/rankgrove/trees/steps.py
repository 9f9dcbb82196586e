"""The steps of growing a tree node by node, as the leader plans them; others do the work.

`levels.py` has those of an oblivious tree. `pending` is None unless rows are spread over several
growers, and then a `Pending`: see `exchange.py`.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel
from rankgrove._jit.elementary import copy
from rankgrove.trees.binning import PLAIN
from rankgrove.trees.search import FEWEST, L2, MAX_DEPTH, node_rules, own_term, value_between
from rankgrove.trees.team import (
    BEGIN,
    BIN,
    BOTH,
    COMPARE,
    COUNT,
    COUNT_ROWS,
    DEPTH,
    DIVIDE,
    DUE,
    END,
    FINISH,
    GAIN,
    HIGH,
    LEFT,
    LEFT_AT,
    LEFT_SIDE,
    LEFT_SUM,
    LEFT_TOTAL,
    LEVEL_END,
    LOW,
    MOST_REMADE,
    N_FREE,
    N_LEFT,
    N_PARTS,
    N_PENDING,
    N_SPLITS,
    NEITHER,
    NODE,
    OTHER,
    OVER,
    PART_ROWS,
    PENDING_COUNT,
    PENDING_NODE,
    PENDING_SLOT,
    PENDING_TOTAL,
    PLACE,
    PUT_BACK,
    RECOUNT,
    REDUCE,
    RIGHT_AT,
    RIGHT_SIDE,
    SEARCH,
    SLOT,
    START,
    STEP,
    SUM,
    SUM_SIDE,
    SUM_SLOT,
    SUMMED,
    SUMS_LEFT,
    TAG,
    TOTAL,
)


@kernel
def begin(g, settings):
    """Plan to sum the root."""
    team = g.team
    cut_into_parts(team, g.nodes[0], settings.part_rows)
    team[N_FREE] = len(g.free) - 1
    team[SUMMED] = 0
    team[OTHER] = -1
    team[SUM_SIDE] = BOTH
    team[SUM_SLOT] = g.nodes[0, SLOT]
    team[LEVEL_END] = 1


@kernel
def cut_into_parts(team, node, most):
    """Cut the rows of a node into parts for the team."""
    n_rows = node[END] - node[START]
    team[PART_ROWS] = min(max((n_rows + 15) // 16, most // 8), most)
    team[N_PARTS] = (n_rows + team[PART_ROWS] - 1) // team[PART_ROWS]


@kernel
def take_slot(team, free):
    """The number of a histogram that is free, which it is no more."""
    team[N_FREE] -= 1
    return free[team[N_FREE]]


@kernel
def free_slot(team, free, slot):
    """Free a histogram, if it is one."""
    if slot >= 0:
        free[team[N_FREE]] = slot
        team[N_FREE] += 1


@kernel
def release(team, nodes, node_floats, free, kept_rows):
    """Free the histograms of searched nodes that will not be split, or that are small.

    To read those of a small node from memory takes longer than to sum its rows again.
    """
    for at in (team[SUMMED], team[OTHER]):
        if at >= 0 and (node_floats[at, GAIN] <= 0.0 or nodes[at, COUNT] <= kept_rows):
            free_slot(team, free, nodes[at, SLOT])
            nodes[at, SLOT] = -1


@kernel
def remakes(g):
    """Whether small nodes keep no histograms of sparse features: see `Grower`."""
    return len(g.place_sums) > 0


@kernel
def has_few_rows(g, at):
    """Whether a node is small in that sense."""
    return g.nodes[at, END] - g.nodes[at, START] <= g.team[MOST_REMADE]


@kernel
def best_block(g, side, first, end, features):
    """The block from `first` to `end` whose cut is the best; of equal ones the lower feature."""
    best = 0.0
    best_place = np.int64(-1)
    chosen = np.int64(-1)
    for block in range(first, end):
        shown = g.block_gains[block, side, 0]
        place = g.block_cuts[block, side, 0]
        if shown > best or (shown == best > 0.0 and features[place] < features[best_place]):
            best = shown
            best_place = place
            chosen = block
    return chosen


@kernel
def set_cut(g, side, at, own, features, unit):
    """Give a node the best of the cuts that were found in its blocks; `own` is its own term."""
    node = g.nodes[at]
    block = best_block(g, side, np.int64(0), len(g.block_gains), features)
    gain = 0.0
    if block >= 0:
        gain = g.block_gains[block, side, 1]
        node[PLACE] = g.block_cuts[block, side, 0]
        node[BIN] = g.block_cuts[block, side, 1]
        node[LEFT_TOTAL] = g.block_cuts[block, side, 2]
        copy(g.block_tables[block, side], g.tables[at])
    # A gain in the last digits of its own terms is none.
    g.node_floats[at, GAIN] = (gain - own) * unit if gain > own * (1.0 + 1e-12) else 0.0


@kernel
def place_parts(team, node, parts):
    """Where the rows of divided parts go; returns how many go left in all, and their packed sum."""
    n_left = np.int64(0)
    left_total = np.int64(0)
    for part in range(team[N_PARTS]):
        parts[part, LEFT_AT] = node[START] + n_left
        n_left += parts[part, N_LEFT]
        left_total += parts[part, LEFT_SUM] if team[SUMS_LEFT] else 0
    for part in range(team[N_PARTS]):
        # Rows of the parts before, less those that went left, stand after all left ones.
        before = part * team[PART_ROWS] - (parts[part, LEFT_AT] - node[START])
        parts[part, RIGHT_AT] = node[START] + n_left + before
    return n_left, left_total


@kernel
def make_children(team, nodes, node_floats, splits, at, n_left):
    """Two new nodes, of which so many rows go left here; their sums are not set."""
    node, split = nodes[at], team[N_SPLITS]
    node[LEFT] = 2 * split + 1
    middle = node[START] + n_left
    n_right = node[END] - middle
    for side in range(2):
        child = node[LEFT] + side
        nodes[child, START] = middle if side else node[START]
        nodes[child, END] = node[END] if side else middle
        nodes[child, DEPTH] = node[DEPTH] + 1
        nodes[child, SLOT] = -1
        nodes[child, PLACE] = -1
        nodes[child, LEFT] = 0
        is_smaller = (n_left > n_right) == (side == 1)
        nodes[child, TAG] = child if is_smaller else node[TAG]
        node_floats[child, GAIN] = 0.0
        node_floats[child, LOW] = node_floats[at, LOW]
        node_floats[child, HIGH] = node_floats[at, HIGH]
    splits[split] = at
    team[N_SPLITS] += 1


@kernel
def _bound_children(nodes, node_floats, l2, at, lower, upper):
    """Part the values of two children by a monotone cut, half-way between the two.

    One cut for a whole level may leave them in the wrong order in some nodes: there both have the
    value of their parent. Or it may leave a child without rows: that one has the bound of its
    parent on its side, if there is one, and its sibling is free.
    """
    low, high = node_floats[at, LOW], node_floats[at, HIGH]
    if nodes[lower, COUNT] == 0 and low > -np.inf:
        node_floats[lower, HIGH] = low
        return
    if nodes[upper, COUNT] == 0 and high < np.inf:
        node_floats[upper, LOW] = high
        return
    below = value_between(nodes[lower, TOTAL], l2, low, high)
    above = value_between(nodes[upper, TOTAL], l2, low, high)
    border = 0.0 + below / 2 + above / 2
    if below > above:
        border = value_between(nodes[at, TOTAL], l2, low, high)
    node_floats[lower, HIGH] = border
    node_floats[upper, LOW] = border


@kernel
def set_children(nodes, node_floats, l2, at, n_left, sign):
    """The sums of two children, of which so many rows of all went left, and their bounds."""
    node = nodes[at]
    left, right = node[LEFT], node[LEFT] + 1
    nodes[left, COUNT] = n_left
    nodes[left, TOTAL] = node[LEFT_TOTAL]
    nodes[right, COUNT] = node[COUNT] - n_left
    nodes[right, TOTAL] = node[TOTAL] - node[LEFT_TOTAL]
    if sign > 0:
        _bound_children(nodes, node_floats, l2, at, left, right)
    elif sign < 0:
        _bound_children(nodes, node_floats, l2, at, right, left)


@kernel
def plan_sums_by_rows(team, nodes, free, rules, settings, wanted):
    """Which child is summed, how, and where: the one with fewer rows; or none, if none is wanted.

    Its histogram is new, if it has enough rows; the larger one's is in the parent's place.
    """
    left = nodes[team[NODE], LEFT]
    right = left + 1
    slot = nodes[team[NODE], SLOT]
    team[SUM_SIDE] = NEITHER
    team[SUMMED] = -1
    team[OTHER] = -1
    if not wanted or max(nodes[left, COUNT], nodes[right, COUNT]) < 2 * rules[FEWEST]:
        free_slot(team, free, slot)
        return
    side = LEFT_SIDE if nodes[left, COUNT] <= nodes[right, COUNT] else RIGHT_SIDE
    small, large = (left, right) if side == LEFT_SIDE else (right, left)
    nodes[large, SLOT] = slot
    if nodes[small, COUNT] > settings.kept_rows:
        nodes[small, SLOT] = take_slot(team, free)
    team[SUMMED] = small
    team[OTHER] = large
    if nodes[small, END] - nodes[small, START] > settings.few_rows:
        team[SUM_SIDE] = side
        team[SUM_SLOT] = nodes[small, SLOT]


@kernel
def plan_sums_by_curvature(g, at, wanted):
    """Which child is summed while rows are divided, and where: the one with less curvature.

    How many rows go left of all growers is not known before.
    """
    team, node = g.team, g.nodes[at]
    team[SUM_SIDE] = NEITHER
    team[SUM_SLOT] = -1
    if wanted and node[COUNT] >= 2 * g.rules[FEWEST]:
        left = node[LEFT_TOTAL] & 0xFFFFFFFF
        team[SUM_SIDE] = LEFT_SIDE if 2 * left <= node[TOTAL] & 0xFFFFFFFF else RIGHT_SIDE
        team[SUM_SLOT] = take_slot(team, g.free)


@kernel
def give_slots(g):
    """Give the children of a divided node the histogram that was summed, and their parent's."""
    team, nodes = g.team, g.nodes
    left, slot = nodes[team[NODE], LEFT], nodes[team[NODE], SLOT]
    team[SUMMED] = -1
    team[OTHER] = -1
    if team[SUM_SIDE] == NEITHER:
        free_slot(team, g.free, slot)
        return
    team[SUMMED] = left if team[SUM_SIDE] == LEFT_SIDE else left + 1
    team[OTHER] = 2 * left + 1 - team[SUMMED]
    nodes[team[SUMMED], SLOT] = team[SUM_SLOT]
    nodes[team[OTHER], SLOT] = slot


@kernel
def add_pending(team, pending, slot, at, count, total):
    """Note sums that are to be added up over all growers."""
    entry = pending.sums[team[N_PENDING]]
    entry[PENDING_SLOT] = slot
    entry[PENDING_NODE] = at
    entry[PENDING_COUNT] = count
    entry[PENDING_TOTAL] = total
    team[N_PENDING] += 1


@kernel
def take_root(g, pending):
    """The number of rows of the root and their packed sum, of all growers."""
    g.nodes[0, COUNT] = pending.sums[0, PENDING_COUNT]
    g.nodes[0, TOTAL] = pending.sums[0, PENDING_TOTAL]
    g.team[N_PENDING] = 0


@kernel
def _set_rules(team, nodes, rules, side_rules):
    """The rules for the nodes that are searched."""
    for side in range(2):
        at = team[OTHER] if side else team[SUMMED]
        if at >= 0:
            curvature = np.float64(nodes[at, TOTAL] & 0xFFFFFFFF)
            node_rules(rules, curvature, nodes[at, COUNT], side_rules[side])


@kernel
def _node_to_split(nodes, node_floats, n_nodes, best_first):
    """The node to split next, or -1: the one of the largest gain, or the highest one."""
    best = -1
    for at in range(n_nodes):
        if nodes[at, LEFT] != 0 or node_floats[at, GAIN] <= 0.0:
            continue
        if best < 0:
            best = at
        elif best_first:
            best = at if node_floats[at, GAIN] > node_floats[best, GAIN] else best
        else:
            best = at if nodes[at, DEPTH] < nodes[best, DEPTH] else best
    return best


@kernel
def _wants_children(rules, settings, n_splits, depth):
    """Whether children at this depth, after so many splits, may be split themselves."""
    return n_splits + 1 < settings.max_leaves and depth < rules[MAX_DEPTH]


@kernel
def _choose(g, settings, pending):
    """Choose a node to split and plan its division: the next step, OVER if there is none."""
    team, nodes = g.team, g.nodes
    if team[N_SPLITS] + 1 >= settings.max_leaves:
        return OVER
    at = _node_to_split(nodes, g.node_floats, 2 * team[N_SPLITS] + 1, settings.best_first)
    if at < 0:
        return OVER
    team[NODE] = at
    team[SUM_SIDE] = NEITHER
    if pending is not None:
        wanted = _wants_children(g.rules, settings, team[N_SPLITS] + 1, nodes[at, DEPTH] + 1)
        plan_sums_by_curvature(g, at, wanted)
    cut_into_parts(team, nodes[at], settings.part_rows)
    return DIVIDE


@kernel
def _after_division(g, layout, settings, pending):
    """Make the children of a divided node, or have its cut searched again: the next step."""
    team, at = g.team, g.team[NODE]
    node = g.nodes[at]
    n_here, _ = place_parts(team, node, g.parts)
    n_left = n_here
    if pending is not None:
        n_left = pending.sums[0, PENDING_COUNT]
        team[N_PENDING] = 0
    if min(n_left, node[COUNT] - n_left) < g.rules[FEWEST]:
        node[PLACE] = -1
        team[SUMMED] = at
        team[OTHER] = -1
        if pending is not None and team[SUM_SIDE] != NEITHER:
            free_slot(team, g.free, team[SUM_SLOT])
            team[SUM_SIDE] = NEITHER
        _set_rules(team, g.nodes, g.rules, g.side_rules)
        return RECOUNT if pending is None else COUNT_ROWS
    feature = layout.features[node[PLACE]]
    if layout.kinds[feature] == PLAIN:
        # Nothing was missing here in training: a missing value goes with the majority.
        g.tables[at, 255] = 2 * n_left >= node[COUNT]
    make_children(team, g.nodes, g.node_floats, g.splits, at, n_here)
    set_children(g.nodes, g.node_floats, g.rules[L2], at, n_left, layout.signs[feature])
    if pending is None:
        wanted = _wants_children(g.rules, settings, team[N_SPLITS], node[DEPTH] + 1)
        plan_sums_by_rows(team, g.nodes, g.free, g.rules, settings, wanted)
    else:
        give_slots(g)
        team[SUM_SIDE] = NEITHER
    return PUT_BACK


@kernel
def _exchange_first(g, step, pending):
    """What is due before the plan goes on with numbers of all growers: the next step, or -1."""
    team = g.team
    if pending.shared and step in (SEARCH, RECOUNT):
        team[DUE] = step
        return COMPARE
    if step == SUM or (step == DIVIDE and team[SUM_SIDE] != NEITHER):
        team[DUE] = step
        return FINISH
    if step in (DIVIDE, COUNT_ROWS):
        team[DUE] = step
    elif step != FINISH:
        return -1
    if team[DUE] == SUM:
        add_pending(team, pending, team[SUM_SLOT], 0, g.nodes[0, COUNT], g.nodes[0, TOTAL])
    elif team[DUE] == DIVIDE:
        n_left, _ = place_parts(team, g.nodes[team[NODE]], g.parts)
        slot = -1 if team[SUM_SIDE] == NEITHER else team[SUM_SLOT]
        add_pending(team, pending, slot, team[NODE], n_left, 0)
    else:
        add_pending(team, pending, g.free[team[N_FREE] - 1], team[NODE], 0, 0)
    return REDUCE


@kernel
def next_of_leaves(g, layout, settings, unit, pending):
    """What follows the step that is done, where one node is split after the other."""
    team = g.team
    step = team[STEP]
    if pending is not None:
        due = _exchange_first(g, step, pending)
        if due >= 0:
            return due
        if step in (REDUCE, COMPARE):
            step = team[DUE]
            if step == SUM:
                take_root(g, pending)
            elif step == COUNT_ROWS:
                team[N_PENDING] = 0
                return RECOUNT
    if step == BEGIN:
        begin(g, settings)
        return SUM
    if step == DIVIDE:
        return _after_division(g, layout, settings, pending)
    if step == SUM or (step == PUT_BACK and team[SUMMED] >= 0):
        _set_rules(team, g.nodes, g.rules, g.side_rules)
        return SEARCH
    if step != PUT_BACK:
        for side in range(2):
            at = team[OTHER] if side else team[SUMMED]
            if at >= 0:
                own = own_term(g.nodes[at, TOTAL], g.rules[L2])
                set_cut(g, side, at, own, layout.features, unit)
        release(team, g.nodes, g.node_floats, g.free, settings.kept_rows)
    return _choose(g, settings, pending)

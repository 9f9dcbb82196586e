"""The steps of growing a tree, as the leader of a team plans them; others do the work."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel
from rankgrove.trees.binning import PLAIN
from rankgrove.trees.search import (
    FEWEST,
    L2,
    MAX_DEPTH,
    middle_of_children,
    node_rules,
    sum_left,
)
from rankgrove.trees.team import (
    BEGIN,
    BIN,
    BY_PARTS,
    COUNT,
    DEPTH,
    DIVIDE,
    END,
    GAIN,
    HAS_SUMMED,
    HIGH,
    LEAFWISE,
    LEFT,
    LEFT_AT,
    LEFT_SUM,
    LEFT_TOTAL,
    LEVEL_END,
    LOW,
    N_FREE,
    N_LEFT,
    N_PARTS,
    N_SPLITS,
    NODE,
    OBLIVIOUS,
    OTHER,
    OVER,
    PART_ROWS,
    PLACE,
    PUT_BACK,
    RECOUNT,
    RIGHT_AT,
    SEARCH,
    SEARCH_LEVEL,
    SLOT,
    START,
    STEP,
    SUM,
    SUMMED,
    SUMS_LEFT,
    TOTAL,
)


@kernel
def _set_rules(team, nodes, rules, own_rules):
    """The rules for the nodes that are searched."""
    for side in range(2):
        at = team[OTHER] if side else team[SUMMED]
        if at >= 0:
            curvature = np.float64(nodes[at, TOTAL] & 0xFFFFFFFF)
            node_rules(rules, curvature, nodes[at, COUNT], own_rules[side])


@kernel
def _set_cut(node, values, table, found_gains, found_cuts, found_tables, features, l2, unit):
    """Give a node the best of the cuts that were found in its blocks."""
    force = np.float64(node[TOTAL] >> 32)
    weight = np.float64(node[TOTAL] & 0xFFFFFFFF) + l2
    own = force * force / weight if weight > 0 else 0.0
    best = 0.0
    true_gain = 0.0
    best_block = -1
    for block in range(len(found_gains)):
        gain = found_gains[block, 0]
        place = found_cuts[block, 0]
        if gain > best or (gain == best > 0.0 and features[place] < features[node[PLACE]]):
            best = gain
            true_gain = found_gains[block, 2]
            best_block = block
            node[PLACE] = place
    if best_block >= 0:
        node[BIN] = found_cuts[best_block, 1]
        node[LEFT_TOTAL] = found_cuts[best_block, 2]
        table[:] = found_tables[best_block]
    # A gain in the last digits of its own terms is none.
    values[GAIN] = (true_gain - own) * unit if true_gain > own * (1.0 + 1e-12) else 0.0


@kernel
def _release(team, nodes, node_floats, free, kept_rows, growth):
    """Free the histograms of nodes that will not be split, or that are small.

    To read those of a small node from memory takes longer than to sum its rows again.
    """
    for at in (team[SUMMED], team[OTHER]):
        if at < 0 or nodes[at, SLOT] < 0:
            continue
        unwanted = growth != OBLIVIOUS and node_floats[at, GAIN] <= 0.0
        if unwanted or nodes[at, COUNT] <= kept_rows:
            free[team[N_FREE]] = nodes[at, SLOT]
            team[N_FREE] += 1
            nodes[at, SLOT] = -1


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
    left_total = np.int64(0)
    for part in range(team[N_PARTS]):
        parts[part, LEFT_AT] = node[START] + n_left
        n_left += parts[part, N_LEFT]
        if team[SUMS_LEFT]:
            left_total += parts[part, LEFT_SUM]
    if team[SUMS_LEFT]:
        node[LEFT_TOTAL] = left_total
    for part in range(team[N_PARTS]):
        # Rows of the parts before, less those that went left, stand after all left ones.
        before = part * team[PART_ROWS] - (parts[part, LEFT_AT] - node[START])
        parts[part, RIGHT_AT] = node[START] + n_left + before
    return n_left


@kernel
def _make_children(nodes, node_floats, at, left, n_left, sign, l2):
    """Two new nodes, with the bounds that a monotone split sets them."""
    node = nodes[at]
    left_total = node[LEFT_TOTAL]
    node[LEFT] = left
    middle = node[START] + n_left
    for child in (left, left + 1):
        nodes[child, START] = node[START] if child == left else middle
        nodes[child, END] = middle if child == left else node[END]
        nodes[child, COUNT] = n_left if child == left else node[COUNT] - n_left
        nodes[child, TOTAL] = left_total if child == left else node[TOTAL] - left_total
        nodes[child, DEPTH] = node[DEPTH] + 1
        nodes[child, SLOT] = -1
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
def _plan_children(team, nodes, free, rules, growth, max_leaves, few_rows, kept_rows):
    """Which child is summed, how, and where; or none, if neither may be split."""
    left = nodes[team[NODE], LEFT]
    right = left + 1
    n_left, n_right = nodes[left, COUNT], nodes[right, COUNT]
    slot = nodes[team[NODE], SLOT]
    # (With one cut a level the depth is what ends a tree.)
    full = growth != OBLIVIOUS and team[N_SPLITS] + 1 >= max_leaves
    wanted = not full and nodes[left, DEPTH] < rules[MAX_DEPTH]
    team[BY_PARTS] = 0
    if not wanted or max(n_left, n_right) < 2 * rules[FEWEST]:
        team[SUMMED] = -1
        if slot >= 0:
            free[team[N_FREE]] = slot
            team[N_FREE] += 1
        return
    small, large = (left, right) if n_left <= n_right else (right, left)
    # The smaller child's histogram is new, if any; the larger one's is in the parent's place.
    nodes[large, SLOT] = slot
    if min(n_left, n_right) > kept_rows:
        team[N_FREE] -= 1
        nodes[small, SLOT] = free[team[N_FREE]]
    team[SUMMED] = small
    team[OTHER] = large
    team[BY_PARTS] = nodes[small, END] - nodes[small, START] > few_rows


@kernel
def _after_division(g, layout, how):
    """Make the children of a divided node, or have its cut searched again: the next step."""
    team, nodes = g.team, g.nodes
    at = team[NODE]
    node = nodes[at]
    n_rows = node[COUNT]
    n_left = _place_parts(team, node, g.parts)
    if how.growth != OBLIVIOUS and min(n_left, n_rows - n_left) < g.rules[FEWEST]:
        node[PLACE] = -1
        team[SUMMED] = at
        team[OTHER] = -1
        _set_rules(team, nodes, g.rules, g.own_rules)
        return RECOUNT
    split = team[N_SPLITS]
    feature = layout.features[node[PLACE]]
    if how.growth != OBLIVIOUS and layout.kinds[feature] == PLAIN:
        # Nothing was missing here in training: a missing value goes with the majority.
        g.tables[at, 255] = 2 * n_left >= n_rows
    _make_children(
        nodes, g.node_floats, at, 2 * split + 1, n_left, layout.signs[feature], g.rules[L2]
    )
    g.splits[split] = at
    team[N_SPLITS] += 1
    _plan_children(
        team, nodes, g.free, g.rules, how.growth, how.max_leaves, how.few_rows, how.kept_rows
    )
    return PUT_BACK


@kernel
def _choose(g, layout, how):
    """Choose a node to split and prepare its division: the next step, OVER if there is none."""
    team, nodes = g.team, g.nodes
    if team[N_SPLITS] + 1 >= how.max_leaves:
        return OVER
    at = _next_node(nodes, g.node_floats, 2 * team[N_SPLITS] + 1, how.growth == LEAFWISE)
    if at < 0:
        return OVER
    team[NODE] = at
    _make_parts(team, nodes[at], how.part_rows)
    return DIVIDE


@kernel
def _set_level(g, layout, unit):
    """Give all nodes of a level the cut that gains most; whether there is one."""
    team, nodes = g.team, g.nodes
    first, last = team[N_SPLITS], team[LEVEL_END]
    top = nodes[first]
    total = top[TOTAL]
    # Sums of gains are compared with nothing.
    top[TOTAL] = 0
    _set_cut(
        top, g.node_floats[first], g.tables[first], g.found_gains[:, 0:], g.found_cuts[:, 0],
        g.found_tables[:, 0], layout.features, 1.0, unit
    )  # fmt: skip
    top[TOTAL] = total
    gain = g.node_floats[first, GAIN] / (last - first)
    for at in range(first, last):
        g.node_floats[at, GAIN] = gain
        nodes[at, PLACE] = top[PLACE]
        nodes[at, BIN] = top[BIN]
        g.tables[at] = g.tables[first]
    return gain > 0.0


@kernel
def _next_of_level(g, layout, how):
    """Divide the next node of a level, or search the next level: the next step."""
    team, nodes = g.team, g.nodes
    while team[N_SPLITS] < team[LEVEL_END]:
        at = team[N_SPLITS]
        place, slot = nodes[at, PLACE], nodes[at, SLOT]
        if nodes[at, COUNT] > 0:
            team[NODE] = at
            # Where no histogram is kept, what goes left is summed with the division.
            team[SUMS_LEFT] = slot < 0
            if slot >= 0:
                nodes[at, LEFT_TOTAL] = sum_left(
                    g.histograms[slot, place // 16], place % 16,
                    layout.n_bins[layout.features[place]], g.tables[at]
                )  # fmt: skip
            _make_parts(team, nodes[at], how.part_rows)
            return DIVIDE
        # Without rows, and so are its children.
        nodes[at, LEFT_TOTAL] = 0
        _make_children(nodes, g.node_floats, at, 2 * at + 1, 0, 0.0, 0.0)
        g.splits[at] = at
        team[N_SPLITS] += 1
    team[LEVEL_END] = 2 * team[LEVEL_END] + 1
    return SEARCH_LEVEL if nodes[team[N_SPLITS], DEPTH] < g.rules[MAX_DEPTH] else OVER


@kernel
def _has_sums_to_make(team, nodes, growth):
    """Whether children are to be searched, or their histograms to be made and kept."""
    if team[SUMMED] < 0:
        return False
    return growth != OBLIVIOUS or nodes[team[OTHER], SLOT] >= 0


@kernel
def next_step(g, layout, how, unit, level):
    """What follows the step that is done: the number of its tasks."""
    team = g.team
    step = team[STEP]
    if step == BEGIN:
        _make_parts(team, g.nodes[0], how.part_rows)
        team[N_FREE] = len(g.free) - 1
        team[OTHER] = -1
        team[BY_PARTS] = 1
        team[LEVEL_END] = 1
        step = SUM
    elif step == SEARCH_LEVEL:
        if level is not None:
            step = _next_of_level(g, layout, how) if _set_level(g, layout, unit) else OVER
    elif how.growth == OBLIVIOUS and step == SUM:
        step = SEARCH_LEVEL
    elif step == DIVIDE:
        step = _after_division(g, layout, how)
    elif step == SUM or (step == PUT_BACK and _has_sums_to_make(team, g.nodes, how.growth)):
        _set_rules(team, g.nodes, g.rules, g.own_rules)
        step = SEARCH
    else:
        if step != PUT_BACK:
            for side in range(2):
                at = team[OTHER] if side else team[SUMMED]
                if at >= 0 and how.growth != OBLIVIOUS:
                    _set_cut(
                        g.nodes[at], g.node_floats[at], g.tables[at], g.found_gains[:, side:],
                        g.found_cuts[:, side], g.found_tables[:, side], layout.features,
                        g.rules[L2], unit
                    )  # fmt: skip
            _release(team, g.nodes, g.node_floats, g.free, how.kept_rows, how.growth)
        if level is None:
            step = _choose(g, layout, how)
        else:
            step = _next_of_level(g, layout, how)
    if step in (SUM, PUT_BACK):
        for worker in range(len(g.cycles)):
            team[HAS_SUMMED + worker] = 0
    team[STEP] = step
    by_block = step in (SEARCH, RECOUNT, SEARCH_LEVEL)
    return len(layout.block_bins) if by_block else team[N_PARTS]

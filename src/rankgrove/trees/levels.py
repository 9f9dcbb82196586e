"""The steps of growing an oblivious tree, one cut for all nodes of a level; see `steps.py`."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel
from rankgrove._jit.elementary import copy
from rankgrove.trees.search import L2, MAX_DEPTH, sum_left
from rankgrove.trees.steps import (
    add_pending,
    begin,
    best_block,
    cut_into_parts,
    free_slot,
    give_slots,
    has_few_rows,
    make_children,
    place_parts,
    plan_sums_by_curvature,
    plan_sums_by_rows,
    remakes,
    set_children,
    set_cut,
    take_root,
)
from rankgrove.trees.team import (
    BEGIN,
    BIN,
    COMPARE,
    COUNT,
    DEPTH,
    DIVIDE,
    DUE,
    FINISH,
    GAIN,
    LEFT_TOTAL,
    LEVEL_END,
    N_PENDING,
    N_SPLITS,
    NEITHER,
    NODE,
    OTHER,
    OVER,
    PENDING_COUNT,
    PENDING_NODE,
    PENDING_TOTAL,
    PLACE,
    PUT_BACK,
    REDUCE,
    SEARCH_LEVEL,
    SLOT,
    STEP,
    SUM,
    SUM_SIDE,
    SUM_SLOT,
    SUMMED,
    SUMS_LEFT,
    TOTAL,
)


@kernel
def _set_level(g, layout, unit, pending):
    """Give all nodes of a level the cut that gains most; whether there is one."""
    first, last = g.team[N_SPLITS], g.team[LEVEL_END]
    # Sums of gains are compared with nothing. (A number as it stands would compile a kernel anew.)
    set_cut(g, np.int64(0), first, 0.0, layout.features, unit)
    gain = g.node_floats[first, GAIN] / (last - first)
    for at in range(first, last):
        g.node_floats[at, GAIN] = gain
        g.nodes[at, PLACE] = g.nodes[first, PLACE]
        g.nodes[at, BIN] = g.nodes[first, BIN]
        copy(g.tables[first], g.tables[at])
    if pending is not None and pending.shared and gain > 0.0:
        # The rows of blocks hold the best cuts of growers here.
        none = np.int64(0)
        grower = best_block(g, none, none, len(g.block_gains), layout.features)
        for at in range(first, last):
            g.nodes[at, LEFT_TOTAL] = pending.left_totals[grower, at - first]
    return gain > 0.0


@kernel
def _plan_division(g, layout, settings, at, pending):
    """Plan to divide a node of a level by its cut."""
    team, node = g.team, g.nodes[at]
    place, slot = node[PLACE], node[SLOT]
    team[NODE] = at
    team[SUM_SIDE] = NEITHER
    # Where no histogram is kept, what goes left is summed with the division.
    team[SUMS_LEFT] = slot < 0 or (remakes(g) and has_few_rows(g, at))
    is_known = False
    if pending is not None:
        is_known = pending.shared
    if not (team[SUMS_LEFT] or is_known):
        node[LEFT_TOTAL] = sum_left(
            g.histograms[slot, place // 16], place % 16, layout.n_bins[layout.features[place]],
            g.tables[at]
        )  # fmt: skip
    if pending is not None:
        plan_sums_by_curvature(g, at, slot >= 0 and node[DEPTH] + 1 < g.rules[MAX_DEPTH])
    cut_into_parts(team, node, settings.part_rows)


@kernel
def _after_division(g, layout, settings, pending):
    """Make the children of a divided node."""
    team, at = g.team, g.team[NODE]
    node = g.nodes[at]
    n_left, left_total = place_parts(team, node, g.parts)
    make_children(team, g.nodes, g.node_floats, g.splits, at, n_left)
    if pending is None:
        if team[SUMS_LEFT]:
            node[LEFT_TOTAL] = left_total
        sign = layout.signs[layout.features[node[PLACE]]]
        set_children(g.nodes, g.node_floats, g.rules[L2], at, n_left, sign)
        wanted = node[DEPTH] + 1 < g.rules[MAX_DEPTH]
        plan_sums_by_rows(team, g.nodes, g.free, g.rules, settings, wanted)
    else:
        add_pending(
            team, pending, -1 if team[SUM_SIDE] == NEITHER else team[SUM_SLOT], at, n_left,
            left_total
        )  # fmt: skip
        give_slots(g)
        team[SUM_SIDE] = NEITHER


@kernel
def _take_children(g, layout, pending):
    """The sums of the children of a level, now that those of all growers are known."""
    for i in range(g.team[N_PENDING]):
        at = pending.sums[i, PENDING_NODE]
        if g.nodes[at, SLOT] < 0:
            g.nodes[at, LEFT_TOTAL] = pending.sums[i, PENDING_TOTAL]
        sign = layout.signs[layout.features[g.nodes[at, PLACE]]]
        n_left = pending.sums[i, PENDING_COUNT]
        set_children(g.nodes, g.node_floats, g.rules[L2], at, n_left, sign)


@kernel
def _next_of_nodes(g, layout, settings, pending):
    """Divide the next node of a level, or search the next level: the next step."""
    team, nodes = g.team, g.nodes
    while team[N_SPLITS] < team[LEVEL_END]:
        at = team[N_SPLITS]
        if nodes[at, COUNT] > 0:
            _plan_division(g, layout, settings, at, pending)
            return DIVIDE
        # Without rows, and so are its children.
        nodes[at, LEFT_TOTAL] = 0
        none = np.int64(0)
        make_children(team, nodes, g.node_floats, g.splits, at, none)
        set_children(nodes, g.node_floats, g.rules[L2], at, none, 0.0)
    team[LEVEL_END] = 2 * team[LEVEL_END] + 1
    if pending is not None:
        team[DUE] = SEARCH_LEVEL
        return REDUCE
    return SEARCH_LEVEL if nodes[team[N_SPLITS], DEPTH] < g.rules[MAX_DEPTH] else OVER


@kernel
def _has_sums_to_make(team, nodes):
    """Whether the histogram of a child is to be made and kept."""
    return team[SUMMED] >= 0 and nodes[team[OTHER], SLOT] >= 0


@kernel
def _release_small(g, kept_rows):
    """Free the histograms of children that are too small to keep them."""
    team, nodes = g.team, g.nodes
    for at in (team[SUMMED], team[OTHER]):
        if nodes[at, COUNT] <= kept_rows:
            free_slot(team, g.free, nodes[at, SLOT])
            nodes[at, SLOT] = -1


@kernel
def next_of_level(g, layout, settings, unit, pending):
    """What follows the step that is done, where a whole level has one cut."""
    team = g.team
    step = team[STEP]
    if pending is not None:
        if step == SUM or (step == DIVIDE and team[SUM_SIDE] != NEITHER):
            team[DUE] = step
            return FINISH
        if step == FINISH and team[DUE] == SUM:
            add_pending(team, pending, team[SUM_SLOT], 0, g.nodes[0, COUNT], g.nodes[0, TOTAL])
            return REDUCE
        if step == FINISH:
            step = DIVIDE
        elif step == REDUCE and team[DUE] == SUM:
            take_root(g, pending)
            step = SUM
        elif step == REDUCE:
            _take_children(g, layout, pending)
            deep = g.nodes[team[N_SPLITS], DEPTH] >= g.rules[MAX_DEPTH]
            return OVER if deep else SEARCH_LEVEL
        elif step == SEARCH_LEVEL and pending.shared:
            return COMPARE
        elif step == COMPARE:
            step = SEARCH_LEVEL
    if step == BEGIN:
        begin(g, settings)
        return SUM
    if step == SUM:
        return SEARCH_LEVEL
    if step == DIVIDE:
        _after_division(g, layout, settings, pending)
        return PUT_BACK
    if step == PUT_BACK and pending is None and _has_sums_to_make(team, g.nodes):
        return FINISH
    if step == SEARCH_LEVEL:
        if not _set_level(g, layout, unit, pending):
            return OVER
        team[N_PENDING] = 0
    elif step == FINISH:
        _release_small(g, settings.kept_rows)
    return _next_of_nodes(g, layout, settings, pending)

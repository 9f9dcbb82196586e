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

import numpy as np

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
from rankgrove._jit.hashing import mix
from rankgrove.trees.binning import WITH_MISSING
from rankgrove.trees.histogram import AHEAD, add, clear, subtract, sum_block, sum_rows
from rankgrove.trees.search import (
    AT_LEAST,
    FEWEST,
    L2,
    N_RULES,
    NOISE,
    add_gains,
    best_of_gains,
    node_rules,
    own_term,
    search_block,
)
from rankgrove.trees.steps import next_step
from rankgrove.trees.team import (
    BY_PARTS,
    COUNT,
    DIVIDE,
    DIVIDING,
    DONE,
    END,
    HAS_SUMMED,
    KEY,
    LEAVE,
    LEFT,
    LEFT_AT,
    LEFT_SUM,
    LEVEL_END,
    LOW,
    N_FREE,
    N_LEFT,
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
    SCANNING,
    SEARCH,
    SEARCH_LEVEL,
    SLOT,
    START,
    STEP,
    SUM,
    SUMMED,
    SUMMING,
    SUMS_LEFT,
    TICKET,
    TOTAL,
)

# A ticket holds the number of tasks and the next one.
_TICKET_BITS = 24
_TICKET_MASK = (1 << _TICKET_BITS) - 1

# A thread that waits longer than this many looks lets others run.
_LOOKS = 2000


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
def _sum_packed(packed, rows):
    total = np.int64(0)
    for i in range(len(rows)):
        total += packed[rows[i]]
    return total


@kernel
def _sum_part(g, layout, rows, worker):
    """Add rows to this thread's histograms of the node that is summed; the leader's are final."""
    n_blocks = len(layout.block_bins)
    own = g.histograms[g.nodes[g.team[SUMMED], SLOT]] if worker == 0 else g.partials[worker - 1]
    if g.team[HAS_SUMMED + worker] == 0:
        g.team[HAS_SUMMED + worker] = 1
        for block in range(n_blocks):
            clear(own[block].reshape(4096), layout.block_bins[block] * 16)
    sum_rows(g.words, g.packed, rows, layout.features, own, g.codes[worker])


@kernel
def _do_part(g, layout, step, part, worker):
    """Divide, put back or sum one part of a node's rows."""
    node = g.nodes[g.team[NODE]]
    start = node[START] + part * g.team[PART_ROWS]
    end = min(start + g.team[PART_ROWS], node[END])
    own = g.parts[part]
    clock = cycles()
    if step == DIVIDE:
        table = g.tables[g.team[NODE]]
        own[N_LEFT] = divide_stretch(g.columns[node[PLACE]], table, g.rows, g.spare, start, end)
        if g.team[SUMS_LEFT]:
            own[LEFT_SUM] = _sum_packed(g.packed, g.spare[start : start + own[N_LEFT]])
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
def _sum_block(g, layout, at, by_parts, block, histogram):
    """Sum a block of a node's histogram, or add up what threads have summed of it."""
    flat = histogram.reshape(4096)
    n_cells = layout.block_bins[block] * 16
    if not by_parts or not g.team[HAS_SUMMED]:
        clear(flat, n_cells)
    if by_parts:
        for other in range(len(g.partials)):
            if g.team[HAS_SUMMED + 1 + other]:
                add(flat, g.partials[other, block].reshape(4096), n_cells)
    else:
        rows = g.rows[g.nodes[at, START] : g.nodes[at, END]]
        sum_block(g.words, g.packed, rows, block, layout.features, flat)


@kernel
def _do_block(g, layout, how, recount, block, worker):
    """Sum and search one block of two children, or of the root; or count one and search again.

    Rows are counted in a free histogram. The estimate from curvatures still holds then, so the cut
    is never better than the one found without counting, and it does not matter when it is found.
    """
    team = g.team
    counts = g.histograms[g.free[team[N_FREE] - 1], block]
    for side in range(2):
        at = team[OTHER] if side else team[SUMMED]
        g.found_gains[block, side] = 0.0
        if at < 0:
            continue
        clock = cycles()
        slot = g.nodes[at, SLOT]
        histogram = g.room[worker] if slot < 0 else g.histograms[slot, block]
        n_rows = g.nodes[at, COUNT]
        if slot < 0 or (side == 0 and not recount):
            # (A node that is searched again is not one whose parts threads have summed.)
            _sum_block(g, layout, at, team[BY_PARTS] != 0 and not recount, block, histogram)
        if recount:
            clear(counts.reshape(4096), layout.block_bins[block] * 16)
            rows = g.rows[g.nodes[at, START] : g.nodes[at, END]]
            sum_block(g.words, g.ones, rows, block, layout.features, counts.reshape(4096))
        if side == 0 and team[OTHER] >= 0 and g.nodes[team[OTHER], SLOT] >= 0:
            other = g.histograms[g.nodes[team[OTHER], SLOT], block]
            n_cells = layout.block_bins[block] * 16
            subtract(other.reshape(4096), histogram.reshape(4096), n_cells)
        now = cycles()
        g.cycles[worker, SUMMING] += now - clock
        if n_rows >= 2 * g.rules[FEWEST] and how.growth != OBLIVIOUS:
            key = mix(np.uint64(team[KEY]) + np.uint64(at))
            g.found_gains[block, side], g.found_gains[block, 2 + side] = search_block(
                histogram, counts if recount else histogram, recount, block, g.nodes[at, TOTAL],
                n_rows, g.own_rules[side], g.node_floats[at, LOW:], how.careful, layout, g.allowed,
                key, g.floats[worker], g.ints[worker], g.found_cuts[block, side],
                g.found_tables[block, side]
            )  # fmt: skip
        g.cycles[worker, SCANNING] += cycles() - now


@kernel
def _do_level(g, layout, level, block, worker):
    """Search one block of all nodes of a level for the cut that gains most in all of them."""
    team, gains = g.team, level[worker]
    n_kinds = 2 if layout.block_kinds[block] == WITH_MISSING else 1
    n_bins = layout.block_bins[block]
    rules, sums = g.floats[worker].reshape(64)[:N_RULES], g.ints[worker, 0]
    gains[:n_kinds, :n_bins] = 0.0
    before = 0.0
    for at in range(team[N_SPLITS], team[LEVEL_END]):
        clock = cycles()
        slot, n_rows = g.nodes[at, SLOT], g.nodes[at, COUNT]
        total = g.nodes[at, TOTAL]
        before += own_term(total, g.rules[L2])
        if n_rows < 2 * g.rules[FEWEST]:
            continue
        histogram = g.room[worker] if slot < 0 else g.histograms[slot, block]
        if slot < 0 or at == 0:
            _sum_block(g, layout, at, slot >= 0, block, histogram)
        now = cycles()
        g.cycles[worker, SUMMING] += now - clock
        node_rules(g.rules, np.float64(total & 0xFFFFFFFF), n_rows, rules)
        for kind in range(n_kinds):
            for f in range(16):
                sums[f] = histogram[255, f] if kind else 0
            add_gains(histogram, n_bins, total, rules[AT_LEAST], rules[L2], sums, gains[kind])
        g.cycles[worker, SCANNING] += cycles() - now
    key = mix(np.uint64(team[KEY]) + np.uint64(team[N_SPLITS]))
    g.found_gains[block, 0], g.found_gains[block, 2] = best_of_gains(
        gains, before, block, layout, g.allowed, g.rules[NOISE], key, g.floats[worker],
        g.ints[worker], g.found_cuts[block, 0], g.found_tables[block, 0]
    )  # fmt: skip


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
def grow(g, layout, how, worker, unit, level):
    """Lead a team that grows a tree, as worker 0, or help it.

    `unit` is what gains are counted in. `level` is room for the gains of all cuts of a block, one a
    thread, for oblivious trees, and None for others: then what a level takes is not compiled. The
    root is the first node. OUT: nodes, splits, tables, and the number of splits in `team`.
    """
    team = g.team
    n_tasks = 0
    looks = 0
    while not atomic_load(team, LEAVE):
        task = _take(team)
        if task < 0 and worker == 0 and atomic_load(team, DONE) == n_tasks:
            n_tasks = next_step(g, layout, how, unit, level)
            atomic_store(team, DONE, 0)
            if team[STEP] == OVER:
                atomic_store(team, LEAVE, 1)
            elif n_tasks > 0:
                # The first task is the leader's.
                task = 0
                atomic_store(team, TICKET, (n_tasks << _TICKET_BITS) + 1)
        if task >= 0:
            looks = 0
            step = team[STEP]
            if step in (SEARCH, RECOUNT):
                _do_block(g, layout, how, step == RECOUNT, task, worker)
            elif step == SEARCH_LEVEL:
                if level is not None:
                    _do_level(g, layout, level, task, worker)
            else:
                _do_part(g, layout, step, task, worker)
            atomic_add(team, DONE, 1)
        else:
            pause()
            looks += 1
            if looks > _LOOKS:
                give_way()

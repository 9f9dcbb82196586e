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
    flattened,
    give_way,
    kernel,
    pause,
    prefetch,
)
from rankgrove._jit.hashing import mix
from rankgrove.trees.binning import PLAIN
from rankgrove.trees.histogram import add, clear, subtract, sum_block, sum_rows
from rankgrove.trees.level_search import add_gains, best_of_gains, order_categories
from rankgrove.trees.levels import next_of_level
from rankgrove.trees.search import (
    AT_LEAST,
    FEWEST,
    FOUND,
    L2,
    NOISE,
    choose,
    node_rules,
    own_term,
    scan_block,
    scan_feature,
    write_cut,
)
from rankgrove.trees.sparse import (
    add_common,
    add_places,
    count_others,
    divide_by_others,
    make_block,
    may_be_cut,
    sum_cells,
    sum_cells_of_block,
    take_cells,
)
from rankgrove.trees.steps import has_few_rows, next_of_leaves, remakes
from rankgrove.trees.team import (
    COMPARE,
    COUNT,
    COUNT_ROWS,
    DIVIDE,
    DIVIDING,
    DONE,
    END,
    FINISH,
    HAS_SUMMED,
    KEY,
    LEAVE,
    LEFT,
    LEFT_AT,
    LEFT_SIDE,
    LEFT_SUM,
    LEVEL_END,
    LOW,
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
    PENDING_NODE,
    PENDING_SLOT,
    PLACE,
    PUT_BACK,
    RECOUNT,
    REDUCE,
    RIGHT_AT,
    SCANNING,
    SEARCH,
    SEARCH_LEVEL,
    SLOT,
    START,
    STEP,
    SUM,
    SUM_SIDE,
    SUM_SLOT,
    SUMMED,
    SUMMING,
    SUMS_LEFT,
    TAG,
    TICKET,
    TOTAL,
)

# A ticket holds the number of tasks and the next one.
_TICKET_BITS = 24
_TICKET_MASK = (1 << _TICKET_BITS) - 1

# To divide a row takes less than a third of a fetch from memory: so many are asked for ahead.
_AHEAD = 32

# A thread that waits longer than this many looks lets others run.
_LOOKS = 2000


@kernel
def divide_stretch(column, table, rows, spare, start, end):
    """Divide rows by their codes: left ones to the front of the stretch in `spare`, others back.

    Returns how many went left. The others stand in reverse order.
    """
    # Places without a sign: one that might be negative would be looked at first.
    own, divided = rows[start:end], spare[start:end]
    left, right = np.uint64(0), np.uint64(len(own)) - np.uint64(1)
    for i in range(len(own)):
        if i + _AHEAD < len(own):
            prefetch(column, np.int64(own[i + _AHEAD]))
        row = own[i]
        # Both are written, and the wrong one is overwritten by what follows: no branch.
        divided[left] = row
        divided[right] = row
        goes_left = np.uint64(table[column[np.uint64(row)]])
        left += goes_left
        right -= np.uint64(1) - goes_left
    return np.int64(left)


@kernel
def _put_back(rows, spare, start, end, n_left, left_at, right_at):
    """Copy a divided stretch from `spare`: its left rows, and its others in their old order."""
    n_right = end - start - n_left
    left, right = rows[left_at : left_at + n_left], rows[right_at : right_at + n_right]
    for i in range(n_left):
        left[i] = spare[np.uint64(start + i)]
    for i in range(n_right):
        right[i] = spare[np.uint64(end - 1 - i)]


@kernel
def _sum_packed(packed, rows):
    total = np.int64(0)
    for i in range(len(rows)):
        total += packed[rows[i]]
    return total


@kernel
def _sum_part(g, layout, others, rows, worker):
    """Add rows to this thread's histograms of the node that is summed; the leader's are final."""
    histograms = g.histograms[g.team[SUM_SLOT]] if worker == 0 else g.partials[worker - 1]
    if g.team[HAS_SUMMED + worker] == 0:
        g.team[HAS_SUMMED + worker] = 1
        n_summed = len(histograms)
        if others is not None and remakes(g):
            n_summed = others.first_block
        for block in range(n_summed):
            clear(flattened(histograms[block]), layout.block_bins[block] * 16)
    if others is None:
        sum_rows(
            g.words, g.packed, rows, layout.features, layout.n_pairs, histograms, g.tiles[worker],
            g.scratch[worker]
        )  # fmt: skip
    else:
        n, features = others.first_block, layout.features[: others.first_block * 16]
        shared = g.scratch[worker]
        sum_rows(g.words, g.packed, rows, features, 0, histograms[:n], g.tiles[worker], shared)
        if not remakes(g):
            sum_cells(others, g.packed, rows, flattened(histograms))


@kernel
def _divide(g, others, place, table, start, end):
    """Divide a stretch of rows by the feature at a place: how many go left."""
    if others is not None and place >= others.first_block * 16:
        return divide_by_others(others, place, table, g.rows, g.spare, start, end)
    return divide_stretch(g.columns[place], table, g.rows, g.spare, start, end)


@kernel
def _sum_block(g, layout, others, packed, rows, block, flat):
    """Add rows to the flat histogram of a block, but for codes that are not kept."""
    if others is None:
        sum_block(g.words, packed, rows, block, layout.features, layout.n_pairs, flat)
    elif block < others.first_block:
        features = layout.features[: others.first_block * 16]
        sum_block(g.words, packed, rows, block, features, 0, flat)
    else:
        sum_cells_of_block(others, packed, rows, block, flat)


@kernel
def _complete(g, layout, others, block, histogram, total, worker):
    """Add to the histogram of a block what rows with codes that are not kept come to."""
    if others is not None and block >= others.first_block:
        n_bins, scratch = layout.block_bins[block], g.scan_ints[worker, 0]
        add_common(others, histogram, block, n_bins, total, scratch)


@kernel
def _may_be_cut(others, block, histogram, total, at_least):
    """Whether it is worth while to search a block: always, but for sparse features."""
    if others is not None and block >= others.first_block:
        return may_be_cut(others, histogram, block, total, at_least)
    return True


@kernel
def _mark_rows(g, others, node, part, n_rows):
    """Mark the rows of a part that was put back that went to the smaller child."""
    if others is None or not len(g.row_tags):
        return
    first, n = part[LEFT_AT], part[N_LEFT]
    child = node[LEFT]
    if g.nodes[child, TAG] == node[TAG]:
        first, n, child = part[RIGHT_AT], n_rows - n, child + 1
    for i in range(first, first + n):
        g.row_tags[g.rows[i]] = child


@kernel
def _do_part(g, layout, others, step, task, worker):
    """Divide, put back or sum one part of a node's rows."""
    node = g.nodes[g.team[NODE]]
    start = node[START] + task * g.team[PART_ROWS]
    end = min(start + g.team[PART_ROWS], node[END])
    part = g.parts[task]
    clock = cycles()
    if step == DIVIDE:
        table = g.tables[g.team[NODE]]
        part[N_LEFT] = _divide(g, others, node[PLACE], table, start, end)
        if g.team[SUMS_LEFT]:
            part[LEFT_SUM] = _sum_packed(g.packed, g.spare[start : start + part[N_LEFT]])
    elif step == PUT_BACK:
        _put_back(g.rows, g.spare, start, end, part[N_LEFT], part[LEFT_AT], part[RIGHT_AT])
        _mark_rows(g, others, node, part, end - start)
    now = cycles()
    g.cycles[worker, DIVIDING] += now - clock
    if step == SUM:
        _sum_part(g, layout, others, g.rows[start:end], worker)
    elif g.team[SUM_SIDE] != NEITHER:
        middle = start + part[N_LEFT]
        is_left = g.team[SUM_SIDE] == LEFT_SIDE
        rows = g.spare[start:middle] if is_left else g.spare[middle:end]
        _sum_part(g, layout, others, rows, worker)
    g.cycles[worker, SUMMING] += cycles() - now


@kernel
def _finish_block(g, layout, others, at, by_parts, block, histogram):
    """A block of the histogram of a node's rows here: add up what threads have summed, or rows.

    It lacks what `_complete` adds.
    """
    flat = flattened(histogram)
    n_cells = layout.block_bins[block] * 16
    if not by_parts or not g.team[HAS_SUMMED]:
        clear(flat, n_cells)
    if by_parts:
        for other in range(len(g.partials)):
            if g.team[HAS_SUMMED + 1 + other]:
                add(flat, flattened(g.partials[other, block]), n_cells)
    else:
        rows = g.rows[g.nodes[at, START] : g.nodes[at, END]]
        _sum_block(g, layout, others, g.packed, rows, block, flat)


@kernel
def _count_block(g, layout, others, at, block, worker):
    """Count the rows of a node here by bin, in a free histogram."""
    counts = g.histograms[g.free[g.team[N_FREE] - 1], block]
    clear(flattened(counts), layout.block_bins[block] * 16)
    rows = g.rows[g.nodes[at, START] : g.nodes[at, END]]
    _sum_block(g, layout, others, g.ones, rows, block, flattened(counts))
    _complete(g, layout, others, block, counts, len(rows), worker)


@kernel
def _subtract_block(histograms, block_bins, slot, block, histogram):
    """Take a child's sums from those of its parent, which become its sibling's."""
    if slot >= 0:
        whole = flattened(histograms[slot, block])
        subtract(whole, flattened(histogram), block_bins[block] * 16)


@kernel
def _is_remade(g, others, at, block):
    """Whether the histogram of a block is made where a node is searched, and not kept."""
    if others is None:
        return False
    return block >= others.first_block and remakes(g) and has_few_rows(g, at)


@kernel
def _sum_places(g, others, takes_away):
    """Find what sparse features come to in the nodes that have few rows of two to be searched.

    The smaller one may be taken away from its parent's histogram: that of its sibling is left.
    """
    for side in range(2):
        at = g.team[OTHER] if side else g.team[SUMMED]
        if at >= 0 and has_few_rows(g, at):
            rows = g.rows[g.nodes[at, START] : g.nodes[at, END]]
            add_places(others, g.packed, rows, g.place_sums[side])
    small, large = g.team[SUMMED], g.team[OTHER]
    if takes_away and large >= 0 and has_few_rows(g, small) and not has_few_rows(g, large):
        rows = g.rows[g.nodes[small, START] : g.nodes[small, END]]
        whole = flattened(g.histograms[g.nodes[large, SLOT]])
        take_cells(others, g.packed, rows, g.nodes[small, TOTAL], g.place_sums[0], whole)


@kernel
def _make_block(g, layout, others, at, side, block, at_least, histogram, worker):
    """Make the histogram of a block of sparse features, unless none of them may be cut.

    What they come to in the node of a side is known if it has few rows; of no side, -1, it is not.
    """
    if others is None:
        return True
    known = side >= 0 and has_few_rows(g, at)
    sums = g.scan_ints[worker, 0]
    if known:
        first = (block - others.first_block) * 16
        sums = g.place_sums[side, first : first + 16]
    return make_block(
        others, g.packed, g.row_tags, g.nodes[at, TAG], block, layout.block_bins[block],
        g.nodes[at, TOTAL], at_least, known, sums, histogram
    )  # fmt: skip


@kernel
def _take_away(g, layout, others, block, histogram):
    """Take the histogram of the node that is summed from its parent's: that of its sibling."""
    small, large = g.team[SUMMED], g.team[OTHER]
    if large >= 0 and not _is_remade(g, others, small, block):
        slot = g.nodes[large, SLOT]
        _subtract_block(g.histograms, layout.block_bins, slot, block, histogram)


@kernel
def _count_column(g, others, at, place, pending, counts):
    """Count the rows of a node by their codes at one place."""
    if pending is not None:
        # All growers have counted all blocks.
        found = g.histograms[g.free[g.team[N_FREE] - 1], place // 16]
        for code in range(256):
            counts[code] = found[code, place % 16]
        return
    for code in range(256):
        counts[code] = 0
    if others is not None and place >= others.first_block * 16:
        n_rows = g.nodes[at, END] - g.nodes[at, START]
        count_others(others, g.row_tags, g.nodes[at, TAG], place, n_rows, counts)
        return
    column = g.columns[place]
    for i in range(g.nodes[at, START], g.nodes[at, END]):
        counts[column[g.rows[i]]] += 1


@kernel
def _search_block(
    g, layout, others, settings, recount, at, side, block, histogram, worker, pending
):
    """Find the best cut of a block in a node.

    If its rows are to be counted, the feature that is best without is counted and searched again,
    and so on until the best one has been counted: counting never makes a cut better.
    """
    total, n_rows, rules = g.nodes[at, TOTAL], g.nodes[at, COUNT], g.side_rules[side]
    bounds, key = g.node_floats[at, LOW:], mix(np.uint64(g.team[KEY]) + np.uint64(at))
    gains, ints, order = g.scan_gains[worker], g.scan_ints[worker], g.orders[worker]
    counts, cut = g.counts[worker], g.block_cuts[block, side]
    own, is_counted = own_term(total, rules[L2]), ints[0]
    # Counting makes the best cut a worse one, and noise compares all features.
    takes_best = not recount and rules[NOISE] == 0.0
    scan_block(
        histogram, counts[:0], block, total, n_rows, rules, bounds, settings.has_monotone, layout,
        g.allowed, rules[FOUND] if takes_best else -1.0, gains, ints, order
    )  # fmt: skip
    for f in range(16):
        is_counted[f] = not recount
    while True:
        shown, gain = choose(
            block, layout.features, g.allowed, own, 0.0, rules[NOISE], key, gains, ints[1],
            ints[2], cut
        )  # fmt: skip
        column = cut[0] % 16
        if cut[0] < 0 or is_counted[column]:
            break
        is_counted[column] = 1
        _count_column(g, others, at, cut[0], pending, counts)
        scan_feature(
            histogram, counts, block, column, layout, total, n_rows, rules, bounds, gains, ints,
            order
        )  # fmt: skip
    if takes_best:
        if gain < rules[FOUND]:
            return
        # (If two threads write, either is right.)
        rules[FOUND] = gain
    write_cut(histogram, rules, layout, order, cut, g.block_tables[block, side])
    g.block_gains[block, side, 0] = shown
    g.block_gains[block, side, 1] = gain


@kernel
def _sum_node(g, layout, others, at, block, by_parts, histogram, worker):
    """The histogram of a block that a node keeps, or would keep if it were not small."""
    if others is not None and block >= others.first_block and remakes(g):
        _make_block(g, layout, others, at, np.int64(-1), block, 0.0, histogram, worker)
    else:
        _finish_block(g, layout, others, at, by_parts, block, histogram)
        _complete(g, layout, others, block, histogram, g.nodes[at, TOTAL], worker)


@kernel
def _do_block(g, layout, others, settings, recount, block, worker, pending):
    """Search one block of two children, or of the root; or of one again, with its rows counted.

    The estimate from curvatures still holds then, so the cut is never better than the one found
    without counting, and it does not matter when it is found.
    """
    team = g.team
    for side in range(2):
        at = team[OTHER] if side else team[SUMMED]
        g.block_gains[block, side, 0] = 0.0
        if at < 0:
            continue
        clock = cycles()
        is_large = g.nodes[at, COUNT] >= 2 * g.rules[FEWEST]
        total, at_least = g.nodes[at, TOTAL], g.side_rules[side, AT_LEAST]
        slot = g.nodes[at, SLOT]
        if _is_remade(g, others, at, block):
            histogram = g.scratch[worker, 0]
            is_large = is_large and _make_block(
                g, layout, others, at, side, block, at_least, histogram, worker
            )
        else:
            histogram = g.scratch[worker, 0] if slot < 0 else g.histograms[slot, block]
            if slot < 0 or (side == 0 and not recount):
                if pending is None:
                    by_parts = team[SUM_SIDE] != NEITHER
                    _sum_node(g, layout, others, at, block, by_parts, histogram, worker)
                else:
                    _complete(g, layout, others, block, histogram, total, worker)
        if side == 0:
            _take_away(g, layout, others, block, histogram)
        now = cycles()
        g.cycles[worker, SUMMING] += now - clock
        if is_large and _may_be_cut(others, block, histogram, total, at_least):
            _search_block(
                g, layout, others, settings, recount, at, side, block, histogram, worker, pending
            )
        g.cycles[worker, SCANNING] += cycles() - now


@kernel
def _do_sums(g, layout, others, step, block, worker, pending):
    """Finish one block of what is searched later, or count its rows."""
    team, at = g.team, g.team[SUMMED]
    clock = cycles()
    if pending is not None:
        if step == COUNT_ROWS:
            _count_block(g, layout, others, at, block, worker)
        else:
            histogram = g.histograms[team[SUM_SLOT], block]
            _finish_block(g, layout, others, at, True, block, histogram)
    elif not _is_remade(g, others, at, block):
        slot = g.nodes[at, SLOT]
        histogram = g.scratch[worker, 0] if slot < 0 else g.histograms[slot, block]
        by_parts = team[SUM_SIDE] != NEITHER
        _sum_node(g, layout, others, at, block, by_parts, histogram, worker)
        _take_away(g, layout, others, block, histogram)
    g.cycles[worker, SUMMING] += cycles() - clock


@kernel
def _do_level(g, layout, others, settings, level, block, worker, pending):
    """Search one block of all nodes of a level for the cut that gains most in all of them."""
    team, gains, rules = g.team, level.gains[worker], g.scan_rules[worker]
    if pending is not None:
        for i in range(team[N_PENDING]):
            slot = pending.sums[i, PENDING_SLOT]
            if slot >= 0:
                divided = pending.sums[i, PENDING_NODE]
                parent, at = g.nodes[divided, SLOT], g.nodes[divided, LEFT]
                at += g.nodes[at, SLOT] != slot
                histogram = g.histograms[slot, block]
                _complete(g, layout, others, block, histogram, g.nodes[at, TOTAL], worker)
                _subtract_block(g.histograms, layout.block_bins, parent, block, histogram)
    n_kinds = 1 if layout.block_kinds[block] == PLAIN else 2
    gains[:n_kinds, : layout.block_bins[block]] = 0.0
    before = 0.0
    for at in range(team[N_SPLITS], team[LEVEL_END]):
        clock = cycles()
        total = g.nodes[at, TOTAL]
        before += own_term(total, g.rules[L2])
        if g.nodes[at, COUNT] < 2 * g.rules[FEWEST]:
            continue
        node_rules(g.rules, np.float64(total & 0xFFFFFFFF), g.nodes[at, COUNT], rules)
        slot, is_made = g.nodes[at, SLOT], True
        if _is_remade(g, others, at, block):
            histogram = g.scratch[worker, 0]
            # The root has all sums: categories are sorted by them.
            at_least = rules[AT_LEAST] if at > 0 else 0.0
            is_made = _make_block(
                g, layout, others, at, np.int64(-1), block, at_least, histogram, worker
            )
        else:
            histogram = g.scratch[worker, 0] if slot < 0 else g.histograms[slot, block]
            if slot < 0 or at == 0:
                if pending is None:
                    _sum_node(g, layout, others, at, block, slot >= 0, histogram, worker)
                else:
                    _complete(g, layout, others, block, histogram, total, worker)
        now = cycles()
        g.cycles[worker, SUMMING] += now - clock
        if at == 0:
            order_categories(histogram, block, layout, rules, level.orders, level.n_ordered)
        if is_made and _may_be_cut(others, block, histogram, total, rules[AT_LEAST]):
            add_gains(
                histogram, block, layout, total, rules, g.node_floats[at, LOW:],
                settings.has_monotone, level.orders, level.n_ordered, g.scan_ints[worker, 0],
                g.scan_gains[worker], gains
            )  # fmt: skip
        g.cycles[worker, SCANNING] += cycles() - now
    key = mix(np.uint64(team[KEY]) + np.uint64(team[N_SPLITS]))
    best = g.block_gains[block, 0]
    best[0], best[1] = best_of_gains(
        gains, before, block, layout, g.allowed, g.rules[NOISE], key, level.orders,
        level.n_ordered, g.scan_gains[worker], g.scan_ints[worker], g.block_cuts[block, 0],
        g.block_tables[block, 0]
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
def _begin_step(team, n_threads, n_blocks, step, pending):
    """Begin a step that is planned: the number of its tasks."""
    if step in (SUM, DIVIDE, PUT_BACK):
        for worker in range(n_threads):
            team[HAS_SUMMED + worker] = 0
    team[STEP] = step
    if step in (REDUCE, COMPARE, OVER):
        return 0
    if pending is not None and step in (SEARCH, RECOUNT, SEARCH_LEVEL):
        return pending.end_block - pending.first_block
    return team[N_PARTS] if step in (SUM, DIVIDE, PUT_BACK) else n_blocks


@kernel
def grow(g, layout, others, settings, worker, unit, level, pending):
    """Lead a team that grows a tree, as worker 0, or help it.

    `others` are the codes of sparse features, and None without any. `unit` is what gains are
    counted in. `level` is what oblivious trees need, and None for others; `pending` is where sums
    are noted that several growers are to add up, and None for one: then what they take is not
    compiled. The root is the first node. OUT: nodes, splits, tables, and the
    number of splits in `team`; the step is OVER, or REDUCE or COMPARE if threads are to come back
    when `exchange.py` has done that.

    Steps and tasks are called from here, not by a kernel in between: the compiler goes over all
    that a kernel calls once more for the kernel.
    """
    team = g.team
    n_tasks = 0
    looks = 0
    while not atomic_load(team, LEAVE):
        task = _take(team)
        if task < 0 and worker == 0 and atomic_load(team, DONE) == n_tasks:
            if level is None:
                step = next_of_leaves(g, layout, settings, unit, pending)
            else:
                step = next_of_level(g, layout, settings, unit, pending)
            if others is not None and remakes(g) and step in (SEARCH, RECOUNT, FINISH):
                _sum_places(g, others, step != RECOUNT)
            n_tasks = _begin_step(team, len(g.cycles), len(layout.block_bins), step, pending)
            atomic_store(team, DONE, 0)
            if step in (REDUCE, COMPARE, OVER):
                atomic_store(team, LEAVE, 1)
            elif n_tasks > 0:
                # The first task is the leader's.
                task = 0
                atomic_store(team, TICKET, (n_tasks << _TICKET_BITS) + 1)
        if task >= 0:
            looks = 0
            step = team[STEP]
            if pending is not None and step in (SEARCH, RECOUNT, SEARCH_LEVEL):
                task += pending.first_block
            if step in (SUM, DIVIDE, PUT_BACK):
                _do_part(g, layout, others, step, task, worker)
            elif level is not None:
                if step == FINISH:
                    _do_sums(g, layout, others, step, task, worker, pending)
                else:
                    _do_level(g, layout, others, settings, level, task, worker, pending)
            elif pending is not None and step in (FINISH, COUNT_ROWS):
                _do_sums(g, layout, others, step, task, worker, pending)
            else:
                _do_block(g, layout, others, settings, step == RECOUNT, task, worker, pending)
            atomic_add(team, DONE, 1)
        else:
            pause()
            looks += 1
            if looks > _LOOKS:
                give_way()

"""Expanding a node: divide its rows, sum the histograms of its children, find their best cuts.

Force and curvature of a row are whole numbers in the two halves of one int64, so one addition
sums both, the order of additions does not matter, and the histogram of the larger child is
exactly that of the parent minus that of the smaller one.

A histogram has the shape (256, 16) for a block of features: bin-major, so that the scan for
splits goes through 16 features side by side in vector registers. A block is summed, subtracted
and scanned in one go, while it is in the cache.

The rows of a node are a stretch of one array of row numbers. A split puts those that go left in
front of the others; both keep their order, so the rows of every node are in rising order and
sums over them are always taken in the same order.

The gain of a split, up to what is the same for all splits of a node, is
`F_l^2 / (C_l + l2) + F_r^2 / (C_r + l2)` of the sums of forces F and curvatures C.
"""

# mypy: disable-error-code="assignment, call-arg"
# (Numba gives the variables of kernels their types, and prefetch its first argument.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import cycles, kernel, prefetch
from rankgrove.trees.binning import CATEGORICAL, WITH_MISSING

# Rows of a node are scattered over the codes: fetching this far ahead halves the time (measured).
_AHEAD = 32

# Rows that are summed block by block before the next ones: their codes fit into the second-level
# cache for a hundred features or more.
_TILE_ROWS = 2048

# The columns of a table of work for `expand`: a small node, or some blocks of a large one.
START, END, SLOT, NEW_SLOT, TOTAL, PLACE, BIN, KIND, DEPTH, STATE, LEFT_TOTAL = range(11)
FIRST_BLOCK, LAST_BLOCK = 11, 12
N_JOB_COLUMNS = 13

# The state of a job, where it is not the number of rows that went left already: still to divide;
# the root, which is only searched; a node to be searched again with its rows counted, which is also
# what becomes of a job whose cut leaves a child too small.
UNDIVIDED, ROOT, RECOUNT = -1, -2, -3

# What `expand` returns of a job: rows that went left, their packed sum, and the cuts of the left
# and the right child, and the cycles spent on dividing, summing and scanning; the gains of the
# cuts, and the bounds of the children's values.
N_LEFT, LEFT_SUM, LEFT_CUT, RIGHT_CUT, DIVIDING, SUMMING, SCANNING = 0, 1, 2, 5, 8, 9, 10
N_FOUND_INTS = 11
LEFT_GAIN, RIGHT_GAIN, LEFT_BOUNDS, RIGHT_BOUNDS, N_FOUND_FLOATS = 0, 1, 2, 4, 6

# How a candidate splits: values up to a bin go left, and missing values right or left; or the
# first categories in rising, or falling, order of their statistic go left.
MISSING_RIGHT, MISSING_LEFT, RISING, FALLING = range(4)

# The rules of splitting, in units of the sums: the least curvature of a child, l2, the fewest rows
# of a child; for categories, what is added to l2, to the curvature of one category, and how many
# go left at most; the depth from which on nodes are not split. For one node, AT_LEAST also holds
# for the estimated number of rows, and RARE is the least curvature of a category that may go left.
AT_LEAST, L2, FEWEST, CATEGORY_L2, SMOOTHING, MOST_CATEGORIES, MAX_DEPTH, RARE = range(8)
N_RULES = 8


@kernel
def _clear(histogram, n_cells):
    for cell in range(n_cells):
        histogram[cell] = 0
    for cell in range(4080, 4096):
        histogram[cell] = 0


@kernel
def _add(whole, part, n_cells):
    for cell in range(n_cells):
        whole[cell] += part[cell]
    for cell in range(4080, 4096):
        whole[cell] += part[cell]


@kernel
def _subtract(whole, part, n_cells):
    for cell in range(n_cells):
        whole[cell] -= part[cell]
    for cell in range(4080, 4096):
        whole[cell] -= part[cell]


@kernel
def _add_half(word, value, histogram, first):
    for column in range(8):
        code = (word >> np.uint64(8 * column)) & np.uint64(255)
        histogram[code * np.uint64(16) + np.uint64(column) + first] += value


@kernel
def _add_row(low, high, value, histogram):
    """Add one row, whose 16 codes are the bytes of two words, to the histogram of its block."""
    _add_half(low, value, histogram, np.uint64(0))
    _add_half(high, value, histogram, np.uint64(8))


@kernel
def _sum_rows(
    words, n_words, packed, counting, rows, first_block, last_block, features, histograms, values
):  # fmt: skip
    """Add rows to the histograms of some blocks, tile by tile; or count them.

    The codes of a row are fetched with its first block and are in the second-level cache for the
    others, while one histogram after the other goes through the first-level cache.
    """
    for start in range(0, len(rows), len(values)):
        own = rows[start : min(start + len(values), len(rows))]
        n = len(own)
        for i in range(n):
            if i + _AHEAD < n:
                prefetch(packed, np.int64(own[i + _AHEAD]))
            values[i] = 1 if counting else packed[own[i]]
        for block in range(first_block, last_block):
            histogram = histograms[block].reshape(4096)
            if features[block * 16 + 8] < 0:
                # The last block, half empty.
                for i in range(n):
                    at = np.uint64(own[i]) * np.uint64(n_words) + np.uint64(2 * block)
                    _add_half(words[at], values[i], histogram, np.uint64(0))
                continue
            for i in range(n):
                if i + _AHEAD < n:
                    prefetch(words, np.int64(own[i + _AHEAD]) * n_words + 2 * block)
                at = np.uint64(own[i]) * np.uint64(n_words) + np.uint64(2 * block)
                _add_row(words[at], words[at + np.uint64(1)], values[i], histogram)


@kernel
def _scan(histogram, n_bins, total, at_least, l2, sums, gains, bins):
    """Try every cut of 16 features; `sums` is what lies left before the first bin."""
    total_force = np.float64(total >> 32)
    total_curvature = np.float64(total & 0xFFFFFFFF)
    for b in range(n_bins):
        row = histogram[b]
        for f in range(16):
            left = sums[f] + row[f]
            sums[f] = left
            force = np.float64(left >> 32)
            curvature = np.float64(left & 0xFFFFFFFF)
            other_force = total_force - force
            other_curvature = total_curvature - curvature
            x = curvature + l2
            y = other_curvature + l2
            gain = (force * force * y + other_force * other_force * x) / (x * y)
            allowed = (curvature >= at_least) & (other_curvature >= at_least)
            better = allowed & (gain > gains[f])
            gains[f] = gain if better else gains[f]
            bins[f] = b if better else bins[f]


@kernel
def _scan_counted(
    histogram, counts, n_bins, total, n_rows, at_least, fewest, l2, sums, counted, gains, bins
):  # fmt: skip
    """As `_scan`, with the rows on each side counted."""
    total_force = np.float64(total >> 32)
    total_curvature = np.float64(total & 0xFFFFFFFF)
    for b in range(n_bins):
        row = histogram[b]
        row_counts = counts[b]
        for f in range(16):
            left = sums[f] + row[f]
            sums[f] = left
            n_left = counted[f] + row_counts[f]
            counted[f] = n_left
            force = np.float64(left >> 32)
            curvature = np.float64(left & 0xFFFFFFFF)
            other_force = total_force - force
            other_curvature = total_curvature - curvature
            x = curvature + l2
            y = other_curvature + l2
            gain = (force * force * y + other_force * other_force * x) / (x * y)
            allowed = (curvature >= at_least) & (other_curvature >= at_least)
            allowed = allowed & (n_left >= fewest) & (n_rows - n_left >= fewest)
            better = allowed & (gain > gains[f])
            gains[f] = gain if better else gains[f]
            bins[f] = b if better else bins[f]


@kernel
def _scan_block(histogram, counts, exact, n_bins, block_kind, total, n_rows, rules, floats, ints):
    """The best cut of each numeric feature of a block: gains in floats[0], then bins, kinds."""
    gains, sums, bins, kinds, others, counted = (
        floats[0], ints[0], ints[1], ints[2], ints[3], ints[4]
    )  # fmt: skip
    at_least, l2, fewest = rules[AT_LEAST], rules[L2], np.int64(rules[FEWEST])
    for f in range(16):
        gains[f] = 0.0
        bins[f] = 0
        kinds[f] = MISSING_RIGHT
    for kind in range(2 if block_kind == WITH_MISSING else 1):
        for f in range(16):
            sums[f] = histogram[255, f] if kind == MISSING_LEFT else 0
            counted[f] = counts[255, f] if kind == MISSING_LEFT else 0
            others[f] = -1
        if exact:
            _scan_counted(
                histogram, counts, n_bins, total, n_rows, at_least, fewest, l2, sums, counted,
                gains, others
            )  # fmt: skip
        else:
            _scan(histogram, n_bins, total, at_least, l2, sums, gains, others)
        for f in range(16):
            if others[f] >= 0:
                bins[f] = others[f]
                kinds[f] = kind


@kernel
def _bounded_term(force, weight, bounds):
    """What a node adds to the gain: F^2 / weight unless its value has to be another."""
    value = min(max(force / weight, bounds[0]), bounds[1])
    return (2 * force - weight * value) * value


@kernel
def _lost_by_bounds(total, l2, bounds):
    """By how much the bounds lower a node's own term, which its cuts are compared with."""
    force = np.float64(total >> 32)
    weight = np.float64(total & 0xFFFFFFFF) + l2
    if weight <= 0 or (bounds[0] == -np.inf and bounds[1] == np.inf):
        return 0.0
    return force * force / weight - _bounded_term(force, weight, bounds)


@kernel
def _bounded_gain(left, total, counted, n_rows, rules, sign, bounds):
    """The gain of one cut under all rules, or -inf where one forbids it.

    The number of rows on the left, `counted`, is -1 where it is not known. `sign` is that of
    the feature's monotone constraint or 0; `bounds` hold the leaf values, all in units.
    """
    at_least, l2, fewest = rules[AT_LEAST], rules[L2], rules[FEWEST]
    force = np.float64(left >> 32)
    curvature = np.float64(left & 0xFFFFFFFF)
    other_force = np.float64(total >> 32) - force
    other_curvature = np.float64(total & 0xFFFFFFFF) - curvature
    if curvature < at_least or other_curvature < at_least:
        return -np.inf
    if counted >= 0 and (counted < fewest or n_rows - counted < fewest):
        return -np.inf
    x = curvature + l2
    y = other_curvature + l2
    value = min(max(force / x, bounds[0]), bounds[1])
    other = min(max(other_force / y, bounds[0]), bounds[1])
    if sign * (other - value) < 0:
        return -np.inf
    if bounds[0] == -np.inf and bounds[1] == np.inf:
        # As in `_scan`, to the bit: equal cuts of other blocks must stay equal.
        return (force * force * y + other_force * other_force * x) / (x * y)
    return _bounded_term(force, x, bounds) + _bounded_term(other_force, y, bounds)


@kernel
def _scan_carefully(
    histogram, counts, exact, column, n_bins, missing, total, n_rows, rules, sign, bounds, lost
):  # fmt: skip
    """The best cut of one numeric feature under all rules: (gain, bin, kind)."""
    best, best_bin, best_kind = 0.0, 0, MISSING_RIGHT
    for kind in range(2 if missing else 1):
        left = np.int64(0)
        counted = np.int64(0)
        if kind == MISSING_LEFT:
            left += histogram[255, column]
            counted += counts[255, column]
        for b in range(n_bins):
            left += histogram[b, column]
            counted += counts[b, column]
            known = counted if exact else np.int64(-1)
            gain = lost + _bounded_gain(left, total, known, n_rows, rules, sign, bounds)
            if gain > best:
                best, best_bin, best_kind = gain, b, kind
    return best, best_bin, best_kind


@kernel
def sort_categories(histogram, column, n_bins, rules, order):
    """Categories with enough curvature, in rising order of force / (curvature + smoothing).

    OUT: order, the codes. Returns how many. Those left out go right with the unknown ones.
    """
    smoothing, at_least = rules[SMOOTHING], rules[RARE]
    n = 0
    keys = np.empty(256)
    for b in range(n_bins):
        force = np.float64(histogram[b, column] >> 32)
        curvature = np.float64(histogram[b, column] & 0xFFFFFFFF)
        if curvature >= at_least and curvature > 0:
            key = force / (curvature + smoothing)
            i = n
            while i > 0 and keys[i - 1] > key:
                keys[i] = keys[i - 1]
                order[i] = order[i - 1]
                i -= 1
            keys[i] = key
            order[i] = b
            n += 1
    return n


@kernel
def _scan_categories(
    histogram, counts, exact, column, n_bins, total, n_rows, rules, bounds, lost, order
):
    """The best set of categories of one feature: (gain, how many less one, direction)."""
    n = sort_categories(histogram, column, n_bins, rules, order)
    own = np.empty(N_RULES)
    for rule in range(N_RULES):
        own[rule] = rules[rule]
    own[L2] += rules[CATEGORY_L2]
    most = min(np.int64(rules[MOST_CATEGORIES]), (n + 1) // 2 if n > 1 else n)
    best, best_bin, best_kind = 0.0, 0, RISING
    for kind in (RISING, FALLING):
        left = np.int64(0)
        counted = np.int64(0)
        for i in range(most):
            code = order[i] if kind == RISING else order[n - 1 - i]
            left += histogram[code, column]
            counted += counts[code, column]
            known = counted if exact else np.int64(-1)
            gain = lost + _bounded_gain(left, total, known, n_rows, own, 0.0, bounds)
            if gain > best:
                best, best_bin, best_kind = gain, i, kind
    return best, best_bin, best_kind


@kernel
def left_of(histogram, column, n_bins, bin_, kind, rules, table):
    """Which codes go left under a split, into `table`; returns the packed sum of their rows."""
    table[:] = 0
    if kind < RISING:
        table[: bin_ + 1] = 1
        table[255] = kind == MISSING_LEFT
    else:
        order = np.empty(256, np.int64)
        n = sort_categories(histogram, column, n_bins, rules, order)
        for i in range(bin_ + 1):
            table[order[i] if kind == RISING else order[n - 1 - i]] = 1
    total = np.int64(0)
    for code in range(256):
        if table[code]:
            total += histogram[code, column]
    return total


@kernel
def _scan_block_carefully(
    histogram, counts, exact, block, features, kinds, n_bins, total, n_rows, rules, signs, bounds,
    floats, ints
):  # fmt: skip
    """As `_scan_block`, under all rules: exact counts, monotone features, categories."""
    order = ints[3:].reshape(256)
    lost = _lost_by_bounds(total, rules[L2], bounds)
    for f in range(16):
        feature = features[block * 16 + f]
        floats[0, f] = 0.0
        if feature < 0:
            continue
        if kinds[feature] == CATEGORICAL:
            found = _scan_categories(
                histogram, counts, exact, f, n_bins[feature], total, n_rows, rules, bounds, lost,
                order
            )  # fmt: skip
        else:
            missing = kinds[feature] == WITH_MISSING
            found = _scan_carefully(
                histogram, counts, exact, f, n_bins[feature], missing, total, n_rows, rules,
                signs[feature], bounds, lost
            )  # fmt: skip
        floats[0, f] = found[0]
        ints[1, f] = found[1]
        ints[2, f] = found[2]


@kernel
def divide_stretch(column, table, rows, spare, start, end):
    """Divide rows by their codes: left ones to the front of the stretch in `spare`, others back.

    Returns how many went left. The others stand in reverse order.
    """
    left = start
    right = end - 1
    for i in range(start, end):
        if i + _AHEAD < end:
            prefetch(column, np.int64(rows[i + _AHEAD]))
        row = rows[i]
        # Both are written, and the wrong one is overwritten by what follows: no branch.
        spare[left] = row
        spare[right] = row
        goes_left = np.int64(table[column[row]])
        left += goes_left
        right -= 1 - goes_left
    return left - start


@kernel
def put_back(rows, spare, start, end, n_left, left_at, right_at):
    """Copy a divided stretch from `spare`: its left rows, and its others in their old order."""
    for i in range(n_left):
        rows[left_at + i] = spare[start + i]
    for i in range(end - start - n_left):
        rows[right_at + i] = spare[end - 1 - i]


@kernel
def node_rules(rules, curvature, n_rows, out):
    """The rules for one node: the number of rows of a bin is estimated from its curvature."""
    for rule in range(N_RULES):
        out[rule] = rules[rule]
    by_row = curvature / max(n_rows, 1)
    out[AT_LEAST] = max(rules[AT_LEAST], (rules[FEWEST] - 0.5) * by_row, 1.0)
    out[RARE] = rules[RARE] * by_row


@kernel
def _bound_children(total, left_total, sign, rules, bounds, found):
    """Bounds of the children's values: a monotone split parts them at the mean of the two."""
    for side in range(2):
        found[LEFT_BOUNDS + 2 * side] = bounds[0]
        found[LEFT_BOUNDS + 2 * side + 1] = bounds[1]
    if sign == 0:
        return
    middle = 0.0
    for part in (left_total, total - left_total):
        weight = np.float64(part & 0xFFFFFFFF) + rules[L2]
        value = np.float64(part >> 32) / weight if weight > 0 else 0.0
        middle += min(max(value, bounds[0]), bounds[1]) / 2
    found[LEFT_BOUNDS + (1 if sign > 0 else 0)] = middle
    found[RIGHT_BOUNDS + (0 if sign > 0 else 1)] = middle


@kernel
def _search_block(
    histogram, counts, exact, block, total, n_rows, rules, bounds, careful, block_kinds, block_bins,
    features, kinds, n_bins, allowed, signs, floats, ints, best, out
):  # fmt: skip
    """The better of `best` and the best cut of a block: its gain; place, bin and kind into out."""
    if careful or block_kinds[block] == CATEGORICAL:
        _scan_block_carefully(
            histogram, counts, exact, block, features, kinds, n_bins, total, n_rows, rules, signs,
            bounds, floats, ints
        )  # fmt: skip
    else:
        _scan_block(
            histogram, counts, exact, block_bins[block], block_kinds[block], total, n_rows, rules,
            floats, ints
        )  # fmt: skip
    return _choose(block, features, allowed, floats, ints, best, out)


@kernel
def _choose(block, features, allowed, floats, ints, best, out):
    """The better of `best` and what was found in a block; of equal ones the lower feature."""
    for f in range(16):
        feature = features[block * 16 + f]
        gain = floats[0, f]
        if feature < 0 or not allowed[feature] or gain <= 0.0:
            continue
        if gain > best or (gain == best and feature < features[out[0]]):
            best = gain
            out[0] = block * 16 + f
            out[1] = ints[1, f]
            out[2] = ints[2, f]
    return best


@kernel
def _search_counted(
    words, rows, total, rules, bounds, careful, histograms, counts, block_kinds, block_bins,
    features, kinds, n_bins, allowed, signs, values, floats, ints, out
):  # fmt: skip
    """The best cut of a node with the rows of every bin counted: its gain; the cut into out.

    The estimate from curvatures still holds, so the cut is never better than the one found
    without counting, and it does not matter when it is found.
    """
    n_blocks = len(block_bins)
    best = 0.0
    for block in range(n_blocks):
        _clear(counts[block].reshape(4096), block_bins[block] * 16)
    _sum_rows(words, 2 * n_blocks, counts[0, 0], True, rows, 0, n_blocks, features, counts, values)
    for block in range(n_blocks):
        best = _search_block(
            histograms[block], counts[block], True, block, total, len(rows), rules, bounds, careful,
            block_kinds, block_bins, features, kinds, n_bins, allowed, signs, floats, ints, best,
            out
        )  # fmt: skip
    return best


@kernel
def expand(
    columns, words, packed, rows, spare, partials, jobs, job_bounds, rules, careful, histograms,
    block_kinds, block_bins, features, kinds, n_bins, allowed, signs, first, last, tables,
    found_ints, found_floats
):  # fmt: skip
    """Expand nodes: divide their rows, sum the histograms of the children, find their best cuts.

    The rows of the smaller child are summed; the larger one's histogram is what is left of the
    parent's, in its slot. The root is only summed and searched. A child that is too small or too
    deep is not searched, and if neither is, nothing is summed. If a child is too small to be, the
    rows stay as they are, and the node's own cut is found again, with rows counted.
    Nodes that are divided already, and the root, are summed already too, part by part: the
    histograms of the parts are in `partials`.

    OUT: tables, which codes go left, of nodes that were still to divide; found_ints, found_floats.
    """
    floats = np.empty((1, 16))
    ints = np.empty((19, 16), np.int64)
    own = np.empty((2, N_RULES))
    values = np.empty(_TILE_ROWS, np.int64)
    n_words = 2 * len(block_kinds)
    for j in range(first, last):
        job, bounds, out, gains = jobs[j], job_bounds[j], found_ints[j], found_floats[j]
        start, end, total = job[START], job[END], job[TOTAL]
        n_left, left_total = job[STATE], job[LEFT_TOTAL]
        out[LEFT_CUT] = -1
        out[RIGHT_CUT] = -1
        gains[LEFT_GAIN] = 0.0
        gains[RIGHT_GAIN] = 0.0
        gains[LEFT_BOUNDS:] = 0.0
        out[DIVIDING:] = 0
        sign = 0.0
        if n_left >= UNDIVIDED:
            feature = features[job[PLACE]]
            sign = signs[feature]
            if n_left == UNDIVIDED:
                out[DIVIDING] -= cycles()
                node_rules(rules, np.float64(total & 0xFFFFFFFF), end - start, own[0])
                histogram = histograms[job[SLOT], job[PLACE] // 16]
                column = job[PLACE] % 16
                left_total = left_of(
                    histogram, column, n_bins[feature], job[BIN], job[KIND], own[0], tables[j]
                )
                n_left = divide_stretch(columns[job[PLACE]], tables[j], rows, spare, start, end)
                if min(n_left, end - start - n_left) < rules[FEWEST]:
                    n_left = RECOUNT
                else:
                    put_back(rows, spare, start, end, n_left, start, start + n_left)
                out[DIVIDING] += cycles()
        out[N_LEFT] = n_left
        out[LEFT_SUM] = left_total
        _bound_children(total, left_total, sign, rules, bounds, gains)
        sizes = (n_left, end - start - n_left)
        if n_left == ROOT:
            sizes = (end - start, 0)
        elif n_left == RECOUNT:
            out[SCANNING] -= cycles()
            node_rules(rules, np.float64(total & 0xFFFFFFFF), end - start, own[0])
            gains[LEFT_GAIN] = _search_counted(
                words, rows[start:end], total, own[0], bounds, careful, histograms[job[SLOT]],
                histograms[job[NEW_SLOT]], block_kinds, block_bins, features, kinds, n_bins,
                allowed, signs, values, floats, ints, out[LEFT_CUT:RIGHT_CUT]
            )  # fmt: skip
            out[SCANNING] += cycles()
            continue
        small = 0 if n_left == ROOT or sizes[0] <= sizes[1] else 1
        fewest = max(2 * rules[FEWEST], 2.0)
        deep = job[DEPTH] + (n_left != ROOT) >= rules[MAX_DEPTH]
        if deep or (sizes[0] < fewest and sizes[1] < fewest):
            continue
        small_start = start if small == 0 else start + n_left
        totals = (total, 0) if n_left == ROOT else (left_total, total - left_total)
        for side in range(2):
            node_rules(rules, np.float64(totals[side] & 0xFFFFFFFF), sizes[side], own[side])
        clock = cycles()
        first_block, last_block = job[FIRST_BLOCK], job[LAST_BLOCK]
        for block in range(first_block, last_block):
            flat = histograms[job[NEW_SLOT], block].reshape(4096)
            _clear(flat, block_bins[block] * 16)
            if job[STATE] != UNDIVIDED:
                for part in range(len(partials)):
                    _add(flat, partials[part, block].reshape(4096), block_bins[block] * 16)
        if job[STATE] == UNDIVIDED:
            small_rows = rows[small_start : small_start + sizes[small]]
            _sum_rows(
                words, n_words, packed, False, small_rows, first_block, last_block, features,
                histograms[job[NEW_SLOT]], values
            )  # fmt: skip
        scan_clock = cycles()
        out[SUMMING] += scan_clock - clock
        for block in range(first_block, last_block):
            if n_left != ROOT:
                whole = histograms[job[SLOT], block].reshape(4096)
                part = histograms[job[NEW_SLOT], block].reshape(4096)
                _subtract(whole, part, block_bins[block] * 16)
            for side in range(2):
                if sizes[side] >= fewest:
                    histogram = histograms[job[NEW_SLOT if side == small else SLOT], block]
                    gains[LEFT_GAIN + side] = _search_block(
                        histogram, histogram, False, block, totals[side], sizes[side], own[side],
                        gains[LEFT_BOUNDS + 2 * side : LEFT_BOUNDS + 2 * side + 2], careful,
                        block_kinds, block_bins, features, kinds, n_bins, allowed, signs, floats,
                        ints, gains[LEFT_GAIN + side],
                        out[LEFT_CUT + 3 * side : LEFT_CUT + 3 * side + 3]
                    )  # fmt: skip
        out[SCANNING] += cycles() - scan_clock


@kernel
def sum_part(words, packed, rows, start, end, block_bins, features, histograms):
    """The histograms of a stretch of rows, for all blocks; returns the cycles spent."""
    clock = cycles()
    n_blocks = len(block_bins)
    values = np.empty(_TILE_ROWS, np.int64)
    for block in range(n_blocks):
        _clear(histograms[block].reshape(4096), block_bins[block] * 16)
    _sum_rows(
        words, 2 * n_blocks, packed, False, rows[start:end], 0, n_blocks, features, histograms,
        values
    )  # fmt: skip
    return cycles() - clock


@kernel
def divide_parts(column, table, rows, spare, parts, first, last, n_left):
    """Divide parts of a node into `spare`; how many of each went left. Returns cycles spent."""
    clock = cycles()
    for p in range(first, last):
        n_left[p] = divide_stretch(column, table, rows, spare, parts[p, 1], parts[p, 2])
    return cycles() - clock


@kernel
def put_parts_back(rows, spare, parts, n_left, left_at, right_at, first, last):
    """Copy divided parts to where their left and right rows belong. Returns the cycles spent."""
    clock = cycles()
    for p in range(first, last):
        put_back(rows, spare, parts[p, 1], parts[p, 2], n_left[p], left_at[p], right_at[p])
    return cycles() - clock

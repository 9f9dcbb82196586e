"""The best cut of a node in its histograms.

The gain of a split, up to what is the same for all splits of a node, is
`F_l^2 / (C_l + l2) + F_r^2 / (C_r + l2)` of the sums of forces F and curvatures C.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import (
    by_address,
    flattened,
    inline_kernel,
    kernel,
    local_floats,
    next_above,
    reinterpret,
)
from rankgrove._jit.elementary import normal_of
from rankgrove._jit.hashing import mix
from rankgrove.trees.binning import CATEGORICAL, WITH_MISSING

# How a candidate splits: values up to a bin go left, and missing values right or left; or the
# first categories in rising, or falling, order of their statistic go left.
MISSING_RIGHT, MISSING_LEFT, RISING, FALLING = range(4)

# The rules of splitting, in units of the sums: the least curvature of a child, l2, the fewest rows
# of a child; for categories, what is added to l2, to the curvature of one category, and how many
# go left at most; the depth from which on nodes are not split. For one node, AT_LEAST also holds
# for the estimated number of rows, and RARE is the least curvature of a category that may go left.
# NOISE is the scale of normal noise in the roots of the sums that gains are found from, by which
# features are compared. FOUND is the best gain in a node so far: of lower ones none is looked for,
# and so which threads have found what does not matter.
AT_LEAST, L2, FEWEST, CATEGORY_L2, SMOOTHING, MOST_CATEGORIES, MAX_DEPTH, RARE, NOISE = range(9)
FOUND, N_RULES = 9, 10

# What gains in floats of 32 bits are compared with is lower by more than they may be wrong by. With
# more l2 than so much they might overflow.
_LOWER, _MOST_L2, _MOST_CURVATURE = 1 - 1e-5, 2.0**32, 2.0**31 - 1

# With fewer bins most cuts are the best one so far.
_MANY_BINS = 32


# The bits of 2^52, and what is taken away again: a force has a sign.
_BEHIND, _LOW_HALF, _HALF_RANGE = np.uint64(0x433 << 52), np.uint64(0xFFFFFFFF), np.uint64(1 << 31)
_FORCE_OFFSET, _CURVATURE_OFFSET = 2.0**52 + 2.0**31, 2.0**52

# A gain that is above 0 and below all others.
_LEAST = 1e-300


@by_address
class Layout(NamedTuple):
    """What kernels know of the features: by block, by place in the matrix, by feature.

    And how many of the last blocks of codes stand for two each.
    """

    block_kinds: NDArray[np.int64]
    block_bins: NDArray[np.int64]
    features: NDArray[np.int64]
    kinds: NDArray[np.int64]
    n_bins: NDArray[np.int64]
    signs: NDArray[np.float64]
    n_pairs: int


@inline_kernel
def unpack(packed):
    """The force and the curvature of a packed sum.

    A whole number below 2^52 becomes a float64 by putting it behind the bits of 2^52, which is then
    taken away: processors turn many numbers of 32 bits, but not of 64, into floats at once.
    """
    bits = np.uint64(packed)
    force = np.int64((bits >> np.uint64(32)) ^ _HALF_RANGE | _BEHIND).view(np.float64)
    curvature = np.int64((bits & _LOW_HALF) | _BEHIND).view(np.float64)
    return force - _FORCE_OFFSET, curvature - _CURVATURE_OFFSET


@kernel
def cut_gain(left, total_force, total_curvature, at_least, l2):
    """The gain of one cut, and whether both of its children are heavy enough."""
    force, curvature = unpack(left)
    other_force = total_force - force
    other_curvature = total_curvature - curvature
    x = curvature + l2
    y = other_curvature + l2
    gain = (force * force * y + other_force * other_force * x) / (x * y)
    return gain, (curvature >= at_least) & (other_curvature >= at_least)


@inline_kernel
def is_empty(row):
    """Whether there is nothing in one bin of 16 features."""
    seen = np.int64(0)
    for f in range(16):
        seen |= row[f]
    return seen == 0


@kernel
def _scan(histogram, n_bins, total, at_least, l2, sums, gains, bins):
    """Try every cut of 16 features; `sums` is what lies left before the first bin."""
    total_force = np.float64(total >> 32)
    total_curvature = np.float64(total & 0xFFFFFFFF)
    for b in range(n_bins):
        row = histogram[b]
        if b > 0 and is_empty(row):
            # No cut here is better than the one before.
            continue
        for f in range(16):
            left = sums[f] + row[f]
            sums[f] = left
            gain, allowed = cut_gain(left, total_force, total_curvature, at_least, l2)
            # No cut that is not allowed is better. (By way of 0 and a maximum: where a number is
            # kept or not by a condition, the compiler takes a masked store, which is slow.)
            gain = gain if allowed else 0.0
            best = gains[f]
            bins[f] = b if gain > best else bins[f]
            gains[f] = gain if gain > best else best


@kernel
def _scan_above(histogram, n_bins, total, at_least, l2, floor, chosen, sums, gains, bins):
    """As `_scan`, of cuts of chosen features that gain as much as a floor: how high it is then."""
    total_force = np.float64(total >> 32)
    total_curvature = np.float64(total & 0xFFFFFFFF)
    least = np.int32(min(math.ceil(at_least), _MOST_CURVATURE))
    flat, b = flattened(histogram), np.int64(0)
    while True:
        lower = np.float32(floor * _LOWER)
        found = next_above(flat, b, n_bins, sums, total, least, np.float32(l2), lower, chosen)
        b = found >> 16
        if b == n_bins:
            return floor
        for f in range(16):
            if (found >> f) & 1:
                gain, allowed = cut_gain(sums[f], total_force, total_curvature, at_least, l2)
                if allowed and gain > gains[f]:
                    gains[f], bins[f] = gain, b
                    floor = max(floor, gain)
        b += 1


@kernel
def _scan_block(histogram, n_bins, block_kind, total, rules, floor, chosen, gains, ints):
    """The best cut of each numeric feature of a block: its gain; its bin and kind in `ints`.

    With a floor, not below 0, of chosen features only, and none or any if it gains less.
    """
    bins, kinds = ints[1], ints[2]
    # On the stack: then the compiler knows that they are apart from the histogram.
    sums, others = reinterpret(local_floats(), np.int64), reinterpret(local_floats(), np.int64)
    best = local_floats()
    for f in range(16):
        best[f] = 0.0
        bins[f] = 0
        kinds[f] = MISSING_RIGHT
    for kind in range(2 if block_kind == WITH_MISSING else 1):
        for f in range(16):
            sums[f] = histogram[255, f] if kind == MISSING_LEFT else 0
            others[f] = -1
        at_least, l2 = rules[AT_LEAST], rules[L2]
        if floor >= 0.0:
            floor = _scan_above(
                histogram, n_bins, total, at_least, l2, floor, chosen, sums, best, others
            )
        else:
            _scan(histogram, n_bins, total, at_least, l2, sums, best, others)
        for f in range(16):
            if others[f] >= 0:
                bins[f] = others[f]
                kinds[f] = kind
    for f in range(16):
        gains[f] = best[f]


@kernel
def _bounded_term(force, weight, bounds):
    """What a node adds to the gain: F^2 / weight unless its value has to be another."""
    value = min(max(force / weight, bounds[0]), bounds[1])
    return (2 * force - weight * value) * value


@kernel
def lost_by_bounds(total, l2, bounds):
    """By how much the bounds lower a node's own term, which its cuts are compared with."""
    force = np.float64(total >> 32)
    weight = np.float64(total & 0xFFFFFFFF) + l2
    if weight <= 0 or (bounds[0] == -np.inf and bounds[1] == np.inf):
        return 0.0
    return force * force / weight - _bounded_term(force, weight, bounds)


@kernel
def bounded_gain(left, total, at_least, l2, sign, bounds):
    """The gain of one cut, or -inf where it leaves a light child or breaks the monotone sign.

    `sign` is that of the feature's monotone constraint or 0; `bounds` hold the leaf values, all in
    units.
    """
    force = np.float64(left >> 32)
    curvature = np.float64(left & 0xFFFFFFFF)
    other_force = np.float64(total >> 32) - force
    other_curvature = np.float64(total & 0xFFFFFFFF) - curvature
    if curvature < at_least or other_curvature < at_least:
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
    histogram, counts, column, n_bins, missing, total, n_rows, rules, sign, bounds, lost
):  # fmt: skip
    """The best cut of one numeric feature under all rules: (gain, bin, kind)."""
    best, best_bin, best_kind = 0.0, 0, MISSING_RIGHT
    exact = len(counts) > 0
    for kind in range(2 if missing else 1):
        left = np.int64(0)
        counted = np.int64(0)
        if kind == MISSING_LEFT:
            left += histogram[255, column]
            counted += counts[255] if exact else 0
        for b in range(n_bins):
            left += histogram[b, column]
            counted += counts[b] if exact else 0
            if exact and min(counted, n_rows - counted) < rules[FEWEST]:
                continue
            gain = lost + bounded_gain(left, total, rules[AT_LEAST], rules[L2], sign, bounds)
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
    keys = local_floats()
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
def most_categories(n, rules):
    """How many of n sorted categories may go left: no more than half, as the others may as well."""
    return min(np.int64(rules[MOST_CATEGORIES]), (n + 1) // 2 if n > 1 else n)


@kernel
def _scan_categories(
    histogram, counts, column, n_bins, total, n_rows, rules, bounds, lost, order
):  # fmt: skip
    """The best set of categories of one feature: (gain, how many less one, direction)."""
    n = sort_categories(histogram, column, n_bins, rules, order)
    l2 = rules[L2] + rules[CATEGORY_L2]
    most = most_categories(n, rules)
    best, best_bin, best_kind = 0.0, 0, RISING
    exact = len(counts) > 0
    for kind in (RISING, FALLING):
        left = np.int64(0)
        counted = np.int64(0)
        for i in range(most):
            code = order[i] if kind == RISING else order[n - 1 - i]
            left += histogram[code, column]
            counted += counts[code] if exact else 0
            if exact and min(counted, n_rows - counted) < rules[FEWEST]:
                continue
            gain = lost + bounded_gain(left, total, rules[AT_LEAST], l2, 0.0, bounds)
            if gain > best:
                best, best_bin, best_kind = gain, i, kind
    return best, best_bin, best_kind


@kernel
def scan_feature(
    histogram, counts, block, column, layout, total, n_rows, rules, bounds, gains, ints, order
):  # fmt: skip
    """The best cut of one feature of a block under all rules, as `scan_block` notes it.

    `counts` are the rows of each code: then both children must have enough. Without any, of length
    0, that is estimated.
    """
    feature = layout.features[block * 16 + column]
    gains[column] = 0.0
    if feature < 0:
        return
    lost = lost_by_bounds(total, rules[L2], bounds)
    if layout.kinds[feature] == CATEGORICAL:
        found = _scan_categories(
            histogram, counts, column, layout.n_bins[feature], total, n_rows, rules, bounds, lost,
            order
        )  # fmt: skip
    else:
        missing = layout.kinds[feature] == WITH_MISSING
        found = _scan_carefully(
            histogram, counts, column, layout.n_bins[feature], missing, total, n_rows, rules,
            layout.signs[feature], bounds, lost
        )  # fmt: skip
    gains[column] = found[0]
    ints[1, column] = found[1]
    ints[2, column] = found[2]


@kernel
def fill_table(bin_, kind, order, n, table):
    """Which codes go left under a cut, into `table`; categories are the first n of `order`."""
    table[:] = 0
    if kind < RISING:
        table[: bin_ + 1] = 1
        table[255] = kind == MISSING_LEFT
    elif order is not None:
        for i in range(bin_ + 1):
            table[order[i] if kind == RISING else order[n - 1 - i]] = 1


@kernel
def sum_left(histogram, column, n_bins, table):
    """The packed sum of the rows that go left under a cut."""
    total = np.int64(0)
    for code in range(n_bins):
        total += histogram[code, column] if table[code] else 0
    return total + (histogram[255, column] if table[255] else 0)


@kernel
def node_rules(rules, curvature, n_rows, out):
    """The rules for one node: the number of rows of a bin is estimated from its curvature."""
    for rule in range(N_RULES):
        out[rule] = rules[rule]
    by_row = curvature / max(n_rows, 1)
    out[AT_LEAST] = max(rules[AT_LEAST], (rules[FEWEST] - 0.5) * by_row, 1.0)
    out[RARE] = rules[RARE] * by_row


@kernel
def own_term(total, l2):
    """What gains of a node are counted from: the square of its force by its curvature and l2."""
    force = np.float64(total >> 32)
    weight = np.float64(total & 0xFFFFFFFF) + l2
    return force * force / weight if weight > 0 else 0.0


@kernel
def value_between(total, l2, low, high):
    """The value of a node within bounds, in units."""
    weight = np.float64(total & 0xFFFFFFFF) + l2
    value = np.float64(total >> 32) / weight if weight > 0 else 0.0
    return min(max(value, low), high)


@kernel
def scan_block(
    histogram, no_counts, block, total, n_rows, rules, bounds, has_monotone, layout, allowed, floor,
    gains, ints, order
):  # fmt: skip
    """The best cut of each feature of a block: its gain; its bin and kind in `ints`.

    With a floor, not below 0, any cut will do, or none, of features that have none that gains as
    much, or that are not allowed.
    """
    if has_monotone or layout.block_kinds[block] == CATEGORICAL:
        for f in range(16):
            scan_feature(
                histogram, no_counts, block, f, layout, total, n_rows, rules, bounds, gains, ints,
                order
            )  # fmt: skip
    else:
        n_bins, block_kind = layout.block_bins[block], layout.block_kinds[block]
        if n_bins < _MANY_BINS or rules[L2] > _MOST_L2:
            floor = -1.0
        chosen = np.int64(0)
        for f in range(16 if floor >= 0.0 else 0):
            feature = layout.features[block * 16 + f]
            if feature >= 0 and allowed[feature]:
                chosen |= np.int64(1) << f
        _scan_block(histogram, n_bins, block_kind, total, rules, floor, chosen, gains, ints)


@kernel
def write_cut(histogram, rules, layout, order, out, table):
    """Write what goes left under the chosen cut of a block: codes to `table`, the sum to `out`."""
    if out[0] < 0:
        return
    column, n_bins, n = out[0] % 16, layout.n_bins[layout.features[out[0]]], 0
    if out[2] >= RISING:
        n = sort_categories(histogram, column, n_bins, rules, order)
    else:
        n_bins = out[1] + 1
    fill_table(out[1], out[2], order, n, table)
    out[2] = sum_left(histogram, column, n_bins, table)


@kernel
def _normal(key):
    """A standard normal number, a function of the key."""
    return normal_of(mix(key), mix(key ^ np.uint64(0x6E6F6973)))


@kernel
def choose(block, features, allowed, own, before, noise, key, gains, bins, kinds, out):
    """The best of what was found in a block: what it is compared by, and its gain.

    Of equal ones the lower feature. A gain that is not above the node's own term is none. Noise is
    added to the root of `before` and the gain together: how well a tree fits that has the cut.
    """
    best = 0.0
    true_gain = 0.0
    out[0] = -1
    for f in range(16):
        feature = features[block * 16 + f]
        gain = gains[f]
        if feature < 0 or not allowed[feature] or gain <= 0.0:
            continue
        shown = gain
        if noise > 0.0:
            if gain <= own * (1.0 + 1e-12):
                continue
            # Noise decides between cuts that gain, not whether there is one.
            root = math.sqrt(before + gain)
            shown = max(root + noise * _normal(key + np.uint64(feature)), _LEAST)
        if shown > best or (shown == best and feature < features[out[0]]):
            best = shown
            true_gain = gain
            out[0] = block * 16 + f
            out[1] = bins[f]
            out[2] = kinds[f]
    return best, true_gain

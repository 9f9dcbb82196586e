"""The best cut of all nodes of a level of an oblivious tree, in their histograms.

What a cut gains is the sum of what it gains in each node. It gains nothing in a node where it
leaves a light child, or where it breaks the sign of a monotone feature: the cut is made there all
the same, and bounds keep the children's values in order.

Categories are sorted once for a tree, by the sums of all its rows: every level has the same.
`orders` and `n_ordered` are None where no feature is monotone or has categories: then what these
take is not compiled.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel
from rankgrove.trees.binning import CATEGORICAL, PLAIN, WITH_MISSING
from rankgrove.trees.search import (
    AT_LEAST,
    CATEGORY_L2,
    L2,
    RISING,
    bounded_gain,
    choose,
    cut_gain,
    fill_table,
    is_empty,
    lost_by_bounds,
    most_categories,
    own_term,
    sort_categories,
)


@kernel
def order_categories(histogram, block, layout, rules, orders, n_ordered):
    """Sort the categories of a block's features by the histogram of the root."""
    if orders is not None:
        for f in range(16):
            place = block * 16 + f
            feature = layout.features[place]
            if feature >= 0 and layout.kinds[feature] == CATEGORICAL:
                n_ordered[place] = sort_categories(
                    histogram, f, layout.n_bins[feature], rules, orders[place]
                )


@kernel
def _scan(histogram, n_bins, total, at_least, l2, sums, last, gains):
    """Add to the gain of every cut of 16 features what it gains in one node.

    `sums` is what lies left before the first bin. A cut that leaves a light child gains nothing.
    `last` is scratch for 16 gains: those of the bin before, which hold as long as bins are empty.
    """
    total_force = np.float64(total >> 32)
    total_curvature = np.float64(total & 0xFFFFFFFF)
    own = own_term(total, l2)
    for b in range(n_bins):
        row = histogram[b]
        out = gains[b]
        if b > 0 and is_empty(row):
            for f in range(16):
                out[f] += last[f]
            continue
        for f in range(16):
            left = sums[f] + row[f]
            sums[f] = left
            gain, allowed = cut_gain(left, total_force, total_curvature, at_least, l2)
            gain -= own
            # A gain in the last digits of its own terms is none.
            last[f] = gain if allowed & (abs(gain) > 1e-12 * own) else 0.0
            out[f] += last[f]


@kernel
def _gain_in_node(left, total, at_least, l2, sign, bounds, own, lost):
    """What one cut gains in a node, under all rules; see `bounded_gain`."""
    gain = bounded_gain(left, total, at_least, l2, sign, bounds) - (own - lost)
    return gain if gain != -np.inf and abs(gain) > 1e-12 * own else 0.0


@kernel
def _scan_carefully(histogram, block, layout, total, rules, bounds, orders, n_ordered, gains):
    """As `_scan` for all kinds of cuts, under all rules: monotone features, categories."""
    at_least, l2 = rules[AT_LEAST], rules[L2]
    own, lost = own_term(total, l2), lost_by_bounds(total, l2, bounds)
    for f in range(16):
        place = block * 16 + f
        feature = layout.features[place]
        if feature < 0:
            continue
        by_category = layout.kinds[feature] == CATEGORICAL
        n = n_ordered[place] if by_category else layout.n_bins[feature]
        n_cuts = most_categories(n, rules) if by_category else n
        for kind in range(1 if layout.kinds[feature] == PLAIN else 2):
            left = histogram[255, f] if kind == 1 and not by_category else np.int64(0)
            for i in range(n_cuts):
                code = i
                if by_category:
                    code = orders[place, n - 1 - i if kind else i]
                left += histogram[code, f]
                gains[kind, i, f] += _gain_in_node(
                    left, total, at_least, l2 + rules[CATEGORY_L2] if by_category else l2,
                    layout.signs[feature], bounds, own, lost
                )  # fmt: skip


@kernel
def add_gains(
    histogram, block, layout, total, rules, bounds, has_monotone, orders, n_ordered, sums, last,
    gains
):  # fmt: skip
    """Add to the gains of all cuts of a block what they gain in one node."""
    if orders is not None and (has_monotone or layout.block_kinds[block] == CATEGORICAL):
        _scan_carefully(
            histogram, block, layout, total, rules, bounds, orders, n_ordered, gains
        )  # fmt: skip
        return
    for kind in range(2 if layout.block_kinds[block] == WITH_MISSING else 1):
        for f in range(16):
            sums[f] = histogram[255, f] if kind else 0
        _scan(
            histogram, layout.block_bins[block], total, rules[AT_LEAST], rules[L2], sums, last,
            gains[kind]
        )  # fmt: skip


@kernel
def best_of_gains(
    gains, before, block, layout, allowed, noise, key, orders, n_ordered, best, ints, out, table
):  # fmt: skip
    """The best cut of a block by summed gains; see `choose` and `write_cut`.

    Where nothing was missing in training, a missing value goes with the majority of the bins.
    """
    bins, kinds = ints[1], ints[2]
    for f in range(16):
        feature = layout.features[block * 16 + f]
        best[f] = 0.0
        if feature < 0:
            continue
        first_kind = RISING if layout.kinds[feature] == CATEGORICAL else 0
        for kind in range(1 if layout.block_kinds[block] == PLAIN else 2):
            for b in range(layout.n_bins[feature]):
                if gains[kind, b, f] > best[f]:
                    best[f] = gains[kind, b, f]
                    bins[f] = b
                    kinds[f] = first_kind + kind
    shown, gain = choose(
        block, layout.features, allowed, 0.0, before, noise, key, best, bins, kinds, out
    )
    place = out[0]
    if place >= 0:
        feature = layout.features[place]
        if orders is not None:
            fill_table(out[1], out[2], orders[place], n_ordered[place], table)
        else:
            fill_table(out[1], out[2], None, 0, table)
        if layout.kinds[feature] == PLAIN:
            table[255] = 2 * (out[1] + 1) >= layout.n_bins[feature]
    return shown, gain

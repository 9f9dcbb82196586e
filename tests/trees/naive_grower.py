"""Growing a tree the plain way: every node sums its rows feature by feature and tries every cut.

The rules are those of `rankgrove.trees.grower`, written from its documents: gains from whole
numbers, the number of rows estimated from the curvature, and counted where the estimate was wrong.
"""

import numpy as np

from rankgrove.trees.binning import CATEGORICAL, MISSING_CODE, WITH_MISSING

MASK = 0xFFFFFFFF


class NaiveNode:
    def __init__(self, rows, depth, bounds=(-np.inf, np.inf)):
        self.rows, self.depth, self.bounds = rows, depth, bounds
        self.gain, self.feature, self.left_codes, self.children = 0.0, -1, None, None


def sums(packed):
    total = int(packed.sum())
    return float(total >> 32), float(total & MASK)


def value_of(force, weight, bounds):
    return min(max(force / weight if weight > 0 else 0.0, bounds[0]), bounds[1])


def term(force, weight, bounds):
    value = value_of(force, weight, bounds)
    return (2 * force - weight * value) * value


def candidates(codes, packed, kind, n_bins, options, unit):
    """(left codes, extra l2) of every cut of a feature, in the order in which they are tried."""
    if kind == CATEGORICAL:
        _, curvature = sums(packed)
        rare = options.category_smoothing * curvature / len(packed)
        stats = []
        for code in range(n_bins):
            force, weight = sums(packed[codes == code])
            if weight >= rare and weight > 0:
                stats.append((force / (weight + options.category_smoothing / unit), code))
        order = [code for _, code in sorted(stats, key=lambda entry: entry[0])]
        most = min(options.max_categories, (len(order) + 1) // 2 if len(order) > 1 else len(order))
        for direction in (order, order[::-1]):
            for count in range(1, most + 1):
                yield set(direction[:count]), options.category_l2 / unit
        return
    for missing_left in range(2 if kind == WITH_MISSING else 1):
        for last in range(n_bins):
            yield set(range(last + 1)) | ({MISSING_CODE} if missing_left else set()), 0.0


def search(node, codes, packed, bins, options, unit, signs, allowed, exact=False):
    """The best cut of a node: the first of the lowest feature with the largest gain."""
    own = packed[node.rows]
    total_force, total_curvature = sums(own)
    l2 = options.l2 / unit
    by_row = total_curvature / max(len(own), 1)
    estimate = (options.min_samples_leaf - 0.5) * by_row
    at_least = max(options.min_child_weight / unit, 1.0, estimate)
    best = 0.0
    node.gain, node.feature = 0.0, -1
    weight = total_curvature + l2
    parent = total_force * total_force / weight if weight > 0 else 0.0
    bounded = node.bounds != (-np.inf, np.inf)
    lost = parent - term(total_force, weight, node.bounds) if bounded and weight > 0 else 0.0
    for feature in np.flatnonzero(allowed):
        mine = codes[node.rows, feature]
        for left_codes, extra in candidates(
            mine, own, bins.kinds[feature], bins.n_bins[feature], options, unit
        ):
            goes_left = np.isin(mine, list(left_codes))
            force, curvature = sums(own[goes_left])
            x, y = curvature + l2 + extra, total_curvature - curvature + l2 + extra
            if curvature < at_least or total_curvature - curvature < at_least:
                continue
            n_left = int(goes_left.sum())
            if exact and min(n_left, len(own) - n_left) < options.min_samples_leaf:
                continue
            left = value_of(force, x, node.bounds)
            right = value_of(total_force - force, y, node.bounds)
            if signs[feature] * (right - left) < 0:
                continue
            other = total_force - force
            if bounded:
                terms = lost + (term(force, x, node.bounds) + term(other, y, node.bounds))
            else:
                terms = (force * force * y + other * other * x) / (x * y)
            if terms > best:
                best = terms
                node.feature, node.left_codes = feature, left_codes
    node.gain = best - parent if best > parent * (1 + 1e-12) else 0.0


def expand(node, codes, packed, bins, options, unit, signs, allowed):
    """Divide a node; False if a child is too small, and the node then has another cut."""
    goes_left = np.isin(codes[node.rows, node.feature], list(node.left_codes))
    left, right = node.rows[goes_left], node.rows[~goes_left]
    if min(len(left), len(right)) < options.min_samples_leaf:
        search(node, codes, packed, bins, options, unit, signs, allowed, exact=True)
        return False
    bounds = [node.bounds, node.bounds]
    sign = signs[node.feature]
    if sign:
        l2 = options.l2 / unit
        values = []
        for rows in (left, right):
            force, curvature = sums(packed[rows])
            values.append(value_of(force, curvature + l2, node.bounds))
        middle = values[0] / 2 + values[1] / 2
        low, high = node.bounds
        bounds = [(low, middle), (middle, high)] if sign > 0 else [(middle, high), (low, middle)]
    node.children = []
    for rows, own in zip((left, right), bounds, strict=True):
        child = NaiveNode(rows, node.depth + 1, own)
        deep = options.max_depth is not None and child.depth >= options.max_depth
        if not deep and len(rows) >= max(2 * options.min_samples_leaf, 2):
            search(child, codes, packed, bins, options, unit, signs, allowed)
        node.children.append(child)
    return True


def grow(codes, packed, rows, bins, options, unit, signs, allowed):
    """The leaves of a tree, as sets of rows, and its splits (feature, left codes) in order."""
    root = NaiveNode(np.asarray(rows), 0)
    search(root, codes, packed, bins, options, unit, signs, allowed)
    waiting, splits, n_leaves = [root], [], 1
    while waiting and n_leaves < options.max_leaves:
        waiting = [node for node in waiting if node.gain > 0]
        if not waiting:
            break
        if options.grower == "leafwise":
            node = max(waiting, key=lambda node: node.gain)
        else:
            node = min(waiting, key=lambda node: node.depth)
        if not expand(node, codes, packed, bins, options, unit, signs, allowed):
            continue
        waiting.remove(node)
        waiting.extend(node.children)
        splits.append(node)
        n_leaves += 1
    return root, splits

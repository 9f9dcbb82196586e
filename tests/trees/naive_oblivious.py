"""Growing an oblivious tree the plain way: at each level every cut is tried in every node.

The rules are those of `rankgrove.trees.grower`, written from its documents: gains from whole
numbers, the number of rows estimated from the curvature, one cut for all nodes of a level.
"""

from dataclasses import dataclass

import numpy as np

from rankgrove.trees.binning import CATEGORICAL, MISSING_CODE, WITH_MISSING
from trees.naive_grower import candidates, sums, term, value_of

FREE = (-np.inf, np.inf)


@dataclass
class Level:
    """One cut of all nodes of a level, and what it gains in them together."""

    gain: float
    feature: int
    last_bin: int
    missing_left: bool
    categories: frozenset | None = None
    sign: int = 0
    more_l2: float = 0.0

    def goes_left(self, codes):
        mine = codes[:, self.feature]
        if self.categories is not None:
            return np.isin(mine, list(self.categories))
        return np.where(mine == MISSING_CODE, self.missing_left, mine <= self.last_bin)


def least_curvature(total, n_rows, options, unit):
    """What a child must have: by weight, by the estimated number of rows, and one unit."""
    estimate = (options.min_samples_leaf - 0.5) * (total / max(n_rows, 1))
    return max(options.min_child_weight / unit, estimate, 1.0)


def gain_in(own, goes_left, options, unit, l2, cut, bounds):
    """What a cut gains in one node.

    Nothing where a child is too light, where rows are too few, or where the values of the children
    are not in the order that a monotone feature must have.
    """
    if len(own) < 2 * options.min_samples_leaf:
        return 0.0
    total_force, total = sums(own)
    force, curvature = sums(own[goes_left])
    at_least = least_curvature(total, len(own), options, unit)
    if curvature < at_least or total - curvature < at_least:
        return 0.0
    other = total_force - force
    x, y = curvature + l2 + cut.more_l2, total - curvature + l2 + cut.more_l2
    if cut.sign * (value_of(other, y, bounds) - value_of(force, x, bounds)) < 0:
        return 0.0
    # Written as the engine does, to the bit, so that equal gains are equal in both.
    parent = total_force * total_force / (total + l2)
    if bounds == FREE:
        gain = (force * force * y + other * other * x) / (x * y) - parent
    else:
        lost = parent - term(total_force, total + l2, bounds)
        gain = (term(force, x, bounds) + term(other, y, bounds)) - (parent - lost)
    # A gain in the last digits of its own terms is none.
    return gain if abs(gain) > 1e-12 * parent else 0.0


def all_cuts(bins, allowed, codes=None, packed=None, options=None, unit=1.0, signs=None):
    """Every cut, in the order in which equal ones are preferred.

    Categories are in the order that they have in all rows of the tree.
    """
    for feature in np.flatnonzero(allowed).tolist():
        n_bins, kind = bins.n_bins[feature], bins.kinds[feature]
        if kind == CATEGORICAL:
            sets = candidates(codes[:, feature], packed, kind, n_bins, options, unit)
            for left_codes, more_l2 in sets:
                yield Level(0.0, feature, -1, False, frozenset(left_codes), 0, more_l2)
            continue
        sign = 0 if signs is None else int(signs[feature])
        for missing_left in (False, True) if kind == WITH_MISSING else (False,):
            for last_bin in range(n_bins):
                yield Level(0.0, feature, last_bin, missing_left, None, sign)


def gain_of(cut, nodes, codes, packed, options, unit, more_l2=0.0, bounds=None):
    """What a cut gains in all nodes of a level, added up from left to right."""
    l2 = (options.l2 + more_l2) / unit
    total = 0.0
    for rows, own in zip(nodes, bounds or [FREE] * len(nodes), strict=True):
        total += gain_in(packed[rows], cut.goes_left(codes[rows]), options, unit, l2, cut, own)
    return total


def divide(cut, nodes, codes):
    children = []
    for rows in nodes:
        left = cut.goes_left(codes[rows])
        children += [rows[left], rows[~left]]
    return children


def bounds_of_children(cut, rows, children, bounds, packed, options, unit):
    """The bounds of the left and the right child of one node.

    A monotone cut parts their values half-way, at the parent's value if they are in the wrong
    order; a child without rows has the bound on its side, if there is one, and frees the other.
    """
    if cut.sign == 0 or len(rows) == 0:
        return [bounds, bounds]
    low, high = bounds
    l2 = options.l2 / unit
    pair = children if cut.sign > 0 else children[::-1]
    below, above, own = (
        value_of(sums(part)[0], sums(part)[1] + l2, bounds)
        for part in (*(packed[child] for child in pair), packed[rows])
    )
    border = below / 2 + above / 2 if below <= above else own
    lower, upper = (low, border), (border, high)
    if len(pair[0]) == 0 and low > -np.inf:
        lower, upper = (low, low), bounds
    elif len(pair[1]) == 0 and high < np.inf:
        lower, upper = bounds, (high, high)
    return [lower, upper] if cut.sign > 0 else [upper, lower]


def grow(codes, packed, rows, bins, options, unit, allowed, signs=None):
    """The cuts of the levels, with gains in whole units; the rows and bounds of the leaves."""
    nodes, bounds, levels = [np.asarray(rows)], [FREE], []
    cuts = list(all_cuts(bins, allowed, codes[rows], packed[rows], options, unit, signs))
    for _ in range(options.max_depth):
        best, best_gain = None, 0.0
        for cut in cuts:
            gain = gain_of(cut, nodes, codes, packed, options, unit, bounds=bounds)
            if gain > best_gain:
                best, best_gain = cut, gain
        if best is None:
            break
        levels.append(Level(**{**vars(best), "gain": best_gain}))
        children = divide(best, nodes, codes)
        bounds = [
            child
            for at, own in enumerate(bounds)
            for child in bounds_of_children(
                best, nodes[at], children[2 * at : 2 * at + 2], own, packed, options, unit
            )
        ]
        nodes = children
    return levels, nodes, bounds

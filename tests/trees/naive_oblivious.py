"""Growing an oblivious tree the plain way: at each level every cut is tried in every node.

The rules are those of `rankgrove.trees.grower`, written from its documents: gains from whole
numbers, the number of rows estimated from the curvature, one cut for all nodes of a level.
"""

from dataclasses import dataclass

import numpy as np

from rankgrove.trees.binning import MISSING_CODE, WITH_MISSING
from trees.naive_grower import sums


@dataclass
class Level:
    """One cut of all nodes of a level, and what it gains in them together."""

    gain: float
    feature: int
    last_bin: int
    missing_left: bool

    def goes_left(self, codes):
        mine = codes[:, self.feature]
        return np.where(mine == MISSING_CODE, self.missing_left, mine <= self.last_bin)


def least_curvature(total, n_rows, options, unit):
    """What a child must have: by weight, by the estimated number of rows, and one unit."""
    estimate = (options.min_samples_leaf - 0.5) * (total / max(n_rows, 1))
    return max(options.min_child_weight / unit, estimate, 1.0)


def gain_in(own, goes_left, options, unit, l2):
    """What a cut gains in one node; nothing where a child is too light or the rows too few."""
    if len(own) < 2 * options.min_samples_leaf:
        return 0.0
    total_force, total = sums(own)
    force, curvature = sums(own[goes_left])
    at_least = least_curvature(total, len(own), options, unit)
    if curvature < at_least or total - curvature < at_least:
        return 0.0
    # Written as the engine does, to the bit, so that equal gains are equal in both.
    other = total_force - force
    x, y = curvature + l2, total - curvature + l2
    return (force * force * y + other * other * x) / (x * y) - total_force**2 / (total + l2)


def all_cuts(bins, allowed):
    """Every cut, in the order in which equal ones are preferred."""
    for feature in np.flatnonzero(allowed):
        for missing_left in (False, True) if bins.kinds[feature] == WITH_MISSING else (False,):
            for last_bin in range(bins.n_bins[feature]):
                yield Level(0.0, int(feature), last_bin, missing_left)


def gain_of(cut, nodes, codes, packed, options, unit, more_l2=0.0):
    """What a cut gains in all nodes of a level, added up from left to right."""
    l2 = (options.l2 + more_l2) / unit
    total = 0.0
    for rows in nodes:
        total += gain_in(packed[rows], cut.goes_left(codes[rows]), options, unit, l2)
    return total


def divide(cut, nodes, codes):
    children = []
    for rows in nodes:
        left = cut.goes_left(codes[rows])
        children += [rows[left], rows[~left]]
    return children


def grow(codes, packed, rows, bins, options, unit, allowed):
    """The cuts of the levels, with gains in whole units, and the rows of the leaves in order."""
    nodes, levels = [np.asarray(rows)], []
    for _ in range(options.max_depth):
        best = None
        for cut in all_cuts(bins, allowed):
            cut.gain = gain_of(cut, nodes, codes, packed, options, unit)
            if cut.gain > (0.0 if best is None else best.gain):
                best = cut
        if best is None:
            break
        levels.append(best)
        nodes = divide(best, nodes, codes)
    return levels, nodes

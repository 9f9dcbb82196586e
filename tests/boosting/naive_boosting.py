"""Boosting by exhaustive search in float64, straight from the definition.

The oracle of the engine's whole-number sums: it shares with the library the codes of the features
and the objective, and nothing of the growing. Slow on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MISSING = 255


@dataclass
class Cut:
    """Values up to a bin go left, and missing ones with them or not."""

    gain: float
    feature: int
    bin: int
    missing_left: bool


@dataclass
class Rules:
    max_leaves: int
    min_samples_leaf: int = 1
    min_child_weight: float = 1e-3
    l2: float = 0.0


def codes_of(matrix, n_features):
    """Codes as one row per document, one column per feature."""
    blocks = matrix.codes.reshape(matrix.n_blocks, -1, 16)
    return np.column_stack(
        [blocks[slot // 16, :, slot % 16] for slot in matrix.slots[:n_features]]
    ).astype(int)


def goes_left(codes, cut):
    column = codes[:, cut.feature]
    return np.where(column == MISSING, cut.missing_left, column <= cut.bin)


def gain_of(force, curvature, l2):
    weight = curvature + l2
    return force * force / weight if weight > 0 else 0.0


def all_cuts(codes, bins, forces, curvatures, rules, least, exact):
    """Every allowed cut of a node with what it gains, in the order of the search."""
    own = gain_of(forces.sum(), curvatures.sum(), rules.l2)
    for feature in range(codes.shape[1]):
        column = codes[:, feature]
        force = np.bincount(column, forces, 256)
        curvature = np.bincount(column, curvatures, 256)
        count = np.bincount(column, minlength=256)
        for missing_left in (False, True) if bins.kinds[feature] else (False,):
            start = MISSING if missing_left else 0
            left = [sums[start] if missing_left else 0.0 for sums in (force, curvature, count)]
            for bin_ in range(bins.n_bins[feature]):
                left = [a + b[bin_] for a, b in zip(left, (force, curvature, count), strict=True)]
                right = [forces.sum() - left[0], curvatures.sum() - left[1], len(codes) - left[2]]
                if min(left[1], right[1]) < least:
                    continue
                if min(left[2], right[2]) < (rules.min_samples_leaf if exact else 1):
                    continue
                gain = gain_of(*left[:2], rules.l2) + gain_of(*right[:2], rules.l2) - own
                yield Cut(gain, feature, bin_, missing_left)


def best_cut(codes, bins, forces, curvatures, rules):
    """The best cut of a node.

    The number of rows is estimated by curvature; where the best cut leaves too few on a side,
    rows are counted as well.
    """
    if len(codes) < max(2 * rules.min_samples_leaf, 2):
        return None
    by_row = curvatures.sum() / len(codes)
    least = max(rules.min_child_weight, (rules.min_samples_leaf - 0.5) * by_row)
    for exact in (False, True):
        best = None
        for cut in all_cuts(codes, bins, forces, curvatures, rules, least, exact):
            if cut.gain > 0 and (best is None or cut.gain > best.gain):
                best = cut
        if best is None:
            return None
        n_left = int(goes_left(codes, best).sum())
        if min(n_left, len(codes) - n_left) >= rules.min_samples_leaf:
            return best
    return None


def grow(codes, bins, forces, curvatures, rules):
    """A tree, best node first: its cuts in this order, and the rows of its leaves."""

    def node(rows):
        cut = best_cut(codes[rows], bins, forces[rows], curvatures[rows], rules)
        return (0.0 if cut is None else cut.gain), cut, rows

    leaves = [node(np.arange(len(codes)))]
    cuts = []
    while len(leaves) < rules.max_leaves:
        at = max(range(len(leaves)), key=lambda i: leaves[i][0])
        gain, cut, rows = leaves[at]
        if gain <= 0:
            break
        cuts.append(cut)
        left = goes_left(codes[rows], cut)
        leaves[at : at + 1] = [node(rows[left]), node(rows[~left])]
    return cuts, [rows for _, _, rows in leaves]


def boost(codes, bins, compute, n_trees, learning_rate, rules):
    """Scores after so many trees, and the cuts of each."""
    scores = np.zeros(len(codes))
    forces, curvatures = np.empty((2, len(codes)))
    trees = []
    for iteration in range(n_trees):
        compute(scores, iteration, forces, curvatures)
        cuts, leaves = grow(codes, bins, forces, curvatures, rules)
        for rows in leaves:
            weight = curvatures[rows].sum() + rules.l2
            scores[rows] += learning_rate * forces[rows].sum() / weight if weight > 0 else 0.0
        trees.append(cuts)
    return scores, trees

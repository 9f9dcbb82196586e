r"""Contributions: how much each feature moved a document's score, as exact Shapley values.

With only some features known, a tree is worth its mean over the training documents: a split of
an unknown feature counts both sides by their share of these (one half each if there were none).
This is the path-dependent TreeSHAP of Lundberg et al., "Consistent individualized feature
attribution for tree ensembles", 2018.

A leaf is worth its value times a product over the features of its path, where feature j gives
z_j, its share of the training documents, if unknown, and o_j if known: 1 if the document goes
that way at all of its splits, 0 if not. The Shapley value of such a product has a short form, an
integral over the chance t that a feature is known (Owen, "Multilinear extensions of games",
1972):

.. math:: \varphi_i = v \int_0^1 (o_i - z_i) \prod_{j \ne i} (z_j (1 - t) + o_j t)\, dt.

The integrand is a polynomial in t, of a degree below the number of features on the path, so
Gauss-Legendre quadrature with half as many points is exact. At a point, one pass down a tree
multiplies up the products and one pass up sums them over the leaves below each split: the cost
is splits times points, all factors are between 0 and 1, and nothing is divided by a share, so
a share of 0 does no harm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove.data.sparse_features import Features
from rankgrove.trees.coding import BLOCK, Coding, encode_block
from rankgrove.trees.ensemble import Ensemble

# Documents that pass through a tree together: what they need fits into the second-level cache.
_LANES = 64
# Fewer of them are filled up to a whole number of vectors.
_VECTOR = 8

# What a table holds of each split (see `_fill_table`).
_ENTRIES = np.uint64(10)


@kernel
def relate_sides(split_offsets, feature, left, right, count, above, before, share, product, depth):
    """What the sides of splits have to do with each other, without regard to any document.

    Side 0 of split s is number 2 s, its left, and side 1 is 2 s + 1. Of each split: `above`, the
    side that it hangs on, and `before`, the nearest side above of a split of the same feature,
    or -1. Of each side: its `share` of the split's training documents, and the `product` with
    the shares of the sides before. Of each tree: `depth`, the most features on a path.
    """
    for tree in range(len(split_offsets) - 1):
        first, last = split_offsets[tree], split_offsets[tree + 1]
        leaves = first + tree
        if last > first:
            above[first] = -1
        cover = np.zeros(2 * (last - first), np.int64)
        features = np.zeros(last - first, np.int64)
        for split in range(last - 1, first - 1, -1):
            for side in range(2):
                child = left[split] if side == 0 else right[split]
                if child >= 0:
                    above[first + child] = 2 * split + side
                    documents = cover[2 * child] + cover[2 * child + 1]
                else:
                    documents = count[leaves + ~child]
                cover[2 * (split - first) + side] = documents
        for split in range(first, last):
            found = above[split]
            while found >= 0 and feature[found // 2] != feature[split]:
                found = above[found // 2]
            before[split] = found
            features[split - first] = found < 0
            if above[split] >= 0:
                features[split - first] += features[above[split] // 2 - first]
            depth[tree] = max(depth[tree], features[split - first])
            at = 2 * (split - first)
            both = cover[at] + cover[at + 1]
            for side in range(2):
                share[2 * split + side] = cover[at + side] / both if both > 0 else 0.5
                product[2 * split + side] = share[2 * split + side]
                if found >= 0:
                    product[2 * split + side] *= product[found]


@kernel
def sum_expected(split_offsets, left, right, share, value):
    """The sum over the trees of the mean of their leaves, by their shares."""
    expected = 0.0
    for tree in range(len(split_offsets) - 1):
        first, last = split_offsets[tree], split_offsets[tree + 1]
        if last == first:
            expected += value[first + tree]
        reached = np.ones(last - first, np.float64)
        for split in range(first, last):
            for side in range(2):
                child = left[split] if side == 0 else right[split]
                chance = reached[split - first] * share[2 * split + side]
                if child >= 0:
                    reached[child] = chance
                else:
                    expected += chance * value[first + tree + ~child]
    return expected


@kernel
def _fill_table(
    first, last, first_leaf, left, right, before, share, product, leaf_value, point, weight, table
):
    """Of each split of a tree, the factors and weights at one point of the quadrature.

    With G(o) = z (1 - t) + o t and H(o) = (o - z) / G(o), where H(0) = -1 / (1 - t) for any z,
    a side multiplies the product by G(o) / G'(o'), the prime standing for the side before of
    the same feature (o' = z' = 1 if there is none), and the sum of the leaves below it counts
    H(o) - H'(o') times. As o <= o' there are three cases, and both numbers are linear in o
    and o'. The left side's o is l, the right side's is o' - l, so that all is linear in o' and l.

    Entries 0 to 5: the constant part, that of o' and that of l of the left side's factor, times
    the value of the leaf if it is one, and then of the right side's. Entries 6 to 9: the parts
    of o' and of l in the left side's weight and in the right side's; the constant part is 0.
    """
    lost = 1 / (1 - point)
    for split in range(first, last):
        row = table[split - first]
        z_before = product[before[split]] if before[split] >= 0 else 1.0
        one_before = 1 / (z_before * (1 - point) + point)
        for side in range(2):
            child = left[split] if side == 0 else right[split]
            scale = leaf_value[first_leaf + ~child] if child < 0 else 1.0
            z = product[2 * split + side]
            none = share[2 * split + side]
            of_before = z * (1 - point) * one_before - none
            of_own = point * one_before
            weight_of_before = weight * (-lost - (1 - z_before) * one_before)
            weight_of_own = weight * ((1 - z) / (z * (1 - point) + point) + lost)
            if side == 1:
                of_before += of_own
                of_own = -of_own
                weight_of_before += weight_of_own
                weight_of_own = -weight_of_own
            row[3 * side] = scale * none
            row[3 * side + 1] = scale * of_before
            row[3 * side + 2] = scale * of_own
            row[6 + 2 * side] = weight_of_before
            row[7 + 2 * side] = weight_of_own


@kernel
def _follow(codes, start, lanes, first, last, column, highest, less, before_at, follows):
    """Whether each document goes the way of each side, there and at the sides before."""
    for split in range(first, last):
        before = np.uint64(before_at[split]) * lanes
        at = np.uint64(2 * (split - first)) * lanes
        code = codes[column[split], start:]
        for i in range(lanes):
            goes_left = np.uint8(code[i] - less[split]) <= highest[split]
            was = follows[before + i]
            follows[at + i] = was if goes_left else 0.0
            follows[at + lanes + i] = 0.0 if goes_left else was


@kernel
def _pass_down(n_splits, lanes, above_at, before_at, follows, table, products):
    """The product of all factors from the root to each side, times the value of a leaf."""
    for split in range(n_splits):
        above = np.uint64(above_at[split]) * lanes
        before = np.uint64(before_at[split]) * lanes
        at = np.uint64(2) * split * lanes
        row = split * _ENTRIES
        none, of_before, of_own = table[row], table[row + 1], table[row + 2]
        right_none, right_of_before, right_of_own = table[row + 3], table[row + 4], table[row + 5]
        for i in range(lanes):
            so_far = products[above + i]
            was = follows[before + i]
            own = follows[at + i]
            products[at + i] = so_far * (none + of_before * was + of_own * own)
            products[at + lanes + i] = so_far * (
                right_none + right_of_before * was + right_of_own * own
            )


@kernel
def _pass_up(n_splits, lanes, feature, own_at, above_at, before_at, follows, table, products, out):
    """Sum the leaves below each side, from the last split up, and add each feature's part.

    `own_at` holds 2 s for split s: computed in place, the compiler tests for overlap over all
    splits at once, finds that places fall, and takes the loop without vectors.
    """
    for step in range(n_splits):
        split = n_splits - np.uint64(1) - step
        above = np.uint64(above_at[split]) * lanes
        before = np.uint64(before_at[split]) * lanes
        at = np.uint64(own_at[split]) * lanes
        part = np.uint64(feature[split]) * lanes
        row = split * _ENTRIES
        of_before, of_own = table[row + 6], table[row + 7]
        right_of_before, right_of_own = table[row + 8], table[row + 9]
        for i in range(lanes):
            lefts = products[at + i]
            rights = products[at + lanes + i]
            was = follows[before + i]
            own = follows[at + i]
            out[part + i] += lefts * (of_before * was + of_own * own) + rights * (
                right_of_before * was + right_of_own * own
            )
            products[above + i] = lefts + rights


@kernel
def explain_block(
    codes, rows, lanes, column, highest, less, split_offsets, feature, left, right, value,
    above_at, before_at, before, share, product, n_points, points, weights, max_splits, out,
):  # fmt: skip
    """Add the contributions to one block of documents; `out` has the features in columns."""
    groups = (rows + lanes - 1) // lanes
    width = np.uint64(lanes)
    parts = np.zeros((groups, out.shape[1] * lanes), np.float64)
    # One more than the sides: what stands before and above the first split.
    follows = np.ones((2 * max_splits + 1) * lanes, np.float64)
    products = np.ones((2 * max_splits + 1) * lanes, np.float64)
    root = 2 * max_splits * lanes
    own_at = 2 * np.arange(max_splits)
    tables = np.empty((points.shape[1], max_splits, np.int64(_ENTRIES)), np.float64)
    for tree in range(len(split_offsets) - 1):
        first, last = split_offsets[tree], split_offsets[tree + 1]
        n = n_points[tree]
        n_splits = np.uint64(last - first)
        for k in range(n):
            _fill_table(
                first, last, first + tree, left, right, before, share, product, value,
                points[n, k], weights[n, k], tables[k],
            )  # fmt: skip
        own_feature, own_above, own_before = feature[first:], above_at[first:], before_at[first:]
        for group in range(groups):
            start = group * lanes
            _follow(codes, start, width, first, last, column, highest, less, before_at, follows)
            for k in range(n):
                table = tables[k].reshape(-1)
                products[root:] = 1.0
                _pass_down(n_splits, width, own_above, own_before, follows, table, products)
                _pass_up(
                    n_splits, width, own_feature, own_at, own_above, own_before, follows,
                    table, products, parts[group],
                )  # fmt: skip
    for i in range(rows):
        group, lane = i // lanes, i % lanes
        for f in range(out.shape[1]):
            out[i, f] += parts[group, f * lanes + lane]


class Explainer:
    """An ensemble made ready for contributions.

    Parameters
    ----------
    ensemble
        The trees, well formed (see `Ensemble.check`).
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._coding = coding = Coding.of(ensemble)
        n_splits = np.diff(ensemble.split_offsets)
        self._max_splits = int(n_splits.max(initial=0))
        offsets = as_input(ensemble.split_offsets, np.int64)
        feature = as_input(ensemble.feature, np.int32)
        left, right = as_input(ensemble.left, np.int32), as_input(ensemble.right, np.int32)
        value = as_input(ensemble.value, np.float64)
        count = as_input(ensemble.count, np.int64)

        above, before = np.full(len(feature), -1), np.full(len(feature), -1)
        share, product = np.ones(2 * len(feature)), np.ones(2 * len(feature))
        depth = np.zeros(ensemble.n_trees, dtype=np.int64)
        relate_sides(offsets, feature, left, right, count, above, before, share, product, depth)
        self._expected = float(sum_expected(offsets, left, right, share, value))

        # The side that stands before and above the first split comes after all others.
        first_side = 2 * np.repeat(offsets[:-1], n_splits)
        above_at, before_at = (
            np.where(side >= 0, side - first_side, 2 * self._max_splits) for side in (above, before)
        )
        # n points are exact up to degree 2 n - 1, and the degree is below the depth.
        n_points = (depth + 1) // 2
        self._arrays = (
            as_input(coding.column, np.int64), as_input(coding.highest, np.uint8),
            as_input(coding.less, np.uint8), offsets, feature, left, right, value,
            as_input(above_at, np.int64), as_input(before_at, np.int64),
            as_input(before, np.int64), as_input(share, np.float64),
            as_input(product, np.float64), as_input(n_points, np.int64), *_quadratures(n_points),
        )  # fmt: skip

    def contributions(self, features: Features, n_jobs: int | None = None) -> NDArray[np.float64]:
        """What each feature adds to each document's score; see the function of this name."""
        self._coding.check(features)
        values = as_input(features, np.float32)
        n_rows, n_features = values.shape
        result = np.zeros((n_rows, n_features + 1))
        result[:, -1] = self._expected
        lanes = min(_LANES, -(-max(n_rows, 1) // _VECTOR) * _VECTOR)

        def task(chunk: int) -> None:
            first = chunk * BLOCK
            rows = min(BLOCK, n_rows - first)
            codes = np.zeros((self._coding.n_columns, BLOCK), dtype=np.uint8)
            encode_block(values, first, rows, *self._coding.arrays(), codes)
            out = result[first : first + rows]
            explain_block(codes, rows, lanes, *self._arrays, self._max_splits, out)

        run_chunks(task, -(-n_rows // BLOCK), n_jobs)
        return result


def _quadratures(n_points: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points between 0 and 1 and their weights; row n has the n of Gauss and Legendre."""
    most = int(n_points.max(initial=0))
    points, weights = np.zeros((most + 1, most)), np.zeros((most + 1, most))
    for n in np.unique(n_points[n_points > 0]):
        nodes, parts = np.polynomial.legendre.leggauss(int(n))
        points[n, :n], weights[n, :n] = (nodes + 1) / 2, parts / 2
    return as_input(points, np.float64), as_input(weights, np.float64)


def contributions(
    ensemble: Ensemble, features: Features, n_jobs: int | None = None
) -> NDArray[np.float64]:
    """What each feature adds to each document's score, and in the last column what all start from.

    A row adds up to the document's score, but for rounding. The last column, the same in every
    row, is the mean of the trees by the `count` of their leaves. The bits do not depend on the
    number of threads or on what else is in the batch.

    Parameters
    ----------
    ensemble
        The trees, well formed (see `Ensemble.check`).
    features
        One row per document, float32, row-major.
    n_jobs
        Threads, as in scikit-learn.

    Returns
    -------
    ndarray
        float64 of shape (documents, features + 1).

    Examples
    --------
    >>> nothing = Ensemble.from_trees([])
    >>> contributions(nothing, np.zeros((1, 2), dtype=np.float32)).tolist()
    [[0.0, 0.0, 0.0]]
    """
    return Explainer(ensemble).contributions(features, n_jobs)

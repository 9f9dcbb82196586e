"""The pair loop: forces and curvatures of the pairs of queries, in time linear in the pairs.

Documents are ranked by score first. Then each document, from the top, is set against all that
stand below it: a row of pairs. A row takes short passes without a branch, which LLVM vectorises:
the weights of its pairs, what each pair contributes, and the sums. Scratch is linear in the
documents. With pairs of near ranks only, see `neighbours`; where all pairs of a query count,
`label_pairs`.

`rank_*` counts from 0 down the ranked list and `idx` holds places in the input; arrays without
either word are in rank order.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit import add_lanes, empty, kernel, subtract_lanes, sum_lanes
from rankgrove._jit.elementary import LANES, LARGEST, exponentials
from rankgrove._jit.ranking import longest_query, rank_query, ranking_scratch
from rankgrove.metrics.forms import CASCADE, DISTANCE, prepare_deltas, weigh_row
from rankgrove.objectives.anchors import mark_anchors
from rankgrove.objectives.leaf_pairs import add_row, end_query, start_query
from rankgrove.objectives.neighbours import (
    ANCHORS,
    CURVATURES,
    DOCUMENT_WEIGHTS,
    FORCES,
    N_WORK_ROWS,
    SCORES,
    X,
    draw_scores,
    push_neighbours,
    scale_of_query,
)

# e^(sigma (z_b - z_a)) is a quotient of powers relative to a reference score. The reference
# moves down with a when it is this far above: far enough to be rare, and near enough for the
# rounding of the exponent to stay below 64 * 2^-53.
_MOVE_REFERENCE = 64.0

# Further rows of work space of the row loop, after those that both loops share.
_UPPER, _LOWER, _EXPONENTIALS, _WEIGHTS, _FORCE, _CURVATURE, _SIZES = range(5, 12)


@kernel
def _push_row(score, inverse, near, slope, scores, exponentials, weights, out_force, out_curvature):
    """What each pair of a row contributes to the upper document, without sigma.

    With E = e^(sigma (z_b - z_a)), rho is E / (1 + E) where the upper document a is the better
    one and 1 / (1 + E) where the lower one, b, is; rho (1 - rho) is E / (1 + E)^2 in both cases.
    One division does for all, and for the distance of the scores.
    """
    for i in range(len(weights)):
        e = exponentials[i] * inverse
        one_e = 1.0 + e
        part = weights[i] / (one_e * one_e * (near + slope * abs(score - scores[i])))
        out_force[i] = part * one_e * (e if part > 0.0 else 1.0)
        out_curvature[i] = abs(part) * e


@kernel
def _add_sizes(row, sums):
    """Add the absolute forces of a row."""
    for i in range(len(row)):
        sums[i] += abs(row[i])


@kernel
def _push_rows(
    kind, n, depth, deepest, sigma, near, slope, normalise, discounts, weighed, leaves, between,
    work
):  # fmt: skip
    """Forces and curvatures of one ranked query into the work rows, without sigma.

    Scores fall from rank to rank, or sigma times their range is at most _MOVE_REFERENCE. The work
    rows have 8 entries to spare. From `depth` to `deepest` only pairs with anchors count, which
    the work rows have; `leaves` and `between` are as in `push_neighbours`. Returns the
    sum of the absolute forces of all pairs.
    """
    scores, x, exponents = work[SCORES], work[X], work[_EXPONENTIALS]
    weights, row_forces, row_curvatures = work[_WEIGHTS], work[_FORCE], work[_CURVATURE]
    forces, curvatures, sizes = work[FORCES], work[CURVATURES], work[_SIZES]
    upper, lower, of_documents = work[_UPPER], work[_LOWER], work[DOCUMENT_WEIGHTS]
    for i in range(n, n + LANES):
        scores[i] = scores[n - 1]
        x[i] = 0.0
        lower[i] = 0.0
    for i in range(n + LANES):
        forces[i] = 0.0
        curvatures[i] = 0.0
        sizes[i] = 0.0
    prepare_deltas(kind, n, x, discounts, upper, lower)
    reference = np.inf
    for rank_a in range(min(deepest, n - 1)):
        if kind == CASCADE and upper[rank_a] == 0.0:
            # Nobody gets here, or below.
            break
        score = scores[rank_a]
        if sigma * (reference - score) > _MOVE_REFERENCE:
            reference = score
            rest = slice(rank_a, n + LANES)
            for i in range(rank_a, n + LANES):
                row_forces[i] = sigma * (scores[i] - reference)
            exponentials(row_forces[rest], exponents[rest])
        lo = rank_a + 1
        hi = lo + (n - lo + LANES - 1) // LANES * LANES
        row = slice(lo, hi)
        below = slice(0, hi - lo) if kind == DISTANCE else row
        weigh_row(
            kind, x[rank_a], discounts[rank_a], upper[rank_a], x[row], discounts[row], lower[below],
            weights[row]
        )  # fmt: skip
        for i in range(n, hi):
            weights[i] = 0.0
        if rank_a >= depth and work[ANCHORS, rank_a] == 0.0:
            for i in range(lo, n):
                weights[i] *= work[ANCHORS, i]
        if weighed is not None:
            for i in range(lo, n):
                weights[i] *= of_documents[rank_a] * of_documents[i]
        _push_row(
            score, 1.0 / exponents[rank_a], near, slope, scores[row], exponents[row], weights[row],
            row_forces[row], row_curvatures[row]
        )  # fmt: skip
        if len(leaves):
            for i in range(lo, n):
                same = leaves[i] == leaves[rank_a]
                row_curvatures[i] = 0.0 if same else row_curvatures[i]
        if between is not None:
            add_row(between, leaves[rank_a], leaves[lo:], row_curvatures[lo:n])
        forces[rank_a] += subtract_lanes(row_forces[row], forces[row])
        curvatures[rank_a] += add_lanes(row_curvatures[row], curvatures[row])
        if normalise:
            _add_sizes(row_forces[row], sizes[row])
    return sum_lanes(sizes[: n // LANES * LANES + LANES])


@kernel
def _range_of(scores):
    """How far the scores of a query are apart."""
    lowest, highest = np.inf, -np.inf
    for i in range(len(scores)):
        lowest = min(lowest, scores[i])
        highest = max(highest, scores[i])
    return highest - lowest


@kernel
def _push_ranking(
    draws, neighbours, anchors, apart, kind, n, depth, deepest, sigma, near, slope, normalise,
    discounts, weighed, leaves, between, kept, q, idx, work
):  # fmt: skip
    """As `_push_rows`, also of pairs of near ranks, and of scores in any order that are `apart`."""
    if draws is None:
        return _push_rows(
            kind, n, depth, deepest, sigma, near, slope, normalise, discounts, weighed, leaves,
            between, work
        )  # fmt: skip
    if neighbours is None:
        # (1 as it stands would compile the kernel below anew.)
        nearest, furthest = np.int64(1), n
        if sigma * apart <= _MOVE_REFERENCE:
            return _push_rows(
                kind, n, depth, deepest, sigma, near, slope, normalise, discounts, weighed, leaves,
                between, work
            )  # fmt: skip
    else:
        nearest, furthest = neighbours.nearest, neighbours.furthest
    # Every exponent by itself: none is too large.
    return push_neighbours(
        kind, n, depth, nearest, furthest, sigma, near, slope, normalise, discounts, weighed,
        anchors, leaves, between, kept, q, idx, work
    )  # fmt: skip


@kernel
def _take_documents(
    first, idx, compared, values, scale, tie_order, document_weights, leaves, ranked_leaves, work
):  # fmt: skip
    """The documents of a query in rank order into the work rows, and their leaves.

    `idx` has their places in tie order, and then those in the input, from 0 in the query.
    """
    for i in range(len(idx)):
        work[SCORES, i] = min(max(compared[idx[i]], -LARGEST), LARGEST)
    for i in range(len(idx)):
        idx[i] = tie_order[first + idx[i]] - first if len(tie_order) else idx[i]
        work[X, i] = values[first + idx[i]] * scale
    if document_weights is not None:
        for i in range(len(idx)):
            work[DOCUMENT_WEIGHTS, i] = document_weights[first + idx[i]]
    for i in range(len(ranked_leaves)):
        ranked_leaves[i] = leaves[first + idx[i]]


@kernel
def push_queries(
    scores, values, offsets, scales, weights, first, last, kind, discounts, depth, sigma,
    normalise, draws, neighbours, anchors, tie_order, document_weights, leaves, between, kept,
    out_forces, out_curvatures
):  # fmt: skip
    """Forces and curvatures of queries first to last.

    Parameters
    ----------
    values
        One per document: what the metric sees in it, x in `forms` but for the scale.
    scales
        One per query: what its values are multiplied by; 0 if no pair of it counts, NaN if
        another kernel pushes it.
    weights
        One per query.
    kind, discounts
        Of the swap deltas. Discounts are one per rank, 0 past the cut-off; 8 entries longer than
        the longest query.
    depth
        Only pairs whose better-ranked document is among the first `depth` count.
    draws
        None: documents are ranked by their scores, and all pairs count. Otherwise see `Draws`.
    neighbours
        None, or how far the documents of a pair may be apart: `Distances`. What the one or the
        other does not take is not compiled.
    anchors
        None, or which documents count below `depth`, too: `Anchors`.
    tie_order
        Empty, or the rows in the order in which those with equal scores are ranked.
    document_weights
        None, or one per document: a pair counts the product of the two.
    leaves
        Empty, or one per document: see `push_neighbours`.
    between
        None, or what the curvatures of pairs in different leaves are added to: `Between`.
    kept
        None, or where pairs are kept, of near ranks only: `Kept`.
    """
    longest = longest_query(offsets, first, last)
    used, room, ranked_scores, ranked_idx = ranking_scratch(longest)
    work = empty((N_WORK_ROWS, longest + LANES), np.float64)
    own = empty(longest, np.float64)
    drawn = empty(longest, np.float64)
    ranked_leaves = empty(longest if len(leaves) else 0, np.int32)
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        if kept is not None:
            start_query(kept, offsets, first, q)
        if math.isnan(scales[q]):
            continue
        out_forces[lo : lo + n] = 0.0
        out_curvatures[lo : lo + n] = 0.0
        if scales[q] == 0.0:
            continue
        for i in range(n):
            own[i] = scores[tie_order[lo + i] if len(tie_order) else lo + i]
        apart = _range_of(own[:n])
        rounds = 1
        if draws is not None:
            rounds = draws.permutations
        size = 0.0
        for turn in range(rounds):
            ranked_by, compared = own[:n], own[:n]
            if draws is not None:
                ranked_by = drawn[:n]
                number = draws.numbers[q] * rounds + turn
                draw_scores(draws, number, own[:n], ranked_by)
                if draws.in_margin:
                    compared = ranked_by
                    apart = _range_of(compared)
            side = rank_query(ranked_by, used, room, ranked_scores, ranked_idx)
            idx = ranked_idx[side, :n]
            own_leaves = ranked_leaves[: min(len(ranked_leaves), n)]
            _take_documents(
                lo, idx, compared, values, scales[q], tie_order, document_weights, leaves,
                own_leaves, work
            )  # fmt: skip
            deepest = depth
            if anchors is not None:
                last_anchor = mark_anchors(anchors, q, scales[q], work[X], work[ANCHORS, :n])
                deepest = max(depth, last_anchor + 1)
            # What pairs are divided by: near + slope * the distance of their scores.
            near, slope = (0.01, 1.0) if normalise and apart > 0.0 else (1.0, 0.0)
            size += _push_ranking(
                draws, neighbours, anchors, apart, kind, n, depth, deepest, sigma, near, slope,
                normalise, discounts, document_weights, own_leaves, between, kept, q, idx, work
            )  # fmt: skip
            for i in range(n):
                out_forces[lo + idx[i]] += work[FORCES, i]
                out_curvatures[lo + idx[i]] += work[CURVATURES, i]
        norm = scale_of_query(size, sigma, rounds, normalise, weights[q])
        for i in range(lo, lo + n):
            out_forces[i] *= sigma * norm
            out_curvatures[i] *= sigma * sigma * norm
        if between is not None:
            end_query(between, sigma * sigma * norm * between.counts[q])
        if kept is not None:
            kept.factors[q] = sigma * sigma * norm

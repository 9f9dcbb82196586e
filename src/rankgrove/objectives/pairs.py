"""The pair loop: forces and curvatures of all pairs of a query, in time linear in the pairs.

Documents are ranked by score first. Then each document, from the top, is set against all that
stand below it: a row of pairs. A row takes short passes without a branch, which LLVM vectorises:
the weights of its pairs, what each pair contributes, and the sums. (To add to one array a pass
is faster, as measured, than to add to several at once.) Scratch is linear in the documents.

`rank_*` counts from 0 down the ranked list and `idx` holds places in the input; arrays without
either word are in rank order. The weight of a pair has a sign: positive where the upper of its
two documents is the better one, negative where the lower one is, 0 where they are equal. What a
weight is made of concerns `_weigh_row` alone.
"""

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit import kernel

# Runs of this length are ranked by counting, n / 8 vector steps a document, and then merged.
_RUN = 128

# Rows are filled up with pairs of weight 0 to a multiple of this, so that a vector loop has no
# remainder to do one by one; and a sum is of this many lanes, whatever the machine's width.
LANES = 8

# e^(sigma (z_b - z_a)) is a quotient of powers relative to a reference score. The reference
# moves down with a when it is this far above: far enough to be rare, and near enough for the
# rounding of the exponent to stay below 64 * 2^-53.
_MOVE_REFERENCE = 64.0

# The smallest exponent: e^-700 is still a normal number.
_SMALLEST = -700.0

# Scores are cut to this, so that the difference of any two is finite.
_LARGEST = 8e307

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has 32 bits, so that its product with a small integer is exact.
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10


@kernel
def _rank_run(scores, first, used, out_scores, out_idx):
    """Rank one run, stable, by counting for each document the documents with a higher score."""
    n = len(scores)
    for i in range(n):
        used[i] = 0
    for i in range(n):
        score = scores[i]
        above = 0
        for j in range(n):
            above += scores[j] > score
        at = above + used[above]
        used[above] += 1
        out_scores[at] = score
        out_idx[at] = first + i


@kernel
def _merge(scores, idx, mid, out_scores, out_idx):
    """Merge two ranked runs; an equal element of the left run stays first."""
    n = len(scores)
    i = 0
    j = mid
    for at in range(n):
        right = i == mid or (j < n and scores[j] > scores[i])
        source = j if right else i
        out_scores[at] = scores[source]
        out_idx[at] = idx[source]
        j += right
        i += not right


@kernel
def _rank_query(scores, used, work_scores, work_idx):
    """Rank one query, stable; the result stands in row 0 or 1 of the work arrays, as returned."""
    n = len(scores)
    for lo in range(0, n, _RUN):
        hi = min(lo + _RUN, n)
        _rank_run(scores[lo:hi], lo, used, work_scores[0, lo:hi], work_idx[0, lo:hi])
    row = 0
    width = _RUN
    while width < n:
        for lo in range(0, n, 2 * width):
            hi = min(lo + 2 * width, n)
            _merge(
                work_scores[row, lo:hi],
                work_idx[row, lo:hi],
                min(width, n - lo),
                work_scores[1 - row, lo:hi],
                work_idx[1 - row, lo:hi],
            )
        row = 1 - row
        width *= 2
    return row


@kernel
def _exponentials(scores, reference, sigma, bits, powers, out):
    """e^(sigma (score - reference)) to within 2 units of the last place, by IEEE steps only.

    `powers` is `bits` seen as floats: an exponent written as an integer is read as 2^k.
    """
    for i in range(len(scores)):
        x = max(sigma * (scores[i] - reference), _SMALLEST)
        k = np.floor(x * _LOG2_E + 0.5)
        bits[i] = (np.int64(k) + 1023) << 52
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        # The series of e^r up to r^13, |r| <= ln(2) / 2.
        e = 1.0 / 6227020800.0
        e = e * r + 1.0 / 479001600.0
        e = e * r + 1.0 / 39916800.0
        e = e * r + 1.0 / 3628800.0
        e = e * r + 1.0 / 362880.0
        e = e * r + 1.0 / 40320.0
        e = e * r + 1.0 / 5040.0
        e = e * r + 1.0 / 720.0
        e = e * r + 1.0 / 120.0
        e = e * r + 1.0 / 24.0
        e = e * r + 1.0 / 6.0
        e = e * r + 0.5
        e = e * r + 1.0
        out[i] = e * r + 1.0
    for i in range(len(scores)):
        out[i] *= powers[i]


@kernel
def _log2_1p(x):
    """log2(1 + x) for x > 0, by IEEE steps only."""
    u = 1.0 + x
    if u == 1.0:
        return x * _LOG2_E
    m, k = math.frexp(u)
    if m < 0.7071067811865476:
        m *= 2.0
        k -= 1
    # ln m = 2 artanh t, |t| < 0.172: the series up to t^21.
    t = (m - 1.0) / (m + 1.0)
    series = 0.0
    for term in range(21, 0, -2):
        series = series * t * t + 1.0 / term
    # The last factor makes up for what 1 + x has lost of a small x.
    return (k + 2.0 * t * series * _LOG2_E) * (x / (u - 1.0))


@kernel
def _weigh_row(gain, discount, gains, discounts, out):
    """Weights of a document's pairs with all below it: swap deltas of a sum of gains."""
    for i in range(len(out)):
        out[i] = (gain - gains[i]) * (discount - discounts[i])


@kernel
def _push_row(score, inverse, near, slope, scores, exponentials, weights, out_force, out_curvature):
    """What each pair of a row contributes to the upper document, without sigma.

    With E = e^(sigma (z_b - z_a)) <= 1, rho is E / (1 + E) where the upper document a is the
    better one and 1 / (1 + E) where the lower one, b, is; rho (1 - rho) is E / (1 + E)^2 in
    both cases. One division does for all, and for the distance of the scores.
    """
    for i in range(len(weights)):
        e = exponentials[i] * inverse
        one_e = 1.0 + e
        part = weights[i] / (one_e * one_e * (near + slope * (score - scores[i])))
        out_force[i] = part * one_e * (e if part > 0.0 else 1.0)
        out_curvature[i] = abs(part) * e


@kernel
def _sum_lanes(values):
    """The sum of a multiple of 8 values, in an order that suits vectors of any width."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, len(values), LANES):
        lane = values[i : i + LANES]
        s0 += lane[0]
        s1 += lane[1]
        s2 += lane[2]
        s3 += lane[3]
        s4 += lane[4]
        s5 += lane[5]
        s6 += lane[6]
        s7 += lane[7]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@kernel
def _add(row, sums):
    """Add the curvatures of a row to the lower documents."""
    for i in range(len(row)):
        sums[i] += row[i]


@kernel
def _subtract(row, sums):
    """Push the lower documents by the opposite of a row's forces."""
    for i in range(len(row)):
        sums[i] -= row[i]


@kernel
def _add_sizes(row, sums):
    """Add the absolute forces of a row."""
    for i in range(len(row)):
        sums[i] += abs(row[i])


@kernel
def _push_query(n, depth, sigma, normalise, discounts, bits, powers, work):
    """Forces and curvatures of one ranked query into the work rows, without sigma.

    The work rows have 8 entries to spare. Returns the sum of the absolute forces of all pairs.
    """
    scores, gains, exponentials = work[0], work[1], work[2]
    weights, row_forces, row_curvatures = work[3], work[4], work[5]
    forces, curvatures, sizes = work[6], work[7], work[8]
    for i in range(n, n + LANES):
        scores[i] = scores[n - 1]
        gains[i] = 0.0
    for i in range(n + LANES):
        forces[i] = 0.0
        curvatures[i] = 0.0
        sizes[i] = 0.0
    near = 1.0
    slope = 0.0
    if normalise and scores[0] != scores[n - 1]:
        near = 0.01
        slope = 1.0
    reference = np.inf
    for rank_a in range(min(depth, n - 1)):
        score = scores[rank_a]
        if sigma * (reference - score) > _MOVE_REFERENCE:
            reference = score
            below = slice(rank_a, n + LANES)
            _exponentials(scores[below], reference, sigma, bits, powers, exponentials[below])
        lo = rank_a + 1
        hi = lo + (n - lo + LANES - 1) // LANES * LANES
        row = slice(lo, hi)
        _weigh_row(gains[rank_a], discounts[rank_a], gains[row], discounts[row], weights[row])
        for i in range(n, hi):
            weights[i] = 0.0
        _push_row(
            score,
            1.0 / exponentials[rank_a],
            near,
            slope,
            scores[row],
            exponentials[row],
            weights[row],
            row_forces[row],
            row_curvatures[row],
        )
        forces[rank_a] += _sum_lanes(row_forces[row])
        curvatures[rank_a] += _sum_lanes(row_curvatures[row])
        _subtract(row_forces[row], forces[row])
        _add(row_curvatures[row], curvatures[row])
        if normalise:
            _add_sizes(row_forces[row], sizes[row])
    return _sum_lanes(sizes[: n // LANES * LANES + LANES])


@kernel
def push_queries(
    scores,
    gains,
    offsets,
    scales,
    weights,
    first,
    last,
    discounts,
    depth,
    sigma,
    normalise,
    out_forces,
    out_curvatures,
):
    """Forces and curvatures of queries first to last.

    Parameters
    ----------
    gains
        One a document.
    scales
        One a query: what its gains are multiplied by, or 0 if no pair of it counts.
    weights
        One a query.
    discounts
        One a rank, 0 past the cut-off; 8 entries longer than the longest query.
    depth
        Only pairs whose better-ranked document is among the first `depth` count.
    """
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    used = np.empty(_RUN, np.int64)
    ranked_scores = np.empty((2, longest), np.float64)
    ranked_idx = np.empty((2, longest), np.int64)
    bits = np.empty(longest + LANES, np.int64)
    powers = bits.view(np.float64)
    work = np.empty((9, longest + LANES), np.float64)
    for q in range(first, last):
        lo = offsets[q]
        hi = offsets[q + 1]
        n = hi - lo
        scale = scales[q]
        if scale == 0.0:
            out_forces[lo:hi] = 0.0
            out_curvatures[lo:hi] = 0.0
            continue
        side = _rank_query(scores[lo:hi], used, ranked_scores, ranked_idx)
        idx = ranked_idx[side]
        for i in range(n):
            work[0, i] = min(max(ranked_scores[side, i], -_LARGEST), _LARGEST)
            work[1, i] = gains[lo + idx[i]] * scale
        size = 2.0 * sigma * _push_query(n, depth, sigma, normalise, discounts, bits, powers, work)
        norm = weights[q]
        if normalise and size > 0.0:
            norm *= _log2_1p(size) / size
        for i in range(n):
            out_forces[lo + idx[i]] = work[6, i] * (sigma * norm)
            out_curvatures[lo + idx[i]] = work[7, i] * (sigma * sigma * norm)

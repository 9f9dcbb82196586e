"""Forces of queries all of whose pairs count, and costs, without a look at pairs of equal labels.

Documents stand in the order of x, what the metric sees in them, so that the worse ones of each
stand before it: a row of pairs. With powers E = e^(sigma z) the force of a pair (i, j), x_i > x_j,
is w E_j / (E_i + E_j). Rankings with noise differ in their weights only, which are added up first.

Of a query with too many pairs each row is a sample: one of the blocks that the worse documents are
cut into, drawn anew for each tree, counts for all of them. In the mean the forces are those of all.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import add_lanes, as_input, empty, kernel, subtract_lanes
from rankgrove._jit.elementary import (
    LANES,
    LARGEST,
    exponential_of,
    exponentials,
)
from rankgrove._jit.hashing import mix
from rankgrove._jit.ranking import longest_query, rank_query, ranking_scratch
from rankgrove.metrics.forms import PRODUCT, SIGN, split_deltas
from rankgrove.objectives.leaf_pairs import add_row, end_query
from rankgrove.objectives.neighbours import draw_scores, scale_of_query

# Scores, times sigma, that are no further apart than this have powers of a common scale; their
# exponents are rounded by 100 * 2^-53 at most.
_WIDEST = 200.0

# The rows of work space, each as long as a query: of documents, of a row of pairs, and sums.
_SCORES, _X, _POWERS, _DOCUMENT_WEIGHTS = range(4)
_WEIGHTS, _ROW_FORCES, _ROW_CURVATURES, _FORCES, _CURVATURES, _N_ROWS = range(4, 10)

# What the swap deltas of a ranking are made of, a row each: the discount of each document's rank,
# and u, v, g and V below the first sure stop, as in `split_deltas`.
_PLACE, _UPPER, _LOWER, _FACTOR, _AFTER_SURE, _N_PARTS = range(6)

# Rankings whose weights are added up before pairs are pushed: a few stay in the nearest cache.
_TOGETHER = 4

# Tells what samples are drawn by from what noise is drawn by.
_SAMPLE = np.uint64(0x73616D706C65)

# In costs, scores, times sigma, no further apart than this have quotients of e^x that are finite.
_WIDEST_COSTS = 300.0
# The logarithm of the largest product that is taken: below that of the largest double.
_LARGEST_LOG = 700.0
# Products that are taken side by side, and the most factors of one.
_SIDE_BY_SIDE, _DEEPEST = 16, 32


class LabelOrder(NamedTuple):
    """The documents of each query in the order of what a metric sees in them.

    Attributes
    ----------
    values, order
        One per document, in that order: what the metric sees in it, and its row.
    places
        Of the documents in tie order: the place of each in that order, from 0 in each query.
    """

    values: NDArray[np.float64]
    order: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def make(
        cls, values: NDArray[np.float64], offsets: NDArray[np.int64], tie_order: NDArray[np.int64]
    ) -> LabelOrder:
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((values, query))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order)) - offsets[query]
        return cls(
            as_input(values[order], np.float64),
            as_input(order, np.int64),
            as_input(places[tie_order] if len(tie_order) else places, np.int64),
        )

    def count_pairs(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many pairs of each query have different values."""
        is_first = np.ones(len(self.values), bool)
        is_first[1:] = self.values[1:] != self.values[:-1]
        is_first[offsets[:-1]] = True
        starts = np.flatnonzero(is_first)
        equal = np.diff(np.append(starts, len(self.values)))
        queries = np.searchsorted(offsets, starts, side="right") - 1
        squares = np.zeros(len(offsets) - 1, np.int64)
        np.add.at(squares, queries, equal**2)
        return (np.diff(offsets) ** 2 - squares) // 2


@kernel
def _push_worse(power, powers, weights, out_forces, out_curvatures):
    """What each worse document gives to a better one: w rho and w rho (1 - rho)."""
    for j in range(len(powers)):
        share = 1.0 / (power + powers[j])
        rho = powers[j] * share
        out_forces[j] = weights[j] * rho
        out_curvatures[j] = weights[j] * (rho * (power * share))


@kernel
def _push_far(score, scores, weights, out_forces, out_curvatures):
    """The same for scores that are far apart."""
    for j in range(len(scores)):
        power = exponential_of(scores[j] - score)
        share = 1.0 / (1.0 + power)
        out_forces[j] = weights[j] * (power * share)
        out_curvatures[j] = weights[j] * (power * share * share)


@kernel
def _add_products(x, discount, worse, discounts, out):
    """Add swap deltas of one document with worse ones, where V is D(a) - D(b)."""
    for j in range(len(out)):
        out[j] += (x - worse[j]) * abs(discount - discounts[j])


@kernel
def _add_splits(
    x, discount, upper, lower, factor, worse, discounts, uppers, lowers, factors, out
):  # fmt: skip
    """Add swap deltas of one document with worse ones, where V is u_a + g_a v_b.

    Discounts fall from rank to rank.
    """
    for j in range(len(out)):
        if_above = upper + factor * lowers[j]
        if_below = uppers[j] + factors[j] * lower
        out[j] += (x - worse[j]) * abs(if_above if discount > discounts[j] else if_below)


@kernel
def _weigh_worse(kind, i, row, x, parts, sure, out):
    """The weights of document i with the worse ones of a row, summed over rankings."""
    for j in range(len(out)):
        out[j] = 1.0 if kind == SIGN else 0.0
    if kind == SIGN:
        return
    for turn in range(len(sure)):
        at = turn * _N_PARTS
        discount, discounts = parts[at + _PLACE, i], parts[at + _PLACE, row]
        if kind == PRODUCT:
            _add_products(x[i], discount, x[row], discounts, out)
            continue
        upper, lower, factor = parts[at + _UPPER, i], parts[at + _LOWER, i], parts[at + _FACTOR, i]
        uppers, factors = parts[at + _UPPER, row], parts[at + _FACTOR, row]
        lowers = parts[at + _LOWER, row]
        if i == sure[turn]:
            upper, factor, lowers = 0.0, 1.0, parts[at + _AFTER_SURE, row]
        _add_splits(
            x[i], discount, upper, lower, factor, x[row], discounts, uppers, lowers, factors, out
        )  # fmt: skip


@kernel
def _divide_by_distances(score, slope, scores, weights):
    """Divide weights by how far the scores of their pairs are apart."""
    for j in range(len(weights)):
        weights[j] /= 0.01 + slope * abs(score - scores[j])


@kernel
def _draw_block(n_worse, share, key):
    """A block of about this share of the worse documents: start, length, and how many there are."""
    length = max(LANES, int(share * n_worse) // LANES * LANES) if share < 1.0 else n_worse
    n_blocks = (n_worse + length - 1) // length
    start = 0
    if n_blocks > 1:
        start = length * np.int64(mix(key) % np.uint64(n_blocks))
    return start, min(length, n_worse - start), n_blocks


@kernel
def _push_rows(kind, n, is_near, slope, share, key, parts, sure, weighed, leaves, between, work):
    """Add the forces and curvatures of all pairs to those of their documents, without sigma.

    Parameters
    ----------
    is_near
        Whether the work rows have powers.
    slope
        0, or what the distance of two scores is multiplied by to divide weights.
    share, key
        How many of the worse documents are drawn, and by which number.
    weighed, leaves, between
        As in `push_neighbours`, in the order of x.

    Returns the sum of the absolute forces of all pairs.
    """
    own, x, powers = work[_SCORES], work[_X], work[_POWERS]
    weights, of_documents = work[_WEIGHTS], work[_DOCUMENT_WEIGHTS]
    row_forces, row_curvatures = work[_ROW_FORCES], work[_ROW_CURVATURES]
    forces, curvatures = work[_FORCES], work[_CURVATURES]
    n_worse, size = 0, 0.0
    for i in range(1, n):
        if x[i] != x[i - 1]:
            n_worse = i
        if n_worse == 0:
            continue
        start, length, n_blocks = _draw_block(n_worse, share, key + np.uint64(i))
        stop = start + (length + LANES - 1) // LANES * LANES
        row = slice(start, stop)
        _weigh_worse(kind, i, row, x, parts, sure, weights[row])
        if weighed is not None:
            for j in range(start, start + length):
                weights[j] *= of_documents[i] * of_documents[j]
        if slope > 0.0:
            _divide_by_distances(own[i], slope, own[row], weights[row])
        if n_blocks > 1:
            for j in range(start, start + length):
                weights[j] *= n_blocks
        for j in range(start + length, stop):
            weights[j] = 0.0
        if is_near:
            _push_worse(powers[i], powers[row], weights[row], row_forces[row], row_curvatures[row])
        else:
            _push_far(own[i], own[row], weights[row], row_forces[row], row_curvatures[row])
        if len(leaves):
            for j in range(start, start + length):
                row_curvatures[j] = 0.0 if leaves[i] == leaves[j] else row_curvatures[j]
        if between is not None:
            worse = slice(start, start + length)
            add_row(between, leaves[i], leaves[worse], row_curvatures[worse])
        pushed = subtract_lanes(row_forces[row], forces[row])
        size += pushed
        forces[i] += pushed
        curvatures[i] += add_lanes(row_curvatures[row], curvatures[row])
    return size


@kernel
def _take_powers(scores, order, first, sigma, work):
    """Scores, times sigma, and their powers, into the work rows.

    `order` has the rows of the documents, of which the scores are from `first` on. Returns how far
    the scores are apart. If too far there are no powers.
    """
    n = len(order)
    own, exponents = work[_SCORES], work[_ROW_FORCES]
    low, high = np.inf, -np.inf
    for i in range(n):
        own[i] = min(max(sigma * scores[order[i] - first], -LARGEST), LARGEST)
        low = min(low, own[i])
        high = max(high, own[i])
    is_near = high - low <= _WIDEST
    for i in range(n, n + LANES):
        own[i] = low
    for i in range(n + LANES):
        exponents[i] = own[i] - (low + high) / 2 if is_near else 0.0
    whole = slice(0, n + LANES)
    exponentials(exponents[whole], work[_POWERS, whole])
    return high - low


@kernel
def _place_parts(kind, places, discounts, x, ranked, parts):
    """What the swap deltas of a ranking are made of, at the place of each document.

    `places` are those of the documents at each rank. Returns that of the first sure stop, or -1.
    """
    n = len(places)
    for rank in range(n):
        parts[_PLACE, places[rank]] = discounts[rank]
    if kind == PRODUCT:
        return -1
    for rank in range(n):
        ranked[_PLACE, rank] = x[places[rank]]
    sure = split_deltas(
        kind, n, ranked[_PLACE], discounts, ranked[_UPPER], ranked[_LOWER], ranked[_FACTOR],
        ranked[_AFTER_SURE]
    )  # fmt: skip
    for part in range(_UPPER, _AFTER_SURE if sure < 0 else _N_PARTS):
        for rank in range(n):
            parts[part, places[rank]] = ranked[part, rank]
    return places[sure] if sure >= 0 else -1


@kernel
def _rank_turn(kind, ranked_by, places, discounts, x, ranking, ranked, parts):
    """As `_place_parts`, of the ranking by these scores, which are in tie order."""
    if kind == SIGN:
        # Pairs that all weigh 1 need no ranking.
        return -1
    n = len(ranked_by)
    used, room, ranked_scores, ranked_idx = ranking
    side = rank_query(ranked_by, used, room, ranked_scores, ranked_idx)
    idx = ranked_idx[side, :n]
    for rank in range(n):
        idx[rank] = places[idx[rank]]
    return _place_parts(kind, idx, discounts, x, ranked, parts)


@kernel
def _take_documents(values, rows, scale, document_weights, leaves, placed_leaves, work):
    """The documents of a query into the work rows, but for their scores; and sums that are 0."""
    for i in range(len(rows)):
        work[_X, i] = values[i] * scale
    if document_weights is not None:
        for i in range(len(rows)):
            work[_DOCUMENT_WEIGHTS, i] = document_weights[rows[i]]
    for i in range(len(rows) if len(leaves) else 0):
        placed_leaves[i] = leaves[rows[i]]
    for i in range(len(rows) + LANES):
        work[_FORCES, i] = 0.0
        work[_CURVATURES, i] = 0.0


@kernel
def push_by_label(
    scores, values, order, places, tie_order, offsets, scales, shares, weights, first, last, kind,
    discounts, sigma, normalise, draws, document_weights, leaves, between, out_forces,
    out_curvatures
):  # fmt: skip
    """Forces and curvatures of queries first to last.

    Parameters
    ----------
    values, order, places
        As in `LabelOrder`; values are x but for the scale.
    scales
        One per query: what its values are multiplied by; 0 if no pair of it counts, NaN if
        another kernel pushes it.
    shares
        One per query: about how many of the worse documents of each are drawn. All, without draws.
    tie_order, weights, kind, discounts, draws, document_weights, leaves, between
        As in `push_queries`.
    """
    longest = longest_query(offsets, first, last)
    ranking = ranking_scratch(longest)
    work = empty((_N_ROWS, longest + LANES), np.float64)
    ranked = empty((_N_PARTS, longest), np.float64)
    rounds, together, key = 1, 1, np.uint64(0)
    if draws is not None:
        rounds = draws.permutations
        together = 1 if draws.in_margin else min(rounds, _TOGETHER)
    parts = empty((together * _N_PARTS, longest + LANES), np.float64)
    sure = empty(together, np.int64)
    own, drawn = empty(longest, np.float64), empty(longest, np.float64)
    placed_leaves = empty(longest if len(leaves) else 0, np.int32)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        n, rows, size = hi - lo, order[lo:hi], 0.0
        if math.isnan(scales[q]):
            continue
        if scales[q] == 0.0:
            out_forces[lo:hi] = 0.0
            out_curvatures[lo:hi] = 0.0
            continue
        _take_documents(
            values[lo:hi], rows, scales[q], document_weights, leaves, placed_leaves, work
        )
        apart = _take_powers(scores[lo:hi], rows, lo, sigma, work)
        for i in range(n):
            own[i] = scores[tie_order[lo + i] if len(tie_order) else lo + i]
        for start in range(0, rounds, together):
            n_turns = min(together, rounds - start)
            for turn in range(n_turns):
                ranked_by = own[:n]
                if draws is not None:
                    ranked_by, number = drawn[:n], draws.numbers[q]
                    draw_scores(draws, number * rounds + start + turn, own[:n], ranked_by)
                    key = mix(draws.key ^ mix(np.uint64(number) ^ _SAMPLE))
                    if draws.in_margin:
                        # (With noise, rows are in tie order.)
                        apart = _take_powers(ranked_by, rows, lo, sigma, work)
                at = turn * _N_PARTS
                sure[turn] = _rank_turn(
                    kind, ranked_by, places[lo:hi], discounts, work[_X], ranking, ranked,
                    parts[at : at + _N_PARTS]
                )  # fmt: skip
            slope = 1.0 / sigma if normalise and apart > 0.0 else 0.0
            size += _push_rows(
                kind, n, apart <= _WIDEST, slope, shares[q], key, parts, sure[:n_turns],
                document_weights, placed_leaves, between, work
            )  # fmt: skip
        norm = scale_of_query(size, sigma, rounds, normalise, weights[q])
        for i in range(n):
            out_forces[rows[i]] = sigma * norm * work[_FORCES, i]
            out_curvatures[rows[i]] = sigma * sigma * norm * work[_CURVATURES, i]
        if between is not None:
            end_query(between, sigma * sigma * norm * between.counts[q])


@kernel
def sum_logs(powers, count, inverse, deep, lanes):
    """The sum of log(1 + inverse * powers[j]) for j below count.

    A sum of logarithms is that of their product, of `deep` factors here: few are taken.
    """
    total, n_blocks, done = 0.0, count // _SIDE_BY_SIDE, 0
    while done < n_blocks:
        following = min(n_blocks, done + deep)
        lanes[:] = 1.0
        for block in range(done, following):
            for lane in range(_SIDE_BY_SIDE):
                lanes[lane] *= 1.0 + inverse * powers[block * _SIDE_BY_SIDE + lane]
        for lane in range(_SIDE_BY_SIDE):
            total += math.log(lanes[lane])
        done = following
    product, n_factors = 1.0, 0
    for j in range(n_blocks * _SIDE_BY_SIDE, count):
        product *= 1.0 + inverse * powers[j]
        n_factors += 1
        if n_factors == deep:
            total += math.log(product)
            product, n_factors = 1.0, 0
    return total + math.log(product)


@kernel
def sum_pair_costs(scores, values, order, offsets, first, last, sigma, out):
    """For queries first to last the sum of log(1 + exp(-sigma (z_i - z_j))), value i > value j.

    Values and order are those of `LabelOrder`.
    """
    lanes = empty(_SIDE_BY_SIDE, np.float64)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        own = scores[order[lo:hi]] * sigma
        low, high = own.min(), own.max()
        is_narrow = high - low <= _WIDEST_COSTS
        powers = np.exp(own - (low + high) / 2) if is_narrow else own
        deep = max(1, min(_DEEPEST, int(_LARGEST_LOG / (high - low + 1.0)))) if is_narrow else 1
        total, n_worse = 0.0, 0
        for i in range(hi - lo):
            if i > 0 and values[lo + i] > values[lo + i - 1]:
                n_worse = i
            if is_narrow:
                total += sum_logs(powers, n_worse, 1.0 / powers[i], deep, lanes)
            else:
                for j in range(n_worse):
                    x = own[i] - own[j]
                    total += max(-x, 0.0) + math.log1p(math.exp(-abs(x)))
        out[q] = total

"""Where a metric changes as alpha goes from 0 to 1 in `alpha * first + (1 - alpha) * second`.

Two documents of a query trade ranks at one alpha at most, so the metric of a query is a step
function. A query is swept from the left: its documents stand in the order that holds just after
0, the alphas of all trades are sorted, and each trade of neighbours changes the metric by what
these two ranks give before and after. A document that so many others beat under both rankers as
the cut-off has ranks is left out, which spares most trades.

Trades that are so close that float64 scores could not tell their order are taken together, as a
bunch: the ranks that they touch are sorted anew by the scores behind the last of them.
"""

from __future__ import annotations

import numpy as np

from rankgrove._jit import empty, kernel
from rankgrove.metrics.forms import CASCADE, PAIRS, PRECISION, PRODUCT

_EPSILON = 2.0**-52
# Around its alpha, the order of a trade's two documents is not sure in float64: for so many
# roundings of the largest score, and never further than this.
_ROUNDINGS = 4.0
_WIDEST = 1e-9


@kernel
def _keep_reachable(first, second, size, depth):
    """The documents of a query that come among the first `depth` at some alpha."""
    n = len(first)
    margin = 4.0 * _ROUNDINGS * _EPSILON * size
    kept = empty(n, np.int64)
    count = 0
    for j in range(n):
        above = 0
        if depth < n:
            under_first = first[j] + margin
            under_second = second[j] + margin
            for i in range(n):
                above += (first[i] > under_first) & (second[i] > under_second)
        kept[count] = j
        count += above < depth
    return kept[:count]


@kernel
def _find_trades(first, second, size):
    """The alpha of each trade, how far around it is unsure, and its upper and lower document.

    The upper document stands above the lower one before. Differences of float64 numbers are
    rounded once, so an alpha is right to a few units of its last place.
    """
    n = len(first)
    count = 0
    for a in range(n):
        for b in range(a + 1, n):
            by_first = first[a] - first[b]
            by_second = second[a] - second[b]
            count += ((by_first > 0) & (by_second < 0)) | ((by_first < 0) & (by_second > 0))
    alphas, halves = empty(count, np.float64), empty(count, np.float64)
    uppers, lowers = empty(count, np.int32), empty(count, np.int32)
    at = 0
    for a in range(n):
        for b in range(a + 1, n):
            by_first = first[a] - first[b]
            by_second = second[a] - second[b]
            if (by_first > 0 and by_second < 0) or (by_first < 0 and by_second > 0):
                apart = by_second - by_first
                alphas[at] = by_second / apart
                unsure = min(_WIDEST, _ROUNDINGS * _EPSILON * size / abs(apart))
                halves[at] = 4.0 * _EPSILON + unsure
                uppers[at] = a if by_second > 0 else b
                lowers[at] = b if by_second > 0 else a
                at += 1
    return alphas, halves, uppers, lowers


@kernel
def find_bunches(first, second, depth):
    """The trades of a query by rising alpha, and the bunches that they come in.

    Returns the documents that matter; of each trade its alpha, how far around it is unsure, and
    its upper and lower document, by their places among these; of each bunch its first trade, with
    the number of trades behind the last, and the alpha that it reaches to.
    """
    size = max(np.abs(first).max(), np.abs(second).max())
    kept = _keep_reachable(first, second, size, depth)
    found, unsure, uppers, lowers = _find_trades(first[kept], second[kept], size)
    by_alpha = np.argsort(found)
    alphas, halves = found[by_alpha], unsure[by_alpha]
    n = len(alphas)
    starts, reaches = empty(n + 1, np.int64), empty(n, np.float64)
    count = 0
    reach = -np.inf
    for trade in range(n):
        if alphas[trade] - halves[trade] > reach:
            starts[count] = trade
            count += 1
        reach = max(reach, alphas[trade] + halves[trade])
        reaches[count - 1] = reach
    starts[count] = n
    bunches = starts[: count + 1], reaches[:count]
    return kept, alphas, halves, uppers[by_alpha], lowers[by_alpha], *bunches


@kernel
def _value_of_ranks(values, documents, first_rank, before, kind, depth, discounts):
    """What these documents give at the ranks from the first one on.

    All forms but PAIRS are sums of terms of one document each, with a prefix `before` (relevant
    documents above, chance to get there) that a trade of neighbours below leaves as it is.
    """
    total = 0.0
    if kind == PAIRS:
        for a in range(len(documents)):
            for b in range(a + 1, len(documents)):
                total += values[documents[a]] > values[documents[b]]
        return total
    for rank in range(first_rank, min(first_rank + len(documents), depth)):
        value = values[documents[rank - first_rank]]
        if kind == PRODUCT:
            total += value * discounts[rank]
        elif kind == PRECISION:
            before += value
            total += value * before * discounts[rank]
        else:
            total += before * value * discounts[rank]
            before *= 1.0 - value
    return total


@kernel
def _update_prefix(prefix, order, values, lo, hi, kind, depth):
    """What stands above each rank, for the forms that ask for it."""
    for rank in range(lo, min(hi, depth)):
        above, value = prefix[rank], values[order[rank]]
        prefix[rank + 1] = above * (1.0 - value) if kind == CASCADE else above + value


@kernel
def _sort_ranks(first, second, alpha, order, ranks, lo, hi):
    """Sort the documents of ranks lo to hi by their scores at alpha; equal ones stay."""
    for rank in range(lo + 1, hi):
        document = order[rank]
        score = alpha * first[document] + (1.0 - alpha) * second[document]
        at = rank
        while at > lo:
            above = order[at - 1]
            if alpha * first[above] + (1.0 - alpha) * second[above] >= score:
                break
            order[at] = above
            at -= 1
        order[at] = document
    for rank in range(lo, hi):
        ranks[order[rank]] = rank


@kernel
def _trade_ranks(
    first, second, values, alpha, order, ranks, prefix, lo, hi, kind, depth, discounts
):
    """Bring the ranks lo to hi into their order at alpha.

    Returns by how much that changes the value of the query, and by how much the best order of
    these documents would.
    """
    if lo >= depth:
        _sort_ranks(first, second, alpha, order, ranks, lo, hi)
        return 0.0, 0.0
    documents, before = order[lo:hi], prefix[lo]
    was = _value_of_ranks(values, documents, lo, before, kind, depth, discounts)
    _sort_ranks(first, second, alpha, order, ranks, lo, hi)
    change = _value_of_ranks(values, documents, lo, before, kind, depth, discounts) - was
    peak = max(change, 0.0)
    if hi - lo > 2:
        ideal = documents[np.argsort(-values[documents])]
        peak = max(peak, _value_of_ranks(values, ideal, lo, before, kind, depth, discounts) - was)
    _update_prefix(prefix, order, values, lo, hi, kind, depth)
    return change, peak


@kernel
def _trade_bunch(
    first, second, values, alpha, order, ranks, prefix, covered, uppers, lowers, kind, depth,
    discounts,
):  # fmt: skip
    """As `_trade_ranks` for the ranks that the trades of a bunch touch, which may be far apart."""
    lowest = len(covered)
    highest = 0
    for trade in range(len(uppers)):
        a = ranks[uppers[trade]]
        b = ranks[lowers[trade]]
        lo = min(a, b)
        hi = max(a, b)
        covered[lo] = max(covered[lo], hi)
        lowest = min(lowest, lo)
        highest = max(highest, hi)
    change = 0.0
    peak = 0.0
    lo = lowest
    while lo <= highest:
        hi = covered[lo]
        if hi < 0:
            lo += 1
            continue
        rank = lo
        while rank <= hi:
            hi = max(hi, covered[rank])
            covered[rank] = -1
            rank += 1
        by, best = _trade_ranks(
            first, second, values, alpha, order, ranks, prefix, lo, hi + 1, kind, depth, discounts
        )
        change += by
        peak += best
        lo = hi + 1
    return change, peak


@kernel
def sweep_query(first, second, labels, depth, kind, discounts, scale):
    """The steps of one query, a row each: alpha, how far around it is unsure, change and peak.

    `labels` are what the metric makes of the labels, with the documents in the order in which
    ties stand; `scale` is what the sum of the query is multiplied by.
    """
    kept, alphas, halves, uppers, lowers, starts, reaches = find_bunches(first, second, depth)
    own_first, own_second, values = first[kept], second[kept], labels[kept]
    n, n_trades = len(kept), len(alphas)
    order, ranks, covered = np.arange(n), empty(n, np.int64), np.full(n, -1)
    # Just after 0 the second ranker decides, then the first, then the order as given.
    _sort_ranks(own_first, own_second, 1.0, order, ranks, 0, n)
    _sort_ranks(own_first, own_second, 0.0, order, ranks, 0, n)
    prefix = np.zeros(n + 1)
    prefix[0] = 1.0 if kind == CASCADE else 0.0
    _update_prefix(prefix, order, values, 0, n, kind, depth)
    out = empty((len(reaches), 4), np.float64)
    count = 0
    for bunch in range(len(reaches)):
        start, end, reach = starts[bunch], starts[bunch + 1], reaches[bunch]
        behind = alphas[end] - halves[end] if end < n_trades else 1.0
        change, peak = _trade_bunch(
            own_first, own_second, values, min(1.0, (reach + behind) / 2), order, ranks, prefix,
            covered, uppers[start:end], lowers[start:end], kind, depth, discounts,
        )  # fmt: skip
        if change != 0.0 or peak > 0.0:
            half = max(reach - alphas[start], halves[start])
            out[count] = alphas[start], half, change * scale, peak * scale
            count += 1
    return out[:count]

"""Where a metric changes as alpha goes from 0 to 1 in `alpha * first + (1 - alpha) * second`.

Two documents of a query trade ranks at one alpha at most, so the metric of a query is a step
function. A query is swept from the left: its documents stand in the order that holds just after
0, the alphas of all trades are sorted, and each trade of neighbours changes the metric by what
these two ranks give before and after. A document that so many others beat under both rankers as
the cut-off has ranks is left out, which spares most trades.

Trades that are so close that float64 scores could not tell their order are taken together: the
ranks that they touch are sorted anew by the scores behind the last of them.
"""

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel
from rankgrove.metrics.forms import CASCADE, PAIRS, PRECISION, PRODUCT

_EPSILON = 2.0**-52
# Around its alpha, the order of a trade's two documents is not sure in float64: for so many
# roundings of the largest score, and never further than this.
_ROUNDINGS = 4.0
_WIDEST = 1e-9


@kernel
def largest_of(first, second, lo, hi):
    """The largest score of a query without its sign, under either ranker."""
    size = 0.0
    for i in range(lo, hi):
        size = max(size, abs(first[i]), abs(second[i]))
    return size


@kernel
def has_equal_documents(first, second, offsets, first_query, last_query):
    """Whether two documents of a query have the same two scores, so that they tie everywhere."""
    for q in range(first_query, last_query):
        for i in range(offsets[q], offsets[q + 1]):
            same = 0
            for j in range(i + 1, offsets[q + 1]):
                same += (first[i] == first[j]) & (second[i] == second[j])
            if same > 0:
                return True
    return False


@kernel
def keep_reachable(first, second, lo, hi, depth, kept):
    """Note the rows of a query that come among the first `depth` at some alpha; how many."""
    n = hi - lo
    margin = 4.0 * _ROUNDINGS * _EPSILON * largest_of(first, second, lo, hi)
    count = 0
    for j in range(lo, hi):
        above = 0
        if depth < n:
            under_first = first[j] + margin
            under_second = second[j] + margin
            for i in range(lo, hi):
                above += (first[i] > under_first) & (second[i] > under_second)
        kept[count] = j
        count += above < depth
    return count


@kernel
def count_trades(first, second, kept, n):
    """How many pairs of these rows the two rankers order differently."""
    count = 0
    for a in range(n):
        i = kept[a]
        for b in range(a + 1, n):
            by_first = first[i] - first[kept[b]]
            by_second = second[i] - second[kept[b]]
            count += ((by_first > 0) & (by_second < 0)) | ((by_first < 0) & (by_second > 0))
    return count


@kernel
def find_trades(first, second, kept, n, size, alphas, halves, uppers, lowers):
    """The alpha of each trade, how far around it is unsure, and its documents by place in `kept`.

    The upper document stands above the lower one before. Differences of float64 numbers are
    rounded once, so an alpha is right to a few units of its last place.
    """
    at = 0
    for a in range(n):
        i = kept[a]
        for b in range(a + 1, n):
            by_first = first[i] - first[kept[b]]
            by_second = second[i] - second[kept[b]]
            if (by_first > 0 and by_second < 0) or (by_first < 0 and by_second > 0):
                apart = by_second - by_first
                alphas[at] = by_second / apart
                halves[at] = 4.0 * _EPSILON + min(
                    _WIDEST, _ROUNDINGS * _EPSILON * size / abs(apart)
                )
                uppers[at] = a if by_second > 0 else b
                lowers[at] = b if by_second > 0 else a
                at += 1
    return at


@kernel
def _value_of_ranks(values, lo, hi, before, kind, depth, discounts):
    """What the ranks lo to hi give, for the values of their documents.

    All forms but PAIRS are sums of terms of one document each, with a prefix `before` (relevant
    documents above, chance to get there) that a trade of neighbours below leaves as it is.
    """
    total = 0.0
    if kind == PAIRS:
        for a in range(hi - lo):
            for b in range(a + 1, hi - lo):
                total += values[a] > values[b]
        return total
    for rank in range(lo, min(hi, depth)):
        value = values[rank - lo]
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
    if kind == PRECISION:
        for rank in range(lo, min(hi, depth)):
            prefix[rank + 1] = prefix[rank] + values[order[rank]]
    elif kind == CASCADE:
        for rank in range(lo, min(hi, depth)):
            prefix[rank + 1] = prefix[rank] * (1.0 - values[order[rank]])


@kernel
def _sort_from_left(first, second, kept, n, order, ranks):
    """The order just after alpha = 0: by the second ranker, then by the first, then as given."""
    for a in range(n):
        i = kept[a]
        at = a
        while at > 0:
            j = kept[order[at - 1]]
            if second[j] > second[i] or (second[j] == second[i] and first[j] >= first[i]):
                break
            order[at] = order[at - 1]
            at -= 1
        order[at] = a
    for rank in range(n):
        ranks[order[rank]] = rank


@kernel
def _sort_ranks(first, second, kept, alpha, order, ranks, lo, hi):
    """Sort the documents of ranks lo to hi by their scores at alpha; equal ones stay."""
    for rank in range(lo + 1, hi):
        document = order[rank]
        i = kept[document]
        score = alpha * first[i] + (1.0 - alpha) * second[i]
        at = rank
        while at > lo:
            j = kept[order[at - 1]]
            if alpha * first[j] + (1.0 - alpha) * second[j] >= score:
                break
            order[at] = order[at - 1]
            at -= 1
        order[at] = document
    for rank in range(lo, hi):
        ranks[order[rank]] = rank


@kernel
def _trade_ranks(
    first, second, values, kept, alpha, order, ranks, prefix, spare, lo, hi, kind, depth, discounts
):
    """Bring the ranks lo to hi into their order at alpha.

    Returns by how much that changes the value of the query, and by how much the best order of
    these documents would.
    """
    if lo >= depth:
        _sort_ranks(first, second, kept, alpha, order, ranks, lo, hi)
        return 0.0, 0.0
    n = hi - lo
    before = prefix[lo]
    for place in range(n):
        spare[place] = values[order[lo + place]]
    was = _value_of_ranks(spare, lo, hi, before, kind, depth, discounts)
    _sort_ranks(first, second, kept, alpha, order, ranks, lo, hi)
    for place in range(n):
        spare[place] = values[order[lo + place]]
    change = _value_of_ranks(spare, lo, hi, before, kind, depth, discounts) - was
    peak = max(change, 0.0)
    if n > 2:
        spare[:n] = -np.sort(-spare[:n])
        peak = max(peak, _value_of_ranks(spare, lo, hi, before, kind, depth, discounts) - was)
    _update_prefix(prefix, order, values, lo, hi, kind, depth)
    return change, peak


@kernel
def _trade_several(
    first, second, values, kept, alpha, order, ranks, prefix, spare, covered, uppers, lowers,
    trades, kind, depth, discounts,
):  # fmt: skip
    """As `_trade_ranks` for trades that come together, which may touch ranks far apart."""
    lowest = len(covered)
    highest = 0
    for trade in trades:
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
            first, second, values, kept, alpha, order, ranks, prefix, spare, lo, hi + 1, kind,
            depth, discounts,
        )  # fmt: skip
        change += by
        peak += best
        lo = hi + 1
    return change, peak


@kernel
def end_of_bunch(alphas, halves, by_alpha, start):
    """The trades from `start` that are too close to tell apart: where they end, and their alpha."""
    trade = by_alpha[start]
    reach = alphas[trade] + halves[trade]
    end = start + 1
    while end < len(by_alpha):
        trade = by_alpha[end]
        if alphas[trade] - halves[trade] > reach:
            break
        reach = max(reach, alphas[trade] + halves[trade])
        end += 1
    return end, reach


@kernel
def _sweep_query(
    first, second, values, kept, n, size, n_trades, kind, depth, discounts, scale, query,
    out_alpha, out_half, out_change, out_peak, out_query, at,
):  # fmt: skip
    """Write the steps of one query from place `at` on; the place behind the last."""
    alphas = np.empty(n_trades)
    halves = np.empty(n_trades)
    uppers = np.empty(n_trades, np.int32)
    lowers = np.empty(n_trades, np.int32)
    find_trades(first, second, kept, n, size, alphas, halves, uppers, lowers)
    by_alpha = np.argsort(alphas)
    order = np.empty(n, np.int64)
    ranks = np.empty(n, np.int64)
    own = np.empty(n)
    for a in range(n):
        own[a] = values[kept[a]]
    _sort_from_left(first, second, kept, n, order, ranks)
    prefix = np.zeros(n + 1)
    prefix[0] = 1.0 if kind == CASCADE else 0.0
    _update_prefix(prefix, order, own, 0, n, kind, depth)
    spare = np.empty(n)
    covered = np.full(n, -1, np.int64)
    start = 0
    while start < n_trades:
        end, reach = end_of_bunch(alphas, halves, by_alpha, start)
        trade = by_alpha[start]
        alpha = alphas[trade]
        behind = 1.0
        if end < n_trades:
            behind = alphas[by_alpha[end]] - halves[by_alpha[end]]
        middle = min(1.0, (reach + behind) / 2)
        rank = ranks[uppers[trade]]
        if end == start + 1 and ranks[lowers[trade]] == rank + 1:
            change, peak = _trade_ranks(
                first, second, own, kept, middle, order, ranks, prefix, spare, rank, rank + 2, kind,
                depth, discounts,
            )  # fmt: skip
        else:
            change, peak = _trade_several(
                first, second, own, kept, middle, order, ranks, prefix, spare, covered, uppers,
                lowers, by_alpha[start:end], kind, depth, discounts,
            )  # fmt: skip
        if change != 0.0 or peak > 0.0:
            out_alpha[at] = alpha
            out_half[at] = max(reach - alpha, halves[trade])
            out_change[at] = change * scale
            out_peak[at] = peak * scale
            out_query[at] = query
            at += 1
        start = end
    return at


@kernel
def sweep_queries(
    first, second, values, offsets, start, last, kind, depth, discounts, scales,
    out_alpha, out_half, out_change, out_peak, out_query,
):  # fmt: skip
    """Write the steps of queries start to last, as far as there is room for them.

    `values` are what the metric makes of the labels, with the documents of a query in the order
    in which ties stand, and `scales` what a query's sum is multiplied by; NaN skips it.

    Returns the query to go on with, how many steps there are, and the room that it needs.
    """
    longest = 0
    for q in range(start, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    kept = np.empty(longest + 1, np.int64)
    at = 0
    for q in range(start, last):
        lo = offsets[q]
        hi = offsets[q + 1]
        if scales[q] != scales[q]:
            continue
        n = keep_reachable(first, second, lo, hi, depth, kept)
        n_trades = count_trades(first, second, kept, n)
        if at + n_trades > len(out_alpha):
            return q, at, n_trades
        at = _sweep_query(
            first, second, values, kept[:n], n, largest_of(first, second, lo, hi), n_trades, kind,
            min(depth, hi - lo), discounts, scales[q], q, out_alpha, out_half, out_change, out_peak,
            out_query, at,
        )  # fmt: skip
    return last, at, 0


@kernel
def bunches_of_query(first, second, labels, lo, hi, depth):
    """Start, end and number of trades of each bunch of a query, a row each.

    Trades of documents with the same label count only where they come with others.
    """
    kept = np.empty(hi - lo + 1, np.int64)
    n = keep_reachable(first, second, lo, hi, depth, kept)
    n_trades = count_trades(first, second, kept, n)
    alphas = np.empty(n_trades)
    halves = np.empty(n_trades)
    uppers = np.empty(n_trades, np.int32)
    lowers = np.empty(n_trades, np.int32)
    find_trades(
        first, second, kept, n, largest_of(first, second, lo, hi), alphas, halves, uppers, lowers
    )
    by_alpha = np.argsort(alphas)
    out = np.empty((n_trades, 3))
    count = 0
    start = 0
    while start < n_trades:
        end, reach = end_of_bunch(alphas, halves, by_alpha, start)
        trade = by_alpha[start]
        out[count, 0] = alphas[trade]
        out[count, 1] = max(reach - alphas[trade], halves[trade])
        out[count, 2] = end - start
        if end > start + 1 or labels[kept[uppers[trade]]] != labels[kept[lowers[trade]]]:
            count += 1
        start = end
    return out[:count]


@kernel
def running_sums(start, changes, out):
    """The sum of `start` and all changes up to each, with what rounding loses carried along."""
    total = start
    lost = 0.0
    for i in range(len(changes)):
        change = changes[i]
        sum_ = total + change
        if abs(total) >= abs(change):
            lost += (total - sum_) + change
        else:
            lost += (change - sum_) + total
        total = sum_
        out[i] = total + lost

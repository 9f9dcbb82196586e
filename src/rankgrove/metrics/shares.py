"""What each document adds to a metric: the metric of a query, taken apart.

Metrics that add up over ranks have such shares: discounted sums, average precision and the cascade.
Those of a query's documents add up to its value, but for rounding. A metric that counts pairs has
none, as a pair has two ranks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove.metrics.base import Floats, Metric, Rankings
from rankgrove.metrics.forms import CASCADE, PRECISION, PRODUCT, Form

_ADDS_UP = (PRODUCT, PRECISION, CASCADE)


def why_no_shares(metric: Metric, rankings: Rankings) -> str | None:
    """In one sentence why a metric has no shares of documents; None if it has."""
    form = metric.form(rankings)
    if form is None or form.kind not in _ADDS_UP:
        return f"{metric} does not add up over ranks."
    if metric.ties == "expected" and form.kind != PRODUCT:
        return f"{metric} is a mean over all orders of tied documents, which have no rank."
    return None


def order_of(metric: Metric) -> str:
    """The policy on ties that puts documents into the order in which they have their shares."""
    return "stable" if metric.ties == "expected" else metric.ties


def document_shares(
    metric: Metric, rankings: Rankings, order: NDArray[np.int64] | None = None
) -> Floats:
    """What each document adds to the value of its query, in the order of the rows.

    Empty queries have shares of 0. With `ties=expected` a document has its mean share over all
    orders of the documents that it is tied with. Ask `why_no_shares` first. `order` is that of
    `rankings` by `order_of(metric)`, where it is known.

    >>> from rankgrove.metrics.spec import parse_metric
    >>> rankings = Rankings([0, 1, 1], [3.0, 2.0, 1.0], [0, 3])
    >>> document_shares(parse_metric("precision@2"), rankings).tolist()
    [0.0, 0.5, 0.0]
    >>> document_shares(parse_metric("mrr"), rankings).tolist()
    [0.0, 0.5, 0.0]
    """
    form = metric.form(rankings)
    if form is None:
        raise TypeError(f"{metric} has no shares of documents.")
    order = rankings.order(order_of(metric)) if order is None else order
    sizes = np.diff(rankings.offsets)
    places = np.arange(len(order)) - np.repeat(rankings.offsets[:-1], sizes)
    ranked = form.values[order]
    discounts = form.discounts[places]
    if metric.ties == "expected":
        discounts = _group_means(discounts, rankings.scores[order], places)
    if form.kind == PRODUCT:
        shares = ranked * discounts
    elif form.kind == PRECISION:
        relevant = ranked > 0
        counts = np.cumsum(relevant)
        before: NDArray[np.int64] = (counts - relevant)[rankings.offsets[:-1]]
        shares = relevant * (counts - np.repeat(before, sizes)) * discounts
    else:
        shares = _cascade(form, ranked, rankings.offsets)
    shares *= np.nan_to_num(np.repeat(form.scales, sizes))
    by_row = np.empty(len(order))
    by_row[order] = shares
    return by_row


def _group_means(values: Floats, scores: Floats, places: NDArray[np.int64]) -> Floats:
    """The mean of the values over each run of equal scores, which ends with its query."""
    begins = (places == 0) | np.append(True, scores[1:] != scores[:-1])
    groups = np.cumsum(begins) - 1
    means = np.bincount(groups, weights=values) / np.bincount(groups)
    found: Floats = means[groups]
    return found


def _cascade(form: Form, stops: Floats, offsets: NDArray[np.int64]) -> Floats:
    """What each rank gives: the chance to get there and to stop, over the rank.

    One rank after the other, all queries at once, longest first: those that have the rank are then
    the first ones.
    """
    shares = np.zeros(len(stops))
    sizes = np.diff(offsets)
    by_length = np.argsort(-sizes, kind="stable")
    starts, reach = offsets[:-1][by_length], np.ones(len(sizes))
    n_longer = len(sizes) - np.searchsorted(np.sort(sizes), np.arange(form.depth), side="right")
    for rank, (discount, n_queries) in enumerate(zip(form.discounts, n_longer, strict=False)):
        rows = starts[:n_queries] + rank
        shares[rows] = reach[:n_queries] * stops[rows] * discount
        reach[:n_queries] *= 1.0 - stops[rows]
        if not reach[:n_queries].any():
            break
    return shares

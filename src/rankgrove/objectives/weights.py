"""What a metric weighs pairs by on one data set: the kind of its swap deltas and their parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input
from rankgrove.errors import DataError
from rankgrove.metrics.average import MAP
from rankgrove.metrics.base import Metric, Rankings
from rankgrove.metrics.cascade import Cascade, cascade
from rankgrove.metrics.discounted import DCG, NDCG, Discounted, sum_gains
from rankgrove.objectives.deltas import CASCADE, PRECISION, PRODUCT, SIGN

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairWeights:
    """The parts of swap deltas that do not depend on scores.

    Attributes
    ----------
    kind
        One of the kinds in `deltas`.
    values
        One a document: x but for the scale.
    scales
        One a query: what its values are multiplied by; 0 if no pair of it counts.
    discounts
        One a rank, down to the longest query.
    depth
        The ranks that the better-ranked document of a pair may have.
    """

    kind: int
    values: Floats
    scales: Floats
    discounts: Floats
    depth: int


# The metrics whose swap deltas kernels know.
WITH_DELTAS = (Discounted, MAP, Cascade)


def weigh_pairs(metric: Metric | None, rankings: Rankings, truncation: int | None) -> PairWeights:
    """The weights of pairs by a metric; None weighs every pair with different labels by 1."""
    longest = rankings.longest
    most = longest if truncation is None else min(truncation, longest)
    if metric is None:
        labels = rankings.labels.astype(np.float64)
        ones = np.ones(rankings.n_queries)
        scales = _without_equal(labels, ones, rankings)
        return PairWeights(SIGN, labels, scales, np.ones(longest), most)
    check_threshold_is_given(metric, rankings)
    metric.check_labels(rankings)
    if isinstance(metric, (DCG, NDCG)):
        # LightGBM's form: the truncation takes the place of the cut-off, and discounts have none.
        cutoff = metric.k if truncation is None else truncation
        cut = replace(metric, k=None if cutoff is None else min(cutoff, longest))
        shown = replace(metric, k=metric.k if truncation is None else None)
        return _product(cut, shown.discounts(shown.depth(longest)), rankings, cut.depth(longest))
    if isinstance(metric, Discounted):
        return _product(metric, metric.discounts(metric.depth(longest)), rankings, most)
    depth = metric.depth(longest)
    places = np.zeros(longest)
    places[:depth] = 1.0 / np.arange(1, depth + 1)
    if isinstance(metric, MAP):
        values = (rankings.labels >= metric.threshold).astype(np.float64)
        counts = np.add.reduceat(values, rankings.offsets[:-1])
        capped = np.minimum(counts, depth) if metric.norm == "cutoff" else counts
        scales = np.divide(1.0, capped, out=np.zeros(len(counts)), where=counts > 0)
        kind = PRECISION
    elif isinstance(metric, Cascade):
        values, scales, kind = _stops(metric, rankings), np.ones(rankings.n_queries), CASCADE
    else:
        raise TypeError(f"{metric} has no swap deltas")
    return PairWeights(
        kind, values, _without_equal(values, scales, rankings), places, min(most, depth)
    )


def check_threshold_is_given(metric: Metric, rankings: Rankings) -> None:
    """Refuse grades for a metric of two kinds of documents that was not told which is which."""
    if getattr(metric, "relevant", 0.0) is not None:
        return
    labels = rankings.labels
    other = labels[(labels != 0) & (labels != 1)]
    if len(other):
        raise DataError(
            f"labels must be 0 or 1 to train for {metric}, or it must say which are relevant, as "
            f"in {metric.name}(relevant>=1). Got label {other[0]:g}."
        )


def _product(metric: Discounted, discounts: Floats, rankings: Rankings, depth: int) -> PairWeights:
    kind, table = metric.gains(*rankings.label_range, rankings.whole_labels)
    n_documents = len(rankings.labels)
    # The gain of a document is the sum of gains of a query that is this document alone.
    alone = as_input(np.arange(n_documents + 1), np.int64)
    gains = np.empty(n_documents)
    sum_gains(rankings.labels, alone, 0, n_documents, kind, table, gains)
    # One over the normaliser, and NaN where the query has no gain.
    scales = np.nan_to_num(metric.normalise(np.ones(rankings.n_queries), rankings, kind, table))
    places = np.zeros(rankings.longest)
    places[: len(discounts)] = discounts
    return PairWeights(PRODUCT, gains, _without_equal(gains, scales, rankings), places, depth)


def _stops(metric: Cascade, rankings: Rankings) -> Floats:
    """The chance to stop at each document: the metric of a query that is this document alone."""
    n_documents = len(rankings.labels)
    alone = as_input(np.arange(n_documents + 1), np.int64)
    out = np.empty(n_documents)
    labels = rankings.labels
    kind, table = metric.stopping(rankings)
    cascade(labels, alone, labels, alone, 0, n_documents, 1, kind, table, out)
    return np.nan_to_num(out)


def _without_equal(values: Floats, scales: Floats, rankings: Rankings) -> Floats:
    """The scales, 0 for queries whose documents are all alike."""
    starts = rankings.offsets[:-1]
    equal = np.minimum.reduceat(values, starts) == np.maximum.reduceat(values, starts)
    return np.where(equal, 0.0, scales)

"""What a metric weighs pairs by on one data set: its form, without queries that do not count."""

from __future__ import annotations

import numpy as np

from rankgrove.errors import refusal
from rankgrove.metrics.base import Metric, Rankings
from rankgrove.metrics.discounted import Discounted
from rankgrove.metrics.forms import DISTANCE, PRODUCT, SIGN, Form


def weigh_pairs(metric: Metric | None, rankings: Rankings, truncation: int | None) -> Form | None:
    """The weights of pairs by a metric; None weighs every pair with different labels by 1.

    The scale of a query is 0 if no pair of it counts. There are no weights for a metric without a
    form.
    """
    if metric is None:
        values, longest = rankings.labels.astype(np.float64), rankings.longest
        depth = longest if truncation is None else min(truncation, longest)
        form: Form | None = Form(SIGN, values, np.ones(longest), np.ones(rankings.n_queries), depth)
    else:
        metric.check_grades(rankings)
        metric.check_labels(rankings)
        form = metric.form_of_pairs(rankings, truncation)
    if form is None:
        return None
    starts = rankings.offsets[:-1]
    equal = np.minimum.reduceat(form.values, starts) == np.maximum.reduceat(form.values, starts)
    return form._replace(scales=np.where(equal, 0.0, np.nan_to_num(form.scales)))


def with_distances(form: Form | None, metric: Metric | None, factor: float, *, alone: bool) -> Form:
    """The weights of LambdaLoss: `factor` times NDCG-Loss2, beside the swap deltas or alone.

    NDCG-Loss2 takes D(d) - D(d + 1) for D(a) - D(b), where d = b - a (Wang et al. 2018).
    """
    if not isinstance(metric, Discounted) or form is None or form.kind != PRODUCT:
        raise refusal("metric", "be one with discounts, as ndcg, for LambdaLoss", got=str(metric))
    by_rank = np.zeros(len(form.discounts)) if alone else form.discounts
    uncut = metric.discounts(len(form.discounts) + 1)
    by_distance = factor * (uncut[:-1] - uncut[1:])
    return form._replace(kind=DISTANCE, discounts=np.append(by_rank, by_distance))

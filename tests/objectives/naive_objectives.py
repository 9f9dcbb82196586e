"""Forces of every objective straight from its formula, in plain Python and NumPy.

The weight of a pair is what the metric changes by when it is computed again after the swap. Only
the noise is shared with the library, where a test asks for the same draws.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from metrics import naive_metrics
from objectives.naive_forces import logistic
from rankgrove._jit.elementary import draw_noise
from rankgrove._jit.hashing import iteration_key, mix
from rankgrove.data.dataset import Dataset
from rankgrove.metrics.average import MAP
from rankgrove.metrics.cascade import ERR, MRR
from rankgrove.metrics.discounted import DCG, NDCG, RBP, ExpDCG, Precision
from rankgrove.metrics.spec import parse_metric

# Metrics of grades 0 to 4; those of two kinds of documents say which are relevant.
METRICS = (
    "ndcg", "ndcg@3", "dcg", "expdcg", "rbp(relevant>=2)", "map(relevant>=2)",
    "map@3(relevant>=2)", "mrr(relevant>=2)", "mrr@2(relevant>=2)", "err", "err(r/4)",
    "precision@2(relevant>=2)",
)  # fmt: skip


def dataset(labels, group, weights=None, document_weights=None):
    return Dataset.from_arrays(
        np.zeros((len(labels), 1)), labels, group=group, weights=weights,
        document_weights=document_weights,
    )  # fmt: skip


def compute(objective, labels, scores, group=None, weights=None, n_jobs=1, seed=0, iteration=0):
    """Forces and curvatures of the library."""
    data = dataset(labels, [len(labels)] if group is None else group, weights)
    forces, curvatures = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    prepared = objective.prepare(data, n_jobs=n_jobs, seed=seed)
    prepared.compute(np.asarray(scores, dtype=float), iteration, forces, curvatures)
    return forces, curvatures


def forces_of_iterations(objective, labels, scores, iterations):
    """The forces on one query, one row an iteration."""
    prepared = objective.prepare(dataset(labels, [len(labels)]), n_jobs=1, seed=3)
    own, forces, curvatures = np.asarray(scores, dtype=float), *np.empty((2, len(labels)))
    rows = np.empty((iterations, len(labels)))
    for iteration in range(iterations):
        prepared.compute(own, iteration, forces, curvatures)
        rows[iteration] = forces
    return rows


def same_draws(kind, n, query, draws, seed, iteration):
    """The noise that the kernels draw for one query, one row per draw."""
    rows = np.empty((draws, n))
    for draw in range(draws):
        inner = np.uint64(mix(np.uint64(query * draws + draw)))
        key = np.uint64(mix(iteration_key(seed, iteration) ^ inner))
        draw_noise(kind, key, rows[draw])
    return rows


class Formless(MAP):
    """Average precision, of which optimisers know nothing but its values."""

    def form(self, rankings):
        return None


def recomputed_draws(kind, n, draws, *, seed, iteration):
    """The noise of the first query for a metric without a form."""
    rows = np.empty((draws, n))
    for draw in range(draws):
        key = iteration_key(int(iteration_key(seed, iteration)), draw)
        draw_noise(kind, key, rows[draw])
    return rows


def ranked_order(scores, labels, ties="worst"):
    """Rows by falling score; equal ones by label as the policy says, then in their order."""
    sign = {"worst": 1, "best": -1, "stable": 0}[ties]
    return sorted(range(len(scores)), key=lambda i: (-scores[i], sign * labels[i], i))


def stable_order(scores):
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def values_of_lists(metric, lists):
    """The metric of many lists of labels at once, one per row; 0 for an empty one."""
    lists = np.asarray(lists, dtype=float)
    n = lists.shape[1]
    ranks = np.arange(1, n + 1)
    shown = ranks <= (n if metric.k is None else metric.k)
    if isinstance(metric, (DCG, ExpDCG)):
        gains = lists if metric.gain == "linear" else 2.0**lists - 1
        discounts = (
            metric.b ** (ranks - 1) if isinstance(metric, ExpDCG) else 1 / np.log2(1 + ranks)
        )
        values = gains @ (discounts * shown)
        if isinstance(metric, NDCG):
            best = -np.sort(-gains, axis=1) @ (discounts * shown)
            values = np.divide(values, best, out=np.zeros(len(lists)), where=best > 0)
        return values
    if isinstance(metric, (MRR, ERR)):
        if isinstance(metric, MRR):
            stops = (lists >= metric.threshold) * 1.0
        else:
            top = metric.r_max
            stops = lists / top if metric.stop == "linear" else (2.0**lists - 1) / 2.0**top
        passing = np.cumprod(1 - stops, axis=1)
        reach = np.hstack([np.ones((len(lists), 1)), passing[:, :-1]])
        return (reach * stops) @ (shown / ranks)
    hits = (lists >= metric.threshold) * 1.0
    if isinstance(metric, MAP):
        values = (hits * np.cumsum(hits, axis=1)) @ (shown / ranks)
        return values / np.maximum(hits.sum(axis=1), 1)
    if isinstance(metric, RBP):
        return hits @ ((1 - metric.p) * metric.p ** (ranks - 1) * shown)
    assert isinstance(metric, Precision)
    return hits @ (shown / metric.k)


@functools.cache
def swap_deltas(metric, ranked):
    """The absolute change of the metric by each swap; long lists by rows of many lists at once."""
    n = len(ranked)
    if n <= 20:
        return np.abs(naive_metrics.swap_deltas(metric, ranked))
    own = np.array(ranked, dtype=float)
    before = values_of_lists(metric, own[None, :])
    deltas = np.zeros((n, n))
    for a in range(n):
        lists, rows = np.tile(own, (n, 1)), np.arange(n)
        lists[:, a] = own
        lists[rows, rows] = own[a]
        deltas[a] = values_of_lists(metric, lists) - before
    return np.abs(deltas)


def lambdaloss_deltas(metric, ranked, factor, alone):
    """Wang et al. 2018, NDCG-Loss2 (alone) and NDCG-Loss2++, for NDCG without a cut-off."""
    n = len(ranked)
    ideal = naive_metrics.of_order(DCG(gain=metric.gain), sorted(ranked, reverse=True))
    gains = [(2.0**label - 1 if metric.gain == "exponential" else label) / ideal
             for label in ranked]  # fmt: skip
    deltas = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            if a == b:
                continue
            distance = abs(a - b)
            delta = abs(1 / math.log2(1 + distance) - 1 / math.log2(2 + distance))
            rho = abs(1 / math.log2(2 + a) - 1 / math.log2(2 + b))
            weight = delta if alone else rho + factor * delta
            deltas[a, b] = weight * abs(gains[a] - gains[b])
    return deltas


def pair_weights(
    metric, labels, order, *, truncation=None, neighbours="all", exactly=None, deltas=None,
    anchors="ranked",
):  # fmt: skip
    """The weight of each pair (i, j) with label i > label j in a ranking; no metric: 1."""
    n = len(order)
    ranked = tuple(float(labels[i]) for i in order)
    if deltas is not None:
        pass
    elif metric is None:
        deltas = np.ones((n, n))
    elif truncation is not None and isinstance(metric, DCG):
        # LightGBM's form: uncut discounts over the ideal DCG at the truncation.
        cut = DCG(gain=metric.gain, k=truncation)
        ideal = naive_metrics.of_order(cut, sorted(ranked, reverse=True))
        deltas = swap_deltas(replace(cut, k=None), ranked)
        if isinstance(metric, NDCG):
            deltas = deltas / ideal if ideal else np.zeros((n, n))
    else:
        deltas = swap_deltas(metric, ranked)
    weights = {}
    first = range(n if truncation is None else min(truncation, n))
    ideal_first = sorted(range(n), key=lambda a: (-ranked[a], a))[: len(first)]
    for a in first if anchors == "ranked" else range(n):
        for b in range(a + 1, n if neighbours in ("all", "sample") else min(n, a + neighbours + 1)):
            if a not in first and a not in ideal_first and b not in ideal_first:
                continue
            if ranked[a] != ranked[b] and exactly in (None, b - a):
                pair = (order[a], order[b]) if ranked[a] > ranked[b] else (order[b], order[a])
                weights[pair] = deltas[a, b]
    return weights


def mean_weights(metric, labels, orders, **how):
    """The mean of the weights over rankings."""
    total = {}
    for order in orders:
        for pair, weight in pair_weights(metric, labels, order, **how).items():
            total[pair] = total.get(pair, 0.0) + weight / len(orders)
    return total


class Expected(NamedTuple):
    """Forces and curvatures, and what an absolute error of the weights may do to them."""

    forces: np.ndarray
    curvatures: np.ndarray
    force_room: np.ndarray
    curvature_room: np.ndarray


def forces_of_weights(scores, weights, *, sigma=1.0, normalise=False, weight=1.0, size=1.0):
    """Forces and curvatures of weighted pairs; `size` is of the largest value of the metric."""
    values = np.zeros((4, len(scores)))
    total = 0.0
    spread = normalise and max(scores) != min(scores)
    for (i, j), w in weights.items():
        distance = scores[i] - scores[j]
        near = 0.01 + abs(distance) if spread else 1.0
        rho, other = logistic(sigma * distance), logistic(-sigma * distance)
        force, curvature = sigma * w / near * rho, sigma**2 * w / near * rho * other
        room = (w + size) / near
        for document, sign in ((i, 1), (j, -1)):
            values[:, document] += (
                sign * force, curvature, sigma * room * rho, sigma**2 * room * rho * other
            )  # fmt: skip
        total += 2 * force
    factor = weight
    if normalise and total > 0:
        factor *= math.log1p(total) / math.log(2) / total
    return Expected(*(values * factor))


def pair_cost(scores, weights, sigma):
    """The fixed-weight cost that pair forces are minus the derivative of."""
    return math.fsum(
        w * np.logaddexp(0.0, -sigma * (scores[i] - scores[j])) for (i, j), w in weights.items()
    )


def derivatives(cost, scores, step):
    """First and second derivative of a cost by each score, by central differences."""
    first, second = np.empty(len(scores)), np.empty(len(scores))
    for i in range(len(scores)):
        move = np.zeros(len(scores))
        move[i] = step
        low, here, high = (cost(scores + k * move) for k in (-1, 0, 1))
        first[i], second[i] = (high - low) / (2 * step), (high - 2 * here + low) / step**2
    return first, second


def log_softmax(scores):
    return scores - np.logaddexp.reduce(scores)


def xendcg_terms(scores, labels, draws):
    """Gradient terms of the three orders and the hessian, as in LightGBM's rank_xendcg."""
    n = len(scores)
    powers = [math.exp(score - max(scores)) for score in scores]
    rho = [power / math.fsum(powers) for power in powers]
    params = [2.0 ** labels[i] - draws[i] for i in range(n)]
    inverse = 1.0 / math.fsum(params)
    first = [-params[i] * inverse + rho[i] for i in range(n)]
    params = [first[i] / (1.0 - rho[i]) for i in range(n)]
    sum_1 = math.fsum(params)
    second = [rho[i] * (sum_1 - params[i]) for i in range(n)]
    params = [second[i] / (1.0 - rho[i]) for i in range(n)]
    sum_2 = math.fsum(params)
    third = [rho[i] * (sum_2 - params[i]) for i in range(n)]
    return np.array(first), np.array(second), np.array(third), np.array(rho) * (1 - np.array(rho))


def stochastic_draw(metric, scores, labels, noise, *, sigma=1.0, mu=0.0):
    """The gradient estimate of one draw: i is put just above and just below every other j."""
    n = len(scores)
    middles = [scores[i] - sigma * mu * labels[i] for i in range(n)]
    noisy = [middles[i] + sigma * noise[i] for i in range(n)]
    order = stable_order(noisy)
    out = np.zeros(n)
    for i in range(n):
        rest = [j for j in order if j != i]
        for at, j in enumerate(rest):
            above, below = (
                naive_metrics.of_order(metric, [labels[k] for k in (*rest[:cut], i, *rest[cut:])])
                for cut in (at, at + 1)
            )
            away = (noisy[j] - middles[i]) / sigma
            density = math.exp(-0.5 * away**2) / (sigma * math.sqrt(2 * math.pi))
            out[i] += density * ((above or 0.0) - (below or 0.0))
    return out


PARSED = {spec: parse_metric(spec) for spec in METRICS}

"""The metrics straight from their definitions: slow, plain, one query at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np

from rankgrove.metrics.average import MAP
from rankgrove.metrics.cascade import ERR, MRR
from rankgrove.metrics.discounted import DCG, NDCG, RBP, ExpDCG, Precision, Recall
from rankgrove.metrics.pairs import PairAccuracy, Tau

EMPTY = None  # what a definition gives for a query whose best possible value is 0


def of_order(metric, labels):
    """The metric of one query whose documents stand in this order; EMPTY if it is empty."""
    labels = [float(label) for label in labels]
    return _DEFINITIONS[type(metric)](metric, labels)


def of_scores(metric, labels, scores):
    """The metric of one query under the tie policy of the metric."""
    rows = range(len(labels))
    if metric.ties == "expected":
        orders = _orders_of_ties(scores)
        values = [of_order(metric, [labels[i] for i in order]) for order in orders]
        return EMPTY if values[0] is EMPTY else math.fsum(values) / len(values)
    tie_break = {"worst": lambda i: labels[i], "best": lambda i: -labels[i], "stable": lambda i: i}
    order = sorted(rows, key=lambda i: (-scores[i], tie_break[metric.ties](i)))
    return of_order(metric, [labels[i] for i in order])


def _orders_of_ties(scores):
    levels = sorted(set(scores), reverse=True)
    groups = [[i for i, score in enumerate(scores) if score == level] for level in levels]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [i for part in parts for i in part]


def _gain(metric, label):
    if isinstance(metric.gain, tuple):
        return metric.gain[int(label)]
    return label if metric.gain == "linear" else 2.0**label - 1.0


def _cut(metric, labels):
    return labels if metric.k is None else labels[: metric.k]


def _dcg(metric, labels):
    if not any(_gain(metric, label) > 0 for label in labels):
        return EMPTY
    top = _cut(metric, labels)
    return sum(_gain(metric, label) / math.log2(1 + p) for p, label in enumerate(top, 1))


def _ndcg(metric, labels):
    value = _dcg(metric, labels)
    return EMPTY if value is EMPTY else value / _dcg(metric, sorted(labels, reverse=True))


def _expdcg(metric, labels):
    if not any(_gain(metric, label) > 0 for label in labels):
        return EMPTY
    top = _cut(metric, labels)
    return sum(_gain(metric, label) * metric.b ** (p - 1) for p, label in enumerate(top, 1))


def _relevant(metric, labels):
    return [1 if label >= metric.threshold else 0 for label in labels]


def _rbp(metric, labels):
    relevant = _relevant(metric, labels)
    if sum(relevant) == 0:
        return EMPTY
    top = _cut(metric, relevant)
    return (1 - metric.p) * sum(hit * metric.p ** (i - 1) for i, hit in enumerate(top, 1))


def _precision(metric, labels):
    relevant = _relevant(metric, labels)
    ranks = metric.k if metric.norm == "cutoff" else min(metric.k, len(labels))
    return sum(relevant[: metric.k]) / ranks if sum(relevant) else EMPTY


def _recall(metric, labels):
    relevant = _relevant(metric, labels)
    return sum(relevant[: metric.k]) / sum(relevant) if sum(relevant) else EMPTY


def _map(metric, labels):
    relevant = _relevant(metric, labels)
    count = sum(relevant)
    if count == 0:
        return EMPTY
    top = _cut(metric, relevant)
    total = sum(hit * sum(relevant[:p]) / p for p, hit in enumerate(top, 1))
    if metric.norm == "cutoff" and metric.k is not None:
        count = min(count, metric.k)
    return total / count


def _mrr(metric, labels):
    relevant = _relevant(metric, labels)
    if sum(relevant) == 0:
        return EMPTY
    return next((1 / p for p, hit in enumerate(_cut(metric, relevant), 1) if hit), 0.0)


def _err(metric, labels):
    if metric.stop == "linear":
        stops = [label / metric.r_max for label in labels]
    else:
        stops = [(2.0**label - 1) / 2.0**metric.r_max for label in labels]
    if not any(stops):
        return EMPTY
    top = _cut(metric, stops)
    return sum(
        stop / p * math.prod(1 - above for above in top[: p - 1]) for p, stop in enumerate(top, 1)
    )


def _pair_counts(labels):
    pairs = list(itertools.combinations(labels, 2))
    return (
        sum(first > second for first, second in pairs),
        sum(first < second for first, second in pairs),
        len(pairs),
    )


def _pair_accuracy(metric, labels):
    concordant, discordant, _ = _pair_counts(labels)
    return concordant / (concordant + discordant) if concordant + discordant else EMPTY


def _tau(metric, labels):
    concordant, discordant, pairs = _pair_counts(labels)
    if concordant + discordant == 0:
        return EMPTY
    return (concordant - discordant) / math.sqrt((concordant + discordant) * pairs)


_DEFINITIONS = {
    DCG: _dcg,
    NDCG: _ndcg,
    ExpDCG: _expdcg,
    RBP: _rbp,
    Precision: _precision,
    Recall: _recall,
    MAP: _map,
    MRR: _mrr,
    ERR: _err,
    PairAccuracy: _pair_accuracy,
    Tau: _tau,
}


def swap_deltas(metric, labels):
    """All swap deltas of one query by computing the metric again after each swap."""
    n = len(labels)
    deltas = np.zeros((n, n))
    before = of_order(metric, labels)
    if before is EMPTY:
        return deltas
    for a in range(n):
        for b in range(n):
            swapped = list(labels)
            swapped[a], swapped[b] = swapped[b], swapped[a]
            deltas[a, b] = of_order(metric, swapped) - before
    return deltas


def weighted_pair_accuracy(ties, labels, scores, weights, ids):
    """The sum of w_i w_j over pairs, label i > label j, with i above j, by that over all pairs."""
    right = total = 0.0
    for i, j in itertools.permutations(range(len(labels)), 2):
        if labels[i] <= labels[j]:
            continue
        # By the policy, whether the better of two tied documents stands above the other.
        tied = {"worst": 0, "best": 1, "stable": i < j, "document_id": ids[i] > ids[j]}
        above = scores[i] > scores[j]
        if scores[i] == scores[j]:
            above = 0.5 if ties == "expected" else tied[ties]
        right += weights[i] * weights[j] * above
        total += weights[i] * weights[j]
    return right / total if total > 0 else EMPTY

"""Forces straight from the formulas, one pair at a time, in plain Python.

The oracle of the pair loop: it shares no code with the library. Slow on purpose.
"""

from __future__ import annotations

import math


def exponential(label):
    return 2.0**label - 1.0


def linear(label):
    return float(label)


def table(*gains):
    return lambda label: float(gains[int(label)])


def logistic(x):
    """1 / (1 + e^x), without overflow."""
    if x > 0:
        return math.exp(-x) / (1.0 + math.exp(-x))
    return 1.0 / (1.0 + math.exp(x))


def dcg(gains, depth):
    return sum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains[:depth], 1))


def pair_weights(scores, labels, *, gain, ideal, k=None, truncation=None, ties="worst"):
    """The weight of each pair (i, j) with label i > label j at these scores.

    With `ideal`, as NDCG; without, as DCG.
    """
    n = len(scores)
    sign = {"worst": 1, "stable": 0}[ties]
    order = sorted(range(n), key=lambda i: (-scores[i], sign * labels[i], i))
    rank = {i: at for at, i in enumerate(order, 1)}
    cutoff = k if truncation is None else truncation
    best = dcg(sorted((gain(label) for label in labels), reverse=True), cutoff) if ideal else 1.0
    weights = {}
    for i in range(n):
        for j in range(n):
            if labels[i] <= labels[j] or best == 0:
                continue
            if truncation is not None and min(rank[i], rank[j]) > truncation:
                continue
            discount = [
                0.0 if truncation is None and k is not None and p > k else 1 / math.log2(1 + p)
                for p in (rank[i], rank[j])
            ]
            swap = (gain(labels[i]) - gain(labels[j])) * abs(discount[0] - discount[1])
            weights[i, j] = swap / best
    return weights


def cost(scores, weights, sigma):
    """What the forces are minus the derivative of, the weights held fixed."""
    return sum(
        weight * math.log1p(math.exp(-sigma * (scores[i] - scores[j])))
        for (i, j), weight in weights.items()
    )


def forces_of_query(
    scores,
    labels,
    *,
    gain=exponential,
    ideal=True,
    k=None,
    truncation=None,
    sigma=1.0,
    normalise=False,
    weight=1.0,
    sigmoid=None,
    ties="worst",
):
    """Forces, curvatures, and the sum of the absolute pair forces on each document.

    `sigmoid(z_i - z_j)` takes the place of rho where it is given.
    """
    n = len(scores)
    forces, curvatures, sizes = [0.0] * n, [0.0] * n, [0.0] * n
    weights = pair_weights(
        scores, labels, gain=gain, ideal=ideal, k=k, truncation=truncation, ties=ties
    )
    total = 0.0
    for (i, j), swap in weights.items():
        distance = scores[i] - scores[j]
        w = swap / (0.01 + abs(distance)) if normalise and max(scores) != min(scores) else swap
        rho = logistic(sigma * distance) if sigmoid is None else sigmoid(distance)
        force, curvature = sigma * w * rho, sigma**2 * w * rho * (1 - rho)
        if sigmoid is None:
            # 1 - rho loses all digits where rho is near 1.
            curvature = sigma**2 * w * rho * logistic(-sigma * distance)
        forces[i] += force
        forces[j] -= force
        for document in (i, j):
            curvatures[document] += curvature
            sizes[document] += force
        total += 2 * force
    factor = weight
    if normalise and total > 0:
        factor *= math.log1p(total) / math.log(2) / total
    return tuple([value * factor for value in values] for values in (forces, curvatures, sizes))

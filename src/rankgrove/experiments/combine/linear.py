"""A linear LambdaRank on the scores of rankers (Burges 2010, sections 6 and 7.1).

The combined score is z = X w, X the rankers' scores. A document's force is that of LambdaRank at z,
so w goes along X' force. Each step is a Newton step of the cost whose pair weights are those of the
ranking at hand,

    sum_ij |swap delta_ij| log(1 + exp(-(z_i - z_j))),

with a curvature that is at least its own: of a pair (d_i - d_j)^2 <= 2 d_i^2 + 2 d_j^2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.objectives.base import Forces
from rankgrove.objectives.registry import make_objective

# Steps, at most, and the share of a weight below which a step is none.
_STEPS, _SMALL_STEP = 100, 1e-4
# Weights whose sum is a smaller share of their sizes would become too large.
_SMALL_SUM = 0.01
# Added to the curvature of each direction, as a share of the mean one.
_RIDGE = 1e-9


def fit_linear(
    data: Dataset, scores: Floats, values: list[float], metric: Metric,
    parameters: Mapping[str, Any], n_jobs: int | None,
) -> tuple[Floats, float]:  # fmt: skip
    """The weights of the best ranking on the way, from the best ranker on, and its value.

    They may be negative and add up to 1; where their sum is near 0 or below it, their sizes do. A
    ranker that gives all documents of a query one score has none.
    """
    options = {"truncation": None, "normalise": False, **parameters}
    prepared = make_objective("lambdamart", metric=metric, **options).prepare(data, n_jobs)
    centred = centre(scores.T, data)
    spreads = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(centred))
    units = np.where(spreads > 0, spreads, 1.0)
    start = np.eye(len(scores))[int(np.argmax(values))]
    best, value = start, max(values)
    for weights in linear_steps(centred / units, prepared, start):
        raw = weights / units
        total, size = raw.sum(), np.abs(raw).sum()
        raw /= total if total > _SMALL_SUM * size else size
        reached = measure_dataset(data, raw @ scores, metric, n_jobs=n_jobs)[str(metric)]
        if reached > value:
            best, value = raw, reached
    return best, value


def centre(columns: Floats, data: Dataset) -> Floats:
    """Scores less their mean in the query, which no ranking depends on."""
    starts, sizes = data.offsets[:-1], data.group
    means = np.add.reduceat(columns, starts, axis=0) / sizes[:, None]
    return np.asarray(columns - np.repeat(means, sizes, axis=0))


def linear_steps(columns: Floats, prepared: Forces, start: Floats) -> Iterator[Floats]:
    """The weights after each step; the last one is where they hardly move any more."""
    weights = start.copy()
    forces, curvatures = np.empty((2, len(columns)))
    for _ in range(_STEPS):
        prepared.compute(np.einsum("ij,j->i", columns, weights), 0, forces, curvatures)
        slope = np.einsum("ij,i->j", columns, forces)
        curvature = 2.0 * np.einsum("ij,i,ik->jk", columns, curvatures, columns)
        mean = np.trace(curvature) / len(weights)
        if not mean > 0:
            return
        step = np.linalg.solve(curvature + _RIDGE * mean * np.eye(len(weights)), slope)
        weights = weights + step
        if not weights.any():
            return
        yield weights
        if np.abs(step).max() <= _SMALL_STEP * np.abs(weights).max():
            return

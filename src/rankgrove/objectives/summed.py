"""Forces of several metrics at once: the weighted sum of the forces of each.

The pair weight of a sum of metrics is the weighted sum of their swap deltas (Svore et al. 2011),
and forces are linear in it. So each metric goes through its own pass over the pairs, with the same
noise, and what it pushes is added with its weight: as many passes as there are metrics. With
`normalise` the forces of a query are scaled for each metric by itself, so that weights compare
metrics of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rankgrove.data.documents import Documents
from rankgrove.metrics.base import Metric
from rankgrove.metrics.sums import MetricSum, OfLabel, parts_of
from rankgrove.objectives.base import Floats, Forces, Objective
from rankgrove.objectives.leaf_pairs import LeafSums, Leaves


class SummedForces(Forces):
    """The weighted sum of the forces of several objectives on the same data.

    Attributes
    ----------
    weights
        One per objective, 0 or more; those of training under constraints change from tree to tree.
    """

    def __init__(self, parts: Sequence[Forces], weights: Sequence[float]) -> None:
        self._parts = list(parts)
        self.weights = [float(weight) for weight in weights]

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        forces[:] = 0.0
        curvatures[:] = 0.0
        part_forces, part_curvatures = np.empty(len(scores)), np.empty(len(scores))
        for part, weight in zip(self._parts, self.weights, strict=True):
            if weight == 0:
                continue
            part.compute(scores, iteration, part_forces, part_curvatures)
            forces += weight * part_forces
            curvatures += weight * part_curvatures

    def cross_leaf_curvatures(self, scores: Floats, iteration: int, leaves: Leaves) -> Floats:
        total = np.zeros(len(scores))
        for part, weight in zip(self._parts, self.weights, strict=True):
            if weight:
                total += weight * part.cross_leaf_curvatures(scores, iteration, leaves)
        return total

    def keep_pairs(self) -> None:
        for part in self._parts:
            part.keep_pairs()

    def sum_between(self, scores: Floats, iteration: int, sums: LeafSums) -> None:
        for part, weight in zip(self._parts, self.weights, strict=True):
            if weight:
                with sums.weighed(weight) as weighed:
                    part.sum_between(scores, iteration, weighed)


def of_one_metric(metric: Metric) -> bool:
    """Whether a metric is a single one of the labels themselves, as passes over pairs take it."""
    return not isinstance(metric, (MetricSum, OfLabel))


def prepare_sum(
    objective: Objective, metric: Metric, data: Documents, n_jobs: int | None, seed: int
) -> Forces:
    """The forces of an objective by a sum of metrics, or by one of a further label."""
    if isinstance(metric, OfLabel):
        labelled = data.with_label(metric.label)
        return by_metric(objective, metric.metric).prepare(labelled, n_jobs, seed)
    parts = [by_metric(objective, part) for part, _ in parts_of(metric)]
    prepared = [part.prepare(data, n_jobs, seed) for part in parts]
    return SummedForces(prepared, [weight for _, weight in parts_of(metric)])


def by_metric(objective: Objective, metric: Metric) -> Objective:
    """The same objective by another metric."""
    any_objective: Any = objective
    found: Objective = replace(any_objective, metric=metric)
    return found

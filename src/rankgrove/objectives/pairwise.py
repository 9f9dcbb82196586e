"""The pairwise objective: every pair of a query pulls its better document above the other.

All of its forms minimise `sum over pairs of w_ij * log(1 + exp(-sigma (z_i - z_j)))`, with
label i > label j, and differ in the weight w_ij of a pair only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankgrove._jit import as_input, chunk_queries, run_chunks
from rankgrove.data.dataset import Dataset
from rankgrove.errors import ParameterError
from rankgrove.metrics.base import Metric, Rankings
from rankgrove.metrics.discounted import DCG, NDCG, sum_gains
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.base import Floats, Forces, Objective
from rankgrove.objectives.pairs import LANES, push_queries

# The metrics whose swap deltas the pair loop knows.
_METRICS: tuple[type[DCG], ...] = (NDCG, DCG)

# Some 0.5 ms of work at the default truncation: far more than the hand-out of a chunk costs. Small
# data are cut into 8 chunks, so that threads end at about the same time.
_CHUNK_DOCUMENTS = 1 << 13

# Some 0.3 ms of work: as long as it takes to hand out the chunks and to wait for them.
_FEW_PAIRS = 100_000


@dataclass(frozen=True, kw_only=True)
class LambdaMART(Objective):
    """Pairs weighted by what swapping their two documents would change in a metric.

    With the documents of a query ranked by score (equal scores: in the order of the rows), a
    pair with label i > label j and rho = 1 / (1 + exp(sigma (z_i - z_j))) gives

        force_i += sigma w rho,  force_j -= sigma w rho,
        curvature_i and curvature_j += sigma^2 w rho (1 - rho),  w = |swap delta|.

    A query of one document, with equal labels only or without any gain has no force.

    Parameters
    ----------
    metric
        `ndcg` or `dcg` with any gain and cut-off, by name or as a value. Its policies on ties
        and on empty queries play no role.
    sigma
        How steep the logistic function is.
    truncation
        None weighs a pair by the swap delta itself: past the metric's cut-off k no discount
        is left, and NDCG divides by the ideal DCG@k. A number T is LightGBM's form: the
        discounts have no cut-off, only pairs whose better-ranked document is among the first
        T count, and NDCG divides by the ideal DCG@T.
    normalise
        As LightGBM's `lambdarank_norm`: w is divided by 0.01 + |z_i - z_j|, unless all scores
        of the query are equal, and then all forces and curvatures of the query are multiplied
        by log2(1 + S) / S, where S is the sum of the absolute forces that its pairs put on
        both of their documents.

    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 1], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> objective = LambdaMART(metric="ndcg@1", truncation=None, normalise=False)
    >>> objective.prepare(data).compute(np.array([2.0, 1.0, 0.0]), 0, forces, curvatures)
    >>> forces.round(4).tolist()
    [-1.0247, 0.7311, 0.2936]
    """

    metric: str | Metric = "ndcg"
    sigma: float = 1.0
    truncation: int | None = 30
    normalise: bool = True

    name: ClassVar[str] = "lambdamart"
    title: ClassVar[str] = "LambdaMART"
    formula: ClassVar[str] = "sum_ij |swap delta_ij| * log(1 + exp(-sigma (z_i - z_j)))"
    reference: ClassVar[str] = "Burges 2010, section 7 and eq. (6)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", _known_metric(self.metric))
        if not _is_number(self.sigma) or not 0 < self.sigma < math.inf:
            raise ParameterError(
                f"sigma of {self.name} must be a finite number above 0. Got {self.sigma!r}."
            )
        if self.truncation is not None and (
            isinstance(self.truncation, bool)
            or not isinstance(self.truncation, int)
            or self.truncation < 1
        ):
            raise ParameterError(
                f"truncation of {self.name} must be a whole number, 1 or more, or None for the "
                f"metric's own cut-off. Got {self.truncation!r}."
            )
        if not isinstance(self.normalise, bool):
            raise ParameterError(
                f"normalise of {self.name} must be True or False. Got {self.normalise!r}."
            )

    def prepare(self, data: Dataset, n_jobs: int | None = None) -> Forces:
        return _PairForces(self, _known_metric(self.metric), data, n_jobs)


class _PairForces(Forces):
    """The pair loop on one data set. `compute` keeps nothing, so threads may share it."""

    def __init__(
        self, objective: LambdaMART, metric: DCG, data: Dataset, n_jobs: int | None
    ) -> None:
        rankings = Rankings(data.labels, data.labels, data.offsets, n_jobs=n_jobs)
        metric.check_labels(rankings)
        longest = rankings.longest
        cutoff = metric.k if objective.truncation is None else objective.truncation
        depth = longest if cutoff is None else min(cutoff, longest)
        gains = _gains(metric, rankings)
        discounts = np.zeros(longest + LANES)
        ranks = depth if objective.truncation is None else longest
        discounts[:ranks] = metric.discounts(ranks)
        scales = np.ones(data.n_queries)
        if isinstance(metric, NDCG):
            cut = NDCG(k=depth, gain=metric.gain)
            kind, table = cut.gains(*rankings.label_range, rankings.whole_labels)
            # One over the ideal DCG, and NaN where that is 0.
            scales = np.nan_to_num(cut.normalise(scales, rankings, kind, table))
        starts = data.offsets[:-1]
        equal = np.minimum.reduceat(gains, starts) == np.maximum.reduceat(gains, starts)
        scales[equal] = 0.0
        weights = np.ones(data.n_queries) if data.weights is None else data.weights

        self._inputs = (
            as_input(gains, np.float64),
            rankings.offsets,
            as_input(scales, np.float64),
            as_input(weights, np.float64),
        )
        self._discounts = as_input(discounts, np.float64)
        self._depth = depth
        self._sigma = float(objective.sigma)
        self._normalise = objective.normalise
        sizes = data.group
        pairs = int((np.minimum(sizes, depth) * sizes).sum())
        bounds = chunk_queries(data.offsets, min(_CHUNK_DOCUMENTS, data.n_documents // 8 + 1))
        self._bounds = [0, data.n_queries] if pairs <= _FEW_PAIRS else bounds.tolist()
        self._n_jobs = n_jobs

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        ranked_by = as_input(scores, np.float64)

        def push(chunk: int) -> None:
            push_queries(
                ranked_by,
                *self._inputs,
                self._bounds[chunk],
                self._bounds[chunk + 1],
                self._discounts,
                self._depth,
                self._sigma,
                self._normalise,
                forces,
                curvatures,
            )

        run_chunks(push, len(self._bounds) - 1, self._n_jobs)


def _known_metric(spec: str | Metric) -> DCG:
    """The metric of a name or value, if the pair loop knows its swap deltas."""
    metric = parse_metric(spec)
    if not isinstance(metric, _METRICS):
        known = " or ".join(known.name for known in _METRICS)
        raise ParameterError(
            f"the metric of lambdamart must be {known}, with any gain and cut-off. Got {metric}."
        )
    return metric


def _gains(metric: DCG, rankings: Rankings) -> Floats:
    """The gain of each document: the sum of gains of a query that is this document alone."""
    n_documents = len(rankings.labels)
    kind, table = metric.gains(*rankings.label_range, rankings.whole_labels)
    alone = as_input(np.arange(n_documents + 1), np.int64)
    out = np.empty(n_documents)
    sum_gains(rankings.labels, alone, 0, n_documents, kind, table, out)
    return out


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)

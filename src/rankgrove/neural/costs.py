"""What a loss is worth at given scores, for the objectives whose forces are those of one cost."""

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit import as_input, chunk_queries, kernel, run_chunks
from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences
from rankgrove.objectives.base import Floats, Objective
from rankgrove.objectives.listwise import Logistic, QueryRMSE, Regression, Softmax
from rankgrove.objectives.pairwise import RankMART

_CHUNK_DOCUMENTS = 1 << 12


# Scores, times sigma, that are no further apart than this have quotients of e^x that are finite.
_WIDEST = 300.0
# The logarithm of the largest product that is taken: below that of the largest double.
_LARGEST = 700.0
# Products that are taken side by side, and the most factors of one.
_LANES, _DEEPEST = 16, 32


@kernel
def sum_logs(powers, count, inverse, deep, lanes):
    """The sum of log(1 + inverse * powers[j]) for j below count.

    A sum of logarithms is that of their product, of `deep` factors here: few are taken.
    """
    total, n_blocks, done = 0.0, count // _LANES, 0
    while done < n_blocks:
        following = min(n_blocks, done + deep)
        lanes[:] = 1.0
        for block in range(done, following):
            for lane in range(_LANES):
                lanes[lane] *= 1.0 + inverse * powers[block * _LANES + lane]
        for lane in range(_LANES):
            total += math.log(lanes[lane])
        done = following
    product, n_factors = 1.0, 0
    for j in range(n_blocks * _LANES, count):
        product *= 1.0 + inverse * powers[j]
        n_factors += 1
        if n_factors == deep:
            total += math.log(product)
            product, n_factors = 1.0, 0
    return total + math.log(product)


@kernel
def sum_pair_costs(scores, labels, offsets, first, last, sigma, out):
    """For queries first to last the sum of log(1 + exp(-sigma (z_i - z_j))), label i > label j."""
    lanes = np.empty(_LANES)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        # In the order of labels, the worse documents of each stand before it.
        order = np.argsort(labels[lo:hi], kind="mergesort")
        own, grades = scores[lo:hi][order] * sigma, labels[lo:hi][order]
        low, high = own.min(), own.max()
        is_narrow = high - low <= _WIDEST
        powers = np.exp(own - (low + high) / 2) if is_narrow else own
        deep = max(1, min(_DEEPEST, int(_LARGEST / (high - low + 1.0)))) if is_narrow else 1
        total, n_worse = 0.0, 0
        for i in range(hi - lo):
            if i > 0 and grades[i] > grades[i - 1]:
                n_worse = i
            if is_narrow:
                total += sum_logs(powers, n_worse, 1.0 / powers[i], deep, lanes)
            else:
                for j in range(n_worse):
                    x = own[i] - own[j]
                    total += max(-x, 0.0) + math.log1p(math.exp(-abs(x)))
        out[q] = total


def costs_of_queries(
    objective: Objective,
    data: Dataset,
    scores: Floats,
    preferences: Preferences | None = None,
    n_jobs: int | None = None,
) -> Floats | None:
    """The cost of each query, with its weight; None for an objective that has only forces.

    Those with a cost are `rankmart` without truncation, noise and normalising, also of
    preferences; `softmax`, `listnet`, `regression`, `queryrmse` and `logistic` without balancing.

    >>> from rankgrove.objectives.registry import make_objective
    >>> data = Dataset.from_arrays(np.zeros((3, 0)), [0, 1, 1], group=[2, 1])
    >>> costs_of_queries(make_objective("rankmart"), data, np.zeros(3)).round(4).tolist()
    [0.6931, 0.0]
    """
    if isinstance(objective, RankMART):
        if not objective.takes_all_pairs:
            return None
        if preferences is not None:
            costs = _of_preferences(objective.sigma, data, scores, preferences)
        else:
            costs = _of_pairs(objective.sigma, data, scores, n_jobs)
    else:
        by_document = None if preferences is not None else _of_lists(objective, data, scores)
        if by_document is None:
            return None
        costs = np.add.reduceat(by_document, data.offsets[:-1])
    return costs if data.weights is None else costs * data.weights


def _of_pairs(sigma: float, data: Dataset, scores: Floats, n_jobs: int | None) -> Floats:
    inputs = (
        as_input(scores, np.float64),
        as_input(data.labels, np.float64),
        as_input(data.offsets, np.int64),
    )
    bounds = chunk_queries(data.offsets, _CHUNK_DOCUMENTS).tolist()
    out = np.empty(data.n_queries)

    def add(chunk: int) -> None:
        sum_pair_costs(*inputs, bounds[chunk], bounds[chunk + 1], float(sigma), out)

    run_chunks(add, len(bounds) - 1, n_jobs)
    return out


def _of_preferences(
    sigma: float, data: Dataset, scores: Floats, preferences: Preferences
) -> Floats:
    away = sigma * (scores[preferences.better] - scores[preferences.worse])
    wanted = preferences.probability
    costs = wanted * np.logaddexp(0, -away) + (1 - wanted) * np.logaddexp(0, away)
    costs *= preferences.weight
    query = np.searchsorted(data.offsets, preferences.better, side="right") - 1
    summed: Floats = np.bincount(query, weights=costs, minlength=data.n_queries).astype(np.float64)
    return summed


def _of_lists(objective: Objective, data: Dataset, scores: Floats) -> Floats | None:
    """The part of each document in the cost of its query."""
    labels = data.labels.astype(np.float64)
    starts, sizes = data.offsets[:-1], data.group
    if isinstance(objective, Softmax):
        own = objective.sigma * scores
        own = own - np.repeat(np.maximum.reduceat(own, starts), sizes)
        logs = own - np.repeat(np.log(np.add.reduceat(np.exp(own), starts)), sizes)
        return np.asarray(-objective.targets(data) * logs)
    rest = labels - scores
    if isinstance(objective, Regression):
        return np.asarray(rest**2 / 2)
    if isinstance(objective, QueryRMSE):
        return np.asarray((rest - np.repeat(np.add.reduceat(rest, starts) / sizes, sizes)) ** 2 / 2)
    if isinstance(objective, Logistic) and not objective.balanced:
        return np.logaddexp(0, -objective.sigma * np.where(labels == 1, scores, -scores))
    return None

"""Forces of explicit preferences: RankNet's cost of pairs with a target probability.

With P the probability that i is better than j and P_ij = 1 / (1 + exp(-sigma (z_i - z_j))),

    force_i += sigma w (P - P_ij),  force_j -= the same,
    curvature_i and curvature_j += sigma^2 w P_ij (1 - P_ij).

w is 1 for RankMART. For LambdaMART it is |D(p_i) - D(p_j)| of the ranks and discounts of its
metric: the swap delta of DCG where one document has gain 1 and the other 0. The weight of the pair,
of its query and of its two documents multiply it.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rankgrove._jit import as_input, empty, kernel
from rankgrove._jit.ranking import longest_query, rank_query, ranking_scratch
from rankgrove.data.documents import Documents
from rankgrove.data.preferences import Preferences
from rankgrove.errors import refusal
from rankgrove.metrics.base import Rankings
from rankgrove.metrics.forms import PRODUCT
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.base import Floats, Forces, ForcesOfPairs, Objective, Push
from rankgrove.objectives.leaf_pairs import Between, Leaves, add_diagonal, end_query
from rankgrove.objectives.pairwise import LambdaMART, Pairwise, RankMART
from rankgrove.objectives.summed import of_one_metric

_CHUNK_QUERIES = 64


@kernel
def push_preferences(
    scores, offsets, weights, first, last, better, worse, probability, pair_weights, starts,
    discounts, depth, sigma, leaves, between, out_forces, out_curvatures
):  # fmt: skip
    """Forces and curvatures of queries first to last from their pairs, starts[q] to starts[q + 1].

    Without discounts every pair counts 1. `leaves` is empty, or the leaf of each document: then
    only pairs whose documents are in different leaves have a curvature, and these are added to
    `between` if it is not None.
    """
    longest = longest_query(offsets, first, last)
    used, room, ranked_scores, ranked_idx = ranking_scratch(longest)
    rank_of = empty(longest, np.int64)
    alone = empty(1, np.float64)
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        for i in range(lo, lo + n):
            out_forces[i] = 0.0
            out_curvatures[i] = 0.0
        if starts[q] == starts[q + 1]:
            continue
        side = rank_query(scores[lo : lo + n], used, room, ranked_scores, ranked_idx)
        for rank in range(n):
            rank_of[ranked_idx[side, rank]] = rank
        for pair in range(starts[q], starts[q + 1]):
            i, j = better[pair], worse[pair]
            rank_i, rank_j = rank_of[i - lo], rank_of[j - lo]
            weight = weights[q] * pair_weights[pair]
            if len(discounts):
                weight *= abs(discounts[rank_i] - discounts[rank_j])
            if min(rank_i, rank_j) >= depth:
                continue
            x = min(max(sigma * (scores[i] - scores[j]), -700.0), 700.0)
            chance = 1.0 / (1.0 + math.exp(-x))
            other = 1.0 / (1.0 + math.exp(x))
            # P - P_ij, by what is not lost to rounding where P_ij is near 1.
            wanted = probability[pair]
            force = sigma * weight * (wanted * other - (1.0 - wanted) * chance)
            curvature = sigma * sigma * weight * chance * other
            if len(leaves) and leaves[i] == leaves[j]:
                curvature = 0.0
            out_forces[i] += force
            out_forces[j] -= force
            out_curvatures[i] += curvature
            out_curvatures[j] += curvature
            if between is not None:
                alone[0] = curvature
                add_diagonal(between, leaves[i : i + 1], leaves[j : j + 1], alone)
        if between is not None:
            end_query(between, between.counts[q])


class PreferenceForces(ForcesOfPairs):
    """RankMART or LambdaMART on explicit pairs."""

    def __init__(
        self, objective: Pairwise, data: Documents, preferences: Preferences, n_jobs: int | None
    ) -> None:
        discounts, depth = np.zeros(0), int(data.group.max())
        if objective.truncation is not None:
            depth = min(objective.truncation, depth)
        if isinstance(objective, LambdaMART):
            # Preferences take the place of labels.
            nothing = np.zeros(data.n_documents)
            rankings = Rankings(nothing, nothing, data.offsets, n_jobs=n_jobs)
            form = parse_metric(objective.metric).form_of_pairs(rankings, objective.truncation)
            if form is None or form.kind != PRODUCT:
                rule = "be one with discounts, as dcg, to train from preferences"
                raise refusal("metric", rule, got=str(objective.metric))
            discounts, depth = form.discounts, form.depth
        pair_weights = preferences.weight
        if data.document_weights is not None:
            of_documents = data.document_weights
            of_pairs = of_documents[preferences.better] * of_documents[preferences.worse]
            pair_weights = pair_weights * of_pairs
        query = np.searchsorted(data.offsets, preferences.better, side="right") - 1
        starts = np.searchsorted(query, np.arange(data.n_queries + 1))
        self._inputs = (as_input(data.offsets, np.int64), as_input(data.query_weights, np.float64))
        self._pairs = (
            as_input(preferences.better, np.int64),
            as_input(preferences.worse, np.int64),
            as_input(preferences.probability, np.float64),
            as_input(pair_weights, np.float64),
            as_input(starts, np.int64),
            as_input(discounts, np.float64),
        )
        self._how = (int(depth), float(objective.sigma))
        self._objective, self._query = objective, query
        self._n_queries, self._n_jobs = data.n_queries, n_jobs

    @property
    def _chunks(self) -> Sequence[int]:
        return [*range(0, self._n_queries, _CHUNK_QUERIES), self._n_queries]

    def _pusher(
        self, scores: Floats, iteration: int, leaves: Leaves, forces: Floats, curvatures: Floats
    ) -> Push:
        def push(first: int, last: int, between: Between | None) -> None:
            numbers = (*self._pairs, *self._how, leaves, between)
            push_preferences(scores, *self._inputs, first, last, *numbers, forces, curvatures)

        return push

    def cost(self, scores: Floats) -> Floats | None:
        if not (isinstance(self._objective, RankMART) and self._objective.takes_all_pairs):
            return None
        better, worse, wanted, weights, *_ = self._pairs
        away = self._objective.sigma * (scores[better] - scores[worse])
        costs = wanted * np.logaddexp(0, -away) + (1 - wanted) * np.logaddexp(0, away)
        summed = np.bincount(self._query, costs * weights, self._n_queries)
        return np.asarray(summed * self._inputs[1])


def check_takes_preferences(objective: Objective) -> Pairwise:
    """The objective, refused where it cannot be trained by preferences."""
    if (
        not isinstance(objective, (RankMART, LambdaMART))
        or objective.noise != "none"
        or objective.distances(2) != (1, 2)
        or getattr(objective, "weighting", "swap_delta") != "swap_delta"
        or objective.truncation_anchors != "ranked"
    ):
        raise refusal(
            "objective",
            "be rankmart or lambdamart, without noise, with all neighbours, weights of swap deltas "
            "and ranked anchors, to train from preferences",
            got=objective.name,
        )
    if isinstance(objective, LambdaMART) and not of_one_metric(parse_metric(objective.metric)):
        rule = "be a single one, of no further label, to train from preferences"
        raise refusal("metric", rule, got=str(objective.metric))
    return objective


def prepare_preferences(
    objective: Objective, data: Documents, preferences: Preferences, n_jobs: int | None = None
) -> Forces:
    """The forces of preferences, for the objectives that can take them."""
    taken = check_takes_preferences(objective)
    preferences.check(data)
    return PreferenceForces(taken, data, preferences, n_jobs)

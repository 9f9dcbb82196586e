"""The pairwise objective for a metric without a form: it is computed again, and slower."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, compile_swaps
from rankgrove._jit.elementary import NOISES, draw_noise
from rankgrove._jit.hashing import iteration_key
from rankgrove.data.documents import Documents
from rankgrove.metrics.base import Metric
from rankgrove.metrics.custom import Custom
from rankgrove.objectives.base import Floats, ForcesOfPairs, Push
from rankgrove.objectives.leaf_pairs import Between, Leaves, add_diagonal, end_query

if TYPE_CHECKING:
    from rankgrove.objectives.pairwise import Pairwise


def warn_if_slow(metric: Metric) -> None:
    """Say that a metric is a function that Numba has not compiled."""
    if isinstance(metric, Custom) and compile_swaps(metric.function) is None:
        warnings.warn(
            f"{metric} is a plain Python function, which is called again for every pair: this "
            f"is slow. One that numba.njit has compiled is some hundred times faster.",
            stacklevel=3,
        )


class RecomputedForces(ForcesOfPairs):
    """As the pair loop, from a matrix of weights for each query."""

    def __init__(
        self,
        objective: Pairwise,
        metric: Metric,
        data: Documents,
        tie_order: NDArray[np.int64],
        n_jobs: int | None,
        seed: int,
    ) -> None:
        warn_if_slow(metric)
        self._objective, self._metric, self._data = objective, metric, data
        longest = int(data.group.max(initial=1))
        self._depth = longest if objective.truncation is None else objective.truncation
        self._distances = objective.distances(longest)
        self._tie_order = tie_order if len(tie_order) else np.arange(data.n_documents)
        self._n_jobs, self._seed = n_jobs, seed

    @property
    def _chunks(self) -> Sequence[int]:
        # Each query by itself.
        return range(self._data.n_queries + 1)

    def _pusher(
        self, scores: Floats, iteration: int, leaves: Leaves, forces: Floats, curvatures: Floats
    ) -> Push:
        offsets = self._data.offsets.tolist()
        key = int(iteration_key(self._seed, iteration))
        weights = self._data.query_weights

        def push(query: int, _: int, between: Between | None) -> None:
            rows = slice(offsets[query], offsets[query + 1])
            pushed = self._push_query(scores[rows], rows, query, key, leaves[rows], between)
            forces[rows], curvatures[rows] = weights[query] * pushed[0], weights[query] * pushed[1]

        return push

    def _push_query(
        self, scores: Floats, rows: slice, query: int, key: int, leaves: Leaves,
        between: Between | None,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        objective, n, sigma = self._objective, len(scores), self._objective.sigma
        labels, of_documents = self._data.labels[rows], self._data.document_weights
        forces, curvatures, size = np.zeros(n), np.zeros(n), 0.0
        if n < 2 or labels.min() == labels.max():
            return forces, curvatures
        tie_order = self._tie_order[rows] - rows.start
        ranks = np.arange(n)
        too_near = ranks[None, :] - ranks[:, None] < self._distances[0]
        for permutation in range(objective.n_rankings):
            noisy = self._noisy(scores, query, permutation, key)
            order = tie_order[np.argsort(-noisy[tie_order], kind="stable")]
            z = (noisy if objective.noise_in_margin else scores)[order]
            r = labels[order].astype(np.float64)
            deltas = np.zeros((n, n))
            has_anchors = objective.truncation_anchors == "ideal"
            depth = n if has_anchors else self._depth
            self._metric.fill_deltas(as_input(r, np.float64), depth, self._distances[1], deltas)
            deltas[too_near] = 0.0
            if has_anchors:
                counts = ranks < self._depth
                counts[np.argsort(-r, kind="stable")[: self._depth]] = True
                deltas *= counts[:, None] | counts[None, :]
            away = z[:, None] - z[None, :]
            weight = np.abs(deltas) * np.sign(r[:, None] - r[None, :])
            if of_documents is not None:
                weight *= np.outer(of_documents[rows][order], of_documents[rows][order])
            if objective.normalise and z.min() != z.max():
                weight = weight / (0.01 + np.abs(away))
            e = np.exp(np.clip(-sigma * away, -700, 700))
            share = 1 / (1 + e)
            force = weight * np.where(weight > 0, e * share, share)
            bend = np.abs(weight) * e * share * share
            if len(leaves):
                own = leaves[order]
                bend = np.where(own[:, None] != own[None, :], bend, 0.0)
            if between is not None:
                pairs = [np.repeat(own, n), np.tile(own, n), bend.ravel()]
                kinds = (np.int32, np.int32, np.float64)
                add_diagonal(between, *map(as_input, pairs, kinds))
            forces[order] += force.sum(axis=1) - force.sum(axis=0)
            curvatures[order] += bend.sum(axis=1) + bend.sum(axis=0)
            size += float(np.abs(force).sum())
        scale = 1 / objective.n_rankings
        total = 2 * sigma * size * scale
        if objective.normalise and total > 0:
            scale *= np.log2(1 + total) / total
        if between is not None:
            factor = float(self._data.query_weights[query] * between.counts[query])
            end_query(between, sigma**2 * scale * factor)
        return forces * sigma * scale, curvatures * sigma**2 * scale

    def _noisy(self, scores: Floats, query: int, permutation: int, key: int) -> Floats:
        objective = self._objective
        if objective.noise == "none":
            return scores
        number = int(self._data.shard.numbers[query]) * objective.permutations + permutation
        noise = np.empty(len(scores))
        draw_noise(NOISES[objective.noise], iteration_key(key, number), noise)
        return scores + objective.noise_scale * noise

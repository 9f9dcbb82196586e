"""The steps of a metric between two rankers: what the kernels of `alpha_sweep` need, and give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, chunk_queries, run_chunks
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.experiments.combine.alpha_sweep import (
    bunches_of_query,
    has_equal_documents,
    sweep_queries,
)
from rankgrove.metrics.base import Floats, Metric, Rankings
from rankgrove.metrics.forms import Form
from rankgrove.metrics.ties import TIE_SIGN

# A chunk takes some milliseconds and its steps a few megabytes.
_CHUNK_DOCUMENTS = 1 << 12
_ROOM = 1 << 15
# So many documents are ranked in one go where a query is measured anew at every step.
_BLOCK_DOCUMENTS = 1 << 20

# How many neighbouring float64 numbers on either side of an alpha are tried with it.
_NEIGHBOURS = 3


class Steps(NamedTuple):
    """Where the metric of a query changes as alpha rises, in the order of the queries.

    Attributes
    ----------
    alpha
        The first trade of ranks of the step.
    half
        How far before and after it the order of the documents is not sure in float64.
    change
        By how much the value of the query changes, as a share of the mean over queries.
    peak
        By how much it can rise in between, where it is not sure; at least the change, and 0.
    query
        Its number.
    """

    alpha: Floats
    half: Floats
    change: Floats
    peak: Floats
    query: NDArray[np.int64]

    @classmethod
    def with_room(cls, room: int) -> Steps:
        """Arrays to be filled."""
        parts = (np.empty(room), np.empty(room), np.empty(room), np.empty(room))
        return cls(*parts, np.empty(room, np.int64))

    def take(self, which: NDArray[np.int64] | slice) -> Steps:
        """A copy of some steps, in this order."""
        return Steps._make(part[which].copy() for part in self)


class TwoRankers:
    """The scores of two rankers for judged documents, to be measured at any alpha."""

    def __init__(
        self, data: Dataset, first: Floats, second: Floats, metric: Metric, n_jobs: int | None
    ) -> None:
        if metric.weighs_documents and data.document_weights is not None:
            raise DataError(
                f"rankers must be combined for {metric} without document weights, which the search "
                f"for the best weights of rankers does not count. Got some: leave them out."
            )
        self.data, self.first, self.second = data, first, second
        self.metric, self.n_jobs = metric, n_jobs
        self.sizes = np.diff(data.offsets)

    def scores(self, alpha: float) -> Floats:
        return alpha * self.first + (1.0 - alpha) * self.second

    def rankings(self, alpha: float) -> Rankings:
        data = self.data
        return Rankings(
            data.labels, self.scores(alpha), data.offsets, document_ids=data.document_ids,
            n_jobs=self.n_jobs,
        )  # fmt: skip

    def measure_queries(self, queries: NDArray[np.int64], alphas: Floats) -> Floats:
        """The value of some queries, each at an alpha of its own; the same one may come often."""
        values = np.empty(len(queries))
        ends = np.cumsum(self.sizes[queries])
        done = 0
        while done < len(queries):
            limit = (ends[done - 1] if done else 0) + _BLOCK_DOCUMENTS
            last = max(done + 1, int(np.searchsorted(ends, limit, side="right")))
            values[done:last] = self._measure_block(queries[done:last], alphas[done:last])
            done = last
        return values

    def _measure_block(self, queries: NDArray[np.int64], alphas: Floats) -> Floats:
        sizes = self.sizes[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(self.data.offsets[queries] - offsets[:-1], sizes)
        share = np.repeat(alphas, sizes)
        ids = self.data.document_ids
        rankings = Rankings(
            self.data.labels[rows],
            share * self.first[rows] + (1.0 - share) * self.second[rows],
            offsets,
            document_ids=None if ids is None else ids[rows],
            n_jobs=1,
        )
        return self.metric.per_query(rankings)

    def find_steps(self, weights: Floats) -> Steps:
        """All steps between 0 and 1; `weights` are the shares of the queries, NaN to skip one."""
        form = self._form()
        data = self.data
        if form is None:
            return self._find_by_measuring(weights)
        values, scales = form.values, form.scales
        sign = TIE_SIGN.get(self.metric.ties, 0.0)
        first, second = self.first, self.second
        if sign != 0.0:
            # Documents that tie everywhere keep this order.
            order = np.lexsort((-sign * data.labels, np.repeat(np.arange(len(scales)), self.sizes)))
            first, second, values = first[order], second[order], values[order]
        arrays = (
            as_input(first, np.float64),
            as_input(second, np.float64),
            as_input(values, np.float64),
            as_input(data.offsets, np.int64),
        )
        shares = as_input(np.where(weights > 0, scales * weights, np.nan), np.float64)
        depth = int(self.metric.depth(int(self.sizes.max())))
        bounds = chunk_queries(data.offsets, _CHUNK_DOCUMENTS).tolist()
        found: list[list[Steps]] = [[] for _ in bounds[:-1]]
        discounts = as_input(form.discounts, np.float64)

        def task(chunk: int) -> None:
            start, last, room = bounds[chunk], bounds[chunk + 1], _ROOM
            while start < last:
                out = Steps.with_room(room)
                start, count, needed = sweep_queries(
                    *arrays, start, last, form.kind, depth, discounts, shares, *out
                )
                found[chunk].append(out.take(slice(count)))
                room = max(room, needed)

        run_chunks(task, len(found), self.n_jobs)
        return _joined([steps for part in found for steps in part])

    def _form(self) -> Form | None:
        """How the metric adds up over ranks, or None where it has to be measured at each step."""
        if self.metric.ties in ("expected", "document_id"):
            first, second = as_input(self.first, np.float64), as_input(self.second, np.float64)
            offsets = as_input(self.data.offsets, np.int64)
            if has_equal_documents(first, second, offsets, 0, self.data.n_queries):
                return None
        return self.metric.form(self.rankings(0.0))

    def _find_by_measuring(self, weights: Floats) -> Steps:
        """As `find_steps` for any metric: a query is measured anew between all its steps."""
        metric, data = self.metric, self.data
        depth = metric.depth(int(self.sizes.max()))
        arrays = (
            as_input(self.first, np.float64),
            as_input(self.second, np.float64),
            as_input(data.labels, np.float32),
        )
        bounds = data.offsets.tolist()
        found: list[Steps] = [_NONE] * data.n_queries

        def task(query: int) -> None:
            if weights[query] > 0:
                bunches = bunches_of_query(*arrays, bounds[query], bounds[query + 1], depth)
                found[query] = self._measure_bunches(query, bunches, float(weights[query]))

        run_chunks(task, data.n_queries, self.n_jobs)
        return _joined(found)

    def _measure_bunches(self, query: int, bunches: Floats, weight: float) -> Steps:
        if len(bunches) == 0:
            return _NONE
        alpha, half, count = bunches.T
        ends = np.concatenate([[0.0], np.minimum(alpha + half, 1.0)])
        starts = np.concatenate([np.maximum(alpha - half, 0.0), [1.0]])
        between = (ends + np.maximum(starts, ends)) / 2
        several = np.flatnonzero(count > 1)
        close = near(alpha[several])
        points = np.concatenate([between, close.ravel()])
        values = self.measure_queries(np.full(len(points), query), points) * weight
        if np.isnan(values).all():
            return _NONE
        if np.isnan(values).any():
            raise some_orders_are_nan(self.metric)
        levels = values[: len(between)]
        change = np.diff(levels)
        peak = np.maximum(change, 0.0)
        best = values[len(between) :].reshape(close.shape).max(axis=1, initial=-np.inf)
        peak[several] = np.maximum(peak[several], best - levels[several])
        moves = (change != 0.0) | (peak > 0.0)
        return Steps(
            alpha[moves], half[moves], change[moves], peak[moves],
            np.full(int(moves.sum()), query),
        )  # fmt: skip


_NONE = Steps.with_room(0)


def near(alphas: Floats) -> Floats:
    """Each alpha with its neighbours among the numbers of float64, a row each, from 0 to 1."""
    shifts = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1)
    return np.clip(alphas[:, None] + shifts * np.spacing(alphas)[:, None], 0.0, 1.0)


def some_orders_are_nan(metric: Metric) -> DataError:
    """The error for a metric of the user's own that has no value for some orders of a query."""
    return DataError(
        f"{metric} must be a number for all orders of a query or for none, to be followed from one "
        f"to the next. Got NaN for some."
    )


def _joined(parts: list[Steps]) -> Steps:
    return Steps._make(np.concatenate(column) for column in zip(*parts, strict=True))

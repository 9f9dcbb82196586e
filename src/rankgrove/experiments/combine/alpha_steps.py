"""The steps of a metric between two rankers: what the kernels of `alpha_sweep` need, and give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, run_chunks
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.experiments.combine.alpha_sweep import find_bunches, sweep_query
from rankgrove.metrics.base import Floats, Metric, Rankings
from rankgrove.metrics.evaluate import MetricResult, measure_dataset
from rankgrove.metrics.forms import Form
from rankgrove.metrics.ties import TIE_SIGN

# So many documents are ranked in one go where a query is measured anew at every step.
_BLOCK_DOCUMENTS = 1 << 20

Rows = NDArray[np.int64] | slice

# How many neighbouring float64 numbers on either side of an alpha are tried with it.
_NEIGHBOURS = 3


class Steps(NamedTuple):
    """Where the metric of a query changes as alpha rises, in the order of alpha.

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
        self.sizes = data.group
        self.depth = int(metric.depth(int(self.sizes.max())))
        self.query_of = np.repeat(np.arange(data.n_queries), self.sizes)

    def measure(self, alpha: float) -> MetricResult:
        """The metric over all queries."""
        table = measure_dataset(self.data, self._mix(alpha), self.metric, n_jobs=self.n_jobs)
        return table.results[str(self.metric)]

    def _mix(self, alpha: float | Floats, rows: Rows = slice(None)) -> Floats:
        return np.asarray(alpha * self.first[rows] + (1.0 - alpha) * self.second[rows])

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
        return self.metric.per_query(self._rank(np.repeat(alphas, sizes), rows, offsets, 1))

    def _rank(self, alpha: float | Floats, rows: Rows, offsets: Any, n_jobs: Any) -> Rankings:
        ids = None if self.data.document_ids is None else self.data.document_ids[rows]
        labels, scores = self.data.labels[rows], self._mix(alpha, rows)
        return Rankings(labels, scores, offsets, document_ids=ids, n_jobs=n_jobs)

    def find_steps(self, weights: Floats) -> Steps:
        """All steps between 0 and 1; `weights` are the shares of the queries, 0 to skip one."""
        form = self._form()
        if form is None:
            return self._find_by_measuring(weights)
        sign = TIE_SIGN.get(self.metric.ties, 0.0)
        # Documents that tie everywhere keep this order.
        order = np.lexsort((-sign * self.data.labels, self.query_of))
        columns = [as_input(column[order], np.float64)
                   for column in (self.first, self.second, form.values)]  # fmt: skip
        discounts = as_input(form.discounts, np.float64)
        shares = np.where(weights > 0, form.scales * weights, np.nan)

        def steps_of(query: int, rows: slice) -> Floats:
            own = (column[rows] for column in columns)
            steps: Floats = sweep_query(*own, self.depth, form.kind, discounts, shares[query])
            return steps

        return self._gather(steps_of, ~np.isnan(shares))

    def _gather(self, steps_of: Callable[[int, slice], Floats], counts: NDArray[np.bool_]) -> Steps:
        """The steps of the queries that count, sorted by alpha."""
        bounds = self.data.offsets.tolist()
        found = [np.empty((0, 4))] * len(counts)

        def task(query: int) -> None:
            if counts[query]:
                found[query] = steps_of(query, slice(bounds[query], bounds[query + 1]))

        run_chunks(task, len(found), self.n_jobs)
        table = np.concatenate(found)
        order = np.argsort(table[:, 0], kind="stable")
        alpha, half, change, peak = np.ascontiguousarray(table[order].T)
        queries = np.repeat(np.arange(len(found)), [len(steps) for steps in found])
        return Steps(alpha, half, change, peak, queries[order])

    def _form(self) -> Form | None:
        """How the metric adds up over ranks, or None where it has to be measured at each step."""
        if self.metric.ties in ("expected", "document_id"):
            keys = np.column_stack([self.first, self.second, self.query_of])
            ordered = keys[np.lexsort(keys.T)]
            # Documents of a query with the same two scores tie everywhere.
            if (ordered[1:] == ordered[:-1]).all(axis=1).any():
                return None
        return self.metric.form(self._rank(0.0, slice(None), self.data.offsets, self.n_jobs))

    def _find_by_measuring(self, weights: Floats) -> Steps:
        """As `find_steps` for any metric: a query is measured anew between all its steps."""
        first, second = as_input(self.first, np.float64), as_input(self.second, np.float64)

        def steps_of(query: int, rows: slice) -> Floats:
            bunches = find_bunches(first[rows], second[rows], self.depth)
            kept, alphas, halves, uppers, lowers, starts, reaches = bunches
            begins, counts, labels = starts[:-1], np.diff(starts), self.data.labels[rows][kept]
            alpha = alphas[begins]
            half = np.maximum(reaches - alpha, halves[begins])
            # Trades of documents with the same label count only where they come with others.
            differs = labels[uppers[begins]] != labels[lowers[begins]]
            which = (counts > 1) | differs
            return self._measure_bunches(
                query, alpha[which], half[which], counts[which], float(weights[query])
            )

        return self._gather(steps_of, weights > 0)

    def _measure_bunches(
        self, query: int, alpha: Floats, half: Floats, count: NDArray[np.int64], weight: float
    ) -> Floats:
        ends = np.concatenate([[0.0], np.minimum(alpha + half, 1.0)])
        starts = np.concatenate([np.maximum(alpha - half, 0.0), [1.0]])
        between = (ends + np.maximum(starts, ends)) / 2
        several = np.flatnonzero(count > 1)
        close = near(alpha[several])
        points = np.concatenate([between, close.ravel()])
        values = self.measure_queries(np.full(len(points), query), points) * weight
        if np.isnan(values).all():
            return np.empty((0, 4))
        if np.isnan(values).any():
            raise some_orders_are_nan(self.metric)
        levels = values[: len(between)]
        change = np.diff(levels)
        peak = np.maximum(change, 0.0)
        best = values[len(between) :].reshape(close.shape).max(axis=1, initial=-np.inf)
        peak[several] = np.maximum(peak[several], best - levels[several])
        moves = (change != 0.0) | (peak > 0.0)
        return np.column_stack([column[moves] for column in (alpha, half, change, peak)])


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

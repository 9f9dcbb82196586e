"""Metrics of data whose scores come again and again, as after each tree of a training run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rankgrove.data.dataset import Dataset
from rankgrove.metrics.base import Metric, Rankings
from rankgrove.metrics.evaluate import measure


class PreparedMetrics:
    """The means of metrics on data, for any scores: those of `evaluate`, to the bit.

    What labels alone decide is found once: whether each metric takes them and has a query to
    average, their range, the ideal ranking and what it is worth.

    >>> from rankgrove import make_web_search, parse_metric
    >>> data = make_web_search(20, 16)
    >>> prepared = PreparedMetrics(data, [parse_metric("ndcg@10"), parse_metric("mrr")])
    >>> prepared.values(data.labels)
    [1.0, 1.0]
    """

    def __init__(self, data: Dataset, metrics: Sequence[Metric], n_jobs: int | None = None) -> None:
        self._metrics, self._weights = list(metrics), data.weights
        nothing = np.zeros(data.n_documents)
        self._rankings = Rankings(
            data.labels, nothing, data.offsets, document_ids=data.document_ids, n_jobs=n_jobs
        )
        # Any scores show whether these data can be measured at all.
        self.values(nothing)

    def values(self, scores: ArrayLike) -> list[float]:
        """The mean of each metric at these scores, one per document."""
        found = measure(self._rankings.with_scores(scores), self._metrics, self._weights)
        return [result.mean for result in found]

"""How long models take to score, one query at a time as services do, measured in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

from rankgrove.data.dataset import Dataset
from rankgrove.model.base import ScoringModel

# Enough for a figure, and soon over: queries of so many documents, so many times, for so long.
_DOCUMENTS, _ROUNDS, _SECONDS = 2_000, 9, 2.0


def measure_speed(models: Mapping[str, ScoringModel], data: Dataset) -> dict[str, float]:
    """Microseconds a document of each model on one thread, the median of rounds.

    The first queries of the data are scored one after the other, by all models in turns, so that
    a busy moment of the machine strikes all of them. The first round is not counted.
    """
    queries = _first_queries(data)
    n_documents = sum(len(query) for query in queries)
    scorers = {name: model.scorer() for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    begin = time.perf_counter()
    for number in range(_ROUNDS + 1):
        for name, scorer in scorers.items():
            start = time.perf_counter()
            for query in queries:
                scorer.score_matrix(query)
            if number > 0:
                times[name].append(time.perf_counter() - start)
        if number > 0 and time.perf_counter() - begin > _SECONDS:
            break
    return {name: statistics.median(own) / n_documents * 1e6 for name, own in times.items()}


def _first_queries(data: Dataset) -> list[Any]:
    """The features of the first queries, one matrix each."""
    queries: list[Any] = []
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        if queries and last > _DOCUMENTS:
            break
        queries.append(data.features[first:last])
    return queries

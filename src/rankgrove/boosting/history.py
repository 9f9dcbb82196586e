"""What validation measured, tree by tree, and when it says to stop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import evaluate

History = dict[str, dict[str, list[float]]]


class Validation:
    """Validation sets with their metrics, and their values after each tree.

    Attributes
    ----------
    history
        For each set, for each metric, its value after each tree.
    """

    def __init__(
        self,
        sets: dict[str, Dataset],
        metrics: list[Metric],
        rounds: int | None,
        history: History | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._sets, self._metrics, self._rounds, self._n_jobs = sets, metrics, rounds, n_jobs
        self.history: History = {name: {str(m): [] for m in metrics} for name in sets}
        if history is not None:
            for name, curves in self.history.items():
                for spec in curves:
                    curves[spec] = list(history[name][spec])

    def measure(self, scores: dict[str, NDArray[np.float64]]) -> None:
        """Add the values at these scores of each set."""
        for name, spec, value in self._values(scores):
            self.history[name][spec].append(value)

    def agrees(self, scores: dict[str, NDArray[np.float64]]) -> bool:
        """Whether the last values are those at these scores."""
        return all(self.history[n][spec][-1] == value for n, spec, value in self._values(scores))

    def _values(self, scores: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, str, float]]:
        for name, data in self._sets.items():
            found = evaluate(data, scores[name], self._metrics, n_jobs=self._n_jobs)
            for metric in self._metrics:
                yield name, str(metric), float(found[str(metric)])

    @property
    def watched(self) -> list[float]:
        """The values that decide: the first metric on the first set."""
        if not self._sets:
            return []
        return self.history[next(iter(self._sets))][str(self._metrics[0])]

    @property
    def best(self) -> int:
        """The number of trees with the best watched value, the fewest if several."""
        return int(np.argmax(self.watched)) + 1

    @property
    def should_stop(self) -> bool:
        """Whether the best value is `rounds` trees old."""
        return (
            self._rounds is not None
            and bool(self.watched)
            and len(self.watched) - self.best >= self._rounds
        )

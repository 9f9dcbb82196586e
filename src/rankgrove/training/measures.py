"""What validation measures: metrics, or a loss. What labels alone decide is prepared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.documents import Documents
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import prepare_metrics
from rankgrove.metrics.sums import parts_of

Floats = NDArray[np.float64]

# The losses of single documents, as history has them. Lower is better; of all metrics, higher.
SQUARED_ERROR, LOG_LOSS = "squared error", "log loss"
LOSSES = (SQUARED_ERROR, LOG_LOSS)

# From the scores of a set to one value per measure.
Prepared = Callable[[Floats], list[float]]


class Measures(Protocol):
    """One measure or several, the first of which decides.

    Attributes
    ----------
    names
        One per measure, as history has them.
    higher_is_better
        Of the one that decides.
    parts
        The names of those that the first is the weighted sum of, if it is one.
    """

    names: list[str]
    higher_is_better: bool
    parts: list[str]

    def prepare(self, set_name: str, data: Documents, n_jobs: int | None) -> Prepared:
        """The measures of a validation set for scores that come again and again."""


class MetricMeasures:
    """Metrics of rankings.

    >>> from rankgrove import make_web_search, parse_metric
    >>> data = make_web_search(20, 16)
    >>> measures = MetricMeasures([parse_metric("ndcg@10"), parse_metric("mrr")])
    >>> measures.prepare("valid", data, n_jobs=1)(data.labels)
    [1.0, 1.0]
    """

    higher_is_better = True

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = {str(metric): metric for metric in metrics}
        self.names = list(self._metrics)
        parts = parts_of(next(iter(self._metrics.values())))
        self.parts = [str(part) for part, _ in parts if str(part) in self.names[1:]]

    def prepare(self, set_name: str, data: Documents, n_jobs: int | None) -> Prepared:
        return prepare_metrics(data, list(self._metrics.values()), n_jobs)


class LossMeasure:
    """A loss of single documents: a function of targets and scores. Targets are float64.

    >>> absolute = LossMeasure("error", lambda y, s: abs(y - s).mean(), {"valid": np.zeros(2)})
    >>> absolute.prepare("valid", None, None)(np.array([1.0, -2.0]))
    [1.5]
    """

    higher_is_better = False

    def __init__(
        self, name: str, function: Callable[[Floats, Floats], float], targets: Mapping[str, Floats]
    ) -> None:
        self.names, self._function, self._targets = [name], function, targets
        self.parts: list[str] = []

    def prepare(self, set_name: str, data: Documents, n_jobs: int | None) -> Prepared:
        targets = self._targets[set_name]
        return lambda scores: [float(self._function(targets, scores))]

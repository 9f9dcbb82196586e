"""Boosting on single documents: how rows become documents, and validation by a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.loop import Training
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.trees.binning import with_category_codes
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import Scorer

Floats = NDArray[np.float64]
Loss = Callable[[Floats, Floats], float]

# Rows of a block where blocks may stand for queries.
_BLOCK_ROWS = 4096


class Watch:
    """A callback that measures validation sets after each tree, and says when to stop."""

    def __init__(
        self,
        sets: dict[str, tuple[NDArray[np.float32], Floats]],
        loss: Loss,
        loss_name: str,
        centre: float,
        rounds: int | None,
    ) -> None:
        self.sets, self._loss, self._name, self._rounds = sets, loss, loss_name, rounds
        self._scores = {name: np.full(len(y), centre) for name, (_, y) in sets.items()}
        self._centre = centre
        self.history: dict[str, dict[str, list[float]]] = {name: {loss_name: []} for name in sets}

    def __call__(self, training: Training) -> bool:
        p = training.parameters
        keep = 1.0 - p.learning_rate * p.shrink_rate
        last = Scorer(Ensemble.from_trees(training.trees[-1:]))
        for name, (features, targets) in self.sets.items():
            coded = with_category_codes(features, training.bins.categories)
            base = self._centre + keep * (self._scores[name] - self._centre)
            self._scores[name] = last.score(coded, n_jobs=training.n_jobs, base=base)
            self.history[name][self._name].append(self._loss(targets, self._scores[name]))
        return self._rounds is not None and len(self._watched) - self._best >= self._rounds

    @property
    def _watched(self) -> list[float]:
        """The values that decide: those of the first set."""
        return self.history[next(iter(self.sets))][self._name]

    @property
    def _best(self) -> int:
        """The number of trees with the least loss, the fewest if several."""
        return int(np.argmin(self._watched)) + 1

    def n_kept(self, training: Training) -> int:
        """How many trees the model keeps: up to the best one if training may stop early."""
        if self._rounds is None or not self._watched:
            return len(training.trees)
        return self._best


def as_documents(
    features: Any,
    labels: Floats,
    weights: Floats | None,
    names: Sequence[str] | None,
    parameters: Parameters,
) -> Dataset:
    """The rows as documents. Their forces do not depend on the query, so that may be anything.

    Weights, and samples of queries, are by query: then each row is one. Otherwise blocks of rows
    are, which is faster and gives the same bits.
    """
    if np.abs(labels).max() > np.finfo(np.float32).max:
        raise DataError("y must be within 3.4e38 of its mean. Got a value beyond: rescale y.")
    n_rows = len(labels)
    p = parameters
    by_query = p.subsample < 1 and p.sampling in ("query", "variance_query")
    by_query = by_query or (p.resolve().bootstrap > 0 and p.bootstrap_by == "query")
    by_row = weights is not None or by_query
    offsets = np.append(np.arange(0, n_rows, 1 if by_row else _BLOCK_ROWS), n_rows)
    return Dataset.from_arrays(
        features, labels, group=np.diff(offsets), weights=weights, feature_names=names
    )


def raised(ensemble: Ensemble, by: float) -> Ensemble:
    """The ensemble whose scores are higher by a number, which goes into its first tree."""
    if by == 0:
        return ensemble
    value = ensemble.value.copy()
    value[: ensemble.split_offsets[1] + 1] += by
    return replace(ensemble, value=value)

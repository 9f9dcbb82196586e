"""Objectives that pull each document towards a target, which does not depend on the scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, chunk_queries, run_chunks
from rankgrove._jit.hashing import iteration_key
from rankgrove.data.dataset import Dataset
from rankgrove.objectives.base import Floats, Forces, Objective

_CHUNK_DOCUMENTS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Targeted(Objective):
    """The shared part: a subclass says which kernel, which of its losses and which targets."""

    push: ClassVar[Callable[..., None]]
    loss: ClassVar[int]

    @abstractmethod
    def targets(self, data: Dataset) -> Floats:
        """What the forces pull towards, one per document."""

    def weigh_targets(self, targets: Floats, document_weights: Floats) -> Floats:
        """The targets of weighed documents, for objectives that weigh these and not the forces."""
        return targets

    def weigh_forces(
        self,
        document_weights: Floats,
        offsets: NDArray[np.int64],
        forces: Floats,
        curvatures: Floats,
    ) -> None:
        """Multiply what each document adds to the cost by its weight."""
        forces *= document_weights
        curvatures *= document_weights

    def document_costs(
        self,
        scores: Floats,
        targets: Floats,
        offsets: NDArray[np.int64],
        document_weights: Floats,
    ) -> Floats | None:
        """The part of each document in the cost of its query; None where there is no cost."""
        return None

    def prepare(self, data: Dataset, n_jobs: int | None = None, seed: int = 0) -> Forces:
        return _TargetForces(self, data, n_jobs, seed)


class _TargetForces(Forces):
    def __init__(self, objective: Targeted, data: Dataset, n_jobs: int | None, seed: int) -> None:
        self._objective, self._n_jobs, self._seed = objective, n_jobs, seed
        self._document_weights = data.document_weights
        targets = objective.targets(data)
        if data.document_weights is not None:
            targets = objective.weigh_targets(targets, data.document_weights)
        self._inputs = (
            as_input(targets, np.float64),
            as_input(data.offsets, np.int64),
            as_input(data.query_weights, np.float64),
        )
        step = min(_CHUNK_DOCUMENTS, data.n_documents // 8 + 1)
        self._bounds = chunk_queries(data.offsets, step).tolist()

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        own = as_input(scores, np.float64)
        key = iteration_key(self._seed, iteration)
        objective: Any = self._objective
        sigma = float(getattr(objective, "sigma", 1.0))

        def push(chunk: int) -> None:
            first, last = self._bounds[chunk], self._bounds[chunk + 1]
            objective.push(
                objective.loss, own, *self._inputs, first, last, sigma, key, forces, curvatures
            )

        run_chunks(push, len(self._bounds) - 1, self._n_jobs)
        if self._document_weights is not None:
            offsets = self._inputs[1]
            objective.weigh_forces(self._document_weights, offsets, forces, curvatures)

    def cost(self, scores: Floats) -> Floats | None:
        targets, offsets, weights = self._inputs
        of_documents = self._document_weights
        of_documents = np.ones(len(targets)) if of_documents is None else of_documents
        costs = self._objective.document_costs(scores, targets, offsets, of_documents)
        return None if costs is None else np.add.reduceat(costs, offsets[:-1]) * weights

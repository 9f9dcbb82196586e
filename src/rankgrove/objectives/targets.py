"""Objectives that pull each document towards a target, which does not depend on the scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, run_queries
from rankgrove._jit.hashing import iteration_key
from rankgrove.data.documents import Documents
from rankgrove.objectives.base import Floats, Forces, Objective, chunks_of

_CHUNK_DOCUMENTS = 1 << 14
# Some 0.1 ms of work for a loss that takes a power of each document.
_FEW_DOCUMENTS = 1 << 14


@dataclass(frozen=True, eq=False)
class Pulled:
    """The documents as costs see them: targets and weights, one per document, and offsets."""

    targets: Floats
    weights: Floats
    offsets: NDArray[np.int64]

    def reduce(self, ufunc: np.ufunc, values: Floats) -> Floats:
        """One value per query from one per document, as by `np.add`."""
        return np.asarray(ufunc.reduceat(values, self.offsets[:-1]))

    def spread(self, values: Floats) -> Floats:
        """One value per document from one per query."""
        return np.repeat(values, np.diff(self.offsets))


@dataclass(frozen=True, kw_only=True)
class Targeted(Objective):
    """The shared part: a subclass says which kernel, which of its losses and which targets."""

    push: ClassVar[Callable[..., None]]
    loss: ClassVar[int]
    # How many times as fast as with a power of each document its forces are had.
    ease: ClassVar[int] = 1
    # Whether weights of documents multiply the targets, and not the forces.
    weighs_targets: ClassVar[bool] = False

    def targets(self, data: Documents) -> Floats:
        """What the forces pull towards, one per document."""
        return data.labels.astype(np.float64)

    def weigh_forces(self, pulled: Pulled, forces: Floats, curvatures: Floats) -> None:
        """Multiply what each document adds to the cost by its weight."""
        forces *= pulled.weights
        curvatures *= pulled.weights

    def document_costs(self, scores: Floats, pulled: Pulled) -> Floats | None:
        """The part of each document in the cost of its query; None where there is no cost."""
        return None

    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        return _TargetForces(self, data, n_jobs, seed)


class _TargetForces(Forces):
    def __init__(self, objective: Targeted, data: Documents, n_jobs: int | None, seed: int) -> None:
        self._objective, self._n_jobs, self._seed = objective, n_jobs, seed
        weights, targets = data.document_weights, objective.targets(data)
        self._weighs_forces = weights is not None and not objective.weighs_targets
        if weights is not None and objective.weighs_targets:
            targets = targets * weights
        offsets = as_input(data.offsets, np.int64)
        self._pulled = Pulled(
            as_input(targets, np.float64), np.ones(len(targets)) if weights is None else weights,
            offsets,
        )  # fmt: skip
        self._query_weights = as_input(data.query_weights, np.float64)
        self._numbers = as_input(data.shard.numbers, np.int64)
        self._bounds = chunks_of(data, _CHUNK_DOCUMENTS, objective.ease * _FEW_DOCUMENTS)

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        own = as_input(scores, np.float64)
        key = iteration_key(self._seed, iteration)
        objective: Any = self._objective
        sigma = float(getattr(objective, "sigma", 1.0))
        pulled = self._pulled
        inputs = (own, pulled.targets, pulled.offsets, self._query_weights, self._numbers)

        def push(first: int, last: int) -> None:
            objective.push(objective.loss, *inputs, first, last, sigma, key, forces, curvatures)

        run_queries(push, self._bounds, self._n_jobs)
        if self._weighs_forces:
            objective.weigh_forces(self._pulled, forces, curvatures)

    def cost(self, scores: Floats) -> Floats | None:
        costs = self._objective.document_costs(scores, self._pulled)
        return None if costs is None else self._pulled.reduce(np.add, costs) * self._query_weights

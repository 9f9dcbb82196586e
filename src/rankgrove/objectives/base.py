"""What an objective is: an immutable value of parameters, and its forces on one data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, chunk_queries, run_queries
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError
from rankgrove.metrics.base import Metric
from rankgrove.objectives.leaf_pairs import Between, LeafSums, Leaves
from rankgrove.rules import check_options

Floats = NDArray[np.float64]

# The square of this is finite: a bound of what is squared.
LARGEST = 1e150


class Forces(ABC):
    """An objective on one data set, with all that does not depend on the scores computed once."""

    @abstractmethod
    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        """Write the force and the curvature of every document at these scores.

        Parameters
        ----------
        scores
            IN: one per document, finite.
        iteration
            IN: the number of the tree that will be fitted, from 0; objectives with noise draw
            it anew for each.
        forces
            OUT: minus the derivative of the cost, so that a positive force pushes up.
        curvatures
            OUT: the second derivative that goes with it, 0 or more.
        """

    def cross_leaf_curvatures(self, scores: Floats, iteration: int, leaves: Leaves) -> Floats:
        """The curvatures of `compute`, but of pairs only whose documents are in different leaves.

        Parameters
        ----------
        leaves
            The leaf of each document.
        """
        raise NotImplementedError

    def keep_pairs(self) -> None:  # noqa: B027 (most have nothing to keep)
        """Let `compute` from now on keep what `sum_between` asks for, where that saves time."""

    def sum_between(self, scores: Floats, iteration: int, sums: LeafSums) -> None:
        """Add the curvatures of pairs in different leaves to the sums of these two leaves.

        The pairs are those of the last `compute`, which was at these scores and this iteration.
        """
        raise NotImplementedError

    def cost(self, scores: Floats) -> Floats | None:
        """The cost of each query, with its weight; None where forces are not those of one cost."""
        return None


# Pushes queries first to last, and adds their pairs to what is between leaves.
Push = Callable[[int, int, Between | None], None]


class ForcesOfPairs(Forces):
    """Forces of pairs, of which curvatures may leave out those within a leaf."""

    _n_jobs: int | None

    @property
    @abstractmethod
    def _chunks(self) -> Sequence[int]:
        """The bounds of chunks of queries."""

    @abstractmethod
    def _pusher(
        self, scores: Floats, iteration: int, leaves: Leaves, forces: Floats, curvatures: Floats
    ) -> Push:
        """What does as `compute` for some queries; leaves are none, or one per document."""

    def _push(
        self, scores: Floats, iteration: int, leaves: Any, forces: Floats, curvatures: Floats
    ) -> None:
        inputs = as_input(scores, np.float64), iteration, as_input(leaves, np.int32)
        push = self._pusher(*inputs, forces, curvatures)
        run_queries(lambda first, last: push(first, last, None), self._chunks, self._n_jobs)

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        self._push(scores, iteration, [], forces, curvatures)

    def cross_leaf_curvatures(self, scores: Floats, iteration: int, leaves: Leaves) -> Floats:
        forces, curvatures = np.empty((2, len(scores)))
        self._push(scores, iteration, leaves, forces, curvatures)
        return curvatures

    def sum_between(self, scores: Floats, iteration: int, sums: LeafSums) -> None:
        outputs = np.empty((2, len(scores)))
        push = self._pusher(as_input(scores, np.float64), iteration, sums.leaves, *outputs)

        def add(first: int, last: int) -> None:
            with sums.between() as between:
                push(first, last, between)

        run_queries(add, self._chunks, self._n_jobs)


def chunks_of(data: Documents, most_documents: int, few_documents: int = 0) -> list[int]:
    """The bounds of chunks of queries: of small data 8, so that threads end at about once.

    Few documents are one chunk: to hand out several, and to wait for them, would take longer.
    """
    step = min(most_documents, data.n_documents // 8 + 1)
    if data.n_documents <= few_documents:
        return [0, data.n_queries]
    bounds: list[int] = chunk_queries(data.offsets, step).tolist()
    return bounds


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """What training minimises. A value: compare, hash, print it; it holds no state of a run."""

    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]
    # How its trees grow best: docs/options.md.
    grower: ClassVar[Literal["leafwise", "depthwise", "oblivious"]] = "oblivious"
    # Parameters of training whose best values depend on how large forces and curvatures are;
    # oblivious trees have an l2 of their own.
    training_defaults: ClassVar[dict[str, float]] = {
        "l2": 0.0,
        "l2_documents": 50.0,
        "min_child_weight": 0.0,
    }

    def __post_init__(self) -> None:
        check_options(self)

    def as_json(self) -> dict[str, Any]:
        """The name and the parameters as JSON values, for a file."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {"name": self.name} | {
            name: str(value) if isinstance(value, Metric) else value
            for name, value in values.items()
        }

    @property
    def is_random(self) -> bool:
        """Whether the forces of an iteration are drawn, so that they differ at the same scores."""
        return False

    @abstractmethod
    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        """Check the labels of a data set and get ready to compute forces on it.

        Parameters
        ----------
        data
            The documents; their labels must have a meaning for the objective.
        n_jobs
            Threads, as everywhere. The forces have the same bits for any number.
        seed
            Of objectives with noise.
        """

    def start_score(self, data: Documents) -> float:
        """The score that all documents start with: where only differences matter, 0."""
        return 0.0


def refuse_document_weights(objective: Objective, data: Documents) -> None:
    """Refuse weights of documents where their cost is not a sum over documents or pairs."""
    if data.document_weights is not None:
        raise DataError(
            f"{objective.name} must be trained without document weights: its cost is no sum over "
            f"documents or pairs that they could weigh. Got some: leave them out, or weigh "
            f"queries."
        )

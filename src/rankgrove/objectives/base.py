"""What an objective is: an immutable value of parameters, and its forces on one data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset

Floats = NDArray[np.float64]


class Forces(ABC):
    """An objective on one data set, with all that does not depend on the scores computed once."""

    @abstractmethod
    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        """Write the force and the curvature of every document at these scores.

        Parameters
        ----------
        scores
            IN: one a document, finite.
        iteration
            IN: the number of the tree that will be fitted, from 0; objectives with noise draw
            it anew for each.
        forces
            OUT: minus the derivative of the cost, so that a positive force pushes up.
        curvatures
            OUT: the second derivative that goes with it, 0 or more.
        """


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """What training minimises. A value: compare, hash, print it; it holds no state of a run."""

    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]

    @abstractmethod
    def prepare(self, data: Dataset, n_jobs: int | None = None) -> Forces:
        """Check the labels of a data set and get ready to compute forces on it.

        Parameters
        ----------
        data
            The documents; their labels must have a meaning for the objective.
        n_jobs
            Threads, as everywhere. The forces have the same bits for any number.
        """

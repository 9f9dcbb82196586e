"""An objective that is given as a function, and one that only its name is left of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, ParameterError, parameter, refusal
from rankgrove.objectives.base import Floats, Forces, Objective
from rankgrove.rules import option

# f(scores, labels, offsets, weights, forces, curvatures), which writes the last two.
ForceFunction = Callable[..., Any]


def function_name(function: ForceFunction) -> str:
    """What a function is called: its module and its name in it.

    >>> function_name(function_name)
    'rankgrove.objectives.function.function_name'
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', type(function).__module__)}.{name}"


def _check_function(name: str, value: Any) -> None:
    if not callable(value):
        raise refusal(name, "be a function that writes forces and curvatures", value)


@dataclass(frozen=True, kw_only=True)
class FunctionObjective(Objective):
    """Forces and curvatures that a function of the user's own writes.

    The function is called as `f(scores, labels, offsets, weights, forces, curvatures)` once for
    each tree, with arrays of float64 (offsets: int64) for all documents:

    - scores, labels: one per document; the documents of query q are the rows
      `offsets[q]:offsets[q + 1]`;
    - weights: one per document, its own weight times that of its query, 1 if there are none;
    - forces, curvatures: to be written, and 0 before. A force is minus the derivative of the cost
      by the score, so that a positive one pushes a document up; the curvature is the second
      derivative, 0 or more.

    It may be plain Python or compiled by Numba. What it writes must be finite. A model file has
    the name of the function, not the function: the model scores without it, and whoever trains on
    gives it again. `check_objective` compares it with numeric derivatives.

    >>> def squared_error(scores, labels, offsets, weights, forces, curvatures):
    ...     forces[:] = weights * (labels - scores)
    ...     curvatures[:] = weights
    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 2, [0, 1], group=[2])
    >>> forces, curvatures = np.empty(2), np.empty(2)
    >>> objective = FunctionObjective(function=squared_error)
    >>> objective.prepare(data).compute(np.array([1.0, 0.5]), 0, forces, curvatures)
    >>> forces.tolist()
    [-1.0, 0.5]
    """

    function: ForceFunction = option(
        None, "What writes forces and curvatures.", check=_check_function
    )

    name: ClassVar[str] = "function"
    title: ClassVar[str] = "a function of the user's own"
    formula: ClassVar[str] = "f(scores, labels, offsets, weights, forces, curvatures)"
    reference: ClassVar[str] = "the user's code"

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "function": function_name(self.function)}

    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        return _FunctionForces(self.function, data)


class _FunctionForces(Forces):
    def __init__(self, function: ForceFunction, data: Documents) -> None:
        self._function, self._data = function, data
        # Copies that may be written: a function that Numba has compiled for plain arrays takes no
        # others.
        self._labels = data.labels.astype(np.float64)
        self._offsets = data.offsets.astype(np.int64)
        self._weights = data.cost_weights.copy()

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        forces[:], curvatures[:] = 0.0, 0.0
        inputs = (scores.copy(), self._labels, self._offsets, self._weights)
        self._function(*inputs, forces, curvatures)
        if not (np.isfinite(forces).all() and np.isfinite(curvatures).all()):
            self._refuse("finite forces and curvatures", np.isfinite(forces + curvatures))
        if curvatures.min() < 0:
            self._refuse("curvatures of 0 or more", curvatures >= 0)

    def _refuse(self, rule: str, holds: np.ndarray[Any, Any]) -> None:
        row = int(np.argmin(holds))
        query = self._data.query_ids[self._data.query_of(row)]
        raise DataError(
            f"{parameter('objective')} {function_name(self._function)} must write {rule}. Got "
            f"others at row {row} of query {query}: try it with check_objective."
        )


@dataclass(frozen=True, kw_only=True)
class AbsentObjective(Objective):
    """What a file says of an objective that is not in it: a function, or a class of the user's."""

    values: tuple[tuple[str, Any], ...] = option((), "What the file says of it.")

    name: ClassVar[str] = "absent"
    title: ClassVar[str] = "an objective that the model file names and does not hold"
    formula: ClassVar[str] = "unknown"
    reference: ClassVar[str] = "the user's code"

    def as_json(self) -> dict[str, Any]:
        return dict(self.values)

    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        saved = dict(self.values)
        shown = saved.get("function", saved.get("name"))
        raise ParameterError(
            f"{parameter('objective')} must be given again to train: the model file has its name "
            f"only. Got {shown!r}: pass objective=, the function or value of that name."
        )

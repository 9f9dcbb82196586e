"""Whether an objective's forces are the derivatives that they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.objectives.base import Floats, Forces, Objective
from rankgrove.objectives.registry import make_objective

_STEP = 1e-5
# A central difference of step 1e-5 is wrong by about 1e-10 of the third derivative, and rounding
# of values near 1 by as much.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ObjectiveCheck:
    """What `check_objective` found.

    Attributes
    ----------
    problems
        What is wrong, one sentence each; training by such an objective does not do what it says.
    notes
        What is unusual and may be meant so.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        lines = [*(f"wrong: {text}" for text in self.problems), *(f"note: {t}" for t in self.notes)]
        return "\n".join(lines) or "forces and curvatures are as they should be"


def check_objective(
    objective: str | Objective | Callable[..., Any],
    data: Dataset | None = None,
    *,
    cost: Callable[..., float] | None = None,
    seed: int = 0,
) -> ObjectiveCheck:
    """Compare the forces and curvatures of an objective with numeric derivatives.

    Parameters
    ----------
    objective
        A name, an objective, or a function as `FunctionObjective` takes it.
    data
        What to try it on; by default a few small queries with labels 0 to 4. Every document is
        moved on its own, so it should be small.
    cost
        cost(scores, labels, offsets, weights), a number. With it, forces must be minus its
        derivative.
    seed
        Of the scores at which it is tried.

    Notes
    -----
    A problem is: forces that differ from minus the derivative of the cost; other forces at the
    same scores; forces of a query that depend on other queries. A note is: curvatures that are not
    the derivative of the forces (some objectives take a bound in their place), and forces of which
    no cost is the derivative, because `d force_i / d score_j` is not `d force_j / d score_i`.

    Examples
    --------
    >>> def squared_error(scores, labels, offsets, weights, forces, curvatures):
    ...     forces[:] = weights * (labels - scores)
    ...     curvatures[:] = 2 * weights
    >>> print(check_objective(squared_error))
    note: curvatures are not minus the derivative of the forces: by 1 for document 0.
    """
    data = _few_queries() if data is None else data
    forces = make_objective(objective).prepare(data, 1, seed)
    scores = np.random.default_rng(seed).normal(size=data.n_documents)
    at_scores = _computed(forces, scores)
    problems: list[str] = []
    notes: list[str] = []
    again = _computed(forces, scores)
    if any(a.tobytes() != b.tobytes() for a, b in zip(at_scores, again, strict=True)):
        problems.append("the same scores give other forces when they come again.")
    slopes = _derivatives(lambda moved: _computed(forces, moved)[0], scores)
    if cost is not None:
        inputs = (data.labels.astype(np.float64), data.offsets, data.cost_weights)
        wanted = -_derivatives(lambda moved: np.array([cost(moved, *inputs)]), scores)[:, 0]
        _compare(problems, "forces", "minus the derivative of the cost", at_scores[0], wanted)
    query = np.repeat(np.arange(data.n_queries), data.group)
    across = np.where(query[:, None] == query[None, :], 0.0, slopes)
    if np.abs(across).max() > _TOLERANCE:
        moved, pushed = np.unravel_index(np.abs(across).argmax(), across.shape)
        problems.append(
            f"the force of document {pushed} in query {data.query_ids[query[pushed]]} changes with "
            f"the score of document {moved} in query {data.query_ids[query[moved]]}."
        )
    _compare(
        notes, "curvatures", "minus the derivative of the forces", at_scores[1], -np.diag(slopes)
    )
    if np.abs(slopes - slopes.T).max() > _TOLERANCE * max(1.0, np.abs(slopes).max()):
        notes.append("no cost has these forces: their derivatives are not symmetric.")
    return ObjectiveCheck(tuple(problems), tuple(notes))


def _few_queries() -> Dataset:
    labels = [[0, 1, 2, 3, 4], [1, 0, 0], [2, 2, 0, 1], [0], [1, 1], [4, 0, 0, 3, 1, 0]]
    return Dataset.from_arrays(
        np.zeros((sum(map(len, labels)), 1)), np.concatenate(labels), group=list(map(len, labels))
    )


def _computed(forces: Forces, scores: Floats) -> tuple[Floats, Floats]:
    out = np.empty(len(scores)), np.empty(len(scores))
    forces.compute(scores, 0, *out)
    return out


def _derivatives(function: Callable[[Floats], Floats], scores: Floats) -> Floats:
    """The derivative of each entry of a function, one row per score."""
    rows = []
    for at in range(len(scores)):
        step = np.zeros(len(scores))
        step[at] = _STEP
        rows.append((function(scores + step) - function(scores - step)) / (2 * _STEP))
    return np.array(rows)


def _compare(sentences: list[str], name: str, rule: str, got: Floats, wanted: Floats) -> None:
    away = np.abs(got - wanted)
    differs = away > _TOLERANCE * max(1.0, np.abs(wanted).max())
    if differs.any():
        row = int(differs.argmax())
        sentences.append(f"{name} are not {rule}: by {away[row]:.3g} for document {row}.")

"""Validation: what it measured, step by step, and when it says to stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, refusal
from rankgrove.training.constraints import TRAIN, Constraints
from rankgrove.training.measures import Floats, Measures

History = dict[str, dict[str, list[float]]]


class Validation:
    """Validation sets, and the values of their measures after each step.

    Attributes
    ----------
    history
        For each set, for each measure, its value after each step.
    measures
        What is measured.
    constraints
        What metrics must not fall below, or None. The training data are one of the sets then.
    """

    def __init__(
        self,
        sets: Mapping[str, Documents],
        measures: Measures,
        rounds: int | None,
        history: History | None = None,
        n_jobs: int | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        self.measures, self._rounds = measures, rounds
        self.constraints = constraints
        self._prepared = {name: measures.prepare(name, data, n_jobs) for name, data in sets.items()}
        self.history: History = {
            name: {
                measure: [] if history is None else list(history[name][measure])
                for measure in measures.names
            }
            for name in sets
        }

    def measure(self, scores: Mapping[str, Floats]) -> None:
        """Add the values at these scores of each set."""
        for curve, value in self._values(scores):
            curve.append(value)

    def agrees(self, scores: Mapping[str, Floats]) -> bool:
        """Whether the last values are those at these scores."""
        return all(curve[-1] == value for curve, value in self._values(scores))

    def _values(self, scores: Mapping[str, Floats]) -> Iterator[tuple[list[float], float]]:
        for name, values_at in self._prepared.items():
            yield from zip(self.history[name].values(), values_at(scores[name]), strict=True)

    def cut(self, n_steps: int) -> None:
        """Forget what was measured after so many steps."""
        for curves in self.history.values():
            for values in curves.values():
                del values[n_steps:]

    @property
    def watched(self) -> list[float]:
        """The values that decide: the first measure on the first set."""
        first_set = next(iter(self.history.values()), {})
        return next(iter(first_set.values()), [])

    @property
    def beside(self) -> list[tuple[str, float]]:
        """What to show beside the last watched value: the parts of a sum, constrained metrics."""
        first_set = next(iter(self.history.values()), {})
        shown = [(name, first_set[name][-1]) for name in self.measures.parts if first_set]
        if self.constraints is not None:
            values = self.constraints.values_at(self.history, 0)
            shown += [
                (f"{n} on train", v) for n, v in zip(self.constraints.bounds, values, strict=True)
            ]
        return shown

    @property
    def best(self) -> int:
        """The number of steps with the best watched value, the fewest if several.

        Of those that meet the constraints, if there are any.
        """
        values = np.array(self.watched)
        values = values if self.measures.higher_is_better else -values
        if self.constraints is not None:
            values = np.where(self.constraints.may_keep(self.history), values, -np.inf)
        return int(values.argmax()) + 1

    def problem(self, n_steps: int) -> str:
        """What is to be said of constraints that a model of so many steps does not meet."""
        if self.constraints is None or n_steps == 0:
            return ""
        return self.constraints.problem(self.history, n_steps)

    @property
    def may_stop(self) -> bool:
        """Whether training may stop early, and then keeps the best."""
        return self._rounds is not None

    @property
    def should_stop(self) -> bool:
        """Whether the best value is `rounds` steps old; never before constraints are met."""
        watched = self.watched
        if self.constraints is not None and not self.constraints.meets(self.history, TRAIN).any():
            return False
        return (
            self._rounds is not None and bool(watched) and len(watched) - self.best >= self._rounds
        )


def check_sets(train: Documents, valid: Mapping[str, Documents], parameters: Any) -> None:
    """Refuse validation sets that do not go with the training data, or to stop early without."""
    needs = {
        "early_stopping_rounds": parameters.early_stopping_rounds is not None,
        "schedule": getattr(parameters, "schedule", None) == "plateau",
    }
    for name, needed in needs.items():
        if needed and not valid:
            raise refusal(
                name, "have a validation set to watch", got="none",
                advice=f"give fit a validation set, or {name}=None",
            )  # fmt: skip
    for name, data in valid.items():
        if data.feature_names != train.feature_names:
            raise DataError(
                f"validation set {name!r} must have {features_rule(train, data.feature_names)}"
            )
        if (data.base_scores is None) != (train.base_scores is None):
            raise DataError(
                f"validation set {name!r} and the training data must both have base scores, or "
                f"neither. Got them in one only."
            )


def features_rule(train: Documents, names: tuple[str, ...]) -> str:
    """The end of a message about features that are not those of the training data."""
    pairs = zip(train.feature_names, names, strict=False)
    differing = next((pair for pair in pairs if pair[0] != pair[1]), None)
    got = f"{len(names)}" if differing is None else f"{differing[1]!r} in place of {differing[0]!r}"
    return f"the {train.n_features} features of the training data in the same order. Got {got}."

"""A training run as whoever started the workers sees it: trees come in, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.phases import Phases
from rankgrove.model.model import Model
from rankgrove.training.measures import MetricMeasures
from rankgrove.training.run import Callback, Run
from rankgrove.training.trees import TreeTrainer
from rankgrove.training.validation import History, Validation
from rankgrove.trees.ensemble import Tree


@dataclass(frozen=True)
class SetSize:
    """How much data there are in a set, over all workers."""

    n_documents: int
    n_queries: int
    n_features: int


@dataclass(frozen=True)
class Start:
    """What the first worker tells before the first tree.

    Attributes
    ----------
    model
        What training starts from: a model without trees, with those of a base model, or a
        checkpoint; and all that the model is to have besides trees.
    sizes
        Of the training data, under "", and of the validation sets.
    """

    model: Model
    sizes: dict[str, SetSize]


@dataclass(frozen=True)
class Step:
    """What the first worker tells of a tree: its number from 1 on, and values of measures."""

    number: int
    tree: Tree
    values: list[list[float]]


def last_values(history: History) -> list[list[float]]:
    """The last value of each measure of each set."""
    return [[curve[-1] for curve in curves.values()] for curves in history.values()]


class FollowedTrainer(TreeTrainer):
    """The trees so far. It has no data, and takes no steps."""

    def __init__(self, start: Start, parameters: Parameters) -> None:
        self.parameters, self.phases, self._offset = parameters, Phases(), 0.0
        self.plan = parameters.resolve(start.sizes[""].n_documents)
        trees, n_base = start.model.ensemble.trees(), start.model.n_base_trees
        self.base_trees, self.trees = trees[:n_base], trees[n_base:]
        self._start = start.model

    @property
    def is_stuck(self) -> bool:
        """The workers know; what they tell of is never past it."""
        return False

    def step(self) -> None:
        """Workers take the steps."""

    def undo(self) -> None:
        """Only whole trees come in."""

    def make_model(self, n_steps: int, history: History) -> Model:
        """The model of the base model's trees and the first of its own."""
        start = self._start
        return Model(
            self.ensemble_of(n_steps), start.schema, self.parameters.as_json(), history,
            notes=dict(start.notes),
        )  # fmt: skip


class FollowedRun(Run):
    """A run that goes on elsewhere; callbacks are called here.

    Attributes
    ----------
    sizes
        Of the training data, under "", and of the validation sets.
    n_before
        The trees that were there at the start, besides those of a base model.
    """

    def __init__(self, start: Start, parameters: Parameters) -> None:
        measures = MetricMeasures(parameters.metrics())
        validation = Validation({}, measures, parameters.early_stopping_rounds)
        validation.history = {
            name: {measure: list(curve) for measure, curve in curves.items()}
            for name, curves in start.model.history.items()
        }
        super().__init__(FollowedTrainer(start, parameters), validation)
        self.sizes: Mapping[str, SetSize] = start.sizes
        self.n_before = self.n_steps

    def take(self, step: Step, callbacks: Iterable[Callback]) -> bool:
        """Count a tree in, once; whether a callback says to stop."""
        if step.number != self.n_steps + 1:
            return False  # grown a second time, by other workers, to the same bits
        self.trees.append(step.tree)
        curves = [curve for curves in self.history.values() for curve in curves.values()]
        values = [value for of_set in step.values for value in of_set]
        for curve, value in zip(curves, values, strict=True):
            curve.append(value)
        answers = [callback(self) for callback in callbacks]
        return any(answers)

    def checkpoint(self) -> Any:
        """The model of all trees so far, for others to go on from."""
        return self.make_model(self.n_steps)

"""The parameters of training a network: their names, defaults and rules, in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from rankgrove.boosting.parameters import AUTO, Auto, Parameters
from rankgrove.errors import ParameterError, is_number, unknown_name, whole_number
from rankgrove.metrics.base import Metric
from rankgrove.objectives.base import Objective

Network = Literal["ranknet", "lambdarank"]
Activation = Literal["relu", "tanh", "sigmoid", "gelu", "silu"]
TransformKind = Literal["quantile", "log1p", "standard"]
Optimiser = Literal["adam", "sgd"]
Schedule = Literal["cosine", "plateau"]

# The objective of trees that has the forces of a network.
FORCES_OF: dict[str, str] = {"ranknet": "rankmart", "lambdarank": "lambdamart"}

# What is passed on to the parameters of trees, which know the rules.
_SHARED = (
    "metric", "sigma", "truncation", "normalise", "eval_metric", "early_stopping_rounds",
    "random_state",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NetworkParameters:
    """How a network is trained.

    Attributes
    ----------
    objective
        `ranknet`: every pair with different labels counts the same; `lambdarank`: by what swapping
        its two documents would change in the metric.
    metric, sigma, truncation, normalise
        Of the objective, as for trees: `auto` is the own default of `rankmart` or `lambdamart`.
        The metric is also what validation watches unless `eval_metric` says otherwise.
    hidden
        The width of each hidden layer; none is a linear model.
    activation
        Between layers: `relu`, `tanh`, `sigmoid`, `gelu` or `silu`.
    dropout
        The share of the values of each hidden layer that training sets to 0 at random.
    transform
        What is done to features before: `quantile`, `log1p`, `standard` or None; see
        `rankgrove.neural.transform.Transform`.
    optimiser, learning_rate, weight_decay
        `adam` (AdamW, where weights decay) or `sgd`, its step and the decay of weights.
    schedule
        How the learning rate changes by epoch: `cosine` down to 0 at `max_epochs`; `plateau`, a
        tenth once the watched metric has not improved for 5 epochs; or None.
    batch_queries
        Queries whose documents make one step.
    max_epochs
        How often, at most, all queries are gone through.
    eval_metric, early_stopping_rounds
        As for trees, counted in epochs: the network of the best epoch is kept.
    random_state
        The seed of the first weights, the order of queries and dropout.
    device
        Where PyTorch trains, as `cpu` or `cuda`. The same bits in every run are for `cpu`.
    """

    objective: Network = "lambdarank"
    metric: str | Metric = AUTO
    sigma: float | Auto = AUTO
    truncation: int | Auto | None = AUTO
    normalise: bool | Auto = AUTO
    hidden: Sequence[int] = (64, 32)
    activation: Activation = "relu"
    dropout: float = 0.2
    transform: TransformKind | None = "quantile"
    optimiser: Optimiser = "adam"
    learning_rate: float = 0.003
    weight_decay: float = 0.0
    schedule: Schedule | None = None
    batch_queries: int = 16
    max_epochs: int = 50
    eval_metric: str | Metric | Sequence[str | Metric] | None = None
    early_stopping_rounds: int | None = None
    random_state: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.objective not in FORCES_OF:
            raise unknown_name("objective", str(self.objective), FORCES_OF)
        self._shared()
        if not isinstance(self.hidden, (list, tuple, np.ndarray)):
            raise ParameterError(
                f"hidden must be the width of each hidden layer, as (64, 32). Got {self.hidden!r}."
            )
        widths = tuple(whole_number("a width in hidden", width, 1) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        _one_of("activation", self.activation, get_args(Activation))
        _one_of("transform", self.transform, get_args(TransformKind), none=True)
        _one_of("optimiser", self.optimiser, get_args(Optimiser))
        _one_of("schedule", self.schedule, get_args(Schedule), none=True)
        _real("learning_rate", self.learning_rate, above=True)
        _real("weight_decay", self.weight_decay)
        _real("dropout", self.dropout)
        if self.dropout >= 1:
            raise ParameterError(f"dropout must be below 1. Got {self.dropout!r}.")
        whole_number("batch_queries", self.batch_queries, 1)
        whole_number("max_epochs", self.max_epochs, 1)
        if not isinstance(self.device, str):
            raise ParameterError(f"device must be a name, as cpu or cuda. Got {self.device!r}.")

    def _shared(self) -> Parameters:
        own = {name: getattr(self, name) for name in _SHARED}
        return Parameters(objective=FORCES_OF[self.objective], **own)

    def make_objective(self) -> Objective:
        """The objective whose forces train the network.

        >>> NetworkParameters(objective="ranknet").make_objective().name
        'rankmart'
        """
        return self._shared().make_objective()

    def metrics(self) -> list[Metric]:
        """What validation sets are measured by; the first decides."""
        return self._shared().metrics()

    def as_json(self) -> dict[str, Any]:
        """The parameters as JSON values, for a file."""
        shared = self._shared().as_json()
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in values.items()
        }
        return {**plain, **{name: shared[name] for name in _SHARED}, "hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NetworkParameters:
        """The parameters that `as_json` wrote; other entries are left out.

        >>> given = NetworkParameters(hidden=(), metric="map")
        >>> NetworkParameters.from_json(given.as_json()) == given
        True
        """
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        for name, instead in (("metric", AUTO), ("eval_metric", None)):
            if isinstance(known.get(name), str) and known[name].startswith("custom("):
                # A function of the user's own is not in the file.
                known[name] = instead
        return cls(**known)


def _one_of(name: str, value: Any, known: Sequence[str], none: bool = False) -> None:
    if none and value is None:
        return
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, str(value), [*known, *(["None"] if none else [])])


def _real(name: str, value: Any, above: bool = False) -> None:
    if not is_number(value) or not math.isfinite(value) or value < 0 or (above and value == 0):
        rule = "above 0" if above else "0 or more"
        raise ParameterError(f"{name} must be a finite number {rule}. Got {value!r}.")

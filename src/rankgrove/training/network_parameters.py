"""The parameters of training a network, each described once; to know them needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rankgrove.boosting.parameters import Plan, TrainingParameters
from rankgrove.errors import refusal, whole_number
from rankgrove.objectives.base import Objective
from rankgrove.objectives.pairwise import LambdaMART, RankMART
from rankgrove.rules import option, union_of, with_options

Network = Literal["ranknet", "lambdarank"]
TransformKind = Literal["quantile", "log1p", "standard"]

# The objective of trees that has the forces of a network.
FORCES_OF: dict[str, str] = {"ranknet": RankMART.name, "lambdarank": LambdaMART.name}

NETWORKS = "Networks"
_OF_OBJECTIVE = union_of({"ranknet": RankMART, "lambdarank": LambdaMART}, NETWORKS)


def _check_widths(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise refusal(name, "be the width of each hidden layer, as (64, 32)", value)
    for width in value:
        whole_number(f"a width in {name}", width, 1)


def _parse_widths(text: str) -> tuple[int, ...]:
    """The widths of layers.

    >>> _parse_widths("64, 32"), _parse_widths("none")
    ((64, 32), ())
    """
    widths = [] if text.strip().lower() in ("", "none") else text.split(",")
    if not all(width.strip().isascii() and width.strip().isdigit() for width in widths):
        raise refusal("hidden", "be widths with commas between", got=f"'{text}'")
    return tuple(int(width) for width in widths)


def _check_device(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise refusal(name, "be a name, as cpu or cuda", value)


@dataclass(frozen=True, kw_only=True)
@with_options({name: _OF_OBJECTIVE[name] for name in ("sigma", "truncation", "normalise")})
class NetworkParameters(TrainingParameters):
    """How a network is trained. docs/parameters.md has what each parameter means."""

    objective: Network = option(
        "lambdarank",
        "Every pair counts the same, or by what swapping it would change in the metric.",
    )
    hidden: Sequence[int] = option(
        (64, 32), "Width of each hidden layer; none is a linear model.",
        panel=NETWORKS, metavar="N,...|none", check=_check_widths, parse=_parse_widths,
    )  # fmt: skip
    activation: Literal["relu", "tanh", "sigmoid", "gelu", "silu"] = option(
        "relu", "What stands between layers.", panel=NETWORKS
    )
    dropout: float = option(
        0.2, "Share of hidden values that training sets to 0 at random.",
        panel=NETWORKS, least=0, below=1,
    )  # fmt: skip
    transform: TransformKind | None = option(
        "quantile", "What is done to features before.", panel=NETWORKS
    )
    optimiser: Literal["adam", "sgd"] = option(
        "adam", "What makes the steps; adam is AdamW where weights decay.", panel=NETWORKS
    )
    learning_rate: float = option(0.003, "Step of the optimiser.")
    weight_decay: float = option(0.0, "Decay of weights.", panel=NETWORKS, least=0)
    schedule: Literal["cosine", "plateau"] | None = option(
        None,
        "How the learning rate changes by epoch.",
        "cosine: down to 0 at `max_epochs`. plateau: to a tenth once the watched metric has not "
        "improved for 5 epochs.",
        panel=NETWORKS,
    )  # fmt: skip
    batch_queries: int = option(16, "Queries of one step.", panel=NETWORKS, least=1)
    max_epochs: int = option(50, "Times that all queries are gone through, at most.",
                             panel=NETWORKS, least=1)  # fmt: skip
    device: str = option(
        "cpu",
        "Where PyTorch trains, as cpu or cuda.",
        "The same bits in every run are for cpu.",
        panel=NETWORKS, check=_check_device,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        self.make_objective()

    def _make_objective(self) -> Objective:
        """The objective whose forces train the network.

        >>> NetworkParameters(objective="ranknet").make_objective().name
        'rankmart'
        """
        return self._objective_of(FORCES_OF[self.objective])

    def resolve(self) -> Plan:
        """What training does, with nothing left open.

        >>> plan = NetworkParameters().resolve().as_json()
        >>> plan["objective"], plan["metric"], plan["truncation"], plan["eval_metric"]
        ('lambdarank', 'ndcg', 30, ['ndcg@10'])
        """
        return Plan(self, self.make_objective(), tuple(self.metrics()))

"""What an objective trains, by its name: trees, or a network, which brings PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.training.run import Run
from rankgrove.training.trainer import TREES, unit_of
from rankgrove.training.trees import start_trees

if TYPE_CHECKING:
    from rankgrove.estimators.base import RankingEstimator

AnyParameters = Parameters | NetworkParameters


def parameters_type(objective: Any) -> type[AnyParameters]:
    """The parameters of training by an objective."""
    return Parameters if unit_of(objective) is TREES else NetworkParameters


def make_estimator(parameters: dict[str, Any], **more: Any) -> RankingEstimator:
    """A `Ranker`, `RankNet` or `LambdaRank` of these parameters, which name the objective."""
    objective = parameters["objective"]
    if unit_of(objective) is TREES:
        from rankgrove.estimators.ranker import Ranker  # noqa: PLC0415 (brings scikit-learn)

        return Ranker(**parameters, **more)
    from rankgrove.neural.estimators import LambdaRank, RankNet  # noqa: PLC0415 (brings PyTorch)

    estimator = {"ranknet": RankNet, "lambdarank": LambdaRank}[objective]
    options = {name: value for name, value in parameters.items() if name != "objective"}
    return estimator(**options, **more)


def start_run(
    train: Documents, valid: Mapping[str, Documents], parameters: AnyParameters, **options: Any
) -> Run:
    """A run of training that has done nothing yet; with options of `start_trees`, or its twin."""
    if isinstance(parameters, Parameters):
        return start_trees(train, valid, parameters, **options)
    from rankgrove.neural.training import start_network  # noqa: PLC0415 (brings PyTorch)

    return start_network(train, valid, parameters, **options)

"""The estimator that an objective is trained by, by its name: of trees, or of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankgrove.training.trainer import TREES, unit_of

if TYPE_CHECKING:
    from rankgrove.estimators.base import RankingEstimator


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

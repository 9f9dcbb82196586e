"""Neural rankers on PyTorch, the extra `neural`: a loss for any module, RankNet and LambdaRank."""

from __future__ import annotations

from rankgrove.errors import need_extra

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise need_extra("torch", "neural", "rankgrove.neural") from None

from rankgrove.neural.estimators import LambdaRank, RankNet
from rankgrove.neural.loss import RankingLoss, ranking_loss
from rankgrove.neural.model import NetworkModel

__all__ = ["LambdaRank", "NetworkModel", "RankNet", "RankingLoss", "ranking_loss"]

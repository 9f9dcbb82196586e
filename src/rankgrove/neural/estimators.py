"""The estimators of networks: `RankNet` and `LambdaRank`. No algorithm here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Self

from rankgrove.data.documents import Documents
from rankgrove.errors import ParameterError
from rankgrove.estimators.base import RankingEstimator
from rankgrove.estimators.signatures import NetworkKeywords
from rankgrove.neural.model import NetworkModel
from rankgrove.neural.training import start_network
from rankgrove.training.run import Run
from rankgrove.training.trainer import EPOCHS


class _NetworkRanker(NetworkKeywords, RankingEstimator):
    """What networks of either objective share."""

    _unit = EPOCHS
    _objective: ClassVar[str]

    def _held(self) -> dict[str, Any]:
        return {"objective": self._objective}

    def _start(
        self, train: Documents, valid: Mapping[str, Documents], parameters: Any, **options: Any
    ) -> Run:
        return start_network(
            train, valid, parameters, module=self.module, n_jobs=self.n_jobs, **options
        )

    def _warn(self, run: Run) -> None:
        warnings.warn(
            "training found nothing to learn from, so the network is as it started. Give labels "
            "that differ within queries.",
            stacklevel=3,
        )

    @classmethod
    def load(cls, path: str | PathLike[str], module: Any = None) -> Self:
        """A fitted estimator from a model file, with the parameters it was trained with.

        A network of a module of one's own must be given that `module` again.
        """
        model = NetworkModel.load(path, module)
        objective = model.parameters.get("objective")
        if objective != cls._objective:
            raise ParameterError(
                f"{cls.__name__}.load must be given a network of its own objective. Got one of "
                f"{objective} in {path}: use NetworkModel.load."
            )
        return cls._with_model(model, module=module)


class RankNet(_NetworkRanker):
    """A network trained by RankNet: every pair of documents with different labels counts the same.

    The parameters are those of `rankgrove.training.network_parameters.NetworkParameters`, and:

    Parameters
    ----------
    module
        An `nn.Module`, or a function from the number of inputs to one, in place of the layers that
        `hidden`, `activation` and `dropout` describe. It takes a batch of rows and gives one score
        per row. A file keeps its weights only, so that `load` must be given the module again.
    n_jobs
        Threads, for forces, metrics and scoring; None for all CPUs. The network has the same bits
        for any number.
    verbose
        Whether `fit` shows its progress: as text on stderr, in a notebook as a curve that grows.

    Attributes
    ----------
    model_
        The trained `NetworkModel`: scoring, files.
    history_
        For each validation set, for each metric, its value after each epoch.
    best_iteration_
        The number of epochs that the model keeps.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn; the names only where the data had some.

    Examples
    --------
    >>> from rankgrove import RankNet, make_web_search
    >>> train, test = make_web_search(60, 16).split(0.5, 0.5)
    >>> ranker = RankNet(hidden=(8,), max_epochs=3).fit(train)
    >>> ranker.predict(test).shape == (test.n_documents,)
    True
    """

    _objective = "ranknet"


class LambdaRank(_NetworkRanker):
    """A network trained by LambdaRank: pairs count by what their swap changes in a metric.

    Parameters, attributes and methods are those of `RankNet`.

    >>> LambdaRank(metric="map", hidden=()).parameters().make_objective().name
    'lambdamart'
    """

    _objective = "lambdarank"

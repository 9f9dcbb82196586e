"""The scikit-learn face of networks: `RankNet` and `LambdaRank`. No algorithm here."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from rankgrove.data.dataset import Dataset
from rankgrove.data.matrix import validation_sets
from rankgrove.data.preferences import Preferences
from rankgrove.data.queries import SplitQueries
from rankgrove.errors import ParameterError
from rankgrove.estimators.base import RankingFace
from rankgrove.neural.model import NetworkModel
from rankgrove.neural.training import Callback, train_network
from rankgrove.training.network_parameters import NetworkParameters

PARAMETERS = tuple(field.name for field in fields(NetworkParameters) if field.name != "objective")


class _NetworkRanker(RankingFace):
    """What networks of either objective share."""

    _objective: ClassVar[str]

    def __init__(self, **parameters: Any) -> None:
        self._refuse(parameters)
        for parameter in list(_signature().parameters.values())[1:]:
            setattr(self, parameter.name, parameters.get(parameter.name, parameter.default))

    def parameters(self) -> NetworkParameters:
        """The checked parameters of training."""
        own: dict[str, Any] = {name: getattr(self, name) for name in PARAMETERS}
        return NetworkParameters(objective=self._objective, **own)  # type: ignore[arg-type]

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_scores: ArrayLike | None = None,
        split_queries: SplitQueries = "error",
        valid: Dataset | Mapping[str, Dataset] | Iterable[Dataset] | None = None,
        eval_set: Iterable[tuple[Any, ...]] | None = None,
        callbacks: Iterable[Callback] = (),
        base_model: Any = None,
        preferences: Preferences | Iterable[Sequence[Any]] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X, y, qid, group, sample_weight, base_scores, split_queries, valid, eval_set
            As for `Ranker.fit`.
        callbacks
            Each is called after every epoch with the `NetworkTraining`; training stops if one
            returns True.
        base_model
            What the network adds to: a `Model` of trees, its file or a fitted Ranker, which the
            new model then holds; or anything else that gives scores, as another network or a
            function of features, which `predict` then needs as `base_scores`.
        preferences
            Pairs (better, worse) or (better, worse, probability) of rows to train by in place of
            labels, which may be left out then.

        Ctrl-C ends training: `model_` then is the network after the last whole epoch, and
        KeyboardInterrupt goes on to the caller.
        """
        parameters = self.parameters()
        train, pairs = self._training_data(
            X, y, preferences, qid=qid, group=group, weights=sample_weight,
            base_scores=base_scores, split_queries=split_queries,
        )  # fmt: skip
        training = train_network(
            train, validation_sets(valid, eval_set), parameters, module=self.module,
            base_model=base_model, preferences=pairs, callbacks=callbacks, verbose=self.verbose,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        self._keep(training.make_model())
        if training.interrupted:
            raise KeyboardInterrupt
        if not training.has_pushed:
            warnings.warn(
                "training found nothing to learn from, so the network is as it started. Give "
                "labels that differ within queries.",
                stacklevel=2,
            )
        return self

    def _keep(self, model: NetworkModel) -> None:
        self._keep_model(model, model.n_epochs)

    def predict(self, X: Any, *, base_scores: Any = None) -> Any:
        """The score of each document; higher is better. See `NetworkModel.predict`."""
        return self._fitted().predict(X, base_scores=base_scores, n_jobs=self.n_jobs)

    @classmethod
    def load(cls, path: str | PathLike[str], module: Any = None) -> Self:
        """A fitted estimator from a model file, with the parameters it was trained with.

        A network of a module of one's own must be given that `module` again.
        """
        model = NetworkModel.load(path, module)
        parameters = NetworkParameters.from_json(model.parameters)
        if parameters.objective != cls._objective:
            raise ParameterError(
                f"{cls.__name__}.load must be given a network of its own objective. Got one of "
                f"{parameters.objective} in {path}: use NetworkModel.load."
            )
        own = {name: getattr(parameters, name) for name in PARAMETERS}
        estimator = cls(**own, module=module)
        estimator._keep(model)
        return estimator


class RankNet(_NetworkRanker):
    """A network trained by RankNet: every pair of documents with different labels counts the same.

    The parameters are those of `rankgrove.training.network_parameters.NetworkParameters`, and:

    Parameters
    ----------
    module
        An `nn.Module`, or a function from the number of inputs to one, in place of the layers that
        `hidden`, `activation` and `dropout` describe. It takes a batch of rows and gives one score
        a row. A file keeps its weights only, so that `load` must be given the module again.
    n_jobs
        Threads, for forces, metrics and scoring; None for all CPUs. The network has the same bits
        for any number.
    verbose
        Whether `fit` shows its progress on stderr.

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


def _signature() -> inspect.Signature:
    """What an estimator is made with: the parameters of training by name, and its own."""
    kinds = inspect.Parameter
    names = {f.name: f.default for f in fields(NetworkParameters) if f.name != "objective"}
    names |= {"module": None, "n_jobs": None, "verbose": False}
    others = [kinds(name, kinds.KEYWORD_ONLY, default=value) for name, value in names.items()]
    return inspect.Signature([kinds("self", kinds.POSITIONAL_OR_KEYWORD), *others])


# scikit-learn reads the names of parameters here, and `help` shows them.
_NetworkRanker.__init__.__signature__ = _signature()  # type: ignore[attr-defined]

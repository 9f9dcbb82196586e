"""The scikit-learn face of networks: `RankNet` and `LambdaRank`. No algorithm here."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from rankgrove.data.dataset import Dataset, default_feature_names
from rankgrove.data.preferences import Preferences
from rankgrove.data.queries import SplitQueries
from rankgrove.errors import DataError, ParameterError, unknown_name
from rankgrove.inputs import as_dataset, validation_sets
from rankgrove.metrics.evaluate import evaluate
from rankgrove.neural.model import NetworkModel
from rankgrove.neural.parameters import NetworkParameters
from rankgrove.neural.training import Callback, train_network

PARAMETERS = tuple(field.name for field in fields(NetworkParameters) if field.name != "objective")


class _NetworkRanker(BaseEstimator):  # type: ignore[misc]
    """What networks of either objective share."""

    _objective: ClassVar[str]

    def __init__(self, **parameters: Any) -> None:
        self._refuse(parameters)
        for parameter in list(_signature().parameters.values())[1:]:
            setattr(self, parameter.name, parameters.get(parameter.name, parameter.default))

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; one that does not exist is refused with the nearest one."""
        self._refuse(params)
        super().set_params(**params)
        return self

    @classmethod
    def _refuse(cls, names: Iterable[str]) -> None:
        known = cls._get_param_names()
        for name in names:
            if name not in known:
                raise unknown_name(f"a parameter of {cls.__name__}", name, known)

    if TYPE_CHECKING:
        # Parameters are attributes, as scikit-learn has them.
        def __getattr__(self, name: str) -> Any: ...

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
        if y is None and preferences is not None and not isinstance(X, Dataset):
            y = np.zeros(len(X))
        train = as_dataset(
            X, y, qid=qid, group=group, weights=sample_weight, base_scores=base_scores,
            split_queries=split_queries,
        )  # fmt: skip
        pairs = preferences
        if pairs is not None and split_queries == "group":
            raise DataError(
                "preferences must name rows that stay where they are. Got split_queries='group', "
                "which may move them: sort the data first."
            )
        if pairs is not None and not isinstance(pairs, Preferences):
            pairs = Preferences.from_rows(train, pairs)
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
        """Become a fitted estimator with this model."""
        self.model_ = model
        self.history_ = model.history
        self.best_iteration_ = model.n_epochs
        self.n_features_in_ = model.n_features
        self.__dict__.pop("feature_names_in_", None)
        if model.feature_names != default_feature_names(model.n_features):
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)

    def predict(self, X: Any, *, base_scores: Any = None) -> Any:
        """The score of each document; higher is better. See `NetworkModel.predict`."""
        return self._fitted().predict(X, base_scores=base_scores, n_jobs=self.n_jobs)

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_scores: ArrayLike | None = None,
    ) -> float:
        """The mean of the first evaluation metric; the arguments are those of `fit`."""
        model = self._fitted()
        data = as_dataset(
            X, y, qid=qid, group=group, weights=sample_weight, base_scores=base_scores
        )
        metric = self.parameters().metrics()[0]
        scores = model.predict(data, n_jobs=self.n_jobs)
        return float(evaluate(data, scores, metric, n_jobs=self.n_jobs)[str(metric)])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""
        self._fitted().save(path)

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

    def _fitted(self) -> NetworkModel:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"this {type(self).__name__} must be fitted before it can be used. Call fit first."
            )
        model: NetworkModel = self.model_
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


class RankNet(_NetworkRanker):
    """A network trained by RankNet: every pair of documents with different labels counts the same.

    The parameters are those of `rankgrove.neural.parameters.NetworkParameters`, and:

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

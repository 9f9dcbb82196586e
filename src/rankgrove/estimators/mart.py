"""Single documents, no rankings: `MARTRegressor` and `MARTClassifier`. No algorithm here."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from os import PathLike
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rankgrove.boosting.loop import Callback
from rankgrove.boosting.parameters import OF_OBJECTIVE, Parameters
from rankgrove.boosting.pointwise import Watch, as_documents, raised
from rankgrove.data.dataset import as_features, default_feature_names
from rankgrove.errors import DataError, ParameterError
from rankgrove.estimators.base import NamedParameters
from rankgrove.model.model import Model
from rankgrove.objectives.base import Objective
from rankgrove.objectives.pointwise import Logistic, Regression
from rankgrove.training.trees import make_model, no_split_text, train_trees

Floats = NDArray[np.float64]
Loss = Callable[[Floats, Floats], float]

# What single documents have no use for.
_OF_RANKING = {"objective", "eval_metric", *OF_OBJECTIVE}

# The curvature of a row is 1 for squared error and at most 1/4 for two classes: `l2` is that of
# about five rows. A row of weight 2 is two rows, so that nothing is drawn by row.
_OF_REGRESSOR = {"n_estimators": 100, "l2": 5.0, "bootstrap": 0.0, "split_noise": 0.0}
_OF_CLASSIFIER = {**_OF_REGRESSOR, "l2": 1.0, "sigma": 1.0, "balanced": False}


_CLASSES, _CLASSES_TYPE = "classes", "classes_dtype"


class _Pointwise(NamedParameters):
    """The shared part: a subclass has an objective, its targets, and what it makes of scores."""

    _objective: ClassVar[type[Objective]]
    _loss_name: ClassVar[str]

    def _set(self, parameters: Mapping[str, Any]) -> None:
        self._refuse(parameters)
        for parameter in inspect.signature(type(self)).parameters.values():
            setattr(self, parameter.name, parameters.get(parameter.name, parameter.default))

    def parameters(self) -> Parameters:
        """The checked parameters of training."""
        known = {field.name for field in fields(Parameters)}
        own = {name: getattr(self, name) for name in self._get_param_names() if name in known}
        return Parameters.from_names({"objective": self._objective.name, **own})

    @abstractmethod
    def _targets_of(self, y: NDArray[Any]) -> Floats:
        """What trees are fitted to; refuses values that were not there in training."""

    @abstractmethod
    def _loss(self, targets: Floats, scores: Floats) -> float:
        """What early stopping watches; lower is better."""

    def _train(
        self,
        features: Any,
        targets: Floats,
        sample_weight: ArrayLike | None,
        eval_set: Iterable[tuple[Any, Any]] | None,
        callbacks: Iterable[Callback],
        *,
        centred: bool,
        also: Mapping[str, Any],
    ) -> None:
        """Fit trees and become an estimator with their model; `also` goes into its notes."""
        parameters = self.parameters()
        rounds = parameters.early_stopping_rounds
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, features, dtype=np.float64, ensure_non_negative=True
            )
            counts = weights > 0
            if counts.any() and not counts.all():
                # A row without weight is none: it has no part in how features are cut, either.
                features, targets, weights = features[counts], targets[counts], weights[counts]
        # Labels are float32: what all have in common is taken out first, and given back after.
        centre = float(np.average(targets, weights=weights)) if centred else 0.0
        names = getattr(self, "feature_names_in_", None)
        data = as_documents(features, targets - centre, weights, names, parameters)
        watch = Watch(self._validation_sets(eval_set), self._loss, self._loss_name, centre, rounds)
        if rounds is not None and not watch.sets:
            raise ParameterError(
                "early_stopping_rounds must have a validation set to watch. Got none: pass "
                "eval_set=[(X, y)], or early_stopping_rounds=None."
            )
        if not isinstance(callbacks, Iterable):
            raise ParameterError(f"callbacks must be a list of functions. Got {callbacks!r}.")
        training = train_trees(
            data, {}, replace(parameters, early_stopping_rounds=None),
            callbacks=[watch, *callbacks], verbose=self.verbose, n_jobs=self.n_jobs,
        )  # fmt: skip
        if training.trees:
            model = make_model(training, watch.n_kept(training))
            self._keep(
                replace(
                    model,
                    ensemble=raised(model.ensemble, centre),
                    parameters={**model.parameters, "early_stopping_rounds": rounds},
                    notes={**model.notes, **also},
                    history=watch.history,
                )
            )
        if training.interrupted:
            raise KeyboardInterrupt
        if len(self.model_.ensemble.feature) == 0 and np.ptp(targets) > 0:
            text = no_split_text(parameters, len(targets), "features that differ")
            warnings.warn(text, stacklevel=3)

    def _keep(self, model: Model) -> None:
        """Become a fitted estimator with this model."""
        self.model_ = model
        self.history_ = model.history
        self.best_iteration_ = model.n_trees

    def _validation_sets(
        self, eval_set: Iterable[tuple[Any, Any]] | None
    ) -> dict[str, tuple[NDArray[np.float32], Floats]]:
        if eval_set is not None and not isinstance(eval_set, Iterable):
            raise ParameterError(
                f"eval_set must be a list of tuples (X, y). Got {type(eval_set).__name__}."
            )
        several = list(eval_set or ())
        sets = {}
        for number, entry in enumerate(several, 1):
            if not isinstance(entry, (tuple, list)) or len(entry) != 2:
                raise ParameterError(
                    f"eval_set must be a list of tuples (X, y). Got {type(entry).__name__} as an "
                    f"entry."
                )
            features, y = self._checked(*entry, reset=False)
            name = "valid" if len(several) == 1 else f"valid_{number}"
            sets[name] = as_features(features, 0.0), self._targets_of(y)
        return sets

    def _checked(self, X: Any, y: Any, *, reset: bool) -> Any:
        """Features, and labels unless told not to check any, by scikit-learn's rules."""
        return validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=np.float32,
            ensure_all_finite="allow-nan", y_numeric=isinstance(self, RegressorMixin),
        )  # fmt: skip

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        features = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=np.float32,
            ensure_all_finite="allow-nan",
        )  # fmt: skip
        model: Model = self.model_
        return model.predict(features, n_jobs=self.n_jobs)

    @property
    def feature_importances_(self) -> Floats:
        """The share of each feature in the gain of all splits."""
        check_is_fitted(self)
        gains: Floats = self.model_.importance("gain")
        total = gains.sum()
        return gains / total if total > 0 else gains

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""
        check_is_fitted(self)
        self.model_.save(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Any:
        """A fitted estimator from a model file, with the parameters it was trained with."""
        model = Model.load(path)
        parameters = Parameters.from_json(model.parameters)
        objective = parameters.make_objective()
        if not isinstance(objective, cls._objective):
            raise DataError(
                f"the model of a {cls.__name__} must be trained by {cls._objective.name}. Got "
                f"one by {objective.name} in {path}."
            )
        if model.schema.needs_base_scores:
            raise DataError(
                f"the model of a {cls.__name__} must not be trained on top of base scores. Got "
                f"one in {path}: use Model.load."
            )
        own = {
            name: getattr(objective if name in OF_OBJECTIVE else parameters, name)
            for name in cls._get_param_names()
            if hasattr(parameters, name)
        }
        estimator = cls(**own)
        estimator._keep(model)
        estimator.n_features_in_ = model.n_features
        if model.feature_names != default_feature_names(model.n_features):
            estimator.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return estimator

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class MARTRegressor(RegressorMixin, _Pointwise):  # type: ignore[misc]
    """Regression by gradient-boosted trees: squared error, the trees of `Ranker`.

    The parameters are those of `rankgrove.boosting.parameters.Parameters` that do not belong to
    rankings, by name, with these defaults of their own: n_estimators=100, l2=5. And:

    Parameters
    ----------
    n_jobs
        Threads; None for all CPUs. The model has the same bits for any number.
    verbose
        Whether `fit` shows its progress on stderr.

    Attributes
    ----------
    model_
        The trained `Model`.
    history_
        For each validation set, its mean squared error after each tree.
    best_iteration_
        The number of trees that the model keeps.
    n_features_in_, feature_names_in_, feature_importances_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rankgrove import MARTRegressor
    >>> X = np.linspace(0, 1, 200).reshape(-1, 1)
    >>> MARTRegressor(n_estimators=50).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.98
    True
    """

    _objective = Regression
    _loss_name = "squared error"

    def __init__(self, **parameters: Any) -> None:
        self._set(parameters)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        eval_set: Iterable[tuple[Any, Any]] | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> MARTRegressor:
        """Train.

        Parameters
        ----------
        X, y
            Features, where NaN is missing and absent entries of a sparse matrix are 0, and what
            to predict from them. y must be finite.
        sample_weight
            One a row, 0 or more.
        eval_set
            Validation sets, tuples (X, y); the first one decides about early stopping.
        callbacks
            Each is called after every tree with the `Training`; training stops if one returns
            True.

        Ctrl-C ends training: `model_` then has the trees so far, and KeyboardInterrupt goes on
        to the caller.
        """
        features, labels = self._checked(X, y, reset=True)
        targets = self._targets_of(labels)
        self._train(features, targets, sample_weight, eval_set, callbacks, centred=True, also={})
        return self

    def predict(self, X: Any) -> Floats:
        """The predicted value of each row."""
        return self._scores(X)

    def _targets_of(self, y: NDArray[Any]) -> Floats:
        return y.astype(np.float64)

    def _loss(self, targets: Floats, scores: Floats) -> float:
        return float(np.mean((targets - scores) ** 2))


class MARTClassifier(ClassifierMixin, _Pointwise):  # type: ignore[misc]
    """Two classes by gradient-boosted trees: logistic loss, the trees of `Ranker`.

    The parameters are those of `rankgrove.boosting.parameters.Parameters` that do not belong to
    rankings, by name, with these defaults of their own: n_estimators=100, l2=1. And:

    Parameters
    ----------
    sigma
        How steep the logistic function is, 1 by default.
    balanced
        Whether both classes weigh the same in all, in training and in validation; they do not by
        default.
    n_jobs
        Threads; None for all CPUs. The model has the same bits for any number.
    verbose
        Whether `fit` shows its progress on stderr.

    Attributes
    ----------
    classes_
        The two classes, sorted; the scores rise with the chance of the second one.
    model_
        The trained `Model`.
    history_
        For each validation set, its mean log loss after each tree.
    best_iteration_
        The number of trees that the model keeps.
    n_features_in_, feature_names_in_, feature_importances_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rankgrove import MARTClassifier
    >>> X = np.linspace(0, 1, 200).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.5, "late", "early")
    >>> MARTClassifier(n_estimators=20).fit(X, y).predict([[0.1], [0.9]]).tolist()
    ['early', 'late']
    """

    _objective = Logistic
    _loss_name = "log loss"

    def __init__(self, **parameters: Any) -> None:
        self._set(parameters)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        eval_set: Iterable[tuple[Any, Any]] | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> MARTClassifier:
        """Train; the arguments are those of `MARTRegressor.fit`, with two classes as y."""
        features, labels = self._checked(X, y, reset=True)
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind.startswith("continuous"):
            raise DataError(
                f"y must be classes. Unknown label type: {kind}. Use MARTRegressor for numbers."
            )
        classes = np.unique(labels)
        if kind != "binary":
            raise DataError(
                f"Only binary classification is supported. The type of the target is {kind}. Got "
                f"{len(classes)} classes: train one against the rest with scikit-learn's "
                f"OneVsRestClassifier."
            )
        if len(classes) == 1:
            raise DataError(f"y must have two classes. Got one class only, {classes[0]!r}.")
        self.classes_ = classes
        self._train(
            features, self._targets_of(labels), sample_weight, eval_set, callbacks, centred=False,
            also=_classes_as_json(classes),
        )  # fmt: skip
        return self

    def decision_function(self, X: Any) -> Floats:
        """The score of each row: above 0 where the second class is more likely."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Floats:
        """The chance of each class, one row a row of X."""
        raised = self._sigma * self._scores(X)
        return np.column_stack([expit(-raised), expit(raised)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The more likely class of each row."""
        scores = self._scores(X)
        classes: NDArray[Any] = self.classes_[(scores > 0).astype(np.intp)]
        return classes

    @property
    def _sigma(self) -> float:
        """That of training, whatever the parameter has been set to since."""
        check_is_fitted(self)
        return float(_logistic(Parameters.from_json(self.model_.parameters)).sigma)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, with its classes, to a file; they must be text, numbers or bools."""
        check_is_fitted(self)
        if _CLASSES not in self.model_.notes:
            raise DataError(
                f"classes must be text, whole numbers or bools to be saved. Got "
                f"{self.classes_.dtype}: give such as y, or pickle the classifier."
            )
        super().save(path)

    def _keep(self, model: Model) -> None:
        super()._keep(model)
        if not hasattr(self, "classes_"):
            # A model that `Ranker` has trained knows 0 and 1.
            kept = model.notes.get(_CLASSES, [0, 1])
            self.classes_ = np.array(kept, dtype=model.notes.get(_CLASSES_TYPE))

    def _targets_of(self, y: NDArray[Any]) -> Floats:
        unknown = y[~np.isin(y, self.classes_)]
        if len(unknown):
            raise DataError(
                f"y of a validation set must be of the classes of training, "
                f"{self.classes_.tolist()}. Got {unknown[0]!r}."
            )
        return np.asarray(y == self.classes_[1]).astype(np.float64)

    def _loss(self, targets: Floats, scores: Floats) -> float:
        objective = _logistic(self.parameters())
        sigma = objective.sigma
        losses = np.logaddexp(0.0, np.where(targets > 0, -sigma, sigma) * scores)
        parts = [losses[targets == 0], losses[targets == 1]]
        if not objective.balanced or min(map(len, parts)) == 0:
            return float(losses.mean())
        return float((parts[0].mean() + parts[1].mean()) / 2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _logistic(parameters: Parameters) -> Logistic:
    """The objective of a classifier, which can be no other."""
    return cast("Logistic", parameters.make_objective())


def _signature(defaults: Mapping[str, Any]) -> inspect.Signature:
    """What an estimator is made with, all by name."""
    kinds = inspect.Parameter
    names = {f.name: f.default for f in fields(Parameters) if f.name not in _OF_RANKING}
    names |= {**defaults, "n_jobs": None, "verbose": False}
    own = [kinds(name, kinds.KEYWORD_ONLY, default=value) for name, value in names.items()]
    return inspect.Signature([kinds("self", kinds.POSITIONAL_OR_KEYWORD), *own])


# scikit-learn reads the names of parameters here, and `help` shows them.
MARTRegressor.__init__.__signature__ = _signature(_OF_REGRESSOR)  # type: ignore[attr-defined]
MARTClassifier.__init__.__signature__ = _signature(_OF_CLASSIFIER)  # type: ignore[attr-defined]


def _classes_as_json(classes: NDArray[Any]) -> dict[str, Any]:
    """The classes for a file, or nothing where it could not give them back."""
    kept = classes.tolist()
    if classes.dtype.kind not in "biufUO" or not all(
        isinstance(v, (str, int, float)) for v in kept
    ):
        return {}
    dtype = "object" if classes.dtype.kind == "O" else classes.dtype.str
    return {_CLASSES: kept, _CLASSES_TYPE: dtype}

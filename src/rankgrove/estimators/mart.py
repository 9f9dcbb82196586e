"""Single documents, no rankings: `MARTRegressor` and `MARTClassifier`. No algorithm here."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from rankgrove.boosting.parameters import OF_OBJECTIVE, Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, refusal
from rankgrove.estimators.base import TreeEstimator
from rankgrove.estimators.signatures import ClassifierKeywords, RegressorKeywords
from rankgrove.model.model import Model
from rankgrove.objectives.base import Objective
from rankgrove.objectives.pointwise import Logistic, Regression
from rankgrove.training.checkpoints import gather_callbacks
from rankgrove.training.measures import LOG_LOSS, SQUARED_ERROR, LossMeasure
from rankgrove.training.run import Callback
from rankgrove.training.trees import no_split_text, start_trees

Floats = NDArray[np.float64]

_CLASSES, _CLASSES_TYPE = "classes", "classes_dtype"

# Rows of a block where blocks may stand for queries.
_BLOCK_ROWS = 4096


class _Pointwise(TreeEstimator):
    """The shared part: a subclass has an objective, its targets, and what it makes of scores."""

    _objective: ClassVar[type[Objective]]
    _loss_name: ClassVar[str]
    _is_centred: ClassVar[bool] = False

    def _held(self) -> dict[str, Any]:
        return {"objective": self._objective.name}

    @abstractmethod
    def _targets_of(self, y: NDArray[Any]) -> Floats:
        """What trees are fitted to; refuses values that were not there in training."""

    @abstractmethod
    def _loss(self, targets: Floats, scores: Floats) -> float:
        """What early stopping watches; lower is better."""

    def _look_at(self, labels: NDArray[Any]) -> dict[str, Any]:
        """Refuse labels that nothing can be learned from; what the model is to note of them."""
        return {}

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        eval_set: Iterable[tuple[Any, Any]] | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> Self:
        """Train.

        Parameters
        ----------
        X, y
            Features, where NaN is missing and absent entries of a sparse matrix are 0, and what
            to predict from them: finite numbers, or two classes for a classifier.
        sample_weight
            One per row, 0 or more.
        eval_set
            Validation sets, tuples (X, y); the first one decides about early stopping.
        callbacks
            Each is called after every tree with the `Run`; training stops if one returns True.

        Ctrl-C ends training: `model_` then has the trees so far, and KeyboardInterrupt goes on
        to the caller.
        """
        features, labels = self._checked(X, y, reset=True)
        notes, targets = self._look_at(labels), self._targets_of(labels)
        parameters, called = self.parameters(), gather_callbacks(callbacks)
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
        centre = float(np.average(targets, weights=weights)) if self._is_centred else 0.0
        sets = self._validation_sets(eval_set)
        held_out = {name: y for name, (_, y) in sets.items()}
        run = start_trees(
            self._documents(features, targets - centre, parameters, weights),
            {name: self._documents(rows, 0 * y, parameters) for name, (rows, y) in sets.items()},
            parameters,
            measures=LossMeasure(self._loss_name, self._loss, held_out),
            offset=centre,
            n_jobs=self.n_jobs,
        )
        run.run(called, verbose=self.verbose)
        if run.n_steps:
            model = run.make_model()
            self._keep(replace(model, notes={**model.notes, **notes}))
        if run.interrupted:
            raise KeyboardInterrupt
        if not run.has_learned and np.ptp(targets) > 0:
            text = no_split_text(parameters, len(targets), "features that differ")
            warnings.warn(text, stacklevel=2)
        return self

    def _documents(
        self, features: Any, labels: Floats, parameters: Parameters, weights: Floats | None = None
    ) -> Dataset:
        """The rows as documents. Forces do not depend on the query, so that may be anything.

        Weights, and samples of queries, are by query: then each row is one. Otherwise blocks of
        rows are, which is faster and gives the same bits.
        """
        if np.abs(labels).max() > np.finfo(np.float32).max:
            raise DataError("y must be within 3.4e38 of its mean. Got a value beyond: rescale y.")
        n_rows, p = len(labels), parameters
        by_query = p.subsample < 1 and p.sampling in ("query", "variance_query")
        by_query = by_query or (p.resolve().bootstrap > 0 and p.bootstrap_by == "query")
        by_row = weights is not None or by_query
        offsets = np.append(np.arange(0, n_rows, 1 if by_row else _BLOCK_ROWS), n_rows)
        return Dataset.from_arrays(
            features, labels, group=np.diff(offsets), weights=weights,
            feature_names=getattr(self, "feature_names_in_", None),
        )  # fmt: skip

    def _keep(self, model: Model) -> None:
        # Those that scikit-learn has seen stay, also where they are what features without names
        # are called.
        names = self.__dict__.get("feature_names_in_")
        super()._keep(model)
        if names is not None:
            self.feature_names_in_ = names

    def _validation_sets(
        self, eval_set: Iterable[tuple[Any, Any]] | None
    ) -> dict[str, tuple[Any, Floats]]:
        rule = "be a list of tuples (X, y)"
        if eval_set is not None and not isinstance(eval_set, Iterable):
            raise refusal("eval_set", rule, got=type(eval_set).__name__)
        several = list(eval_set or ())
        sets = {}
        for number, entry in enumerate(several, 1):
            if not isinstance(entry, (tuple, list)) or len(entry) != 2:
                raise refusal("eval_set", rule, got=f"{type(entry).__name__} as an entry")
            features, y = self._checked(*entry, reset=False)
            name = "valid" if len(several) == 1 else f"valid_{number}"
            sets[name] = features, self._targets_of(y)
        return sets

    def _checked(self, X: Any, *y: Any, reset: bool) -> Any:
        """Features, and labels if there are any, by scikit-learn's rules."""
        options = {"y_numeric": isinstance(self, RegressorMixin)} if y else {}
        return validate_data(
            self, X, *y, reset=reset, accept_sparse="csr", dtype=np.float32,
            ensure_all_finite="allow-nan", **options,
        )  # fmt: skip

    def _scores(self, X: Any) -> Floats:
        model: Model = self._fitted()
        return model.predict(self._checked(X, reset=False), n_jobs=self.n_jobs)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """A fitted estimator from a model file, with the parameters it was trained with."""
        model = Model.load(path)
        objective = Parameters.from_json(model.parameters).make_objective()
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
        return cls._with_model(model)

    @staticmethod
    def _value_of(parameters: Any, name: str) -> Any:
        return getattr(parameters.make_objective() if name in OF_OBJECTIVE else parameters, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class MARTRegressor(RegressorMixin, RegressorKeywords, _Pointwise):  # type: ignore[misc]
    """Regression by gradient-boosted trees: squared error, the trees of `Ranker`.

    The parameters are those of `rankgrove.boosting.parameters.Parameters` that do not belong to
    rankings, by name, with these defaults of their own: n_estimators=100, l2=5. And:

    Parameters
    ----------
    n_jobs
        Threads; None for all CPUs. The model has the same bits for any number.
    verbose
        Whether `fit` shows its progress: as text on stderr, in a notebook as a curve that grows.

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
    _loss_name = SQUARED_ERROR
    _is_centred = True

    def predict(self, X: Any) -> Floats:
        """The predicted value of each row."""
        return self._scores(X)

    def _targets_of(self, y: NDArray[Any]) -> Floats:
        return y.astype(np.float64)

    def _loss(self, targets: Floats, scores: Floats) -> float:
        return float(np.mean((targets - scores) ** 2))


class MARTClassifier(ClassifierMixin, ClassifierKeywords, _Pointwise):  # type: ignore[misc]
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
        Whether `fit` shows its progress: as text on stderr, in a notebook as a curve that grows.

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
    _loss_name = LOG_LOSS

    def _look_at(self, labels: NDArray[Any]) -> dict[str, Any]:
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind.startswith("continuous"):
            raise DataError(
                f"y must be classes. Unknown label type: {kind}. Use MARTRegressor for numbers."
            )
        self.classes_ = classes = np.unique(labels)
        if kind != "binary":
            raise DataError(
                f"Only binary classification is supported. The type of the target is {kind}. Got "
                f"{len(classes)} classes: train one against the rest with scikit-learn's "
                f"OneVsRestClassifier."
            )
        if len(classes) == 1:
            raise DataError(f"y must have two classes. Got one class only, {classes[0]!r}.")
        return _classes_as_json(classes)

    def decision_function(self, X: Any) -> Floats:
        """The score of each row: above 0 where the second class is more likely."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Floats:
        """The chance of each class, one row per row of X."""
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
        return float(_logistic(Parameters.from_json(self._fitted().parameters)).sigma)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, with its classes, to a file; they must be text, numbers or bools."""
        if _CLASSES not in self._fitted().notes:
            raise DataError(
                f"classes must be text, whole numbers or bools to be saved. Got "
                f"{self.classes_.dtype}: give such as y, or pickle the classifier."
            )
        super().save(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """A fitted classifier from a model file, with the parameters it was trained with."""
        classifier = super().load(path)
        noted = classifier.model_.notes
        # A model that `Ranker` has trained knows 0 and 1.
        classifier.classes_ = np.array(noted.get(_CLASSES, [0, 1]), dtype=noted.get(_CLASSES_TYPE))
        return classifier

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


def _classes_as_json(classes: NDArray[Any]) -> dict[str, Any]:
    """The classes for a file, or nothing where it could not give them back."""
    kept = classes.tolist()
    if classes.dtype.kind not in "biufUO" or not all(
        isinstance(v, (str, int, float)) for v in kept
    ):
        return {}
    dtype = "object" if classes.dtype.kind == "O" else classes.dtype.str
    return {_CLASSES: kept, _CLASSES_TYPE: dtype}

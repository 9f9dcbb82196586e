"""What all estimators share: parameters by name; what rankers share: `fit`, `score` and files."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from rankgrove.data.dataset import default_feature_names
from rankgrove.data.documents import Documents
from rankgrove.data.matrix import as_dataset, validation_sets
from rankgrove.data.preferences import Preferences
from rankgrove.data.queries import SplitQueries
from rankgrove.errors import DataError, check_names
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.model.forces import ForceField
from rankgrove.model.model import Model
from rankgrove.pictures import html
from rankgrove.training.base import BaseModel
from rankgrove.training.checkpoints import check_can_resume, gather_callbacks
from rankgrove.training.run import Callback, Run
from rankgrove.training.trainer import TREES, Unit


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Parameters by name around a model: what is the same for rankings and single rows."""

    _parameters_type: ClassVar[type]

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; one that does not exist is refused with the nearest one."""
        self._refuse(params)
        super().set_params(**params)
        return self

    @classmethod
    def _refuse(cls, names: Iterable[str]) -> None:
        check_names(f"a parameter of {cls.__name__}", names, cls._get_param_names())

    def parameters(self) -> Any:
        """The checked parameters of training."""
        chosen = {
            field.name: getattr(self, field.name)
            for field in fields(self._parameters_type)
            if hasattr(self, field.name)
        }
        return self._parameters_type(**{**self._held(), **chosen})

    def _held(self) -> dict[str, Any]:
        """The parameters of training that the estimator's own name decides."""
        return {}

    def _keep(self, model: Any) -> None:
        """Become a fitted estimator with this model."""
        self.model_ = model
        self.history_ = model.history
        self.best_iteration_ = model.n_kept_steps
        self.n_features_in_ = model.n_features
        self.__dict__.pop("feature_names_in_", None)
        if model.feature_names != default_feature_names(model.n_features):
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)

    @classmethod
    def _with_model(cls, model: Any, **more: Any) -> Self:
        """A fitted estimator with this model and the parameters it was trained with."""
        parameters = cls._parameters_type.from_json(model.parameters)  # type: ignore[attr-defined]
        names = [name for name in cls._get_param_names() if hasattr(parameters, name)]
        estimator = cls(**{name: cls._value_of(parameters, name) for name in names}, **more)
        estimator._keep(model)
        return estimator

    @staticmethod
    def _value_of(parameters: Any, name: str) -> Any:
        """What a parameter is after loading."""
        return getattr(parameters, name)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""
        self._fitted().save(path)

    def _fitted(self) -> Any:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"this {type(self).__name__} must be fitted before it can be used. Call fit first."
            )
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _repr_html_inner(self) -> str:
        """What a notebook shows: the model, or scikit-learn's diagram where there is none yet."""
        if not hasattr(self, "model_"):
            diagram: str = super()._repr_html_inner()
            return diagram
        return f"{html.preformatted(repr(self))}\n{self.model_._repr_html_()}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        # scikit-learn says there whether it shows more than text: `set_config(display=...)`.
        content: dict[str, Any] = super()._repr_mimebundle_(**options)
        if "text/html" in content:
            content["text/html"] = self._repr_html_inner()
        return content

    if TYPE_CHECKING:
        # Parameters are attributes, as scikit-learn has them.
        def __getattr__(self, name: str) -> Any: ...


class TreeEstimator(Estimator):
    """An estimator whose model is of trees."""

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each feature in the gain of all splits."""
        gains: NDArray[np.float64] = self._fitted().importance("gain")
        total = gains.sum()
        return gains / total if total > 0 else gains


class RankingEstimator(Estimator):
    """A ranker of any kind: a subclass says how a run of training starts."""

    _unit: ClassVar[Unit] = TREES

    @abstractmethod
    def _start(
        self, train: Documents, valid: Mapping[str, Documents], parameters: Any, **options: Any
    ) -> Run:
        """A run of training that has done nothing yet."""

    @abstractmethod
    def _warn(self, run: Run) -> None:
        """Warn that nothing was learned."""

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
        valid: Documents | Mapping[str, Documents] | Iterable[Documents] | None = None,
        eval_set: Iterable[tuple[Any, ...]] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 50,
        resume: str | PathLike[str] | Model | None = None,
        base_model: BaseModel | None = None,
        preferences: Preferences | Iterable[Sequence[Any]] | None = None,
        document_weights: ArrayLike | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X, y
            A Dataset alone, or features and labels. A data frame may have its query ids in a
            column `qid`, and categories in columns of strings that `categorical` names, or of a
            categorical type.
        qid, group
            The query of each row, as XGBoost takes it, or the rows of each query, as LightGBM
            does; one of them unless X brings its queries.
        sample_weight
            One per query, or one per row that is the same within each query.
        base_scores
            What an earlier model gave each document: the new one is added on top.
        split_queries
            What to do when a query's rows are not together: "error", or "group" them.
        valid, eval_set
            Validation sets: a Dataset, several, or a mapping of names to them; or, as in XGBoost,
            tuples (X, y, qid).
        callbacks
            Each is called after every tree or epoch with the `Run`; training stops if one returns
            True.
        checkpoint, checkpoint_every
            A file to which the model so far is written every so many trees. Networks have none.
        resume
            A checkpoint, or a model of trees, to go on from: the result has the same bits as a run
            that was never interrupted.
        base_model
            What to start from, with any parameters: a `Model` of trees, its file or an estimator
            fitted with one, which the new model then has too; or a function from features to
            scores, or what has one as `predict`, as a network: the new model then needs its scores
            as `base_scores`.
        preferences
            Pairs (better, worse), (better, worse, probability) or (better, worse, probability,
            weight) of rows to train by in place of labels, which may be left out then; for
            networks, `rankmart` and `lambdamart`. They may contradict each other.
        document_weights
            One per row: how much its part of the cost counts. A pair counts the product of the two.
            So it does in `pair_accuracy` of a validation set; other metrics do not count them.

        A warning says so where nothing can be learned: labels are equal in every query, or trees
        find no split from the start. Every document then has the same score, or the one that an
        untrained network gives.

        Ctrl-C ends training: `model_` then has the trees or whole epochs so far, and
        KeyboardInterrupt goes on to the caller.
        """
        parameters = self.parameters()
        check_can_resume(self._unit, checkpoint=checkpoint, resume=resume)
        called = gather_callbacks(callbacks, checkpoint, checkpoint_every)
        categorical = getattr(parameters, "categorical", None)
        train = as_dataset(
            X, _labels_of(X, y, preferences), qid=qid, group=group, weights=sample_weight,
            base_scores=base_scores, split_queries=split_queries,
            document_weights=document_weights, categorical=categorical,
        )  # fmt: skip
        options = {} if resume is None else {"resume": resume}
        run = self._start(
            train,
            validation_sets(valid, eval_set, categorical),
            parameters,
            base_model=base_model._fitted() if isinstance(base_model, Estimator) else base_model,
            preferences=_pairs_of(train, preferences, split_queries),
            **options,
        )
        run.run(called, verbose=self.verbose)
        self._keep(run.make_model())
        if run.interrupted:
            raise KeyboardInterrupt
        if not run.has_learned:
            self._warn(run)
        if run.problem:
            warnings.warn(run.problem, stacklevel=2)
        return self

    def predict(self, X: Any, *, base_scores: Any = None) -> Any:
        """The score of each document; higher is better. See `predict` of the model."""
        return self._fitted().predict(X, base_scores=base_scores, n_jobs=self.n_jobs)

    def forces(self, data: Documents, tree: int | None = None, objective: Any = None) -> ForceField:
        """What an objective pushes each document by: see `ScoringModel.forces`."""
        found: ForceField = self._fitted().forces(data, tree, objective, n_jobs=self.n_jobs)
        return found

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
            X, y, qid=qid, group=group, weights=sample_weight, base_scores=base_scores,
            categorical=model.schema.levels_by_name,
        )  # fmt: skip
        metric = self.parameters().metrics()[0]
        scores = model.predict(data, n_jobs=self.n_jobs)
        return float(measure_dataset(data, scores, metric, n_jobs=self.n_jobs)[str(metric)])


def _labels_of(X: Any, y: Any, preferences: Any) -> Any:
    """The labels, which preferences may take the place of."""
    if y is None and preferences is not None and not isinstance(X, Documents):
        return np.zeros(len(X))
    return y


def _pairs_of(train: Documents, preferences: Any, split_queries: str) -> Preferences | None:
    if preferences is not None and split_queries == "group":
        raise DataError(
            "preferences must name rows that stay where they are. Got split_queries='group', "
            "which may move them: sort the data first."
        )
    if preferences is None or isinstance(preferences, Preferences):
        return preferences
    return Preferences.from_rows(train, preferences)

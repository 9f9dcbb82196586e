"""What all estimators share: parameters by name, and of rankers also data, score and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from rankgrove.data.dataset import Dataset, default_feature_names
from rankgrove.data.matrix import as_dataset
from rankgrove.data.preferences import Preferences
from rankgrove.data.queries import SplitQueries
from rankgrove.errors import DataError, unknown_name
from rankgrove.metrics.evaluate import evaluate


class NamedParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters by name; one that does not exist is refused with the nearest one."""

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


class RankingFace(NamedParameters):
    """A ranker around a model: its data, score and file. A subclass has `parameters` and `fit`."""

    def _training_data(
        self,
        X: Any,
        y: ArrayLike | None,
        preferences: Preferences | Iterable[Sequence[Any]] | None,
        *,
        split_queries: SplitQueries,
        **given: Any,
    ) -> tuple[Dataset, Preferences | None]:
        """What `fit` is given, as a data set and pairs of its rows."""
        if y is None and preferences is not None and not isinstance(X, Dataset):
            y = np.zeros(len(X))
        train = as_dataset(X, y, split_queries=split_queries, **given)
        if preferences is not None and split_queries == "group":
            raise DataError(
                "preferences must name rows that stay where they are. Got split_queries='group', "
                "which may move them: sort the data first."
            )
        if preferences is not None and not isinstance(preferences, Preferences):
            preferences = Preferences.from_rows(train, preferences)
        return train, preferences

    def _keep_model(self, model: Any, n_kept: int) -> None:
        """Become a fitted estimator with this model."""
        self.model_ = model
        self.history_ = model.history
        self.best_iteration_ = n_kept
        self.n_features_in_ = model.n_features
        self.__dict__.pop("feature_names_in_", None)
        if model.feature_names != default_feature_names(model.n_features):
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)

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

    def _fitted(self) -> Any:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"this {type(self).__name__} must be fitted before it can be used. Call fit first."
            )
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

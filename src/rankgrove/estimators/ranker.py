"""`Ranker`, a learning-to-rank model by trees. No algorithm here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any, Self

from rankgrove.boosting.memory import codes_text
from rankgrove.data.documents import Documents
from rankgrove.estimators.base import RankingEstimator, TreeEstimator
from rankgrove.estimators.signatures import RankerKeywords
from rankgrove.model.base import load
from rankgrove.model.model import Model
from rankgrove.rules import options_of
from rankgrove.training.members import RECIPE, start_members
from rankgrove.training.progress import make_progress
from rankgrove.training.recipe import Recipe
from rankgrove.training.run import Run
from rankgrove.training.trees import no_split_text, start_trees


class Ranker(RankerKeywords, RankingEstimator, TreeEstimator):
    """A learning-to-rank model by gradient-boosted trees.

    The parameters are those of `rankgrove.boosting.parameters.Parameters`; those of
    `rankgrove.training.recipe.Recipe`, by which several models become one; and:

    Parameters
    ----------
    n_jobs
        Threads; None for all CPUs. The model has the same bits for any number.
    verbose
        Whether `fit` shows its progress: as text on stderr, in a notebook as a curve that grows.

    Attributes
    ----------
    model_
        The trained `Model`: scoring, importance, explanations, files. With networks among its
        members it is a `CombinedModel`.
    history_
        For each validation set, for each metric, its value after each tree, or each member.
    best_iteration_
        The number of trees that the model keeps, besides those of a base model; or of members.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn; the names only where the data had some.

    Examples
    --------
    >>> from rankgrove import Ranker, make_web_search
    >>> train, test = make_web_search(60, 16).split(0.5, 0.5)
    >>> ranker = Ranker(n_estimators=5).fit(train)
    >>> ranker.predict(test).shape == (test.n_documents,)
    True
    """

    def _start(
        self, train: Documents, valid: Mapping[str, Documents], parameters: Any, **options: Any
    ) -> Run:
        recipe = self.recipe()
        if recipe.plan(has_valid=bool(valid)).is_single:
            run = start_trees(train, valid, parameters, n_jobs=self.n_jobs, **options)
        else:
            say = make_progress().say if self.verbose else None
            options |= {"verbose": self.verbose, "say": say}
            run = start_members(train, valid, parameters, recipe, n_jobs=self.n_jobs, **options)
        if text := codes_text(train, valid, parameters):
            warnings.warn(text, stacklevel=3)
        return run

    def recipe(self) -> Recipe:
        """The checked parameters of how several models become one."""
        return Recipe(**{name: getattr(self, name) for name in options_of(Recipe)})

    def _warn(self, run: Run) -> None:
        reason = "labels that differ within queries and features that differ"
        text = no_split_text(run.parameters, run.trainer.train.n_documents, reason)
        warnings.warn(text, stacklevel=3)

    def predict(self, X: Any, *, n_trees: int | None = None, base_scores: Any = None) -> Any:
        """The score of each document; higher is better. See `Model.predict`."""
        return self._fitted().predict(
            X, n_trees=n_trees, base_scores=base_scores, n_jobs=self.n_jobs
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """A fitted Ranker from a model file, with the parameters it was trained with."""
        model = load(path)
        if not model.n_members:
            return cls._with_model(Model.load(path))
        return cls._with_model(model, **model.notes.get(RECIPE, {}))

"""The scikit-learn face: `Ranker`. No algorithm here."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.boosting.loop import Callback
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.matrix import validation_sets
from rankgrove.data.preferences import Preferences
from rankgrove.data.queries import SplitQueries
from rankgrove.estimators.base import RankingFace
from rankgrove.model.model import Model
from rankgrove.training.trees import BaseModel, make_model, no_split_text, train_trees

PARAMETERS = tuple(field.name for field in fields(Parameters))


class Ranker(RankingFace):
    """A learning-to-rank model by gradient-boosted trees.

    The parameters are those of `rankgrove.boosting.parameters.Parameters`, and:

    Parameters
    ----------
    n_jobs
        Threads; None for all CPUs. The model has the same bits for any number.
    verbose
        Whether `fit` shows its progress on stderr.

    Attributes
    ----------
    model_
        The trained `Model`: scoring, importance, explanations, files.
    history_
        For each validation set, for each metric, its value after each tree.
    best_iteration_
        The number of trees that the model keeps, besides those of a base model.
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

    def __init__(self, objective: Any = Parameters.objective, **parameters: Any) -> None:
        self._refuse(parameters)
        self.objective = objective
        for parameter in list(_signature().parameters.values())[2:]:
            setattr(self, parameter.name, parameters.get(parameter.name, parameter.default))

    def parameters(self) -> Parameters:
        """The checked parameters of training."""
        return Parameters.from_names({name: getattr(self, name) for name in PARAMETERS})

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
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 50,
        resume: str | PathLike[str] | Model | None = None,
        base_model: BaseModel | None = None,
        preferences: Preferences | Iterable[Sequence[Any]] | None = None,
    ) -> Ranker:
        """Train.

        Parameters
        ----------
        X, y
            A Dataset alone, or features and labels. A data frame may have its query ids in a
            column `qid`.
        qid, group
            The query of each row, as XGBoost takes it, or the rows of each query, as LightGBM
            does; one of them unless X brings its queries.
        sample_weight
            One a query, or one a row that is the same within each query.
        base_scores
            What an earlier model gave each document: trees are added on top.
        split_queries
            What to do when a query's rows are not together: "error", or "group" them.
        valid, eval_set
            Validation sets: a Dataset, several, or a mapping of names to them; or, as in XGBoost,
            tuples (X, y, qid).
        callbacks
            Each is called after every tree with the `Training`; training stops if one returns
            True.
        checkpoint, checkpoint_every
            A file to which the model so far is written every so many trees.
        resume
            A checkpoint, or a model, to go on from: the result has the same bits as a run that
            was never interrupted.
        base_model
            What to start from, with any parameters: a `Model`, its file or a fitted Ranker, whose
            trees the new model then has too; or a function from features to scores, or what has
            one as `predict`, as a network: the new model then needs its scores as `base_scores`.
        preferences
            Pairs (better, worse) or (better, worse, probability) of rows to train by in place of
            labels, which may be left out then; for `rankmart` and `lambdamart`. They may contradict
            each other.

        Training ends early, with a warning, where no split can be found from the start: labels
        are equal in every query, features are constant, or there are too few documents. Every
        document then has the same score.

        Ctrl-C ends training: `model_` then has the trees so far, and KeyboardInterrupt goes on
        to the caller.
        """
        parameters = self.parameters()
        train, pairs = self._training_data(
            X, y, preferences, qid=qid, group=group, weights=sample_weight,
            base_scores=base_scores, split_queries=split_queries,
        )  # fmt: skip
        if isinstance(base_model, Ranker):
            base_model = base_model._fitted()
        elif not isinstance(base_model, Model):
            # Whatever can predict is a function from features to scores.
            base_model = getattr(base_model, "predict", base_model)
        training = train_trees(
            train, validation_sets(valid, eval_set), parameters, callbacks=callbacks,
            checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume,
            base_model=base_model, preferences=pairs, verbose=self.verbose, n_jobs=self.n_jobs,
        )  # fmt: skip
        self._keep(make_model(training))
        if training.interrupted:
            raise KeyboardInterrupt
        if len(self.model_.ensemble.feature) == 0:
            reason = "labels that differ within queries and features that differ"
            warnings.warn(no_split_text(parameters, train.n_documents, reason), stacklevel=2)
        return self

    def _keep(self, model: Model) -> None:
        self._keep_model(model, model.n_own_trees)

    def predict(self, X: Any, *, n_trees: int | None = None, base_scores: Any = None) -> Any:
        """The score of each document; higher is better. See `Model.predict`."""
        return self._fitted().predict(
            X, n_trees=n_trees, base_scores=base_scores, n_jobs=self.n_jobs
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each feature in the gain of all splits."""
        gains: NDArray[np.float64] = self._fitted().importance("gain")
        total = gains.sum()
        return gains / total if total > 0 else gains

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Ranker:
        """A fitted Ranker from a model file, with the parameters it was trained with."""
        model = Model.load(path)
        parameters = Parameters.from_json(model.parameters)
        ranker = cls(**{name: getattr(parameters, name) for name in PARAMETERS})
        ranker._keep(model)
        return ranker


def _signature() -> inspect.Signature:
    """What an estimator is made with: the parameters of training by name, and two of its own."""
    kinds = inspect.Parameter
    names = {field.name: field.default for field in fields(Parameters)}
    names |= {"n_jobs": None, "verbose": False}
    first = kinds("objective", kinds.POSITIONAL_OR_KEYWORD, default=names.pop("objective"))
    others = [kinds(name, kinds.KEYWORD_ONLY, default=value) for name, value in names.items()]
    return inspect.Signature([kinds("self", kinds.POSITIONAL_OR_KEYWORD), first, *others])


# scikit-learn reads the names of parameters here, and `help` shows them.
Ranker.__init__.__signature__ = _signature()  # type: ignore[attr-defined]

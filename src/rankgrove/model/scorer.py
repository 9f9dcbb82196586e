"""Scoring queries one at a time, as services do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.dicts import are_dicts
from rankgrove.data.matrix import features_of
from rankgrove.data.sparse_features import Features
from rankgrove.errors import refusal

if TYPE_CHECKING:
    from rankgrove.model.base import ScoringModel


class Scorer:
    """A model made ready to score queries one at a time, and single documents.

    What can be prepared and checked ahead is, compiled code is loaded, and each call scores on
    the thread that it comes from, however many documents it has. Any number of threads may call
    at once: they share nothing that changes, and trees are scored without the interpreter lock.
    The scores are those of `predict`, bit for bit, and so are the errors.

    The documents of a query are what `predict` takes, quickest a float32 array, row-major. One
    document is a one-dimensional array, a list of numbers, a dict or a row of a pandas frame, and
    has one score, a float.

    Attributes
    ----------
    model
        The model that it scores with.

    >>> from rankgrove import Ranker, make_web_search
    >>> data = make_web_search(20, 16, mean_documents=8)
    >>> scorer = Ranker(n_estimators=2).fit(data).model_.scorer()
    >>> query = data.features[:8]
    >>> np.array_equal(scorer(query), scorer.model.predict(query))
    True
    >>> scorer(query[0]) == scorer(dict(zip(scorer.feature_names, query[0])))
    True
    """

    def __init__(self, model: ScoringModel, n_trees: int | None = None) -> None:
        if not hasattr(model, "_score"):
            raise refusal(
                "model", "be a model, as `load` gives it and `model_` of an estimator is",
                got=type(model).__name__,
            )  # fmt: skip
        self.model = model
        self._n_trees = n_trees
        nothing_known = np.full((1, model.n_features), np.nan, dtype=np.float32)
        model._score(nothing_known, np.zeros(1), n_trees, 1)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features by name, in the order of the columns of an array."""
        return self.model.feature_names

    def __call__(self, documents: Any, *, base_scores: ArrayLike | None = None) -> Any:
        """The score of each document, or of the only one.

        Parameters
        ----------
        documents
            What to score: see the class.
        base_scores
            What to start from, as for `predict`.
        """
        if _is_one(documents):
            return float(self._score(_as_row(documents), base_scores)[0])
        return self._score(documents, base_scores)

    def matrix(self, documents: Any) -> Features:
        """The features of documents as the model takes them, for `score_matrix`.

        Unlike what is given, categories that are strings are numbers in it, and missing values NaN.
        """
        return features_of(documents, self.feature_names, self.model.schema.levels)

    def score_matrix(self, features: Features) -> NDArray[np.float64]:
        """The scores of a matrix that `matrix` made."""
        return self.model._score(features, None, self._n_trees, 1)

    def contributions_of_matrix(self, features: Features) -> NDArray[np.float64]:
        """How much each feature adds to each score of such a matrix: see `contributions`."""
        return self.model._contributions(features, None, 1)

    def _score(self, documents: Any, base_scores: ArrayLike | None) -> NDArray[np.float64]:
        model = self.model
        return model._score(*model._inputs(documents, base_scores), self._n_trees, 1)

    def __repr__(self) -> str:
        return f"<Scorer of {self.model!r}>"


def _is_one(documents: Any) -> bool:
    """Whether this is one document, not a list of them."""
    if isinstance(documents, (list, tuple)):
        return not are_dicts(documents) and np.ndim(documents[0]) == 0
    return getattr(documents, "ndim", None) == 1 or isinstance(documents, Mapping)


def _as_row(document: Any) -> Any:
    """Its features as `predict` takes those of several."""
    if isinstance(document, (list, tuple, Mapping)):
        return [document]
    if hasattr(document, "tocsr"):
        return document.reshape(1, -1)
    # A row of a pandas frame goes by name.
    by_name = hasattr(document, "to_dict")
    return [document.to_dict()] if by_name else np.asarray(document)[np.newaxis]

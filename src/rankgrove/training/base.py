"""Base models: what training starts from, for trees and networks alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.binned import categories_of
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import with_features, with_numbers
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, refusal
from rankgrove.model.base import load
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.training.validation import features_rule

# A model to add trees to, its file, or anything that gives scores for features.
BaseModel = Model | str | PathLike[str] | Callable[[Any], Any]


def apply_base(
    base_model: Any, train: Documents, valid: Mapping[str, Documents]
) -> tuple[Model | None, Documents, dict[str, Documents]]:
    """The trees to build on; or none, and the data with the scores of anything else.

    Parameters
    ----------
    base_model
        A `Model`, the file of any model, a function from features to scores, or what has one as
        `predict`.
    """
    if base_model is None:
        return None, train, dict(valid)
    base = load(base_model) if isinstance(base_model, (str, PathLike)) else base_model
    if isinstance(base, Model):
        if base.feature_names != train.feature_names:
            rule = features_rule(train, base.feature_names)
            raise DataError(f"the base model must have {rule}")
        if base.schema.needs_base_scores and train.base_scores is None:
            raise DataError(
                "the training data must have base scores, as those of the base model had. Got none."
            )
        return base, train, dict(valid)
    function = getattr(base, "predict", base)
    if not callable(function):
        raise refusal(
            "base_model", "be a model, its file or a function of features",
            got=type(base).__name__,
        )  # fmt: skip
    scored = {name: _with_scores(function, data) for name, data in valid.items()}
    return None, _with_scores(function, train), scored


def _with_scores(function: Callable[[Any], Any], data: Documents) -> Documents:
    """The data with what a function gives for their features as base scores."""
    if data.base_scores is not None:
        raise DataError("base scores must come from the data or from base_model. Got both.")
    features = np.asarray(with_numbers(data, "a base model that is a function").features)
    # A worker may have no row, of which no function needs to know.
    result = function(features) if data.n_documents else np.empty(0)
    try:
        scores: NDArray[np.float64] = np.asarray(result, dtype=np.float64)
        got = f"an array of shape {scores.shape}"
    except (TypeError, ValueError):
        scores, got = np.empty(0), type(result).__name__
    if scores.shape != (data.n_documents,) or not np.isfinite(scores).all():
        raise DataError(
            f"base_model must give one finite score for each of {data.n_documents} documents. Got "
            f"{got}."
        )
    return replace(with_features(data, "a base model"), base_scores=scores)


def check_categories(base: Model, train: Documents, parameters: Parameters) -> None:
    """Refuse a base model that codes categories in another way than trees on these data would."""
    schema = Schema.of_training(train, categories_of(train, parameters))
    if base.schema.named_categories != schema.named_categories:
        raise DataError(
            "the base model must have the categorical features of the training data, with the same "
            "categories. Got others."
        )

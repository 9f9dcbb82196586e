"""The schema of a model: its features by name, and what their values mean to the trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rankgrove.data.documents import Documents
from rankgrove.data.levels import Levels, join_levels, named_categories
from rankgrove.data.sparse_features import Features
from rankgrove.errors import DataError, is_whole_number, refuse_repeats
from rankgrove.trees.binning import CategoryCodes, with_category_codes
from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Ensemble

MOST_CATEGORIES = 32 * SET_WORDS


@dataclass(frozen=True)
class Schema:
    """What a model takes as input.

    Attributes
    ----------
    feature_names
        One per feature, in the order of the columns.
    categories
        For each categorical feature, by its number, its values in the order of their codes, as
        float32 has them: the trees see code 0, 1, 2, … in place of the value.
    levels
        For each feature of categories that are no plain numbers, by its number: these, strings,
        whole numbers or booleans, in rising order. Value k stands for level k, in `categories` too.
    needs_base_scores
        Whether the trees were trained on top of scores that the model does not hold.

    >>> schema = Schema(("bm25", "language"), {1: (49.0, 33.0)})
    >>> schema.encode(np.array([[7.5, 33.0], [0.5, 1.0]], dtype=np.float32)).tolist()
    [[7.5, 1.0], [0.5, nan]]
    """

    feature_names: tuple[str, ...]
    categories: dict[int, tuple[float, ...]] = field(default_factory=dict)
    needs_base_scores: bool = False
    levels: dict[int, Levels] = field(default_factory=dict)

    @classmethod
    def of_training(cls, train: Documents, categories: Mapping[int, Sequence[float]]) -> Schema:
        """The schema of trees on these data; levels that are no categories are left out."""
        named = named_categories(categories, train.levels)
        levels = {feature: join_levels([named.get(feature, ())], "") for feature in train.levels}
        numbered = {
            feature: tuple(float(levels[feature].index(name)) for name in names)
            if feature in levels
            else names
            for feature, names in named.items()
        }
        return cls(train.feature_names, numbered, train.base_scores is not None, levels)

    def __post_init__(self) -> None:
        names = tuple(self.feature_names)
        if odd := [name for name in names if not isinstance(name, str)]:
            raise DataError(f"feature_names must be strings. Got {odd[0]!r}.")
        refuse_repeats("feature_names", names)
        categories = dict(
            _as_categories(feature, values, len(names))
            for feature, values in self.categories.items()
        )
        levels = {
            feature: _as_levels(feature, values, categories, len(names))
            for feature, values in self.levels.items()
        }
        object.__setattr__(self, "levels", dict(sorted(levels.items())))
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "categories", dict(sorted(categories.items())))
        object.__setattr__(self, "needs_base_scores", bool(self.needs_base_scores))

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def levels_by_name(self) -> dict[str, Levels]:
        """The levels of features by the name of the feature."""
        return {self.feature_names[feature]: levels for feature, levels in self.levels.items()}

    @property
    def named_categories(self) -> dict[int, tuple[Any, ...]]:
        """`categories` with levels in place of the values that stand for them."""
        return named_categories(self.categories, self.levels)

    def check_ensemble(self, ensemble: Ensemble) -> None:
        """Refuse trees that do not fit this schema, or are no trees."""
        ensemble.check(self.n_features)
        by_category = np.unique(ensemble.feature[ensemble.category_set != NO_SET])
        strays = [int(feature) for feature in by_category if int(feature) not in self.categories]
        if strays:
            raise DataError(
                f"features that trees split by category must have categories in the schema. "
                f"Got none for {self.feature_names[strays[0]]!r}."
            )

    def encode(self, features: Features) -> Features:
        """The matrix as the trees take it: categories as codes, an unknown one as NaN.

        The matrix itself where no feature is categorical, a copy otherwise.
        """
        return with_category_codes(features, self._category_codes)

    @cached_property
    def _category_codes(self) -> dict[int, CategoryCodes]:
        return {feature: CategoryCodes(values) for feature, values in self.categories.items()}


def _as_categories(feature: Any, values: Any, n_features: int) -> tuple[int, tuple[float, ...]]:
    if not is_whole_number(feature):
        raise DataError(f"categories must be given by feature number. Got {feature!r}.")
    if not 0 <= feature < n_features:
        raise DataError(f"categories must be of one of {n_features} features. Got {feature}.")
    with np.errstate(over="ignore"):
        categories = tuple(float(np.float32(value)) for value in values)
    if not 1 <= len(categories) <= MOST_CATEGORIES:
        raise DataError(
            f"a categorical feature must have 1 to {MOST_CATEGORIES} categories. "
            f"Got {len(categories)} for feature {feature}."
        )
    if not all(math.isfinite(value) for value in categories):
        raise DataError(f"categories must be finite float32 values. Got another for {feature}.")
    if len(set(categories)) != len(categories):
        raise DataError(f"categories must differ as float32. Got one twice for feature {feature}.")
    return int(feature), categories


def _as_levels(feature: Any, values: Any, categories: Mapping[int, Any], n_features: int) -> Levels:
    """Levels that are fit for a schema: each is a category, and each category one of them."""
    levels = tuple(values)
    if feature not in range(n_features):
        raise DataError(f"levels must be of one of {n_features} features. Got {feature!r}.")
    if join_levels([levels], str(feature)) != levels:
        raise DataError(f"levels must differ and rise. Got others for feature {feature}.")
    if sorted(categories.get(feature, ())) != list(range(len(levels))):
        raise DataError(f"levels must be the categories of a feature. Got others for {feature}.")
    return levels

"""XGBoost's models, as `save_model` writes them: JSON, or the same as UBJSON.

A split sends a document left if its value is below the threshold, both float32, and a missing one
by `default_left`. At a split by category those in the set go right, and every other value left.
Leaves and their sum are float32 there, float64 here: routes are the same, and sums differ by what
float32 rounds off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.importing.foreign import ForeignModel, ForeignTree
from rankgrove.importing.json_values import (
    as_numbers,
    as_object,
    list_in,
    numbers_in,
    object_in,
    text_in,
    whole_in,
)
from rankgrove.model.files import AGAIN, refuse

_LEAF = -1


def _logit(mean: float) -> float:
    return -math.log(1.0 / mean - 1.0)


# What turns base_score, which is a prediction, into a score; it stays as it is for all others.
_LINKS: dict[str, Callable[[float], float]] = {
    "binary:logistic": _logit, "reg:logistic": _logit,
    "count:poisson": math.log, "reg:gamma": math.log, "reg:tweedie": math.log,
    "survival:cox": math.log, "survival:aft": math.log,
}  # fmt: skip
_WITHOUT_LINK = {
    "rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror", "reg:linear",
    "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror",
    "binary:logitraw", "binary:hinge",
}  # fmt: skip


def read_xgboost(document: dict[str, Any], n_rounds: int | None = None) -> ForeignModel:
    """The model of a document that XGBoost's `save_model` wrote."""
    learner = object_in(document, "learner")
    shape = object_in(learner, "learner_model_param")
    n_features = whole_in(shape, "num_feature")
    if whole_in(shape, "num_class", 0) > 1 or whole_in(shape, "num_target", 1) != 1:
        refuse(
            "must give one score per document. Got several: a model of several classes or targets "
            "does not rank."
        )
    objective = text_in(object_in(learner, "objective"), "name")
    booster, weights = _booster(object_in(learner, "gradient_booster"))
    names = [str(name) for name in list_in(learner, "feature_names")]
    types = [str(name) for name in list_in(learner, "feature_types")]
    if any(given and len(given) != n_features for given in (names, types)):
        refuse(f"must have names and types of its {n_features} features. Got others. {AGAIN}")
    described = list_in(booster, "trees")
    trees = [
        _tree(as_object(tree, "trees"), number, _weight(weights, number))
        for number, tree in enumerate(described[: _n_trees(booster, n_rounds, len(described))])
    ]
    version = ".".join(str(part) for part in list_in(document, "version"))
    return ForeignModel(
        "xgboost", version, objective, trees, n_features, names,
        category_values=_category_values(booster, types, names),
        sets_go_right=True,
        constant=_constant(text_in(shape, "base_score"), objective),
        notes=_best_round(learner),
    )  # fmt: skip


def _booster(told: dict[str, Any]) -> tuple[dict[str, Any], NDArray[np.float64] | None]:
    """The trees, and what each is multiplied by where training dropped some."""
    name = text_in(told, "name")
    if name == "dart":
        weights: NDArray[np.float64] = numbers_in(told, "weight_drop", np.float64)
        return object_in(object_in(told, "gbtree"), "model"), weights
    if name != "gbtree":
        refuse(f"must be of trees, gbtree or dart. Got the booster {name[:20]!r}.")
    return object_in(told, "model"), None


def _weight(weights: NDArray[np.float64] | None, number: int) -> float:
    if weights is None:
        return 1.0
    if number >= len(weights) or not math.isfinite(weights[number]):
        refuse(f"must have a finite number in weight_drop for each tree. Got others. {AGAIN}")
    return float(np.float32(weights[number]))


def _n_trees(booster: dict[str, Any], n_rounds: int | None, n_trees: int) -> int:
    """The trees of the first rounds: a round has several in a boosted random forest."""
    if n_rounds is None:
        return n_trees
    sizes = object_in(booster, "gbtree_model_param")
    return min(n_trees, n_rounds * max(1, whole_in(sizes, "num_parallel_tree", 1)))


def _tree(told: dict[str, Any], number: int, weight: float) -> ForeignTree:
    left: NDArray[np.int64] = numbers_in(told, "left_children", np.int64)
    n_nodes = len(left)
    if whole_in(object_in(told, "tree_param"), "size_leaf_vector", 1) > 1:
        refuse(f"must give one score per document. Got leaves of several in tree {number}.")
    right: NDArray[np.int64] = numbers_in(told, "right_children", np.int64, n_nodes)
    conditions: NDArray[np.float32] = numbers_in(told, "split_conditions", np.float32, n_nodes)
    is_leaf = left == _LEAF
    wrong = is_leaf & (right != _LEAF)
    for child in (left, right):
        wrong |= ~is_leaf & ((child < 0) | (child >= n_nodes))
    if not n_nodes or wrong.any() or np.isnan(conditions).any():
        refuse(f"must have sound trees. Got another for tree {number}. {AGAIN}")
    if not np.isfinite(conditions[is_leaf]).all():
        refuse(f"must have leaves with finite values. Got others in tree {number}. {AGAIN}")
    places = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    splits, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    with np.errstate(over="ignore"):
        below = np.nextafter(conditions, np.float32(-np.inf))
    cover = _as_written(told, "sum_hessian", n_nodes)
    if places[0] < 0:
        return ForeignTree.of_one_leaf(weight * float(conditions[0]), float(cover[0]))
    return ForeignTree(
        numbers_in(told, "split_indices", np.int64, n_nodes)[splits], below[splits],
        numbers_in(told, "default_left", np.int64, n_nodes)[splits] != 0,
        places[left[splits]], places[right[splits]],
        _as_written(told, "loss_changes", n_nodes)[splits],
        weight * conditions[leaves].astype(np.float64), cover[leaves],
        _sets(told, number, is_leaf, places),
    )  # fmt: skip


def _as_written(told: dict[str, Any], name: str, length: int) -> NDArray[np.float64]:
    """Numbers of float32, which JSON has to fewer digits than UBJSON."""
    found: NDArray[np.float64] = numbers_in(told, name, np.float32, length).astype(np.float64)
    return found


def _sets(
    told: dict[str, Any], number: int, is_leaf: NDArray[np.bool_], places: NDArray[np.int64]
) -> dict[int, frozenset[int]]:
    """The categories that go right at each split by category."""
    kinds = numbers_in(told, "split_type", np.int64, len(places)) if "split_type" in told else None
    if kinds is None or not np.any(kinds[~is_leaf]):
        return {}
    nodes = numbers_in(told, "categories_nodes", np.int64)
    starts = numbers_in(told, "categories_segments", np.int64, len(nodes))
    sizes = numbers_in(told, "categories_sizes", np.int64, len(nodes))
    values = numbers_in(told, "categories", np.int64)
    by_category = np.flatnonzero((kinds != 0) & ~is_leaf)
    unsound = (
        np.any((starts < 0) | (sizes < 0) | (starts + sizes > len(values))) or np.any(values < 0)
        or sorted(nodes.tolist()) != by_category.tolist()
    )  # fmt: skip
    if unsound:
        refuse(f"must have sound sets of categories. Got others in tree {number}. {AGAIN}")
    spans = zip(nodes.tolist(), starts.tolist(), (starts + sizes).tolist(), strict=True)
    return {int(places[node]): frozenset(values[s:e].tolist()) for node, s, e in spans}


def _category_values(
    booster: dict[str, Any], types: list[str], names: list[str]
) -> dict[int, list[Any] | None]:
    """For each categorical feature its categories in the frame that training had, if it had one."""
    values: dict[int, list[Any] | None] = {f: None for f, kind in enumerate(types) if kind == "c"}
    if "cats" not in booster:
        return values
    encodings = list_in(object_in(booster, "cats"), "enc")
    for feature, encoding in enumerate(encodings):
        found = _decoded(as_object(encoding, "enc"), names[feature] if names else str(feature + 1))
        if found and feature in values:
            values[feature] = found
    return values


def _decoded(encoding: dict[str, Any], name: str) -> list[Any]:
    """The categories of a feature: whole numbers, or strings as bytes one after the other."""
    values = list_in(encoding, "values")
    if "offsets" not in encoding:
        whole: list[Any] = as_numbers(values, "enc", np.int64).tolist()
        return whole
    text = as_numbers(values, "enc", np.int64)
    bounds = numbers_in(encoding, "offsets", np.int64)
    if np.any(np.diff(bounds) < 0) or np.any((bounds < 0) | (bounds > len(text))):
        refuse(f"must have sound categories of {name!r}. Got others. {AGAIN}")
    # XGBoost counts the characters of a string where it should count bytes.
    if np.any((text < 0) | (text > 127)):
        refuse(
            f"must have categories in ASCII, as XGBoost does not keep others whole. Got others for "
            f"feature {name!r}: rename its categories, or train it with whole numbers."
        )
    letters = bytes(text.tolist()).decode("ascii")
    return [letters[s:e] for s, e in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def _constant(told: str, objective: str) -> float:
    """The score that every document starts from, a float32."""
    if objective not in _LINKS and objective not in _WITHOUT_LINK:
        known = ", ".join(sorted([*_LINKS, *_WITHOUT_LINK]))
        refuse(
            f"must be trained for one of {known}, so that it is known what its base_score means. "
            f"Got {objective[:40]!r}."
        )
    try:
        # Since version 3.1 it is a list of one.
        base = float(told.removeprefix("[").removesuffix("]"))
        score = float(np.float32(_LINKS.get(objective, float)(base)))
    except (ValueError, ZeroDivisionError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        refuse(f"must have a base_score that is one number. Got {told[:40]!r}. {AGAIN}")
    return score


def _best_round(learner: dict[str, Any]) -> dict[str, Any]:
    attributes = learner.get("attributes")
    best = attributes.get("best_iteration") if isinstance(attributes, dict) else None
    is_number = isinstance(best, str) and best.isascii() and best.isdecimal() and len(best) < 10
    return {"best_rounds": int(str(best)) + 1} if is_number else {}

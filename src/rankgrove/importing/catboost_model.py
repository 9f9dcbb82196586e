"""CatBoost's JSON models, of symmetric trees and of any other shape.

A split sends a document right if its value is above the border, both float32. Where missing values
go is told by feature. The score is the sum of the leaves, times a scale, plus a bias. Splits by
category, text and embedding are refused: a model keeps these as hashes and as statistics of the
training data, not as categories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.importing.foreign import ForeignModel, ForeignTree
from rankgrove.importing.json_values import (
    as_numbers,
    as_object,
    list_in,
    object_in,
    whole_in,
)
from rankgrove.model.files import AGAIN, refuse

# Where missing values go: NaN is above no border, so that what is left as it is goes left.
_MISSING_LEFT = {"AsIs": True, "AsFalse": True, "AsTrue": False}
_DEEPEST = 16


def read_catboost(document: dict[str, Any], n_rounds: int | None = None) -> ForeignModel:
    """The model of a document that CatBoost's `save_model(format="json")` wrote."""
    floats, names = _features(object_in(document, "features_info"))
    scale, bias = _scale_and_bias(list_in(document, "scale_and_bias", 2))
    symmetric = "oblivious_trees" in document
    told = list_in(document, "oblivious_trees" if symmetric else "trees")
    told = told if n_rounds is None else told[:n_rounds]
    read = _symmetric if symmetric else _asymmetric
    trees = [
        read(as_object(tree, "trees"), number, floats, scale) for number, tree in enumerate(told)
    ]
    info = document.get("model_info")
    version, objective = _described(info if isinstance(info, dict) else {})
    return ForeignModel(
        "catboost", version, objective, trees, len(names),
        [] if all(name in ("", str(place)) for place, name in enumerate(names)) else names,
        constant=bias,
    )  # fmt: skip


class _Floats:
    """The features by number among those of floats: their columns, and where NaN goes."""

    def __init__(self, columns: dict[int, int], missing_left: dict[int, bool]) -> None:
        self.columns, self.missing_left = columns, missing_left


def _features(info: dict[str, Any]) -> tuple[_Floats, list[str]]:
    """The features of floats, and the names of all columns."""
    columns: dict[int, int] = {}
    missing_left: dict[int, bool] = {}
    names: dict[int, str] = {}
    for kind in ("float_features", "categorical_features", "text_features", "embedding_features"):
        for entry in list_in(info, kind) if kind in info else []:
            feature = as_object(entry, kind)
            column = whole_in(feature, "flat_feature_index")
            if column in names or column < 0:
                refuse(f"must have each feature once. Got column {column} again. {AGAIN}")
            names[column] = str(feature.get("feature_id") or "")
            if kind == "float_features":
                treatment = feature.get("nan_value_treatment", "AsIs")
                if not isinstance(treatment, str) or treatment not in _MISSING_LEFT:
                    refuse(f"must have a known nan_value_treatment. Got {treatment!r}. {AGAIN}")
                number = whole_in(feature, "feature_index")
                columns[number] = column
                missing_left[number] = _MISSING_LEFT[treatment]
    # A column that the model does not use may be left out.
    n_columns = max(names, default=-1) + 1
    if n_columns > len(names) + (1 << 20):
        refuse(f"must have columns that are numbered from 0. Got number {n_columns - 1}. {AGAIN}")
    return _Floats(columns, missing_left), _complete(names, n_columns)


def _complete(names: dict[int, str], n_columns: int) -> list[str]:
    """A name for each column: by its place where it has none."""
    return [names.get(column) or str(column) for column in range(n_columns)]


def _scale_and_bias(told: list[Any]) -> tuple[float, float]:
    bias = told[1] if isinstance(told[1], list) else [told[1]]
    if len(bias) > 1:
        refuse(
            f"must give one score per document. Got {len(bias)}: a model of several classes or "
            f"targets does not rank."
        )
    numbers = as_numbers([told[0], *bias], "scale_and_bias", np.float64)
    if not np.isfinite(numbers).all():
        refuse(f"must have a finite scale and bias. Got others. {AGAIN}")
    return float(numbers[0]), float(numbers[1]) if bias else 0.0


def _split(told: Any, floats: _Floats, number: int) -> tuple[int, np.float32, bool]:
    """Column, border and where NaN goes."""
    split = as_object(told, "splits")
    kind = split.get("split_type", "FloatFeature")
    if kind != "FloatFeature":
        refuse(
            f"must split by numbers only. Got a split of type {str(kind)[:30]!r} in tree {number}"
            f"{_category_place(split)}, whose categories a CatBoost model does not keep: encode "
            f"the feature as numbers before you train."
        )
    feature = whole_in(split, "float_feature_index")
    if feature not in floats.columns:
        refuse(f"must split by its features. Got number {feature} in tree {number}. {AGAIN}")
    border = as_numbers([split.get("border")], "border", np.float32)[0]
    if np.isnan(border):
        refuse(f"must have borders that are numbers. Got another in tree {number}. {AGAIN}")
    return floats.columns[feature], border, floats.missing_left[feature]


def _category_place(split: dict[str, Any]) -> str:
    feature = split.get("cat_feature_index")
    return f" by categorical feature {feature}" if isinstance(feature, int) else ""


def _symmetric(told: dict[str, Any], number: int, floats: _Floats, scale: float) -> ForeignTree:
    """A tree of one question per level: answer i, from the end, is bit i of the leaf's number."""
    splits = list_in(told, "splits") if told.get("splits") is not None else []
    depth = len(splits)
    if depth > _DEEPEST:
        refuse(f"must have trees of at most {_DEEPEST} levels. Got {depth} in tree {number}.")
    values = _leaf_values(list_in(told, "leaf_values"), number, scale, 1 << depth)
    weights = told.get("leaf_weights")
    cover = (
        as_numbers(weights, "leaf_weights", np.float64)
        if isinstance(weights, list) and len(weights) == len(values)
        else np.zeros(len(values))
    )
    if depth == 0:
        return ForeignTree.of_one_leaf(float(values[0]), float(cover[0]))
    # The last question is asked first, so that leaves stand in the order of their numbers.
    asked = [_split(split, floats, number) for split in reversed(splits)]
    n_splits = (1 << depth) - 1
    own = np.arange(n_splits)
    level = np.frexp(own + 1)[1] - 1
    inner = n_splits // 2
    left = np.where(own < inner, 2 * own + 1, ~(2 * (own - inner)))
    return ForeignTree(
        np.array([column for column, _, _ in asked])[level],
        np.array([border for _, border, _ in asked], np.float32)[level],
        np.array([missing for _, _, missing in asked])[level],
        left, np.where(own < inner, left + 1, left - 1),
        np.zeros(n_splits), values, cover,
    )  # fmt: skip


def _leaf_values(told: list[Any], number: int, scale: float, n_leaves: int) -> NDArray[np.float64]:
    values: NDArray[np.float64] = as_numbers(told, "leaf_values", np.float64) * scale
    if n_leaves and len(values) > n_leaves and len(values) % n_leaves == 0:
        refuse(
            f"must give one score per document. Got leaves of {len(values) // n_leaves} values in "
            f"tree {number}: a model of several classes or targets does not rank."
        )
    if len(values) != n_leaves or not np.isfinite(values).all():
        refuse(f"must have {n_leaves} finite leaves in tree {number}. Got others. {AGAIN}")
    return values


def _asymmetric(told: dict[str, Any], number: int, floats: _Floats, scale: float) -> ForeignTree:
    """A tree of any shape, nested: a document above the border goes right."""
    splits: list[tuple[int, np.float32, bool]] = []
    children: list[list[int]] = []
    values: list[Any] = []
    covers: list[Any] = []
    # Each with the split that it hangs on and the side there.
    waiting: list[tuple[dict[str, Any], int, int]] = [(told, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        if "split" in node:
            place = len(splits)
            splits.append(_split(node["split"], floats, number))
            children.append([0, 0])
            waiting.append((object_in(node, "right"), place, 1))
            waiting.append((object_in(node, "left"), place, 0))
        else:
            place = ~len(values)
            values.append(_only(node.get("value"), number))
            covers.append(_only(node.get("weight", 0.0), number))
        if parent >= 0:
            children[parent][side] = place
    leaves = _leaf_values(values, number, scale, len(values))
    cover = as_numbers(covers, "weight", np.float64)
    if not splits:
        return ForeignTree.of_one_leaf(float(leaves[0]), float(cover[0]))
    sides = np.array(children)
    return ForeignTree(
        np.array([column for column, _, _ in splits]),
        np.array([border for _, border, _ in splits], np.float32),
        np.array([missing for _, _, missing in splits]),
        sides[:, 0], sides[:, 1], np.zeros(len(splits)), leaves, cover,
    )  # fmt: skip


def _only(value: Any, number: int) -> Any:
    """A number that may stand in a list of one."""
    if not isinstance(value, list):
        return value
    if len(value) != 1:
        refuse(f"must give one score per document. Got leaves of {len(value)} in tree {number}.")
    return value[0]


def _described(info: dict[str, Any]) -> tuple[str, str]:
    """Version and loss function, where the file tells them."""
    version, parameters = info.get("catboost_version_info"), info.get("params")
    loss = parameters.get("loss_function") if isinstance(parameters, dict) else None
    objective = loss.get("type") if isinstance(loss, dict) else None
    lines = version.splitlines() if isinstance(version, str) else []
    branch = next((line for line in lines if "Branch" in line), "")
    return branch.rpartition("/")[2].strip() or "unknown", str(objective or "unknown")

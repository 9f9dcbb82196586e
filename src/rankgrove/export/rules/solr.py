"""Solr's MultipleAdditiveTreesModel: the body of `PUT /solr/<collection>/schema/model-store`.

As in Solr 9.2 and newer, which know missing values. Numbers are float32, and Solr adds a slack of
1e-6 to each threshold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.rules.walking import Rows, Step, float32_of, walk

NAME = "Solr 9.2"

_CLASS = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
_SLACK = np.float32(1e-6)


def leaf_values(
    text: str, features: NDArray[np.float32], names: Sequence[str]
) -> Iterator[NDArray[np.float32]]:
    """The value of each document's leaf times the weight of its tree, tree by tree."""
    trees, missing_is_zero, known = _parsed(text)
    column = {name: features[:, number] for number, name in enumerate(names)}

    def step(node: dict[str, Any], rows: Rows) -> Step:
        if "feature" not in node:
            return float(float32_of(_number(node["value"])))
        if node["feature"] not in known:
            # The tree then gives 0, and Solr says nothing.
            return 0.0
        values = column[node["feature"]][rows]
        missing = np.isnan(values)
        if missing_is_zero:
            values = np.where(missing, np.float32(0), values)
        with np.errstate(over="ignore"):
            threshold = float32_of(_number(node["threshold"])) + _SLACK
        goes_left = values <= threshold
        if not missing_is_zero:
            if missing.any() and node["missing"] not in ("left", "right"):
                raise ValueError(f"a split with missing {node['missing']!r}")
            goes_left[missing] = node["missing"] == "left"
        return node["left"], node["right"], goes_left

    for tree in trees:
        yield float32_of(_number(tree["weight"])) * walk(
            tree["root"], len(features), step, np.float32
        )


def score(text: str, features: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float64]:
    """The score of each document: a float32 sum."""
    total = np.zeros(len(features), dtype=np.float32)
    for values in leaf_values(text, features, names):
        total += values
    return total.astype(np.float64)


def _parsed(text: str) -> tuple[list[dict[str, Any]], bool, set[str]]:
    """The trees, whether a missing value is 0, and the features of the model."""
    body = json.loads(text)
    if body["class"] != _CLASS or not body["name"] or not body["store"]:
        raise ValueError(f"a model of class {body['class']!r}")
    params = body["params"]
    missing_is_zero = params.get("isNullSameAsZero", True)
    if not isinstance(missing_is_zero, bool):
        raise ValueError("isNullSameAsZero: argument type mismatch")
    if not params["trees"]:
        raise ValueError("no trees declared for model")
    return params["trees"], missing_is_zero, {feature["name"] for feature in body["features"]}


def _number(value: object) -> str:
    """The text of a number: the setters of nodes take no numbers of JSON."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r}: argument type mismatch")
    return value

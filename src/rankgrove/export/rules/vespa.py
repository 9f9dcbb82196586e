"""Vespa's reader of LightGBM's JSON: a rank expression `lightgbm("model.json")`, as in Vespa 8.

Vespa turns a split by `<=` into the expression `value < threshold`, or, where a missing value goes
left, into `!(value >= threshold)`: a value on the threshold goes right. All is float64.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.rules.walking import Rows, Step, walk

NAME = "Vespa 8"

# Vespa puts these into a sigmoid or an exponential.
_OTHER_OBJECTIVES = ("cross_entropy", "poisson", "gamma", "tweedie")


def leaf_values(
    text: str, features: NDArray[np.float32], names: Sequence[str]
) -> Iterator[NDArray[np.float64]]:
    """The value of each document's leaf, tree by tree."""
    body = json.loads(text)
    if body["objective"].startswith("binary") or body["objective"] in _OTHER_OBJECTIVES:
        raise ValueError(f"objective {body['objective']!r}")
    if body["pandas_categorical"] != [] or not isinstance(body["feature_infos"], dict):
        raise ValueError("categories")
    column = {name: features[:, number].astype(np.float64) for number, name in enumerate(names)}
    columns = [column[name] for name in body["feature_names"]]

    def step(node: dict[str, Any], rows: Rows) -> Step:
        if "leaf_value" in node:
            return float(node["leaf_value"])
        if node["decision_type"] != "<=":
            raise ValueError(f"decision {node['decision_type']!r}")
        values = columns[node["split_feature"]][rows]
        threshold = float(node["threshold"])
        goes_left = ~(values >= threshold) if node["default_left"] else values < threshold
        return node["left_child"], node["right_child"], goes_left

    for tree in body["tree_info"]:
        yield walk(tree["tree_structure"], len(features), step, np.float64)


def score(text: str, features: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float64]:
    """The score of each document: a float64 sum."""
    total = np.zeros(len(features))
    for values in leaf_values(text, features, names):
        total += values
    return total

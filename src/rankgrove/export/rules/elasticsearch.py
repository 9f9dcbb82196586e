"""Elasticsearch's own learning to rank: the body of `PUT _ml/trained_models/<id>`, from 8.15 on.

Values, thresholds, leaves and their sum are float64; the score is rounded to float32 at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.rules.walking import Rows, Step, walk

NAME = "Elasticsearch 8.15"

_COMPARE = {"lt": np.less, "lte": np.less_equal, "gt": np.greater, "gte": np.greater_equal}


def leaf_values(
    text: str, features: NDArray[np.float32], names: Sequence[str]
) -> Iterator[NDArray[np.float64]]:
    """The value of each document's leaf, tree by tree."""
    ensemble = _ensemble(text)
    column = {name: features[:, number].astype(np.float64) for number, name in enumerate(names)}
    for entry in ensemble["trained_models"]:
        tree = entry["tree"]
        nodes, columns = tree["tree_structure"], [column[name] for name in tree["feature_names"]]
        _check(nodes, len(columns))

        def step(
            place: int,
            rows: Rows,
            nodes: list[dict[str, Any]] = nodes,
            columns: list[NDArray[np.float64]] = columns,
        ) -> Step:
            node = nodes[place]
            if "leaf_value" in node:
                return float(node["leaf_value"])
            values = columns[node["split_feature"]][rows]
            goes_left = _COMPARE[node["decision_type"]](values, node["threshold"])
            goes_left[np.isnan(values)] = node["default_left"]
            return node["left_child"], node["right_child"], goes_left

        yield walk(0, len(features), step, np.float64)


def score(text: str, features: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float64]:
    """The score of each document: the float32 nearest to a float64 sum."""
    total = np.zeros(len(features))
    for values in leaf_values(text, features, names):
        total += values
    return total.astype(np.float32).astype(np.float64)


def _ensemble(text: str) -> dict[str, Any]:
    body = json.loads(text)
    if "learning_to_rank" not in body["inference_config"]:
        raise ValueError("no configuration of learning to rank")
    ensemble: dict[str, Any] = body["definition"]["trained_model"]["ensemble"]
    if ensemble["target_type"] != "regression" or ensemble["aggregate_output"] != {
        "weighted_sum": {}
    }:
        raise ValueError("an ensemble that is no sum of regression trees")
    if not ensemble["trained_models"]:
        raise ValueError("no trees")
    return ensemble


def _check(nodes: list[dict[str, Any]], n_features: int) -> None:
    """Refuse nodes out of their place, children that are not there and circles."""
    for place, node in enumerate(nodes):
        if node["node_index"] != place:
            raise ValueError(f"node {node['node_index']} in place {place}")
        if "leaf_value" in node:
            continue
        children = (node["left_child"], node["right_child"])
        if not all(place < child < len(nodes) for child in children):
            raise ValueError(f"node {place} with children {children}")
        if not 0 <= node["split_feature"] < n_features:
            raise ValueError(f"feature {node['split_feature']}")

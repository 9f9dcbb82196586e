"""The Elasticsearch and OpenSearch learning-to-rank plugins, models of type `model/xgboost+json`.

As in ES-LTR 1.5.12 and OpenSearch-LTR 3.2, which send a missing value where its split says; older
ones read it as 0. All is float32; `yes` is taken where the value is less than the condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.rules.walking import Rows, Step, float32_of, walk

NAME = "Elasticsearch-LTR 1.5 and OpenSearch-LTR 3"

_RAW_OBJECTIVES = ("binary:logitraw", "rank:ndcg", "rank:map", "rank:pairwise", "reg:linear")
_SPLIT_FIELDS = {
    "nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children",
}  # fmt: skip
_LEAF_FIELDS = {"nodeid", "leaf"}


def leaf_values(
    text: str, features: NDArray[np.float32], names: Sequence[str]
) -> Iterator[NDArray[np.float32]]:
    """The value of each document's leaf, tree by tree."""
    column = {name: features[:, number] for number, name in enumerate(names)}

    def step(node: dict[str, Any], rows: Rows) -> Step:
        if "leaf" in node:
            return float(float32_of(node["leaf"]))
        values = column[node["split"]][rows]
        goes_yes = float32_of(node["split_condition"]) > values
        goes_yes[np.isnan(values)] = node["missing"] == node["yes"]
        return *node["children"], goes_yes

    for tree in _trees(text, set(names)):
        yield walk(tree, len(features), step, np.float32)


def score(text: str, features: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float64]:
    """The score of each document: a float32 sum."""
    total = np.zeros(len(features), dtype=np.float32)
    for values in leaf_values(text, features, names):
        total += values
    return total.astype(np.float64)


def _trees(text: str, names: set[str]) -> list[dict[str, Any]]:
    body = json.loads(text)["model"]
    model = body["model"]
    if model["type"] != "model/xgboost+json" or not isinstance(model["definition"], str):
        raise ValueError(f"model of type {model['type']!r}")
    # Numbers stay text: they are read as float32, not as float64.
    definition = json.loads(model["definition"], parse_float=str, parse_int=str)
    if isinstance(definition, dict):
        if definition["objective"] not in _RAW_OBJECTIVES:
            raise ValueError(f"objective {definition['objective']!r}")
        definition = definition["splits"]
    if not definition:
        raise ValueError("no trees")
    for tree in definition:
        _check(tree, names)
    return list(definition)


def _check(root: dict[str, Any], names: set[str]) -> None:
    """Refuse what the plugins refuse: they are strict about every field of a node."""
    pending = [root]
    while pending:
        node = pending.pop()
        if "leaf" in node:
            if node.keys() != _LEAF_FIELDS:
                raise ValueError(f"a leaf with the fields {sorted(node)}")
            continue
        if node.keys() != _SPLIT_FIELDS or len(node["children"]) != 2:
            raise ValueError(f"a split with the fields {sorted(node)}")
        numbers = [child["nodeid"] for child in node["children"]]
        if numbers != [node["yes"], node["no"]] or node["missing"] not in numbers:
            raise ValueError(f"a split whose children are {numbers}")
        if node["split"] not in names:
            raise ValueError(f"unknown feature {node['split']!r}")
        pending += node["children"]

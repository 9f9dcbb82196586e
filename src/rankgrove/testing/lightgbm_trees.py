"""A LightGBM booster's trees as an Ensemble, so that both score the very same trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Ensemble, Tree


def ensemble_of(booster: Any) -> Ensemble:
    """The trees of a booster with splits by threshold, trained with zero_as_missing=false."""
    return Ensemble.from_trees(
        [_tree(entry["tree_structure"]) for entry in booster.dump_model()["tree_info"]]
    )


def round_down(threshold: float) -> np.float32:
    """The largest float32 that is at most this: it splits float32 values in the same way."""
    with np.errstate(over="ignore"):
        near = np.float32(threshold)
    return near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf))


def _tree(root: dict[str, Any]) -> Tree:
    splits, leaves = _in_order(root)
    numbers = {id(node): number for number, node in enumerate(splits)}
    numbers |= {id(node): ~number for number, node in enumerate(leaves)}

    def child(side: str) -> np.ndarray:
        return np.array([numbers[id(node[side])] for node in splits], dtype=np.int32)

    return Tree(
        feature=np.array([node["split_feature"] for node in splits], dtype=np.int32),
        threshold=np.array([round_down(node["threshold"]) for node in splits], dtype=np.float32),
        missing_left=np.array([_missing_left(node) for node in splits], dtype=np.uint8),
        left=child("left_child"),
        right=child("right_child"),
        category_set=np.full(len(splits), NO_SET, dtype=np.int32),
        gain=np.array([node["split_gain"] for node in splits], dtype=np.float64),
        value=np.array([node["leaf_value"] for node in leaves], dtype=np.float64),
        count=np.array([node.get("leaf_count", 0) for node in leaves], dtype=np.int64),
        category_sets=np.empty((0, SET_WORDS), dtype=np.uint32),
    )


def _in_order(root: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Splits and leaves, a parent before its children."""
    nodes = list(_walk(root))
    return [n for n in nodes if "left_child" in n], [n for n in nodes if "left_child" not in n]


def _walk(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if "left_child" in node:
            waiting += [node["right_child"], node["left_child"]]


def _missing_left(node: dict[str, Any]) -> bool:
    """Where NaN goes; at a split that saw no missing value LightGBM takes it for 0."""
    if node["decision_type"] != "<=" or node["missing_type"] not in ("None", "NaN"):
        raise ValueError(f"no numeric split: {node['decision_type']}, {node['missing_type']}")
    if node["missing_type"] == "None":
        return bool(node["threshold"] >= 0.0)
    return bool(node["default_left"])

"""XGBoost's JSON: what `Booster.load_model` reads, of XGBoost 2.1 or newer.

XGBoost goes left if `x < t`, all in float32, so each threshold is the next number; leaves and sums
are float32, too. A category that is in the set of a split goes right and any other left, and a
missing value where each split says. The children of a split must stand side by side: nodes are
numbered level by level.
"""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.export.exact import Membership, next_float32
from rankgrove.export.format import (
    FLOAT32_SUMS,
    Consumer,
    Exportable,
    Format,
    Options,
    Rows,
    emulator,
    package_version,
)
from rankgrove.export.lightgbm_text import TRUNCATED, check_categories, truncated_categories
from rankgrove.export.numbers import check_float32_leaves
from rankgrove.export.tables import memberships
from rankgrove.export.walking import Places, reached_leaves
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import Tree

NAME = "xgboost"

# What XGBoost writes for the parent of a root.
_NO_PARENT = 2147483647
_BY_CATEGORY = 1

# Characters that XGBoost has no names of features with.
_ODD_CHARACTERS = re.compile(r"[\[\]<]")

# The largest whole number up to which a float32 has all of them.
_LARGEST_CODE = 2.0**24


# Stands in a document for what is put there as it is.
_TREES = "(trees)"


def _write(source: Exportable, options: Options) -> bytes:
    model = source.only_model(NAME)
    check_categories(model, NAME)
    check_float32_leaves(model, NAME)
    document = {
        "learner": {
            "attributes": {"rankgrove_model": source.checksum, "rankgrove_version": __version__},
            "feature_names": plain_names(model.feature_names),
            "feature_types": feature_types(model),
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {
                        "num_parallel_tree": "1",
                        "num_trees": str(model.n_trees),
                    },
                    "iteration_indptr": list(range(model.n_trees + 1)),
                    "tree_info": [0] * model.n_trees,
                    "trees": _TREES,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                # Versions before 3.1 take the form with brackets for 0.5, without a word.
                "base_score": "0E0",
                "boost_from_average": "0",
                "num_class": "0",
                "num_feature": str(model.n_features),
                "num_target": "1",
            },
            "objective": {"lambdarank_param": {}, "name": "rank:ndcg"},
        },
        "version": [2, 1, 0],
    }
    before, after = json.dumps(document, separators=(",", ":")).split(f'"{_TREES}"')
    trees = ",".join(tree_json(model, number) for number in range(model.n_trees))
    return f"{before}[{trees}]{after}".encode()


def plain_names(names: tuple[str, ...]) -> list[str]:
    """Names without the characters that XGBoost refuses, each once."""
    found: list[str] = []
    for number, name in enumerate(names):
        plain = _ODD_CHARACTERS.sub("_", name)
        while plain in found:
            plain = f"{plain}_{number}"
        found.append(plain)
    return found


def feature_types(model: Model) -> list[str]:
    """For each feature whether it is a number or a category."""
    return ["c" if f in model.schema.categories else "float" for f in range(model.n_features)]


def tree_json(model: Model, number: int) -> str:
    """One tree, as `save_model` writes it, nodes level by level."""
    tree = model.ensemble.tree(number)
    tests = memberships(tree, model.schema)
    nodes, parents, children = _in_levels(tree, tests)
    splits = np.array([node if node >= 0 else 0 for node in nodes])
    is_leaf = np.array([node < 0 for node in nodes])
    leaf_values = np.array([tree.value[~node] if node < 0 else 0.0 for node in nodes])
    if len(tree.feature):
        cuts = np.where(is_leaf, 0, next_float32(tree.threshold[splits]))
        feature = np.where(is_leaf, 0, tree.feature[splits])
        missing_left = np.where(is_leaf, 0, tree.missing_left[splits])
    else:
        cuts, feature, missing_left = (np.zeros(len(nodes), int) for _ in range(3))
    by_category = {
        place: tests[node] for place, node in enumerate(nodes) if node >= 0 and tests[node]
    }
    sets = []
    for place, test in by_category.items():
        cuts[place], missing_left[place] = 0, 1
        categories = model.schema.categories[int(feature[place])]
        sets.append(sorted(int(categories[code]) for code in test.codes) if test else [])
    sizes = [len(of_node) for of_node in sets]
    left = [pair[0] if pair else -1 for pair in children]
    right = [pair[1] if pair else -1 for pair in children]
    values = np.where(is_leaf, leaf_values, 0.0).astype(np.float32)
    nothing = float32_list(np.zeros(len(nodes), np.float32))
    fields = {
        "base_weights": float32_list(values),
        "categories": [value for of_node in sets for value in of_node],
        "categories_nodes": list(by_category),
        "categories_segments": np.cumsum([0, *sizes])[:-1].tolist(),
        "categories_sizes": sizes,
        "default_left": missing_left.tolist(),
        "id": number,
        "left_children": left,
        "loss_changes": nothing,
        "parents": parents,
        "right_children": right,
        "split_conditions": float32_list(np.where(is_leaf, values, cuts.astype(np.float32))),
        "split_indices": feature.tolist(),
        "split_type": [int(place in by_category) for place in range(len(nodes))],
        "sum_hessian": nothing,
        "tree_param": _tree_parameters(model, len(nodes)),
    }
    parts = (f'"{name}":{json.dumps(v, separators=(",", ":")) if not isinstance(v, str) else v}'
             for name, v in fields.items())  # fmt: skip
    return "{" + ",".join(parts) + "}"


def _tree_parameters(model: Model, n_nodes: int) -> dict[str, str]:
    return {
        "num_deleted": "0",
        "num_feature": str(model.n_features),
        "num_nodes": str(n_nodes),
        "size_leaf_vector": "1",
    }


def float32_list(values: NDArray[Any]) -> str:
    """Numbers in their shortest form as float32; infinity as a number that is read as such.

    >>> float32_list(np.float32([0.1, 123456790.0, np.inf]))
    '[1e-01,1.2345679e+08,1e39]'
    """
    texts = (
        "1e39" if np.isinf(value) else np.format_float_scientific(value, trim="-")
        for value in np.asarray(values, dtype=np.float32)
    )
    return f"[{','.join(texts)}]"


def _in_levels(
    tree: Tree, tests: list[Membership | None]
) -> tuple[list[int], list[int], list[tuple[int, int] | None]]:
    """Splits, and leaves as ~n, level by level; the parent and the children of each by place.

    A category that is tested for goes right. A set that no category is in, which XGBoost cannot
    hold, parts nothing: what stands there is the child that all go to.
    """

    def standing_for(node: int) -> int:
        while node >= 0 and (test := tests[node]) is not None and not test.codes:
            node = test.outside
        return node

    nodes = [standing_for(0 if len(tree.feature) else ~0)]
    parents, children = [_NO_PARENT], list[tuple[int, int] | None]()
    waiting = deque([0])
    while waiting:
        place = waiting.popleft()
        node = nodes[place]
        if node < 0:
            children.append(None)
            continue
        test = tests[node]
        pair = (int(tree.left[node]), int(tree.right[node]))
        if test is not None:
            pair = (test.outside, test.inside)
        first = len(nodes)
        nodes += [standing_for(child) for child in pair]
        parents += [place, place]
        children.append((first, first + 1))
        waiting += [first, first + 1]
    return nodes, parents, children


def _score_xgboost(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    import xgboost  # noqa: PLC0415 (optional)

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    features = np.where(np.isinf(rows.features), np.float32(np.nan), rows.features)
    matrix = xgboost.DMatrix(
        features,
        feature_names=booster.feature_names,
        feature_types=booster.feature_types,
        enable_categorical=True,
        nthread=1,
    )
    return np.asarray(booster.predict(matrix, output_margin=True))


def _score_by_rules(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    """As XGBoost's documents say, from the JSON alone."""
    scores = np.zeros(len(rows.features), dtype=np.float32)
    for tree in json.loads(content)["learner"]["gradient_booster"]["model"]["trees"]:
        scores += np.array(tree["base_weights"], dtype=np.float32)[_nodes_by_rules(tree, rows)]
    return scores


def _nodes_by_rules(tree: dict[str, Any], rows: Rows) -> Places:
    left, right, feature, kind, default_left = (
        np.array(tree[name], dtype=np.int64)
        for name in (
            "left_children", "right_children", "split_indices", "split_type", "default_left",
        )
    )  # fmt: skip
    with np.errstate(over="ignore"):
        cuts = np.array(tree["split_conditions"], dtype=np.float64).astype(np.float32)
    if left[0] < 0:
        return np.zeros(len(rows.features), dtype=np.int64)
    starts, sizes = tree["categories_segments"], tree["categories_sizes"]
    members = {
        node: tree["categories"][start : start + size]
        for node, start, size in zip(tree["categories_nodes"], starts, sizes, strict=True)
    }

    def goes_left(splits: Places, at: Places) -> NDArray[np.bool_]:
        values = rows.features[at, feature[splits]]
        to_left = values < cuts[splits]
        for node in np.unique(splits[kind[splits] == _BY_CATEGORY]).tolist():
            here = splits == node
            to_left[here] = ~np.isin(np.trunc(values[here]), members[node])
        return np.where(np.isnan(values), default_left[splits] == 1, to_left)

    places = np.arange(len(left))
    is_leaf = left < 0
    # A node without children is its own leaf.
    ends = np.where(is_leaf, ~places, places)
    return reached_leaves(len(rows.features), ends[left], ends[right], goes_left)


def _outside(source: Exportable, options: Options, rows: Rows) -> dict[str, NDArray[np.bool_]]:
    model = source.parts[0]
    values = rows.features[:, model.used_features()]
    categorical = [f for f in model.used_features().tolist() if f in model.schema.categories]
    codes = rows.features[:, categorical]
    odd = (codes < 0) | (codes >= _LARGEST_CODE)
    return {
        "they have an infinite value, which XGBoost refuses": np.asarray(
            np.isinf(values).any(axis=1)
        ),
        TRUNCATED: truncated_categories(model, rows),
        "they have a category below 0 or above 16,777,215": np.asarray(odd.any(axis=1)),
    }


XGBOOST = Format(
    name=NAME,
    extension=".json",
    purpose="XGBoost 2.1 or newer and what reads its JSON",
    exact="which leaf each document reaches",
    rounds="leaves and sums, to float32",
    refuses=(
        "combined models, base scores, and categories that are not whole numbers from 0 to 65,535"
    ),
    write=_write,
    consumers=(
        Consumer("xgboost", package_version("xgboost", "xgboost", "xgboost-cpu"), _score_xgboost),
        emulator("XGBoost 3", _score_by_rules),
    ),
    agreement=lambda options: FLOAT32_SUMS,
    headline=lambda options: "XGBoost JSON, for XGBoost 2.1 or newer",
    outside=_outside,
)

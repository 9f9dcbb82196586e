"""ONNX as its specification has it, for the operators that an exported model is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.walking import Places, reached_leaves

if TYPE_CHECKING:
    from rankgrove.export.format import Options, Rows

Array = NDArray[Any]


def score_by_rules(content: bytes, rows: Rows, options: Options) -> Array:
    """The output of a graph, node by node."""
    import onnx  # noqa: PLC0415 (optional)

    graph = onnx.load_model_from_string(content).graph
    known: dict[str, Array] = {
        constant.name: onnx.numpy_helper.to_array(constant) for constant in graph.initializer
    }
    known[graph.input[0].name] = rows.features
    for node in graph.node:
        attributes = {
            entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute
        }
        arrays = {
            name: onnx.numpy_helper.to_array(value)
            for name, value in attributes.items()
            if isinstance(value, onnx.TensorProto)
        }
        inputs = [known[name] for name in node.input]
        known[node.output[0]] = _OPERATORS[node.op_type](attributes | arrays, *inputs)
    return known[graph.output[0].name].ravel()


def _look_up(attributes: dict[str, Any], values: Array) -> Array:
    codes = dict(zip(attributes["keys_floats"], attributes["values_floats"], strict=True))
    default = attributes["default_float"]
    return np.array([codes.get(value, default) for value in values.tolist()], dtype=np.float32)


def _cast(attributes: dict[str, Any], values: Array) -> Array:
    import onnx  # noqa: PLC0415 (optional)

    return values.astype(onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]))


def _regress(attributes: dict[str, Any], features: Array) -> Array:
    """Operator 3: splits and leaves in one list per tree."""
    tree_of_node, number, column, true, false, missing_true = (
        np.array(attributes[name], dtype=np.int64)
        for name in (
            "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids",
            "nodes_falsenodeids", "nodes_missing_value_tracks_true",
        )
    )  # fmt: skip
    is_leaf = np.array([mode == b"LEAF" for mode in attributes["nodes_modes"]])
    cuts, weights = attributes["nodes_values_as_tensor"], attributes["target_weights_as_tensor"]
    places = zip(attributes["target_treeids"], attributes["target_nodeids"], strict=True)
    weight_of = dict(zip(places, weights.tolist(), strict=True))
    scores = np.zeros(len(features))
    for tree in np.unique(tree_of_node).tolist():
        nodes = np.flatnonzero(tree_of_node == tree)
        leaf_numbers = number[nodes][is_leaf[nodes]].tolist()
        ends = dict(zip(leaf_numbers, (~n for n in range(len(leaf_numbers))), strict=True))
        splits = nodes[~is_leaf[nodes]]
        place = {int(number[split]): at for at, split in enumerate(splits.tolist())} | ends
        left, right = ([place[n] for n in side[splits].tolist()] for side in (true, false))
        decide = _decision(features, column[splits], cuts[splits], missing_true[splits])
        values = np.array([weight_of[tree, leaf] for leaf in leaf_numbers])
        scores += values[reached_leaves(len(features), left, right, decide)]
    return scores.astype(np.float32)


def _add_trees(attributes: dict[str, Any], features: Array) -> Array:
    """Operator 5: splits of all trees in one list, leaves in another."""
    column, true, false, true_leaf, false_leaf, missing_true = (
        np.array(attributes[name], dtype=np.int64)
        for name in (
            "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs",
            "nodes_falseleafs", "nodes_missing_value_tracks_true",
        )
    )  # fmt: skip
    left, right = np.where(true_leaf, ~true, true), np.where(false_leaf, ~false, false)
    decide = _decision(features, column, attributes["nodes_splits"], missing_true)
    scores = np.zeros(len(features))
    for root in attributes["tree_roots"]:
        scores += attributes["leaf_weights"][
            reached_leaves(len(features), left, right, decide, root)
        ]
    return scores


def _decision(
    features: Array, column: Array, cuts: Array, missing_true: Array
) -> Callable[[Places, Places], Array]:
    def goes_left(splits: Places, rows: Places) -> Array:
        values = features[rows, column[splits]]
        return np.where(np.isnan(values), missing_true[splits] == 1, values <= cuts[splits])

    return goes_left


_OPERATORS: dict[str, Callable[..., Array]] = {
    "Add": lambda attributes, a, b: a + b,
    "Cast": _cast,
    "Concat": lambda attributes, *parts: np.concatenate(parts, axis=attributes["axis"]),
    "Gather": lambda attributes, values, places: np.take(values, places, attributes["axis"]),
    "LabelEncoder": _look_up,
    "Mul": lambda attributes, a, b: a * b,
    "TreeEnsemble": lambda attributes, features: _add_trees(attributes, features)[:, np.newaxis],
    "TreeEnsembleRegressor": lambda attributes, features: _regress(attributes, features)[
        :, np.newaxis
    ],
}

"""ONNX: what ONNX Runtime, and with it Vespa, Triton and browsers, score with.

A graph takes `features`, float32, one row per document, and gives `score`, one row each. Operator 3
is `TreeEnsembleRegressor`, which every ONNX Runtime since 1.19 has: it adds up in float64 and
rounds the sum to float32. Operator 5 is `TreeEnsemble`, of 1.21 or newer, whose score is a float64.

Trees have splits by threshold only. A categorical feature is first looked up: its value gives a
code, and the code a row of a table with one column per set of categories, 0 for those that go left.
The last row is for values that are missing or unknown. The operators have tests for membership of
their own, which ONNX Runtime gets wrong for missing values on some machines.

Two things are written around that ONNX Runtime 1.21 to 1.29 gets wrong in operator 5: a tree of one
leaf becomes a split with two equal leaves, and a root with a leaf and a split of the same number
gets another leaf number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.errors import need_extra
from rankgrove.export.format import (
    SAME_BITS,
    SAME_FLOAT32,
    Consumer,
    Exportable,
    ExportError,
    Format,
    FormatOption,
    Options,
    Rows,
    emulator,
    package_version,
)
from rankgrove.export.onnx_rules import score_by_rules
from rankgrove.export.tables import WalkTables
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import NO_SET

NAME = "onnx"
INPUT, OUTPUT = "features", "score"

_TREES_DOMAIN = "ai.onnx.ml"
# By operator: the version of all operators, of those of trees, and of the file.
_VERSIONS = {3: (15, 3, 8), 5: (21, 5, 10)}
# What the number of a mode means in operator 5, and of a sum of leaves.
_LEQ, _SUM = 0, 1


def _onnx() -> Any:
    try:
        import onnx  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise need_extra("onnx", "onnx", "exporting to onnx") from error
    return onnx


@dataclass
class _Graph:
    """Nodes and constants as they are added."""

    onnx: Any
    operator: int
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, kind: str, inputs: Iterable[str], output: str, **attributes: Any) -> str:
        """Add a node; its output, by name."""
        domain = _TREES_DOMAIN if kind in ("LabelEncoder", *_TREE_OPERATORS.values()) else ""
        node = self.onnx.helper.make_node(
            kind, list(inputs), [output], name=output, domain=domain, **attributes
        )
        self.nodes.append(node)
        return output

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add a constant; its name."""
        self.constants.append(self.tensor(name, values))
        return name

    def tensor(self, name: str, values: NDArray[Any]) -> Any:
        return self.onnx.numpy_helper.from_array(np.asarray(values, order="C"), name)

    def as_double(self, values: str, output: str) -> str:
        return self.add("Cast", [values], output, to=self.onnx.TensorProto.DOUBLE)

    def as_float(self, values: str, output: str) -> str:
        return self.add("Cast", [values], output, to=self.onnx.TensorProto.FLOAT)


_TREE_OPERATORS = {3: "TreeEnsembleRegressor", 5: "TreeEnsemble"}


def _write(source: Exportable, options: Options) -> bytes:
    operator = options["operator"]
    source.refuse_base_scores(NAME)
    if source.weights is not None and operator == 3:
        raise ExportError(
            "onnx operator 3 rounds the scores of the models in a weighted sum before they are "
            "added. Export with operator 5."
        )
    onnx = _onnx()
    graph = _Graph(onnx, operator)
    if not source.is_combined:
        _add_model(graph, source.parts[0], INPUT, OUTPUT, "")
    else:
        _add_combined(graph, source)
    kind = onnx.TensorProto.FLOAT if operator == 3 else onnx.TensorProto.DOUBLE
    n_features = len(source.feature_names)
    made = onnx.helper.make_graph(
        graph.nodes,
        "rankgrove",
        [
            onnx.helper.make_tensor_value_info(
                INPUT, onnx.TensorProto.FLOAT, ["documents", n_features]
            )
        ],
        [onnx.helper.make_tensor_value_info(OUTPUT, kind, ["documents", 1])],
        graph.constants,
    )
    version, trees_version, file_version = _VERSIONS[operator]
    model = onnx.helper.make_model(
        made,
        opset_imports=[
            onnx.helper.make_opsetid("", version),
            onnx.helper.make_opsetid(_TREES_DOMAIN, trees_version),
        ],
        ir_version=file_version,
        producer_name="rankgrove",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(
        model,
        {
            "rankgrove_model": source.checksum,
            "rankgrove_version": __version__,
            "feature_names": json.dumps(source.feature_names),
        },
    )
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _add_combined(graph: _Graph, source: Exportable) -> None:
    scores = [
        _add_model(graph, part, INPUT, f"part_{number}_score", f"part_{number}_")
        for number, part in enumerate(source.parts, start=1)
    ]
    if source.top is not None:
        if graph.operator == 5:
            scores = [graph.as_float(score, f"{score}_float") for score in scores]
        joined = graph.add("Concat", scores, "part_scores", axis=1)
        _add_model(graph, source.top, joined, OUTPUT, "top_")
        return
    total = ""
    for number, (score, weight) in enumerate(zip(scores, source.weights or (), strict=True)):
        is_last = number == len(scores) - 1
        constant = graph.constant(f"weight_{number + 1}", np.array([weight]))
        name = OUTPUT if is_last and not total else f"{score}_weighted"
        weighted = graph.add("Mul", [score, constant], name)
        sum_name = OUTPUT if is_last else f"sum_{number + 1}"
        total = weighted if not total else graph.add("Add", [total, weighted], sum_name)


def _add_model(graph: _Graph, model: Model, features: str, output: str, prefix: str) -> str:
    """Add the nodes of one model, from a float32 matrix of its features to its score."""
    tables = WalkTables.of(model)
    columns = [features]
    # The column that decides each split by category, among those that are added.
    decided_by = np.zeros(len(tables.feature), dtype=np.int64)
    n_columns = model.n_features
    for feature, categories in tables.categories.items():
        of_feature = np.flatnonzero((tables.feature == feature) & (tables.category_set != NO_SET))
        keys = np.stack([tables.category_set[of_feature], tables.missing_left[of_feature]], axis=1)
        distinct, places = np.unique(keys, axis=0, return_inverse=True)
        decided_by[of_feature] = n_columns + places.ravel()
        n_columns += len(distinct)
        name = f"{prefix}category_{feature}"
        table = _right_by_code(tables, distinct, len(categories))
        columns.append(_add_lookup(graph, features, feature, categories, table, name))
    if len(columns) > 1:
        features = graph.add("Concat", columns, f"{prefix}columns", axis=1)
    doubles = graph.as_double(features, f"{prefix}columns_double")
    add_trees = _add_operator_3 if graph.operator == 3 else _add_operator_5
    add_trees(graph, tables, decided_by, doubles, output)
    return output


def _right_by_code(
    tables: WalkTables, distinct: NDArray[Any], n_categories: int
) -> NDArray[np.float32]:
    """One row per code and one for all that is unknown; per set 0 for left, 1 for right."""
    table = np.empty((n_categories + 1, len(distinct)), dtype=np.float32)
    for column, (row, missing_left) in enumerate(distinct.tolist()):
        words = tables.category_sets[row].astype("<u4").view(np.uint8)
        goes_left = np.unpackbits(words, bitorder="little")[:n_categories]
        table[:-1, column] = 1 - goes_left
        table[-1, column] = 1 - missing_left
    return table


def _add_lookup(
    graph: _Graph,
    features: str,
    feature: int,
    categories: NDArray[np.float32],
    table: NDArray[np.float32],
    name: str,
) -> str:
    place = graph.constant(f"{name}_place", np.array(feature, dtype=np.int64))
    values = graph.add("Gather", [features, place], f"{name}_value", axis=1)
    codes = graph.add(
        "LabelEncoder",
        [values],
        f"{name}_code",
        keys_floats=categories.tolist(),
        values_floats=[float(code) for code in range(len(categories))],
        default_float=float(len(categories)),
    )
    rows = graph.add("Cast", [codes], f"{name}_row", to=graph.onnx.TensorProto.INT64)
    return graph.add("Gather", [graph.constant(f"{name}_table", table), rows], name, axis=0)


def _conditions(
    tables: WalkTables, decided_by: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """For each split the column, what it must be at most to go left, and whether NaN goes left."""
    by_category = tables.category_set != NO_SET
    columns = np.where(by_category, decided_by, tables.feature)
    cuts = np.where(by_category, 0.5, tables.threshold.astype(np.float64))
    return columns, cuts, np.where(by_category, 0, tables.missing_left).astype(np.int64)


def _add_operator_3(
    graph: _Graph, tables: WalkTables, decided_by: NDArray[np.int64], features: str, output: str
) -> None:
    """Splits and leaves of each tree in one list, splits first."""
    columns, cuts, missing_left = _conditions(tables, decided_by)
    n_trees = len(tables.roots)
    starts = _split_starts(tables)
    n_splits = np.diff(starts)
    # A tree has one more leaf than splits.
    tree_of_split = np.repeat(np.arange(n_trees), n_splits)
    tree_of_leaf = np.repeat(np.arange(n_trees), n_splits + 1)
    split_number = np.arange(len(tree_of_split)) - starts[tree_of_split]
    first_leaf = starts[:-1] + np.arange(n_trees)
    leaf_number = np.arange(len(tree_of_leaf)) - first_leaf[tree_of_leaf] + n_splits[tree_of_leaf]

    def node_number(child: NDArray[np.int32]) -> NDArray[np.int64]:
        of_split = split_number[np.maximum(child, 0)] if len(split_number) else child
        return np.where(child >= 0, of_split, leaf_number[np.maximum(~child, 0)])

    # The nodes of a tree stand together, its splits before its leaves.
    order = np.lexsort(
        (
            np.concatenate([split_number, leaf_number]),
            np.concatenate([tree_of_split, tree_of_leaf]),
        )
    )
    no_leaf = np.zeros(len(tree_of_leaf), dtype=np.int64)

    def listed(of_splits: NDArray[Any], of_leaves: NDArray[Any] = no_leaf) -> NDArray[Any]:
        return np.concatenate([of_splits, of_leaves])[order]

    is_leaf = listed(np.zeros(len(columns), dtype=np.int64), no_leaf + 1)
    graph.add(
        _TREE_OPERATORS[3],
        [features],
        output,
        n_targets=1,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=listed(tree_of_split, tree_of_leaf).tolist(),
        nodes_nodeids=listed(split_number, leaf_number).tolist(),
        nodes_featureids=listed(columns).tolist(),
        nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf.tolist()],
        nodes_values_as_tensor=graph.tensor("nodes_values", listed(cuts, no_leaf * 0.0)),
        nodes_truenodeids=listed(node_number(tables.left)).tolist(),
        nodes_falsenodeids=listed(node_number(tables.right)).tolist(),
        nodes_missing_value_tracks_true=listed(missing_left).tolist(),
        target_treeids=tree_of_leaf.tolist(),
        target_nodeids=leaf_number.tolist(),
        target_ids=no_leaf.tolist(),
        target_weights_as_tensor=graph.tensor("target_weights", tables.value),
    )


def _split_starts(tables: WalkTables) -> NDArray[np.int64]:
    """Where the splits of each tree start, and the end of all."""
    n_trees = len(tables.roots)
    numbers = np.arange(n_trees)
    # ~root of a tree of one leaf is that leaf; leaves before it are splits before it and trees.
    starts = np.where(tables.roots >= 0, tables.roots, ~tables.roots - numbers)
    return np.append(starts, len(tables.feature)).astype(np.int64)


def _add_operator_5(
    graph: _Graph, tables: WalkTables, decided_by: NDArray[np.int64], features: str, output: str
) -> None:
    """Splits of all trees in one list, leaves in another."""
    columns, cuts, missing_left = _conditions(tables, decided_by)
    roots, new_leaf, weights, pairs = _renumbered(tables)
    left, right = (
        np.where(child >= 0, child, new_leaf[np.maximum(~child, 0)])
        for child in (tables.left, tables.right)
    )
    # Then the splits of trees of one leaf, whose children are two leaves alike.
    more = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    nothing, leaves = np.zeros(len(more), np.int64), np.ones(len(more), np.int64)

    def listed(of_splits: NDArray[Any], of_more: NDArray[Any] = nothing) -> NDArray[Any]:
        return np.concatenate([of_splits, of_more])

    modes = np.full(len(columns) + len(more), _LEQ, dtype=np.uint8)
    graph.add(
        _TREE_OPERATORS[5],
        [features],
        output,
        n_targets=1,
        aggregate_function=_SUM,
        post_transform=0,
        tree_roots=roots,
        nodes_featureids=listed(columns).tolist(),
        nodes_modes=graph.tensor("nodes_modes", modes),
        nodes_splits=graph.tensor("nodes_splits", listed(cuts, nothing * 0.0)),
        nodes_missing_value_tracks_true=listed(missing_left).tolist(),
        nodes_truenodeids=listed(left, more[:, 0]).tolist(),
        nodes_trueleafs=listed(tables.left < 0, leaves).astype(int).tolist(),
        nodes_falsenodeids=listed(right, more[:, 1]).tolist(),
        nodes_falseleafs=listed(tables.right < 0, leaves).astype(int).tolist(),
        leaf_targetids=[0] * len(weights),
        leaf_weights=graph.tensor("leaf_weights", np.array(weights)),
    )


def _renumbered(
    tables: WalkTables,
) -> tuple[list[int], NDArray[np.int64], list[float], list[tuple[int, int]]]:
    """Roots, the new number of each leaf, the values of all leaves, and splits that are added.

    These, one for each tree of a single leaf, have the numbers after all others; of each there are
    its two leaves.
    """
    n_splits = len(tables.feature)
    starts = _split_starts(tables)
    roots, weights, pairs = list[int](), list[float](), list[tuple[int, int]]()
    new_leaf = np.zeros(len(tables.value), dtype=np.int64)
    for tree, root in enumerate(tables.roots.tolist()):
        first, last = int(starts[tree]) + tree, int(starts[tree + 1]) + tree + 1
        values = tables.value[first:last].tolist()
        if root < 0:
            roots.append(n_splits + len(pairs))
            pairs.append((len(weights), len(weights) + 1))
            weights += values * 2
            continue
        roots.append(root)
        children = int(tables.left[root]), int(tables.right[root])
        # A leaf and a split below the root must differ in number.
        if min(children) < 0 <= max(children) == len(weights) + ~min(children) - first:
            weights.append(0.0)
        new_leaf[first:last] = np.arange(len(weights), len(weights) + len(values))
        weights += values
    return roots, new_leaf, weights, pairs


def _score_onnxruntime(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    import onnxruntime  # noqa: PLC0415 (optional)

    settings = onnxruntime.SessionOptions()
    # Threads add up in another order.
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    return np.asarray(session.run([OUTPUT], {INPUT: rows.features})[0]).ravel()


def _headline(options: Options) -> str:
    oldest = {3: "1.19", 5: "1.21"}[options["operator"]]
    return f"ONNX operator {options['operator']}, for ONNX Runtime {oldest} or newer"


ONNX = Format(
    name=NAME,
    extension=".onnx",
    purpose="ONNX Runtime in any language, Vespa, Triton, SageMaker and browsers",
    exact="which leaf each document reaches; with operator 5 the score, to the bit",
    rounds="with operator 3 the score, to float32; with operator 5 and threads, by about 4e-15",
    refuses="base scores, and weighted sums of models with operator 3",
    write=_write,
    consumers=(
        Consumer("onnxruntime", package_version("onnxruntime"), _score_onnxruntime),
        emulator("ONNX", score_by_rules),
    ),
    agreement=lambda options: SAME_FLOAT32 if options["operator"] == 3 else SAME_BITS,
    headline=_headline,
    endings=(".onnx",),
    options={
        "operator": FormatOption(
            3, "The version of the operator for trees: 5 has scores of float64.", (3, 5)
        )
    },
)

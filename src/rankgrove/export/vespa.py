"""Models for Vespa: LightGBM's JSON as Vespa reads it, for a rank expression `lightgbm("x.json")`.

Vespa turns `<=` into `<`, in float64, so that a threshold is the float64 after the widened one (see
`exact`): LightGBM itself would read this file wrongly. JSON has no infinity: in its place stands
the largest float64.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.export.exact import after_widened
from rankgrove.export.format import SAME_BITS, Exportable, Format, Options, Rows, emulator
from rankgrove.export.nested import (
    LARGEST_FLOAT64,
    infinite_values,
    only_thresholds,
    refuse_deep_trees,
)
from rankgrove.export.rules import vespa as rules
from rankgrove.export.tables import fold_tree
from rankgrove.trees.ensemble import Tree

_NAME = "vespa"


def _write(source: Exportable, _: Options) -> bytes:
    model = only_thresholds(source, _NAME)
    refuse_deep_trees(model, _NAME)
    trees = [_tree(model.ensemble.tree(number)) for number in range(model.n_trees)]
    entries = ",\n".join(
        f'{{"tree_index":{number},"tree_structure":{root}}}'
        for number, root in enumerate(trees or ['{"leaf_value":0.0}'])
    )
    origin = json.dumps({"version": __version__, "model": source.checksum})
    return (
        f'{{"name":"tree","rankgrove":{origin},"objective":"lambdarank",\n'
        f'"feature_names":{json.dumps(list(model.feature_names))},\n'
        f'"feature_infos":{{}},"pandas_categorical":[],"tree_info":[\n{entries}]}}\n'
    ).encode("ascii")


def _tree(tree: Tree) -> str:
    thresholds = np.minimum(after_widened(tree.threshold), LARGEST_FLOAT64).tolist()

    def leaf(number: int) -> str:
        return f'{{"leaf_value":{float(tree.value[number])!r}}}'

    def split(number: int, left: str, right: str) -> str:
        missing_left = "true" if tree.missing_left[number] else "false"
        return (
            f'{{"split_feature":{tree.feature[number]},"threshold":{thresholds[number]!r},'
            f'"decision_type":"<=","default_left":{missing_left},'
            f'"left_child":{left},"right_child":{right}}}'
        )

    return fold_tree(tree, leaf, split)


def _score(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    return rules.score(content.decode(), rows.features, rows.names)


VESPA = Format(
    name=_NAME,
    extension=".json",
    purpose='Vespa, as lightgbm("model.json"); features are named by rank features or functions',
    exact="the score, bit for bit, with missing values",
    rounds="nothing",
    refuses="categories (use onnx), base scores, combined models, trees of more than 300 levels",
    write=_write,
    consumers=(emulator(rules.NAME, _score),),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: "LightGBM's JSON as Vespa 8 reads it, to be put under models/",
    outside=infinite_values,
)

"""Models for the learning-to-rank plugins of Elasticsearch and OpenSearch.

The body of `POST _ltr/_featureset/<set>/_createmodel`, of type `model/xgboost+json`: nested nodes
in a string of JSON. The plugins go to `yes` where the value is less than the condition, in float32,
so that a condition is the next float32 after the threshold.

There is no next one after the largest float32, and JSON has no infinity. A split at such a
threshold parts only missing from present values: it is written the other way round, as "less than
the lowest float32", which no finite value is.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.exact import next_float32
from rankgrove.export.format import (
    FLOAT32_SUMS,
    Exportable,
    Format,
    FormatOption,
    Options,
    Rows,
    emulator,
)
from rankgrove.export.nested import (
    as_string,
    only_thresholds,
    refuse_deep_trees,
    rows_with,
)
from rankgrove.export.numbers import float32_leaves, float32_text
from rankgrove.export.rules import elasticsearch_ltr as rules
from rankgrove.export.tables import fold_tree
from rankgrove.trees.ensemble import Tree

_NAME = "elasticsearch-ltr"
_INFINITE = "an infinite value where trees split at the largest numbers"
_LARGEST = np.finfo(np.float32).max


def _write(source: Exportable, options: Options) -> bytes:
    model = only_thresholds(source, _NAME)
    refuse_deep_trees(model, _NAME)
    leaves = float32_leaves(model, _NAME)
    names = [as_string(name) for name in model.feature_names]
    trees = [
        _tree(model.ensemble.tree(number), leaves[number], names) for number in range(model.n_trees)
    ]
    # The plugins want a tree.
    splits = ",".join(trees or ['{"nodeid":0,"leaf":0.0}'])
    definition = f'{{"objective":"rank:ndcg","splits":[{splits}]}}'
    body = {"model": {"type": "model/xgboost+json", "definition": definition}}
    return json.dumps({"model": {"name": options["name"], **body}}).encode("ascii")


def _tree(tree: Tree, leaves: NDArray[np.float32], names: list[str]) -> str:
    """One tree as nested JSON. Splits keep their numbers, and leaves come after them."""
    n_splits = len(tree.feature)
    conditions = next_float32(tree.threshold)
    depths = _depths(tree)

    def number_of(child: int) -> int:
        return child if child >= 0 else n_splits + ~child

    def leaf(number: int) -> str:
        return f'{{"nodeid":{n_splits + number},"leaf":{float32_text(leaves[number])}}}'

    def split(number: int, left: str, right: str) -> str:
        yes, no = number_of(int(tree.left[number])), number_of(int(tree.right[number]))
        missing = yes if tree.missing_left[number] else no
        condition = conditions[number]
        if np.isposinf(condition):
            yes, no, left, right, condition = no, yes, right, left, -_LARGEST
        return (
            f'{{"nodeid":{number},"depth":{depths[number]},"split":{names[tree.feature[number]]},'
            f'"split_condition":{float32_text(condition)},"yes":{yes},"no":{no},'
            f'"missing":{missing},"children":[{left},{right}]}}'
        )

    return fold_tree(tree, leaf, split)


def _depths(tree: Tree) -> list[int]:
    """For each split how many stand above it."""
    depths = [0] * len(tree.feature)
    # Children stand after their parents.
    for number, children in enumerate(zip(tree.left.tolist(), tree.right.tolist(), strict=True)):
        for child in children:
            if child >= 0:
                depths[child] = depths[number] + 1
    return depths


def _score(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    return rules.score(content.decode(), rows.features, rows.names)


def _infinite_values(source: Exportable, _: Options, rows: Rows) -> dict[str, NDArray[np.bool_]]:
    """Documents with an infinite value in a feature of a split written the other way round."""
    trees = source.parts[0].ensemble
    features = np.unique(trees.feature[trees.threshold >= _LARGEST])
    return {_INFINITE: rows_with(np.isinf(rows.features[:, features]))}


def _headline(options: Options) -> str:
    return (
        f"The body of POST _ltr/_featureset/{options['feature_set']}/_createmodel, for "
        f"Elasticsearch-LTR 1.5.12 and OpenSearch-LTR 3.2 or newer"
    )


ELASTICSEARCH_LTR = Format(
    name=_NAME,
    extension=".json",
    purpose="the learning-to-rank plugins of Elasticsearch and OpenSearch",
    exact="which leaf a document reaches, with missing values (older plugins read these as 0)",
    rounds="leaves and their sum, to float32",
    refuses="categories, base scores, combined models, trees of more than 300 levels",
    write=_write,
    consumers=(emulator(rules.NAME, _score),),
    agreement=lambda options: FLOAT32_SUMS,
    headline=_headline,
    options={
        "name": FormatOption("rankgrove", "What the model is called in the plugin."),
        "feature_set": FormatOption("features", "The feature set whose features the model takes."),
    },
    outside=_infinite_values,
)

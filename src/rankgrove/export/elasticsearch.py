"""Models for Elasticsearch's own learning to rank: the body of `PUT _ml/trained_models/<id>`.

Elasticsearch compares float64 numbers by `lte`, so that thresholds are widened (see `exact`). JSON
has no infinity: in its place stands the largest float64.

A model comes with the query that computes each of its features. Rankgrove does not know these, so
each is a query named FILL_IN: Elasticsearch refuses the model until all are replaced.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.export.exact import widened
from rankgrove.export.format import (
    SAME_FLOAT32,
    Exportable,
    Format,
    Options,
    Rows,
    emulator,
)
from rankgrove.export.nested import LARGEST_FLOAT64, as_string, infinite_values, only_thresholds
from rankgrove.export.rules import elasticsearch as rules
from rankgrove.trees.ensemble import Tree

_NAME = "elasticsearch"


def _write(source: Exportable, _: Options) -> bytes:
    model = only_thresholds(source, _NAME)
    used = model.used_features().tolist()
    names = [model.feature_names[feature] for feature in used]
    place = {feature: number for number, feature in enumerate(used)}
    listed = json.dumps(names)
    trees = [_tree(model.ensemble.tree(number), place) for number in range(model.n_trees)]
    entries = ",\n".join(
        f'{{"tree":{{"target_type":"regression","feature_names":{listed},'
        f'"tree_structure":[{nodes}]}}}}'
        for nodes in trees or ['{"node_index":0,"leaf_value":0.0}']
    )
    extractors = ",\n".join(
        f'{{"query_extractor":{{"feature_name":{as_string(name)},"query":{{"FILL_IN":{{}}}}}}}}'
        for name in names
    )
    origin = json.dumps({"rankgrove": {"version": __version__, "model": source.checksum}})
    return (
        f'{{"metadata":{origin},\n'
        f'"inference_config":{{"learning_to_rank":{{"feature_extractors":[\n{extractors}]}}}},\n'
        f'"definition":{{"trained_model":{{"ensemble":{{"target_type":"regression",'
        f'"feature_names":{listed},"aggregate_output":{{"weighted_sum":{{}}}},'
        f'"trained_models":[\n{entries}]}}}}}}}}\n'
    ).encode("ascii")


def _tree(tree: Tree, place: dict[int, int]) -> str:
    """The nodes of one tree: splits keep their numbers, and leaves come after them."""
    n_splits = len(tree.feature)
    thresholds = np.minimum(widened(tree.threshold), LARGEST_FLOAT64).tolist()

    def number_of(child: int) -> int:
        return child if child >= 0 else n_splits + ~child

    splits = [
        f'{{"node_index":{number},"decision_type":"lte","split_feature":{place[feature]},'
        f'"threshold":{thresholds[number]!r},"left_child":{number_of(int(tree.left[number]))},'
        f'"right_child":{number_of(int(tree.right[number]))},'
        f'"default_left":{"true" if tree.missing_left[number] else "false"}}}'
        for number, feature in enumerate(tree.feature.tolist())
    ]
    leaves = [
        f'{{"node_index":{n_splits + number},"leaf_value":{value!r}}}'
        for number, value in enumerate(tree.value.tolist())
    ]
    return ",\n".join([*splits, *leaves])


def _score(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    return rules.score(content.decode(), rows.features, rows.names)


def _notes(source: Exportable, _: Options) -> list[str]:
    n_used = len(source.parts[0].used_features())
    return [
        f"Put the query that gives each of the {n_used} features in the place of its FILL_IN: "
        f"Elasticsearch refuses the model until then."
    ]


ELASTICSEARCH = Format(
    name=_NAME,
    extension=".json",
    purpose="Elasticsearch's own learning to rank, without a plugin",
    exact="which leaf a document reaches, with missing values; the sum, in float64",
    rounds="the score, to float32",
    refuses="categories, base scores, combined models",
    write=_write,
    consumers=(emulator(rules.NAME, _score),),
    agreement=lambda options: SAME_FLOAT32,
    headline=lambda options: (
        "The body of PUT _ml/trained_models/<id>, for Elasticsearch 8.15 or newer"
    ),
    outside=infinite_values,
    notes=_notes,
)

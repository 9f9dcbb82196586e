"""What the formats of search engines share: strings, and what they refuse or leave out."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.format import Exportable, ExportError, Options, Rows
from rankgrove.model.model import Model

# Readers of JSON give up at some depth: Jackson, which Elasticsearch, OpenSearch and Vespa read
# with, at 1,000 brackets, of which a level of a tree takes up to two.
MOST_LEVELS = 300

LARGEST_FLOAT64 = float(np.finfo(np.float64).max)

INFINITE = "an infinite value where trees split at infinity"


def as_string(text: str) -> str:
    """A string of JSON, in ASCII."""
    return json.dumps(text)


def only_thresholds(source: Exportable, format_name: str) -> Model:
    """The one model of trees, whose trees split by threshold only."""
    model = source.only_model(format_name)
    source.refuse_categories(format_name)
    return model


def refuse_deep_trees(model: Model, format_name: str) -> None:
    """Refuse trees that a reader of nested JSON would give up on."""
    # A tree has no more levels than splits.
    for number in np.flatnonzero(np.diff(model.ensemble.split_offsets) > MOST_LEVELS).tolist():
        depth = model.ensemble.tree(number).depth
        if depth > MOST_LEVELS:
            raise ExportError(
                f"{format_name} nests nodes, and readers take at most {MOST_LEVELS} levels. Got "
                f"{depth} in tree {number}: train with a lower max_depth, or export to a scorer "
                f"in c, java, javascript or python."
            )


def rows_with(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows in which one is true."""
    return np.asarray(values.any(axis=1))


def infinite_values(source: Exportable, _: Options, rows: Rows) -> dict[str, NDArray[np.bool_]]:
    """Documents with infinity in a feature that is split at infinity, which JSON does not have."""
    trees = source.parts[0].ensemble
    features = np.unique(trees.feature[np.isposinf(trees.threshold)])
    return {INFINITE: rows_with(np.isposinf(rows.features[:, features]))}

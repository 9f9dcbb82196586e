"""Models for RankLib: the text of a LambdaMART model.

RankLib compares as Rankgrove does, but reads a missing value as 0. Features are numbers, from 1 on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.format import (
    FLOAT32_SUMS,
    Exportable,
    ExportError,
    Format,
    Options,
    Rows,
    emulator,
)
from rankgrove.export.nested import only_thresholds, rows_with
from rankgrove.export.numbers import float32_leaves, java_float_text
from rankgrove.export.rules import ranklib as rules
from rankgrove.export.scorers import origin
from rankgrove.export.tables import fold_tree
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import Tree

_NAME = "ranklib"
_MISSING = "a missing value, which RankLib reads as 0"


def _write(source: Exportable, _: Options) -> bytes:
    model = only_thresholds(source, _NAME)
    _refuse_splits_by_missing(model)
    leaves = float32_leaves(model, _NAME)
    trees = [
        f'<tree id="{number + 1}" weight="1.0">\n'
        f"{_tree(model.ensemble.tree(number), leaves[number])}\n</tree>\n"
        for number in range(model.n_trees)
    ]
    n_leaves = max((len(values) for values in leaves), default=1)
    return (
        f"## LambdaMART\n## {origin(source)}\n## No. of trees = {model.n_trees}\n"
        f"## No. of leaves = {n_leaves}\n\n<ensemble>\n{''.join(trees)}</ensemble>\n"
    ).encode("ascii")


def _refuse_splits_by_missing(model: Model) -> None:
    """Refuse splits that do nothing but part missing from present values."""
    trees = model.ensemble
    parting = np.isposinf(trees.threshold) & (trees.missing_left == 0)
    if parting.any():
        feature = int(trees.feature[np.argmax(parting)])
        raise ExportError(
            f"ranklib has no missing values. Feature {model.feature_names[feature]!r} is split by "
            f"whether it is missing, at {int(parting.sum()):,} of {len(parting):,} splits: train "
            f"with a number in its place, or export to another format."
        )


def _tree(tree: Tree, leaves: NDArray[np.float32]) -> str:
    def leaf(number: int) -> str:
        return f"<output> {java_float_text(leaves[number])} </output>"

    def split(number: int, left: str, right: str) -> str:
        return (
            f"<feature> {tree.feature[number] + 1} </feature>"
            f"<threshold> {java_float_text(tree.threshold[number])} </threshold>\n"
            f'<split pos="left">{left}</split>\n<split pos="right">{right}</split>'
        )

    return f"<split>{fold_tree(tree, leaf, split)}</split>"


def _score(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    return rules.score(content.decode(), rows.features, rows.names)


def _with_missing(source: Exportable, _: Options, rows: Rows) -> dict[str, NDArray[np.bool_]]:
    used = source.parts[0].used_features()
    return {_MISSING: rows_with(np.isnan(rows.features[:, used]))}


RANKLIB = Format(
    name=_NAME,
    extension=".txt",
    purpose="RankLib, and plugins that read its models; features by number, from 1 on",
    exact="which leaf a document without missing values reaches",
    rounds="leaves and their sum, to float32",
    refuses="splits by whether a value is missing, categories, base scores, combined models",
    write=_write,
    consumers=(emulator(rules.NAME, _score),),
    agreement=lambda options: FLOAT32_SUMS,
    headline=lambda options: "A LambdaMART model of RankLib 2; it reads a missing value as 0",
    outside=_with_missing,
)

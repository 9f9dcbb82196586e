"""Models for Solr: a MultipleAdditiveTreesModel, the body of `PUT .../schema/model-store`.

Solr adds a slack of 1e-6 to each threshold, in float32, so that it is taken off before (see
`exact`). Some thresholds nearer to 0 than 0.001 cannot be met in this way; they are counted.
Numbers are strings, as Solr refuses others, and a string may be infinite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.exact import without_slack
from rankgrove.export.format import (
    FLOAT32_SUMS,
    Exportable,
    Format,
    FormatOption,
    Options,
    Rows,
    emulator,
)
from rankgrove.export.nested import as_string, only_thresholds, refuse_deep_trees
from rankgrove.export.numbers import float32_leaves, java_float_text
from rankgrove.export.rules import solr as rules
from rankgrove.export.tables import fold_tree
from rankgrove.trees.ensemble import Tree

_NAME = "solr"
_BETWEEN = "a value between a threshold and the one that Solr can reach"


def _write(source: Exportable, options: Options) -> bytes:
    model = only_thresholds(source, _NAME)
    refuse_deep_trees(model, _NAME)
    leaves = float32_leaves(model, _NAME)
    names = [as_string(name) for name in model.feature_names]
    trees = [
        _tree(model.ensemble.tree(number), leaves[number], names) for number in range(model.n_trees)
    ]
    entries = ",\n".join(f'{{"weight":"1","root":{root}}}' for root in trees or ['{"value":"0.0"}'])
    features = ",".join(f'{{"name":{names[feature]}}}' for feature in model.used_features())
    return (
        f'{{"class":"org.apache.solr.ltr.model.MultipleAdditiveTreesModel",'
        f'"name":{as_string(options["name"])},"store":{as_string(options["store"])},\n'
        f'"features":[{features}],\n"params":{{"isNullSameAsZero":false,"trees":[\n{entries}]}}}}\n'
    ).encode("ascii")


def _tree(tree: Tree, leaves: NDArray[np.float32], names: list[str]) -> str:
    thresholds = without_slack(tree.threshold).thresholds

    def leaf(number: int) -> str:
        return f'{{"value":"{java_float_text(leaves[number])}"}}'

    def split(number: int, left: str, right: str) -> str:
        missing = "left" if tree.missing_left[number] else "right"
        return (
            f'{{"feature":{names[tree.feature[number]]},'
            f'"threshold":"{java_float_text(thresholds[number])}","missing":"{missing}",'
            f'"left":{left},"right":{right}}}'
        )

    return fold_tree(tree, leaf, split)


def _score(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    return rules.score(content.decode(), rows.features, rows.names)


def _between(source: Exportable, _: Options, rows: Rows) -> dict[str, NDArray[np.bool_]]:
    """Documents that go the wrong way because a threshold is out of reach."""
    trees = source.parts[0].ensemble
    reached = without_slack(trees.threshold).reached
    found = np.zeros(len(rows.features), dtype=bool)
    for split in np.flatnonzero(reached != trees.threshold).tolist():
        values = rows.features[:, trees.feature[split]]
        found |= (values > trees.threshold[split]) & (values <= reached[split])
    return {_BETWEEN: found}


def _notes(source: Exportable, _: Options) -> list[str]:
    thresholds = source.parts[0].ensemble.threshold
    reached = without_slack(thresholds).reached
    apart = reached != thresholds
    if not apart.any():
        return []
    most = float(np.max(reached[apart].astype(np.float64) - thresholds[apart]))
    return [
        f"{int(apart.sum()):,} of {len(thresholds):,} thresholds are near 0 and out of Solr's "
        f"reach: they are up to {most:.1g} higher there."
    ]


SOLR = Format(
    name=_NAME,
    extension=".json",
    purpose="the learning-to-rank module of Solr",
    exact="which leaf a document reaches, with missing values; some thresholds near 0 are moved",
    rounds="leaves and their sum, to float32",
    refuses="categories, base scores, combined models, trees of more than 300 levels",
    write=_write,
    consumers=(emulator(rules.NAME, _score),),
    agreement=lambda options: FLOAT32_SUMS,
    headline=lambda options: (
        "The body of PUT /solr/<collection>/schema/model-store, for Solr 9.2 or newer"
    ),
    options={
        "name": FormatOption("rankgrove", "What the model is called in Solr."),
        "store": FormatOption("_DEFAULT_", "The feature store whose features the model takes."),
    },
    outside=_between,
    notes=_notes,
)

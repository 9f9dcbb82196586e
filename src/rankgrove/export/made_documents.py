"""Documents made from a model's own thresholds, to check a file where no data are given.

A file that is wrong differs where a document stands on a threshold or one number beside it, has a
missing value, or a category of which nothing is known. Random documents hardly ever do. And a
document must first come to the split that it is to try, so half of these are led there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.exact import float32s, next_float32
from rankgrove.export.format import Exportable, Rows
from rankgrove.export.tables import codes_left
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import Tree

_MOST_SPLITS = 1000
_FEWEST_DOCUMENTS, _MOST_DOCUMENTS = 64, 4000
_SEED = 20

_INF = np.float32(np.inf)


def make_documents(source: Exportable) -> Rows:
    """Documents that try the splits of a model: the same for the same model.

    >>> from rankgrove import Ranker, make_web_search
    >>> model = Ranker(n_estimators=2).fit(make_web_search(20, 16, mean_documents=8)).model_
    >>> rows = make_documents(Exportable.of(model))
    >>> bool(np.isin(model.ensemble.threshold, rows.features).all())
    True
    """
    random = np.random.default_rng(_SEED)
    values = [np.empty(0, np.float32) for _ in source.parts[0].feature_names]
    for model in source.parts:
        values = [np.union1d(*both) for both in zip(values, values_to_try(model), strict=True)]
    mixed = _mixed(values, random)
    led = [_led_documents(model, mixed, random) for model in source.parts]
    features = np.concatenate([mixed, *led])
    base = random.normal(size=len(features)) if source.needs_base_scores else None
    return Rows(np.ascontiguousarray(features, dtype=np.float32), base, source.feature_names)


def values_to_try(model: Model) -> list[NDArray[np.float32]]:
    """For each feature its thresholds, their neighbours, a few others, and categories."""
    trees = model.ensemble
    found = []
    for feature in range(model.n_features):
        if feature in model.schema.categories:
            known = float32s(model.schema.categories[feature])
            with np.errstate(over="ignore"):
                # Unknown, most likely: those past the last one, and one that is no whole number.
                beyond = float32s([known.max() + 1, known.min() - 1, known[0] + 0.5])
            others = beyond[np.isfinite(beyond) & ~np.isin(beyond, known)]
            found.append(np.concatenate([known, others, float32s([np.nan])]))
            continue
        cuts = np.unique(trees.threshold[trees.feature == feature])
        with np.errstate(over="ignore", under="ignore"):
            below = np.nextafter(cuts, -_INF)
        others = float32s([np.nan, 0.0, -1.0, 1.0])
        found.append(np.unique(np.concatenate([cuts, next_float32(cuts), below, others])))
    return found


def _mixed(values: list[NDArray[np.float32]], random: np.random.Generator) -> NDArray[np.float32]:
    """Documents in which each value of each feature comes up, in any company."""
    longest = max((len(of_feature) for of_feature in values), default=0)
    n_rows = min(max(longest, _FEWEST_DOCUMENTS), _MOST_DOCUMENTS)
    columns = []
    for of_feature in values:
        repeats = -(-n_rows // max(1, len(of_feature)))
        column = np.tile(random.permutation(of_feature), repeats)[:n_rows]
        # A tenth is missing, besides those whose turn it is.
        missing = random.random(n_rows) < 0.1
        columns.append(random.permutation(np.where(missing, np.float32(np.nan), column)))
    return np.column_stack(columns) if columns else np.empty((n_rows, 0), np.float32)


def _led_documents(
    model: Model, mixed: NDArray[np.float32], random: np.random.Generator
) -> NDArray[np.float32]:
    """For some splits of a model documents that come to them, on and beside the threshold."""
    offsets = model.ensemble.split_offsets
    n_splits = int(offsets[-1])
    chosen = np.sort(random.permutation(n_splits)[:_MOST_SPLITS])
    made = []
    tree_of_split = np.searchsorted(offsets, chosen, side="right") - 1
    for number in np.unique(tree_of_split).tolist():
        tree = model.ensemble.tree(number)
        parents = _parents(tree)
        for split in (chosen[tree_of_split == number] - offsets[number]).tolist():
            document = mixed[random.integers(len(mixed))].copy()
            _lead(model, tree, parents, split, document)
            made.append(_tries(model, tree, split, document))
    return np.concatenate(made) if made else mixed[:0]


def _parents(tree: Tree) -> dict[int, tuple[int, bool]]:
    """For each split but the first: the one that it is a child of, and whether the left one."""
    found = {}
    for split in range(len(tree.feature)):
        for child, is_left in ((int(tree.left[split]), True), (int(tree.right[split]), False)):
            if child >= 0:
                found[child] = (split, is_left)
    return found


def _lead(
    model: Model,
    tree: Tree,
    parents: dict[int, tuple[int, bool]],
    split: int,
    document: NDArray[np.float32],
) -> None:
    """Set those values of a document that lead it to a split, from the root down."""
    way = []
    while split in parents:
        split, is_left = parents[split]
        way.append((split, is_left))
    for above, is_left in reversed(way):
        feature = int(tree.feature[above])
        if feature in model.schema.categories:
            document[feature] = _category_that_goes(model, tree, above, is_left)
            continue
        cut = tree.threshold[above]
        goes_left = bool(tree.missing_left[above])
        if not np.isnan(document[feature]):
            goes_left = bool(document[feature] <= cut)
        if goes_left != is_left:
            document[feature] = cut if is_left else next_float32(cut)


def _category_that_goes(model: Model, tree: Tree, split: int, is_left: bool) -> float:
    """A category that goes to a side of a split; missing, if there is none."""
    categories = model.schema.categories[int(tree.feature[split])]
    sides = codes_left(tree, split)[: len(categories)]
    codes = np.flatnonzero(sides == is_left)
    return categories[int(codes[split % len(codes)])] if len(codes) else np.nan


def _tries(
    model: Model, tree: Tree, split: int, document: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The document with the values that try a split: on the threshold, beside it, missing."""
    feature = int(tree.feature[split])
    if feature in model.schema.categories:
        return document[np.newaxis]
    cut = tree.threshold[split]
    with np.errstate(over="ignore", under="ignore"):
        tried = [cut, next_float32(cut), np.nextafter(cut, -_INF), np.float32(np.nan)]
    made = np.repeat(document[np.newaxis], len(tried), axis=0)
    made[:, feature] = tried
    return made

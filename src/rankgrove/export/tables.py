"""Trees in the forms that writers take them in: flat tables for a walk, and one tree at a time.

All scorers that are generated walk the same tables, and walk them in this way: start at the root
of a tree; while the node is 0 or more, it is a split. At a split with no set go left if the value
is at most the threshold; at one with a set if the bit of the value's code is set; a missing value,
or one whose category is unknown, goes left if `missing_left`. A negative node, ~n, is leaf n. The
score is the sum of the values of the leaves, added in float64 in the order of the trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.exact import Membership, float32s, membership
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Ensemble, Tree

T = TypeVar("T")

_N_CODES = 32 * SET_WORDS


@dataclass(frozen=True, eq=False)
class WalkTables:
    """All trees of a model as flat arrays.

    Attributes
    ----------
    roots
        int32, one per tree: its first split, or ~n where the tree is only leaf n.
    feature, left, right
        int32, one per split; children are numbers of splits, or ~n of leaves, of all trees.
    threshold
        float32, one per split; 0 where there is a set.
    missing_left
        uint8, one per split.
    category_set
        int32, one per split: the row of `category_sets`, or -1 for a split by threshold.
    category_sets
        uint32, a row of 8 words per set: code c goes left if bit c % 32 of word c // 32 is set.
    value
        float64, one per leaf.
    categories
        For each categorical feature that the trees use, its values as float32 in the order of
        their codes.
    n_features
        How many features a document has.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    category_sets: NDArray[np.uint32]
    value: NDArray[np.float64]
    categories: dict[int, NDArray[np.float32]]
    n_features: int

    @classmethod
    def of(cls, model: Model) -> WalkTables:
        """The tables of a model of trees."""
        trees = model.ensemble
        n_splits = np.diff(trees.split_offsets)
        tree = np.repeat(np.arange(trees.n_trees), n_splits)
        first_split = trees.split_offsets[:-1]
        first_leaf = first_split + np.arange(trees.n_trees)

        def children(local: NDArray[np.int32]) -> NDArray[np.int32]:
            splits, leaves = local + first_split[tree], ~(~local + first_leaf[tree])
            return np.where(local >= 0, splits, leaves).astype(np.int32)

        rows, words = _sets_of(model)
        used = np.unique(trees.feature[rows != NO_SET]).tolist()
        return cls(
            roots=np.where(n_splits > 0, first_split, ~first_leaf).astype(np.int32),
            feature=trees.feature,
            threshold=np.where(rows == NO_SET, trees.threshold, np.float32(0)),
            missing_left=trees.missing_left,
            left=children(trees.left),
            right=children(trees.right),
            category_set=rows,
            category_sets=words,
            value=trees.value,
            categories={f: float32s(model.schema.categories[f]) for f in used},
            n_features=model.n_features,
        )


def _sets_of(model: Model) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """For each split the row of its set, and the rows, each once."""
    trees, categories = model.ensemble, model.schema.categories
    rows = np.full(len(trees.feature), NO_SET, dtype=np.int32)
    numbers: dict[bytes, int] = {}
    for split in np.flatnonzero(np.isin(trees.feature, list(categories))).tolist():
        by_code = codes_left(trees, split)
        by_code[len(categories[int(trees.feature[split])]) :] = False
        packed = np.packbits(by_code, bitorder="little").tobytes()
        rows[split] = numbers.setdefault(packed, len(numbers))
    words = np.frombuffer(b"".join(numbers), dtype="<u4").astype(np.uint32)
    return rows, words.reshape(-1, SET_WORDS)


def codes_left(trees: Tree | Ensemble, split: int) -> NDArray[np.bool_]:
    """For each code whether it goes left at a split, by its set or, without one, by threshold."""
    row = int(trees.category_set[split])
    if row == NO_SET:
        return np.arange(_N_CODES) <= float(trees.threshold[split])
    words = trees.category_sets[row].astype("<u4")
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


def memberships(tree: Tree, schema: Schema) -> list[Membership | None]:
    """For each split of a tree its set of categories as a test, or None for one by threshold.

    A categorical feature that is split by threshold, which trees may do by its codes, has a set
    like any other.
    """
    found: list[Membership | None] = []
    for split, feature in enumerate(tree.feature.tolist()):
        if feature not in schema.categories:
            found.append(None)
            continue
        by_code = codes_left(tree, split)
        n_categories = len(schema.categories[feature])
        children = int(tree.left[split]), int(tree.right[split])
        found.append(membership(by_code, n_categories, bool(tree.missing_left[split]), *children))
    return found


def fold_tree(tree: Tree, leaf: Callable[[int], T], split: Callable[[int, T, T], T]) -> T:
    """What a tree comes to from its leaves up, for formats of nested nodes; no depth is too much.

    `leaf` makes something of the number of a leaf, `split` of the number of a split and what its
    left and right child have come to.

    >>> from rankgrove import Ranker, make_web_search
    >>> model = Ranker(n_estimators=1).fit(make_web_search(20, 16, mean_documents=8)).model_
    >>> tree = model.ensemble.tree(0)
    >>> fold_tree(tree, lambda leaf: 1, lambda split, left, right: left + right) == tree.n_leaves
    True
    """
    made: dict[int, T] = {}

    def taken(child: int) -> T:
        return made.pop(child) if child >= 0 else leaf(~child)

    # Children stand after their parents.
    for number in range(len(tree.feature) - 1, -1, -1):
        left, right = int(tree.left[number]), int(tree.right[number])
        made[number] = split(number, taken(left), taken(right))
    return made[0] if made else leaf(0)

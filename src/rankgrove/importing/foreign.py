"""A model of another library as it was read, and the `Model` that is made of it.

A reader of one library's files gives a `ForeignModel`: trees over values. What all of them share
is done here: children are put after their parents, sets of categories become codes, a constant
becomes a tree of one leaf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import default_feature_names
from rankgrove.data.levels import Levels
from rankgrove.model.files import AGAIN, refuse
from rankgrove.model.model import Model
from rankgrove.model.schema import MOST_CATEGORIES, Schema
from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Ensemble, Tree

# Where the notes of a model say which library's model it was.
IMPORTED = "imported"

# Whole numbers past this are not all float32.
_LAST_WHOLE = 1 << 24
# A cover that is not whole keeps six digits after the point, if there is room.
_COVER_SCALE = 1_000_000
_MOST_DOCUMENTS = float(1 << 53)


@dataclass(frozen=True, eq=False)
class ForeignTree:
    """One tree. A child is a split of the tree, or ~n for leaf n; any order will do.

    Attributes
    ----------
    feature, threshold, missing_left, left, right, gain
        One entry per split; documents up to the threshold go left.
    value, cover
        One entry per leaf: what it adds, and the training documents in it, or their weight.
    category_sets
        For each split by category, the categories of one side: of `sets_go_right` in the model.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]
    cover: NDArray[np.float64]
    category_sets: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of_one_leaf(cls, value: float, cover: float = 0.0) -> ForeignTree:
        """A tree that gives every document the same."""
        none = np.empty(0, np.int64)
        return cls(
            none, none.astype(np.float32), none.astype(np.bool_), none, none,
            none.astype(np.float64), np.array([value]), np.array([cover]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ForeignModel:
    """A model of another library.

    Attributes
    ----------
    kind, version, objective
        Which library, which version of it or of its format, and what it was trained for.
    trees
        In the order in which they are added up.
    n_features, feature_names
        The names are empty where the model has none.
    category_values
        For each categorical feature, by its number, what stands for whole number 0, 1, 2, … in
        the sets of its splits: strings or numbers. None for a number that stands for itself.
    known_categories
        For such features further categories that the model knows though no split names them.
    sets_go_right
        Whether the categories in the sets of splits go right and all others left.
    constant
        What every document gets besides.
    notes
        What else is worth keeping, as JSON values.
    """

    kind: str
    version: str
    objective: str
    trees: Sequence[ForeignTree]
    n_features: int
    feature_names: Sequence[str] = ()
    category_values: Mapping[int, Sequence[Any] | None] = field(default_factory=dict)
    known_categories: Mapping[int, frozenset[int]] = field(default_factory=dict)
    sets_go_right: bool = False
    constant: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; f1, f2, … for a model that has none."""
        return tuple(self.feature_names) or default_feature_names(self.n_features)


def make_model(foreign: ForeignModel, notes: Mapping[str, Any]) -> Model:
    """The model, with the trees and the schema of the foreign one; inside `refusing`."""
    trees = [_in_order(tree, number) for number, tree in enumerate(foreign.trees)]
    _check_features(foreign, trees)
    categories = _categories(foreign, trees)
    scale = _cover_scale(trees)
    constant = [_one_leaf(foreign.constant)] if foreign.constant else []
    codes = {
        feature: {number: code for code, number in enumerate(numbers)}
        for feature, numbers in categories.items()
    }
    made = [_as_tree(tree, codes, foreign.sets_go_right, scale) for tree in trees]
    origin = {
        "kind": foreign.kind,
        "version": foreign.version,
        "objective": foreign.objective,
        **foreign.notes,
        **notes,
    }
    if foreign.constant:
        origin["constant"] = foreign.constant
    if scale != 1:
        origin["documents_are"] = f"weights of leaves times {scale:,}"
    schema = _schema(foreign, categories)
    return Model(Ensemble.from_trees(constant + made), schema, {}, {}, notes={IMPORTED: origin})


def _in_order(tree: ForeignTree, number: int) -> ForeignTree:
    """The same tree, each split after its parent, and only what a walk from the root reaches."""
    n_splits = len(tree.feature)
    if n_splits == 0:
        if len(tree.value) != 1:
            refuse(f"must have trees with splits or one leaf. Got {_place(number)}. {AGAIN}")
        return tree
    own = np.arange(n_splits)
    in_place = True
    for child in (tree.left, tree.right):
        if np.any(child >= n_splits) or np.any(~child >= len(tree.value)):
            refuse(f"must have children inside their tree. Got {_place(number)}. {AGAIN}")
        in_place &= not np.any((child >= 0) & (child <= own))
    if in_place and len(tree.value) == n_splits + 1:
        return tree
    splits, leaves = _walk(tree, number)
    place = {split: at for at, split in enumerate(splits)}
    place |= {~leaf: ~at for at, leaf in enumerate(leaves)}
    return replace(
        tree,
        **{
            name: getattr(tree, name)[splits]
            for name in ("feature", "threshold", "missing_left", "gain")
        },
        left=np.array([place[child] for child in tree.left[splits].tolist()]),
        right=np.array([place[child] for child in tree.right[splits].tolist()]),
        value=tree.value[leaves],
        cover=tree.cover[leaves],
        category_sets={
            place[split]: found for split, found in tree.category_sets.items() if split in place
        },
    )


def _walk(tree: ForeignTree, number: int) -> tuple[list[int], list[int]]:
    """The splits and leaves below the root, a parent before its children."""
    splits: list[int] = []
    leaves: list[int] = []
    seen: set[int] = set()
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if node in seen:
            refuse(f"must have trees without circles. Got one in {_place(number)}. {AGAIN}")
        seen.add(node)
        if node < 0:
            leaves.append(~node)
        else:
            splits.append(node)
            waiting += [int(tree.right[node]), int(tree.left[node])]
    return splits, leaves


def _place(number: int) -> str:
    return f"another in tree {number}"


def _check_features(foreign: ForeignModel, trees: Sequence[ForeignTree]) -> None:
    """Refuse trees that split by a feature that is not there, or by one in two ways."""
    by_value: set[int] = set()
    by_category: set[int] = set()
    for tree in trees:
        if np.any((tree.feature < 0) | (tree.feature >= foreign.n_features)):
            refuse(f"must split by its {foreign.n_features} features. Got another one. {AGAIN}")
        by_set = np.zeros(len(tree.feature), np.bool_)
        by_set[list(tree.category_sets)] = True
        by_value.update(tree.feature[~by_set].tolist())
        by_category.update(tree.feature[by_set].tolist())
    coded = by_category | {f for f, values in foreign.category_values.items() if values is not None}
    if both := sorted(by_value & coded):
        refuse(
            f"must split a feature by threshold or by category. Got both for feature "
            f"{foreign.names[both[0]]!r}: leave it as one of them when you train."
        )


def _categories(foreign: ForeignModel, trees: Sequence[ForeignTree]) -> dict[int, list[int]]:
    """For each categorical feature the whole numbers that its codes stand for."""
    named: dict[int, set[int]] = {feature: set() for feature in foreign.category_values}
    # Features at one of whose splits missing values go another way than categories not named.
    apart: set[int] = set()
    for tree in trees:
        for split, found in tree.category_sets.items():
            feature = int(tree.feature[split])
            named.setdefault(feature, set()).update(found)
            if bool(tree.missing_left[split]) != foreign.sets_go_right:
                apart.add(feature)
    chosen = {
        feature: _chosen_categories(foreign, feature, numbers, feature in apart)
        for feature, numbers in sorted(named.items())
    }
    return {feature: sorted(numbers) for feature, numbers in chosen.items() if numbers}


def _chosen_categories(
    foreign: ForeignModel, feature: int, named: set[int], apart: bool
) -> set[int]:
    """The categories that a feature keeps: those that splits name, and others if there is room.

    What is left out goes with missing values. Where categories that no split names go another
    way, none of them may be left out.
    """
    values = foreign.category_values.get(feature)
    known = set(foreign.known_categories.get(feature, ()))
    if values is not None:
        known |= set(range(len(values)))
        if any(number >= len(values) for number in named):
            refuse(
                f"must split {foreign.names[feature]!r} by the categories that it lists. Got "
                f"others. {AGAIN}"
            )
    elif apart:
        # Nothing tells which others there are, so all are taken that there is room for.
        known |= set(range(MOST_CATEGORIES))
        known = set(sorted(known - named)[: max(0, MOST_CATEGORIES - len(named))])
    chosen = named | {number for number in known if number < _LAST_WHOLE}
    if len(chosen) > MOST_CATEGORIES and not apart:
        chosen = named
    if len(chosen) > MOST_CATEGORIES:
        refuse(
            f"must split by at most {MOST_CATEGORIES} categories of a feature. Got "
            f"{len(chosen):,} for feature {foreign.names[feature]!r}: train it with fewer, or as a "
            f"number."
        )
    if chosen and max(chosen) >= _LAST_WHOLE:
        refuse(
            f"must have categories below {_LAST_WHOLE:,}. Got {max(chosen):,} for feature "
            f"{foreign.names[feature]!r}: number them from 0 when you train."
        )
    return chosen


def _schema(foreign: ForeignModel, categories: Mapping[int, Sequence[int]]) -> Schema:
    """Names, and categories by what stands for them: a string is a level, a number itself."""
    values: dict[int, tuple[float, ...]] = {}
    levels: dict[int, Levels] = {}
    for feature, numbers in categories.items():
        given = foreign.category_values.get(feature)
        words: list[Any] = list(numbers) if given is None else [given[number] for number in numbers]
        if all(isinstance(word, str) for word in words):
            levels[feature] = tuple(sorted(words))
            place: dict[Any, float] = {word: float(at) for at, word in enumerate(levels[feature])}
            values[feature] = tuple(place[word] for word in words)
        else:
            values[feature] = tuple(_as_value(word, foreign.names[feature]) for word in words)
    return Schema(foreign.names, values, levels=levels)


def _as_value(word: Any, name: str) -> float:
    if not isinstance(word, (int, float)):
        refuse(
            f"must have categories that are all strings or all numbers. Got {word!r} for feature "
            f"{name!r}: make them one type when you train."
        )
    return float(word)


def _cover_scale(trees: Sequence[ForeignTree]) -> int:
    """What covers are multiplied by to be whole numbers: 1 where they are."""
    covers = [tree.cover for tree in trees]
    joined = np.concatenate([np.empty(0), *covers])
    if not np.isfinite(joined).all() or np.any(joined < 0):
        refuse(f"must have counts or weights of leaves that are 0 or more. Got others. {AGAIN}")
    most = float(joined.max(initial=0.0))
    if most > _MOST_DOCUMENTS:
        refuse(f"must have counts of documents. Got {most:g} in one leaf. {AGAIN}")
    if np.array_equal(joined, np.rint(joined)) or most * _COVER_SCALE > _MOST_DOCUMENTS:
        return 1
    return _COVER_SCALE


def _as_tree(
    tree: ForeignTree, codes: Mapping[int, Mapping[int, int]], sets_go_right: bool, scale: int
) -> Tree:
    category_set = np.full(len(tree.feature), NO_SET, np.int32)
    words = np.zeros((len(tree.category_sets), SET_WORDS), np.uint32)
    for row, (split, found) in enumerate(sorted(tree.category_sets.items())):
        code_of = codes.get(int(tree.feature[split]), {})
        left = [code for number, code in code_of.items() if (number in found) != sets_go_right]
        category_set[split] = row
        for code in left:
            words[row, code // 32] |= np.uint32(1 << code % 32)
    return Tree(
        feature=tree.feature.astype(np.int32),
        threshold=np.where(category_set == NO_SET, tree.threshold, np.float32(0)),
        missing_left=tree.missing_left.astype(np.uint8),
        left=tree.left.astype(np.int32),
        right=tree.right.astype(np.int32),
        category_set=category_set,
        # Some libraries write a gain that is not finite, and nothing but importances reads it.
        gain=np.where(np.isfinite(tree.gain), tree.gain, 0.0),
        value=tree.value,
        count=np.rint(tree.cover * scale).astype(np.int64),
        category_sets=words,
    )


def _one_leaf(value: float) -> Tree:
    return _as_tree(ForeignTree.of_one_leaf(value), {}, False, 1)


def round_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is at most each: it splits float32 values in the same way.

    >>> [float(t) for t in round_down(np.array([0.1, 1e308, 0.5]))]
    [0.09999999403953552, 3.4028234663852886e+38, 0.5]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = thresholds.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) <= thresholds, near, below)

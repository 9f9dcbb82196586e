"""Trees as arrays: one tree as it was grown, and the ensemble as it scores.

A tree with L leaves has L - 1 splits. A child is a number: 0 or more is a split of the same
tree, a negative one, ~n, is leaf n. A child split stands after its parent, so a walk always ends.

A document goes left at a split if its value is at most the threshold, or, at a split of a
categorical feature, if its category's bit is set; a missing value (NaN) goes where the split's
`missing_left` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import DataError

# A set of categories is 256 bits: bit c of it is bit c % 32 of word c // 32.
SET_WORDS = 8
NO_SET = -1

_DTYPES = {
    "feature": np.int32,
    "threshold": np.float32,
    "missing_left": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "category_set": np.int32,
    "gain": np.float64,
    "value": np.float64,
    "count": np.int64,
    "category_sets": np.uint32,
    "split_offsets": np.int64,
}
_BY_SPLIT = ("feature", "threshold", "missing_left", "left", "right", "category_set", "gain")
_BY_LEAF = ("value", "count")


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree.

    Attributes
    ----------
    feature, threshold, missing_left, left, right, gain
        One entry per split.
    category_set
        One entry per split: the row of `category_sets` of those that go left, or -1 for a split
        by threshold.
    value, count
        One entry per leaf: what it adds to the score, the learning rate included, and how many
        training documents fell into it.
    category_sets
        uint32, a row of 8 words a set.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    category_sets: NDArray[np.uint32]

    @property
    def n_leaves(self) -> int:
        return len(self.value)

    @property
    def depth(self) -> int:
        """The most splits on a way from the root to a leaf."""
        depths = [0] * len(self.feature)
        # Children stand after their parents.
        for split in range(len(depths) - 1, -1, -1):
            children = (int(self.left[split]), int(self.right[split]))
            depths[split] = 1 + max(depths[child] if child >= 0 else 0 for child in children)
        return depths[0] if depths else 0

    def alone(self) -> Tree:
        """The same tree with the sets of categories that it uses, and no others."""
        by_category = self.category_set != NO_SET
        used, places = np.unique(self.category_set[by_category], return_inverse=True)
        numbers = self.category_set.copy()
        numbers[by_category] = places
        return replace(self, category_set=numbers, category_sets=self.category_sets[used])


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All trees, one after the other in the same arrays as in `Tree`.

    Splits of tree t are `split_offsets[t]:split_offsets[t + 1]`; its leaves, one more, are
    `split_offsets[t] + t : split_offsets[t + 1] + t + 1`. Children count within their tree.
    A document's score is the sum of its leaves' values, added in the order of the trees.
    """

    split_offsets: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    category_sets: NDArray[np.uint32]

    @classmethod
    def from_trees(cls, trees: Sequence[Tree]) -> Ensemble:
        """The ensemble of these trees, in this order.

        >>> Ensemble.from_trees([]).n_trees
        0
        """

        def joined(name: str) -> NDArray:  # type: ignore[type-arg]
            parts = [getattr(tree, name) for tree in trees]
            return np.concatenate([np.empty(0, _DTYPES[name]), *parts], dtype=_DTYPES[name])

        n_sets = np.cumsum([0, *(len(tree.category_sets) for tree in trees)])
        n_splits = [len(tree.feature) for tree in trees]
        arrays = {name: joined(name) for name in _BY_SPLIT + _BY_LEAF}
        first_set = np.repeat(n_sets[:-1], n_splits)
        chosen = arrays["category_set"]
        arrays["category_set"] = np.where(chosen >= 0, chosen + first_set, NO_SET).astype(np.int32)
        sets = [np.empty((0, SET_WORDS), np.uint32), *(tree.category_sets for tree in trees)]
        return cls(
            split_offsets=np.cumsum([0, *n_splits], dtype=np.int64),
            category_sets=np.concatenate(sets, dtype=np.uint32),
            **arrays,
        )

    @property
    def n_trees(self) -> int:
        return len(self.split_offsets) - 1

    def leaves_of(self, tree: int) -> slice:
        """Where the leaves of a tree are."""
        first, last = self.split_offsets[tree], self.split_offsets[tree + 1]
        return slice(int(first) + tree, int(last) + tree + 1)

    def tree(self, number: int) -> Tree:
        """One tree, sharing memory; its sets of categories are those of the whole ensemble."""
        arrays = self.between(number, number + 1).arrays()
        return Tree(**{name: arrays[name] for name in arrays if name != "split_offsets"})

    def trees(self) -> list[Tree]:
        """Every tree, each with its own sets of categories only."""
        return [self.tree(number).alone() for number in range(self.n_trees)]

    def between(self, first: int, last: int) -> Ensemble:
        """The trees from one number to before another, sharing memory with this ensemble."""
        start, end = int(self.split_offsets[first]), int(self.split_offsets[last])
        return Ensemble(
            split_offsets=self.split_offsets[first : last + 1] - start,
            **{name: getattr(self, name)[start:end] for name in _BY_SPLIT},
            **{name: getattr(self, name)[start + first : end + last] for name in _BY_LEAF},
            category_sets=self.category_sets,
        )

    def prefix(self, n_trees: int) -> Ensemble:
        """The first trees, sharing memory with this ensemble."""
        return self.between(0, n_trees)

    def arrays(self) -> dict[str, NDArray]:  # type: ignore[type-arg]
        """Every array by its name, for a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check(self, n_features: int) -> None:
        """Refuse arrays that are no ensemble over so many features, whoever made them.

        After this no kernel can read outside an array, walk in a circle or return NaN.
        """
        problem = _problem(self, n_features)
        if problem is not None:
            raise DataError(f"the trees of a model must be well formed. Got {problem}.")


def _problem(trees: Ensemble, n_features: int) -> str | None:
    """What is wrong with the arrays of an ensemble, or None."""
    for name, array in trees.arrays().items():
        rows = 2 if name == "category_sets" else 1
        if array.dtype != _DTYPES[name] or array.ndim != rows or not array.flags.c_contiguous:
            return f"{name} of type {array.dtype} and shape {array.shape}"
    offsets = trees.split_offsets
    n_splits, n_trees = len(trees.feature), len(offsets) - 1
    if n_trees < 0 or offsets[0] != 0 or offsets[-1] != n_splits or np.any(np.diff(offsets) < 0):
        return f"offsets that do not rise from 0 to the {n_splits} splits"
    wrong = [name for name in _BY_SPLIT if len(getattr(trees, name)) != n_splits]
    wrong += [name for name in _BY_LEAF if len(getattr(trees, name)) != n_splits + n_trees]
    if wrong or trees.category_sets.shape[1] != SET_WORDS:
        return f"{', '.join(wrong) or 'category_sets'} of the wrong length"
    if n_splits and not 0 <= trees.feature.min() <= trees.feature.max() < n_features:
        return f"a feature outside the {n_features} of the model"
    if n_splits and not (
        NO_SET <= trees.category_set.min() <= trees.category_set.max() < len(trees.category_sets)
    ):
        return "a set of categories that does not exist"
    if not (np.isfinite(trees.value).all() and np.isfinite(trees.gain).all()):
        return "a leaf value or a gain that is not finite"
    if np.isnan(trees.threshold).any() or np.any(trees.count < 0):
        return "a threshold that is NaN or a negative count"
    return _wrong_children(trees)


def _wrong_children(trees: Ensemble) -> str | None:
    """Every split but the first, and every leaf, must be the child of one earlier split."""
    splits = np.diff(trees.split_offsets)
    tree = np.repeat(np.arange(len(splits)), splits)
    first = trees.split_offsets[tree]
    own = np.arange(len(tree)) - first
    seen_splits = np.zeros(len(tree), np.int64)
    seen_leaves = np.zeros(len(trees.value), np.int64)
    for child in (trees.left.astype(np.int64), trees.right.astype(np.int64)):
        is_split = child >= 0
        if np.any(is_split & ((child <= own) | (child >= splits[tree]))):
            return "a child split outside its tree or before its parent"
        if np.any(~is_split & (~child > splits[tree])):
            return "a leaf outside its tree"
        np.add.at(seen_splits, (first + child)[is_split], 1)
        np.add.at(seen_leaves, (first + tree + ~child)[~is_split], 1)
    alone = np.repeat(splits == 0, splits + 1)
    if np.any(seen_splits != (own > 0)) or np.any(seen_leaves != ~alone):
        return "a split or leaf that is not the child of exactly one split"
    return None

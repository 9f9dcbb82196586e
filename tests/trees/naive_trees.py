"""The readable twins of scoring and contributions, and a maker of random ensembles."""

from __future__ import annotations

from itertools import combinations
from math import factorial, isnan

import numpy as np

from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Ensemble, Tree


def goes_left(tree: Tree, split: int, value: float) -> bool:
    missing = isnan(value)
    if tree.category_set[split] != NO_SET:
        if missing or not 0 <= value <= 255 or value != int(value):
            return bool(tree.missing_left[split])
        words = tree.category_sets[tree.category_set[split]]
        return bool(int(words[int(value) // 32]) >> (int(value) % 32) & 1)
    return bool(tree.missing_left[split]) if missing else value <= tree.threshold[split]


def leaf_of(tree: Tree, row: np.ndarray) -> int:
    """The leaf of one document."""
    at = 0 if len(tree.feature) else ~0
    while at >= 0:
        left = goes_left(tree, at, float(row[tree.feature[at]]))
        at = int(tree.left[at] if left else tree.right[at])
    return ~at


def scores_of(ensemble: Ensemble, features: np.ndarray, base: float = 0.0) -> np.ndarray:
    """The score of each document, added tree by tree."""
    scores = np.full(len(features), base)
    for tree in (ensemble.tree(number) for number in range(ensemble.n_trees)):
        for i, row in enumerate(features):
            scores[i] += tree.value[leaf_of(tree, row)]
    return scores


def cover(tree: Tree, at: int) -> int:
    """How many training documents fell under a split or leaf."""
    if at < 0:
        return int(tree.count[~at])
    return cover(tree, int(tree.left[at])) + cover(tree, int(tree.right[at]))


def expectation(tree: Tree, row: np.ndarray, known: frozenset[int], at: int = 0) -> float:
    """The mean value of a tree if only these features are known.

    At a split of another feature both sides count by their share of the training documents,
    one half if there were none.
    """
    if len(tree.feature) == 0 or at < 0:
        return float(tree.value[~at if at < 0 else 0])
    left, right = int(tree.left[at]), int(tree.right[at])
    feature = int(tree.feature[at])
    if feature in known:
        side = left if goes_left(tree, at, float(row[feature])) else right
        return expectation(tree, row, known, side)
    lefts, both = cover(tree, left), cover(tree, at)
    share = lefts / both if both else 0.5
    return share * expectation(tree, row, known, left) + (1 - share) * expectation(
        tree, row, known, right
    )


def shapley_values(ensemble: Ensemble, features: np.ndarray) -> np.ndarray:
    """Contributions from the definition, over all subsets of features; the last column is the
    expected value.
    """
    n_rows, n_features = features.shape
    result = np.zeros((n_rows, n_features + 1))
    for tree in (ensemble.tree(number) for number in range(ensemble.n_trees)):
        used = sorted(set(tree.feature.tolist()))
        for i, row in enumerate(features):
            worth = {
                frozenset(known): expectation(tree, row, frozenset(known))
                for size in range(len(used) + 1)
                for known in combinations(used, size)
            }
            result[i, -1] += worth[frozenset()]
            for feature in used:
                for known in (known for known in worth if feature not in known):
                    weight = factorial(len(known)) * factorial(len(used) - len(known) - 1)
                    change = worth[known | {feature}] - worth[known]
                    result[i, feature] += weight / factorial(len(used)) * change
    return result


def random_tree(
    rng: np.random.Generator,
    n_leaves: int,
    n_features: int,
    *,
    categorical: tuple[int, ...] = (),
    thresholds: np.ndarray | None = None,
    chain: bool = False,
) -> Tree:
    """A tree of random shape, each split at one of the thresholds if given; in a chain every
    split has a leaf.
    """
    n_splits = n_leaves - 1
    children = np.zeros((n_splits, 2), dtype=np.int32)
    open_ends = [(-1, 0)]
    for split in range(n_splits):
        chosen = len(open_ends) - 1 if chain else int(rng.integers(len(open_ends)))
        parent, side = open_ends.pop(chosen)
        if parent >= 0:
            children[parent, side] = split
        ends = [(split, 0), (split, 1)]
        open_ends += ends if rng.random() < 0.5 else ends[::-1]
    if n_splits:
        for leaf, end in enumerate(open_ends[int(at)] for at in rng.permutation(n_leaves)):
            children[end] = ~leaf
    feature = rng.integers(n_features, size=n_splits).astype(np.int32)
    if thresholds is None:
        threshold = rng.normal(size=n_splits)
    else:
        threshold = rng.choice(thresholds, size=n_splits)
    by_set = np.isin(feature, categorical)
    sets = rng.integers(0, 2**32, size=(int(by_set.sum()), SET_WORDS), dtype=np.uint32)
    return Tree(
        feature=feature,
        threshold=threshold.astype(np.float32),
        missing_left=rng.integers(0, 2, size=n_splits).astype(np.uint8),
        left=children[:, 0].copy(),
        right=children[:, 1].copy(),
        category_set=np.where(by_set, np.cumsum(by_set) - 1, NO_SET).astype(np.int32),
        gain=rng.random(n_splits),
        value=rng.normal(size=n_leaves),
        count=rng.integers(1, 1000, size=n_leaves),
        category_sets=sets,
    )


def random_ensemble(
    rng: np.random.Generator, leaves: list[int], n_features: int, **options: object
) -> Ensemble:
    """Trees with so many leaves each."""
    ensemble = Ensemble.from_trees(
        [random_tree(rng, n_leaves, n_features, **options) for n_leaves in leaves]  # type: ignore[arg-type]
    )
    ensemble.check(n_features)
    return ensemble


def random_features(
    rng: np.random.Generator, n_rows: int, n_features: int, categorical: tuple[int, ...] = ()
) -> np.ndarray:
    """Values on and around thresholds, with NaN, infinities and both zeros among them."""
    values = rng.normal(size=(n_rows, n_features))
    odd = np.array([np.nan, np.nan, np.inf, -np.inf, 0.0, -0.0])
    values = np.where(rng.random(values.shape) < 0.15, rng.choice(odd, values.shape), values)
    for feature in categorical:
        codes = rng.integers(0, 256, size=n_rows).astype(float)
        strange = np.array([np.nan, -1.0, 256.0, 3.5, np.inf, -np.inf, 1e30, -0.0])
        values[:, feature] = np.where(rng.random(n_rows) < 0.3, rng.choice(strange, n_rows), codes)
    return values.astype(np.float32)

"""Models that are hard to export, made at random, and documents that find what is wrong."""

from __future__ import annotations

import numpy as np

from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Ensemble, Tree

LARGEST = np.finfo(np.float32).max
# Where floats end, begin and change their step.
HARD_THRESHOLDS = np.float32(
    [0.0, -0.0, 1e-45, -1e-45, 1e-36, -1e-36, LARGEST, -LARGEST, np.inf, 1.0, -1.0, 0.1, 2.0**24]
)
WHOLE, ANY = "whole", "any"


def random_tree(random, n_leaves, schema, thresholds):
    """A tree of some shape, with splits by threshold and by category, missing either way."""
    n_splits = n_leaves - 1
    left, right = np.zeros(n_splits, np.int32), np.zeros(n_splits, np.int32)
    # The open places of children; each split but the first takes one, leaves take the rest.
    places = []
    for split in range(n_splits):
        if split:
            at = random.integers(len(places)) if random.random() < 0.7 else len(places) - 1
            parent, side = places.pop(at)
            side[parent] = split
        places += [(split, left), (split, right)]
    for leaf, (parent, side) in enumerate(places):
        side[parent] = ~leaf
    feature = random.integers(schema.n_features, size=n_splits).astype(np.int32)
    category_set = np.full(n_splits, NO_SET, np.int32)
    sets = []
    for split in range(n_splits):
        if int(feature[split]) in schema.categories:
            category_set[split] = len(sets)
            # Among them full and empty ones.
            low, high = [(0, 1 << 32), (0, 1), ((1 << 32) - 1, 1 << 32)][
                random.choice(3, p=[0.8, 0.1, 0.1])
            ]
            sets.append(random.integers(low, high, size=SET_WORDS, dtype=np.uint64))
    return Tree(
        feature=feature,
        threshold=random.choice(thresholds, size=n_splits).astype(np.float32),
        missing_left=random.integers(2, size=n_splits).astype(np.uint8),
        left=left,
        right=right,
        category_set=category_set,
        gain=np.zeros(n_splits),
        value=random.normal(size=n_leaves) * 10.0 ** random.integers(-3, 2, size=n_leaves),
        count=np.ones(n_leaves, np.int64),
        category_sets=np.array(sets, np.uint32).reshape(-1, SET_WORDS),
    )


def random_schema(random, n_numbers=4, categories=WHOLE, needs_base_scores=False):
    """Numeric features, then two categorical ones unless there are to be none."""
    values = {}
    if categories is not None:
        for feature, most in ((n_numbers, 8), (n_numbers + 1, 200)):
            number = int(random.integers(1, most))
            known = random.permutation(400)[:number].astype(np.float32)
            if categories == ANY:
                odd = random.choice(np.float32([-3.0, 0.5, 3.7, 1e30, -0.1, 1e-40, 7e6]), number)
                known = np.unique(np.where(random.random(number) < 0.5, odd, known))
                known = random.permutation(known)
            values[feature] = tuple(known.tolist())
    names = tuple(f"feature {number}" for number in range(n_numbers + 2 * bool(values)))
    return Schema(names, values, needs_base_scores)


def random_model(seed, *, n_trees=None, most_leaves=12, categories=WHOLE, base_scores=False):
    random = np.random.default_rng(seed)
    schema = random_schema(random, categories=categories, needs_base_scores=base_scores)
    near = np.float32(random.normal(size=6))
    thresholds = np.concatenate([HARD_THRESHOLDS, near, np.nextafter(near, np.float32(np.inf))])
    if n_trees is None:
        n_trees = int(random.integers(1, 6))
    leaves = random.integers(1, most_leaves + 1, size=n_trees)
    trees = [random_tree(random, int(number), schema, thresholds) for number in leaves]
    return Model(Ensemble.from_trees(trees), schema, {}, {})


def random_documents(seed, model, n_documents=60):
    """On thresholds, beside them, missing, infinite; known, unknown and missing categories."""
    random = np.random.default_rng(seed)
    cuts = np.unique(np.append(model.ensemble.threshold, HARD_THRESHOLDS))
    with np.errstate(over="ignore", under="ignore"):
        beside = [np.nextafter(cuts, np.float32(end)) for end in (np.inf, -np.inf)]
    values = np.concatenate([cuts, *beside, np.float32([np.nan, np.inf, -np.inf])])
    features = random.choice(values, size=(n_documents, model.n_features))
    for feature, known in model.schema.categories.items():
        some = np.float32([*known, *known, np.nan, np.nan, 999.0, -1.0, 3.5, np.inf])
        features[:, feature] = random.choice(some, size=n_documents)
    features[random.random(features.shape) < 0.1] = np.nan
    return features

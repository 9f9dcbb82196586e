"""Small models of random trees, and their scores by definition."""

from __future__ import annotations

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from trees.naive_trees import random_ensemble, scores_of

NAMES = ("bm25", "pagerank", "language", "clicks", "length")
CATEGORIES = {2: (49.0, 33.0, 7.0, 44.5)}


def make_model(seed=0, n_trees=6, n_leaves=9, names=NAMES, categories=None, used=None, **schema):
    """A model of random trees over the first `used` features."""
    rng = np.random.default_rng(seed)
    categories = CATEGORIES if categories is None else categories
    used = len(names) if used is None else used
    return Model(
        random_ensemble(rng, [n_leaves] * n_trees, used, categorical=tuple(categories)),
        Schema(names, categories, **schema),
        {"objective": "lambdamart", "learning_rate": 0.1, "gains": [0, 1, 3]},
        {"vali": {"ndcg@10": [0.5, 0.625, float("nan")]}},
    )


def make_features(seed=0, n_rows=60, categories=None):
    """Values on both sides of the thresholds, missing ones, and categories known and not."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, len(NAMES))).astype(np.float32)
    for feature, values in (CATEGORIES if categories is None else categories).items():
        features[:, feature] = rng.choice([*values, 999.0], n_rows)
    features[rng.random(features.shape) < 0.1] = np.nan
    return features


def make_dataset(seed=0, n_queries=12, n_documents=10, **columns):
    features = make_features(seed, n_queries * n_documents)
    labels = np.random.default_rng(seed + 1).integers(0, 5, len(features))
    return Dataset.from_arrays(features, labels, group=[n_documents] * n_queries, **columns)


def naive_scores(model, features, n_trees=None):
    """The scores by definition, from values as a caller has them."""
    codes = np.array(features, dtype=np.float32)
    for feature, values in model.schema.categories.items():
        for row, value in enumerate(codes[:, feature]):
            codes[row, feature] = values.index(value) if value in values else np.nan
    return scores_of(model.ensemble.prefix(model.n_trees if n_trees is None else n_trees), codes)

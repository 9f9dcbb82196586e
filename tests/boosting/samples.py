"""Small data to train on, and how to tell whether two runs gave the same trees."""

from __future__ import annotations

import numpy as np

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.training.run import Run
from rankgrove.training.trees import start_trees

# Trees small enough to grow in no time on a few hundred documents.
QUICK = {
    "objective": "lambdamart", "n_estimators": 6, "max_leaves": 8, "min_samples_leaf": 5, "l2": 0.0,
}  # fmt: skip


def make_data(
    seed=0,
    n_queries=40,
    n_documents=12,
    n_features=6,
    *,
    missing=0.0,
    n_categories=0,
    weighted=False,
    based=False,
    names=None,
):
    """Documents whose grade depends on all features; the last one may be categorical."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    features = rng.normal(size=(n, n_features)).astype(np.float32)
    signal = features @ rng.normal(size=n_features) + rng.normal(size=n)
    if n_categories:
        category = rng.integers(0, n_categories, n)
        features[:, -1] = 10 * category + 7
        signal += 2 * rng.normal(size=n_categories)[category]
    grades = np.digitize(signal, np.quantile(signal, [0.5, 0.75, 0.9, 0.97]))
    if missing:
        holes = rng.random(features.shape) < missing
        holes[:, 0] &= grades > 1
        features[holes] = np.nan
    return Dataset.from_arrays(
        features,
        grades,
        group=[n_documents] * n_queries,
        weights=rng.integers(1, 5, n_queries) / 2 if weighted else None,
        base_scores=rng.normal(size=n) if based else None,
        feature_names=names,
    )


def train(data, valid=None, callbacks=(), n_jobs=1, **parameters):
    """A run, done."""
    run = start_trees(data, valid or {}, Parameters(**{**QUICK, **parameters}), n_jobs=n_jobs)
    return run.run(callbacks)


def bits(trees):
    """Every array of an ensemble, or of that of a run, as bytes, to compare bit for bit."""
    ensemble = trees.trainer.ensemble if isinstance(trees, Run) else trees
    return {name: array.tobytes() for name, array in ensemble.arrays().items()}


def trees_of(ensemble):
    return [ensemble.tree(number) for number in range(ensemble.n_trees)]


def depth_of(tree, split=0):
    """Splits on the longest way from the root to a leaf."""
    if tree.n_leaves == 1 or split < 0:
        return 0
    return 1 + max(depth_of(tree, child) for child in (tree.left[split], tree.right[split]))

"""LightGBM's own trees, reproduced: the same forces, splits and leaf values on the same bins.

Features are ranks in few enough steps that both keep every value in a bin of its own. LightGBM
estimates the documents of a leaf from curvatures where Rankgrove counts them, so the smallest
leaf is set to one document; everything else is at the defaults that both share.
"""

from dataclasses import replace

import numpy as np
import pytest

from rankgrove import Dataset, make_web_search
from rankgrove.boosting.parameters import Parameters
from rankgrove.testing.lightgbm_trees import ensemble_of
from rankgrove.testing.peers import fit_peer, peer_settings
from rankgrove.training.trees import start_trees

pytest.importorskip("lightgbm")

N_TREES = 3


def binned_data(missing=False):
    """The ranks of the values of a web-search data set, in 200 steps."""
    data = make_web_search(250, 20, seed=3)
    steps = np.floor(data.features.argsort(0).argsort(0) * 200 / data.n_documents)
    if missing:
        holes = np.random.default_rng(0).random(steps.shape) < 0.2
        steps[:, ::2] = np.where(holes, np.nan, steps)[:, ::2]
    return Dataset.from_arrays(steps, data.labels, group=data.group)


def train_both(data, *, leaves=31, normalise=True, truncation=30, weights=None):
    own = replace(data, weights=weights)
    shared = {
        "objective": "lambdamart", "max_leaves": leaves, "min_samples_leaf": 1, "l2": 0.0,
        "normalise": normalise, "truncation": truncation, "learning_rate": 0.1,
    }  # fmt: skip
    # LightGBM ranks equal scores in the order of the rows.
    parameters = Parameters(**shared, metric="ndcg(ties=stable)", n_estimators=N_TREES)
    run = start_trees(own, {}, parameters).run()
    settings = peer_settings("lightgbm", {**shared, "max_bins": 255}, n_jobs=2)
    settings |= {"min_data_in_bin": 1, "feature_pre_filter": False, "deterministic": True}
    theirs = fit_peer("lightgbm", settings, own, N_TREES).model
    return run.trees, theirs


def leaves_of(tree, features):
    """The leaf of each row, by a walk that knows only the arrays."""
    out = np.empty(len(features), dtype=np.int64)
    for row, values in enumerate(features):
        node = 0
        while node >= 0:
            value = values[tree.feature[node]]
            left = tree.missing_left[node] if np.isnan(value) else value <= tree.threshold[node]
            node = int(tree.left[node] if left else tree.right[node])
        out[row] = ~node
    return out


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("leaves", [2, 15, 63])
def test_splits_and_leaf_values_are_lightgbms(normalise, leaves):
    data = binned_data()
    trees, booster = train_both(data, normalise=normalise, leaves=leaves)
    theirs = ensemble_of(booster)
    reached = booster.predict(data.features, pred_leaf=True).astype(np.int64)
    # Deep in a tree of many leaves the next tree meets splits that are equal but for rounding.
    for number, tree in enumerate(trees[: 1 if leaves > 31 else N_TREES]):
        other = theirs.tree(number)
        assert tree.n_leaves == other.n_leaves == leaves
        # The same splits, in the order in which both make them.
        assert sorted(tree.feature) == sorted(other.feature)
        mine = leaves_of(tree, data.features)
        pairs = np.unique(np.stack([mine, reached[:, number]]), axis=1)
        assert pairs.shape[1] == leaves  # each leaf of ours is one of theirs
        # LightGBM's forces are float32 from a table of a million steps.
        values = np.sort(tree.value), np.sort(other.value)
        assert values[0] == pytest.approx(values[1], rel=1e-4, abs=2e-5)
        assert np.sort(tree.gain) == pytest.approx(np.sort(other.gain), rel=1e-3)
        assert sorted(tree.count) == sorted(other.count)


@pytest.mark.parametrize("case", ["missing", "weights", "truncation"])
def test_first_tree_is_lightgbms_with(case):
    data = binned_data(missing=case == "missing")
    weights = None
    if case == "weights":
        weights = np.random.default_rng(1).integers(1, 5, data.n_queries).astype(float)
    trees, booster = train_both(data, weights=weights, truncation=5 if case == "truncation" else 30)
    other = ensemble_of(booster).tree(0)
    assert sorted(trees[0].feature) == sorted(other.feature)
    assert sorted(trees[0].count) == sorted(other.count)
    assert np.sort(trees[0].value) == pytest.approx(np.sort(other.value), rel=1e-4, abs=2e-5)

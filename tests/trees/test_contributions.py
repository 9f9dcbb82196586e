"""Contributions against Shapley values from their definition, and against the score."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove.errors import DataError
from rankgrove.trees.contributions import contributions, explain_block
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import PreparedEnsemble
from trees.naive_trees import random_ensemble, random_features, random_tree, shapley_values

SHAPES = {
    "no trees": [],
    "single leaves": [1, 1],
    "stumps": [2, 2, 2],
    "mixed": [1, 12, 2, 20, 7],
}


@pytest.mark.parametrize("leaves", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_contributions_are_shapley_values(leaves, n_features):
    rng = np.random.default_rng(n_features)
    ensemble = random_ensemble(rng, leaves, n_features)
    features = random_features(rng, 12, n_features)
    want = shapley_values(ensemble, features)
    np.testing.assert_allclose(contributions(ensemble, features), want, rtol=1e-10, atol=1e-13)


def test_contributions_of_categories_are_shapley_values():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, [10, 15, 9], 4, categorical=(0, 2))
    features = random_features(rng, 20, 4, categorical=(0, 2))
    want = shapley_values(ensemble, features)
    np.testing.assert_allclose(contributions(ensemble, features), want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("share_empty", [0.3, 1.0])
def test_leaves_without_training_documents_do_no_harm(share_empty):
    rng = np.random.default_rng(1)
    trees = [random_tree(rng, 12, 4) for _ in range(3)]
    for tree in trees:
        tree.count[rng.random(len(tree.count)) < share_empty] = 0
    ensemble = Ensemble.from_trees(trees)
    features = random_features(rng, 15, 4)
    want = shapley_values(ensemble, features)
    np.testing.assert_allclose(contributions(ensemble, features), want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("leaves", "n_features", "chain"),
    [([63] * 20 + [300], 30, False), ([100, 400], 3, True), ([150], 200, True)],
)
def test_contributions_add_up_to_the_score(leaves, n_features, chain):
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, leaves, n_features, chain=chain)
    features = random_features(rng, 150, n_features)
    sums = contributions(ensemble, features).sum(axis=1)
    np.testing.assert_allclose(
        sums, PreparedEnsemble(ensemble).score(features), rtol=1e-9, atol=1e-12
    )


def test_a_feature_that_no_tree_uses_contributes_nothing():
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, [20] * 3, 4)
    result = contributions(ensemble, random_features(rng, 10, 6))
    assert result.shape == (10, 7)
    assert not result[:, 4:6].any()


def test_threads_and_batches_do_not_change_the_bits():
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, [31] * 10, 8)
    features = random_features(rng, 500, 8)
    whole = contributions(ensemble, features, n_jobs=1)
    for n_jobs in (2, 4, None):
        np.testing.assert_array_equal(contributions(ensemble, features, n_jobs), whole)
    for size in (0, 1, 17, 200):
        part = slice(100, 100 + size)
        np.testing.assert_array_equal(contributions(ensemble, features[part]), whole[part])


def test_too_few_features_are_refused():
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, [50], 4)
    with pytest.raises(DataError, match="at least the 4 columns"):
        contributions(ensemble, random_features(rng, 10, 3))


def test_the_kernel_is_compiled_once():
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, [5, 30], 3)
    features = random_features(rng, 8, 3)
    contributions(ensemble, features)
    contributions(ensemble.prefix(1), features[::2].astype(np.float64), n_jobs=2)
    assert len(explain_block.signatures) == 1


def test_contributions_are_those_of_lightgbm():
    lgb = pytest.importorskip("lightgbm")
    from rankgrove.testing.lightgbm_trees import ensemble_of

    rng = np.random.default_rng(7)
    features = random_features(rng, 600, 10)
    features[:, 5:] = np.nan_to_num(features[:, 5:], posinf=3, neginf=-3)
    labels = np.nan_to_num(features[:, 0]).clip(-2, 2) * (features[:, 6] > 0) + features[:, 7]
    settings = {"num_leaves": 31, "min_data_in_leaf": 3, "verbosity": -1, "num_threads": 1}
    booster = lgb.train(settings, lgb.Dataset(features, labels), 30)
    ensemble = ensemble_of(booster)
    ensemble.check(10)
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(features), booster.predict(features)
    )
    want = booster.predict(features, pred_contrib=True)
    np.testing.assert_allclose(contributions(ensemble, features), want, rtol=1e-9, atol=1e-11)

"""Scoring against the naive walk, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove.errors import DataError, ParameterError
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import PreparedEnsemble, score_rows
from trees.naive_trees import random_ensemble, random_features, random_tree, scores_of

SHAPES = {
    "no trees": [],
    "single leaves": [1, 1, 1],
    "stumps": [2] * 5,
    "mixed": [1, 63, 2, 64, 65, 1, 31],
    "bytes": [255, 256, 3],
    "beyond a byte": [257, 5, 700, 256],
}


@pytest.mark.parametrize("leaves", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 31, 32, 33, 64, 127, 128, 129, 131, 137])
def test_scores_are_those_of_a_walk_bit_for_bit(leaves, n_rows):
    rng = np.random.default_rng(n_rows)
    ensemble = random_ensemble(rng, leaves, 7)
    features = random_features(rng, n_rows, 7)
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(features), scores_of(ensemble, features)
    )


@pytest.mark.parametrize("n_rows", [2, 200])
def test_a_chain_of_any_depth_is_scored(n_rows):
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, [100, 256, 400], 3, chain=True)
    features = random_features(rng, n_rows, 3)
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(features), scores_of(ensemble, features)
    )


@pytest.mark.parametrize("n_thresholds", [1, 2, 127, 128, 253, 254, 255, 256, 508, 509, 1100])
def test_any_number_of_thresholds_of_a_feature_works(n_thresholds):
    rng = np.random.default_rng(n_thresholds)
    thresholds = np.unique(rng.normal(size=n_thresholds).astype(np.float32))
    ensemble = random_ensemble(rng, [200] * 12, 2, thresholds=thresholds)
    on, above = thresholds, np.nextafter(thresholds, np.float32(np.inf))
    values = np.concatenate([on, above, [np.nan, np.inf, -np.inf]]).astype(np.float32)
    features = np.column_stack([values, rng.permutation(values)])[:: 1 + len(values) // 300].copy()
    prepared, wanted = PreparedEnsemble(ensemble), scores_of(ensemble, features)
    np.testing.assert_array_equal(prepared.score(features), wanted)
    one_by_one = [prepared.score(row[np.newaxis])[0] for row in features]
    np.testing.assert_array_equal(one_by_one, wanted)


@pytest.mark.parametrize("n_rows", [3, 150])
def test_splits_at_infinity_and_at_both_zeros_are_scored(n_rows):
    rng = np.random.default_rng(1)
    thresholds = np.array([-np.inf, -1.0, -0.0, 0.0, 1e-45, 3.4e38, np.inf])
    ensemble = random_ensemble(rng, [40] * 5, 4, thresholds=thresholds)
    features = random_features(rng, n_rows, 4)
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(features), scores_of(ensemble, features)
    )


@pytest.mark.parametrize("n_rows", [1, 4, 150])
def test_categories_go_by_their_bit_and_strange_ones_are_missing(n_rows):
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, [30, 300, 1, 63], 5, categorical=(1, 3))
    features = random_features(rng, n_rows, 5, categorical=(1, 3))
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(features), scores_of(ensemble, features)
    )


def test_any_prefix_of_the_trees_scores_as_an_ensemble_of_its_own():
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, [20, 1, 300, 7], 4)
    features = random_features(rng, 140, 4)
    scorer = PreparedEnsemble(ensemble)
    for n_trees in range(5):
        want = scores_of(ensemble.prefix(n_trees), features)
        np.testing.assert_array_equal(scorer.score(features, n_trees), want)
        np.testing.assert_array_equal(
            PreparedEnsemble(ensemble.prefix(n_trees)).score(features), want
        )


def test_threads_and_batches_do_not_change_the_bits():
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, [63] * 200 + [500] * 4, 10)
    features = random_features(rng, 3001, 10)
    scorer = PreparedEnsemble(ensemble)
    whole = scorer.score(features, n_jobs=1)
    for n_jobs in (2, 4, None):
        np.testing.assert_array_equal(scorer.score(features, n_jobs=n_jobs), whole)
    for size in (1, 3, 50, 128, 700):
        part = slice(1000, 1000 + size)
        np.testing.assert_array_equal(scorer.score(features[part]), whole[part])


def test_scores_start_from_the_base_before_the_first_tree():
    rng = np.random.default_rng(5)
    # 1e16 + 1 + 1 is 1e16 when added one by one and 1e16 + 2 when the trees come first.
    leaf = random_tree(rng, 1, 1)
    leaf.value[:] = 1.0
    scorer = PreparedEnsemble(Ensemble.from_trees([leaf, leaf]))
    features = np.zeros((2, 1), dtype=np.float32)
    np.testing.assert_array_equal(scorer.score(features, base=1e16), [1e16, 1e16])
    np.testing.assert_array_equal(scorer.score(features, base=[0.0, 1e16]), [2.0, 1e16])


def test_more_features_than_the_trees_use_are_allowed_and_fewer_refused():
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, [50] * 3, 4)
    features = random_features(rng, 10, 6)
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(features), scores_of(ensemble, features)
    )
    with pytest.raises(DataError, match=r"at least the 4 columns.*Got shape \(10, 3\)"):
        PreparedEnsemble(ensemble).score(features[:, :3])


@pytest.mark.parametrize("n_trees", [-1, 3, 1.5, "2"])
def test_a_number_of_trees_that_is_not_there_is_refused(n_trees):
    ensemble = random_ensemble(np.random.default_rng(7), [2, 2], 1)
    with pytest.raises(ParameterError, match=r"n_trees must be .* 2. Got"):
        PreparedEnsemble(ensemble).score(np.zeros((1, 1), dtype=np.float32), n_trees)


def test_base_scores_of_another_length_are_refused():
    ensemble = random_ensemble(np.random.default_rng(8), [2], 1)
    with pytest.raises(DataError, match=r"base must be .* 2. Got shape \(3,\)"):
        PreparedEnsemble(ensemble).score(np.zeros((2, 1), dtype=np.float32), base=[1, 2, 3])


@pytest.mark.parametrize("n_jobs", [0, 1.5, True])
def test_a_wrong_n_jobs_is_refused_even_for_one_document(n_jobs):
    ensemble = random_ensemble(np.random.default_rng(9), [2], 1)
    with pytest.raises(ParameterError, match="n_jobs"):
        PreparedEnsemble(ensemble).score(np.zeros((1, 1), dtype=np.float32), n_jobs=n_jobs)


def test_the_kernel_is_compiled_once():
    rng = np.random.default_rng(10)
    ensemble = random_ensemble(rng, [5, 300], 3)
    features = random_features(rng, 8, 3)
    PreparedEnsemble(ensemble).score(features, n_trees=np.int32(1))
    PreparedEnsemble(ensemble).score(features.astype(np.float64), base=np.float32(1))
    frozen = features.copy()
    frozen.flags.writeable = False
    PreparedEnsemble(ensemble).score(frozen[::2], n_jobs=2)
    # Of a matrix, and of sparse features.
    assert len(score_rows.signatures) <= 2


def test_scores_are_those_of_lightgbm_for_the_same_trees():
    lgb = pytest.importorskip("lightgbm")
    from rankgrove.testing.lightgbm_trees import ensemble_of

    rng = np.random.default_rng(11)
    features = random_features(rng, 800, 6)
    # Without missing values in training LightGBM takes one for 0 later on.
    features[:, 3:] = np.nan_to_num(features[:, 3:], posinf=3, neginf=-3)
    labels = np.nan_to_num(features[:, 0]).clip(-2, 2) * (features[:, 4] > 0) + features[:, 5]
    settings = {"num_leaves": 300, "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1}
    booster = lgb.train(settings, lgb.Dataset(features, labels), 20)
    ensemble = ensemble_of(booster)
    ensemble.check(6)
    strange = random_features(rng, 800, 6)
    np.testing.assert_array_equal(
        PreparedEnsemble(ensemble).score(strange), booster.predict(strange)
    )

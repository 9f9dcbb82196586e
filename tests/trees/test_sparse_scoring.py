"""Sparse rows have the scores of dense ones, to the bit."""

import numpy as np
import pytest

from data.sparse_samples import as_csr, make_dense
from rankgrove.data.dataset import as_features
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.errors import DataError
from rankgrove.trees.contributions import contributions
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import PreparedEnsemble
from trees.naive_trees import random_ensemble, scores_of

ABSENT = [0.0, np.nan, 2.0]


def make_both(absent, n_rows=300, seed=0):
    dense = make_dense(n_rows, seed, absent)
    sparse = as_features(as_csr(dense, absent), absent)
    assert isinstance(sparse, SparseFeatures)
    return sparse, dense


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("leaves", [[2, 7, 1, 31], [63] * 20, [300, 5, 40]])
def test_scores_are_those_of_dense_rows(leaves, absent):
    for seed in range(3):
        sparse, dense = make_both(absent, seed=seed)
        ensemble = random_ensemble(np.random.default_rng(seed), leaves, dense.shape[1])
        prepared = PreparedEnsemble(ensemble)
        expected = prepared.score(dense)
        for n_jobs in (1, 3):
            np.testing.assert_array_equal(prepared.score(sparse, n_jobs=n_jobs), expected)
        np.testing.assert_array_equal(prepared.score(sparse[:20]), scores_of(ensemble, dense[:20]))
        for rows in (slice(0, 1), slice(7, 10), slice(0, 0), slice(3, 200)):
            base = np.arange(len(dense[rows]))
            found = prepared.score(sparse[rows], 2, base=base)
            np.testing.assert_array_equal(found, prepared.score(dense[rows], 2, base=base))
        np.testing.assert_array_equal(
            contributions(ensemble, sparse[:30]), contributions(ensemble, dense[:30])
        )


def test_trees_that_use_few_features_ignore_the_others():
    sparse, dense = make_both(0.0)
    prepared = PreparedEnsemble(random_ensemble(np.random.default_rng(1), [9, 9], 3))
    np.testing.assert_array_equal(prepared.score(sparse), prepared.score(dense))
    none = PreparedEnsemble(Ensemble.from_trees([]))
    assert not none.score(sparse).any()


def test_too_few_features_are_refused():
    sparse, _ = make_both(0.0)
    ensemble = random_ensemble(np.random.default_rng(0), [63] * 9, 200)
    with pytest.raises(DataError, match=r"Got shape \(300, 80\)"):
        PreparedEnsemble(ensemble).score(sparse)

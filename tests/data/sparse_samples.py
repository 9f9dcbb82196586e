"""Sparse data with all that can be odd about them, in sparse and dense forms."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from rankgrove import Dataset

N_FEATURES = 80


def make_dense(n_rows=400, seed=0, absent=0.0, n_features=N_FEATURES):
    """Few values in most columns; some columns are full, empty, constant, odd or of categories."""
    rng = np.random.default_rng(seed)
    size = (n_rows, n_features)
    features = np.full(size, absent, dtype=np.float32)
    shares = rng.choice([0.0, 0.01, 0.05, 0.15, 0.3], n_features)
    stored = rng.random(size) < shares
    values = np.where(rng.random(size) < 0.5, rng.integers(-4, 9, size), rng.normal(size=size))
    features[stored] = values[stored]
    features[:, 0] = rng.normal(size=n_rows)
    # One value in most rows, and that is not the absent one.
    features[:, 1] = np.where(rng.random(n_rows) < 0.9, np.float32(2.5), features[:, 1])
    features[:, 2] = 7.0
    features[:, 3] = absent
    features[:, 4] = np.where(rng.random(n_rows) < 0.1, rng.integers(1, 6, n_rows), absent)
    odd = np.float32([-0.0, 0.0, np.nan, np.inf, -np.inf, 1e-45, 3e38])
    features[rng.integers(0, n_rows, 40), 5] = rng.choice(odd, 40)
    features[rng.integers(0, n_rows, 40), rng.integers(0, n_features, 40)] = rng.choice(odd, 40)
    features[n_rows // 2] = absent
    return features


def as_csr(dense, absent=0.0):
    """What differs from absent, to the bit, is stored."""
    stored = dense.view(np.uint32) != np.float32(absent).view(np.uint32)
    starts = np.append(0, np.cumsum(stored.sum(axis=1)))
    return scipy.sparse.csr_matrix((dense[stored], np.nonzero(stored)[1], starts), dense.shape)


def make_data(dense, absent=0.0, *, sparse, query_rows=20, **fields):
    """A Dataset of a matrix, in its sparse form or as it is."""
    n_rows = len(dense)
    known = np.nan_to_num(dense, nan=-1.0, posinf=9.0, neginf=-9.0).clip(-9, 9)
    noise = np.random.default_rng(n_rows).normal(size=n_rows)
    scores = known[:, 0] + known[:, 1] + 2 * known[:, 4] + known[:, 6:20].sum(axis=1) + noise
    labels = np.digitize(scores, np.quantile(scores, [0.5, 0.8, 0.95]))
    features = as_csr(dense, absent) if sparse else dense
    return Dataset.from_arrays(
        features, labels, group=[query_rows] * (n_rows // query_rows), absent=absent, **fields
    )


def assert_same_bits(features, dense):
    found = np.asarray(features)
    assert (found.shape, found.dtype) == (dense.shape, np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), dense.view(np.uint32))

"""What is done to features before a network sees them."""

from __future__ import annotations

import numpy as np
import pytest

from data.sparse_samples import make_data, make_dense
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.neural.transform import Transform

KINDS = ["quantile", "log1p", "standard"]


def make_features(n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(3, 2, n_rows), rng.exponential(1e4, n_rows), rng.integers(0, 3, n_rows)]
    return np.column_stack(columns).astype(np.float32)


def naive_shares(column, values):
    """The share of a column below each value, equal ones by half."""
    return [(np.sum(column < v) + np.sum(column <= v)) / 2 / len(column) for v in values]


@pytest.mark.parametrize("kind", KINDS)
def test_training_features_come_out_with_mean_0_and_deviation_1(kind):
    features = make_features()
    out = Transform.fit(kind, features).apply(features).astype(np.float64)
    # Rounded to float32.
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(out.std(axis=0), 1, atol=1e-6)


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_sparse_features_are_transformed_as_their_dense_form(kind):
    dense = make_dense()
    sparse = make_data(dense, sparse=True).features
    assert isinstance(sparse, SparseFeatures)
    one, other = (Transform.fit(kind, features) for features in (sparse, dense))
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name])
    np.testing.assert_array_equal(one.apply(sparse), one.apply(dense))


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_values_is_kept(kind):
    features = make_features()
    out = Transform.fit(kind, features).apply(features)
    for column, made in zip(features.T, out.T, strict=True):
        assert np.all(np.diff(made[np.argsort(column, kind="stable")]) >= 0)


def test_quantiles_are_shares_of_the_training_values():
    features = make_features(200)
    transform = Transform.fit("quantile", features)
    out = transform.apply(features).astype(np.float64) * transform.scales + transform.means
    for column, made in zip(features.T, out.T, strict=True):
        # Fewer rows than knots: no interpolation, only float32.
        np.testing.assert_allclose(made, naive_shares(column, column), atol=1e-6)


def test_quantiles_of_many_values_are_off_by_less_than_a_knot():
    features = make_features(5000)
    transform = Transform.fit("quantile", features)
    out = transform.apply(features).astype(np.float64) * transform.scales + transform.means
    for column, made in zip(features.T[:2], out.T, strict=False):
        np.testing.assert_allclose(made, naive_shares(column, column), atol=1 / 256)


def test_log1p_has_the_sign_of_its_value():
    features = np.array([[-3.0], [0.0], [3.0]], dtype=np.float32)
    out = Transform.fit("log1p", features).apply(features)
    logs = np.array([-np.log(4), 0, np.log(4)])
    np.testing.assert_allclose(out[:, 0], logs / logs.std(), rtol=1e-6)


def test_without_a_kind_values_stay_as_they_are():
    features = make_features()
    np.testing.assert_array_equal(Transform.fit(None, features).apply(features), features)


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_a_missing_value_is_the_median_and_is_indicated(kind):
    features = make_features()
    features[::7, 1] = np.nan
    transform = Transform.fit(kind, features)
    out = transform.apply(features)
    assert out.shape == (500, 4)
    np.testing.assert_array_equal(out[:, 3], np.isnan(features[:, 1]))
    filled = features.copy()
    filled[::7, 1] = np.nanmedian(features[:, 1].astype(np.float64))
    expected = transform.apply(filled)
    # The median of an even number of float32 is no float32.
    np.testing.assert_allclose(out[:, :3], expected[:, :3], rtol=1e-5, atol=1e-6)
    # In a feature that had none missing in training, there is no column to say so.
    other = features[:1].copy()
    other[0, 0] = np.nan
    assert np.isfinite(transform.apply(other)).all()


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_infinities_are_the_ends_of_the_training_values(kind):
    features = make_features()
    transform = Transform.fit(kind, features)
    ends = np.vstack([features.max(axis=0), features.min(axis=0)])
    infinite = np.full((2, 3), np.inf, dtype=np.float32) * [[1], [-1]]
    np.testing.assert_array_equal(
        transform.apply(infinite.astype(np.float32)), transform.apply(ends)
    )


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_constant_missing_and_huge_features_stay_finite(kind):
    features = np.zeros((6, 4), dtype=np.float32)
    features[:, 1] = 7.1
    features[:, 2] = np.nan
    features[:, 3] = [3e38, -3e38, np.inf, -np.inf, 0, np.nan]
    out = Transform.fit(kind, features).apply(features)
    assert np.isfinite(out).all()
    if kind is not None:
        assert not out[:, :3].any()


def test_threads_do_not_change_a_bit():
    features = make_features(40_000)
    one, two = (Transform.fit("quantile", features, n_jobs) for n_jobs in (1, 2))
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, two.arrays()[name])
    np.testing.assert_array_equal(one.apply(features, 1), two.apply(features, 2))

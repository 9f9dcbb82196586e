"""Binning, held to a plain search for each value."""

import itertools

import numpy as np
import pytest

from rankgrove.errors import DataError, ParameterError
from rankgrove.trees import summary
from rankgrove.trees.binning import (
    BLOCK,
    CATEGORICAL,
    MISSING_CODE,
    PLAIN,
    WITH_MISSING,
    Bins,
    CategoryCodes,
    encode,
    find_edges,
    with_category_codes,
)


def mixed_features(n_rows=3000, seed=0):
    """Continuous, heavy-tailed, few-valued, constant, sparse, infinite and missing columns."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(size=n_rows),
        rng.pareto(0.5, n_rows),
        rng.integers(0, 5, n_rows),
        np.full(n_rows, 7.0),
        np.where(rng.random(n_rows) < 0.9, 0.0, rng.normal(size=n_rows)),
        np.where(rng.random(n_rows) < 0.1, np.inf, rng.normal(size=n_rows)),
        np.where(rng.random(n_rows) < 0.3, np.nan, rng.normal(size=n_rows)),
        np.full(n_rows, np.nan),
        rng.integers(0, 2, n_rows) * 1e-45,
    ] * 3
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.float32)


def codes_of(matrix, feature=0):
    return matrix.codes[:, matrix.slots[feature]]


def naive_codes(values, edges):
    """The number of edges below each value; 255 where it is missing."""
    codes = np.array([(edges < value).sum() for value in values])
    return np.where(np.isnan(values), MISSING_CODE, codes)


@pytest.mark.parametrize("max_bins", [2, 16, 255])
def test_code_is_the_number_of_edges_below_the_value(max_bins):
    features = mixed_features()
    bins = Bins.fit(features, max_bins)
    matrix = encode(features, bins)
    for feature in range(features.shape[1]):
        expected = naive_codes(features[:, feature], bins.edges[feature])
        assert np.array_equal(codes_of(matrix, feature), expected)
        assert expected[expected != MISSING_CODE].max(initial=0) < bins.n_bins[feature] <= max_bins


def test_edges_rise_and_are_padded_with_infinity():
    bins = Bins.fit(mixed_features())
    for edges, n_bins in zip(bins.edges, bins.n_bins, strict=True):
        assert np.all(np.diff(edges[: n_bins - 1]) > 0)
        assert np.all(np.isfinite(edges[: n_bins - 1]))
        assert np.all(np.isposinf(edges[n_bins - 1 :]))


def test_few_values_keep_a_bin_each():
    values = np.array([-3, 0, 0.5, np.nextafter(np.float32(0.5), 1, dtype=np.float32), 9])
    features = np.repeat(values.astype(np.float32), 4)[:, None]
    bins = Bins.fit(features)
    codes = codes_of(encode(features, bins))
    assert codes.tolist() == np.repeat(np.arange(5), 4).tolist()


def test_continuous_values_fill_the_bins_about_equally():
    features = np.random.default_rng(1).normal(size=(20_000, 1)).astype(np.float32)
    counts = np.bincount(codes_of(encode(features, Bins.fit(features))))
    assert len(counts) == 255
    assert counts.max() < 2 * counts.mean()


def test_a_frequent_value_has_a_bin_of_its_own():
    rng = np.random.default_rng(2)
    values = np.where(rng.random(20_000) < 0.8, 0.0, rng.normal(size=20_000)).astype(np.float32)
    codes = codes_of(encode(values[:, None], Bins.fit(values[:, None])))
    code_of_zero = np.unique(codes[values == 0])
    assert len(code_of_zero) == 1
    assert np.all(values[codes == code_of_zero[0]] == 0)
    # The rest still has nearly all other bins.
    assert len(np.unique(codes)) > 240


def test_missing_values_outside_the_sample_are_seen(monkeypatch):
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 10)
    features = np.arange(1000, dtype=np.float32)[:, None]
    features[::7] = np.nan
    bins = Bins.fit(features)
    assert bins.kinds.tolist() == [WITH_MISSING]
    assert np.array_equal(codes_of(encode(features, bins)) == 255, np.isnan(features[:, 0]))


def test_same_bits_for_1_2_and_4_threads(monkeypatch):
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 5000)
    features = mixed_features(9000)
    one, two, four = (Bins.fit(features, n_jobs=jobs) for jobs in (1, 2, 4))
    for other in (two, four):
        assert np.array_equal(one.edges, other.edges)
        assert np.array_equal(one.n_bins, other.n_bins)
    codes = [encode(features, one, n_jobs=jobs, by_feature=True).codes for jobs in (1, 2, 4)]
    assert np.array_equal(codes[0], codes[1])
    assert np.array_equal(codes[0], codes[2])


def test_features_with_missing_values_share_blocks():
    features = mixed_features()
    bins = Bins.fit(features)
    matrix = encode(features, bins)
    assert matrix.features[matrix.slots].tolist() == list(range(features.shape[1]))
    assert matrix.block_kinds.tolist() == [WITH_MISSING, PLAIN]
    for block in range(matrix.n_blocks):
        placed = matrix.features[block * BLOCK : (block + 1) * BLOCK]
        assert matrix.block_bins[block] == bins.n_bins[placed[placed >= 0]].max()
    assert matrix.n_rows == len(features)


def test_edges_of_no_values_and_of_one_value_are_none():
    edges = np.full(255, np.inf, dtype=np.float32)
    none = np.empty(0, np.int64)
    assert find_edges(np.empty(0, np.float32), none, 255, edges) == 0
    assert find_edges(np.ones(1, np.float32), np.array([5]), 255, edges) == 0


def naive_edges(values, max_bins):
    """Edges of sorted values, by each value that there is."""
    distinct = np.unique(values)
    counts = [int((values == value).sum()) for value in distinct]
    if len(distinct) <= max_bins:
        return [midpoint(a, b) for a, b in itertools.pairwise(distinct)]
    frequent = len(values) / max_bins
    own_bin = [count >= frequent for count in counts]
    rest = len(values) - sum(c for c, own in zip(counts, own_bin, strict=True) if own)
    bins = max_bins - sum(own_bin)
    share, filled, edges = rest / max(bins, 1), 0, []
    for i in range(len(distinct) - 1):
        filled += counts[i]
        rest -= 0 if own_bin[i] else counts[i]
        full = own_bin[i] or filled >= share or own_bin[i + 1]
        if full and len(edges) < max_bins - 1:
            edges.append(midpoint(distinct[i], distinct[i + 1]))
            filled = 0
            if not own_bin[i]:
                bins -= 1
                share = rest / max(bins, 1)
    return edges


def midpoint(low, high):
    middle = np.float32((float(low) + float(high)) / 2)
    return middle if low <= middle < high else low


@pytest.mark.parametrize("max_bins", [2, 16, 255])
def test_edges_are_those_of_all_values_one_by_one(max_bins):
    features = mixed_features(800)
    bins = Bins.fit(features, max_bins)
    for feature, values in enumerate(features.T):
        expected = naive_edges(np.sort(values[~np.isnan(values)]), max_bins)
        assert bins.edges[feature, : bins.n_bins[feature] - 1].tolist() == expected


@pytest.mark.parametrize("max_bins", [1, 256, 2.5, "many"])
def test_bad_max_bins_is_refused(max_bins):
    with pytest.raises(ParameterError, match="max_bins must be"):
        Bins.fit(np.zeros((3, 1), np.float32), max_bins)


def test_no_features_are_refused():
    with pytest.raises(DataError, match="at least one column"):
        Bins.fit(np.zeros((3, 0), np.float32))


def test_categories_are_coded_by_frequency_and_unknown_ones_as_missing():
    values = np.array([7, 7, 7, -2, -2, 0.5, np.nan], dtype=np.float32)
    features = np.stack([np.arange(7, dtype=np.float32), values], axis=1)
    bins = Bins.fit(features, categorical=[1])
    assert bins.categories[1] == (7, -2, 0.5)
    assert bins.kinds.tolist() == [PLAIN, CATEGORICAL]
    assert codes_of(encode(features, bins), 1).tolist() == [0, 0, 0, 1, 1, 2, MISSING_CODE]
    other = np.array([[0, 3], [0, 0.5]], dtype=np.float32)
    assert codes_of(encode(other, bins), 1).tolist() == [MISSING_CODE, 2]
    translated = with_category_codes(other, {1: CategoryCodes(bins.categories[1])})
    assert np.array_equal(translated, [[0, np.nan], [0, 2]], equal_nan=True)
    assert other[0, 1] == 3


@pytest.mark.parametrize("categories", [(), (0.0,), (7.0, -2.0, 0.5), (3.4e38, 0.0, -3.4e38)])
def test_the_code_of_a_value_is_its_place_among_the_categories(categories):
    values = [*categories, -0.0, 1.0, 9.0, np.inf, -np.inf, np.nan, 3.4e38]
    places = {np.float32(value): code for code, value in enumerate(categories)}
    wanted = [places.get(np.float32(value), -1) for value in values]
    assert CategoryCodes(categories)(np.float32(values)).tolist() == wanted


def test_the_rarest_categories_past_the_last_code_are_missing():
    values = np.concatenate([np.repeat(np.arange(300), 2), np.arange(300, 310)])
    features = values.astype(np.float32)[:, None]
    bins = Bins.fit(features, categorical=[0])
    assert bins.categories[0] == tuple(range(255))
    assert bins.n_bins.tolist() == [255]
    assert np.array_equal(codes_of(encode(features, bins)) == MISSING_CODE, values >= 255)


def test_a_categorical_feature_without_any_value_is_all_missing():
    features = np.full((4, 1), np.nan, dtype=np.float32)
    bins = Bins.fit(features, categorical=[0])
    assert codes_of(encode(features, bins)).tolist() == [MISSING_CODE] * 4


def test_codes_by_feature_are_the_codes_transposed():
    features = mixed_features()
    matrix = encode(features, Bins.fit(features, categorical=[2]), by_feature=True)
    assert np.array_equal(
        matrix.by_feature[: features.shape[1]], matrix.codes.T[: features.shape[1]]
    )
    assert len(encode(features, Bins.fit(features)).by_feature) == 0

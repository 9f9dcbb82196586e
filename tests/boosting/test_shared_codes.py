"""Features of few bins that share codes: the same codes, histograms and models, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove import Dataset, Ranker
from rankgrove.boosting.binned import Binned
from rankgrove.boosting.parameters import Parameters
from rankgrove.trees import pairs
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.histogram import make_tiles, sum_block, sum_rows
from rankgrove.trees.pairs import share_codes


def make_features(rows, few, many, seed=0):
    """Features of 2 to 16 values, then others, in an order that mixes them."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, rng.integers(2, 17), rows) for _ in range(few)]
    columns += [rng.normal(size=rows) for _ in range(many)]
    features = np.stack(columns, axis=1).astype(np.float32)
    return features[:, rng.permutation(few + many)]


def make_data(rows=1500, few=40, many=9, seed=0):
    features = make_features(rows, few, many, seed)
    rng = np.random.default_rng(seed + 1)
    scores = features @ rng.normal(size=features.shape[1]) + rng.normal(size=rows)
    labels = np.digitize(scores, np.quantile(scores, [0.5, 0.8, 0.95]))
    return Dataset.from_arrays(features, labels, group=[25] * (rows // 25))


def make_matrices(features):
    bins = Bins.fit(features)
    matrix = encode(features, bins, by_feature=True)
    return matrix, share_codes(matrix, bins), bins


@pytest.mark.parametrize(("few", "many", "n_pairs"), [
    (16, 0, 0), (17, 0, 1), (32, 0, 1), (33, 0, 1), (49, 5, 2), (64, 40, 2), (32, 400, 0),
])  # fmt: skip
def test_two_blocks_of_features_with_few_bins_become_one(few, many, n_pairs):
    matrix, shared, _ = make_matrices(make_features(300, few, many))
    assert shared.n_pairs == n_pairs
    if n_pairs == 0:
        assert shared is matrix
    else:
        assert shared.codes.shape[1] < matrix.codes.shape[1]


@pytest.mark.parametrize(("few", "many"), [(17, 0), (40, 9), (64, 20)])
def test_shared_codes_are_those_of_each_feature(few, many):
    matrix, shared, bins = make_matrices(make_features(300, few, many))
    np.testing.assert_array_equal(shared.all_codes(bins), matrix.codes)
    for feature in range(few + many):
        column = shared.by_feature[shared.slots[feature]]
        np.testing.assert_array_equal(column, matrix.by_feature[matrix.slots[feature]])
        places = shared.slots[[feature]]
        np.testing.assert_array_equal(shared.codes_at(places, 7, 90)[:, 0], column[7:90])


def naive_histogram(matrix, packed, rows, feature):
    out = np.zeros(256, dtype=np.int64)
    np.add.at(out, matrix.by_feature[matrix.slots[feature]][rows], packed[rows])
    return out


@pytest.mark.parametrize("n_rows", [0, 1, 700, 2500])
def test_histograms_by_shared_codes_are_those_of_each_feature(n_rows):
    matrix, shared, bins = make_matrices(make_features(3000, 49, 9))
    rng = np.random.default_rng(3)
    packed = (rng.integers(-1000, 1000, 3000) << 32) + rng.integers(0, 1000, 3000)
    rows = np.sort(rng.choice(3000, n_rows, replace=False)).astype(np.int32)
    words = shared.codes.view(np.uint64).reshape(-1)
    n_words = shared.codes.shape[1] // 8
    histograms = np.zeros((shared.n_blocks, 256, 16), dtype=np.int64)
    tile = make_tiles(1, n_words)[0]
    scratch = np.ones((shared.n_pairs, 256, 16), dtype=np.int64)
    sum_rows(
        words, packed, rows, shared.features, shared.n_pairs, histograms, tile, scratch
    )  # fmt: skip
    by_block = np.zeros_like(histograms)
    for block in range(shared.n_blocks):
        flat = by_block[block].reshape(-1)
        sum_block(words, packed, rows, block, shared.features, shared.n_pairs, flat)
    for feature in range(len(bins.n_bins)):
        block, column = divmod(int(shared.slots[feature]), 16)
        expected = naive_histogram(matrix, packed, rows, feature)
        np.testing.assert_array_equal(histograms[block, :, column], expected)
        np.testing.assert_array_equal(by_block[block, :, column], expected)


OPTIONS = {
    "leafwise": {"objective": "lambdamart", "max_leaves": 31},
    "oblivious": {"objective": "yetirank"},
    "samples": {"objective": "lambdamart", "grower": "depthwise", "subsample": 0.5},
    "counted again": {"objective": "queryrmse", "min_samples_leaf": 60, "colsample": 0.5},
    "categories": {"objective": "queryrmse", "categorical": [3, 20], "monotone": {4: 1}},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_model_of_shared_codes_has_the_bits_of_one_of_plain_ones(name, tmp_path, monkeypatch):
    data, valid = make_data(), make_data(500, seed=1)
    assert Binned.make(data, {}, Parameters(random_state=0)).matrix.n_pairs > 0
    files = []
    for least in (1 / 8, 2.0):
        monkeypatch.setattr(pairs, "LEAST_SAVED", least)
        for n_jobs in (1, 2):
            ranker = Ranker(n_estimators=8, n_jobs=n_jobs, **OPTIONS[name]).fit(data, valid=valid)
            path = tmp_path / f"{least}-{n_jobs}.safetensors"
            ranker.model_.save(path)
            files.append(path.read_bytes())
    assert len(set(files)) == 1

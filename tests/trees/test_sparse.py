"""Trees of sparse features are those of all codes, to the bit."""

import numpy as np
import pytest

from rankgrove._jit import as_input
from rankgrove._jit.peers import ALONE
from rankgrove.trees import binning, exchange
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.grower import Grower, TreeOptions
from rankgrove.trees.leaves import walk
from rankgrove.trees.quantise import quantise
from rankgrove.trees.sparse import common_codes, sum_cells_of_block
from workers import run_workers

N_ROWS, N_FEATURES = 1500, 53
CATEGORICAL = (40, 41)
SIZES = [
    {},
    {"part_rows": 64, "few_rows": 16, "kept_rows": 8},
    {"few_rows": 0, "kept_rows": 0},
    {"few_rows": 0, "kept_rows": 0, "remade_share": 0.3},
    {"part_rows": 64, "few_rows": 16, "kept_rows": 8, "remade_share": 1.0},
]


def make_features(seed=0):
    """Dense columns, and sparse ones: zeros, missing values, a value in the middle, categories."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N_ROWS, N_FEATURES))
    for column in range(6, N_FEATURES):
        common = [0.0, np.nan, 0.4, -9.0][column % 4]
        share = [0.8, 0.9, 0.97, 0.995][column // 4 % 4]
        features[rng.random(N_ROWS) < share, column] = common
    features[:, 5] = np.where(rng.random(N_ROWS) < 0.3, np.nan, features[:, 5])
    features[:, 40] = rng.integers(1, 9, N_ROWS) * (rng.random(N_ROWS) < 0.2)
    features[:, 41] = rng.integers(0, 5, N_ROWS)
    features[:, 52] = 3.0
    return features.astype(np.float32)


def make_case(seed=0, categorical=CATEGORICAL):
    features = make_features(seed)
    rng = np.random.default_rng(seed)
    wild = np.nan_to_num(features, nan=1.0)
    forces = wild[:, 0] + 4 * wild[:, 16] - 4 * wild[:, 18] + 3 * (wild[:, 40] > 2) + wild[:, 33]
    forces, curvatures = forces + rng.normal(size=N_ROWS), 10.0 ** rng.uniform(-2, 0, N_ROWS)
    bins = Bins.fit(features, 40, categorical=categorical)
    packed, units, _ = quantise(forces, curvatures, 7, 1)
    return features, bins, packed, units


def assert_same(one, other):
    for name in ("features", "bins", "tables", "gains", "left", "right", "start", "end", "count"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_the_common_code_of_a_feature_is_the_one_of_most_rows():
    features, bins, _, _ = make_case()
    matrix = encode(features, bins)
    common, share = common_codes(matrix.codes)
    for place in np.flatnonzero(matrix.features >= 0):
        counts = np.bincount(matrix.codes[:, place], minlength=256)
        assert (common[place], share[place]) == (counts.argmax(), counts.max() / N_ROWS)


def test_dense_features_stay_as_they_are():
    features = np.random.default_rng(0).normal(size=(200, 40)).astype(np.float32)
    bins = Bins.fit(features)
    matrix = encode(features, bins)
    assert matrix.with_sparse(bins) is matrix


@pytest.mark.parametrize("n_rows", [0, 1, 3, 40, 700, N_ROWS - 2, N_ROWS])
@pytest.mark.parametrize("alike", [True, False])
def test_the_sums_of_a_block_are_those_of_its_other_codes(n_rows, alike):
    features, bins, packed, _ = make_case()
    sparse = encode(features, bins).with_sparse(bins)
    rows = np.sort(np.random.default_rng(n_rows).choice(N_ROWS, n_rows, replace=False))
    others, values = sparse.others, np.ones(N_ROWS, dtype=np.int64) if alike else packed
    for block in range(others.first_block, sparse.n_blocks):
        flat = np.zeros(4096, dtype=np.int64)
        given = np.ones(1, dtype=np.int64) if alike else packed
        sum_cells_of_block(others, as_input(given, np.int64), rows.astype(np.int32), block, flat)
        expected = np.zeros((256, 16), dtype=np.int64)
        places = np.arange(16) + 16 * block
        codes = sparse.codes_at(places, 0, N_ROWS)[rows]
        common = others.common[16 * (block - others.first_block) :][:16]
        for column in range(16):
            other = codes[:, column] != common[column]
            np.add.at(expected[:, column], codes[other, column], values[rows[other]])
        np.testing.assert_array_equal(flat.reshape(256, 16), expected)


@pytest.mark.parametrize("by_feature", [True, False])
def test_all_codes_can_be_read_back(by_feature):
    features, bins, _, _ = make_case()
    matrix = encode(features, bins, by_feature=by_feature)
    sparse = matrix.with_sparse(bins)
    assert sparse.others is not None
    assert sparse.codes.shape[1] < matrix.codes.shape[1]
    for first, last in ((0, N_ROWS), (17, 18), (5, 5), (N_ROWS - 3, N_ROWS)):
        codes = sparse.codes_at(sparse.slots, first, last)
        np.testing.assert_array_equal(codes, matrix.codes[first:last][:, matrix.slots])
    np.testing.assert_array_equal(sparse.all_codes(bins), matrix.codes)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("grower", ["leafwise", "depthwise", "oblivious"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_tree_of_sparse_features_is_that_of_all_codes(grower, n_jobs, sizes):
    for seed in range(3):
        features, bins, packed, units = make_case(seed)
        matrix = encode(features, bins, by_feature=seed < 2)
        sparse = matrix.with_sparse(bins)
        options = TreeOptions(
            grower=grower, max_leaves=32, max_depth=5 if grower == "oblivious" else None,
            min_samples_leaf=[1, 20, 5][seed], min_child_weight=0.0,
        )  # fmt: skip
        sampled = np.flatnonzero(np.random.default_rng(seed).random(N_ROWS) < [2, 0.6, 2][seed])
        allowed = np.random.default_rng(seed).random(N_FEATURES) < [2, 2, 0.7][seed]
        signs = np.zeros(N_FEATURES, np.int8)
        signs[[16, 18]] = [[0, 0], [1, -1], [0, 0]][seed]
        both = []
        for each in (matrix, sparse):
            rows = sampled.astype(np.int32)
            engine = Grower(each, bins, options, signs=signs, n_jobs=n_jobs, **sizes)
            both.append((engine.grow(packed, units, rows, allowed), rows))
        (one, rows), (other, other_rows) = both
        assert one.n_leaves > 8
        assert_same(one, other)
        np.testing.assert_array_equal(rows, other_rows)
        assert np.isin(sparse.slots[other.features], np.arange(sparse.codes.shape[1])).any()
        assert (sparse.slots[other.features] >= sparse.codes.shape[1]).any()


def test_rows_walk_a_tree_by_sparse_features():
    features, bins, packed, units = make_case()
    matrix = encode(features, bins, by_feature=True)
    sparse = matrix.with_sparse(bins)
    engine = Grower(sparse, bins, TreeOptions(max_leaves=40), n_jobs=1)
    rows = np.arange(N_ROWS, dtype=np.int32)
    grown = engine.grow(packed, units, rows, np.ones(N_FEATURES, np.bool_))
    values = np.random.default_rng(0).normal(size=grown.n_leaves)
    expected = np.empty(N_ROWS)
    for leaf in range(grown.n_leaves):
        expected[rows[grown.start[leaf] : grown.end[leaf]]] = values[leaf]
    for each in (matrix, sparse):
        scores = np.zeros(N_ROWS)
        walk(grown, each, values, scores)
        np.testing.assert_array_equal(scores, expected)


def test_a_matrix_may_have_no_dense_feature(monkeypatch):
    monkeypatch.setattr(binning, "LEAST_COMMON", 0.0)
    features, bins, packed, units = make_case()
    matrix = encode(features, bins, by_feature=True)
    sparse = matrix.with_sparse(bins)
    assert sparse.codes.shape == (N_ROWS, 0)
    for grower in ("leafwise", "oblivious"):
        options = TreeOptions(grower=grower, max_leaves=32, max_depth=5)
        grown = [
            Grower(each, bins, options, n_jobs=2).grow(
                packed, units, np.arange(N_ROWS, dtype=np.int32), np.ones(N_FEATURES, np.bool_)
            )
            for each in (matrix, sparse)
        ]
        assert_same(*grown)


@pytest.mark.parametrize("n_workers", [2, 4])
@pytest.mark.parametrize("grower", ["leafwise", "oblivious"])
def test_growers_that_have_the_rows_between_them_grow_the_same_tree(grower, n_workers, monkeypatch):
    monkeypatch.setattr(exchange, "LEAST_SHARED_BYTES", 0)
    features, bins, _, _ = make_case()
    rng = np.random.default_rng(5)
    forces = np.nan_to_num(features[:, 16] - features[:, 18]) + rng.normal(size=N_ROWS)
    curvatures = 10.0 ** rng.uniform(-2, 0, N_ROWS)
    # Many rows that a leaf must have: some cuts are searched again, with rows counted.
    options = TreeOptions(
        grower=grower, max_leaves=32, max_depth=5, min_samples_leaf=40, min_child_weight=0.0
    )

    def grow(peers, first, last, makes_sparse):
        matrix = encode(features[first:last], bins, by_feature=True)
        if makes_sparse:
            matrix = matrix.with_sparse(bins, peers)
            assert matrix.others is not None
        packed, units, _ = quantise(
            forces[first:last], curvatures[first:last], 7, 1, n_all=N_ROWS, peers=peers,
            offsets=np.array([0, last - first]), places=np.array([first]),
        )  # fmt: skip
        rows = np.arange(last - first, dtype=np.int32)
        engine = Grower(matrix, bins, options, n_jobs=1, peers=None if peers is ALONE else peers)
        return engine.grow(packed, units, rows, np.ones(N_FEATURES, np.bool_))

    alone = grow(ALONE, 0, N_ROWS, False)
    bounds = np.linspace(0, N_ROWS, n_workers + 1).astype(int).tolist()
    together, _ = run_workers(
        n_workers, lambda peers: grow(peers, bounds[peers.rank], bounds[peers.rank + 1], True)
    )
    for grown in together:
        for name in ("features", "bins", "tables", "gains", "left", "right", "count"):
            np.testing.assert_array_equal(getattr(grown, name), getattr(alone, name), err_msg=name)

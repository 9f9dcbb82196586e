"""Bins and codes of sparse features are those of the dense form, to the bit."""

import numpy as np
import pytest

from data.sparse_samples import as_csr, make_dense
from rankgrove.data.dataset import as_features
from rankgrove.data.shard import Shard
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.trees import binning, summary
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.sparse_encoding import encode_sparse
from trees.test_binning import naive_codes
from workers import run_workers

ABSENT = [0.0, np.nan]
CATEGORICAL = (4, 5, 40)


def make_both(absent=0.0, n_rows=1200, seed=0):
    dense = make_dense(n_rows, seed, absent)
    dense[np.isinf(dense[:, 5]), 5] = 1.0
    sparse = as_features(as_csr(dense, absent), absent)
    assert isinstance(sparse, SparseFeatures)
    return sparse, dense


def assert_same_bins(one, other):
    assert one.categories == other.categories
    for name in ("edges", "n_bins", "kinds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def assert_same_matrix(one, other):
    for name in ("codes", "slots", "features", "block_bins", "block_kinds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.others is None) == (other.others is None)
    if one.others is not None:
        for name in one.others._fields:
            found, wanted = getattr(one.others, name), getattr(other.others, name)
            np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("max_bins", [2, 7, 255])
@pytest.mark.parametrize("sample_rows", [200_000, 700])
def test_bins_are_those_of_the_dense_form(absent, max_bins, sample_rows, monkeypatch):
    monkeypatch.setattr(summary, "SAMPLE_ROWS", sample_rows)
    for seed in range(3):
        sparse, dense = make_both(absent, seed=seed)
        for categorical in ((), CATEGORICAL):
            options = {"categorical": categorical, "seed": seed}
            assert_same_bins(
                Bins.fit(sparse, max_bins, n_jobs=2, **options),
                Bins.fit(dense, max_bins, n_jobs=1, **options),
            )


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("least_sparse", [0.4, 2.0])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_codes_and_their_layout_are_those_of_the_dense_form(
    absent, least_sparse, n_jobs, monkeypatch
):
    monkeypatch.setattr(binning, "LEAST_SPARSE", least_sparse)
    for seed in range(3):
        sparse, dense = make_both(absent, seed=seed)
        bins = Bins.fit(dense, 40, categorical=CATEGORICAL)
        found = encode_sparse(sparse, bins, n_jobs=n_jobs)
        whole = encode(dense, bins)
        assert_same_matrix(found, whole.with_sparse(bins))
        assert (found.others is None) == (least_sparse == 2.0)
        np.testing.assert_array_equal(found.all_codes(bins), whole.codes)
        for feature in set(range(dense.shape[1])) - set(CATEGORICAL):
            expected = naive_codes(dense[:, feature], bins.edges[feature])
            codes = found.codes_at(found.slots[[feature]], 0, len(dense))[:, 0]
            np.testing.assert_array_equal(codes, expected)


def test_a_common_code_may_be_that_of_stored_values():
    sparse, dense = make_both()
    bins = Bins.fit(dense)
    matrix = encode_sparse(sparse, bins)
    place = matrix.slots[1] - matrix.codes.shape[1]
    assert place >= 0
    assert matrix.others.common[place] == naive_codes(np.float32([2.5]), bins.edges[1])[0]


def test_rows_of_other_data_have_the_codes_of_the_dense_form():
    _, dense = make_both()
    bins = Bins.fit(dense, categorical=CATEGORICAL)
    for absent in ABSENT:
        sparse, others = make_both(absent, n_rows=77, seed=9)
        assert_same_matrix(encode_sparse(sparse, bins), encode(others, bins).with_sparse(bins))


@pytest.mark.parametrize("n_rows", [0, 1])
def test_no_rows_and_one_row_have_codes(n_rows):
    sparse, dense = make_both()
    bins = Bins.fit(dense)
    whole = encode(dense[:n_rows], bins)
    assert_same_matrix(encode_sparse(sparse[:n_rows], bins), whole.with_sparse(bins))


def test_columns_without_values_have_one_bin():
    empty = as_features(as_csr(np.zeros((30, 70), np.float32)), 0.0)
    bins = Bins.fit(empty)
    assert_same_bins(bins, Bins.fit(np.zeros((30, 70), np.float32)))
    matrix = encode_sparse(empty, bins)
    assert len(matrix.others.cells) == 0
    missing = Bins.fit(as_features(as_csr(np.zeros((30, 70), np.float32)), np.nan))
    assert_same_bins(missing, Bins.fit(np.full((30, 70), np.nan, np.float32)))


@pytest.mark.parametrize("n_workers", [2, 3])
def test_workers_that_have_the_rows_between_them_find_the_same(n_workers, monkeypatch):
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 700)
    sparse, dense = make_both()
    alone = Bins.fit(dense)
    whole = encode(dense, alone)
    bounds = np.linspace(0, len(dense), n_workers + 1).astype(int).tolist()

    def work(peers):
        first, last = bounds[peers.rank], bounds[peers.rank + 1]
        offsets, numbers = np.array([0, last - first]), np.array([peers.rank])
        shard = Shard(offsets, numbers, np.array([first]), n_workers, len(dense), peers)
        bins = Bins.fit(sparse[first:last], shard=shard)
        return bins, encode_sparse(sparse[first:last], bins, peers), (first, last)

    for bins, matrix, (first, last) in run_workers(n_workers, work)[0]:
        assert_same_bins(bins, alone)
        np.testing.assert_array_equal(matrix.all_codes(bins), whole.codes[first:last])

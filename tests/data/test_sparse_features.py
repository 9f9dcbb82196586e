"""Sparse features are the dense matrix that they stand for, whoever looks at them."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

from data.sparse_samples import as_csr, assert_same_bits, make_data, make_dense
from rankgrove import Dataset, from_frame, read_letor, to_frame, write_letor
from rankgrove.data import rows
from rankgrove.data.describe import describe
from rankgrove.data.letor import parse_letor
from rankgrove.data.sparse_features import SparseFeatures, dense_blocks, with_columns
from rankgrove.errors import DataError

ABSENT = [0.0, np.nan]


def make_both(absent=0.0, n_rows=400):
    dense = make_dense(n_rows, absent=absent)
    return make_data(dense, absent, sparse=True), make_data(dense, absent, sparse=False)


@pytest.mark.parametrize("absent", ABSENT)
def test_all_values_come_back_to_the_bit(absent):
    sparse, dense = make_both(absent)
    assert isinstance(sparse.features, SparseFeatures)
    assert sparse.features.n_stored < 0.2 * sparse.features.size
    assert_same_bits(sparse.features, dense.features)


@pytest.mark.parametrize(
    "key",
    [
        slice(None), slice(3, 30), slice(30, 3), slice(None, None, -7), slice(-5, None),
        np.array([5, 5, 0, -1]), np.arange(400) % 3 == 1, np.array([], dtype=np.int64), [7, 2],
        (slice(2, 9), slice(3, 8)), (slice(None), [4, 1]), (np.array([3, 1]), slice(None)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("absent", ABSENT)
def test_rows_are_taken_as_those_of_an_array(key, absent):
    sparse, dense = make_both(absent)
    assert_same_bits(sparse.features[key], dense.features[key])


@pytest.mark.parametrize("absent", ABSENT)
def test_single_rows_columns_and_values_are_arrays(absent):
    sparse, dense = make_both(absent)
    for key in (
        0,
        -1,
        np.int64(17),
        (slice(None), 0),
        (slice(None), -1),
        (slice(4, 20), 5),
        (9, 2),
    ):
        np.testing.assert_array_equal(sparse.features[key], dense.features[key])
    for column in range(dense.n_features):
        np.testing.assert_array_equal(sparse.features[:, column], dense.features[:, column])


@pytest.mark.parametrize("key", [400, -401, (slice(None), 80), np.array([400]), np.ones(3, bool)])
def test_what_is_not_there_is_an_index_error(key):
    sparse, _ = make_both()
    with pytest.raises(IndexError):
        sparse.features[key]


def test_a_stretch_of_rows_shares_memory():
    sparse, _ = make_both()
    part = sparse.take_queries([3, 4, 5]).features
    assert np.shares_memory(part.values, sparse.features.values)


def test_it_refuses_writes_also_out_of_a_pickle():
    sparse, dense = make_both()
    for each in (sparse, pickle.loads(pickle.dumps(sparse)), copy.deepcopy(sparse)):
        assert_same_bits(each.features, dense.features)
        for array in (each.features.starts, each.features.columns, each.features.values):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_the_caller_may_change_his_matrix_afterwards():
    dense = make_dense()
    matrix = as_csr(dense)
    data = Dataset.from_arrays(matrix, np.zeros(len(dense)), group=[len(dense)])
    matrix.data[:] = 99
    matrix.indices[:] = 0
    assert_same_bits(data.features, dense)


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_every_form_of_scipy_gives_the_same_bits(form, kind, absent):
    dense = np.abs(make_dense(60, seed=1)).clip(0, 50)
    dense[np.isnan(dense)] = 3
    matrix = getattr(scipy.sparse, f"{form}_{kind}")(as_csr(dense))
    before = matrix.copy()
    data = Dataset.from_arrays(matrix, np.zeros(60), group=[60], absent=absent)
    assert isinstance(data.features, SparseFeatures)
    assert_same_bits(data.features, np.where(dense == 0, np.float32(absent), dense))
    assert (matrix != before).nnz == 0


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.bool_, np.float64, np.float32])
def test_every_type_of_number_gives_the_same_bits(dtype):
    dense = (make_dense(60) == 2).astype(dtype)
    data = Dataset.from_arrays(scipy.sparse.csr_matrix(dense), np.zeros(60), group=[60])
    assert isinstance(data.features, SparseFeatures)
    assert_same_bits(data.features, dense.astype(np.float32))


@pytest.mark.parametrize("absent", ABSENT)
def test_an_entry_that_equals_what_is_absent_is_as_one_left_out(absent):
    dense = make_dense(60, absent=absent)
    matrix = as_csr(dense, absent)
    every = as_csr(dense, 12345.0)
    assert every.nnz > 5 * matrix.nnz
    few, many = (Dataset.from_arrays(m, np.zeros(60), group=[60], absent=absent).features
                 for m in (matrix, every))  # fmt: skip
    for name in ("starts", "columns", "values"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))


def test_repeated_and_unsorted_entries_add_up_and_stay_with_the_caller():
    indices, data = np.array([70, 3, 70, 9, 9]), np.array([1.0, 2.0, 0.5, 1.0, -1.0])
    matrix = scipy.sparse.csr_matrix((data, indices, [0, 3, 3, 5]), (3, 80))
    # As of somebody who has changed the indices after scipy had looked at them.
    matrix.has_canonical_format = True
    features = Dataset.from_arrays(matrix, np.zeros(3), group=[3]).features
    expected = np.zeros((3, 80), dtype=np.float32)
    expected[0, [3, 70]] = 2.0, 1.5
    assert_same_bits(features, expected)
    assert matrix.indices.tolist() == indices.tolist()


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("indptr", [0, 2, 1, 3], "an indptr that does not rise from 0"),
        ("indptr", [1, 2, 3, 3], "an indptr that does not rise from 0"),
        ("indptr", [0, 1, 3], "an indptr that does not rise from 0"),
        ("indptr", [0, 1, 2, 9], "an indptr past the end of its data"),
        ("indices", [0, 80, 1], "indices outside of its shape"),
        ("indices", [0, -1, 1], "indices outside of its shape"),
    ],
)
@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix"])
def test_a_matrix_that_is_not_sound_is_refused(form, name, values, problem):
    shape = (3, 80) if form == "csr_matrix" else (80, 3)
    matrix = getattr(scipy.sparse, form)(([1.0, 2.0, 3.0], [0, 5, 1], [0, 1, 2, 3]), shape)
    setattr(matrix, name, np.array(values, dtype=np.int32))
    with pytest.raises(DataError, match=f"must be a sound sparse matrix. Got {problem}"):
        Dataset.from_arrays(matrix, np.zeros(shape[0]), group=[shape[0]])


@pytest.mark.parametrize("stored", [1e39, -1e300])
def test_values_past_float32_are_refused(stored):
    matrix = scipy.sparse.csr_matrix(([stored], [5], [0, 1]), (1, 80))
    with pytest.raises(DataError, match="features must fit into float32"):
        Dataset.from_arrays(matrix, [0], group=[1])


@pytest.mark.parametrize("absent", ABSENT)
def test_a_matrix_without_any_value_is_one(absent):
    matrix = scipy.sparse.csr_matrix((5, 70))
    data = Dataset.from_arrays(matrix, np.zeros(5), group=[5], absent=absent)
    assert data.features.n_stored == 0
    assert_same_bits(data.features, np.full((5, 70), absent, dtype=np.float32))


@pytest.mark.parametrize(
    ("n_features", "n_stored", "is_sparse"),
    [(64, 1, True), (63, 1, False), (100, 20, True), (100, 21, False)],
)
def test_wide_matrices_with_few_values_stay_sparse(n_features, n_stored, is_sparse):
    matrix = scipy.sparse.lil_matrix((1, n_features))
    matrix[0, :n_stored] = 1.5
    line = " ".join(f"{column + 1}:1.5" for column in range(n_stored))
    text = f"0 qid:1 {line}\n".encode()
    for data in (
        Dataset.from_arrays(matrix, [0], group=[1]), parse_letor(text, n_features=n_features)
    ):  # fmt: skip
        assert isinstance(data.features, SparseFeatures) == is_sparse
        assert_same_bits(data.features, matrix.toarray().astype(np.float32))


@pytest.mark.parametrize("absent", ABSENT)
def test_checksums_are_those_of_the_dense_form(absent):
    sparse, dense = make_both(absent)
    assert sparse.features_checksum() == dense.features_checksum()
    chosen = [5, 2, 19]
    assert (
        sparse.take_queries(chosen).features_checksum()
        == dense.take_queries(chosen).features_checksum()
        != sparse.features_checksum()
    )


@pytest.mark.parametrize("absent", ABSENT)
def test_data_are_described_as_their_dense_form(absent):
    dense = make_dense(absent=absent)
    dense[50:60] = dense[40:50]
    dense[61] = dense[60]
    dense[60, 9], dense[61, 9] = [(0.0, -0.0), (np.nan, -np.float32(np.nan))][absent != absent]
    both = [make_data(dense, absent, sparse=sparse) for sparse in (True, False)]
    one, other = map(describe, both)
    assert one.duplicates >= 11
    assert one == other


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("name", ["zero", "missing"])
def test_text_of_sparse_features_is_that_of_dense_ones(absent, name, tmp_path):
    texts = []
    for data in make_both(absent):
        write_letor(data, tmp_path / "data.txt", absent=name)
        texts.append((tmp_path / "data.txt").read_bytes())
        assert_same_bits(
            read_letor(tmp_path / "data.txt", absent=name).features, np.asarray(data.features)
        )
    assert texts[0] == texts[1]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_of_sparse_features_are_those_of_dense_ones(backend):
    sparse, dense = make_both(np.nan)
    for data in (sparse, dense):
        back = from_frame(to_frame(data, backend))
        np.testing.assert_array_equal(np.asarray(back.features), np.asarray(dense.features))


def test_columns_can_be_replaced():
    sparse, dense = make_both()
    new = {3: np.arange(400, dtype=np.float32), 0: np.zeros(400, np.float32)}
    assert_same_bits(with_columns(sparse.features, new), with_columns(dense.features, new))


def test_blocks_of_rows_are_those_of_the_dense_form(monkeypatch):
    sparse, dense = make_both()
    monkeypatch.setattr("rankgrove.data.sparse_features._BLOCK_VALUES", 1000)
    blocks = list(dense_blocks(sparse.features))
    assert len(blocks) > 30
    assert_same_bits(np.concatenate(blocks), dense.features)
    assert len(list(dense_blocks(dense.features))) == 1


def test_a_dense_form_past_all_memory_is_refused(monkeypatch):
    sparse, _ = make_both()
    monkeypatch.setattr(rows, "physical_memory", lambda: 100_000)
    with pytest.raises(DataError, match=r"must fit into memory as a dense float32 matrix. Got 400"):
        np.asarray(sparse.features)

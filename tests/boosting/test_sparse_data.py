"""Data that come sparse train the model of their dense form, bit for bit, in less memory."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.model_selection import GroupKFold

from data.sparse_samples import as_csr, make_data, make_dense
from rankgrove import (
    MARTRegressor,
    Ranker,
    compare,
    cross_validate,
    load,
    read_letor,
    write_letor,
)
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.experiments.compare.gap import prefix_scores
from rankgrove.experiments.folds import make_folds
from rankgrove.experiments.tune.tune import _fingerprint
from rankgrove.trees import binning

OPTIONS = {
    "leafwise": {"objective": "lambdamart", "max_leaves": 15},
    "oblivious": {"objective": "yetirank"},
    "early stopping": {"objective": "lambdamart", "early_stopping_rounds": 2, "n_estimators": 20},
    "samples": {"objective": "lambdamart", "subsample": 0.5, "sampling": "document"},
    "categories": {"objective": "queryrmse", "categorical": [4, 40]},
    "monotone": {"objective": "lambdamart", "monotone": {1: 1, 4: -1}, "grower": "depthwise"},
    "few bins": {"objective": "lambdamart", "max_bins": 9, "layout": "rows"},
}
ABSENT = [0.0, np.nan]


def make_set(absent=0.0, seed=0, n_rows=400, *, sparse):
    dense = make_dense(n_rows, seed, absent)
    dense[np.isinf(dense)] = 5.0
    return make_data(dense, absent, sparse=sparse)


def file_of(model, path):
    model.save(path)
    return path.read_bytes()


def train(data, valid, tmp_path, **options):
    chosen = {"n_estimators": 6, "min_samples_leaf": 3, "random_state": 0, **options}
    ranker = Ranker(**chosen).fit(data, valid=valid)
    return file_of(ranker.model_, tmp_path / "model.safetensors")


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_model_of_sparse_data_has_the_bits_of_one_of_dense_data(name, absent, tmp_path):
    sets = {
        sparse: [make_set(absent, seed, sparse=sparse) for seed in (0, 1)]
        for sparse in (True, False)
    }
    assert all(isinstance(each.features, SparseFeatures) for each in sets[True])
    files = {
        train(data, valid, tmp_path, n_jobs=n_jobs, **OPTIONS[name])
        for data, valid, n_jobs in (
            (*sets[False], 1), (*sets[True], 1), (*sets[True], 2),
            (sets[True][0], sets[False][1], 2),
        )
    }  # fmt: skip
    assert len(files) == 1


def test_the_bits_do_not_depend_on_the_layout(tmp_path, monkeypatch):
    data, valid = (make_set(seed=seed, sparse=True) for seed in (0, 1))
    files = {train(data, valid, tmp_path)}
    monkeypatch.setattr(binning, "LEAST_SPARSE", 2.0)
    files.add(train(data, valid, tmp_path))
    assert len(files) == 1


def test_text_matrices_and_frames_of_the_same_data_train_the_same_file(tmp_path):
    dense = make_dense()
    dense[np.isinf(dense)] = 5.0
    # A sparse column of pandas takes -0 for 0.
    dense[dense == 0] = 0.0
    data = make_data(dense, sparse=False)
    names = list(data.feature_names)
    write_letor(data, tmp_path / "data.txt")
    text = read_letor(tmp_path / "data.txt")
    assert isinstance(text.features, SparseFeatures)
    frame = pd.DataFrame(dense, columns=names)
    of_pandas = pd.DataFrame({name: pd.arrays.SparseArray(dense[:, k], fill_value=0.0)
                              for k, name in enumerate(names)})  # fmt: skip
    matrices = [
        dense, frame, of_pandas, as_csr(dense), as_csr(dense).tocsc(), as_csr(dense).tocoo(),
        scipy.sparse.csr_array(as_csr(dense)),
    ]  # fmt: skip
    options = {"n_estimators": 5, "random_state": 0, "n_jobs": 1}
    rankers = [Ranker(**options).fit(X, data.labels, group=data.group) for X in matrices]
    rankers.append(Ranker(**options).fit(text))
    files = {file_of(ranker.model_, tmp_path / "model.safetensors") for ranker in rankers}
    assert len(files) == 1
    scores = rankers[0].predict(dense)
    for X in (*matrices, text, text.features):
        np.testing.assert_array_equal(rankers[0].predict(X), scores)


@pytest.mark.parametrize("absent", ABSENT)
def test_training_goes_on_from_the_dense_form_and_back(absent, tmp_path):
    sparse, dense = (make_set(absent, sparse=form) for form in (True, False))
    whole = Ranker(n_estimators=6, random_state=0).fit(dense).model_
    half = Ranker(n_estimators=3, random_state=0).fit(dense).model_
    half.save(tmp_path / "half.safetensors")
    resumed = Ranker(n_estimators=6, random_state=0).fit(
        sparse, resume=load(tmp_path / "half.safetensors")
    )
    assert file_of(resumed.model_, tmp_path / "a") == file_of(whole, tmp_path / "b")
    on_top = [
        Ranker(n_estimators=2, random_state=1).fit(data, base_model=base).model_
        for data in (sparse, dense)
        for base in (half, lambda rows: np.nan_to_num(rows[:, 0]))
    ]
    files = [file_of(model, tmp_path / "c") for model in on_top]
    assert files[:2] == files[2:]


def test_all_that_a_model_tells_is_the_same_for_both_forms(tmp_path):
    sparse, dense = (make_set(sparse=form) for form in (True, False))
    model = Ranker(n_estimators=4, categorical=[4], random_state=0).fit(dense).model_
    queries = sparse.features[:20], dense.features[:20]
    np.testing.assert_array_equal(model.predict(sparse), model.predict(dense))
    for one, other in (
        [model.predict(each, n_trees=2) for each in queries],
        [model.scorer()(each) for each in queries],
        [model.scorer()(each) for each in (as_csr(np.asarray(queries[0])), queries[1])],
        [model.contributions(each) for each in queries],
        [model.importance("contribution", each) for each in queries],
        [model.permutation_importance(each, repeats=1).mean for each in (sparse, dense)],
    ):
        np.testing.assert_array_equal(one, other)
    row = scipy.sparse.coo_array(np.nan_to_num(dense.features[0]))
    assert model.scorer()(row) == model.scorer()(row.toarray())
    assert str(model.why(sparse, 0, 1)) == str(model.why(dense, 0, 1))


def test_folds_take_sparse_data():
    sparse, dense = (make_set(sparse=form) for form in (True, False))
    one, other = (
        cross_validate(Ranker(n_estimators=3, random_state=0), data, folds=3, n_jobs=1)
        for data in (sparse, dense)
    )
    assert str(one) == str(other)


def test_whoever_looks_at_features_sees_those_of_the_dense_form():
    sparse, dense = (make_set(sparse=form) for form in (True, False))
    ranker = Ranker(n_estimators=2, random_state=0).fit(dense)
    groups, weights = GroupKFold(3), np.arange(80.0)
    one, other = (
        [
            _fingerprint(data),
            make_folds(data, groups)[0][1].tolist(),
            compare(data, {"a": ranker.model_, "b": lambda rows: np.nan_to_num(rows) @ weights}),
            [scores.tolist() for scores in prefix_scores(ranker.model_, data, [1, 2])],
        ]
        for data in (sparse, dense)
    )
    assert str(one) == str(other)


def test_estimators_of_single_rows_take_sparse_matrices():
    dense = make_dense()
    dense[~np.isfinite(dense)] = 2.0
    targets = dense[:, 0] + dense[:, 6:20].sum(axis=1)
    one, other = (
        MARTRegressor(n_estimators=4, random_state=0).fit(X, targets).predict(X)
        for X in (as_csr(dense), dense)
    )
    np.testing.assert_array_equal(one, other)


CODE = """
import resource
import numpy as np, scipy.sparse
from rankgrove import Dataset
from rankgrove.boosting.binned import Binned
from rankgrove.boosting.parameters import Parameters

def make(n_rows):
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, 300, (n_rows, 10)), axis=1) + 300 * np.arange(10)
    values = rng.integers(1, 9, indices.size)
    matrix = scipy.sparse.csr_matrix(
        (values, indices.reshape(-1), np.arange(0, indices.size + 1, 10)), (n_rows, 3000)
    )
    data = Dataset.from_arrays(matrix, np.arange(n_rows) % 3, group=[n_rows])
    return Binned.make(data, {"valid": data.take_queries([0])}, Parameters(), 1)

make(100)  # compiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert make(100_000).matrix.others is not None
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def test_binning_takes_little_more_memory_than_what_is_stored():
    command = [sys.executable, "-c", CODE]
    peak = int(subprocess.check_output(command, text=True, timeout=600))
    # A million values are stored; a dense matrix takes 1,200 MB, and its codes 300 MB.
    assert peak < 150e6

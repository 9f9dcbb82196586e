"""Models of data with sparse features are those of data of which all codes are kept."""

from dataclasses import replace

import numpy as np
import pytest

from rankgrove import BinnedData, Dataset, Ranker, bin_files, write_table
from rankgrove.boosting.binned import Binned
from rankgrove.boosting.memory import training_memory
from rankgrove.boosting.parameters import Parameters
from rankgrove.trees import binning
from rankgrove.trees.binned_data import Cutting
from rankgrove.trees.binning import Bins, encode

OPTIONS = {
    "oblivious": {"objective": "yetirank"},
    "leafwise": {"objective": "lambdamart", "max_leaves": 15},
    "samples": {"objective": "lambdamart", "subsample": 0.5, "sampling": "document"},
    "categories": {"objective": "queryrmse", "categorical": [3, 20]},
    "monotone": {"objective": "lambdamart", "monotone": {4: 1, 21: -1}, "grower": "depthwise"},
    "one copy": {"objective": "yetirank", "layout": "rows"},
}


def make_data(seed=0, n_queries=60):
    rng = np.random.default_rng(seed)
    n = 20 * n_queries
    features = rng.integers(1, 12, (n, 40)) * (rng.random((n, 40)) < 0.1)
    features = features.astype(np.float32)
    features[:, 0] = rng.normal(size=n)
    features[rng.random(n) < 0.9, 30] = np.nan
    wild = np.nan_to_num(features)
    score = wild[:, 0] + wild[:, 4] - wild[:, 21] + (wild[:, 3] == 5) + rng.normal(size=n)
    labels = np.digitize(score, np.quantile(score, [0.6, 0.8, 0.95]))
    return Dataset.from_arrays(features, labels, group=[20] * n_queries)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_model_of_sparse_features_has_the_bits_of_one_of_all_codes(name, tmp_path, monkeypatch):
    data, valid = make_data(0), make_data(1, 10)
    parameters = Parameters(random_state=0)
    assert Binned.make(data, {}, parameters).matrix.others is not None
    files = []
    for least in (0.8, 2.0):
        monkeypatch.setattr(binning, "LEAST_COMMON", least)
        for n_jobs in (1, 2):
            ranker = Ranker(n_estimators=8, min_samples_leaf=3, n_jobs=n_jobs, **OPTIONS[name])
            ranker.fit(data, valid=valid)
            path = tmp_path / f"{least}-{n_jobs}.safetensors"
            ranker.model_.save(path)
            files.append(path.read_bytes())
    assert len(set(files)) == 1


def test_the_memory_of_training_counts_codes_in_their_sparse_form():
    data = make_data()
    matrix = Binned.make(data, {}, Parameters(layout="rows")).matrix
    codes = encode(data.features, bins := Bins.fit(data.features))
    fields = {name: getattr(data, name) for name in ("labels", "offsets", "query_ids")}
    binned = BinnedData(codes, bins, Cutting(255, (), 0), 0, **fields)
    needed = training_memory(binned, {}, Parameters(layout="rows"))
    histograms = training_memory(replace(binned, in_file=True), {}, Parameters(layout="rows"))
    made = matrix.codes.nbytes + sum(part.nbytes for part in matrix.others[1:])
    # But for what does not grow with the rows.
    assert made - 1000 <= needed - histograms <= 1.1 * made


def test_binned_data_of_sparse_features_train_to_the_same_bits(tmp_path):
    data = make_data()
    binned = Binned.make(data, {}, Parameters(random_state=0))
    assert binned.matrix.others is not None
    expected = Ranker(n_estimators=5, random_state=0).fit(data).model_
    tables = tmp_path / "train.parquet"
    write_table(data, tables)
    found = bin_files(tables)
    found.save(tmp_path / "train.bins")
    for each in (found, BinnedData.load(tmp_path / "train.bins")):
        model = Ranker(n_estimators=5, random_state=0).fit(each).model_
        np.testing.assert_array_equal(model.predict(data), expected.predict(data))

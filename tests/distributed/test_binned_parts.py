"""Parts of files become binned data of workers: the same bins and codes as on one machine."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from rankgrove import Dataset, make_web_search, write_data
from rankgrove.boosting.bin_files import bin_files
from rankgrove.boosting.parameters import Parameters
from rankgrove.data import memory
from rankgrove.distributed.binned_parts import bin_parts
from rankgrove.distributed.parts import deal_parts, list_parts
from rankgrove.errors import DataError, ParameterError
from rankgrove.trees import summary
from workers import run_workers

FIELDS = ("labels", "base_scores", "document_weights")


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """Quantiles come from some of the rows only."""
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 100)


def write_files(folder, suffix, seed=0, with_extras=False):
    """Data in several files, whose borders cut queries, each of several parts."""
    data = make_web_search(12, 16, seed=seed)
    rng = np.random.default_rng(seed)
    more = {}
    if with_extras:
        more = {
            "weights": rng.random(data.n_queries)[np.repeat(range(data.n_queries), data.group)],
            "base_scores": rng.random(data.n_documents),
            "document_weights": rng.random(data.n_documents),
        }
    features = np.round(data.features, 3)
    features[rng.random(features.shape) < 0.05] = np.nan if suffix == "parquet" else 0
    bounds = [0, 3, 40, 41, 90, data.n_documents]
    for number, (a, b) in enumerate(pairwise(bounds)):
        rows = Dataset.from_arrays(
            features[a:b],
            data.labels[a:b],
            qid=data.qid[a:b],
            **{name: values[a:b] for name, values in more.items()},
        )
        write_data(rows, folder / f"{number}.{suffix}")
    return folder / f"*.{suffix}"


def bin_on(n_workers, pattern, parameters=None, *, least_bytes=400, **options):
    parameters = parameters or Parameters()
    parts = list_parts([pattern], options, n_workers=n_workers, least_bytes=least_bytes)
    owners = deal_parts([part.size for part in parts], n_workers)

    def task(peers):
        mine = [part for part, owner in zip(parts, owners, strict=True) if owner == peers.rank]
        return bin_parts(mine, peers, options, parameters, n_jobs=1)

    return run_workers(n_workers, task)[0]


def assert_same(shares, whole):
    seen = []
    for data in shares:
        assert data.bins.same_as(whole.bins)
        assert data.cutting == whole.cutting
        assert data.feature_names == whole.feature_names
        for place, number in enumerate(data.shard.numbers.tolist()):
            seen.append(number)
            mine = slice(*data.offsets[place : place + 2])
            wanted = slice(*whole.offsets[number : number + 2])
            assert data.shard.places[place] == wanted.start
            np.testing.assert_array_equal(data.matrix.codes[mine], whole.matrix.codes[wanted])
            for name in FIELDS:
                if getattr(whole, name) is not None:
                    expected = getattr(whole, name)[wanted]
                    np.testing.assert_array_equal(getattr(data, name)[mine], expected)
            if whole.weights is not None:
                assert data.weights[place] == whole.weights[number]
    assert sorted(seen) == list(range(whole.n_queries))
    assert sum(data.checksum for data in shares) % (1 << 64) == whole.checksum


@pytest.mark.parametrize("suffix", ["parquet", "csv", "txt"])
@pytest.mark.parametrize("n_workers", [1, 3, 9])
def test_workers_have_the_codes_that_one_machine_has(tmp_path, suffix, n_workers):
    pattern = write_files(tmp_path, suffix)
    assert_same(bin_on(n_workers, pattern), bin_files(pattern))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_weights_and_base_scores_go_with_their_rows(tmp_path, suffix):
    pattern = write_files(tmp_path, suffix, with_extras=True)
    options = {name: name for name in ("weight", "base_score", "document_weight")}
    assert_same(bin_on(3, pattern, **options), bin_files(pattern, **options))


def test_categories_are_counted_over_all_workers(tmp_path):
    pattern = write_files(tmp_path, "parquet")
    parameters = Parameters(categorical=["f2", 4], max_bins=9, random_state=7)
    whole = bin_files(pattern, categorical=["f2", 4], max_bins=9, random_state=7)
    assert_same(bin_on(3, pattern, parameters), whole)


@pytest.mark.parametrize("late", ["1 qid:99999 9:2\n", "1 qid:99999 0:2 3:1\n"])
def test_columns_that_come_late_in_one_text_are_there_on_all_workers(tmp_path, late):
    for number in range(3):
        # More than is looked at before a text is read.
        lines = [f"{n % 2} qid:{number * 6000 + n // 2} 1:{n} 3:2\n" for n in range(12_000)]
        (tmp_path / f"{number}.txt").write_text("".join(lines) + late * (number == 1))
    whole = bin_files(tmp_path / "*.txt")
    assert_same(bin_on(3, tmp_path / "*.txt", least_bytes=1 << 20), whole)
    parameters = Parameters(categorical=[whole.feature_names[-1]])
    again = bin_files(tmp_path / "*.txt", categorical=parameters.categorical)
    assert_same(bin_on(3, tmp_path / "*.txt", parameters, least_bytes=1 << 20), again)


def test_columns_in_another_order_are_found_by_name(tmp_path):
    (tmp_path / "0.csv").write_text("label,qid,a,b\n" + "0,1,2,30\n1,1,4,50\n" * 2)
    (tmp_path / "1.csv").write_text("label,qid,b,a\n" + "0,2,30,2\n1,2,50,4\n" * 2)
    shares = bin_on(2, tmp_path / "*.csv")
    assert_same(shares, bin_files(tmp_path / "*.csv"))
    assert [data.n_documents for data in shares] == [4, 4]


def test_other_columns_and_types_are_refused_by_name(tmp_path):
    (tmp_path / "0.csv").write_text("label,qid,a,b\n" + "0,1,2,30\n1,1,4,50\n" * 2)
    (tmp_path / "1.csv").write_text("label,qid,a,c\n" + "0,2,30,2\n1,2,50,4\n" * 2)
    with pytest.raises(DataError, match=r"1\.csv: must have the features of .*0\.csv.*'b'"):
        bin_on(2, tmp_path / "*.csv")
    (tmp_path / "1.csv").write_text("label,qid,a,b\n" + "0,2,30,wurst\n1,2,50,kaese\n" * 2)
    with pytest.raises(DataError, match=r"1\.csv.*b"):
        bin_on(2, tmp_path / "*.csv")


def test_a_query_that_comes_back_later_is_refused_by_name(tmp_path):
    for number, qid in enumerate((1, 2, 1)):
        (tmp_path / f"{number}.csv").write_text(f"label,qid,a\n0,{qid},2\n1,{qid},4\n")
    with pytest.raises(DataError, match=r"query 1 must be in one part.*0\.csv.*2\.csv"):
        bin_on(2, tmp_path / "*.csv")


def test_an_unknown_category_is_refused(tmp_path):
    pattern = write_files(tmp_path, "txt")
    with pytest.raises(ParameterError, match="categorical"):
        bin_on(2, pattern, Parameters(categorical=["wurst"]))


def test_data_that_do_not_fit_are_refused_before_they_are_read(tmp_path, monkeypatch):
    pattern = write_files(tmp_path, "parquet")
    monkeypatch.setattr(memory, "_of_system", lambda: 100)
    with pytest.raises(memory.NotEnoughMemoryError, match=r"must fit into memory.*add workers"):
        bin_on(2, pattern)


def test_an_allowance_is_what_there_is():
    before = memory.available_memory()
    with memory.memory_allowance(1):
        assert memory.available_memory() == 0
    with memory.memory_allowance(1 << 60):
        assert memory.available_memory() <= 1 << 60
    assert before > 0


def test_the_features_of_a_worker_are_never_in_memory_all_at_once(tmp_path):
    def write(n_rows, path):
        rng = np.random.default_rng(0)
        features = rng.random((n_rows, 64), dtype=np.float32)
        qid = np.repeat(np.arange(n_rows // 10), 10)
        write_data(Dataset.from_arrays(features, rng.integers(0, 3, n_rows), qid=qid), path)
        return features.nbytes

    write(1000, tmp_path / "few.parquet")
    n_bytes = write(300_000, tmp_path / "many.parquet")
    bin_on(1, tmp_path / "few.parquet")  # compiles kernels, which takes memory, too
    tracemalloc.start()
    try:
        (data,) = bin_on(1, tmp_path / "many.parquet")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data.codes_bytes < peak < 0.6 * n_bytes


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_categories_that_are_strings_are_refused_before_rows_are_read(tmp_path, suffix):
    table = pd.DataFrame({"label": [0, 1], "qid": [1, 1], "kind": ["web", "app"], "x": [0.5, 1.5]})
    path = tmp_path / f"0.{suffix}"
    table.to_parquet(path) if suffix == "parquet" else table.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"whole numbers for workers. Got 'kind' with others: wr"):
        bin_on(1, path, Parameters(categorical=["kind"]))

"""Writing LETOR text: bit for bit what was read, in few digits, and never half a file."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
from backports import zstd

from rankgrove.data import letor, letor_format
from rankgrove.data.dataset import Dataset
from rankgrove.data.letor import read_letor, write_letor
from rankgrove.errors import DataError, ParameterError


def dataset(features, labels=None, qid=None, **options):
    features = np.asarray(features, dtype=np.float32)
    labels = np.zeros(len(features)) if labels is None else labels
    qid = [1] * len(features) if qid is None else qid
    return Dataset.from_arrays(features, labels, qid=qid, **options)


def text_of(data, tmp_path, **options):
    write_letor(data, tmp_path / "out.txt", **options)
    return (tmp_path / "out.txt").read_text(encoding="utf-8")


def assert_same_bits(got, expected):
    assert got.shape == expected.shape
    missing = np.isnan(expected)
    assert np.array_equal(np.isnan(got), missing)
    same = got.view(np.uint32) == expected.view(np.uint32)
    assert np.all(same | missing)


def test_a_dataset_is_written_as_lines(tmp_path):
    data = dataset([[0.5, 0, -1], [0, 4, 0]], [2, 0.25], [10, 11], document_ids=["a b", ""])
    assert text_of(data, tmp_path) == "2 qid:10 1:0.5 3:-1 # a b\n0.25 qid:11 2:4\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (-0.0, "-0"),
        (11089534.0, "11089534"),
        (16777216.0, "16777216"),
        (999999936.0, "999999936"),
        (1e9, "1e9"),
        (0.1, "0.1"),
        (0.034483, "0.034483"),
        (-22.076928, "-22.076927"),
        (1.1e-5, "0.000011"),
        (1e-5, "1e-5"),
        (1.2345679e-5, "0.000012345679"),
        (9.5e-6, "9.5e-6"),
        (3.4028235e38, "3.4028235e38"),
        (1.1754944e-38, "1.1754944e-38"),
        (1e-45, "1e-45"),
        (8388607.5, "8388607.5"),
        (1e10, "1e10"),
        (np.nan, "nan"),
        (np.inf, "inf"),
        (-np.inf, "-inf"),
    ],
)
def test_a_number_is_written_in_few_digits(value, text, tmp_path):
    assert text_of(dataset([[value, 1]]), tmp_path) == f"0 qid:1 1:{text} 2:1\n"


def test_millions_of_random_bit_patterns_come_back(tmp_path):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 2**32, (20_000, 150), dtype=np.uint32).view(np.float32)
    features[np.isnan(features)] = np.nan
    write_letor(dataset(features), tmp_path / "a.txt")
    assert_same_bits(read_letor(tmp_path / "a.txt").features, features)


def test_every_exponent_and_its_edges_come_back(tmp_path):
    mantissas = np.array([0, 1, 2, 3, 2**22 - 1, 2**22, 2**22 + 1, 2**23 - 2, 2**23 - 1])
    rng = np.random.default_rng(1)
    mantissas = np.concatenate([mantissas, rng.integers(0, 2**23, 400)]).astype(np.uint32)
    exponents = np.arange(512, dtype=np.uint32)[:, None] << 23
    features = (exponents | mantissas).view(np.float32)
    features[np.isnan(features)] = np.nan
    write_letor(dataset(features), tmp_path / "a.txt")
    assert_same_bits(read_letor(tmp_path / "a.txt").features, features)


def test_no_more_digits_are_written_than_needed(tmp_path):
    rng = np.random.default_rng(2)
    values = rng.integers(0, 2**31, 20_000, dtype=np.uint32).view(np.float32)
    short = np.round(10 ** rng.uniform(-8, 8, 20_000), 4).astype(np.float32)
    values = np.concatenate([values[np.isfinite(values)], short[short > 0]])
    lines = text_of(dataset(values[:, None]), tmp_path).splitlines()
    for line, value in zip(lines, values, strict=True):
        text = line.split()[2].removeprefix("1:")
        if value >= 1e9 or value != np.floor(value):
            digits = text.partition("e")[0].replace(".", "").strip("0")
            fewest = np.format_float_scientific(value, unique=True, trim="-")
            fewest = fewest.partition("e")[0].replace(".", "").strip("0")
            assert len(digits) == len(fewest), (text, value)


def test_labels_are_written_like_values(tmp_path):
    labels = np.array([2, 0.1, -3.25, 1e-30, 3.4028235e38, -0.0], dtype=np.float32)
    data = dataset(np.ones((6, 1)), labels)
    write_letor(data, tmp_path / "a.txt")
    assert_same_bits(read_letor(tmp_path / "a.txt").labels, labels)


@pytest.mark.parametrize("index_base", [0, 1])
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_width_and_base_survive_features_that_are_all_absent(index_base, absent, tmp_path):
    nothing = 0.0 if absent == "zero" else np.nan
    features = np.full((3, 4), nothing, dtype=np.float32)
    features[1, 2] = 7
    write_letor(dataset(features), tmp_path / "a.txt", index_base=index_base, absent=absent)
    assert_same_bits(read_letor(tmp_path / "a.txt", absent=absent).features, features)
    first, second, third = (tmp_path / "a.txt").read_text(encoding="ascii").splitlines()
    assert len(first.split()) == (4 if index_base == 0 else 3)
    assert second.split()[2:] == [f"{2 + index_base}:7"]
    assert third.split() == ["0", "qid:1"]


def test_absent_missing_leaves_out_nan_and_writes_zeros(tmp_path):
    data = dataset([[0, np.nan, 1], [np.nan, -0.0, np.nan]])
    assert text_of(data, tmp_path, absent="missing") == "0 qid:1 1:0 3:1\n0 qid:1 2:-0\n"
    assert text_of(data, tmp_path) == "0 qid:1 2:nan 3:1\n0 qid:1 1:nan 2:-0 3:nan\n"


def test_a_dataset_without_features_comes_back(tmp_path):
    data = dataset(np.empty((2, 0)), [1, 0])
    assert text_of(data, tmp_path) == "1 qid:1\n0 qid:1\n"
    assert read_letor(tmp_path / "out.txt").features.shape == (2, 0)


def test_query_ids_and_document_ids_come_back(tmp_path):
    ids = ["é", "b:c", "x\u3000y"]
    documents = ["docid = 1", "", "a # b\tc"]
    data = dataset(np.ones((3, 1)), qid=ids, document_ids=documents)
    write_letor(data, tmp_path / "a.txt")
    back = read_letor(tmp_path / "a.txt", document_ids=True)
    assert back.query_ids.tolist() == ids
    assert back.document_ids.tolist() == documents
    write_letor(data, tmp_path / "a.txt", document_ids=False)
    assert "docid" not in (tmp_path / "a.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("id_", ["", "a b", "a\tb", "a#", "a\nb", "\r", "\ud800"])
def test_a_query_id_that_would_not_come_back_is_refused(id_, tmp_path):
    with pytest.raises(DataError, match="id must"):
        write_letor(dataset([[1.0]], qid=np.array([id_], dtype=object)), tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("id_", ["a\nb", " a", "a\t", "a\r", "\ud800"])
def test_a_document_id_that_would_not_come_back_is_refused(id_, tmp_path):
    with pytest.raises(DataError, match="id must"):
        write_letor(dataset([[1.0]], document_ids=[id_]), tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


def test_the_name_decides_on_compression(tmp_path):
    data = dataset([[1.0, 2.5]])
    for name, unpack in (("a.gz", gzip.decompress), ("a.zst", zstd.decompress), ("a", bytes)):
        write_letor(data, tmp_path / name)
        assert unpack((tmp_path / name).read_bytes()) == b"0 qid:1 1:1 2:2.5\n"
        assert read_letor(tmp_path / name).features.tolist() == [[1, 2.5]]


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.zst"])
def test_the_same_data_give_the_same_bytes_on_1_2_and_4_threads(name, tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_BLOCK_BYTES", 20_000)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 20)).astype(np.float32) * (rng.random((2000, 20)) < 0.7)
    documents = [f"doc {number}" * (number % 3) for number in range(2000)]
    data = dataset(features, qid=np.arange(2000) // 7, document_ids=documents)
    contents = set()
    for n_jobs in (1, 2, 4):
        write_letor(data, tmp_path / name, n_jobs=n_jobs)
        contents.add((tmp_path / name).read_bytes())
    assert len(contents) == 1
    back = read_letor(tmp_path / name, document_ids=True)
    assert_same_bits(back.features, data.features)
    assert back.document_ids.tolist() == documents
    assert back.group.tolist() == data.group.tolist()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_write_leaves_the_old_file(error, n_jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_BLOCK_BYTES", 1000)
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    calls = []

    def fails_later(*arguments):
        calls.append(arguments)
        if len(calls) > 5:
            raise error
        return letor_format.format_rows(*arguments)

    monkeypatch.setattr(letor, "format_rows", fails_later)
    with pytest.raises(error):
        write_letor(dataset(np.ones((1000, 10))), path, n_jobs=n_jobs)
    assert os.listdir(tmp_path) == ["a.txt"]
    assert path.read_bytes() == b"old"


def test_a_document_id_refused_late_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_BLOCK_BYTES", 1000)
    documents = ["d"] * 999 + ["x\ny"]
    with pytest.raises(DataError, match="document id"):
        write_letor(dataset(np.ones((1000, 10)), document_ids=documents), tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


def test_a_directory_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match="is not a regular file"):
        write_letor(dataset([[1.0]]), tmp_path)
    with pytest.raises(DataError, match="cannot be written: No such file or directory"):
        write_letor(dataset([[1.0]]), tmp_path / "none" / "a.txt")


@pytest.mark.parametrize("options", [{"index_base": "auto"}, {"index_base": 2}, {"absent": None}])
def test_an_option_that_does_not_exist_is_refused(options, tmp_path):
    with pytest.raises(ParameterError, match="must be one of"):
        write_letor(dataset([[1.0]]), tmp_path / "a.txt", **options)


def test_a_part_of_a_dataset_is_written(tmp_path):
    data = dataset(np.arange(12).reshape(6, 2), qid=[1, 1, 2, 2, 3, 3])
    for part in (data.take_queries([1]), data.take_queries([2, 0])):
        write_letor(part, tmp_path / "a.txt")
        back = read_letor(tmp_path / "a.txt")
        assert back.query_ids.tolist() == part.query_ids.tolist()
        assert_same_bits(back.features, part.features)


def test_scikit_learn_reads_the_same_numbers(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(0)
    features = rng.integers(0, 2**31, (200, 30), dtype=np.uint32).view(np.float32)
    features[~np.isfinite(features)] = 0
    write_letor(dataset(features, qid=np.arange(200) // 9), tmp_path / "a.txt")
    got, _, qid = datasets.load_svmlight_file(str(tmp_path / "a.txt"), query_id=True)
    assert_same_bits(got.toarray().astype(np.float32), features)
    assert qid.tolist() == (np.arange(200) // 9).tolist()


def test_the_kernel_has_one_signature(tmp_path):
    frozen = dataset([[1.0]], document_ids=["a"])
    write_letor(frozen, tmp_path / "a.txt", absent="missing", index_base=0)
    write_letor(frozen.take_queries([0]), tmp_path / "a.txt", document_ids=False)
    assert len(letor_format.format_rows.signatures) == 1

"""CSV, TSV and Parquet files: what comes back, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.samples import ALL_ROLES, assert_identical, full_dataset
from rankgrove.data import columns as columns_module
from rankgrove.data import delimited as delimited_module
from rankgrove.data.dataset import Dataset
from rankgrove.data.frames import read_table, write_table
from rankgrove.errors import DataError, MissingExtraError, ParameterError

TEXT_SUFFIXES = ["csv", "tsv", "csv.gz", "tsv.gz", "csv.zst", "tsv.zst"]


@pytest.fixture
def write(tmp_path):
    """Writes text or bytes to a file and gives its path."""

    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("query_ids", ["integers", "strings"])
@pytest.mark.parametrize("suffix", [*TEXT_SUFFIXES, "parquet"])
def test_a_dataset_comes_back_from_a_file_bit_for_bit(tmp_path, suffix, query_ids):
    data = full_dataset(query_ids)
    path = tmp_path / f"data.{suffix}"
    write_table(data, path)
    assert_identical(read_table(path, **ALL_ROLES), data)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_written_and_read_in_many_blocks_is_the_same(tmp_path, suffix, monkeypatch):
    data = full_dataset("strings", n_queries=300)
    path = tmp_path / f"data.{suffix}"
    monkeypatch.setattr(columns_module, "_BLOCK_ROWS", 100)
    monkeypatch.setattr(columns_module, "_TILE_ROWS", 30)
    monkeypatch.setattr(delimited_module, "_BLOCK_BYTES", 1 << 11)
    write_table(data, path)
    assert_identical(read_table(path, **ALL_ROLES), data)
    if suffix == "parquet":
        assert pq.ParquetFile(path).num_row_groups > 5


def test_every_float32_that_is_sampled_survives_csv(tmp_path):
    bits = np.random.default_rng(3).integers(0, 2**32, (20_000, 4), dtype=np.uint32)
    features = bits.view(np.float32)
    features = np.where(np.isfinite(features), features, np.float32(0))
    data = Dataset.from_arrays(features, np.zeros(len(features)), group=[len(features)])
    write_table(data, tmp_path / "data.csv")
    assert_identical(read_table(tmp_path / "data.csv"), data)


def test_a_csv_number_is_rounded_once(write):
    # A hair above the middle of 1 and the next float32: by way of a double it would round down.
    path = write("label,qid,x\n0,1,1.000000059604644775390626\n")
    assert read_table(path).features[0, 0] == np.nextafter(np.float32(1), np.float32(2))


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz"])
def test_a_file_without_a_header_names_its_columns_by_position(tmp_path, suffix):
    data = full_dataset("strings")
    path = tmp_path / f"data.{suffix}"
    write_table(data, path, header=False)
    back = read_table(path, header=False, label="0", qid="1", weight="2", base_score="3",
                      document_id="4", document_weight="5")  # fmt: skip
    assert back.feature_names == ("6", "7", "8", "9", "10")
    np.testing.assert_array_equal(back.features, data.features)
    with pytest.raises(DataError, match=r"the label column must be one of 0, 1, 2, .* Got 'label'"):
        read_table(path, header=False)


@pytest.mark.parametrize("word", ["", "NA", "NaN", "nan", "null", "NULL"])
def test_words_for_missing_are_missing_in_numeric_columns(write, word):
    path = write(f"label,qid,x,y\n0,1,{word},1\n1,1,2,{word}\n")
    np.testing.assert_array_equal(read_table(path).features, [[np.nan, 1], [2, np.nan]])


def test_a_csv_column_without_any_value_is_all_missing(write):
    path = write("label,qid,x,empty\n0,1,1,\n1,1,2,NA\n")
    np.testing.assert_array_equal(read_table(path).features, [[1, np.nan], [2, np.nan]])


def test_booleans_and_infinities_and_spaces_in_csv_are_numbers(write):
    path = write("label,qid,a,b,c\n0,1,true,inf, 1.5\n1,1,False,-Infinity,+2 \n")
    assert read_table(path).features.tolist() == [[1, np.inf, 1.5], [0, -np.inf, 2]]


@pytest.mark.parametrize("text", [b"\xef\xbb\xbflabel,qid,x\r\n0,1,2\r\n", b"label,qid,x\n0,1,2",
                                  b"label,qid,x\n\n0,1,2\n\n"])  # fmt: skip
def test_byte_order_marks_line_ends_and_empty_lines_do_not_matter(write, text):
    assert read_table(write(text)).features.tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["7", "-8"], [7, -8]),
        (["007", "8"], ["007", "8"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["0x10", "16"], ["0x10", "16"]),
        (["NA", "null"], ["NA", "null"]),
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
        (['"a,b"', '"say ""a"""'], ["a,b", 'say "a"']),
    ],
)
def test_csv_ids_are_integers_only_if_all_are_written_so(write, written, expected):
    path = write(f"label,qid,doc,x\n0,{written[0]},{written[0]},1\n1,{written[1]},{written[1]},2\n")
    data = read_table(path, document_id="doc")
    assert data.query_ids.tolist() == expected
    assert data.document_ids.tolist() == expected


@pytest.mark.parametrize(("role", "line"), [("label", ",2,d,1"), ("qid", "1,,d,1"),
                                            ("document_id", "1,2,,1")])  # fmt: skip
def test_a_missing_entry_of_a_role_is_refused_with_file_and_row(write, role, line):
    path = write(f"label,qid,document_id,x\n0,1,c,1\n{line}\n")
    message = f"{path}: the {role} column '{role}' must have no missing entry. Got one at row 1"
    with pytest.raises(DataError, match=re.escape(message)):
        read_table(path, document_id="document_id")


@pytest.mark.parametrize("column", ["x", "label"])
def test_a_csv_number_past_float32_is_refused_with_its_column_and_row(write, column):
    path = write({"x": "label,qid,x\n0,1,inf\n1,1,-1e39\n1,1,2\n",
                  "label": "label,qid,x\n0,1,inf\n1e39,1,2\n"}[column])  # fmt: skip
    with pytest.raises(DataError, match=rf"column '{column}' must fit into float32.*1e39 at row 1"):
        read_table(path)


def test_all_text_columns_are_named_in_one_error_and_can_be_left_out(write):
    path = write("label,qid,title,x,day\n0,1,hello,1,2020-01-01\n1,1,world,2,2020-01-02\n")
    message = r"data\.csv: .* Got 'title' \(String, as 'hello' at row 0\), 'day' \(Date\): name"
    with pytest.raises(DataError, match=message):
        read_table(path)
    assert read_table(path, features=["x"]).features.tolist() == [[1.0], [2.0]]


def test_a_text_value_late_in_a_column_of_numbers_is_refused(write, monkeypatch):
    monkeypatch.setattr(delimited_module, "_BLOCK_BYTES", 1 << 10)
    path = write("label,qid,x\n" + "0,1,2.5\n" * 1000 + "0,1,oops\n")
    with pytest.raises(DataError, match=r"Got 'x' \(String, as 'oops' at row 1000\)"):
        read_table(path)
    path = write("label,qid,x\n" + "0,1,2.5\n" * 1000 + "oops,1,1\n")
    with pytest.raises(DataError, match=r"the label column .* must hold .* Got String, as 'oops'"):
        read_table(path)


def test_bytes_that_are_not_utf8_in_a_column_that_is_not_used_do_not_matter(write):
    path = write("label,qid,title,x\n0,1,caf\xe9,2\n".encode("latin-1"))
    assert read_table(path, features=["x"]).features.tolist() == [[2.0]]


def test_column_names_may_hold_separators_quotes_and_line_breaks(write):
    data = read_table(write('label,qid,"a,b","c""d","e\nf"\n0,1,2,3,4\n'))
    assert data.feature_names == ("a,b", 'c"d', "e\nf")


def test_quoted_line_breaks_across_blocks_are_read(write, monkeypatch):
    monkeypatch.setattr(delimited_module, "_BLOCK_BYTES", 1 << 10)
    rows = "".join(f'0,1,"first {n}\nsecond, {n}",{n}\n' for n in range(500))
    data = read_table(write("label,qid,title,x\n" + rows), features=["x"])
    assert data.features[:, 0].tolist() == list(range(500))
    data = read_table(write("label,qid,title,x\n" + rows), document_id="title")
    assert data.document_ids[499] == "first 499\nsecond, 499"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,qid,x\n0,1,2\n0,1\n", r"data\.csv: must be a sound csv file.*Row #3: Expected 3"),
        ("label,qid,x\n0,1,2\n0,1,2,3\n", r"data\.csv: .*Row #3: Expected 3 columns, got 4"),
        ('label,qid,x\n0,"a\xff",2\n'.encode("latin-1"), "invalid UTF8"),
        ("label,qid,\xff\n0,1,2\n".encode("latin-1"), r"data\.csv: must be a sound csv file"),
        ("label,qid,x\n", r"data\.csv: .* at least one document. Got none"),
        ("", r"data\.csv: must be a csv file. Got an empty one"),
        ("\n\n", r"data\.csv: must have at least one document. Got empty lines only"),
        ('"label,qid,x\n' + "0,1,2\n" * 50_000, r"data\.csv: the first line must name the col"),
        ("label,qid,x,x\n0,1,2,3\n", "column names must differ from each other. Got 'x' twice"),
        ("labels,qid,x\n0,1,2\n", r"Got 'label'; did you mean 'labels'\?"),
        ("label;qid;x\n0;1;2\n", r"the label column must be one of label;qid;x. Got 'label'"),
        ("label,qid,x\n0,b,1\n0,a,2\n0,b,3\n", r"data\.csv: query 'b' is split"),
    ],
)  # fmt: skip
def test_a_faulty_csv_file_gets_one_error_that_names_it(write, text, message):
    with pytest.raises(DataError, match=message):
        read_table(write(text))


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "parquet"])
def test_a_missing_file_and_a_directory_are_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}: .* Got no file there: check"):
        read_table(path)
    path.mkdir()
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}: .* Got a directory"):
        read_table(path)


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.zst"])
def test_a_truncated_compressed_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    write_table(full_dataset(n_queries=100), path)
    whole = path.read_bytes()
    for length in [1, 3, 10, len(whole) // 2, len(whole) - 12, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=re.escape(str(path))):
            read_table(path, **ALL_ROLES)


def test_a_plain_file_under_a_compressed_name_is_refused(write):
    for name in ("data.csv.gz", "data.csv.zst"):
        with pytest.raises(DataError, match=name):
            read_table(write("label,qid,x\n0,1,2\n", name))


def test_the_format_comes_from_the_name_or_is_given(write):
    assert read_table(write("label\tqid\tx\n0\t1\t2\n", "a.TSV")).features.tolist() == [[2.0]]
    assert read_table(write("label,qid\n0,1\n", "a.txt"), format="csv").n_features == 0
    zipped = gzip.compress(b"label,qid\n0,1\n")
    assert read_table(write(zipped, "a.gz"), format="csv").n_documents == 1
    for name in ("a.txt", "a", "a.gz", "a.parquet.gz"):
        with pytest.raises(ParameterError, match=f"must end in .csv.*Got .*{name}.*format="):
            read_table(name)
    with pytest.raises(ParameterError, match=r"Got 'cvs'; did you mean 'csv'\?"):
        read_table("a.csv", format="cvs")


def small_parquet(path):
    data = full_dataset(n_queries=10)
    write_table(data, path)
    return data, path.read_bytes()


def test_a_truncated_parquet_file_is_refused_at_every_length(tmp_path):
    path = tmp_path / "data.parquet"
    _, whole = small_parquet(path)
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=re.escape(str(path))):
            read_table(path, **ALL_ROLES)


def test_a_parquet_page_that_was_changed_is_never_taken_for_other_numbers(tmp_path):
    path = tmp_path / "data.parquet"
    data, whole = small_parquet(path)
    footer = len(whole) - 8 - pq.ParquetFile(path).metadata.serialized_size
    places = range(4, footer, 7)
    refused = 0
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        try:
            assert_identical(read_table(path, **ALL_ROLES), data)
        except DataError:
            refused += 1
    assert refused > len(places) // 2


def test_parquet_reads_only_the_columns_it_needs(tmp_path):
    table = pa.table({"label": [1, 0], "qid": ["a", "b"], "x": [1.0, None], "title": ["t", "u"],
                      "dotted.name": [3, 4]})  # fmt: skip
    pq.write_table(table, tmp_path / "data.parquet")
    data = read_table(tmp_path / "data.parquet", features=["dotted.name", "x"])
    np.testing.assert_array_equal(data.features, [[3, 1], [4, np.nan]])
    with pytest.raises(
        DataError, match=r"data\.parquet: feature columns .* Got 'title' \(String\)"
    ):
        read_table(tmp_path / "data.parquet")


def test_parquet_of_pandas_leaves_out_its_index_and_reads_its_types(tmp_path):
    frame = pd.DataFrame({"label": [1, 0], "qid": [1, 1], "b": pd.array([True, None], "boolean"),
                          "i": pd.array([None, 5], "Int32"), "n": [None, None]},
                         index=[5, 3])  # fmt: skip
    frame.to_parquet(tmp_path / "data.parquet")
    data = read_table(tmp_path / "data.parquet")
    assert data.feature_names == ("b", "i", "n")
    nan = np.nan
    np.testing.assert_array_equal(data.features, [[1, nan, nan], [nan, 5, nan]])


def test_split_queries_of_a_parquet_file_are_grouped_on_request(tmp_path):
    table = pa.table({"label": [0, 1, 2], "qid": [1, 2, 1], "x": [0.0, 1.0, 2.0]})
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=2)
    with pytest.raises(DataError, match="query 1 is split"):
        read_table(tmp_path / "data.parquet")
    data = read_table(tmp_path / "data.parquet", split_queries="group")
    assert data.features[:, 0].tolist() == data.labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_group_sizes_stand_in_for_query_ids_in_a_file(tmp_path, suffix):
    data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], group=[1, 2])
    path = tmp_path / f"data.{suffix}"
    write_table(data, path)
    assert read_table(path, group=[2, 1], qid=None).feature_names == ("qid", "f1")
    assert_identical(read_table(path), data)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    write_table(full_dataset(), path)
    before = path.read_bytes()
    odd = Dataset.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, "x"])
    with pytest.raises(DataError, match=f"64-bit integers in {suffix}. Got int, str"):
        write_table(odd, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_an_error_halfway_through_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("old")
    monkeypatch.setattr(pa, "table", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_table(full_dataset(), path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_an_empty_id_cannot_go_to_csv_where_it_would_be_missing(tmp_path):
    data = Dataset.from_arrays([[1.0]], [0], qid=[""])
    with pytest.raises(DataError, match="ids must not be empty strings"):
        write_table(data, tmp_path / "data.csv")
    write_table(data, tmp_path / "data.parquet")
    assert_identical(read_table(tmp_path / "data.parquet"), data)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading CSV.*pip install 'rankgrove\[frames\]'"):
        read_table(tmp_path / "data.csv")
    with pytest.raises(MissingExtraError, match=r"writing CSV.*pip install 'rankgrove\[frames\]'"):
        write_table(full_dataset(), tmp_path / "data.csv")


def test_damaged_text_raises_nothing_but_data_errors(write):
    rng = np.random.default_rng(0)
    whole = b"label,qid,doc,x,y\n" + b'1,7,"a,b",0.5,true\n0,7,c,,1e3\n2,8,d,nan,-4\n' * 3
    for _ in range(300):
        text = bytearray(whole)
        for place in rng.integers(0, len(text), rng.integers(1, 4)):
            text[place] = rng.choice(list(b'",\n\r\0a1.-\xff '))
        try:
            read_table(write(bytes(text)), document_id="doc", split_queries="group")
        except DataError:
            continue

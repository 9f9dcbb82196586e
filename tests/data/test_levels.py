"""Columns of categories: their levels, the numbers that stand for them, and files."""

from __future__ import annotations

import datetime
import random

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankgrove import Dataset, from_frame, read_table, to_frame, write_table
from rankgrove.boosting.bin_files import bin_files
from rankgrove.data.columns import check_numeric
from rankgrove.data.dataset import with_numbers
from rankgrove.data.files import losses
from rankgrove.data.levels import CodedColumn, code_column, features_by, numbers_by
from rankgrove.data.matrix import as_dataset, features_of
from rankgrove.errors import DataError, ParameterError

WORDS = ["web", None, "app", "", "web", "Ä", "a\0b", "x" * 10_000, None, "NA", "7"]
ORDER = ["x" * 10_000, "web", "unused", "", "7", "NA", "a\0b", "app", "Ä"]

COLUMNS = {
    "pandas objects": lambda words: pd.Series(words, dtype=object),
    "pandas strings": lambda words: pd.Series(words, dtype="string"),
    "pandas default": pd.Series,
    "pandas arrow": lambda words: pd.Series(words, dtype=pd.ArrowDtype(pa.string())),
    "pandas categorical": lambda words: pd.Series(pd.Categorical(words, ORDER)),
    "pandas ordered": lambda words: pd.Series(pd.Categorical(words, ORDER, ordered=True)),
    "pandas dictionary": lambda words: pd.Series(
        words, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
    ),
    "polars strings": lambda words: pl.Series(words, dtype=pl.String),
    "polars categorical": lambda words: pl.Series(words, dtype=pl.Categorical),
    "polars enum": lambda words: pl.Series(words, dtype=pl.Enum(ORDER)),
    "pyarrow strings": lambda words: pa.chunked_array([words[:3], words[3:]], pa.string()),
    "pyarrow large": lambda words: pa.chunked_array([words], pa.large_string()),
    "pyarrow view": lambda words: pa.chunked_array([words], pa.string_view()),
    "pyarrow dictionary": lambda words: pa.chunked_array(
        [pa.array(words[:3]).dictionary_encode(), pa.array(words[3:]).dictionary_encode()]
    ),
}


def naive_code(values):
    """Levels in rising order, and the place of each value among them, by definition."""
    levels = sorted({value for value in values if value is not None})
    return tuple(levels), [np.nan if value is None else levels.index(value) for value in values]


def frame_of(column, **more):
    n_rows = len(column)
    columns = {"label": np.arange(n_rows) % 3, "qid": np.zeros(n_rows, int), "kind": column, **more}
    if isinstance(column, pd.Series):
        return pd.DataFrame(columns)
    return pl.DataFrame(columns) if isinstance(column, pl.Series) else pa.table(columns)


def coded(column):
    return code_column(nw.from_native(column, series_only=True))


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_levels_are_those_that_occur_in_rising_order_whatever_the_column(make):
    levels, numbers = naive_code(WORDS)
    found = coded(make(WORDS))
    assert found.levels == levels
    np.testing.assert_array_equal(found.numbers, np.array(numbers, np.float32))


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_a_frame_brings_its_levels_into_a_dataset_and_its_rows_into_order(make):
    frame = frame_of(make(WORDS), other=np.arange(len(WORDS), dtype=float))
    data = from_frame(frame, categorical=["kind"])
    levels, numbers = naive_code(WORDS)
    assert data.levels == {0: levels}
    assert data.levels_by_name == {"kind": levels}
    np.testing.assert_array_equal(data.features[:, 0], np.array(numbers, np.float32))
    assert data.features[:, 1].tolist() == list(range(len(WORDS)))
    same = as_dataset(frame[["kind", "other"]] if not isinstance(frame, pa.Table)
                      else frame.select(["kind", "other"]), data.labels, group=[len(WORDS)],
                      categorical=[0])  # fmt: skip
    np.testing.assert_array_equal(same.features, data.features)
    assert same.levels == data.levels


def test_rows_that_are_grouped_take_their_categories_with_them():
    frame = pd.DataFrame({"label": [0, 1, 2, 3], "qid": [1, 2, 1, 2], "kind": ["a", "b", "c", "d"]})
    data = from_frame(frame, categorical=["kind"], split_queries="group")
    assert [data.levels[0][int(v)] for v in data.features[:, 0]] == ["a", "c", "b", "d"]


def test_categories_by_type_need_no_name_and_strings_do():
    frame = frame_of(pd.Series(["b", "a"], dtype="category"))
    assert from_frame(frame).levels == {0: ("a", "b")}
    frame["kind"] = frame["kind"].astype(str)
    with pytest.raises(
        DataError, match=r"Got 'kind' \(String.*: name those .* in categorical=, dr"
    ):
        from_frame(frame)


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (pd.Series(pd.Categorical([10, 2, None])), (2, 10)),
        (pd.Series(pd.Categorical([2**40, 2**40 + 1, 7])), (7, 2**40, 2**40 + 1)),
        (pd.Series(pd.Categorical([True, False, True])), (False, True)),
        (pd.Series(pd.Categorical([3.0, 1.0, None])), (1, 3)),
        (pa.chunked_array([pa.array([10, None, 2]).dictionary_encode()]), (2, 10)),
        (pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, 2], ["b", None, "b"])]), ("b",)),
    ],
    ids=str,
)
def test_levels_keep_their_own_type(column, levels):
    found = from_frame(frame_of(column)).levels[0]
    assert found == levels
    assert {type(level) for level in found} == {type(level) for level in levels}


@pytest.mark.parametrize(
    ("column", "got"),
    [
        (pd.Series([1, "a", "b"], dtype=object), "int and str"),
        (pd.Series([["a"], ["b"], None], dtype=object), "list"),
        (pd.Series(pd.Categorical([0.5, 1.5, 2.5])), "float"),
        (pd.Series([datetime.date(2020, 1, 1)] * 3, dtype=object), "date"),
        (pd.Series(pd.Categorical([pd.Timestamp("2020-01-01")] * 3)), "Timestamp"),
    ],
    ids=str,
)
def test_levels_of_other_or_of_mixed_types_are_refused(column, got):
    rule = f"'kind' must be all strings, all whole numbers or all booleans. Got {got}: convert"
    with pytest.raises(DataError, match=rule):
        from_frame(frame_of(column), categorical=["kind"])


def test_numbers_that_are_named_stay_the_numbers_that_they_are():
    frame = frame_of(pd.Series([7, 3, 7]), flag=[True, False, True])
    data = from_frame(frame, categorical=["kind", "flag"])
    assert data.levels == {}
    assert data.features.tolist() == [[7, 1], [3, 0], [7, 1]]


def test_a_column_without_a_value_has_no_levels():
    frame = frame_of(pd.Series([None, None], dtype=object))
    assert from_frame(frame, categorical=["kind"]).levels == {0: ()}
    frame = frame_of(pd.Series(pd.Categorical([None, None], ["a"])))
    assert from_frame(frame).levels == {0: ()}


@pytest.mark.parametrize("chosen", [["colour"], [3], ["kind", 0]])
def test_a_wrong_choice_of_categories_is_refused(chosen):
    with pytest.raises(ParameterError, match=r"categorical"):
        from_frame(frame_of(pd.Series(["a", "b"])), categorical=chosen)


def naive_by(values, wanted):
    return [wanted.index(v) if v in wanted else np.nan for v in values]


def test_a_column_by_other_levels_is_that_of_its_values_by_these():
    rng = random.Random(1)
    for _ in range(200):
        words = [rng.choice(["a", "b", "c", "d", None]) for _ in range(rng.randrange(1, 9))]
        wanted = tuple(sorted(rng.sample(["a", "b", "c", "d", "e"], rng.randrange(6))))
        column = coded(pd.Series(words, dtype=object))
        found = numbers_by(column, wanted, "kind")
        np.testing.assert_array_equal(found, np.array(naive_by(words, wanted), np.float32))


def test_whole_numbers_and_booleans_are_found_by_value_as_plain_numbers_too():
    numbers = np.array([10.0, 2.0, np.nan, 3.0], np.float32)
    np.testing.assert_array_equal(numbers_by(numbers, (2, 10), "kind"), [1, 0, np.nan, np.nan])
    flags = np.array([1.0, 0.0], np.float32)
    assert numbers_by(flags, (False, True), "kind").tolist() == [1, 0]
    back = numbers_by(CodedColumn(np.array([1, 0, np.nan], np.float32), (2, 10)), None, "kind")
    np.testing.assert_array_equal(back, [10, 2, np.nan])


def test_numbers_for_strings_and_strings_for_numbers_are_refused():
    numbers = np.array([10.0, np.nan], np.float32)
    with pytest.raises(DataError, match=r"'kind' must .* strings, as 'a'. Got numbers, as 10.0"):
        numbers_by(numbers, ("a", "b"), "kind")
    words = coded(pd.Series(["b", "a"]))
    with pytest.raises(DataError, match=r"'kind' must be numbers, as in training. Got .* 'a'"):
        numbers_by(words, None, "kind")
    with pytest.raises(DataError, match=r"'kind' must be numbers, as in training. Got .* 'a'"):
        numbers_by(words, (1, 2), "kind")
    nothing = np.full(2, np.nan, np.float32)
    np.testing.assert_array_equal(numbers_by(nothing, ("a", "b"), "kind"), nothing)


def test_features_by_their_own_levels_are_not_copied():
    features = np.zeros((2, 1), np.float32)
    levels = {0: ("a",)}
    assert features_by(features, levels, {0: ("a",)}, ["kind"]) is features
    assert features_by(features, {}, {}, ["kind"]) is features


def test_levels_of_a_feature_that_does_not_exist_are_refused():
    with pytest.raises(DataError, match=r"levels must be of one of 1 features. Got 1"):
        Dataset(np.zeros((1, 1), np.float32), np.zeros(1, np.float32), np.array([0, 1]),
                np.array([1]), levels={1: ("a",)})  # fmt: skip


def make_data(levels=("", "app", "web")):
    frame = pd.DataFrame({
        "label": [0.0, 1.0, 2.0, 0.0],
        "qid": [1, 1, 2, 2],
        "x": [0.5, np.nan, 1.5, 2.5],
        "kind": pd.Categorical([levels[2], None, levels[0], levels[1]]),
    })  # fmt: skip
    return from_frame(frame)


def check_same(data, other):
    np.testing.assert_array_equal(data.features, other.features)
    assert data.levels == other.levels
    assert data.feature_names == other.feature_names


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    "levels", [("", "app", "web"), (1, 5, 2**40), (False, True, True)], ids=str
)
def test_categories_come_back_from_a_frame(backend, levels):
    data = make_data(levels)
    if backend == "polars" and levels[0] != "":
        with pytest.raises(DataError, match=r"categories must be strings in a frame of polars"):
            to_frame(data, backend)
        return
    check_same(from_frame(to_frame(data, backend)), data)


def test_categories_come_back_from_parquet(tmp_path):
    write_table(make_data(), tmp_path / "data.parquet")
    check_same(read_table(tmp_path / "data.parquet"), make_data())


def test_categories_that_are_numbers_come_back_from_parquet_as_these(tmp_path):
    # Its readers know dictionaries of strings only.
    write_table(make_data((1, 5, 30)), tmp_path / "data.parquet")
    data = read_table(tmp_path / "data.parquet")
    assert data.levels == {}
    np.testing.assert_array_equal(data.features[:, 1], [30, np.nan, 1, 5])


def test_categories_come_back_from_csv(tmp_path):
    data = make_data(("NA", "app", 'web, "wide"\nweb'))
    write_table(data, tmp_path / "data.csv")
    check_same(read_table(tmp_path / "data.csv", categorical=["kind"]), data)
    with pytest.raises(DataError, match=r"categories must not be empty strings in a csv file"):
        write_table(make_data(), tmp_path / "data.csv")


def test_a_csv_file_has_numbers_where_all_are_and_strings_where_it_is_told(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("label,qid,kind,code,late\n1,1,7,3,true\n0,1,,4,\n2,2,NA,5,x\n")
    data = read_table(path, categorical=["kind", "code", "late"])
    assert data.levels_by_name == {"late": ("true", "x")}
    np.testing.assert_array_equal(data.features[:, 0], [7, np.nan, np.nan])
    told = read_table(path, categorical={"kind": ("7", "NA"), "code": (3, 4), "late": ("x",)})
    assert told.levels_by_name == {"kind": ("7", "NA"), "late": ("true", "x")}
    np.testing.assert_array_equal(told.features[:, 0], [0, np.nan, 1])
    with pytest.raises(DataError, match=r"'late' \(String, as 'true' at row 0\): name those"):
        read_table(path, categorical=["kind", "code"])


def test_letor_text_loses_categories_and_says_so():
    assert any("no place for categories (kind)" in text for text in losses(make_data(), "a.txt"))


def test_parts_of_data_keep_their_levels():
    data = make_data()
    assert data.take_queries([1]).levels == data.levels
    assert make_data().describe().per_feature[1].levels == 3


def test_what_needs_numbers_refuses_categories():
    with pytest.raises(
        DataError, match=r"a network must be given .* Got categories in 'kind', as ''"
    ):
        with_numbers(make_data(), "a network")


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_features_of_a_frame_go_by_the_levels_that_are_asked_for(make):
    wanted = {0: ("app", "web", "zoo")}
    found = features_of(frame_of(make(WORDS)), ["kind"], wanted)
    assert found.shape == (len(WORDS), 1)
    np.testing.assert_array_equal(found[:, 0], np.array(naive_by(WORDS, wanted[0]), np.float32))


def test_a_message_about_a_column_of_text_at_scoring_does_not_speak_of_training_options():
    with pytest.raises(DataError, match=r"convert them, as they were numbers in training"):
        features_of(frame_of(pd.Series(["a", "b"])), ["kind"])
    with pytest.raises(DataError, match=r"Got 'kind'.*: do this"):
        check_numeric(nw.from_native(pd.DataFrame({"kind": ["a"]})), ["kind"], "do this")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_that_are_binned_have_the_levels_of_all_of_them(tmp_path, suffix):
    words = ["web", "app", None, "tv", "web", "car", "app", "x"]
    frame = pd.DataFrame({"label": [0, 1] * 4, "qid": [1, 1, 2, 2, 3, 3, 4, 4], "kind": words,
                          "x": np.arange(8.0)})  # fmt: skip
    for number, rows in enumerate((slice(0, 4), slice(4, 8))):
        path = tmp_path / f"{number}.{suffix}"
        part = frame.iloc[rows]
        part.to_parquet(path) if suffix == "parquet" else part.to_csv(path, index=False)
    whole = from_frame(frame, categorical=["kind"])
    binned = bin_files(tmp_path / f"*.{suffix}", categorical=["kind"], block_rows=2)
    assert binned.levels == whole.levels
    assert binned.checksum == whole.features_checksum()
    assert binned.cutting.categorical == (0,)
    binned.save(tmp_path / "all.bins")
    again = type(binned).load(tmp_path / "all.bins")
    assert again.levels == whole.levels
    other = bin_files(tmp_path / f"1.{suffix}", like=again)
    assert other.levels == whole.levels
    np.testing.assert_array_equal(other.matrix.codes, binned.matrix.codes[4:])


def test_files_that_disagree_on_what_is_a_category_are_refused(tmp_path):
    (tmp_path / "0.csv").write_text("label,qid,kind\n0,1,web\n1,1,app\n")
    (tmp_path / "1.csv").write_text("label,qid,kind\n0,2,7\n1,2,8\n")
    with pytest.raises(
        DataError, match=r"1\.csv: must have the categories of .*0\.csv. Got 'kind'"
    ):
        bin_files(tmp_path / "*.csv", categorical=["kind"])

"""Data frames of every kind: what becomes of their columns, and what is refused."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from data.samples import ALL_ROLES, assert_identical, full_dataset
from rankgrove.data import columns as columns_module
from rankgrove.data.dataset import Dataset
from rankgrove.data.frames import from_frame, to_frame
from rankgrove.errors import DataError, MissingExtraError, ParameterError

BACKENDS = ["pandas", "polars", "pyarrow"]


def frame_of(backend, columns):
    """The same columns as a frame of each kind."""
    if backend == "pandas":
        return pd.DataFrame(columns)
    return pl.DataFrame(columns) if backend == "polars" else pa.table(columns)


@pytest.mark.parametrize("query_ids", ["integers", "strings"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dataset_comes_back_from_a_frame_bit_for_bit(backend, query_ids):
    data = full_dataset(query_ids)
    frame = to_frame(data, backend)
    assert_identical(from_frame(frame, **ALL_ROLES), data)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dataset_without_optional_parts_comes_back(backend):
    data = Dataset.from_arrays([[1.0, np.nan], [2.0, 3.0]], [0.5, 1], group=[1, 1])
    assert_identical(from_frame(to_frame(data, backend)), data)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dataset_without_features_comes_back(backend):
    data = Dataset.from_arrays(np.empty((3, 0)), [0, 1, 2], group=[2, 1], base_scores=[1, 2, 3])
    assert_identical(from_frame(to_frame(data, backend), base_score="base_score"), data)


def test_to_frame_gives_the_native_type_with_float32_features_and_no_null():
    data = full_dataset()
    types = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    for backend, kind in types.items():
        assert isinstance(to_frame(data, backend), kind)
    assert to_frame(data, "polars").schema["a"] == pl.Float32
    assert to_frame(data, "pyarrow")["a"].null_count == 0


def test_to_frame_orders_and_names_the_columns_as_asked():
    data = full_dataset()
    names = ["label", "qid", *ALL_ROLES, *data.feature_names]
    assert to_frame(data, "polars").columns == names
    frame = to_frame(data, "polars", label="y", qid="q", weight=None, base_score=None,
                     document_id="id", document_weight=None)  # fmt: skip
    assert frame.columns == ["y", "q", "id", *data.feature_names]


def test_to_frame_refuses_two_columns_of_one_name():
    data = Dataset.from_arrays([[1.0]], [0], group=[1], feature_names=["label"])
    with pytest.raises(DataError, match=r"'label' twice\. Pass another name for one of label, qid"):
        to_frame(data)
    assert list(to_frame(data, label="y").columns) == ["y", "qid", "label"]


def test_to_frame_refuses_an_unknown_backend_with_the_nearest():
    with pytest.raises(ParameterError, match=r"Got 'panda'; did you mean 'pandas'\?"):
        to_frame(full_dataset(), "panda")


def test_to_frame_says_what_to_install_when_the_backend_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="pip install polars"):
        to_frame(full_dataset(), "polars")


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_and_booleans_of_every_type_become_float32_and_null_becomes_nan(backend):
    frame = frame_of(
        backend,
        {
            "label": [1, 0],
            "qid": [1, 1],
            "double": [1.5, None],
            "nan": [np.nan, 2.0],
            "int": np.array([-3, 4], dtype=np.int8),
            "unsigned": np.array([2**64 - 1, 4], dtype=np.uint64),
            "bool": np.array([True, False]),
        },
    )
    expected = [[1.5, np.nan, -3, 2**64, 1], [np.nan, 2, 4, 4, 0]]
    np.testing.assert_array_equal(from_frame(frame).features, np.array(expected, np.float32))


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"label": [1, 0], "qid": [1, 1], "x": [7, None], "b": [True, None],
                      "d": [Decimal("1.5"), None], "n": [None, None],
                      "w": pl.Series([2**70, None], dtype=pl.Int128)}),
        pa.table({"label": [1, 0], "qid": [1, 1], "x": [7, None], "b": [True, None],
                  "d": [Decimal("1.5"), None], "n": pa.nulls(2),
                  "w": pa.array([Decimal(2**70), None], pa.decimal256(60))}),
        pd.DataFrame({"label": [1, 0], "qid": [1, 1], "x": pd.array([7, None], dtype="Int64"),
                      "b": pd.array([True, None], dtype="boolean"),
                      "d": [Decimal("1.5"), None], "n": [None, None],
                      "w": pd.Series([2**70, None], dtype=object)}),
        pd.DataFrame({"label": [1, 0], "qid": [1, 1],
                      "x": pd.array([7, None], dtype="int64[pyarrow]"),
                      "b": pd.Series([True, None], dtype=object),
                      "d": pd.arrays.SparseArray([1.5, np.nan]),
                      "n": np.array([np.nan, np.nan], dtype=np.float16),
                      "w": np.array([2.0**70, np.nan], dtype=np.longdouble)}),
    ],
    ids=["polars", "pyarrow", "pandas", "pandas-exotic"],
)  # fmt: skip
def test_nullable_decimal_wide_object_and_sparse_columns_are_read(frame):
    row = np.array([7, 1, 1.5, np.nan, 2.0**70], dtype=np.float32)
    np.testing.assert_array_equal(from_frame(frame).features, [row, np.full(5, np.nan)])


def test_an_integer_past_2_to_the_24_is_rounded_to_the_nearest_float32():
    frame = pl.DataFrame({"label": [0], "qid": [1], "x": [2**24 + 1], "y": [2**62 + 1]})
    assert from_frame(frame).features.tolist() == [[2.0**24, 2.0**62]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_finite_number_past_float32_is_refused_with_its_column_and_row(backend):
    n = 3000
    values = np.full(n, np.inf)
    values[2500] = -1e39
    frame = frame_of(backend, {"label": np.zeros(n), "qid": np.zeros(n, int), "x": np.zeros(n),
                               "big": values})  # fmt: skip
    with pytest.raises(DataError, match=r"column 'big' must fit into float32.*-1e\+39 at row 2500"):
        from_frame(frame)
    with pytest.raises(DataError, match=r"column 'big' must fit into float32.*at row 2500"):
        from_frame(frame, label="big")


def test_all_columns_that_are_not_numbers_are_named_in_one_error():
    frame = pl.DataFrame({"label": [1], "qid": [1], "title": ["x"], "bm25": [1.0],
                          "day": [datetime.date(2020, 1, 1)]})  # fmt: skip
    message = r"'title' \(String, as 'x' at row 0\), 'day' \(Date\): name .*categorical=.*features="
    with pytest.raises(DataError, match=message):
        from_frame(frame)
    assert from_frame(frame, features=["bm25"]).feature_names == ("bm25",)


@pytest.mark.parametrize("values", [["x", 1.0], [1j, 2j], [(1, 2), None], ["1", "2"]])
def test_objects_that_are_not_numbers_are_refused(values):
    frame = pd.DataFrame({"label": [1, 0], "qid": [1, 1], "x": pd.Series(values)})
    with pytest.raises(DataError, match=r"feature columns must be numbers or booleans. Got 'x'"):
        from_frame(frame)


def test_an_integer_that_no_float_can_hold_is_refused():
    frame = pd.DataFrame({"label": [1], "qid": [1], "x": pd.Series([10**400], dtype=object)})
    with pytest.raises(DataError, match="column 'x' must hold numbers that fit into float32"):
        from_frame(frame)


def test_features_are_the_remaining_columns_in_order_or_those_named_in_that_order():
    frame = pl.DataFrame({"b": [2.0], "label": [0], "a": [1.0], "qid": [7], "c": [3.0]})
    assert from_frame(frame).feature_names == ("b", "a", "c")
    chosen = from_frame(frame, features=["c", "b"])
    assert chosen.feature_names == ("c", "b")
    assert chosen.features.tolist() == [[3.0, 2.0]]


def test_a_missing_column_is_refused_with_those_there_are_and_the_nearest():
    frame = pl.DataFrame({"labels": [1], "qid": [1], "bm25": [1.0]})
    message = r"the label column must be one of labels, qid, bm25\. Got 'label'; did you mean 'lab"
    with pytest.raises(DataError, match=message):
        from_frame(frame)
    for option, role in [("weight", "weight"), ("document_id", "document_id"), ("qid", "qid")]:
        with pytest.raises(DataError, match=f"the {role} column must be one of"):
            from_frame(frame, label="labels", **{option: "nowhere"})
    with pytest.raises(DataError, match=r"the feature column.*Got 'bm2'; did you mean 'bm25'\?"):
        from_frame(frame, label="labels", features=["bm2"])


def test_roles_that_clash_are_refused():
    frame = pl.DataFrame({"label": [1], "qid": [1], "x": [1.0]})
    with pytest.raises(DataError, match="each role must have a column of its own"):
        from_frame(frame, weight="label")
    with pytest.raises(DataError, match="must not hold the label column"):
        from_frame(frame, features=["x", "label"])
    with pytest.raises(DataError, match="must not hold the qid column"):
        from_frame(frame, features=["qid"])
    with pytest.raises(DataError, match=r"feature_names must differ.*'x' twice"):
        from_frame(frame, features=["x", "x"])
    with pytest.raises(ParameterError, match=r"features must be a list of names. Got 'x'"):
        from_frame(frame, features="x")


def test_an_earlier_score_may_be_both_base_score_and_feature():
    frame = pl.DataFrame({"label": [1], "qid": [1], "score": [0.1]})
    data = from_frame(frame, base_score="score", features=["score"])
    assert data.base_scores.tolist() == [0.1]
    assert data.features.tolist() == [[np.float32(0.1)]]


def test_group_sizes_stand_in_for_query_ids():
    frame = pl.DataFrame({"label": [1, 0, 2], "x": [1.0, 2.0, 3.0]})
    data = from_frame(frame, group=[1, 2])
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.feature_names == ("x",)


def test_group_sizes_beside_a_qid_column_are_refused_unless_it_is_declared_a_feature():
    frame = pl.DataFrame({"label": [1, 0], "qid": [1, 1]})
    with pytest.raises(DataError, match=r"Got group= and a column 'qid'.*pass qid=None"):
        from_frame(frame, group=[2])
    assert from_frame(frame, group=[2], qid=None).feature_names == ("qid",)


def test_neither_qid_nor_group_is_refused():
    with pytest.raises(DataError, match=r"exactly one of qid=.* Got neither"):
        from_frame(pl.DataFrame({"label": [1], "x": [1.0]}), qid=None)


@pytest.mark.parametrize("role", ["label", "qid", *ALL_ROLES])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_entry_in_a_role_is_refused_with_its_row(backend, role):
    columns = {"label": [1.0, 0.0, 1.0], "qid": [1, 1, 2], "weight": [1.0, 1.0, 2.0],
               "base_score": [0.0, 0.0, 0.0], "document_id": ["a", "b", "c"],
               "document_weight": [1.0, 2.0, 3.0]}  # fmt: skip
    columns[role] = [columns[role][0], columns[role][1], None]
    message = f"the {role} column '{role}' must have no missing entry. Got one at row 2"
    with pytest.raises(DataError, match=message):
        from_frame(frame_of(backend, columns), **ALL_ROLES)


def test_a_nan_label_is_refused_with_its_row():
    frame = pl.DataFrame({"label": [1.0, np.nan], "qid": [1, 1]})
    with pytest.raises(DataError, match=r"the label column 'label' must have no missing.* row 1"):
        from_frame(frame)


def test_labels_that_are_not_numbers_are_refused():
    frame = pl.DataFrame({"label": ["0", "1"], "qid": [1, 1]})
    with pytest.raises(DataError, match=r"the label column 'label' must hold numbers. Got String"):
        from_frame(frame)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([3, 3, 1], np.dtype(np.int64)),
        (np.array([3, 3, 1], np.uint8), np.dtype(np.uint8)),
        (["b", "b", "007"], np.dtype("<U3")),
        ([3.0, 3.0, 1.0], np.dtype(np.int64)),
        ([0.5, 0.5, 1.0], np.dtype(np.float64)),
        (np.array([True, True, False]), np.dtype(bool)),
    ],
)
def test_query_ids_keep_their_type(backend, ids, dtype):
    data = from_frame(frame_of(backend, {"label": [0, 1, 0], "qid": ids}))
    assert data.query_ids.dtype == dtype
    assert data.query_ids.tolist() == [ids[0], ids[2]]


def test_categorical_query_ids_are_read_as_what_they_stand_for():
    strings = pl.DataFrame({"label": [0, 1], "qid": pl.Series(["a", "b"], dtype=pl.Categorical)})
    assert from_frame(strings).query_ids.tolist() == ["a", "b"]
    numbers = pd.DataFrame({"label": [0, 1], "qid": pd.Categorical([5, 4])})
    assert from_frame(numbers).query_ids.tolist() == [5, 4]


def test_query_ids_of_mixed_types_stay_apart():
    ids = pd.Series([1, "1", (1, 2)], dtype=object)
    frame = pd.DataFrame({"label": [0, 1, 2], "qid": ids})
    data = from_frame(frame)
    assert data.query_ids.tolist() == [1, "1", (1, 2)]
    assert_identical(from_frame(to_frame(data)), data)
    for backend in ("polars", "pyarrow"):
        message = f"ids must be all strings or all 64-bit integers in {backend}. Got int, str, tup"
        with pytest.raises(DataError, match=message):
            to_frame(data, backend)


def test_ids_that_are_objects_are_written_if_they_are_of_one_plain_type():
    numbers = np.array([3, 4], dtype=object)
    strings = np.array(["a", "b"], dtype=object)
    for backend in BACKENDS:
        data = Dataset.from_arrays([[1.0], [2.0]], [0, 1], qid=numbers, document_ids=strings)
        back = from_frame(to_frame(data, backend), document_id="document_id")
        assert back.query_ids.tolist() == [3, 4]
        assert back.document_ids.tolist() == ["a", "b"]
    data = Dataset.from_arrays([[1.0]], [0], qid=np.array([2**70], dtype=object))
    with pytest.raises(DataError, match=r"64-bit integers in polars. Got int: convert them"):
        to_frame(data, "polars")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_split_query_is_refused_or_grouped_with_all_its_columns(backend):
    columns = {"label": [0, 1, 2, 3], "qid": ["b", "a", "b", "a"], "x": [0.0, 1.0, 2.0, 3.0],
               "weight": [5.0, 6.0, 5.0, 6.0], "base_score": [0.0, 0.1, 0.2, 0.3],
               "document_id": [10, 11, 12, 13],
               "document_weight": [1.0, 2.0, 3.0, 4.0]}  # fmt: skip
    frame = frame_of(backend, columns)
    with pytest.raises(DataError, match="query 'b' is split"):
        from_frame(frame, **ALL_ROLES)
    data = from_frame(frame, split_queries="group", **ALL_ROLES)
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.features[:, 0].tolist() == data.labels.tolist() == [0, 2, 1, 3]
    assert data.base_scores.tolist() == [0.0, 0.2, 0.1, 0.3]
    assert data.document_ids.tolist() == [10, 12, 11, 13]
    assert data.document_weights.tolist() == [1.0, 3.0, 2.0, 4.0]
    assert data.weights.tolist() == [5.0, 6.0]


def test_weights_that_differ_within_a_query_are_refused():
    frame = pl.DataFrame({"label": [0, 1, 0], "qid": [1, 1, 2], "weight": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match=r"the same for all rows of a query.* row 1"):
        from_frame(frame, weight="weight")


def test_a_lazy_frame_is_collected():
    frame = pl.DataFrame({"label": [1], "qid": [1], "x": [1.0], "title": ["t"]})
    assert_identical(from_frame(frame.lazy(), features=["x"]), from_frame(frame, features=["x"]))


def test_pandas_column_names_that_are_not_strings_are_taken_as_strings():
    data = from_frame(pd.DataFrame([[1.0, 5.0, 2.5]]), label="0", qid="1")
    assert data.feature_names == ("2",)
    assert data.query_ids.tolist() == [5]


def test_an_index_that_pandas_stored_is_not_a_feature():
    frame = pd.DataFrame({"label": [1, 0], "qid": [1, 1], "x": [1.0, 2.0]}, index=[8, 9])
    assert from_frame(frame).feature_names == ("x",)
    table = pa.Table.from_pandas(frame)
    assert "__index_level_0__" in table.column_names
    assert from_frame(table).feature_names == ("x",)


@pytest.mark.parametrize("frame", [pa.table([[1], [2]], ["a", "a"]),
                                   pd.DataFrame([[1, 2]], columns=["a", "a"]),
                                   pd.DataFrame([[1, 2]], columns=["1", 1])])  # fmt: skip
def test_two_columns_of_one_name_are_refused(frame):
    with pytest.raises(DataError, match="column names must differ from each other"):
        from_frame(frame, label="a", qid="b")


@pytest.mark.parametrize("frame", [np.zeros((2, 2)), {"label": [1]}, "train.csv", None])
def test_what_is_not_a_frame_is_refused_with_where_to_go(frame):
    with pytest.raises(ParameterError, match=r"Dataset\.from_arrays, files to read_table"):
        from_frame(frame)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_frame_without_rows_is_refused(backend):
    empty = {"label": np.zeros(0), "qid": np.zeros(0, int), "x": np.zeros(0)}
    with pytest.raises(DataError, match="at least one document"):
        from_frame(frame_of(backend, empty))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ["sorted", "split"])
def test_blocks_and_tiles_of_any_size_give_the_same_matrix(backend, order, monkeypatch):
    data = full_dataset(n_queries=60)
    table = pl.DataFrame(to_frame(data, "polars"))
    if order == "split":
        table = table[np.random.default_rng(1).permutation(len(table))]
    frame = {"pandas": table.to_pandas, "polars": lambda: table, "pyarrow": table.to_arrow}[
        backend
    ]()
    whole = from_frame(frame, split_queries="group", **ALL_ROLES)
    if order == "sorted":
        assert_identical(whole, data)
    monkeypatch.setattr(columns_module, "_BLOCK_ROWS", 17)
    monkeypatch.setattr(columns_module, "_TILE_ROWS", 5)
    assert_identical(from_frame(frame, split_queries="group", **ALL_ROLES), whole)


def test_a_chunked_table_is_read_across_its_chunks():
    data = full_dataset()
    table = to_frame(data, "pyarrow")
    chunks = pa.concat_tables([table[:3], table[3:4], table[4:]])
    assert chunks["a"].num_chunks == 3
    assert_identical(from_frame(chunks, **ALL_ROLES), data)


def test_the_frame_is_left_as_it_was_and_shares_no_memory():
    values = np.array([1.0, 2.0], dtype=np.float32)
    frame = pd.DataFrame({"label": values, "qid": [1, 1], "x": values}, copy=False)
    data = from_frame(frame)
    assert not np.shares_memory(data.labels, frame["label"].to_numpy())
    frame.loc[0, "x"] = 9.0
    assert data.features[0, 0] == 1.0

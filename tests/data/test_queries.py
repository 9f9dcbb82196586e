"""Queries from ids or sizes: every type of id, and every way to get them wrong."""

import numpy as np
import pytest

from rankgrove.data.queries import (
    as_ids,
    make_queries,
    offsets_of,
    queries_from_ids,
    queries_from_sizes,
)
from rankgrove.errors import DataError, ParameterError


def naive_queries(qid):
    """Row numbers of each id, in order of first sight."""
    rows = {}
    for row, id_ in enumerate(qid):
        rows.setdefault(id_, []).append(row)
    return rows


@pytest.mark.parametrize(
    "qid",
    [
        [3, 3, 1],
        np.array([3, 3, 1], dtype=np.uint8),
        ["b", "b", "a"],
        np.array(["b", "b", "a"]),
        [b"b", b"b", b"a"],
        [1, 1, "1"],
        ["x", "x", 2.5],
        [(1, 2), (1, 2), (2, 1)],
        [(1, 2), (1, 2), (1,)],
        [("a", 1), ("a", 1), "a"],
        [True, True, False],
        [0.5, 0.5, 1.5],
        [np.inf, np.inf, 1.0],
        np.array(["2024-01-01", "2024-01-01", "2024-01-02"], dtype="datetime64[D]"),
        (7, 7, 8),
    ],
)
def test_ids_of_any_hashable_type_make_queries(qid):
    queries = queries_from_ids(qid)
    assert queries.offsets.tolist() == [0, 2, 3]
    assert queries.offsets.dtype == np.int64
    assert queries.order is None
    assert list(queries.ids) == [qid[0], qid[2]]


def test_integers_and_their_texts_are_different_ids():
    assert list(queries_from_ids([1, "1"]).ids) == [1, "1"]


def test_floats_that_are_whole_become_integers():
    ids = queries_from_ids([4.0, 4.0, 5.0]).ids
    assert ids.dtype == np.int64
    assert ids.tolist() == [4, 5]


def test_floats_past_exact_integers_stay_floats():
    assert queries_from_ids([2.0**53, 1.0]).ids.dtype == np.float64


def test_whole_and_broken_floats_stay_floats():
    assert queries_from_ids([1.0, 1.5]).ids.tolist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("qid", "got"),
    [
        ([1.0, np.nan], "nan"),
        (np.array([1.0, np.nan], dtype=np.float32), "nan"),
        (["a", None], "None"),
        (["a", float("nan")], "nan"),
        ([1, None], "None"),
        (np.array(["2024", "NaT"], dtype="datetime64[Y]"), "NaT"),
    ],
)
def test_missing_id_is_refused_with_its_row(qid, got):
    with pytest.raises(DataError) as caught:
        queries_from_ids(qid)
    assert str(caught.value) == f"qid must not be missing. Got {got} at row 1."


@pytest.mark.parametrize(("qid", "shape"), [(5, "()"), ("abc", "()"), (np.zeros((2, 2)), "(2, 2)")])
def test_ids_that_are_no_list_are_refused(qid, shape):
    with pytest.raises(DataError) as caught:
        queries_from_ids(qid)
    assert str(caught.value) == f"qid must be one-dimensional. Got shape {shape}."


def test_unhashable_ids_are_refused():
    with pytest.raises(DataError, match=r"^qid must be hashable\. Got unhashable type: 'dict'\.$"):
        queries_from_ids([{1: 2}, {3: 4}])
    with pytest.raises(DataError, match=r"^qid must be hashable\. Got unhashable type: 'list'\.$"):
        queries_from_ids([[1], [2]])


def test_as_ids_names_what_it_was_given():
    with pytest.raises(DataError, match=r"^document_ids must not be missing\. Got nan at row 0\.$"):
        as_ids([np.nan], "document_ids")


def test_no_ids_make_no_queries():
    queries = queries_from_ids([])
    assert queries.offsets.tolist() == [0]
    assert len(queries.ids) == 0


@pytest.mark.parametrize(
    ("qid", "shown"),
    [
        ([7, 7, 8, 8, 7], "7"),
        (["a", "a", "b", "b", "a"], "'a'"),
        ([(1,), (1,), 2, 2, (1,)], "(1,)"),
    ],
)
def test_split_query_is_refused_with_its_rows(qid, shown):
    with pytest.raises(DataError) as caught:
        queries_from_ids(qid)
    assert str(caught.value) == (
        f"query {shown} is split: its rows 0 to 1 and again from row 4 on (rows count from 0). "
        f"Sort the rows by query id, or pass split_queries='group' to bring them together."
    )


@pytest.mark.parametrize(
    "make", [int, str, float, lambda n: (n, "x"), lambda n: [n, str(n)][n % 2]]
)
def test_grouping_keeps_the_order_of_queries_and_of_rows(make):
    numbers = np.random.default_rng(0).integers(0, 7, 60)
    qid = [make(int(n)) for n in numbers]
    queries = queries_from_ids(qid, split_queries="group")
    expected = naive_queries(qid)
    assert list(queries.ids) == list(expected)
    assert queries.order.tolist() == [row for rows in expected.values() for row in rows]
    assert np.diff(queries.offsets).tolist() == [len(rows) for rows in expected.values()]
    assert queries.order.dtype == np.int64


def test_grouping_leaves_contiguous_queries_alone():
    assert queries_from_ids([2, 2, 1], split_queries="group").order is None


def test_unknown_policy_for_split_queries_is_refused_with_the_nearest():
    with pytest.raises(ParameterError) as caught:
        queries_from_ids([1], split_queries="grup")
    assert str(caught.value) == (
        "split_queries must be one of error, group. Got 'grup'; did you mean 'group'?"
    )


@pytest.mark.parametrize("group", [[2, 1], np.array([2, 1], dtype=np.uint16), (2.0, 1.0)])
def test_sizes_make_queries_numbered_from_zero(group):
    queries = queries_from_sizes(group, n_rows=3)
    assert queries.offsets.tolist() == [0, 2, 3]
    assert queries.offsets.dtype == np.int64
    assert queries.ids.tolist() == [0, 1]
    assert queries.order is None


@pytest.mark.parametrize(
    ("group", "got"),
    [([2, 0], "0 at 1"), ([-1, 4], "-1 at 0"), ([1.5, 1.5], "1.5 at 0"), ([1, np.nan], "nan at 1"),
     ([1, np.inf], "inf at 1")],
)  # fmt: skip
def test_sizes_that_are_not_whole_or_not_positive_are_refused(group, got):
    with pytest.raises(DataError) as caught:
        queries_from_sizes(group, n_rows=3)
    assert str(caught.value) == f"group sizes must be whole numbers, 1 or more. Got {got}."


@pytest.mark.parametrize(
    ("group", "got"),
    [(["a", "b"], "<U1 of shape (2,)"), ([True], "bool of shape (1,)"),
     ([[1, 2]], "int64 of shape (1, 2)"), (3, "int64 of shape ()")],
)  # fmt: skip
def test_sizes_that_are_no_list_of_numbers_are_refused(group, got):
    with pytest.raises(DataError) as caught:
        queries_from_sizes(group, n_rows=3)
    assert str(caught.value) == f"group must be a list of query sizes. Got {got}."


def test_sizes_that_do_not_add_up_are_refused():
    with pytest.raises(DataError) as caught:
        queries_from_sizes([2, 2], n_rows=3)
    assert str(caught.value) == "group sizes must add up to the number of rows, 3. Got 4."


def test_sizes_that_look_like_ids_get_a_hint():
    with pytest.raises(DataError) as caught:
        queries_from_sizes([7, 7, 8], n_rows=3)
    assert str(caught.value) == (
        "group sizes must add up to the number of rows, 3. Got 22. "
        "One number per row looks like ids: pass them as qid= instead."
    )


@pytest.mark.parametrize(("qid", "group", "got"), [(None, None, "neither"), ([1], [1], "both")])
def test_exactly_one_of_ids_and_sizes_must_be_given(qid, group, got):
    with pytest.raises(DataError) as caught:
        make_queries(1, qid, group)
    assert str(caught.value) == (
        f"exactly one of qid= (a query id for every row) and group= (the number of rows of every "
        f"query) must be given. Got {got}."
    )


def test_ids_for_another_number_of_rows_are_refused():
    with pytest.raises(DataError) as caught:
        make_queries(5, [1, 2], None)
    assert str(caught.value) == (
        "qid must have one entry per row, 5. Got 2. Query sizes go to group= instead."
    )


def test_make_queries_takes_either():
    assert make_queries(3, ["b", "b", "a"], None).offsets.tolist() == [0, 2, 3]
    assert make_queries(3, None, [2, 1]).offsets.tolist() == [0, 2, 3]
    assert make_queries(3, [1, 2, 1], None, "group").order.tolist() == [0, 2, 1]


def test_offsets_start_at_zero_and_end_at_the_total():
    assert offsets_of(np.array([3, 1, 2])).tolist() == [0, 3, 4, 6]
    assert offsets_of(np.array([], dtype=np.int64)).tolist() == [0]

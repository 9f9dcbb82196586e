"""The Dataset: what it accepts, what it refuses and why, and that nothing writes into it."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from rankgrove import Dataset
from rankgrove.data.dataset import as_floats, default_feature_names
from rankgrove.errors import DataError, ParameterError

ARRAYS = ("features", "labels", "offsets", "query_ids", "weights", "base_scores", "document_ids")


@pytest.fixture
def full():
    """Four queries of 2, 1, 3 and 2 documents, with everything a Dataset can have."""
    return Dataset.from_arrays(
        np.arange(16, dtype=np.float64).reshape(8, 2),
        [0, 1, 2, 0, 1, 0, 3, 0],
        qid=["a", "a", "b", "c", "c", "c", "d", "d"],
        weights=[1.0, 2.0, 0.5, 1.0],
        base_scores=np.linspace(0.0, 0.7, 8),
        document_ids=list("stuvwxyz"),
        feature_names=["length", "clicks"],
    )


def ten_queries():
    return Dataset.from_arrays(np.arange(10.0)[:, None], [0] * 10, qid=range(10))


def refused(message, *args, error=DataError, **settings):
    with pytest.raises(error) as caught:
        Dataset.from_arrays(*args, **settings)
    assert str(caught.value) == message


def test_attributes_have_their_documented_forms(full):
    assert full.features.dtype == np.float32
    assert full.features.flags.c_contiguous
    assert full.labels.dtype == np.float32
    assert full.offsets.tolist() == [0, 2, 3, 6, 8]
    assert full.offsets.dtype == np.int64
    assert full.query_ids.tolist() == ["a", "b", "c", "d"]
    assert full.weights.dtype == full.base_scores.dtype == np.float64
    assert full.document_ids.tolist() == list("stuvwxyz")
    assert full.feature_names == ("length", "clicks")
    assert (full.n_documents, full.n_queries, full.n_features) == (8, 4, 2)
    assert full.group.tolist() == [2, 1, 3, 2]
    assert full.qid.tolist() == ["a", "a", "b", "c", "c", "c", "d", "d"]
    assert repr(full) == "<Dataset: 8 documents, 4 queries, 2 features>"


def test_what_is_not_given_is_none_or_numbered():
    data = Dataset.from_arrays([[1.0, 2.0]], [1], group=[1])
    assert data.weights is data.base_scores is data.document_ids is None
    assert data.feature_names == ("f1", "f2") == default_feature_names(2)


@pytest.mark.parametrize("name", ARRAYS)
def test_no_array_can_be_written_to(full, name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(full, name)[0] = getattr(full, name)[1]


def test_attributes_cannot_be_replaced(full):
    with pytest.raises(AttributeError):
        full.labels = np.zeros(8, dtype=np.float32)


def test_arrays_of_the_caller_are_copied_and_stay_writable():
    features, labels = np.ones((2, 1), dtype=np.float32), np.ones(2, dtype=np.float32)
    ids, scores, documents = np.array([4, 4]), np.zeros(2), np.array([8, 9])
    weights = np.ones(1)
    data = Dataset.from_arrays(
        features, labels, qid=ids, base_scores=scores, document_ids=documents, weights=weights
    )
    for array in (features, labels, ids, scores, documents, weights):
        array[...] = 7
    assert data.features.tolist() == [[1.0], [1.0]]
    assert data.labels.tolist() == [1.0, 1.0]
    assert data.query_ids.tolist() == [4]
    assert data.base_scores.tolist() == [0.0, 0.0]
    assert data.document_ids.tolist() == [8, 9]
    assert data.weights.tolist() == [1.0]


@pytest.mark.parametrize(
    "again", [lambda data: pickle.loads(pickle.dumps(data)), copy.deepcopy, copy.copy]
)
@pytest.mark.parametrize("name", ARRAYS)
def test_pickled_and_copied_datasets_are_equal_and_immutable_too(full, again, name):
    twin = again(full)
    assert getattr(twin, name).tolist() == getattr(full, name).tolist()
    assert twin.feature_names == full.feature_names
    with pytest.raises(ValueError, match="read-only"):
        getattr(twin, name)[0] = getattr(twin, name)[1]


def test_datasets_compare_by_identity(full):
    assert full == full
    assert full != copy.copy(full)
    assert len({full, full}) == 1


def test_run_of_queries_shares_memory(full):
    part = full.take_queries([1, 2])
    assert np.shares_memory(part.features, full.features)
    assert np.shares_memory(part.labels, full.labels)
    assert np.shares_memory(part.base_scores, full.base_scores)
    assert np.shares_memory(part.document_ids, full.document_ids)
    assert part.offsets.tolist() == [0, 1, 4]
    assert part.document_ids.tolist() == list("uvwx")
    with pytest.raises(ValueError, match="read-only"):
        part.features[0, 0] = 1.0


def test_scattered_queries_are_copied_in_the_order_asked_for(full):
    part = full.take_queries([3, 0])
    assert not np.shares_memory(part.features, full.features)
    assert part.query_ids.tolist() == ["d", "a"]
    assert part.features.tolist() == full.features[[6, 7, 0, 1]].tolist()
    assert part.labels.tolist() == [3, 0, 0, 1]
    assert part.offsets.tolist() == [0, 2, 4]
    assert part.weights.tolist() == [1.0, 1.0]
    assert part.base_scores.tolist() == full.base_scores[[6, 7, 0, 1]].tolist()
    assert part.document_ids.tolist() == list("yzst")
    assert part.feature_names == full.feature_names


@pytest.mark.parametrize(
    ("indices", "ids"),
    [
        ([2], "c"),
        ([-1], "d"),
        ([-4, 1], "ab"),
        (np.array([2, 1], dtype=np.uint64), "cb"),
        (range(4), "abcd"),
        ([True, False, False, True], "ad"),
        (np.array([False, True, True, False]), "bc"),
    ],
)
def test_queries_are_taken_by_number_from_either_end_or_by_mask(full, indices, ids):
    assert "".join(full.take_queries(indices).query_ids) == ids


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "take_queries must be given at least one query. Got none."),
        ([False] * 4, "take_queries must be given at least one query. Got none."),
        ([True], "a mask of queries must have 4 entries. Got 1."),
        ([0.0, 1.0], "queries must be taken by number. Got float64."),
        (["a"], "queries must be taken by number. Got <U1."),
        ([1, 4], "query numbers must be below 4. Got 1 to 4."),
        ([-5, 0], "query numbers must be below 4. Got -5 to 0."),
        ([1, 1], "take_queries must be given each query once. Got one twice."),
        ([3, -1], "take_queries must be given each query once. Got one twice."),
        (2, "queries must be taken by a one-dimensional list. Got shape ()."),
        ([[0, 1]], "queries must be taken by a one-dimensional list. Got shape (1, 2)."),
    ],
)
def test_queries_that_cannot_be_taken_are_refused(full, indices, message):
    with pytest.raises(ParameterError) as caught:
        full.take_queries(indices)
    assert str(caught.value) == message


def test_query_of_finds_the_query_of_each_row(full):
    assert [full.query_of(row) for row in range(8)] == [0, 0, 1, 2, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("fractions", "sizes"),
    [
        ((1.0,), [10]),
        ((0.8, 0.2), [8, 2]),
        ((0.6, 0.2, 0.2), [6, 2, 2]),
        ((0.99, 0.01), [9, 1]),
        ((0.01, 0.99), [1, 9]),
        ((0.5, 0.01, 0.01, 0.48), [5, 1, 1, 3]),
        ((0.98, 0.01, 0.01), [8, 1, 1]),
        ((0.1,) * 10, [1] * 10),
    ],
)
def test_split_has_each_query_exactly_once(fractions, sizes):
    parts = ten_queries().split(*fractions, seed=3)
    assert [part.n_queries for part in parts] == sizes
    assert sorted(id_ for part in parts for id_ in part.query_ids) == list(range(10))
    for part in parts:
        assert part.query_ids.tolist() == sorted(part.query_ids.tolist())
        assert part.features[:, 0].tolist() == part.query_ids.tolist()


def test_split_depends_on_the_seed_only():
    data = ten_queries()
    first, again = data.split(0.5, 0.5, seed=1), data.split(0.5, 0.5, seed=1)
    assert [part.query_ids.tolist() for part in first] == [
        part.query_ids.tolist() for part in again
    ]
    others = {tuple(data.split(0.5, 0.5, seed=seed)[0].query_ids.tolist()) for seed in range(9)}
    assert len(others) > 1


@pytest.mark.parametrize(
    "fractions", [(), (0.5,), (0.5, 0.6), (1.5, -0.5), (1.0, 0.0), (0.5, np.nan), (np.nan,)]
)
def test_fractions_that_do_not_add_up_are_refused(fractions):
    with pytest.raises(ParameterError) as caught:
        ten_queries().split(*fractions)
    assert str(caught.value) == f"fractions must be positive and add up to 1. Got {fractions}."


def test_more_parts_than_queries_are_refused():
    with pytest.raises(ParameterError, match=r"^2 parts need as many queries\. Got 1 queries\.$"):
        Dataset.from_arrays([[1.0]], [0], group=[1]).split(0.5, 0.5)


@pytest.mark.parametrize("n_folds", [2, 3, 10])
def test_folds_hold_out_each_query_exactly_once(n_folds):
    pairs = list(ten_queries().folds(n_folds, seed=2))
    assert len(pairs) == n_folds
    assert sorted(id_ for _, test in pairs for id_ in test.query_ids) == list(range(10))
    for train, test in pairs:
        assert sorted([*train.query_ids, *test.query_ids]) == list(range(10))
        assert 10 // n_folds <= test.n_queries <= -(-10 // n_folds)


def test_folds_depend_on_the_seed_only():
    tests = [
        [test.query_ids.tolist() for _, test in ten_queries().folds(5, seed=seed)]
        for seed in (4, 4, 5)
    ]
    assert tests[0] == tests[1] != tests[2]


@pytest.mark.parametrize("n_folds", [1, 0, -1, 11])
def test_impossible_numbers_of_folds_are_refused(n_folds):
    with pytest.raises(ParameterError) as caught:
        next(ten_queries().folds(n_folds))
    assert str(caught.value) == (
        f"n_folds must be from 2 to the number of queries, 10. Got {n_folds}."
    )


def test_split_rows_are_grouped_on_request_with_all_that_belongs_to_them():
    data = Dataset.from_arrays(
        [[1.0], [2.0], [3.0], [4.0]],
        [1, 2, 3, 4],
        qid=["x", "y", "x", "y"],
        split_queries="group",
        weights=[5.0, 6.0],
        base_scores=[0.1, 0.2, 0.3, 0.4],
        document_ids=["p", "q", "r", "s"],
    )
    assert data.features[:, 0].tolist() == [1.0, 3.0, 2.0, 4.0]
    assert data.labels.tolist() == [1, 3, 2, 4]
    assert data.base_scores.tolist() == [0.1, 0.3, 0.2, 0.4]
    assert data.document_ids.tolist() == ["p", "r", "q", "s"]
    assert data.query_ids.tolist() == ["x", "y"]
    assert data.weights.tolist() == [5.0, 6.0]


def test_split_rows_are_refused_by_default():
    with pytest.raises(DataError, match=r"^query 1 is split: its rows 0 to 0 and again from row 2"):
        Dataset.from_arrays([[1.0]] * 3, [0] * 3, qid=[1, 2, 1])


def test_weights_of_rows_are_taken_if_they_agree_in_each_query():
    data = Dataset.from_arrays([[1.0]] * 3, [0] * 3, qid=[1, 1, 2], weights=[3, 3, 4])
    assert data.weights.tolist() == [3.0, 4.0]
    mixed = Dataset.from_arrays(
        [[1.0]] * 3, [0] * 3, qid=[1, 2, 1], weights=[3, 4, 3], split_queries="group"
    )
    assert mixed.weights.tolist() == [3.0, 4.0]


def test_weights_that_differ_in_a_query_are_refused():
    refused(
        "weights must be one per query, or the same for all rows of a query. Got a different one "
        "at row 1: weights of single documents are document_weights.",
        [[1.0]] * 3, [0] * 3, qid=[1, 1, 2], weights=[3, 5, 4],
    )  # fmt: skip


@pytest.mark.parametrize("weights", [[-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0]])
def test_impossible_weights_are_refused(weights):
    got = f"Got {np.min(weights)} to {np.max(weights)}."
    refused(
        f"query weights must be finite, 0 or more, and not all 0. {got}",
        [[1.0]] * 3, [0] * 3, qid=[1, 1, 2], weights=weights,
    )  # fmt: skip
    refused(
        f"document weights must be finite, 0 or more, and not all 0. {got}",
        [[1.0]] * 2, [0] * 2, qid=[1, 1], document_weights=weights,
    )  # fmt: skip


def test_document_weights_go_with_their_documents():
    data = Dataset.from_arrays(
        [[0.0], [1.0], [2.0]], [0] * 3, qid=[1, 2, 1], document_weights=[1, 2, 3],
        split_queries="group",
    )  # fmt: skip
    assert data.document_weights.tolist() == [1.0, 3.0, 2.0]
    assert data.take_queries([1]).document_weights.tolist() == [2.0]
    refused(
        "document_weights must have one entry per document, 2. Got (1,).",
        [[1.0]] * 2, [0] * 2, qid=[1, 1], document_weights=[1],
    )  # fmt: skip


def test_weight_zero_is_a_weight():
    data = Dataset.from_arrays([[1.0]] * 2, [0] * 2, qid=[1, 2], weights=[0, 1])
    assert data.weights.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "coo_array", "csr_array"])
@pytest.mark.parametrize("absent", [0.0, np.nan])
def test_absent_entries_of_a_sparse_matrix_are_what_was_said(form, absent):
    dense = np.array([[1.0, 0.0], [0.0, 2.0]])
    data = Dataset.from_arrays(getattr(scipy.sparse, form)(dense), [0, 1], group=[2], absent=absent)
    expected = np.where(dense == 0.0, absent, dense).astype(np.float32)
    np.testing.assert_array_equal(data.features, expected)
    assert data.features.flags.c_contiguous


def test_stored_zero_of_a_sparse_matrix_is_not_absent():
    stored = scipy.sparse.csr_matrix((np.array([0.0]), np.array([1]), np.array([0, 1])), (1, 2))
    data = Dataset.from_arrays(stored, [0], group=[1], absent=np.nan)
    np.testing.assert_array_equal(data.features, np.float32([[np.nan, 0.0]]))


def test_repeated_entries_of_a_sparse_matrix_add_up_and_stay_with_the_caller():
    twice = scipy.sparse.csr_matrix((np.ones(2), np.array([0, 0]), np.array([0, 2])), (1, 2))
    assert Dataset.from_arrays(twice, [0], group=[1]).features.tolist() == [[2.0, 0.0]]
    assert twice.nnz == 2


@pytest.mark.parametrize("wrap", [np.array, scipy.sparse.csr_matrix, list])
def test_values_past_float32_are_refused(wrap):
    refused(
        "features must fit into float32 (up to 3.4e38). Got a larger value: rescale that feature.",
        wrap([[1e39, 1.0]]), [0], group=[1],
    )  # fmt: skip


def test_infinities_and_nan_are_feature_values():
    values = np.array([[np.inf, -np.inf, np.nan]])
    np.testing.assert_array_equal(
        Dataset.from_arrays(values, [0], group=[1]).features, values.astype(np.float32)
    )


def test_none_is_a_missing_feature():
    assert np.isnan(Dataset.from_arrays([[None, 1.0]], [0], group=[1]).features[0, 0])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            [["a"]],
            "features must be numbers. Got could not convert string to float: 'a': categories that "
            "are strings must come in a data frame.",
        ),
        ([[10**400]], "features must be numbers. Got int too large to convert to float."),
        ([1.0], "features must be two-dimensional. Got shape (1,)."),
        ([[[1.0]]], "features must be two-dimensional. Got shape (1, 1, 1)."),
    ],
)
def test_features_that_are_no_matrix_of_numbers_are_refused(features, message):
    refused(message, features, [0], group=[1])


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(DataError, match=r"^features must be numbers\. Got .*inhomogeneous"):
        Dataset.from_arrays([[1.0], [1.0, 2.0]], [0, 0], group=[2])


@pytest.mark.parametrize(
    ("label", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (1e39, "inf")]
)
def test_label_that_is_not_finite_is_refused_with_row_and_query(label, shown):
    refused(
        f"every label must be finite. Got {shown} at row 2 of query b: remove or correct that row.",
        [[1.0]] * 4, [0, 1, label, 0], qid=["a", "a", "b", "b"],
    )  # fmt: skip


def test_base_score_that_is_not_finite_is_refused_with_row_and_query():
    refused(
        "every base score must be finite. Got nan at row 1 of query 7: remove or correct that row.",
        [[1.0]] * 2, [0, 1], qid=[7, 7], base_scores=[0.0, np.nan],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["x"], "labels must be numbers. Got could not convert string to float: 'x'."),
        ([10**400], "labels must be numbers. Got int too large to convert to float."),
        ([[1.0]], "labels must be one-dimensional. Got shape (1, 1)."),
        (None, "labels must be one-dimensional. Got shape ()."),
        ([1, 2], "labels must have one entry per document, 1. Got (2,)."),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    refused(message, [[1.0]], labels, group=[1])


def test_labels_of_another_length_are_refused_before_grouping():
    refused(
        "labels must have one entry per document, 3. Got (2,).",
        [[1.0]] * 3, [0, 1], qid=[1, 2, 1], split_queries="group",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_scores": [1.0]}, "base_scores must have one entry per document, 2. Got (1,)."),
        ({"document_ids": ["a"]}, "document_ids must have one entry per document, 2. Got (1,)."),
        ({"weights": [1.0] * 3}, "weights must have one entry per query, 1. Got (3,)."),
        ({"feature_names": ["a"]}, "feature_names must have one name a feature, 2. Got 1."),
        ({"feature_names": ["a", "a"]},
         "feature_names must differ from each other. Got 'a' twice."),
        ({"base_scores": ["x", "y"]},
         "base_scores must be numbers. Got could not convert string to float: 'x'."),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(settings, message):
    refused(message, [[1.0, 2.0]] * 2, [0, 1], group=[2], **settings)


def test_feature_names_may_be_an_array():
    data = Dataset.from_arrays([[1.0, 2.0]], [0], group=[1], feature_names=np.array(["a", "b"]))
    assert data.feature_names == ("a", "b")


def test_no_documents_are_refused():
    message = "a Dataset must have at least one document. Got none."
    refused(message, np.empty((0, 2)), [], qid=[])
    refused(message, np.empty((0, 2)), [], group=[])


def test_no_features_are_allowed():
    assert Dataset.from_arrays(np.empty((2, 0)), [0, 1], group=[2]).n_features == 0


@pytest.mark.parametrize("offsets", [[0, 3], [1, 2], [0, 0, 2], [0, 2, 1, 2]])
def test_offsets_that_do_not_rise_to_the_number_of_rows_are_refused(offsets):
    with pytest.raises(DataError) as caught:
        Dataset(
            features=np.zeros((2, 1), dtype=np.float32),
            labels=np.zeros(2, dtype=np.float32),
            offsets=np.array(offsets),
            query_ids=np.arange(len(offsets) - 1),
        )
    assert str(caught.value) == (
        f"offsets must rise strictly from 0 to the number of rows, 2. "
        f"Got {offsets[0]} to {offsets[-1]}."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros(2, dtype=np.float32)},
         "features must be two-dimensional. Got shape (2,)."),
        ({"query_ids": np.arange(3)}, "query_ids must have one entry per query, 1. Got (3,)."),
    ],
)  # fmt: skip
def test_plain_constructor_checks_shapes_too(change, message):
    fields = {
        "features": np.zeros((2, 1), dtype=np.float32),
        "labels": np.zeros(2, dtype=np.float32),
        "offsets": np.array([0, 2]),
        "query_ids": np.arange(1),
    }
    with pytest.raises(DataError) as caught:
        Dataset(**{**fields, **change})
    assert str(caught.value) == message


def test_replaced_offsets_have_a_shard_of_their_own():
    data = Dataset.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 2], group=[2, 1])
    joined = replace(data, offsets=np.array([0, 3]), query_ids=np.array([7]))
    assert joined.shard.numbers.tolist() == [0]
    assert joined.shard.n_queries == 1


def test_qid_and_group_exclude_each_other():
    with pytest.raises(DataError, match=r"must be given\. Got both\.$"):
        Dataset.from_arrays([[1.0]], [0], qid=[1], group=[1])
    with pytest.raises(DataError, match=r"must be given\. Got neither\.$"):
        Dataset.from_arrays([[1.0]], [0])


def test_as_floats_copies():
    values = np.ones(2)
    assert not np.shares_memory(as_floats(values, "values", np.float64), values)


def test_describe_is_reachable_from_the_data(full):
    assert full.describe().documents == 8

"""Data sets one after the other, as one."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from rankgrove import Dataset, from_frame, make_web_search
from rankgrove.data.joined import join_datasets
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.errors import DataError


def parts_of(data):
    return data.split(0.5, 0.3, 0.2, seed=1)


def test_the_parts_of_a_split_are_the_whole_in_their_order():
    data = make_web_search(30, 16, mean_documents=6)
    weights = np.random.default_rng(0).random(data.n_queries)
    data = replace(data, weights=weights, document_weights=np.arange(1.0, data.n_documents + 1))
    first, second, third = parts_of(data)
    joined = join_datasets([first, second, third])
    assert joined.n_documents == data.n_documents
    for name in ("features", "labels", "query_ids", "weights", "document_weights"):
        arrays = [np.asarray(getattr(part, name)) for part in (first, second, third)]
        np.testing.assert_array_equal(np.asarray(getattr(joined, name)), np.concatenate(arrays))
    np.testing.assert_array_equal(
        joined.group, np.concatenate([first.group, second.group, third.group])
    )


def test_sparse_parts_stay_sparse_and_have_the_same_values():
    matrix = scipy.sparse.random(40, 100, 0.05, format="csr", rng=np.random.default_rng(1))
    data = Dataset.from_arrays(matrix, np.arange(40) % 3, group=[10] * 4)
    joined = join_datasets([data.take_queries([0, 1]), data.take_queries([2, 3])])
    assert isinstance(joined.features, SparseFeatures)
    np.testing.assert_array_equal(np.asarray(joined.features), np.asarray(data.features))


def test_levels_are_those_of_all_parts():
    pd = pytest.importorskip("pandas")
    frames = [
        pd.DataFrame({"label": [1, 0], "qid": [q, q], "source": sources})
        for q, sources in ((1, ["web", "app"]), (2, ["tv", "web"]))
    ]
    joined = join_datasets([from_frame(frame, categorical=["source"]) for frame in frames])
    assert joined.levels == {0: ("app", "tv", "web")}
    assert joined.features[:, 0].tolist() == [2.0, 0.0, 1.0, 2.0]


def test_weights_that_one_part_has_not_are_1():
    data = make_web_search(4, 16, mean_documents=5)
    first, second = data.split(0.5, 0.5)
    joined = join_datasets([replace(first, weights=np.array([2.0, 3.0])), second])
    assert joined.weights.tolist() == [2.0, 3.0, 1.0, 1.0]


def test_ids_of_different_types_become_text():
    one = Dataset.from_arrays([[1.0]], [0], qid=[7])
    other = Dataset.from_arrays([[2.0]], [1], qid=["seven"])
    assert join_datasets([one, other]).query_ids.tolist() == ["7", "seven"]


def test_other_features_are_refused():
    one, other = make_web_search(3, 16), make_web_search(3, 17)
    with pytest.raises(DataError, match="must have the same features"):
        join_datasets([one, other])


def test_further_labels_are_joined_and_must_be_in_all_parts():
    first, second = make_web_search(4, 16).split(0.5, 0.5)
    named = [
        replace(part, more_labels={"clicks": np.full(part.n_documents, n, np.float32)})
        for n, part in enumerate((first, second))
    ]
    clicks = join_datasets(named).more_labels["clicks"]
    assert clicks.tolist() == [0] * first.n_documents + [1] * second.n_documents
    with pytest.raises(DataError, match="the same further labels"):
        join_datasets([named[0], second])


def test_base_scores_in_one_part_only_are_refused():
    first, second = make_web_search(4, 16).split(0.5, 0.5)
    first = replace(first, base_scores=np.zeros(first.n_documents))
    with pytest.raises(DataError, match="must all have base scores, or none"):
        join_datasets([first, second])

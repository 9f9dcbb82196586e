"""Scoring: every kind of input gives the same scores, or one clear error."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from model.samples import (
    NAMES,
    make_dataset,
    make_features,
    make_model,
    naive_scores,
)
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_the_naive_walk_over_every_tree(seed):
    model, features = make_model(seed, n_leaves=1 + 4 * seed), make_features(seed)
    assert np.array_equal(model.predict(features), naive_scores(model, features))


@pytest.mark.parametrize("n_trees", [0, 1, 3, 6, np.int64(2), None])
def test_a_prefix_of_the_trees_scores_as_a_model_of_only_these(n_trees):
    model, features = make_model(), make_features()
    count = 6 if n_trees is None else int(n_trees)
    alone = Model(model.ensemble.prefix(count), model.schema, {}, {})
    scores = model.predict(features, n_trees=n_trees)
    assert np.array_equal(scores, naive_scores(model, features, count))
    assert np.array_equal(scores, alone.predict(features))


@pytest.mark.parametrize("n_trees", [-1, 7, 2.0, True, "all"])
def test_a_number_of_trees_that_the_model_does_not_have_is_refused(n_trees):
    with pytest.raises(ParameterError, match=r"n_trees must be a whole number, from 0 to 6\. Got"):
        make_model().predict(make_features(), n_trees=n_trees)


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_scores_have_the_same_bits_on_any_number_of_threads(n_jobs):
    model, features = make_model(n_trees=20), make_features(n_rows=3000)
    assert np.array_equal(model.predict(features, n_jobs=n_jobs), model.predict(features))


class ArrayLike:
    """Neither an array nor a frame, as a tensor of another library."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.astype(np.float64),
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.astype(">f4"),
        lambda x: x.tolist(),
        lambda x: tuple(map(tuple, x.tolist())),
        lambda x: x.astype(object),
        scipy.sparse.csr_matrix,
        scipy.sparse.coo_array,
        lambda x: Dataset.from_arrays(x, np.zeros(len(x)), group=[len(x)]),
        ArrayLike,
    ],
)
def test_arrays_of_every_kind_give_the_scores_of_the_float32_matrix(convert):
    model, features = make_model(), make_features()
    assert np.array_equal(model.predict(convert(features)), model.predict(features))


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_equal_arrays_in_any_column_order_with_columns_to_spare(kind):
    model, features = make_model(), make_features()
    columns = {"url": ["a"] * len(features)}
    columns |= {name: features[:, NAMES.index(name)] for name in reversed(NAMES)}
    frame = FRAMES[kind](columns)
    assert np.array_equal(model.predict(frame), model.predict(features))


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_without_a_feature_is_refused_by_its_name(kind):
    frame = FRAMES[kind]({name: [1.0] for name in NAMES if name != "clicks"})
    with pytest.raises(DataError, match=r"Got none for 'clicks': rename"):
        make_model().predict(frame)


def test_a_frame_with_other_names_is_refused_and_told_how_to_go_by_position():
    with pytest.raises(DataError, match=r"none for 'bm25' and 4 others: .* pass an array"):
        make_model().predict(pd.DataFrame(make_features()))


def test_a_frame_with_a_feature_twice_is_refused():
    table = pa.table([[1.0]] * 6, names=[*NAMES, "clicks"])
    with pytest.raises(DataError, match=r"'clicks'"):
        make_model().predict(table)


def test_a_frame_with_text_for_a_feature_is_refused():
    frame = pd.DataFrame({name: ["en" if name == "language" else 1.0] for name in NAMES})
    with pytest.raises(DataError, match=r"'language' \(String, as 'en' at row 0\)"):
        make_model().predict(frame)


@pytest.mark.parametrize("wrong", [4, 6])
@pytest.mark.parametrize("kind", [np.float32, np.float64, list, Dataset])
def test_another_number_of_features_is_refused_with_both_counts(wrong, kind):
    data = np.zeros((3, wrong), dtype=kind if kind in (np.float32, np.float64) else np.float32)
    if kind is list:
        data = data.tolist()
    if kind is Dataset:
        data = Dataset.from_arrays(data, [0, 1, 2], group=[3])
    with pytest.raises(DataError, match=rf"the 5 features of the model\. Got {wrong}: "):
        make_model().predict(data)


@pytest.mark.parametrize("data", [[1.0, 2.0], np.zeros(5, np.float32), np.zeros((1, 1, 5))])
def test_what_is_not_two_dimensional_is_refused(data):
    with pytest.raises(DataError, match="must be two-dimensional"):
        make_model().predict(data)


@pytest.mark.parametrize("data", ["test.txt", None, 3, {"bm25": [1.0]}, pd.Series([1.0])])
def test_what_has_no_features_is_refused_by_its_type(data):
    with pytest.raises((ParameterError, DataError), match=r"Got (NoneType|str|int|dict|shape)"):
        make_model().predict(data)


def test_text_in_an_array_is_refused():
    with pytest.raises(DataError, match="features must be numbers"):
        make_model().predict([["a"] * 5])


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_matrix, list])
def test_a_value_past_float32_is_refused(kind):
    with pytest.raises(DataError, match="must fit into float32"):
        make_model().predict(kind([[1e39, 0.0, 0.0, 0.0, 0.0]]))


def test_infinities_are_values():
    model, features = make_model(), make_features()
    features[::2, 0], features[1::2, 1] = np.inf, -np.inf
    assert np.array_equal(model.predict(features), naive_scores(model, features))


def test_no_rows_have_no_scores():
    scores = make_model().predict(np.empty((0, 5), np.float32))
    assert scores.dtype == np.float64
    assert scores.shape == (0,)


def test_a_model_without_trees_scores_zero_or_the_base():
    model = Model(Ensemble.from_trees([]), Schema(NAMES), {}, {})
    assert model.predict(make_features(n_rows=3)).tolist() == [0, 0, 0]
    assert model.predict(make_features(n_rows=3), base_scores=[1, 2, 3]).tolist() == [1, 2, 3]


def test_the_input_is_not_written_to():
    model, features = make_model(), make_features()
    before = features.tobytes()
    model.predict(features)
    features.flags.writeable = False
    model.predict(features)
    assert features.tobytes() == before


def test_a_dataset_with_other_names_is_refused_at_the_first_difference():
    names = ["bm25", "rank", "language", "clicks", "length"]
    with pytest.raises(DataError, match=r"Got 'rank' as feature 2, which is 'pagerank' in the mod"):
        make_model().predict(make_dataset(feature_names=names))


def test_a_dataset_with_the_names_in_another_order_is_told_so():
    with pytest.raises(DataError, match=r"the same names in another order"):
        make_model().predict(make_dataset(feature_names=NAMES[::-1]))


@pytest.mark.parametrize("model_names", [NAMES, tuple(f"f{i}" for i in range(1, 6))])
@pytest.mark.parametrize("data_names", [None, NAMES])
def test_default_names_go_with_any_names(model_names, data_names):
    model = make_model(names=model_names)
    data = make_dataset(feature_names=data_names)
    assert np.array_equal(model.predict(data), naive_scores(model, data.features))


def test_an_unknown_category_is_scored_as_missing():
    model, features = make_model(), make_features()
    known, missing = features.copy(), features.copy()
    known[:, 2], missing[:, 2] = 1234.5, np.nan
    assert np.array_equal(model.predict(known), model.predict(missing))


def test_a_category_is_found_by_its_float32_value():
    schema = Schema(("a",), {0: (0.1, -0.0, 16777217.0)})
    codes = schema.encode(np.array([[0.1], [0.0], [16777216.0], [np.inf]], dtype=np.float32))
    assert codes[:, 0].tolist()[:3] == [0, 1, 2]
    assert np.isnan(codes[3, 0])


def test_a_model_that_needs_base_scores_says_so_when_there_are_none():
    model = make_model(needs_base_scores=True)
    for data in (make_features(), make_dataset()):
        with pytest.raises(DataError, match=r"pass base_scores=.*base_scores=0\.0 for what the"):
            model.predict(data)
    assert np.array_equal(
        model.predict(make_features(), base_scores=0.0), make_model().predict(make_features())
    )


def test_base_scores_come_from_the_dataset_and_those_given_go_before_them():
    model = make_model(needs_base_scores=True)
    own, given = np.linspace(-1, 1, 120), np.linspace(3, 4, 120)
    data = make_dataset(base_scores=own)
    features = data.features
    assert np.array_equal(model.predict(data), model.predict(features, base_scores=own))
    assert np.array_equal(
        model.predict(data, base_scores=given), model.predict(features, base_scores=given)
    )
    assert np.allclose(model.predict(data), own + model.predict(data, base_scores=0.0))


def test_base_scores_of_a_dataset_do_not_count_for_a_model_trained_without():
    data = make_dataset(base_scores=np.ones(120))
    assert np.array_equal(make_model().predict(data), make_model().predict(data.features))


@pytest.mark.parametrize(
    ("base", "problem"),
    [
        ([1.0], r"one per document, 60\. Got 1"),
        (np.zeros((60, 1)), "one-dimensional"),
        ([np.nan] * 60, r"must be finite\. Got nan at row 0"),
        (np.inf, "must be finite"),
        ("high", "must be numbers"),
    ],
)
def test_base_scores_that_break_a_rule_are_refused(base, problem):
    with pytest.raises(DataError, match=problem):
        make_model().predict(make_features(), base_scores=base)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (lambda: Schema(("a", "b", "a")), "Got 'a' twice"),
        (lambda: Schema(("a", 1)), "must be strings"),
        (lambda: Schema(("a",), {1: (0.0,)}), "one of 1 features"),
        (lambda: Schema(("a",), {"a": (0.0,)}), "by feature number"),
        (lambda: Schema(("a",), {0: ()}), "1 to 256 categories"),
        (lambda: Schema(("a",), {0: range(257)}), "1 to 256 categories"),
        (lambda: Schema(("a",), {0: (1.0, np.nan)}), "must be finite"),
        (lambda: Schema(("a",), {0: (1e39,)}), "must be finite"),
        (lambda: Schema(("a",), {0: (1.0, 1.0 + 1e-12)}), "differ as float32"),
    ],
)
def test_a_schema_that_breaks_a_rule_is_refused(schema, problem):
    with pytest.raises(DataError, match=problem):
        schema()


def test_trees_that_do_not_fit_the_schema_are_refused():
    ensemble = make_model().ensemble
    with pytest.raises(DataError, match="a feature outside the 2 of the model"):
        Model(ensemble, Schema(("a", "b")), {}, {})
    with pytest.raises(DataError, match=r"must have categories in the schema\. Got none for 'la"):
        Model(ensemble, Schema(NAMES), {}, {})


@pytest.mark.parametrize("parameters", [{"a": np.inf}, {"a": object()}, {"a": {1}}, [1], None])
def test_parameters_that_a_file_cannot_hold_are_refused(parameters):
    with pytest.raises(DataError, match="parameters must be"):
        Model(Ensemble.from_trees([]), Schema(NAMES), parameters, {})


def test_parameters_and_history_are_the_models_own():
    parameters, history = {"a": [1, np.int64(2)], "b": (3,)}, {"vali": {"map": [np.float32(0.5)]}}
    model = Model(Ensemble.from_trees([]), Schema(NAMES), parameters, history)
    parameters["a"].append(3)
    history["vali"]["map"].append(1.0)
    assert model.parameters == {"a": [1, 2], "b": [3]}
    assert model.history == {"vali": {"map": [0.5]}}


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_scores_the_same_and_is_prepared_anew(duplicate):
    model, features = make_model(), make_features()
    scores = model.predict(features)
    other = duplicate(model)
    assert "_prepared" not in vars(other)
    assert np.array_equal(other.predict(features), scores)
    assert other._prepared is not model._prepared
    assert other.schema == model.schema
    assert other.parameters == model.parameters
    assert not any(array.flags.writeable for array in other.ensemble.arrays().values())


def test_the_trees_of_a_model_refuse_writes():
    with pytest.raises(ValueError, match="read-only"):
        make_model().ensemble.value[0] = 1.0


def test_threads_that_use_a_new_model_at_once_get_the_same_scores():
    model, features = make_model(), make_features()
    expected, found = naive_scores(model, features), [None] * 8
    barrier = threading.Barrier(8)

    def score(number):
        barrier.wait()
        found[number] = model.predict(features)

    threads = [threading.Thread(target=score, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(scores, expected) for scores in found)


def test_the_repr_is_one_line_of_what_the_model_is():
    model = make_model(needs_base_scores=True)
    assert repr(model) == (
        f"<Model: 6 trees, 54 leaves, 5 features, needs base scores, by Rankgrove {model.version}>"
    )

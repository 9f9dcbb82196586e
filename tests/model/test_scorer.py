"""Queries one at a time: the scores of `predict`, bit for bit, and its errors."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from model.samples import NAMES, make_dataset, make_features, make_model, naive_scores
from rankgrove import Ranker, Scorer, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.combined import CombinedModel, weigh_models
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble


def as_dicts(features):
    return [dict(zip(NAMES, row, strict=True)) for row in features.tolist()]


def combined_models():
    parts = (make_model(1), make_model(2, n_leaves=5))
    top = make_model(3, names=("a", "b"), categories={})
    return {
        "weights": CombinedModel(parts, weights=(0.25, 0.75)),
        "trees on scores": CombinedModel(parts, top=top),
        "one model of all trees": weigh_models(parts, [0.5, 0.5]),
    }


FORMS = {
    "float32": lambda x: x,
    "float64": lambda x: x.astype(np.float64),
    "column-major": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "big-endian": lambda x: x.astype(">f4"),
    "read-only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
    "lists": lambda x: x.tolist(),
    "dicts": as_dicts,
    "tuple of dicts": lambda x: tuple(as_dicts(x)),
    "pandas": lambda x: pd.DataFrame(x, columns=NAMES),
    "polars": lambda x: pl.DataFrame(dict(zip(NAMES, x.T, strict=True))),
    "pyarrow": lambda x: pa.table(dict(zip(NAMES, x.T, strict=True))),
    "sparse": scipy.sparse.csr_matrix,
}


@pytest.mark.parametrize("n_rows", [0, 1, 2, 8, 9, 100, 300])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_query_has_the_scores_of_predict(form, n_rows):
    model, features = make_model(), make_features(n_rows=n_rows)
    documents = FORMS[form](features)
    if form == "lists" and n_rows == 0:
        documents = []
    scores = model.scorer()(documents)
    assert scores.dtype == np.float64
    assert np.array_equal(scores, naive_scores(model, features))
    assert np.array_equal(scores, model.predict(documents))


@pytest.mark.parametrize(
    "form",
    [
        lambda row: row,
        lambda row: row.astype(np.float64),
        lambda row: row.tolist(),
        lambda row: tuple(row.tolist()),
        lambda row: dict(zip(NAMES, row, strict=True)),
        lambda row: OrderedDict(zip(NAMES[::-1], row.tolist()[::-1], strict=True)),
        lambda row: pd.DataFrame([row[::-1]], columns=NAMES[::-1]).iloc[0],
    ],
)
def test_one_document_has_one_score(form):
    model, features = make_model(), make_features()
    scorer = model.scorer()
    scores = [scorer(form(row)) for row in features]
    assert all(type(score) is float for score in scores)
    assert scores == model.predict(features).tolist()


def test_what_a_dict_does_not_have_is_missing_and_what_is_no_feature_is_ignored():
    model, features = make_model(), make_features()
    expected, documents = features.copy(), as_dicts(features)
    for row, document in enumerate(documents):
        gone = NAMES[row % 5]
        document["url"] = "https://example.org"
        if row % 2:
            del document[gone]
        else:
            document[gone] = None
        expected[row, row % 5] = np.nan
    for score in (model.predict, model.scorer()):
        assert np.array_equal(score(documents), naive_scores(model, expected))


@pytest.mark.parametrize("value", [True, 3, Decimal("2.5"), np.int8(4), np.float64(0.1), np.inf])
def test_values_of_dicts_are_numbers_of_any_kind(value):
    model = make_model()
    row = np.array([[0, value, 7, 0, 0]], dtype=np.float32)
    document = {"bm25": 0, "pagerank": value, "language": 7, "clicks": 0, "length": 0}
    assert model.scorer()(document) == model.predict(row)[0]


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([{"bm25": 1.0}, {"bm25": "high"}], r"feature 'bm25' must be a number, .*'high' \(str\)"),
        ([{"bm25": [1.0]}], r"feature 'bm25' must be a number.* \(list\) at row 0"),
        ([{"clicks": 1e39}], r"feature 'clicks' must fit into float32 .*Got 1e\+39 at row 0"),
        ([{"clicks": 10**400}], r"feature 'clicks' must fit into float32"),
        ([{"bm25": 1.0}, [1.0]], r"must all be dicts .* Got list at row 1"),
        ([{"BM25": 1.0}, {"Clicks": 2}], r"as 'bm25'\. Got none of its features, but 'BM25'"),
        ([{}], r"Got empty dicts"),
    ],
)
def test_dicts_that_break_a_rule_are_refused_by_feature_and_row(documents, problem):
    for score in (make_model().predict, make_model().scorer()):
        with pytest.raises(DataError, match=problem):
            score(documents)


def test_a_document_of_which_nothing_is_known_may_stand_among_others():
    scores = make_model().scorer()([{}, {"bm25": 1.0}])
    assert scores[0] == make_model().predict(np.full((1, 5), np.nan))[0]


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        (np.zeros((2, 4), np.float32), r"the 5 features of the model\. Got 4"),
        (np.zeros(6, np.float32), r"the 5 features of the model\. Got 6"),
        ([0.0] * 4, r"the 5 features of the model\. Got 4"),
        (np.zeros((1, 1, 5), np.float32), r"must be two-dimensional"),
        (np.array([[1e39, 0, 0, 0, 0]]), r"must fit into float32"),
        ([["a"] * 5], r"must be numbers"),
        (pd.DataFrame({"bm25": [1.0]}), r"Got none for 'pagerank' and 3 others"),
        ("query.txt", r"or a list of dicts\. Got str"),
    ],
)
def test_a_query_that_predict_refuses_is_refused(documents, problem):
    with pytest.raises((DataError, ParameterError), match=problem):
        make_model().scorer()(documents)


@pytest.mark.parametrize("name", combined_models())
def test_combined_models_score_as_predict_does(name):
    model, features = combined_models()[name], make_features()
    scorer = model.scorer()
    assert np.array_equal(scorer(features), model.predict(features))
    assert scorer(as_dicts(features)[3]) == model.predict(features[3:4])[0]


def test_a_model_on_top_of_base_scores_asks_for_them():
    model, features = make_model(needs_base_scores=True), make_features()
    scorer, base = model.scorer(), np.linspace(-1, 1, 60)
    expected = model.predict(features, base_scores=base)
    assert np.array_equal(scorer(features, base_scores=base), expected)
    assert scorer(features[7], base_scores=base[7]) == expected[7]
    with pytest.raises(DataError, match=r"base_scores must be given"):
        scorer(features)
    data = make_dataset(base_scores=np.linspace(0, 1, 120))
    assert np.array_equal(scorer(data), model.predict(data))


def test_the_first_trees_alone_score_as_predict_says():
    model, features = make_model(), make_features()
    assert np.array_equal(model.scorer(n_trees=2)(features), model.predict(features, n_trees=2))


@pytest.mark.parametrize("n_trees", [-1, 7, 2.0, "all"])
def test_a_number_of_trees_that_the_model_does_not_have_is_refused_at_once(n_trees):
    with pytest.raises(ParameterError, match="n_trees must be a whole number, from 0 to 6"):
        make_model().scorer(n_trees=n_trees)


def test_a_model_without_trees_or_features_scores_zero():
    assert Model(Ensemble.from_trees([]), Schema(NAMES), {}, {}).scorer()(np.zeros(5)) == 0.0
    assert Model(Ensemble.from_trees([]), Schema(()), {}, {}).scorer()([{}, {}]).tolist() == [0, 0]


@pytest.mark.parametrize("model", [None, "model.safetensors", Ensemble.from_trees([])])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(ParameterError, match=r"model must be a model, as `load` gives .*\. Got"):
        Scorer(model)


def test_threads_share_a_scorer():
    model, scorer = make_model(n_trees=30), make_model(n_trees=30).scorer()
    queries = [make_features(seed, n_rows=1 + 7 * seed) for seed in range(20)]
    with ThreadPoolExecutor(4) as pool:
        for scores, query in zip(pool.map(scorer, queries * 10), queries * 10, strict=True):
            assert np.array_equal(scores, model.predict(query))


def test_no_thread_is_started_even_for_many_documents(monkeypatch):
    def refuse(*_):
        raise AssertionError("a thread was started")

    scorer, features = make_model(n_trees=200).scorer(), make_features(n_rows=20_000)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr("rankgrove._jit.threads.submit", refuse)
    assert len(scorer(features)) == 20_000


def test_the_documents_are_not_written_to():
    features = make_features()
    before = features.tobytes()
    make_model().scorer()(features)
    assert features.tobytes() == before
    assert features.flags.writeable


def test_scores_of_calls_do_not_share_memory():
    scorer, features = make_model().scorer(), make_features()
    first = scorer(features)
    kept = first.copy()
    scorer(features[::-1])
    assert np.array_equal(first, kept)


def test_a_pickled_scorer_scores_the_same():
    scorer, features = make_model().scorer(), make_features()
    again = pickle.loads(pickle.dumps(scorer))
    assert np.array_equal(again(features), scorer(features))


def test_the_repr_names_the_model_and_its_features_are_at_hand():
    scorer = make_model().scorer()
    assert isinstance(scorer, Scorer)
    assert repr(scorer) == f"<Scorer of {scorer.model!r}>"
    assert scorer.feature_names == NAMES


def test_a_matrix_of_documents_scores_and_explains_as_they_do():
    data = make_web_search(20, 16, mean_documents=8)
    model = Ranker(n_estimators=3, min_samples_leaf=2).fit(data).model_
    scorer = model.scorer()
    documents = [dict(zip(model.feature_names, row, strict=True)) for row in data.features[:9]]
    matrix = scorer.matrix(documents)
    assert scorer.score_matrix(matrix).tolist() == model.predict(documents).tolist()
    wanted = model.contributions(documents)
    assert scorer.contributions_of_matrix(matrix).tolist() == wanted.tolist()

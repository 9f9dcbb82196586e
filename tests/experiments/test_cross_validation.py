"""Cross-validation: no query is scored by a model that has seen it, for any estimator."""

from __future__ import annotations

import csv
import io
import threading
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankgrove import Dataset, MARTRegressor, Ranker, evaluate, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments import cross_validation
from rankgrove.experiments.cross_validation import cross_validate
from rankgrove.experiments.folds import make_folds

METRICS = ["ndcg@10", "mrr(relevant>=2)"]
QUICK = {"n_estimators": 3, "min_samples_leaf": 1, "n_jobs": None}


@pytest.fixture(scope="module")
def data():
    plain = make_web_search(30, 16, mean_documents=8, seed=4)
    rng = np.random.default_rng(0)
    return Dataset.from_arrays(
        plain.features, plain.labels, group=plain.group, weights=rng.uniform(0.5, 2, 30)
    )


def by_hand(ranker, data, metric, n_folds, seed=0):
    """The value of each query, fold by fold."""
    values = np.full(data.n_queries, np.nan)
    for train, test in data.folds(n_folds, seed=seed):
        scores = Ranker(**ranker).fit(train).predict(test)
        at = np.isin(data.query_ids, test.query_ids)
        values[at] = evaluate(test, scores, metric).per_query(metric)
    return values


def test_values_are_those_of_folds_done_by_hand(data):
    table = cross_validate(Ranker(**QUICK), data, METRICS, folds=3, seed=7)
    for metric in METRICS:
        values = by_hand(QUICK, data, metric, 3, seed=7)
        np.testing.assert_array_equal(table.per_query("Ranker", metric), values)
        counted = ~np.isnan(values)
        mean = np.average(values[counted], weights=data.weights[counted])
        # Sums in another order.
        assert table.results["Ranker"][metric] == pytest.approx(mean, abs=1e-14)
        for fold in range(3):
            own = counted & (table.fold_of == fold)
            expected = np.average(values[own], weights=data.weights[own])
            assert table.fold_means["Ranker"][metric][fold] == pytest.approx(expected, abs=1e-14)


def test_folds_are_those_of_the_data_set(data):
    ours = make_folds(data, 4, seed=3)
    for (train, test), (first, second) in zip(ours, data.folds(4, seed=3), strict=True):
        np.testing.assert_array_equal(data.query_ids[train], first.query_ids)
        np.testing.assert_array_equal(data.query_ids[test], second.query_ids)


def test_a_splitter_and_what_it_splits_give_the_same(data):
    splitter = GroupKFold(3)
    pairs = list(splitter.split(data.features, data.labels, groups=data.qid))
    tables = [
        cross_validate(Ranker(**QUICK), data, "ndcg@10", folds=folds) for folds in (splitter, pairs)
    ]
    np.testing.assert_array_equal(*(table.scores["Ranker"] for table in tables))
    for fold, (_, test) in enumerate(pairs):
        assert set(tables[0].fold_of[np.isin(data.query_ids, data.qid[test])]) == {fold}


def test_masks_of_rows_are_rows(data):
    pairs = list(GroupKFold(2).split(data.features, data.labels, groups=data.qid))
    masks = [tuple(np.isin(np.arange(data.n_documents), rows) for rows in pair) for pair in pairs]
    for (a, b), (c, d) in zip(make_folds(data, pairs), make_folds(data, masks), strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_the_result_has_the_same_bits_for_any_number_of_threads(data):
    tables = [
        cross_validate(
            {"a": Ranker(**QUICK), "b": Ranker("yetirank", **QUICK)},
            data, "ndcg@10", folds=3, n_jobs=n,
        )
        for n in (1, 2, 7)
    ]  # fmt: skip
    for table in tables[1:]:
        for name in ("a", "b"):
            assert table.scores[name].tobytes() == tables[0].scores[name].tobytes()


class Recorder(BaseEstimator):
    """Scores a document with its first feature, and notes what it was given."""

    seen: list = []

    def __init__(self, n_jobs=None):
        self.n_jobs = n_jobs

    def fit(self, X, y, qid=None, sample_weight=None):  # noqa: N803
        self.queries_ = set(qid.tolist())
        type(self).seen.append((self.queries_, len(sample_weight), self.n_jobs))
        return self

    def predict(self, X):  # noqa: N803
        return X[:, 0]


def test_no_model_sees_the_queries_that_it_scores_and_threads_are_shared(data):
    Recorder.seen = []
    recorder = Recorder()
    table = cross_validate(recorder, data, "ndcg@10", folds=2, n_jobs=6)
    np.testing.assert_array_equal(table.scores["Recorder"], data.features[:, 0])
    assert [len(queries) for queries, _, _ in Recorder.seen] == [15, 15]
    assert set.union(*(q for q, _, _ in Recorder.seen)) == set(data.query_ids.tolist())
    assert not set.intersection(*(q for q, _, _ in Recorder.seen))
    # One weight a query, and half of the threads.
    assert {(n, jobs) for _, n, jobs in Recorder.seen} == {(15, 3)}
    assert not hasattr(recorder, "queries_")


def test_estimators_of_scikit_learn_and_pipelines_work(data):
    data = replace(data, features=np.nan_to_num(data.features))
    estimators = {
        "linear": LinearRegression(),
        "scaled": make_pipeline(StandardScaler(), LinearRegression()),
        "mart": MARTRegressor(n_estimators=3, n_jobs=1),
        "ranker": make_pipeline(StandardScaler(), Ranker(**QUICK)),
        "plain": Ranker(**QUICK),
        "forest": RandomForestClassifier(5, random_state=0, n_jobs=1),
    }
    table = cross_validate(estimators, data, METRICS, folds=2)
    assert list(table.results) == list(estimators)
    for scores in table.scores.values():
        assert np.isfinite(scores).all()
    # Least squares do not mind the scale, up to rounding.
    np.testing.assert_allclose(table.scores["linear"], table.scores["scaled"], atol=1e-3)
    # A classifier's score is its expected class, between the least and the greatest.
    forest = table.scores["forest"]
    assert 0 <= forest.min() <= forest.max() <= data.labels.max()
    assert len(np.unique(forest)) > 5


def test_lightgbm_is_given_its_groups(data):
    lightgbm = pytest.importorskip("lightgbm")
    ranker = lightgbm.LGBMRanker(n_estimators=2, min_child_samples=1, verbose=-1, n_jobs=1)
    table = cross_validate(ranker, data, "ndcg@10", folds=2)
    assert 0 < table.results["LGBMRanker"]["ndcg@10"] < 1


def test_early_stopping_watches_a_share_of_the_training_queries(data):
    ranker = Ranker(n_estimators=50, early_stopping_rounds=2, min_samples_leaf=1)
    table = cross_validate(ranker, data, "ndcg@10", folds=2, valid_share=0.3)
    train, test = next(iter(data.folds(2)))
    own, valid = train.split(0.7, 0.3, seed=0)
    expected = Ranker(n_estimators=50, early_stopping_rounds=2, min_samples_leaf=1)
    expected.fit(own, valid=valid)
    rows = np.isin(data.qid, test.query_ids)
    np.testing.assert_array_equal(table.scores["Ranker"][rows], expected.predict(test))


def test_the_table_has_every_form(data):
    table = cross_validate({"a|b": Ranker(**QUICK)}, data, METRICS, folds=2)
    lines = str(table).splitlines()
    assert lines[0].split() == [
        "estimator", "metric", "mean", "std.error", "queries", "skipped", "fold", "1", "fold", "2"
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert len(table.to_markdown().splitlines()) == 4
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    plain = table.to_dict()["a|b"]
    for row in rows:
        assert float(row["mean"]) == plain[row["metric"]]["mean"]
        assert float(row["fold 2"]) == plain[row["metric"]]["folds"][1]


def test_estimators_on_the_same_folds_can_be_compared(data):
    estimators = {"a": Ranker(**QUICK), "b": Ranker("queryrmse", **QUICK)}
    table = cross_validate(estimators, data, "ndcg@10", folds=2)
    comparison = table.compare()
    assert "a" in str(comparison)
    assert "b" in str(comparison)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_the_folds_that_are_done(data, monkeypatch, n_jobs):
    done = threading.Event()
    scores = cross_validation._Task.scores

    def interrupted(task, *args):
        if task.fold == 0:
            return scores(task, *args)
        if n_jobs == 1:
            raise KeyboardInterrupt
        done.wait(20)
        return scores(task, *args)

    def wait_and_interrupt(futures, **_):
        futures[0].result()
        cross_validation.threading.Timer(0.2, done.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(cross_validation._Task, "scores", interrupted)
    monkeypatch.setattr(cross_validation, "wait", wait_and_interrupt)
    table = cross_validate(Ranker(**QUICK), data, "ndcg@10", folds=3, n_jobs=n_jobs)
    assert table.interrupted
    assert table.folds_done == (0,)
    assert len(table.query_ids) == len(table.per_query("Ranker", "ndcg@10")) == 10
    assert np.isnan(table.fold_means["Ranker"]["ndcg@10"][1:]).all()
    assert "-" in str(table).splitlines()[1].split()
    assert np.isnan(table.scores["Ranker"]).sum() == data.n_documents - sum(
        np.isin(data.qid, table.query_ids)
    )


def test_interrupt_before_the_first_fold_is_passed_on(data, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cross_validation._Task, "scores", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(Ranker(**QUICK), data, "ndcg@10", n_jobs=1)


def test_an_error_in_a_fold_is_passed_on(data):
    class Broken(Recorder):
        def predict(self, X):  # noqa: N803
            return X[:3, 0]

    for n_jobs in (1, 3):
        with pytest.raises(DataError, match=r"'Broken' must give one score .* shape \(3,\)"):
            cross_validate(Broken(), data, "ndcg@10", folds=3, n_jobs=n_jobs)


def test_progress_says_which_folds_are_done(data, capsys):
    cross_validate(Ranker(**QUICK), data, "ndcg@10", folds=2, n_jobs=1, verbose=True)
    assert capsys.readouterr().err.splitlines() == [
        "1/2  fold 1 of 2  Ranker", "2/2  fold 2 of 2  Ranker"
    ]  # fmt: skip


def rows_of(data, *queries):
    return np.flatnonzero(np.isin(data.qid, data.query_ids[list(queries)]))


@pytest.mark.parametrize(
    ("folds", "problem"),
    [
        (1, "folds must be a whole number, from 2 to 30"),
        (31, "folds must be a whole number, from 2 to 30. Got 31"),
        (2.5, "folds must be a whole number"),
        (True, "folds must be a whole number"),
        ("5", "folds must be a number, a splitter"),
        (None, "folds must be a number, a splitter"),
        (KFold(3), "must not cut a query in two.*use GroupKFold"),
        (GroupKFold(31), "folds must fit the data"),
        ([[0, 1, 2]], "fold 1 must be a pair"),
        ([([0.5], [1])], "fold 1 must have row numbers to train on"),
        ([([], [1])], "fold 1 must have row numbers to train on"),
        ([([0], [10**6])], "must not cut a query in two|row numbers of fold 1 must be from 0"),
    ],
)
def test_folds_that_are_none_are_refused(data, folds, problem):
    with pytest.raises(ParameterError, match=problem):
        cross_validate(Ranker(**QUICK), data, "ndcg@10", folds=folds)


def test_folds_that_leak_or_leave_out_queries_are_refused(data):
    some, others = range(15), range(15, 30)
    both = [(rows_of(data, *some, 20), rows_of(data, *others))]
    with pytest.raises(ParameterError, match="fold 1 must not test what it is trained on"):
        make_folds(data, both)
    with pytest.raises(ParameterError, match=r"must test each query once. Got query 0 tested 0"):
        make_folds(data, [(rows_of(data, *some), rows_of(data, *others))])
    pair = (rows_of(data, *some), rows_of(data, *others))
    with pytest.raises(ParameterError, match="tested 2 times"):
        make_folds(data, [pair, pair, (pair[1], pair[0])])
    with pytest.raises(ParameterError, match="must not cut"):
        make_folds(data, ShuffleSplit(2, random_state=0))


@pytest.mark.parametrize(
    ("estimators", "options", "problem"),
    [
        ({}, {}, "at least one"),
        (Ranker, {}, "must have fit and predict. Got the class Ranker"),
        ({"a": StandardScaler()}, {}, "'a' must have fit and predict. Got StandardScaler"),
        (3, {}, "Got int, which has no fit"),
        (Ranker(early_stopping_rounds=3), {}, "valid_share must be given for early stopping"),
        (LinearRegression(), {"valid_share": 0.2}, "must be left out for an estimator"),
        (Ranker(), {"valid_share": 1.0}, "valid_share must be above 0 and below 1"),
        (Ranker(), {"metrics": "ndgc"}, "did you mean 'ndcg'"),
    ],
)
def test_wrong_calls_are_refused(data, estimators, options, problem):
    with pytest.raises(ParameterError, match=problem):
        cross_validate(estimators, data, **{"metrics": "ndcg@10", **options})


def test_data_that_cannot_be_measured_are_refused_before_the_work(data):
    with pytest.raises(ParameterError, match="data must be a Dataset"):
        cross_validate(Ranker(), data.features)
    with pytest.raises(DataError, match="map"):
        # Grades without a threshold are not relevant or not.
        cross_validate(Recorder(), data, "map(relevant>=9)")

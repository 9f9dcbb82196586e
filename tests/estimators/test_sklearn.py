"""Ranker as a citizen of scikit-learn: clone, search, cross-validation, pipelines, pickles."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from boosting.samples import QUICK, bits, make_data
from rankgrove import Ranker
from rankgrove.errors import DataError
from rankgrove.objectives.pairwise import LambdaMART

FOLDS = GroupKFold(4)


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def frame(data):
    columns = pd.DataFrame(data.features, columns=[f"x{number}" for number in range(6)])
    return columns.assign(qid=data.qid)


def by_hand(data, ranker):
    """The score of each fold, without scikit-learn's machinery."""
    scores = []
    for train, test in FOLDS.split(data.features, data.labels, data.qid):
        fitted = clone(ranker).fit(data.features[train], data.labels[train], qid=data.qid[train])
        scores.append(
            fitted.score(data.features[test], data.labels[test], qid=data.qid[test])
        )  # fmt: skip
    return scores


def test_clone_and_parameters():
    ranker = Ranker(LambdaMART(sigma=2.0), monotone={"a": 1}, max_leaves=7, n_jobs=1)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert copy is not ranker
    assert copy.set_params(max_leaves=9, learning_rate=0.3) is copy
    assert copy.get_params()["max_leaves"] == 9
    assert ranker.max_leaves == 7
    with pytest.raises(ValueError, match="learning_rat"):
        copy.set_params(learning_rat=0.1)
    assert repr(Ranker(max_leaves=7)) == "Ranker(max_leaves=7)"


def test_init_only_stores():
    odd = object()
    ranker = Ranker(odd, monotone=odd, n_estimators=odd)
    assert ranker.objective is ranker.monotone is ranker.n_estimators is odd
    assert {name for name in vars(ranker) if name.endswith("_")} == set()


def test_is_fitted_after_fit_only(data):
    ranker = Ranker(**QUICK)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(ranker)
    check_is_fitted(ranker.fit(data))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(clone(ranker))


def test_pickle_and_joblib_keep_the_predictions(data, tmp_path):
    ranker = Ranker(**QUICK, categorical=[5]).fit(make_data(n_categories=5), valid=data)
    joblib.dump(ranker, tmp_path / "ranker.joblib")
    for copy in (pickle.loads(pickle.dumps(ranker)), joblib.load(tmp_path / "ranker.joblib")):
        assert copy.predict(data).tobytes() == ranker.predict(data).tobytes()
        assert bits(copy.model_.ensemble) == bits(ranker.model_.ensemble)
        assert copy.history_ == ranker.history_
        assert copy.get_params() == ranker.get_params()
    unfitted = pickle.loads(pickle.dumps(Ranker(**QUICK)))
    assert not hasattr(unfitted, "model_")


def test_cross_validation_with_routed_query_ids(data):
    ranker = Ranker(**QUICK)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(ranker).set_fit_request(qid=True).set_score_request(qid=True)
        scores = cross_val_score(
            routed, data.features, data.labels, cv=FOLDS,
            params={"qid": data.qid, "groups": data.qid},
        )  # fmt: skip
    assert scores.tolist() == by_hand(data, ranker)


def test_cross_validation_of_a_frame_with_its_query_ids(data, frame):
    ranker = Ranker(**QUICK)
    scores = cross_val_score(ranker, frame, data.labels, cv=FOLDS, groups=data.qid)
    assert scores.tolist() == by_hand(data, ranker)


def test_cross_validation_without_query_ids_says_what_to_pass(data):
    with pytest.raises(DataError, match="qid or group must be given"):
        cross_val_score(
            Ranker(**QUICK), data.features, data.labels, cv=FOLDS, groups=data.qid,
            error_score="raise",
        )  # fmt: skip


GRID = {"max_leaves": [3, 8], "truncation": np.array([3, 30]), "learning_rate": [np.float32(0.25)]}


def test_grid_search_with_routed_query_ids(data):
    with sklearn.config_context(enable_metadata_routing=True):
        routed = Ranker(**QUICK).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(routed, GRID, cv=FOLDS, error_score="raise")
        search.fit(data.features, data.labels, qid=data.qid, groups=data.qid)
    best = Ranker(**{**QUICK, **search.best_params_})
    assert search.best_score_ == pytest.approx(np.mean(by_hand(data, best)), rel=1e-12)
    refitted = best.fit(data).predict(data)
    assert search.predict(data.features).tobytes() == refitted.tobytes()


def test_grid_search_of_a_frame_in_parallel_gives_the_same(data, frame):
    found = []
    for n_jobs in (1, 3):
        search = GridSearchCV(Ranker(**QUICK), GRID, cv=FOLDS, error_score="raise", n_jobs=n_jobs)
        with joblib.parallel_config("threading"):
            search.fit(frame, data.labels, groups=data.qid)
        found.append(search.cv_results_["mean_test_score"].tolist())
    assert found[0] == found[1]
    assert len(set(found[0])) > 1


def test_pipeline_with_routed_query_ids(data):
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = Ranker(**QUICK).set_fit_request(qid=True).set_score_request(qid=True)
        pipeline = make_pipeline(StandardScaler(), ranker)
        pipeline.fit(data.features, data.labels, qid=data.qid)
        scaled = StandardScaler().fit_transform(data.features)
        alone = Ranker(**QUICK).fit(scaled, data.labels, qid=data.qid)
        assert pipeline.predict(data.features).tobytes() == alone.predict(scaled).tobytes()
        assert pipeline.score(data.features, data.labels, qid=data.qid) == alone.score(
            scaled, data.labels, qid=data.qid
        )
        scores = cross_val_score(
            pipeline, data.features, data.labels, cv=FOLDS,
            params={"qid": data.qid, "groups": data.qid},
        )  # fmt: skip
    assert scores.mean() > 0.6


def test_pipeline_passes_query_ids_by_the_name_of_the_step(data):
    pipeline = make_pipeline(StandardScaler(), Ranker(**QUICK))
    pipeline.fit(data.features, data.labels, ranker__qid=data.qid)
    assert pipeline[-1].n_features_in_ == 6
    assert len(pipeline.predict(data.features)) == data.n_documents


def test_pipeline_that_gives_frames_keeps_names(data, frame):
    scaler = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scaler, Ranker(**QUICK))
    features = frame.drop(columns="qid")
    pipeline.fit(features, data.labels, ranker__qid=data.qid)
    assert pipeline[-1].feature_names_in_.tolist() == features.columns.tolist()
    assert np.isfinite(pipeline.predict(features)).all()


def test_html_and_text_of_a_ranker_can_be_shown(data):
    ranker = Ranker(**QUICK).fit(data)
    assert "Ranker" in ranker._repr_html_()
    assert "max_leaves=8" in repr(ranker)

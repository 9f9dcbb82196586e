"""Ranker: what it accepts, what it refuses, and what it gives back."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from boosting.samples import QUICK, bits, make_data
from rankgrove import Ranker, evaluate
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError

NAMES = ["bm25", "pagerank", "clicks", "length", "age", "depth"]


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def named():
    return make_data(names=NAMES)


@pytest.fixture
def ranker():
    return Ranker(**QUICK)


@pytest.fixture(scope="module")
def expected(data):
    """The model's bits and scores from a Dataset, which every other form must give."""
    fitted = Ranker(**QUICK).fit(data)
    return bits(fitted.model_.ensemble), fitted.predict(data).tobytes()


def test_arrays_lists_and_sparse_matrices_give_the_model_of_the_dataset(data, ranker, expected):
    forms = {
        "float32": data.features,
        "float64": data.features.astype(np.float64),
        "columns": np.asfortranarray(data.features),
        "list": data.features.tolist(),
        "csr": scipy.sparse.csr_matrix(data.features),
        "csc": scipy.sparse.csc_array(data.features),
    }
    for X in forms.values():
        ranker.fit(X, data.labels, qid=data.qid)
        assert bits(ranker.model_.ensemble) == expected[0]
        assert ranker.predict(X).tobytes() == expected[1]
        assert ranker.n_features_in_ == 6
        assert not hasattr(ranker, "feature_names_in_")


def test_group_is_qid_in_another_form(data, ranker, expected):
    ranker.fit(data.features, data.labels, group=data.group)
    assert bits(ranker.model_.ensemble) == expected[0]
    ranker.fit(data.features.tolist(), data.labels.tolist(), group=data.group.tolist())
    assert bits(ranker.model_.ensemble) == expected[0]
    ids = np.array([f"query {number}" for number in data.qid], dtype=object)
    ranker.fit(data.features, data.labels, qid=ids)
    assert bits(ranker.model_.ensemble) == expected[0]


def frames(features, names, qid=None):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    columns = dict(zip(names, features.T.astype(np.float64), strict=True))
    if qid is not None:
        columns = {"qid": qid, **columns}
    return [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns),
            pl.DataFrame(columns).lazy()]  # fmt: skip


@pytest.mark.parametrize("kind", range(4), ids=["pandas", "polars", "pyarrow", "polars lazy"])
@pytest.mark.parametrize("with_qid", [True, False])
def test_frames_bring_names_and_may_bring_queries(data, ranker, expected, kind, with_qid):
    frame = frames(data.features, NAMES, data.qid if with_qid else None)[kind]
    ranker.fit(frame, data.labels, qid=None if with_qid else data.qid)
    assert bits(ranker.model_.ensemble) == expected[0]
    assert ranker.feature_names_in_.tolist() == NAMES
    assert ranker.n_features_in_ == 6
    assert ranker.predict(frame).tobytes() == expected[1]
    assert ranker.predict(data.features).tobytes() == expected[1]


def test_frames_are_scored_by_name_whatever_the_order_of_columns(named, ranker, expected):
    frame = frames(named.features, NAMES, named.qid)[0]
    ranker.fit(frame, named.labels)
    shuffled = frame[[*NAMES[::-1], "qid"]].assign(note="x")
    assert ranker.predict(shuffled).tobytes() == expected[1]
    with pytest.raises(DataError, match="Got none for 'clicks'"):
        ranker.predict(frame.drop(columns="clicks"))
    with pytest.raises(DataError, match="Got none for 'bm25'"):
        ranker.predict(frame.rename(columns={"bm25": "bm"}))


def test_dataset_with_names_sets_them_and_contradicting_ones_are_refused(named, ranker):
    ranker.fit(named)
    assert ranker.feature_names_in_.tolist() == NAMES
    other = make_data(names=[*NAMES[:-1], "width"])
    with pytest.raises(DataError, match="'width'"):
        ranker.predict(other)


def test_frame_whose_columns_are_numbers_is_taken(data, ranker, expected):
    import pandas as pd

    frame = pd.DataFrame(data.features)
    ranker.fit(frame, pd.Series(data.labels), qid=pd.Series(data.qid))
    assert bits(ranker.model_.ensemble) == expected[0]
    assert ranker.predict(frame).tobytes() == expected[1]


def test_names_of_an_earlier_fit_are_forgotten(data, named, ranker):
    ranker.fit(named)
    ranker.fit(data)
    assert not hasattr(ranker, "feature_names_in_")


def test_labels_and_ids_may_be_series_of_any_library(data, ranker, expected):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    for make in (pd.Series, pl.Series, pa.array):
        ranker.fit(data.features, make(data.labels), qid=make(data.qid))
        assert bits(ranker.model_.ensemble) == expected[0]


def test_inputs_are_not_modified(data, ranker):
    X, y, qid = data.features.copy(), data.labels.copy(), data.qid.copy()
    weights, base = np.ones(data.n_queries), np.zeros(data.n_documents)
    given = [X, y, qid, weights, base]
    before = [array.tobytes() for array in given]
    ranker.fit(X, y, qid=qid, sample_weight=weights, base_scores=base)
    ranker.predict(X, base_scores=base)
    ranker.fit(X, y, qid=qid, eval_set=[(X, y, qid)]).score(X, y, qid=qid)
    assert [array.tobytes() for array in given] == before
    assert all(array.flags.writeable for array in given)


def test_fitting_twice_starts_from_scratch(data, ranker, expected):
    ranker.fit(make_data(seed=9, n_features=4)).fit(data)
    assert bits(ranker.model_.ensemble) == expected[0]
    assert ranker.fit(data) is ranker
    assert bits(ranker.model_.ensemble) == expected[0]


def test_validation_sets_have_names(data, ranker):
    one, two = make_data(seed=1), make_data(seed=2)
    triple = (one.features, one.labels, one.qid)
    cases = [
        ({"valid": one}, ["valid"]),
        ({"valid": [one]}, ["valid"]),
        ({"valid": (one, two)}, ["valid_1", "valid_2"]),
        ({"valid": {"vali": one, "test": two}}, ["vali", "test"]),
        ({"valid": {"valid_1": one}}, ["valid_1"]),
        ({"valid": {}}, []),
        ({"valid": []}, []),
        ({"eval_set": [triple]}, ["valid"]),
        ({"eval_set": [list(triple), two]}, ["valid_1", "valid_2"]),
        ({"eval_set": []}, []),
        ({}, []),
    ]
    for options, names in cases:
        assert list(ranker.fit(data, **options).history_) == names
        if names:
            assert ranker.history_[names[0]]["ndcg@10"][-1] == ranker.score(one)


def test_validation_set_may_be_a_frame_with_its_queries(named, ranker):
    other = make_data(seed=1, names=NAMES)
    for kind in range(3):
        train, valid = (frames(part.features, NAMES, part.qid)[kind] for part in (named, other))
        ranker.fit(train, named.labels, eval_set=[(valid, other.labels)])
        assert ranker.history_["valid"]["ndcg@10"][-1] == ranker.score(valid, other.labels)


def test_split_queries_are_grouped_on_request(data, ranker, expected):
    order = np.random.default_rng(0).permutation(data.n_documents)
    X, y, qid = data.features[order], data.labels[order], data.qid[order]
    with pytest.raises(DataError, match="is split"):
        ranker.fit(X, y, qid=qid)
    ranker.fit(X, y, qid=qid, split_queries="group")
    scores = ranker.predict(data)
    assert evaluate(data, scores, "ndcg@10")["ndcg@10"] > 0.6
    with pytest.raises(ParameterError, match="split_queries must be one of"):
        ranker.fit(X, y, qid=qid, split_queries="merge")


def test_predict_by_fewer_trees(data, ranker):
    ranker.fit(data)
    assert not ranker.predict(data, n_trees=0).any()
    few = Ranker(**{**QUICK, "n_estimators": 2}).fit(data)
    assert ranker.predict(data, n_trees=2).tobytes() == few.predict(data).tobytes()
    with pytest.raises(ParameterError, match="n_trees"):
        ranker.predict(data, n_trees=7)


def test_score_is_the_first_evaluation_metric(data, ranker):
    valid = make_data(seed=1, weighted=True)
    ranker.set_params(eval_metric=["map", "ndcg@3"]).fit(data)
    mean = evaluate(valid, ranker.predict(valid), "map")["map"]
    assert ranker.score(valid) == mean
    assert ranker.score(
        valid.features, valid.labels, qid=valid.qid, sample_weight=valid.weights
    ) == mean  # fmt: skip
    assert ranker.score(valid.features, valid.labels, group=valid.group) != mean
    with pytest.raises(DataError, match="qid or group"):
        ranker.score(valid.features, valid.labels)
    with pytest.raises(DataError, match="y must be given"):
        ranker.score(valid.features, qid=valid.qid)


def test_base_scores_go_into_training_scoring_and_measuring(data, ranker):
    base = np.random.default_rng(0).normal(size=data.n_documents)
    columns = {"qid": data.qid, "base_scores": base}
    ranker.fit(data.features, data.labels, **columns)
    with pytest.raises(DataError, match="base_scores must be given"):
        ranker.predict(data.features)
    scores = ranker.predict(data.features, base_scores=base)
    added = ranker.predict(data.features, base_scores=0.0)
    assert scores == pytest.approx(base + added)
    measured = ranker.score(data.features, data.labels, **columns)
    assert measured == evaluate(data, scores, "ndcg@10")["ndcg@10"]


def test_weight_of_a_row_is_that_of_its_query(data, ranker):
    weights = np.random.default_rng(0).integers(1, 4, data.n_queries) / 4
    by_query = ranker.fit(data.features, data.labels, qid=data.qid, sample_weight=weights).model_
    rows = np.repeat(weights, data.group)
    by_row = ranker.fit(data.features, data.labels, qid=data.qid, sample_weight=rows).model_
    plain = ranker.fit(data).model_
    assert bits(by_query.ensemble) == bits(by_row.ensemble) != bits(plain.ensemble)


def test_importances_are_shares_of_the_gain(data, ranker):
    ranker.fit(data)
    shares = ranker.feature_importances_
    assert shares.shape == (6,)
    assert shares.sum() == pytest.approx(1)
    gains = np.bincount(ranker.model_.ensemble.feature, ranker.model_.ensemble.gain, 6)
    assert shares == pytest.approx(gains / gains.sum())


def test_fitted_attributes_agree_with_the_model(data, ranker):
    ranker.set_params(early_stopping_rounds=2, n_estimators=50, learning_rate=0.6)
    ranker.fit(data, valid=make_data(seed=1))
    assert ranker.best_iteration_ == ranker.model_.n_trees < 50
    assert len(ranker.history_["valid"]["ndcg@10"]) == ranker.best_iteration_ + 2
    assert ranker.history_ == ranker.model_.history


def test_verbose_shows_progress_on_stderr_and_nothing_else(data, capsys):
    Ranker(**QUICK, verbose=True).fit(data, valid=make_data(seed=1))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "6/6 trees" in shown.err
    assert "ndcg@10" in shown.err
    Ranker(**QUICK).fit(data)
    assert capsys.readouterr() == ("", "")


def test_saved_model_scores_the_same_bits_in_another_process(named, ranker, tmp_path):
    ranker.fit(named)
    ranker.save(tmp_path / "model.safetensors")
    np.save(tmp_path / "features.npy", named.features)
    code = (
        "import sys, numpy as np; from rankgrove import Ranker; "
        "ranker = Ranker.load('model.safetensors'); "
        "sys.stdout.write(ranker.predict(np.load('features.npy')).tobytes().hex())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout == ranker.predict(named).tobytes().hex()
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.feature_names_in_.tolist() == NAMES
    assert loaded.n_features_in_ == 6
    assert loaded.best_iteration_ == 6


def test_rankers_of_one_process_share_nothing(data):
    """A gain table or a metric of one must not leak into another, before, after or during."""
    settings = [
        {"metric": "ndcg@10"},
        {"metric": "ndcg@10(gain=linear)"},
        {"metric": "ndcg@10(gain=[0, 1, 1, 1, 9])"},
        {"metric": "dcg@3", "truncation": None},
        {"sigma": 3.0, "normalise": False},
        {"max_bins": 5, "random_state": 3, "subsample": 0.5},
    ]

    def fit(setting):
        return bits(Ranker(**QUICK, **setting, n_jobs=2).fit(data).model_.ensemble)

    alone = [fit(setting) for setting in settings]
    assert len({str(found) for found in alone}) == len(settings)
    assert [fit(setting) for setting in reversed(settings)] == alone[::-1]
    with ThreadPoolExecutor(len(settings)) as pool:
        assert list(pool.map(fit, settings * 3)) == alone * 3


def test_labels_of_many_grades_and_fractions_follow_the_gain(data, ranker):
    labels = np.arange(data.n_documents) % 100
    ranker.fit(data.features, labels, qid=data.qid)
    assert np.isfinite(ranker.predict(data)).all()
    ranker.fit(data.features, data.labels + 0.5, qid=data.qid)
    table = Ranker(**QUICK, metric="ndcg@10(gain=[0, 1, 3, 7, 15])")
    with pytest.raises(DataError, match="label"):
        table.fit(data.features, data.labels + 0.5, qid=data.qid)
    with pytest.raises(DataError, match="label"):
        table.fit(data.features, labels, qid=data.qid)


def test_dataset_is_left_as_it_was(data, ranker):
    before = [array.tobytes() for array in data._arrays()]
    ranker.fit(data, valid={"train": data})
    assert [array.tobytes() for array in data._arrays()] == before
    assert isinstance(data, Dataset)


def test_near_ranks_without_noise_that_have_no_pair_are_told_what_to_do():
    # In the worst order of equal scores the first two of each query are not relevant.
    features = np.random.default_rng(0).normal(size=(60, 3))
    labels, group = np.tile([0, 1, 0, 2, 0, 0], 10), [6] * 10
    how = {"noise": "none", "permutations": 1, "neighbours": 1, "n_estimators": 2}
    with pytest.warns(UserWarning, match="nothing to split by.*ties=stable"):
        Ranker("yetiloss", metric="ndcg@2", **how).fit(features, labels, group=group)
    ranker = Ranker("yetiloss", metric="ndcg@2(ties=stable)", **how)
    scores = ranker.fit(features, labels, group=group).predict(features)
    assert len(np.unique(scores)) > 1

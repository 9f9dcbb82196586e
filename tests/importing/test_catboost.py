"""CatBoost's models score as in CatBoost within 1e-12, or are refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from importing.samples import QUERY, catboost_model, catboost_text, make_data, probes
from rankgrove import import_model
from rankgrove.importing.check import score_bound
from rankgrove.model.files import ModelFileError

catboost = pytest.importorskip("catboost")

SETTINGS = {
    "yetirank": {},
    "querysoftmax": {"loss_function": "QueryRMSE"},
    "regression": {"loss_function": "RMSE"},
    "logistic": {"loss_function": "CrossEntropy"},
    "missing last": {"nan_mode": "Max"},
    "depthwise": {"grow_policy": "Depthwise"},
    "lossguide": {"grow_policy": "Lossguide", "max_leaves": 20, "nan_mode": "Max"},
    "deep": {"depth": 9},
    "stumps": {"depth": 1},
    "shrunk": {"loss_function": "RMSE", "langevin": True},
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_scores_are_those_of_catboost(name, seed, tmp_path):
    features, labels = make_data(seed)
    if name == "logistic":
        labels = labels / 3
    theirs = catboost_model(seed, data=(features, labels), **SETTINGS[name])
    model = import_model(catboost_text(theirs, tmp_path))
    for rows in (features, probes(model, seed)):
        raw = theirs.predict(rows, prediction_type="RawFormulaVal", thread_count=1)
        gap = np.abs(model.predict(rows) - raw).max()
        assert gap <= min(1e-12, score_bound(model))


def test_scale_and_bias_are_in_the_scores(tmp_path):
    theirs = catboost_model(loss_function="RMSE")
    theirs.set_scale_and_bias(2.5, -1.25)
    model = import_model(catboost_text(theirs, tmp_path))
    features = make_data(1)[0]
    raw = theirs.predict(features, prediction_type="RawFormulaVal")
    assert np.abs(model.predict(features) - raw).max() <= 1e-12
    assert model.notes["imported"]["constant"] == -1.25


def test_symmetric_trees_keep_the_order_of_their_leaves(tmp_path):
    theirs = catboost_model()
    text = catboost_text(theirs, tmp_path)
    model = import_model(text)
    first = json.loads(text)["oblivious_trees"][0]
    assert model.ensemble.tree(0).value.tolist() == first["leaf_values"]
    assert model.ensemble.tree(0).count.tolist() == first["leaf_weights"]
    from rankgrove.trees.predict import PreparedEnsemble

    assert PreparedEnsemble(model.ensemble)._oblivious.all()


def test_the_first_rounds_are_those_of_catboost(tmp_path):
    theirs = catboost_model()
    model = import_model(catboost_text(theirs, tmp_path), n_rounds=3)
    features = make_data(1)[0]
    raw = theirs.predict(features, prediction_type="RawFormulaVal", ntree_end=3)
    assert np.abs(model.predict(features) - raw).max() <= 1e-12


def test_names_are_kept_and_columns_without_one_have_their_place(tmp_path):
    import pandas as pd

    features, labels = make_data(0)
    frame = pd.DataFrame(features, columns=[f"name {n}" for n in range(7)])
    theirs = catboost_model(data=(frame, labels))
    model = import_model(catboost_text(theirs, tmp_path))
    assert model.feature_names == tuple(frame.columns)
    nameless = import_model(catboost_text(catboost_model(), tmp_path))
    assert nameless.feature_names == ("f1", "f2", "f3", "f4", "f5", "f6", "f7")


@pytest.mark.parametrize("one_hot", [0, 255])
def test_splits_by_category_are_refused_by_feature(one_hot, tmp_path):
    features, labels = make_data(0, missing=0)
    table = features.astype(object)
    table[:, 5] = [f"c{int(v)}" for v in features[:, 5]]
    model = catboost.CatBoost(
        {"iterations": 8, "depth": 3, "verbose": False, "allow_writing_files": False,
         "one_hot_max_size": one_hot, "thread_count": 1, "loss_function": "RMSE"}
    )  # fmt: skip
    model.fit(catboost.Pool(table, labels, cat_features=[5], group_id=QUERY))
    with pytest.raises(ModelFileError, match="must split by numbers only"):
        import_model(catboost_text(model, tmp_path))


def test_several_outputs_are_refused(tmp_path):
    model = catboost_model(loss_function="MultiClass")
    with pytest.raises(ModelFileError, match="one score per document"):
        import_model(catboost_text(model, tmp_path))

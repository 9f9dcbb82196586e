"""XGBoost's models: every document reaches the same leaves, and sums differ by float32 only."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from importing.samples import (
    CATEGORICAL,
    leaves_by_tree,
    make_data,
    probes,
    xgboost_booster,
    xgboost_margins,
)
from importing.test_lightgbm import frame_with_words
from rankgrove import import_model
from rankgrove.importing.check import score_bound
from rankgrove.model.files import ModelFileError

pytest.importorskip("xgboost")

SETTINGS = {
    "ndcg": {},
    "pairwise": {"objective": "rank:pairwise", "base_score": 0.25},
    "regression": {"objective": "reg:squarederror"},
    "absolute": {"objective": "reg:absoluteerror"},
    "poisson": {"objective": "count:poisson", "base_score": 2.0},
    "tweedie": {"objective": "reg:tweedie"},
    "gamma": {"objective": "reg:gamma"},
    "logistic": {"objective": "binary:logistic", "base_score": 0.2},
    "raw logistic": {"objective": "binary:logitraw", "base_score": 0.2},
    "hinge": {"objective": "binary:hinge"},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
    "exact": {"tree_method": "exact"},
    "approx": {"tree_method": "approx", "max_bin": 20},
    "one hot": {"max_cat_to_onehot": 50},
    "pruned": {"gamma": 0.3, "max_depth": 6, "tree_method": "exact"},
    "stumps": {"max_depth": 1},
    "one leaf": {"gamma": 1e9},
    "forest": {"num_parallel_tree": 3, "subsample": 0.5},
    "dart": {"booster": "dart", "rate_drop": 0.5, "one_drop": 1},
}
NUMERIC = ["float"] * 7


def trained(name, seed):
    features, labels = make_data(seed)
    if name in ("logistic", "raw logistic", "hinge"):
        labels = (labels > 1).astype(np.float32)
    if name == "gamma":
        labels = labels + 1
    types = NUMERIC if name in ("exact", "pruned") else None
    return (
        features,
        types,
        xgboost_booster(seed, data=(features, labels), types=types, **SETTINGS[name]),
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_document_reaches_the_leaf_that_it_reaches_in_xgboost(name, seed):
    features, types, booster = trained(name, seed)
    text = bytes(booster.save_raw("json")).decode()
    model = import_model(text)
    learner = json.loads(text)["learner"]["gradient_booster"]
    weights = learner.get("weight_drop", [])
    trees = learner.get("gbtree", learner)["model"]["trees"]
    n_constants = model.n_trees - len(trees)
    assert n_constants == int("constant" in model.notes["imported"])
    for rows in (features, probes(model, seed, least_category=0)):
        margins, leaves = xgboost_margins(booster, rows, types)
        ours = leaves_by_tree(model, rows)
        for number, tree in enumerate(trees):
            values = np.float32(tree["split_conditions"]).astype(np.float64)
            weight = float(np.float32(weights[number])) if weights else 1.0
            reached = leaves.reshape(len(rows), -1)[:, number].astype(int)
            assert np.array_equal(ours[:, n_constants + number], weight * values[reached])
        assert np.abs(model.predict(rows) - margins).max() <= score_bound(model) < 1e-3


@pytest.mark.parametrize("name", ["ndcg", "dart", "one leaf"])
def test_ubjson_gives_the_same_model_as_json(name):
    booster = trained(name, 0)[-1]
    from_json, from_ubj = (import_model(bytes(booster.save_raw(form))) for form in ("json", "ubj"))
    for array, other in zip(
        from_json.ensemble.arrays().values(), from_ubj.ensemble.arrays().values(), strict=True
    ):
        assert np.array_equal(array, other)
    assert from_json.schema == from_ubj.schema


def test_an_unknown_category_goes_left_though_missing_ones_go_right():
    features, labels = make_data(0, missing=0.3)
    booster = xgboost_booster(data=(features, labels), rounds=20)
    text = bytes(booster.save_raw("json")).decode()
    # Training without a missing category sends it left; so that both are apart, send it right.
    document = json.loads(text)
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        kinds = zip(tree["default_left"], tree["split_type"], strict=True)
        tree["default_left"] = [0 if kind else left for left, kind in kinds]
    changed = json.dumps(document)
    model = import_model(changed)
    assert all(len(model.schema.categories[feature]) == 256 for feature in CATEGORICAL)
    import xgboost

    rows = probes(model, least_category=0)
    rows[:, 5] = np.arange(len(rows)) % 256
    rows[::7, 5] = np.nan
    margins, _ = xgboost_margins(xgboost.Booster(model_file=bytearray(changed, "utf-8")), rows)
    assert np.abs(model.predict(rows) - margins).max() <= score_bound(model)


def test_contributions_are_those_of_xgboost():
    import xgboost

    features, labels = make_data(0)
    booster = xgboost_booster(data=(features, labels), types=NUMERIC)
    rows = xgboost.DMatrix(features, nthread=1, feature_types=NUMERIC)
    theirs = booster.predict(rows, pred_contribs=True)
    model = import_model(bytes(booster.save_raw("json")))
    assert np.allclose(model.contributions(features), theirs, atol=1e-4)
    assert model.notes["imported"]["documents_are"] == "weights of leaves times 1,000,000"


def test_the_categories_of_a_data_frame_are_given_as_what_they_are():
    import xgboost

    frame, labels = frame_with_words()
    frame["place"] = frame["place"].cat.rename_categories({"Ä": "a"})
    matrix = xgboost.DMatrix(frame, labels, enable_categorical=True, nthread=1)
    booster = xgboost.train({"max_depth": 4, "nthread": 1}, matrix, 8)
    model = import_model(bytes(booster.save_raw("json")))
    assert model.schema.levels_by_name == {"place": ("a", "app", "mail", "tv", "web", "x")}
    assert 7 * 39 + 3 in model.schema.categories[6]
    theirs = booster.predict(matrix)
    assert np.abs(model.predict(frame) - theirs).max() <= score_bound(model)


def test_categories_that_xgboost_does_not_keep_whole_are_refused_by_name():
    import xgboost

    frame, labels = frame_with_words()
    matrix = xgboost.DMatrix(frame, labels, enable_categorical=True, nthread=1)
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, matrix, 2)
    with pytest.raises(ModelFileError, match="feature 'place': rename its categories"):
        import_model(bytes(booster.save_raw("json")))


def test_early_stopping_is_told_and_the_best_rounds_can_be_taken():
    booster = xgboost_booster(rounds=9, num_parallel_tree=2)
    booster.set_attr(best_iteration="3")
    text = bytes(booster.save_raw("json"))
    whole, best = import_model(text), import_model(text, n_rounds=4)
    assert whole.notes["imported"]["best_rounds"] == 4
    assert (whole.n_trees, best.n_trees) == (19, 9)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"objective": "multi:softprob", "num_class": 4}, "a model of several classes"),
        ({"booster": "gblinear"}, "Got the booster 'gblinear'"),
    ],
)
def test_what_does_not_rank_or_has_no_trees_is_refused(settings, reason):
    with warnings.catch_warnings():
        # It says that a linear booster does not use max_depth.
        warnings.simplefilter("ignore")
        booster = xgboost_booster(types=NUMERIC, **settings)
    with pytest.raises(ModelFileError, match=reason):
        import_model(bytes(booster.save_raw("json")))


def test_an_objective_of_unknown_link_is_refused():
    text = bytes(xgboost_booster().save_raw("json")).decode()
    with pytest.raises(ModelFileError, match="Got 'rank:mystery'"):
        import_model(text.replace('"name":"rank:ndcg"', '"name":"rank:mystery"'))

"""LightGBM's models score bit for bit as in LightGBM, or are refused by name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from importing.samples import lightgbm_booster, make_data, probes
from rankgrove import import_model
from rankgrove.model.files import ModelFileError
from rankgrove.model.model import Model

pytest.importorskip("lightgbm")

SETTINGS = {
    "lambdarank": {},
    "xendcg": {"objective": "rank_xendcg"},
    "regression": {"objective": "regression"},
    "binary": {"objective": "cross_entropy"},
    "sqrt": {"objective": "regression", "reg_sqrt": True},
    "poisson": {"objective": "poisson"},
    "without missing": {"use_missing": False},
    "stumps": {"num_leaves": 2},
    "deep": {"num_leaves": 120, "min_data_in_leaf": 1},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "bagging": {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5},
    "extra": {"extra_trees": True, "max_bin": 15},
    "one hot": {"max_cat_to_onehot": 50},
    "no categories": {"categorical_feature": []},
    "monotone": {"monotone_constraints": [1, 0, 0, 0, 0, 0, 0]},
    "one leaf": {"min_gain_to_split": 1e9},
}


def same_bits(booster, model, features):
    theirs = booster.predict(features, raw_score=True, num_threads=1)
    assert np.array_equal(model.predict(features, n_jobs=1), theirs)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_scores_have_the_bits_of_lightgbm(name, seed):
    features, labels = make_data(seed)
    if name == "binary":
        labels = (labels > 1).astype(np.float32)
    booster = lightgbm_booster(seed, data=(features, labels), **SETTINGS[name])
    model = import_model(booster.model_to_string())
    same_bits(booster, model, features)
    same_bits(booster, model, probes(model, seed))
    assert model.n_trees == booster.num_trees()


def test_float64_features_are_rounded_to_float32_first():
    booster = lightgbm_booster()
    model = import_model(booster.model_to_string())
    wide = make_data(3)[0].astype(np.float64) * (1 + 1e-9)
    rounded = wide.astype(np.float32)
    theirs = booster.predict(rounded, raw_score=True, num_threads=1)
    assert np.array_equal(model.predict(wide), theirs)


def test_a_forest_gives_the_mean_of_its_trees_up_to_rounding():
    booster = lightgbm_booster(
        boosting="rf", bagging_fraction=0.5, bagging_freq=1, objective="regression"
    )
    model = import_model(booster.model_to_string())
    features = probes(model)
    theirs = booster.predict(features, num_threads=1)
    assert np.allclose(model.predict(features), theirs, rtol=0, atol=1e-14)
    assert model.notes["imported"]["averaged"] is True


def test_the_first_rounds_are_those_of_lightgbm():
    booster = lightgbm_booster()
    features = make_data(1)[0]
    model = import_model(booster.model_to_string(), n_rounds=3)
    theirs = booster.predict(features, raw_score=True, num_iteration=3, num_threads=1)
    assert np.array_equal(model.predict(features), theirs)
    assert model.notes["imported"]["rounds"] == 3


def test_zeros_that_are_missing_are_held_where_they_go_the_way_of_their_neighbours():
    features, labels = make_data(0, missing=0)
    features = np.abs(features)
    # No value is 0, so that the direction of 0 is never learned against its neighbours.
    features[:, :5] += 0.5
    booster = lightgbm_booster(data=(features, labels), zero_as_missing=True)
    text = booster.model_to_string()
    # Every split sends 0 left, where all lower values go.
    left = re.sub(r"decision_type=(.*)", lambda m: m[0].replace("4", "6"), text)
    model = import_model(left)
    import lightgbm

    same_bits(lightgbm.Booster(model_str=left), model, probes(model))


def test_zeros_that_go_away_from_their_neighbours_are_refused_by_name():
    features, labels = make_data(0)
    booster = lightgbm_booster(
        data=(features, labels), zero_as_missing=True, categorical_feature=[], num_leaves=31
    )
    with pytest.raises(ModelFileError, match=r"a split of feature 'Column_\d' in tree \d+ that"):
        import_model(booster.model_to_string())


def test_linear_trees_and_several_classes_are_refused():
    features, labels = make_data(0, missing=0)
    linear = lightgbm_booster(data=(features, labels), linear_tree=True, objective="regression")
    with pytest.raises(ModelFileError, match="train it with linear_tree=false"):
        import_model(linear.model_to_string())
    classes = lightgbm_booster(objective="multiclass", num_class=4)
    with pytest.raises(ModelFileError, match=r"one score per document\. Got 4"):
        import_model(classes.model_to_string())


SMALL = """tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=1
feature_names=bm25 shop

Tree=0
num_leaves=2
num_cat=1
split_feature=1
threshold=0
decision_type=1
left_child=-1
right_child=-2
leaf_value=1 -1
cat_boundaries=0 {n_words}
cat_threshold={words}

end of trees
"""


def by_category(words):
    return SMALL.format(n_words=len(words), words=" ".join(map(str, words)))


def test_up_to_256_categories_are_held_and_more_are_refused_by_name():
    model = import_model(by_category([0xFFFFFFFF] * 8))
    assert model.predict(np.float32([[0, 255], [0, 256], [0, np.nan]])).tolist() == [1, -1, -1]
    with pytest.raises(
        ModelFileError, match=r"at most 256 categories .* Got 288 for feature 'shop"
    ):
        import_model(by_category([0xFFFFFFFF] * 9))


def test_a_category_of_a_large_number_is_held_while_float32_is_exact():
    model = import_model(by_category([0] * 4000 + [1]))
    assert model.predict(np.float32([[0, 128_000], [0, 128_001]])).tolist() == [1, -1]
    with pytest.raises(ModelFileError, match="must have categories below 16,777,216"):
        import_model(by_category([0] * (1 << 19) + [1]))


def frame_with_words(seed=0):
    import pandas as pd

    features, labels = make_data(seed)
    words = np.array(["web", "app", "mail", "Ä", "tv", "x"])
    frame = pd.DataFrame(features[:, :5], columns=["bm25", "b", "c", "d", "e"])
    codes = np.nan_to_num(features[:, 5], nan=-1).astype(int)
    frame["place"] = pd.Categorical.from_codes(codes, categories=words)
    numbers = np.nan_to_num(features[:, 6], nan=-1).astype(int)
    frame["shop"] = pd.Categorical.from_codes(numbers, categories=[7 * n + 3 for n in range(40)])
    return frame, labels


def test_the_categories_of_a_data_frame_are_given_as_what_they_are():
    frame, labels = frame_with_words()
    booster = lightgbm_booster(data=(frame, labels), categorical_feature="auto")
    model = import_model(booster.model_to_string())
    assert model.feature_names == tuple(frame.columns)
    assert model.schema.levels_by_name == {"place": ("app", "mail", "tv", "web", "x", "Ä")}
    assert np.array_equal(model.predict(frame), booster.predict(frame, raw_score=True))
    assert np.any(model.ensemble.category_set >= 0)


def test_names_that_nobody_gave_become_ours_and_given_ones_stay():
    text = lightgbm_booster().model_to_string()
    assert import_model(text).feature_names == ("f1", "f2", "f3", "f4", "f5", "f6", "f7")
    names = list("abcdefg")
    assert import_model(text, feature_names=names).feature_names == tuple(names)


def test_counts_and_gains_are_those_of_lightgbm():
    booster = lightgbm_booster()
    model = import_model(booster.model_to_string())
    assert np.allclose(model.importance("gain"), booster.feature_importance("gain"), rtol=1e-4)
    assert np.array_equal(model.importance("split"), booster.feature_importance("split"))
    features = make_data(1)[0]
    theirs = booster.predict(features, pred_contrib=True)
    assert np.allclose(model.contributions(features), theirs, atol=1e-9)


def test_an_imported_model_comes_back_from_its_file(tmp_path):
    booster = lightgbm_booster()
    booster.save_model(tmp_path / "model.txt")
    model = import_model(tmp_path / "model.txt")
    assert len(model.notes["imported"]["sha256"]) == 64
    assert model.notes["imported"]["version"] == "v4"
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    features = make_data(2)[0]
    assert np.array_equal(loaded.predict(features), model.predict(features))
    assert loaded.notes == model.notes

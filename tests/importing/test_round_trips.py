"""What is imported and exported again scores as the library that trained it did."""

from __future__ import annotations

import numpy as np
import pytest

from importing.samples import (
    catboost_model,
    catboost_text,
    lightgbm_booster,
    make_data,
    probes,
    xgboost_booster,
    xgboost_margins,
)
from rankgrove import export_model, import_model
from rankgrove.testing.peers import import_peer

SEEDS = [0, 1, 2]


def in_lightgbm(model, path, features):
    """The scores in LightGBM of a model that was exported to it."""
    export_model(model, path, to="lightgbm", check=False)
    booster = import_peer("lightgbm").Booster(model_file=str(path))
    return booster.predict(features, raw_score=True, num_threads=1)


def without_tiny(features):
    """LightGBM takes values within 1e-35 of 0 for 0."""
    return np.where(np.abs(features) <= 1e-35, np.float32(0), features)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("settings", [{}, {"objective": "regression"}, {"max_cat_to_onehot": 50}])
def test_a_model_of_lightgbm_comes_back_to_it_bit_for_bit(settings, seed, tmp_path):
    pytest.importorskip("lightgbm")
    booster = lightgbm_booster(seed, **settings)
    model = import_model(booster.model_to_string())
    for features in (make_data(seed)[0], without_tiny(probes(model, seed))):
        theirs = booster.predict(features, raw_score=True, num_threads=1)
        assert np.array_equal(in_lightgbm(model, tmp_path / "model.txt", features), theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_of_xgboost_comes_back_to_it_within_its_rounding(seed, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    first = xgboost_booster(seed)
    first.save_model(tmp_path / "first.json")
    model = import_model(tmp_path / "first.json")
    export_model(model, tmp_path / "second.json", to="xgboost", check=False)
    second = xgboost.Booster(model_file=str(tmp_path / "second.json"))
    second.feature_names = None
    features = make_data(seed)[0]
    # Both add up some ten float32 leaves, the constant of the first among them.
    expected, found = (xgboost_margins(each, features)[0] for each in (first, second))
    np.testing.assert_allclose(found, expected, rtol=0, atol=12 * 2.0**-24 * np.abs(expected).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_of_catboost_goes_on_to_other_programs(seed, tmp_path):
    pytest.importorskip("catboost")
    pytest.importorskip("lightgbm")
    trained = catboost_model(seed)
    model = import_model(catboost_text(trained, tmp_path))
    features = without_tiny(make_data(seed)[0])
    theirs = trained.predict(features)
    found = in_lightgbm(model, tmp_path / "model.txt", features)
    np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-12)

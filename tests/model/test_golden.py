"""A file of format 1 must load, with these scores, in every later version."""

from __future__ import annotations

import numpy as np

from model.golden import FILE, ROWS, golden_model
from rankgrove.model.model import Model


def test_the_golden_file_loads_with_the_known_scores():
    model = Model.load(FILE)
    features = np.array([row for row, _ in ROWS])
    assert model.predict(features).tolist() == [score for _, score in ROWS]
    assert model.feature_names == ("f1", "language", "âge")
    assert model.schema == golden_model().schema
    assert model.parameters["gains"] == [0, 1, 3]
    assert repr(model.history) == repr(golden_model().history)
    assert repr(model) == "<Model: 3 trees, 6 leaves, 3 features, by Rankgrove 0.1.0>"


def test_the_golden_model_is_still_written_to_the_golden_bytes(tmp_path):
    golden_model().save(tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").read_bytes() == FILE.read_bytes()

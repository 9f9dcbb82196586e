"""`rankgrove.load`: the right model whatever a file holds; notes apart from parameters."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from model.file_samples import unpack, with_checksum
from model.samples import make_features, make_model
from rankgrove import CombinedModel, Model, load
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.base import ScoringModel
from rankgrove.model.files import FORMATS, ModelFileError
from rankgrove.model.schema import Schema

FEATURES = make_features()


@pytest.fixture
def stacked():
    """Trees on the scores of two models of trees."""
    parts = (make_model(1), make_model(2))
    return CombinedModel(parts, make_model(3, names=("a", "b"), categories={}))


def test_load_gives_the_class_of_what_the_file_holds(tmp_path, stacked):
    path = tmp_path / "m.safetensors"
    for model in (make_model(), stacked, CombinedModel(stacked.parts, weights=(0.25, -2))):
        model.save(path)
        loaded = load(str(path))
        assert type(loaded) is type(model)
        assert isinstance(loaded, ScoringModel)
        np.testing.assert_array_equal(loaded.predict(FEATURES), model.predict(FEATURES))
        first = path.read_bytes()
        loaded.save(path)
        assert path.read_bytes() == first


def test_trees_are_loaded_without_pytorch(tmp_path, stacked):
    make_model().save(tmp_path / "trees.safetensors")
    stacked.save(tmp_path / "stacked.safetensors")
    code = (
        "import sys; from rankgrove import load; [load(path) for path in sys.argv[1:]]; "
        "print('torch' in sys.modules)"
    )
    files = [tmp_path / "trees.safetensors", tmp_path / "stacked.safetensors"]
    result = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_every_format_has_a_class_that_reads_it():
    pytest.importorskip("torch")
    from rankgrove.model.base import model_class

    for name in FORMATS:
        assert model_class(name)._format == name


def test_what_is_no_model_file_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"1 qid:1 1:2\n" * 9)
    with pytest.raises(ModelFileError, match="must be a model file that Rankgrove saved"):
        load(path)
    with pytest.raises(ModelFileError, match="there is no such file"):
        load(tmp_path / "other.safetensors")
    make_model().save(path)
    with pytest.raises(ParameterError, match="module must be left out for a model of trees"):
        load(path, module=len)


# Notes.


def as_older_file(path):
    """The same file as an older version wrote it: its notes among the parameters."""
    metadata, tensors = unpack(path.read_bytes())
    parameters = json.loads(metadata["parameters"]) | json.loads(metadata.pop("notes"))
    metadata["parameters"] = json.dumps(parameters)
    path.write_bytes(with_checksum(metadata, tensors))


def noted_model():
    model = make_model()
    notes = {"n_base_trees": 2, "data_fingerprint": 7, "classes": ["a", "b"]}
    return Model(model.ensemble, model.schema, model.parameters, {}, notes=notes)


def test_notes_are_kept_apart_from_parameters(tmp_path):
    model, path = noted_model(), tmp_path / "m.safetensors"
    model.save(path)
    loaded = Model.load(path)
    as_older_file(path)
    for got in (loaded, Model.load(path)):
        assert got.notes == model.notes
        assert got.parameters == model.parameters
        assert (got.n_base_trees, got.n_own_trees) == (2, 4)


def test_a_model_without_notes_has_none_in_its_file(tmp_path):
    make_model().save(tmp_path / "m.safetensors")
    assert "notes" not in unpack((tmp_path / "m.safetensors").read_bytes())[0]


def test_parameters_that_are_called_as_notes_were_come_back_as_parameters(tmp_path):
    model = make_model()
    given = Model(model.ensemble, model.schema, {"classes": 3}, {})
    given.save(tmp_path / "m.safetensors")
    loaded = Model.load(tmp_path / "m.safetensors")
    assert (loaded.parameters, loaded.notes) == ({"classes": 3}, {})


@pytest.mark.parametrize("odd", [-1, 7, 2.5, "2", None, [2], {"a": 1}])
def test_a_note_that_cannot_be_counts_for_nothing(odd):
    model = make_model()
    noted = Model(model.ensemble, model.schema, {}, {}, notes={"n_base_trees": odd})
    assert (noted.n_base_trees, noted.n_own_trees) == (0, 6)


def test_notes_that_no_file_can_hold_are_refused():
    model = make_model()
    with pytest.raises(DataError, match="notes must be JSON values"):
        Model(model.ensemble, model.schema, {}, {}, notes={"n": float("nan")})


def test_final_metrics_are_those_after_the_last_tree_that_is_kept():
    model = make_model()
    history = {"vali": {"map": [0.1, 0.2, 0.3, 0.4, 0.5], "mrr": [0.9]}, "none": {}}
    noted = Model(model.ensemble, model.schema, {}, history, notes={"n_base_trees": 3})
    assert noted.final_metrics() == {"vali": {"map": 0.3}}
    only_base = Model(model.ensemble, model.schema, {}, history, notes={"n_base_trees": 6})
    assert only_base.final_metrics() == {}


# Combined models.


def test_a_weighted_sum_scores_and_explains_as_the_sum_of_its_parts(stacked):
    a, b = stacked.parts
    both = CombinedModel((a, b), weights=(0.25, -2.0))
    expected = 0.25 * a.predict(FEATURES) - 2.0 * b.predict(FEATURES)
    np.testing.assert_array_equal(both.predict(FEATURES), expected)
    parts = both.contributions(FEATURES)
    wanted = 0.25 * a.contributions(FEATURES) - 2.0 * b.contributions(FEATURES)
    np.testing.assert_array_equal(parts, wanted)
    np.testing.assert_allclose(parts.sum(axis=1), expected, rtol=1e-9, atol=1e-9)
    means = both.importance("contribution", FEATURES)
    np.testing.assert_allclose(means, np.abs(parts[:, :-1]).mean(axis=0))
    found = both.why(FEATURES, 3, 8)
    assert found.differences[-1].total == pytest.approx(expected[3] - expected[8])
    with pytest.raises(ParameterError, match="n_trees must be left out for a weighted sum"):
        both.predict(FEATURES, n_trees=1)
    with pytest.raises(ParameterError, match="data must be given for the importance"):
        both.importance()


def test_trees_on_scores_do_not_add_up_and_say_so(stacked):
    assert not stacked.adds_up
    for ask in (stacked.contributions, lambda data: stacked.why(data, 0, 1)):
        with pytest.raises(ParameterError, match="Got trees on the scores of other models: ask"):
            ask(FEATURES)


def test_parts_that_make_no_model_are_refused(stacked):
    a, b = stacked.parts
    for parts, top, weights, problem in (
        ((), None, (), "must be models of trees or networks"),
        ((a, stacked), None, (1, 1), "must be models of trees or networks"),
        ((a, b), None, None, "weights or a top. Got both or neither"),
        ((a, b), stacked.top, (1, 1), "weights or a top. Got both or neither"),
        ((a,), stacked.top, None, "must take the scores of its 1 parts"),
        ((a, b), None, (1,), "weights must be a finite number"),
        ((a, b), None, (1, float("inf")), "weights must be a finite number"),
    ):
        with pytest.raises((DataError, ParameterError), match=problem):
            CombinedModel(parts, top, weights)


def test_a_weighted_sum_with_base_scores_has_weights_that_add_up_to_one():
    a, b = (make_model(seed, needs_base_scores=True) for seed in (1, 2))
    with pytest.raises(ParameterError, match="must add up to 1"):
        CombinedModel((a, b), weights=(1.0, 1.0))
    both = CombinedModel((a, b), weights=(0.25, 0.75))
    base = np.arange(len(FEATURES)) / 8
    alone = both.predict(FEATURES, base_scores=0.0)
    np.testing.assert_allclose(both.predict(FEATURES, base_scores=base), alone + base)
    found = both.why(FEATURES, 9, 1, base_scores=base)
    by_name = {row.feature: row.difference for row in found.differences}
    assert by_name["(base score)"] == 1.0
    assert found.differences[-1].total == pytest.approx(found.score_a - found.score_b)


@pytest.mark.parametrize(
    "text",
    ['{"weights": [0.5]}', '{"weights": [0.5, null]}', '{"weights": 3}', "[1, 2]", "{}", "{",
     '{"weights": [1, ' + "9" * 400 + "]}", '{"weights": [1, NaN]}'],
)  # fmt: skip
def test_weights_that_are_none_are_refused(tmp_path, stacked, text):
    path = tmp_path / "m.safetensors"
    CombinedModel(stacked.parts, weights=(1.0, 2.0)).save(path)
    metadata, tensors = unpack(path.read_bytes())
    path.write_bytes(with_checksum(metadata | {"weights": text}, tensors))
    with pytest.raises(ModelFileError):
        load(path)


def test_a_part_of_an_unknown_format_is_refused(tmp_path, stacked):
    path = tmp_path / "m.safetensors"
    stacked.save(path)
    metadata, tensors = unpack(path.read_bytes())
    assert metadata["format_version"] == "1"
    for name in ("rankgrove.combined", "os.system"):
        path.write_bytes(with_checksum(metadata | {"part_1.format": name}, tensors))
        with pytest.raises(ModelFileError, match="must be made of trees and networks"):
            load(path)


def test_an_older_reader_is_told_by_the_version_that_it_cannot_read_weights(tmp_path, stacked):
    path = tmp_path / "m.safetensors"
    CombinedModel(stacked.parts, weights=(1.0, 2.0)).save(path)
    assert unpack(path.read_bytes())[0]["format_version"] == "2"
    metadata, tensors = unpack(path.read_bytes())
    path.write_bytes(with_checksum(metadata | {"format_version": "4"}, tensors))
    with pytest.raises(ModelFileError, match=r"of model format 3 or older\. Got format 4"):
        load(path)


def test_models_of_trees_have_one_more_kind_of_importance():
    model = make_model()
    found = model.importance("contribution", FEATURES)
    expected = np.abs(model.contributions(FEATURES)[:, :-1]).mean(axis=0)
    np.testing.assert_allclose(found, expected)
    empty = model.importance("contribution", FEATURES[:0])
    np.testing.assert_array_equal(empty, np.zeros(len(model.feature_names)))


def test_descriptions_tell_what_is_in_a_model(stacked):
    model = make_model()
    found = model.describe()
    assert (found["kind"], found["trees"], found["features"]) == ("model", 6, 5)
    assert found["most_leaves"] == 9
    assert found["categorical"] == ["language"]
    both = stacked.describe()
    assert (both["kind"], len(both["parts"]), both["trees"]) == ("combined", 2, 6)
    assert Schema(tuple(found["feature_names"]), model.schema.categories) == model.schema

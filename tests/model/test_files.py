"""Model files: the same model back, and one clear error for any other file."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from model.file_samples import pack, unpack, with_checksum
from model.samples import NAMES, make_features, make_model
from rankgrove.errors import DataError, ParameterError, RankgroveError
from rankgrove.model.files import ModelFileError
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    make_model().save(path)
    return path


@pytest.mark.parametrize("n_trees", [0, 1, 7])
@pytest.mark.parametrize("n_leaves", [1, 2, 30])
def test_a_model_comes_back_bit_for_bit(tmp_path, n_trees, n_leaves):
    model = make_model(3, n_trees, n_leaves, needs_base_scores=n_trees == 1)
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = Model.load(path)
    for name, array in model.ensemble.arrays().items():
        other = loaded.ensemble.arrays()[name]
        assert (other.dtype, other.shape) == (array.dtype, array.shape)
        assert other.tobytes() == array.tobytes()
    assert loaded.schema == model.schema
    assert loaded.parameters == model.parameters
    assert loaded.version == model.version
    features = make_features()
    scores = model.predict(features, base_scores=0.0)
    assert np.array_equal(loaded.predict(features, base_scores=0.0), scores)


def test_a_loaded_model_saves_to_the_same_bytes(saved, tmp_path):
    again = tmp_path / "again.safetensors"
    Model.load(str(saved)).save(str(again))
    assert again.read_bytes() == saved.read_bytes()


def test_the_same_model_gives_the_same_bytes_in_every_process(saved, tmp_path):
    other = tmp_path / "other.safetensors"
    code = "import sys; from rankgrove.model.model import Model; m, o = sys.argv[1:]; Model.load(m)"
    code += ".save(o)"
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, saved, other], check=True, env=environment)
        assert other.read_bytes() == saved.read_bytes()


def test_a_file_is_a_plain_safetensors_file(saved):
    arrays = safetensors.numpy.load_file(saved)
    assert arrays["value"].tobytes() == make_model().ensemble.value.tobytes()
    with safetensors.safe_open(saved, "np") as file:
        metadata = file.metadata()
    assert metadata["format"] == "rankgrove.model"
    assert metadata["format_version"] == "1"
    assert json.loads(metadata["parameters"]) == make_model().parameters
    assert json.loads(metadata["schema"])["feature_names"] == list(NAMES)


def test_history_keeps_its_bits_and_nan_survives_strict_json(saved):
    metadata, _ = unpack(saved.read_bytes())
    assert "NaN" not in metadata["history"]
    curve = Model.load(saved).history["vali"]["ndcg@10"]
    assert curve[:2] == [0.5, 0.625]
    assert math.isnan(curve[2])


def test_odd_names_and_values_survive(tmp_path):
    names = ("", "\x00", "né\u2028", "\ud800", '"}', "日本")
    history = {"\ud800": {"m": [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0]}}
    model = Model(Ensemble.from_trees([]), Schema(names), {"x": ["\x00", 2**70, None]}, history)
    model.save(tmp_path / "odd.safetensors")
    loaded = Model.load(tmp_path / "odd.safetensors")
    assert loaded.feature_names == names
    assert loaded.parameters == {"x": ["\x00", 2**70, None]}
    assert repr(loaded.history) == repr(history)


def test_an_existing_file_is_replaced_whole_and_nothing_is_left_beside(saved):
    make_model(1).save(saved)
    assert np.array_equal(Model.load(saved).ensemble.value, make_model(1).ensemble.value)
    assert os.listdir(saved.parent) == [saved.name]


def test_a_directory_or_a_place_that_is_not_there_cannot_be_written_to(tmp_path):
    with pytest.raises(DataError, match="is not a regular file"):
        make_model().save(tmp_path)
    with pytest.raises(DataError, match="cannot be written"):
        make_model().save(tmp_path / "no" / "model.safetensors")


@pytest.mark.parametrize("name", ["model.gz", "model.safetensors.zst"])
def test_a_compressed_name_is_refused(tmp_path, name):
    with pytest.raises(ParameterError, match=r"must not end in \.gz or \.zst"):
        make_model().save(tmp_path / name)
    assert os.listdir(tmp_path) == []


def refused(path):
    with pytest.raises(ModelFileError) as caught:
        Model.load(path)
    error = caught.value
    assert isinstance(error, RankgroveError)
    assert isinstance(error, ValueError)
    assert str(error) == f"{path}: {error.problem}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return error.problem


def test_a_missing_file_a_directory_and_an_impossible_path_are_refused(tmp_path):
    assert refused(str(tmp_path / "none")) == "there is no such file. Check the path."
    assert "Got a directory: name a file" in refused(str(tmp_path))
    assert "cannot be found" in refused(str(tmp_path / "a\x00b"))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    assert "Got a device or a pipe" in refused(path)
    assert "Got a device or a pipe" in refused("/dev/zero")


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    assert "Got an empty one. Get the file again" in refused(str(path))


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"1 qid:3 1:0.5\n" * 100,
        b"tree\nversion=v4\n" * 100,
        b"\x80\x04\x95" + bytes(100),
        bytes(1000),
        b"\xff" * 1000,
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (10**7).to_bytes(8, "little") + b"[" * 10**7,
        (2**60).to_bytes(8, "little") + b"{}",
        safetensors.numpy.save({"weight": np.zeros(3)}),
        safetensors.numpy.save({"weight": np.zeros(3)}, {"format": "pt"}),
    ],
)
def test_a_foreign_file_is_refused_as_such(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    assert "Got another kind of file: check the path" in refused(str(path))


def test_a_huge_foreign_file_is_not_read_whole(tmp_path):
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(1 << 42)
    assert "Got another kind of file" in refused(str(path))


@pytest.mark.parametrize("keep", [0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(len(content) * keep)])
    assert "must be whole" in refused(str(saved))


def test_a_file_with_more_at_its_end_is_refused(saved):
    saved.write_bytes(saved.read_bytes() + b"\n")
    assert "must be whole and undamaged" in refused(str(saved))


def test_a_changed_number_is_refused_by_the_checksum(saved):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    assert "must match its checksum. Got other content" in refused(str(saved))


def edited(path, edit):
    """Change the metadata and tensors of a file, and make its checksum right again."""
    metadata, tensors = unpack(path.read_bytes())
    edit(metadata, tensors)
    path.write_bytes(with_checksum(metadata, tensors))
    return path


def test_a_newer_format_is_refused_with_the_version_that_wrote_it(saved):
    edited(saved, lambda m, t: m.update(format_version="3", rankgrove_version="7.1"))
    problem = refused(str(saved))
    assert "Got format 3, written by Rankgrove 7.1: update Rankgrove" in problem


def test_a_newer_format_is_named_even_if_its_checksum_is_made_otherwise(saved):
    metadata, tensors = unpack(saved.read_bytes())
    saved.write_bytes(pack(metadata | {"format_version": "3"}, tensors))
    assert "Got format 3" in refused(str(saved))


@pytest.mark.parametrize("version", ["", "0", "-1", "1.5", "x", "²", "9" * 5000])
def test_a_format_version_that_is_no_number_is_refused(saved, version):
    edited(saved, lambda m, t: m.update(format_version=version))
    assert "format_version of 1 or more" in refused(str(saved))


def test_metadata_and_schema_entries_of_later_releases_are_ignored(saved):
    def edit(metadata, tensors):
        metadata["colour"] = "green"
        metadata["schema"] = json.dumps(json.loads(metadata["schema"]) | {"units": ["m"]})

    model = Model.load(edited(saved, edit))
    assert np.array_equal(model.predict(make_features()), make_model().predict(make_features()))


@pytest.mark.parametrize("key", ["schema", "parameters", "history"])
@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"a": NaN}', "[" * 10**5, '"x"'])
def test_metadata_that_are_not_the_json_they_should_be_are_refused(saved, key, text):
    edited(saved, lambda m, t: m.update({key: text}))
    assert f"must hold the {key} of the model as JSON" in refused(str(saved))


@pytest.mark.parametrize(
    "change",
    [
        {"feature_names": "abcde"},
        {"feature_names": None},
        {"feature_names": ["a", "a", "b", "c", "d"]},
        {"feature_names": ["a", "b", "c", "d", 5]},
        {"feature_names": ["a", "b", "c"]},
        {"categories": []},
        {"categories": {}},
        {"categories": {"2": 5}},
        {"categories": {"2": ["a"]}},
        {"categories": {"2": [True]}},
        {"categories": {"2": [1, 1]}},
        {"categories": {"2": [10**400]}},
        {"categories": {"2": list(range(300))}},
        {"categories": {"-2": [1]}},
        {"categories": {"9": [1]}},
        {"categories": {"²": [1]}},
        {"categories": {"1" * 5000: [1]}},
        {"needs_base_scores": 1},
        {"levels": []},
        {"levels": {"2": "abcd"}},
        {"levels": {"2": ["a", "b", "c"]}},
        {"levels": {"2": ["a", "b", "c", "d"]}, "categories": {"2": [0, 1, 2, 4]}},
        {"levels": {"2": ["b", "a", "c", "d"]}, "categories": {"2": [0, 1, 2, 3]}},
        {"levels": {"2": ["a", "a", "c", "d"]}, "categories": {"2": [0, 1, 2, 3]}},
        {"levels": {"2": ["a", 1, "c", "d"]}, "categories": {"2": [0, 1, 2, 3]}},
        {"levels": {"2": [None, "b", "c", "d"]}, "categories": {"2": [0, 1, 2, 3]}},
        {"levels": {"2": [0.5, 1.5, 2.5, 3.5]}, "categories": {"2": [0, 1, 2, 3]}},
        {"levels": {"2": [["a"], "b", "c", "d"]}, "categories": {"2": [0, 1, 2, 3]}},
        {"levels": {"9": []}},
        {"levels": {"-1": []}},
    ],
)
def test_a_schema_that_breaks_a_rule_is_refused(saved, change):
    def edit(metadata, tensors):
        metadata["schema"] = json.dumps(json.loads(metadata["schema"]) | change)

    assert "Get the file again" in refused(str(edited(saved, edit)))


@pytest.mark.parametrize(
    "history", ['{"a": 1}', '{"a": {"b": 1}}', '{"a": {"b": ["x"]}}', '{"a": {"b": [1e999]}}']
)
def test_a_history_that_is_no_history_is_refused(saved, history):
    edited(saved, lambda m, t: m.update(history=history))
    assert "history of numbers" in refused(str(saved))


@pytest.mark.parametrize(
    "edit",
    [
        lambda t: t.pop("gain"),
        lambda t: t.update(more=np.zeros(3)),
        lambda t: t.update(gain=t["gain"].astype(np.float32)),
        lambda t: t.update(gain=t["gain"].astype(np.float16)),
        lambda t: t.update(gain=t["gain"][:-1]),
        lambda t: t.update(gain=t["gain"][:, np.newaxis]),
        lambda t: t.update(value=t["value"] * np.nan),
        lambda t: t.update(feature=t["feature"] + 100),
        lambda t: t.update(left=t["left"] * 0),
        lambda t: t.update(right=t["left"]),
        lambda t: t.update(split_offsets=t["split_offsets"][::-1].copy()),
        lambda t: t.update(category_sets=t["category_sets"][:0]),
        lambda t: t.update(category_sets=t["category_sets"][:, :4].copy()),
        lambda t: t.update(category_set=t["category_set"] * 0),
    ],
)
def test_trees_that_are_no_trees_are_refused_though_the_checksum_is_right(saved, edit):
    edited(saved, lambda m, t: edit(t))
    assert "Get the file again" in refused(str(saved))


def test_a_header_that_gives_an_absurd_shape_is_refused(saved):
    content = saved.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for shape in ([2**62], [2**62, 2**62], [-1], [0] * 100, [0, 2**62]):
        header["category_sets"]["shape"] = shape
        text = json.dumps(header).encode()
        saved.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
        refused(str(saved))

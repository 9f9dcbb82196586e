"""Files of networks: the same bits in another process, and a clear word for any other file."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from model.file_samples import unpack, with_checksum
from neural.samples import make_parts
from rankgrove import LambdaRank, Model, Ranker, RankNet
from rankgrove.errors import ParameterError
from rankgrove.model.files import ModelFileError
from rankgrove.neural import NetworkModel

QUICK = {"max_epochs": 2, "batch_queries": 8}


@pytest.fixture(scope="module")
def parts():
    return make_parts()


@pytest.fixture(scope="module")
def saved(parts, tmp_path_factory):
    """A network on trees in a file, with its data."""
    train, test = parts
    path = tmp_path_factory.mktemp("networks") / "network.safetensors"
    trees = Ranker(n_estimators=3).fit(train)
    fitted = LambdaRank(hidden=(6, 4), dropout=0.1, **QUICK)
    fitted.fit(train, valid=test, base_model=trees)
    fitted.save(path)
    return fitted, path


def make_own(n_inputs):
    return nn.Sequential(nn.Linear(n_inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


@pytest.mark.parametrize("transform", ["quantile", "log1p", "standard", None])
@pytest.mark.parametrize("hidden", [(), (5, 3)])
def test_a_network_comes_back_bit_for_bit(parts, tmp_path, transform, hidden):
    train, test = parts
    fitted = RankNet(transform=transform, hidden=hidden, **QUICK).fit(train, valid=test)
    path = tmp_path / "network.safetensors"
    fitted.save(path)
    loaded = RankNet.load(path)
    np.testing.assert_array_equal(loaded.predict(test), fitted.predict(test))
    assert loaded.history_ == fitted.history_
    assert loaded.best_iteration_ == 2
    assert loaded.get_params() == fitted.get_params()
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_another_process_gives_the_same_bits(saved, parts, tmp_path):
    fitted, path = saved
    _, test = parts
    np.save(tmp_path / "x.npy", test.features)
    code = (
        "import sys, numpy as np\n"
        "from rankgrove.neural import NetworkModel\n"
        "x = np.load(sys.argv[2])\n"
        "scores = NetworkModel.load(sys.argv[1]).predict(x, n_jobs=2)\n"
        "np.save(sys.argv[3], scores)\n"
    )
    command = [sys.executable, "-c", code, path, tmp_path / "x.npy", tmp_path / "scores.npy"]
    subprocess.run(command, check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), fitted.predict(test))


def test_the_trees_below_a_network_are_in_its_file(saved, parts):
    fitted, path = saved
    loaded = NetworkModel.load(path)
    assert loaded.base.n_trees == 3
    np.testing.assert_array_equal(loaded.predict(parts[1]), fitted.predict(parts[1]))
    assert repr(loaded).startswith("<NetworkModel: ")
    assert "on 3 trees" in repr(loaded)


def test_a_file_of_the_one_kind_is_not_taken_for_the_other(saved, parts, tmp_path):
    trees = tmp_path / "trees.safetensors"
    Ranker(n_estimators=2).fit(parts[0]).save(trees)
    with pytest.raises(ModelFileError, match=r"must be a network. Got a model of trees: load it"):
        NetworkModel.load(trees)
    with pytest.raises(ModelFileError, match=r"must be a model of trees. Got a network: load it"):
        Model.load(saved[1])
    with pytest.raises(ParameterError, match="Got one of lambdarank"):
        RankNet.load(saved[1])


def test_a_base_model_may_be_a_file_of_either_kind(saved, parts, tmp_path):
    train, test = parts
    trees = tmp_path / "trees.safetensors"
    ranker = Ranker(n_estimators=2).fit(train)
    ranker.save(trees)
    own = RankNet(**QUICK).fit(train, base_model=trees)
    same = RankNet(**QUICK).fit(train, base_model=ranker)
    np.testing.assert_array_equal(own.predict(test), same.predict(test))
    on_network = RankNet(**QUICK).fit(train, base_model=saved[1])
    assert on_network.model_.schema.needs_base_scores


def test_a_module_of_ones_own_must_be_given_again(parts, tmp_path):
    train, test = parts
    fitted = RankNet(module=make_own, **QUICK).fit(train)
    path = tmp_path / "own.safetensors"
    fitted.save(path)
    with pytest.raises(ParameterError, match=r"module must be given to load .*Sequential"):
        NetworkModel.load(path)
    loaded = RankNet.load(path, module=make_own)
    np.testing.assert_array_equal(loaded.predict(test), fitted.predict(test))
    again = make_own(fitted.model_.transform.n_inputs)
    np.testing.assert_array_equal(
        NetworkModel.load(path, again).predict(test), fitted.predict(test)
    )
    for other in (lambda n: nn.Linear(n, 1), lambda n: make_own(n + 1)):
        with pytest.raises(ParameterError, match="module must be the one that"):
            NetworkModel.load(path, other)


def test_a_module_is_not_taken_for_a_file_that_needs_none(saved):
    with pytest.raises(ParameterError, match="module must be left out"):
        NetworkModel.load(saved[1], make_own)


def test_weights_of_a_kind_that_files_lack_are_refused(parts, tmp_path):
    class Flagged(nn.Linear):
        def __init__(self, n):
            super().__init__(n, 1)
            self.register_buffer("flag", torch.tensor([True]))

    fitted = RankNet(module=Flagged, **QUICK).fit(parts[0])
    with pytest.raises(ParameterError, match=r"Got torch.bool in 'flag'"):
        fitted.save(tmp_path / "own.safetensors")


def test_any_truncated_file_is_refused(saved, tmp_path):
    content = saved[1].read_bytes()
    path = tmp_path / "cut.safetensors"
    for length in [0, 1, 7, 8, 9, 100, *range(200, len(content), len(content) // 40)]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"cut.safetensors: must be"):
            NetworkModel.load(path)


def test_any_flipped_bit_is_refused_or_changes_nothing(saved, parts, tmp_path):
    fitted, path = saved
    content, expected = path.read_bytes(), fitted.predict(parts[1])
    rng = np.random.default_rng(0)
    damaged = tmp_path / "flipped.safetensors"
    refused = 0
    for at in rng.integers(0, len(content), size=200):
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        damaged.write_bytes(bytes(changed))
        try:
            scores = NetworkModel.load(damaged).predict(parts[1])
        except ModelFileError:
            refused += 1
        else:
            np.testing.assert_array_equal(scores, expected)
    assert refused > 150


class Trap:
    """Says so when a pickle of it is read."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


def test_a_foreign_file_is_refused_and_no_pickle_is_read(tmp_path):
    path = tmp_path / "foreign.safetensors"
    for content in (pickle.dumps(Trap()), b"2 qid:1 1:0.5\n" * 30, b"{}", bytes(64)):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="must be a model file"):
            NetworkModel.load(path)
    torch.save({"weights": torch.zeros(3)}, path)
    with pytest.raises(ModelFileError, match="must be a model file"):
        NetworkModel.load(path)
    with pytest.raises(ModelFileError, match="no such file"):
        NetworkModel.load(tmp_path / "none.safetensors")


def changed_metadata(**changes):
    def change(metadata, tensors):
        for key, update in changes.items():
            metadata[key] = json.dumps(json.loads(metadata[key]) | update)

    return change


def without(name):
    def change(metadata, tensors):
        del tensors[name]

    return change


def with_tensor(name, make):
    def change(metadata, tensors):
        tensors[name] = make(tensors[name])

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed_metadata(architecture={"hidden": [6]}),
        changed_metadata(architecture={"hidden": [1 << 40, 1 << 40]}),
        changed_metadata(architecture={"hidden": [6.5, 4]}),
        changed_metadata(architecture={"hidden": "64"}),
        changed_metadata(architecture={"activation": "eval"}),
        changed_metadata(architecture={"dropout": 2}),
        changed_metadata(architecture={"n_inputs": 3}),
        changed_metadata(transform={"kind": "other"}),
        changed_metadata(transform={"kind": None}),
        changed_metadata(schema={"feature_names": ["a"]}),
        changed_metadata(base_schema={"feature_names": ["a"]}),
        changed_metadata(base={"parameters": 3}),
        without("module.0.weight"),
        without("transform.means"),
        without("base.feature"),
        with_tensor("module.0.weight", lambda a: a.astype(np.float64)),
        with_tensor("module.0.weight", lambda a: a.T),
        with_tensor("module.0.weight", lambda a: a * np.float32(np.nan)),
        with_tensor("transform.scales", np.zeros_like),
        with_tensor("transform.means", lambda a: a[:-1]),
        with_tensor("transform.indicated", lambda a: np.array([99], dtype=np.int64)),
    ],
)
def test_a_file_with_a_right_checksum_and_wrong_content_is_refused(saved, tmp_path, change):
    metadata, tensors = unpack(saved[1].read_bytes())
    change(metadata, tensors)
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(with_checksum(metadata, tensors))
    with pytest.raises(ModelFileError):
        NetworkModel.load(path)


def test_a_newer_format_is_refused(saved, tmp_path):
    metadata, tensors = unpack(saved[1].read_bytes())
    path = tmp_path / "new.safetensors"
    path.write_bytes(with_checksum(metadata | {"format_version": "2"}, tensors))
    with pytest.raises(ModelFileError, match="update Rankgrove"):
        NetworkModel.load(path)

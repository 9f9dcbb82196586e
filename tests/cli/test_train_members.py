"""`rankgrove train` with several models that become one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli.samples import fails, interrupt
from rankgrove import Ranker, load, read_data

QUICK = ["--n-estimators", "3", "-o", "m.safetensors"]


@pytest.fixture
def train(cli, trained):
    """Trains on the sample with these options; gives what was printed."""

    def call(*args):
        result = cli("train", trained / "train.txt", *QUICK, *args)
        assert result.exit_code == 0, result.stderr
        return result

    return call


def test_the_model_is_that_of_the_library(train, trained):
    result = train("--valid", trained / "vali.txt", "--members", "2", "--mix", "yetirank,queryrmse")
    data, vali = (read_data(trained / f"{part}.txt") for part in ("train", "vali"))
    ranker = Ranker(n_estimators=3, members=2, mix="yetirank,queryrmse")
    ranker.fit(data, valid={"vali": vali})
    model = load("m.safetensors")
    np.testing.assert_array_equal(model.predict(vali), ranker.predict(vali))
    assert model.history == ranker.history_
    assert "Trained 4 members" in result.stdout
    assert "Members: 2 of yetirank, 2 of queryrmse." in result.stdout
    assert "12 trees" in result.stdout


def test_json_has_members_and_kinds(train, trained):
    told = json.loads(train("--members", "2", "--json").stdout)
    assert told["members"] == 2
    assert told["kinds"] == {"yetirank": 2}
    assert told["trees"] == 6
    assert told["plan"]["kinds"]["yetirank"]["members"] == 2


def test_inspect_shows_members_and_what_folds_said(train, trained, cli):
    result = train("--valid", trained / "vali.txt", "--mix", "auto", "--refit")
    assert "on held-out folds" in result.stderr
    assert "mix: " in result.stderr
    page = cli("inspect", "m.safetensors").stdout
    assert "ndcg@10, held out" in page
    assert "yetirank" in page
    notes = json.loads(cli("inspect", "m.safetensors", "--json").stdout)["notes"]
    assert notes["recipe"] == {"effort": "low", "members": "auto", "mix": "auto", "refit": True}


def test_going_on_takes_the_recipe_of_the_checkpoint(train, trained, cli):
    train("--members", "3")
    whole = load("m.safetensors").ensemble.value
    train("--members", "3", "--checkpoint", "c.safetensors")
    train("--resume", "c.safetensors")
    np.testing.assert_array_equal(load("m.safetensors").ensemble.value, whole)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--members", "0"], "--members must be a whole number, 1 or more. Got 0"),
        (["--mix", "yetirnk"], "did you mean 'yetirank'"),
        (["--mix", "queryrmse", "--objective", "yetirank"], "--objective must be left out"),
        (["--refit"], "--refit must have validation data"),
        (["--effort", "some"], "--effort must be one of low, medium, high"),
        (["--members", "2", "--dask", "local:1"], "--members must be used without --dask"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(cli, trained, options, words, tmp_path):
    out = tmp_path / "model.safetensors"
    fails(cli("train", trained / "train.txt", "-o", out, *options), 2, words)
    assert not out.exists()


def test_ctrl_c_keeps_the_finished_members(trained, tmp_path):
    checkpoint = tmp_path / "c.safetensors"
    out = tmp_path / "model.safetensors"
    arguments = ["train", trained / "train.txt", "--members", "200", "--n-estimators", "100",
                 "--checkpoint", checkpoint, "-o", out]  # fmt: skip
    code, told = interrupt([str(argument) for argument in arguments], tmp_path, checkpoint.exists)
    assert code == 130
    assert "go on with --resume" in told
    assert 0 < load(out).n_members < 200

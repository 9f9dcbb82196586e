"""`rankgrove distil`: what it writes, what it says, what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from cli.samples import fails
from rankgrove import Model, distil, read_data
from rankgrove.experiments.distil import distil as module

SMALL = ("--n-estimators", 6, "--max-leaves", 8, "--min-samples-leaf", 5)


def test_the_student_is_that_of_the_library(cli_json, trained):
    files = [trained / name for name in ("model.safetensors", "train.txt", "vali.txt")]
    told = cli_json(
        "distil", *files[:2], "--valid", files[2], *SMALL, "-m", "ndcg@5", "-o", "s.safetensors"
    )
    options = {"n_estimators": 6, "max_leaves": 8, "min_samples_leaf": 5}
    train, vali = (read_data(path, n_features=16) for path in files[1:])
    found = distil(Model.load(files[0]), train, valid=vali, metrics="ndcg@5", parameters=options)
    written = Model.load("s.safetensors")
    assert np.array_equal(written.predict(vali), found.model.predict(vali))
    assert told["agreement"] == found.agreement
    assert told["comparison"] == found.comparison.to_dict(pairs=True)
    assert told["sizes"]["student"]["trees"] == written.n_trees == 6
    assert told["notes"]["distilled_from"]["checksum"] == Model.load(files[0]).checksum
    assert told["bytes"] == Path("s.safetensors").stat().st_size
    assert told["data"]["queries"] == train.n_queries
    assert not told["interrupted"]


def test_the_table_says_what_is_lost_and_gained(cli, trained):
    result = cli(
        "distil", trained / "model.safetensors", trained / "train.txt", *SMALL, "-o",
        "s.safetensors",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["ndcg@10", "map", "mrr", "err"]
    assert [line.split()[0] for line in lines[1:3]] == ["teacher", "student"]
    assert "95 % interval" in result.stdout
    assert "tau" in result.stdout
    assert lines[-1].startswith("Wrote s.safetensors: ")
    assert cli("inspect", "s.safetensors").exit_code == 0


def test_a_table_without_labels_will_do(cli_json, trained):
    data = read_data(trained / "train.txt", n_features=16)
    with open("unjudged.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["qid", *Model.load(trained / "model.safetensors").feature_names])
        for qid, row in zip(data.qid, data.features.tolist(), strict=True):
            rows.writerow([qid, *row])
    told = cli_json(
        "distil", trained / "model.safetensors", "unjudged.csv", *SMALL, "-o", "s.safetensors"
    )
    assert told["comparison"] is None
    assert told["agreement"] > 0.3


def test_ctrl_c_writes_the_trees_so_far(cli, trained, monkeypatch):
    def interrupting(callbacks):
        def stop(run):
            if run.n_steps == 2:
                raise KeyboardInterrupt

        return [stop]

    monkeypatch.setattr(module, "gather_callbacks", interrupting)
    result = cli(
        "distil", trained / "model.safetensors", trained / "train.txt", *SMALL, "-o",
        "s.safetensors",
    )  # fmt: skip
    assert result.exit_code == 130
    assert "interrupted before the last tree: s.safetensors has 2 trees." in result.stderr
    assert Model.load("s.safetensors").n_trees == 2


def test_ctrl_c_before_the_first_tree_writes_nothing(cli, trained, monkeypatch):
    def at_once(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankgrove.training.run.Run.advance", at_once)
    result = cli(
        "distil", trained / "model.safetensors", trained / "train.txt", "-o", "s.safetensors"
    )
    assert result.exit_code == 130
    assert "before the first tree: nothing was written." in result.stderr
    assert not Path("s.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "code", "parts"),
    [
        (["--constraints", "map>=0.5"], 2, ["--constraints must be left out"]),
        (["--objective", "lambdamart"], 2, ["--objective must be left out: a student"]),
        (["--max-epochs", "3"], 2, ["a parameter of a student", "max_epochs"]),
        (["--held-out", "1"], 2, ["--held-out must be a number above 0 and below 1. Got 1.0."]),
        (["--made", "many"], 2, ["--made must be a whole number, 0 or more, or 'auto'"]),
        (["--n-estimators", "0"], 2, ["--n-estimators must be"]),
        (["-m", "ndgc"], 2, ["ndgc"]),
        (["-n", "1"], 2, ["No such option"]),
    ],
)
def test_what_is_wrong_is_said_before_the_work(cli, trained, options, code, parts):
    call = ("distil", trained / "model.safetensors", trained / "train.txt", "-o", "s.safetensors")
    fails(cli(*call, *options), code, *parts)
    assert not Path("s.safetensors").exists()


def test_help_has_what_a_student_takes_with_its_defaults(cli):
    page = cli("distil", "--help").stdout
    words = " ".join(page.replace("│", " ").split())
    assert "Trees, at most. By default 300." in words
    for name in ("--objective", "--metric ", "--constraints", "--hidden", "networks"):
        assert name not in words


def test_the_teacher_is_not_written_over(cli, trained):
    model = trained / "model.safetensors"
    fails(
        cli("distil", model, trained / "train.txt", "-o", model), 2,
        "--out must not be a file that is read",
    )  # fmt: skip


def test_data_of_other_features_are_refused(cli, trained, data):
    call = ("distil", trained / "model.safetensors", data, "-o", "s.safetensors")
    fails(cli(*call), 1, "must have the 16 features of the model. Got 2")


def test_binned_data_are_refused(cli, trained):
    cli("bin", trained / "train.txt", "-o", "train.bins")
    call = ("distil", trained / "model.safetensors", "train.bins", "-o", "s.safetensors")
    fails(cli(*call), 1, "must be a data file with features. Got binned data")

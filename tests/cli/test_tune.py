"""`rankgrove tune`: the protocol by options, its files, going on, what is refused."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cli.samples import fails, interrupt
from rankgrove import Model

QUICK = ["--trials", "3", "--random", "2", "--n-estimators", "6", "--min-samples-leaf", "1"]


@pytest.fixture
def tune(trained):
    return ["tune", trained / "train.txt", "--valid", trained / "vali.txt", *QUICK]


def trials_in(path):
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as base:
        try:
            return base.execute("SELECT COUNT(*) FROM trials").fetchone()[0]
        except sqlite3.Error:
            return 0


def test_best_parameters_are_written_and_train_takes_them(cli, cli_json, tune, trained, tmp_path):
    found = cli_json(*tune)
    assert found["metric"] == "ndcg@10"
    assert found["best"]["parameters"]["objective"] == "yetirank"
    assert [trial["drawn_by"] for trial in found["trials"]] == ["random", "random", "tpe"]
    best = json.loads((tmp_path / "best.json").read_text())
    assert found["best"]["parameters"] == best
    assert best["n_estimators"] == found["best"]["trees"] <= 6
    args = ["train", trained / "train.txt", "--valid", trained / "vali.txt"]
    done = cli(*args, "--params", "best.json", "-o", "m.safetensors")
    assert done.exit_code == 0, done.stderr
    history = Model.load("m.safetensors").history["vali"]["ndcg@10"]
    assert history[-1] == found["best"]["value"]


def test_the_table_shows_the_best_and_says_what_was_written(cli, tune):
    done = cli(*tune, "--out", "here.json", "--model", "m.safetensors")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:3] == ["trial", "ndcg@10", "trees"]
    assert "kept in here.db" in done.stdout
    assert "rankgrove train --params here.json" in done.stdout
    best = json.loads(Path("here.json").read_text())
    assert Model.load("m.safetensors").n_trees == best["n_estimators"]
    assert "3/3 trials  best ndcg@10" in done.stderr


def test_the_same_command_again_goes_on(cli, cli_json, tune, tmp_path):
    cli(*tune, "--trials", "1", "--out", "a.json")
    assert trials_in(tmp_path / "a.db") == 1
    again = cli_json(*tune, "--out", "a.json")
    once = cli_json(*tune, "--out", "b.json")
    for key in ("value", "parameters", "trees"):
        assert [t[key] for t in again["trials"]] == [t[key] for t in once["trials"]]


def test_options_of_training_are_held(cli_json, tune):
    options = ["--objective", "yetirank", "--metric", "err", "--grower", "leafwise", "--l2", "3"]
    found = cli_json(*tune, *options, "--max-depth", "none")
    best = found["best"]["parameters"]
    assert (best["objective"], best["grower"], best["l2"]) == ("yetirank", "leafwise", 3.0)
    assert best["max_depth"] is None
    assert found["metric"] == "err"
    assert found["trials"][0]["parameters"].keys() == {"learning_rate", "max_leaves"}


def test_validation_may_have_a_metric_of_its_own(cli_json, tune):
    found = cli_json(*tune, "--eval-metric", "err", "--metric", "ndcg@5", "--trials", "1")
    assert found["metric"] == "err"
    assert found["best"]["parameters"]["metric"] == "ndcg@5"


def test_a_file_holds_parameters_and_another_says_what_is_drawn(cli_json, tune, write):
    space = {"learning_rate": {"low": 0.1, "high": 0.2}, "max_leaves": {"choices": [4, 8]}}
    files = [write("held.toml", "l2 = 2.0\n"), write("space.json", json.dumps(space))]
    found = cli_json(*tune, "--params", files[0], "--space", files[1])
    assert found["best"]["parameters"]["l2"] == 2.0
    for trial in found["trials"]:
        assert trial["parameters"]["max_leaves"] in (4, 8)
        assert 0.1 <= trial["parameters"]["learning_rate"] <= 0.2


def test_folds_take_the_place_of_validation(cli_json, trained):
    found = cli_json("tune", trained / "train.txt", *QUICK, "--folds", "2", "--trials", "1")
    assert len(found["trials"]) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "space.json: must be sound JSON"),
        ("[1]", "space.json: must be an object"),
        ('{"learning_rat": {"low": 0.1, "high": 1}}', "did you mean 'learning_rate'"),
        ('{"max_leaves": [8, "log"]}', "space.json: the space of max_leaves must be of valid"),
        ('{"max_leaves": {"low": 8}}', "space.json: the space of max_leaves must be (low, high)"),
    ],
)
def test_spaces_that_are_wrong_are_refused(cli, tune, write, content, problem, tmp_path):
    result = cli(*tune, "--space", write("space.json", content))
    assert result.exit_code in (1, 2)
    assert problem in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["space.json"]


def test_wrong_calls_are_refused_before_the_work(cli, tune, trained):
    fails(cli(*tune, "--sampler", "tep"), 2, "did you mean 'tpe'")
    fails(cli(*tune, "--folds", "2"), 2, "Got both")
    fails(cli(*tune, "--objective", "lamdamart"), 2, "did you mean 'lambdamart'")
    fails(cli(*tune, "--eval-metric", "err,map"), 2, "--eval-metric must be one metric")
    fails(cli(*tune, "--out", "a.json", "--storage", "a.json"), 2, "must be two files")
    fails(cli(*tune, "--out", trained / "train.txt"), 2, "--out must not be a file that is read")
    fails(cli(*tune, "--storage", trained / "vali.txt"), 2, "--storage must not be a file that is")
    fails(cli(*tune, "--early-stopping-rounds", "0"), 2, "--early-stopping-rounds must be a whole")


def test_places_that_cannot_be_used_are_refused(cli, tune, write):
    fails(cli(*tune, "--out", "no/best.json"), 1, "no/best.json: cannot be written")
    fails(cli(*tune, "--storage", "no/s.db"), 1, "no/s.db: cannot be written")
    notes = write("notes.db", "these are my notes and no study")
    fails(cli(*tune, "--storage", notes), 1, "notes.db: must be a study of rankgrove tune")
    assert notes.read_text() == "these are my notes and no study"


def test_a_study_about_something_else_is_refused(cli, tune):
    assert cli(*tune, "--trials", "1").exit_code == 0
    fails(cli(*tune, "--metric", "err"), 1, "best.db: study 'rankgrove' must go on with the metric")


def test_validation_of_other_features_is_refused(cli, trained, write):
    narrow = write("narrow.txt", "1 qid:1 1:1\n0 qid:1 1:2\n")
    args = ["tune", trained / "train.txt", "--valid", narrow, *QUICK]
    fails(cli(*args), 1, "narrow.txt: must have the 16 features", "--n-features 16")


def test_help_lists_what_is_held_and_how_trials_go(cli):
    shown = cli("tune", "--help").stdout
    for option in ("--trials", "--random", "--storage", "--objective", "--n-estimators"):
        assert option in shown


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_writes_the_best_so_far_and_the_same_command_goes_on(trained, tmp_path, cli_json):
    files = [str(trained / "train.txt"), "--valid", str(trained / "vali.txt")]
    command = ["tune", *files, *QUICK, "--n-estimators", "300", "--early-stopping-rounds", "none"]
    command += ["--trials", "40"]
    path = tmp_path / "best.db"
    code, said = interrupt(command, tmp_path, lambda: trials_in(path) >= 1)
    done = trials_in(path)
    best = json.loads((tmp_path / "best.json").read_text())
    assert code == 130
    assert said == (
        f"rankgrove: interrupted after {done} of 40 trials: best.json has the best so far; the "
        f"same command again goes on."
    )
    # The last --trials counts.
    again = cli_json(*command, "--trials", str(done))
    assert again["best"]["parameters"] == best

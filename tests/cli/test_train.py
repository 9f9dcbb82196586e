"""`rankgrove train`: its options, its files, what it refuses, and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import fields

import numpy as np
import pytest

from cli.samples import fails, held_pipe, interrupt, make_parts
from rankgrove import Ranker, read_data
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.files import write_data
from rankgrove.model.model import Model

QUICK = ["--n-estimators", "3", "-o", "m.safetensors"]


@pytest.fixture
def train(cli, trained):
    """Trains on the sample with these options; gives the model."""

    def call(*args):
        result = cli("train", trained / "train.txt", *QUICK, *args)
        assert result.exit_code == 0, result.stderr
        return Model.load("m.safetensors")

    return call


def test_model_is_that_of_the_library(train, trained):
    model = train("--learning-rate", "0.3", "--max-leaves", "7", "--valid", trained / "vali.txt")
    data, vali = (read_data(trained / f"{part}.txt") for part in ("train", "vali"))
    ranker = Ranker(n_estimators=3, learning_rate=0.3, max_leaves=7).fit(data, valid={"vali": vali})
    np.testing.assert_array_equal(model.predict(vali), ranker.predict(vali))
    assert model.parameters == ranker.model_.parameters
    assert model.history == ranker.history_


def test_every_parameter_is_an_option(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    page = cli("train", "--help").stdout
    for field in fields(Parameters):
        assert re.search(rf"--{field.name.replace('_', '-')} +\S+ +[A-Z]", page), field.name


def test_help_says_what_is_left_to_training_and_keeps_brackets(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    page = " ".join(re.sub(r"[│╭╮╰╯─]", " ", cli("train", "--help").stdout).split())
    assert "Lines 'qid better worse [probability [weight]]'" in page
    assert "By default yetirank, or yetiloss with a --metric, or lambdamart" in page
    assert "or all of a level by one cut. One of leafwise, depthwise, oblivious." in page
    assert "Count only pairs whose better-ranked document" in page
    for meaning in (
        "Of stochasticrank: the scale of the noise.",
        "Of softmax, listnet and listmle: what",
    ):
        assert meaning in page
    assert "Of networks: step of the optimiser. By default 0.003." in page


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("--max-depth", "none", None),
        ("--max-depth", "4", 4),
        ("--truncation", "None", None),
        ("--normalise", "false", False),
        ("--learning-rate", "2e-1", 0.2),
        ("--l2", "1", 1.0),
        ("--grower", "depthwise", "depthwise"),
        ("--categorical", "f3, f7", ["f3", "f7"]),
        ("--monotone", "f1=1,f2=-1", {"f1": 1, "f2": -1}),
        ("--eval-metric", "map, ndcg@5(ties=expected, empty=one)",
         ["map", "ndcg@5(ties=expected, empty=one)"]),
    ],
)  # fmt: skip
def test_option_reaches_the_model(train, option, text, value):
    name = option.removeprefix("--").replace("-", "_")
    assert getattr(Parameters.from_json(train(option, text).parameters), name) == value


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.json", '{"learning_rate": 0.3, "max_depth": null, "categorical": ["f3"]}'),
        ("p.toml", 'learning_rate = 0.3\nmax_depth = "none"\ncategorical = ["f3"]\n'),
        ("p.toml", 'learning_rate = 0.3\ncategorical = "f3"\n'),
    ],
)
def test_parameters_come_from_a_file_and_options_go_before_it(train, write, name, content):
    model = train("--params", write(name, content))
    assert model.parameters["learning_rate"] == 0.3
    assert model.parameters["max_depth"] is None
    assert model.parameters["categorical"] == ["f3"]
    model = train("--params", name, "--learning-rate", "0.4")
    assert (model.parameters["learning_rate"], model.parameters["categorical"]) == (0.4, ["f3"])


def test_parameters_of_a_model_are_a_file_of_parameters(train, cli_json, write):
    first = train("--learning-rate", "0.3", "--monotone", "f1=1", "--truncation", "none")
    shown = cli_json("inspect", "m.safetensors")["parameters"]
    assert train("--params", write("p.json", json.dumps(shown))).parameters == first.parameters


def test_summary_has_sizes_metrics_time_and_the_file(cli, trained):
    result = cli(
        "train", trained / "train.txt", "--valid", trained / "vali.txt", *QUICK,
        "--eval-metric", "ndcg@5,map",
    )  # fmt: skip
    lines = result.stdout.splitlines()
    parts = make_parts()
    history = Model.load("m.safetensors").history["vali"]
    assert lines[0].split() == ["file", "documents", "queries", "features", "ndcg@5", "map"]
    assert lines[1].split()[1:] == [str(parts["train"].n_documents), "36", "16"]
    values = [f"{history[metric][-1]:.4f}" for metric in ("ndcg@5", "map")]
    assert lines[2].split()[1:] == [str(parts["vali"].n_documents), "12", "16", *values]
    assert re.fullmatch(r"Grew 3 trees in \S+ s\.", lines[4])
    assert re.fullmatch(r"Wrote m.safetensors: 3 trees, \d+ leaves, [\d,]+ bytes\.", lines[5])
    assert "3/3 trees" in result.stderr


def test_json_has_the_summary(cli_json, trained):
    got = cli_json("train", trained / "train.txt", "--valid", trained / "vali.txt", *QUICK)
    model = Model.load("m.safetensors")
    assert (got["trees"], got["features"], got["interrupted"]) == (3, 16, False)
    assert got["valid"]["vali"]["metrics"] == {"ndcg@10": model.history["vali"]["ndcg@10"][-1]}
    assert got["parameters"].items() <= model.parameters.items()
    assert got["bytes"] == os.path.getsize("m.safetensors")
    assert set(got["seconds"]) == {"read", "train"}


def test_early_stopping_keeps_the_trees_up_to_the_best(cli, cli_json, trained):
    args = [
        "train", trained / "train.txt", "--valid", trained / "vali.txt", "-o", "m.safetensors",
        "--early-stopping-rounds", "4", "--learning-rate", "0.5",
    ]  # fmt: skip
    got = cli_json(*args)
    model = Model.load("m.safetensors")
    curve = model.history["vali"]["ndcg@10"]
    assert got["stopped_early"]
    assert (got["trees"], got["trees_grown"]) == (curve.index(max(curve)) + 1, len(curve))
    assert got["valid"]["vali"]["metrics"]["ndcg@10"] == max(curve)
    page = cli(*args).stdout
    assert f"of which the first {model.n_trees} are kept. Validation did not improve" in page


def test_validation_sets_are_named_by_their_files(train, trained, tmp_path):
    other = tmp_path / "other.vali.txt"
    other.write_bytes((trained / "vali.txt").read_bytes())
    sets = ["--valid", trained / "vali.txt", "--valid", other, "--valid", trained / "train.txt"]
    assert list(train(*sets).history) == ["vali", "other.vali", "train"]
    same = tmp_path / "vali.txt"
    same.write_bytes(other.read_bytes())
    sets = ["--valid", trained / "vali.txt", "--valid", same]
    assert list(train(*sets).history) == [str(trained / "vali.txt"), str(same)]


@pytest.mark.parametrize("n_jobs", ["1", "2"])
def test_number_of_threads_does_not_change_the_file(train, tmp_path, n_jobs):
    train()
    expected = (tmp_path / "m.safetensors").read_bytes()
    train("--n-jobs", n_jobs)
    assert (tmp_path / "m.safetensors").read_bytes() == expected


def test_resumed_run_gives_the_file_of_a_whole_one(train, cli, trained, tmp_path):
    valid = ["--valid", trained / "vali.txt", "--learning-rate", "0.2", "--monotone", "f1=1"]
    model = train(*valid, "--checkpoint", "c.safetensors", "--checkpoint-every", "2")
    assert (model.n_trees, Model.load("c.safetensors").n_trees) == (3, 2)
    whole = (tmp_path / "m.safetensors").read_bytes()
    # The parameters are those of the checkpoint.
    result = cli(
        "train", trained / "train.txt", "--valid", trained / "vali.txt", "-o", "r.safetensors",
        "--resume", "c.safetensors",
    )  # fmt: skip
    assert "Grew 1 tree after the first 2 in" in result.stdout
    assert (tmp_path / "r.safetensors").read_bytes() == whole


def test_checkpoint_of_another_run_is_refused(train, cli, trained, write):
    train("--checkpoint", "c.safetensors", "--checkpoint-every", "2")
    train_file, go_on = trained / "train.txt", ["-o", "r.safetensors", "--resume", "c.safetensors"]
    fails(cli("train", train_file, *go_on, "--learning-rate", "0.3"), 2, "learning_rate=0.3")
    fails(cli("train", trained / "test.txt", *go_on), 1, "other training data")
    fails(cli("train", train_file, *go_on, "--valid", train_file), 1, "validation sets")
    fails(cli("train", train_file, *go_on, "--n-estimators", "1"), 2, "--n-estimators must be")
    fails(cli("train", train_file, "-o", "r", "--resume", train_file), 1, "must be a model file")


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["--learning-rate", "abc"], ["--learning-rate must be a finite number", "'abc'"]),
        (["--learning-rate", "0"], ["--learning-rate must be a finite number above 0. Got 0.0"]),
        (["--n-estimators", "1.5"], ["--n-estimators must be a whole number", "'1.5'"]),
        (["--max-depth", "0"], ["--max-depth must be", "1 or more, or none for no limit"]),
        (["--normalise", "maybe"], ["--normalise must be true or false. Got 'maybe'."]),
        (["--grower", "leafwize"], ["--grower must be one of", "did you mean 'leafwise'?"]),
        (["--objective", "lambdamort"], ["did you mean 'lambdamart'?"]),
        (["--objective", "LambdaMART"], ["did you mean 'lambdamart'?"]),
        (["--objective", "lambdrank"], ["did you mean 'lambdarank'?"]),
        (["--truncation", "0"], ["--truncation must be a whole number", "or none for"]),
        (["--metric", "ndgc"], ["metric must be one of", "did you mean 'ndcg'?"]),
        (["--eval-metric", ","], ["--eval-metric must name at least one metric"]),
        (["--monotone", "f1"], ["--monotone must be NAME=1 or NAME=-1", "'f1'"]),
        (["--monotone", "g1=1"], ["a feature of --monotone must be one of f1", "'g1'"]),
        (["--categorical", "f1,f1"], ["--categorical must name a feature once"]),
        (["--categorical", "f1", "--monotone", "f1=1"], ["must not be categorical"]),
        (["--early-stopping-rounds", "5"], ["--early-stopping-rounds must be used with --valid"]),
        (["--n-jobs", "0"], ["--n-jobs must be"]),
        (["--params", "p.yaml"], ["--params must be a file .json or .toml. Got 'p.yaml'."]),
        (["--group", "g", "--valid", "v"], ["--group must be used without --valid"]),
        (["--valid", "v", "--valid", "v"], ["each --valid must be another file"]),
    ],
)
def test_wrong_value_is_refused_under_the_name_of_its_option(cli, trained, args, parts):
    result = cli("train", trained / "train.txt", "-o", "m.safetensors", *args)
    fails(result, 2, *parts)
    assert not os.path.exists("m.safetensors")


@pytest.mark.parametrize(
    ("name", "content", "code", "problem"),
    [
        ("p.json", '{"learning_rat": 1}', 2, "there is no parameter 'learning_rat'; did you mean"),
        ("p.json", '{"zzz": 1}', 2, "parameter must be one of objective, metric"),
        ("p.json", '{"learning_rate": "x"}', 2, "learning_rate must be a finite number"),
        ("p.json", '{"monotone": 3}', 2, "monotone must be a mapping"),
        ("p.json", '{"eval_metric": 3}', 2, "a metric must be named like"),
        ("p.json", '{"metric": 3}', 2, "a metric must be named like"),
        ("p.json", '{"learning_rate": 1', 1, "must be sound JSON"),
        ("p.json", "[1]", 1, "must be an object"),
        ("p.json", "", 1, "must be sound JSON"),
        ("p.toml", "learning_rate = ", 1, "must be sound TOML"),
        ("p.toml", b"\xff = 1", 1, "must be sound TOML"),
    ],
)
def test_wrong_file_of_parameters_is_refused_and_named(
    cli, trained, write, name, content, code, problem
):
    write(name, content)
    result = cli("train", trained / "train.txt", "-o", "m.safetensors", "--params", name)
    fails(result, code, f"{name}: ", problem)


def test_missing_file_of_parameters_is_an_error(cli, trained):
    result = cli("train", trained / "train.txt", "-o", "m.safetensors", "--params", "absent.json")
    fails(result, 1, "absent.json: there is no such file")


@pytest.mark.parametrize("option", ["--out", "--checkpoint"])
def test_file_that_cannot_be_written_is_refused_before_training(cli, trained, tmp_path, option):
    def call(path):
        rest = [] if option == "--out" else ["-o", "m.safetensors"]
        # Data that are not there are not even looked for.
        return cli("train", "absent.txt", option, path, *rest)

    (tmp_path / "folder").mkdir()
    fails(call("folder"), 1, "folder: is a directory")
    fails(call("no/such/m"), 1, "no/such/m: cannot be written: No such file or directory.")
    fails(call("m.safetensors.gz"), 2, f"{option} must not end in .gz")
    fails(call("/dev/null"), 1, "/dev/null: is not a regular file")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes anywhere")
def test_directory_without_permission_is_refused(cli, trained, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    fails(cli("train", trained / "train.txt", "-o", "closed/m"), 1, "closed/m: cannot be written")


def test_data_are_not_overwritten_by_the_model(cli, trained, tmp_path):
    data = tmp_path / "train.txt"
    data.write_bytes((trained / "train.txt").read_bytes())
    fails(cli("train", "train.txt", "-o", "./train.txt"), 2, "--out must not be a file that is")
    (tmp_path / "link.txt").symlink_to(data)
    fails(cli("train", "train.txt", "-o", "m", "--checkpoint", "link.txt"), 2, "--checkpoint must")
    assert data.read_bytes() == (trained / "train.txt").read_bytes()


def test_earlier_model_is_replaced(train, tmp_path):
    (tmp_path / "m.safetensors").write_text("old")
    assert train().n_trees == 3


def test_validation_of_other_features_is_refused(cli, trained, write):
    narrow = write("narrow.txt", "1 qid:1 1:1\n0 qid:1 1:2\n")
    args = ["train", trained / "train.txt", *QUICK, "--valid", narrow]
    fails(cli(*args), 1, "narrow.txt: must have the 16 features", "Got 1", "--n-features 16")
    assert cli(*args, "--n-features", "16").exit_code == 0


def test_validation_without_labels_is_refused(cli, trained, write):
    parts = make_parts()
    write_data(parts["train"], "train.csv")
    names = ",".join(parts["train"].feature_names)
    write("vali.csv", f"qid,{names}\n1{',0.5' * 16}\n")
    result = cli("train", "train.csv", *QUICK, "--valid", "vali.csv")
    fails(result, 1, "vali.csv: the label column must be one of qid", "Got 'label'")


def test_validation_that_cannot_be_measured_is_refused_and_named(cli, trained, write):
    zeros = write("zeros.txt", "0 qid:1 16:1\n0 qid:1 16:2\n")
    args = ["train", trained / "train.txt", *QUICK, "--valid", zeros]
    fails(cli(*args), 1, "zeros.txt: ndcg@10 must have at least one query", "empty=zero")
    assert cli(*args, "--eval-metric", "ndcg@10(empty=zero)").exit_code == 0


def test_columns_of_validation_are_found_by_name(cli, write):
    rows = [(label, 1 + n // 4, n, -n) for n, label in enumerate([2, 0, 1, 0] * 30)]
    write("a.csv", "label,qid,up,down\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows))
    write("b.csv", "down,x,up,qid,label\n" + "".join(f"{d},7,{c},{b},{a}\n" for a, b, c, d in rows))
    assert cli("train", "a.csv", "--valid", "b.csv", "--valid", "a.csv", *QUICK).exit_code == 0
    history = Model.load("m.safetensors").history
    assert history["b"] == history["a"]


@pytest.mark.parametrize("content", ["", "no data\n"])
def test_data_that_are_none_are_refused(cli, write, content):
    fails(cli("train", write("bad.txt", content), *QUICK), 1, "bad.txt")


def test_model_in_the_place_of_data_is_told_apart(cli, trained):
    model, data = trained / "model.safetensors", trained / "train.txt"
    problem = "model.safetensors: must be a data file. Got a model"
    fails(cli("train", model, *QUICK), 1, problem)
    fails(cli("train", data, "--valid", model, *QUICK), 1, problem)
    fails(cli("convert", model, "out.csv"), 1, problem)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_keeps_the_trees_so_far(trained, tmp_path, cli):
    args = ["--valid", str(trained / "vali.txt"), "--n-estimators", "100000"]
    command = ["train", str(trained / "train.txt"), *args, "-o", "m.safetensors"]
    checkpoint = ["--checkpoint", "c.safetensors", "--checkpoint-every", "5"]
    is_ready = (tmp_path / "c.safetensors").exists
    code, said = interrupt([*command, *checkpoint], tmp_path, is_ready)
    model = Model.load(tmp_path / "m.safetensors")
    assert (code, said) == (
        130,
        f"rankgrove: interrupted after {model.n_trees} trees: m.safetensors has {model.n_trees} "
        f"of them; go on with --resume c.safetensors.",
    )
    assert len(model.history["vali"]["ndcg@10"]) == model.n_trees >= 5
    more = ["--n-estimators", str(model.n_trees + 2), "-o", "r.safetensors"]
    for file in ("m.safetensors", "c.safetensors"):
        result = cli(*command[:4], *more, "--resume", file)
        assert f"Grew 2 trees after the first {model.n_trees} in" in result.stdout, result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_before_the_first_tree_writes_nothing(tmp_path):
    with held_pipe(tmp_path) as is_read:
        code, said = interrupt(["train", "pipe", "-o", "m.safetensors"], tmp_path, is_read)
    assert (code, said) == (
        130, "rankgrove: interrupted before the first tree: nothing was written."
    )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]

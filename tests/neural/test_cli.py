"""Networks on the command line: train, score, evaluate, inspect."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import numpy as np
import pytest
from typer.testing import CliRunner

from neural.samples import make_parts
from rankgrove import LambdaRank, Ranker, RankNet, read_data, write_letor
from rankgrove.cli.main import app
from rankgrove.experiments.cross_validation import cross_validate
from rankgrove.neural import NetworkModel
from rankgrove.training.network_parameters import NetworkParameters

QUICK = ["--max-epochs", "2", "--hidden", "6"]


@pytest.fixture
def cli(monkeypatch, tmp_path):
    """Calls the command in an empty directory with train.txt and vali.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    for name, part in zip(("train", "vali"), make_parts(20), strict=True):
        write_letor(part, tmp_path / f"{name}.txt")

    def call(*args):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def train(cli, *args):
    result = cli("train", "train.txt", "-o", "m.safetensors", *args)
    assert result.exit_code == 0, result.stderr
    return result


def test_every_parameter_of_a_network_is_an_option(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    page = cli("train", "--help").stdout
    for field in fields(NetworkParameters):
        assert re.search(rf"--{field.name.replace('_', '-')} +\S+ +\S", page), field.name


def test_a_network_is_that_of_the_library(cli):
    train(cli, *QUICK, "--objective", "lambdarank", "--metric", "err", "--valid", "vali.txt",
          "--learning-rate", "0.01", "--transform", "none")  # fmt: skip
    data, vali = read_data("train.txt"), read_data("vali.txt")
    own = LambdaRank(
        hidden=(6,), max_epochs=2, metric="err", learning_rate=0.01, transform=None
    ).fit(data, valid={"vali": vali})
    loaded = NetworkModel.load("m.safetensors")
    np.testing.assert_array_equal(loaded.predict(vali), own.predict(vali))
    assert loaded.parameters == own.model_.parameters
    assert loaded.history == own.history_


def test_scores_and_metrics_of_a_network(cli):
    train(cli, *QUICK, "--objective", "ranknet")
    vali = read_data("vali.txt")
    result = cli("score", "m.safetensors", "vali.txt")
    np.testing.assert_array_equal(
        [float(line) for line in result.stdout.splitlines()],
        NetworkModel.load("m.safetensors").predict(vali),
    )
    found = cli("evaluate", "m.safetensors", "vali.txt", "-m", "ndcg@5", "--json")
    value = json.loads(found.stdout)["metrics"]["ndcg@5"]["mean"]
    ranker = RankNet(hidden=(6,), max_epochs=2, metric="ndcg@5").fit(read_data("train.txt"))
    assert value == ranker.score(vali)
    refused = cli("score", "m.safetensors", "vali.txt", "--n-trees", "3")
    assert "--n-trees must be left out for a network" in refused.stderr


def test_what_training_shows(cli):
    result = train(cli, *QUICK, "--objective", "ranknet", "--valid", "vali.txt")
    assert "Trained 2 epochs in" in result.stdout
    assert "Wrote m.safetensors: " in result.stdout
    assert "2/2 epochs" in result.stderr
    shown = json.loads(
        train(cli, *QUICK, "--objective", "ranknet", "--valid", "vali.txt", "--json").stdout
    )
    assert shown["kind"] == "network"
    assert shown["epochs"] == 2
    assert shown["parameters"]["hidden"] == [6]
    assert shown["valid"]["vali"]["metrics"].keys() == {"ndcg@10"}


def test_what_inspect_shows_of_a_network(cli):
    train(cli, *QUICK, "--objective", "ranknet", "--valid", "vali.txt")
    page = cli("inspect", "m.safetensors").stdout
    assert re.search(r"weights +\d+ +by Rankgrove", page)
    assert re.search(r"hidden +6\n", page)
    found = json.loads(cli("inspect", "m.safetensors", "--json").stdout)
    assert found["kind"] == "network"
    assert found["epochs"] == 2


def test_parameters_may_come_from_a_file(cli, tmp_path):
    values = {"objective": "ranknet", "hidden": [3], "max_epochs": 2}
    (tmp_path / "p.json").write_text(json.dumps(values))
    train(cli, "--params", "p.json", "--max-epochs", "1")
    parameters = NetworkModel.load("m.safetensors").parameters
    assert parameters["objective"] == "ranknet"
    assert parameters["hidden"] == [3]
    assert parameters["max_epochs"] == 1


def test_a_linear_model_is_asked_for_by_none(cli):
    train(cli, "--objective", "ranknet", "--hidden", "none", "--max-epochs", "1")
    loaded = NetworkModel.load("m.safetensors")
    assert loaded.n_weights == loaded.transform.n_inputs


def test_base_models_of_either_kind(cli):
    data = read_data("train.txt")
    Ranker(n_estimators=2).fit(data).save("trees.safetensors")
    train(cli, *QUICK, "--objective", "ranknet", "--base-model", "trees.safetensors")
    assert NetworkModel.load("m.safetensors").base.n_trees == 2
    assert cli("evaluate", "m.safetensors", "vali.txt").exit_code == 0
    result = cli("train", "train.txt", "-o", "t.safetensors", "--n-estimators", "2",
                 "--base-model", "m.safetensors")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    refused = cli("score", "t.safetensors", "vali.txt")
    assert "must have base scores" in refused.stderr


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--objective", "ranknet", "--max-leaves", "3"], "--max-leaves must be left out for a"),
        (["--hidden", "3"], "--hidden must be used with --objective ranknet or lambdarank"),
        (["--objective", "ranknet", "--hidden", "3,x"], "--hidden must be widths with commas"),
        (["--objective", "ranknet", "--dropout", "2"], "and below 1. Got 2.0."),
        (["--objective", "ranknet", "--activation", "x"], "--activation must be one of relu"),
        (["--objective", "ranknet", "--resume", "x"], "--resume must be left out for a network"),
        (["--objective", "ranknet", "--checkpoint", "x"], "--checkpoint must be left out for a"),
        (["--objective", "ranknet", "--early-stopping-rounds", "3"], "must be used with --valid"),
        (["--params", "bad.json"], "did you mean 'hidden'"),
    ],
)
def test_a_wrong_call_is_refused(cli, tmp_path, args, problem):
    (tmp_path / "bad.json").write_text('{"objective": "ranknet", "hiden": [3]}')
    result = cli("train", "train.txt", "-o", "m.safetensors", *args)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_networks_are_cross_validated_beside_trees(cli, tmp_path):
    network = {"objective": "lambdarank", "max_epochs": 2, "hidden": [6]}
    (tmp_path / "net.json").write_text(json.dumps(network))
    (tmp_path / "trees.json").write_text('{"n_estimators": 2}')
    args = ["cv", "train.txt", "--folds", "2", "-m", "ndcg@10", "--json"]
    both = json.loads(cli(*args, "--params", "net.json", "--params", "trees.json").stdout)
    assert list(both["estimators"]) == ["net", "trees"]
    alone = json.loads(cli(*args, *QUICK, "--objective", "lambdarank").stdout)
    assert alone["estimators"] == {"lambdarank": both["estimators"]["net"]}
    own = cross_validate(LambdaRank(hidden=(6,), max_epochs=2), read_data("train.txt"), "ndcg@10",
                         folds=2)  # fmt: skip
    assert alone["estimators"]["lambdarank"] == own.to_dict()["LambdaRank"]
    refused = cli(*args, "--hidden", "3")
    assert "--hidden must be used with --objective ranknet or lambdarank" in refused.stderr


def test_a_network_is_explained_on_data(cli):
    train(cli, *QUICK, "--objective", "ranknet")
    model, vali = NetworkModel.load("m.safetensors"), read_data("vali.txt")
    for args, problem in (
        ([], "DATA must be given for a network"),
        (["--tree", "0"], "--tree must be used with a model of trees. Got a network"),
    ):
        refused = cli("explain", "m.safetensors", *args)
        assert refused.exit_code == 2
        assert problem in refused.stderr
    worth = json.loads(cli("explain", "m.safetensors", "vali.txt", "--json").stdout)
    adds = dict(zip(model.feature_names, model.importance("contribution", vali), strict=True))
    assert {row["feature"]: row["adds"] for row in worth["drops"]} == adds
    assert "adds" in cli("explain", "m.safetensors", "vali.txt").stdout


def test_a_document_of_a_query_is_explained_by_a_network(cli):
    train(cli, *QUICK, "--objective", "ranknet")
    model, vali = NetworkModel.load("m.safetensors"), read_data("vali.txt")
    part = vali.take_queries([1])
    order = np.argsort(-model.predict(part), kind="stable")
    call = ("explain", "m.safetensors", "vali.txt", "--query", str(part.query_ids[0]))
    ranking = json.loads(cli(*call, "--json").stdout)["ranking"]
    first = int(vali.offsets[1])
    assert [row["row"] for row in ranking] == (first + order).tolist()
    found = json.loads(cli(*call, "--document", "2", "--top", "99", "--json").stdout)
    parts = model.contributions(part)[order[1]]
    assert found["expected"] == parts[-1]
    assert sum(row["contribution"] for row in found["contributions"]) == pytest.approx(
        parts[:-1].sum()
    )
    assert "(of a median document)" in cli(*call, "--document", "2").stdout
    why = json.loads(cli(*call, "--why", "1", "2", "--top", "99", "--json").stdout)
    wanted = model.why(part, *order[:2].tolist())
    assert [row["difference"] for row in why["differences"]] == [
        row.difference for row in wanted.differences
    ]

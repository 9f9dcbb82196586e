"""Several metrics, further labels and constraints on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rankgrove import Dataset, evaluate, load, make_web_search, read_table, write_letor, write_table

BOTH = "ndcg@5 + 0.5*ndcg@5 of clicks"
QUICK = ["--n-estimators", "6", "--max-leaves", "6", "--more-labels", "clicks"]


@pytest.fixture
def files(tmp_path):
    data = make_web_search(60, 16)
    clicks = data.features[:, 2] > np.median(data.features[:, 2])
    data = Dataset.from_arrays(
        data.features, data.labels, group=data.group, more_labels={"clicks": clicks}
    )
    for name, part in zip(("train", "test"), data.split(0.6, 0.4), strict=True):
        write_table(part, tmp_path / f"{name}.csv")
        write_letor(part, tmp_path / f"{name}.txt")
    return tmp_path


def test_train_and_evaluate_take_sums_and_further_labels(cli, files):
    command = ["train", "train.csv", "--valid", "test.csv", "-o", "m.safetensors", *QUICK]
    result = cli(*command, "--metric", BOTH, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["parameters"]["metric"] == BOTH
    test = read_table(files / "test.csv", more_labels=["clicks"])
    expected = evaluate(test, load(files / "m.safetensors").predict(test), BOTH)[BOTH]
    assert told["valid"]["test"]["metrics"][BOTH] == expected
    scored = cli(
        "evaluate", "m.safetensors", "test.csv", "-m", f"ndcg@5 of clicks, {BOTH}", "--json",
        "--more-labels", "clicks",
    )  # fmt: skip
    assert scored.exit_code == 0, scored.stderr
    assert json.loads(scored.stdout)["metrics"][BOTH]["mean"] == expected


def test_train_says_whether_constraints_are_met(cli, files):
    command = ["train", "train.csv", "-o", "m.safetensors", *QUICK, "--metric", "ndcg@5"]
    result = cli(*command, "--constraints", "ndcg@5 of clicks >= 0.3")
    assert result.exit_code == 0, result.stderr
    assert "constraints" not in result.stderr
    assert load(files / "m.safetensors").notes["constraints"] == "met on all sets"
    result = cli(*command, "--constraints", "ndcg@5 of clicks >= 0.999")
    assert result.exit_code == 0, result.stderr
    assert "misses ndcg@5 of clicks >= 0.999" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--constraints", "map"], "METRIC >= NUMBER"),
        (["--constraints", "mrr(relevant>=1) >= 1.2"], "that of the best possible ranking"),
        (["--metric", "ndcg + ndcg"], "Got ndcg twice"),
        (["--metric", "ndcg of sales"], "must have labels 'sales'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_training(cli, files, options, words):
    metric = [] if "--metric" in options else ["--metric", "ndcg@5"]
    result = cli("train", "train.csv", "-o", "m.safetensors", *QUICK, *metric, *options)
    assert result.exit_code != 0
    assert words in " ".join(result.stderr.split())
    assert not (files / "m.safetensors").exists()


def test_letor_text_is_refused_with_further_labels(cli, files):
    result = cli("train", "train.txt", "-o", "m.safetensors", *QUICK)
    assert result.exit_code != 0
    assert "--more-labels must be used with a table" in " ".join(result.stderr.split())


def test_constraints_and_further_labels_are_refused_on_workers(cli, files):
    command = ["train", "train.csv", "-o", "m.safetensors", "--dask", "local:1"]
    result = cli(*command, "--metric", "ndcg", "--constraints", "mrr(relevant>=1) >= 0.2")
    assert "--constraints must be left out on workers" in " ".join(result.stderr.split())

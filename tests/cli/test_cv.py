"""`rankgrove cv`: one table, of one set of parameters or several."""

from __future__ import annotations

import csv
import json

import pytest

from cli.samples import fails
from rankgrove import Ranker, read_data
from rankgrove.experiments.cross_validation import cross_validate

QUICK = ["--n-estimators", "3", "--folds", "2", "--objective", "lambdamart"]


@pytest.fixture
def cv(trained):
    return ["cv", trained / "train.txt", *QUICK]


def test_values_are_those_of_python(cli_json, cv, trained):
    found = cli_json(*cv, "-m", "ndcg@10,err", "--seed", "3")
    table = cross_validate(
        Ranker("lambdamart", n_estimators=3), read_data(trained / "train.txt"), ["ndcg@10", "err"],
        folds=2, seed=3,
    )  # fmt: skip
    assert found["estimators"]["lambdamart"] == table.to_dict()["Ranker"]
    assert (found["folds"], found["interrupted"]) == (2, False)


def test_the_table_has_a_line_for_each_metric(cli, cv):
    done = cli(*cv, "-m", "ndcg@10,err", "--objective", "queryrmse")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["estimator", "metric", "mean", "std.error", "queries", "skipped",
                                "fold", "1", "fold", "2"]  # fmt: skip
    assert [line.split()[:2] for line in lines[1:]] == [
        ["queryrmse", "ndcg@10"],
        ["queryrmse", "err"],
    ]
    assert "2/2  fold" in done.stderr


def test_several_files_of_parameters_are_several_lines(cli_json, cv, write):
    files = [write("a.json", '{"learning_rate": 0.5}'), write("b.toml", "max_leaves = 3\n")]
    args = [part for file in files for part in ("--params", file)]
    found = cli_json(*cv, *args, "-m", "ndcg@10")
    assert list(found["estimators"]) == ["a", "b"]
    assert found["estimators"]["a"] != found["estimators"]["b"]


def test_forms_of_the_table(cli, cv):
    markdown = cli(*cv, "-m", "err", "--format", "markdown").stdout
    assert markdown.startswith("| estimator | metric |")
    text = cli(*cv, "-m", "err", "--format", "csv").stdout
    assert len(list(csv.DictReader(text.splitlines()))) == 1
    fails(cli(*cv, "--format", "cvs"), 2, "did you mean 'csv'")


def test_values_of_queries_are_written(cli, cv, tmp_path):
    assert cli(*cv, "-m", "err", "--per-query", "q.csv").exit_code == 0
    rows = list(csv.DictReader((tmp_path / "q.csv").read_text().splitlines()))
    assert list(rows[0]) == ["qid", "fold", "err"]
    assert {row["fold"] for row in rows} == {"1", "2"}
    assert len({row["qid"] for row in rows}) == len(rows) == 36


def test_early_stopping_needs_a_share_to_watch(cli, cli_json, cv):
    early = [*cv, "--early-stopping-rounds", "1", "-m", "err"]
    fails(cli(*early), 2, "--early-stopping-rounds must be used with --valid-share")
    assert "lambdamart" in cli_json(*early, "--valid-share", "0.3")["estimators"]
    fails(cli(*early, "--valid-share", "2"), 2, "--valid-share must be above 0 and below 1")


def test_wrong_calls_are_refused(cli, cv, write):
    fails(cli(*cv, "--folds", "1"), 2, "--folds must be a whole number, from 2 to 36")
    fails(cli(*cv, "--objective", "lamdamart"), 2, "did you mean 'lambdamart'")
    file = write("a.json", "{}")
    fails(cli(*cv, "--params", file, "--params", file), 2, "must be another file. Got one twice")
    fails(cli("cv", write("bad.txt", "no data\n")), 1, "bad.txt")
    fails(cli(*cv, "--per-query", "no/q.csv"), 1, "no/q.csv: cannot be written")


def test_json_is_all_of_the_output(cli, cv):
    assert json.loads(cli(*cv, "-m", "err", "--json").stdout)["queries"] == 36

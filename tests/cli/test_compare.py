"""`rankgrove compare`: where candidates come from, what is shown, what is refused."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import pytest

from cli.samples import SCORES, fails, make_parts
from rankgrove import compare, read_letor
from rankgrove.data.files import write_data
from rankgrove.model.model import Model

OTHER = "1\n2\n3\n4\n5\n1\n2\n"


@pytest.fixture
def other(write):
    return write("other.txt", OTHER)


def test_models_scores_and_columns_are_compared(cli, cli_json, trained, tmp_path):
    model, test = trained / "model.safetensors", trained / "test.txt"
    scores = tmp_path / "scores.txt"
    assert cli("score", model, test, "-o", scores).exit_code == 0
    got = cli_json("compare", test, model, scores, "bm25=column:3", "-m", "ndcg@10,map")
    assert got["candidates"] == ["model.safetensors", "scores.txt", "bm25"]
    data = read_letor(test)
    names = got["candidates"]
    forms = [Model.load(model), Model.load(model).predict(data), data.features[:, 2]]
    expected = compare(data, dict(zip(names, forms, strict=True)), ["ndcg@10", "map"])
    assert got["metrics"] == json.loads(json.dumps(expected.to_dict()))["metrics"]


def test_table_marks_the_best_and_says_how(cli, data, scores, other):
    lines = cli("compare", data, scores, f"second={other}", "-m", "mrr").stdout.splitlines()
    assert lines[0].split()[:3] == ["metric", "candidate", "mean"]
    assert lines[1].split()[:3] == ["mrr", "scores.txt", "*0.7500"]
    assert lines[2].split()[0] == "second"
    assert lines[-1].startswith("* best, or not significantly worse: paired t-test")


@pytest.mark.parametrize("test", ["randomisation", "bootstrap"])
def test_randomised_tests_are_seeded_and_the_same_for_any_threads(cli, data, scores, other, test):
    call = ["compare", data, scores, other, "--test", test, "--rounds", "200", "--json"]
    first = cli(*call, "--n-jobs", "1").stdout
    assert json.loads(first)["test"] == test
    assert cli(*call, "--n-jobs", "3").stdout == first


def test_formats(cli, data, scores, other):
    call = ["compare", data, scores, other, "-m", "mrr", "--baseline", "other.txt"]
    assert cli(*call, "--format", "markdown").stdout.startswith("| candidate | mrr |")
    assert r"\begin{tabular}{lr}" in cli(*call, "--format", "latex").stdout
    rows = list(csv.DictReader(io.StringIO(cli(*call, "--format", "csv").stdout)))
    assert [row["mark"] for row in rows] == ["", "baseline"]
    assert cli(*call, "--format", "json").stdout == cli(*call, "--json").stdout
    more = ["--pairs", "--changed", "1", "--slice", "length"]
    assert "## every pair" in cli(*call, *more, "--format", "markdown").stdout
    assert "% by length" in cli(*call, *more, "--format", "latex").stdout
    fails(cli(*call, "--pairs", "--format", "csv"), 2, "one table")
    fails(cli(*call, "--format", "tabel"), 2, "did you mean 'table'")


def test_pairs_changes_and_slices_are_shown(cli, cli_json, data, scores, other):
    call = ["compare", data, scores, other, "-m", "mrr", "--pairs", "--changed", "1"]
    page = cli(*call, "--slice", "length", "--slice", "labels").stdout
    for part in ("every pair, two-sided", "differ most", "by length", "by labels"):
        assert part in page
    got = cli_json(*call, "--slice", "labels")["metrics"]["mrr"]
    assert list(got["slices"]["labels"]) == ["0", "1", "2"]
    assert len(got["pairs"]) == 1
    assert len(got["changed"]["scores.txt"]) == 1


def test_slice_by_a_column_of_the_users(cli, cli_json, write, scores, other):
    rows = ["2,1,buy,3", "0,1,buy,1", "1,1,buy,2", "0,2,go,5", "1,2,go,4", "0,3,go,1", "0,3,go,2"]
    table = write("data.csv", "label,qid,intent,size\n" + "\n".join(rows) + "\n")
    got = cli_json("compare", table, scores, other, "-m", "mrr", "--slice", "column:intent")
    groups = got["metrics"]["mrr"]["slices"]["intent"]
    assert {name: group["queries"] for name, group in groups.items()} == {"buy": 1, "go": 2}
    fails(cli("compare", table, scores, "--slice", "column:intend"), 2, "did you mean 'intent'")
    fails(cli("compare", table, scores, "--slice", "column:size"), 1, "same for all documents")
    fails(cli("compare", table, scores, "--slice", "lenght"), 2, "did you mean 'length'")


def test_runs_and_columns_of_tables(cli, cli_json, data, scores, write):
    expected = cli_json("compare", data, scores, "-m", "mrr")["metrics"]["mrr"]["candidates"]
    run = "".join(
        f"{qid} Q0 {name} 1 {score} x\n"
        for qid, name, score in zip("1112233", "abcdefg", SCORES.split(), strict=True)
    )
    path = write("run.txt", run)
    got = cli_json("compare", data, f"scores.txt={path}", "--run", "-m", "mrr")
    assert got["metrics"]["mrr"]["candidates"] == expected
    table = write("scores.csv", "s\n" + SCORES)
    got = cli_json("compare", data, f"scores.txt={table}", "--score-column", "s", "-m", "mrr")
    assert got["metrics"]["mrr"]["candidates"] == expected


def test_a_run_without_one_query_is_refused(cli, data, write):
    run = "".join(f"1 Q0 {name} 1 1 x\n" for name in "abc")
    fails(cli("compare", data, write("run.txt", run), "--run"), 1, "run.txt", "Got none for 4")


def test_values_of_queries_are_written(cli, data, scores, other, tmp_path):
    assert cli("compare", data, scores, other, "--per-query", "q.tsv").exit_code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "q.tsv").read_text()), delimiter="\t"))
    assert [row["qid"] for row in rows[:3]] == ["1", "2", "3"]
    # Query 3 is empty: NDCG skips it.
    assert rows[2]["scores.txt"] == rows[2]["other.txt"] == ""


def test_train_adds_the_generalisation_gap_and_the_curve(cli, cli_json, trained, tmp_path):
    call = ["compare", trained / "test.txt", trained / "model.safetensors", "column:3"]
    call += ["-m", "map", "--train", trained / "train.txt", "--every", "2"]
    got = cli_json(*call, "--curve", "c.svg")["gap"]
    assert [row["name"] for row in got["rows"]] == ["model.safetensors", "3"]
    assert got["curves"]["model.safetensors"]["map"]["n_trees"] == [0, 2, 4, 5]
    ElementTree.parse(tmp_path / "c.svg")
    assert "generalisation gap" in cli(*call, "--curve", "c.csv").stdout
    assert (tmp_path / "c.csv").read_text().startswith("name,metric,n_trees,train,test\n")


def test_a_table_is_read_for_the_features_of_each_model(cli, cli_json, trained, tmp_path):
    model = trained / "model.safetensors"
    test = make_parts()["test"]
    write_data(test, tmp_path / "test.csv")
    call = ["-m", "map", "--slice", "length"]
    text = cli_json("compare", trained / "test.txt", model, "c=column:3", *call)
    table = cli_json("compare", "test.csv", model, f"c=column:{test.feature_names[2]}", *call)
    assert table["metrics"] == text["metrics"]


def test_wrong_calls_are_refused(cli, data, scores, other, trained, write):
    model = trained / "model.safetensors"
    fails(cli("compare", data), 2, "a candidate must be given, then DATA. Got 1 file")
    fails(cli("compare", model, model), 1, "must be a data file. Got a model")
    fails(cli("compare", data, "absent.txt"), 1, "absent.txt: there is no such file")
    fails(cli("compare", data, scores, scores), 2, "different names", "twice")
    fails(cli("compare", data, scores, "--baseline", "other.txt"), 2, "--baseline must be one of")
    fails(cli("compare", data, scores, "--train", data), 2, "a model or a column")
    fails(cli("compare", data, scores, "--curve", "c.svg"), 2, "--curve must be used with --train")
    fails(cli("compare", data, scores, "--run", "--score-column", "s"), 2, "Got both")
    fails(cli("compare", data, scores, "--test", "wilcoxon"), 2, "randomisation")
    fails(cli("compare", data, scores, "--level", "2"), 2, "above 0 and below 1")
    fails(cli("compare", data, "column:9"), 1, "from 1 to 2")
    fails(cli("compare", data, model), 1, "16 features")


def test_scores_of_another_length_are_refused_and_nothing_is_written(cli, data, write, tmp_path):
    short = write("short.txt", "1\n2\n3\n")
    result = cli("compare", data, "column:1", short, "--per-query", "q.csv")
    fails(result, 1, "short.txt: must have one score per document, 7. Got 3")
    assert not (tmp_path / "q.csv").exists()


def test_fewer_than_two_queries_are_refused(cli, write):
    one = write("one.txt", "1 qid:1 1:1\n0 qid:1 1:2\n")
    fails(cli("compare", one, "column:1", "-m", "mrr"), 1, "mrr: at least two queries", "Got 1")

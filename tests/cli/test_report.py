"""`rankgrove report`: its page, its JSON, its candidates, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from cli.samples import fails
from rankgrove import compare, make_report, read_letor
from rankgrove.cli import report as report_command
from rankgrove.model.base import load
from report.samples import check_schema

QUICK = ["--forces", "0", "--metrics", "ndcg@10, map"]


@pytest.fixture
def model(trained):
    return trained / "model.safetensors"


@pytest.fixture
def test_file(trained):
    return trained / "test.txt"


def test_page_is_written_and_named(cli, tmp_path, test_file, model):
    result = cli("report", test_file, model, "bm=column:1", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "rankgrove: wrote the report to report.html\n"
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert cli("report", model, test_file, "-o", "one.html", *QUICK).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["one.html", "report.html"]


def test_json_is_what_the_function_gives_and_nothing_else(cli_json, tmp_path, test_file, model):
    got = cli_json(
        "report", test_file, f"new={model}", "bm=column:1", "--baseline", "bm", "--slices",
        "length,relevant", "--top", 3, "--why", 4, *QUICK,
    )  # fmt: skip
    check_schema(got)
    assert os.listdir(tmp_path) == []
    data = read_letor(test_file)
    expected = make_report(
        data, {"new": load(model), "bm": data.features[:, 0]}, ["ndcg@10", "map"], baseline="bm",
        slices=["length", "relevant"], top=3, why=4, forces=0,
    ).to_dict()  # fmt: skip
    assert [one["kind"] for one in got["candidates"]] == ["model", "column"]
    for name in expected.keys() - {"made", "candidates"}:
        assert got[name] == expected[name], name


def test_files_are_named_with_their_checksums(cli_json, test_file, model):
    got = cli_json("report", test_file, model, *QUICK)
    assert got["made"]["files"] == [
        {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in (test_file, model)
    ]


def test_a_process_says_its_command(process, test_file, model):
    result = process("report", test_file, model, *QUICK, "--json")
    made = json.loads(result.stdout)["made"]
    assert made["command"].startswith(f"rankgrove report {test_file} {model} --forces 0")


def test_training_and_validation_data_add_curves_and_forces(cli_json, trained, test_file, model):
    got = cli_json(
        "report", test_file, model, "--train", trained / "train.txt", "--valid",
        trained / "vali.txt", "--forces", 2, "--metrics", "map",
    )  # fmt: skip
    check_schema(got)
    curve = got["training"]["curves"]["model.safetensors"]["map"]
    assert sorted(curve) == ["n_trees", "test", "train", "valid"]
    assert [film["part"] for film in got["forces"]] == ["train", "train"]


def test_files_of_scores_are_candidates(cli_json, write, data, scores):
    got = cli_json("report", data, f"one={scores}", f"same={scores}", "--metrics", "map")
    check_schema(got)
    assert [one["name"] for one in got["candidates"]] == ["one", "same"]
    assert got["verdicts"]["map"][0]["word"] == "equal"
    values = compare(read_letor(data), {"a": [3, 1, 2, 5, 4, 1, 2]}, "map").per_query("map")["a"]
    assert got["queries"]["values"]["map"][0][:2] == [round(1e4 * value) for value in values[:2]]
    assert got["absent"]["why"].startswith("No candidate is a model")


def test_texts_of_queries_and_titles_of_documents_come_from_files(cli_json, write, data, scores):
    names = write("names.tsv", "1\tred </script> shoes\r\n3\ta\tb\n\n")
    titles = write("titles.tsv", "a\t<img src=x onerror=alert(1)>\n")
    got = cli_json(
        "report", data, scores, "--names", names, "--titles", titles, "--metrics", "map"
    )  # fmt: skip
    assert got["queries"]["text"] == ["red </script> shoes", "2", "a\tb"]
    assert got["tops"]["title"][got["tops"]["id"].index("a")] == "<img src=x onerror=alert(1)>"


def test_the_page_is_opened_on_request(cli, tmp_path, test_file, model, monkeypatch):
    opened = []
    monkeypatch.setattr(report_command.webbrowser, "open", opened.append)
    assert cli("report", test_file, model, "--open", *QUICK).exit_code == 0
    assert opened == [(tmp_path / "report.html").as_uri()]
    fails(
        cli("report", test_file, model, "--open", "--json"), 2, "--open must be used without --json"
    )


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--baseline", "other"], 2, "--baseline must be one of model.safetensors"),
        (["--why", "some"], 2, "--why must be a whole number, 0 or more, or 'all'. Got 'some'"),
        (["--max-size", "1KB"], 2, "--max-size must be"),
        (["--slices", "size"], 2, "a slice must be one of length"),
        (["--names", "none.tsv"], 1, "none.tsv: there is no such file"),
        (["--train", "none.txt"], 1, "none.txt: there is no such file"),
        (["-o", "none/report.html"], 1, "cannot be written"),
        (["--metrics", "ndgc"], 2, "did you mean 'ndcg'"),
    ],
)
def test_what_cannot_work_is_one_line_and_leaves_nothing(
    cli, tmp_path, test_file, model, options, code, problem
):
    fails(cli("report", test_file, model, "--forces", "0", *options), code, problem)
    assert os.listdir(tmp_path) == []


def test_a_line_of_texts_without_a_tab_is_refused(cli, write, data, scores):
    names = write("names.tsv", "1\tone\ntwo\n")
    fails(cli("report", data, scores, "--names", names), 1, "names.tsv:2", "a tab and a text")
    fails(cli("report", data, scores, "--names", write("none.tsv", "")), 1, "Got no line")
    fails(cli("report", data, scores, "--names", write("x.tsv", b"1\t\xff\n")), 1, "UTF-8")


def test_scores_of_other_data_and_a_run_that_lacks_a_query_are_refused(cli, write, data):
    fails(cli("report", data, write("few.txt", "1\n2\n")), 1, "few.txt")
    run = write("a.run", "1 Q0 a 1 3 x\n1 Q0 b 2 2 x\n1 Q0 c 3 1 x\n")
    fails(cli("report", data, run, "--run"), 1, "a.run")


def test_training_data_without_a_model_are_refused(cli, data, scores):
    fails(cli("report", data, scores, "--train", data), 2, "--train must be used with a model")


def test_the_file_of_the_data_is_not_written_over(cli, test_file, model):
    fails(cli("report", test_file, model, "-o", test_file), 2, "not be a file that is read")


def test_a_table_without_labels_is_refused(cli, write):
    table = write("data.csv", "qid,a\n1,2\n1,3\n2,4\n")
    scores = write("s.txt", "1\n2\n3\n")
    assert cli("report", table, scores).exit_code == 1

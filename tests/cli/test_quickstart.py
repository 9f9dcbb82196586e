"""`rankgrove quickstart`: its files, its numbers, its care for other files."""

from __future__ import annotations

import shlex

import pytest

from rankgrove.data.letor import read_letor
from rankgrove.errors import DataError
from rankgrove.model.model import Model

FILES = [
    "best.txt", "model.safetensors", "quickstart.json", "report.html", "test.txt", "train.txt",
    "vali.txt",
]  # fmt: skip


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_files_are_made_and_made_again_the_same(cli, tmp_path):
    assert cli("quickstart", "--queries", "30").exit_code == 0
    first = contents(tmp_path / "rankgrove-quickstart")
    assert list(first) == FILES
    assert cli("quickstart", "--queries", "30").exit_code == 0
    assert contents(tmp_path / "rankgrove-quickstart") == first
    assert cli("quickstart", "--queries", "30", "other").exit_code == 0
    assert contents(tmp_path / "other") == first


def test_parts_are_the_queries_asked_for(cli_json):
    got = cli_json("quickstart", "--queries", "50")
    assert {name: part["queries"] for name, part in got["parts"].items()} == {
        "train": 30, "vali": 10, "test": 10,
    }  # fmt: skip
    for name, part in got["parts"].items():
        assert read_letor(got["files"][name]).n_documents == part["documents"]


def test_model_beats_the_feature_and_the_feature_beats_chance(cli_json):
    results = cli_json("quickstart", "--queries", "300")["results"]
    # (Most documents are relevant to some degree: MRR is near 1 for any order.)
    for metric in ("ndcg@10", "map", "err"):
        random, feature, model, best = (results[name][metric]["mean"] for name in results)
        assert random < feature < model < best


def test_model_is_the_one_that_validation_says_to_keep(cli_json):
    got = cli_json("quickstart", "--queries", "50")
    model = Model.load(got["files"]["model"])
    curve = model.history["vali"]["ndcg@10"]
    assert model.n_trees == got["model"]["trees"] == curve.index(max(curve)) + 1
    assert not model.schema.needs_base_scores
    assert got["importance"][0]["gain"] == max(model.importance())


def test_commands_it_names_give_the_numbers_it_shows(cli, cli_json):
    got = cli_json("quickstart", "--queries", "40", "a quick start")
    commands = [shlex.split(command) for command in got["next"]]
    assert {command[1] for command in commands} == {
        "inspect", "evaluate", "explain", "report", "train",
    }  # fmt: skip
    for program, *args in commands:
        assert program == "rankgrove"
        assert cli(*args).exit_code == 0
    measured = [cli_json(*args)["metrics"] for _, *args in commands if args[0] == "evaluate"]
    assert measured == [got["results"][name] for name in ("model", "feature", "best")]


def test_page_names_files_rankings_and_what_to_run_next(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = cli("quickstart", "--queries", "30").stdout
    for text in (
        "rankgrove-quickstart/train.txt",
        "random order",
        "the model",
        "best possible",
        "what the model rests on",
        "rankgrove inspect",
    ):
        assert text in page
    # But for commands, which are there to be copied.
    assert max(len(line) for line in page.splitlines() if not line.startswith("  rank")) <= 80


def test_report_of_the_model_against_the_feature_is_written_and_named(cli, tmp_path):
    page = cli("quickstart", "--queries", "60").stdout
    assert "Open this page in a browser: rankgrove-quickstart/report.html" in page
    report = (tmp_path / "rankgrove-quickstart" / "report.html").read_text()
    assert report.startswith("<!doctype html>")
    assert "model" in report.partition("<title>")[2].partition("</title>")[0]


def test_too_few_queries_to_compare_have_no_report(cli_json, monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise DataError("too few")

    cli_json("quickstart", "--queries", "20", "quick")
    monkeypatch.setattr("rankgrove.report.build.make_report", refuse)
    assert "report" not in cli_json("quickstart", "--queries", "20", "quick")["files"]
    assert not (tmp_path / "quick" / "report.html").exists()


def test_directory_with_other_files_is_left_alone(cli, tmp_path, write):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.txt").write_text("mine")
    result = cli("quickstart", "mine", "--queries", "10")
    assert result.exit_code == 2
    assert "'mine'" in result.stderr
    assert contents(tmp_path / "mine") == {"train.txt": b"mine"}


@pytest.mark.parametrize("marker", ["{}", "not JSON", "[1]", '{"made_by": "me"}'])
def test_marker_of_something_else_does_not_count(cli, tmp_path, marker):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "quickstart.json").write_text(marker)
    assert cli("quickstart", "mine", "--queries", "10").exit_code == 2
    assert contents(tmp_path / "mine") == {"quickstart.json": marker.encode()}


def test_files_added_to_a_quickstart_are_kept(cli, tmp_path):
    cli("quickstart", "quick", "--queries", "10")
    (tmp_path / "quick" / "notes.md").write_text("mine")
    assert cli("quickstart", "quick", "--queries", "12").exit_code == 0
    assert (tmp_path / "quick" / "notes.md").read_text() == "mine"


def test_empty_directory_is_used(cli, tmp_path):
    (tmp_path / "empty").mkdir()
    assert cli("quickstart", "empty", "--queries", "10").exit_code == 0


def test_file_in_the_place_of_the_directory_is_refused(cli, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert cli("quickstart", "file", "--queries", "10").exit_code == 2
    assert cli("quickstart", "file/below", "--queries", "10").exit_code == 1


@pytest.mark.parametrize("queries", range(10, 24))
def test_few_queries_are_enough(cli_json, queries):
    parts = cli_json("quickstart", "--queries", queries)["parts"]
    assert sum(part["queries"] for part in parts.values()) == queries

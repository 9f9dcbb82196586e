"""`rankgrove plot`: every kind of picture from files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.samples import fails
from rankgrove import compare, load, plot_importance, read_letor
from rankgrove.cli.plot import KINDS
from rankgrove.cli.plot_kinds import DRAWN

MODEL, TEST, TRAIN = "model.safetensors", "test.txt", "train.txt"
CALLS = {
    "learning-curves": [MODEL, "again=model.safetensors"],
    "front": ["column:3", MODEL, TEST, "-m", "ndcg@5, mrr(relevant>=2)"],
    "shrinkage": [TRAIN, "vali.txt", "--rates", "1,0.1", "--trees", "2", "-m", "map"],
    "scatter": ["column:3", MODEL, TEST, "--baseline", "3"],
    "change": ["column:3", MODEL, TEST],
    "distribution": ["column:3", MODEL, TEST, "-m", "map"],
    "slices": ["column:3", MODEL, TEST, "--slice", "labels", "--slice", "length"],
    "ranking": ["old=column:3", MODEL, TEST, "--query", "{query}", "--top", "5"],
    "scores-by-label": [MODEL, TEST],
    "importance": [MODEL, TEST, "--top", "3"],
    "dependence": [MODEL, TEST, "--feature", "tail_3", "--feature", "level_7"],
    "why": [MODEL, TEST, "--query", "{query}", "--ranks", "1", "3"],
    "weights": [MODEL, TRAIN, "--number", "2"],
    "pair-loss": ["--sigmas", "1,3"],
    "paper-relative": [],
    "train-test": ["--table", "22,24"],
}


@pytest.fixture
def files(trained, tmp_path):
    for path in trained.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def arguments(kind, files):
    query = str(read_letor(files / TEST).query_ids[0])
    return [text.format(query=query) for text in CALLS[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(cli, files, kind):
    result = cli("plot", kind, *arguments(kind, files), "-o", "p.svg")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "wrote the picture to p.svg" in result.stderr
    ElementTree.parse(files / "p.svg")


def test_every_kind_has_a_call_and_a_function():
    assert set(KINDS) == set(CALLS) == set(DRAWN)


def test_every_kind_is_in_the_page_of_commands():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in page for kind in KINDS)


def test_the_picture_is_that_of_the_python_call(cli, files):
    data, model = read_letor(files / TEST), load(files / MODEL)
    column = data.features[:, 2]
    assert cli("plot", "change", "old=column:3", MODEL, TEST, "-o", "p.svg").exit_code == 0
    comparison = compare(data, {"old": column, MODEL: model}, "ndcg@10", slices="length")
    assert (files / "p.svg").read_text() == comparison.plot(kind="change").to_svg()
    assert cli("plot", "importance", MODEL, "-o", "p.svg").exit_code == 0
    assert (files / "p.svg").read_text() == plot_importance(model).to_svg()


def test_json_names_the_picture(cli_json, files):
    told = cli_json("plot", "pair-loss", "-o", "p.svg")
    assert told == {"kind": "pair-loss", "files": [], "picture": "p.svg"}


def test_matplotlib_draws_other_formats(cli, files):
    pytest.importorskip("matplotlib")
    assert cli("plot", "pair-loss", "-o", "p.png").exit_code == 0
    assert (files / "p.png").read_bytes().startswith(b"\x89PNG")


def test_results_of_paper_are_drawn(cli, write, tmp_path):
    rows = [{"title": t, "entries": [{"values": [1.0], "best": False}]} for t in ("1", "2")]
    table = {"table": "figure1", "metric": "MAP", "columns": ["mine"], "rows": rows}
    write("r.json", json.dumps({"tables": [table]}))
    assert cli("plot", "paper-relative", "r.json", "-o", "p.svg").exit_code == 0
    assert "mine" in (tmp_path / "p.svg").read_text()


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (["scater", "a", "-o", "p.svg"], 2, "KIND must be one of learning-curves"),
        (["pair-loss", "-o", "p.gif"], 2, "--out must end in .svg, .png, .pdf. Got 'p.gif'"),
        (["pair-loss", TEST, "-o", "p.svg"], 2, "pair-loss must be drawn without files. Got 1"),
        (["dependence", MODEL, "-o", "p.svg"], 2, "dependence must be drawn from MODEL DATA"),
        (["learning-curves", "-o", "p.svg"], 2, "must be drawn from [NAME=]MODEL..."),
        (["learning-curves", TEST, "-o", "p.svg"], 1, "must be a model file"),
        (["learning-curves", "no", "-o", "p.svg"], 1, "no such file"),
        (["pair-loss", "--top", "3", "-o", "p.svg"], 2, "--top must be used with ranking or imp"),
        (["pair-loss", "--sigmas", "1;2", "-o", "p.svg"], 2, "--sigmas must be numbers with com"),
        (["dependence", MODEL, TEST, "-o", "p.svg"], 2, "--feature must be given"),
        (["ranking", MODEL, TEST, "-o", "p.svg"], 2, "--query must be given"),
        (["ranking", MODEL, TEST, "--query", "zz", "-o", "p.svg"], 2, "query must be one of"),
        (["why", MODEL, TEST, "--query", "zz", "-o", "p.svg"], 1, "--query must be one of"),
        (["importance", MODEL, "-m", "map", "-o", "p.svg"], 2, "--metric must be used with DATA"),
        (["scatter", MODEL, TEST, "--baseline", "b", "-o", "p.svg"], 2, "--baseline must be one"),
        (["importance", MODEL, "-o", MODEL], 2, "--out must end in"),
        (["train-test", "--table", "2", "-o", "p.svg"], 2, "tables must be one of 22"),
        (["pair-loss", "-o", "nowhere/p.svg"], 1, "cannot be written"),
    ],
)
def test_a_wrong_call_is_told_in_one_line_and_nothing_is_written(cli, files, args, code, problem):
    fails(cli("plot", *args), code, problem)
    assert not (files / "p.svg").exists()

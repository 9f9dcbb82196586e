"""Models and scores come first, then the data; the other order is taken where the files tell."""

from __future__ import annotations

import gzip

import pytest

from cli.samples import LETOR, SCORES, fails
from rankgrove import read_data, write_data
from rankgrove.cli.files import model_and_data, sort_files
from rankgrove.cli.options import Reading


@pytest.mark.parametrize("command", ["score", "evaluate", "explain"])
def test_a_model_and_data_may_trade_places(cli, trained, command):
    model, data = trained / "model.safetensors", trained / "test.txt"
    usual, other = cli(command, model, data), cli(command, data, model)
    assert (usual.exit_code, other.exit_code) == (0, 0)
    assert usual.stdout == other.stdout


def test_optimality_takes_both_orders(cli, trained):
    model, data = trained / "model.safetensors", trained / "test.txt"
    few = ["--delta", "0.3", "--p0", "0.3"]
    usual, other = cli("optimality", model, data, *few), cli("optimality", data, model, *few)
    assert usual.exit_code == 0
    assert usual.stdout == other.stdout


def test_evaluate_takes_scores_before_and_after_the_data(cli, data, scores):
    usual, other = cli("evaluate", scores, data), cli("evaluate", data, scores)
    assert usual.exit_code == 0
    assert usual.stdout == other.stdout


def test_compare_and_combine_take_data_last_and_first(cli, data, scores, write):
    more = write("more.txt", SCORES.replace("3", "4"))
    for call in (["compare"], ["combine", "-m", "map"]):
        usual, other = cli(*call, scores, more, data), cli(*call, data, scores, more)
        assert usual.exit_code == 0
        assert usual.stdout == other.stdout


CONTENTS = {
    "data.txt": LETOR,
    "scores.txt": SCORES,
    "commented.txt": "# numbers\n\n" + SCORES,
    "run.txt": "1 Q0 http://a 1 0.5 tag\n",
    "scores.csv": "qid,score\n1,0.5\n",
    "numbers.csv": SCORES,
}


def write_all(write, trained):
    files = {name: write(name, content) for name, content in CONTENTS.items()}
    files["data.txt.gz"] = write("data.txt.gz", gzip.compress(LETOR.encode()))
    for name in ("data.csv", "data.parquet"):
        write_data(read_data(files["data.txt"]), files["data.txt"].parent / name)
        files[name] = files["data.txt"].parent / name
    return files | {"model": trained / "model.safetensors"}


@pytest.mark.parametrize("data", ["data.txt", "data.txt.gz", "data.csv", "data.parquet"])
@pytest.mark.parametrize(
    "other", ["scores.txt", "commented.txt", "run.txt", "scores.csv", "numbers.csv", "model"]
)
def test_content_tells_data_from_what_ranks_them(write, trained, data, other):
    files = write_all(write, trained)
    names = [str(files[other]), "column:3", "name=" + str(files[other])]
    for call in ([str(files[data]), *names], [*names, str(files[data])]):
        assert sort_files(call, Reading(), "x") == (names, files[data])


def test_where_nothing_tells_the_last_are_the_data(write, trained):
    files = write_all(write, trained)
    same = [str(files["data.parquet"]), str(files["data.csv"])]
    assert sort_files(same, Reading(), "x") == (same[:1], files["data.csv"])
    assert model_and_data(files["data.txt"], files["data.csv"]) == (
        files["data.txt"], files["data.csv"],
    )  # fmt: skip


def test_a_named_column_of_labels_makes_a_table_data(write):
    table = write("judged.csv", "grade,qid,x\n1,1,2\n0,1,3\n")
    scores = write("scores.csv", "qid,score\n1,2\n1,3\n")
    got = sort_files([str(table), str(scores)], Reading(label="grade"), "x")
    assert got == ([str(scores)], table)


def test_too_few_files_are_refused_with_what_is_missing(cli, data):
    fails(cli("compare", data, data), 2, "a candidate must be given", "which both are data")
    fails(cli("compare", data), 2, "a candidate must be given, then DATA. Got 1 file")
    fails(cli("combine", data, data), 2, "two or more rankers must be given, then DATA")
    fails(cli("evaluate", data), 2, "a model or a file of scores must be given, then DATA")

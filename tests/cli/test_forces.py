"""`rankgrove forces`: the table of a query, sums of all, the example, and what is refused."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from cli.samples import fails
from rankgrove import force_totals, forces_at, make_web_search, to_frame, write_letor
from rankgrove.data.files import read_data
from rankgrove.model.model import Model


@pytest.fixture
def path(trained):
    return trained / "model.safetensors"


@pytest.fixture
def model(path):
    return Model.load(path)


@pytest.fixture
def test_file(trained):
    return trained / "test.txt"


@pytest.fixture
def query(test_file):
    return str(read_data(test_file).query_ids[1])


def words(page):
    return [line.split() for line in page.splitlines()]


def test_a_query_is_shown_as_ranked_with_forces_and_curvatures(
    cli, cli_json, path, test_file, model, query
):
    args = ["forces", path, test_file, "--query", query, "--tree", "2", "--top", "1000"]
    data = read_data(test_file, feature_names=model.feature_names)
    expected = model.forces(data, tree=2).of_query(query)
    got = cli_json(*args)
    name = expected.objective.name
    assert (got["tree"], got["query"], got["objectives"]) == (2, query, [name])
    by_rank = expected.rows_by_rank()
    entries = got["ranking"]
    assert [entry["rank"] for entry in entries] == list(range(1, expected.n_documents + 1))
    assert [entry["row"] - int(data.offsets[1]) for entry in entries] == by_rank.tolist()
    for key, values in (("forces", expected.forces), ("curvatures", expected.curvatures)):
        assert [entry[key][name] for entry in entries] == values[by_rank].tolist()
    rows = words(cli(*args).stdout)
    assert rows[2] == ["rank", "row", "label", "score", "force", "curvature"]
    force = entries[0]["forces"][name]
    assert rows[3][4:6] == ["↑" if force > 0 else "↓", f"{force:+.4f}"]


def test_several_objectives_stand_side_by_side(cli, cli_json, path, test_file, model, query):
    args = ["forces", path, test_file, "--query", query, "--objective", "rankmart, lambdamart"]
    data = read_data(test_file, feature_names=model.feature_names)
    got = cli_json(*args)
    for name in ("rankmart", "lambdamart"):
        expected = forces_at(data, model.predict(data), name).of_query(query)
        forces = [entry["forces"][name] for entry in got["ranking"]]
        assert forces == expected.forces[expected.rows_by_rank()][: len(forces)].tolist()
    page = cli(*args, "--top", "2").stdout
    assert words(page)[2] == ["rank", "row", "label", "score", "rankmart", "lambdamart"]
    assert "more documents: see them with --top" in page


def test_all_queries_are_summed_by_label(cli, cli_json, path, test_file, model):
    data = read_data(test_file, feature_names=model.feature_names)
    args = ["forces", path, test_file, "--objective", "rankmart", "--tree", "1", "--top", "3"]
    found = cli_json(*args)["objectives"]["rankmart"]
    totals = force_totals(model, data, [1], "rankmart")
    assert [entry["label"] for entry in found["labels"]] == totals.labels
    assert [entry["up"] for entry in found["labels"]] == totals.up[0].tolist()
    assert [entry["down"] for entry in found["labels"]] == totals.down[0].tolist()
    forces = model.forces(data, 1, "rankmart").forces
    sums = np.add.reduceat(np.abs(forces), data.offsets[:-1])
    assert [entry["force"] for entry in found["queries"]] == np.sort(sums)[::-1][:3].tolist()
    page = cli(*args).stdout
    assert "forces of rankmart after 1 tree" in page
    assert ["label", "documents", "up", "down"] in words(page)


def test_the_figure_of_burges_needs_no_files(cli, cli_json):
    got = cli_json("forces", "--example", "burges")
    before, after = got["orders"]
    assert (before["wrong_pairs"], after["wrong_pairs"]) == (13, 11)
    assert (round(before["ndcg"], 3), round(after["ndcg"], 3)) == (0.766, 0.441)
    upper, lower = (after["ranking"][rank - 1]["forces"] for rank in (4, 10))
    assert lower["rankmart"] > upper["rankmart"] > 0
    assert upper["lambdamart"] > lower["lambdamart"] > 0
    page = cli("forces", "--example", "burges").stdout
    assert "before, relevant at 1 and 15: 13 wrong pairs, NDCG 0.766" in page
    assert "after, relevant at 4 and 10: 11 wrong pairs, NDCG 0.441" in page
    assert "Pushed up hardest: rank 10 by rankmart, rank 4 by lambdamart." in page


def test_arrows_are_plain_where_the_terminal_has_no_others(process):
    result = process(
        "forces", "--example", "burges", env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert result.returncode == 0, result.stderr
    assert "^ +" in result.stdout
    assert "v -" in result.stdout


def test_a_draw_of_noise_is_called_so(cli, path, test_file, query):
    page = cli("forces", path, test_file, "--query", query, "--objective", "yetirank").stdout
    assert "forces of yetirank (one draw) after" in page


def test_a_query_of_equal_labels_is_not_pushed(cli, path, model):
    data = make_web_search(3, model.n_features, mean_documents=5)
    lines = []
    write_letor(data, "all.txt")
    with open("all.txt") as file:
        lines = [f"0 {line.split(' ', 1)[1]}" for line in file]
    with open("equal.txt", "w") as file:
        file.writelines(lines)
    args = ["forces", path, "equal.txt", "--objective", "rankmart"]
    page = cli(*args, "--query", data.query_ids[0]).stdout
    assert "Nothing is pushed here: no pair of documents has labels that differ." in page


def test_document_ids_are_shown_where_they_are_read(cli, path, test_file, write):
    lines = test_file.read_text().splitlines()
    data = write("ids.txt", "".join(f"{line} # d{n}\n" for n, line in enumerate(lines)))
    qid = str(read_data(data).query_ids[0])
    rows = words(cli("forces", path, data, "--query", qid, "--document-ids").stdout)
    assert rows[3][2] == f"d{rows[3][1]}"


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (["--query", "9999"], 1, "test.txt: --query must be one of its 12 queries"),
        (["--tree", "999"], 2, "--tree must be a whole number, from 0 to"),
        (["--objective", "ranknet"], 2, "objective must be one of lambdamart"),
        (["--example", "burges"], 2, "--example must be used without MODEL"),
        (["--out", "forces.txt"], 2, "--out must be a file .svg"),
    ],
)
def test_what_cannot_be_shown_is_refused(cli, path, test_file, args, code, problem):
    fails(cli("forces", path, test_file, *args), code, problem)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "MODEL and DATA must be given. Got no MODEL"),
        (["--example", "burgers"], "--example must be one of burges. Got 'burgers'; did you mean"),
        (["--example", "burges", "--tree", "1"], "--example must be used without --tree"),
    ],
)
def test_a_call_without_files_is_the_example_or_refused(cli, args, problem):
    fails(cli("forces", *args), 2, problem)


def test_documents_without_labels_are_refused(cli, path, test_file, model):
    data = read_data(test_file, feature_names=model.feature_names)
    to_frame(data).drop(columns="label").to_csv("test.csv", index=False)
    fails(cli("forces", path, "test.csv"), 1, "test.csv: the label column must be")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--query", "QID"], "The forces of"),
        ([], "The sums of the forces of"),
    ],
)
def test_the_picture_is_written_whole(cli, path, test_file, query, args, says, tmp_path):
    args = [query if arg == "QID" else arg for arg in args]
    result = cli("forces", path, test_file, *args, "-o", "forces.svg")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("Wrote forces.svg.\n")
    assert says in ET.parse(tmp_path / "forces.svg").getroot().get("aria-label")
    got = cli("forces", path, test_file, *args, "-o", "again.svg", "--json")
    assert json.loads(got.stdout)["picture"] == "again.svg"
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "forces.svg").read_bytes()


def test_the_example_is_drawn(cli, tmp_path):
    cli("forces", "--example", "burges", "-o", "burges.svg")
    text = (tmp_path / "burges.svg").read_text()
    assert "before: 13 wrong pairs, NDCG 0.766" in text
    assert "LambdaRank" in text

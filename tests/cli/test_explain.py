"""`rankgrove explain` and `rankgrove inspect` of a model."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cli.samples import fails
from rankgrove import read_data, to_frame
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
    """The id of the second query of the test file, and its rows."""
    data = read_data(test_file)
    return str(data.query_ids[1]), np.arange(*data.offsets[1:3])


def words(page):
    return [line.split() for line in page.splitlines()]


def test_features_are_shown_by_gain_with_their_splits(cli, cli_json, path, model):
    used = cli_json("explain", path)["used"]
    assert [entry["gain"] for entry in used] == sorted(model.importance()[model.importance() > 0])[
        ::-1
    ]
    assert sum(entry["splits"] for entry in used) == model.importance("split").sum()
    assert sum(entry["share"] for entry in used) == pytest.approx(1)
    lines = words(cli("explain", path, "--top", "1").stdout)
    assert lines[2] == ["feature", "gain", "share", "splits"]
    assert lines[3][0] == used[0]["feature"]
    assert lines[-1] == f"{len(used) - 1} more features: see them with --top {len(used)}.".split()


def test_tree_is_shown_as_text_and_as_json(cli, cli_json, path, model):
    assert cli("explain", path, "--tree", "2").stdout == model.describe_tree(2) + "\n"
    assert cli_json("explain", path, "--tree", "2")["root"] == model.tree_as_dict(2)
    fails(cli("explain", path, "--tree", "5"), 2, "--tree must be from 0 to 4. Got 5.")


def test_worth_of_features_on_data_is_the_drop_of_a_metric(cli, cli_json, path, model, test_file):
    got = cli_json("explain", path, test_file, "--metric", "map", "--top", "2")
    found = model.permutation_importance(read_data(test_file), "map")
    assert (got["metric"], got["value"]) == ("map", found.baseline)
    assert [entry["drop"] for entry in got["drops"]] == sorted(found.mean)[:-3:-1]
    assert cli("explain", path, test_file).stdout.startswith("ndcg@10 is 0.")
    fails(cli("explain", path, test_file, "--metric", "mapp"), 2, "did you mean 'map'")


def test_query_is_shown_in_the_order_of_its_scores(cli, cli_json, path, model, test_file, query):
    qid, rows = query
    data = read_data(test_file)
    scores = model.predict(data)
    ranking = cli_json("explain", path, test_file, "--query", qid, "--top", "100")["ranking"]
    order = rows[np.argsort(-scores[rows], kind="stable")]
    assert [entry["row"] for entry in ranking] == order.tolist()
    assert [entry["score"] for entry in ranking] == scores[order].tolist()
    assert [entry["label"] for entry in ranking] == data.labels[order].tolist()
    lines = words(cli("explain", path, test_file, "--query", qid, "--top", "2").stdout)
    assert lines[2] == ["rank", "row", "label", "score"]
    assert lines[3][:2] == ["1", str(order[0])]
    assert lines[-1][1:3] == ["more", "documents:"]


def test_contributions_add_up_to_the_score(cli, cli_json, path, test_file, query):
    args = ["explain", path, test_file, "--query", query[0], "--document", "2"]
    got = cli_json(*args, "--top", "100")
    total = got["expected"] + sum(entry["contribution"] for entry in got["contributions"])
    assert total == pytest.approx(got["document"]["score"])
    assert got["document"]["rank"] == 2
    last = cli(*args, "--top", "1").stdout.splitlines()[-1]
    assert re.match(r"\(\d+ more\)", last)
    assert float(last.split()[-1]) == pytest.approx(got["document"]["score"], abs=1e-3)


def test_two_documents_are_compared_by_rank(cli, cli_json, path, test_file, query):
    args = ["explain", path, test_file, "--query", query[0], "--why"]
    got = cli_json(*args, "1", "3", "--top", "100")
    assert (got["a"]["rank"], got["b"]["rank"]) == (1, 3)
    assert got["difference"] == pytest.approx(got["a"]["score"] - got["b"]["score"])
    assert got["differences"][-1]["total"] == pytest.approx(got["difference"])
    assert "stands above b, rank 3 with score" in cli(*args, "1", "3").stdout
    assert "does not stand above b, rank 1 with score" in cli(*args, "3", "1").stdout
    same = cli(*args, "1", "1").stdout
    assert "is tied with b" in same
    assert "No feature tells them apart." in same
    assert len(cli(*args, "1", "3", "--top", "1").stdout.splitlines()) == 6


def test_document_ids_are_shown_where_they_are_read(cli, path, test_file, write):
    lines = test_file.read_text().splitlines()
    data = write("ids.txt", "".join(f"{line} # d{n}\n" for n, line in enumerate(lines)))
    qid = str(read_data(data).query_ids[0])
    page = cli("explain", path, data, "--query", qid, "--document-ids").stdout
    row = next(line for line in words(page) if line[:1] == ["1"])
    assert row[2] == f"d{row[1]}"
    page = cli("explain", path, data, "--query", qid, "--document-ids", "--why", "1", "2").stdout
    assert f"rank 1 ({row[2]}) with score" in page


def test_documents_without_labels_are_explained_but_not_measured(cli, path, test_file, model):
    data = read_data(test_file, feature_names=model.feature_names)
    to_frame(data).drop(columns="label").to_csv("test.csv", index=False)
    qid = str(data.query_ids[0])
    page = cli("explain", path, "test.csv", "--query", qid).stdout
    assert words(page)[2] == ["rank", "row", "score"]
    fails(cli("explain", path, "test.csv"), 1, "test.csv: the label column must be")


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (["--query", "9999"], 1, "test.txt: --query must be one of its 12 queries"),
        (["--query", "QID", "--document", "0"], 2, "--document must be a rank of query"),
        (["--query", "QID", "--document", "999"], 2, "Got 999."),
        (["--query", "QID", "--why", "1", "999"], 2, "--why must be a rank of query"),
    ],
)
def test_query_or_rank_that_is_not_there_is_refused(
    cli, path, test_file, query, args, code, problem
):
    args = [query[0] if arg == "QID" else arg for arg in args]
    fails(cli("explain", path, test_file, *args), code, problem)


def test_pages_fit_into_80_columns(cli, monkeypatch, path, test_file, query):
    monkeypatch.setenv("COLUMNS", "80")
    pages = [cli("explain", path).stdout, cli("inspect", path).stdout]
    of_query = ["explain", path, test_file, "--query", query[0]]
    pages += [
        cli(*of_query, *more).stdout for more in ([], ["--document", "1"], ["--why", "1", "2"])
    ]
    # But for the name of the file, which is there to be copied.
    assert max(len(line) for page in pages for line in page.splitlines()[1:]) <= 80


def test_inspect_knows_a_model_by_its_content(cli, cli_json, path, model, tmp_path):
    other = tmp_path / "train.csv"
    other.write_bytes(path.read_bytes())
    got = cli_json("inspect", other)
    assert (got["kind"], got["trees"], got["leaves"]) == ("model", 5, len(model.ensemble.value))
    assert got["feature_names"] == list(model.feature_names)
    assert got["changed_parameters"] == {"n_estimators": [5, "auto"]}
    curve = model.history["vali"]["ndcg@10"]
    assert got["validation"] == [
        {
            "set": "vali", "metric": "ndcg@10", "last": curve[-1], "best": max(curve),
            "best_trees": curve.index(max(curve)) + 1,
        }
    ]  # fmt: skip
    assert got["history"] == model.history
    assert not got["needs_base_scores"]


def test_inspect_shows_trees_parameters_validation_and_features(cli, path, model):
    page = cli("inspect", path).stdout
    lines = words(page)
    (trees,) = (line for line in lines if line[:1] == ["trees"])
    assert trees[1] == "5"
    assert trees[-3:] == ["by", "Rankgrove", model.version]
    # What was trained, though all that says so is left to choose.
    assert trees[2:5] == ["oblivious,", "for", "yetirank,"]
    assert ["n_estimators", "5", "auto"] in lines
    assert any(line[:2] == ["vali", "ndcg@10"] for line in lines)
    top = model.feature_names[int(np.argmax(model.importance()))]
    assert any(line[:1] == [top] for line in lines)


def test_depth_of_trees_is_the_longest_way_to_a_leaf(cli_json, path, model):
    def depth(node):
        return 0 if "leaf" in node else 1 + max(depth(node["left"]), depth(node["right"]))

    expected = max(depth(model.tree_as_dict(number)) for number in range(model.n_trees))
    assert cli_json("inspect", path)["depth"] == expected


def test_model_of_default_parameters_and_one_leaf_is_shown(cli, write):
    # Equal labels: nothing to learn, and the only tree is a leaf.
    write("flat.txt", "".join(f"1 qid:{n // 5} 1:{n} 2:{-n}\n" for n in range(100)))
    result = cli("train", "flat.txt", "-o", "m.safetensors")
    assert result.exit_code == 0
    last = result.stderr.splitlines()[-1]
    assert last.startswith("rankgrove: warning: no split was found")
    page = cli("inspect", "m.safetensors").stdout
    assert "All parameters are the defaults." in page
    assert cli("explain", "m.safetensors").stdout.startswith("1 tree use")

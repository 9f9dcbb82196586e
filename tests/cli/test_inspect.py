"""`rankgrove inspect`: what it shows and what it finds worth a look."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankgrove import MARTClassifier, MARTRegressor, Model
from rankgrove.boosting.parameters import Parameters


def kinds(document):
    return {finding["kind"]: finding["count"] for finding in document["worth_a_look"]}


def test_json_has_the_description_of_the_data(cli_json, data):
    got = cli_json("inspect", data)
    assert (got["documents"], got["queries"], got["features"]) == (7, 3, 2)
    assert got["grades"] == {"0": 4, "1": 2, "2": 1}
    assert len(got["per_feature"]) == 2


def test_page_has_sizes_and_both_histograms(cli, data):
    lines = cli("inspect", data).stdout.splitlines()
    words = [line.split() for line in lines]
    assert ["documents", "7"] in words
    assert ["0", "4", "57.1", "%", "#" * 40] in words
    assert ["1", "2", "28.6", "%", "#" * 20] in words
    assert ["2", "to", "3", "3", "100.0", "%", "#" * 40] in words
    assert not any(line.startswith("f1 ") for line in lines)


def test_features_are_listed_on_request(cli, data):
    lines = cli("inspect", data, "--per-feature").stdout.splitlines()
    assert ["f1", "1", "2.5714", "5", "0.0", "%", "0.0", "%"] in [line.split() for line in lines]


def test_page_fits_into_80_columns(cli, write, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [f"{r % 5} qid:{r // 700} 1:{r}.5 2:1e30\n" for r in range(100_000)]
    lines = cli("inspect", write("data.txt", "".join(rows)), "--per-feature").stdout.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 qid:1 1:1\n0 qid:1 1:2\n", {"one_query": 1}),
        ("1 qid:1 1:1\n2 qid:2 1:2\n", {"one_document_each": 2}),
        ("1 qid:1 1:1\n2 qid:2 1:2\n1 qid:2 1:3\n", {"one_document": 1}),
        ("0 qid:1 1:1\n0 qid:1 1:3\n2 qid:2 1:2\n1 qid:2 1:5\n", {"no_relevant": 1}),
        ("1 qid:1 1:1\n1 qid:1 1:3\n2 qid:2 1:2\n1 qid:2 1:5\n", {"equal_labels": 1}),
        ("-1 qid:1 1:1\n1 qid:1 1:3\n2 qid:2 1:2\n1 qid:2 1:5\n", {"negative_label": 1}),
        ("0 qid:1 1:1\n1 qid:1 1:3\n5 qid:2 1:2\n1 qid:2 1:5\n", {"high_label": 1}),
        ("0 qid:1 1:1\n1 qid:1 1:1\n2 qid:2 1:2\n1 qid:2 1:5\n", {"contradiction": 1}),
        ("0 qid:1 1:1 2:1\n1 qid:1 1:3 2:1\n2 qid:2 1:2 2:1\n1 qid:2 1:5 2:1\n",
         {"constant_feature": 1}),
        ("0 qid:1 1:1\n1 qid:1 1:inf\n2 qid:2 1:2\n1 qid:2 1:5\n", {"infinite_value": 1}),
        ("".join(f"{r / 8} qid:{r // 10} 1:{r}\n" for r in range(33)), {"many_labels": 33}),
        ("0 qid:1 1:1\n1 qid:1 1:3\n2 qid:2 1:2\n1 qid:2 1:5\n", {}),
    ],
)  # fmt: skip
def test_what_is_worth_a_look_is_found(cli, cli_json, write, text, expected):
    path = write("data.txt", text)
    assert kinds(cli_json("inspect", path)) == expected
    page = cli("inspect", path).stdout
    assert ("worth a look\n-" in page) == bool(expected)


def test_labels_that_are_measurements_are_shown_by_quantiles(cli, write):
    text = "".join(f"{r / 8} qid:{r // 10} 1:{r}\n" for r in range(41))
    page = cli("inspect", write("data.txt", text)).stdout
    assert ["50", "%", "2.5"] in [line.split() for line in page.splitlines()]


def test_table_is_read_with_the_columns_named(cli_json, write):
    text = "grade;query;w,bm25,url\n".replace(";", ",") + "1,a,2,7.5,x\n0,a,2,,y\n1,b,1,2,z\n"
    path = write("data.csv", text)
    got = cli_json(
        "inspect", path, "--label", "grade", "--qid", "query", "--weight", "w", "--features", "bm25"
    )
    assert (got["queries"], got["features"]) == (2, 1)
    assert got["missing_features"] == {"bm25": 1}


def test_sizes_of_queries_come_from_a_file(cli, cli_json, write):
    path = write("data.csv", "label,bm25\n1,2\n0,1\n1,1\n")
    sizes = write("data.group", "2\n1\n")
    assert cli_json("inspect", path, "--group", sizes)["queries"] == 2
    result = cli("inspect", path, "--group", write("wrong.group", "2\n2\n"))
    assert result.exit_code == 1
    assert "add up to the number of rows, 3" in result.stderr


@pytest.mark.parametrize("content", ["two\n", "", "2\nnan\n"])
def test_sizes_that_are_no_numbers_are_refused_with_their_file(cli, write, content):
    path = write("data.csv", "label,bm25\n1,2\n0,1\n1,1\n")
    result = cli("inspect", path, "--group", write("wrong.group", content))
    assert result.exit_code == 1
    assert "wrong.group" in result.stderr


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_number_of_threads_does_not_change_the_result(cli_json, data, n_jobs):
    assert cli_json("inspect", data, "--n-jobs", n_jobs) == cli_json("inspect", data)


def test_no_threads_are_refused(cli, data):
    result = cli("inspect", data, "--n-jobs", 0)
    assert result.exit_code == 2
    assert "--n-jobs must be" in result.stderr


def test_model_shows_what_auto_came_to(cli, cli_json, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = cli_json(
        "train", trained / "train.txt", "--n-estimators", "2", "--metric", "err", "-o", "m"
    )
    assert made["parameters"]["objective"] == made["parameters"]["grower"] == "auto"
    assert made["plan"]["objective"] == "yetiloss"
    assert made["plan"]["grower"] == "oblivious"
    assert made["plan"]["eval_metric"] == ["err"]
    shown = cli_json("inspect", "m")
    assert shown["plan"] == made["plan"] == Model.load("m").notes["plan"]
    assert "plan" not in shown["notes"]
    rows = [line.split() for line in cli("inspect", "m").stdout.splitlines()]
    assert ["min_samples_leaf", "1"] in rows
    assert ["permutations", "3"] in rows


def test_preferences_name_the_objective_that_they_were_trained_by(cli_json, trained, tmp_path):
    lines = (trained / "train.txt").read_text().splitlines()
    query = lines[0].split()[1].removeprefix("qid:")
    (tmp_path / "pairs.txt").write_text(f"{query} 1 2\n")
    model = tmp_path / "m.safetensors"
    cli_json("train", trained / "train.txt", "--preferences", tmp_path / "pairs.txt",
             "--n-estimators", "1", "-o", model)  # fmt: skip
    shown = cli_json("inspect", model)
    assert (shown["objective"], shown["grower"]) == ("lambdamart", "leafwise")
    assert shown["parameters"]["objective"] == "auto"


def test_model_without_a_plan_shows_what_auto_comes_to_now(cli_json, trained, tmp_path):
    model = Model.load(trained / "model.safetensors")
    notes = {name: note for name, note in model.notes.items() if name != "plan"}
    replace(model, notes=notes).save(tmp_path / "old.safetensors")
    shown = cli_json("inspect", tmp_path / "old.safetensors")
    assert shown["plan"] == Parameters(n_estimators=5).resolve().as_json()


@pytest.mark.parametrize(
    ("estimator", "loss"), [(MARTRegressor, "squared error"), (MARTClassifier, "log loss")]
)
def test_the_best_loss_of_single_rows_is_the_lowest(cli, cli_json, tmp_path, estimator, loss):
    rng = np.random.default_rng(0)
    features, labels = rng.random((80, 3)), rng.integers(0, 2, 80)
    # Labels are noise: each tree makes the loss on the other half worse, sooner or later.
    model = estimator(n_estimators=20, learning_rate=0.5, min_samples_leaf=2)
    model.fit(features[:40], labels[:40], eval_set=[(features[40:], labels[40:])])
    model.save(tmp_path / "mart.safetensors")
    values = model.model_.history["valid"][loss]
    assert min(values) < values[-1]
    [entry] = cli_json("inspect", tmp_path / "mart.safetensors")["validation"]
    best = {"best": min(values), "best_trees": values.index(min(values)) + 1}
    assert entry == {"set": "valid", "metric": loss, "last": values[-1], **best}
    page = cli("inspect", tmp_path / "mart.safetensors").stdout
    assert f"{min(values):.4f}" in page

"""`rankgrove combine`: what it finds, what it writes, what it refuses."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from cli.samples import fails, make_parts
from rankgrove import Model, Ranker, combine_two, evaluate, read_data
from rankgrove.data.files import write_data


@pytest.fixture(scope="session")
def two_models(tmp_path_factory):
    """A directory with vali.txt, test.txt and the models a, b and c; leave it as it is."""
    directory = tmp_path_factory.mktemp("two")
    parts = make_parts()
    for name in ("vali", "test"):
        write_data(parts[name], directory / f"{name}.txt")
    for name, n in (("a", 3), ("b", 9), ("c", 5)):
        half = parts["train"].take_queries(range(n % 2, parts["train"].n_queries, 2))
        Ranker(n_estimators=n, min_samples_leaf=5).fit(half).save(directory / f"{name}.safetensors")
    return directory


def model_files(directory, names="ab"):
    return [directory / f"{name}.safetensors" for name in names]


def test_two_models_become_one_that_scores_like_any(cli, cli_json, two_models):
    vali = two_models / "vali.txt"
    found = cli_json("combine", vali, *model_files(two_models), "-o", "both.safetensors")
    a, b = (Model.load(path) for path in model_files(two_models))
    data = read_data(vali)
    best = combine_two(data, a, b)
    assert found["value"] == best.value
    assert [entry["name"] for entry in found["rankers"]] == ["a", "b"]
    assert [entry["weight"] for entry in found["rankers"]] == [best.alpha, 1 - best.alpha]
    assert found["interval"] == list(best.interval)
    scores = [float(line) for line in cli("score", "both.safetensors", vali).stdout.splitlines()]
    assert evaluate(data, scores, "ndcg@10")["ndcg@10"] == pytest.approx(best.value, abs=1e-12)
    # It is a model like any other.
    for command in (("inspect", "both.safetensors"), ("explain", "both.safetensors", vali)):
        assert cli(*command).exit_code == 0


def test_table_names_each_ranker_with_value_and_weight(cli, two_models):
    result = cli("combine", two_models / "vali.txt", *model_files(two_models, "abc"), "-m", "map")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["ranker", "map", "weight"]
    assert [line[0] for line in lines[1:5]] == ["a", "b", "c", "combined"]
    assert sum(float(line[2]) for line in lines[1:4]) == pytest.approx(1.0, abs=1e-4)
    assert float(lines[4][1]) >= max(float(line[1]) for line in lines[1:4])
    assert "measure it on others" in result.stdout


def test_scores_are_combined_from_files_and_the_curve_is_written(cli, cli_json, two_models, write):
    data = read_data(two_models / "vali.txt")
    rng = np.random.default_rng(0)
    files = []
    for name in ("one", "two"):
        scores = data.labels + rng.normal(0, 2, data.n_documents)
        files.append(write(f"{name}.txt", "".join(f"{score!r}\n" for score in scores.tolist())))
    call = ("combine", two_models / "vali.txt", *files)
    found = cli_json(*call, "--curve", "curve.csv")
    with open("curve.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["alpha", "ndcg@10"]
    assert max(float(row[1]) for row in rows) == pytest.approx(found["value"], abs=1e-12)
    result = cli(*call, "--curve", "curve.svg")
    assert result.stdout.splitlines()[-1] == "Wrote curve.svg"
    with open("curve.svg") as file:
        assert file.read().startswith("<svg")


def test_trees_on_scores_are_saved_scored_and_evaluated(cli, cli_json, two_models):
    vali = two_models / "vali.txt"
    call = ("combine", vali, *model_files(two_models, "abc"), "--method", "lambdamart")
    found = cli_json(*call, "-o", "top.safetensors")
    assert found["rankers"][0]["weight"] is None
    got = cli_json("evaluate", "top.safetensors", vali, "-m", "ndcg@10")
    assert got["metrics"]["ndcg@10"]["mean"] == found["value"]
    assert len(cli("score", "top.safetensors", two_models / "test.txt").stdout.splitlines()) > 20
    shown = cli_json("inspect", "top.safetensors")
    assert (shown["kind"], len(shown["parts"])) == ("combined", 3)
    assert ["1", "3", "trees"] in [
        line.split() for line in cli("inspect", "top.safetensors").stdout.splitlines()
    ]
    fails(cli("explain", "top.safetensors"), 2, "DATA must be given for a combined model")
    worth = cli_json("explain", "top.safetensors", vali)
    assert {*worth["drops"][0]} == {"feature", "drop", "std"}
    query = str(read_data(vali).query_ids[0])
    result = cli("explain", "top.safetensors", vali, "--query", query, "--document", "1")
    fails(result, 2, "Got trees on the scores of other models")
    assert "weight" not in cli(*call).stdout


def test_linear_weights_are_shown_and_saved(cli, cli_json, two_models):
    vali = two_models / "vali.txt"
    call = ["combine", *model_files(two_models), vali, "--method", "linear", "-o", "l.safetensors"]
    got = cli_json(*call)
    assert sum(ranker["weight"] for ranker in got["rankers"]) == pytest.approx(1.0)
    measured = cli_json("evaluate", "l.safetensors", vali, "-m", "ndcg@10")["metrics"]
    assert measured["ndcg@10"]["mean"] == pytest.approx(got["value"], abs=1e-9)


def test_calls_that_make_no_sense_are_refused(cli, two_models, write):
    vali = two_models / "vali.txt"
    a, b = model_files(two_models)
    scores = write("s.txt", "1\n2\n")
    fails(cli("combine", vali, a), 2, "two or more rankers")
    fails(cli("combine", a, b, a), 1, "must be a data file. Got a model")
    fails(cli("combine", vali, a, a), 2, "each ranker must be another file. Got one twice")
    fails(cli("combine", vali, a, b, "--method", "swep"), 2, "did you mean 'sweep'?")
    fails(cli("combine", vali, a, b, "-m", "ncdg"), 2, "did you mean 'ndcg'?")
    fails(cli("combine", vali, a, scores), 1, "s.txt: must have one score per document")
    fails(cli("combine", vali, a, scores, "-o", "o.safetensors"), 2, "--out must be used with mod")
    fails(cli("combine", vali, a, b, "-o", a), 2, "--out must not be a file that is read")
    fails(cli("combine", vali, a, b, "-o", "no/o.safetensors"), 1, "cannot be written")
    fails(cli("combine", vali, a, b, "-o", "o.gz"), 2, "--out must not end in .gz")
    fails(cli("combine", vali, a, b, "--curve", "c.png"), 2, "--curve must be a file .csv")
    fails(cli("combine", vali, a, b, scores, "--curve", "c.csv"), 2, "--curve must be used with tw")
    fails(cli("combine", vali, a, "absent.txt"), 1, "absent.txt: there is no such file")
    fails(cli("combine", "absent.txt", a, b), 1, "absent.txt: there is no such file")

"""`rankgrove score`: what it writes, what it reads, what it refuses."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys

import numpy as np
import pytest

from cli.samples import fails, make_parts
from rankgrove import Ranker, read_data, to_frame
from rankgrove.data.files import write_data
from rankgrove.model.model import Model


@pytest.fixture
def model(trained):
    return trained / "model.safetensors"


@pytest.fixture
def test_file(trained):
    return trained / "test.txt"


@pytest.fixture
def expected(model, test_file):
    return Model.load(model).predict(read_data(test_file))


def numbers(text):
    return np.array(list(map(float, text.splitlines())))


def test_scores_go_to_stdout_one_a_line_and_exact(cli, model, test_file, expected):
    np.testing.assert_array_equal(numbers(cli("score", model, test_file).stdout), expected)


@pytest.mark.parametrize("name", ["scores.txt", "scores", "scores.txt.gz"])
def test_scores_go_to_a_file_that_evaluate_reads(
    cli, cli_json, tmp_path, model, test_file, expected, name
):
    result = cli("score", model, test_file, "-o", name)
    assert result.stdout == f"Wrote {name}: {len(expected):,} scores.\n"
    content = (tmp_path / name).read_bytes()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    np.testing.assert_array_equal(numbers(text.decode()), expected)
    by_scores = cli_json("evaluate", name, test_file)["metrics"]
    assert by_scores == cli_json("evaluate", model, test_file)["metrics"]


@pytest.mark.parametrize(("name", "separator"), [("s.csv", ","), ("s.tsv", "\t")])
def test_table_has_query_ids_and_scores(cli, cli_json, model, test_file, expected, name, separator):
    cli("score", model, test_file, "-o", name)
    with open(name, newline="") as file:
        header, *rows = csv.reader(file, delimiter=separator)
    assert header == ["qid", "score"]
    assert [row[0] for row in rows] == [str(qid) for qid in read_data(test_file).qid]
    np.testing.assert_array_equal([float(row[1]) for row in rows], expected)
    got = cli_json("evaluate", name, test_file, "--score-column", "score")["metrics"]
    assert got == cli_json("evaluate", model, test_file)["metrics"]


def test_run_is_what_evaluate_matches_by_document_id(cli, cli_json, model, test_file, write):
    lines = test_file.read_text().splitlines()
    data = write("ids.txt", "".join(f"{line} # d{n}\n" for n, line in enumerate(lines)))
    cli("score", model, data, "--run", "-o", "run.txt")
    with open("run.txt") as file:
        first = [line.split() for line in file][:2]
    assert [line[1::2] for line in first] == [["Q0", "1", "rankgrove"], ["Q0", "2", "rankgrove"]]
    assert float(first[0][4]) >= float(first[1][4])
    got = cli_json("evaluate", "run.txt", data, "--run")["metrics"]
    assert got == cli_json("evaluate", model, data)["metrics"]


def test_run_without_document_ids_is_refused(cli, model, test_file):
    fails(cli("score", model, test_file, "--run"), 1, "its document id")


def test_first_trees_only(cli, model, test_file):
    got = numbers(cli("score", model, test_file, "--n-trees", "2").stdout)
    data = read_data(test_file)
    np.testing.assert_array_equal(got, Model.load(model).predict(data, n_trees=2))
    fails(
        cli("score", model, test_file, "--n-trees", "6"),
        2,
        "--n-trees must be a whole number, from 0 to 5",
    )


def test_json_has_the_scores_or_their_file(cli_json, model, test_file, expected):
    got = cli_json("score", model, test_file)
    assert got["scores"] == expected.tolist()
    assert (got["documents"], got["queries"], got["trees"]) == (len(expected), 12, 5)
    got = cli_json("score", model, test_file, "-o", "s.txt")
    assert got["out"] == "s.txt"
    assert "scores" not in got


@pytest.mark.parametrize("name", ["test.csv", "test.tsv.gz", "test.parquet"])
def test_table_is_scored_by_the_names_of_its_columns(cli, model, expected, tmp_path, name):
    # The model has the names of the synthetic features.
    data = make_parts()["test"]
    write_data(data, name)
    np.testing.assert_allclose(numbers(cli("score", model, name).stdout), expected)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("with_qid", [True, False])
def test_table_needs_no_labels_no_queries_and_no_order(cli, model, expected, suffix, with_qid):
    frame = to_frame(make_parts()["test"], "pandas").drop(columns="label")
    frame["url"] = "http://"
    frame = frame[frame.columns[::-1]] if with_qid else frame.drop(columns="qid")
    if suffix == "csv":
        frame.to_csv("test.csv", index=False)
    else:
        frame.to_parquet("test.parquet")
    result = cli("score", model, f"test.{suffix}")
    np.testing.assert_allclose(numbers(result.stdout), expected)


def test_table_for_a_model_of_numbered_features_goes_by_position(cli, write):
    rows = [(label, 1 + n // 4, n, -n) for n, label in enumerate([2, 0, 1, 0] * 30)]
    write("a.txt", "".join(f"{a} qid:{b} 1:{c} 2:{d}\n" for a, b, c, d in rows))
    write("b.csv", "qid,up,down\n" + "".join(f"{b},{c},{d}\n" for _, b, c, d in rows))
    write("c.csv", "x,qid,f2,f1\n" + "".join(f"7,{b},{d},{c}\n" for _, b, c, d in rows))
    assert cli("train", "a.txt", "--n-estimators", "3", "-o", "m.safetensors").exit_code == 0
    expected = cli("score", "m.safetensors", "a.txt").stdout
    assert cli("score", "m.safetensors", "b.csv").stdout == expected
    assert cli("score", "m.safetensors", "c.csv").stdout == expected


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("qid,bm25\n1,2\n", ["must have the columns asked for. Got no 'score_1' and 15 more"]),
        ("label,qid,bm25\n1,1,2\n", ["the feature column must be one of label, qid, bm25"]),
        ("", ["test.csv"]),
        ("qid\n", ["test.csv"]),
    ],
)
def test_table_without_the_features_of_the_model_is_refused(cli, model, write, content, parts):
    fails(cli("score", model, write("test.csv", content)), 1, "test.csv: ", *parts)


def test_table_of_text_is_refused(cli, model, write):
    names = ",".join(make_parts()["test"].feature_names)
    path = write("test.csv", f"{names}\n{','.join(['x'] * 16)}\n")
    fails(cli("score", model, path), 1, "test.csv: feature columns must be numbers", "'x'")


def test_file_of_other_features_is_refused(cli, model, write):
    narrow = write("narrow.txt", "1 qid:1 1:1\n")
    fails(
        cli("score", model, narrow), 1, "narrow.txt: must have the 16 features", "--n-features 16"
    )
    assert cli("score", model, narrow, "--n-features", "16").exit_code == 0
    wide = write("wide.txt", "1 qid:1 17:1\n")
    fails(cli("score", model, wide), 1, "wide.txt: must have the 16 features of the model. Got 17")


def test_two_models_and_two_data_files_are_refused(cli, model, test_file):
    for command in ("score", "evaluate", "explain"):
        fails(cli(command, model, model), 1, "must be a data file. Got a model")
    fails(cli("score", test_file, test_file), 1, "test.txt: must be a model file")
    fails(cli("explain", test_file), 1, "test.txt: must be a model file")


@pytest.mark.parametrize("command", ["score", "explain"])
def test_file_that_is_no_model_is_refused_and_named(cli, write, model, test_file, command):
    def call(name, content):
        return cli(command, write(name, content), test_file)

    fails(call("empty", b""), 1, "empty: must be a model file. Got an empty one")
    fails(call("garbage", b"\0\1\2\3" * 99), 1, "garbage: must be a model file")
    whole = model.read_bytes()
    fails(call("start", whole[:-100]), 1, "start: must be whole")
    damaged = whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]
    fails(call("damaged", damaged), 1, "damaged: must match its checksum")
    fails(cli(command, "absent", test_file), 1, "absent: there is no such file")
    fails(cli(command, ".", test_file), 1, ".: must be a model file. Got a directory")


def test_output_that_cannot_be_written_is_refused(cli, model, test_file, tmp_path):
    (tmp_path / "folder").mkdir()
    fails(cli("score", model, test_file, "-o", "folder"), 1, "folder")
    fails(cli("score", model, test_file, "-o", "no/such/s.txt"), 1, "no/such/s.txt: cannot be")
    fails(cli("score", model, test_file, "-o", "s.parquet"), 2, "--out must be a text file")
    fails(cli("score", model, test_file, "--run", "-o", "s.csv"), 2, "--out must be a text file")
    fails(cli("score", model, test_file, "-o", test_file), 2, "--out must not be a file that is")


def test_model_on_top_of_base_scores_takes_them_from_a_column(cli, cli_json, tmp_path, expected):
    parts = make_parts()
    based = {
        name: type(part)(**vars(part) | {"base_scores": np.arange(part.n_documents) % 3.0})
        for name, part in parts.items()
    }
    Ranker(n_estimators=2).fit(based["train"]).save(tmp_path / "m.safetensors")
    write_data(based["test"], tmp_path / "test.csv")
    write_data(parts["test"], tmp_path / "test.txt")
    got = numbers(cli("score", "m.safetensors", "test.csv", "--base-score", "base_score").stdout)
    np.testing.assert_array_equal(got, Model.load("m.safetensors").predict(based["test"]))
    for name in ("test.csv", "test.txt"):
        fails(cli("score", "m.safetensors", name), 1, f"{name}: must have base scores", "--base-sc")
    assert cli_json("inspect", "m.safetensors")["needs_base_scores"]
    assert "needs them to score" in cli("inspect", "m.safetensors").stdout


def test_reader_that_stops_reading_is_no_error(model, test_file):
    command = [sys.executable, "-m", "rankgrove", "score", str(model), str(test_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141

"""`rankgrove evaluate`: where scores come from, which metrics, what is written."""

from __future__ import annotations

import csv
import gzip
import math

import numpy as np
import pytest

from cli.samples import SCORES, fails
from rankgrove import evaluate
from rankgrove.data.letor import read_letor
from rankgrove.model.model import Model

NDCG = (1 + 1 / math.log2(3)) / 2


def test_scores_are_measured_over_the_queries(cli_json, data, scores):
    got = cli_json("evaluate", scores, data)
    assert (got["documents"], got["queries"]) == (7, 3)
    assert list(got["metrics"]) == ["ndcg@10", "map", "mrr", "err"]
    assert got["metrics"]["ndcg@10"]["mean"] == pytest.approx(NDCG)
    assert (got["metrics"]["mrr"]["counted"], got["metrics"]["mrr"]["skipped"]) == (2, 1)


def test_table_shows_what_json_has(cli, data, scores):
    lines = cli("evaluate", scores, data).stdout.splitlines()
    assert lines[0].split() == ["metric", "mean", "std.error", "queries", "skipped"]
    assert lines[1].split() == ["ndcg@10", f"{NDCG:.4f}", f"{1 - NDCG:.4f}", "2", "1"]


@pytest.mark.parametrize("column", ["1", "f1"])
def test_feature_is_a_score_by_name_and_number(cli_json, data, scores, column):
    expected = cli_json("evaluate", scores, data)["metrics"]
    assert cli_json("evaluate", data, "--column", column)["metrics"] == expected


def test_feature_that_the_data_do_not_have_is_refused(cli, data):
    fails(cli("evaluate", data, "--column", "3"), 1, "from 1 to 2", "'3'")
    fails(cli("evaluate", data, "--column", "bm25"), 1, "f1, f2")


def test_missing_values_of_a_feature_rank_last(cli, cli_json, write):
    path = write("data.csv", "label,qid,bm25\n0,1,\n1,1,-7\n")
    assert (
        cli_json("evaluate", path, "--column", "bm25", "-m", "mrr")["metrics"]["mrr"]["mean"] == 1
    )
    assert "missing in 1 document" in cli("evaluate", path, "--column", "bm25").stderr


def test_commas_inside_brackets_do_not_separate_metrics(cli_json, data, scores):
    lists = ["-m", "map@100(ties=expected, relevant>=2),ndcg(gain=[0, 1, 3])", "-m", "mrr"]
    assert list(cli_json("evaluate", scores, data, *lists)["metrics"]) == [
        "map@100(ties=expected, relevant>=2)",
        "ndcg(gain=[0, 1, 3])",
        "mrr",
    ]


def test_all_unknown_metrics_are_reported_before_the_data_are_read(cli):
    result = cli("evaluate", "absent.txt", "absent.txt", "-m", "ndgc@10,map,mr(")
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first.startswith("rankgrove: error: ndgc@10: ")
    assert first.endswith("did you mean 'ndcg'?")
    assert second.startswith("rankgrove: error: mr(: ")


def test_no_metric_is_refused(cli, data, scores):
    fails(cli("evaluate", scores, data, "-m", ","), 2, "at least one metric")


def test_preset_alone_measures_what_that_tool_knows(cli_json, data, scores):
    got = cli_json("evaluate", scores, data, "--preset", "lightgbm")["metrics"]
    assert list(got) == [
        "ndcg@10(ties=stable, empty=one)",
        "map(ties=stable, empty=one, norm=cutoff)",
    ]


def test_unknown_preset_is_refused(cli, data, scores):
    fails(cli("evaluate", scores, data, "--preset", "lightgbn"), 2, "did you mean 'lightgbm'")


def test_preset_that_needs_document_ids_takes_them_from_the_data(cli_json, data, scores):
    got = cli_json("evaluate", scores, data, "--preset", "trec_eval", "-m", "mrr")["metrics"]
    assert [row["mean"] for row in got.values()] == [pytest.approx(0.5)]


def test_document_ids_that_are_not_there_are_an_error(cli, write, scores):
    path = write("data.txt", "1 qid:1 1:1 # a\n0 qid:1 1:2\n")
    fails(cli("evaluate", scores, path, "--preset", "trec_eval"), 1, "document 2", "data.txt")


def test_values_of_each_query_go_to_a_file(cli, tmp_path, data, scores):
    result = cli(
        "evaluate", scores, data, "-m", "mrr,map(ties=best, empty=one)", "--per-query", "q.csv"
    )
    assert "q.csv" in result.stdout
    with open(tmp_path / "q.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["qid", "mrr", "map(ties=best, empty=one)"],
        ["1", "1.0", "1.0"],
        ["2", "0.5", "0.5"],
        ["3", "", "1.0"],
    ]


def test_values_of_each_query_are_exact_and_tab_separated_on_request(cli, tmp_path, data):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=7)
    (tmp_path / "s.txt").write_text("\n".join(map(repr, scores.tolist())))
    cli("evaluate", "s.txt", data, "-m", "ndcg", "--per-query", "q.tsv.gz")
    lines = gzip.decompress((tmp_path / "q.tsv.gz").read_bytes()).decode().splitlines()
    expected = evaluate(read_letor(data), scores, "ndcg").per_query("ndcg")
    got = [float(line.split("\t")[1] or "nan") for line in lines[1:]]
    np.testing.assert_array_equal(got, expected)


def test_file_for_each_query_that_cannot_be_written_is_an_error(cli, data, scores):
    fails(cli("evaluate", scores, data, "--per-query", "no/such/q.csv"), 1, "no/such/q.csv")


@pytest.mark.parametrize(
    "content",
    [
        SCORES + "\n\n \n",
        "# by hand\n" + SCORES.replace("\n", "\r\n"),
        "\ufeff" + SCORES,
        SCORES.strip(),
        gzip.compress(SCORES.encode(), mtime=0),
    ],
)
def test_score_file_may_have_comments_and_blank_lines_at_its_end(
    cli_json, write, data, scores, content
):
    other = write("other", content)
    expected = cli_json("evaluate", scores, data)["metrics"]
    assert cli_json("evaluate", other, data)["metrics"] == expected


@pytest.mark.parametrize(
    ("content", "place", "problem"),
    [
        ("1\n2\nnan\n", "bad.txt:3:1:", "'nan'"),
        ("# x\n1\nNaN\n", "bad.txt:3:1:", "'NaN'"),
        ("1\nten\n", "bad.txt:2:1:", "'ten'"),
        ("1\n1_0\n", "bad.txt:2:1:", "'1_0'"),
        ("1\n\n2\n", "bad.txt:2:1:", "blank line"),
        ("1 2\n", "bad.txt:1:1:", "--score-column"),
        ("", "bad.txt:", "no number at all"),
        (b"\x1f\x8bgarbage", "bad.txt:", "compressed file"),
        ("1\n2\n", "bad.txt:", "7. Got 2"),
        (SCORES * 3, "bad.txt:", "7. Got 21"),
    ],
)
def test_score_file_that_is_wrong_is_refused_at_its_place(
    cli, write, data, content, place, problem
):
    result = cli("evaluate", write("bad.txt", content), data)
    fails(result, 1, place, problem)


@pytest.mark.parametrize(
    ("name", "separator"), [("s.csv", ","), ("s.tsv", "\t"), ("s.csv.gz", ",")]
)
def test_scores_come_from_a_column_of_a_table(cli_json, write, data, scores, name, separator):
    rows = [f'"a,\t{number}"{separator}{score}' for number, score in enumerate(SCORES.split())]
    text = "\n".join([f"name{separator}my score", *rows]) + "\n"
    content = gzip.compress(text.encode()) if name.endswith(".gz") else text
    expected = cli_json("evaluate", scores, data)["metrics"]
    got = cli_json("evaluate", write(name, content), data, "--score-column", "my score")
    assert got["metrics"] == expected


@pytest.mark.parametrize(
    ("name", "content", "code", "problem"),
    [
        ("s.csv", "a,b\n1,2\n", 1, "the score column must be one of a, b"),
        ("s.csv", "score\n1\nx\n", 1, "s.csv:3:1: a score must be a number. Got 'x'"),
        ("s.csv", "a,score\n1,1\n1\n", 1, "s.csv:3:1: a score must be a number. Got ''"),
        ("s.csv", "score\n1\n2\n", 1, "7. Got 2"),
        ("s.csv", b"score\n\xff\n", 1, "UTF-8"),
        ("s.csv", "", 1, "s.csv"),
        ("s.txt", "score\n1\n", 2, "CSV or TSV"),
    ],
)
def test_score_column_that_is_wrong_is_refused(cli, write, data, name, content, code, problem):
    result = cli("evaluate", write(name, content), data, "--score-column", "score")
    fails(result, code, problem)


def run_lines(*documents):
    return "".join(f"{qid} Q0 {doc} 0 {score} me\n" for qid, doc, score in documents)


FULL_RUN = [
    (3, "g", 2), (1, "c", 2), (2, "e", 4), (1, "a", 3), (2, "d", 5), (1, "b", 1), (3, "f", 1),
]  # fmt: skip


def test_run_is_matched_by_query_and_document_id(cli_json, write, data, scores):
    run = write("run.txt", run_lines(*FULL_RUN))
    expected = cli_json("evaluate", scores, data)["metrics"]
    assert cli_json("evaluate", run, data, "--run")["metrics"] == expected


def test_run_is_matched_by_the_docid_in_letor_comments(cli_json, write):
    lines = [f"{g} qid:7 1:{g} #docid = GX{g} inc = 1 prob = 0.5\n" for g in (0, 1)]
    path = write("data.txt", "".join(lines))
    run = write("run.txt", run_lines((7, "GX1", 0.5), (7, "GX0", 0.25)))
    assert cli_json("evaluate", run, path, "--run", "-m", "mrr")["metrics"]["mrr"]["mean"] == 1


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (FULL_RUN[:-1], "none for 1 of them, as document 'f' of query 3"),
        ([*FULL_RUN, (1, "x", 1)], "run.txt:8:1: document 'x' of query 1"),
        ([*FULL_RUN, (1, "a", 1)], "a second time"),
        ([(1, "a", "nan")], "run.txt:1:1: a score must be a number. Got 'nan'"),
        ([(1, "a b", 1)], "run.txt:1:1: a line must be 'qid Q0 document-id rank score tag'"),
    ],
)
def test_run_must_have_the_documents_of_the_data(cli, write, data, run, problem):
    fails(cli("evaluate", write("run.txt", run_lines(*run)), data, "--run"), 1, problem)


def test_table_is_measured_without_its_features(cli_json, write, scores, data):
    rows = ["url,label,qid", "x,2,1", "x,0,1", "x,1,1", "x,0,2", "x,1,2", "x,0,3", "x,0,3"]
    table = write("data.csv", "\n".join(rows) + "\n")
    expected = cli_json("evaluate", scores, data)["metrics"]
    assert cli_json("evaluate", scores, table)["metrics"] == expected


def test_all_queries_empty_is_an_error_that_says_what_to_choose(cli, write):
    path = write("data.txt", "0 qid:1 1:1\n0 qid:1 1:2\n")
    fails(cli("evaluate", path, "--column", "1"), 1, "empty=zero")


@pytest.mark.parametrize(
    "args",
    [
        ["a", "b", "--column", "1"],
        ["a", "--column", "1", "--run"],
        ["a", "b", "--run", "--score-column", "x"],
        ["a", "b", "c"],
    ],
)
def test_options_that_contradict_each_other_are_refused(cli, args):
    fails(cli("evaluate", *args), 2, "Got ")


def test_model_is_known_by_its_content_and_measured(cli, cli_json, trained, tmp_path):
    model = tmp_path / "scores.txt"
    model.write_bytes((trained / "model.safetensors").read_bytes())
    got = cli_json("evaluate", model, trained / "test.txt", "-m", "ndcg@5")
    data = read_letor(trained / "test.txt")
    expected = evaluate(data, Model.load(model).predict(data), "ndcg@5")
    assert got["metrics"] == expected.to_dict()
    assert got["model"] == str(model)
    assert "scores" not in got


def test_model_and_options_of_scores_are_refused(cli, trained):
    files = [trained / "model.safetensors", trained / "test.txt"]
    for option in (["--run"], ["--score-column", "x"]):
        fails(cli("evaluate", *files, *option), 2, "--score-column and --run must be used with")


def test_model_is_measured_with_document_ids_where_metrics_need_them(cli, cli_json, trained, write):
    model, test_file = trained / "model.safetensors", trained / "test.txt"
    fails(cli("evaluate", model, test_file, "--preset", "trec_eval"), 1, "its document id")
    lines = test_file.read_text().splitlines()
    data = write("ids.txt", "".join(f"{line} # d{n}\n" for n, line in enumerate(lines)))
    assert cli_json("evaluate", model, data, "--preset", "trec_eval")["documents"] == len(lines)


def test_document_weights_are_for_pairs_and_refused_for_positions(cli, cli_json, write):
    text = "label,qid,weight,bm25\n0,1,1,3\n1,1,2,2\n2,1,4,1\n2,2,1,2\n1,2,1,1\n"
    options = ["evaluate", write("data.csv", text), "--column", "bm25"]
    weighed = [*options, "--document-weight", "weight"]
    got = cli_json(*weighed, "-m", "pair_accuracy")["metrics"]["pair_accuracy"]["mean"]
    assert got == pytest.approx((0 + 1) / 2)
    text = text.replace("3\n", "0\n", 1)
    write("data.csv", text)
    # In the first query 1 * 2 and 1 * 4 are right now, and 2 * 4 is not.
    got = cli_json(*weighed, "-m", "pair_accuracy")["metrics"]["pair_accuracy"]["mean"]
    assert got == pytest.approx((6 / 14 + 1) / 2)
    fails(cli(*weighed, "-m", "ndcg@5"), 1, "ndcg@5 must be measured without document weights")

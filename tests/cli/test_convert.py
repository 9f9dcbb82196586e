"""`rankgrove convert`: every format to every other, and what is said of what gets lost."""

from __future__ import annotations

import numpy as np
import pytest

from data.samples import ALL_ROLES, assert_identical, full_dataset
from rankgrove.data.files import read_data
from rankgrove.data.frames import write_table

NAMES = ["a.txt", "a", "a.txt.gz", "a.zst", "a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst", "a.parquet"]


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_every_format_becomes_every_other(cli, data, source, target):
    assert cli("convert", data, source).exit_code == 0
    result = cli("convert", source, f"to_{target}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "7 documents, 3 queries, 2 features" in result.stdout
    assert_identical(read_data(f"to_{target}"), read_data(data))


def test_json_says_what_was_written(cli_json, data, tmp_path):
    got = cli_json("convert", data, "out.csv")
    assert got["bytes"] == (tmp_path / "out.csv").stat().st_size
    assert (got["documents"], got["queries"], got["features"]) == (7, 3, 2)
    assert (got["format"], got["document_ids"], got["warnings"]) == ("csv", False, [])


@pytest.mark.parametrize("target", ["out.txt", "out.csv", "out.parquet"])
def test_document_ids_are_kept_on_request(cli, data, target):
    assert cli("convert", data, target, "--document-ids").exit_code == 0
    assert read_data(target, document_ids=True).document_ids.tolist() == list("abcdefg")


def test_all_roles_of_a_table_are_carried_to_another(cli, tmp_path):
    data = full_dataset("strings")
    write_table(data, tmp_path / "in.parquet")
    roles = [f"--{name.replace('_', '-')}={name}" for name in ALL_ROLES]
    result = cli("convert", "in.parquet", "out.csv", *roles)
    assert result.exit_code == 0
    assert_identical(read_data("out.csv", **ALL_ROLES), data)
    options = result.stdout.splitlines()[-1].partition("read it with ")[2]
    assert cli("convert", "out.csv", "again.csv", *options.split()).exit_code == 0
    assert_identical(read_data("again.csv", **ALL_ROLES), data)


def test_what_letor_cannot_hold_is_named_and_the_rest_is_written(cli, cli_json, write):
    write("in.csv", "label,qid,w,old,bm25,pagerank\n1,1,2,0.5,3,4\n0,1,2,0.25,5,6\n")
    args = ["convert", "in.csv", "out.txt", "--weight", "w", "--base-score", "old"]
    result = cli(*args)
    assert result.exit_code == 0
    warnings = result.stderr.splitlines()
    assert all(line.startswith("rankgrove: warning: LETOR has no place for ") for line in warnings)
    for line, what in zip(warnings, ["weights", "base scores", "feature names"], strict=True):
        assert what in line
    assert len(cli_json(*args)["warnings"]) == 3
    np.testing.assert_array_equal(read_data("out.txt").features, [[3, 4], [5, 6]])


def test_first_feature_of_letor_may_be_number_0(cli, write, tmp_path):
    write("in.csv", "label,qid,f1\n1,1,3\n0,1,5\n")
    cli("convert", "in.csv", "out.txt", "--out-index-base", "0")
    assert (tmp_path / "out.txt").read_text() == "1 qid:1 0:3\n0 qid:1 0:5\n"
    result = cli("convert", "out.txt", "back.csv", "--index-base", "0")
    assert result.exit_code == 0
    assert_identical(read_data("back.csv"), read_data("in.csv"))


def test_letor_options_for_a_table_are_refused_before_anything_is_read(cli):
    result = cli("convert", "absent.txt", "out.csv", "--out-index-base", "0")
    assert result.exit_code == 2
    assert "--out-index-base" in result.stderr


def test_file_may_be_converted_into_itself(cli, data):
    before = read_data(data)
    assert cli("convert", data, data).exit_code == 0
    assert_identical(read_data(data), before)


def test_failed_conversion_leaves_the_old_file(cli, write, tmp_path):
    write("bad.txt", "1 qid:1 1:x\n")
    write("out.csv", "mine")
    assert cli("convert", "bad.txt", "out.csv").exit_code == 1
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("target", ["no/such/out.txt", "no/such/out.csv", ".", "in.parquet.gz"])
def test_target_that_cannot_be_written_is_an_error(cli, data, target):
    result = cli("convert", data, target)
    assert result.exit_code in (1, 2)
    assert target in result.stderr
    assert "Traceback" not in result.stderr

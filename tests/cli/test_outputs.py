"""What commands write is checked before the work, and named and written in one way."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.samples import fails
from rankgrove.cli.files import check_outputs, name_files, write_table
from rankgrove.data.streams import check_writable
from rankgrove.errors import DataError, ParameterError


def test_a_file_that_is_read_is_not_written(tmp_path):
    source = tmp_path / "data.txt"
    source.write_text("1 qid:1 1:1\n")
    link = tmp_path / "link.txt"
    link.symlink_to(source)
    for path in (source, link, tmp_path / "." / "data.txt"):
        with pytest.raises(ParameterError, match="out must not be a file that is read") as error:
            check_outputs([None, source], {"out": path})
        assert error.value.name == "out"


def test_two_files_that_are_written_must_differ(tmp_path):
    written = {"out": tmp_path / "a", "checkpoint": tmp_path / "b" / ".." / "a"}
    with pytest.raises(ParameterError, match="out and checkpoint must be two files"):
        check_outputs([], written)


def test_compressed_names_are_refused_where_nothing_is_compressed(tmp_path):
    written = {"out": tmp_path / "model.safetensors.gz"}
    with pytest.raises(ParameterError, match=r"out must not end in \.gz or \.zst"):
        check_outputs([], written)
    check_outputs([], written, compressed=True)


def test_places_that_cannot_be_written_are_refused_and_nothing_is_made(tmp_path):
    for path, problem in (
        (tmp_path, "is a directory"),
        (tmp_path / "absent" / "file", "cannot be written: No such file or directory"),
        (Path("/dev/null"), "is not a regular file"),
    ):
        with pytest.raises(DataError, match=problem):
            check_writable(path)
    check_writable(tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_files_are_named_without_what_they_all_have():
    paths = [Path("a/vali.txt.gz"), Path("m0.5.safetensors"), Path("plain")]
    assert list(name_files("valid", paths)) == ["vali", "m0.5", "plain"]
    same = [Path("a/vali.txt"), Path("b/vali.txt")]
    assert list(name_files("valid", same)) == ["a/vali.txt", "b/vali.txt"]
    with pytest.raises(ParameterError, match="each --valid must be another file"):
        name_files("--valid", [Path("a/vali.txt"), Path("a/vali.txt")])


def test_a_table_has_all_digits_and_nothing_for_what_is_no_number(tmp_path):
    rows = [("q 1", 0.1 + 0.2), ("q,2", float("nan"))]
    write_table(tmp_path / "t.csv", ["qid", "map"], rows)
    assert (tmp_path / "t.csv").read_text() == 'qid,map\nq 1,0.30000000000000004\n"q,2",\n'
    write_table(tmp_path / "t.tsv", ["qid", "map"], rows)
    assert (tmp_path / "t.tsv").read_text() == "qid\tmap\nq 1\t0.30000000000000004\nq,2\t\n"


def test_values_of_queries_are_not_written_over_the_data(cli, data):
    before = data.read_bytes()
    result = cli("evaluate", data, "--column", "1", "--per-query", data)
    fails(result, 2, "--per-query must not be a file that is read")
    result = cli("compare", data, "column:1", "column:2", "--per-query", data)
    fails(result, 2, "--per-query must not be a file that is read")
    assert data.read_bytes() == before

"""`rankgrove export`: files for other programs, and what is printed of them."""

from __future__ import annotations

import pytest

from rankgrove import Ranker, make_web_search, write_letor
from rankgrove.cli.export import FormatOptions
from rankgrove.export import lightgbm_text
from rankgrove.export.formats import EXPORT_FORMATS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    data = make_web_search(20, 16, mean_documents=8)
    write_letor(data, folder / "test.txt")
    Ranker(n_estimators=4).fit(data).save(folder / "model.safetensors")
    return folder / "model.safetensors", folder / "test.txt"


def test_a_file_is_written_and_its_check_is_shown(cli, files, tmp_path):
    model, data = files
    result = cli("export", model, "m.onnx", "--check", data)
    assert (result.exit_code, result.stderr) == (0, "")
    wrote, header, row, remark = result.stdout.splitlines()
    size = (tmp_path / "m.onnx").stat().st_size
    assert wrote.startswith("Wrote m.onnx: 4 trees, ")
    assert f"{size:,} bytes. ONNX operator 3, for ONNX Runtime 1.19 or newer." in wrote
    assert header.split("  ")[0] == "checked by"
    assert "queries in another order" in header
    assert "ndcg@10 here / there" in header
    assert row.startswith("onnxruntime ")
    assert "all (float32)" in row
    assert "0 of 20" in row
    assert remark.startswith("Exact: which leaf each document reaches. Rounded: the score, to")


def test_json_says_what_was_written(cli_json, files, tmp_path):
    model, data = files
    got = cli_json("export", model, "m.txt", "--to", "lightgbm", "--check", data, "--n-trees", 3)
    assert (got["format"], got["trees"]) == ("lightgbm", 3)
    assert got["bytes"] == (tmp_path / "m.txt").stat().st_size
    assert [check["checked_by"].split()[0] for check in got["checks"]] == ["lightgbm", "treelite"]
    assert all(check["n_same"] == check["n_documents"] for check in got["checks"])


def test_options_reach_the_format(cli, files, tmp_path):
    model, _ = files
    args = ("--dialect", "duckdb", "--table", "candidates")
    assert cli("export", model, "m.sql", *args).exit_code == 0
    assert 'FROM "candidates"' in (tmp_path / "m.sql").read_text()


def test_every_option_of_a_format_is_an_option_here():
    known = {name for written in EXPORT_FORMATS.values() for name in written.options}
    assert known == set(FormatOptions.__dataclass_fields__)


def test_the_list_has_every_format(cli, cli_json):
    result = cli("export", "--list")
    assert result.exit_code == 0
    for name, written in EXPORT_FORMATS.items():
        assert f"\n{name} " in result.stdout
        assert f"for {written.purpose}" in result.stdout
    assert [entry["name"] for entry in cli_json("export", "--list")["formats"]] == [*EXPORT_FORMATS]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "MODEL and OUT must be given"),
        (["{model}"], 2, "MODEL and OUT must be given"),
        (["{model}", "m.json"], 2, "--to must be one of"),
        (["{model}", "m", "--to", "onyx"], 2, "did you mean 'onnx'?"),
        (["{model}", "m.onnx", "--operator", "4"], 2, "--operator must be one of 3, 5. Got '4'"),
        (["{model}", "m.onnx", "--table", "t"], 2, "--table must be left out for onnx"),
        (["{model}", "m.onnx", "--n-trees", "9"], 2, "--n-trees must be a whole number"),
        (["{model}", "{model}", "--to", "onnx"], 2, "must not be a file that is read"),
        (["{model}", "m.onnx.gz", "--to", "onnx"], 2, "must not end in .gz"),
        (["{data}", "m.onnx"], 1, "must be a model file"),
        (["none.safetensors", "m.onnx"], 1, "there is no such file"),
        (["{model}", "none/m.onnx"], 1, "cannot be written"),
    ],
)
def test_wrong_calls_are_refused_and_leave_no_file(cli, files, tmp_path, args, code, message):
    model, data = files
    result = cli("export", *(arg.format(model=model, data=data) for arg in args))
    assert result.exit_code == code
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_scores_otherwise_ends_with_1_and_is_not_there(
    cli, files, tmp_path, monkeypatch
):
    model, _ = files
    monkeypatch.setattr(lightgbm_text, "widened", lambda cuts: cuts * 0.0)
    result = cli("export", model, "m.txt", "--to", "lightgbm")
    assert result.exit_code == 1
    assert "must give every document the same bits" in result.stderr
    assert list(tmp_path.iterdir()) == []

"""`rankgrove export` for search engines and as scorers: the commands of docs/export-engines.md."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli.samples import fails
from rankgrove import read_data
from rankgrove.export.rules import ranklib
from rankgrove.model.model import Model

PAGE = Path(__file__).parents[2] / "docs" / "export-engines.md"
COMMANDS = re.findall(r"^rankgrove (export .*)$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.fixture
def folder(trained, tmp_path):
    """Where the command runs, with the files that the page names."""
    for name in ("model.safetensors", "test.txt"):
        shutil.copy(trained / name, tmp_path / name)
    return tmp_path


def test_the_page_has_a_command_for_each_engine_that_is_put_a_request():
    formats = [re.search(r"--to (\S+)", command)[1] for command in COMMANDS]
    assert formats == ["elasticsearch-ltr", "elasticsearch", "solr"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_writes_json_that_the_rules_of_its_engine_accept(
    cli, folder, command
):
    result = cli(*shlex.split(command))
    assert result.exit_code == 0, result.stderr
    assert "(emulated)" in result.stdout
    json.loads((folder / "model.json").read_text())


def test_the_names_of_the_options_are_in_the_file(cli, folder):
    cli("export", "model.safetensors", "m.json", "--to", "solr", "--name", "shop", "--store", "s")
    body = json.loads((folder / "m.json").read_text())
    assert (body["name"], body["store"]) == ("shop", "s")


def test_an_option_of_another_format_is_refused_and_nothing_is_written(cli, folder):
    result = cli("export", "model.safetensors", "m.json", "--to", "vespa", "--store", "s")
    fails(result, 2, "--store must be left out for vespa")
    assert not (folder / "m.json").exists()


def test_the_name_of_a_file_says_which_scorer_it_is(cli_json, folder):
    for name, written in (("m.c", "c"), ("m.mjs", "javascript"), ("m.js", "javascript"),
                          ("m.py", "python"), ("m.java", "java")):  # fmt: skip
        assert cli_json("export", "model.safetensors", name)["format"] == written


def test_documents_with_missing_values_are_counted_for_ranklib(cli, folder):
    result = cli("export", "model.safetensors", "m.txt", "--to", "ranklib", "--check", "test.txt")
    assert result.exit_code == 0, result.stderr
    assert f"the rules of {ranklib.NAME} (emulated)" in result.stdout
    used = Model.load("model.safetensors").used_features()
    n_missing = np.isnan(np.asarray(read_data("test.txt").features)[:, used]).any(axis=1).sum()
    assert n_missing > 1
    assert f"{n_missing} documents not compared: a missing value, which" in result.stdout

"""How the tests call the command line, and the small files they call it on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cli.samples import LETOR, SCORES, make_parts
from rankgrove import Ranker
from rankgrove.cli.main import app
from rankgrove.data.files import write_data


@pytest.fixture
def cli(monkeypatch, tmp_path):
    """Calls the command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    # A width that a test runner sets would wrap what a pipe gets in whole lines.
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*args):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def cli_json(cli):
    """Calls the command with --json; gives the document, which must be all of stdout."""

    def call(*args):
        result = cli(*args, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return call


@pytest.fixture
def process(tmp_path):
    """Calls the command as a process of its own."""

    def call(*args, **options):
        command = [sys.executable, "-m", "rankgrove", *(str(arg) for arg in args)]
        options |= {"capture_output": True, "text": True, "timeout": 120, "cwd": tmp_path}
        return subprocess.run(command, check=False, **options)

    return call


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def data(write):
    return write("data.txt", LETOR)


@pytest.fixture
def scores(write):
    return write("scores.txt", SCORES)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A directory with train.txt, vali.txt, test.txt and a model of 5 trees; leave it as it is."""
    directory = tmp_path_factory.mktemp("trained")
    parts = make_parts()
    for name, part in parts.items():
        write_data(part, directory / f"{name}.txt")
    ranker = Ranker(n_estimators=5).fit(parts["train"], valid={"vali": parts["vali"]})
    ranker.save(directory / "model.safetensors")
    return directory

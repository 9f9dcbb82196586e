"""Compilations are counted in the process that is measured, without importing Numba for it."""

import sys

import pytest
from benchmarks.start import (
    COMMANDS,
    Interpreter,
    make_files,
    parts_of_installation,
    readme_command,
)

from rankgrove import read_data
from rankgrove.cli import main

ADD_ONE = "import numba\nadd_one = numba.njit(lambda x: x + 1)\nadd_one(1)\nadd_one(1.5)"


@pytest.mark.parametrize(
    ("code", "compiled"), [("import sys; assert 'numba' not in sys.modules", 0), (ADD_ONE, 2)]
)
def test_a_run_says_what_it_took_and_how_often_it_compiled(tmp_path, code, compiled):
    run = Interpreter(sys.executable, tmp_path, is_ours=True).run([], str(tmp_path), code)
    assert run.compiled == compiled
    assert min(run.wall, run.cpu) > 0


def test_a_command_runs_as_it_does_from_a_shell(tmp_path):
    run = Interpreter(sys.executable, tmp_path, is_ours=True).run(["--version"], str(tmp_path))
    assert run.compiled == 0


def test_a_run_that_fails_ends_the_benchmark_with_its_message(tmp_path):
    with pytest.raises(SystemExit, match="no-such-file"):
        Interpreter(sys.executable, tmp_path, is_ours=True).run(
            ["inspect", "no-such-file"], str(tmp_path)
        )


def test_the_files_can_be_read_and_the_commands_exist(tmp_path):
    make_files(tmp_path)
    assert read_data(tmp_path / "train.txt").n_queries == 60
    assert {name for name in COMMANDS if not name.startswith("-")} <= set(main.COMMANDS)
    assert readme_command().endswith("rankgrove quickstart")


PIP_LOG = """
2026-11-17T13:43:03,900 Processing /clone
2026-11-17T13:43:04,000   Installing build dependencies: started
2026-11-17T13:43:36,500   Installing build dependencies: finished with status 'done'
2026-11-17T13:43:36,600   Preparing metadata (pyproject.toml): started
2026-11-17T13:43:56,600   Preparing metadata (pyproject.toml): finished with status 'done'
2026-11-17T13:44:20,200   Building wheel for rankgrove (pyproject.toml): started
2026-11-17T13:44:20,700   Building wheel for rankgrove (pyproject.toml): finished with status 'done'
2026-11-17T13:44:25,000 Installing collected packages: rankgrove
"""


def test_the_parts_of_an_installation_are_read_from_the_log_of_pip():
    parts = parts_of_installation(PIP_LOG)
    assert parts == {"what the build needs": 32.5, "the build": pytest.approx(20.5)}

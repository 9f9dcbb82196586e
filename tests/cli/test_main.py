"""The command as a whole: help, exit codes, error lines, pipes and interrupts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import rankgrove
from cli.samples import error_line, interrupt
from rankgrove.cli.main import COMMANDS, _in_options, load_function
from rankgrove.errors import DataError, parameter, word


def test_version_is_that_of_the_package(cli):
    assert cli("--version").stdout == f"rankgrove {rankgrove.__version__}\n"


def test_help_lists_every_command(cli):
    result = cli("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(cli, command):
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_call_without_a_command_shows_the_help_and_is_wrong(cli):
    result = cli()
    assert result.exit_code == 2
    assert "quickstart" in result.stdout


# Which packages, and which parts of ours, a command has imported when it ends.
IMPORTED = """
import sys
from rankgrove.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    names = {name.split(".")[0] for name in sys.modules}
    ours = {".".join(name.split(".")[1:3]) for name in sys.modules if name.startswith("rankgrove.")}
    print("\\n" + " ".join(names | ours))
    sys.exit(end.code)
"""
# What reading text, measuring and scoring do without. (Numba itself imports some of SciPy.)
HEAVY = {
    "boosting", "dask", "estimators", "experiments", "joblib", "narwhals", "objectives", "optuna",
    "pandas", "polars", "pyarrow", "pyspark", "sklearn", "torch", "training", "trees.grower",
}  # fmt: skip
NOT_TO_START = {*HEAVY, "_jit", "data", "metrics", "model", "numba", "numpy", "pydantic", "scipy"}


@pytest.mark.parametrize(
    ("args", "absent"),
    [
        (["--version"], {*NOT_TO_START, "rich"}),
        (["--help"], NOT_TO_START),
        (["inspect", "test.txt"], {*HEAVY, "metrics", "model", "trees"}),
        (["evaluate", "model.safetensors", "test.txt"], HEAVY),
        (["score", "model.safetensors", "test.txt"], HEAVY),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(trained, args, absent):
    command = [sys.executable, "-c", IMPORTED, *args]
    result = subprocess.check_output(command, text=True, cwd=trained, timeout=300)
    imported = set(result.splitlines()[-1].split())
    assert {"cli.main", "errors"} <= imported
    assert sorted(imported & absent) == []


def test_what_is_listed_of_a_command_is_the_first_line_of_its_help():
    for name, summary in COMMANDS.items():
        function = load_function(name)
        # A name that is a word of Python ends in an underscore.
        assert function.__name__.rstrip("_") == name
        assert function.__doc__.splitlines()[0] == summary


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["inspct"], "Did you mean 'inspect'?"),
        (["inspect"], "Missing argument"),
        (["metrics", "--nonsense"], "No such option: --nonsense"),
        (["metrics", "nonsense"], "metric must be one of ndcg"),
        (["quickstart", "--queries", "many"], "Invalid value for '--queries'"),
        (["quickstart", "--queries", "9"], "Invalid value for '--queries'"),
        (["evaluate", "data.txt"], "Got 1 file."),
        (["train", "data.txt"], "Missing option '--out'"),
        (["train", "data.txt", "-o", "m", "--learning-rat", "1"], "--learning-rate"),
        (["train", "data.txt", "-o", "m", "--checkpoint-every", "0"], "--checkpoint-every"),
        (["explain", "m", "--why", "1"], "requires 2 arguments. See 'rankgrove explain --help'."),
        (["explain", "m", "--top", "0"], "Invalid value for '--top'"),
        (["explain", "m", "--query", "1"], "--query must be used with DATA"),
        (["explain", "m", "--why", "1", "2"], "--why must be used with DATA and --query"),
        (["explain", "m", "d", "--document", "1"], "--document must be used with DATA and"),
        (["explain", "m", "d", "--query", "1", "--document", "1", "--why", "1", "2"], "Got both"),
        (["explain", "m", "d", "--tree", "0"], "--tree must be used without DATA"),
        (["explain", "m", "--metric", "map"], "--metric must be used with DATA"),
    ],
)
def test_wrong_call_has_exit_code_2_and_one_line(cli, args, problem):
    result = cli(*args)
    assert result.exit_code == 2
    assert problem in error_line(result)


@pytest.mark.parametrize(
    "args",
    [
        ["inspect", "FILE"],
        ["convert", "FILE", "out.csv"],
        ["evaluate", "FILE", "--column", "1"],
        ["evaluate", "FILE", "data.txt"],
        ["train", "FILE", "-o", "model.safetensors"],
        ["train", "data.txt", "--valid", "FILE", "-o", "model.safetensors"],
        ["score", "FILE", "data.txt"],
        ["explain", "FILE"],
    ],
)
@pytest.mark.parametrize("name", ["absent.txt", "absent.csv", "absent.parquet"])
def test_missing_file_has_exit_code_1_and_is_named(cli, data, args, name):
    result = cli(*[name if arg == "FILE" else arg for arg in args])
    assert result.exit_code == 1
    assert error_line(result).startswith(name)


@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.parquet"])
def test_directory_has_exit_code_1_and_is_named(cli, tmp_path, name):
    (tmp_path / name).mkdir()
    result = cli("inspect", name)
    assert result.exit_code == 1
    assert error_line(result).startswith(name)


@pytest.mark.parametrize(
    "name", ["data.txt", "data.csv", "data.tsv", "data.parquet", "data.txt.gz", "data.csv.gz"]
)
@pytest.mark.parametrize(
    "content", [b"", b"\0\1\2\xff\xfe" * 50, b"these are no data\nat all\n", b"\x1f\x8bgarbage"]
)
def test_garbage_has_exit_code_1_and_is_named(cli, write, name, content):
    write(name, content)
    result = cli("inspect", name)
    assert result.exit_code == 1
    assert name in error_line(result)


def test_option_of_another_format_is_refused_by_its_name(cli, data, write):
    result = cli("inspect", data, "--label", "grade")
    assert result.exit_code == 2
    assert "--label" in error_line(result)
    write("data.csv", "label,qid,f\n1,1,1\n")
    result = cli("inspect", "data.csv", "--absent", "missing")
    assert result.exit_code == 2
    assert "--absent" in error_line(result)


def test_split_query_is_refused_with_the_option_that_allows_it(cli, write):
    write("split.txt", "1 qid:1 1:1\n1 qid:2 1:1\n0 qid:1 1:2\n")
    result = cli("inspect", "split.txt")
    assert result.exit_code == 1
    assert "--split-queries group" in error_line(result)
    assert cli("inspect", "split.txt", "--split-queries", "group").exit_code == 0


def test_parameters_in_messages_become_options():
    options = {"split_queries": "--split-queries", "index_base": "--index-base", "qid": "--qid"}
    options |= {"document_ids": "--document-ids"}

    def shown(message):
        return DataError(message).told(lambda *marked: _in_options(options, *marked))

    assert shown(f"pass {parameter('split_queries', 'group')}.") == "pass --split-queries group."
    assert shown(f"with {parameter('document_ids', True)}.") == "with --document-ids."
    assert shown(f"pass {parameter('index_base', 0)} or") == "pass --index-base 0 or"
    assert shown(f"take in {parameter('qid=')}.") == "take in --qid."
    assert shown(f"{parameter('shape')} must be {word(None)}") == "shape must be none"
    assert shown("qid must be numbers, or None") == "qid must be numbers, or None"


def test_python_m_is_the_same_command(process):
    result = process("--version")
    assert (result.returncode, result.stdout) == (0, f"rankgrove {rankgrove.__version__}\n")


@pytest.mark.parametrize(
    ("args", "code"), [(["metrics", "x"], 2), (["inspect", "absent.txt"], 1), (["--help"], 0)]
)
def test_exit_code_reaches_the_shell(process, args, code):
    result = process(*args)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_json_is_all_of_stdout_even_where_something_is_said(process, write):
    write("data.csv", "label,qid,bm25\n1,1,2\n0,1,\n")
    result = process("evaluate", "data.csv", "--column", "bm25", "--json")
    assert "bm25 is missing in 1 document" in result.stderr
    assert json.loads(result.stdout)["documents"] == 2


def test_reader_that_stops_reading_is_no_error(tmp_path):
    command = [sys.executable, "-m", "rankgrove", "metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_output_that_no_encoding_holds_is_no_error(process):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = process("metrics", "ndcg", env=environment)
    assert result.returncode == 0
    assert "J?rvelin" in result.stdout


def test_pipe_has_no_colour_and_whole_lines(process, data):
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    result = process("inspect", data, env=environment)
    assert "\x1b" not in result.stdout
    assert "unless told otherwise." in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("target", ["out.txt.gz", "out.csv.gz"])
def test_interrupt_leaves_no_half_written_file(write, tmp_path, target):
    rows = "".join(f"{r % 3} qid:{r // 20} " + "1:0.125 2:3.5 3:7\n" for r in range(20_000))
    big = rows.replace("\n", " " + " ".join(f"{k}:{k}.5" for k in range(4, 60)) + "\n")
    write("big.txt", big)
    code = interrupt(
        ["convert", "big.txt", target], tmp_path, lambda: is_being_written(tmp_path, "out")
    )
    assert code == (130, "rankgrove: interrupted")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupted_quickstart_can_be_run_again(cli, tmp_path):
    out = tmp_path / "quick"
    code = interrupt(
        ["quickstart", "quick", "--queries", "20000"],
        tmp_path,
        lambda: is_being_written(out, "train"),
    )
    assert code == (130, "rankgrove: interrupted")
    assert [path.name for path in out.iterdir()] == ["quickstart.json"]
    assert cli("quickstart", "quick", "--queries", "10").exit_code == 0


def is_being_written(directory, name):
    return any(path.stat().st_size for path in directory.glob(f"{name}*.part"))

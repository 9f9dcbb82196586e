"""`rankgrove warmup`: after it, nothing compiles."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import importlib.util, pkgutil
import rankgrove
from rankgrove.cli.warmup import STEPS, find_kernels

has_spark = importlib.util.find_spec("pyspark") is not None
for module in pkgutil.walk_packages(rankgrove.__path__, "rankgrove."):
    if module.name.endswith("__main__") or (".spark_" in module.name and not has_spark):
        continue
    importlib.import_module(module.name)
for step in STEPS.values():
    step()
# What only other kernels call is compiled into them, and alone nobody exchanges sums or cuts.
called = {name for kernel in find_kernels() for name in kernel.py_func.__code__.co_names}
names = {kernel.__name__ for kernel in find_kernels() if not kernel.signatures}
names -= {'_pack_cuts', '_pack_sums', '_take_cuts', '_take_sums'}
print(sorted(names - called))

from typer.testing import CliRunner
from rankgrove.cli.main import app

before = {kernel: len(kernel.signatures) for kernel in find_kernels()}
for args in (
    ["quickstart", "--queries", "10"],
    ["inspect", "rankgrove-quickstart/train.txt"],
    ["evaluate", "rankgrove-quickstart/test.txt", "--column", "1"],
    ["evaluate", "rankgrove-quickstart/best.txt", "rankgrove-quickstart/test.txt"],
    ["convert", "rankgrove-quickstart/train.txt", "train.csv"],
    ["train", "train.csv", "--valid", "train.csv", "--n-estimators", "2", "-o", "m.safetensors"],
    ["score", "m.safetensors", "train.csv"],
    ["evaluate", "m.safetensors", "train.csv"],
    ["explain", "m.safetensors", "train.csv", "--query", "3", "--document", "1"],
    ["explain", "m.safetensors", "train.csv", "--query", "3", "--why", "1", "2"],
    ["convert", "train.csv", "train.txt.gz", "--out-absent", "missing"],
    ["inspect", "train.txt.gz", "--absent", "missing", "--n-jobs", "2"],
):
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.stderr
print([k.__name__ for k, n in before.items() if len(k.signatures) != n])
"""


def test_every_kernel_is_compiled_and_no_command_compiles_more(tmp_path):
    command = [sys.executable, "-c", CODE]
    result = subprocess.check_output(command, text=True, cwd=tmp_path, timeout=300)
    assert result.splitlines() == ["[]", "[]"]


def test_it_says_how_long_it_took_and_where_the_cache_is(cli, cli_json):
    got = cli_json("warmup")
    assert all(seconds >= 0 for seconds in got["seconds"].values())
    page = cli("warmup").stdout
    assert all(step in page for step in got["seconds"])
    assert all(directory in page for directory in got["cache_directories"])

"""`rankgrove warmup`: after it, nothing compiles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rankgrove._jit.signatures import read_list

TOOLS = Path(__file__).parents[2] / "tools"

CODE = """
import importlib.util, pkgutil, sys
import rankgrove

has_spark = importlib.util.find_spec("pyspark") is not None
for module in pkgutil.walk_packages(rankgrove.__path__, "rankgrove."):
    if module.name.endswith("__main__") or (".spark_" in module.name and not has_spark):
        continue
    importlib.import_module(module.name)

from list_signatures import find_kernels, make_list
from rankgrove._jit.signatures import read_list

print(set(make_list()) ^ set(read_list()))
# What only other kernels call is compiled into them.
called = {name for kernel in find_kernels() for name in kernel.py_func.__code__.co_names}
print({kernel.__name__ for kernel in find_kernels() if not kernel.signatures} - called)
"""


def test_the_list_has_every_kernel_with_all_types_that_it_is_called_with(tmp_path):
    """If not: `python tools/list_signatures.py`."""
    command = [sys.executable, "-c", CODE]
    search = ":".join([str(TOOLS), *sys.path])
    result = subprocess.check_output(
        command, text=True, cwd=tmp_path, timeout=600, env={"PYTHONPATH": search}
    )
    assert result.splitlines() == ["set()", "set()"]


def test_it_says_how_many_kernels_it_has_compiled_and_where_they_are(cli, cli_json):
    got = cli_json("warmup")
    assert got["compiled"] + got["in_cache"] + got["in_package"] == len(read_list())
    assert got["mark"] is None
    page = cli("warmup").stdout
    assert "0 kernels compiled" in page
    assert all(directory in page for directory in got["cache_directories"])


def test_native_code_is_used_from_then_on(tmp_path):
    # Only a few kernels, as the others would take a minute.
    code = (
        "from rankgrove._jit import signatures; few = [each for each in "
        "signatures.read_list() if each.name in ('draw_bits', 'finalise')];"
        "signatures.read_list = lambda: few\n"
        "from rankgrove.cli.main import app; app(['warmup', '--native'])"
    )
    variables = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    lines = subprocess.check_output([sys.executable, "-c", code], text=True, env=variables)
    assert "2 kernels compiled" in lines
    assert str(tmp_path / "rankgrove-native") in lines
    code = "from rankgrove._jit import caching; print(caching.wants_native())"
    for native, wanted in (({}, "True"), ({"RANKGROVE_NATIVE": "0"}, "False")):
        result = subprocess.check_output([sys.executable, "-c", code], env={**variables, **native})
        assert result.decode().strip() == wanted

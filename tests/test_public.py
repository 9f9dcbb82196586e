"""The face of the package: its names, and an import that costs and changes nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rankgrove

# Prints what importing every public name brought in and what it compiled, one item a line. Numba
# itself imports some of SciPy where it is installed: that is not ours to forbid. The estimators are
# those of scikit-learn, and who asks for one pays for scikit-learn; nothing else may.
PROBE = """
import sys
import numba
before = set(sys.modules)
import rankgrove
estimators = {{"LambdaRank", "MARTClassifier", "MARTRegressor", "RankNet", "Ranker"}}
for name in set(rankgrove.__all__) - estimators:
    getattr(rankgrove, name)
import rankgrove.errors
{extra}
print("import", *sorted({{name.split(".")[0] for name in set(sys.modules) - before}}))
for module_name, module in sorted(sys.modules.items()):
    if module_name.split(".")[0] == "rankgrove":
        for name, value in vars(module).items():
            if type(value).__name__ == "Kernel" and value.signatures:
                print("compiled", module_name, name)
"""

# Each takes longer to import than the package, and only some of its users need it.
NOT_FOR_ALL = {"matplotlib", "narwhals", "pandas", "polars", "pyarrow", "rich", "scipy", "sklearn",
               "torch", "typer"}  # fmt: skip


def probe(extra=""):
    command = [sys.executable, "-W", "error", "-c", PROBE.format(extra=extra)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.stderr == ""
    imported, *compiled = result.stdout.splitlines()
    return set(imported.split()[1:]), compiled


def test_public_names_are_sorted_and_each_once():
    assert list(rankgrove.__all__) == sorted(set(rankgrove.__all__))


@pytest.mark.parametrize("name", rankgrove.__all__)
def test_a_public_name_exists_and_says_what_it_is(name):
    text = getattr(rankgrove, name).__doc__
    assert text
    # What a dataclass without a docstring gets by itself.
    assert not text.startswith(f"{name}(")


def test_every_public_name_has_a_home_and_is_listed():
    assert sorted(rankgrove._HOME_OF) == list(rankgrove.__all__)
    assert set(rankgrove.__all__) <= set(dir(rankgrove))


def test_a_name_that_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'read_lettor'"):
        _ = rankgrove.read_lettor


def test_the_package_alone_imports_neither_numba_nor_numpy():
    code = "import sys, rankgrove; print({'numba', 'numpy'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_importing_compiles_nothing_prints_nothing_and_imports_nothing_heavy():
    imported, compiled = probe()
    assert "rankgrove" in imported
    assert imported & NOT_FOR_ALL == set()
    assert compiled == []


def test_the_probe_sees_imports_and_compiled_kernels():
    # (That it compiles is said on stderr.)
    extra = """
import contextlib, io, pandas, scipy.stats
from rankgrove._jit import elementary
with contextlib.redirect_stderr(io.StringIO()):
    elementary.log2_1p(1.0)
"""
    imported, compiled = probe(extra)
    assert {"pandas", "scipy"} <= imported
    assert "compiled rankgrove._jit.elementary log2_1p" in compiled

"""Processes that compile: they find the package wherever it is, and say what went wrong."""

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rankgrove._jit import insides
from rankgrove._jit.building import CompilationError, build_store
from rankgrove._jit.signatures import Listed, read_list
from rankgrove._jit.store import levels_of_this_machine

LEVEL = next(iter(levels_of_this_machine()), None)
pytestmark = pytest.mark.skipif(LEVEL is None, reason="no level of processors is known here")


@pytest.fixture
def small():
    """A kernel that compiles in no time."""
    return min(read_list(), key=lambda each: len(each.signature))


def test_the_package_is_found_though_the_start_of_python_takes_its_folder_away(
    small, tmp_path, monkeypatch
):
    """As pip does where it builds apart, with the package installed in editable form."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.path[:] = [path for path in sys.path if not path.endswith('src')]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    path = build_store([small], LEVEL, tmp_path, n_processes=1)
    assert path.stat().st_size > 0


def test_the_error_names_the_kernel_that_could_not_be_compiled(small, tmp_path):
    wrong = Listed(small.module, "no_such_kernel", small.signature, is_common=False)
    with pytest.raises(CompilationError, match=r"no_such_kernel: (?s:.*)AttributeError"):
        build_store([wrong], LEVEL, tmp_path, n_processes=1)


@pytest.fixture
def build_wheel(tmp_path, monkeypatch):
    """A function that does what building a wheel does for kernels: its data and its warnings."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    root = Path(__file__).parents[2]

    def build(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        hook, warnings = runpy.run_path(str(root / "hatch_build.py"))["KernelsHook"](), []
        hook.root, hook.directory = str(root), str(tmp_path)
        hook.app = SimpleNamespace(display_warning=warnings.append)
        data = {"force_include": {}}
        hook.initialize("standard", data)
        return data, warnings

    return build


def test_a_wheel_has_no_kernels_where_numba_lacks_a_name_that_they_need(build_wheel, monkeypatch):
    monkeypatch.setattr(insides, "SHIPS_KERNELS", False)
    data, warnings = build_wheel()
    assert data == {"force_include": {}}
    assert len(warnings) == 1
    assert "this version of Numba lacks a name" in warnings[0]


def test_a_wheel_has_the_kernels_of_the_list_that_were_asked_for(build_wheel, small, monkeypatch):
    monkeypatch.setattr("rankgrove._jit.signatures.read_list", lambda: [small])
    data, warnings = build_wheel(RANKGROVE_BUILD_KERNELS="all")
    assert len(data["force_include"]) == len(levels_of_this_machine())
    assert all(Path(path).stat().st_size > 0 for path in data["force_include"])
    assert data["infer_tag"]
    assert warnings == []
    with pytest.raises(ValueError, match="must be one of common, all, none, not 'some'"):
        build_wheel(RANKGROVE_BUILD_KERNELS="some")

"""Processes that compile: they find the package wherever it is, and say what went wrong."""

import pytest

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

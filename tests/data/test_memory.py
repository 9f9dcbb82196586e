"""How much memory there is: of the system, of cgroups and of the process."""

import resource
import subprocess
import sys

import pytest

from rankgrove.data import memory
from rankgrove.errors import DataError


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A place for the files of cgroups, and nothing else that bounds memory."""
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    monkeypatch.setattr(memory, "_of_system", lambda: 10**12)
    monkeypatch.setattr(memory, "_of_process", list)
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "limit", "usage"),
    [
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
    ids=["version 2", "version 1"],
)
def test_a_group_leaves_its_limit_less_what_is_in_use(folder, limit, usage, groups):
    assert memory.available_memory() == 10**12
    place = groups / folder
    place.mkdir(exist_ok=True)
    (place / limit).write_text("5000\n")
    (place / usage).write_text("3000\n")
    assert memory.available_memory() == 2000
    # What files take would be given back.
    (place / "memory.stat").write_text("anon 2000\ninactive_file 700\n")
    assert memory.available_memory() == 2700
    (place / limit).write_text("max\n")
    assert memory.available_memory() == 10**12


def test_there_is_no_less_than_nothing(groups):
    (groups / "memory.max").write_text("10")
    (groups / "memory.current").write_text("20")
    assert memory.available_memory() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_the_limit_of_address_space_counts():
    code = (
        "import resource; from rankgrove.data.memory import available_memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30)); print(available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 6 << 30
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_what_does_not_fit_is_refused_with_both_numbers_and_advice():
    memory.check_memory(10, 10, "wait")
    with pytest.raises(DataError, match="needs 19 GB, here are 16 GB: use more machines"):
        memory.check_memory(19 * 10**9, 16 * 10**9, "use more machines")

"""Compiled kernels that come with the package: found, or left alone if anything is not right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rankgrove._jit import building, store
from rankgrove._jit.caching import processor_features
from rankgrove._jit.signatures import parse_signature, read_list, signature_text
from rankgrove._jit.store import Compiled, DamagedStoreError, Store, write_store

KEY = {"Numba": "1.2", "llvmlite": "3.4", "Python": "3.11", "level": "x86-64-v3"}
KERNELS = [
    Compiled("a.first", '["int64"]', "1f", b"code of the first"),
    Compiled("a.first", '["float64"]', "1f", b"code of the first for others"),
    Compiled("b.second", '["int64"]', "2e", bytes(range(256)) * 9),
]


@pytest.fixture
def path(tmp_path):
    write_store(tmp_path / "some.kernels", KEY, KERNELS)
    return tmp_path / "some.kernels"


def test_what_is_written_is_found_again_by_name_types_and_source(path):
    kept = Store(path)
    assert kept.key == KEY
    for each in KERNELS:
        assert kept.find(each.kernel, each.signature, each.source) == each.code
    assert kept.find("a.first", '["int64"]', "2e") is None  # another source
    assert kept.find("a.first", '["int32"]', "1f") is None
    assert kept.find("a.third", '["int64"]', "1f") is None


def test_a_file_that_was_changed_anywhere_gives_no_other_code(path):
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(changed)
        found = []
        for each in KERNELS:
            try:
                found.append(Store(path).find(each.kernel, each.signature, each.source))
            except DamagedStoreError:
                found.append(None)
        assert all(code in (None, each.code) for code, each in zip(found, KERNELS, strict=True))
        assert None in found
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedStoreError, match=r"some\.kernels is damaged"):
            Store(path).find("b.second", '["int64"]', "2e")


@pytest.mark.parametrize(
    ("features", "levels"),
    [
        ([], []),
        (store._V2, ["x86-64-v2"]),
        ([*store._V3, "avx512f"], ["x86-64-v3", "x86-64-v2"]),
        (store._V3 - {"lzcnt"}, ["x86-64-v2"]),
    ],
)
def test_a_processor_supports_the_levels_that_ask_for_nothing_it_lacks(
    features, levels, monkeypatch
):
    monkeypatch.setattr(store.platform, "machine", lambda: "AMD64")
    assert store.supported_levels(features) == levels
    monkeypatch.setattr(store.platform, "machine", lambda: "aarch64")
    assert store.supported_levels(features) == ["generic"]
    monkeypatch.setattr(store.platform, "machine", lambda: "riscv64")
    assert store.supported_levels(features) == []


@pytest.mark.parametrize("level", store.levels_of_this_machine())
def test_llvm_knows_all_that_is_said_of_a_level(level, tmp_path):
    # (It ignores what it does not know, and says so.)
    result = subprocess.run(
        [sys.executable, "-c", "import numba; numba.njit(lambda x: x + 1)(1)"],
        env=store.environment_of(level), cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stderr == ""


def test_the_types_of_the_list_are_read_as_they_were_written():
    listed = read_list()
    assert len(listed) == len(set(listed)) > 50
    assert any(each.is_common for each in listed)
    for each in listed:
        assert signature_text(parse_signature(each.signature)) == each.signature


# Kernels that compile fast, and calls of them.
NAMES = ("draw_bits", "finalise", "draw_lengths")

CHILD = """
import json, sys
from pathlib import Path
import numpy as np
from rankgrove._jit import Kernel, caching, store
from rankgrove._jit.hashing import draw_bits, finalise
from rankgrove.data.synthetic import draw_lengths

def run():
    lengths = np.zeros(5, dtype=np.int64)
    draw = Kernel(draw_lengths.py_func, inline=False)
    draw(np.uint64(3), 5.0, 1.0, lengths)
    bits = Kernel(draw_bits.py_func, inline=False)
    last = Kernel(finalise.py_func, inline=False)
    values = [lengths.tolist(), int(bits(np.uint64(7), np.int64(8))), int(last(np.uint64(9)))]
    return values, [each.cache.origin for each in (draw, bits, last)]

def use(folder):
    caching.FOLDER = Path(folder)
    caching.shipped_stores.cache_clear()
    caching._unused.clear()

"""

MUTATIONS = """
folder, path = Path(sys.argv[1]), Path(sys.argv[2])
whole = path.read_bytes()
use(folder / "empty")
expected, origins = run()          # compiled, and kept in the cache
assert origins == ["compiler"] * 3, origins
use(folder)
assert run() == (expected, ["package"] * 3)
rng = np.random.default_rng(0)
seen = {"package": 0, "cache": 0, "compiler": 0}
for number in range(500):
    data = bytearray(whole)
    kind = number % 5
    at = int(rng.integers(len(data)))
    if kind == 0:                  # one bit
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:                # cut off
        del data[at:]
    elif kind == 2:                # a piece lost, and so what follows moved
        del data[at : at + int(rng.integers(1, 99))]
    elif kind == 3:                # overwritten
        data[at : at + 64] = rng.bytes(len(data[at : at + 64]))
    else:                          # numbers of the header
        at = int(rng.integers(min(len(data), 2000)))
        data[at] = ord("9")
    path.write_bytes(data)
    use(folder)
    values, origins = run()
    assert values == expected, (number, values)
    assert bytes(data) == whole or caching._unused, (number, origins)
    for each in origins:
        seen[each] += 1
print(json.dumps(seen))
"""

FOREIGN = """
folder, path = Path(sys.argv[1]), Path(sys.argv[2])
right = store.Store(path)
kernels = [
    store.Compiled(name, signature, place[0], right.find(name, signature, place[0]))
    for name, signatures in right._places.items() for signature, place in signatures.items()
]
use(folder / "empty")
expected, _ = run()
for name in ("Numba", "llvmlite", "Python", "level"):
    store.write_store(path, {**right.key, name: "0.1"}, kernels)
    use(folder)
    values, origins = run()
    assert values == expected and "package" not in origins, name
    print(caching._unused)
store.write_store(path, right.key, [
    store.Compiled(each.kernel, each.signature, "0" * 64, each.code) for each in kernels
])
use(folder)
assert run()[1] == ["cache"] * 3
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a file of three kernels for this processor."""
    folder = tmp_path_factory.mktemp("kernels")
    listed = [each for each in read_list() if each.name in NAMES]
    level = store.supported_levels(processor_features())[0]
    return building.build_store(listed, level, folder, n_processes=1)


def run_child(code, built, tmp_path):
    path = tmp_path / built.name
    path.write_bytes(built.read_bytes())
    result = subprocess.run(
        [sys.executable, "-c", CHILD + code, str(tmp_path), str(path)],
        env={"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_of_500_files_that_were_damaged_none_crashes_or_changes_a_result(built, tmp_path):
    seen = json.loads(run_child(MUTATIONS, built, tmp_path))
    # Most damage is to the code of one kernel, or to the header and so to all.
    assert seen["compiler"] == 0
    assert seen["cache"] > 300
    assert seen["package"] > 300


def test_code_of_another_compiler_processor_or_source_is_not_used(built, tmp_path):
    lines = run_child(FOREIGN, built, tmp_path).splitlines()
    assert "are for Numba 0.1, here is Numba" in lines[0]
    assert "are for Python 0.1, here is Python" in lines[2]
    assert "another processor" in lines[3]


def test_a_kernel_that_does_not_compile_is_named(tmp_path):
    broken = building.Listed("rankgrove._jit.hashing", "finalise", '["none"]', False)
    with pytest.raises(
        building.CompilationError, match=r"(?s)compile .*hashing\.finalise: .*nopython"
    ):
        building.build_store([broken], "x86-64-v2", Path(tmp_path), n_processes=1)

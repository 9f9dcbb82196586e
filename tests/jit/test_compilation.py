"""How kernels are compiled and cached, and what threads tell each other in them."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from rankgrove._jit import (
    Kernel,
    atomic_add,
    atomic_load,
    atomic_store,
    give_way,
    inline_kernel,
    kernel,
    pause,
)

CALLER = """
from rankgrove._jit import kernel
from callee import twice

@kernel
def caller(x):
    return twice(x) + 1
"""
CALLEE = """
from rankgrove._jit import kernel
from constants import FACTOR

@kernel
def twice(x):
    return FACTOR * x
"""


def run_caller(folder: Path) -> tuple[str, bool]:
    """What the caller returns for 10, and whether its code came from the cache."""
    program = "from caller import caller; print(caller(10), caller.cache.origin)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={
            "NUMBA_CACHE_DIR": str(folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    value, origin = result.stdout.split()
    return value, origin == "cache"


def test_code_from_the_cache_knows_of_changes_in_the_files_it_was_made_from(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE)
    (tmp_path / "constants.py").write_text("FACTOR = 2")
    assert run_caller(tmp_path) == ("21", False)
    assert run_caller(tmp_path) == ("21", True)
    (tmp_path / "callee.py").write_text(CALLEE.replace("FACTOR *", "FACTOR * 50 *"))
    assert run_caller(tmp_path) == ("1001", False)
    assert run_caller(tmp_path) == ("1001", True)
    (tmp_path / "constants.py").write_text("FACTOR = 3")
    assert run_caller(tmp_path) == ("1501", False)
    assert run_caller(tmp_path) == ("1501", True)


FACTOR = 2


@kernel
def scale(x):
    return FACTOR * x


def test_a_kernel_that_numba_compiles_again_is_not_taken_for_the_one_of_its_file(monkeypatch):
    assert scale(10) == 20
    with monkeypatch.context() as changed:
        changed.setitem(scale.py_func.__globals__, "FACTOR", 3)
        scale._entry.recompile()
        assert scale(10) == 30
    assert Kernel(scale.py_func, inline=False)(10) == 20  # (as a new process has it)


@kernel
def count_up(shared, times):
    for _ in range(times):
        atomic_add(shared, 0, 1)
    atomic_add(shared, 1, 1)
    while atomic_load(shared, 1) < 3:
        pause()
        give_way()
    return atomic_load(shared, 0)


@kernel
def write(shared, value):
    atomic_store(shared, 2, value)


def test_threads_count_together_without_losing_any():
    shared = np.zeros(3, dtype=np.int64)
    seen = []
    count_up(np.array([0, 5, 0]), 1)
    threads = [
        threading.Thread(target=lambda: seen.append(count_up(shared, 100_000))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [300_000] * 3
    write(shared, 7)
    assert shared.tolist() == [300_000, 3, 7]


def add_word(cells, word, value):
    for column in range(16):
        cells[(word >> np.uint64(column)) & np.uint64(255)] += value
        cells[(word >> np.uint64(column + 17)) & np.uint64(255)] += value


# (What is too long to be copied by itself is for LLVM to say: version 15 copies more.)
LEAVES_CALLS = pytest.mark.skipif(llvm.llvm_version_info < (20,), reason="copies this by itself")


@pytest.mark.parametrize(
    ("mark", "called"), [pytest.param(kernel, True, marks=LEAVES_CALLS), (inline_kernel, False)]
)
def test_an_inline_kernel_is_copied_however_long_it_is(mark, called):
    part = mark(add_word)

    @numba.njit
    def caller(cells, words):
        for word in words:
            part(cells, word, 1)
            part(cells, ~word, 2)
            part(cells, word >> np.uint64(8), 3)

    cells = np.zeros(256, dtype=np.int64)
    caller(cells, np.array([3, 1 << 63], dtype=np.uint64))
    (code,) = caller.inspect_asm().values()
    assert cells.sum() == 2 * 32 * (1 + 2 + 3)
    addresses = [line for line in code.splitlines() if "movabs" in line or "call" in line]
    assert any("add_word" in line for line in addresses) == called

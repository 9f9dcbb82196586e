"""Where compiled code is kept: nowhere where nothing can be written, else in one cache for all."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rankgrove
from read_only import respect_modes, take_write_permission

SCORES = (
    "from rankgrove import evaluate; print(evaluate([1, 0, 2, 0], [3, 2, 1, 0], 'ndcg', group=[4]))"
)


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """A function that runs Python where neither the package nor any home can be written."""
    folder = tmp_path_factory.mktemp("read-only")
    shutil.copytree(
        Path(rankgrove.__file__).parent, folder / "rankgrove",
        ignore=shutil.ignore_patterns("__pycache__", "kernels"),
    )  # fmt: skip
    home = folder / "home"
    home.mkdir()
    take_write_permission(folder)
    search = os.pathsep.join([str(folder), *sys.path])
    variables = {"PYTHONPATH": search, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}

    def run(*args):
        return subprocess.run(
            [sys.executable, *args], env=variables, cwd=folder, preexec_fn=respect_modes,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    yield run
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


def test_where_nothing_can_be_written_all_is_compiled_in_memory_and_one_line_says_so(read_only):
    where = read_only("-c", "import rankgrove; print(rankgrove.__file__)")
    assert "read-only" in where.stdout
    result = read_only("-c", SCORES)
    assert result.returncode == 0, result.stderr
    assert "0.6885" in result.stdout
    (line,) = result.stderr.splitlines()
    assert "cannot be kept" in line
    assert "set NUMBA_CACHE_DIR to one that can" in line


def test_processes_that_compile_at_once_into_one_cache_all_get_it_right(tmp_path):
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCORES], env=variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    answers = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3
    assert len(set(answers)) == 1
    assert "0.6885" in answers[0]


def test_a_cache_whose_files_were_cut_off_is_made_anew(tmp_path):
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    code = "from rankgrove._jit.hashing import draw_bits; import numpy as np;"
    code += "print(draw_bits(np.uint64(1), 2), draw_bits.cache.origin)"
    command = [sys.executable, "-c", code]
    first = subprocess.check_output(command, env=variables, text=True).split()
    for pattern in ("*.nbi", "*.nbc"):
        for path in tmp_path.rglob(pattern):
            path.write_bytes(path.read_bytes()[:20])
        assert subprocess.check_output(command, env=variables, text=True).split() == first
        again = subprocess.check_output(command, env=variables, text=True).split()
        assert again == [first[0], "cache"]
    assert first[1] == "compiler"


def test_a_full_disk_loses_nothing_but_the_cache(tmp_path):
    code = "from rankgrove._jit.hashing import draw_bits; import numpy as np;"
    code += "from numba.core.caching import IndexDataCacheFile as File\n"
    code += "def save(*_): raise OSError(28, 'No space left on device')\n"
    code += "File.save = save; print(draw_bits(np.uint64(1), 2))"
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip().isdigit()
    assert "cannot be kept (No space left on device)" in result.stderr

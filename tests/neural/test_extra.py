"""Without PyTorch: everything else works, and networks say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Block())
"""


def run(code, *args, cwd=None):
    command = [sys.executable, "-c", BLOCK + code, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd
    )


@pytest.mark.parametrize(
    "code",
    [
        "import rankgrove.neural",
        "from rankgrove import RankNet",
        "from rankgrove import LambdaRank",
    ],
)
def test_asking_for_networks_says_which_extra_to_install(code):
    result = run(code)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert "rankgrove.neural needs the package 'torch'" in last
    assert "pip install 'rankgrove[neural]'" in last


def test_all_other_names_work_without_pytorch_and_do_not_import_it():
    result = run(
        "import rankgrove\n"
        "for name in set(rankgrove.__all__) - {'RankNet', 'LambdaRank'}:\n"
        "    getattr(rankgrove, name)\n"
        "import rankgrove.cli.main, rankgrove.cli.train\n"
        "print('torch' in sys.modules)"
    )
    assert result.stdout.strip() == "False", result.stderr


def test_the_command_line_says_which_extra_to_install(tmp_path):
    (tmp_path / "train.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    main = "from rankgrove.cli.main import run\nrun()"
    result = run(main, "train", "train.txt", "--objective", "ranknet", "-o", "m.safetensors",
                 cwd=tmp_path)  # fmt: skip
    assert result.returncode == 1
    assert "pip install 'rankgrove[neural]'" in result.stderr
    assert "Traceback" not in result.stderr

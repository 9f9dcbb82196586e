"""A built wheel, installed where nothing can be written: no command compiles, all bits are right.

`pytest -m wheel` builds one with all kernels, which takes minutes; `RANKGROVE_WHEEL` names one that
is there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from read_only import respect_modes, take_write_permission

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[2]

# Runs a command and prints the names of the kernels that were compiled.
COMMAND = """
import atexit, sys
from numba.core import event

class Listener(event.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
atexit.register(lambda: print("compiled:", *Listener.names, file=sys.stderr))
from rankgrove.cli.main import run
sys.argv[0] = "rankgrove"
run()
"""

# What README has, and every command that a new user meets.
COMMANDS = (
    """
quickstart
inspect DATA/train.txt
inspect DATA/model.safetensors
train DATA/train.txt --valid DATA/vali.txt --early-stopping-rounds 50 -o model.safetensors
train DATA/train.txt --objective lambdamart --grower leafwise --n-estimators 5 -o other.safetensors
evaluate model.safetensors DATA/test.txt --metrics ndcg@10,map(ties=expected)
score model.safetensors DATA/test.txt -o scores.txt
explain model.safetensors DATA/test.txt --query 17 --why 1 2
explain model.safetensors DATA/test.txt
compare model.safetensors other.safetensors DATA/test.txt
report DATA/test.txt model.safetensors other.safetensors -o report.html
forces model.safetensors DATA/test.txt --query 17
export model.safetensors model.py
bin DATA/train.txt -o train.bins
train train.bins --n-estimators 2 -o third.safetensors
train DATA/train.txt --layout rows --n-estimators 2 -o fourth.safetensors
""".strip()
    .replace("DATA", "rankgrove-quickstart")
    .splitlines()
)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """A wheel with all kernels for all levels."""
    if given := os.environ.get("RANKGROVE_WHEEL"):
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, env={**os.environ, "RANKGROVE_BUILD_KERNELS": "all"})
    (path,) = folder.glob("*.whl")
    return path


def install(wheel, folder):
    """Install it into a folder that then cannot be written."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", str(folder), str(wheel)], check=True)
    take_write_permission(folder)


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    install(wheel, folder)
    return folder


def run(installed, *args, cwd, **variables):
    """Run Python with the installed package, without a home or a cache that can be written."""
    search = os.pathsep.join([str(installed), *sys.path])
    path = os.environ["PATH"]
    places = {"HOME": str(installed), "XDG_CACHE_HOME": str(installed / "cache")}
    result = subprocess.run(
        [sys.executable, *args], env={"PYTHONPATH": search, "PATH": path, **places, **variables},
        cwd=cwd, preexec_fn=respect_modes, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result


def test_no_command_compiles_where_nothing_can_be_written(installed, tmp_path):
    for line in COMMANDS:
        result = run(installed, "-c", COMMAND, *line.split(), cwd=tmp_path)
        assert result.stderr.splitlines()[-1] == "compiled:", (line, result.stderr)


def test_every_kernel_of_the_list_is_in_the_wheel_for_each_level(installed, tmp_path):
    code = (
        "from rankgrove._jit import store; from rankgrove._jit.signatures import read_list;"
        "stores = [store.Store(store.file_of(level, store.FOLDER))"
        " for level in store.levels_of_this_machine()];"
        "print(all(each.signature in kept._places[f'{each.module}.{each.name}']"
        " for kept in stores for each in read_list()), len(stores), store.FOLDER)"
    )
    answer, n_stores, folder = run(installed, "-c", code, cwd=tmp_path).stdout.split()
    assert answer == "True"
    assert int(n_stores) >= 1
    assert str(installed) in folder


def test_code_of_every_level_and_of_this_very_processor_give_the_same_bits(
    installed, wheel, tmp_path, tmp_path_factory
):
    names = sorted(path.name for path in (installed / "rankgrove/_jit/kernels").iterdir())
    digests = {}
    for name in names:
        folder = tmp_path_factory.mktemp("level")
        install(wheel, folder)
        kernels = folder / "rankgrove/_jit/kernels"
        kernels.chmod(0o755)
        for other in set(names) - {name}:
            (kernels / other).unlink()
        digests[name] = run(folder, "-m", "benchmarks.bits", cwd=ROOT).stdout
    cache = {"RANKGROVE_NATIVE": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    native = run(installed, "-m", "benchmarks.bits", cwd=ROOT, **cache).stdout
    assert all(digest == native for digest in digests.values())
    assert native.count(":") > 100

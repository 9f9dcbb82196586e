"""How long the first use of each command takes, and every later one: in new processes, in turns.

    python -m benchmarks.start                          # a checkout: what this Python imports
    python -m benchmarks.start --python ENV/bin/python  # a wheel, in an environment of its own
    python -m benchmarks.start --clone                  # README's first command, in a fresh clone

For a wheel as releases have it:

    RANKGROVE_BUILD_KERNELS=all python -m pip wheel --no-deps -w dist .
    python -m venv ENV && ENV/bin/python -m pip install dist/rankgrove-*.whl

Cold is with an empty folder for what Numba compiles, warm the same command again with that folder;
files are in the page cache for both. What is compiled is counted in the process itself. Beside the
commands: import, train and predict of the same documents, with Rankgrove and its peers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

COMMAND = "python -m benchmarks.start"
PACKAGES = ("lightgbm", "xgboost-cpu", "catboost")
ROOT = Path(__file__).parents[1]
QUERIES, DOCUMENTS, FEATURES, TREES = 60, 20, 20, 20

# Runs `python -m rankgrove`, or the code of its second argument, and writes to the file that its
# first argument names how often Numba has compiled. It waits until somebody else imports Numba.
COUNTING = """
import atexit, importlib.util, runpy, sys

target, code = sys.argv[1:3]
del sys.argv[1:3]
compiled = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name != "numba.core.event":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            class Listener(module.Listener):
                on_start = lambda self, event: compiled.append(event)
                on_end = lambda self, event: None
            module.register("numba:compile", Listener())
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Watch())
def note():
    with open(target, "w") as file:
        file.write(str(len(compiled)))
atexit.register(note)
if code:
    exec(code)
else:
    sys.argv[0] = "rankgrove"
    runpy.run_module("rankgrove", run_name="__main__")
"""

# What pip says that it does, and what that is. (Metadata are taken from the wheel that is built.)
PIP_STEPS = {
    "Installing build dependencies": "what the build needs",
    "Preparing metadata": "the build",
    "Building wheel": "the build",
}
ARRAYS = """
import numpy as np
x, y, sizes = (np.load(f"{name}.npy") for name in ("x", "y", "sizes"))
"""
PEERS = {
    "Rankgrove": f"""{ARRAYS}
from rankgrove import Ranker
Ranker("lambdamart", n_estimators={TREES}, n_jobs={THREADS}).fit(x, y, group=sizes).predict(x)
""",
    "LightGBM": f"""{ARRAYS}
import lightgbm
options = {{"objective": "lambdarank", "num_threads": {THREADS}, "verbose": -1}}
lightgbm.train(options, lightgbm.Dataset(x, y, group=sizes), {TREES}).predict(x)
""",
    "XGBoost": f"""{ARRAYS}
import xgboost
data = xgboost.DMatrix(x, y)
data.set_group(sizes)
xgboost.train({{"objective": "rank:ndcg", "nthread": {THREADS}}}, data, {TREES}).predict(data)
""",
    "CatBoost": f"""{ARRAYS}
import catboost
data = catboost.Pool(x, y, group_id=np.repeat(np.arange(len(sizes)), sizes))
options = {{"loss_function": "YetiRank", "iterations": {TREES}, "thread_count": {THREADS},
            "verbose": False, "allow_writing_files": False}}
catboost.CatBoost(options).fit(data).predict(data)
""",
}
COMMANDS: dict[str, list[str]] = {
    "--help": ["--help"],
    "inspect": ["inspect", "train.txt"],
    "evaluate": ["evaluate", "model.safetensors", "test.txt"],
    "score": ["score", "model.safetensors", "test.txt", "-o", "again.txt"],
    "explain": ["explain", "model.safetensors", "test.txt", "--query", "1", "--why", "1", "2"],
    "compare": ["compare", "model.safetensors", "scores.txt", "test.txt"],
    "train": ["train", "train.txt", "--valid", "vali.txt", "--n-estimators", str(TREES),
              "-o", "mine.safetensors"],
    "quickstart": ["quickstart", "QUICKSTART"],
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one process took: seconds of the clock and of processors, and kernels compiled."""

    wall: float
    cpu: float
    compiled: int


def make_files(folder: Path) -> None:
    """The same documents as LETOR text, in three parts, and as arrays."""
    rng = np.random.default_rng(0)
    for part in ("train", "vali", "test"):
        x = np.round(rng.normal(size=(QUERIES * DOCUMENTS, FEATURES)), 4).astype(np.float32)
        y = np.clip(np.digitize(x[:, :3].sum(axis=1), [0.5, 2.0, 3.5]), 0, 3)
        lines = [
            f"{label} qid:{row // DOCUMENTS + 1} "
            + " ".join(f"{number}:{value:g}" for number, value in enumerate(values, 1))
            for row, (values, label) in enumerate(zip(x, y, strict=True))
        ]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if part == "train":
            np.save(folder / "x.npy", x)
            np.save(folder / "y.npy", y.astype(np.float32))
            np.save(folder / "sizes.npy", np.full(QUERIES, DOCUMENTS))


class Interpreter:
    """A Python whose package is measured, in a folder with the files of its commands."""

    def __init__(self, python: str, folder: Path, *, is_ours: bool) -> None:
        self.python, self.folder = python, folder
        self._environment = {**os.environ}
        if not is_ours:
            # Only what is installed there is measured.
            self._environment.pop("PYTHONPATH", None)

    def run(self, arguments: Sequence[str], cache: str | None, code: str = "") -> Run:
        """Run a command of Rankgrove, or a piece of code, in a new process.

        Without a folder for what is compiled, Numba takes its own.
        """
        counted = self.folder / "compiled.count"
        command = [self.python, "-P", "-c", COUNTING, str(counted), code, *arguments]
        environment = {**self._environment, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        message = process.stderr.read()  # type: ignore[union-attr]
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()  # type: ignore[union-attr]
        if process.returncode:
            raise SystemExit(f"{shlex.join(arguments) or code} failed:\n{message[-2000:]}")
        return Run(wall, used.ru_utime + used.ru_stime, int(counted.read_text("ascii")))

    def describe(self) -> dict[str, str]:
        """Where the package comes from, the versions that compiled code depends on, what it has."""
        code = (
            "import json, numba, platform, rankgrove, sysconfig\n"
            "from rankgrove._jit.caching import shipped_stores\n"
            "from rankgrove._jit.signatures import read_list\n"
            "inside = rankgrove.__file__.startswith(sysconfig.get_path('purelib'))\n"
            "best = [(each.key['level'], sum(map(len, each._places.values())))\n"
            "        for each in shipped_stores()[:1]]\n"
            "print(json.dumps({'place': 'wheel' if inside else 'source', 'numba': "
            "numba.__version__, 'python': platform.python_version(), 'kernels': ''.join("
            "f'{n_kernels} of {len(read_list())}, for {level}' for level, n_kernels in best)"
            " or 'none'}))"
        )
        done = subprocess.run(
            [self.python, "-P", "-c", code], cwd=self.folder, env=self._environment, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        found: dict[str, str] = json.loads(done.stdout)
        return found


def measure(
    ours: Interpreter, peers: Interpreter, rounds: int, only: str
) -> dict[str, list[tuple[Run, Run]]]:
    """The cold and the warm run of everything in each round, in turns."""
    ours.run([*COMMANDS["train"][:-1], "model.safetensors"], None)
    ours.run(["score", "model.safetensors", "test.txt", "-o", "scores.txt"], None)
    jobs: dict[str, tuple[Interpreter, list[str], str]] = {
        **{f"`rankgrove {name}`": (ours, command, "") for name, command in COMMANDS.items()},
        **{
            f"{name}: import, train, predict": (ours if name == "Rankgrove" else peers, [], code)
            for name, code in PEERS.items()
        },
    }
    runs: dict[str, list[tuple[Run, Run]]] = {name: [] for name in jobs if only in name}
    for number in range(rounds):
        for name, taken in runs.items():
            interpreter, command, code = jobs[name]
            fresh = [f"quick{number}" if word == "QUICKSTART" else word for word in command]
            with tempfile.TemporaryDirectory() as cache:
                cold = interpreter.run(fresh, cache, code)
                taken.append((cold, interpreter.run(fresh, cache, code)))
            print(number + 1, name, *taken[-1], file=sys.stderr, flush=True)
    return runs


def results_table(runs: Mapping[str, Sequence[tuple[Run, Run]]]) -> str:
    rows = []
    for name, pairs in runs.items():
        row = [name]
        for taken in zip(*pairs, strict=True):
            row.append(f"{statistics.median(run.wall for run in taken):.2f}")
            row.append(f"{statistics.median(run.cpu for run in taken):.2f}")
            row.append(f"{statistics.median(run.compiled for run in taken):g}")
        row.append(f"{statistics.median(cold.cpu - warm.cpu for cold, warm in pairs):.2f}")
        rows.append(row)
    header = (
        "", "cold, s", "cold, CPU s", "cold, compiled", "warm, s", "warm, CPU s",
        "warm, compiled", "cold less warm, CPU s",
    )  # fmt: skip
    return table(header, rows)


def readme_command() -> str:
    """The first line of the block after README's mark of the quickstart."""
    after = (ROOT / "README.md").read_text("utf-8").split("<!-- quickstart -->\n```\n")[1]
    return after.splitlines()[0]


def parts_of_installation(log: str) -> dict[str, float]:
    """The seconds of what pip does on the way, from its log, whose lines have the time in front."""
    seconds = dict.fromkeys(PIP_STEPS.values(), 0.0)
    begun: dict[str, datetime] = {}
    pattern = rf"(\S+T\S+) +({'|'.join(PIP_STEPS)})\b.*: (started|finished)"
    for stamp, step, state in re.findall(pattern, log):
        when = datetime.fromisoformat(stamp)
        if state == "started":
            begun[step] = when
        else:
            seconds[PIP_STEPS[step]] += (when - begun[step]).total_seconds()
    return seconds


def measure_clone(rounds: int) -> str:
    """README's first command, step by step, each time in a fresh clone."""
    environment = {**os.environ}
    for name in ("PYTHONPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV"):
        environment.pop(name, None)
    steps = [f"git clone --quiet {shlex.quote(str(ROOT))} .", *readme_command().split(" && ")]
    seconds: dict[str, list[float]] = {}
    whole = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("r") as log:
            environment["PIP_LOG"] = log.name
            begun = time.perf_counter()
            for step in steps:
                start = time.perf_counter()
                subprocess.run(
                    ["bash", "-c", step], cwd=folder, env=environment, check=True,
                    stdout=subprocess.DEVNULL,
                )  # fmt: skip
                taken = {f"`{step}`": time.perf_counter() - start}
                if " pip install " in step:
                    parts = parts_of_installation(log.read())
                    parts["packages"] = sum(taken.values()) - sum(parts.values())
                    taken |= {f"… of it: {name}": value for name, value in parts.items()}
                elif step is steps[0]:
                    taken = {"`git clone`": sum(taken.values())}
                for name, value in taken.items():
                    seconds.setdefault(name, []).append(value)
                print(taken, file=sys.stderr, flush=True)
            whole.append(time.perf_counter() - begun)
    rows = [(name, f"{statistics.median(values):.1f}") for name, values in seconds.items()]
    rows.append(("all of it", f"{statistics.median(whole):.1f}"))
    return (
        "README's first command in a fresh clone and a new virtual environment; pip has what it "
        f"has downloaded before. Medians of {rounds}.\n\n" + table(("step", "s"), rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="the interpreter whose package is measured")
    parser.add_argument("--clone", action="store_true", help="README's first command instead")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="what has this text in its name")
    parser.add_argument("--quick", action="store_true", help="one round, and nothing is written")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    if options.clone:
        name, title, body = "start-clone", "First use: a clone", measure_clone(rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            make_files(Path(folder))
            python = options.python or sys.executable
            ours = Interpreter(python, Path(folder), is_ours=options.python is None)
            peers = Interpreter(sys.executable, Path(folder), is_ours=True)
            found = ours.describe()
            runs = measure(ours, peers, rounds, options.only)
        name = f"start-{found['place']}"
        title = f"First use: {'an installed wheel' if found['place'] == 'wheel' else 'a checkout'}"
        body = (
            f"Python {found['python']}, Numba {found['numba']}; kernels that came compiled: "
            f"{found['kernels']}. {QUERIES * DOCUMENTS:,} documents, {FEATURES} features, {TREES} "
            f"trees (`quickstart`: its own); {THREADS} threads. Each run is a new process, cold "
            "with an empty folder for compiled kernels, warm with what the cold run left there; "
            "`compiled` is the number of compilations, and what cold runs take beyond warm ones is "
            f"their price. Medians of {rounds} rounds, in turns.\n\n{results_table(runs)}"
        )
    arguments = " --clone" if options.clone else " --python PYTHON" if options.python else ""
    if options.quick or options.only:
        print(body)
    else:
        report(name, title, f"{COMMAND}{arguments}", PACKAGES, body)


if __name__ == "__main__":
    main()

"""Tuning against separate runs of `rankgrove train` with the same draws of parameters.

The command `rankgrove tune` runs once, with its study in a file. Then `rankgrove train` runs with
the parameters of a trial and the same early stopping, as a script would do it, for every fourth
trial, or for all with `--every 1`; what a run takes more than its trial, to start, read, bin and
load, is the same for all. Kernels are compiled before: both take them from the cache. Pruning,
which separate runs cannot have as they do not know of each other, is measured apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

from rankgrove.data.letor import write_letor  # noqa: E402 (the thread limits must be set before)
from rankgrove.data.synthetic import make_web_search  # noqa: E402

COMMAND = "python -m benchmarks.tune"
PACKAGES = ("numpy", "numba", "scipy", "optuna")
N_QUERIES, N_FEATURES = 200, 136
MAX_TREES = 100
PATIENCE = 20
GOAL = 3.0


def rankgrove(folder: Path, *arguments: str) -> tuple[float, dict[str, Any]]:
    """Run the command; its seconds, and the JSON that it prints."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rankgrove", *arguments, "--json", "--n-jobs", str(THREADS)],
        check=True, capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    found: dict[str, Any] = json.loads(done.stdout)
    return seconds, found


def tune(folder: Path, n_trials: int, n_random: int, *more: str) -> tuple[float, dict[str, Any]]:
    """All trials by one command."""
    name = "whole" if more else "pruned"
    return rankgrove(
        folder, "tune", "train.txt", "--valid", "vali.txt", "--trials", str(n_trials),
        "--random", str(n_random), "--n-estimators", str(MAX_TREES),
        "--early-stopping-rounds", str(PATIENCE), "--out", f"{name}.json", *more,
    )  # fmt: skip


def train_apart(folder: Path, found: dict[str, Any], every: int) -> float:
    """What runs of their own take for all trials; the values must be those that tuning found."""
    trials = found["trials"]
    total, shared = 0.0, 0.0
    for trial in trials[::every]:
        parameters = {**found["best"]["parameters"], **trial["parameters"]}
        parameters["n_estimators"] = MAX_TREES
        (folder / "params.json").write_text(json.dumps(parameters), encoding="ascii")
        seconds, run = rankgrove(
            folder, "train", "train.txt", "--valid", "vali.txt", "--params", "params.json",
            "--early-stopping-rounds", str(PATIENCE), "-o", "model.safetensors",
        )  # fmt: skip
        value = run["valid"]["vali"]["metrics"]["ndcg@10"]
        if value != trial["value"]:
            raise SystemExit(f"trial {trial['trial']}: {value} alone, {trial['value']} in tuning")
        total += seconds
        shared += seconds - trial["seconds"]
    if every == 1:
        return total
    in_tuning = float(sum(trial["seconds"] for trial in trials))
    return in_tuning + shared / len(trials[::every]) * len(trials)


def measure(folder: Path, n_trials: int, n_random: int, every: int) -> str:
    data = make_web_search(N_QUERIES, N_FEATURES, seed=1)
    train, valid = data.split(0.8, 0.2)
    for part, name in ((train, "train.txt"), (valid, "vali.txt")):
        write_letor(part, folder / name)
    tune(folder, 1, 1, "--storage", "warm.db")  # compiles what is not in the cache
    whole, found = tune(folder, n_trials, n_random, "--no-prune")
    pruned, fewer = tune(folder, n_trials, n_random)
    apart = train_apart(folder, found, every)
    grown, less = (
        sum(trial["trees_grown"] for trial in one["trials"]) / n_trials for one in (found, fewer)
    )
    rows = [
        (f"{n_trials} runs of `rankgrove train`", f"{apart:.1f}", f"{apart / n_trials:.2f}", ""),
        ("`rankgrove tune --no-prune`, the same trials", f"{whole:.1f}",
         f"{whole / n_trials:.2f}", f"{apart / whole:.2f}"),
        ("`rankgrove tune`", f"{pruned:.1f}", f"{pruned / n_trials:.2f}", f"{apart / pruned:.2f}"),
    ]  # fmt: skip
    verdicts = ["met" if apart / one >= GOAL else "not met" for one in (pruned, whole)]
    return (
        f"{train.n_documents:,} rows to train on and {valid.n_documents:,} to validate on, "
        f"{N_FEATURES} features, as text; up to {MAX_TREES} trees, early stopping after "
        f"{PATIENCE}; {grown:.0f} trees a trial, {less:.0f} with pruning; {THREADS} "
        f"threads. Runs of {'all trials' if every == 1 else f'every {every}th trial'} were made: "
        f"their values are, bit for bit, those of the trials.\n\n"
        + table(("what", "seconds", "seconds a trial", "separate runs / it"), rows)
        + f"\n\nThe goal, {GOAL:g} times less than separate runs, is {verdicts[0]} by "
        f"`rankgrove tune`, and {verdicts[1]} without its pruning."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--every", type=int, default=4, help="which trials are run apart")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.quick:
            print(measure(Path(folder), 10, 4, options.every))
        else:
            body = measure(Path(folder), 100, 20, options.every)
            report("tune", "Tuning against separate runs", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

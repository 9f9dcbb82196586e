# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove tune`: the best parameters for a data file."""

from __future__ import annotations

import json as jsons
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, make_table, show, show_json
from rankgrove.cli.files import check_group, check_outputs, read_training, read_with_features_of
from rankgrove.cli.interrupts import interrupted, interruptible
from rankgrove.cli.options import Json, Reading, TrainFile, option, takes
from rankgrove.cli.parameters import gather_parameters, read_object, read_values, takes_training
from rankgrove.errors import ParameterError
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rankgrove.data.documents import Documents
    from rankgrove.experiments.tune.tune import Tuned
    from rankgrove.training.trainer import Unit

# The number of best trials that are shown.
_SHOWN = 5


@dataclass(frozen=True)
class Job:
    """What is to be read, how it is searched, and where what is found goes."""

    train: TrainFile
    valid: Annotated[
        Path | None, option("FILE", "Measure trials on this data, not by cross-validation.")
    ] = None
    folds: Annotated[
        int | None, option("K", "Cross-validate by query in K parts; 5 without --valid.")
    ] = None
    trials: Annotated[int, option("N", "Trials in all.", min=1)] = 100
    random: Annotated[int, option("N", "The first of them, drawn at random.", min=0)] = 20
    sampler: Annotated[str, option("tpe|gp", "What draws the others; gp needs PyTorch.")] = "tpe"
    prune: Annotated[bool, option(None, "Give up trials that fall behind.")] = True
    space: Annotated[
        Path | None,
        option(
            "FILE",
            'What is drawn, a .json file of {"NAME": {"low": X, "high": X, "log": true}} or '
            '{"NAME": {"choices": [...]}}.',
        ),
    ] = None
    params: Annotated[
        Path | None, option("FILE", "Parameters that are held, a .json or .toml file.")
    ] = None
    storage: Annotated[
        str | None,
        option(
            "FILE|URL",
            "Where trials are kept, to go on later; by default the --out file with .db.",
        ),
    ] = None
    name: Annotated[str, option("NAME", "Name of the study there.")] = "rankgrove"
    seed: Annotated[int, option("N", "Seed of the search.", min=0)] = 0
    out: Annotated[
        Path, option("FILE", "The best parameters, for train --params.", "--out", "-o")
    ] = Path("best.json")
    model: Annotated[
        Path | None, option("FILE", "Then train a model on TRAIN with them, to this file.")
    ] = None
    json: Json = False

    @property
    def kept_in(self) -> str:
        """Where trials are kept."""
        return self.storage or str(self.out.with_suffix(".db"))


@takes_training
@takes("job", Job)
def tune(*, job: Job, parameters: dict[str, Any], reading: Reading) -> None:
    """Find the best parameters of training for a data file.

    rankgrove tune train.txt --valid vali.txt -o best.json

    rankgrove train train.txt --params best.json -o model.safetensors

    What is tuned is what train trains with the same options: unless told YetiRank, by NDCG@10.

    20 trials at random, then 80 by what was seen so far. Options of training hold a parameter;
    --n-estimators is the most trees of a trial, by default 1000, and --early-stopping-rounds 100;
    of a network it is --max-epochs, by default 100, and 10.

    Ctrl-C ends it and keeps the trials so far; the same command again goes on.
    """
    start = time.perf_counter()
    with interruptible("before the first trial was done: nothing was written."):
        _check_files(job, reading)
        data, tuned = _run(job, _choose(job, parameters), reading)
    tuned.save(job.out)
    if tuned.interrupted:
        done = f"{len(tuned.trials):,} of {count(job.trials, 'trial')}"
        more = "" if job.model is None else f", {job.model} was not made"
        also = f"{job.out} has the best so far{more}; the same command again goes on."
        raise interrupted(f"after {done}: {also}")
    if job.model is not None:
        _train(tuned, data, job.model, job.out, reading.n_jobs)
    if job.json:
        show_json(_summary(job, tuned, time.perf_counter() - start))
    else:
        _show(job, tuned, time.perf_counter() - start)


def _check_files(job: Job, reading: Reading) -> None:
    """Refuse before the work what would fail after it."""
    storage = None if "://" in job.kept_in else Path(job.kept_in)
    written = {"out": job.out, "model": job.model, "storage": storage}
    check_outputs([job.train, job.valid, job.space, job.params], written)
    check_group(reading, [job.valid])


def _choose(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """What `tune` is called with: options and files of parameters, and the space."""
    fixed = _held(job, options)
    arguments = ("objective", "n_estimators", "max_epochs", "early_stopping_rounds")
    chosen = {name: fixed.pop(name) for name in arguments if name in fixed}
    if "n_estimators" in chosen:
        chosen["max_trees"] = chosen.pop("n_estimators")
    if "eval_metric" in fixed:
        watched = fixed.pop("eval_metric")
        several = watched if isinstance(watched, list) else [watched]
        if len(several) != 1:
            raise ParameterError(f"--eval-metric must be one metric to tune. Got {several}.")
        # The objective has its own, that of --metric or its default.
        chosen["metric"] = several[0]
        fixed.setdefault("metric", "auto")
    elif "metric" in fixed:
        chosen["metric"] = fixed.pop("metric")
    chosen["fixed"] = fixed
    if job.space is not None:
        chosen["space"] = read_object(job.space, False, "parameters")
    return chosen


def _held(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters that options and the file of parameters give."""
    names = {*options, *(() if job.params is None else read_values(job.params))}
    parameters = gather_parameters(options, job.params)
    return {name: getattr(parameters, name) for name in sorted(names)}


def _run(job: Job, chosen: dict[str, Any], reading: Reading) -> tuple[Documents, Tuned]:
    from rankgrove.experiments.tune.studies import import_optuna
    from rankgrove.experiments.tune.tune import tune as search

    import_optuna()
    valid = None
    cut = {"categorical": chosen["fixed"].get("categorical")}
    train = read_training(job.train, reading, cut)
    if job.valid is not None:
        valid = read_with_features_of(train, job.train, job.valid, reading)
    try:
        tuned = search(
            train, valid, **chosen, sampler=job.sampler, prune=job.prune, folds=job.folds,  # type: ignore[arg-type]
            name=job.name, seed=job.seed, n_random=min(job.random, job.trials),
            n_bayesian=max(0, job.trials - job.random), storage=job.kept_in, verbose=True,
            n_jobs=reading.n_jobs,
        )  # fmt: skip
        return train, tuned
    except ParameterError as error:
        if job.space is None or error.name != "space":
            raise
        raise ParameterError(f"{job.space}: {error}") from None


def _train(tuned: Tuned, data: Documents, model: Path, out: Path, n_jobs: int | None) -> None:
    from rankgrove.experiments.registry import make_estimator

    ranker = make_estimator(tuned.best_parameters, n_jobs=n_jobs, verbose=True)
    with interruptible(f"while the model was trained: {out} has the best parameters."):
        ranker.fit(data)
    ranker.save(model)


def _unit(tuned: Tuned) -> Unit:
    """What a trial trains one of at a time."""
    from rankgrove.training.trainer import unit_of

    return unit_of(tuned.best_parameters["objective"])


def _summary(job: Job, tuned: Tuned, seconds: float) -> dict[str, Any]:
    best, unit = tuned.trials.best, _unit(tuned).plural
    done = "epochs_run" if unit == "epochs" else "trees_grown"
    return {
        "parameters": job.out,
        "model": job.model,
        "storage": job.kept_in,
        "metric": tuned.metric,
        "best": {"trial": best.number, "value": best.value, unit: best.n_trees}
        | {"parameters": jsons.loads(job.out.read_text(encoding="utf-8"))},
        "trials": [
            {
                "trial": trial.number, "state": trial.state, "value": trial.value,
                unit: trial.n_trees, done: trial.n_grown, "drawn_by": trial.drawn_by,
                "seconds": trial.seconds, "parameters": trial.parameters,
            }
            for trial in tuned.trials
        ],
        "seconds": seconds,
    }  # fmt: skip


def _show(job: Job, tuned: Tuned, seconds: float) -> None:
    names = list(dict.fromkeys(name for trial in tuned.trials for name in trial.parameters))
    table = make_table("trial", tuned.metric, _unit(tuned).plural, *names, numeric=0)
    complete = [trial for trial in tuned.trials if trial.state == "complete"]
    for trial in sorted(complete, key=lambda trial: -trial.value)[:_SHOWN]:
        cells = [_cell(trial.parameters.get(name, "")) for name in names]
        table.add_row(str(trial.number), f"{trial.value:.4f}", f"{trial.n_trees:,}", *cells)
    show(table, "")
    pruned = len(tuned.trials) - len(complete)
    also = f", {pruned:,} of them pruned" if pruned else ""
    n_trials = count(len(tuned.trials), "trial")
    show(f"{n_trials}{also}, in {clock_time(seconds)}; kept in {job.kept_in}.")
    show(f"Wrote {job.out}, the best parameters; use them with: rankgrove train --params {job.out}")
    if job.model is not None:
        show(f"Wrote {job.model}: {_unit(tuned).count(tuned.trials.best.n_trees)}.")


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)

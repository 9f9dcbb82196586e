# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove tune`: the best parameters for a data file."""

from __future__ import annotations

import json as jsons
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrove.cli.console import INTERRUPTED, count, make_table, say, show, show_json
from rankgrove.cli.files import check_group, check_outputs, read_with_features_of
from rankgrove.cli.options import Json, Reading
from rankgrove.cli.parameters import gather_parameters, read_values, takes_training
from rankgrove.errors import DataError, ParameterError
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.experiments.tune.tune import Tuned
    from rankgrove.training.trainer import Unit

# The number of best trials that are shown.
_SHOWN = 5


@dataclass(frozen=True)
class Job:
    """What is to be read, and where what is found goes."""

    train: Path
    valid: Path | None
    space: Path | None
    params: Path | None
    storage: str
    out: Path
    model: Path | None
    reading: Reading


def _tune(
    train: Annotated[Path, typer.Argument(metavar="TRAIN", help="A data file of any format.")],
    valid: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure trials on this data, not by cross-validation."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(metavar="K", help="Cross-validate by query in K parts; 5 without --valid."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Trials in all.")] = 100,
    random: Annotated[
        int, typer.Option(min=0, metavar="N", help="The first of them, drawn at random.")
    ] = 20,
    sampler: Annotated[
        str, typer.Option(metavar="tpe|gp", help="What draws the others; gp needs PyTorch.")
    ] = "tpe",
    prune: Annotated[bool, typer.Option(help="Give up trials that fall behind.")] = True,
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is drawn, a .json file of "
            '{"NAME": {"low": X, "high": X, "log": true}} or {"NAME": {"choices": [...]}}.',
        ),
    ] = None,
    params: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parameters that are held, a .json or .toml file."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            help="Where trials are kept, to go on later; by default the --out file with .db.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the study there.")
    ] = "rankgrove",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the search.")] = 0,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The best parameters, for train --params."
        ),
    ] = Path("best.json"),
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Then train a model on TRAIN with them, to this file."),
    ] = None,
    json: Json = False,
    *,
    parameters: dict[str, Any],
    reading: Reading,
) -> None:
    """Find the best parameters of training for a data file.

    rankgrove tune train.txt --valid vali.txt -o best.json

    rankgrove train train.txt --params best.json -o model.safetensors

    What is tuned is what train trains with the same options: unless told YetiRank, by NDCG@10.

    20 trials at random, then 80 by what was seen so far. Options of training hold a parameter;
    --n-estimators is the most trees of a trial, by default 1000, and --early-stopping-rounds 100;
    of a network it is --max-epochs, by default 100, and 10.

    Ctrl-C ends it and keeps the trials so far; the same command again goes on.
    """
    kept = storage or str(out.with_suffix(".db"))
    job = Job(train, valid, space, params, kept, out, model, reading)
    protocol = {"sampler": sampler, "prune": prune, "folds": folds, "name": name, "seed": seed}
    protocol |= {"n_random": min(random, trials), "n_bayesian": max(0, trials - random)}
    start = time.perf_counter()
    try:
        _check_files(job)
        chosen = _choose(job, parameters)
        data, tuned = _run(job, chosen, protocol)
    except KeyboardInterrupt:
        say("interrupted before the first trial was done: nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    tuned.save(out)
    if tuned.interrupted:
        _say_interrupted(job, tuned, trials)
        raise typer.Exit(INTERRUPTED)
    if model is not None:
        _train(job, data, tuned)
    if json:
        show_json(_summary(job, tuned, time.perf_counter() - start))
    else:
        _show(job, tuned, time.perf_counter() - start)


tune = takes_training(_tune)


def _check_files(job: Job) -> None:
    """Refuse before the work what would fail after it."""
    storage = None if "://" in job.storage else Path(job.storage)
    written = {"out": job.out, "model": job.model, "storage": storage}
    check_outputs([job.train, job.valid, job.space, job.params], written)
    check_group(job.reading, [job.valid])


def _choose(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """What `tune` is called with: options and files of parameters, and the space."""
    fixed = _held(job, options)
    chosen: dict[str, Any] = {}
    for name, argument in (("objective", "objective"), ("n_estimators", "max_trees"),
                           ("max_epochs", "max_epochs"),
                           ("early_stopping_rounds", "early_stopping_rounds")):  # fmt: skip
        if name in fixed:
            chosen[argument] = fixed.pop(name)
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
        chosen["space"] = _read_space(job.space)
    return chosen


def _held(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters that options and the file of parameters give."""
    names = {*options, *(() if job.params is None else read_values(job.params))}
    parameters = gather_parameters(options, job.params)
    return {name: getattr(parameters, name) for name in sorted(names)}


def _read_space(path: Path) -> dict[str, Any]:
    from rankgrove.data.streams import read_all

    text = read_all(path)
    try:
        space = jsons.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: must be sound JSON. Got: {error}.") from None
    if not isinstance(space, dict) or not space:
        raise DataError(f"{path}: must be an object of parameters. Got another kind of JSON.")
    return space


def _run(job: Job, chosen: dict[str, Any], protocol: dict[str, Any]) -> tuple[Dataset, Tuned]:
    from rankgrove.experiments.tune.studies import import_optuna
    from rankgrove.experiments.tune.tune import tune as search

    import_optuna()
    train, valid = _read_sets(job)
    try:
        tuned = search(
            train, valid, **chosen, **protocol, storage=job.storage, verbose=True,
            n_jobs=job.reading.n_jobs,
        )  # fmt: skip
        return train, tuned
    except ParameterError as error:
        if job.space is None or error.name != "space":
            raise
        raise ParameterError(f"{job.space}: {error}") from None


def _read_sets(job: Job) -> tuple[Dataset, Dataset | None]:
    train = job.reading.read(job.train)
    if job.valid is None:
        return train, None
    return train, read_with_features_of(train, job.train, job.valid, job.reading)


def _train(job: Job, data: Dataset, tuned: Tuned) -> None:
    from rankgrove.experiments.registry import make_estimator

    ranker = make_estimator(tuned.best_parameters, n_jobs=job.reading.n_jobs, verbose=True)
    try:
        ranker.fit(data)
    except KeyboardInterrupt:
        say(f"interrupted while the model was trained: {job.out} has the best parameters.")
        raise typer.Exit(INTERRUPTED) from None
    ranker.save(job.model or "")


def _say_interrupted(job: Job, tuned: Tuned, n_trials: int) -> None:
    more = "" if job.model is None else f", {job.model} was not made"
    say(
        f"interrupted after {len(tuned.trials):,} of {count(n_trials, 'trial')}: {job.out} has the "
        f"best so far{more}; the same command again goes on."
    )


def _unit(tuned: Tuned) -> Unit:
    """What a trial trains one of at a time."""
    from rankgrove.training.trainer import unit_of

    return unit_of(tuned.best_parameters["objective"])


def _summary(job: Job, tuned: Tuned, seconds: float) -> dict[str, Any]:
    best, unit = tuned.trials.best, _unit(tuned).plural
    done = "epochs_run" if unit == "epochs" else "trees_grown"
    return {
        "parameters": str(job.out),
        "model": None if job.model is None else str(job.model),
        "storage": job.storage,
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
    numeric = ["trial", tuned.metric, _unit(tuned).plural, *names]
    table = make_table(*numeric, right=numeric)
    complete = [trial for trial in tuned.trials if trial.state == "complete"]
    for trial in sorted(complete, key=lambda trial: -trial.value)[:_SHOWN]:
        values = [trial.parameters.get(name, "") for name in names]
        cells = [_cell(value) for value in values]
        table.add_row(str(trial.number), f"{trial.value:.4f}", f"{trial.n_trees:,}", *cells)
    show(table, "")
    pruned = len(tuned.trials) - len(complete)
    also = f", {pruned:,} of them pruned" if pruned else ""
    n_trials = count(len(tuned.trials), "trial")
    show(f"{n_trials}{also}, in {clock_time(seconds)}; kept in {job.storage}.")
    show(f"Wrote {job.out}, the best parameters; use them with: rankgrove train --params {job.out}")
    if job.model is not None:
        show(f"Wrote {job.model}: {_unit(tuned).count(tuned.trials.best.n_trees)}.")


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)

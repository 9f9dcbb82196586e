# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove train`: from data files to a model file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrove.cli.console import (
    INTERRUPTED,
    count,
    files_table,
    say,
    show,
    show_json,
    warn,
)
from rankgrove.cli.files import check_group, check_outputs, name_files, read_with_features_of
from rankgrove.cli.networks import train_network
from rankgrove.cli.options import Json, Reading
from rankgrove.cli.parameters import (
    as_options,
    gather_parameters,
    is_network,
    takes_training,
)
from rankgrove.errors import DataError, ParameterError
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rankgrove.boosting.loop import Training
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.data.dataset import Dataset
    from rankgrove.model.model import Model
    from rankgrove.training.network_parameters import NetworkParameters


@dataclass(frozen=True)
class Job:
    """What is to be read, and where what is made goes."""

    train: Path
    valid: dict[str, Path]
    out: Path
    checkpoint: Path | None
    checkpoint_every: int
    resume: Path | None
    base_model: Path | None
    preferences: Path | None
    reading: Reading


@dataclass(frozen=True)
class Outcome:
    """What training gave."""

    model: Model
    training: Training
    earlier_trees: int
    seconds: float


def _train(
    train: Annotated[Path, typer.Argument(metavar="TRAIN", help="A data file of any format.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="MODEL", help="The file to write, as model.safetensors."
        ),
    ],
    valid: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Measure each tree on this data; may be repeated."),
    ] = None,
    params: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Parameters, a .json or .toml file; options go before it."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model so far to this file.")
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Do so every so many trees.")
    ] = 50,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from a checkpoint, with its parameters."),
    ] = None,
    base_model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add trees to this model, with any parameters."),
    ] = None,
    preferences: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Lines 'qid better worse \\[probability]' to train by in place of labels.",
        ),
    ] = None,
    json: Json = False,
    *,
    parameters: dict[str, Any],
    reading: Reading,
) -> None:
    """Train a model on a data file.

    rankgrove train train.txt --valid vali.txt --early-stopping-rounds 50 -o model.safetensors

    Ctrl-C ends training and keeps the trees so far.
    """
    from rankgrove.boosting.parameters import Parameters

    job = Job(
        train, name_files("--valid", valid or []), out, checkpoint, checkpoint_every, resume,
        base_model, preferences, reading,
    )  # fmt: skip
    start = time.perf_counter()
    try:
        _check_files(job, params)
        earlier = None if is_network(parameters, params) else _load_checkpoint(job)
        chosen = gather_parameters(parameters, params, earlier.parameters if earlier else {})
        _check_watched(chosen, job)
        data = _read_sets(job, chosen)
        read_in = time.perf_counter() - start
        if not isinstance(chosen, Parameters):
            train_network(job, chosen, data, read_in, json)
            return
        outcome = _run(job, chosen, data, earlier)
    except KeyboardInterrupt:
        say("interrupted before the first tree: nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    _save(job, outcome)
    if json:
        show_json(_summary(job, data, outcome, read_in))
    else:
        _show(job, data, outcome)
    if outcome.training.interrupted:
        _say_interrupted(job, outcome)
        raise typer.Exit(INTERRUPTED)


train = takes_training(_train)


def _check_files(job: Job, params: Path | None) -> None:
    """Refuse before the work what would fail after it."""
    read = [job.train, *job.valid.values(), params, job.base_model, job.preferences]
    check_outputs(read, {"out": job.out, "checkpoint": job.checkpoint})
    check_group(job.reading, job.valid.values())


def _check_watched(parameters: Parameters | NetworkParameters, job: Job) -> None:
    if parameters.early_stopping_rounds is not None and not job.valid:
        raise ParameterError(
            "--early-stopping-rounds must be used with --valid, the data to watch. Got no --valid."
        )


def _load_checkpoint(job: Job) -> Model | None:
    from rankgrove.model.model import Model

    return None if job.resume is None else Model.load(job.resume)


def _read_sets(job: Job, parameters: Parameters | NetworkParameters) -> dict[str, Dataset]:
    """The training data under "", and the validation sets under their names."""
    import numpy as np

    from rankgrove.metrics.evaluate import evaluate

    train = job.reading.read(job.train)
    data = {"": train}
    for name, path in job.valid.items():
        data[name] = read_with_features_of(train, job.train, path, job.reading)
        try:
            # Any scores show whether these data can be measured at all.
            evaluate(data[name], np.zeros(data[name].n_documents), parameters.metrics())
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
    return data


def _run(
    job: Job, parameters: Parameters, data: dict[str, Dataset], earlier: Model | None
) -> Outcome:
    from rankgrove.data.preferences import read_preferences
    from rankgrove.training.trees import make_model, train_trees

    start = time.perf_counter()
    pairs = None if job.preferences is None else read_preferences(job.preferences, data[""])
    try:
        training = train_trees(
            data[""],
            {name: part for name, part in data.items() if name},
            parameters,
            checkpoint=job.checkpoint,
            checkpoint_every=job.checkpoint_every,
            resume=earlier,
            base_model=job.base_model,
            preferences=pairs,
            verbose=True,
            n_jobs=job.reading.n_jobs,
        )
    except ParameterError as error:
        raise ParameterError(as_options(str(error))) from None
    if training.interrupted and not training.trees:
        raise KeyboardInterrupt
    before = 0 if earlier is None else earlier.n_own_trees
    return Outcome(make_model(training), training, before, time.perf_counter() - start)


def _save(job: Job, outcome: Outcome) -> None:
    from rankgrove.training.trees import make_model

    outcome.model.save(job.out)
    training = outcome.training
    if training.interrupted and job.checkpoint is not None:
        # Early stopping cuts the model; what one goes on from has every tree.
        make_model(training, len(training.trees)).save(job.checkpoint)
    if len(outcome.model.ensemble.feature) == 0:
        warn(
            "no split was found, so every document has the same score: are labels the same within "
            "each query, or --min-samples-leaf or --min-child-weight too large?"
        )


def _say_interrupted(job: Job, outcome: Outcome) -> None:
    model = outcome.model
    grown = len(outcome.training.trees) + model.n_base_trees
    file = job.checkpoint or (job.out if grown == model.n_trees else None)
    more = f"; go on with --resume {file}" if file else ""
    say(f"interrupted after {count(grown, 'tree')}: {job.out} has {model.n_trees:,} of them{more}.")


def _summary(
    job: Job, data: dict[str, Dataset], outcome: Outcome, read_in: float
) -> dict[str, Any]:
    model = outcome.model
    metrics = model.final_metrics()

    def described(name: str, path: Path) -> dict[str, Any]:
        part = data[name]
        return {"file": str(path), "documents": part.n_documents, "queries": part.n_queries}

    return {
        "model": str(job.out),
        "bytes": job.out.stat().st_size,
        "trees": model.n_trees,
        "trees_grown": len(outcome.training.trees),
        "leaves": len(model.ensemble.value),
        "features": model.n_features,
        "stopped_early": outcome.training.validation.should_stop,
        "interrupted": outcome.training.interrupted,
        "train": described("", job.train),
        "valid": {
            name: described(name, path) | {"metrics": metrics.get(name, {})}
            for name, path in job.valid.items()
        },
        "seconds": {"read": read_in, "train": outcome.seconds},
        "parameters": model.parameters,
    }


def _show(job: Job, data: dict[str, Dataset], outcome: Outcome) -> None:
    model = outcome.model
    files = {"": job.train, **job.valid}
    show(files_table(files, data, model.final_metrics()), "")
    grown = len(outcome.training.trees)
    n_own = model.n_own_trees
    before = outcome.earlier_trees
    after = f" after the first {before:,}" if before else ""
    kept = f", of which the first {n_own:,} are kept" if grown > n_own else ""
    why = " Validation did not improve any more." if outcome.training.validation.should_stop else ""
    time = clock_time(outcome.seconds)
    show(f"Grew {count(grown - before, 'tree')}{after} in {time}{kept}.{why}")
    size = job.out.stat().st_size
    show(
        f"Wrote {job.out}: {count(model.n_trees, 'tree')}, "
        f"{count(len(model.ensemble.value), 'leaf', 'leaves')}, {count(size, 'byte')}."
    )

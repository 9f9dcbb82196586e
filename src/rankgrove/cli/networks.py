# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""Networks on the command line: what `train` does for them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from rankgrove.errors import ParameterError
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rankgrove.cli.train import Job
    from rankgrove.data.dataset import Dataset
    from rankgrove.neural.model import NetworkModel
    from rankgrove.neural.training import NetworkTraining
    from rankgrove.training.network_parameters import NetworkParameters


def train_network(
    job: Job,
    parameters: NetworkParameters,
    data: dict[str, Dataset],
    read_in: float,
    json: bool,
) -> None:
    """Train a network on data that are read, save it and show what came out."""
    from rankgrove.data.preferences import read_preferences
    from rankgrove.neural.training import train_network

    for option, path in (("--checkpoint", job.checkpoint), ("--resume", job.resume)):
        if path is not None:
            raise ParameterError(f"{option} must be left out for a network. Got '{path}'.")
    start = time.perf_counter()
    pairs = None if job.preferences is None else read_preferences(job.preferences, data[""])
    training = train_network(
        data[""], {name: part for name, part in data.items() if name}, parameters,
        base_model=job.base_model, preferences=pairs, verbose=True, n_jobs=job.reading.n_jobs,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    if training.interrupted and training.n_epochs == 0:
        say("interrupted before the end of the first epoch: nothing was written.")
        raise typer.Exit(INTERRUPTED)
    model = training.make_model()
    model.save(job.out)
    if not training.has_pushed:
        warn("no document was pushed: are labels the same within each query?")
    summary = _summary(job, data, model, training) | {
        "seconds": {"read": read_in, "train": seconds},
        "parameters": parameters.as_json(),
    }
    if json:
        show_json(summary)
    else:
        _show(job, data, model, training, seconds)
    if training.interrupted:
        say(f"interrupted after {count(training.n_epochs, 'epoch')}.")
        raise typer.Exit(INTERRUPTED)


def _summary(
    job: Job, data: dict[str, Dataset], model: NetworkModel, training: NetworkTraining
) -> dict[str, Any]:
    metrics = model.final_metrics()

    def described(name: str, path: Path) -> dict[str, Any]:
        part = data[name]
        return {"file": str(path), "documents": part.n_documents, "queries": part.n_queries}

    return {
        "model": str(job.out),
        "kind": "network",
        "bytes": job.out.stat().st_size,
        "weights": model.n_weights,
        "epochs": model.n_epochs,
        "epochs_run": training.n_epochs,
        "features": model.n_features,
        "stopped_early": training.validation.should_stop,
        "interrupted": training.interrupted,
        "train": described("", job.train),
        "valid": {
            name: described(name, path) | {"metrics": metrics.get(name, {})}
            for name, path in job.valid.items()
        },
    }


def _show(
    job: Job,
    data: dict[str, Dataset],
    model: NetworkModel,
    training: NetworkTraining,
    seconds: float,
) -> None:
    files = {"": job.train, **job.valid}
    show(files_table(files, data, model.final_metrics()), "")
    kept = model.n_epochs
    first = f", of which the first {kept:,} are kept" if training.n_epochs > kept else ""
    why = " Validation did not improve any more." if training.validation.should_stop else ""
    show(f"Trained {count(training.n_epochs, 'epoch')} in {clock_time(seconds)}{first}.{why}")
    size = job.out.stat().st_size
    show(f"Wrote {job.out}: {count(model.n_weights, 'weight')}, {count(size, 'byte')}.")

# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove distil`: a small model from a large one, by its scores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, show, show_json
from rankgrove.cli.evaluate import choose_metrics
from rankgrove.cli.files import check_group, check_outputs, sizes_of
from rankgrove.cli.interrupts import interrupted
from rankgrove.cli.models import ModelPath, load_model, read_for_model
from rankgrove.cli.options import DataFile, Json, Metrics, Reading, option, takes
from rankgrove.cli.parameters import gather_parameters, takes_student
from rankgrove.errors import refusal
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.experiments.distil.distilled import Distilled


@dataclass(frozen=True)
class Job:
    """What is to be distilled, by what, and where the student goes."""

    model: ModelPath
    data: DataFile
    out: Annotated[Path, option("MODEL", "The file to write, as small.safetensors.", "--out", "-o")]
    valid: Annotated[
        Path | None,
        option("FILE", "Stop and compare on this data; by default a share of DATA is held out."),
    ] = None
    held_out: Annotated[float, option("SHARE", "That share of the queries.")] = 0.2
    made: Annotated[
        str,
        option(
            "N|auto",
            "Make so many further documents of each, of it and another one of its query.",
        ),
    ] = "auto"
    seed: Annotated[int, option("N", "Of the queries held out and the documents made.", min=0)] = 0
    metrics: Metrics = None
    json: Json = False


@takes_student
@takes("job", Job)
def distil(*, job: Job, parameters: dict[str, Any], reading: Reading) -> None:
    """Distil a model: one small model of trees from a large one, for serving.

    rankgrove distil large.safetensors train.txt --valid vali.txt -o small.safetensors

    Labels of DATA are not looked at: any documents will do, and more of them are better. Ctrl-C
    ends training and keeps the trees so far.
    """
    start = time.perf_counter()
    try:
        _check(job, reading)
        options = _given(parameters)
        from rankgrove.experiments.distil.distil import distil as distilling

        metrics = choose_metrics(job.metrics or [], None)
        teacher, sets = _read(job, reading.with_ids(metrics))
        found = distilling(
            teacher, sets["data"], valid=sets.get("valid"), held_out=job.held_out,
            metrics=metrics, parameters=options, made=_made(job.made), seed=job.seed,
            verbose=True, n_jobs=reading.n_jobs,
        )  # fmt: skip
    except KeyboardInterrupt:
        raise interrupted("before the first tree: nothing was written.") from None
    found.save(job.out)
    if job.json:
        show_json(_summary(job, sets, found, time.perf_counter() - start))
    else:
        size = count(job.out.stat().st_size, "byte")
        took = clock_time(time.perf_counter() - start)
        show(str(found), "", f"Wrote {job.out}: {size}, in {took}.")
    if found.interrupted:
        trees = count(found.model.n_trees, "tree")
        raise interrupted(f"before the last tree: {job.out} has {trees}.")


def _check(job: Job, reading: Reading) -> None:
    """Refuse before the work what would fail after it."""
    from rankgrove.experiments.checks import check_share

    check_outputs([job.model, job.data, job.valid], {"out": job.out})
    check_group(reading, [job.valid])
    check_share("held_out", job.held_out)
    _made(job.made)


def _made(text: str) -> Any:
    from rankgrove.rules import AUTO

    if text != AUTO and not text.isdecimal():
        raise refusal("made", f"be a whole number, 0 or more, or {AUTO!r}", text)
    return AUTO if text == AUTO else int(text)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The parameters of training that options give, and no others."""
    from rankgrove.experiments.distil.distil import check_student_names

    check_student_names(options)
    chosen = gather_parameters(options)
    return {name: getattr(chosen, name) for name in options}


def _read(job: Job, reading: Reading) -> tuple[Any, dict[str, Dataset]]:
    """The teacher, and the data by the parameter that names them."""
    teacher = load_model(job.model)
    sets = {"data": read_for_model(teacher, job.data, reading)}
    if job.valid is not None:
        sets["valid"] = read_for_model(teacher, job.valid, reading)
    return teacher, sets


def _summary(
    job: Job, sets: dict[str, Dataset], found: Distilled, seconds: float
) -> dict[str, Any]:
    described = {
        name: {"file": getattr(job, name), **sizes_of(part)} for name, part in sets.items()
    }
    return {
        "model": job.out,
        "bytes": job.out.stat().st_size,
        "teacher": job.model,
        **described,
        **found.to_dict(),
        "seconds": seconds,
        "parameters": found.model.parameters,
        "notes": found.model.notes,
    }

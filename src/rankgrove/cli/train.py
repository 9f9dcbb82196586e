# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove train`: from data files to a model file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, files_table, say, show, show_json, warn
from rankgrove.cli.files import (
    check_group,
    check_outputs,
    name_files,
    read_training,
    read_with_features_of,
    sizes_of,
)
from rankgrove.cli.interrupts import interrupted
from rankgrove.cli.options import Json, Reading, TrainFile, option, takes
from rankgrove.cli.parameters import gather_parameters, is_network, takes_training
from rankgrove.errors import DataError, ParameterError, refusal
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rankgrove.data.documents import Documents
    from rankgrove.distributed.following import SetSize
    from rankgrove.model.base import ScoringModel
    from rankgrove.training.recipe import Recipe
    from rankgrove.training.run import Run
    from rankgrove.training.starting import AnyParameters


def _several(metavar: str | None, text: str, name: str, *names: str) -> Any:
    """An option of how several models become one, as its rule says it."""
    from rankgrove.cli.parameters import option_text
    from rankgrove.rules import options_of
    from rankgrove.training.recipe import Recipe

    known = options_of(Recipe)
    help_text = option_text(" ".join([text, known[name].summary]).strip(), known)
    return option(metavar, help_text, *names, panel="Training: several models")


@dataclass(frozen=True)
class Job:
    """What is to be read, and where what is made goes."""

    train: TrainFile
    out: Annotated[Path, option("MODEL", "The file to write, as model.safetensors.", "--out", "-o")]
    valid: Annotated[
        list[Path] | None, option("FILE", "Measure each tree on this data; may be repeated.")
    ] = None
    params: Annotated[
        Path | None, option("FILE", "Parameters, a .json or .toml file; options go before it.")
    ] = None
    checkpoint: Annotated[Path | None, option("FILE", "Write the model so far to this file.")] = (
        None
    )
    checkpoint_every: Annotated[int, option("N", "Do so every so many trees.", min=1)] = 50
    resume: Annotated[
        Path | None, option("FILE", "Go on from a checkpoint, with its parameters.")
    ] = None
    base_model: Annotated[
        Path | None, option("FILE", "Add trees to this model, with any parameters.")
    ] = None
    preferences: Annotated[
        Path | None,
        option(
            "FILE",
            "Lines 'qid better worse \\[probability \\[weight]]' to train by, in place of labels.",
        ),
    ] = None
    dask: Annotated[
        str | None,
        option(
            "ADDRESS",
            "Train on a Dask cluster, as tcp://scheduler:8786, or on so many processes here, as "
            "local:4; files may then be patterns.",
        ),
    ] = None
    effort: Annotated[
        str | None, _several("low|medium|high", "How much work to put into one model.", "effort")
    ] = None
    members: Annotated[str | None, _several("N", "", "members")] = None
    mix: Annotated[str | None, _several("NAME,...|auto", "", "mix")] = None
    refit: Annotated[bool, _several(None, "", "refit", "--refit")] = False
    json: Json = False

    @cached_property
    def sets(self) -> dict[str, Path]:
        """The validation sets by name."""
        return name_files("--valid", self.valid or [])


@dataclass(frozen=True)
class Outcome:
    """What training gave: a run, its model, the steps that were there before, and how long it took.

    A step is a tree, an epoch of a network, or a member of an average.
    """

    run: Run
    model: Any
    n_before: int
    seconds: float

    @property
    def n_base(self) -> int:
        """The trees of a base model that the model has besides its own."""
        return self.model.n_base_trees if self.of_trees else 0

    @property
    def of_trees(self) -> bool:
        """Whether it is one model of trees."""
        return self.run.unit.noun == "tree"

    @property
    def of_members(self) -> bool:
        """Whether it is the average of several models."""
        return self.run.unit.noun == "member"


@takes_training
@takes("job", Job)
def train(*, job: Job, parameters: dict[str, Any], reading: Reading) -> None:
    """Train a model on a data file.

    rankgrove train train.txt --valid vali.txt --early-stopping-rounds 50 -o model.safetensors

    Ctrl-C ends training and keeps the trees so far.
    """
    start = time.perf_counter()
    noun = "tree"
    try:
        from rankgrove.training.trainer import MEMBERS, unit_of

        _check_files(job, reading)
        chosen, earlier = _gather(job, parameters)
        recipe = _recipe_of(job, earlier)
        several = not recipe.plan(has_valid=bool(job.valid)).is_single
        noun = MEMBERS.noun if several else unit_of(chosen.objective).noun
        if chosen.early_stopping_rounds is not None and not job.valid:
            rule = "must be used with --valid, the data to watch"
            raise ParameterError(f"--early-stopping-rounds {rule}. Got no --valid.")
        data: Mapping[str, Documents | SetSize]
        if job.dask is None:
            sets = data = _read_sets(job, chosen, reading)
            read_in = time.perf_counter() - start
            outcome = _run(job, chosen, recipe if several else None, sets, earlier, reading.n_jobs)
        else:
            if several:
                rule = "be used without --dask: train members one by one, then combine them"
                raise refusal("members", rule, got="several")
            read_in = None
            data, outcome = _run_on_dask(job, chosen, earlier, reading)
    except KeyboardInterrupt:
        raise interrupted(f"before the first {noun}: nothing was written.") from None
    _save(job, outcome)
    if job.json:
        show_json(_summary(job, data, outcome, read_in))
    else:
        _show(job, data, outcome)
    if outcome.run.interrupted:
        raise interrupted(_what_is_kept(job, outcome))


def _check_files(job: Job, reading: Reading) -> None:
    """Refuse before the work what would fail after it."""
    read = [job.train, *job.sets.values(), job.params, job.base_model, job.preferences]
    check_outputs(read, {"out": job.out, "checkpoint": job.checkpoint})
    check_group(reading, job.sets.values())


def _recipe_of(job: Job, earlier: ScoringModel | None) -> Recipe:
    """How several models become one, by the options, or by the checkpoint to go on from."""
    from rankgrove.rules import options_of
    from rankgrove.training.members import RECIPE
    from rankgrove.training.recipe import Recipe

    given = {name: getattr(job, name) for name in options_of(Recipe) if getattr(job, name)}
    known = {name: entry.parse(given[name]) for name, entry in options_of(Recipe).items()
             if name in given}  # fmt: skip
    before = {} if earlier is None else earlier.notes.get(RECIPE, {})
    return Recipe(**{**before, **known})


def _gather(job: Job, options: dict[str, Any]) -> tuple[AnyParameters, ScoringModel | None]:
    """The parameters that options and files give, and the checkpoint to go on from."""
    from rankgrove.model.base import load
    from rankgrove.training.checkpoints import check_can_resume
    from rankgrove.training.trainer import EPOCHS

    if is_network(options, job.params) and job.members is None:
        check_can_resume(EPOCHS, checkpoint=job.checkpoint, resume=job.resume)
    earlier = None if job.resume is None else load(job.resume)
    return gather_parameters(options, job.params, earlier.parameters if earlier else {}), earlier


def _read_sets(job: Job, parameters: AnyParameters, reading: Reading) -> dict[str, Documents]:
    """The training data under "", and the validation sets under their names."""
    import numpy as np

    from rankgrove.metrics.evaluate import measure_dataset

    names = ("max_bins", "categorical", "random_state")
    cut = {name: getattr(parameters, name) for name in names if hasattr(parameters, name)}
    train = read_training(job.train, reading, cut)
    data = {"": train}
    for name, path in job.sets.items():
        data[name] = read_with_features_of(train, job.train, path, reading)
        try:
            # Any scores show whether these data can be measured at all.
            measure_dataset(data[name], np.zeros(data[name].n_documents), parameters.metrics())
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
    return data


def _run(
    job: Job,
    parameters: AnyParameters,
    recipe: Recipe | None,
    data: dict[str, Documents],
    earlier: ScoringModel | None,
    n_jobs: int | None,
) -> Outcome:
    from rankgrove.data.preferences import read_preferences
    from rankgrove.training.checkpoints import gather_callbacks
    from rankgrove.training.members import start_members
    from rankgrove.training.starting import start_run

    start = time.perf_counter()
    called = gather_callbacks([], job.checkpoint, job.checkpoint_every)
    pairs = None if job.preferences is None else read_preferences(job.preferences, data[""])
    sets = {name: part for name, part in data.items() if name}
    needs = _memory_text(data[""], sets, parameters)
    options: dict[str, Any] = {} if earlier is None else {"resume": earlier}
    options |= {"base_model": job.base_model, "preferences": pairs, "n_jobs": n_jobs}
    if recipe is None:
        run = start_run(data[""], sets, parameters, **options)
    else:
        run = start_members(data[""], sets, parameters, recipe, verbose=True, say=say, **options)
    if needs:
        say(needs)
    n_before = run.n_steps
    run.run(called, verbose=True)
    if run.interrupted and run.n_steps == 0:
        raise KeyboardInterrupt
    if run.problem:
        warn(run.problem)
    return Outcome(run, run.make_model(), n_before, time.perf_counter() - start)


def _run_on_dask(
    job: Job, parameters: AnyParameters, earlier: ScoringModel | None, reading: Reading
) -> tuple[Mapping[str, SetSize], Outcome]:
    """Train on workers, which read the files themselves; how much data there are."""
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.distributed import load_dask

    follow_training = load_dask().follow_training
    if not isinstance(parameters, Parameters):
        raise refusal("objective", "be one of trees with --dask", parameters.objective)
    if job.preferences is not None:
        raise refusal("preferences", "be used without --dask", str(job.preferences))
    start = time.perf_counter()
    options = reading.chosen
    run = follow_training(
        parameters, job.train, valid=job.sets, client=job.dask, checkpoint=job.checkpoint,
        checkpoint_every=job.checkpoint_every, resume=earlier, base_model=job.base_model,
        n_jobs=options.pop("n_jobs", None), verbose=True, reading=options,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    return run.sizes, Outcome(run, run.make_model(), run.n_before, seconds)


def _memory_text(train: Documents, sets: dict[str, Documents], parameters: AnyParameters) -> str:
    """What training on binned data needs, and what there is."""
    from rankgrove.boosting.memory import codes_text, training_memory
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.data.memory import available_memory, size_in_words
    from rankgrove.trees.binned_data import BinnedData

    if not isinstance(train, BinnedData) or not isinstance(parameters, Parameters):
        return ""
    needed = size_in_words(training_memory(train, sets, parameters))
    text = f"training needs about {needed} more, here are {size_in_words(available_memory())}."
    return f"{text} {codes_text(train, sets, parameters)}".rstrip()


def _save(job: Job, outcome: Outcome) -> None:
    run = outcome.run
    outcome.model.save(job.out)
    if run.interrupted and job.checkpoint is not None:
        # Early stopping cuts the model; what one goes on from has every tree.
        run.make_model(run.n_steps).save(job.checkpoint)
    if not run.has_learned:
        warn(
            "no split was found, so every document has the same score: are labels the same within "
            "each query, or --min-samples-leaf or --min-child-weight too large?"
            if run.unit.noun != "epoch"
            else "no document was pushed: are labels the same within each query?"
        )


def _what_is_kept(job: Job, outcome: Outcome) -> str:
    run, n_base = outcome.run, outcome.n_base
    everything = job.checkpoint or (job.out if run.n_steps == outcome.model.n_kept_steps else None)
    more = f"; go on with --resume {everything}" if everything and run.unit.can_resume else ""
    done = run.unit.count(n_base + run.n_steps)
    return f"after {done}: {job.out} has {n_base + outcome.model.n_kept_steps:,} of them{more}."


def _summary(
    job: Job, data: Mapping[str, Documents | SetSize], outcome: Outcome, read_in: float | None
) -> dict[str, Any]:
    run, model = outcome.run, outcome.model
    metrics = model.final_metrics()
    described = {
        name: {"file": path, **sizes_of(data[name])}
        for name, path in {"": job.train, **job.sets}.items()
    }
    return {
        "model": job.out,
        "bytes": job.out.stat().st_size,
        **_model_sizes(outcome),
        "features": model.n_features,
        "stopped_early": run.validation.should_stop,
        "interrupted": run.interrupted,
        "train": described.pop(""),
        "valid": {n: part | {"metrics": metrics.get(n, {})} for n, part in described.items()},
        "seconds": {"read": read_in, "train": outcome.seconds},
        "parameters": model.parameters,
        "plan": run.trainer.plan.as_json(),
    }


def _model_sizes(outcome: Outcome) -> dict[str, Any]:
    run, model = outcome.run, outcome.model
    if outcome.of_members:
        return {"members": run.trainer.n_steps, "kinds": _kinds_of(model), **_parts_of(model)}
    if outcome.of_trees:
        leaves = len(model.ensemble.value)
        return {"trees": model.n_trees, "trees_grown": run.n_steps, "leaves": leaves}
    epochs = {"epochs": model.n_kept_steps, "epochs_run": run.n_steps}
    return {"kind": "network", "weights": model.n_weights, **epochs}


def _kinds_of(model: ScoringModel) -> dict[str, int]:
    """How many members of each kind an average has."""
    from collections import Counter

    from rankgrove.model.base import MEMBERS

    return dict(Counter(member["objective"] for member in model.notes[MEMBERS]))


def _parts_of(model: Any) -> dict[str, int]:
    """How large a model is: trees and leaves, and the weights of networks."""
    parts = getattr(model, "parts", (model,))
    trees = [part for part in parts if hasattr(part, "ensemble")]
    networks = [part for part in parts if hasattr(part, "n_weights")]
    sizes = {
        "trees": sum(part.n_trees for part in trees),
        "leaves": sum(len(part.ensemble.value) for part in trees),
        "weights": sum(part.n_weights for part in networks),
    }
    return {name: size for name, size in sizes.items() if size}


def _show(job: Job, data: Mapping[str, Documents | SetSize], outcome: Outcome) -> None:
    run, model = outcome.run, outcome.model
    show(files_table({"": job.train, **job.sets}, data, model.final_metrics()), "")
    done, before, kept = run.n_steps, outcome.n_before, model.n_kept_steps
    after = f" after the first {before:,}" if before else ""
    first = f", of which the first {kept:,} are kept" if done > kept else ""
    why = " Validation did not improve any more." if run.validation.should_stop else ""
    did = f"{'Grew' if outcome.of_trees else 'Trained'} {run.unit.count(done - before)}{after}"
    show(f"{did} in {clock_time(outcome.seconds)}{first}.{why}")
    if outcome.of_members:
        show(f"Members: {', '.join(f'{n} of {kind}' for kind, n in _kinds_of(model).items())}.")
    nouns = {"trees": ("tree",), "leaves": ("leaf", "leaves"), "weights": ("weight",)}
    size = ", ".join(count(n, *nouns[name]) for name, n in _parts_of(model).items())
    show(f"Wrote {job.out}: {size}, {count(job.out.stat().st_size, 'byte')}.")

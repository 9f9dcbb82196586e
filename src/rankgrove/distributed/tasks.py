"""What a worker does once it has its rows, on any engine: it trains or measures with the others."""

from __future__ import annotations

import pickle
import traceback
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

import numpy as np

from rankgrove._version import __version__
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.distributed.failures import (
    DisconnectedError,
    StoppedError,
    WorkerFailedError,
    WorkerLostError,
    WorkersError,
)
from rankgrove.distributed.following import SetSize, Start, Step, last_values
from rankgrove.distributed.sockets import SocketPeers
from rankgrove.errors import RankgroveError
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import prepare_metrics
from rankgrove.model.model import Model
from rankgrove.training.base import apply_base
from rankgrove.training.run import Run
from rankgrove.training.trees import start_trees
from rankgrove.trees.ensemble import Tree

# What a worker says when another one is the reason.
_ECHOES = (WorkerLostError, WorkerFailedError, StoppedError, DisconnectedError)


@dataclass(frozen=True)
class Training:
    """Training trees, maybe from a checkpoint or a base model."""

    parameters: Parameters
    resume: Model | None
    base_model: Any


@dataclass(frozen=True)
class Evaluation:
    """Measuring a model."""

    model: Any
    metrics: list[Metric]


@dataclass(frozen=True)
class Failure:
    """The error that has ended the work of a worker."""

    error: Exception


def versions() -> dict[str, str]:
    """What must be the same on all workers and here, for the same bits."""
    return {"rankgrove": __version__, "numba": version("numba"), "numpy": version("numpy")}


def version_problem(here: Mapping[str, str], there: Mapping[str, str]) -> str | None:
    """What goes on after "worker 3" where a worker would compute other bits than this process."""
    for package, number in here.items():
        if there.get(package) != number:
            return (
                f"must have {package} {number}, as is here, for the same bits. Got "
                f"{there.get(package)}: install the same version."
            )
    return None


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, or its error: Dask prints those that are raised."""
    try:
        return function(*arguments)
    except Exception as error:
        return Failure(plain_error(error))


def plain_error(error: Exception) -> Exception:
    """An error without what cannot be sent; with the place, if it was not made on purpose."""
    if not isinstance(error, RankgroveError):
        error.add_note("".join(traceback.format_exception(error)))
    error.__traceback__ = error.__context__ = error.__cause__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RankgroveError(f"{type(error).__name__}: {error}")
    return error


def find_cause(errors: Mapping[int, Exception]) -> tuple[int, Exception] | None:
    """Of the errors of workers by rank: the worker that is to blame, and its error, if known."""
    causes = ((rank, e) for rank, e in sorted(errors.items()) if not isinstance(e, _ECHOES))
    if (first := next(causes, None)) is not None:
        return first
    losses = (e for e in errors.values() if isinstance(e, WorkerLostError))
    error = next(losses, None)
    return None if error is None or error.rank is None else (error.rank, error)


def do_task(
    task: Training | Evaluation,
    sets: dict[str, Documents],
    peers: SocketPeers,
    n_jobs: int,
    *,
    tell: Callable[[Start | Step], None],
    check_going_on: Callable[[], None],
) -> Any:
    """What the task gives: on the first worker the result, of training all the trees it has grown.

    Parameters
    ----------
    sets
        The training data under "", and the validation sets, each with the queries of this worker.
    tell
        Called on the first worker before the first tree, and after each one.
    check_going_on
        Called after each tree; raises if the run is to end.
    """
    if isinstance(task, Evaluation):
        return _measure(task, sets[""], n_jobs)
    return _train(task, sets, peers, n_jobs, tell, check_going_on)


def _measure(task: Evaluation, data: Documents, n_jobs: int) -> dict[str, float]:
    scores = task.model.predict(data, n_jobs=n_jobs)
    values = prepare_metrics(data, task.metrics, n_jobs)(scores)
    return {str(metric): value for metric, value in zip(task.metrics, values, strict=True)}


def _train(
    task: Training,
    sets: dict[str, Documents],
    peers: SocketPeers,
    n_jobs: int,
    tell: Callable[[Start | Step], None],
    check_going_on: Callable[[], None],
) -> list[Step] | None:
    """Grow all trees; the first worker tells of each, and returns all that it has grown."""
    train: Documents = sets.pop("")
    base, train, valid = apply_base(task.base_model, train, sets)
    run = start_trees(
        train, valid, task.parameters, resume=task.resume,
        base_model=None if task.resume is not None else base, n_jobs=n_jobs,
    )  # fmt: skip
    # All workers ask for it: the checksum of the data is added up over them.
    start = Start(run.make_model(run.n_steps), {"": _size(train)} | _sizes(valid))
    steps: list[Step] = []

    def after_tree(current: Run) -> None:
        check_going_on()
        tree = current.trees[-1]
        _check_same(tree, peers)
        if peers.rank == 0:
            steps.append(Step(current.n_steps, tree, last_values(current.history)))
            tell(steps[-1])

    if peers.rank == 0:
        tell(start)
    run.run([after_tree])
    return steps if peers.rank == 0 else None


def _size(data: Documents) -> SetSize:
    return SetSize(data.shard.n_documents, data.shard.n_queries, data.n_features)


def _sizes(sets: Mapping[str, Documents]) -> dict[str, SetSize]:
    return {name: _size(data) for name, data in sets.items()}


def _check_same(tree: Tree, peers: SocketPeers) -> None:
    """End training if machines differ so much that workers have grown different trees."""
    number = 0
    for name in (field.name for field in fields(tree)):
        number = zlib.crc32(np.ascontiguousarray(getattr(tree, name)).tobytes(), number)
    answers = peers.gather(number.to_bytes(4, "little"))
    other = next((rank for rank, answer in enumerate(answers) if answer != answers[0]), None)
    if other is not None:
        raise WorkersError(
            f"all workers must grow the same tree. Got another one on worker {other} than on "
            f"worker 0: give them the same processors and libraries.",
            other,
        )

"""What a Dask worker does: it opens a port, reads its parts, and trains with the others."""

from __future__ import annotations

import pickle
import signal
import threading
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from dask.distributed import WorkerPlugin, get_worker

from rankgrove._version import __version__
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.documents import Documents
from rankgrove.data.letor_reader import ABSENT
from rankgrove.distributed.addresses import Listener, listen
from rankgrove.distributed.failures import StoppedError, WorkersError
from rankgrove.distributed.following import SetSize, Start, Step, last_values
from rankgrove.distributed.joining import connect
from rankgrove.distributed.parts import Part, read_parts
from rankgrove.distributed.sharing import ReadPart, share
from rankgrove.distributed.sockets import SocketPeers
from rankgrove.errors import DataError, RankgroveError, parameter
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import prepare_metrics
from rankgrove.model.model import Model
from rankgrove.training.base import apply_base
from rankgrove.training.run import Run
from rankgrove.training.trees import start_trees
from rankgrove.trees.ensemble import Tree

# Seconds that workers have until all have begun: one of them may be busy with other tasks.
_UNTIL_ALL_BEGIN = 3600.0

# The open ports of this process by run and worker, and the runs that are to end.
_ports: dict[tuple[str, str], Listener] = {}
_stopped: set[str] = set()


@dataclass(frozen=True)
class Job:
    """What all workers of one attempt are told.

    Attributes
    ----------
    run
        Its name, and that of the topic under which trees are told.
    addresses, token
        Where the workers find each other, in the order of ranks, and what opens the connections.
    reading
        How parts are read, as options of `read_data` or `from_frame`.
    n_parts
        How many parts each set has.
    task
        What is done with the data.
    n_jobs
        Threads of each worker; None for those that Dask gives it.
    """

    run: str
    addresses: list[str]
    token: str
    reading: dict[str, Any]
    n_parts: dict[str, int]
    task: Training | Evaluation
    n_jobs: int | None


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


class IgnoreInterrupts(WorkerPlugin):
    """Leaves Ctrl-C, which reaches all processes of a terminal, to the one that started them."""

    def setup(self, worker: Any) -> None:
        """Called in each worker as it starts."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def versions() -> dict[str, str]:
    """What must be the same on all workers and here, for the same bits."""
    return {"rankgrove": __version__, "numba": version("numba"), "numpy": version("numpy")}


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, or its error: Dask prints those that are raised."""
    try:
        return function(*arguments)
    except Exception as error:
        return Failure(_plain(error))


def open_port(run: str, ports: str | None, dask_worker: Any = None) -> str | Failure:
    """Open a port for the other workers of a run; its address."""
    place = urlsplit(dask_worker.address)
    host = (place.hostname or "127.0.0.1") if place.scheme != "inproc" else "127.0.0.1"
    try:
        listener = listen(host, ports)
    except RankgroveError as error:
        return Failure(error)
    _ports[run, dask_worker.address] = listener
    return listener.address


def stop(run: str, dask_worker: Any = None) -> None:
    """End the work of a run on this worker, within a tree or a part."""
    _stopped.add(run)
    listener = _ports.pop((run, dask_worker.address), None)
    if listener is not None:
        listener.close()


def work(job: Job, rank: int, parts: Mapping[str, Sequence[Part]], frames: Sequence[Any]) -> Any:
    """The part of one worker in a run: what the first one returns is the result."""
    worker = get_worker()
    listener = _ports.pop((job.run, worker.address), None)
    if listener is None:
        return Failure(StoppedError(f"worker {worker.address} was told to stop."))
    n_jobs = job.n_jobs or worker.state.nthreads
    try:
        with connect(
            listener, rank, job.addresses, job.token,
            timeout=_UNTIL_ALL_BEGIN, should_stop=lambda: job.run in _stopped,
        ) as peers:  # fmt: skip
            sets = _read_sets(job, parts, frames, peers, n_jobs)
            if isinstance(job.task, Evaluation):
                return _evaluate(job.task, sets[""], n_jobs)
            return _train(job.run, job.task, sets, worker, peers, n_jobs)
    except Exception as error:
        return Failure(_plain(error))


def _plain(error: Exception) -> Exception:
    """An error without what cannot be sent; with the place, if it was not made on purpose."""
    if not isinstance(error, RankgroveError):
        error.add_note("".join(traceback.format_exception(error)))
    error.__traceback__ = error.__context__ = error.__cause__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RankgroveError(f"{type(error).__name__}: {error}")
    return error


def _read_sets(
    job: Job,
    parts: Mapping[str, Sequence[Part]],
    frames: Sequence[Any],
    peers: SocketPeers,
    n_jobs: int,
) -> dict[str, Dataset]:
    """The training data under "", and the validation sets, each with the queries of this worker."""
    sets: dict[str, Dataset] = {}
    features = list(job.task.model.feature_names) if isinstance(job.task, Evaluation) else None
    for name, n_parts in job.n_parts.items():
        own = [
            part if part.frame is None else replace(part, frame=frames[part.frame])
            for part in parts[name]
        ]
        rows = _read(own, job, n_parts, features, peers, n_jobs)
        data = share(
            (ReadPart(part.number, part.name, each, part.has_query_ids) for part, each in rows),
            peers,
            split_queries=job.reading.get("split_queries", "error"),
            absent=ABSENT[job.reading.get("absent", "zero")],
        )
        if sets and data.n_features != sets[""].n_features:
            most = max(data.n_features, sets[""].n_features)
            raise DataError(
                f"validation set {name!r} must have the {sets[''].n_features} features of the "
                f"training data. Got {data.n_features}: if the last ones are absent from every "
                f"line, add {parameter('n_features', most)}."
            )
        sets[name] = data
        features = list(sets[""].feature_names)
    return sets


def _read(
    parts: Sequence[Part],
    job: Job,
    n_parts: int,
    features: list[str] | None,
    peers: SocketPeers,
    n_jobs: int,
) -> list[tuple[Part, Dataset]]:
    options = {**job.reading, "n_jobs": n_jobs}

    def watched() -> Iterator[Part]:
        for part in parts:
            _check_going_on(job.run)
            yield part

    if features is not None and not any(part.is_letor for part in parts):
        # Of a table the columns of the training data, in their order.
        options["features"] = features
    several = n_parts > 1
    rows, from_zero = read_parts(watched(), options, several=several, from_zero=False)
    seen = np.array([from_zero], dtype=np.int64)
    peers.sum(seen)
    if seen[0] and not from_zero:
        rows, _ = read_parts(watched(), options, several=several, from_zero=True)
    return rows


def _check_going_on(run: str) -> None:
    if run in _stopped:
        raise StoppedError("the run was stopped from outside.")


def _evaluate(task: Evaluation, data: Dataset, n_jobs: int) -> dict[str, float]:
    scores = task.model.predict(data, n_jobs=n_jobs)
    values = prepare_metrics(data, task.metrics, n_jobs)(scores)
    return {str(metric): value for metric, value in zip(task.metrics, values, strict=True)}


def _train(
    run_name: str,
    task: Training,
    sets: dict[str, Dataset],
    worker: Any,
    peers: SocketPeers,
    n_jobs: int,
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

    def tell(told: Start | Step) -> None:
        worker.log_event(run_name, pickle.dumps(told))

    def after_tree(current: Run) -> None:
        _check_going_on(run_name)
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

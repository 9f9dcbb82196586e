"""What a Dask worker does: it opens a port, reads its parts, and trains with the others."""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import dask
import numpy as np
from dask.distributed import WorkerPlugin, get_worker

from rankgrove.data.dataset import Dataset
from rankgrove.data.documents import Documents
from rankgrove.data.letor_reader import ABSENT
from rankgrove.data.memory import NotEnoughMemoryError, memory_allowance
from rankgrove.distributed.addresses import Listener, listen
from rankgrove.distributed.binned_parts import bin_parts
from rankgrove.distributed.failures import StoppedError, WorkersError
from rankgrove.distributed.joining import connect
from rankgrove.distributed.parts import Part, check_width, read_parts
from rankgrove.distributed.sharing import ReadPart, share
from rankgrove.distributed.sockets import SocketPeers
from rankgrove.distributed.tasks import Evaluation, Failure, Training, do_task, plain_error
from rankgrove.errors import RankgroveError
from rankgrove.trees.binned_data import BinnedData

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
    in_blocks
        Whether files are read block by block into bins.
    """

    run: str
    addresses: list[str]
    token: str
    reading: dict[str, Any]
    n_parts: dict[str, int]
    task: Training | Evaluation
    n_jobs: int | None
    in_blocks: bool


class IgnoreInterrupts(WorkerPlugin):
    """Leaves Ctrl-C, which reaches all processes of a terminal, to the one that started them."""

    def setup(self, worker: Any) -> None:
        """Called in each worker as it starts."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


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


def task_key(run: str, rank: int) -> str:
    """What Dask calls the task of a worker in a run."""
    return f"{run}-{rank}"


def work(job: Job, rank: int, parts: Mapping[str, Sequence[Part]], frames: Sequence[Any]) -> Any:
    """The part of one worker in a run: what the first one returns is the result."""
    worker = get_worker()
    listener = _ports.pop((job.run, worker.address), None)
    if listener is None:
        return Failure(StoppedError(f"worker {worker.address} was told to stop."))
    n_jobs = job.n_jobs or worker.state.nthreads
    try:
        with memory_allowance(_memory_of(worker)), connect(
            listener, rank, job.addresses, job.token,
            timeout=_UNTIL_ALL_BEGIN, should_stop=lambda: _has_ended(job.run, worker, rank),
        ) as peers:  # fmt: skip
            sets = _read_sets(job, parts, frames, peers, n_jobs)
            return do_task(
                job.task, sets, peers, n_jobs,
                tell=lambda news: worker.log_event(job.run, pickle.dumps(news)),
                check_going_on=lambda: _check_going_on(job.run),
            )  # fmt: skip
    except NotEnoughMemoryError as error:
        return Failure(
            WorkersError(f"worker {worker.address}: {error.marked}", rank, worker.address)
        )
    except Exception as error:
        return Failure(plain_error(error))


def _memory_of(worker: Any) -> int | None:
    """The memory at which Dask would end a worker, if it limits it."""
    limit = worker.memory_manager.memory_limit
    share = dask.config.get("distributed.worker.memory.terminate", default=0.95) or 1.0
    return int(share * limit) if limit else None


def _read_sets(
    job: Job,
    parts: Mapping[str, Sequence[Part]],
    frames: Sequence[Any],
    peers: SocketPeers,
    n_jobs: int,
) -> dict[str, Documents]:
    """The training data under "", and the validation sets, each with the queries of this worker."""
    sets: dict[str, Documents] = {}
    for name in job.n_parts:
        given = [
            part if part.frame is None else replace(part, frame=frames[part.frame])
            for part in parts[name]
        ]
        sets[name] = _read_set(name, given, job, sets.get(""), peers, n_jobs)
    return sets


def _read_set(
    name: str,
    parts: Sequence[Part],
    job: Job,
    train: Documents | None,
    peers: SocketPeers,
    n_jobs: int,
) -> Documents:
    """One set; if it is not the training data, with the features of these."""
    if job.in_blocks and isinstance(job.task, Training):
        like = train if isinstance(train, BinnedData) else None
        return bin_parts(
            parts, peers, job.reading, job.task.parameters, like=like, name=name, n_jobs=n_jobs,
            watch=lambda: _check_going_on(job.run),
        )  # fmt: skip
    features = job.task.model.feature_names if isinstance(job.task, Evaluation) else ()
    wanted = features if train is None else train.feature_names
    rows = _read(parts, job, job.n_parts[name], list(wanted) or None, peers, n_jobs)
    data = share(
        (ReadPart(part.number, part.name, each, part.has_query_ids) for part, each in rows),
        peers,
        split_queries=job.reading.get("split_queries", "error"),
        absent=ABSENT[job.reading.get("absent", "zero")],
    )
    if train is not None:
        check_width(name, data.n_features, train.n_features)
    return data


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


def _has_ended(run: str, worker: Any, rank: int) -> bool:
    """Whether nobody waits for the work of a worker: it was stopped, or the client is gone."""
    # The scheduler takes back the tasks of a client that is gone.
    task = worker.state.tasks.get(task_key(run, rank))
    if task is None or task.state == "cancelled":
        _stopped.add(run)
    return run in _stopped


def _check_going_on(run: str) -> None:
    if run in _stopped:
        raise StoppedError("the run was stopped from outside.")

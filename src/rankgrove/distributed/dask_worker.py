"""What a Dask worker does: it opens a port, reads its parts, and trains with the others."""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from rankgrove.distributed.dask_mesh import DaskMesh, close_inbox, open_inbox
from rankgrove.distributed.failures import StoppedError, WorkersError
from rankgrove.distributed.joining import connect
from rankgrove.distributed.mesh import Waiting
from rankgrove.distributed.parts import Part, check_width, read_parts
from rankgrove.distributed.sharing import ReadPart, share
from rankgrove.distributed.sockets import SocketPeers
from rankgrove.distributed.tasks import Evaluation, Failure, Training, do_task, plain_error
from rankgrove.distributed.warming import WarmUp
from rankgrove.errors import RankgroveError
from rankgrove.trees.binned_data import BinnedData

# In place of ports: no port is opened.
THROUGH_DASK = "dask"

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
    """Open a port for the other workers of a run; its address, or without one that of Dask."""
    if ports == THROUGH_DASK:
        open_inbox(run, dask_worker)
        return str(dask_worker.address)
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
    close_inbox(run, dask_worker)
    listener = _ports.pop((run, dask_worker.address), None)
    if listener is not None:
        listener.close()


def task_key(run: str, rank: int) -> str:
    """What Dask calls the task of a worker in a run."""
    return f"{run}-{rank}"


def work(job: Job, rank: int, parts: Mapping[str, Sequence[Part]], frames: Sequence[Any]) -> Any:
    """The part of one worker in a run: what the first one returns is the result."""
    worker = get_worker()
    n_jobs = job.n_jobs or worker.state.nthreads

    def has_ended() -> bool:
        return _has_ended(job.run, worker, rank)

    def check_going_on() -> None:
        if has_ended():
            raise StoppedError("the run was stopped from outside.")

    try:
        with (
            memory_allowance(_memory_of(worker)),
            _connect(job, rank, worker, has_ended) as peers,
        ):
            warm_up = None
            if isinstance(job.task, Training):
                warm_up = WarmUp(job.task.parameters, peers.size)
            reading = _Reading(job, peers, n_jobs, check_going_on)
            sets = _read_sets(reading, parts, frames)
            if warm_up is not None:
                warm_up.wait(check_going_on)
            return do_task(
                job.task, sets, peers, n_jobs,
                tell=lambda news: worker.log_event(job.run, pickle.dumps(news)),
                check_going_on=check_going_on,
            )  # fmt: skip
    except NotEnoughMemoryError as error:
        return Failure(
            WorkersError(f"worker {worker.address}: {error.marked}", rank, worker.address)
        )
    except Exception as error:
        return Failure(plain_error(error))
    finally:
        close_inbox(job.run, worker)


def _connect(job: Job, rank: int, worker: Any, has_ended: Callable[[], bool]) -> SocketPeers:
    """Connect a worker with the others, with TLS where Dask has it."""
    if job.addresses[rank] == worker.address:
        waiting = Waiting(has_ended, None)
        return SocketPeers(DaskMesh(job.run, rank, job.addresses, waiting, worker))
    listener = _ports.pop((job.run, worker.address), None)
    if listener is None:
        raise StoppedError(f"worker {worker.address} was told to stop.")
    tls = None
    if worker.address.startswith("tls:"):
        serving = worker.security.get_listen_args("worker")["ssl_context"]
        calling = worker.security.get_connection_args("worker")["ssl_context"]
        tls = (serving, calling)
    return connect(
        listener, rank, job.addresses, job.token, timeout=_UNTIL_ALL_BEGIN, should_stop=has_ended,
        tls=tls,
    )  # fmt: skip


def _memory_of(worker: Any) -> int | None:
    """The memory at which Dask would end a worker, if it limits it."""
    limit = worker.memory_manager.memory_limit
    share = dask.config.get("distributed.worker.memory.terminate", default=0.95) or 1.0
    return int(share * limit) if limit else None


@dataclass(frozen=True)
class _Reading:
    """What all sets are read by."""

    job: Job
    peers: SocketPeers
    n_jobs: int
    check_going_on: Callable[[], None]


def _read_sets(
    reading: _Reading, parts: Mapping[str, Sequence[Part]], frames: Sequence[Any]
) -> dict[str, Documents]:
    """The training data under "", and the validation sets, each with the queries of this worker."""
    sets: dict[str, Documents] = {}
    for name in reading.job.n_parts:
        given = [
            part if part.frame is None else replace(part, frame=frames[part.frame])
            for part in parts[name]
        ]
        sets[name] = _read_set(reading, name, given, sets.get(""))
    return sets


def _read_set(
    reading: _Reading, name: str, parts: Sequence[Part], train: Documents | None
) -> Documents:
    """One set; if it is not the training data, with the features of these."""
    job, peers = reading.job, reading.peers
    if job.in_blocks and isinstance(job.task, Training):
        like = train if isinstance(train, BinnedData) else None
        return bin_parts(
            parts, peers, job.reading, job.task.parameters, like=like, name=name,
            n_jobs=reading.n_jobs, watch=reading.check_going_on,
        )  # fmt: skip
    features = job.task.model.feature_names if isinstance(job.task, Evaluation) else ()
    wanted = features if train is None else train.feature_names
    rows = _read_rows(reading, parts, job.n_parts[name] > 1, list(wanted))
    data = share(
        (ReadPart(part.number, part.name, each, part.has_query_ids) for part, each in rows),
        peers,
        split_queries=job.reading.get("split_queries", "error"),
        absent=ABSENT[job.reading.get("absent", "zero")],
    )
    if train is not None:
        check_width(name, data.n_features, train.n_features)
    return data


def _read_rows(
    reading: _Reading, parts: Sequence[Part], several: bool, features: list[str]
) -> list[tuple[Part, Dataset]]:
    options = {**reading.job.reading, "n_jobs": reading.n_jobs}
    task = reading.job.task
    categorical = task.parameters.categorical if isinstance(task, Training) else None

    def watched() -> Iterator[Part]:
        for part in parts:
            reading.check_going_on()
            yield part

    if features and not any(part.is_letor for part in parts):
        # Of a table the columns of the training data, in their order.
        options["features"] = features
    if categorical and not any(part.is_letor for part in parts):
        options["categorical"] = categorical  # to refuse them by a sentence of their own
    rows, from_zero = read_parts(watched(), options, several=several, from_zero=False)
    seen = np.array([from_zero], dtype=np.int64)
    reading.peers.sum(seen)
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

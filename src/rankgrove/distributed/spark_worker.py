"""What a Python worker of Spark does in a barrier stage: it joins the others, reads and trains."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import BarrierTaskContext, cloudpickle

from rankgrove.data.documents import Documents
from rankgrove.data.frames import from_frame
from rankgrove.distributed.addresses import Listener, listen
from rankgrove.distributed.failures import StoppedError
from rankgrove.distributed.following import Start, Step
from rankgrove.distributed.joining import connect
from rankgrove.distributed.news import Teller
from rankgrove.distributed.sharing import ReadPart, share
from rankgrove.distributed.sockets import SocketPeers
from rankgrove.distributed.tasks import Evaluation, Failure, Training, do_task, plain_error
from rankgrove.errors import DataError

# The column that says which set a row is of.
SET_COLUMN = "__rankgrove_set__"

# Seconds; all workers of a barrier stage begin at once.
_UNTIL_ALL_CONNECT = 600.0
# Rows that become a matrix at once: Arrow's copy of them is let go.
_PART_ROWS = 1 << 16


@dataclass(frozen=True)
class Job:
    """What all workers of one attempt are told.

    Attributes
    ----------
    n_workers
        How many they are.
    token
        What opens the connections between them.
    driver, driver_token
        Where the first worker tells its trees, and what opens that connection.
    names, reading
        The columns, and which of them is what, as options of `from_frame`.
    sets
        The names of all sets, by their numbers; the first one is what the task is about.
    task
        What is done with the data.
    n_jobs
        Threads of each worker; None for the processors that Spark gives to a task.
    ports
        The ports that workers may open; None for any.
    """

    n_workers: int
    token: str
    driver: str
    driver_token: str
    names: list[str]
    reading: dict[str, Any]
    sets: list[str]
    task: Training | Evaluation
    n_jobs: int | None
    ports: str | None


def work(pickled_job: bytes, context: BarrierTaskContext, batches: Iterable[Any]) -> bytes:
    """The part of one worker in a run, its answer pickled: that of the first is the result."""
    try:
        answer = _work(cloudpickle.loads(pickled_job), context, batches)
    except Exception as error:
        answer = Failure(plain_error(error))
    return bytes(cloudpickle.dumps(answer))


def _work(job: Job, context: BarrierTaskContext, batches: Iterable[Any]) -> Any:
    listener, addresses = _meet(job, context)
    rank, n_jobs = context.partitionId(), job.n_jobs or context.cpus()
    with (
        connect(listener, rank, addresses, job.token, timeout=_UNTIL_ALL_CONNECT) as peers,
        ExitStack() as stack,
    ):
        teller: Teller | None = None
        if rank == 0:
            teller = stack.enter_context(Teller(job.driver, job.driver_token))
            teller.tell(addresses)

        def tell(news: Start | Step) -> None:
            if teller is not None:
                teller.tell(news)

        sets = _read_sets(job, rank, batches, peers)
        return do_task(job.task, sets, peers, n_jobs, tell=tell, check_going_on=lambda: None)


def _meet(job: Job, context: BarrierTaskContext) -> tuple[Listener, list[str]]:
    """An open port, and the addresses of all workers. Each must say something, or others wait."""
    try:
        hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
        host = hosts[context.partitionId()] if len(set(hosts)) > 1 else "127.0.0.1"
        listener = listen(host.removeprefix("[").removesuffix("]"), job.ports)
    except Exception as error:
        context.allGather(json.dumps({"problem": str(error)}))
        raise
    answers = [
        json.loads(text) for text in context.allGather(json.dumps({"address": listener.address}))
    ]
    addresses = [answer.get("address") for answer in answers]
    if None in addresses or len(addresses) != job.n_workers:
        listener.close()
        raise StoppedError("the other workers could not begin.")
    return listener, addresses


def _read_sets(
    job: Job, rank: int, batches: Iterable[Any], peers: SocketPeers
) -> dict[str, Documents]:
    """All sets by name, each with the queries of this worker."""
    parts: list[list[ReadPart]] = [[] for _ in job.sets]
    for count, (number, table) in enumerate(_tables(batches)):
        named = table.drop_columns(SET_COLUMN).rename_columns(job.names)
        parts[number].append(_read_part(named, (rank << 32) + count, job.reading))
    sets: dict[str, Documents] = {}
    for name, mine in zip(job.sets, parts, strict=True):
        try:
            # Each part is let go as soon as its rows are copied.
            taken = (mine.pop() for _ in range(len(mine)))
            sets[name] = share(taken, peers, split_queries="group", sort_queries=True)
        except DataError as error:
            place = f"validation set {name!r}: " if name else ""
            raise DataError(f"{place}{error.marked}") from None
    return sets


def _tables(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Rows of one set each, with its number; sets follow each other."""
    waiting: list[Any] = []
    current, n_rows = 0, 0
    for batch in batches:
        numbers = batch.column(batch.schema.get_field_index(SET_COLUMN)).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for first, end in pairwise(bounds):
            if first == end:
                continue
            if waiting and (numbers[first] != current or n_rows >= _PART_ROWS):
                yield current, pa.Table.from_batches(waiting)
                waiting, n_rows = [], 0
            current = int(numbers[first])
            waiting.append(batch.slice(first, end - first))
            n_rows += end - first
    if waiting:
        yield current, pa.Table.from_batches(waiting)


def _read_part(table: Any, number: int, reading: dict[str, Any]) -> ReadPart:
    ids = table[reading["qid"]]
    if ids.null_count:
        raise DataError(
            f"the qid column {reading['qid']!r} must have no missing entry. Got {ids.null_count}: "
            f"fill or drop those rows."
        )
    name = f"rows of queries {ids[0].as_py()!r} to {ids[-1].as_py()!r}"
    try:
        return ReadPart(number, name, from_frame(table, **reading))
    except DataError as error:
        raise DataError(f"{name}: {error.marked}") from None

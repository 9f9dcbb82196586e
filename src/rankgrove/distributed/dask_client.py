"""Running workers on a Dask cluster: starting, watching, and starting again those that are left."""

from __future__ import annotations

import logging
import queue
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pickle import loads
from typing import Any
from urllib.parse import urlsplit

from dask.distributed import Client, Future, Semaphore

from rankgrove.distributed.dask_worker import THROUGH_DASK, Job, open_port, stop, task_key, work
from rankgrove.distributed.failures import (
    NoPortError,
    WorkerFailedError,
    WorkerLostError,
    WorkersError,
)
from rankgrove.distributed.following import Start, Step
from rankgrove.distributed.parts import LEAST_BYTES, Part, StrPath, deal_parts, list_parts
from rankgrove.distributed.restarts import WorkersGoneError, run_again
from rankgrove.distributed.sockets import new_token
from rankgrove.distributed.tasks import (
    Evaluation,
    Failure,
    Training,
    attempt,
    find_cause,
    version_problem,
    versions,
)
from rankgrove.errors import RankgroveError, parameter, refusal

_logger = logging.getLogger("rankgrove.distributed")

# Seconds: between looks at who is there, until a worker that the scheduler does not hear of is
# given up, until the workers of a failed attempt have said why, for the last words of the others,
# until another worker comes if none is left, between lines that say why nothing happens, and until
# a scheduler is found not to be there.
_LOOK = 1.0
_SILENCE = 60.0
_REASONS = 4.0
_LAST_WORDS = 2.0
_NEW_WORKER = 60.0
_LINE = 30.0
_CONNECTING = 5.0

_LEAST_BYTES = LEAST_BYTES

Told = Callable[["Start | Step"], bool]


@dataclass(frozen=True)
class Source:
    """The data of one set, in parts; `frames` are the futures of partitions that parts name."""

    parts: list[Part]
    frames: list[Future[Any]]


def as_client(client: Any) -> Client:
    """A client of a cluster: as given, of an address, or the one that is there already."""
    if isinstance(client, str):
        try:
            _knock(client)
            return Client(client, timeout=_CONNECTING, set_as_default=False)
        except (OSError, ValueError, MemoryError) as error:
            # What is no scheduler may answer with what reads as the length of a huge message.
            raise refusal(
                "the Dask scheduler", "be there, and answer as one", client,
                advice="start it with 'dask scheduler', and see whether a firewall is between",
            ) from error  # fmt: skip
    if client is None:
        with suppress(ValueError):
            client = Client.current()
    if not isinstance(client, Client):
        raise refusal(
            "client", "be a dask.distributed.Client, or the address of a scheduler", client
        )
    return client


def _knock(address: str) -> None:
    """Fail in time where no scheduler is: a client that finds none ends very slowly."""
    place, until = urlsplit(address), time.monotonic() + _CONNECTING
    if place.scheme not in ("tcp", "tls") or place.hostname is None or place.port is None:
        return
    while True:
        try:
            caller = socket.create_connection((place.hostname, place.port), timeout=_CONNECTING)
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    with caller, caller.makefile("rb") as words:
        # A scheduler speaks first: the length of a short message. With TLS it waits for its turn.
        if place.scheme == "tcp" and not 0 < int.from_bytes(words.read(8), "little") < 1 << 16:
            raise ConnectionError("what listens there is no Dask scheduler")


class Cluster:
    """The workers of a client, but for those that were given up."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._given_up: set[str] = set()

    def workers(self) -> list[str]:
        """The addresses of the workers that are there, and that the scheduler hears of."""
        try:
            scheduler: Any = self.client.scheduler
            told = self.client.sync(scheduler.identity, callback_timeout=_SILENCE)["workers"]
        except (OSError, TimeoutError) as error:
            raise WorkersError(f"the Dask scheduler must answer. Got: {error}.") from error
        last_seen = {worker: about["last_seen"] for worker, about in told.items()}
        newest = max(last_seen.values(), default=0.0)
        return sorted(
            worker
            for worker, seen in last_seen.items()
            if newest - seen <= _SILENCE and worker not in self._given_up
        )

    def give_up(self, workers: Sequence[str]) -> None:
        """Do without workers, which the scheduler may still take for alive."""
        self._given_up.update(workers)

    def run(self, function: Callable[..., Any], *arguments: Any, workers: Sequence[str]) -> Any:
        """What a function gives on each worker, or its error; TimeoutError if one is silent."""
        return self.client.run(
            function, *arguments, workers=list(workers), on_error="return",
            callback_timeout=_SILENCE,
        )  # fmt: skip

    def some_workers(self, seconds: float = 0.0) -> list[str]:
        """The workers, at least one; maybe after some time."""
        until = time.monotonic() + seconds
        while not (workers := self.workers()):
            if time.monotonic() > until:
                raise WorkersError(
                    "the Dask cluster must have at least one worker. Got none: start some with "
                    "'dask worker SCHEDULER'."
                )
            time.sleep(0.2)
        return workers

    def check(self, workers: Sequence[str]) -> None:
        """Refuse workers that would compute other bits."""
        here = versions()
        try:
            answers = self.run(versions, workers=workers)
        except TimeoutError:
            silent = sorted(set(workers) - set(self.workers()))
            raise WorkersGoneError(silent or workers) from None
        for worker, answer in answers.items():
            if isinstance(answer, OSError):
                raise WorkersGoneError([worker])
            if not isinstance(answer, dict):
                raise WorkersError(
                    f"worker {worker} must have Rankgrove {here['rankgrove']}. Got: {answer}.",
                    None, worker,
                )  # fmt: skip
            if problem := version_problem(here, answer):
                raise WorkersError(f"worker {worker} {problem}", None, worker)

    def list_files(self, patterns: Sequence[StrPath], reading: Mapping[str, Any]) -> Source:
        """The parts of files, as a worker sees them."""
        listing = partial(list_parts, n_workers=len(self.workers()), least_bytes=_LEAST_BYTES)
        future = self.client.submit(attempt, listing, list(patterns), dict(reading), pure=False)
        found = future.result()
        if isinstance(found, Failure):
            raise found.error
        return Source(found, [])

    def hold_frame(self, frame: Any) -> Source:
        """The parts of a Dask frame, whose partitions workers now compute and hold."""
        futures = self.client.compute(list(frame.to_delayed()))
        sizes = self.client.gather(self.client.map(len, futures, pure=False))
        parts = [
            Part(number, f"partition {number}", size, frame=number)
            for number, size in enumerate(sizes)
            if size
        ]
        if not parts:
            raise refusal("X", "have at least one row", got="a frame without any")
        return Source(parts, futures)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else trains on the cluster meanwhile, until this process ends at the latest."""
        # The scheduler frees what a client that is gone has held, after half a minute by default.
        scheduler: Any = self.client.scheduler
        turn = Semaphore(
            name="rankgrove", scheduler_rpc=scheduler, loop=self.client.loop
        )  # fmt: skip
        next_line = time.monotonic() + _LINE
        while not turn.acquire(timeout=_LOOK):
            if time.monotonic() >= next_line:
                next_line += _LINE
                _logger.warning("waiting for another fit on the same cluster to end")
        try:
            yield
        finally:
            with suppress(OSError):
                turn.release()


class Attempt:
    """One go of the workers that are there, until they are done or one of them fails."""

    def __init__(
        self,
        cluster: Cluster,
        workers: Sequence[str],
        sources: Mapping[str, Source],
        told: Told,
    ) -> None:
        self._cluster, self._client, self._workers = cluster, cluster.client, list(workers)
        self._sources, self._told = sources, told
        self._run = f"rankgrove-{uuid.uuid4().hex}"
        self._news: queue.Queue[int | bytes] = queue.Queue()
        self._futures: list[Future[Any]] = []
        self._answers: dict[int, Any] = {}

    def run(
        self, task: Training | Evaluation, reading: dict[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """What the first worker gives; None if `told` has ended it."""
        try:
            job = self._job(task, reading, options)
            self._client.subscribe_topic(self._run, lambda event: self._news.put(event[1]))
            self._submit(job)
            return self._watch()
        finally:
            self._end()

    def _job(self, task: Any, reading: dict[str, Any], options: Mapping[str, Any]) -> Job:
        opened = self._cluster.run(
            open_port, self._run, options.get("ports"), workers=self._workers
        )
        addresses = []
        for worker in self._workers:
            answer = opened.get(worker)
            if isinstance(answer, Failure):
                raise _with_advice(answer.error)
            if not isinstance(answer, str):
                raise WorkersGoneError([worker])
            addresses.append(answer)
        n_parts = {name: len(source.parts) for name, source in self._sources.items()}
        # A base model may need features, and rows of a query anywhere must be put in order.
        in_blocks = (
            isinstance(task, Training)
            and task.base_model is None
            and not any(source.frames for source in self._sources.values())
            and reading.get("split_queries") != "group"
            and "format" not in reading
        )
        return Job(
            self._run, addresses, new_token(), reading, n_parts, task, options.get("n_jobs"),
            in_blocks,
        )  # fmt: skip

    def _submit(self, job: Job) -> None:
        shares: list[dict[str, list[Part]]] = [{} for _ in self._workers]
        frames: list[list[Future[Any]]] = [[] for _ in self._workers]
        for name, source in self._sources.items():
            for share in shares:
                share[name] = []
            dealt = deal_parts([part.size for part in source.parts], len(self._workers))
            for part, rank in zip(source.parts, dealt, strict=True):
                own = part
                if part.frame is not None:
                    own = replace(part, frame=len(frames[rank]))
                    frames[rank].append(source.frames[part.frame])
                shares[rank][name].append(own)
        for rank, worker in enumerate(self._workers):
            future = self._client.submit(
                work, job, rank, shares[rank], frames[rank], key=task_key(self._run, rank),
                workers=[worker], allow_other_workers=False, pure=False, retries=0,
            )  # fmt: skip
            self._futures.append(future)
            future.add_done_callback(lambda _, rank=rank: self._news.put(rank))

    def _watch(self) -> Any:
        """Hear of trees and of ends until all workers have ended or one has failed."""
        deadline: float | None = None
        next_look = time.monotonic() + _LOOK
        while len(self._answers) < len(self._workers):
            try:
                news = self._news.get(timeout=0.1 if deadline else _LOOK)
                if isinstance(news, int):
                    self._answers[news] = self._answer_of(news)
                elif self._told(loads(news)):
                    return None
            except queue.Empty:
                pass
            if time.monotonic() >= next_look or deadline:
                next_look = time.monotonic() + _LOOK
                self._look_who_is_gone()
            errors = self._errors()
            if errors and deadline is None:
                deadline = time.monotonic() + _REASONS
            if find_cause(errors) is not None or (deadline and time.monotonic() > deadline):
                break
        self._raise_reason(self._errors())
        steps = self._answers[0]
        if isinstance(steps, list):
            for step in steps:  # the last ones may not have been heard of yet
                if self._told(step):
                    break
        return steps

    def _answer_of(self, rank: int) -> Any:
        future = self._futures[rank]
        if future.status == "finished":
            return future.result()
        return Failure(WorkerLostError(f"worker {self._workers[rank]} is gone", rank))

    def _look_who_is_gone(self) -> None:
        there = set(self._cluster.workers())
        for rank, worker in enumerate(self._workers):
            if worker not in there and rank not in self._answers:
                error = WorkerLostError(f"worker {worker} is gone", rank)
                self._answers[rank] = Failure(error)

    def _errors(self) -> dict[int, Exception]:
        return {
            rank: answer.error
            for rank, answer in self._answers.items()
            if isinstance(answer, Failure)
        }

    def _raise_reason(self, errors: Mapping[int, Exception]) -> None:
        if not errors:
            return
        rank, error = find_cause(errors) or next(iter(errors.items()))
        worker = self._workers[rank]
        if isinstance(error, WorkerLostError):
            self._cluster.give_up([worker])
            raise WorkersGoneError([worker]) from None
        if isinstance(error, (RankgroveError, ValueError, TypeError)):
            raise error
        raise WorkerFailedError(
            f"worker {worker} has failed: {type(error).__name__}: {error}", rank, worker
        ) from error

    def _end(self) -> None:
        """Let go of all that the attempt has on the cluster."""
        self._client.unsubscribe_topic(self._run)
        if not self._futures or not all(future.done() for future in self._futures):
            there: list[str] = []
            with suppress(OSError, TimeoutError, WorkersError):
                there = [worker for worker in self._cluster.workers() if worker in self._workers]
                self._cluster.run(stop, self._run, workers=there)
            pairs = zip(self._workers, self._futures, strict=False)
            left = [future for worker, future in pairs if worker in there]
            until = time.monotonic() + _LAST_WORDS
            while time.monotonic() < until and not all(future.done() for future in left):
                time.sleep(0.05)
        for future in self._futures:
            if not future.done():
                with suppress(OSError, TimeoutError):
                    future.cancel()
        self._futures.clear()


def _with_advice(error: Exception) -> Exception:
    """An error of opening a port, with the way without ports."""
    if not isinstance(error, NoPortError):
        return error
    words = f"{error.marked} With {parameter('ports', THROUGH_DASK)} workers need none."
    return NoPortError(words, error.rank, error.address)


def run_attempts(
    cluster: Cluster,
    sources: Mapping[str, Source],
    make_task: Callable[[], Training | Evaluation],
    reading: dict[str, Any],
    *,
    told: Told,
    progress: Callable[[], str],
    max_restarts: int,
    options: Mapping[str, Any],
) -> Any:
    """What the first worker gives; workers that are lost are replaced by those that are left.

    Parameters
    ----------
    make_task
        What is to be done from here on: called again for each attempt.
    told
        Called with what the first worker tells; True ends the run.
    progress
        How far it is, for messages: "after tree 8".
    """
    workers = cluster.some_workers()

    def attempt_once() -> Any:
        try:
            cluster.check(workers)
            with cluster.alone():
                return Attempt(cluster, workers, sources, told).run(make_task(), reading, options)
        except WorkersGoneError as gone:
            cluster.give_up(gone.addresses)
            raise

    def count_workers() -> int:
        nonlocal workers
        workers = cluster.some_workers(_NEW_WORKER)
        return len(workers)

    return run_again(
        attempt_once, max_restarts=max_restarts, progress=progress, count_workers=count_workers,
        advice=(
            "see its log, the memory of its machine, or whether a firewall is between workers "
            f"({parameter('ports', THROUGH_DASK)} opens no ports)"
        ),
    )  # fmt: skip

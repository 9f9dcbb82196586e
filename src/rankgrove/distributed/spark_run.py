"""Running workers in a barrier stage of Spark: starting, hearing of trees, starting again."""

from __future__ import annotations

import math
import queue
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark import InheritableThread, SparkContext, cloudpickle
from pyspark.sql import DataFrame

from rankgrove.distributed.failures import WorkerFailedError, WorkerLostError, WorkersError
from rankgrove.distributed.following import Start, Step
from rankgrove.distributed.news import Hearing, NoDriverError
from rankgrove.distributed.restarts import WorkersGoneError, run_again
from rankgrove.distributed.sockets import new_token
from rankgrove.distributed.spark_frames import Rows
from rankgrove.distributed.spark_worker import Job
from rankgrove.distributed.tasks import Evaluation, Failure, Training, find_cause, versions
from rankgrove.errors import DataError, RankgroveError, refusal, whole_number

# Seconds: between looks, until Spark has ended a stage whose workers have, and until executors
# that have just been asked for are there.
_LOOK = 0.5
_REASONS = 20.0
_UNTIL_EXECUTORS = 30.0

_ANSWER = "rank int, problem string, answer binary"
# How Spark tells that a task of a barrier stage was lost, and which.
_LOST_STAGE = re.compile("barrier task|failed barrier|Python worker exited")
_LOST_TASK = re.compile(r"barrier task \w+\(\d+, (\d+)\)")
# What it tells where a Python worker has failed before it has begun with its part, and where that
# ends.
_PYTHON_ERROR, _AFTER_TRACEBACK = "[PYTHON_EXCEPTION]", "SQLSTATE"
_SWITCHED_ON = "true"


@dataclass(frozen=True)
class Cluster:
    """The Spark application that runs workers."""

    context: SparkContext

    @classmethod
    def of(cls, frame: DataFrame) -> Cluster:
        """The one of a frame; one in which workers cannot run is refused."""
        if "connect" in type(frame).__module__:
            raise refusal(
                "X", "be a frame of a Spark session that runs here", got="one of Spark Connect",
                advice="start the program by spark-submit, or in a notebook of the cluster",
            )  # fmt: skip
        if frame.isStreaming:
            raise refusal("X", "be a frame that has an end", got="a stream")
        cluster = cls(frame.sparkSession.sparkContext)
        if cluster.option("spark.dynamicAllocation.enabled") == _SWITCHED_ON:
            raise WorkersError(
                "Spark must have a fixed number of executors for a barrier stage. Got dynamic "
                "allocation: start it with spark.dynamicAllocation.enabled=false."
            )
        for name in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"):
            if cluster.option(name) == _SWITCHED_ON:
                raise WorkersError(
                    f"Spark must run without encryption between machines. Got {name}=true: the "
                    f"connections between workers have none yet."
                )
        return cluster

    def option(self, name: str) -> str:
        """An option that Spark was started with."""
        return (self.context.getConf().get(name) or "").lower()

    @property
    def n_slots(self) -> int:
        """How many tasks can run at once now."""
        scala: Any = self.context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))

    def wait_for_workers(self, n_workers: int) -> int:
        """How many of so many workers can run at once, after some time for executors to come."""
        until = time.monotonic() + _UNTIL_EXECUTORS
        is_local = self.context.master.startswith("local[") or self.context.master == "local"
        while (n_slots := self.n_slots) < n_workers and not is_local and time.monotonic() < until:
            time.sleep(_LOOK)
        if n_slots == 0:
            raise WorkersError("Spark must have at least one executor. Got none: see its log.")
        return min(n_workers, n_slots)

    def check_workers(self, n_workers: int | None) -> int:
        """The number of workers, by default as many as tasks can run at once."""
        whole_number("n_workers", n_workers, 1, none=True)
        there = self.wait_for_workers(n_workers or 1)
        if n_workers is not None and there < n_workers:
            raise refusal(
                "n_workers", "be at most the number of tasks that Spark can run at once",
                got=f"{n_workers} and room for {there}",
                advice="start more executors, or pass a smaller number",
            )  # fmt: skip
        return n_workers or self.n_slots


def worker_function(job: bytes, here: dict[str, str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What Spark runs on each partition. It is sent as code: Rankgrove may be absent there."""

    def run_worker(batches: Iterable[Any]) -> Iterator[Any]:
        import json  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415
        from pyspark import BarrierTaskContext  # noqa: PLC0415

        context = BarrierTaskContext.get()
        try:
            from rankgrove.distributed.spark_worker import work  # noqa: PLC0415
            from rankgrove.distributed.tasks import version_problem, versions  # noqa: PLC0415

            problem = version_problem(here, versions())
        except Exception as error:
            problem = f"must have rankgrove {here['rankgrove']}. Got: {error}."
        if problem is None:
            answer = work(job, context, batches)
        else:
            answer = b""
            context.allGather(json.dumps({"problem": problem}))  # or the others wait for it
        types = [("rank", pa.int32()), ("problem", pa.string()), ("answer", pa.binary())]
        row = {"rank": context.partitionId(), "problem": problem, "answer": answer}
        yield pa.RecordBatch.from_pylist([row], schema=pa.schema(types))

    return run_worker


@dataclass(frozen=True)
class _Ended:
    """The end of a barrier stage: what each worker has answered, or the error of Spark."""

    rows: list[Any]
    error: BaseException | None = None


class Attempt:
    """One barrier stage, until its workers are done or one of them fails."""

    def __init__(self, context: SparkContext, told: Callable[[Start | Step], bool]) -> None:
        self._context, self._told = context, told
        self._tag = f"rankgrove-{uuid.uuid4().hex}"
        self._events: queue.Queue[Any] = queue.Queue()
        self._addresses: list[str] = []
        host = context.getConf().get("spark.driver.host") or "127.0.0.1"
        self._hearing = Hearing(host.removeprefix("[").removesuffix("]"), self._events.put)

    def run(self, rows: Rows, job: Job) -> Any:
        """What the first worker gives; None if `told` has ended it."""
        thread: InheritableThread | None = None
        try:
            address, token = self._hearing.open(job.ports)
            told = replace(job, token=new_token(), driver=address, driver_token=token)
            function = worker_function(cloudpickle.dumps(told), versions())
            stage = rows.dealt(job.n_workers).mapInArrow(function, _ANSWER, barrier=True)
            thread = InheritableThread(self._collect, args=(stage,))
            thread.start()
            return self._watch()
        finally:
            self._hearing.close()
            if thread is not None and thread.is_alive():
                with suppress(Exception):
                    self._context.cancelJobsWithTag(self._tag)
                thread.join(_REASONS)

    def _collect(self, stage: DataFrame) -> None:
        try:
            self._context.addJobTag(self._tag)
            self._context.setInterruptOnCancel(True)
            self._events.put(_Ended(stage.collect()))
        except BaseException as error:
            self._events.put(_Ended([], error))

    def _watch(self) -> Any:
        """Hear of trees until the stage has ended, or its first worker is gone for some time."""
        broken: Exception | None = None
        deadline = math.inf
        while time.monotonic() < deadline:
            try:
                event = self._events.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if isinstance(event, _Ended):
                return self._result(event, broken)
            if isinstance(event, Exception):
                broken, deadline = event, time.monotonic() + _REASONS
            elif isinstance(event, list):
                self._addresses = event
            elif self._told(event):
                return None
        raise self._gone(str(broken))

    def _result(self, ended: _Ended, broken: Exception | None) -> Any:
        if ended.error is not None:
            text = str(ended.error)
            if "cancelled" in text or (broken is None and not _LOST_STAGE.search(text)):
                raise ended.error
            if _PYTHON_ERROR in text:
                words = text.partition(_AFTER_TRACEBACK)[0].strip().splitlines()[-1]
                raise WorkerFailedError(
                    f"workers of Spark must run a Python with rankgrove[spark]. Got {words}: set "
                    f"PYSPARK_PYTHON, or spark.pyspark.python, to such a Python."
                )
            raise self._gone(text)
        if not ended.rows:
            raise DataError("the data must have at least one row. Got none.")
        for row in ended.rows:
            if row.problem:
                raise WorkersError(f"worker {row.rank} of Spark {row.problem}", row.rank)
        answers = {row.rank: cloudpickle.loads(bytes(row.answer)) for row in ended.rows}
        self._raise_cause({r: a.error for r, a in answers.items() if isinstance(a, Failure)})
        result = answers[0]
        for step in result if isinstance(result, list) else []:
            if self._told(step):  # the last ones may not have been heard of yet
                break
        return result

    def _raise_cause(self, errors: Mapping[int, Exception]) -> None:
        if not errors:
            return
        rank, error = find_cause(errors) or next(iter(errors.items()))
        # Spark has started the stage once more by itself, and nobody hears of it any more.
        is_second = isinstance(error, NoDriverError) and self._hearing.has_begun
        if isinstance(error, WorkerLostError) or is_second:
            raise self._gone(str(error))
        if isinstance(error, (RankgroveError, ValueError, TypeError)):
            raise error
        raise WorkerFailedError(
            f"worker {rank} of Spark has failed: {type(error).__name__}: {error}", rank
        ) from error

    def _gone(self, text: str) -> WorkersGoneError:
        """The error of the worker that words of Spark, or of another worker, are about."""
        match = _LOST_TASK.search(text)
        places = [rank for rank, address in enumerate(self._addresses) if address in text]
        rank = int(match[1]) if match else next(iter(places), 0)
        known = rank < len(self._addresses)
        return WorkersGoneError([f"{rank} at {self._addresses[rank]}" if known else f"{rank}"])


def run_on_spark(
    cluster: Cluster,
    rows: Rows,
    make_task: Callable[[], Training | Evaluation],
    *,
    n_workers: int | None,
    max_restarts: int,
    told: Callable[[Start | Step], bool] = lambda _: False,
    progress: Callable[[], str] = lambda: "while data were measured",
    **job_options: Any,
) -> Any:
    """What the first worker gives; after workers were lost, those that are there start again.

    Parameters
    ----------
    make_task
        What is to be done from here on: called again for each attempt.
    told
        Called with what the first worker tells; True ends the run.
    progress
        How far it is, for messages: "after tree 8".
    job_options
        The other options of `Job`.
    """
    count = cluster.check_workers(n_workers)

    def attempt() -> Any:
        job = Job(
            n_workers=count, token="", driver="", driver_token="", names=rows.names,
            reading=rows.reading, task=make_task(), **job_options,
        )  # fmt: skip
        return Attempt(cluster.context, told).run(rows, job)

    def count_workers() -> int:
        nonlocal count
        count = cluster.wait_for_workers(count)
        return count

    return run_again(
        attempt, max_restarts=max_restarts, progress=progress, count_workers=count_workers,
        advice="see the log of its executor, or the memory of its machine",
    )  # fmt: skip

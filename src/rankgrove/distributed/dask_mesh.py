"""Workers that talk over the connections that Dask has between them, where no port may be opened.

The messages are those of `wire`, and so are the sums. They go through the event loops of both
workers, which takes longer than sockets of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from rankgrove.distributed.failures import (
    LostStepError,
    StrangeBytesError,
    WorkersError,
    WrongLengthError,
    lost,
    worker_at,
)
from rankgrove.distributed.links import Numbers, ToldFailureError, bytes_of
from rankgrove.distributed.mesh import Mesh, Waiting
from rankgrove.distributed.wire import (
    HEADER_BYTES,
    Operation,
    pack_length,
    step_of,
    unpack_header,
)

_HANDLER = "rankgrove_message"
# Seconds between looks at whether to go on.
_LOOK = 0.2

# Those of this process by run and worker.
_inboxes: dict[tuple[str, str], Inbox] = {}


class Inbox:
    """The messages that have come for a worker in a run."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._messages: dict[int, deque[bytes]] = {}
        self._failure: ToldFailureError | None = None

    def put(self, sender: int, message: bytes) -> None:
        """Called by the event loop for each message."""
        header = unpack_header(message[:HEADER_BYTES])
        with self.changed:
            if header is not None and header.operation == Operation.FAILURE:
                self._failure = ToldFailureError(message[HEADER_BYTES:])
            else:
                self._messages.setdefault(sender, deque()).append(message)
            self.changed.notify_all()

    def take(self, sender: int) -> bytes | None:
        """The next message of a worker, if it has come; a failure of any is raised."""
        with self.changed:
            if self._failure is not None:
                raise self._failure
            messages = self._messages.get(sender)
            if not messages:
                self.changed.wait(_LOOK)
            return messages.popleft() if messages else None


def open_inbox(run: str, worker: Any) -> None:
    """Let the other workers of a run send messages to one."""

    async def receive(run: str, sender: int, message: bytes) -> None:
        if (inbox := _inboxes.get((run, worker.address))) is not None:
            inbox.put(sender, message)

    _inboxes[run, worker.address] = Inbox()
    worker.handlers[_HANDLER] = receive


def close_inbox(run: str, worker: Any) -> None:
    """Let go of the messages of a run."""
    _inboxes.pop((run, worker.address), None)


class DaskMesh(Mesh):
    """The connections of a Dask worker to all others; those who are lost are found by the client.

    Parameters
    ----------
    run
        Its name; `open_inbox` has been called with it on all workers.
    rank, addresses
        Of this worker, and those that Dask knows all workers by.
    waiting
        Looked at while this worker waits.
    worker
        The worker.
    """

    def __init__(
        self, run: str, rank: int, addresses: list[str], waiting: Waiting, worker: Any
    ) -> None:
        super().__init__(rank, addresses, [], waiting)
        self._run_name, self._worker = run, worker
        self._inbox = _inboxes[run, worker.address]

    @property
    def traffic(self) -> Any:
        return self._traffic

    def exchange(
        self,
        start: bytes,
        ranks: Sequence[int],
        bodies: Iterable[Numbers],
        targets: Iterable[Numbers | None],
    ) -> list[Any]:
        """As that of `Mesh`."""
        processor = time.thread_time()
        try:
            self._waiting.begin()
            sent = {
                rank: self._send(rank, start, body)
                for rank, body in zip(ranks, bodies, strict=True)
            }
            messages: list[Any] = []
            for rank, target in zip(ranks, targets, strict=True):
                body = self._wait_for(rank, start, sent)
                if target is not None:
                    self._put(rank, start, body, target)
                messages.append(memoryview(bytearray(body)) if target is None else target)
            self._wait_until_sent(sent)
            return messages
        except BaseException as error:
            failure = self.fail(error)
            if failure is error:
                raise
            raise failure from None
        finally:
            self._traffic.processor_seconds += time.thread_time() - processor

    def _send(self, rank: int, start: bytes, body: Numbers) -> Future[None]:
        message = start + pack_length(body.nbytes) + body.tobytes()
        self._traffic.bytes_sent += len(message)
        return self._post(rank, message)

    def _post(self, rank: int, message: bytes) -> Future[None]:
        call = getattr(self._worker.rpc(self.addresses[rank]), _HANDLER)
        coroutine = call(run=self._run_name, sender=self.rank, message=message)
        return asyncio.run_coroutine_threadsafe(coroutine, self._worker.loop.asyncio_loop)

    def _wait_for(self, rank: int, start: bytes, sent: Mapping[int, Future[None]]) -> memoryview:
        """The body of the next message of a worker."""
        before = time.perf_counter()
        while (message := self._inbox.take(rank)) is None:
            self._check_sent(sent)
            self._waiting.look([(rank, self.addresses[rank])])
        self._traffic.seconds_waiting += time.perf_counter() - before
        self._traffic.bytes_received += len(message)
        got, place = unpack_header(message[:HEADER_BYTES]), self.addresses[rank]
        if got is None:
            words = f"{worker_at(rank, place)} has sent bytes that are no message."
            raise StrangeBytesError(words, rank, place)
        step = step_of(start)
        if got[:4] != step[:4]:
            raise LostStepError(
                f"{worker_at(rank, place)} has lost step: it is at {got}, this worker is at "
                f"{step}.", rank, place,
            )  # fmt: skip
        return memoryview(message)[HEADER_BYTES:]

    def _put(self, rank: int, start: bytes, body: memoryview, target: Numbers) -> None:
        if len(body) != target.nbytes:
            step, place = step_of(start), self.addresses[rank]
            raise WrongLengthError(
                f"{worker_at(rank, place)} must send {target.nbytes} bytes in {step}. Got "
                f"{len(body)}: pass arrays of the same length on all workers.", rank, place,
            )  # fmt: skip
        if len(body):
            bytes_of(target)[:] = body

    def _wait_until_sent(self, sent: Mapping[int, Future[None]]) -> None:
        for rank, future in sent.items():
            while not future.done():
                with suppress(TimeoutError):
                    future.exception(timeout=_LOOK)
                self._waiting.look([(rank, self.addresses[rank])])
        self._check_sent(sent)

    def _check_sent(self, sent: Mapping[int, Future[None]]) -> None:
        for rank, future in sent.items():
            error = future.exception() if future.done() else None
            if isinstance(error, OSError):
                raise lost(rank, self.addresses[rank], f"{error}") from None
            if error is not None:
                raise WorkersError(f"{error}", rank, self.addresses[rank])

    def _say(self, message: bytes) -> None:
        for rank in range(self.size):
            if rank != self.rank:
                # Nobody waits for it: who is not there does not hear it.
                self._post(rank, message).add_done_callback(lambda future: future.exception())

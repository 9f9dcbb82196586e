"""All connections of one worker: one step of an exchange, waiting, and what happens on failure."""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rankgrove.distributed.failures import (
    DisconnectedError,
    StoppedError,
    WorkerFailedError,
    WorkerLostError,
    WorkersError,
    worker_at,
)
from rankgrove.distributed.links import COME, GO, Link, Numbers, ToldFailureError
from rankgrove.distributed.wire import (
    NumberType,
    Operation,
    failure_message,
    goodbye_message,
    start_of,
)

# A message without a body, or where one goes.
NOTHING = memoryview(bytearray())
# Seconds after which the stop flag is looked at, and after which a line says who is waited for.
_LOOK = 1.0
_LINE = 30.0

_logger = logging.getLogger("rankgrove.distributed")


@dataclass
class Traffic:
    """What communication has cost one worker so far, without setting up the connections.

    Attributes
    ----------
    bytes_sent, bytes_received
        With headers.
    exchanges
        Collective calls.
    seconds_waiting
        For other workers, and for the kernel to take and bring bytes.
    processor_seconds
        Of the calling thread in calls.
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    exchanges: int = 0
    seconds_waiting: float = 0.0
    processor_seconds: float = 0.0


class Waiting:
    """Whether to go on waiting: looks at the stop flag, and says who is waited for."""

    def __init__(
        self, should_stop: Callable[[], bool] | None, on_wait: Callable[[str], None] | None
    ) -> None:
        self._should_stop = should_stop
        self._on_wait = on_wait or _logger.warning
        self.begin()

    def begin(self, now: float | None = None) -> None:
        """A new wait."""
        self._begun = time.perf_counter() if now is None else now
        self.next_look, self._line = self._begun + _LOOK, self._begun + _LINE

    def look(self, workers: Iterable[tuple[int, str]]) -> None:
        """Once a second look at the flag, and every 30 seconds say who is waited for."""
        now = time.perf_counter()
        if now < self.next_look:
            return
        self.next_look = now + _LOOK
        seconds = now - self._begun
        if self._should_stop is not None and self._should_stop():
            raise StoppedError(
                f"waiting for {_some_of(workers)} was stopped from outside after {seconds:.0f} s."
            )
        if now >= self._line:
            self._line = now + _LINE
            self._on_wait(f"waiting for {_some_of(workers)} for {seconds:.0f} s")


def _some_of(workers: Iterable[tuple[int, str]]) -> str:
    every = sorted(workers)
    words = ", ".join(worker_at(*each) for each in every[:3])
    return words if len(every) <= 3 else f"{words} and {len(every) - 3} others"


class _Poll:
    """What Python's `select.poll` does, where there is none."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def register(self, descriptor: int, mask: int) -> None:
        self._masks[descriptor] = mask

    def unregister(self, descriptor: int) -> None:
        del self._masks[descriptor]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        come, go = (
            [each for each, mask in self._masks.items() if mask & bit] for bit in (COME, GO)
        )
        ready = select.select(come, go, [], milliseconds / 1000)
        return [(each, COME | GO) for each in {*ready[0], *ready[1]}]


class Mesh:
    """The connections of one worker to all others, used by one thread at a time."""

    def __init__(
        self, rank: int, addresses: list[str], links: list[Link], waiting: Waiting
    ) -> None:
        self.rank, self.size, self.addresses = rank, len(addresses), addresses
        self.others = [other for other in range(self.size) if other != rank]
        self._traffic = Traffic()
        self.failure: str | None = None
        self.closed = False
        self._links = {link.rank: link for link in links}
        self._waiting = waiting
        self._poll: Any = select.poll() if hasattr(select, "poll") else _Poll()
        self._talking = {link.words.fileno(): link for link in links}
        for descriptor in self._talking:
            self._poll.register(descriptor, COME)

    @property
    def traffic(self) -> Traffic:
        """What communication has cost so far."""
        self._traffic.bytes_sent = sum(link.bytes_sent for link in self._links.values())
        self._traffic.bytes_received = sum(link.bytes_received for link in self._links.values())
        return self._traffic

    def begin(self, operation: Operation, number_type: NumberType) -> bytes:
        """How the headers of all messages of a new call begin, in its first step."""
        if self.closed or self.failure is not None:
            reason = f" after a failure: {self.failure}" if self.failure is not None else "."
            raise DisconnectedError(f"worker {self.rank} is no longer connected{reason}")
        self._traffic.exchanges += 1
        return start_of(operation, number_type, self._traffic.exchanges)

    def exchange(
        self,
        start: bytes,
        ranks: Sequence[int],
        bodies: Iterable[Numbers],
        targets: Iterable[Numbers | None],
    ) -> list[Any]:
        """One step: send a message to some workers, and receive one of each.

        Every message has one in the other direction, which is empty where nothing is asked for:
        so a worker is never more than a step ahead of one that it talks with.

        Parameters
        ----------
        start
            How the headers of the step begin.
        ranks
            Those of the workers.
        bodies
            The numbers or bytes for each of them.
        targets
            Where those of each go; None if only the other side knows how many.

        Returns
        -------
        list
            What has come from each.
        """
        processor = time.thread_time()
        try:
            links = [self._links[rank] for rank in ranks]
            for link, body, target in zip(links, bodies, targets, strict=True):
                link.start(start, body, target)
            for link in links:
                # Often the message is here already; then nobody has to wait.
                link.pull()
            if unfinished := [link for link in links if not link.received or link.unsent]:
                self._finish(unfinished)
            return [link.message for link in links]
        except BaseException as error:
            failure = self.fail(error)
            if failure is error:
                raise
            raise failure from None
        finally:
            self._traffic.processor_seconds += time.thread_time() - processor

    def fail(self, error: BaseException) -> BaseException:
        """End the work of all workers by an error; the error to raise here."""
        lost, words, origin = None, str(error), self.rank
        if isinstance(error, ToldFailureError):
            origin, lost, words = error.origin, error.lost, error.words
            error = self._error_of(error)
        elif isinstance(error, WorkerLostError):
            lost = error.rank
        elif not isinstance(error, WorkersError):
            words = f"{type(error).__name__}: {error}" if words else type(error).__name__
        self.failure = str(error) or words
        self._say(failure_message(origin, lost, words))
        return error

    def abort(self, words: str) -> None:
        """Tell all workers that this one has failed."""
        if self.failure is None and not self.closed:
            self.failure = words
            self._say(failure_message(self.rank, None, words))

    def close(self) -> None:
        """Say goodbye and close every connection."""
        if self.closed:
            return
        self.closed = True
        if self.failure is None:
            self._say(goodbye_message(self._traffic.exchanges))
        for link in self._links.values():
            link.close()

    def _finish(self, links: list[Link]) -> None:
        """Go on with links as the kernel lets them, until all are done.

        A message of the next step may come early. It is left where it is: a link that is done is
        not looked at until then.
        """
        poll, unfinished = self._poll, {link.numbers.fileno(): link for link in links}
        for descriptor, each in unfinished.items():
            poll.register(descriptor, each.awaited)
        before = time.perf_counter()
        self._waiting.begin(before)
        while unfinished:
            events = poll.poll(1000 * _LOOK)
            now = time.perf_counter()
            self._traffic.seconds_waiting += now - before
            for descriptor, _ in events:
                if (link := unfinished.get(descriptor)) is None:
                    continue
                link.pull()
                link.push()
                if awaited := link.awaited:
                    poll.register(descriptor, awaited)
                else:
                    poll.unregister(descriptor)
                    del unfinished[descriptor]
            # Words come after the numbers that they are about.
            for descriptor, _ in events:
                if descriptor in self._talking:
                    self._hear(self._talking[descriptor])
            before = time.perf_counter()
            if unfinished and before >= self._waiting.next_look:
                self._waiting.look((link.rank, link.address) for link in unfinished.values())

    def _hear(self, link: Link) -> None:
        """Take note of the words of a worker."""
        link.hear()
        if link.left:
            self._poll.unregister(link.words.fileno())

    def _error_of(self, told: ToldFailureError) -> WorkersError:
        rank = told.origin if told.lost is None else told.lost
        address = self.addresses[rank] if 0 <= rank < self.size else "an unknown address"
        if told.lost is not None:
            words = f"{told.words.rstrip('.')} (seen by worker {told.origin})."
            return WorkerLostError(words, rank, address)
        return WorkerFailedError(
            f"{worker_at(rank, address)} has failed: {told.words}", rank, address
        )

    def _say(self, message: bytes) -> None:
        for link in self._links.values():
            link.say(message)

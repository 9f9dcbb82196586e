"""The connection to one other worker: what is still to be sent to it, what is being read."""

from __future__ import annotations

import errno
import socket
import ssl
import sys
from contextlib import suppress

from rankgrove.distributed.failures import (
    LostStepError,
    StrangeBytesError,
    WorkerLostError,
    WorkersError,
    WrongLengthError,
    lost,
    worker_at,
)
from rankgrove.distributed.wire import (
    FIRST_FRAME,
    HEADER_BYTES,
    LONGEST_FAILURE,
    Header,
    Operation,
    frames,
    length_after,
    read_failure,
    sent_bytes,
    unpack_header,
)

BLOCKED = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# A body whose length only its sender knows may be this long.
_LONGEST_BODY = 1 << 34
# Idle seconds before the kernel asks whether the other machine is there, seconds between its
# questions, and how many may stay without an answer.
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPALIVE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}


class ToldFailureError(Exception):
    """The other side has told of a failure: of its own, or of one that it has been told of."""

    def __init__(self, body: bytearray) -> None:
        self.origin, self.lost, self.words = read_failure(body)
        super().__init__(self.words)


class Link:
    """The connection to one other worker.

    Each step of a call sends one message and reads one. `start` says which, `push` and `pull` go
    as far as the kernel lets them.

    Attributes
    ----------
    unsent, held
        What is to be sent now, and what once the other side has shown that it reads.
    received
        Whether the message of this step is here; `message` is its body.
    early
        The header of a message that is not expected yet, after which nothing has been read.
    left
        Whether the other side has said goodbye.
    """

    def __init__(
        self, connection: socket.socket, rank: int, address: str, silence: float = 20.0
    ) -> None:
        self.socket, self.rank, self.address, self.silence = connection, rank, address, silence
        self.watched = 0
        self.bytes_sent = self.bytes_received = 0
        self.unsent: list[memoryview] = []
        self.held: list[memoryview] = []
        self.received, self.left = True, False
        self.early: Header | None = None
        self.message: memoryview | None = None
        self._expected = Header(0, 0, 0, 0, 0)
        self._starts = self._expected.starts()
        self._rest: memoryview | None = None
        self._failure: bytearray | None = None
        self._draining = False
        self._header = bytearray(HEADER_BYTES)
        self._header_view = memoryview(self._header)
        self._await_header()
        self._encrypted = isinstance(connection, ssl.SSLSocket)
        self._by_parts = self._encrypted or not hasattr(connection, "sendmsg")
        connection.setblocking(False)
        watch_over(connection, silence)

    @property
    def done(self) -> bool:
        """Whether the step is over: all is sent, and the message is here."""
        return self.received and not self.unsent and not self.held

    @property
    def has_more(self) -> bool:
        """Whether there is something to read of which a selector knows nothing."""
        if self.early is not None:
            return True
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0

    def start(
        self,
        header: Header,
        starts: tuple[bytes, bytes],
        body: memoryview,
        target: memoryview | None,
    ) -> None:
        """Begin a step: what to send, and where to put what comes; None if its length is unknown.

        `starts` are those of the header, in which the length is filled in.
        """
        self._expected, self._starts = header, starts
        self.message, self.received = target, False
        if self.left:
            raise self._ended()
        self.unsent, self.held = frames(starts, body)

    def push(self) -> None:
        """Send as much as the kernel takes."""
        while self.unsent:
            try:
                if self._by_parts:
                    count = self.socket.send(self.unsent[0])
                else:
                    count = self.socket.sendmsg(self.unsent)
            except BLOCKED:
                return
            except OSError as error:
                self._hear_last_words()
                raise self._gone(error) from None
            self.bytes_sent += count
            while self.unsent and count >= len(self.unsent[0]):
                count -= len(self.unsent.pop(0))
            if count:
                self.unsent[0] = self.unsent[0][count:]

    def pull(self) -> bool:
        """Read on; True when a whole message is here, False when nothing more can be read now."""
        if self.left or (self.early is not None and self.received and not self._draining):
            return False
        if self.early is not None:
            self._open(self.early)
        while self._fill():
            if self._in_header:
                if self.received or not self._open_expected():
                    self._open_other(self._read_header())
                    if self.left or self.early is not None:
                        return False
            elif self._failure is not None:
                raise ToldFailureError(self._failure)
            else:
                self._await_header()
                if self._rest is None:
                    self.received = True
                    self.bytes_received += sent_bytes(len(self.message or b""))
                    return True
        return False

    def tell(self, message: bytes) -> None:
        """Add a message of its own to what is sent, in place of what waits for the other side."""
        self.held = []
        self.unsent.append(memoryview(message))

    def _fill(self) -> bool:
        while self._filled < len(self._target):
            try:
                count = self.socket.recv_into(
                    self._target[self._filled :] if self._filled else self._target
                )
            except BLOCKED:
                return False
            except OSError as error:
                raise self._gone(error) from None
            if count == 0:
                raise self._gone(None)
            self._filled += count
        return True

    def _read_into(self, target: memoryview) -> None:
        self._target, self._filled, self._in_header = target, 0, False

    def _await_header(self) -> None:
        self._target, self._filled, self._in_header = self._header_view, 0, True

    def _read_header(self) -> Header:
        header = unpack_header(self._header)
        if header is None or (
            header.operation == Operation.FAILURE and not 8 <= header.length <= LONGEST_FAILURE
        ):
            raise self._strange()
        return header

    def _open_expected(self) -> bool:
        """Go on with the body if the header is just what this step expects, as nearly always."""
        rest, message = self._rest, self.message
        if rest is not None:
            if length_after(self._starts[1], self._header) == len(rest):
                self._rest = None
                self._read_into(rest)
                return True
        elif (
            message is not None
            and not self._draining
            and length_after(self._starts[0], self._header) == len(message)
        ):
            self._read_body(message)
            return True
        return False

    def _open_other(self, header: Header) -> None:
        """Go on after a header that needs a closer look."""
        if header.operation == Operation.GOODBYE:
            self.left = True
            if not self.received:
                raise self._ended()
        elif header.operation == Operation.FAILURE:
            self._failure = bytearray(header.length)
            self._read_into(memoryview(self._failure))
        elif self._rest is not None:
            raise self._strange()
        elif self.received and not self._draining:
            self.early = header
        else:
            self._open(header)

    def _open(self, header: Header) -> None:
        """Read the body of a message, if it is the one that this step expects."""
        self.early = None
        if self._draining:
            self.message = None
            self.received = False
            self._starts = header.starts()
        else:
            self._compare(header, self._expected)
        if self.message is None:
            if header.length > _LONGEST_BODY:
                raise self._strange()
            self.message = memoryview(bytearray(header.length))
        self._read_body(self.message)

    def _read_body(self, message: memoryview) -> None:
        # The other side reads, now that it has sent its header.
        if self.held:
            self.unsent += self.held
            self.held = []
        if len(message) > FIRST_FRAME:
            self._rest = message[FIRST_FRAME:]
            message = message[:FIRST_FRAME]
        self._read_into(message)

    def _compare(self, header: Header, expected: Header) -> None:
        if header[:4] != expected[:4]:
            raise LostStepError(
                f"{worker_at(self.rank, self.address)} has lost step: it is at {header}, this "
                f"worker is at {expected}.", self.rank, self.address,
            )  # fmt: skip
        if self.message is not None and header.length != len(self.message):
            raise WrongLengthError(
                f"{worker_at(self.rank, self.address)} must send {len(self.message)} bytes in "
                f"{header}. Got {header.length}: pass arrays of the same length on all workers.",
                self.rank, self.address,
            )  # fmt: skip

    def _hear_last_words(self) -> None:
        """Raise the failure that the other side told of before it closed the connection."""
        self._draining = True
        with suppress(WorkersError):
            while self.pull():
                pass

    def _ended(self) -> LostStepError:
        return LostStepError(
            f"{worker_at(self.rank, self.address)} has lost step: it has ended its work, this "
            f"worker is at {self._expected}.", self.rank, self.address,
        )  # fmt: skip

    def _strange(self) -> StrangeBytesError:
        return StrangeBytesError(
            f"{worker_at(self.rank, self.address)} has sent bytes that are no message.",
            self.rank, self.address,
        )  # fmt: skip

    def _gone(self, error: OSError | None) -> WorkerLostError:
        if error is None:
            reason = "it has closed the connection without a word"
        elif error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED):
            reason = "its side of the connection is closed"
        elif error.errno == errno.ETIMEDOUT:
            reason = (
                f"its machine has not answered for {self.silence:.0f} s, or the network is down"
            )
        else:
            reason = str(error)
        return lost(self.rank, self.address, reason)


def watch_over(connection: socket.socket, silence: float) -> None:
    """Have the kernel look after a connection: no delays, and an error if nobody answers."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {**_KEEPALIVE, "TCP_USER_TIMEOUT": round(1000 * silence)}
    if sys.platform.startswith("linux"):
        del options["TCP_KEEPALIVE"]  # the name that macOS has for TCP_KEEPIDLE
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""The connections to one other worker: what is still to be sent to it, what is being read."""

from __future__ import annotations

import errno
import selectors
import socket
import ssl
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    HEADER_BYTES,
    LONGEST_FAILURE,
    Header,
    Operation,
    header_after,
    length_after,
    read_failure,
    unpack_header,
)

BLOCKED = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# A body whose length only its sender knows may be this long.
_LONGEST_BODY = 1 << 34
# Where pieces cannot be sent together, a body up to here is copied behind its header.
_COPIED = 1 << 10
# Seconds that the last words of a worker may come after the end of its numbers.
_LAST_WORDS = 0.5
_NO_ANSWER = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
# Idle seconds before the kernel asks whether the other machine is there, seconds between its
# questions, and how many may stay without an answer.
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPALIVE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}


# The body of a message, or where it goes: numbers side by side.
Numbers = memoryview | NDArray[np.int64]


class ToldFailureError(Exception):
    """The other side has told of a failure: of its own, or of one that it has been told of."""

    def __init__(self, body: bytes | bytearray) -> None:
        self.origin, self.lost, self.words = read_failure(body)
        super().__init__(self.words)


class Link:
    """The connections to one other worker: one for numbers, one for words.

    Each step of a call sends one message of numbers and reads one. `start` says which, `push` and
    `pull` go as far as the kernel lets them. `hear` reads the words, `say` sends some.

    Attributes
    ----------
    unsent
        What is still to be sent of the message of this step.
    received
        Whether the message of this step is here; `message` is its body.
    left
        Whether the other side has said goodbye.
    watched
        What a selector waits for on the connection for numbers.
    """

    def __init__(
        self,
        rank: int,
        address: str,
        numbers: socket.socket,
        words: socket.socket,
        silence: float = 20.0,
    ) -> None:
        self.rank, self.address, self.silence = rank, address, silence
        self.numbers, self.words = numbers, words
        self.watched = 0
        self.bytes_sent = self.bytes_received = 0
        self.unsent: list[memoryview] = []
        self.received, self.left = True, False
        self.message: Numbers | None = None
        self._expected, self._start = Header(0, 0, 0, 0, 0), b""
        self._header = bytearray(HEADER_BYTES)
        self._header_view = memoryview(self._header)
        self._filled, self._end = 0, 0
        self._heard = bytearray()
        self._by_pieces = isinstance(numbers, ssl.SSLSocket) or not hasattr(numbers, "sendmsg")
        for connection in (numbers, words):
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        watch_over(words, silence)

    @property
    def done(self) -> bool:
        """Whether the step is over: all is sent, and the message is here."""
        return self.received and not self.unsent

    def start(self, header: Header, start: bytes, body: Numbers, target: Numbers | None) -> None:
        """Begin a step: send a body, and say where what comes goes; None if its length is unknown.

        `start` is that of the header, in which the length is filled in.
        """
        self._expected, self._start = header, start
        self.message, self.received, self._filled, self._end = target, False, 0, 0
        if self.left:
            raise self._ended()
        length = body.nbytes
        whole: list[Any] = [header_after(start, length), body]
        count = 0
        if not self._by_pieces:
            # Mostly the kernel takes all of it: then no view of the rest has to be made.
            count = self._send(whole)
        elif length <= _COPIED:
            whole = [whole[0] + body.tobytes()]
        if count < HEADER_BYTES + length:
            self.unsent = [bytes_of(each) for each in whole if len(each)]
            self._forget(count)
            self.push()

    def _send(self, message: list[Any]) -> int:
        """Send of some pieces what the kernel takes: how many bytes."""
        try:
            if self._by_pieces:
                count = self.numbers.send(message[0])
            else:
                count = self.numbers.sendmsg(message)
        except BLOCKED:
            return 0
        except OSError as error:
            raise self._broken(error) from None
        self.bytes_sent += count
        return count

    def _forget(self, count: int) -> None:
        """Take bytes that are sent from what is unsent."""
        unsent = self.unsent
        while unsent and count >= len(unsent[0]):
            count -= len(unsent.pop(0))
        if count:
            unsent[0] = unsent[0][count:]

    def push(self) -> None:
        """Send as much as the kernel takes."""
        while self.unsent and (count := self._send(self.unsent)):
            self._forget(count)

    def pull(self) -> None:
        """Read on in the message of this step."""
        while not self.received:
            body: Any = self.message
            try:
                if self._filled or body is None or self._by_pieces:
                    count = self._receive()
                else:
                    # Mostly all of it is here.
                    count = self.numbers.recvmsg_into((self._header_view, body))[0]
            except BLOCKED:
                return
            except OSError as error:
                raise self._broken(error) from None
            if count == 0:
                raise self._broken(None)
            self._filled += count
            if self._end == 0 and self._filled >= HEADER_BYTES:
                self._read_header()
            if self._filled == self._end:
                self.received = True
                self.bytes_received += self._end

    def say(self, message: bytes) -> None:
        """Send words; they are short, so the kernel takes them at once."""
        with suppress(OSError):
            self.words.send(message)

    def hear(self) -> None:
        """Read the words that have come."""
        while True:
            try:
                data = self.words.recv(1 << 16)
            except BLOCKED:
                return
            except OSError as error:
                raise self._gone(error) from None
            if not data:
                if self.left:
                    return
                raise self._gone(None)
            self._heard += data
            self._understand()

    def close(self) -> None:
        """Close both connections."""
        self.numbers.close()
        self.words.close()

    def _receive(self) -> int:
        """Read on in the header or, after it, in the body."""
        at = self._filled
        if self.message is None or at < HEADER_BYTES:
            return self.numbers.recv_into(self._header_view[at:])
        return self.numbers.recv_into(bytes_of(self.message)[at - HEADER_BYTES :])

    def _read_header(self) -> None:
        length = length_after(self._start, self._header)
        if length is None:
            raise self._out_of_step()
        if self.message is None:
            if length > _LONGEST_BODY:
                raise self._strange()
            self.message = memoryview(bytearray(length))
        elif length != self.message.nbytes:
            raise WrongLengthError(
                f"{worker_at(self.rank, self.address)} must send {self.message.nbytes} bytes in "
                f"{self._expected}. Got {length}: pass arrays of the same length on all workers.",
                self.rank, self.address,
            )  # fmt: skip
        self._end = HEADER_BYTES + length

    def _understand(self) -> None:
        while len(self._heard) >= HEADER_BYTES:
            header = unpack_header(self._heard)
            if header is not None and header.operation == Operation.GOODBYE:
                self.left = True
                del self._heard[:HEADER_BYTES]
                continue
            if (
                header is None
                or header.operation != Operation.FAILURE
                or not 8 <= header.length <= LONGEST_FAILURE
            ):
                raise self._strange()
            if len(self._heard) < HEADER_BYTES + header.length:
                return
            raise ToldFailureError(self._heard[HEADER_BYTES : HEADER_BYTES + header.length])

    def _broken(self, error: OSError | None) -> WorkersError:
        """The error of a connection for numbers that has ended, unless there are words about it."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.words, selectors.EVENT_READ)
            selector.select(_LAST_WORDS)
        with suppress(WorkerLostError):
            self.hear()
        return self._ended() if self.left else self._gone(error)

    def _out_of_step(self) -> WorkersError:
        header = unpack_header(self._header)
        if header is None:
            return self._strange()
        return LostStepError(
            f"{worker_at(self.rank, self.address)} has lost step: it is at {header}, this worker "
            f"is at {self._expected}.", self.rank, self.address,
        )  # fmt: skip

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
        elif error.errno in _NO_ANSWER:
            seconds = f"{self.silence:.0f} s"
            reason = f"its machine has not answered for {seconds}, or the network is down"
        else:
            reason = error.strerror or str(error)
        return lost(self.rank, self.address, reason)


def bytes_of(numbers: Any) -> memoryview:
    """The bytes of an array, or of any others."""
    if isinstance(numbers, np.ndarray):
        numbers = numbers.view(np.uint8)
    return memoryview(numbers)


def watch_over(connection: socket.socket, silence: float) -> None:
    """Have the kernel end a silent connection if the other machine does not answer any more."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {**_KEEPALIVE, "TCP_USER_TIMEOUT": round(1000 * silence)}
    if sys.platform.startswith("linux"):
        del options["TCP_KEEPALIVE"]  # the name that macOS has for TCP_KEEPIDLE
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

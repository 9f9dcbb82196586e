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
    Operation,
    pack_length,
    read_failure,
    step_of,
    unpack_header,
)

BLOCKED = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# What a step may wait for, as `select.poll` has it: bytes that come, room for those that go.
COME, GO = 1, 4
# A body whose length only its sender knows may be this long.
_LONGEST_BODY = 1 << 34
# So many bytes of it are kept for the next one.
_KEPT = 1 << 24
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
        Whether the message of this step is here; `message` is its body, until the next step.
    left
        Whether the other side has said goodbye.
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
        self.bytes_sent = self.bytes_received = 0
        self.unsent: list[memoryview] = []
        self.received, self.left = True, False
        self.message: Numbers | None = None
        self._start, self._expected = b"", b""
        self._header = bytearray(HEADER_BYTES)
        self._header_view = memoryview(self._header)
        self._filled, self._end = 0, 0
        self._heard = bytearray()
        self._scratch = np.empty(0, dtype=np.uint8)
        self._by_pieces = isinstance(numbers, ssl.SSLSocket) or not hasattr(numbers, "sendmsg")
        self._send_pieces = self._send_first if self._by_pieces else numbers.sendmsg
        for connection in (numbers, words):
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        watch_over(words, silence)

    @property
    def awaited(self) -> int:
        """What the step waits for; 0 if it is over: all is sent, and the message is here."""
        return (0 if self.received else COME) | (GO if self.unsent else 0)

    def start(self, start: bytes, body: Numbers, target: Numbers | None) -> None:
        """Begin a step: send a body, and say where what comes goes; None if its length is unknown.

        `start` is that of the headers of the step.
        """
        self._start, self.message, self.received, self._filled = start, target, False, 0
        if self.left:
            raise self._ended()
        header = start + pack_length(body.nbytes)
        whole: list[Any] = [header, body]
        if target is None:
            self._expected, self._end = start, HEADER_BYTES
        else:
            length = target.nbytes
            self._expected, self._end = start + pack_length(length), HEADER_BYTES + length
        if self._by_pieces and body.nbytes <= _COPIED:
            whole = [header + body.tobytes()]
        # Mostly the kernel takes all of it: then no view of the rest has to be made.
        count = self._send(whole)
        if count < HEADER_BYTES + body.nbytes:
            self.unsent = [bytes_of(each) for each in whole if len(each)]
            self._forget(count)
            self.push()

    def _send(self, message: list[Any]) -> int:
        """Send of some pieces what the kernel takes: how many bytes."""
        try:
            count = self._send_pieces(message)
        except BLOCKED:
            return 0
        except OSError as error:
            raise self._broken(error) from None
        self.bytes_sent += count
        return count

    def _send_first(self, message: list[Any]) -> int:
        """Send of the first piece what the kernel takes, where not all can be sent together."""
        return self.numbers.send(message[0])

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
            filled, body = self._filled, self.message
            try:
                if filled or body is None or self._by_pieces:
                    count = self._receive()
                else:
                    # Mostly all of it is here.
                    pieces: Any = (self._header_view, body)
                    count = self.numbers.recvmsg_into(pieces)[0]
            except BLOCKED:
                return
            except OSError as error:
                raise self._broken(error) from None
            if count == 0:
                raise self._broken(None)
            self._filled = filled + count
            if filled < HEADER_BYTES <= self._filled and self._header != self._expected:
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
        """Take note of the length of a body, which only its sender knows; no other is taken."""
        header = unpack_header(self._header)
        if header is None:
            raise self._strange()
        step = step_of(self._start)
        if header[:4] != step[:4]:
            raise LostStepError(
                f"{worker_at(self.rank, self.address)} has lost step: it is at {header}, this "
                f"worker is at {step}.", self.rank, self.address,
            )  # fmt: skip
        if self.message is not None:
            raise WrongLengthError(
                f"{worker_at(self.rank, self.address)} must send {self.message.nbytes} bytes in "
                f"{step}. Got {header.length}: pass arrays of the same length on all "
                "workers.", self.rank, self.address,
            )  # fmt: skip
        if header.length > _LONGEST_BODY:
            raise self._strange()
        memory = self._scratch
        if header.length > len(memory):
            memory = np.empty(header.length, dtype=np.uint8)
            self._scratch = memory[: _KEPT if header.length <= _KEPT else 0]
        self.message = bytes_of(memory)[: header.length]
        self._end = HEADER_BYTES + header.length

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

    def _ended(self) -> LostStepError:
        return LostStepError(
            f"{worker_at(self.rank, self.address)} has lost step: it has ended its work, this "
            f"worker is at {step_of(self._start)}.", self.rank, self.address,
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

"""What workers send each other, to the byte.

A message is a header of 24 bytes and a body of raw bytes. All numbers are little-endian.

| bytes | field |
|---|---|
| 4 | `RGW1` |
| 1 | operation, see `Operation` |
| 1 | type of the numbers: 0 bytes, 1 int64, 2 float64 by their keys (`collectives.max_keys`) |
| 2 | step within the call |
| 8 | number of the call |
| 8 | length of the body in bytes |

A body longer than `FIRST_FRAME` is sent in two frames: a header that says the length of all of it,
and its first `FIRST_FRAME` bytes; then a header `MORE` with the rest, once a header of the other
side has shown that the other side reads. So bytes never lie in the kernel in front of a worker
that is busy with something else: TCP_USER_TIMEOUT would take it for dead.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

MAGIC = b"RGW1"
_START = struct.Struct("<4sBBHQ")
_LENGTH = struct.Struct("<Q")
HEADER_BYTES = _START.size + _LENGTH.size
# Less than any kernel takes for a connection that nobody reads: Linux grants 64 KiB at first.
FIRST_FRAME = 48 << 10
# The words of a failure are cut here; longer ones would be no words.
LONGEST_FAILURE = 1 << 15
# A body up to here is copied behind its header: quicker than to send two pieces.
_COPIED = 1 << 10
FAILURE_ORIGIN = struct.Struct("<ii")


class Operation(IntEnum):
    """What a message is part of."""

    SUM = 1
    MAX = 2
    OR = 3
    GATHER = 4
    REDUCE_SCATTER = 5
    BROADCAST = 6
    MORE = 7
    FAILURE = 8
    GOODBYE = 9


class NumberType(IntEnum):
    """The type of the numbers in a body."""

    BYTES = 0
    INT64 = 1
    FLOAT64 = 2


class Header(NamedTuple):
    """What stands before a body."""

    operation: int
    number_type: int
    step: int
    call: int
    length: int

    def starts(self) -> tuple[bytes, bytes]:
        """All but the length of the headers of both frames, as they are sent."""
        return self._start(), _START.pack(MAGIC, Operation.MORE, *self[1:4])

    def _start(self) -> bytes:
        return _START.pack(MAGIC, *self[:4])

    def pack(self) -> bytes:
        """The header as it is sent."""
        return self._start() + _LENGTH.pack(self.length)

    def __str__(self) -> str:
        names = {member.value: member.name.lower() for member in Operation}
        name = names.get(self.operation, f"operation {self.operation}")
        types = {member.value: f" of {member.name.lower()}" for member in NumberType}
        numbers = types.get(self.number_type, f" of type {self.number_type}")
        return f"call {self.call}, {name}{numbers}, step {self.step}"


def unpack_header(raw: bytes | bytearray) -> Header | None:
    """The header in some bytes; None if it is none."""
    magic, *fields = _START.unpack_from(raw)
    return Header(*fields, *_LENGTH.unpack_from(raw, _START.size)) if magic == MAGIC else None


def length_after(start: bytes, raw: bytearray) -> int | None:
    """The length in a header that begins in some way; None if it begins in another."""
    if not raw.startswith(start):
        return None
    length: int = _LENGTH.unpack_from(raw, _START.size)[0]
    return length


def frames(
    starts: tuple[bytes, bytes], body: memoryview
) -> tuple[list[memoryview], list[memoryview]]:
    """What is sent of a message at once, and what once the other side reads."""
    length = len(body)
    header = starts[0] + _LENGTH.pack(length)
    if length <= _COPIED:
        return [memoryview(header + body)], []
    if length <= FIRST_FRAME:
        return [memoryview(header), body], []
    rest = starts[1] + _LENGTH.pack(length - FIRST_FRAME)
    return [memoryview(header), body[:FIRST_FRAME]], [memoryview(rest), body[FIRST_FRAME:]]


def sent_bytes(length: int) -> int:
    """How many bytes a message with a body of some length takes on the wire.

    >>> sent_bytes(0), sent_bytes(8), sent_bytes(FIRST_FRAME + 1) - FIRST_FRAME
    (24, 32, 49)
    """
    return length + HEADER_BYTES * (2 if length > FIRST_FRAME else 1)


def failure_message(origin: int, lost: int | None, words: str) -> bytes:
    """A whole message that tells of a failure: who tells of it, who is lost if somebody is."""
    body = FAILURE_ORIGIN.pack(origin, -1 if lost is None else lost)
    body += words.encode("utf-8", "replace")[: LONGEST_FAILURE - len(body)]
    header = Header(int(Operation.FAILURE), int(NumberType.BYTES), 0, 0, len(body))
    return header.pack() + body


def read_failure(body: bytes | bytearray) -> tuple[int, int | None, str]:
    """The rank that told of a failure, the rank that is lost or None, and the words."""
    origin, lost = FAILURE_ORIGIN.unpack_from(body)
    words = bytes(body[FAILURE_ORIGIN.size :]).decode("utf-8", "replace")
    return origin, None if lost < 0 else lost, words

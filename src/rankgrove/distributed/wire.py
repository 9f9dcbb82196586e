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

Two workers have two connections: over one go the numbers, over the other one words, which are the
messages `FAILURE` and `GOODBYE`. So words come at once, whatever is on its way beside them; and the
kernel, which can only ask a silent connection whether the other machine is still there, always has
one that it can ask. (It would take a worker for dead that is busy and does not read its numbers.)
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

MAGIC = b"RGW1"
_START = struct.Struct("<4sBBHQ")
_LENGTH = struct.Struct("<Q")
pack_length = _LENGTH.pack
HEADER_BYTES = _START.size + _LENGTH.size
# The words of a failure are cut here; longer ones would be no words.
LONGEST_FAILURE = 1 << 12
FAILURE_ORIGIN = struct.Struct("<ii")


class Operation(IntEnum):
    """What a message is part of."""

    SUM = 1
    MAX = 2
    OR = 3
    GATHER = 4
    REDUCE_SCATTER = 5
    BROADCAST = 6
    FAILURE = 7
    GOODBYE = 8
    SCATTER = 9


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

    def pack(self) -> bytes:
        """The header as it is sent."""
        return _START.pack(MAGIC, *self[:4]) + pack_length(self.length)

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


def step_of(start: bytes) -> Header:
    """The header that begins in some way, without a length."""
    _, operation, number_type, step, call = _START.unpack(start)
    return Header(operation, number_type, step, call, 0)


def start_of(operation: Operation, number_type: NumberType, call: int) -> bytes:
    """How the headers of a call begin, in its first step; behind it stands the length."""
    return _START.pack(MAGIC, operation, number_type, 0, call)


def start_at(start: bytes, step: int) -> bytes:
    """How the headers of another step of the same call begin."""
    magic, operation, number_type, _, call = _START.unpack(start)
    return _START.pack(magic, operation, number_type, step, call)


def failure_message(origin: int, lost: int | None, words: str) -> bytes:
    """A whole message that tells of a failure: who tells of it, who is lost if somebody is."""
    body = FAILURE_ORIGIN.pack(origin, -1 if lost is None else lost)
    body += words.encode("utf-8", "replace")[: LONGEST_FAILURE - len(body)]
    header = Header(int(Operation.FAILURE), int(NumberType.BYTES), 0, 0, len(body))
    return header.pack() + body


def goodbye_message(call: int) -> bytes:
    """A whole message that says that no call follows after one."""
    return Header(int(Operation.GOODBYE), int(NumberType.BYTES), 0, call, 0).pack()


def read_failure(body: bytes | bytearray) -> tuple[int, int | None, str]:
    """The rank that told of a failure, the rank that is lost or None, and the words."""
    origin, lost = FAILURE_ORIGIN.unpack_from(body)
    words = bytes(body[FAILURE_ORIGIN.size :]).decode("utf-8", "replace")
    return origin, None if lost < 0 else lost, words

"""How two workers make sure of each other: the same protocol, the same token, the right ranks.

Neither side sends the token. Each proves that it has it by the keyed hash (HMAC-SHA256) of both
greetings, each of which has a random number of its side:

1. the side that connects sends its greeting,
2. the other one answers with its own, whatever the first one was, if it was a greeting,
3. the first sends its proof,
4. the other one a verdict and its own proof.

Both parts are generators: they yield bytes to send, or how many bytes they want to read.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Callable, Generator
from typing import NamedTuple

from rankgrove.distributed.failures import (
    StrangeBytesError,
    WorkersError,
    WrongTokenError,
    WrongVersionError,
    worker_at,
)

VERSION = 1
_MAGIC = b"RANKGROV"
_NONCE = 32
_GREETING = struct.Struct(f"<8sHHIII{_NONCE}s")
_PROOF = 32
_VERDICT = struct.Struct(f"<B{_PROOF}s")
_WELCOME, _WRONG_TOKEN, _NOT_WANTED = range(3)

# A part of a conversation: what it yields is sent, or says how much to read; at its end there are
# the rank of the other side and what the connection is for.
Conversation = Generator[bytes | int, bytes, tuple[int, int]]

# What a connection is for.
NUMBERS, WORDS = CHANNELS = range(2)


class Greeting(NamedTuple):
    """What one side says of itself first."""

    magic: bytes
    version: int
    channel: int
    rank: int
    size: int
    partner: int
    nonce: bytes


class Identity(NamedTuple):
    """Who this worker is, for all its conversations."""

    rank: int
    size: int
    token: bytes

    def greeting(self, partner: int, channel: int) -> bytes:
        """A greeting for another worker, with a new random number."""
        nonce = secrets.token_bytes(_NONCE)
        return _GREETING.pack(_MAGIC, VERSION, channel, self.rank, self.size, partner, nonce)

    def proof(self, side: bytes, connecting: bytes, accepting: bytes) -> bytes:
        """What only somebody with the token can know, for these two greetings and this side."""
        return hmac.digest(self.token, side + connecting + accepting, "sha256")


def call_on(me: Identity, rank: int, address: str, channel: int) -> Conversation:
    """The part of the worker that connects: to a rank at an address."""
    other = worker_at(rank, address)
    greeting = me.greeting(rank, channel)
    yield greeting
    answer = yield _GREETING.size
    theirs = Greeting._make(_GREETING.unpack(answer))
    if theirs.magic != _MAGIC:
        raise StrangeBytesError(f"what answers for {other} is no worker.", rank, address)
    if theirs.version != VERSION:
        raise WrongVersionError(
            f"{other} must speak version {VERSION} of the protocol. Got {theirs.version}: install "
            "the same Rankgrove on all workers.", rank, address,
        )  # fmt: skip
    if (theirs.rank, theirs.size, theirs.partner) != (rank, me.size, me.rank):
        raise WorkersError(
            f"{other} must be number {rank} of {me.size} workers. Got number {theirs.rank} of "
            f"{theirs.size}: pass the same addresses to all workers.", rank, address,
        )  # fmt: skip
    yield me.proof(b"connect", greeting, answer)
    verdict, proof = _VERDICT.unpack((yield _VERDICT.size))
    if verdict == _NOT_WANTED:
        raise WorkersError(
            f"{other} has a connection of worker {me.rank} already: give each worker a rank of "
            "its own.", rank, address,
        )  # fmt: skip
    expected = me.proof(b"accept", greeting, answer)
    if verdict != _WELCOME or not hmac.compare_digest(proof, expected):
        raise WrongTokenError(
            f"{other} has another token: pass the same one to all workers.", rank, address
        )
    return rank, channel


def answer_call(me: Identity, address: str, is_wanted: Callable[[int, int], bool]) -> Conversation:
    """The part of the worker that listens: whoever calls from some address.

    `is_wanted` says whether a rank may still connect for some purpose.
    """
    greeting = yield _GREETING.size
    theirs = Greeting._make(_GREETING.unpack(greeting))
    if theirs.magic != _MAGIC:
        raise StrangeBytesError("its bytes are no greeting", address=address)
    answer = me.greeting(theirs.rank, theirs.channel)
    yield answer
    if theirs.version != VERSION:
        raise WrongVersionError(f"it speaks version {theirs.version}", address=address)
    proof = yield _PROOF
    if not hmac.compare_digest(proof, me.proof(b"connect", greeting, answer)):
        yield _VERDICT.pack(_WRONG_TOKEN, bytes(_PROOF))
        raise WrongTokenError("it has another token", address=address)
    fits = (theirs.partner, theirs.size) == (me.rank, me.size)
    if not fits or not is_wanted(theirs.rank, theirs.channel):
        yield _VERDICT.pack(_NOT_WANTED, bytes(_PROOF))
        raise WorkersError(f"it says that it is worker {theirs.rank}", address=address)
    yield _VERDICT.pack(_WELCOME, me.proof(b"accept", greeting, answer))
    return theirs.rank, theirs.channel

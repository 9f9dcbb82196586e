"""Workers that talk over TCP: every one is connected with every other one."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.peers import MOST_DIRECT
from rankgrove.distributed.collectives import (
    DOUBLING,
    FOLD_IN,
    FOLD_OUT,
    Folding,
    Reduction,
    max_keys,
    values_of_keys,
)
from rankgrove.distributed.links import Numbers
from rankgrove.distributed.mesh import NOTHING, Mesh, Traffic
from rankgrove.distributed.wire import NumberType, Operation, start_at
from rankgrove.errors import refusal

_BLOCK = struct.Struct("<IQ")
# Numbers as they are sent.
_SENT = np.dtype("<i8")


def new_token() -> str:
    """A random token that opens the connections between the workers of one run."""
    return secrets.token_hex(32)


class SocketPeers:
    """One of several workers, connected with the others over TCP.

    All workers make the same calls in the same order, from one thread each. After an error between
    workers no more calls can be made: close the connections and connect anew.

    Attributes
    ----------
    rank, size
        Which worker this one is, from 0 on, and how many they are.
    traffic
        What communication has cost so far.

    Examples
    --------
    >>> from rankgrove.distributed import connect, listen
    >>> listener = listen("127.0.0.1")
    >>> addresses = [listener.address]  # those of all workers, in the order of their ranks
    >>> with connect(listener, 0, addresses, new_token()) as peers:
    ...     numbers = np.array([1, 2, 3])
    ...     peers.sum(numbers)
    >>> numbers.tolist()
    [1, 2, 3]
    """

    def __init__(self, mesh: Mesh) -> None:
        self.rank, self.size = mesh.rank, mesh.size
        self._mesh = mesh
        self._reduction = Reduction(mesh)

    @property
    def traffic(self) -> Traffic:
        """What communication has cost so far."""
        return self._mesh.traffic

    def sum(self, numbers: NDArray[np.int64]) -> None:
        """Put in place of whole numbers their sums over all workers, modulo 2^64."""
        self._combine(Operation.SUM, np.add, numbers)

    def max(self, values: NDArray[np.float64]) -> None:
        """Put in place of values the largest of each over all workers; NaN is larger than all."""
        floats = _flat("values", values, np.float64)
        keys = max_keys(floats)
        start = self._mesh.begin(Operation.MAX, NumberType.FLOAT64)
        self._reduction.all(start, np.maximum, keys)
        floats[:] = values_of_keys(keys)

    def bitwise_or(self, numbers: NDArray[np.int64]) -> None:
        """Put in place of whole numbers the bits that any worker has set in them."""
        self._combine(Operation.OR, np.bitwise_or, numbers)

    def reduce_scatter(
        self, numbers: NDArray[np.int64], bounds: Sequence[int]
    ) -> NDArray[np.int64]:
        """What the numbers of all other workers for this one come to, modulo 2^64.

        Parameters
        ----------
        numbers
            Those of this worker for the others; what is in them afterwards is undefined.
        bounds
            Part r, that for worker r, is `numbers[bounds[r]:bounds[r + 1]]`; it may be empty. The
            part of this worker may hold anything: its own numbers are not added.

        Returns
        -------
        numpy.ndarray
            A view of this worker's part of `numbers` where their byte order allows.
        """
        whole = _flat("numbers", numbers, np.int64)
        edges = list(bounds)
        if (
            len(edges) != self.size + 1
            or (edges[0], edges[-1]) != (0, len(whole))
            or edges != sorted(edges)
        ):
            raise refusal(
                "bounds", f"be {self.size + 1} rising places from 0 to {len(whole)}", edges
            )
        start = self._mesh.begin(Operation.REDUCE_SCATTER, NumberType.INT64)
        work = whole.astype(_SENT, copy=False)
        return self._reduction.scatter(start, work, edges).astype(np.int64, copy=False)

    def scatter(self, messages: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """What all other workers have for this one, in the order of their ranks.

        Parameters
        ----------
        messages
            Numbers for each worker, of any length; those for this one are not read.

        Returns
        -------
        list
            Arrays that hold until the next call.
        """
        if len(messages) != self.size:
            raise refusal("messages", f"be {self.size}, one for each worker", len(messages))
        others = self._mesh.others
        bodies = [
            _flat("messages", messages[rank], np.int64).astype(_SENT, copy=False) for rank in others
        ]
        start = self._mesh.begin(Operation.SCATTER, NumberType.INT64)
        received = self._mesh.exchange(start, others, bodies, [None] * len(others))
        return [np.frombuffer(each, _SENT).astype(np.int64, copy=False) for each in received]

    def gather(self, message: bytes, lengths: Sequence[int] | None = None) -> list[bytes]:
        """The messages of all workers, in the order of their ranks.

        Their lengths, if all workers know those of all, spare a worker to ask for each twice.
        """
        start = self._mesh.begin(Operation.GATHER, NumberType.BYTES)
        if self.size > MOST_DIRECT:
            messages = {self.rank: bytes(message)}
            self._gather_by_doubling(start, messages)
            return [messages[rank] for rank in range(self.size)]
        others = self._mesh.others
        targets: list[Numbers | None] = [None] * len(others)
        if lengths is not None:
            targets = [memoryview(bytearray(lengths[rank])) for rank in others]
        bodies = [memoryview(message)] * len(others)
        every = [bytes(each) for each in self._mesh.exchange(start, others, bodies, targets)]
        every.insert(self.rank, bytes(message))
        return every

    def broadcast(self, message: bytes | None, root: int) -> bytes:
        """The message of one worker, on all workers; the others pass None."""
        if not 0 <= root < self.size:
            raise refusal("root", f"be a rank from 0 to {self.size - 1}", root)
        if self.rank == root and message is None:
            raise refusal("message", "be bytes on the worker that sends it", message)
        start = self._mesh.begin(Operation.BROADCAST, NumberType.BYTES)
        # A tree in which a worker's distance from the root says who its parent is: the distance
        # without its lowest bit.
        distance = (self.rank - root) % self.size
        lowest = distance & -distance if distance else 1 << self.size.bit_length()
        received = bytes(message or b"")
        if distance:
            parent = (distance - lowest + root) % self.size
            received = bytes(self._mesh.exchange(start, (parent,), (NOTHING,), (None,))[0])
        children = []
        while lowest := lowest >> 1:
            if distance + lowest < self.size:
                children.append((distance + lowest + root) % self.size)
        if children:
            n = len(children)
            self._mesh.exchange(start, children, [memoryview(received)] * n, [NOTHING] * n)
        return received

    def abort(self, message: str) -> None:
        """Tell all workers that this one has failed: their calls raise it, with its rank."""
        self._mesh.abort(message)

    def close(self) -> None:
        """Close all connections."""
        self._mesh.close()

    def __enter__(self) -> SocketPeers:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _: object) -> None:
        if error is not None:
            self.abort(f"{kind.__name__}: {error}")
        self.close()

    def _combine(self, operation: Operation, combine: np.ufunc, numbers: Any) -> None:
        whole = _flat("numbers", numbers, np.int64)
        work = whole.astype(_SENT, copy=False)
        self._reduction.all(self._mesh.begin(operation, NumberType.INT64), combine, work)
        if work is not whole:
            whole[:] = work

    def _gather_by_doubling(self, start: bytes, messages: dict[int, bytes]) -> None:
        folding = Folding(self.rank, self.size)
        if folding.is_pair:
            give = folding.is_folded
            self._swap(start, FOLD_IN, folding.neighbour, messages if give else {}, messages)
        if not folding.is_folded:
            for step, partner in enumerate(folding.partners()):
                self._swap(start, DOUBLING + step, partner, messages, messages)
        if folding.is_pair:
            give = not folding.is_folded
            self._swap(start, FOLD_OUT, folding.neighbour, messages if give else {}, messages)

    def _swap(
        self,
        start: bytes,
        step: int,
        partner: int,
        sent: dict[int, bytes],
        messages: dict[int, bytes],
    ) -> None:
        """Send messages of several workers, and add to them those that come."""
        body = memoryview(pack_blocks(sent))
        start = start_at(start, step)
        (received,) = self._mesh.exchange(start, (partner,), (body,), (None,))
        messages |= unpack_blocks(bytes(received))


def pack_blocks(messages: dict[int, bytes]) -> bytes:
    """Messages of several workers in one: rank, length and bytes of each."""
    parts = [_BLOCK.pack(rank, len(each)) + each for rank, each in sorted(messages.items())]
    return b"".join(parts)


def unpack_blocks(body: bytes) -> dict[int, bytes]:
    """The messages that are in one."""
    messages, place = {}, 0
    while place < len(body):
        rank, length = _BLOCK.unpack_from(body, place)
        place += _BLOCK.size + length
        messages[rank] = body[place - length : place]
    return messages


def _flat(name: str, array: Any, number_type: type) -> NDArray[Any]:
    """An array of 8-byte numbers, of either byte order, as one row over the same memory."""
    if not isinstance(array, np.ndarray):
        raise refusal(name, f"be an array of {number_type.__name__}", got=type(array).__name__)
    if array.dtype != number_type and array.dtype.newbyteorder() != number_type:
        raise refusal(name, f"be an array of {number_type.__name__}", got=str(array.dtype))
    if not array.flags.carray:
        raise refusal(name, "be contiguous and writeable", got="a view or a constant")
    return array if array.ndim == 1 else array.reshape(-1)

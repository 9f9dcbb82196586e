"""What the worker processes of `benchmarks.distributed` do; it is imported there, by name.

Processor times are those of the thread that trains: a worker has one. Communication is all that
workers alone would not have to do: packing, sending, waiting and unpacking.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import make_rows
from benchmarks.worker_bytes import Call, narrow_bytes_of
from rankgrove._jit.peers import ALONE, Peers
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.shard import Shard
from rankgrove.distributed import connect, listen
from rankgrove.distributed.addresses import Listener
from rankgrove.training.trees import start_trees
from rankgrove.trees.exchange import Exchange
from rankgrove.trees.team import Growing

Whole = NDArray[np.int64]
# Trees before the clock starts: kernels are loaded, memory is touched.
WARM_UP = 2

_listeners: dict[str, Listener] = {}
_parts: dict[tuple[int, int], Dataset] = {}


def open_port(token: str) -> str:
    """Open a port for a run: its address."""
    _listeners[token] = listen("127.0.0.1")
    return _listeners[token].address


def processor_seconds() -> float:
    """Of this process, all threads."""
    return time.process_time()


def part_of(part: int, rows: int, n_features: int, most_rows: int) -> Dataset:
    """The first rows, to within half a query, of a partition, which is made once."""
    if (part, n_features) not in _parts:
        _parts.clear()
        _parts[part, n_features] = make_rows(most_rows, n_features, seed=part)
    data = _parts[part, n_features]
    n_queries = int(np.abs(data.offsets - rows).argmin())
    offsets = data.offsets[: n_queries + 1]
    end = int(offsets[-1])
    return Dataset(data.features[:end], data.labels[:end], offsets, data.query_ids[:n_queries])


class Recorder:
    """The workers, with note of the calls and of the processor time in them."""

    def __init__(self, peers: Peers) -> None:
        self.peers, self.rank, self.size = peers, peers.rank, peers.size
        self.clear()

    def clear(self) -> None:
        """Forget what was noted."""
        self.calls: list[Call] = []
        self.seconds = 0.0

    def sum(self, numbers: Whole) -> None:
        self._call("sum", numbers.nbytes, numbers)

    def max(self, values: NDArray[np.float64]) -> None:
        self._call("max", values.nbytes, values)

    def reduce_scatter(self, numbers: Whole, bounds: Sequence[int]) -> Whole:
        sums: Whole = self._call("reduce_scatter", numbers.nbytes, numbers, bounds)
        return sums

    def scatter(self, messages: Sequence[Whole]) -> list[Whole]:
        n_bytes = sum(each.nbytes for rank, each in enumerate(messages) if rank != self.rank)
        received: list[Whole] = self._call("scatter", n_bytes, messages)
        return received

    def gather(self, message: bytes, lengths: Sequence[int] | None = None) -> list[bytes]:
        messages: list[bytes] = self._call("gather", len(message), message, lengths)
        return messages

    def _call(self, name: str, n_bytes: int, *arguments: Any) -> Any:
        self.calls.append((name, [n_bytes]))
        before = time.thread_time()
        result = getattr(self.peers, name)(*arguments)
        self.seconds += time.thread_time() - before
        return result


class TimedExchange:
    """Adds up the processor time of what growers do around their calls: packing and unpacking."""

    def __init__(self, recorder: Recorder) -> None:
        self.seconds, self._recorder, self._run = 0.0, recorder, Exchange.run

    def __enter__(self) -> TimedExchange:
        timer, recorder, run = self, self._recorder, self._run

        def timed(exchange: Exchange, state: Growing) -> None:
            before = time.thread_time() - recorder.seconds
            run(exchange, state)
            timer.seconds += time.thread_time() - recorder.seconds - before

        Exchange.run = timed  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Exchange.run = self._run  # type: ignore[method-assign]


class Silent:
    """Workers that say nothing: what a worker does for them, without a network.

    It is the last of them, which always owns a block of features.
    """

    def __init__(self, size: int) -> None:
        self.rank, self.size = size - 1, size

    def sum(self, numbers: Whole) -> None:
        pass

    def max(self, values: NDArray[np.float64]) -> None:
        pass

    def reduce_scatter(self, numbers: Whole, bounds: Sequence[int]) -> Whole:
        nothing = numbers[bounds[self.rank] : bounds[self.rank + 1]]
        nothing[:] = 0
        return nothing

    def scatter(self, messages: Sequence[Whole]) -> list[Whole]:
        return [messages[0][:0]] * (self.size - 1)

    def gather(self, message: bytes, lengths: Sequence[int] | None = None) -> list[bytes]:
        return [message]


def shard_of(data: Dataset, peers: Peers, *, alone: bool = False) -> Shard:
    """The place of this worker's queries behind those of the workers before it."""
    n_queries, n_rows = np.zeros(peers.size, np.int64), np.zeros(peers.size, np.int64)
    n_queries[peers.rank], n_rows[peers.rank] = data.n_queries, data.n_documents
    if not alone:
        peers.sum(n_queries)
        peers.sum(n_rows)
    numbers = n_queries[: peers.rank].sum() + np.arange(data.n_queries)
    places = n_rows[: peers.rank].sum() + data.offsets[:-1]
    return Shard(data.offsets, numbers, places, int(n_queries.sum()), int(n_rows.sum()), peers)


def grow_trees(
    data: Dataset,
    peers: Any,
    parameters: dict[str, Any],
    trees: int,
    begin: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Train on the rows of this worker: for each tree its processor and wall time, and its calls.

    The bytes sent are those of all trees after the first ones. Processes that train beside each
    other `begin` their clocks together, and train one tree more, so that none is alone at the end.
    """
    recorder = Recorder(peers)
    shard = shard_of(data, recorder, alone=isinstance(peers, Silent))
    own = Dataset(data.features, data.labels, data.offsets, data.query_ids, shard=shard)
    n_trees = WARM_UP + trees + (begin is not None)
    trainer = start_trees(own, {}, Parameters(n_estimators=n_trees, **parameters), n_jobs=1).trainer
    records, traffic = [], getattr(peers, "traffic", None)
    sent = 0
    with TimedExchange(recorder) as timer:
        for tree in range(n_trees):
            if tree == WARM_UP and traffic is not None:
                sent = peers.traffic.bytes_sent
            if tree == WARM_UP and begin is not None:
                begin()
            recorder.clear()
            timer.seconds = 0.0
            wall, processor = time.perf_counter(), time.thread_time()
            trainer.step()
            records.append(
                {
                    "wall": time.perf_counter() - wall,
                    "processor": time.thread_time() - processor,
                    "packing": timer.seconds,
                    "talking": recorder.seconds,
                    "calls": recorder.calls,
                }
            )
            trainer.keep(None)  # type: ignore[arg-type]
    sent = 0 if traffic is None else peers.traffic.bytes_sent - sent
    matrix = trainer.matrix  # type: ignore[attr-defined]
    used = (matrix.features.reshape(-1, 16) >= 0).sum(axis=1)
    return {
        "rows": data.n_documents,
        "trees": records[WARM_UP : WARM_UP + trees],
        "sent": sent,
        "cells": int(((matrix.block_bins + 1) * used).sum()),
        "narrow bytes": narrow_bytes_of(matrix.block_bins, used),
        "blocks": matrix.n_blocks,
    }


def train(
    rank: int,
    addresses: Sequence[str],
    token: str,
    data: tuple[int, int, int],
    parameters: dict[str, Any],
    trees: int,
) -> dict[str, Any]:
    """Train as one of several workers; `data` is rows, features and the most rows of a part."""
    own = part_of(rank, *data)
    if len(addresses) == 1:
        _listeners.pop(token).close()
        return grow_trees(own, ALONE, parameters, trees)
    with connect(_listeners.pop(token), rank, addresses, token) as peers:
        return grow_trees(own, peers, parameters, trees)


def train_silently(
    rank: int,
    addresses: Sequence[str],
    token: str,
    size: int,
    data: tuple[int, int, int],
    parameters: dict[str, Any],
    trees: int,
) -> dict[str, Any]:
    """Train as the last of workers that say nothing, beside other processes that do the same.

    Processes are connected only to begin together.
    """
    own = part_of(rank, *data)
    with connect(_listeners.pop(token), rank, addresses, token) as processes:
        return grow_trees(
            own, Silent(size) if size > 1 else ALONE, parameters, trees,
            begin=lambda: processes.sum(np.zeros(1, dtype=np.int64)),
        )  # fmt: skip


def measure_calls(
    rank: int, addresses: Sequence[str], token: str, n_bytes: int, rounds: int
) -> dict[str, float]:
    """Seconds of a small gather and of a large scatter: processor time and, at best, wall time.

    As in training, workers come to a call at different times and from other work, so that some wait
    and caches hold other things: processor time is the median.
    """
    names = ("processor small", "processor large", "wall small", "wall large")
    times: dict[str, list[float]] = {name: [] for name in names}
    rng, other_work = np.random.default_rng(rank), np.ones(1 << 20)
    with connect(_listeners.pop(token), rank, addresses, token) as peers:
        bounds = [n_bytes // 8 * each // peers.size for each in range(peers.size + 1)]
        numbers = np.ones(n_bytes // 8, dtype=np.int64)
        parts = [numbers[first:end] for first, end in pairwise(bounds)]
        for _ in range(rounds):
            for name in ("small", "large"):
                other_work[: rng.integers(len(other_work))].sum()
                wall, processor = time.perf_counter(), time.thread_time()
                if name == "small":
                    peers.gather(b"x" * 144)
                else:
                    peers.scatter(parts)
                times[f"processor {name}"].append(time.thread_time() - processor)
                times[f"wall {name}"].append(time.perf_counter() - wall)
    return {
        name: statistics.median(values) if "processor" in name else min(values)
        for name, values in times.items()
    }

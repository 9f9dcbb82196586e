"""The rows that workers have read become one data set, of which each has whole queries.

Every worker learns the queries of all parts, and all come to the same plan: which query has which
number, which rows belong to it, and who has it. Rows of a query that other workers have read are
sent to the one that has its first rows.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.peers import Peers
from rankgrove.data.dataset import Dataset, default_feature_names
from rankgrove.data.queries import SplitQueries, offsets_of, spans
from rankgrove.data.shard import Shard
from rankgrove.errors import DataError, parameter

# What a part may bring besides features and labels: one per row, but for the first, one per query.
_EXTRAS = ("weights", "base_scores", "document_weights")
_BY_ROW = ("features", "labels", "base_scores", "document_weights")

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ReadPart:
    """Rows that this worker has read, and the place of their part among all parts."""

    number: int
    name: str
    data: Dataset | PartRoles
    has_query_ids: bool = True


@dataclass(frozen=True, eq=False)
class PartRoles:
    """What the rows of a part have besides features, as the fields of a Dataset have it."""

    feature_names: tuple[str, ...]
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    base_scores: NDArray[np.float64] | None = None
    document_weights: NDArray[np.float64] | None = None
    features: None = None

    @property
    def group(self) -> NDArray[np.int64]:
        """The rows of each query."""
        return np.diff(self.offsets)


def pack(meta: Any, **arrays: NDArray[Any]) -> bytes:
    """Plain values and arrays as bytes that run no code when they are read.

    The length of a header, the header, and the arrays one after the other.
    """
    shapes = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    header = json.dumps([meta, shapes]).encode()
    bodies = (np.ascontiguousarray(array).tobytes() for array in arrays.values())
    return b"".join([len(header).to_bytes(8, "little"), header, *bodies])


def unpack(message: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """What `pack` has packed.

    >>> unpack(pack({"a": 1}, ids=np.array(["x", "yz"])))
    ({'a': 1}, {'ids': array(['x', 'yz'], dtype='<U2')})
    """
    place = 8 + int.from_bytes(message[:8], "little")
    meta, shapes = json.loads(message[8:place])
    arrays = {}
    for name, kind, shape in shapes:
        dtype = np.dtype(kind)
        count = math.prod(shape)
        # A copy: arrays may be written to, and stand where their type wants them.
        body = message[place : place + count * dtype.itemsize]
        arrays[name] = np.frombuffer(bytearray(body), dtype, count).reshape(shape)
        place += len(body)
    return meta, arrays


@dataclass(frozen=True, eq=False)
class Plan:
    """Which rows of which part are which query's.

    A run is the rows of one query in one part. All arrays have one entry per run, in the order of
    all rows.

    Attributes
    ----------
    numbers
        Of all parts, rising.
    owners
        The worker that has read each part.
    feature_names
        Of all parts.
    extras
        What the parts bring besides features and labels.
    parts, starts, sizes
        The part of each run, its first row in it, and its rows.
    queries
        The number of the query of each run.
    ids
        The id of each run.
    """

    numbers: list[int]
    owners: Whole
    feature_names: tuple[str, ...]
    extras: list[str]
    parts: Whole
    starts: Whole
    sizes: Whole
    queries: Whole
    ids: NDArray[Any]

    @property
    def n_queries(self) -> int:
        return int(self.queries.max()) + 1

    @property
    def query_sizes(self) -> Whole:
        """The rows of each query."""
        return np.bincount(self.queries, self.sizes, self.n_queries).astype(np.int64)

    @property
    def first_runs(self) -> Whole:
        """The first run of each query."""
        return np.unique(self.queries, return_index=True)[1].astype(np.int64)

    @property
    def receivers(self) -> Whole:
        """The worker that each run goes to: the one that has read the first of its query."""
        return self.owners[self.parts[self.first_runs[self.queries]]]

    def place_of(self, number: int) -> int:
        """The place of a part in the order of all parts."""
        return bisect_left(self.numbers, number)

    def first_run(self, part: int) -> int:
        """The first run of a part."""
        return int(np.searchsorted(self.parts, part))

    @property
    def senders(self) -> Whole:
        """The worker that has read each run."""
        return self.owners[self.parts]


def share(
    parts: Iterable[ReadPart],
    peers: Peers,
    *,
    split_queries: SplitQueries = "error",
    absent: float = 0.0,
    sort_queries: bool = False,
) -> Dataset:
    """The queries of this worker, with their place among those of all workers.

    Parameters
    ----------
    parts
        What this worker has read; may be none.
    split_queries
        What to do where the rows of a query are not together. Those at the end of one part and the
        beginning of the next are.
    absent
        What a feature is that LETOR text of a part does not reach, but that of another does.
    sort_queries
        Whether the order of queries is that of their ids, whatever that of the parts.
    """
    mine = sorted(parts, key=lambda part: part.number)
    plan = make_plan(exchange_headers(mine, peers), split_queries, sort_queries)
    sources = {plan.place_of(part.number): RowArrays.of(part.data) for part in mine}
    mine.clear()
    shares = Shares(plan, peers)
    features = np.empty((shares.n_rows, len(plan.feature_names)), dtype=np.float32)
    target = shares.make_target(features)
    received = exchange_rows(plan, sources, peers)
    for part in sorted(sources):
        # What has been copied is let go: there is never room for all rows twice.
        shares.put_part(target, part, sources.pop(part), absent)
    shares.put_received(target, received, absent)
    return Dataset(features, feature_names=plan.feature_names, **shares.fields_of(target))


class Shares:
    """Which rows a worker is to have, and where each of them goes."""

    def __init__(self, plan: Plan, peers: Peers) -> None:
        self._plan = plan
        self._runs = np.flatnonzero(plan.receivers == peers.rank)
        self.shard = _shard_of(plan, self._runs, peers)
        self._places = _target_places(plan, self._runs)

    @property
    def n_rows(self) -> int:
        return int(self.shard.offsets[-1])

    def make_target(self, features: NDArray[Any]) -> RowArrays:
        """Room for all rows, with the room for their features that there is."""
        names = [name for name in self._plan.extras if name != "weights"]
        arrays = {"features": features, "labels": np.empty(self.n_rows, dtype=np.float32)}
        weights = np.empty(len(self._runs)) if "weights" in self._plan.extras else None
        return RowArrays(arrays | {name: np.empty(self.n_rows) for name in names}, weights)

    def rows_of(self, part: int, n_rows: int) -> Whole:
        """The row of this worker that each row of a part becomes; -1 for those of others."""
        rows = np.full(n_rows, -1, dtype=np.int64)
        runs = self._runs[self._plan.parts[self._runs] == part]
        places, sizes = self._places_of(runs), self._plan.sizes[runs]
        rows[spans(self._plan.starts[runs], sizes)] = spans(places, sizes)
        return rows

    def put_part(self, target: RowArrays, part: int, rows: RowArrays, absent: float = 0.0) -> None:
        """Copy what this worker keeps of a part that it has read."""
        runs = self._runs[self._plan.parts[self._runs] == part]
        self._put(
            target, rows, runs, self._plan.starts[runs], runs - self._plan.first_run(part), absent
        )

    def put_received(
        self, target: RowArrays, received: Iterable[tuple[RowArrays, Whole]], absent: float = 0.0
    ) -> None:
        """Copy what others have read."""
        for rows, runs in received:
            starts = offsets_of(self._plan.sizes[runs])[:-1]
            self._put(target, rows, runs, starts, np.arange(len(runs)), absent)

    def _put(
        self, target: RowArrays, rows: RowArrays, runs: Whole, starts: Whole, numbers: Whole,
        absent: float,
    ) -> None:  # fmt: skip
        """Copy runs, which begin at some rows and have some numbers among the runs of these."""
        sizes = self._plan.sizes[runs]
        target.put(rows, spans(starts, sizes), spans(self._places_of(runs), sizes), absent)
        if target.run_weights is not None and rows.run_weights is not None:
            target.run_weights[np.searchsorted(self._runs, runs)] = rows.run_weights[numbers]

    def _places_of(self, runs: Whole) -> Whole:
        return self._places[np.searchsorted(self._runs, runs)]

    def fields_of(self, target: RowArrays) -> dict[str, Any]:
        """The fields of a Dataset, but for its features."""
        plan, first = self._plan, self._plan.first_runs[self.shard.numbers]
        weights = None
        if target.run_weights is not None:
            weights = target.run_weights[np.searchsorted(self._runs, first)]
            of_query = np.searchsorted(self.shard.numbers, plan.queries[self._runs])
            differing = np.flatnonzero(weights[of_query] != target.run_weights)
            if len(differing):
                query = plan.ids[self._runs[differing[0]]].item()
                raise DataError(
                    f"the weight of query {query!r} must be the same in all of its rows. Got two."
                )
        by_row = {name: values for name, values in target.arrays.items() if name != "features"}
        return by_row | {
            "offsets": self.shard.offsets, "query_ids": plan.ids[first], "weights": weights,
            "shard": self.shard,
        }  # fmt: skip


def make_plan(
    headers: Sequence[tuple[Any, dict[str, Any]]], split_queries: str, sort_queries: bool = False
) -> Plan:
    """The plan of parts of which headers tell, in the order of the parts."""
    metas = [meta for meta, _ in headers]
    if not metas:
        raise DataError("the data must have at least one row. Got none.")
    names = _common_features(metas)
    for meta in metas:
        if meta["extras"] != metas[0]["extras"]:
            raise DataError(
                f"{meta['name']} and {metas[0]['name']} must have the same columns. Got "
                f"{', '.join(meta['extras']) or 'no weights'} and "
                f"{', '.join(metas[0]['extras']) or 'no weights'}."
            )
    sizes = np.concatenate([arrays["sizes"] for _, arrays in headers])
    counts = [len(arrays["sizes"]) for _, arrays in headers]
    parts = np.repeat(np.arange(len(metas)), counts)
    starts = np.concatenate([offsets_of(arrays["sizes"])[:-1] for _, arrays in headers])
    ids = _common_ids([arrays["ids"] for _, arrays in headers])
    has_ids = np.repeat([meta["has_query_ids"] for meta in metas], counts)
    first = _first_runs(ids, has_ids)
    if split_queries == "error":
        _refuse_split(ids, first, parts, metas)
    keys = ids if sort_queries else first
    queries = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    owners = np.array([meta["rank"] for meta in metas], dtype=np.int64)
    return Plan(
        [meta["number"] for meta in metas], owners, names, metas[0]["extras"], parts, starts, sizes,
        queries, ids,
    )  # fmt: skip


def exchange_headers(
    mine: Sequence[ReadPart], peers: Peers
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What is to be known of all parts, in their order."""
    metas, arrays = [], {}
    for place, part in enumerate(mine):
        data = part.data
        metas.append({
            "number": part.number, "name": part.name, "rank": peers.rank,
            "has_query_ids": part.has_query_ids, "features": list(data.feature_names),
            "extras": [name for name in _EXTRAS if getattr(data, name) is not None],
        })  # fmt: skip
        arrays[f"sizes{place}"] = data.group
        arrays[f"ids{place}"] = plain_ids(data.query_ids)
    headers = []
    for message in peers.gather(pack(metas, **arrays)):
        told, columns = unpack(message)
        for place, meta in enumerate(told):
            parts = {name: columns[f"{name}{place}"] for name in ("sizes", "ids")}
            headers.append((meta, parts))
    return sorted(headers, key=lambda header: header[0]["number"])


def plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Query ids as whole numbers, or as texts.

    >>> plain_ids(np.array(["a", 7], dtype=object)).tolist()
    ['a', '7']
    """
    if ids.dtype.kind in "iu" and ids.dtype != np.uint64:
        return ids.astype(np.int64)
    return np.array([str(id_) for id_ in ids.tolist()], dtype=np.str_)


def _common_ids(several: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if all(ids.dtype.kind == "i" for ids in several):
        return np.concatenate(several)
    return np.concatenate([ids.astype(np.str_) for ids in several])


def _first_runs(ids: NDArray[Any], has_ids: NDArray[np.bool_]) -> Whole:
    """For each run, the first one with the same id: itself, if it is the only one."""
    first = np.arange(len(ids), dtype=np.int64)
    with_ids = np.flatnonzero(has_ids)
    if len(with_ids):
        _, index, inverse = np.unique(ids[with_ids], return_index=True, return_inverse=True)
        first[with_ids] = with_ids[index[inverse]]
    return first


def _refuse_split(ids: NDArray[Any], first: Whole, parts: Whole, metas: Sequence[Any]) -> None:
    """Refuse a query that comes again after another one."""
    again = np.flatnonzero(first[1:] != np.arange(1, len(first))) + 1
    split = again[first[again] != first[again - 1]]
    if len(split):
        run = int(split[0])
        places = [metas[parts[place]]["name"] for place in (int(first[run]), run)]
        raise DataError(
            f"query {ids[run].item()!r} must be in one part of the data, or in parts that follow "
            f"each other. Got rows of it in {places[0]} and {places[1]}: sort by query when "
            f"writing, or pass {parameter('split_queries', 'group')}, which sends its rows to one "
            f"worker."
        )


def _common_features(metas: Sequence[Any]) -> tuple[str, ...]:
    """The features of all parts: those of the widest, where they are numbered."""
    names = max((meta["features"] for meta in metas), key=len)
    numbered = list(default_feature_names(len(names))) == names
    for meta in metas:
        got = meta["features"]
        if got == names or (numbered and got == names[: len(got)]):
            continue
        pairs = zip(names, got, strict=False)
        other = next((pair for pair in pairs if pair[0] != pair[1]), None)
        words = f"{len(got)} of them" if other is None else f"{other[1]!r} in place of {other[0]!r}"
        widest = next(each["name"] for each in metas if each["features"] == names)
        raise DataError(
            f"{meta['name']}: must have the {len(names)} features of {widest} in the same order. "
            f"Got {words}."
        )
    return tuple(names)


def _shard_of(plan: Plan, wanted: Whole, peers: Peers) -> Shard:
    sizes = plan.query_sizes
    numbers = np.unique(plan.queries[wanted]).astype(np.int64)
    places = offsets_of(sizes)
    return Shard(
        offsets_of(sizes[numbers]), numbers, places[:-1][numbers], plan.n_queries,
        int(places[-1]), peers,
    )  # fmt: skip


def _target_places(plan: Plan, wanted: Whole) -> Whole:
    """The row of this worker's data at which each wanted run begins."""
    order = np.argsort(plan.queries[wanted], kind="stable")
    starts = np.empty(len(wanted), dtype=np.int64)
    starts[order] = offsets_of(plan.sizes[wanted][order])[:-1]
    return starts


class RowArrays:
    """Arrays with one entry per row, and the weight of each run, if there are some."""

    def __init__(self, arrays: dict[str, NDArray[Any]], run_weights: NDArray[Any] | None) -> None:
        self.arrays, self.run_weights = arrays, run_weights

    @classmethod
    def of(cls, data: Dataset | PartRoles) -> RowArrays:
        arrays = {name: getattr(data, name) for name in _BY_ROW}
        present = {name: array for name, array in arrays.items() if array is not None}
        return cls(present, data.weights)

    def take(self, rows: Whole, run_numbers: Whole) -> dict[str, NDArray[Any]]:
        """Copies of some rows and the weights of their runs, for a message."""
        taken = {name: np.asarray(array[rows]) for name, array in self.arrays.items()}
        if self.run_weights is not None:
            taken["run_weights"] = self.run_weights[run_numbers]
        return taken

    def put(self, others: RowArrays, source: Whole, target: Whole, absent: float) -> None:
        """Copy some of other rows, which may have fewer features."""
        for name, array in others.arrays.items():
            if name != "features":
                self.arrays[name][target] = array[source]
                continue
            width = array.shape[1]
            self.arrays[name][target, :width] = array[source]
            self.arrays[name][target, width:] = absent


def exchange_rows(
    plan: Plan, sources: dict[int, RowArrays], peers: Peers
) -> list[tuple[RowArrays, Whole]]:
    """The runs that others have read and this worker needs; each worker is served in its turn."""
    receivers, senders = plan.receivers, plan.senders
    moving = receivers != senders
    received: list[tuple[RowArrays, Whole]] = []
    for rank in np.unique(receivers[moving]).tolist():
        messages = []
        mine = np.flatnonzero(moving & (receivers == rank) & (senders == peers.rank))
        for part in np.unique(plan.parts[mine]).tolist():
            runs = mine[plan.parts[mine] == part]
            rows = spans(plan.starts[runs], plan.sizes[runs])
            taken = sources[part].take(rows, runs - plan.first_run(part))
            messages.append(pack(None, runs=runs, **taken))
        for bundle in peers.gather(_join(messages)):
            if rank == peers.rank:
                received += [_unpack_rows(message) for message in _split(bundle)]
    return received


def _unpack_rows(message: bytes) -> tuple[RowArrays, Whole]:
    _, arrays = unpack(message)
    runs, weights = arrays.pop("runs"), arrays.pop("run_weights", None)
    return RowArrays(arrays, weights), runs


def _join(messages: Sequence[bytes]) -> bytes:
    lengths = np.array([len(messages), *map(len, messages)], dtype="<i8")
    return lengths.tobytes() + b"".join(messages)


def _split(bundle: bytes) -> list[bytes]:
    count = int(np.frombuffer(bundle, "<i8", 1)[0])
    bounds = offsets_of(np.frombuffer(bundle, "<i8", count, 8)) + 8 * (count + 1)
    return [bundle[first:end] for first, end in pairwise(bounds.tolist())]

"""Parts of files become the binned data of a worker, block by block.

Features are never in memory all at once, on no worker: parts are read for what rows have besides
features and for what bins are found from, all workers find the same bins, and parts are read again
for their codes, which go to their place at once. Only rows of queries at the border of two workers
are sent, as codes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.peers import Peers
from rankgrove.boosting.bin_files import (
    ROLE_BYTES,
    SummaryOfBlocks,
    bins_of,
    encode_block,
)
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.blocks import Blocks, Roles, UnforeseenError
from rankgrove.data.dataset import default_feature_names
from rankgrove.data.documents import feature_numbers
from rankgrove.data.letor_blocks import LetorSource
from rankgrove.data.memory import available_memory, check_memory
from rankgrove.distributed.parts import Part, check_width, refuse_levels
from rankgrove.distributed.sharing import (
    PartRoles,
    ReadPart,
    RowArrays,
    Shares,
    Whole,
    exchange_headers,
    exchange_rows,
    make_plan,
)
from rankgrove.errors import DataError, ParameterError, parameter
from rankgrove.trees.binned_data import BinnedData, Cutting
from rankgrove.trees.binning import BinnedMatrix, Bins, padded_width
from rankgrove.trees.summary import SAMPLE_ROWS, Summary

_MORE_MEMORY = "add workers, or give them more memory"
_SORT = f"Sort by query when writing, or pass {parameter('split_queries', 'group')}."


class _OpenPart(NamedTuple):
    """A part, its rows, and the number of the first one among all rows."""

    part: Part
    blocks: Blocks
    first_row: int


def bin_parts(
    parts: Sequence[Part],
    peers: Peers,
    options: Mapping[str, Any],
    parameters: Parameters,
    *,
    like: BinnedData | None = None,
    name: str = "",
    n_jobs: int | None = None,
    watch: Callable[[], None] = lambda: None,
) -> BinnedData:
    """The queries of this worker, in bins, with their place among those of all workers.

    Parameters
    ----------
    parts
        The files that this worker reads; may be none.
    options
        Those of `read_data`; queries at the borders of parts are brought together, all other split
        queries refused.
    parameters
        How features are cut.
    like, name
        Training data, whose bins and features to take, and a name: for validation sets.
    watch
        Called before each block; what it raises ends the work.
    """
    if parameters.categorical and not any(part.is_letor for part in parts):
        options = {**options, "categorical": parameters.categorical}
    reading = _Reading(parts, peers, options, like, n_jobs, watch)
    if like is not None:
        check_width(name, len(reading.feature_names), like.n_features)
    width = padded_width(len(reading.feature_names))
    sample = 0 if like is not None else 8 * min(reading.n_rows, SAMPLE_ROWS) * width
    own = sum(each.blocks.n_rows for each in reading.parts)
    check_memory(ROLE_BYTES * own + max(sample, own * width), available_memory(), _MORE_MEMORY)
    chosen = reading.numbers_of("categorical", parameters.categorical or ())
    seed = None if like is not None else parameters.random_state
    roles, summary = reading.gather(chosen, seed)
    if like is None:
        whole = summary.of_all(peers)
        bins = bins_of(whole, reading.feature_names, parameters.max_bins, n_jobs)
        cutting = Cutting(parameters.max_bins, tuple(chosen), parameters.random_state)
        del whole
    else:
        bins, cutting = like.bins, like.cutting
    del summary
    codes, checksum, fields = reading.encode(roles, bins)
    return BinnedData(
        matrix=BinnedMatrix.of(codes, bins), bins=bins, cutting=cutting, checksum=checksum,
        feature_names=reading.feature_names, **fields,
    )  # fmt: skip


class _Reading:
    """The parts of this worker, which are read as often as needed.

    Attributes
    ----------
    parts
        Those of this worker.
    feature_names, n_rows
        Of the data of all workers.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        peers: Peers,
        options: Mapping[str, Any],
        like: BinnedData | None,
        n_jobs: int | None,
        watch: Callable[[], None],
    ) -> None:
        self._peers, self._n_jobs, self._watch = peers, n_jobs, watch
        self._options = {name: value for name, value in options.items() if value is not None}
        self.feature_names: tuple[str, ...] = ()
        if like is not None and not any(part.is_letor for part in parts):
            # Of a table the columns of the training data, in their order.
            self._options["features"] = list(like.feature_names)
        ordered = sorted(parts, key=lambda part: part.number)
        self.parts = [_OpenPart(part, self._open(part), 0) for part in ordered]
        self._agree()

    def _open(self, part: Part) -> Blocks:
        self._watch()
        if part.place is None:
            raise DataError(f"{part.name}: must be a file to be read in blocks. Got a frame.")
        blocks = Blocks([part.place], n_jobs=self._n_jobs, **self._options)
        refuse_levels(blocks.source.coded_names, part.name)
        return blocks

    def _agree(self) -> None:
        """Learn the features of all parts, and the number of the first row of each."""
        told = [
            {
                "number": part.number, "name": part.name, "rows": blocks.n_rows,
                "features": blocks.feature_names,
                "seen": blocks.source.seen if isinstance(blocks.source, LetorSource) else None,
            }
            for part, blocks, _ in self.parts
        ]  # fmt: skip
        everybodys = self._peers.gather(json.dumps(told).encode())
        tales = sorted(
            (tale for message in everybodys for tale in json.loads(message)),
            key=lambda tale: tale["number"],
        )
        self.n_rows = sum(tale["rows"] for tale in tales)
        if not self.n_rows:
            raise DataError("the data must have at least one row. Got none.")
        if tales[0]["seen"] is None:
            self._agree_on_columns(tales)
        else:
            self._agree_on_indices(tales)
        rows = {tale["number"]: tale["rows"] for tale in tales}
        ends = np.cumsum(list(rows.values())).tolist()
        first = dict(zip(rows, [0, *ends], strict=False))
        self.parts = [each._replace(first_row=first[each.part.number]) for each in self.parts]

    def _agree_on_columns(self, tales: Sequence[Mapping[str, Any]]) -> None:
        """The columns are those of the first part, in its order."""
        names = tuple(tales[0]["features"])
        for place, (part, blocks, _) in enumerate(self.parts):
            odd = set(blocks.feature_names) ^ set(names)
            if odd:
                raise DataError(
                    f"{part.name}: must have the features of {tales[0]['name']}. Got a "
                    f"difference: {min(odd)!r}."
                )
            if blocks.feature_names != names:
                self._options["features"] = list(names)
                self.parts[place] = self.parts[place]._replace(blocks=self._open(part))
        self.feature_names = names

    def _agree_on_indices(self, tales: Sequence[Mapping[str, Any]]) -> None:
        """The index 0 in any text counts for all, and so does the highest."""
        base = min(tale["seen"][0] for tale in tales)
        end = max(tale["seen"][1] for tale in tales)
        for each in self.parts:
            if isinstance(each.blocks.source, LetorSource):
                each.blocks.source.foresee(base, end)
        if "n_features" in self._options or "feature_names" in self._options:
            self.feature_names = tuple(tales[0]["features"])
        else:
            self.feature_names = default_feature_names(end - base)

    def numbers_of(self, name: str, features: Collection[Any]) -> list[int]:
        """The numbers of the features that a parameter names, rising."""
        try:
            return sorted(feature_numbers(name, features, self.feature_names))
        except ParameterError:
            # First lines of a text may not show all that there are.
            self._learn()
            return sorted(feature_numbers(name, features, self.feature_names))

    def _learn(self) -> None:
        for each in self.parts:
            each.blocks.source.learn()
        self._agree()

    def gather(
        self, categorical: Sequence[int], seed: int | None
    ) -> tuple[list[ReadPart], Summary]:
        """What rows have besides features and, with a seed, what bins are found from."""
        while True:
            unforeseen: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
            try:
                gathered = self._gather(categorical, seed)
            except UnforeseenError:
                unforeseen[0] = 1
            self._peers.sum(unforeseen)
            if not unforeseen[0]:
                return gathered
            self._learn()

    def _gather(
        self, categorical: Sequence[int], seed: int | None
    ) -> tuple[list[ReadPart], Summary]:
        names = self.feature_names
        stretches = [(first_row, blocks.n_rows) for _, blocks, first_row in self.parts]
        summary = SummaryOfBlocks(len(names), stretches, self.n_rows, categorical, seed)
        read: list[ReadPart] = []
        for part, blocks, first_row in self.parts:
            roles = Roles(blocks, _SORT)
            for first, block in blocks.read(with_roles=True):
                self._watch()
                roles.add(first, block)
                if seed is not None:
                    summary.add(first_row + first, block.features, self._n_jobs)
            if blocks.n_rows:
                data = PartRoles(names, **roles.fields())
                read.append(ReadPart(part.number, part.name, data, part.has_query_ids))
        return read, summary.summary

    def encode(
        self, read: list[ReadPart], bins: Bins
    ) -> tuple[NDArray[np.uint8], int, dict[str, Any]]:
        """The codes of the rows that this worker is to have, their checksum, and other fields.

        The checksum is of the rows that it reads: all are added up over workers.
        """
        plan = make_plan(exchange_headers(read, self._peers), "error")
        shares, total = Shares(plan, self._peers), 0
        codes = np.empty((shares.n_rows, padded_width(len(bins.n_bins))), dtype=np.uint8)
        target, leaving = shares.make_target(codes), dict[int, RowArrays]()
        roles = {part.number: RowArrays.of(part.data) for part in read}
        read.clear()
        for part, blocks, first_row in self.parts:
            if not blocks.n_rows:
                continue
            place, of_part = plan.place_of(part.number), roles.pop(part.number)
            shares.put_part(target, place, of_part)
            rows = shares.rows_of(place, blocks.n_rows)
            moved: list[NDArray[np.uint8]] = []
            for first, block in blocks.read():
                self._watch()
                encoded, checksum = encode_block(
                    block.features, first_row + first, bins, self._n_jobs
                )
                total += checksum
                here = rows[first : first + len(encoded)]
                codes[here[here >= 0]] = encoded[here >= 0]
                moved.append(encoded[here < 0])
            leaving[place] = _LeavingRows(of_part, np.flatnonzero(rows < 0), moved)
        shares.put_received(target, exchange_rows(plan, leaving, self._peers))
        return codes, total % (1 << 64), shares.fields_of(target)


class _LeavingRows(RowArrays):
    """The rows of a part that go to other workers."""

    def __init__(self, rows: RowArrays, numbers: Whole, codes: list[NDArray[np.uint8]]) -> None:
        arrays = {name: values[numbers] for name, values in rows.arrays.items()}
        super().__init__(arrays | {"features": np.concatenate(codes)}, rows.run_weights)
        self._numbers = numbers

    def take(self, rows: Whole, run_numbers: Whole) -> dict[str, NDArray[Any]]:
        return super().take(np.searchsorted(self._numbers, rows), run_numbers)

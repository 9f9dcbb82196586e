"""LETOR text, many files of it, read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import resolve_n_jobs
from rankgrove.data.blocks import Block, UnforeseenError
from rankgrove.data.documents import default_feature_names
from rankgrove.data.files import BESIDE, is_letor, numbers_beside
from rankgrove.data.letor import (
    as_query_ids,
    check_choice,
    file_beside,
    queries_of_sizes,
    read_sizes,
    width_of,
)
from rankgrove.data.letor_reader import ABSENT, CHUNK_BYTES, LetorOptions, LetorReader
from rankgrove.data.letor_text import count_rows
from rankgrove.data.levels import Levels
from rankgrove.data.places import Place
from rankgrove.data.streams import LineReader, open_for_reading
from rankgrove.errors import DataError, ParseError, parameter

_BLOCK_ROWS = 1 << 14


class LetorSource:
    """Files of LETOR text as one text. The columns are those that its first lines show, at first.

    Rows are counted, and the first lines looked at, before anything is parsed. `learn` parses all.
    """

    def __init__(
        self,
        places: list[Place],
        block_rows: int | None,
        n_jobs: int | None,
        options: dict[str, Any],
    ) -> None:
        self.places, self._block_rows = places, block_rows or _BLOCK_ROWS
        remote = [place.name for place in places if place.filesystem is not None]
        if remote:
            raise DataError(
                f"{remote[0]}: LETOR text must be a file of this machine. Got a URI: copy the "
                f"file, or write it as Parquet."
            )
        is_letor(places[0].path, options)
        self._beside = {name: options.pop(name, None) for name in BESIDE}
        group = options.pop("group", None)
        if group is not None and len(places) > 1:
            raise DataError(
                f"{parameter('group')} must be about one file. Got {len(places)}: put FILE.query "
                f"beside each."
            )
        beside = (file_beside(place.path, ".query") for place in places)
        self._sizes = [file if group is None else group for file in beside]
        self._offsets: dict[int, NDArray[np.int64]] = {}
        self._given = LetorOptions(**options)
        check_choice("index_base", self._given.index_base, ("auto", 0, 1))
        check_choice("absent", self._given.absent, tuple(ABSENT))
        self._given = self._given._replace(
            n_features=width_of(self._given), n_jobs=resolve_n_jobs(n_jobs)
        )
        self._base = 0 if self._given.index_base == 0 else 1
        self._end = self._base
        self.n_rows = [self._count(place) for place in places]
        for number, place in enumerate(places):
            # Some lines of a file may all be comments; of a whole file that is an error.
            if self.n_rows[number] or place.span is None:
                self._see(next(self._blocks(number, least_rows=1)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = self._given.feature_names
        return default_feature_names(self._width) if names is None else tuple(names)

    @property
    def _width(self) -> int:
        given = self._given.n_features
        return self._end - self._base if given is None else given

    @property
    def seen(self) -> tuple[int, int]:
        """The index that features count from, and the one after the last, as far as is known."""
        return self._base, self._end

    def foresee(self, base: int, end: int) -> None:
        """Expect the columns that others have seen, too."""
        self._base, self._end = min(self._base, base), max(self._end, end)

    def learn(self) -> None:
        for number in range(len(self.places)):
            for seen in self._blocks(number):
                self._see(seen)

    def read(self, number: int, with_roles: bool) -> Iterator[Block]:
        if not self.n_rows[number]:
            return
        sizes, at = self._starts(number), 0
        for reader, parsed in self._blocks(number):
            if reader.base != self._base or reader.rows.width > self._width:
                raise UnforeseenError
            ids, starts = parsed.run_ids, parsed.run_starts[:, 0]
            if not ids:
                if sizes is None:
                    raise DataError(
                        f"{self.places[number].name}: must have query ids, or sizes beside it."
                    )
                here = (sizes >= at) & (sizes < at + len(parsed.labels))
                starts = sizes[here] - at
                # Numbers count over all files, so that no two queries become one.
                ids = np.flatnonzero(here) + self._ahead(number)
            at += len(parsed.labels)
            yield Block(parsed.features, {"labels": parsed.labels}, ids, starts)

    def join_ids(self, parts: list[Any]) -> NDArray[Any]:
        if all(isinstance(part, list) for part in parts):
            return as_query_ids([id_ for part in parts for id_ in part])
        if any(isinstance(part, list) for part in parts):
            raise DataError("all files must have query ids, or none. Got some of both kinds.")
        return np.concatenate(parts)

    @property
    def coded_names(self) -> list[str]:
        return []

    @property
    def levels(self) -> dict[int, Levels]:
        return {}

    def more_fields(self) -> dict[str, NDArray[Any]]:
        return {
            f"{name}s": np.concatenate([numbers_beside(p.path, name, place) for p in self.places])
            for name, place in self._beside.items()
            if place is not None
        }

    def _starts(self, number: int) -> NDArray[np.int64] | None:
        """Where queries start, by the sizes that stand beside a file."""
        given = self._sizes[number]
        if given is None:
            return None
        if number not in self._offsets:
            file = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
            sizes = given if file is None else read_sizes(file)
            self._offsets[number] = queries_of_sizes(sizes, self.n_rows[number], file).offsets
        return self._offsets[number][:-1]

    def _ahead(self, number: int) -> int:
        return sum(len(starts) for k in range(number) if (starts := self._starts(k)) is not None)

    def _blocks(
        self, number: int, least_rows: int | None = None
    ) -> Iterator[tuple[LetorReader, Any]]:
        # An index 0 that was seen in any file counts for all of them.
        options = self._given if self._base else self._given._replace(index_base=0)
        with_qid = 1 if self._sizes[number] is None else -1
        place = self.places[number]
        with open_for_reading(place.path, place.span) as source:
            reader = LetorReader(source, options, with_qid)
            if self._given.n_features is None:
                reader.rows.widen(0, self._width, 0, self._width)
            try:
                for parsed in reader.blocks(least_rows or self._block_rows):
                    yield reader, parsed
            except ParseError as error:
                if place.span is None:
                    raise
                line = error.line + _lines_before(place.path, place.span[0])
                raise ParseError(error.problem, place.path, line, error.column) from None

    def _see(self, seen: tuple[LetorReader, Any]) -> None:
        reader = seen[0]
        self._base = min(self._base, reader.base)
        self._end = max(self._end, reader.end_index)

    def _count(self, place: Place) -> int:
        n_rows = 0
        with open_for_reading(place.path, place.span) as source:
            lines = LineReader(source, CHUNK_BYTES)
            while (chunk := lines.next_chunk()) is not None:
                buffer, size = chunk
                text: NDArray[np.uint8] = np.frombuffer(buffer, dtype=np.uint8)
                text.flags.writeable = False
                n_rows += int(count_rows(text, size)[1])
                del text
                lines.release(buffer)
        return n_rows


def _lines_before(path: str, end: int) -> int:
    """The lines of a file before one of its bytes."""
    with open_for_reading(path, (0, end)) as source:
        blocks = iter(lambda: source.stream.read(CHUNK_BYTES), b"")
        return sum(block.count(b"\n") for block in blocks)

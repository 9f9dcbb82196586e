"""Files read block by block, as often as needed: data that need not fit into memory.

`Blocks` are the rows of one file or many, one after the other. A query may go on in the next block
or file; if it comes back later, that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import arranged
from rankgrove.data.files import StrPath, format_of
from rankgrove.data.levels import Levels
from rankgrove.data.places import Place, find_files
from rankgrove.data.queries import queries_from_runs
from rankgrove.errors import DataError, ParameterError, parameter

# What a reader of blocks has no use for: order and ids of documents are not kept.
_IGNORED = ("document_ids", "document_id")


class Block(NamedTuple):
    """Some rows that follow each other.

    Attributes
    ----------
    features
        float32, in memory that the next block may use again.
    fields
        What else is asked for, by field of Dataset, one entry per row.
    run_ids, run_starts
        The query ids in the order of rows, one per run of rows of one id, and where each starts.
    """

    features: NDArray[np.float32]
    fields: dict[str, NDArray[Any]]
    run_ids: Any
    run_starts: NDArray[np.int64]


class Source(Protocol):
    """The files of one format.

    Attributes
    ----------
    places
        The files.
    n_rows
        The rows of each.
    feature_names
        The same for all of them.
    """

    places: list[Place]
    n_rows: list[int]

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    def read(self, number: int, with_roles: bool) -> Iterator[Block]:
        """The blocks of a file; without roles, of features only."""

    def join_ids(self, parts: list[Any]) -> NDArray[Any]:
        """The query ids of all runs."""

    def more_fields(self) -> dict[str, NDArray[Any]]:
        """What stands in files beside: one entry per row, or per query."""

    def learn(self) -> None:
        """Look through all files for what the first lines did not show."""

    @property
    def coded_names(self) -> list[str]:
        """The features whose values are categories other than numbers."""

    @property
    def levels(self) -> dict[int, Levels]:
        """The levels of such features, by number."""


class UnforeseenError(Exception):
    """A file has columns that its first lines did not show: learn, and read again."""


class Blocks:
    """The rows of files, in blocks.

    Parameters
    ----------
    paths
        A path, a pattern as `train/*.parquet`, a URI as `s3://bucket/train/*.parquet`, or several;
        places may be among them. All files must be of one format.
    block_rows
        About how many rows a block has; by default what keeps memory low and time short.
    options
        As for `read_data`, but for document ids.
    """

    def __init__(
        self,
        paths: StrPath | Sequence[StrPath | Place],
        *,
        block_rows: int | None = None,
        n_jobs: int | None = None,
        **options: Any,
    ) -> None:
        if options.pop("split_queries", None) not in (None, "error"):
            raise ParameterError(
                f"{parameter('split_queries')} must be 'error' where files are read in blocks. Got "
                f"another: sort the rows by query id when they are written."
            )
        for name in _IGNORED:
            options.pop(name, None)
        places = find_files(paths)
        formats = {format_of(place.path) for place in places}
        if len(formats) > 1:
            raise DataError(f"files must be of one format. Got {', '.join(sorted(formats))}.")
        self.source = _open_source(formats.pop(), places, block_rows, n_jobs, options)

    @property
    def n_rows(self) -> int:
        return sum(self.source.n_rows)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.source.feature_names

    def read(self, *, with_roles: bool = False) -> Iterator[tuple[int, Block]]:
        """All blocks, each with the number of its first row."""
        first = 0
        for number, place in enumerate(self.source.places):
            start = first
            for block in self.source.read(number, with_roles):
                yield first, block
                first += len(block.features)
            if first - start != self.source.n_rows[number]:
                raise DataError(
                    f"{place.name}: must stay as it is while it is read. Got {first - start} rows "
                    f"in place of {self.source.n_rows[number]}."
                )

    def file_of(self, row: int) -> str:
        """The name of the file that a row is in."""
        ends = np.cumsum(self.source.n_rows)
        return self.source.places[int(np.searchsorted(ends, row, side="right"))].name


class Roles:
    """What rows have besides features, gathered block by block.

    `advice` says what to do about a query whose rows are not together.
    """

    def __init__(
        self,
        blocks: Blocks,
        advice: str = "Sort the rows by query id when they are written, and name the files in that "
        "order.",
    ) -> None:
        self._blocks, self._advice = blocks, advice
        self._fields: dict[str, list[NDArray[Any]]] = {}
        self._ids: list[Any] = []
        self._starts = [np.empty(0, dtype=np.int64)]

    def add(self, first_row: int, block: Block) -> None:
        for name, values in block.fields.items():
            self._fields.setdefault(name, []).append(values)
        self._ids.append(block.run_ids)
        self._starts.append(block.run_starts + first_row)

    def fields(self) -> dict[str, Any]:
        """The fields of a Dataset, but for its features."""
        source, n_rows = self._blocks.source, self._blocks.n_rows
        ids, starts = source.join_ids(self._ids), np.concatenate(self._starts)
        changes = np.append(True, ids[1:] != ids[:-1])
        ids, starts = ids[changes], starts[changes]

        def refuse(first: int, again: int) -> NoReturn:
            files = [self._blocks.file_of(int(starts[run])) for run in (first, again)]
            raise DataError(
                f"the rows of a query must be together. Got query {ids[again]!s} from row "
                f"{starts[first]} on ({files[0]}) and again from row {starts[again]} on "
                f"({files[1]}; rows of all files count from 0). {self._advice}"
            )

        queries = queries_from_runs(ids, starts, n_rows, refuse)
        given = {name: np.concatenate(values) for name, values in self._fields.items()}
        self._fields.clear()
        fields = arranged(queries, **given | source.more_fields())
        return {"offsets": queries.offsets, "query_ids": queries.ids, **fields}


def _open_source(
    kind: str,
    places: list[Place],
    block_rows: int | None,
    n_jobs: int | None,
    options: dict[str, Any],
) -> Source:
    if kind == "letor":
        from rankgrove.data.letor_blocks import LetorSource  # noqa: PLC0415 (one of the two)

        return LetorSource(places, block_rows, n_jobs, options)
    from rankgrove.data.table_blocks import TableSource  # noqa: PLC0415 (one of the two)

    return TableSource(kind, places, block_rows, options)

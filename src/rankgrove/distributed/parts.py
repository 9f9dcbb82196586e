"""Parts of data: files, row groups of Parquet files and partitions of frames, and who reads them.

The order of all rows is that of the parts: files in the order of their names, rows as they stand.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankgrove.data.dataset import Dataset
from rankgrove.data.files import format_of, read_data
from rankgrove.data.frames import from_frame
from rankgrove.data.letor import file_beside
from rankgrove.errors import DataError, ParseError, need_extra, refusal, refuse_repeats

StrPath = str | os.PathLike[str]

# What says that a text counts its features from 0, where one looks for the first index.
_COUNTS_FROM_ZERO = "a feature index must be at least 1"


@dataclass(frozen=True)
class Part:
    """Rows that one worker reads.

    Attributes
    ----------
    number
        Its place in the order of all rows.
    name
        What to call it in messages.
    size
        Rows or bytes, by which parts are dealt out.
    path, row_group
        A file; of a Parquet file, one of its row groups.
    frame
        Or a data frame.
    """

    number: int
    name: str
    size: int
    path: str | None = None
    row_group: int | None = None
    frame: Any = None

    @property
    def is_letor(self) -> bool:
        """Whether it is LETOR text."""
        return self.path is not None and format_of(self.path) == "letor"

    @property
    def has_query_ids(self) -> bool:
        """Whether its queries have ids; those of a file of sizes beside LETOR text have none."""
        return not (self.is_letor and file_beside(str(self.path), ".query"))

    def read(self, options: Mapping[str, Any]) -> Dataset:
        """Its rows; what is wrong with them is an error that names it."""
        if self.frame is None and self.row_group is None:
            return read_data(str(self.path), **options)
        table = self.frame if self.row_group is None else self._read_row_group()
        chosen = {name: value for name, value in options.items() if name != "n_jobs"}
        try:
            return from_frame(table, **chosen)
        except DataError as error:
            raise DataError(f"{self.name}: {error.marked}") from None

    def _read_row_group(self) -> Any:
        parquet = _import_parquet()
        try:
            with parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
                return file.read_row_group(self.row_group)
        except (OSError, ValueError) as error:
            problem = " ".join(str(error).split()).rstrip(".")
            raise DataError(f"{self.name}: must be sound. Got: {problem}.") from error


def list_parts(patterns: Sequence[StrPath]) -> list[Part]:
    """The parts of files, in the order of their names; a pattern may stand for several."""
    paths = [path for pattern in patterns for path in _files_of(os.fspath(pattern))]
    refuse_repeats("paths", paths)
    parts: list[Part] = []
    for path in sorted(paths):
        if format_of(path) != "parquet":
            parts.append(Part(len(parts), path, os.path.getsize(path), path))
            continue
        for group, n_rows in enumerate(_row_groups(path)):
            if n_rows:
                name = f"{path} (row group {group})"
                parts.append(Part(len(parts), name, n_rows, path, group))
    if not parts:
        raise DataError(f"{paths[0]}: must have at least one row. Got none.")
    if len({part.row_group is None for part in parts}) > 1:
        raise refusal("paths", "be of one format", got="Parquet and others")
    return parts


def _files_of(pattern: str) -> list[str]:
    if "://" in pattern:
        raise refusal("paths", "be files that every worker can open", pattern)
    if os.path.isfile(pattern):
        return [pattern]
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    if not found:
        what = "a directory" if os.path.isdir(pattern) else "no such file on the workers"
        raise DataError(f"{pattern}: must be a data file, or a pattern of some. Got {what}.")
    return found


def _row_groups(path: str) -> list[int]:
    """The rows of each row group of a Parquet file."""
    parquet = _import_parquet()
    try:
        footer = parquet.read_metadata(path)
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{path}: must be a sound parquet file. Got: {problem}.") from error
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def _import_parquet() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise need_extra("pyarrow", "frames", "reading Parquet files") from error
    return pyarrow.parquet


def deal_parts(sizes: Sequence[int], n_workers: int) -> list[int]:
    """The worker of each part: neighbours stay together, and all get about as much.

    >>> deal_parts([10, 10, 10, 10], 2), deal_parts([5, 90, 5], 4)
    ([0, 0, 1, 1], [0, 2, 3])
    """
    total, before, workers = max(sum(sizes), 1), 0, []
    for size in sizes:
        workers.append(min((2 * before + size) * n_workers // (2 * total), n_workers - 1))
        before += size
    return workers


def read_parts(
    parts: Iterable[Part], options: Mapping[str, Any], *, several: bool, from_zero: bool
) -> tuple[list[tuple[Part, Dataset]], bool]:
    """The rows of parts, and whether LETOR text among them counts features from 0.

    Where several texts leave open what they count from, the index 0 in any of them decides for
    all: `from_zero` says that it was seen.
    """
    open_base = several and options.get("index_base", "auto") == "auto"
    rows: list[tuple[Part, Dataset]] = []
    for part in parts:
        chosen = dict(options)
        if part.is_letor and open_base:
            chosen["index_base"] = 0 if from_zero else 1
        try:
            rows.append((part, part.read(chosen)))
        except ParseError as error:
            if not (open_base and part.is_letor and _COUNTS_FROM_ZERO in str(error)):
                raise
            # Those that were read are read again: their features are one further to the right.
            from_zero = True
            again, _ = read_parts(
                [*(read for read, _ in rows), part], options, several=several, from_zero=True
            )
            rows = again
    return rows, from_zero

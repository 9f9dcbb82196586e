"""Parts of data: some rows of files and partitions of frames, and who reads them.

The order of all rows is that of the parts: files in the order of their names, rows as they stand.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rankgrove.data.blocks import Blocks, Roles, UnforeseenError
from rankgrove.data.dataset import Dataset
from rankgrove.data.files import BESIDE, format_of, read_data
from rankgrove.data.frames import from_frame
from rankgrove.data.letor import file_beside
from rankgrove.data.places import Place, find_files
from rankgrove.data.streams import format_and_compression, is_compressed
from rankgrove.errors import (
    DataError,
    ParseError,
    need_extra,
    parameter,
    refusal,
    refuse_repeats,
)

StrPath = str | os.PathLike[str]

# What says that a text counts its features from 0, where one looks for the first index.
_COUNTS_FROM_ZERO = "a feature index must be at least 1"

# Text is divided into so many parts for each worker, but into none of fewer bytes: a part costs
# some milliseconds.
_PARTS_PER_WORKER = 4
LEAST_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20


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
    place
        A file, or some of its rows.
    frame
        Or a data frame.
    """

    number: int
    name: str
    size: int
    place: Place | None = None
    frame: Any = None

    @property
    def is_letor(self) -> bool:
        """Whether it is LETOR text."""
        return self.place is not None and format_of(self.place.path) == "letor"

    @property
    def has_query_ids(self) -> bool:
        """Whether its queries have ids; those of a file of sizes beside LETOR text have none."""
        return not (self.place and self.is_letor and file_beside(self.place.path, ".query"))

    def read(self, options: Mapping[str, Any]) -> Dataset | None:
        """Its rows, if it has any; what is wrong with them is an error that names it."""
        if self.place is not None and self.place.span is not None:
            return _read_span(self.place, options)
        if self.place is not None and self.place.row_group is None:
            return without_levels(read_data(self.place.path, **options), self.name)
        table = self.frame if self.place is None else _read_row_group(self.place)
        chosen = {name: value for name, value in options.items() if name != "n_jobs"}
        try:
            return without_levels(from_frame(table, **chosen), self.name)
        except DataError as error:
            raise DataError(f"{self.name}: {error.marked}") from None


def without_levels(data: Dataset, place: str) -> Dataset:
    """The data, whose features must be numbers."""
    refuse_levels(list(data.levels_by_name), place)
    return data


def refuse_levels(names: Sequence[str], place: str) -> None:
    """Refuse columns of categories that are no numbers: workers do not know each other's."""
    if names:
        raise DataError(
            f"{place}: categories must be whole numbers for workers. Got {names[0]!r} with "
            f"others: write its codes in place of it, or work in one process."
        )


def _read_span(place: Place, options: Mapping[str, Any]) -> Dataset | None:
    """Some lines of a text."""
    blocks = Blocks([place], **options)
    refuse_levels(blocks.source.coded_names, place.name)
    if not blocks.n_rows:
        return None  # comments
    try:
        return _read_all(blocks)
    except UnforeseenError:
        blocks.source.learn()
        return _read_all(blocks)


def _read_all(blocks: Blocks) -> Dataset:
    features = np.empty((blocks.n_rows, len(blocks.feature_names)), dtype=np.float32)
    roles = Roles(blocks)
    for first, block in blocks.read(with_roles=True):
        features[first : first + len(block.features)] = block.features
        roles.add(first, block)
    return Dataset(features, feature_names=blocks.feature_names, **roles.fields())


def _read_row_group(place: Place) -> Any:
    try:
        with _import_parquet().ParquetFile(
            place.path, filesystem=place.filesystem, page_checksum_verification=True
        ) as file:
            return file.read_row_group(place.row_group)
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{place.name}: must be sound. Got: {problem}.") from error


def list_parts(
    patterns: Sequence[StrPath],
    options: Mapping[str, Any] | None = None,
    *,
    n_workers: int = 1,
    least_bytes: int = LEAST_BYTES,
) -> list[Part]:
    """The parts of files, in the order of their names; a pattern may stand for several.

    Parameters
    ----------
    patterns
        Paths, patterns and URIs.
    options
        How the files are read.
    n_workers, least_bytes
        Text is divided into several parts for each worker, if each has so many bytes.
    """
    files = [place for pattern in patterns for place in _files_of(os.fspath(pattern))]
    refuse_repeats("paths", [place.name for place in files])
    files.sort(key=lambda place: place.name)
    formats = {format_of(place.path) for place in files}
    if len(formats) > 1:
        raise refusal("paths", "be of one format", got=" and ".join(sorted(formats)))
    sized = (
        _row_groups(files)
        if "parquet" in formats
        else _texts(files, options or {}, n_workers, least_bytes)
    )
    parts = [Part(number, place.name, size, place) for number, (place, size) in enumerate(sized)]
    if not parts:
        raise DataError(f"{files[0].name}: must have at least one row. Got none.")
    return parts


def _files_of(pattern: str) -> list[Place]:
    if "://" in pattern:
        return find_files(pattern)
    if os.path.isfile(pattern):
        return [Place(pattern, pattern)]
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    if not found:
        what = "a directory" if os.path.isdir(pattern) else "no such file on the workers"
        raise DataError(f"{pattern}: must be a data file, or a pattern of some. Got {what}.")
    return [Place(path, path) for path in found]


def _row_groups(files: Sequence[Place]) -> Iterator[tuple[Place, int]]:
    """The row groups of Parquet files that have rows, each with their number."""
    parquet = _import_parquet()
    for place in files:
        try:
            footer = parquet.read_metadata(place.path, filesystem=place.filesystem)
        except (OSError, ValueError) as error:
            problem = " ".join(str(error).split()).rstrip(".")
            raise DataError(
                f"{place.name}: must be a sound parquet file. Got: {problem}."
            ) from error
        for group in range(footer.num_row_groups):
            if n_rows := footer.row_group(group).num_rows:
                name = f"{place.name} (row group {group})"
                yield place._replace(name=name, row_group=group), n_rows


def _texts(
    files: Sequence[Place], options: Mapping[str, Any], n_workers: int, least_bytes: int
) -> Iterator[tuple[Place, int]]:
    """Text files, or lines of them if they are large, each with their bytes."""
    for place in files:
        if place.filesystem is not None:
            raise DataError(
                f"{place.name}: text must be a file that every worker can open. Got a URI: write "
                f"it as Parquet."
            )
    sizes = [os.path.getsize(place.path) for place in files]
    step = max(least_bytes, sum(sizes) // (_PARTS_PER_WORKER * n_workers))
    for place, size in zip(files, sizes, strict=True):
        if size < 2 * step or not _can_be_divided(place.path, options):
            yield place, size
            continue
        starts = _line_starts(place.path, range(step, size - step + 1, step))
        for span in pairwise(sorted({0, *starts, size})):
            # The reader of LETOR text counts lines, and knows their places.
            name = place.name
            if format_of(place.path) != "letor":
                name += f" (bytes {span[0]} to {span[1]})"
            yield place._replace(name=name, span=span), span[1] - span[0]


def _can_be_divided(path: str, options: Mapping[str, Any]) -> bool:
    """Whether the lines of a text can be read without those before them."""
    if options.get("split_queries") == "group":
        return False  # the reader brings rows of one file together
    if format_and_compression(path)[1] or is_compressed(path):
        return False
    beside = any(options.get(name) is not None for name in BESIDE)
    return format_of(path) != "letor" or not (beside or file_beside(path, ".query"))


def _line_starts(path: str, bytes_before: Iterable[int]) -> list[int]:
    """The first line after each of some bytes; line breaks within quotes of a table end none."""
    with_quotes = format_of(path) != "letor"
    starts: list[int] = []
    with open(path, "rb") as file:
        is_quoted = False
        for target in bytes_before:
            if with_quotes:
                while (left := target - file.tell()) > 0:
                    is_quoted ^= file.read(min(left, _BLOCK_BYTES)).count(b'"') % 2 == 1
            else:
                file.seek(target)
            while line := file.readline():
                is_quoted ^= with_quotes and line.count(b'"') % 2 == 1
                if not is_quoted:
                    break
            starts.append(file.tell())
    return starts


def _import_parquet() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise need_extra("pyarrow", "frames", "reading Parquet files") from error
    return pyarrow.parquet


def check_width(name: str, got: int, wanted: int) -> None:
    """Refuse a validation set that has more or fewer features than the training data."""
    if got != wanted:
        raise DataError(
            f"validation set {name!r} must have the {wanted} features of the training data. Got "
            f"{got}: if the last ones are absent from every line, add "
            f"{parameter('n_features', max(got, wanted))}."
        )


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
            if (data := part.read(chosen)) is not None:
                rows.append((part, data))
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

"""Data files by name: the one place that knows which reader or writer a path needs.

Names that end in `.csv`, `.tsv` or `.parquet`, then perhaps in `.gz` or `.zst`, are tables; all
others are LETOR text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import resolve_n_jobs
from rankgrove.data.dataset import Dataset, default_feature_names
from rankgrove.data.frames import read_table, write_table
from rankgrove.data.letor import file_beside, read_letor, write_letor
from rankgrove.data.streams import format_and_compression, read_blocks
from rankgrove.errors import DataError, ParameterError, ParseError, parameter

FileFormat = Literal["letor", "csv", "tsv", "parquet"]
StrPath = str | os.PathLike[str]

_TABLES: dict[str, FileFormat] = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}

# What only one kind of reader takes. A table's document ids are a column with a name.
_LETOR_OPTIONS: tuple[str, ...] = ("index_base", "absent", "n_features", "feature_names")
_TABLE_OPTIONS = ("label", "qid", "document_id", "features", "header", "more_labels")

# What a table has in columns and LETOR text in files beside it; `read_letor` has an s after each.
BESIDE = ("weight", "base_score", "document_weight")
_NOT_IN_LETOR = {"weights": "query weights", "base_scores": "base scores",
                 "document_weights": "document weights"}  # fmt: skip


def format_of(path: StrPath) -> FileFormat:
    """The format that a name means.

    >>> format_of("train.CSV.gz"), format_of("train.txt"), format_of("train")
    ('csv', 'letor', 'letor')
    """
    return _TABLES.get(format_and_compression(path)[0], "letor")


def read_data(path: StrPath, **options: Any) -> Dataset:
    """A Dataset from a file of any format, with the options of `read_letor` or `read_table`.

    Parameters
    ----------
    path
        Its name says the format; see `format_of`.
    options
        `group` may be the path of a file with one number per line for tables, too.
        `document_ids=True` takes the column `document_id` of a table, and all lines of LETOR
        text must have one. `weight`, `base_score` and `document_weight` are columns of a table;
        for LETOR text each is a file with one number per line, or a suffix as ".init": the file of
        the same name with it added. An option that the format has no use for is an error.
    """
    if is_letor(path, options):
        for option in BESIDE:
            if (place := options.pop(option, None)) is not None:
                options[f"{option}s"] = numbers_beside(path, option, place)
        return _with_all_document_ids(path, read_letor(path, **options))
    if isinstance(options.get("group"), (str, os.PathLike)):
        options["group"] = read_numbers(options["group"], "the size of a query")
    if options.pop("document_ids", False):
        options.setdefault("document_id", "document_id")
    return read_table(path, **options)


def write_data(data: Dataset, path: StrPath, **options: Any) -> None:
    """Write a file of the format that its name says; see `format_of` and `losses`.

    `document_ids=False` leaves them out; `n_jobs` is the number of threads; the other options
    are those of `write_letor` or `write_table`, as far as the format has a use for them.
    """
    if is_letor(path, options):
        write_letor(data, path, **options)
        return
    if not options.pop("document_ids", True):
        options["document_id"] = None
    write_table(data, path, **options)


def losses(data: Dataset, path: StrPath) -> list[str]:
    """What the format of a path cannot hold of this data, one sentence each."""
    if format_of(path) != "letor":
        return []
    lost = [
        f"LETOR has no place for {noun}: they are not written."
        for field, noun in _NOT_IN_LETOR.items()
        if getattr(data, field) is not None
    ]
    if data.more_labels:
        names = ", ".join(data.more_labels)
        lost.append(f"LETOR has one label: the others ({names}) are not written.")
    if data.feature_names != default_feature_names(data.n_features):
        names = ", ".join(data.feature_names[:3]) + (", ..." if data.n_features > 3 else "")
        lost.append(f"LETOR has no place for feature names ({names}): they come back as f1, ...")
    if data.levels:
        names = ", ".join(data.levels_by_name)
        lost.append(f"LETOR has no place for categories ({names}): they come back as numbers.")
    return lost


def numbers_beside(path: StrPath, option: str, place: StrPath) -> NDArray[np.float64]:
    """The numbers that belong to the lines of a LETOR file."""
    name, file = os.fspath(path), os.fspath(place)
    if file.startswith(".") and os.sep not in file:
        found = file_beside(name, file)
        if found is None:
            raise DataError(
                f"{parameter(option)} must name a file beside {name}, one number per line. Got no "
                f"file {name}{file}."
            )
        file = found
    return read_numbers(file, f"the {option.replace('_', ' ')}")


def read_numbers(path: StrPath, what: str, advice: str = "") -> NDArray[np.float64]:
    """One number per line, not NaN; gzip and zstd are unpacked.

    Lines that start with # are comments, and blank lines may end the file.

    Parameters
    ----------
    path
        The file.
    what
        What a number is, for messages: "a score".
    advice
        A sentence to add where a line is not a number.
    """
    numbers: list[float] = []
    n_lines = blank = 0
    for text in read_blocks(path):
        first, n_lines = n_lines + 1, n_lines + len(text.splitlines())
        if not blank and (block := _plain_numbers(text)) is not None:
            numbers += block
            continue
        for place, line in enumerate(map(bytes.strip, text.splitlines()), start=first):
            if not line or line.startswith(b"#"):
                blank = blank or (0 if line else place)
                continue
            number = _plain_numbers(line)
            if number is None or blank:
                got = "a blank line" if blank else repr(line[:60].decode(errors="replace"))
                problem = f"each line must be {what}, a number. Got {got}. {advice}".rstrip()
                raise ParseError(problem, os.fspath(path), blank or place, 1)
            numbers += number
    if not numbers:
        raise DataError(f"{os.fspath(path)}: must have {what} in each line. Got no number at all.")
    return np.array(numbers)


def _plain_numbers(text: bytes) -> list[float] | None:
    """The numbers of a text that has one in each line, or None if it is not that simple."""
    if b"_" in text:  # which Python allows in numbers, and nobody else does
        return None
    try:
        numbers = list(map(float, text.splitlines()))
    except ValueError:
        return None
    return None if math.isnan(sum(numbers)) and any(map(math.isnan, numbers)) else numbers


def read_lines(path: StrPath) -> Iterator[bytes]:
    """The lines of a text file, with their ends; gzip and zstd are unpacked."""
    for text in read_blocks(path):
        yield from text.splitlines(keepends=True)


def _with_all_document_ids(path: StrPath, data: Dataset) -> Dataset:
    """Refuse a LETOR file whose lines lack the comments that were to be document ids."""
    if data.document_ids is not None and np.any(data.document_ids == ""):
        row = int((data.document_ids == "").argmax())
        raise DataError(
            f"{os.fspath(path)}: each line must end in a comment, its document id. Got none for "
            f"document {row + 1}: add it, or read without {parameter('document_ids', True)}."
        )
    return data


def is_letor(path: StrPath, options: dict[str, Any]) -> bool:
    """Whether a file is LETOR text; an option that its format has no use for is refused."""
    foreign, place = _LETOR_OPTIONS, "a LETOR file"
    if as_text := format_of(path) == "letor":
        foreign, place = _TABLE_OPTIONS, "a table (.csv, .tsv, .parquet)"
    for name in foreign:
        if options.get(name) is not None:
            raise ParameterError(
                f"{parameter(f'{name}=')} must be used with {place} only. Got it with "
                f"{os.fspath(path)!r}: leave it out."
            )
    if not as_text:
        # A table is read by the threads of another library, but a wrong number is still wrong.
        resolve_n_jobs(options.pop("n_jobs", None))
    return as_text

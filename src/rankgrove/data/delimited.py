"""CSV and TSV text to a pyarrow Table, with types that lose nothing.

Import this only where pyarrow is known to be installed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow

from rankgrove.data.columns import ID_ROLES, ColumnOptions, Columns, too_large
from rankgrove.data.streams import SpanStream
from rankgrove.errors import DataError

_MISSING = ["", "NA", "NaN", "nan", "null", "NULL"]
_NUMBERS = (pa.float32(), pa.bool_())

# The longest line that can be read, some 100,000 columns. Four times this took 5 to 10% longer.
_BLOCK_BYTES = 1 << 20
# What is parsed at once where a file is read batch by batch.
_BATCH_BYTES = 1 << 22


@dataclass(frozen=True)
class DelimitedFile:
    """A text file of columns, or some of its lines, to be parsed as often as its types need."""

    path: Path
    separator: str
    compression: str | None
    header: bool
    span: tuple[int, int] | None = None

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; their numbers from 0 if the file does not name them."""
        with self._open_whole() as stream:
            start = io.BytesIO(stream.read(_BLOCK_BYTES))
        lines = io.TextIOWrapper(start, "utf-8-sig", errors="surrogateescape", newline="")
        try:
            first = next(filter(None, csv.reader(lines, delimiter=self.separator)), None)
        except csv.Error as error:
            raise DataError(f"the first line must name the columns. Got: {error}.") from None
        if first is None:
            raise DataError("must have at least one document. Got empty lines only.")
        if not self.header:
            return [str(number) for number in range(len(first))]
        # Only now must it be UTF-8: other columns, further down, may not be of interest.
        return [name.encode("utf-8", "surrogateescape").decode() for name in first]

    def read(
        self, chosen: list[str], types: dict[str, Any], *, line_breaks: bool = True,
        threads: bool = True,
    ) -> Any:  # fmt: skip
        """The chosen ones of the columns; a type that is not given is inferred.

        `line_breaks` allows them within quotes, and costs a tenth of the time.
        """
        how = arrow.ReadOptions(
            use_threads=threads, column_names=self._names_to_tell, block_size=_BLOCK_BYTES
        )
        convert = arrow.ConvertOptions(
            include_columns=chosen, column_types=types, null_values=_MISSING
        )
        layout = arrow.ParseOptions(delimiter=self.separator, newlines_in_values=line_breaks)
        with self._open() as stream:
            return arrow.read_csv(stream, how, layout, convert)

    def batches(self, chosen: list[str], types: dict[str, Any], line_breaks: bool) -> Any:
        """The chosen ones of the columns, of these types, batch by batch of rows."""
        how = arrow.ReadOptions(column_names=self._names_to_tell, block_size=_BATCH_BYTES)
        convert = arrow.ConvertOptions(
            include_columns=chosen, column_types=types, null_values=_MISSING
        )
        layout = arrow.ParseOptions(delimiter=self.separator, newlines_in_values=line_breaks)
        with self._open() as stream, arrow.open_csv(stream, how, layout, convert) as batches:
            yield from batches

    def text_columns(self, names: Iterable[str]) -> set[str]:
        """Those of the columns that are not all numbers, or true and false."""
        return {name for name in names if not any(map(partial(self._is_all, name), _NUMBERS))}

    def _is_all(self, name: str, type_: Any) -> bool:
        """Whether all of a column can be read as a type."""
        try:
            for _ in self.batches([name], {name: type_}, True):
                pass
        except pa.ArrowInvalid:
            return False
        return True

    @property
    def _names_to_tell(self) -> list[str] | None:
        """The names, where the first line that is read does not say them."""
        says_them = self.header and (self.span is None or self.span[0] == 0)
        return None if says_them else self.names

    def _open(self) -> Any:
        if self.span is None:
            return self._open_whole()
        return pa.PythonFile(SpanStream(open(self.path, "rb"), self.span), mode="r")

    def _open_whole(self) -> Any:
        return pa.input_stream(str(self.path), compression=self.compression)


def read_delimited(file: DelimitedFile, options: ColumnOptions) -> tuple[Any, Columns]:
    """The columns that the options mean, as a pyarrow Table, and which they are.

    Numbers are parsed straight to float32, so that they are rounded once. Columns that are not
    numeric come as what they are, for the caller to refuse all of them at once, and categories
    that are not all numbers as strings.
    """
    columns = options.choose(file.names)
    ids = {name for role, name in columns.roles.items() if role in ID_ROLES}
    texts = ids | set(options.text_columns(columns))
    types = dict.fromkeys(columns.features, pa.float32())
    for role, name in columns.roles.items():
        types[name] = pa.float32() if role == "label" else pa.float64()
    types |= dict.fromkeys(columns.more_labels, pa.float32())
    types |= dict.fromkeys(texts, pa.string())
    try:
        table = file.read(columns.names, types, line_breaks=False)
    except pa.ArrowInvalid:
        texts |= file.text_columns(columns.categorical - texts)
        table = _read_again(file, types | dict.fromkeys(texts, pa.string()), texts)
    refuse_overflow(file, table)
    for name in texts:
        place = table.schema.get_field_index(name)
        change = plain_ids_of if name in ids else empty_as_missing
        table = table.set_column(place, name, change(table[name]))
    return table, columns


def _read_again(file: DelimitedFile, types: dict[str, Any], texts: set[str]) -> Any:
    """Read a file that is not all numbers: find out what its columns are."""
    known = {name: types[name] for name in texts}
    try:
        table = file.read(list(types), known)
    except pa.ArrowInvalid:
        # One thread knows the line at which it fails; several do not.
        table = file.read(list(types), known, threads=False)
    of_type = {name: table.schema.field(name).type for name in types if name not in texts}
    is_bool = {name: type_ for name, type_ in of_type.items() if pa.types.is_boolean(type_)}
    for name, type_ in of_type.items():
        numeric = pa.types.is_integer(type_) or pa.types.is_floating(type_)
        if not (numeric or name in is_bool or pa.types.is_null(type_)):
            return table
    return file.read(list(types), types | is_bool)


def refuse_overflow(file: DelimitedFile, table: Any, first_row: int = 0) -> None:
    """Refuse a finite number past the float32 range, which the parser takes for infinity.

    `first_row` is the number of the first row of the table in the file.
    """
    rows = {}
    for field in table.schema:
        if field.type == pa.float32():
            infinite = pc.is_inf(table[field.name])
            if pc.any(infinite).as_py():
                rows[field.name] = first_row + np.flatnonzero(pc.fill_null(infinite, False))
    if not rows:
        return
    text = file.read(list(rows), dict.fromkeys(rows, pa.string()))
    for name, at in rows.items():
        for row, value in zip(at, text[name].take(at).to_pylist(), strict=True):
            if value.strip().lower().lstrip("+-") not in ("inf", "infinity"):
                raise too_large(name, int(row), value)


def empty_as_missing(column: Any) -> Any:
    """Strings of which the empty one is missing; NA is a string like others."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def plain_ids_of(column: Any) -> Any:
    """Strings as integers if each is written as an integer is; an empty one as missing.

    Not 007 or 1e3: other ids that mean the same number must not become the same query.
    """
    column = empty_as_missing(column)
    try:
        integers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    same = pc.all(pc.equal(integers.cast(pa.string()), column))
    return integers if same.as_py() else column

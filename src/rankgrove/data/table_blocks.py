"""Parquet, CSV and TSV files, many of them, read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.blocks import Block
from rankgrove.data.columns import (
    ROLES,
    ColumnOptions,
    Columns,
    block_rows,
    columns_to_code,
    fill_features,
    role_floats,
    role_ids,
)
from rankgrove.data.files import is_letor
from rankgrove.data.frames import PARQUET, READ_ROWS, SEPARATORS, import_pyarrow, naming_file
from rankgrove.data.levels import Levels, code_column, join_levels, numbers_by
from rankgrove.data.places import Place
from rankgrove.data.streams import format_and_compression
from rankgrove.errors import DataError, parameter

_DEFAULTS = {"label": "label", "qid": "qid"}


class TableSource:
    """Tables of the same columns, one below the other. The first file says which there are."""

    def __init__(
        self, kind: str, places: list[Place], block_rows: int | None, options: dict[str, Any]
    ) -> None:
        self.places, self._kind, self._block_rows = places, kind, block_rows
        self._pa = import_pyarrow("reading CSV and Parquet files")
        is_letor(places[0].path, options)
        self._header = options.pop("header", True)
        names = tuple({**_DEFAULTS, **options}.get(role) for role in ROLES)
        if options.get("group") is not None:
            raise DataError(
                "tables must have a column of query ids to be read in blocks. Got the sizes of "
                "queries: add a column qid."
            )
        if options.get("more_labels") is not None:
            raise DataError(
                f"{parameter('more_labels')} must be used with one table, read at once. Got it for "
                f"data that are read in blocks: leave it out."
            )
        self._options = ColumnOptions(
            names, None, options.get("features"), "error", options.get("categorical")
        )
        self._types: dict[int, tuple[dict[str, Any], bool]] = {}
        self._coded: set[str] | None = None
        self._columns: Columns | None = None
        for number in range(len(places)):
            with self._naming(number):
                self._check(number)
        self.n_rows = [self._count(number) for number in range(len(places))]

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(self._chosen.features)

    @property
    def levels(self) -> dict[int, Levels]:
        return {self._chosen.features.index(name): known for name, known in self._levels.items()}

    @property
    def coded_names(self) -> list[str]:
        return sorted(self._coded or ())

    @cached_property
    def _levels(self) -> dict[str, Levels]:
        """The levels of features by name: as they are given, or all that occur in the files."""
        if isinstance(given := self._options.categorical, Mapping):
            return {name: tuple(levels) for name, levels in given.items()}
        found: dict[str, set[Levels]] = {name: set() for name in self.coded_names}
        for number in range(len(self.places) if found else 0):
            with self._naming(number):
                for batch in self._batches(number, list(found), READ_ROWS):
                    table = self._as_table(batch)
                    for name, parts in found.items():
                        parts.add(code_column(table[name]).levels)
        return {name: join_levels(parts, name) for name, parts in found.items()}

    def _as_table(self, batch: Any) -> Any:
        import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

        return nw.from_native(self._pa.Table.from_batches([batch]))

    @property
    def _chosen(self) -> Columns:
        if self._columns is None:
            raise DataError("columns must be known. Got none.")
        return self._columns

    def learn(self) -> None:
        """There is nothing to learn: a table names its columns."""

    def more_fields(self) -> dict[str, NDArray[Any]]:
        return {}

    def join_ids(self, parts: list[Any]) -> NDArray[Any]:
        ids: NDArray[Any] = np.concatenate(parts)
        if self._kind == "parquet":
            return ids
        from rankgrove.data.delimited import plain_ids_of  # noqa: PLC0415 (needs pyarrow)

        plain = plain_ids_of(self._pa.array(ids, self._pa.string()))
        if plain.null_count:
            raise DataError("the qid column must have no missing entry. Got an empty one.")
        values: NDArray[Any] = plain.to_numpy(zero_copy_only=False)
        return values if values.dtype.kind == "i" else values.astype(str)

    def read(self, number: int, with_roles: bool) -> Iterator[Block]:
        columns = self._chosen
        wanted = columns.names if with_roles else columns.features
        step = self._block_rows or min(READ_ROWS, block_rows(len(columns.features)))
        first = 0
        with self._naming(number):
            for batch in self._batches(number, wanted, step):
                for start in range(0, len(batch), step):
                    part = batch.slice(start, step)
                    yield self._block(self._as_table(part), first, with_roles)
                    first += len(part)
        # What pyarrow keeps for the next file would be missed by the codes.
        self._pa.default_memory_pool().release_unused()

    def _block(self, table: Any, first: int, with_roles: bool) -> Block:
        columns = self._chosen
        coded = {
            name: numbers_by(code_column(table[name]), self._levels.get(name), name)
            for name in self.coded_names
        }
        features = fill_features([table], columns.features, len(table), None, first, coded)
        for place, levels in self.levels.items():
            if (name := columns.features[place]) not in coded:
                features[:, place] = numbers_by(features[:, place], levels, name)
        none = np.empty(0, dtype=np.int64)
        if not with_roles:
            return Block(features, {}, none, none)
        fields = {
            f"{role}s": role_floats(table[name], role, first)
            for role, name in columns.roles.items()
            if role != "qid"
        }
        ids = role_ids(table[columns.roles["qid"]], "qid", first)
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        return Block(features, fields, ids[starts], starts)

    def _check(self, number: int) -> None:
        """Take the columns of the first file, and refuse others in those that follow."""
        empty = self._empty_table(number)
        names = self._open(number).names if empty is None else empty.columns
        columns = self._options.choose(names)
        if "qid" not in columns.roles:
            raise DataError("must have a column of query ids. Got none: name it as qid.")
        if self._columns is None:
            self._columns = columns
        elif set(columns.features) != set(self._columns.features):
            odd = set(columns.features) ^ set(self._columns.features)
            raise DataError(
                f"must have the features of {self.places[0].name}. Got a difference: {min(odd)!r}."
            )
        if empty is not None:
            chosen = columns.features, columns.categorical, self._options.advice
            self._note_coded(columns_to_code(empty, *chosen))

    def _note_coded(self, names: Iterable[str]) -> None:
        """Take the categories of the first file, and refuse others in those that follow."""
        if self._coded is None:
            self._coded = set(names)
        elif odd := self._coded ^ set(names):
            raise DataError(
                f"must have the categories of {self.places[0].name}. Got {min(odd)!r} as numbers "
                f"in one of the two: write it as strings in both."
            )

    def _naming(self, number: int) -> Any:
        return naming_file(self.places[number].name, self._kind, self._pa)

    def _open(self, number: int) -> Any:
        place = self.places[number]
        if place.filesystem is None and not os.path.isfile(place.path):
            raise DataError("must be a file. Got no file there: check the path.")
        if self._kind == "parquet":
            return self._pa.parquet.ParquetFile(place.path, filesystem=place.filesystem, **PARQUET)
        from rankgrove.data.delimited import DelimitedFile  # noqa: PLC0415 (needs pyarrow)

        if place.filesystem is not None:
            raise DataError("must be a file of this machine. Got a URI: write it as Parquet.")
        compression = format_and_compression(place.path)[1]
        return DelimitedFile(
            Path(place.path), SEPARATORS[self._kind], compression, self._header, place.span
        )

    def _empty_table(self, number: int) -> Any:
        """A table without rows, of the types of a Parquet file; None for text, which has none."""
        if self._kind != "parquet":
            return None
        import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

        with self._open(number) as file:
            return nw.from_native(file.schema_arrow.empty_table())

    def _count(self, number: int) -> int:
        with self._naming(number):
            if self._kind == "parquet":
                group = self.places[number].row_group
                with self._open(number) as file:
                    about = file.metadata if group is None else file.metadata.row_group(group)
                    return int(about.num_rows)
            return self._look_through(number)

    def _batches(self, number: int, wanted: list[str], step: int) -> Iterator[Any]:
        if self._kind == "parquet":
            group = self.places[number].row_group
            groups = None if group is None else [group]
            with self._open(number) as file:
                yield from file.iter_batches(step, row_groups=groups, columns=wanted)
            return
        from rankgrove.data.delimited import (  # noqa: PLC0415 (needs pyarrow)
            empty_as_missing,
            refuse_overflow,
        )

        pa, text, first = self._pa, self._open(number), 0
        types, line_breaks = self._types[number]
        for read in text.batches(wanted, {name: types[name] for name in wanted}, line_breaks):
            refuse_overflow(text, pa.Table.from_batches([read]), first)
            batch = read
            for name in set(wanted).intersection(self.coded_names):
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, name, empty_as_missing(batch[name]))
            yield batch
            first += len(batch)

    def _look_through(self, number: int) -> int:
        """Find out what the columns of a text are, and how many rows it has.

        Numbers, or true and false, which must be said. The whole text is looked through: another
        type or a line break within quotes may come late.
        """
        pa, columns, text = self._pa, self._chosen, self._open(number)
        types = dict.fromkeys(columns.features, pa.float32())
        types |= {name: pa.float64() for name in columns.roles.values()}
        types |= {columns.roles["label"]: pa.float32(), columns.roles["qid"]: pa.string()}
        texts = set(self._options.text_columns(columns))
        for line_breaks in (False, True):
            types |= dict.fromkeys(texts, pa.string())
            self._types[number] = (types, line_breaks)
            try:
                n_rows = sum(len(b) for b in text.batches(columns.names, types, line_breaks))
                self._note_coded(texts)
                return n_rows
            except pa.ArrowInvalid:
                texts |= text.text_columns(columns.categorical - texts)
        self._note_coded(texts)
        known = dict.fromkeys({columns.roles["qid"], *texts}, pa.string())
        fields = next(iter(text.batches(columns.names, known, True))).schema
        types |= {field.name: field.type for field in fields if pa.types.is_boolean(field.type)}
        return sum(len(b) for b in text.batches(columns.names, types, True))

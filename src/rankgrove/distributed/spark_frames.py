"""Spark frames as workers get them: the columns that count, rows in order, whole queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
)

from rankgrove.data.columns import ROLES, ColumnOptions
from rankgrove.distributed.spark_worker import SET_COLUMN
from rankgrove.errors import DataError, parameter, unknown_name

# The place of a row in its frame, and the column that rows within a query are sorted by.
_ROW_COLUMN, _ORDER_COLUMN = "__rankgrove_row__", "__rankgrove_order__"

# Which column is what.
READING = (
    "label", "qid", "weight", "base_score", "document_weight", "features", "order",
)  # fmt: skip


def is_frame(data: Any) -> bool:
    return isinstance(data, DataFrame)


@dataclass(frozen=True)
class Rows:
    """The rows of all sets.

    Attributes
    ----------
    frame
        Their columns have plain names, as Spark cannot have just any in a stage of Python workers.
    names
        What the columns are called in the frames that they are of.
    reading
        Which column is what, as options of `from_frame`.
    """

    frame: DataFrame
    names: list[str]
    reading: dict[str, Any]

    def dealt(self, n_workers: int) -> DataFrame:
        """One partition for each worker, of whole queries: by set, query id and order of rows."""
        qid = plain_name(self.names.index(self.reading["qid"]))
        keys = [name for name in (_ORDER_COLUMN, _ROW_COLUMN) if name in self.frame.columns]
        dealt = self.frame.repartition(n_workers, qid)
        return dealt.sortWithinPartitions(SET_COLUMN, qid, *keys).drop(*keys)


def plain_name(number: int) -> str:
    """The name of a column by its place."""
    return f"column_{number}"


def column(name: str) -> Any:
    """A column by its name, whatever characters that has."""
    quoted = name.replace("`", "``")
    return functions.col(f"`{quoted}`")


def gather_rows(frames: Mapping[str, DataFrame], options: Mapping[str, Any]) -> Rows:
    """The rows of several frames, each with the number of its set; columns are checked by type.

    `options` are those of reading. The columns of features are those of the first frame.
    """
    roles = {"label": "label", "qid": "qid", **options}
    order, features = roles.pop("order", None), roles.pop("features", None)
    for set_name, frame in frames.items():
        with _naming(set_name):
            features = _choose_features(frame, roles, features, order)
    names = list(dict.fromkeys([*roles.values(), *features]))
    keys = [roles["qid"], *([order] if order else [])]
    types = _common_types(list(frames.values()), names, keys)
    parts = []
    for number, frame in enumerate(frames.values()):
        columns = [
            column(name).cast(types[name]).alias(plain_name(place))
            for place, name in enumerate(names)
        ]
        if order is not None:
            columns.append(column(order).cast(types[order]).alias(_ORDER_COLUMN))
        columns.append(functions.monotonically_increasing_id().alias(_ROW_COLUMN))
        parts.append(frame.select(*columns, functions.lit(number).alias(SET_COLUMN)))
    return Rows(reduce(DataFrame.union, parts), names, {**roles, "features": features})


def check_numbers(frame: DataFrame, features: Sequence[str]) -> None:
    """Refuse columns of features that are not numbers, all of them in one message."""
    types = {name: frame.schema[name].dataType for name in features}
    bad = [
        f"{name!r} ({kind.simpleString()})" for name, kind in types.items() if not _is_number(kind)
    ]
    if bad:
        raise DataError(
            f"feature columns must be numbers or booleans. Got {', '.join(bad)}: drop or encode "
            f"them, or name the columns to take in {parameter('features=')}."
        )


def _choose_features(
    frame: DataFrame, roles: Mapping[str, str], features: Sequence[str] | None, order: str | None
) -> list[str]:
    """The columns of features, if all columns that are asked for are there and of fitting types."""
    known = frame.columns
    if order is not None and order not in known:
        raise DataError(str(unknown_name("the order column", order, known)))
    if features is None:
        known = [name for name in known if name != order]
    options = ColumnOptions(tuple(roles.get(role) for role in ROLES), None, features, "group")
    chosen = options.choose(known)
    check_numbers(frame, chosen.features)
    for role, name in chosen.roles.items():
        kind = frame.schema[name].dataType
        fits = isinstance(kind, (IntegralType, StringType)) if role == "qid" else _is_number(kind)
        if not fits:
            rule = "whole numbers or texts" if role == "qid" else "numbers"
            raise DataError(
                f"the {role} column {name!r} must hold {rule}. Got {kind.simpleString()}: cast it."
            )
    if not chosen.features:
        raise DataError("data must have at least one column of features. Got none.")
    return chosen.features


@contextmanager
def _naming(set_name: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        place = f"validation set {set_name!r}: " if set_name else ""
        raise DataError(f"{place}{error.marked}") from None


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, (NumericType, BooleanType))


def _common_types(
    frames: Sequence[DataFrame], names: Sequence[str], keys: Sequence[str]
) -> dict[str, DataType]:
    """The type of each column in all frames; rows are sorted by the `keys`."""
    types: dict[str, DataType] = {}
    for name in dict.fromkeys([*names, *keys]):
        several = [frame.schema[name].dataType for frame in frames]
        types[name] = several[0]
        if all(kind == several[0] for kind in several):
            continue
        if all(isinstance(kind, IntegralType) for kind in several):
            types[name] = LongType()
        elif name not in keys:
            types[name] = DoubleType()
        else:
            words = " and ".join(sorted({kind.simpleString() for kind in several}))
            raise DataError(
                f"column {name!r} must be of the same type in all sets. Got {words}: cast it."
            )
    return types

"""The columns of a table: which plays which role, and how they become a Dataset."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.dataset import Dataset, arranged
from rankgrove.data.documents import check_label_name, feature_numbers
from rankgrove.data.levels import CodedColumn, code_column, is_categorical_type
from rankgrove.data.queries import SplitQueries, as_ids, make_queries
from rankgrove.errors import (
    DataError,
    ParameterError,
    parameter,
    refusal,
    refuse_repeats,
    unknown_name,
)

if TYPE_CHECKING:
    import narwhals as nw

# A block of rows is taken out of the table at once, and written tile by tile so that a tile
# stays in the L2 cache: 0.12 to 0.16 s for 200,000 rows of 136 float64 features, against 0.43 to
# 0.45 s when each column is written from top to bottom (medians, two cores).
_BLOCK_ROWS = 1 << 16
_BLOCK_VALUES = 1 << 23
_TILE_ROWS = 1024

# What a column can be besides a feature, in the order in which they are written.
ROLES = ("label", "qid", "weight", "base_score", "document_id", "document_weight")
ID_ROLES = ("qid", "document_id")

NUMBERS_IN_TRAINING = "convert them, as they were numbers in training"

# The name under which pandas stores an index that has none.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Columns:
    """Which column plays which role, which are features, and which of these are categories.

    `more_labels` are columns of further labels.
    """

    roles: dict[str, str]
    features: list[str]
    categorical: frozenset[str] = frozenset()
    more_labels: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Each column once, roles first."""
        return list(dict.fromkeys([*self.role_names, *self.features]))

    @property
    def role_names(self) -> list[str]:
        """The columns that are not features."""
        return [*self.roles.values(), *self.more_labels]


@dataclass(frozen=True)
class ColumnOptions:
    """What `from_frame` and `read_table` are told about the columns.

    `names` are those of the columns that play the `ROLES`, None where none plays it. `categorical`
    are features by name or number, or a mapping with the levels of each. `more_labels` are columns
    of further labels.
    """

    names: tuple[str | None, ...]
    group: ArrayLike | None
    features: Sequence[str] | None
    split_queries: SplitQueries
    categorical: Collection[Any] | None = None
    more_labels: Sequence[str] | None = None

    def choose(self, names: Sequence[str]) -> Columns:
        """The columns these options mean, out of those there are."""
        refuse_repeats("column names", names, "Rename or drop one.")
        roles = self._roles(names)
        more_labels = self._more_labels(roles)
        features = self.features
        if isinstance(features, str):
            raise ParameterError(f"features must be a list of names. Got {features!r}.")
        if features is None:
            taken = {*roles.values(), *more_labels}
            features = [n for n in names if n not in taken and not _PANDAS_INDEX.fullmatch(n)]
        labelled = [("more_labels", name) for name in more_labels]
        for role, name in [*roles.items(), *labelled, *(("feature", name) for name in features)]:
            if name not in names:
                raise DataError(str(unknown_name(f"the {role} column", name, names)))
        barred = [(role, roles[role]) for role in ("label", "qid") if role in roles]
        for role, name in [*barred, *labelled]:
            if name in features:
                raise DataError(
                    f"features must not hold the {role} column. Got {name!r} among them."
                )
        chosen = frozenset(
            features[n] for n in feature_numbers("categorical", self.categorical or (), features)
        )
        return Columns(roles, list(features), chosen, more_labels)

    def _more_labels(self, roles: Mapping[str, str]) -> tuple[str, ...]:
        """The columns of further labels, which play no other role."""
        if isinstance(self.more_labels, str):
            raise refusal("more_labels", "be a list of columns", self.more_labels)
        refuse_repeats(f"columns of {parameter('more_labels')}", self.more_labels or ())
        for name in self.more_labels or ():
            check_label_name(name)
            if name in roles.values():
                rule = "name columns that play no other role"
                raise refusal("more_labels", rule, name, advice="leave it out")
        return tuple(self.more_labels or ())

    @property
    def advice(self) -> str | None:
        """What to do about features that are not numbers, where their levels are known."""
        return NUMBERS_IN_TRAINING if isinstance(self.categorical, Mapping) else None

    def text_columns(self, columns: Columns) -> list[str]:
        """The features that are known to have levels that are strings, whatever a text shows."""
        levels = self.categorical if isinstance(self.categorical, Mapping) else {}
        return [n for n in columns.features if n in levels and isinstance((*levels[n], 0)[0], str)]

    def _roles(self, names: Sequence[str]) -> dict[str, str]:
        asked = dict(zip(ROLES, self.names, strict=True))
        qid = asked["qid"]
        if self.group is not None and qid in names:
            raise DataError(
                f"exactly one of {parameter('qid=')} and {parameter('group=')} must be given. Got "
                f"{parameter('group=')} and a column {qid!r}: drop one, or pass qid=None if that "
                f"column is a feature."
            )
        asked["qid"] = qid if self.group is None else None
        roles = {role: name for role, name in asked.items() if name is not None}
        if len(set(roles.values())) != len(roles):
            raise DataError(f"each role must have a column of its own. Got {roles}.")
        return roles


def block_rows(n_features: int) -> int:
    """How many rows of a table to handle at once."""
    return max(_TILE_ROWS, min(_BLOCK_ROWS, _BLOCK_VALUES // max(1, n_features)))


def cut_frame(frame: nw.DataFrame[Any], n_features: int) -> Iterator[nw.DataFrame[Any]]:
    """The frame, row block by row block."""
    step = block_rows(n_features)
    return (frame[start : start + step] for start in range(0, len(frame), step))


def build_dataset(
    roles: nw.DataFrame[Any],
    blocks: Iterable[nw.DataFrame[Any]],
    columns: Columns,
    options: ColumnOptions,
    coded: Mapping[str, CodedColumn],
) -> Dataset:
    """The Dataset of a table: its role columns whole, its feature columns in row blocks.

    `coded` has the columns of categories, whole, which blocks need not have.
    """

    def values(role: str) -> NDArray[Any] | None:
        if role not in columns.roles:
            return None
        column = roles[columns.roles[role]]
        return role_ids(column, role) if role in ID_ROLES else role_floats(column, role)

    queries = make_queries(len(roles), values("qid"), options.group, options.split_queries)
    fields: dict[str, Any] = {f"{role}s": values(role) for role in ROLES if role != "qid"}
    fields["more_labels"] = {
        name: role_floats(roles[name], "label") for name in columns.more_labels
    }
    # The roles are checked before the long work, as a Dataset that has no features yet.
    bare = np.empty((len(roles), 0), dtype=np.float32)
    data = Dataset(
        bare, offsets=queries.offsets, query_ids=queries.ids, **arranged(queries, **fields)
    )
    names = columns.features
    features = fill_features(
        blocks, names, len(roles), queries.order,
        coded={name: column.numbers for name, column in coded.items()},
    )  # fmt: skip
    levels = {names.index(name): column.levels for name, column in coded.items()}
    return replace(data, features=features, feature_names=tuple(names), levels=levels)


def role_arrays(data: Dataset, *names: str | None) -> dict[str, NDArray[Any]]:
    """The columns of a Dataset that are not features, by name, in the order they are written.

    `names` are those of the `ROLES`; one without a name is not written.
    """
    weights = None if data.weights is None else np.repeat(data.weights, data.group)
    arrays = (
        *(data.labels, data.qid, weights, data.base_scores),
        *(data.document_ids, data.document_weights),
    )
    pairs = zip(names, arrays, strict=True)
    written = {name: array for name, array in pairs if name and array is not None}
    refuse_repeats(
        "column names",
        [*written, *data.more_labels, *data.feature_names],
        f"Pass another name for one of {', '.join(ROLES)}.",
    )
    return written | data.more_labels


def plain_ids(values: NDArray[Any], place: str) -> NDArray[Any]:
    """Ids that a column of one type can hold: integers or strings, where they are objects."""
    if values.dtype.kind != "O":
        return values
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return values
    try:
        if kinds == {int}:
            return values.astype(np.int64)
    except OverflowError:
        pass
    raise DataError(
        f"ids must be all strings or all 64-bit integers in {place}. Got "
        f"{', '.join(sorted(kind.__name__ for kind in kinds))}: convert them to strings."
    )


# Types that NumPy has, too, by the names that Arrow gives them.
_ARROW_NUMBERS = frozenset(
    ("float", "double", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
)


def columns_to_code(
    frame: nw.DataFrame[Any],
    names: Sequence[str],
    categorical: Collection[str],
    advice: str | None = None,
) -> list[str]:
    """The feature columns to take as levels: by type, or those named that are not numbers.

    Others must be numbers: see `check_numeric`.
    """
    coded = [
        name
        for name in names
        if is_categorical_type(frame[name]) or (name in categorical and _is_text(frame[name]))
    ]
    check_numeric(frame, [name for name in names if name not in coded], advice)
    return coded


def code_columns(frame: nw.DataFrame[Any], names: Iterable[str]) -> dict[str, CodedColumn]:
    """Columns of a table as levels, by name."""
    return {name: code_column(frame[name]) for name in names}


def check_numeric(
    frame: nw.DataFrame[Any], names: Sequence[str], advice: str | None = None
) -> None:
    """Refuse feature columns that are not numbers, all of them in one message.

    `advice` says what to do, by default to name them as categories.
    """
    bad = {name: _kind(frame[name]) for name in names if not _is_numeric(frame[name])}
    if bad:
        others = f"name the columns to take in {parameter('features=')}"
        if advice is None:
            advice = (
                f"name those that are categories in {parameter('categorical=')}, drop others, or "
                f"{others}"
            )
        got = ", ".join(f"{name!r} ({kind})" for name, kind in bad.items())
        raise DataError(f"feature columns must be numbers or booleans. Got {got}: {advice}.")


def too_large(name: str, row: int, value: object) -> DataError:
    """The error for a finite number that float32 cannot hold."""
    return DataError(
        f"column {name!r} must fit into float32 (up to 3.4e38). Got {value} at row {row} "
        f"(rows count from 0): rescale that column."
    )


def fill_features(
    blocks: Iterable[nw.DataFrame[Any]],
    names: list[str],
    n_rows: int,
    order: NDArray[np.int64] | None,
    first_row: int = 0,
    coded: Mapping[str, NDArray[np.float32]] | None = None,
) -> NDArray[np.float32]:
    """The feature matrix, whose row `i` is row `order[i]` of the blocks.

    `first_row` is the number of the first one, for messages. `coded` has columns that are numbers
    already, whole, in place of those of the blocks.
    """
    coded = coded or {}
    plain = [name for name in names if name not in coded]
    out = np.empty((n_rows, len(names)), dtype=np.float32)
    place = None if order is None else np.argsort(order)
    done = 0
    for block in blocks:
        stop = done + len(block)
        if stop > n_rows:
            break
        found = dict(zip(plain, _numbers_of(block, plain), strict=True))
        found |= {name: numbers[done:stop] for name, numbers in coded.items()}
        columns = [found[name] for name in names]
        for first in range(done, stop, _TILE_ROWS):
            last = min(first + _TILE_ROWS, stop)
            tile = out[first:last] if place is None else np.empty_like(out[first:last])
            _store(
                [values[first - done : last - done] for values in columns],
                tile,
                names,
                first_row + first,
            )
            if place is not None:
                out[place[first:last]] = tile
        done = stop
    if done != n_rows and names:
        raise DataError(f"feature columns must have {n_rows} rows, as the labels. Got {done}.")
    return out


def _store(
    columns: Sequence[NDArray[Any]], out: NDArray[Any], names: Sequence[str], first_row: int
) -> None:
    """Copy columns into a float matrix, refusing a finite value that it cannot hold."""
    number = 0
    try:
        with np.errstate(over="raise"):
            for number, values in enumerate(columns):
                out[:, number] = values
    except FloatingPointError:
        values = columns[number]
        with np.errstate(over="ignore"):
            lost = np.isfinite(values) & ~np.isfinite(values.astype(out.dtype))
        row = int(lost.argmax())
        raise too_large(names[number], first_row + row, values[row]) from None


def _is_numeric(column: nw.Series[Any]) -> bool:
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return True
    if dtype == nw.String:
        # A pandas column of nothing but None is taken for strings.
        return 0 < len(column) == column.null_count()
    if dtype != nw.Object and dtype != nw.Unknown:
        return False
    values = column.drop_nulls().to_numpy()
    number = (int, float, Decimal, np.bool_, np.integer, np.floating)
    return values.dtype.kind in "biuf" or (
        values.dtype.kind == "O" and all(isinstance(value, number) for value in values)
    )


def _is_text(column: nw.Series[Any]) -> bool:
    """Whether a column that is to be of categories has levels, and not numbers as they are."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    return bool(column.dtype == nw.String) or not _is_numeric(column)


def _kind(column: nw.Series[Any]) -> str:
    """The type of a column and, of strings, the first that keeps it from being numbers."""
    kind = type(column.dtype).__name__
    if kind == "String":
        for row, value in enumerate(column.to_list()):
            try:
                float(value or 0)
            except ValueError:
                return f"{kind}, as {value[:40]!r} at row {row}"
    return kind


def _numbers_of(block: nw.DataFrame[Any], names: Sequence[str]) -> list[NDArray[Any]]:
    """Columns of a table as NumPy numbers."""
    if not block.implementation.is_pyarrow():
        return [_as_numbers(block[name]) for name in names]
    # Plain numbers are taken from Arrow itself: to look at each by way of narwhals takes longer
    # than to copy it.
    natives = [block.to_native().column(name) for name in names]
    return [
        native.to_numpy()
        if str(native.type) in _ARROW_NUMBERS and not native.null_count
        else _as_numbers(block[name])
        for name, native in zip(names, natives, strict=True)
    ]


def _as_numbers(column: nw.Series[Any]) -> NDArray[Any]:
    """The column as NumPy numbers, missing as NaN; a view where the table allows it."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    # NumPy has no such types, or none that can be missing.
    if column.dtype in (nw.Boolean, nw.Decimal, nw.Int128, nw.UInt128):
        column = column.cast(nw.Float64)
    values = column.to_numpy()
    if values.dtype.kind != "O":
        return values
    numbers = np.full(len(values), np.nan)
    known = ~column.is_null().to_numpy()
    try:
        numbers[known] = values[known].astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"column {column.name!r} must hold numbers that fit into float32. Got: {error}."
        ) from None
    return numbers


def role_floats(column: nw.Series[Any], role: str, first_row: int = 0) -> NDArray[Any]:
    """The numbers of a role's column, whose first row has this number."""
    if not _is_numeric(column):
        raise DataError(
            f"the {role} column {column.name!r} must hold numbers. Got {_kind(column)}: convert it."
        )
    source = _as_numbers(column)
    values = np.empty(len(source), dtype=np.float32 if role == "label" else np.float64)
    _store([source], values[:, np.newaxis], [column.name], first_row)
    _refuse_missing(column, role, np.isnan(values), first_row)
    return values


def role_ids(column: nw.Series[Any], role: str, first_row: int = 0) -> NDArray[Any]:
    """Ids of the column's own type; strings as a NumPy string array, as from a list."""
    _refuse_missing(column, role, column.is_null().to_numpy(), first_row)
    values = column.to_numpy()
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return values.astype(str)
    return as_ids(values, f"the {role} column {column.name!r}")


def _refuse_missing(
    column: nw.Series[Any], role: str, missing: NDArray[np.bool_], first_row: int
) -> None:
    if missing.any():
        raise DataError(
            f"the {role} column {column.name!r} must have no missing entry. Got one at row "
            f"{first_row + int(missing.argmax())} (rows count from 0): fill or drop that row."
        )

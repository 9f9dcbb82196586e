"""Categories that are no numbers: the levels of a column, and the numbers that stand for them.

A level is a string, a whole number or a boolean. The levels of a feature are those that occur, in
rising order, and number k stands for level k: neither the order of rows nor the order of levels
in the type of a column matters. This is the only place where numbers are given to levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.sparse_features import Features, with_columns
from rankgrove.errors import DataError

if TYPE_CHECKING:
    import narwhals as nw

Level = str | int | bool
Levels = tuple[Level, ...]

# Beyond, float32 would take two numbers for one.
_MOST_LEVELS = 1 << 24
_SHOWN = 40


class CodedColumn(NamedTuple):
    """A column of categories: the number of each row's level, NaN where missing; the levels."""

    numbers: NDArray[np.float32]
    levels: Levels


def is_categorical_type(column: nw.Series[Any]) -> bool:
    """Whether a column is of categories by its type: Categorical, Enum, or an Arrow dictionary."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    return column.dtype in (nw.Categorical, nw.Enum)


def code_column(column: nw.Series[Any]) -> CodedColumn:
    """The levels of a column and their numbers; None, NaN and NA are missing.

    >>> import narwhals as nw, pandas as pd
    >>> column = nw.from_native(pd.Series(["web", None, "app", "web"]), series_only=True)
    >>> code_column(column).levels, code_column(column).numbers.tolist()
    (('app', 'web'), [1.0, nan, 0.0, 1.0])
    """
    codes, values = _places_of(column)
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(values)))
    # An Arrow dictionary may have a level twice, and null among its levels.
    known = {int(place): values[place] for place in used if not _is_missing(values[place])}
    levels = _checked_levels(known.values(), column.name)
    number_of = {level: number for number, level in enumerate(levels)}
    table = np.full(len(values) + 1, np.nan, dtype=np.float32)
    for place, value in known.items():
        table[place] = number_of[value]
    # The last entry is that of code -1, missing.
    return CodedColumn(table[codes], levels)


def join_levels(parts: Iterable[Levels], name: str) -> Levels:
    """The levels of a column whose rows come in parts."""
    return _checked_levels((level for part in parts for level in part), name)


def numbers_by(
    column: CodedColumn | NDArray[np.float32], wanted: Levels | None, name: str
) -> NDArray[np.float32]:
    """A column by the levels that are wanted, NaN for a level that is not one of them.

    Parameters
    ----------
    column
        Coded by levels of its own, or plain numbers: these stand for themselves.
    wanted
        The levels whose numbers to give, or None for plain numbers.
    name
        Of the feature, for messages.

    >>> genres = CodedColumn(np.float32([0, 1, 1]), ("drama", "western"))
    >>> numbers_by(genres, ("comedy", "drama"), "genre").tolist()
    [1.0, nan, nan]
    """
    if isinstance(column, CodedColumn):
        numbers, levels = column
    elif wanted is None:
        return column
    else:
        numbers, levels = _levels_of_numbers(column)
    if levels == wanted:
        return numbers
    _check_same_type(levels, wanted, name)
    if wanted is None:
        table = np.array([*levels, np.nan], dtype=np.float32)
    else:
        # A boolean and a number are one level if Python takes them as equal.
        place_of = _places_of_levels(wanted)
        table = np.array([*(place_of.get(v, np.nan) for v in levels), np.nan], dtype=np.float32)
    return table[np.where(np.isnan(numbers), len(levels), numbers).astype(np.int64)]


def number_of_value(value: Any, wanted: Levels, name: str) -> float:
    """The place of one value among levels, NaN for one that is missing or none of them."""
    if _is_missing(value):
        return np.nan
    if not isinstance(value, (str, int, float, bool, np.generic)):
        raise _other_types(name, type(value).__name__)
    level: Any = value
    _check_same_type((level,), wanted, name)
    return _places_of_levels(wanted).get(level, np.nan)


@lru_cache(maxsize=1024)
def _places_of_levels(levels: Levels) -> dict[Level, int]:
    return {level: place for place, level in enumerate(levels)}


def features_by(
    features: Features,
    levels: Mapping[int, Levels],
    wanted: Mapping[int, Levels],
    names: Sequence[str],
) -> Features:
    """A matrix of features by the levels that are wanted, of each feature by its number.

    The matrix itself where they are its own, a copy otherwise.
    """
    if levels == wanted:
        return features
    columns = {}
    for feature in sorted({*levels, *wanted}):
        values: Any = features[:, feature]
        if feature in levels:
            values = CodedColumn(values, levels[feature])
        columns[feature] = numbers_by(values, wanted.get(feature), names[feature])
    return with_columns(features, columns)


def named_categories(
    categories: Mapping[int, Sequence[float]], levels: Mapping[int, Levels]
) -> dict[int, tuple[Any, ...]]:
    """The categories of each feature as what they are: levels, or numbers where it has none."""
    return {
        feature: tuple(levels[feature][int(v)] if feature in levels else v for v in values)
        for feature, values in categories.items()
    }


def value_of(levels: Mapping[int, Levels], feature: int, value: float) -> Any:
    """What a value of a feature stands for: a level, or the number itself; NaN is missing.

    >>> value_of({1: ("app", "web")}, 1, 0.0), value_of({1: ("app", "web")}, 0, 0.5)
    ('app', 0.5)
    """
    return levels[feature][int(value)] if feature in levels and value == value else value


def _places_of(column: nw.Series[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """The place of each row's value in a list of values, or -1 where it is missing."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    if column.implementation.is_polars():
        texts = column.cast(nw.String).to_native() if is_categorical_type(column) else (
            column.to_native()
        )  # fmt: skip
        ranks = texts.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        return ranks - 1, texts.drop_nulls().unique().sort().to_list()
    if column.implementation.is_pyarrow():
        native = column.to_native()
        if str(native.type) == "string_view":
            native = column.cast(nw.String).to_native()
        if not str(native.type).startswith("dictionary"):
            native = native.dictionary_encode()
        array = native.unify_dictionaries().combine_chunks()
        places = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return places.astype(np.int64), array.dictionary.to_pylist()
    place_of: dict[Any, int] = {}
    try:
        if column.implementation.is_pandas():
            places, values = column.to_native().factorize()
            return places.astype(np.int64), values.tolist()
        rows = [
            -1 if _is_missing(value) else place_of.setdefault(value, len(place_of))
            for value in column.to_list()
        ]
    except TypeError:  # what has no hash, as a list
        raise _other_types(column.name, type(column.drop_nulls().to_list()[0]).__name__) from None
    return np.array(rows, dtype=np.int64), list(place_of)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _checked_levels(values: Iterable[Any], name: str) -> Levels:
    """Distinct levels in rising order, all of one type that a model can hold."""
    # What pandas made floats because some are missing are whole numbers again.
    distinct = {
        int(v) if isinstance(v, float) and v.is_integer() else v.item() if _is_numpy(v) else v
        for v in values
    }
    kinds = {type(value) for value in distinct}
    if len(kinds) > 1 or not kinds <= {str, int, bool}:
        raise _other_types(name, " and ".join(sorted(kind.__name__ for kind in kinds)))
    if len(distinct) > _MOST_LEVELS:
        raise DataError(
            f"the categories of column {name!r} must be at most {_MOST_LEVELS:,}. Got "
            f"{len(distinct):,}: join rare ones, or drop the column."
        )
    return tuple(sorted(distinct))


def _is_numpy(value: Any) -> bool:
    return isinstance(value, np.generic)


def _other_types(name: str, got: str) -> DataError:
    return DataError(
        f"the categories of column {name!r} must be all strings, all whole numbers or all "
        f"booleans. Got {got}: convert them to strings."
    )


def _levels_of_numbers(values: NDArray[np.float32]) -> CodedColumn:
    """Plain numbers as levels, whatever numbers they are."""
    known = ~np.isnan(values)
    found, places = np.unique(values[known], return_inverse=True)
    numbers = np.full(len(values), np.nan, dtype=np.float32)
    numbers[known] = places
    return CodedColumn(numbers, tuple(found.tolist()))


def _check_same_type(levels: Levels, wanted: Levels | None, name: str) -> None:
    """Refuse numbers for strings and strings for numbers."""
    if not levels or wanted == ():
        return
    shown = repr(levels[0])[:_SHOWN]
    is_text, wants_text = isinstance(levels[0], str), bool(wanted) and isinstance(wanted[0], str)  # type: ignore[index]
    if wants_text and not is_text:
        raise DataError(
            f"feature {name!r} must have the categories of training, which are strings, as "
            f"{repr(wanted[0])[:_SHOWN]}. Got numbers, as {shown}: give strings; of a file, read "  # type: ignore[index]
            f"them with categorical=model.schema.levels_by_name."
        )
    if is_text and not wants_text:
        advice = "" if wanted is None else ": convert them"
        raise DataError(
            f"feature {name!r} must be numbers, as in training. Got strings, as {shown}{advice}."
        )

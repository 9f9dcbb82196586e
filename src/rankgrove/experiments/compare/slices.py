"""Queries in groups: by length, by labels, or by what the user knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.levels import value_of
from rankgrove.errors import DataError, ParameterError, unknown_name
from rankgrove.metrics.base import show_number

# More values than this become groups of about equal size, so many of them.
_FEW_VALUES = 5
_PARTS = 4
# Nobody reads a table of more groups of text, and none would be of any size.
_MOST_GROUPS = 50

_MISSING = "missing"
COLUMN = "column:"

Slices = str | Iterable[str] | Mapping[str, str | ArrayLike]


class Slicing(NamedTuple):
    """The queries in groups.

    Attributes
    ----------
    name
        What the groups are of: "length".
    groups
        Their names, in order.
    group_of
        One per query: the number of its group.
    """

    name: str
    groups: tuple[str, ...]
    group_of: NDArray[np.int64]


def make_slicings(data: Dataset, slices: Slices) -> dict[str, Slicing]:
    """The groups that are asked for, by name.

    Parameters
    ----------
    data
        The queries.
    slices
        One or several of "length" (documents of the query), "labels" (its highest label),
        "relevant" (how many of its labels are above 0) and "column:NAME" (a feature that is the
        same for all documents of a query); or a mapping from a name to one of these, or to
        values: one per query, or one per document that is the same within each query.

    Numbers of more than 5 values become up to 4 groups of about as many queries each; missing
    values (NaN, None) are a group of their own. Text makes one group a value, at most 50.

    >>> data = Dataset.from_arrays([[0.0]] * 6, [1, 0, 2, 0, 0, 1], group=[1, 2, 3])
    >>> make_slicings(data, "labels")["labels"].groups
    ('1', '2')
    >>> make_slicings(data, {"intent": ["buy", "buy", "go"]})["intent"].group_of.tolist()
    [0, 0, 1]
    """
    if isinstance(slices, str):
        slices = [slices]
    if not isinstance(slices, Mapping):
        slices = {_name_of(spec): spec for spec in slices}
    return {name: _group(name, _values_of(data, name, given)) for name, given in slices.items()}


def _name_of(spec: Any) -> str:
    if not isinstance(spec, str):
        raise ParameterError(
            f"a slice must be a name, or come in a mapping from a name to values. Got "
            f"{type(spec).__name__}."
        )
    return spec.removeprefix(COLUMN)


def _values_of(data: Dataset, name: str, given: str | ArrayLike) -> NDArray[Any]:
    """One value per query."""
    if not isinstance(given, str):
        return per_query(data, name, given)
    if given.startswith(COLUMN):
        column = given.removeprefix(COLUMN)
        if column not in data.feature_names:
            raise unknown_name("the column of a slice", column, data.feature_names)
        feature = data.feature_names.index(column)
        values = data.features[:, feature]
        if feature in data.levels:
            values = np.array([value_of(data.levels, feature, v) for v in values.tolist()], object)
        return per_query(data, column, values)
    starts = data.offsets[:-1]
    if given == "length":
        return data.group
    if given == "labels":
        return np.maximum.reduceat(data.labels, starts)
    if given == "relevant":
        return np.add.reduceat((data.labels > 0).astype(np.int64), starts)
    raise unknown_name("a slice", given, ("length", "labels", "relevant", f"{COLUMN}NAME"))


def per_query(data: Dataset, name: str, given: ArrayLike) -> NDArray[Any]:
    """One value per query from one per query or one per document, which must agree within each."""
    values = np.asarray(given)
    if values.shape == (data.n_queries,):
        return values
    if values.shape != (data.n_documents,):
        raise DataError(
            f"the slice {name!r} must have a value per query, {data.n_queries}, or per document, "
            f"{data.n_documents}. Got shape {values.shape}."
        )
    first = values[data.offsets[:-1]]
    all_first = np.repeat(first, data.group)
    differs = (values != all_first) & ~((values != values) & (all_first != all_first))
    if differs.any():
        row = int(differs.argmax())
        query = data.query_of(row)
        raise DataError(
            f"the slice {name!r} must be the same for all documents of a query. Got "
            f"{first[query]!s} and {values[row]!s} in query {data.query_ids[query]}."
        )
    return first


def _group(name: str, values: NDArray[Any]) -> Slicing:
    numbers = _as_numbers(values)
    if numbers is None:
        text = np.array([_MISSING if _is_none(value) else str(value) for value in values.tolist()])
        known, group_of = np.unique(text, return_inverse=True)
        if len(known) > _MOST_GROUPS:
            raise DataError(
                f"the slice {name!r} must have at most {_MOST_GROUPS} groups. Got {len(known)}: "
                f"text makes one group a value, numbers are put into ranges."
            )
        return Slicing(name, tuple(known.tolist()), group_of.astype(np.int64))
    there = ~np.isnan(numbers)
    bounds = np.unique(numbers[there])
    if len(bounds) > _FEW_VALUES:
        shares = np.arange(1, _PARTS) / _PARTS
        bounds = np.unique(np.quantile(numbers[there], shares, method="lower"))
    # Missing values come last.
    place = np.where(there, np.searchsorted(bounds, numbers), len(bounds) + 1)
    group_of = np.unique(place, return_inverse=True)[1]
    names: list[str] = []
    for group in np.unique(group_of[there]):
        members = numbers[group_of == group]
        low, high = show_number(members.min()), show_number(members.max())
        names.append(low if low == high else f"{low} to {high}")
    if not there.all():
        names.append(_MISSING)
    return Slicing(name, tuple(names), group_of.astype(np.int64))


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """The values as finite numbers and NaN, or None if they are something else."""
    if values.dtype.kind not in "biuf":
        values = np.array([np.nan if _is_none(value) else value for value in values.tolist()])
    try:
        # Through text, so that a float32 is shown with its own digits.
        numbers = np.array([float(str(value)) for value in values])
    except ValueError:
        return None
    return None if np.isinf(numbers).any() else numbers


def _is_none(value: Any) -> bool:
    return value is None or value == "" or value != value

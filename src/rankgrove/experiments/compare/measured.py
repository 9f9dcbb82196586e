"""Values of the same queries from several candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.dataset import as_floats
from rankgrove.errors import DataError
from rankgrove.metrics.base import Floats


@dataclass(frozen=True, eq=False)
class Measured:
    """One metric: the values of each candidate, one per query; NaN where the query is skipped."""

    values: dict[str, Floats]
    query_ids: NDArray[Any]
    weights: Floats | None = None

    def take(self, chosen: NDArray[np.bool_]) -> Measured:
        return Measured(
            {name: values[chosen] for name, values in self.values.items()},
            self.query_ids[chosen],
            None if self.weights is None else self.weights[chosen],
        )


def align(
    given: Mapping[str, ArrayLike | Mapping[Any, float]],
    query_ids: ArrayLike | None,
    weights: ArrayLike | None,
    drop: bool,
) -> Measured:
    """One value per query from each candidate, for the same queries in the same order."""
    mappings = [values for values in given.values() if isinstance(values, Mapping)]
    if mappings and query_ids is None:
        query_ids = list(dict.fromkeys(query for values in mappings for query in values))
    arrays = {}
    for name, values in given.items():
        ordered = _in_order(name, values, query_ids) if isinstance(values, Mapping) else values
        arrays[str(name)] = as_floats(ordered, f"the values of {name!r}", np.float64)
    first = next(iter(arrays))
    ids = np.arange(len(arrays[first])) if query_ids is None else np.asarray(query_ids)
    for name, array in arrays.items():
        if len(array) != len(ids):
            raise DataError(
                f"the values of {name!r} must be one per query, {len(ids)}, as many as "
                f"{'query_ids' if query_ids is not None else repr(first)} has. Got {len(array)}."
            )
    gone = {name: np.isnan(array) for name, array in arrays.items()}
    for name, missing in gone.items():
        differs = missing != gone[first]
        if differs.any() and not drop:
            at = int(differs.argmax())
            less, more = (name, first) if missing[at] else (first, name)
            raise DataError(
                f"all candidates must have values for the same queries. Got none of {less!r} for "
                f"query {ids[at]}, which {more!r} has, and {int(differs.sum())} such in all: "
                f"measure them, or leave them out for all candidates with missing='drop'."
            )
    lost = np.logical_or.reduce(list(gone.values()))
    arrays = {name: np.where(lost, np.nan, array) for name, array in arrays.items()}
    kept = None if weights is None else as_floats(weights, "weights", np.float64)
    return Measured(arrays, ids, kept)


def _in_order(name: str, values: Mapping[Any, float], query_ids: Any) -> ArrayLike:
    ids = np.asarray(query_ids).tolist()
    known = set(ids)
    if foreign := [query for query in values if query not in known]:
        raise DataError(
            f"the values of {name!r} must be of queries in query_ids. Got query {foreign[0]}."
        )
    return [values.get(query, math.nan) for query in ids]

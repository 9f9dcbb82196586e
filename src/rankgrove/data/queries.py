"""Queries as one offsets array, checked once, at the door.

The documents of query `q` are the rows `offsets[q]:offsets[q + 1]`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.errors import DataError, parameter, unknown_name

SplitQueries = Literal["error", "group"]

# So many ids a message lists.
_NAMES_SHOWN = 5


class Queries(NamedTuple):
    """Where each query's rows are, and the row order that made them contiguous, if any."""

    offsets: NDArray[np.int64]
    ids: NDArray[Any]
    order: NDArray[np.int64] | None


def queries_from_ids(qid: ArrayLike, split_queries: SplitQueries = "error") -> Queries:
    """Offsets from one query id a row; ids may be of any hashable type.

    Rows of one query must be contiguous. If they are not, `split_queries="error"` raises and
    says where, and `"group"` gives the row order that brings them together: queries in order of
    their first row, rows of a query in their old order.

    >>> queries_from_ids(["b", "b", "a"]).offsets.tolist()
    [0, 2, 3]
    >>> queries_from_ids([7, 8, 7], split_queries="group").order.tolist()
    [0, 2, 1]
    """
    if split_queries not in ("error", "group"):
        raise unknown_name("split_queries", str(split_queries), ("error", "group"))
    ids = as_ids(qid, "qid")
    if len(ids) == 0:
        return Queries(np.zeros(1, dtype=np.int64), ids, None)
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))

    def refuse(first: int, again: int) -> NoReturn:
        raise DataError(
            f"query {_show(ids[starts[again]])} is split: its rows {starts[first]} to "
            f"{starts[first + 1] - 1} and again from row {starts[again]} on (rows count from 0). "
            f"Sort the rows by query id, or pass {parameter('split_queries', 'group')} to bring "
            f"them together."
        )

    on_split = refuse if split_queries == "error" else None
    return queries_from_runs(ids[starts], starts, len(ids), on_split)


def queries_from_runs(
    ids: NDArray[Any],
    starts: NDArray[np.int64],
    n_rows: int,
    refuse: Callable[[int, int], NoReturn] | None,
) -> Queries:
    """Queries from runs of rows of one id each: their ids, and the rows where they start.

    Where a run has the id of an earlier one, they are brought together, or `refuse` is called with
    the numbers of both.
    """
    first_runs = _first_of_same_id(ids)
    bounds = np.append(starts, n_rows).astype(np.int64)
    queries = np.unique(first_runs)
    if len(queries) == len(ids):
        return Queries(bounds, ids, None)
    if refuse is not None:
        again = int((first_runs != np.arange(len(ids))).argmax())
        refuse(int(first_runs[again]), again)
    by_query = np.argsort(first_runs, kind="stable")
    sizes = np.diff(bounds)[by_query]
    sizes_of_queries = np.add.reduceat(sizes, np.searchsorted(first_runs[by_query], queries))
    return Queries(offsets_of(sizes_of_queries), ids[queries], spans(bounds[by_query], sizes))


def queries_from_sizes(group: ArrayLike, n_rows: int) -> Queries:
    """Offsets from the number of rows of each query, as in LightGBM's `.query` files.

    >>> queries_from_sizes([2, 1], n_rows=3).offsets.tolist()
    [0, 2, 3]
    """
    sizes = np.asarray(group)
    if sizes.ndim != 1 or (len(sizes) and not np.issubdtype(sizes.dtype, np.number)):
        raise DataError(
            f"group must be a list of query sizes. Got {sizes.dtype} of shape {sizes.shape}."
        )
    with np.errstate(invalid="ignore"):
        whole = sizes.astype(np.int64)
    if not np.array_equal(whole, sizes) or np.any(whole < 1):
        at = int(np.flatnonzero((whole != sizes) | (whole < 1))[0])
        raise DataError(f"group sizes must be whole numbers, 1 or more. Got {sizes[at]} at {at}.")
    if whole.sum() != n_rows:
        hint = ""
        if len(whole) == n_rows:
            hint = f" One number per row looks like ids: pass them as {parameter('qid=')} instead."
        raise DataError(
            f"group sizes must add up to the number of rows, {n_rows}. Got {whole.sum()}.{hint}"
        )
    return Queries(offsets_of(whole), np.arange(len(whole)), None)


def make_queries(
    n_rows: int,
    qid: ArrayLike | None,
    group: ArrayLike | None,
    split_queries: SplitQueries = "error",
) -> Queries:
    """Offsets from whichever of `qid` and `group` is given; exactly one must be."""
    if (qid is None) == (group is None):
        got = "neither" if qid is None else "both"
        raise DataError(
            f"exactly one of {parameter('qid=')} (a query id for every row) and "
            f"{parameter('group=')} (the number of rows of "
            f"every query) must be given. Got {got}."
        )
    if group is not None:
        return queries_from_sizes(group, n_rows)
    queries = queries_from_ids(qid, split_queries)  # type: ignore[arg-type]
    if queries.offsets[-1] != n_rows:
        raise DataError(
            f"qid must have one entry per row, {n_rows}. Got {queries.offsets[-1]}."
            f" Query sizes go to {parameter('group=')} instead."
        )
    return queries


def as_ids(values: ArrayLike, name: str) -> NDArray[Any]:
    """An array of ids: integers and strings as they are, anything else as objects."""
    types = {type(value) for value in values} if isinstance(values, (list, tuple)) else set()
    if len(types) > 1 or any(issubclass(kind, (list, tuple)) for kind in types):
        # NumPy would turn mixed types into one, and tuples into a second dimension.
        ids = np.fromiter(values, dtype=object)  # type: ignore[arg-type, type-var]
    else:
        ids = np.asarray(values)
    if ids.ndim != 1:
        raise DataError(f"{name} must be one-dimensional. Got shape {ids.shape}.")
    if ids.dtype.kind in "fmM" and np.isnan(ids).any():
        row = int(np.isnan(ids).argmax())
        raise DataError(f"{name} must not be missing. Got {ids[row]} at row {row}.")
    if ids.dtype.kind == "f" and np.all(ids == np.floor(ids)) and np.all(np.abs(ids) < 2**53):
        ids = ids.astype(np.int64)
    if ids.dtype.kind == "O":
        for row, value in enumerate(ids):
            if value is None or value != value:
                raise DataError(f"{name} must not be missing. Got {value} at row {row}.")
    return ids


def _first_of_same_id(run_ids: NDArray[Any]) -> NDArray[np.int64]:
    """For each run of rows, the first run that has the same id: itself, unless split."""
    if run_ids.dtype.kind == "O":
        first: dict[Any, int] = {}
        try:
            runs = [first.setdefault(id_, run) for run, id_ in enumerate(run_ids)]
        except TypeError as error:
            raise DataError(f"qid must be hashable. Got {error}.") from None
        return np.array(runs, dtype=np.int64)
    _, index, inverse = np.unique(run_ids, return_index=True, return_inverse=True)
    return index[inverse].astype(np.int64)


def offsets_of(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Where each query starts, and the last one ends, from the sizes of the queries."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def spans(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers from each start on, as many as its size says, one stretch after the other.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(sizes.sum())


def _show(id_: Any) -> str:
    return repr(id_.item() if isinstance(id_, np.generic) else id_)


def unknown_query(subject: str, query: str, names: Sequence[str]) -> DataError:
    """The error for the id of a query that is not there, with the nearest one that is.

    >>> print(unknown_query("--query", "shoos", ["shoes", "hats"]))
    --query must be one of its 2 queries, shoes, hats. Got 'shoos'; did you mean 'shoes'?
    """
    near = difflib.get_close_matches(query, names, n=1)
    some = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else ".")
    hint = f"; did you mean '{near[0]}'?" if near else "."
    number = f"{len(names):,} {'query' if len(names) == 1 else 'queries'}"
    return DataError(f"{subject} must be one of its {number}, {some} Got '{query}'{hint}")

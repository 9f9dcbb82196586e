"""Folds for cross-validation: whole queries, each tested once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.documents import Documents
from rankgrove.errors import ParameterError, is_number, refusal, whole_number

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


def make_folds(data: Documents, folds: Any, seed: int = 0) -> list[Fold]:
    """The numbers of the queries that each fold trains on, and of those that it tests.

    >>> from rankgrove import make_web_search
    >>> [test.tolist() for _, test in make_folds(make_web_search(6, 16), 3)]
    [[2, 3], [4, 5], [0, 1]]
    """
    n_queries = data.n_queries
    if is_number(folds) or isinstance(folds, bool):
        whole_number("folds", folds, 2, n_queries)
        shuffled = np.random.default_rng(seed).permutation(n_queries)
        held_out = [np.sort(part) for part in np.array_split(shuffled, folds)]
        return [(np.setdiff1d(np.arange(n_queries), test), test) for test in held_out]
    if hasattr(folds, "split") and not isinstance(folds, str):
        rows = data.features if isinstance(data, Dataset) else data.labels
        try:
            with warnings.catch_warnings():
                # One that takes no groups cuts queries in two, and that is refused below.
                warnings.filterwarnings("ignore", message="The groups parameter is ignored")
                folds = list(folds.split(rows, data.labels, groups=data.qid))
        except ValueError as error:
            raise refusal("folds", "fit the data", got=str(error).rstrip(".")) from None
    if not isinstance(folds, Iterable) or isinstance(folds, str):
        rule = "be a number, a splitter of scikit-learn or pairs of row numbers"
        raise refusal("folds", rule, got=type(folds).__name__)
    pairs = [_fold_from_rows(data, number, pair) for number, pair in enumerate(folds, start=1)]
    times = np.zeros(n_queries, dtype=np.int64)
    for _, test in pairs:
        times[test] += 1
    if np.any(times != 1):
        query = int((times != 1).argmax())
        raise refusal(
            "folds",
            "test each query once",
            got=f"query {data.query_ids[query]} tested {times[query]} times",
            advice="use GroupKFold, or a number of folds",
        )
    return pairs


def _fold_from_rows(data: Documents, number: int, pair: Any) -> Fold:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ParameterError(f"fold {number} must be a pair (train, test) of row numbers.")
    sides = []
    for side, rows in zip(("train", "test"), pair, strict=True):
        chosen = np.asarray(rows)
        if chosen.dtype == bool and chosen.shape == (data.n_documents,):
            chosen = np.flatnonzero(chosen)
        if chosen.ndim != 1 or not len(chosen) or not np.issubdtype(chosen.dtype, np.integer):
            raise ParameterError(f"fold {number} must have row numbers to {side} on. Got {rows!r}.")
        if chosen.min() < 0 or chosen.max() >= data.n_documents:
            raise ParameterError(
                f"row numbers of fold {number} must be from 0 to {data.n_documents - 1}. Got "
                f"{chosen.min()} to {chosen.max()}."
            )
        queries = np.searchsorted(data.offsets, np.unique(chosen), side="right") - 1
        found, counts = np.unique(queries, return_counts=True)
        cut = counts != data.group[found]
        if cut.any():
            query = found[cut][0]
            raise refusal(
                "folds",
                "not cut a query in two",
                got=f"{counts[cut][0]} of the {data.group[query]} documents of query "
                f"{data.query_ids[query]} to {side} on in fold {number}",
                advice="use GroupKFold with the query ids as groups",
            )
        sides.append(found)
    both = np.intersect1d(sides[0], sides[1])
    if len(both):
        raise ParameterError(
            f"fold {number} must not test what it is trained on. Got query "
            f"{data.query_ids[both[0]]} in both."
        )
    return sides[0], sides[1]

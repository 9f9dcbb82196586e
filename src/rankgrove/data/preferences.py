"""Preferences: pairs of documents of one query of which one is better, instead of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.streams import open_for_reading, read_all
from rankgrove.errors import DataError


@dataclass(frozen=True, eq=False)
class Preferences:
    """Pairs of rows: the first is better with a probability.

    A pair may occur more than once, and pairs may contradict each other: each counts.

    Attributes
    ----------
    better, worse
        Rows of the data, both of the same query.
    probability
        The chance that `better` is the better one.
    """

    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    probability: NDArray[np.float64]

    @classmethod
    def from_rows(cls, data: Dataset, pairs: Iterable[Sequence[Any]]) -> Preferences:
        """From tuples (better, worse) or (better, worse, probability) of row numbers.

        >>> data = Dataset.from_arrays([[0.0], [1.0], [2.0]], [0, 0, 0], group=[3])
        >>> Preferences.from_rows(data, [(2, 0), (1, 0, 0.8)]).probability.tolist()
        [1.0, 0.8]
        """
        rows = [tuple(pair) for pair in pairs]
        for number, pair in enumerate(rows):
            if len(pair) not in (2, 3):
                raise DataError(
                    f"preferences must be pairs of rows, with or without a probability. Got "
                    f"{pair!r} as number {number}."
                )
        return cls._checked(
            data,
            [pair[0] for pair in rows],
            [pair[1] for pair in rows],
            [pair[2] if len(pair) == 3 else 1.0 for pair in rows],
            [f"number {number}" for number in range(len(rows))],
        )

    @classmethod
    def _checked(
        cls,
        data: Dataset,
        better: Sequence[Any],
        worse: Sequence[Any],
        probability: Sequence[Any],
        names: Sequence[str],
    ) -> Preferences:
        if not len(better):
            raise DataError("preferences must have at least one pair. Got none.")
        for side in (better, worse):
            for row, name in zip(side, names, strict=True):
                whole = isinstance(row, (int, np.integer)) and not isinstance(row, bool)
                if not whole or not 0 <= row < data.n_documents:
                    raise DataError(
                        f"preferences must name rows from 0 to {data.n_documents - 1}. Got {row!r} "
                        f"in {name}."
                    )
        first, second = np.asarray(better, np.int64), np.asarray(worse, np.int64)
        chance = np.asarray(probability, np.float64)
        query = np.searchsorted(data.offsets, first, side="right")
        for bad, rule in (
            (first == second, "name two documents. Got one twice"),
            (
                query != np.searchsorted(data.offsets, second, side="right"),
                "be of documents of one query. Got two queries",
            ),
            (~((chance >= 0) & (chance <= 1)), "have a probability from 0 to 1. Got another"),
        ):
            if np.any(bad):
                raise DataError(f"preferences must {rule} in {names[int(np.argmax(bad))]}.")
        # By query, so that each is one stretch; within it as given.
        order = np.argsort(query, kind="stable")
        return cls(first[order], second[order], chance[order])

    def __len__(self) -> int:
        return len(self.better)


def read_preferences(path: str | PathLike[str], data: Dataset) -> Preferences:
    """Read a file of lines `qid better worse [probability]`.

    `better` and `worse` are document ids where the data have some, and otherwise the number of the
    document in its query, from 1. Empty lines and what follows a # are left out.
    """
    with open_for_reading(path) as source:
        text = read_all(source)
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: must be text in UTF-8. Got: {error}.") from None
    rows = _Rows(data)
    better, worse, probability, names = [], [], [], []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (3, 4):
            raise DataError(
                f"{path}, line {number}: must be 'qid better worse [probability]'. Got "
                f"{len(words)} words."
            )
        name = f"{path}, line {number}"
        better.append(rows.find(words[0], words[1], name))
        worse.append(rows.find(words[0], words[2], name))
        names.append(f"line {number} of {path}")
        try:
            probability.append(float(words[3]) if len(words) == 4 else 1.0)
        except ValueError:
            raise DataError(f"{name}: probability must be a number. Got {words[3]!r}.") from None
    return Preferences._checked(data, better, worse, probability, names)


class _Rows:
    """Finds the row of a document by the words of a file."""

    def __init__(self, data: Dataset) -> None:
        self._offsets = data.offsets
        self._queries = {str(query): at for at, query in enumerate(data.query_ids)}
        self._documents: dict[tuple[int, str], int] | None = None
        if data.document_ids is not None:
            query = np.repeat(np.arange(data.n_queries), data.group).tolist()
            ids = [str(document) for document in data.document_ids.tolist()]
            self._documents = {key: row for row, key in enumerate(zip(query, ids, strict=True))}

    def find(self, query: str, document: str, name: str) -> int:
        if query not in self._queries:
            raise DataError(f"{name}: query must be one of the data. Got {query!r}.")
        at = self._queries[query]
        if self._documents is not None:
            row = self._documents.get((at, document))
            if row is None:
                raise DataError(
                    f"{name}: document must be one of query {query}, by its id. Got {document!r}."
                )
            return row
        first, last = int(self._offsets[at]), int(self._offsets[at + 1])
        if not document.isdecimal() or not 1 <= int(document) <= last - first:
            raise DataError(
                f"{name}: document must be a number from 1 to {last - first}, its place in query "
                f"{query}. Got {document!r}."
            )
        return first + int(document) - 1

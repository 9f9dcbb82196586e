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
from rankgrove.errors import DataError, is_number


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
        better, worse, probability, names = [], [], [], []
        if not isinstance(pairs, Iterable):
            raise DataError(f"preferences must be a list of pairs of rows. Got {pairs!r}.")
        for number, pair in enumerate(pairs):
            whole = isinstance(pair, (tuple, list, np.ndarray)) and len(pair) in (2, 3)
            chance: Any = None
            if whole:
                chance = pair[2] if len(pair) == 3 else 1.0
            if not whole or not is_number(chance):
                raise DataError(
                    f"preferences must be pairs of rows, with or without a probability. Got "
                    f"{pair!r} as number {number}."
                )
            better.append(pair[0])
            worse.append(pair[1])
            probability.append(float(chance))
            names.append(f"number {number}")
        return cls._checked(data, better, worse, probability, names)

    @classmethod
    def _checked(
        cls,
        data: Dataset,
        better: Sequence[Any],
        worse: Sequence[Any],
        probability: Sequence[float],
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
        made = cls(
            np.asarray(better, np.int64),
            np.asarray(worse, np.int64),
            np.asarray(probability, np.float64),
        )
        made.check(data, names)
        # By query, so that each is one stretch; within it as given.
        order = np.argsort(made._queries(data, made.better), kind="stable")
        return cls(made.better[order], made.worse[order], made.probability[order])

    @staticmethod
    def _queries(data: Dataset, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(data.offsets, rows, side="right")

    def check(self, data: Dataset, names: Sequence[str] | None = None) -> None:
        """Refuse pairs that are none of these data."""
        first, second, chance = self.better, self.worse, self.probability
        outside = (np.minimum(first, second) < 0) | (np.maximum(first, second) >= data.n_documents)
        for bad, rule in (
            (outside, f"be rows of the data, {data.n_documents} documents. Got another row"),
            (first == second, "name two documents. Got one twice"),
            (
                self._queries(data, first) != self._queries(data, second),
                "be of documents of one query. Got two queries",
            ),
            (~((chance >= 0) & (chance <= 1)), "have a probability from 0 to 1. Got {value:g}"),
        ):
            if np.any(bad):
                at = int(np.argmax(bad))
                name = f"number {at}" if names is None else names[at]
                raise DataError(f"preferences must {rule.format(value=chance[at])} in {name}.")

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
        at = text.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {at}: must be text in UTF-8. Got other bytes.") from None
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
    if not names:
        raise DataError(f"{path}: preferences must have at least one pair. Got none.")
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
            if len(self._documents) < len(ids):
                raise DataError(
                    "document ids must differ within a query to read preferences. Got one twice."
                )

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
        fits = document.isdecimal() and len(document) < 20
        if not fits or not 1 <= int(document) <= last - first:
            raise DataError(
                f"{name}: document must be a number from 1 to {last - first}, its place in query "
                f"{query}. Got {document!r}."
            )
        return first + int(document) - 1

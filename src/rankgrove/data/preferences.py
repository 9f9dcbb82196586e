"""Preferences: pairs of documents of one query of which one is better, instead of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.documents import Documents
from rankgrove.data.streams import read_all
from rankgrove.errors import DataError, is_number, is_whole_number


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
    weight
        How much the pair counts.
    """

    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    probability: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All there is to know of the pairs; weights only where some differ from 1."""
        pairs = (self.better, self.worse, self.probability)
        return pairs if np.all(self.weight == 1) else (*pairs, self.weight)

    def take(self, chosen: NDArray[np.int64], moved_by: NDArray[np.int64] | int = 0) -> Preferences:
        """The pairs of these numbers, with their rows moved."""
        return Preferences(
            self.better[chosen] + moved_by,
            self.worse[chosen] + moved_by,
            self.probability[chosen],
            self.weight[chosen],
        )

    @classmethod
    def from_rows(cls, data: Documents, pairs: Iterable[Sequence[Any]]) -> Preferences:
        """From tuples (better, worse), (better, worse, probability) or with a weight besides.

        `better` and `worse` are row numbers; probability and weight are 1 if left out.

        >>> from rankgrove import Dataset
        >>> data = Dataset.from_arrays([[0.0], [1.0], [2.0]], [0, 0, 0], group=[3])
        >>> pairs = Preferences.from_rows(data, [(2, 0), (1, 0, 0.8), (1, 2, 1.0, 0.5)])
        >>> pairs.probability.tolist(), pairs.weight.tolist()
        ([1.0, 0.8, 1.0], [1.0, 1.0, 0.5])
        """
        rows, names = [], []
        if not isinstance(pairs, Iterable):
            raise DataError(f"preferences must be a list of pairs of rows. Got {pairs!r}.")
        for number, pair in enumerate(pairs):
            whole = isinstance(pair, (tuple, list, np.ndarray)) and 2 <= len(pair) <= 4
            if not whole or not all(map(is_number, pair[2:])):
                raise DataError(
                    f"preferences must be pairs of rows, with or without a probability and a "
                    f"weight. Got {pair!r} as number {number}."
                )
            for row in pair[:2]:
                if not (is_whole_number(row) and 0 <= row < data.n_documents):
                    raise DataError(
                        f"preferences must name rows from 0 to {data.n_documents - 1}. Got {row!r} "
                        f"in number {number}."
                    )
            rows.append((*pair, 1.0, 1.0)[:4])
            names.append(f"number {number}")
        return cls._checked(data, rows, names)

    @classmethod
    def _checked(
        cls, data: Documents, pairs: Sequence[Sequence[Any]], names: Sequence[str]
    ) -> Preferences:
        if not pairs:
            raise DataError("preferences must have at least one pair. Got none.")
        better, worse, probability, weight = zip(*pairs, strict=True)
        made = cls(
            np.asarray(better, np.int64),
            np.asarray(worse, np.int64),
            np.asarray(probability, np.float64),
            np.asarray(weight, np.float64),
        )
        made.check(data, names)
        # By query, so that each is one stretch; within it as given.
        return made.take(np.argsort(made._queries(data, made.better), kind="stable"))

    @staticmethod
    def _queries(data: Documents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(data.offsets, rows, side="right")

    def check(self, data: Documents, names: Sequence[str] | None = None) -> None:
        """Refuse pairs that are none of these data."""
        first, second = self.better, self.worse
        chance, weight = self.probability, self.weight
        outside = (np.minimum(first, second) < 0) | (np.maximum(first, second) >= data.n_documents)
        apart = self._queries(data, first) != self._queries(data, second)
        is_weight = (weight >= 0) & np.isfinite(weight)
        for bad, rule in (
            (outside, f"be rows of the data, {data.n_documents} documents. Got another row"),
            (first == second, "name two documents. Got one twice"),
            (apart, "be of documents of one query. Got two queries"),
            (~((chance >= 0) & (chance <= 1)), "have a probability from 0 to 1. Got {chance:g}"),
            (~is_weight, "have a finite weight, 0 or more. Got {weight:g}"),
        ):
            if np.any(bad):
                at = int(np.argmax(bad))
                name = f"number {at}" if names is None else names[at]
                got = rule.format(chance=chance[at], weight=weight[at])
                raise DataError(f"preferences must {got} in {name}.")

    def __len__(self) -> int:
        return len(self.better)


def read_preferences(path: str | PathLike[str], data: Documents) -> Preferences:
    """Read a file of lines `qid better worse [probability [weight]]`.

    `better` and `worse` are document ids where the data have some, and otherwise the number of the
    document in its query, from 1. Empty lines and what follows a # are left out.
    """
    text = read_all(path)
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError as error:
        at = text.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {at}: must be text in UTF-8. Got other bytes.") from None
    rows = _Rows(data)
    pairs, names = [], []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if not 3 <= len(words) <= 5:
            raise DataError(
                f"{path}, line {number}: must be 'qid better worse [probability [weight]]'. Got "
                f"{len(words)} words."
            )
        name = f"{path}, line {number}"
        pair: list[float] = [rows.find(words[0], document, name) for document in words[1:3]]
        names.append(f"line {number} of {path}")
        for what, word in zip(("probability", "weight"), [*words[3:], "1", "1"], strict=False):
            try:
                pair.append(float(word))
            except ValueError:
                raise DataError(f"{name}: {what} must be a number. Got {word!r}.") from None
        pairs.append(pair)
    if not names:
        raise DataError(f"{path}: preferences must have at least one pair. Got none.")
    return Preferences._checked(data, pairs, names)


class _Rows:
    """Finds the row of a document by the words of a file."""

    def __init__(self, data: Documents) -> None:
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

"""What data have whatever form their features have: labels, queries, weights, base scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.levels import Levels
from rankgrove.data.queries import offsets_of, spans
from rankgrove.data.shard import Shard
from rankgrove.errors import (
    DataError,
    ParameterError,
    parameter,
    refusal,
    refuse_repeats,
    unknown_name,
    whole_number,
)

# The fields with one entry per document.
BY_DOCUMENT = ("labels", "base_scores", "document_ids", "document_weights")

# Which rows of all: a stretch of them, or their numbers.
Rows = slice | NDArray[np.int64]


class Documents(ABC):
    """Judged documents of many queries. Immutable: the arrays refuse writes.

    A `Dataset` has their features as numbers, `BinnedData` as codes; the other attributes are those
    of `Dataset` for both. Objectives, metrics and training take either.
    """

    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    weights: NDArray[np.float64] | None
    base_scores: NDArray[np.float64] | None
    document_ids: NDArray[Any] | None
    feature_names: tuple[str, ...]
    document_weights: NDArray[np.float64] | None
    shard: Shard
    levels: dict[int, Levels]
    more_labels: dict[str, NDArray[np.float32]]

    @abstractmethod
    def features_checksum(self, n_jobs: int | None = None) -> int:
        """A number that differs, as good as always, for other features."""

    @abstractmethod
    def _take(self, rows: Rows, **fields: Any) -> Self:
        """The data of these rows, with these fields in place of its own."""

    def _check(self, n_rows: int, n_features: int) -> None:
        """Fill in what was left out, refuse what does not fit, and lock the arrays."""
        if not self.feature_names:
            object.__setattr__(self, "feature_names", default_feature_names(n_features))
        if len(self.feature_names) != n_features:
            raise DataError(
                f"feature_names must have one name a feature, {n_features}. "
                f"Got {len(self.feature_names)}."
            )
        refuse_repeats("feature_names", self.feature_names)
        if strays := [feature for feature in self.levels if not 0 <= feature < n_features]:
            raise DataError(f"levels must be of one of {n_features} features. Got {strays[0]}.")
        for name in BY_DOCUMENT:
            _check_length(name, getattr(self, name), n_rows, "document")
        for name, values in self.more_labels.items():
            check_label_name(name)
            _check_length(f"labels {name!r}", values, n_rows, "document")
        n_queries = len(self.offsets) - 1
        shard = getattr(self, "shard", None)
        if shard is None or shard.is_of_others(self.offsets):
            object.__setattr__(self, "shard", Shard.whole(self.offsets))
        _check_length("query_ids", self.query_ids, n_queries, "query")
        _check_length("weights", self.weights, n_queries, "query")
        if self.shard.n_documents < 1:
            raise DataError("a Dataset must have at least one document. Got none.")
        if self.offsets[0] != 0 or self.offsets[-1] != n_rows or np.any(np.diff(self.offsets) < 1):
            raise DataError(
                f"offsets must rise strictly from 0 to the number of rows, {n_rows}. "
                f"Got {self.offsets[0]} to {self.offsets[-1]}."
            )
        _check_finite("label", self.labels, self)
        for name, values in self.more_labels.items():
            _check_finite(f"label of {name!r}", values, self)
        _check_finite("base score", self.base_scores, self)
        _check_weights("query", self.weights, self.shard)
        _check_weights("document", self.document_weights, self.shard)
        for array in self._arrays():
            array.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Out of a pickle or a deep copy, arrays come writable.
        self.__dict__.update(state)
        for array in self._arrays():
            array.flags.writeable = False

    def _arrays(self) -> list[NDArray[Any]]:
        names = ("offsets", "query_ids", "weights", *BY_DOCUMENT)
        arrays = [*(getattr(self, name) for name in names), *self.more_labels.values()]
        return [array for array in arrays if array is not None]

    @property
    def n_documents(self) -> int:
        return len(self.labels)

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def levels_by_name(self) -> dict[str, Levels]:
        """The levels of features whose numbers stand for categories, by the name of the feature."""
        return {self.feature_names[feature]: levels for feature, levels in self.levels.items()}

    @property
    def query_weights(self) -> NDArray[np.float64]:
        """The weight of each query: 1 where none are given."""
        return np.ones(self.n_queries) if self.weights is None else self.weights

    @property
    def group(self) -> NDArray[np.int64]:
        """The number of documents of each query, as LightGBM takes it."""
        return np.diff(self.offsets)

    @property
    def qid(self) -> NDArray[Any]:
        """The query id of each document, as XGBoost takes it."""
        return np.repeat(self.query_ids, self.group)

    @property
    def cost_weights(self) -> NDArray[np.float64]:
        """How much each document counts in a sum over documents: its weight times its query's.

        >>> from rankgrove import Dataset
        >>> Dataset.from_arrays([[0.0]] * 3, [0] * 3, group=[1, 2], weights=[2, 3]).cost_weights
        array([2., 3., 3.])
        """
        by_document = np.repeat(self.query_weights, self.group)
        return by_document if self.document_weights is None else by_document * self.document_weights

    def with_label(self, name: str) -> Self:
        """The same documents, judged by a further label in place of their own.

        >>> from rankgrove import Dataset
        >>> data = Dataset.from_arrays([[0.0]] * 2, [1, 0], group=[2], more_labels={"age": [3, 5]})
        >>> data.with_label("age").labels.tolist()
        [3.0, 5.0]
        """
        any_data: Any = self
        found: Self = replace(any_data, labels=labels_of(self.more_labels, name))
        return found

    def query_of(self, row: int) -> int:
        """The number of the query that a row belongs to."""
        return int(np.searchsorted(self.offsets, row, side="right") - 1)

    def take_queries(self, indices: ArrayLike) -> Self:
        """The data of these queries, in this order, by number or by boolean mask.

        A run of neighbouring queries shares memory with these data; others are copied.

        >>> from rankgrove import Dataset
        >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], qid=["a", "b", "c"])
        >>> data.take_queries([2, 0]).query_ids.tolist()
        ['c', 'a']
        """
        chosen = np.asarray(indices)
        if chosen.ndim != 1:
            raise refusal(
                "queries", "be taken by a one-dimensional list", got=f"shape {chosen.shape}"
            )
        if chosen.dtype == bool:
            if len(chosen) != self.n_queries:
                raise refusal("a mask of queries", f"have {self.n_queries} entries", len(chosen))
            chosen = np.flatnonzero(chosen)
        if len(chosen) == 0:
            raise ParameterError("take_queries must be given at least one query. Got none.")
        if not np.issubdtype(chosen.dtype, np.integer):
            raise ParameterError(f"queries must be taken by number. Got {chosen.dtype}.")
        if chosen.min() < -self.n_queries or chosen.max() >= self.n_queries:
            got = f"{chosen.min()} to {chosen.max()}"
            raise refusal("query numbers", f"be below {self.n_queries}", got=got)
        chosen = np.where(chosen < 0, chosen + self.n_queries, chosen)
        if len(np.unique(chosen)) != len(chosen):
            raise ParameterError("take_queries must be given each query once. Got one twice.")
        sizes = self.group[chosen]
        offsets = offsets_of(sizes)
        rows: Rows
        if np.array_equal(chosen, np.arange(chosen[0], chosen[0] + len(chosen))):
            rows = slice(int(self.offsets[chosen[0]]), int(self.offsets[chosen[-1] + 1]))
        else:
            rows = spans(self.offsets[chosen], sizes)
        by_document = {name: getattr(self, name) for name in BY_DOCUMENT}
        return self._take(
            rows,
            offsets=offsets,
            query_ids=self.query_ids[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            shard=Shard.whole(offsets),
            more_labels={name: values[rows] for name, values in self.more_labels.items()},
            **{name: values[rows] for name, values in by_document.items() if values is not None},
        )

    def split(self, *fractions: float, seed: int = 0) -> tuple[Self, ...]:
        """Cut by query, at random, into parts of these fractions of the queries.

        The fractions must add up to 1. Queries keep their order inside a part, and every part
        has at least one.

        >>> from rankgrove import Dataset
        >>> data = Dataset.from_arrays([[0.0]] * 10, [0] * 10, qid=range(10))
        >>> [part.n_queries for part in data.split(0.8, 0.2)]
        [8, 2]
        """
        shares = np.asarray(fractions, dtype=np.float64)
        if len(shares) < 1 or np.any(shares <= 0) or not abs(shares.sum() - 1) <= 1e-9:
            raise ParameterError(f"fractions must be positive and add up to 1. Got {fractions}.")
        if self.n_queries < len(shares):
            raise ParameterError(
                f"{len(shares)} parts need as many queries. Got {self.n_queries} queries."
            )
        bounds = np.round(np.cumsum(shares)[:-1] * self.n_queries).astype(np.int64)
        parts = np.arange(1, len(shares))
        # Queries before each bound on top of one per part; rising bounds mean this never falls.
        spare = np.maximum.accumulate(bounds - parts).clip(0, self.n_queries - len(shares))
        bounds = spare + parts
        shuffled = np.random.default_rng(seed).permutation(self.n_queries)
        return tuple(self.take_queries(np.sort(part)) for part in np.split(shuffled, bounds))

    def folds(self, n_folds: int = 5, *, seed: int = 0) -> Iterator[tuple[Self, Self]]:
        """Pairs (train, test) for cross-validation: each query is in exactly one test part.

        >>> from rankgrove import Dataset
        >>> data = Dataset.from_arrays([[0.0]] * 10, [0] * 10, qid=range(10))
        >>> [(train.n_queries, test.n_queries) for train, test in data.folds(5)]
        [(8, 2), (8, 2), (8, 2), (8, 2), (8, 2)]
        """
        if n_folds < 2 or n_folds > self.n_queries:
            rule = f"be from 2 to the number of queries, {self.n_queries}"
            raise refusal("n_folds", rule, n_folds)
        shuffled = np.random.default_rng(seed).permutation(self.n_queries)
        for held_out in np.array_split(shuffled, n_folds):
            test = np.zeros(self.n_queries, dtype=bool)
            test[held_out] = True
            yield self.take_queries(~test), self.take_queries(test)


def check_label_name(name: Any) -> None:
    """Refuse the name of a further label that could not stand in the name of a metric."""
    if not isinstance(name, str) or not name or name != name.strip() or set(name) & set("+,()"):
        raise DataError(
            f"a name in more_labels must be a text without commas, plus signs, brackets and blanks "
            f"at its ends, so that metrics can name it. Got {name!r}: rename it."
        )


def labels_of(more_labels: Mapping[str, Any], name: str) -> Any:
    """The further labels of a name, which data must have."""
    if name in more_labels:
        return more_labels[name]
    known = f"{', '.join(more_labels)} only" if more_labels else "none besides their own"
    raise DataError(
        f"the data must have labels {name!r} for a metric of them. Got {known}: name their column "
        f"in {parameter('more_labels')}."
    )


def default_feature_names(n_features: int) -> tuple[str, ...]:
    """`f1`, `f2`, …: numbered from 1, as LETOR files number them."""
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def feature_numbers(name: str, chosen: Collection[Any], feature_names: Sequence[str]) -> list[int]:
    """The numbers of features that are given by name or number; an unknown one is refused.

    >>> feature_numbers("categorical", ["b", 0], ["a", "b"])
    [1, 0]
    """
    numbers = []
    for feature in chosen:
        if isinstance(feature, str):
            if feature not in feature_names:
                raise unknown_name(f"a feature of {parameter(name)}", feature, feature_names)
            numbers.append(feature_names.index(feature))
        else:
            whole_number(f"a feature of {parameter(name)}", feature, 0, len(feature_names) - 1)
            numbers.append(int(feature))
    if len(set(numbers)) != len(numbers):
        raise refusal(name, "name a feature once", got=f"one twice in {list(chosen)}")
    return numbers


def _check_weights(unit: str, weights: NDArray[np.float64] | None, shard: Shard) -> None:
    # A worker that is one of several may have no query, or none that counts.
    if weights is None or (
        np.isfinite(weights).all()
        and np.all(weights >= 0)
        and (weights.any() or shard.peers.size > 1)
    ):
        return
    raise DataError(
        f"{unit} weights must be finite, 0 or more, and not all 0. Got {weights.min()} to "
        f"{weights.max()}."
    )


def _check_length(name: str, values: NDArray[Any] | None, expected: int, unit: str) -> None:
    if values is not None and values.shape != (expected,):
        raise DataError(f"{name} must have one entry per {unit}, {expected}. Got {values.shape}.")


def _check_finite(name: str, values: NDArray[Any] | None, data: Documents) -> None:
    if values is None or np.isfinite(values).all():
        return
    row = int((~np.isfinite(values)).argmax())
    query = data.query_ids[data.query_of(row)]
    raise DataError(
        f"every {name} must be finite. Got {values[row]} at row {row} of query {query}: "
        f"remove or correct that row."
    )

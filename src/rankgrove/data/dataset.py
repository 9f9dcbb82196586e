"""The Dataset: documents with features and labels, grouped by query, immutable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.queries import Queries, SplitQueries, as_ids, make_queries, offsets_of, spans
from rankgrove.data.shard import Shard
from rankgrove.errors import DataError, ParameterError, refusal, refuse_repeats

if TYPE_CHECKING:
    from rankgrove.data.describe import Description


# The fields with one entry per document.
_BY_DOCUMENT = ("labels", "base_scores", "document_ids", "document_weights")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Judged documents of many queries. Immutable: its arrays refuse writes.

    Build one with `Dataset.from_arrays`, `read_letor`, `read_table` or `from_frame`; the
    plain constructor takes arrays that already have these forms.

    Attributes
    ----------
    features
        One row per document, float32, row-major. NaN is missing; infinities are values.
    labels
        The judged grade of each document, float32, finite.
    offsets
        int64; the documents of query `q` are rows `offsets[q]:offsets[q + 1]`, at least one.
    query_ids
        One per query, as read.
    weights
        One per query, float64, or None for all equal.
    base_scores
        One per document, float64: what an earlier model gave it, or None.
    document_ids
        One per document, or None.
    feature_names
        One per feature.
    document_weights
        One per document, float64, or None for all equal: how much its part of the cost counts. A
        pair counts the product of the two. Metrics of whole rankings have no use for them.
    shard
        The place of these queries among those of all workers: all of them, if there is one worker.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    base_scores: NDArray[np.float64] | None = None
    document_ids: NDArray[Any] | None = None
    feature_names: tuple[str, ...] = ()
    document_weights: NDArray[np.float64] | None = None
    shard: Shard = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.features.ndim != 2:
            raise DataError(f"features must be two-dimensional. Got shape {self.features.shape}.")
        n_rows, n_features = self.features.shape
        if not self.feature_names:
            object.__setattr__(self, "feature_names", default_feature_names(n_features))
        if len(self.feature_names) != n_features:
            raise DataError(
                f"feature_names must have one name a feature, {n_features}. "
                f"Got {len(self.feature_names)}."
            )
        refuse_repeats("feature_names", self.feature_names)
        for name in _BY_DOCUMENT:
            _check_length(name, getattr(self, name), n_rows, "document")
        n_queries = len(self.offsets) - 1
        if getattr(self, "shard", None) is None:
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
        names = ("features", "offsets", "query_ids", "weights", *_BY_DOCUMENT)
        arrays = [getattr(self, name) for name in names]
        return [array for array in arrays if array is not None]

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        split_queries: SplitQueries = "error",
        absent: float = 0.0,
        weights: ArrayLike | None = None,
        base_scores: ArrayLike | None = None,
        document_ids: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        document_weights: ArrayLike | None = None,
    ) -> Dataset:
        """A Dataset from NumPy arrays, lists or a scipy.sparse matrix.

        Parameters
        ----------
        features
            Two-dimensional; converted to float32. A value past float32's range is an error.
        labels
            One per row, finite.
        qid, group
            Exactly one: a query id for every row (any type), or the rows of every query.
        split_queries
            What to do when a query's rows are not contiguous: "error" or "group".
        absent
            What an absent entry of a sparse matrix means: 0.0, or nan for missing.
        weights
            One per query. One per row is accepted too if it is the same within each query.
        base_scores, document_ids, feature_names, document_weights
            See the class.

        >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], qid=[5, 5, 6])
        >>> data.n_documents, data.n_queries, data.n_features
        (3, 2, 1)
        """
        matrix = as_features(features, absent)
        queries = make_queries(len(matrix), qid, group, split_queries)
        rows = arranged(
            queries, labels=labels, weights=weights, base_scores=base_scores,
            document_ids=document_ids, document_weights=document_weights,
        )  # fmt: skip
        return cls(
            features=matrix if queries.order is None else matrix[queries.order],
            offsets=queries.offsets,
            query_ids=queries.ids.copy(),
            feature_names=() if feature_names is None else tuple(feature_names),
            **rows,
        )

    @property
    def n_documents(self) -> int:
        return len(self.features)

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

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

        >>> Dataset.from_arrays([[0.0]] * 3, [0] * 3, group=[1, 2], weights=[2, 3]).cost_weights
        array([2., 3., 3.])
        """
        by_document = np.repeat(self.query_weights, self.group)
        return by_document if self.document_weights is None else by_document * self.document_weights

    def query_of(self, row: int) -> int:
        """The number of the query that a row belongs to."""
        return int(np.searchsorted(self.offsets, row, side="right") - 1)

    def take_queries(self, indices: ArrayLike) -> Dataset:
        """The Dataset of these queries, in this order, by number or by boolean mask.

        A run of neighbouring queries shares memory with this Dataset; others are copied.

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
        rows: slice | NDArray[np.int64]
        if np.array_equal(chosen, np.arange(chosen[0], chosen[0] + len(chosen))):
            rows = slice(int(self.offsets[chosen[0]]), int(self.offsets[chosen[-1] + 1]))
        else:
            rows = spans(self.offsets[chosen], sizes)
        by_document = {name: getattr(self, name) for name in _BY_DOCUMENT}
        return replace(
            self,
            features=self.features[rows],
            offsets=offsets_of(sizes),
            query_ids=self.query_ids[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            shard=Shard.whole(offsets_of(sizes)),
            **{name: values[rows] for name, values in by_document.items() if values is not None},
        )

    def split(self, *fractions: float, seed: int = 0) -> tuple[Dataset, ...]:
        """Cut by query, at random, into parts of these fractions of the queries.

        The fractions must add up to 1. Queries keep their order inside a part, and every part
        has at least one.

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

    def folds(self, n_folds: int = 5, *, seed: int = 0) -> Iterator[tuple[Dataset, Dataset]]:
        """Pairs (train, test) for cross-validation: each query is in exactly one test part.

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

    def describe(self) -> Description:
        """What is in the data: sizes, grades, missing values, constant and repeated rows."""
        from rankgrove.data.describe import describe  # noqa: PLC0415 (it imports this module)

        return describe(self)

    def __repr__(self) -> str:
        return (
            f"<Dataset: {self.n_documents} documents, {self.n_queries} queries, "
            f"{self.n_features} features>"
        )


def default_feature_names(n_features: int) -> tuple[str, ...]:
    """`f1`, `f2`, …: numbered from 1, as LETOR files number them."""
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def as_floats(values: ArrayLike, name: str, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """A one-dimensional contiguous float array of its own memory."""
    return _as_numbers(values, name, dtype, 1)


def as_features(features: Any, absent: float) -> NDArray[np.float32]:
    if hasattr(features, "tocsr"):
        return _dense_from_sparse(features, absent)
    array = _as_numbers(features, "features", np.float32, 2)
    _check_range(features, array)
    return array


def _as_numbers(values: Any, name: str, dtype: Any, n_dimensions: int) -> NDArray[Any]:
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be numbers. Got {error}.") from None
    if array.ndim != n_dimensions:
        form = {1: "one", 2: "two"}[n_dimensions]
        raise DataError(f"{name} must be {form}-dimensional. Got shape {array.shape}.")
    return array


def _dense_from_sparse(matrix: Any, absent: float) -> NDArray[np.float32]:
    csr = matrix.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()  # the caller's matrix stays as it is
        csr.sum_duplicates()
    out = np.full(csr.shape, absent, dtype=np.float32)
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    with np.errstate(over="ignore"):
        out[rows, csr.indices] = csr.data
    _check_range(csr.data, out[rows, csr.indices])
    return out


def _check_range(source: Any, converted: NDArray[np.float32]) -> None:
    """Refuse finite values that became infinite in float32."""
    infinite = np.isinf(converted)
    if infinite.any() and np.isfinite(np.asarray(source, dtype=np.float64)[infinite]).any():
        raise DataError(
            "features must fit into float32 (up to 3.4e38). Got a larger value: "
            "rescale that feature."
        )


def arranged(queries: Queries, **given: Any) -> dict[str, Any]:
    """What is given by row, as the fields of a Dataset have it: in their order, weights by query.

    Of another length it is left as it is, for a Dataset to refuse.
    """
    fields = {}
    for name, values in given.items():
        if values is None and name != "labels":
            continue
        if name == "document_ids":
            array = as_ids(values, name).copy()
        else:
            array = as_floats(values, name, np.float32 if name == "labels" else np.float64)
        if len(array) == queries.offsets[-1]:
            array = array if queries.order is None else array[queries.order]
            array = _weights_of_queries(array, queries.offsets) if name == "weights" else array
        fields[name] = array
    return fields


def _weights_of_queries(
    weights: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """One weight per query from one per row, which must agree within each query."""
    first = weights[offsets[:-1]]
    differs = weights != np.repeat(first, np.diff(offsets))
    if differs.any():
        raise DataError(
            f"weights must be one per query, or the same for all rows of a query. Got a different "
            f"one at row {int(differs.argmax())}: weights of single documents are "
            f"document_weights."
        )
    return first


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


def _check_finite(name: str, values: NDArray[Any] | None, data: Dataset) -> None:
    if values is None or np.isfinite(values).all():
        return
    row = int((~np.isfinite(values)).argmax())
    query = data.query_ids[data.query_of(row)]
    raise DataError(
        f"every {name} must be finite. Got {values[row]} at row {row} of query {query}: "
        f"remove or correct that row."
    )

"""The Dataset: documents with features and labels, grouped by query, immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.checksum import checksum_of_features
from rankgrove.data.documents import Documents, Rows, default_feature_names
from rankgrove.data.levels import Levels
from rankgrove.data.queries import Queries, SplitQueries, as_ids, make_queries
from rankgrove.data.shard import Shard
from rankgrove.data.sparse_features import Features, SparseFeatures, stays_sparse
from rankgrove.errors import DataError

__all__ = [
    "Dataset",
    "arranged",
    "as_features",
    "as_floats",
    "default_feature_names",
    "with_features",
    "with_numbers",
]

if TYPE_CHECKING:
    from rankgrove.data.describe import Description


@dataclass(frozen=True, eq=False)
class Dataset(Documents):
    """Judged documents of many queries. Immutable: its arrays refuse writes.

    Build one with `Dataset.from_arrays`, `read_letor`, `read_table` or `from_frame`; the
    plain constructor takes arrays that already have these forms.

    Attributes
    ----------
    features
        One row per document, float32, row-major. NaN is missing; infinities are values. Sparse
        data of many features are `SparseFeatures`, of which `numpy.asarray` gives all values.
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
    levels
        For each feature, by its number, that is of categories other than numbers: these, in rising
        order. Its value k stands for level k.
    more_labels
        Further labels by name, each as `labels`: what metrics such as "ndcg@10 of clicks" go by.
    """

    features: Features
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    base_scores: NDArray[np.float64] | None = None
    document_ids: NDArray[Any] | None = None
    feature_names: tuple[str, ...] = ()
    document_weights: NDArray[np.float64] | None = None
    shard: Shard = None  # type: ignore[assignment]
    levels: dict[int, Levels] = field(default_factory=dict)
    more_labels: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.features.ndim != 2:
            raise DataError(f"features must be two-dimensional. Got shape {self.features.shape}.")
        self._check(*self.features.shape)

    def _arrays(self) -> list[NDArray[Any]]:
        # (Sparse features are locked as they are made.)
        dense = [] if isinstance(self.features, SparseFeatures) else [self.features]
        return [*dense, *super()._arrays()]

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
        more_labels: Mapping[str, ArrayLike] | None = None,
    ) -> Dataset:
        """A Dataset from NumPy arrays, lists or a scipy.sparse matrix.

        Parameters
        ----------
        features
            Two-dimensional; converted to float32. A value past float32's range is an error. A
            sparse matrix stays sparse if it has at least 64 features and at most a fifth of its
            values: training and scoring take it as it is, and give the same bits.
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
        base_scores, document_ids, feature_names, document_weights, more_labels
            See the class.

        Examples
        --------
        >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], qid=[5, 5, 6])
        >>> data.n_documents, data.n_queries, data.n_features
        (3, 2, 1)
        """
        matrix = as_features(features, absent)
        queries = make_queries(len(matrix), qid, group, split_queries)
        rows = arranged(
            queries, labels=labels, weights=weights, base_scores=base_scores,
            document_ids=document_ids, document_weights=document_weights, more_labels=more_labels,
        )  # fmt: skip
        return cls(
            features=matrix if queries.order is None else matrix[queries.order],
            offsets=queries.offsets,
            query_ids=queries.ids.copy(),
            feature_names=() if feature_names is None else tuple(feature_names),
            **rows,
        )

    def features_checksum(self, n_jobs: int | None = None) -> int:
        return checksum_of_features(self.features, self.shard.row_numbers, n_jobs)

    def _take(self, rows: Rows, **fields: Any) -> Dataset:
        return replace(self, features=self.features[rows], **fields)

    def describe(self) -> Description:
        """What is in the data: sizes, grades, missing values, constant and repeated rows."""
        from rankgrove.data.describe import describe  # noqa: PLC0415 (it imports this module)

        return describe(self)

    def __repr__(self) -> str:
        return (
            f"<Dataset: {self.n_documents} documents, {self.n_queries} queries, "
            f"{self.n_features} features>"
        )


def with_features(data: Documents, purpose: str) -> Dataset:
    """The data, which must have features as numbers for this purpose."""
    if isinstance(data, Dataset):
        return data
    raise DataError(
        f"{purpose} must be given data with features. Got {type(data).__name__}, which has codes "
        f"in their place: read the file with read_data."
    )


def with_numbers(data: Documents, purpose: str) -> Dataset:
    """The data, whose features must all be numbers that mean what they say for this purpose."""
    data = with_features(data, purpose)
    for name, levels in data.levels_by_name.items():
        shown = f", as {levels[0]!r:.40}" if levels else ""
        raise DataError(
            f"{purpose} must be given features that are numbers. Got categories in "
            f"{name!r}{shown}: drop it, or make numbers of it, one column per category."
        )
    return data


def as_floats(values: ArrayLike, name: str, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """A one-dimensional contiguous float array of its own memory."""
    return _as_numbers(values, name, dtype, 1)


def as_features(features: Any, absent: float) -> Features:
    """Anything of two dimensions as float32; what comes sparse may stay so."""
    if isinstance(features, SparseFeatures):
        return features
    if hasattr(features, "tocsr"):
        return _from_scipy(features, absent)
    array = _as_numbers(features, "features", np.float32, 2)
    _check_range(features, array)
    return array


def _as_numbers(values: Any, name: str, dtype: Any, n_dimensions: int) -> NDArray[Any]:
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        advice = ""
        if name == "features" and "string" in str(error):
            advice = ": categories that are strings must come in a data frame"
        raise DataError(f"{name} must be numbers. Got {error}{advice}.") from None
    if array.ndim != n_dimensions:
        form = {1: "one", 2: "two"}[n_dimensions]
        raise DataError(f"{name} must be {form}-dimensional. Got shape {array.shape}.")
    return array


def _from_scipy(matrix: Any, absent: float) -> Features:
    """A scipy.sparse matrix of any form, which stays as it is; dense if it is small or has much."""
    if len(matrix.shape) != 2:
        raise DataError(f"features must be two-dimensional. Got shape {matrix.shape}.")
    if getattr(matrix, "format", "") == "csc":
        _check_compressed(matrix)
    csr = matrix.tocsr()
    _check_compressed(csr)
    n_stored, n_columns = int(csr.indptr[-1]), csr.shape[1]
    if not _rises(csr.indptr, csr.indices[:n_stored]):
        csr = csr.copy()
        csr.has_sorted_indices = csr.has_canonical_format = False
        csr.sum_duplicates()
        n_stored = int(csr.indptr[-1])
    stored = csr.data[:n_stored]
    with np.errstate(over="ignore"):
        values = stored.astype(np.float32)
    _check_range(stored, values)
    columns = csr.indices[:n_stored].astype(np.int32)
    sparse = SparseFeatures.of(csr.indptr.astype(np.int64), columns, values, n_columns, absent)
    return sparse if stays_sparse(*sparse.shape, sparse.n_stored) else np.asarray(sparse)


def _check_compressed(matrix: Any) -> None:
    """Refuse rows, or columns, whose places are wrong: code that is compiled trusts them."""
    starts, places = matrix.indptr, matrix.indices
    n_major, n_minor = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
    problem = ""
    if len(starts) != n_major + 1 or starts[0] != 0 or np.any(np.diff(starts) < 0):
        problem = "an indptr that does not rise from 0"
    elif starts[-1] > min(len(places), len(matrix.data)):
        problem = "an indptr past the end of its data"
    elif np.any((places[: starts[-1]] < 0) | (places[: starts[-1]] >= n_minor)):
        problem = "indices outside of its shape"
    if problem:
        raise DataError(f"features must be a sound sparse matrix. Got {problem}: make it anew.")


def _rises(starts: NDArray[Any], columns: NDArray[Any]) -> bool:
    """Whether columns rise strictly within each row."""
    falls = np.diff(columns) <= 0
    inner = starts[(starts > 0) & (starts < len(columns))]
    falls[inner - 1] = False
    return not falls.any()


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
    fields: dict[str, Any] = {}
    for name, values in given.items():
        if values is None and name != "labels":
            continue
        if name == "more_labels":
            fields[name] = {
                each: arranged(queries, labels=labels)["labels"] for each, labels in values.items()
            }
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

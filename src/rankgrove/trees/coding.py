"""Features as an ensemble sees them: codes of one byte by the thresholds of its own splits.

A column is a feature with up to 254 of the thresholds at which the ensemble splits it, and the
code of a value is one more than the number of thresholds below it; a missing value has the code 0.
A column can also be a feature with a set of categories, whose codes are 1 in the set and 2 outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, by_address, empty, kernel
from rankgrove.data.sparse_features import Features, SparseFeatures
from rankgrove.errors import DataError
from rankgrove.trees.ensemble import SET_WORDS, Ensemble

# Documents that are coded, and scored, together.
BLOCK = 128
# Codes 1 to 255 are the 255 places among 254 thresholds.
MAX_EDGES = 254
# Up to so many documents are coded value by value and walked through trees: to walk one through
# 500 trees of 63 leaves takes 20 us, to decide all of their splits for 32 documents 60 us.
FEW_ROWS = 3
# Thresholds of a column that a value is compared with first.
_PIVOTS = 15


@kernel
def encode_block(features, first, rows, column_feature, column_set, edges, n_edges, sets, codes):
    """Codes of one block: rows `first` to `first + rows` of the features, a column after another.

    The place among the thresholds is first counted against 15 of them, which is quicker in
    vectors than four steps of halving, and then found by halving, without a branch, for all
    documents in step; of a few documents by halving alone. Thresholds are padded with infinity.
    """
    values = empty(BLOCK, np.float32)
    places = empty(BLOCK, np.uint32)
    pivots = empty(_PIVOTS, np.float32)
    for column in range(len(column_feature)):
        feature = column_feature[column]
        out = codes[column]
        for i in range(rows):
            values[i] = features[first + i, feature]
        if column_set[column] >= 0:
            _encode_categories(values, rows, sets[column_set[column]], out)
            continue
        cut = edges[column]
        if rows <= FEW_ROWS:
            for i in range(rows):
                out[i] = _code_of(values[i], cut, n_edges[column])
            continue
        step = np.uint32(1)
        while (_PIVOTS + 1) * step <= n_edges[column]:
            step = np.uint32(2 * step)
        for pivot in range(_PIVOTS):
            pivots[pivot] = cut[step * (pivot + 1) - 1]
        for i in range(rows):
            below = np.uint32(0)
            for pivot in range(_PIVOTS):
                below += np.uint32(pivots[pivot] < values[i])
            places[i] = np.uint32(below) * step
        step = np.uint32(step // 2)
        while step > 0:
            for i in range(rows):
                place = places[i]
                further = np.uint32(place + step)
                places[i] = further if cut[np.uint32(further - 1)] < values[i] else place
            step = np.uint32(step // 2)
        for i in range(rows):
            out[i] = np.uint8(0) if values[i] != values[i] else np.uint8(places[i] + 1)


@by_address
class SparseRows(NamedTuple):
    """Sparse features, and what codes they come to, as kernels take them.

    Attributes
    ----------
    starts, columns, values
        As of `SparseFeatures`.
    first_codes, code_columns
        The columns of codes of feature f are `code_columns[first_codes[f]:first_codes[f + 1]]`; of
        features after the last one there are none.
    absent_codes
        For each column of codes, that of a value that is not stored.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    first_codes: NDArray[np.int64]
    code_columns: NDArray[np.int64]
    absent_codes: NDArray[np.uint8]


@kernel
def encode_sparse_block(sparse, first, rows, column_set, edges, n_edges, sets, codes):
    """As `encode_block`, of sparse features: only what is stored is looked for."""
    one = empty(1, np.float32)
    n_features = len(sparse.first_codes) - 1
    for column in range(len(sparse.absent_codes)):
        absent = sparse.absent_codes[column]
        out = codes[column]
        for i in range(rows):
            out[i] = absent
    for i in range(rows):
        for at in range(sparse.starts[first + i], sparse.starts[first + i + 1]):
            feature, value = sparse.columns[at], sparse.values[at]
            if feature >= n_features:
                break
            for k in range(sparse.first_codes[feature], sparse.first_codes[feature + 1]):
                column = sparse.code_columns[k]
                if column_set[column] >= 0:
                    one[0] = value
                    _encode_categories(one, 1, sets[column_set[column]], codes[column, i:])
                else:
                    codes[column, i] = _code_of(value, edges[column], n_edges[column])


@kernel
def _code_of(value, cut, n_edges):
    step = np.uint32(1)
    while 2 * step <= n_edges:
        step = np.uint32(2 * step)
    place = np.uint32(0)
    while step > 0:
        further = np.uint32(place + step)
        place = further if cut[np.uint32(further - 1)] < value else place
        step = np.uint32(step // 2)
    return np.uint8(0) if value != value else np.uint8(place + 1)


@kernel
def _encode_categories(values, rows, members, out):
    for i in range(rows):
        value = values[i]
        if value >= 0 and value <= 255 and value == np.floor(value):
            category = np.int64(value)
            out[i] = 2 - ((members[category // 32] >> np.uint32(category % 32)) & 1)
        else:
            out[i] = 0


@dataclass(frozen=True, eq=False)
class Coding:
    """How features become codes, and what each split asks of them.

    Attributes
    ----------
    feature, category_set
        One entry per column: its feature, and its row of `sets` or -1 for thresholds.
    edges, n_edges
        The thresholds of each column, float32, rising, padded with infinity; how many.
    sets
        The distinct sets of categories.
    column, highest, less
        One entry per split, in the order of the ensemble: a code goes left if, less the one, as
        a byte without sign, it is at most the other. Less 1, the missing code 0 is the highest.
    """

    feature: NDArray[np.int64]
    category_set: NDArray[np.int64]
    edges: NDArray[np.float32]
    n_edges: NDArray[np.int64]
    sets: NDArray[np.uint32]
    column: NDArray[np.int64]
    highest: NDArray[np.uint8]
    less: NDArray[np.uint8]

    @classmethod
    def of(cls, ensemble: Ensemble) -> Coding:
        """The columns that the splits of an ensemble need.

        >>> Coding.of(Ensemble.from_trees([])).n_columns
        0
        """
        column = np.zeros(len(ensemble.feature), dtype=np.int64)
        place = np.zeros(len(ensemble.feature), dtype=np.int64)
        by_threshold = np.flatnonzero(ensemble.category_set < 0)
        by_set = np.flatnonzero(ensemble.category_set >= 0)

        feature, threshold = ensemble.feature[by_threshold], ensemble.threshold[by_threshold]
        order = np.lexsort((threshold, feature))
        feature, threshold = feature[order], threshold[order]
        new_feature = _differs(feature)
        new_edge = new_feature | _differs(threshold)
        edge = np.cumsum(new_edge) - 1
        rank = edge - np.repeat(edge[new_feature], np.diff(np.flatnonzero(_ended(new_feature))))
        new_column = new_edge & (rank % MAX_EDGES == 0)
        column[by_threshold[order]] = np.cumsum(new_column) - 1
        place[by_threshold[order]] = rank % MAX_EDGES
        n_edges = np.diff(np.flatnonzero(_ended(new_column[new_edge])))
        n_numeric = len(n_edges)

        used = ensemble.category_sets[ensemble.category_set[by_set]]
        keys = np.column_stack([ensemble.feature[by_set].astype(np.uint32), used])
        keys, own = np.unique(keys, axis=0, return_inverse=True)
        column[by_set] = n_numeric + own.reshape(-1)

        width = (1 << int(n_edges.max(initial=_PIVOTS)).bit_length()) - 1
        edges = np.full((n_numeric + len(keys), width), np.inf, dtype=np.float32)
        edges[column[by_threshold], place[by_threshold]] = ensemble.threshold[by_threshold]
        none = np.full(n_numeric, -1)
        missing_left = ensemble.missing_left != 0
        return cls(
            feature=as_input(np.concatenate([feature[new_column], keys[:, 0]]), np.int64),
            category_set=as_input(np.concatenate([none, np.arange(len(keys))]), np.int64),
            edges=as_input(edges, np.float32),
            n_edges=as_input(np.concatenate([n_edges, np.zeros(len(keys))]), np.int64),
            sets=as_input(keys[:, 1:].reshape(-1, SET_WORDS), np.uint32),
            column=column,
            highest=(place + missing_left).astype(np.uint8),
            less=(~missing_left).astype(np.uint8),
        )

    @property
    def n_columns(self) -> int:
        return len(self.feature)

    @cached_property
    def n_features(self) -> int:
        """The features that a matrix must have at least."""
        return int(self.feature.max(initial=-1)) + 1

    def arrays(self) -> tuple[NDArray, ...]:  # type: ignore[type-arg]
        """What the coding kernel takes, in its order."""
        return self.feature, self.category_set, self.edges, self.n_edges, self.sets

    def check(self, features: Features) -> None:
        """Refuse features that lack one of the trees."""
        if features.ndim != 2 or features.shape[1] < self.n_features:
            raise DataError(
                f"features must have a row per document and at least the {self.n_features} columns "
                f"that the trees use. Got shape {features.shape}."
            )

    def sparse_rows(self, features: SparseFeatures) -> SparseRows:
        """Sparse features as the scoring kernel takes them."""
        absent = features.absent
        codes = self._codes_of_zero if absent == 0 else self._codes_of(absent)
        return SparseRows(
            features.starts, features.columns, features.values, *self._by_feature, codes
        )

    @cached_property
    def _by_feature(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the columns of each feature begin among all columns in the order of features."""
        order = np.argsort(self.feature, kind="stable")
        firsts = np.searchsorted(self.feature[order], np.arange(self.n_features + 1))
        return as_input(firsts, np.int64), as_input(order, np.int64)

    @cached_property
    def _codes_of_zero(self) -> NDArray[np.uint8]:
        return self._codes_of(0.0)

    def _codes_of(self, value: float) -> NDArray[np.uint8]:
        """The code of one value in all columns."""
        codes = np.zeros(self.n_columns, dtype=np.uint8)
        if not np.isnan(value):
            codes[:] = np.count_nonzero(self.edges < value, axis=1) + 1
            by_set = self.category_set >= 0
            codes[by_set] = 0
            if 0 <= value <= 255 and value == int(value):
                word, bit = divmod(int(value), 32)
                words = self.sets[self.category_set[by_set], word]
                codes[by_set] = 2 - ((words >> np.uint32(bit)) & 1)
        return as_input(codes, np.uint8)


def _differs(values: NDArray) -> NDArray[np.bool_]:  # type: ignore[type-arg]
    """Whether each value differs from the one before; the first does."""
    return np.concatenate([np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]])


def _ended(starts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The marks of where runs start, and one behind the end."""
    return np.append(starts, True)

"""Binning: features become codes of one byte, by quantiles of a sample.

A feature has up to 255 value bins, cut at its edges: the code of a value is the number of edges
below it, so `code <= t` means `value <= edges[t]`. Missing values have the code 255. A feature
with no more distinct values than bins keeps each of them in a bin of its own.

A categorical feature has a code a category, the most frequent first; categories past the last
code, and those not seen in training, have the code of missing values.

Codes stand row by row, features in blocks of 16: the codes of a row are fetched together, and the
histogram of a block fits into the first-level cache. Categorical features, those with missing
values, and then those with few bins, are put side by side, so that few blocks pay for a search
of their own, for a second scan or for 255 bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.peers import ALONE, Peers
from rankgrove.data.shard import Shard
from rankgrove.data.sparse_features import Features, with_columns
from rankgrove.errors import DataError, ParameterError
from rankgrove.trees.sparse import OtherCodes, common_codes, others_of, spread_columns
from rankgrove.trees.summary import Summary, most_frequent, sampled_rows

BLOCK = 16
MAX_BINS = 255
MISSING_CODE = 255

# Kinds of features, and of blocks, which have the highest kind of their features.
PLAIN, WITH_MISSING, CATEGORICAL = range(3)

# Features of which this share of rows has one code are sparse: to add a cell takes longer than to
# add a code, as cells of all blocks are mixed. It is worth while if this share of features are, and
# so many of them.
LEAST_COMMON = 0.8
LEAST_SPARSE = 0.4
FEWEST_SPARSE = 16

# Rows whose values, codes and edges stay in the second-level cache.
_CHUNK_ROWS = 1024


@kernel
def _midpoint(low, high):
    """A float32 that is at least `low` and below `high`."""
    middle = np.float32((np.float64(low) + np.float64(high)) / 2)
    return middle if low <= middle < high else low


@kernel
def find_edges(values, counts, max_bins, edges):
    """Cut values into at most `max_bins` bins; write the edges, return their number.

    The values are distinct and rise; `counts` has how often each is there. Few of them have a bin
    each. Otherwise a value that is as frequent as a bin should be gets a bin of its own, and the
    others share what is left about equally, as in LightGBM.
    """
    n_values = len(values)
    if n_values <= max_bins:
        for i in range(1, n_values):
            edges[i - 1] = _midpoint(values[i - 1], values[i])
        return max(n_values - 1, 0)
    n = np.int64(0)
    for i in range(n_values):
        n += counts[i]
    frequent = n / max_bins
    rest = n
    bins = max_bins
    for i in range(n_values):
        if counts[i] >= frequent:
            rest -= counts[i]
            bins -= 1
    share = rest / max(bins, 1)
    found = 0
    filled = 0
    for i in range(n_values - 1):
        if found == max_bins - 1:
            break
        alone = counts[i] >= frequent
        filled += counts[i]
        if not alone:
            rest -= counts[i]
        if alone or filled >= share or counts[i + 1] >= frequent:
            edges[found] = _midpoint(values[i], values[i + 1])
            found += 1
            filled = 0
            if not alone:
                bins -= 1
                share = rest / max(bins, 1)
    return found


@kernel
def encode_rows(values, first, last, columns, edges, codes, by_feature):
    """Codes of the features `columns` for rows first to last.

    They are also written feature by feature, unless `by_feature` is empty.

    The search halves 256 places eight times without a branch; edges are padded with infinity.
    """
    for slot in range(len(columns)):
        cut = edges[columns[slot]]
        for row in range(first, last):
            value = values[row, columns[slot]]
            at = np.int64(0)
            for step in (128, 64, 32, 16, 8, 4, 2, 1):
                at += step * (cut[at + step - 1] < value)
            codes[row, slot] = np.uint8(255) if value != value else np.uint8(at)
        if len(by_feature):
            column = by_feature[slot]
            for row in range(first, last):
                column[row] = codes[row, slot]


@dataclass(frozen=True, eq=False)
class Bins:
    """How each feature is cut into bins.

    Attributes
    ----------
    edges
        float32, a row of 255 a feature, rising, padded with infinity.
    n_bins
        Value bins of each feature: its edges and one.
    kinds
        PLAIN, WITH_MISSING for a feature that had missing values, or CATEGORICAL.
    categories
        For each categorical feature, its categories in the order of their codes.
    """

    edges: NDArray[np.float32]
    n_bins: NDArray[np.int64]
    kinds: NDArray[np.int64]
    categories: dict[int, tuple[float, ...]]

    @property
    def order(self) -> NDArray[np.int64]:
        """The features in the order of their places in a binned matrix."""
        return np.lexsort((np.arange(len(self.n_bins)), -self.n_bins, -self.kinds))

    def same_as(self, other: Bins) -> bool:
        """Whether codes by these bins mean what codes by the other ones do."""
        names = ("edges", "n_bins", "kinds")
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
        return self is other or (self.categories == other.categories and all(same))

    @classmethod
    def fit(
        cls, features: Features, max_bins: int = MAX_BINS, *,
        categorical: Iterable[int] = (), seed: int = 0, n_jobs: int | None = None,
        shard: Shard | None = None,
    ) -> Bins:  # fmt: skip
        """Find the bins from a sample of the rows of all workers; categories from all of them.

        >>> bins = Bins.fit(np.array([[1.0], [2.0], [2.0], [np.nan]], dtype=np.float32))
        >>> bins.n_bins.tolist(), bins.kinds.tolist(), float(bins.edges[0, 0])
        ([2], [1], 1.5)
        """
        n_all = len(features) if shard is None else shard.n_documents
        peers = ALONE if shard is None else shard.peers
        sampled = sampled_rows(n_all, seed)
        if sampled is not None and shard is not None and peers.size > 1:
            sampled = np.flatnonzero(np.isin(shard.row_numbers, sampled, assume_unique=True))
        rows = slice(None) if sampled is None else sampled
        summary = Summary.of(features, rows, sorted(categorical), n_jobs)
        return cls.of(summary.of_all(peers), max_bins, n_jobs)

    @classmethod
    def of(cls, summary: Summary, max_bins: int = MAX_BINS, n_jobs: int | None = None) -> Bins:
        """The bins of what was found in all rows."""
        if not isinstance(max_bins, (int, np.integer)) or not 2 <= max_bins <= MAX_BINS:
            raise ParameterError(f"max_bins must be from 2 to {MAX_BINS}. Got {max_bins!r}.")
        n_features = len(summary.missing)
        if n_features == 0:
            raise DataError("features must have at least one column. Got none.")
        edges = np.full((n_features, MAX_BINS), np.inf, dtype=np.float32)
        n_bins = np.ones(n_features, dtype=np.int64)

        columns = summary.sample_columns()

        def task(chunk: int) -> None:
            first = chunk * BLOCK
            for feature, counted in enumerate(columns.count(first, first + BLOCK), start=first):
                n_bins[feature] = 1 + find_edges(*counted, int(max_bins), edges[feature])

        run_chunks(task, -(-n_features // BLOCK), n_jobs)
        kinds = np.where(summary.missing, WITH_MISSING, PLAIN).astype(np.int64)
        categories = {}
        for feature, counted in summary.categories.items():
            categories[feature] = most_frequent(counted, max_bins)
            edges[feature] = np.inf
            n_bins[feature] = max(len(categories[feature]), 1)
            kinds[feature] = CATEGORICAL
        return cls(edges, n_bins, kinds, categories)


class CategoryCodes:
    """The codes of the values of a categorical feature, -1 for a missing or unknown one.

    >>> CategoryCodes((3.0, 7.0))(np.float32([7, 3, 9])).tolist()
    [1, 0, -1]
    """

    def __init__(self, categories: Sequence[float]) -> None:
        known = np.array(categories, dtype=np.float32)
        order = np.argsort(known)
        # And one that nothing equals, for what comes after all of them.
        self._known = np.append(known[order], np.float32(np.nan))
        self._codes = np.append(order, -1)

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.int64]:
        places = self._known.searchsorted(values)
        return np.where(self._known[places] == values, self._codes[places], -1)


def with_category_codes(features: Features, categories: Mapping[int, CategoryCodes]) -> Features:
    """The features with the codes of categories in place of their values, NaN for unknown ones.

    The matrix itself where no feature is categorical, a copy otherwise.
    """
    if not categories:
        return features
    columns = {}
    for feature, codes_of in categories.items():
        codes = codes_of(features[:, feature])
        columns[feature] = np.where(codes < 0, np.nan, codes).astype(np.float32)
    return with_columns(features, columns)


class SparseLayout(NamedTuple):
    """Which features have all of their codes kept and which only others than the common one.

    Attributes
    ----------
    dense, sparse
        Features of both kinds, in the order of their places.
    common
        The common code of each sparse feature.
    """

    dense: NDArray[np.int64]
    sparse: NDArray[np.int64]
    common: NDArray[np.int64]

    @classmethod
    def of(
        cls, common: NDArray[np.int64], share: NDArray[np.float64], features: NDArray[np.int64]
    ) -> SparseLayout | None:
        """By the common code of each place, its share and its feature; None if few are sparse."""
        placed = features >= 0
        is_sparse = (share >= LEAST_COMMON) & placed
        least = max(FEWEST_SPARSE, LEAST_SPARSE * np.count_nonzero(placed))
        if np.count_nonzero(is_sparse) < least:
            return None
        return cls(features[placed & ~is_sparse], features[is_sparse], common[is_sparse])

    @property
    def width(self) -> int:
        """The bytes of the codes of a row that are all kept."""
        return padded_width(len(self.dense))

    @property
    def order(self) -> NDArray[np.int64]:
        """The feature of each place, -1 where the last dense block has none."""
        order = np.full(self.width + len(self.sparse), -1, dtype=np.int64)
        order[: len(self.dense)], order[self.width :] = self.dense, self.sparse
        return order


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """The codes of a feature matrix, in blocks.

    Attributes
    ----------
    codes
        uint8 of shape (rows, blocks * 16).
    by_feature
        The same transposed, for dividing rows by one feature; without rows if not asked for.
    slots
        For each feature, its place: the column of `codes` that it has.
    features
        For each place, its feature; -1 where the last block has none.
    block_bins
        For each block, the most value bins of its features.
    block_kinds
        For each block, the highest kind of its features.
    others
        Of features that have one code in most rows, the other codes: these features have the last
        blocks, and no place in `codes`. None without any.
    n_pairs
        How many of the last blocks of `codes` stand for two each: see `pairs.py`.
    """

    codes: NDArray[np.uint8]
    by_feature: NDArray[np.uint8]
    slots: NDArray[np.int64]
    features: NDArray[np.int64]
    block_bins: NDArray[np.int64]
    block_kinds: NDArray[np.int64]
    others: OtherCodes | None = None
    n_pairs: int = 0

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[0])

    @property
    def n_blocks(self) -> int:
        return len(self.block_bins)

    @property
    def has_all_codes(self) -> bool:
        """Whether each place is a column of `codes`."""
        return self.others is None and not self.n_pairs

    @classmethod
    def of(
        cls,
        codes: NDArray[np.uint8],
        bins: Bins,
        by_feature: NDArray[np.uint8] | None = None,
        order: NDArray[np.int64] | None = None,
        others: OtherCodes | None = None,
    ) -> BinnedMatrix:
        """The matrix of codes by these bins, transposed or not, in the order of bins or another."""
        none = np.empty((0, len(codes)), dtype=np.uint8)
        return cls(
            codes=as_input(codes, np.uint8),
            by_feature=as_input(none if by_feature is None else by_feature, np.uint8),
            **_places_of(bins.order if order is None else order, bins),
            others=others,
        )

    def with_sparse(
        self, bins: Bins, peers: Peers = ALONE, n_jobs: int | None = None
    ) -> BinnedMatrix:
        """The same, with only the other codes of features that have one code in most rows.

        It is itself if there are few of them. All peers must have the same bins.
        """
        if self.others is not None:
            return self
        layout = SparseLayout.of(*common_codes(self.codes, peers), self.features)
        if layout is None:
            return self
        dense, sparse = self.slots[layout.dense], self.slots[layout.sparse]
        width = layout.width
        others = others_of(self.codes, sparse, layout.common, width // BLOCK, n_jobs)
        codes = np.zeros((self.n_rows, width), dtype=np.uint8)
        codes[:, : len(dense)] = self.codes[:, dense]
        by_feature = None
        if len(self.by_feature):
            by_feature = np.zeros((width, self.n_rows), dtype=np.uint8)
            by_feature[: len(dense)] = self.by_feature[dense]
        return BinnedMatrix.of(codes, bins, by_feature, layout.order, others)

    def codes_at(self, places: NDArray[np.int64], first: int, last: int) -> NDArray[np.uint8]:
        """The codes of some rows at some places."""
        n_plain = self.codes.shape[1] - BLOCK * self.n_pairs
        width = n_plain + 2 * BLOCK * self.n_pairs
        is_plain, is_paired = places < n_plain, (places >= n_plain) & (places < width)
        codes = np.empty((last - first, len(places)), dtype=np.uint8)
        codes[:, is_plain] = self.codes[first:last, places[is_plain]]
        if self.n_pairs:
            blocks, columns = np.divmod(places[is_paired] - n_plain, BLOCK)
            shared = self.codes[first:last, n_plain + blocks // 2 * BLOCK + columns]
            codes[:, is_paired] = np.where(blocks % 2, shared & 15, shared >> 4)
        if self.others is not None:
            spread_columns(self.others, as_input(places - width, np.int64), first, last, codes)
        return codes

    def all_codes(self, bins: Bins) -> NDArray[np.uint8]:
        """The codes of all rows as `encode` gives them."""
        if self.has_all_codes:
            return self.codes
        order = bins.order
        codes = np.zeros((self.n_rows, padded_width(len(order))), dtype=np.uint8)
        codes[:, : len(order)] = self.codes_at(self.slots[order], 0, self.n_rows)
        return codes

    def with_columns(self, n_jobs: int | None = None) -> BinnedMatrix:
        """The same with its codes transposed, too."""
        n_rows, width = self.codes.shape
        turned = np.empty((width, n_rows), dtype=np.uint8)

        def task(chunk: int) -> None:
            rows = slice(chunk * _CHUNK_ROWS, (chunk + 1) * _CHUNK_ROWS)
            turned[:, rows] = self.codes[rows].T

        run_chunks(task, -(-n_rows // _CHUNK_ROWS), n_jobs)
        return replace(self, by_feature=as_input(turned, np.uint8))


def _places_of(order: NDArray[np.int64], bins: Bins) -> dict[str, Any]:
    """What a matrix knows of its features, by place, -1 where there is none, and by block."""
    placed = np.full(padded_width(len(order)), -1, dtype=np.int64)
    placed[: len(order)] = order
    slots = np.empty(len(bins.n_bins), dtype=np.int64)
    places = np.flatnonzero(placed >= 0)
    slots[placed[places]] = places
    per_block = [each[each >= 0] for each in placed.reshape(-1, BLOCK)]
    return {
        "slots": slots,
        "features": placed,
        "block_bins": np.array([bins.n_bins[each].max() for each in per_block], dtype=np.int64),
        "block_kinds": np.array([bins.kinds[each].max() for each in per_block], dtype=np.int64),
    }


def encode(
    features: NDArray[np.float32],
    bins: Bins,
    n_jobs: int | None = None,
    *,
    by_feature: bool = False,
) -> BinnedMatrix:
    """The codes of all features, in blocks of features that cost about the same to scan.

    With `by_feature`, also transposed, as growing trees needs them.
    """
    n_rows = len(features)
    codes = np.zeros((n_rows, padded_width(len(bins.n_bins))), dtype=np.uint8)
    transposed = np.empty((codes.shape[1] if by_feature else 0, n_rows), dtype=np.uint8)
    encode_into(codes, features, bins, n_jobs, transposed)
    return BinnedMatrix.of(codes, bins, transposed)


def padded_width(n_features: int) -> int:
    """The bytes that the codes of a row take: whole blocks.

    >>> padded_width(136)
    144
    """
    return -(-n_features // BLOCK) * BLOCK


def encode_into(
    codes: NDArray[np.uint8],
    features: NDArray[np.float32],
    bins: Bins,
    n_jobs: int | None = None,
    by_feature: NDArray[np.uint8] | None = None,
) -> None:
    """Write the codes of rows, the places of the last block that have no feature left as they are.

    `by_feature` gets them transposed, unless it has no rows.
    """
    n_rows, order = len(features), bins.order
    transposed = np.empty((0, n_rows), dtype=np.uint8) if by_feature is None else by_feature
    values = as_input(features, np.float32)
    edges, columns = as_input(bins.edges, np.float32), as_input(order, np.int64)

    def task(chunk: int) -> None:
        first = chunk * _CHUNK_ROWS
        last = min(first + _CHUNK_ROWS, n_rows)
        encode_rows(values, first, last, columns, edges, codes, transposed)

    run_chunks(task, -(-n_rows // _CHUNK_ROWS), n_jobs)
    for feature, categories in bins.categories.items():
        found = CategoryCodes(categories)(features[:, feature])
        slot = int(np.flatnonzero(order == feature)[0])
        codes[:, slot] = np.where(found < 0, MISSING_CODE, found)
        if len(transposed):
            transposed[slot] = codes[:, slot]

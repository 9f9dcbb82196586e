"""What bins are found from: a sample of rows, where values are missing, and counts of categories.

Each can be taken from some of the rows and put together with that of the others, so bins do not
depend on how rows are spread over blocks or workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.peers import Peers
from rankgrove.data.queries import offsets_of
from rankgrove.data.sparse_features import Features, SparseFeatures

# LightGBM's default: quantiles of 200,000 rows are within a tenth of a percent of those of all.
SAMPLE_ROWS = 200_000
_CHUNK_ROWS = 1 << 15

# Distinct values, rising, none of them missing, and how often each is there.
Counted = tuple[NDArray[np.float32], NDArray[np.int64]]


def sampled_rows(n_rows: int, seed: int) -> NDArray[np.int64] | None:
    """The numbers of the rows that quantiles are found from, rising; None for all of them."""
    if n_rows <= SAMPLE_ROWS:
        return None
    return np.sort(np.random.default_rng(seed).choice(n_rows, SAMPLE_ROWS, replace=False))


@kernel
def note_missing(values, first, last, seen):
    """Note which features are missing in some of the rows first to last."""
    for row in range(first, last):
        own = values[row]
        for feature in range(len(seen)):
            seen[feature] |= own[feature] != own[feature]


@kernel
def count_values(values, distinct, counts):
    """Count each of some sorted values, but for NaN at the end; how many distinct ones."""
    n = -1
    for i in range(len(values)):
        value = values[i]
        if value != value:
            break
        if n < 0 or value != distinct[n]:
            n += 1
            distinct[n] = value
            counts[n] = 0
        counts[n] += 1
    return n + 1


@kernel
def turn_values(starts, columns, values, at, turned):
    """Write values column after column; `at` is where those of each column go on."""
    for row in range(len(starts) - 1):
        for i in range(starts[row], starts[row + 1]):
            # -0 becomes 0: which of the two stands first must not matter.
            turned[at[columns[i]]] = values[i] + np.float32(0)
            at[columns[i]] += 1


class Summary(NamedTuple):
    """What some rows add to what bins are found from.

    Attributes
    ----------
    features, sampled
        Features, and which rows of them are in the sample.
    missing
        Whether each feature is missing in some row: in any one, not only in the sample.
    categories
        For each categorical feature, its values and how often each is there.
    """

    features: Features
    missing: NDArray[np.bool_]
    categories: dict[int, Counted]
    sampled: NDArray[np.int64] | slice = slice(None)

    @property
    def sample(self) -> Features:
        """The features of the rows in the sample: a copy of all of them, or all rows themselves."""
        return self.features[self.sampled]

    def sample_columns(self) -> SampledColumns | SparseColumns:
        """What gives the sampled values of features, counted."""
        if isinstance(self.features, SparseFeatures):
            return SparseColumns(self.features[self.sampled])
        return SampledColumns(self.features, self.sampled)

    @classmethod
    def of(
        cls,
        features: Features,
        sampled: NDArray[np.int64] | slice,
        categorical: Iterable[int] = (),
        n_jobs: int | None = None,
    ) -> Summary:
        """Of these rows, some of which are in the sample."""
        counts = {feature: count_categories(features[:, feature]) for feature in categorical}
        return cls(features, _has_missing(features, n_jobs), counts, sampled)

    @classmethod
    def joined(cls, parts: Sequence[Summary]) -> Summary:
        """Of the rows of several."""
        first = parts[0]
        return cls(
            np.concatenate([part.sample for part in parts]),
            np.any([part.missing for part in parts], axis=0),
            {
                feature: _add_counts([part.categories[feature] for part in parts])
                for feature in first.categories
            },
        )

    def of_all(self, peers: Peers) -> Summary:
        """Of the rows of all workers."""
        if peers.size == 1:
            return self
        n_features = len(self.missing)
        messages = [
            peers.gather(np.asarray(self.sample).tobytes()),
            peers.gather(self.missing.tobytes()),
            *(peers.gather(a.tobytes()) for pair in self.categories.values() for a in pair),
        ]
        return Summary.joined([
            Summary(
                np.frombuffer(sample, np.float32).reshape(-1, n_features),
                np.frombuffer(missing, np.bool_),
                {
                    feature: (
                        np.frombuffer(counts[2 * k], np.float32),
                        np.frombuffer(counts[2 * k + 1], np.int64),
                    )
                    for k, feature in enumerate(self.categories)
                },
            )
            for sample, missing, *counts in zip(*messages, strict=True)
        ])  # fmt: skip


class SampledColumns:
    """The columns of some rows of a dense matrix."""

    def __init__(self, features: NDArray[np.float32], rows: NDArray[np.int64] | slice) -> None:
        self._features, self._rows = features, rows

    def count(self, first: int, last: int) -> Iterator[Counted]:
        """The values of some features, one after the other, and how often each is there.

        Only these are copied: to copy all, and give the memory back, may take the system long.
        """
        # -0 becomes 0: which of the two stands first must not matter.
        values = np.array(self._features[self._rows, first:last].T, order="C") + np.float32(0)
        values.sort(axis=1)
        return map(_counted, values)


class SparseColumns:
    """The columns of sparse features: their values, but for the absent ones."""

    def __init__(self, features: SparseFeatures) -> None:
        self._n_rows, self._absent = len(features), features.absent
        self._starts = offsets_of(np.bincount(features.columns, minlength=features.n_columns))
        self._values = np.empty(features.n_stored, dtype=np.float32)
        at = self._starts[:-1].copy()
        turn_values(features.starts, features.columns, features.values, at, self._values)

    def count(self, first: int, last: int) -> Iterator[Counted]:
        """As of a dense matrix."""
        for start, end in pairwise(self._starts[first : last + 1].tolist()):
            distinct, counts = _counted(np.sort(self._values[start:end]))
            n_absent = self._n_rows - (end - start)
            if n_absent and not np.isnan(self._absent):
                place = int(np.searchsorted(distinct, self._absent))
                if place == len(distinct) or distinct[place] != self._absent:
                    distinct = np.insert(distinct, place, self._absent)
                    counts = np.insert(counts, place, 0)
                counts[place] += n_absent
            yield distinct, counts


def _counted(values: NDArray[np.float32]) -> Counted:
    distinct, counts = np.empty_like(values), np.empty(len(values), dtype=np.int64)
    n = count_values(values, distinct, counts)
    return distinct[:n], counts[:n]


def count_categories(values: NDArray[np.float32]) -> Counted:
    """The distinct values that are not missing, and how often each is there."""
    # -0 becomes 0: which of the two stands first must not matter.
    found, counts = np.unique(values[~np.isnan(values)] + np.float32(0), return_counts=True)
    return found, counts.astype(np.int64)


def _add_counts(parts: Sequence[Counted]) -> Counted:
    found, place = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    counts = np.zeros(len(found), dtype=np.int64)
    np.add.at(counts, place, np.concatenate([part[1] for part in parts]))
    return found, counts


def most_frequent(counted: Counted, max_bins: int) -> tuple[float, ...]:
    """The categories, the most frequent first, the lower one if equal."""
    found, counts = counted
    return tuple(found[np.argsort(-counts, kind="stable")[:max_bins]].tolist())


def _has_missing(features: Features, n_jobs: int | None) -> NDArray[np.bool_]:
    n_rows, n_features = features.shape
    if isinstance(features, SparseFeatures):
        is_missing = np.zeros(n_features, dtype=np.bool_)
        is_missing[features.columns[np.isnan(features.values)]] = True
        if np.isnan(features.absent):
            is_missing |= np.bincount(features.columns, minlength=n_features) < n_rows
        return is_missing
    values = as_input(features, np.float32)
    n_chunks = -(-n_rows // _CHUNK_ROWS)
    seen = np.zeros((n_chunks, n_features), dtype=np.bool_)

    def task(chunk: int) -> None:
        first = chunk * _CHUNK_ROWS
        note_missing(values, first, min(first + _CHUNK_ROWS, n_rows), seen[chunk])

    run_chunks(task, n_chunks, n_jobs)
    return np.asarray(seen.any(axis=0))

"""Documents that nobody has seen: made of two of the same query, for a model to score.

A model scores any document, so that whoever learns from its scores need not stop at those that
exist. A document made of two that exist has values that occur, each feature for itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.hashing import draw_array, open_shares
from rankgrove.data.dataset import Dataset
from rankgrove.data.queries import offsets_of
from rankgrove.data.sparse_features import Features, SparseFeatures

# What a number is drawn for.
_PARTNER, _FEATURE = 0x70617274, 0x66656174

_WHOLE = 1 << 32


def make_documents(data: Dataset, turn: int, share: float, seed: int) -> Dataset:
    """As many new documents as there are, one of each with another one of its query.

    A feature has the value of the other one with a chance of `share`. What is drawn depends on
    the seed, the turn, the place of the document and that of the feature only: sparse data give
    the same documents as dense ones. Labels are 0; weights of queries are kept.

    >>> data = Dataset.from_arrays([[1, 2, 3, 4], [5, 6, 7, 8]], [1, 0], group=[2])
    >>> make_documents(data, turn=0, share=0.5, seed=2).features.tolist()
    [[5.0, 2.0, 7.0, 4.0], [1.0, 2.0, 7.0, 4.0]]
    """
    rows = np.arange(data.n_documents)
    partners = _partners(data, turn, seed)
    features: Features
    if isinstance(data.features, SparseFeatures):
        features = _mixed_sparse(data.features, partners, turn, share, seed)
    else:
        taken = _is_taken(
            rows[:, np.newaxis], np.arange(data.n_features), data.n_features, turn, share, seed
        )
        features = np.where(taken, data.features[partners], data.features)
    return replace(
        data, features=features, labels=np.zeros(data.n_documents, np.float32), base_scores=None,
        document_ids=None, document_weights=None,
    )  # fmt: skip


def _partners(data: Dataset, turn: int, seed: int) -> NDArray[np.int64]:
    """Another document of the query of each; itself where it is alone."""
    sizes = np.repeat(data.group, data.group)
    first = np.repeat(data.offsets[:-1], data.group)
    rows = np.arange(data.n_documents)
    shares = open_shares(draw_array(seed, turn, _PARTNER, rows))
    # By so many places round in its query: from 1 to all but one.
    steps = 1 + np.minimum((shares * (sizes - 1)).astype(np.int64), sizes - 2)
    return np.asarray(first + (rows - first + steps) % sizes)


def _is_taken(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    n_columns: int,
    turn: int,
    share: float,
    seed: int,
) -> NDArray[np.bool_]:
    """Whether a feature of a row has the value of its partner."""
    bits = draw_array(seed, turn, _FEATURE, rows * n_columns + columns)
    return np.asarray((bits >> np.uint64(32)) < np.uint64(round(share * _WHOLE)))


def _mixed_sparse(
    features: SparseFeatures, partners: NDArray[np.int64], turn: int, share: float, seed: int
) -> SparseFeatures:
    """Of each row the stored values that it keeps, and those that it takes from its partner."""
    n_rows, n_columns = features.shape
    kept = []
    for source, of_partner in ((features, False), (features[partners], True)):
        rows = np.repeat(np.arange(n_rows), np.diff(source.starts))
        columns = source.columns.astype(np.int64)
        chosen = _is_taken(rows, columns, n_columns, turn, share, seed) == of_partner
        kept.append((rows[chosen] * n_columns + columns[chosen], source.values[chosen]))
    places = np.concatenate([place for place, _ in kept])
    values = np.concatenate([value for _, value in kept])
    order = np.argsort(places)
    places, values = places[order], values[order]
    starts = offsets_of(np.bincount(places // n_columns, minlength=n_rows))
    return SparseFeatures(
        starts, (places % n_columns).astype(np.int32), values, n_columns, features.absent
    )

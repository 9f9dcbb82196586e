"""Several data sets one after the other, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.data.documents import BY_DOCUMENT
from rankgrove.data.levels import features_by, join_levels
from rankgrove.data.queries import offsets_of
from rankgrove.data.sparse_features import Features, SparseFeatures
from rankgrove.errors import DataError


def join_datasets(parts: Sequence[Dataset]) -> Dataset:
    """The queries of several data sets, in the order of these; their features must be the same.

    Categories that are no numbers have the levels of all parts. Weights are 1 where a part has
    none; base scores, and ids of documents, must be in all parts or in none. Query ids may come
    twice: the queries stay apart.

    >>> from rankgrove import make_web_search
    >>> train, valid = make_web_search(10, 16).split(0.7, 0.3)
    >>> join_datasets([train, valid])
    <Dataset: 1263 documents, 10 queries, 16 features>
    """
    first = parts[0]
    for part in parts[1:]:
        if part.feature_names != first.feature_names:
            raise DataError("data sets that are joined must have the same features. Got others.")
    if len(parts) == 1:
        return first
    numbers = sorted({feature for part in parts for feature in part.levels})
    names = first.feature_names
    levels = {
        feature: join_levels([part.levels.get(feature, ()) for part in parts], names[feature])
        for feature in numbers
    }
    matrices = [features_by(part.features, part.levels, levels, names) for part in parts]
    weighted = any(part.weights is not None for part in parts)
    return Dataset(
        features=_joined_features(matrices),
        offsets=offsets_of(np.concatenate([part.group for part in parts])),
        query_ids=_joined_ids([part.query_ids for part in parts]),
        weights=np.concatenate([part.query_weights for part in parts]) if weighted else None,
        feature_names=names,
        levels=levels,
        more_labels=_joined_labels(parts),
        **{name: _joined_field(name, parts) for name in BY_DOCUMENT},
    )


def _joined_labels(parts: Sequence[Dataset]) -> dict[str, Any]:
    """The further labels, which all parts must have."""
    names = [list(part.more_labels) for part in parts]
    if any(sorted(own) != sorted(names[0]) for own in names):
        raise DataError("data sets that are joined must have the same further labels. Got others.")
    return {name: np.concatenate([part.more_labels[name] for part in parts]) for name in names[0]}


def _joined_features(matrices: Sequence[Features]) -> Features:
    sparse = [matrix for matrix in matrices if isinstance(matrix, SparseFeatures)]
    absent = {str(matrix.absent) for matrix in sparse}
    if len(sparse) < len(matrices) or len(absent) > 1:
        return np.concatenate([np.asarray(matrix) for matrix in matrices])
    sizes = np.concatenate([np.diff(matrix.starts) for matrix in sparse])
    return SparseFeatures(
        offsets_of(sizes),
        np.concatenate([matrix.columns for matrix in sparse]),
        np.concatenate([matrix.values for matrix in sparse]),
        sparse[0].n_columns,
        sparse[0].absent,
    )


def _joined_field(name: str, parts: Sequence[Dataset]) -> Any:
    """What each document has, of all parts; None where no part has it."""
    arrays = [getattr(part, name) for part in parts]
    if all(array is None for array in arrays):
        return None
    if name == "document_weights":
        arrays = [
            np.ones(part.n_documents) if array is None else array
            for part, array in zip(parts, arrays, strict=True)
        ]
    if any(array is None for array in arrays):
        if name == "document_ids":
            return None
        raise DataError(
            f"data sets that are joined must all have {name.replace('_', ' ')}, or none. Got them "
            f"in some only."
        )
    return _joined_ids(arrays) if name == "document_ids" else np.concatenate(arrays)


def _joined_ids(arrays: Sequence[Any]) -> Any:
    """Ids of any type: where types differ, as text."""
    kinds = {array.dtype.kind for array in arrays}
    alike = len(kinds) == 1 or kinds <= set("iu") or kinds <= set("US")
    return np.concatenate(list(arrays) if alike else [array.astype(str) for array in arrays])

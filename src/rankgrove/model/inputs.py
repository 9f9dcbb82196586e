"""What a model is given to score: anything with features, as one matrix, never written to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.columns import check_numeric, cut_frame, fill_features, refuse_repeats
from rankgrove.data.dataset import Dataset, as_features, as_floats
from rankgrove.data.frames import as_narwhals
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.schema import Schema


def features_of(data: Any, schema: Schema) -> NDArray[np.float32]:
    """The features in the model's order: float32, row-major, the caller's own where they are so.

    Data frames go by name, arrays by position, and a Dataset by position with names that must
    not contradict.
    """
    if isinstance(data, np.ndarray):
        if data.dtype == np.float32 and data.ndim == 2:
            matrix = np.ascontiguousarray(data)
        else:
            matrix = as_features(data, 0.0)
    elif isinstance(data, Dataset):
        matrix = np.ascontiguousarray(data.features, dtype=np.float32)
    elif isinstance(data, (list, tuple)) or hasattr(data, "tocsr"):
        matrix = as_features(data, 0.0)
    else:
        return _from_frame_or_array(data, schema)
    _check_width(matrix, schema)
    if isinstance(data, Dataset):
        schema.check_names(data.feature_names)
    return matrix


def base_of(
    data: Any, base_scores: ArrayLike | None, n_rows: int, *, needed: bool
) -> NDArray[np.float64] | None:
    """The scores to start from, one a document, or None to start from zero.

    Those given go before those of a Dataset, which count only if the model needs them.
    """
    if base_scores is None:
        if not needed:
            return None
        if isinstance(data, Dataset) and data.base_scores is not None:
            return data.base_scores
        raise DataError(
            "base_scores must be given to a model that was trained on top of base scores. Got "
            "none: pass base_scores=, one a document, or base_scores=0.0 for what the trees add."
        )
    if np.ndim(base_scores) == 0:
        base_scores = np.full(n_rows, base_scores)
    base = as_floats(base_scores, "base_scores", np.float64)
    if len(base) != n_rows:
        raise DataError(f"base_scores must be one a document, {n_rows}. Got {len(base)}.")
    if not np.isfinite(base).all():
        row = int((~np.isfinite(base)).argmax())
        raise DataError(f"every base score must be finite. Got {base[row]} at row {row}.")
    return base


def _check_width(matrix: NDArray[np.float32], schema: Schema) -> None:
    if matrix.shape[1] != schema.n_features:
        raise DataError(
            f"data must have the {schema.n_features} features of the model. Got "
            f"{matrix.shape[1]}: give the columns that the model was trained on, all of them (for "
            f"a LETOR file that lacks the last ones, read_letor with "
            f"n_features={schema.n_features})."
        )


def _from_frame_or_array(data: Any, schema: Schema) -> NDArray[np.float32]:
    try:
        table = as_narwhals(data)
    except ParameterError:
        if not hasattr(data, "__array__"):
            raise ParameterError(
                f"data must be a Dataset, a two-dimensional array, a sparse matrix or a data "
                f"frame. Got {type(data).__name__}: files are read with read_data first."
            ) from None
        return features_of(np.asarray(data), schema)
    return _from_table(table, schema)


def _from_table(table: Any, schema: Schema) -> NDArray[np.float32]:
    """The columns of a table that the model knows by name, in its order."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    features = list(schema.feature_names)
    columns = table.collect_schema().names()
    absent = sorted(set(features) - set(columns), key=features.index)
    if absent:
        more = f" and {len(absent) - 1} others" if len(absent) > 1 else ""
        raise DataError(
            f"the data frame must have a column for each feature of the model. Got none for "
            f"{absent[0]!r}{more}: rename its columns, or pass an array to go by position."
        )
    wanted = set(features)
    refuse_repeats([name for name in columns if name in wanted], "Rename or drop one.")
    if isinstance(table, nw.LazyFrame):
        table = table.select(features).collect()
    check_numeric(table, features)
    return fill_features(cut_frame(table, len(features)), features, len(table), None)

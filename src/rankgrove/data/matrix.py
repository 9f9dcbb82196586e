"""Anything with features as one matrix or one Dataset, as scikit-learn users pass it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.columns import (
    NUMBERS_IN_TRAINING,
    code_columns,
    columns_to_code,
    cut_frame,
    fill_features,
)
from rankgrove.data.dataset import (
    Dataset,
    as_features,
    as_floats,
    default_feature_names,
    with_features,
)
from rankgrove.data.dicts import are_dicts, features_of_dicts
from rankgrove.data.documents import Documents, feature_numbers
from rankgrove.data.frames import as_narwhals
from rankgrove.data.levels import Levels, features_by, numbers_by
from rankgrove.data.queries import SplitQueries
from rankgrove.data.small_frames import features_of_small_frame
from rankgrove.data.sparse_features import Features, SparseFeatures
from rankgrove.errors import DataError, ParameterError, refusal, refuse_repeats

# A data frame may bring its queries along in a column of this name.
_QID = "qid"


def features_of(
    data: Any, names: Sequence[str], levels: Mapping[int, Levels] | None = None
) -> Features:
    """The features of these names, in this order: float32, row-major, not copied if they are so.

    Those that come sparse may stay so.

    Data frames and dicts go by name, arrays by position, and a Dataset by position with names
    that must not contradict. `levels` are those of features that are categories, by number: a
    value is its place among them, and missing if it has none.
    """
    matrix: Features
    if isinstance(data, np.ndarray) and data.dtype == np.float32 and data.ndim == 2:
        matrix = np.ascontiguousarray(data)
    elif isinstance(data, SparseFeatures):
        matrix = data
    elif isinstance(data, Documents):
        data = with_features(data, "features")
        matrix = data.features
        if not isinstance(matrix, SparseFeatures):
            matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    elif are_dicts(data):
        return features_of_dicts(data, names, levels)
    elif isinstance(data, (np.ndarray, list, tuple)) or hasattr(data, "tocsr"):
        matrix = as_features(data, 0.0)
    else:
        # Levels are looked up in whole columns.
        small = None if levels else features_of_small_frame(data, names)
        return _from_frame_or_array(data, names, levels or {}) if small is None else small
    _check_width(matrix, names)
    if isinstance(data, Documents):
        check_names(data.feature_names, tuple(names))
        return features_by(matrix, data.levels, levels or {}, names)
    return features_by(matrix, {}, levels, names) if levels else matrix


def base_of(
    data: Any, base_scores: ArrayLike | None, n_rows: int, *, needed: bool
) -> NDArray[np.float64] | None:
    """The scores to start from, one per document, or None to start from zero.

    Those given go before those of a Dataset, which count only if the model needs them.
    """
    if base_scores is None:
        if not needed:
            return None
        if isinstance(data, Documents) and data.base_scores is not None:
            return data.base_scores
        raise DataError(
            "base_scores must be given to a model that was trained on top of base scores. Got "
            "none: pass base_scores=, one per document, or base_scores=0.0 for what the trees add."
        )
    if np.ndim(base_scores) == 0:
        base_scores = np.full(n_rows, base_scores)
    base = as_floats(base_scores, "base_scores", np.float64)
    if len(base) != n_rows:
        raise DataError(f"base_scores must be one per document, {n_rows}. Got {len(base)}.")
    if not np.isfinite(base).all():
        row = int((~np.isfinite(base)).argmax())
        raise DataError(f"every base score must be finite. Got {base[row]} at row {row}.")
    return base


def _check_width(matrix: Features, names: Sequence[str]) -> None:
    if matrix.shape[1] != len(names):
        raise DataError(
            f"data must have the {len(names)} features of the model. Got "
            f"{matrix.shape[1]}: give the columns that the model was trained on, all of them (for "
            f"a LETOR file that lacks the last ones, read_letor with "
            f"n_features={len(names)})."
        )


def check_names(names: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse other names than the model's; default names, f1 to fN, go with any."""
    if names == wanted or default_feature_names(len(names)) in (names, wanted):
        return
    at = next(at for at, name in enumerate(names) if name != wanted[at])
    order = " (the same names in another order)" if set(names) == set(wanted) else ""
    raise DataError(
        f"features must have the names of the model{order}. Got {names[at]!r} as feature "
        f"{at + 1}, which is {wanted[at]!r} in the model. Put the columns into the model's order, "
        f"or pass the features alone, as an array, to go by position."
    )


def _from_frame_or_array(data: Any, names: Sequence[str], levels: Mapping[int, Levels]) -> Features:
    try:
        table = as_narwhals(data)
    except ParameterError:
        if not hasattr(data, "__array__"):
            raise ParameterError(
                f"data must be a Dataset, a two-dimensional array, a sparse matrix, a data frame "
                f"or a list of dicts. Got {type(data).__name__}: files are read with read_data "
                f"first."
            ) from None
        return features_of(np.asarray(data), names, levels)
    return _from_table(table, names, levels)


def _from_table(
    table: Any, names: Sequence[str], levels: Mapping[int, Levels]
) -> NDArray[np.float32]:
    """The columns of a table that the model knows by name, in its order."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    features = list(names)
    columns = table.collect_schema().names()
    absent = sorted(set(features) - set(columns), key=features.index)
    if absent:
        more = f" and {len(absent) - 1} others" if len(absent) > 1 else ""
        raise DataError(
            f"the data frame must have a column for each feature of the model. Got none for "
            f"{absent[0]!r}{more}: rename its columns, or pass an array to go by position."
        )
    wanted = set(features)
    refuse_repeats("column names", filter(wanted.__contains__, columns), "Rename or drop one.")
    if isinstance(table, nw.LazyFrame):
        table = table.select(features).collect()
    known = {features[number]: of_feature for number, of_feature in levels.items()}
    names_to_code = columns_to_code(table, features, known, NUMBERS_IN_TRAINING)
    coded = {
        name: numbers_by(column, known.get(name), name)
        for name, column in code_columns(table, names_to_code).items()
    }
    blocks = cut_frame(table, len(features))
    matrix = fill_features(blocks, features, len(table), None, coded=coded)
    for number, of_feature in levels.items():
        if (name := features[number]) not in coded:
            matrix[:, number] = numbers_by(matrix[:, number], of_feature, name)
    return matrix


def as_dataset(
    X: Any,
    y: ArrayLike | None,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    base_scores: ArrayLike | None = None,
    document_weights: ArrayLike | None = None,
    split_queries: SplitQueries = "error",
    categorical: Collection[Any] | None = None,
) -> Documents:
    """A Dataset from what scikit-learn users pass.

    `categorical` are features by name or number whose strings, in a data frame, are categories.
    """
    if isinstance(X, Documents):
        given = {"y": y, "qid": qid, "group": group, "sample_weight": weights,
                 "base_scores": base_scores, "document_weights": document_weights}  # fmt: skip
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise DataError(f"{extra[0]} must not be given with a Dataset, which has its own.")
        return X
    if y is None:
        raise DataError("y must be given, the label of each row. Got None.")
    names: tuple[str, ...] | None = None
    features = X
    levels: dict[int, Levels] = {}
    # Asked of the type: a lazy frame of polars warns when it is asked itself.
    if hasattr(type(X), "columns"):
        table = as_narwhals(X).lazy().collect()
        if qid is None and group is None and _QID in table.columns:
            qid = table[_QID].to_numpy()
        names = tuple(name for name in table.columns if name != _QID)
        features, levels = _coded_features(table, names, categorical or ())
    if qid is None and group is None:
        raise DataError(
            "qid or group must be given, to say which rows form a query. Got neither: pass qid=, "
            "one per row, or group=, the rows of each query."
        )
    data = Dataset.from_arrays(
        features, y, qid=qid, group=group, weights=weights, base_scores=base_scores,
        document_weights=document_weights, split_queries=split_queries, feature_names=names,
    )  # fmt: skip
    return replace(data, levels=levels) if levels else data


def _coded_features(
    table: Any, names: Sequence[str], categorical: Collection[Any]
) -> tuple[NDArray[np.float32], dict[int, Levels]]:
    """The features of a table, and the levels of those that are categories."""
    chosen = {names[number] for number in feature_numbers("categorical", categorical, names)}
    coded = code_columns(table, columns_to_code(table, names, chosen))
    numbers = {name: column.numbers for name, column in coded.items()}
    blocks = cut_frame(table, len(names))
    features = fill_features(blocks, list(names), len(table), None, coded=numbers)
    return features, {names.index(name): column.levels for name, column in coded.items()}


def validation_sets(
    valid: Documents | Mapping[str, Documents] | Iterable[Documents] | None,
    eval_set: Iterable[tuple[Any, ...]] | None,
    categorical: Collection[Any] | None = None,
) -> dict[str, Documents]:
    """Validation sets by name: one without is `valid`, several are numbered from `valid_1`."""
    if valid is not None and eval_set is not None:
        raise ParameterError("validation must be given as valid= or as eval_set=. Got both.")
    for name, given in (("valid", valid), ("eval_set", eval_set)):
        if given is not None and not isinstance(given, (Documents, Iterable)):
            raise ParameterError(f"{name} must be validation sets. Got {type(given).__name__}.")
    if isinstance(valid, Documents):
        return {"valid": valid}
    if isinstance(valid, Mapping):
        sets = dict(valid)
    else:
        several = [as_validation_set(entry, categorical) for entry in eval_set or ()]
        several = several if valid is None else list(valid)
        numbers = range(1, len(several) + 1)
        names = ["valid"] if len(several) == 1 else [f"valid_{number}" for number in numbers]
        sets = dict(zip(names, several, strict=True))
    wrong = [name for name, data in sets.items() if not isinstance(data, Documents)]
    if wrong:
        got = type(sets[wrong[0]]).__name__
        raise refusal(f"validation set {wrong[0]!r}", "be a Dataset", got=got)
    return sets


def as_validation_set(entry: Any, categorical: Collection[Any] | None = None) -> Documents:
    """A validation set from (X, y, qid), or (X, y) where X brings its queries."""
    if isinstance(entry, Documents):
        return entry
    if not isinstance(entry, (tuple, list)) or len(entry) not in (2, 3):
        got = f"{type(entry).__name__} as an entry"
        raise refusal("eval_set", "be a list of tuples (X, y, qid)", got=got)
    qid = entry[2] if len(entry) == 3 else None
    return as_dataset(entry[0], entry[1], qid=qid, categorical=categorical)

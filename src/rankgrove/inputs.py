"""What estimators are given, as scikit-learn users pass it: data and validation sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from rankgrove.data.dataset import Dataset
from rankgrove.data.frames import as_narwhals
from rankgrove.data.queries import SplitQueries
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.inputs import features_of
from rankgrove.model.schema import Schema

# A data frame may bring its queries along in a column of this name.
_QID = "qid"


def as_dataset(
    X: Any,
    y: ArrayLike | None,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    base_scores: ArrayLike | None = None,
    split_queries: SplitQueries = "error",
) -> Dataset:
    """A Dataset from what scikit-learn users pass."""
    if isinstance(X, Dataset):
        given = {"y": y, "qid": qid, "group": group, "sample_weight": weights,
                 "base_scores": base_scores}  # fmt: skip
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise DataError(f"{extra[0]} must not be given with a Dataset, which has its own.")
        return X
    if y is None:
        raise DataError("y must be given, the label of each row. Got None.")
    names: tuple[str, ...] | None = None
    features = X
    # Asked of the type: a lazy frame of polars warns when it is asked itself.
    if hasattr(type(X), "columns"):
        table = as_narwhals(X).lazy().collect()
        if qid is None and group is None and _QID in table.columns:
            qid = table[_QID].to_numpy()
        names = tuple(name for name in table.columns if name != _QID)
        features = features_of(table, Schema(names))
    if qid is None and group is None:
        raise DataError(
            "qid or group must be given, to say which rows form a query. Got neither: pass qid=, "
            "one a row, or group=, the rows of each query."
        )
    return Dataset.from_arrays(
        features, y, qid=qid, group=group, weights=weights, base_scores=base_scores,
        split_queries=split_queries, feature_names=names,
    )  # fmt: skip


def validation_sets(
    valid: Dataset | Mapping[str, Dataset] | Iterable[Dataset] | None,
    eval_set: Iterable[tuple[Any, ...]] | None,
) -> dict[str, Dataset]:
    """Validation sets by name: one without is `valid`, several are numbered from `valid_1`."""
    if valid is not None and eval_set is not None:
        raise ParameterError("validation must be given as valid= or as eval_set=. Got both.")
    for name, given in (("valid", valid), ("eval_set", eval_set)):
        if given is not None and not isinstance(given, (Dataset, Iterable)):
            raise ParameterError(f"{name} must be validation sets. Got {type(given).__name__}.")
    if isinstance(valid, Dataset):
        return {"valid": valid}
    if isinstance(valid, Mapping):
        sets = dict(valid)
    else:
        several = [as_validation_set(entry) for entry in eval_set or ()]
        several = several if valid is None else list(valid)
        numbers = range(1, len(several) + 1)
        names = ["valid"] if len(several) == 1 else [f"valid_{number}" for number in numbers]
        sets = dict(zip(names, several, strict=True))
    wrong = [name for name, data in sets.items() if not isinstance(data, Dataset)]
    if wrong:
        raise ParameterError(
            f"validation set {wrong[0]!r} must be a Dataset. Got {type(sets[wrong[0]]).__name__}."
        )
    return sets


def as_validation_set(entry: Any) -> Dataset:
    """A validation set from (X, y, qid), or (X, y) where X brings its queries."""
    if isinstance(entry, Dataset):
        return entry
    if not isinstance(entry, (tuple, list)) or len(entry) not in (2, 3):
        raise ParameterError(
            f"eval_set must be a list of tuples (X, y, qid). Got {type(entry).__name__} as an "
            f"entry."
        )
    return as_dataset(entry[0], entry[1], qid=entry[2] if len(entry) == 3 else None)

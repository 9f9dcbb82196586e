"""Documents as dicts from the names of features to their values, as services have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.levels import Levels, number_of_value
from rankgrove.errors import DataError


def are_dicts(data: Any) -> bool:
    """Whether data are a list of dicts, as far as its first entry tells; an empty one may be."""
    return isinstance(data, (list, tuple)) and (not data or isinstance(data[0], Mapping))


def features_of_dicts(
    documents: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    levels: Mapping[int, Levels] | None = None,
) -> NDArray[np.float32]:
    """The features of these names, in this order, one row per dict.

    What a dict does not have is missing, as None and NaN are; what is no feature is ignored.
    `levels` are those of features that are categories, by number: see `features_of`.

    >>> features_of_dicts([{"bm25": 7.5, "url": "a"}, {"bm25": None}], ["bm25", "clicks"]).tolist()
    [[7.5, nan], [nan, nan]]
    """
    if levels:
        documents = [_by_levels(document, names, levels) for document in documents]
    out = np.empty((len(documents), len(names)), dtype=np.float32)
    missing = repeat(np.nan)
    row = 0
    try:
        with np.errstate(over="raise"):
            for row, document in enumerate(documents):
                out[row] = [*map(document.get, names, missing)]
    except AttributeError:
        raise DataError(
            f"documents must all be dicts where the first is one. Got "
            f"{type(documents[row]).__name__} at row {row}."
        ) from None
    except (TypeError, ValueError, OverflowError, FloatingPointError):
        _refuse_values(documents[row], names, row)
    _refuse_strangers(documents, names)
    return out


def _by_levels(document: Any, names: Sequence[str], levels: Mapping[int, Levels]) -> Any:
    """A document with the places of its categories in place of them."""
    if not isinstance(document, Mapping):
        return document  # whoever takes its values says what is wrong
    found = dict(document)
    for feature, known in levels.items():
        if (name := names[feature]) in found:
            found[name] = number_of_value(found[name], known, name)
    return found


def _refuse_values(document: Mapping[str, Any], names: Sequence[str], row: int) -> NoReturn:
    """The error for the first value that float32 cannot hold."""
    cell = np.empty(1, dtype=np.float32)
    for name in names:
        value = document.get(name)
        try:
            with np.errstate(over="raise"):
                cell[:] = [value]
        except (OverflowError, FloatingPointError):
            raise DataError(
                f"feature {name!r} must fit into float32 (up to 3.4e38). Got {str(value)[:40]} at "
                f"row {row}: rescale that feature."
            ) from None
        except (TypeError, ValueError):
            raise DataError(
                f"feature {name!r} must be a number, or None where it is missing. Got "
                f"{str(value)[:40]!r} ({type(value).__name__}) at row {row}."
            ) from None
    raise DataError(f"features must be numbers. Got others at row {row}.")


def _refuse_strangers(documents: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Refuse documents without a single feature of the model: they are meant for another one."""
    known = frozenset(names)
    if not documents or not known or not all(map(known.isdisjoint, documents)):
        return
    found = next((name for document in documents for name in document), None)
    got = "empty dicts" if found is None else f"none of its features, but {found!r}"
    raise DataError(
        f"documents must be dicts by the features of the model, as {names[0]!r}. Got {got}: name "
        f"the values as `feature_names` of the model does, or pass an array to go by position."
    )

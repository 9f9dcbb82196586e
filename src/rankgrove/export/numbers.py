"""Numbers as text that comes back as the same number, wherever it is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.format import ExportError
from rankgrove.model.model import Model


def float32_text(number: np.float32) -> str:
    """A finite float32 in few digits: read as a float32, or as a float64 first, it is the same.

    >>> float32_text(np.float32(0.1))
    '0.1'
    """
    text = str(number)
    return text if np.float32(float(text)) == number else repr(float(number))


def check_float32_leaves(model: Model, format_name: str) -> None:
    """Refuse leaves that are infinite as float32."""
    with np.errstate(over="ignore"):
        is_too_large = np.isinf(model.ensemble.value.astype(np.float32))
    if is_too_large.any():
        value = model.ensemble.value[is_too_large][0]
        raise ExportError(
            f"{format_name} has leaves of float32. Got a leaf of {value:g}: export to lightgbm."
        )


def float32_leaves(model: Model, format_name: str) -> list[NDArray[np.float32]]:
    """The leaves of each tree as float32; those that are past all of float32 are refused."""
    check_float32_leaves(model, format_name)
    trees = model.ensemble
    values = trees.value.astype(np.float32)
    return [values[trees.leaves_of(number)] for number in range(trees.n_trees)]


def java_float_text(number: np.float32) -> str:
    """A float32 as Java's Float.parseFloat reads it, which knows infinity.

    >>> java_float_text(np.float32(-np.inf))
    '-Infinity'
    """
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return float32_text(number)

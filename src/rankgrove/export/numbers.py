"""Numbers as text that comes back as the same number, wherever it is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.format import Exportable, ExportError


def float32_text(number: np.float32) -> str:
    """A finite float32 in few digits: read as a float32, or as a float64 first, it is the same.

    >>> float32_text(np.float32(0.1))
    '0.1'
    """
    text = str(number)
    return text if np.float32(float(text)) == number else repr(float(number))


def float32_leaves(source: Exportable, format_name: str) -> list[NDArray[np.float32]]:
    """The leaves of each tree as float32; those that are past all of float32 are refused."""
    trees = source.parts[0].ensemble
    with np.errstate(over="ignore", under="ignore"):
        values = trees.value.astype(np.float32)
    if np.isinf(values).any():
        largest = trees.value[np.argmax(np.abs(trees.value))]
        raise ExportError(
            f"{format_name} holds leaves as float32, up to 3.4e38. Got a leaf of {largest!r}: "
            f"export to onnx, lightgbm or a scorer in c, java, javascript or python."
        )
    return [values[trees.leaves_of(number)] for number in range(trees.n_trees)]


def java_float_text(number: np.float32) -> str:
    """A float32 as Java's Float.parseFloat reads it, which knows infinity.

    >>> java_float_text(np.float32(-np.inf))
    '-Infinity'
    """
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return float32_text(number)

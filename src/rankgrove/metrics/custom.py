"""A metric of the user's own: any function of the labels in rank order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from rankgrove._jit import compile_swaps
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.base import Floats, Metric, Rankings


@dataclass(frozen=True, kw_only=True, repr=False)
class Custom(Metric):
    """What a function gives for the labels of a query in rank order, a float64 array.

    The function may return NaN for a query without meaning. Swap deltas are found by calling it
    again for each pair, so training with it takes a time that grows with the cube of the documents
    of a query; a function that Numba has compiled (`numba.njit`) is called from compiled code.

    >>> first = Custom(function=lambda labels: labels[0])
    >>> float(first.swap_deltas([1, 0])[0, 1])
    -1.0
    """

    function: Callable[[Any], float]

    name: ClassVar[str] = "custom"
    title: ClassVar[str] = "a function of the user's own"
    formula: ClassVar[str] = "f(labels in rank order)"
    reference: ClassVar[str] = "the user's code"
    has_cutoff: ClassVar[bool] = False
    skips_by_labels: ClassVar[bool] = False
    expected_ties: ClassVar[str] = "not available"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise ParameterError(f"a metric must be a name or a function. Got {self.function!r}.")
        if self.ties == "expected":
            raise ParameterError("ties of a function must not be expected. Got expected.")

    def __str__(self) -> str:
        return f"custom({getattr(self.function, '__name__', type(self.function).__name__)})"

    def check_labels(self, rankings: Rankings) -> None:
        """Any label may have a meaning."""

    def value(self, labels: Floats) -> float:
        """What the function gives, checked."""
        value = self.function(labels)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise DataError(
                f"{self} must give a number for labels in rank order. Got {value!r}."
            ) from None

    def _compute(self, rankings: Rankings) -> Floats:
        ranked, starts = rankings.ranked(self.ties, rankings.longest)
        labels = ranked.astype(np.float64)
        bounds = pairwise(starts.tolist())
        return np.array([self.value(labels[lo:hi].copy()) for lo, hi in bounds])

    def fill_deltas(self, labels: Floats, depth: int, neighbours: int, out: Floats) -> None:
        compiled = compile_swaps(self.function)
        if compiled is None:
            super().fill_deltas(labels, depth, neighbours, out)
            return
        compiled(labels.copy(), depth, neighbours, out)
        np.nan_to_num(out, copy=False)

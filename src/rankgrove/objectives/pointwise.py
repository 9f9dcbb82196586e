"""Objectives of single documents: MART for numbers and for two classes."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankgrove._jit import kernel
from rankgrove._jit.elementary import exponential_of, logarithm
from rankgrove._jit.exact import exact_sums
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError
from rankgrove.objectives.base import LARGEST, Floats
from rankgrove.objectives.targets import Pulled, Targeted
from rankgrove.rules import option

# The losses of the kernel.
_SQUARES, _TWO_CLASSES = range(2)


@kernel
def push_documents(
    loss, scores, targets, offsets, weights, numbers, first, last, sigma, key, out_forces,
    out_curvatures
):  # fmt: skip
    """Forces and curvatures of the documents of queries first to last."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        n = hi - lo
        weight = weights[q]
        own, wanted = scores[lo:hi], targets[lo:hi]
        forces, curvatures = out_forces[lo:hi], out_curvatures[lo:hi]
        if loss == _SQUARES:
            for i in range(n):
                forces[i] = (wanted[i] - own[i]) * weight
                curvatures[i] = weight
            continue
        for i in range(n):
            # A target is the weight of its document, negative for the class 0.
            odds = exponential_of(-sigma * own[i])
            chance = 1.0 / (1.0 + odds)
            other = odds * chance
            size = abs(wanted[i]) * weight
            forces[i] = sigma * size * (other if wanted[i] > 0.0 else -chance)
            curvatures[i] = sigma * sigma * size * chance * other


@dataclass(frozen=True, kw_only=True)
class _Pointwise(Targeted):
    push: ClassVar[Callable[..., None]] = push_documents


@dataclass(frozen=True, kw_only=True)
class Regression(_Pointwise):
    """Squared error of single documents: force r - z, curvature 1.

    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 1], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> Regression().prepare(data).compute(np.array([1.0, 1.0, 1.0]), 0, forces, curvatures)
    >>> forces.tolist()
    [-1.0, 1.0, 0.0]
    """

    name: ClassVar[str] = "regression"
    title: ClassVar[str] = "MART, squared error"
    formula: ClassVar[str] = "sum_i (r_i - z_i)^2 / 2"
    reference: ClassVar[str] = "Friedman 2001; Burges 2010, section 5"
    loss: ClassVar[int] = _SQUARES
    ease: ClassVar[int] = 4

    def start_score(self, data: Documents) -> float:
        weights = data.cost_weights
        total, summed = _sums(data, weights, weights * self.targets(data))
        return summed / total

    def document_costs(self, scores: Floats, pulled: Pulled) -> Floats | None:
        return np.asarray(pulled.weights * (pulled.targets - scores) ** 2 / 2)


@dataclass(frozen=True, kw_only=True)
class Logistic(_Pointwise):
    """Two classes: cross-entropy of 1 / (1 + e^(-sigma z)) against a label of 0 or 1, or -1 or 1.

    Parameters
    ----------
    sigma
        How steep the logistic function is. Burges writes 1 / (1 + e^(-2 sigma z)) in section 6: his
        sigma is half of this one.
    balanced
        Whether both classes weigh the same in all: documents count n/(2 n+) and n/(2 n-). The
        Newton step of a leaf has these weights above and below.

    Examples
    --------
    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 4, [0, 1, 0, 0], group=[4])
    >>> forces, curvatures = np.empty(4), np.empty(4)
    >>> Logistic(balanced=True).prepare(data).compute(np.zeros(4), 0, forces, curvatures)
    >>> forces.round(4).tolist()
    [-0.3333, 1.0, -0.3333, -0.3333]
    """

    sigma: float = option(
        1.0, "how steeply the chance of class 1 rises with the score.", above=0, below=LARGEST
    )
    balanced: bool = option(False, "Whether both classes of logistic weigh the same.")

    name: ClassVar[str] = "logistic"
    title: ClassVar[str] = "MART, two classes"
    formula: ClassVar[str] = "sum_i w_i log(1 + exp(-sigma y_i z_i)), y = 1 or -1"
    reference: ClassVar[str] = "Friedman 2001; Burges 2010, sections 6 and 6.1"
    loss: ClassVar[int] = _TWO_CLASSES

    def targets(self, data: Documents) -> Floats:
        positive = _two_classes(data)
        if not self.balanced:
            return np.where(positive, 1.0, -1.0)
        one, other = _sums_of_classes(data, data.cost_weights, positive)
        half = (one + other) / 2
        one, other = max(one, 1e-300), max(other, 1e-300)
        return np.asarray(np.where(positive, half / one, -half / other))

    def start_score(self, data: Documents) -> float:
        weights = np.abs(self.targets(data)) * data.cost_weights
        positive = _two_classes(data)
        one, other = _sums_of_classes(data, weights, positive)
        return logarithm(one / other) / self.sigma if one > 0 and other > 0 else 0.0

    def document_costs(self, scores: Floats, pulled: Pulled) -> Floats | None:
        away = self.sigma * np.where(pulled.targets > 0, scores, -scores)
        return np.asarray(pulled.weights * np.abs(pulled.targets) * np.logaddexp(0, -away))


def _sums(data: Documents, *columns: Floats) -> list[float]:
    """The sums of numbers, one per document, over all workers."""
    return exact_sums(columns, data.shard.n_documents, 1, data.shard.peers)


def _sums_of_classes(
    data: Documents, weights: Floats, positive: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> list[float]:
    """The weights of the documents of class 1, and of the others."""
    return _sums(data, np.where(positive, weights, 0.0), np.where(positive, 0.0, weights))


def _two_classes(data: Documents) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    lower = -1 if data.shard.any(data.labels.min(initial=0.0) == -1) else 0
    other = data.labels[(data.labels != lower) & (data.labels != 1)]
    if len(other):
        both = " beside -1" if lower else ""
        raise DataError(
            f"labels of logistic must be 0 and 1, or -1 and 1. Got {float(other[0]):g}{both}."
        )
    return np.asarray(data.labels == 1)

"""Objectives of a whole query without pairs, and of single documents."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankgrove._jit import as_input, chunk_queries, kernel, run_chunks
from rankgrove._jit.elementary import exponentials
from rankgrove._jit.hashing import iteration_key, mix, share_of
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.objectives.base import LARGEST, Floats, Forces, Objective
from rankgrove.rules import option

_CHUNK_DOCUMENTS = 1 << 14

# What a kernel computes.
_RESIDUALS, _CENTRED, _SOFTMAX, _SAMPLED, _TWO_CLASSES = range(5)


@kernel
def _centre(weight, forces):
    """Take the mean from the forces of a query."""
    mean = 0.0
    for i in range(len(forces)):
        mean += forces[i]
    mean /= len(forces)
    for i in range(len(forces)):
        forces[i] = weight * (forces[i] - mean)


@kernel
def _softmax(scores, sigma, bits, powers, room, out):
    """Chances that are proportional to e^(sigma z)."""
    highest = -np.inf
    for i in range(len(scores)):
        highest = max(highest, scores[i])
    for i in range(len(scores)):
        room[i] = sigma * (scores[i] - highest)
    exponentials(room, bits, powers, out)
    total = 0.0
    for i in range(len(scores)):
        total += out[i]
    for i in range(len(scores)):
        out[i] /= total


@kernel
def _sample_targets(labels, key, targets):
    """The targets of XE-NDCG: 2^r - u, u drawn between 0 and 1, divided by their sum."""
    total = 0.0
    for i in range(len(labels)):
        targets[i] = 2.0 ** labels[i] - share_of(mix(key + np.uint64(i)))
        total += targets[i]
    for i in range(len(labels)):
        targets[i] /= total


@kernel
def _push_sampled(chances, terms, forces):
    """Minus LightGBM's gradient of XE-NDCG: terms of the first three orders.

    IN: terms, the targets; they are overwritten.
    """
    n = len(chances)
    for order in range(3):
        total = 0.0
        for i in range(n):
            total += terms[i] if order else 0.0
        for i in range(n):
            term = chances[i] * (total - terms[i]) if order else chances[i] - terms[i]
            forces[i] = (forces[i] if order else 0.0) - term
            terms[i] = term / (1.0 - chances[i]) if chances[i] < 1.0 else 0.0


@kernel
def push_lists(
    what, scores, targets, offsets, weights, first, last, sigma, key, out_forces, out_curvatures
):  # fmt: skip
    """Forces and curvatures of queries first to last; `targets` are one a document."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    bits = np.empty(longest, np.int64)
    powers = bits.view(np.float64)
    work = np.empty((2, longest))
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        n = hi - lo
        weight = weights[q]
        own, wanted = scores[lo:hi], targets[lo:hi]
        forces, curvatures = out_forces[lo:hi], out_curvatures[lo:hi]
        if what in (_RESIDUALS, _CENTRED):
            for i in range(n):
                forces[i] = wanted[i] - own[i]
                curvatures[i] = weight
            if what == _CENTRED:
                _centre(weight, forces)
            else:
                for i in range(n):
                    forces[i] *= weight
            continue
        chances, terms = work[0, :n], work[1, :n]
        if what == _TWO_CLASSES:
            for i in range(n):
                terms[i] = -sigma * own[i]
            exponentials(terms, bits, powers, chances)
            for i in range(n):
                # A target is the weight of its document, negative for the class 0.
                chance = 1.0 / (1.0 + chances[i])
                other = chances[i] * chance
                by = abs(wanted[i]) * weight
                forces[i] = sigma * by * (other if wanted[i] > 0.0 else -chance)
                curvatures[i] = sigma * sigma * by * chance * other
            continue
        _softmax(own, sigma, bits, powers, terms, chances)
        total = 0.0
        for i in range(n):
            total += wanted[i]
        if what == _SAMPLED:
            _sample_targets(wanted, mix(key ^ mix(np.uint64(q))), terms)
            _push_sampled(chances, terms, forces)
            total = 1.0 if n > 1 else 0.0
        else:
            for i in range(n):
                forces[i] = wanted[i] - total * chances[i]
        for i in range(n):
            forces[i] *= sigma * weight
            curvatures[i] = sigma * sigma * weight * total * chances[i] * (1.0 - chances[i])


class _ListForces(Forces):
    def __init__(
        self, what: int, targets: Floats, sigma: float, data: Dataset, n_jobs: int | None, seed: int
    ) -> None:
        self._what, self._sigma, self._seed, self._n_jobs = what, float(sigma), seed, n_jobs
        weights = np.ones(data.n_queries) if data.weights is None else data.weights
        self._inputs = (
            as_input(targets, np.float64),
            as_input(data.offsets, np.int64),
            as_input(weights, np.float64),
        )
        step = min(_CHUNK_DOCUMENTS, data.n_documents // 8 + 1)
        self._bounds = chunk_queries(data.offsets, step).tolist()

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        own = as_input(scores, np.float64)
        key = iteration_key(self._seed, iteration)

        def push(chunk: int) -> None:
            first, last = self._bounds[chunk], self._bounds[chunk + 1]
            push_lists(
                self._what, own, *self._inputs, first, last, self._sigma, key, forces, curvatures
            )

        run_chunks(push, len(self._bounds) - 1, self._n_jobs)


@dataclass(frozen=True, kw_only=True)
class _Listwise(Objective):
    """The shared part: a subclass says which kernel and which targets."""

    what: ClassVar[int]

    @abstractmethod
    def targets(self, data: Dataset) -> Floats:
        """What the forces pull towards, one a document."""

    def prepare(self, data: Dataset, n_jobs: int | None = None, seed: int = 0) -> Forces:
        sigma = getattr(self, "sigma", 1.0)
        return _ListForces(self.what, self.targets(data), sigma, data, n_jobs, seed)


@dataclass(frozen=True, kw_only=True)
class Regression(_Listwise):
    """Squared error of single documents: force r - z, curvature 1.

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
    what: ClassVar[int] = _RESIDUALS

    def targets(self, data: Dataset) -> Floats:
        return data.labels.astype(np.float64)

    def start_score(self, data: Dataset) -> float:
        return float(np.average(self.targets(data), weights=_by_document(data)))


@dataclass(frozen=True, kw_only=True)
class QueryRMSE(_Listwise):
    """Squared error up to a constant of each query: force r - z less its mean in the query.

    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 1], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> QueryRMSE().prepare(data).compute(np.array([3.0, 0.0, 0.0]), 0, forces, curvatures)
    >>> forces.tolist()
    [-3.0, 2.0, 1.0]
    """

    name: ClassVar[str] = "queryrmse"
    title: ClassVar[str] = "QueryRMSE"
    formula: ClassVar[str] = "sum_i (r_i - z_i - mean(r - z))^2 / 2"
    reference: ClassVar[str] = "Lyzhin et al. 2022, section 2.3"
    what: ClassVar[int] = _CENTRED

    def targets(self, data: Dataset) -> Floats:
        return data.labels.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class Softmax(_Listwise):
    """Cross-entropy of the softmax of the scores against the labels.

    The labels are not divided by their sum: a query counts as much as its labels sum up to, and
    one without a positive label has no force.

    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 0], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> Softmax().prepare(data).compute(np.zeros(3), 0, forces, curvatures)
    >>> forces.round(4).tolist()
    [-0.6667, 1.3333, -0.6667]
    """

    sigma: float = option(1.0, "what scores are multiplied by.", above=0, below=LARGEST)

    name: ClassVar[str] = "softmax"
    title: ClassVar[str] = "softmax cross-entropy"
    formula: ClassVar[str] = "-sum_i r_i * log(e^(sigma z_i) / sum_j e^(sigma z_j))"
    reference: ClassVar[str] = "Bruch et al. 2019; CatBoost's QuerySoftMax"
    what: ClassVar[int] = _SOFTMAX

    def targets(self, data: Dataset) -> Floats:
        if data.labels.min() < 0:
            raise DataError(
                f"labels of softmax must be 0 or more. Got {float(data.labels.min()):g}."
            )
        return data.labels.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ListNet(Softmax):
    """Cross-entropy of the softmax of the scores against the softmax of the labels.

    >>> ListNet().name
    'listnet'
    """

    name: ClassVar[str] = "listnet"
    title: ClassVar[str] = "ListNet"
    formula: ClassVar[str] = (
        "-sum_i (e^(r_i) / sum_j e^(r_j)) * log(e^(sigma z_i) / sum_j e^(sigma z_j))"
    )
    reference: ClassVar[str] = "Cao et al. 2007, the top-one probabilities"

    def targets(self, data: Dataset) -> Floats:
        labels = data.labels.astype(np.float64)
        starts = data.offsets[:-1]
        powers = np.exp(labels - np.repeat(np.maximum.reduceat(labels, starts), data.group))
        return np.asarray(powers / np.repeat(np.add.reduceat(powers, starts), data.group))


@dataclass(frozen=True, kw_only=True)
class XENDCG(_Listwise):
    """Cross-entropy against sampled gains, a bound of NDCG, by LightGBM's approximate Newton step.

    Each iteration draws u_i between 0 and 1 for the targets 2^(r_i) - u_i, divided by their sum.

    >>> XENDCG().name
    'xendcg'
    """

    name: ClassVar[str] = "xendcg"
    title: ClassVar[str] = "XE-NDCG"
    formula: ClassVar[str] = "-sum_i ((2^(r_i) - u_i) / sum_j (2^(r_j) - u_j)) * log softmax(z)_i"
    reference: ClassVar[str] = "Bruch 2021; LightGBM's rank_xendcg"
    what: ClassVar[int] = _SAMPLED

    @property
    def is_random(self) -> bool:
        return True

    def targets(self, data: Dataset) -> Floats:
        labels = data.labels.astype(np.float64)
        if labels.min() < 0 or labels.max() > 1000:
            raise DataError(
                f"labels of xendcg must be from 0 to 1000. Got {labels.min():g} to "
                f"{labels.max():g}."
            )
        return labels


@dataclass(frozen=True, kw_only=True)
class Logistic(_Listwise):
    """Two classes: cross-entropy of 1 / (1 + e^(-sigma z)) against a label of 0 or 1.

    Parameters
    ----------
    sigma
        How steep the logistic function is.
    balanced
        Whether both classes weigh the same in all: documents count n/(2 n+) and n/(2 n-). The
        Newton step of a leaf has these weights above and below.

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
    what: ClassVar[int] = _TWO_CLASSES

    def targets(self, data: Dataset) -> Floats:
        positive = _two_classes(data)
        if not self.balanced:
            return np.where(positive, 1.0, -1.0)
        by_document = _by_document(data)
        half = by_document.sum() / 2
        one, other = (max(by_document[rows].sum(), 1e-300) for rows in (positive, ~positive))
        return np.asarray(np.where(positive, half / one, -half / other))

    def start_score(self, data: Dataset) -> float:
        weights = np.abs(self.targets(data)) * _by_document(data)
        positive = _two_classes(data)
        one, other = weights[positive].sum(), weights[~positive].sum()
        return math.log(one / other) / self.sigma if one > 0 and other > 0 else 0.0


def _two_classes(data: Dataset) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    other = data.labels[(data.labels != 0) & (data.labels != 1)]
    if len(other):
        raise DataError(f"labels of logistic must be 0 or 1. Got {float(other[0]):g}.")
    return np.asarray(data.labels == 1)


def _by_document(data: Dataset) -> Floats:
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    repeated: Floats = np.repeat(np.asarray(weights, np.float64), data.group)
    return repeated

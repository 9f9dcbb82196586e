"""Objectives of a whole query without pairs."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from rankgrove._jit import empty, kernel
from rankgrove._jit.elementary import exponentials
from rankgrove._jit.hashing import mix, share_of
from rankgrove._jit.ranking import longest_query
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError
from rankgrove.objectives.base import LARGEST, Floats, refuse_document_weights
from rankgrove.objectives.targets import Pulled, Targeted
from rankgrove.rules import option

# The losses of the kernel.
_CENTRED, _SOFTMAX, _SAMPLED, _PERMUTATION = range(4)


@kernel
def _softmax(scores, sigma, room, out):
    """Chances that are proportional to e^(sigma z)."""
    highest = -np.inf
    for i in range(len(scores)):
        highest = max(highest, scores[i])
    for i in range(len(scores)):
        room[i] = sigma * (scores[i] - highest)
    exponentials(room, out)
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
def _push_permutation(labels, powers, forces, curvatures):
    """Of the chance that documents are drawn in the order of their labels, without sigma.

    `powers` are proportional to e^(sigma z).
    """
    n = len(labels)
    order = np.argsort(labels, kind="mergesort")
    for i in range(n):
        forces[i] = 1.0 if labels[i] > labels[order[0]] else 0.0
        curvatures[i] = 0.0
    total = 0.0
    start = 0
    for end in range(1, n + 1):
        total += powers[order[end - 1]]
        if end < n and labels[order[end]] == labels[order[start]]:
            continue
        # Each of the documents from start to end is drawn out of all those before the end.
        count = end - start if start > 0 else 0
        for at in range(end if count else 0):
            chance = powers[order[at]] / total
            forces[order[at]] -= count * chance
            curvatures[order[at]] += count * chance * (1.0 - chance)
        start = end


@kernel
def push_lists(
    loss, scores, targets, offsets, weights, numbers, first, last, sigma, key, out_forces,
    out_curvatures
):  # fmt: skip
    """Forces and curvatures of queries first to last; `targets` are one per document."""
    longest = longest_query(offsets, first, last)
    work = empty((2, longest), np.float64)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        n = hi - lo
        weight = weights[q]
        own, wanted = scores[lo:hi], targets[lo:hi]
        forces, curvatures = out_forces[lo:hi], out_curvatures[lo:hi]
        if loss == _CENTRED:
            mean = 0.0
            for i in range(n):
                forces[i] = wanted[i] - own[i]
                mean += forces[i]
            mean /= n
            for i in range(n):
                forces[i] = weight * (forces[i] - mean)
                curvatures[i] = weight
            continue
        chances, terms = work[0, :n], work[1, :n]
        _softmax(own, sigma, terms, chances)
        if loss == _PERMUTATION:
            _push_permutation(wanted, chances, forces, curvatures)
            for i in range(n):
                forces[i] *= sigma * weight
                curvatures[i] *= sigma * sigma * weight
            continue
        total = 0.0
        for i in range(n):
            total += wanted[i]
        if loss == _SAMPLED:
            _sample_targets(wanted, mix(key ^ mix(np.uint64(numbers[q]))), terms)
            _push_sampled(chances, terms, forces)
            total = 1.0 if n > 1 else 0.0
        else:
            for i in range(n):
                forces[i] = wanted[i] - total * chances[i]
        for i in range(n):
            forces[i] *= sigma * weight
            curvatures[i] = sigma * sigma * weight * total * chances[i] * (1.0 - chances[i])


@dataclass(frozen=True, kw_only=True)
class _Listwise(Targeted):
    push: ClassVar[Callable[..., None]] = push_lists


@dataclass(frozen=True, kw_only=True)
class QueryRMSE(_Listwise):
    """Squared error up to a constant of each query: force r - z less its mean in the query.

    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 1], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> QueryRMSE().prepare(data).compute(np.array([3.0, 0.0, 0.0]), 0, forces, curvatures)
    >>> forces.tolist()
    [-3.0, 2.0, 1.0]
    """

    name: ClassVar[str] = "queryrmse"
    title: ClassVar[str] = "QueryRMSE"
    formula: ClassVar[str] = "sum_i (r_i - z_i - mean(r - z))^2 / 2"
    reference: ClassVar[str] = "Lyzhin et al. 2022, section 4.1"
    loss: ClassVar[int] = _CENTRED
    ease: ClassVar[int] = 4

    def document_costs(self, scores: Floats, pulled: Pulled) -> Floats | None:
        rest = _centred(pulled.targets - scores, pulled)
        return np.asarray(pulled.weights * rest**2 / 2)

    def weigh_forces(self, pulled: Pulled, forces: Floats, curvatures: Floats) -> None:
        forces[:] = _centred(forces, pulled)
        super().weigh_forces(pulled, forces, curvatures)


def _centred(values: Floats, pulled: Pulled) -> Floats:
    """What is left of values without their weighted mean in each query."""
    totals = pulled.reduce(np.add, pulled.weights)
    means = pulled.reduce(np.add, pulled.weights * values) / np.where(totals > 0, totals, 1.0)
    return np.asarray(values - pulled.spread(means))


@dataclass(frozen=True, kw_only=True)
class Softmax(_Listwise):
    """Cross-entropy of the softmax of the scores against the labels.

    The labels are not divided by their sum: a query counts as much as its labels sum up to, and
    one without a positive label has no force.

    >>> from rankgrove import Dataset
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
    loss: ClassVar[int] = _SOFTMAX
    weighs_targets: ClassVar[bool] = True

    def targets(self, data: Documents) -> Floats:
        if data.labels.min(initial=0.0) < 0:
            raise DataError(
                f"labels of softmax must be 0 or more. Got {float(data.labels.min()):g}."
            )
        return super().targets(data)

    def document_costs(self, scores: Floats, pulled: Pulled) -> Floats | None:
        own = self.sigma * scores
        own = own - pulled.spread(pulled.reduce(np.maximum, own))
        logs = own - pulled.spread(np.log(pulled.reduce(np.add, np.exp(own))))
        return np.asarray(-pulled.targets * logs)


@dataclass(frozen=True, kw_only=True)
class ListNet(Softmax):
    """Cross-entropy of the softmax of the scores against the softmax of the labels.

    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 0], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> ListNet().prepare(data).compute(np.zeros(3), 0, forces, curvatures)
    >>> forces.round(4).tolist()
    [-0.2268, 0.4537, -0.2268]
    """

    name: ClassVar[str] = "listnet"
    title: ClassVar[str] = "ListNet"
    formula: ClassVar[str] = (
        "-sum_i (e^(r_i) / sum_j e^(r_j)) * log(e^(sigma z_i) / sum_j e^(sigma z_j))"
    )
    reference: ClassVar[str] = "Cao et al. 2007, the top-one probabilities"

    def targets(self, data: Documents) -> Floats:
        labels = data.labels.astype(np.float64)
        starts = data.offsets[:-1]
        powers = np.exp(labels - np.repeat(np.maximum.reduceat(labels, starts), data.group))
        return np.asarray(powers / np.repeat(np.add.reduceat(powers, starts), data.group))


@dataclass(frozen=True, kw_only=True)
class ListMLE(_Listwise):
    """The likelihood that documents are drawn, one by one, in the order of their labels.

    The chance of each draw is proportional to e^(sigma z) among those that are left. Equal labels
    have no order: each of their documents is drawn out of all that are not better (as Breslow 1974
    does with ties), so that the order of the rows does not matter, and those with the lowest label
    of the query are not drawn, as all their orders together have the chance 1. A query of equal
    labels has no force.

    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 1], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> ListMLE().prepare(data).compute(np.zeros(3), 0, forces, curvatures)
    >>> forces.round(4).tolist()
    [-0.8333, 0.6667, 0.1667]
    """

    sigma: float = option(1.0, "what scores are multiplied by.", above=0, below=LARGEST)

    name: ClassVar[str] = "listmle"
    title: ClassVar[str] = "ListMLE"
    formula: ClassVar[str] = "-sum_i log(e^(sigma z_i) / sum_{j: r_j <= r_i} e^(sigma z_j))"
    reference: ClassVar[str] = "Xia et al. 2008, section 4.2"
    loss: ClassVar[int] = _PERMUTATION

    def targets(self, data: Documents) -> Floats:
        refuse_document_weights(self, data)
        return super().targets(data)

    def document_costs(self, scores: Floats, pulled: Pulled) -> Floats | None:
        costs = np.zeros(len(scores))
        for lo, hi in pairwise(pulled.offsets.tolist()):
            labels, own = pulled.targets[lo:hi], self.sigma * scores[lo:hi]
            order = np.argsort(labels, kind="stable")
            totals = np.logaddexp.accumulate(own[order])
            ends = np.searchsorted(labels[order], labels, side="right") - 1
            costs[lo:hi] = np.where(labels > labels.min(), totals[ends] - own, 0.0)
        return costs


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
    loss: ClassVar[int] = _SAMPLED

    @property
    def is_random(self) -> bool:
        return True

    def targets(self, data: Documents) -> Floats:
        refuse_document_weights(self, data)
        labels = super().targets(data)
        if labels.min(initial=0.0) < 0 or labels.max(initial=0.0) > 1000:
            raise DataError(
                f"labels of xendcg must be from 0 to 1000. Got {labels.min():g} to "
                f"{labels.max():g}."
            )
        return labels

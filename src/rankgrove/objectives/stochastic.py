"""StochasticRank: the gradient of a metric that noise in the scores has made smooth.

With m = z - sigma mu r, s = m + sigma eps and eps standard normal, the mean of the metric M over
the rankings by s is smooth in z. Of one draw, with q the rank of j in the list without i,

    dE[M]/dz_i = sum over j of N(s_j; m_i, sigma) * (M with i just above j - M with i just below j),

and the bracket is the swap delta of two neighbours at ranks q and q + 1: (x_i - x_j) V_q, where V_q
is D(q) - D(q + 1); for MAP times the relevant documents above and one; for a cascade times the
chance to get to q. Only documents within a few sigma count, so the cost is near linear where sigma
is small beside the spread of the scores.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankgrove._jit import as_input, chunk_queries, kernel, run_chunks
from rankgrove.data.dataset import Dataset
from rankgrove.errors import ParameterError, is_number, whole_number
from rankgrove.metrics.base import Metric, Rankings
from rankgrove.objectives.base import (
    Floats,
    Forces,
    Objective,
    iteration_key,
    positive,
)
from rankgrove.objectives.deltas import CASCADE, PRECISION
from rankgrove.objectives.elementary import (
    GAUSSIAN,
    LANES,
    draw_noise,
    exponentials,
    sum_lanes,
)
from rankgrove.objectives.pairwise import known_metric
from rankgrove.objectives.ranking import RUN, rank_query
from rankgrove.objectives.weights import PairWeights, weigh_pairs
from rankgrove.trees.quantise import mix

# Documents further away than this many sigma do not count: e^-24.5 is 2e-11.
_FAR = 7.0

_CHUNK_DOCUMENTS = 1 << 12

# The rows of work space.
_MEANS, _X, _FACTORS, _DENSITIES, _EXPONENTS, _TERMS, _N_WORK_ROWS = range(7)


@kernel
def _prepare_factors(kind, n, x, factors):
    """What V at each rank is multiplied by besides its discounts, from the documents above."""
    hits = 0.0
    reach = 1.0
    for i in range(n):
        factors[i] = 1.0
        if kind == PRECISION:
            factors[i] = hits + 1.0
            hits += x[i] > 0.0
        elif kind == CASCADE:
            factors[i] = reach
            reach *= 1.0 - x[i]


@kernel
def _weigh(own, less, x, steps, factors, densities, terms):
    """Density times swap delta of one document with others; `less` is taken from their factors."""
    for j in range(len(terms)):
        terms[j] = densities[j] * (own - x[j]) * steps[j] * (factors[j] - less)


@kernel
def _weigh_document(kind, rank, lo, hi, x, steps, factors, densities, terms):
    """Density times swap delta of the document at `rank` with those at ranks lo to hi."""
    own = x[rank]
    end = max(min(rank, hi), lo)
    _weigh(own, 0.0, x[lo:end], steps[lo:end], factors[lo:end], densities[lo:end], terms[lo:end])
    if lo <= rank < hi:
        terms[rank] = 0.0
    start = max(rank + 1, lo)
    if kind == CASCADE:
        # The chance to get to j without this document.
        reach = factors[rank]
        for j in range(rank + 1, hi):
            if j >= lo:
                terms[j] = densities[j] * (own - x[j]) * steps[j - 1] * reach
            reach *= 1.0 - x[j]
    elif start < hi:
        less = 1.0 if kind == PRECISION and own > 0.0 else 0.0
        _weigh(
            own, less, x[start:hi], steps[start - 1 : hi - 1], factors[start:hi],
            densities[start:hi], terms[start:hi]
        )  # fmt: skip


@kernel
def _exponents(ranked, mean, sigma, out):
    scale = 1.0 / sigma
    for j in range(len(out)):
        away = (ranked[j] - mean) * scale
        out[j] = -0.5 * away * away


@kernel
def _fall_to(ranked, n, value):
    """How many of the falling numbers are above a value."""
    lo, hi = 0, n
    while lo < hi:
        middle = (lo + hi) // 2
        if ranked[middle] > value:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def _project(scores, part, nu, forces):
    """Centre the forces, and take from them a part of what only stretches the scores."""
    n = len(scores)
    mean, middle = 0.0, 0.0
    for i in range(n):
        mean += forces[i] / n
        middle += scores[i] / n
    product, square = 0.0, 0.0
    for i in range(n):
        forces[i] -= mean
        product += forces[i] * (scores[i] - middle)
        square += (scores[i] - middle) * (scores[i] - middle)
    length = math.sqrt(square) + nu
    factor = part * product / (length * length) if length > 0.0 else 0.0
    for i in range(n):
        forces[i] -= factor * (scores[i] - middle)


@kernel
def push_samples(
    scores, values, labels, offsets, scales, weights, first, last, kind, steps, sigma, mu, nu, part,
    samples, key, out_forces, out_curvatures
):  # fmt: skip
    """Forces of queries first to last, the mean over samples of the noise; curvatures are weights.

    `steps` is D(q) - D(q + 1), one a rank.
    """
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    used = np.empty(RUN, np.int64)
    room = np.empty((2, RUN), np.int16)
    ranked_scores = np.empty((2, longest), np.float64)
    ranked_idx = np.empty((2, longest), np.int64)
    bits = np.empty(longest, np.int64)
    powers = bits.view(np.float64)
    work = np.empty((_N_WORK_ROWS, longest + LANES), np.float64)
    noisy = np.empty(longest, np.float64)
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        for i in range(lo, lo + n):
            out_forces[i] = 0.0
            out_curvatures[i] = weights[q]
        if scales[q] == 0.0 or n < 2:
            continue
        means, x, factors = work[_MEANS], work[_X], work[_FACTORS]
        densities, exponents, terms = work[_DENSITIES], work[_EXPONENTS], work[_TERMS]
        for sample in range(samples):
            draw_noise(
                GAUSSIAN, mix(key ^ mix(np.uint64(q * samples + sample))), bits, powers, noisy[:n]
            )
            for i in range(n):
                means[i] = scores[lo + i] - sigma * mu * labels[lo + i]
                noisy[i] = means[i] + sigma * noisy[i]
            side = rank_query(noisy[:n], used, room, ranked_scores, ranked_idx)
            idx, ranked = ranked_idx[side], ranked_scores[side]
            for i in range(n):
                x[i] = values[lo + idx[i]] * scales[q]
            _prepare_factors(kind, n, x, factors)
            for rank in range(n):
                mean = means[idx[rank]]
                start = _fall_to(ranked, n, mean + _FAR * sigma)
                end = _fall_to(ranked, n, mean - _FAR * sigma)
                _exponents(ranked[start:end], mean, sigma, exponents[start:end])
                exponentials(exponents[start:end], bits, powers, densities[start:end])
                _weigh_document(kind, rank, start, end, x, steps, factors, densities, terms)
                for j in range(end, end + (start - end) % LANES):
                    terms[j] = 0.0
                whole = start + (end - start + LANES - 1) // LANES * LANES
                out_forces[lo + idx[rank]] += sum_lanes(terms[start:whole])
        forces = out_forces[lo : lo + n]
        # Of the normal density, and of the mean over samples.
        factor = weights[q] / (sigma * math.sqrt(2.0 * math.pi) * samples)
        for i in range(n):
            forces[i] *= factor
        _project(scores[lo : lo + n], part, nu, forces)


@dataclass(frozen=True, kw_only=True)
class StochasticRank(Objective):
    """The gradient of a smoothed metric, by sampling; see the module for the estimate.

    Curvatures are 1, so that the value of a leaf is its mean force. It is meant to be trained
    with Langevin noise and shrinkage (SGLB): `temperature` and `shrink_rate`.

    Parameters
    ----------
    metric
        Any metric with a swap delta.
    sigma
        The scale of the noise.
    samples
        How many draws of the noise are averaged in each iteration.
    mu
        How far better documents are moved down before ranking, in sigma a grade: ties and near
        ties are then resolved against the model.
    nu, projection
        Of the scale-free step g - projection <g, z> z / (|z| + nu)^2, with z centred.

    >>> StochasticRank(metric="map(relevant>=1)").samples
    1
    """

    metric: str | Metric = "ndcg"
    sigma: float = 1.0
    samples: int = 1
    mu: float = 0.0
    nu: float = 0.01
    projection: float = 1.0

    name: ClassVar[str] = "stochasticrank"
    title: ClassVar[str] = "StochasticRank"
    formula: ClassVar[str] = "-E[M(ranking by z - sigma mu r + sigma eps)]"
    reference: ClassVar[str] = "Ustimenko and Prokhorenkova 2020; Lyzhin et al. 2022, section 2.3"

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", known_metric(self.metric, self.name))
        positive(f"sigma of {self.name}", self.sigma)
        whole_number(f"samples of {self.name}", self.samples, 1)
        for name in ("mu", "nu", "projection"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < math.inf:
                raise ParameterError(
                    f"{name} of {self.name} must be a finite number, 0 or more. Got {value!r}."
                )

    @property
    def is_random(self) -> bool:
        return True

    def prepare(self, data: Dataset, n_jobs: int | None = None, seed: int = 0) -> Forces:
        rankings = Rankings(data.labels, data.labels, data.offsets, n_jobs=n_jobs)
        weights = weigh_pairs(known_metric(self.metric, self.name), rankings, None)
        return _SampledForces(self, weights, data, n_jobs, seed)


class _SampledForces(Forces):
    def __init__(
        self,
        objective: StochasticRank,
        weights: PairWeights,
        data: Dataset,
        n_jobs: int | None,
        seed: int,
    ) -> None:
        of_query = np.ones(data.n_queries) if data.weights is None else data.weights
        self._inputs = (
            as_input(weights.values, np.float64),
            as_input(data.labels, np.float64),
            as_input(data.offsets, np.int64),
            as_input(weights.scales, np.float64),
            as_input(of_query, np.float64),
        )
        steps = weights.discounts - np.append(weights.discounts[1:], 0.0)
        self._steps = (weights.kind, as_input(steps, np.float64))
        self._how = (
            float(objective.sigma), float(objective.mu), float(objective.nu),
            float(objective.projection), int(objective.samples),
        )  # fmt: skip
        step = min(_CHUNK_DOCUMENTS, data.n_documents // 8 + 1)
        self._bounds = chunk_queries(data.offsets, step).tolist()
        self._n_jobs, self._seed = n_jobs, seed

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        own = as_input(scores, np.float64)
        key = iteration_key(self._seed, iteration)

        def push(chunk: int) -> None:
            push_samples(
                own, *self._inputs, self._bounds[chunk], self._bounds[chunk + 1], *self._steps,
                *self._how, key, forces, curvatures,
            )  # fmt: skip

        run_chunks(push, len(self._bounds) - 1, self._n_jobs)

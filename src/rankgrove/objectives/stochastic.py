"""StochasticRank: the gradient of a metric that noise in the scores has made smooth.

With m = z - sigma mu r, s = m + sigma eps and eps standard normal, the mean of the metric M over
the rankings by s is smooth in z. (Lyzhin et al. 2022 print z - mu r in (12), the same where sigma
is 1; the shift here counts in sigma, as in Ustimenko and Prokhorenkova 2020 and CatBoost.) Of one
draw, with q the rank of j in the list without i,

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

from rankgrove._jit import as_input, empty, kernel, run_chunks, run_queries, sum_lanes
from rankgrove._jit.elementary import GAUSSIAN, LANES, draw_noise, split_power
from rankgrove._jit.hashing import iteration_key, mix
from rankgrove._jit.ranking import longest_query, rank_query, ranking_scratch
from rankgrove.data.documents import Documents
from rankgrove.metrics.base import Rankings
from rankgrove.metrics.forms import CASCADE, PAIRS, PRECISION, Form, neighbour_factors
from rankgrove.metrics.spec import MetricLike, parse_metric
from rankgrove.objectives.base import (
    LARGEST,
    Floats,
    Forces,
    Objective,
    chunks_of,
    refuse_document_weights,
)
from rankgrove.objectives.recomputed import warn_if_slow
from rankgrove.objectives.summed import of_one_metric, prepare_sum
from rankgrove.objectives.weights import weigh_pairs
from rankgrove.rules import option

# Documents further away than this many sigma do not count: e^-24.5 is 2e-11.
_FAR = 7.0

# The root of log2(e) / 2: e^(-t^2 / 2) is 2^-(this t)^2.
_TO_POWER_OF_2 = 0.8493218002880191
_SMALLEST_POWER = -1000.0

_CHUNK_DOCUMENTS = 1 << 12

# The rows of work space: of the documents of a query, and of those that count for one value.
_MEANS, _X, _FACTORS, _SCORES, _WEIGHTS, _ABOVE, _TERMS, _N_WORK_ROWS = range(8)


@kernel
def _list_others(kind, scale, value, lo, hi, ranked, steps, work, places):
    """List the documents at ranks lo to hi that count for those of one value, all at lo or below.

    They are in rank order, have another value and a swap delta that is not 0. Weights are the
    deltas with a document above them; the deltas with one below stand beside. `places` says how
    many of the list are above each rank. Returns how many there are; LANES weights of 0 follow.
    """
    x, factors = work[_X], work[_FACTORS]
    scores, weights, above = work[_SCORES], work[_WEIGHTS], work[_ABOVE]
    less = 1.0 if kind == PRECISION and value > 0.0 else 0.0
    # The chance to get to a rank without one document of the value: without the first of them.
    reach = factors[lo]
    met = False
    n = 0
    for j in range(lo, hi):
        difference = value - x[j]
        if kind == PAIRS:
            difference = scale * (np.float64(difference > 0.0) - np.float64(difference < 0.0))
        factor = reach if kind == CASCADE else factors[j] - less
        with_below = difference * steps[j] * factors[j]
        with_above = difference * steps[j - 1] * factor if j > 0 else 0.0
        places[j] = n
        scores[n] = ranked[j]
        above[n] = with_below
        weights[n] = with_above
        n += (with_below != 0.0) | (with_above != 0.0)
        # (No branch: which documents are of the value cannot be foreseen.)
        reach *= 1.0 - (x[j] if met | (difference != 0.0) else 0.0)
        met |= difference == 0.0
    for j in range(n, n + LANES):
        scores[j] = 0.0
        weights[j] = 0.0
    return n


@kernel
def _sum_terms(mean, scale, start, n, scores, weights, terms):
    """The sum of weight times 2^-(scale (score - mean))^2 over n documents, a multiple of LANES.

    Unsigned numbers are not looked at for being below 0, which would keep loops from vectors.
    """
    first = np.uint64(start)
    for j in range(np.uint64(n)):
        away = (scores[first + j] - mean) * scale
        power, factor = split_power(max(-(away * away), _SMALLEST_POWER))
        terms[j] = factor * weights[first + j] * power
    return sum_lanes(terms[:n])


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
def _push_group(
    kind, scale, value, members, n, deep, ranked, idx, steps, sigma, work, places, forces
):
    """Add to the forces of all documents of one value; `members` are their ranks, rising."""
    means = work[_MEANS]
    highest = lowest = means[idx[members[0]]]
    for rank in members:
        highest = max(highest, means[idx[rank]])
        lowest = min(lowest, means[idx[rank]])
    lo = min(_fall_to(ranked, n, highest + _FAR * sigma), members[0])
    hi = min(_fall_to(ranked, n, lowest - _FAR * sigma), deep)
    n_others = _list_others(kind, scale, value, lo, hi, ranked, steps, work, places)
    scores, weights, above, terms = work[_SCORES], work[_WEIGHTS], work[_ABOVE], work[_TERMS]
    passed = 0
    for rank in members:
        while passed < (places[rank] if rank < hi else n_others):
            weights[passed] = above[passed]
            passed += 1
        mean = means[idx[rank]]
        start = _fall_to(scores, n_others, mean + _FAR * sigma)
        end = _fall_to(scores, n_others, mean - _FAR * sigma)
        whole = (end - start + LANES - 1) // LANES * LANES
        forces[idx[rank]] += _sum_terms(
            mean, _TO_POWER_OF_2 / sigma, start, whole, scores, weights, terms
        )


@kernel
def push_samples(
    scores, values, labels, offsets, scales, weights, numbers, first, last, kind, steps, sigma, mu,
    nu, part, samples, key, out_forces, out_curvatures
):  # fmt: skip
    """Forces of queries first to last, the mean over samples of the noise; curvatures are weights.

    `steps` is D(q) - D(q + 1), one per rank.
    """
    longest = longest_query(offsets, first, last)
    used, room, ranked_scores, ranked_idx = ranking_scratch(longest)
    ranked_x = empty((2, longest), np.float64)
    ranks = empty((2, longest), np.int64)
    places = empty(longest, np.int64)
    work = empty((_N_WORK_ROWS, longest + LANES), np.float64)
    means, x = work[_MEANS], work[_X]
    noisy = empty(longest, np.float64)
    # A document counts down to the rank after the last step.
    deep = len(steps)
    while deep > 0 and steps[deep - 1] == 0.0:
        deep -= 1
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        for i in range(lo, lo + n):
            out_forces[i] = 0.0
            out_curvatures[i] = weights[q]
        if scales[q] == 0.0 or n < 2:
            continue
        forces = out_forces[lo : lo + n]
        for sample in range(samples):
            number = np.uint64(numbers[q] * samples + sample)
            draw_noise(GAUSSIAN, mix(key ^ mix(number)), noisy[:n])
            for i in range(n):
                means[i] = scores[lo + i] - sigma * mu * labels[lo + i]
                noisy[i] = means[i] + sigma * noisy[i]
            side = rank_query(noisy[:n], used, room, ranked_scores, ranked_idx)
            ranked, idx = ranked_scores[side], ranked_idx[side]
            for i in range(n):
                x[i] = values[lo + idx[i]] * scales[q]
            neighbour_factors(kind, n, x, work[_FACTORS])
            # Documents of equal value have no swap delta: they go together, in rank order.
            row = rank_query(x[:n], used, room, ranked_x, ranks)
            start = 0
            for end in range(1, n + 1):
                if end == n or ranked_x[row, end] != ranked_x[row, start]:
                    _push_group(
                        kind, scales[q], ranked_x[row, start], ranks[row, start:end], n,
                        min(deep + 1, n), ranked, idx, steps, sigma, work, places, forces
                    )  # fmt: skip
                    start = end
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
        Any metric. One without a form for kernels, as a function of the user's own, is computed for
        every place that a document can take: slower, by a factor of the documents near it.
    sigma
        The scale of the noise.
    samples
        How many draws of the noise are averaged in each iteration.
    mu
        How far better documents are moved down before ranking, in sigma a grade: ties and near
        ties are then resolved against the model.
    nu, projection
        Of the scale-free step g - projection <g, z> z / (|z| + nu)^2, with z centred.

    Examples
    --------
    >>> StochasticRank(metric="map(relevant>=1)").samples
    1
    """

    metric: MetricLike = option(
        "ndcg", "What the objective optimises, with its cut-off.", metavar="METRIC"
    )
    sigma: float = option(1.0, "the scale of the noise.", above=0, below=LARGEST)
    samples: int = option(1, "Draws of StochasticRank's noise.", least=1)
    mu: float = option(
        0.0, "How far StochasticRank moves good documents down, in sigma per grade.", least=0,
        drawn=(1e-2, 10.0, "log"),
    )  # fmt: skip
    nu: float = option(
        0.01, "Added to the length of scores in StochasticRank's scale-free step.", least=0
    )
    projection: float = option(
        1.0, "How much of a step StochasticRank takes out along the scores.", least=0
    )

    name: ClassVar[str] = "stochasticrank"
    title: ClassVar[str] = "StochasticRank"
    formula: ClassVar[str] = "-E[M(ranking by z - sigma mu r + sigma eps)]"
    reference: ClassVar[str] = "Ustimenko and Prokhorenkova 2020; Lyzhin et al. 2022, section 2.3"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "metric", parse_metric(self.metric))

    @property
    def is_random(self) -> bool:
        return True

    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        refuse_document_weights(self, data)
        metric = parse_metric(self.metric)
        if not of_one_metric(metric):
            return prepare_sum(self, metric, data, n_jobs, seed)
        rankings = Rankings.of_data(data, data.labels, n_jobs)
        form = weigh_pairs(metric, rankings, None)
        if form is None:
            return _RecomputedSamples(self, data, n_jobs, seed)
        return _SampledForces(self, form, data, n_jobs, seed)


class _SampledForces(Forces):
    def __init__(
        self, objective: StochasticRank, form: Form, data: Documents, n_jobs: int | None, seed: int
    ) -> None:
        self._inputs = (
            as_input(form.values, np.float64),
            as_input(data.labels, np.float64),
            as_input(data.offsets, np.int64),
            as_input(form.scales, np.float64),
            as_input(data.query_weights, np.float64),
            as_input(data.shard.numbers, np.int64),
        )
        steps = form.discounts - np.append(form.discounts[1:], 0.0)
        self._steps = (form.kind, as_input(steps, np.float64))
        self._how = (
            float(objective.sigma), float(objective.mu), float(objective.nu),
            float(objective.projection), int(objective.samples),
        )  # fmt: skip
        self._bounds = chunks_of(data, _CHUNK_DOCUMENTS)
        self._n_jobs, self._seed = n_jobs, seed

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        own = as_input(scores, np.float64)
        key = iteration_key(self._seed, iteration)

        def push(first: int, last: int) -> None:
            numbers = (*self._steps, *self._how, key)
            push_samples(own, *self._inputs, first, last, *numbers, forces, curvatures)

        run_queries(push, self._bounds, self._n_jobs)


class _RecomputedSamples(Forces):
    """As `_SampledForces` for a metric without a form: it is computed at every place of a document.

    The time grows with the cube of the documents of a query that lie within a few sigma.
    """

    def __init__(
        self, objective: StochasticRank, data: Documents, n_jobs: int | None, seed: int
    ) -> None:
        self._objective, self._data = objective, data
        self._metric = parse_metric(objective.metric)
        self._labels = data.labels.astype(np.float64)
        self._n_jobs, self._seed = n_jobs, seed
        warn_if_slow(self._metric)

    def compute(self, scores: Floats, iteration: int, forces: Floats, curvatures: Floats) -> None:
        offsets, weights = self._data.offsets.tolist(), self._data.query_weights
        key = iteration_key(self._seed, iteration)
        nu, part = float(self._objective.nu), float(self._objective.projection)

        def task(query: int) -> None:
            rows = slice(offsets[query], offsets[query + 1])
            number = int(self._data.shard.numbers[query])
            pushed = self._push_query(scores[rows], self._labels[rows], number, key)
            pushed *= weights[query]
            if len(pushed) > 1:
                _project(as_input(scores[rows], np.float64), part, nu, pushed)
            forces[rows], curvatures[rows] = pushed, weights[query]

        run_chunks(task, self._data.n_queries, self._n_jobs)

    def _push_query(self, scores: Floats, labels: Floats, number: int, key: np.uint64) -> Floats:
        objective, n = self._objective, len(scores)
        sigma, forces = float(objective.sigma), np.zeros(n)
        if n < 2 or labels.min() == labels.max():
            return forces
        means = scores - sigma * objective.mu * labels
        noise = np.empty(n)
        for sample in range(objective.samples):
            draw = mix(key ^ mix(np.uint64(number * objective.samples + sample)))
            draw_noise(GAUSSIAN, np.uint64(draw), noise)
            noisy = means + sigma * noise
            order = np.argsort(-noisy, kind="stable")
            for i in range(n):
                others = order[order != i]
                away = (noisy[others] - means[i]) / sigma
                near = np.flatnonzero(np.abs(away) <= _FAR)
                if len(near) == 0:
                    continue
                places = np.arange(near[0], near[-1] + 2)
                lists = [np.insert(labels[others], place, labels[i]) for place in places]
                values = np.nan_to_num(self._metric.of_orders(np.array(lists)))
                density = np.exp(-(away[near] ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
                forces[i] += density @ (values[:-1] - values[1:])
        return forces / objective.samples

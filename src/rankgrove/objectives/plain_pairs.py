"""Forces and costs where every pair counts the same, without a ranking or pairs of equal labels.

Documents stand in the order of their labels, so that the worse ones of each stand before it. With
powers E = e^(sigma z) the force of a pair (i, j), label i > label j, is E_j / (E_i + E_j).
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math

import numpy as np

from rankgrove._jit import empty, kernel, reinterpret
from rankgrove._jit.elementary import LANES, LARGEST, add, exponentials, subtract, sum_lanes
from rankgrove._jit.ranking import longest_query

# Scores, times sigma, that are no further apart than this have powers of a common scale; their
# exponents are rounded by 100 * 2^-53 at most.
_WIDEST = 200.0

_SCORES, _POWERS, _ROW_FORCES, _ROW_CURVATURES, _FORCES, _CURVATURES = range(6)
_N_ROWS = 6

# In costs, scores, times sigma, no further apart than this have quotients of e^x that are finite.
_WIDEST_COSTS = 300.0
# The logarithm of the largest product that is taken: below that of the largest double.
_LARGEST_LOG = 700.0
# Products that are taken side by side, and the most factors of one.
_SIDE_BY_SIDE, _DEEPEST = 16, 32


@kernel
def _push_worse(power, powers, out_forces, out_curvatures):
    """What each worse document gives to a better one: rho and rho (1 - rho)."""
    for j in range(len(powers)):
        share = 1.0 / (power + powers[j])
        rho = powers[j] * share
        out_forces[j] = rho
        out_curvatures[j] = rho * (power * share)


@kernel
def _push_far(score, scores, bits, doubles, out_forces, out_curvatures):
    """The same for scores that are far apart."""
    for j in range(len(scores)):
        out_forces[j] = scores[j] - score
    exponentials(out_forces, bits, doubles, out_curvatures)
    for j in range(len(scores)):
        power = out_curvatures[j]
        share = 1.0 / (1.0 + power)
        out_forces[j] = power * share
        out_curvatures[j] = power * share * share


@kernel
def push_plain(
    scores, labels, order, offsets, weights, first, last, sigma, out_forces, out_curvatures
):
    """Forces and curvatures of queries first to last.

    Parameters
    ----------
    order
        The documents of each query in the order of their labels.
    weights
        One per query.
    """
    longest = longest_query(offsets, first, last)
    work = empty((_N_ROWS, longest + LANES), np.float64)
    bits = empty(longest + LANES, np.int64)
    doubles = reinterpret(bits, np.float64)
    own, powers = work[_SCORES], work[_POWERS]
    row_forces, row_curvatures = work[_ROW_FORCES], work[_ROW_CURVATURES]
    forces, curvatures = work[_FORCES], work[_CURVATURES]
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        low, high = np.inf, -np.inf
        for i in range(n):
            own[i] = min(max(sigma * scores[order[lo + i]], -LARGEST), LARGEST)
            low = min(low, own[i])
            high = max(high, own[i])
        is_near = high - low <= _WIDEST
        for i in range(n, n + LANES):
            own[i] = low
        for i in range(n + LANES):
            forces[i] = 0.0
            curvatures[i] = 0.0
            row_forces[i] = own[i] - (low + high) / 2 if is_near else 0.0
        whole = slice(0, n + LANES)
        exponentials(row_forces[whole], bits[whole], doubles[whole], powers[whole])
        n_worse = 0
        for i in range(1, n):
            if labels[order[lo + i]] != labels[order[lo + i - 1]]:
                n_worse = i
            end = (n_worse + LANES - 1) // LANES * LANES
            row = slice(0, end)
            if is_near:
                _push_worse(powers[i], powers[row], row_forces[row], row_curvatures[row])
            else:
                _push_far(
                    own[i], own[row], bits[row], doubles[row], row_forces[row], row_curvatures[row]
                )
            for j in range(n_worse, end):
                row_forces[j] = 0.0
                row_curvatures[j] = 0.0
            forces[i] += sum_lanes(row_forces[row])
            curvatures[i] += sum_lanes(row_curvatures[row])
            subtract(row_forces[row], forces[row])
            add(row_curvatures[row], curvatures[row])
        for i in range(n):
            out_forces[order[lo + i]] = sigma * weights[q] * forces[i]
            out_curvatures[order[lo + i]] = sigma * sigma * weights[q] * curvatures[i]


@kernel
def sum_logs(powers, count, inverse, deep, lanes):
    """The sum of log(1 + inverse * powers[j]) for j below count.

    A sum of logarithms is that of their product, of `deep` factors here: few are taken.
    """
    total, n_blocks, done = 0.0, count // _SIDE_BY_SIDE, 0
    while done < n_blocks:
        following = min(n_blocks, done + deep)
        lanes[:] = 1.0
        for block in range(done, following):
            for lane in range(_SIDE_BY_SIDE):
                lanes[lane] *= 1.0 + inverse * powers[block * _SIDE_BY_SIDE + lane]
        for lane in range(_SIDE_BY_SIDE):
            total += math.log(lanes[lane])
        done = following
    product, n_factors = 1.0, 0
    for j in range(n_blocks * _SIDE_BY_SIDE, count):
        product *= 1.0 + inverse * powers[j]
        n_factors += 1
        if n_factors == deep:
            total += math.log(product)
            product, n_factors = 1.0, 0
    return total + math.log(product)


@kernel
def sum_pair_costs(scores, labels, offsets, first, last, sigma, out):
    """For queries first to last the sum of log(1 + exp(-sigma (z_i - z_j))), label i > label j."""
    lanes = empty(_SIDE_BY_SIDE, np.float64)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        # In the order of labels, the worse documents of each stand before it.
        order = np.argsort(labels[lo:hi], kind="mergesort")
        own, grades = scores[lo:hi][order] * sigma, labels[lo:hi][order]
        low, high = own.min(), own.max()
        is_narrow = high - low <= _WIDEST_COSTS
        powers = np.exp(own - (low + high) / 2) if is_narrow else own
        deep = max(1, min(_DEEPEST, int(_LARGEST_LOG / (high - low + 1.0)))) if is_narrow else 1
        total, n_worse = 0.0, 0
        for i in range(hi - lo):
            if i > 0 and grades[i] > grades[i - 1]:
                n_worse = i
            if is_narrow:
                total += sum_logs(powers, n_worse, 1.0 / powers[i], deep, lanes)
            else:
                for j in range(n_worse):
                    x = own[i] - own[j]
                    total += max(-x, 0.0) + math.log1p(math.exp(-abs(x)))
        out[q] = total

"""Forces where every pair counts the same: no ranking, and no pair of equal labels is looked at.

Documents stand in the order of their labels, so that the worse ones of each stand before it. With
powers E = e^(sigma z) the force of a pair (i, j), label i > label j, is E_j / (E_i + E_j).
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel
from rankgrove._jit.elementary import (
    LANES,
    LARGEST,
    add,
    exponentials,
    subtract,
    sum_lanes,
)

# Scores, times sigma, that are no further apart than this have powers of a common scale; their
# exponents are rounded by 100 * 2^-53 at most.
_WIDEST = 200.0

_SCORES, _POWERS, _ROW_FORCES, _ROW_CURVATURES, _FORCES, _CURVATURES = range(6)
_N_ROWS = 6


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
        One a query.
    """
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    work = np.empty((_N_ROWS, longest + LANES), np.float64)
    bits = np.empty(longest + LANES, np.int64)
    doubles = bits.view(np.float64)
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

"""What a metric is to an optimiser: its form, and the swap deltas that kernels make of it.

A swap delta is by how much a metric changes if two documents trade places. All have the form
`(x_a - x_b) * V` for documents at ranks a < b, where x is what the metric sees in a document and
V >= 0 depends on ranks and on the documents above b:

| kind | metrics | x | V |
|---|---|---|---|
| PRODUCT | NDCG, DCG, ExpDCG, RBP, precision, recall | gain / normaliser | D(a) - D(b) |
| SIGN | none: every pair counts 1 | grade | 1 / absolute x_a - x_b |
| PRECISION | MAP | relevant, 0 or 1 / N | u_a + v_b |
| CASCADE | MRR, ERR | chance to stop, R | reach_a (1/a - S - Q/b) |
| PAIRS | pair accuracy, tau | grade | of neighbours only: scale / absolute x_a - x_b |
| DISTANCE | LambdaLoss of the first row | gain / normaliser | D(a) - D(b) + E(b - a) |

With 1/p cut to 0 past the metric's cut-off, c_p the relevant documents down to p and H_p the sum of
1/k over the relevant ranks k <= p: u_a = (c_a + 1 - rel_a)/a - H_a and v_b = H_{b-1} - c_b/b.
reach_a is the chance to get to rank a, S what the ranks between give to a user who passes a, and Q
the chance that such a user gets to b. Where R_a < 1 it is u_a + g_a v_b as well: `split_deltas`.

The weight of a pair has a sign: positive where the upper of its two documents is the better one,
negative where the lower one is, 0 where they are equal.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import empty, kernel

PRODUCT, SIGN, PRECISION, CASCADE, PAIRS, DISTANCE = range(6)

Floats = NDArray[np.float64]


class Form(NamedTuple):
    """A metric on the labels of some queries, as kernels take it: no part depends on scores.

    Attributes
    ----------
    kind
        One of the kinds above.
    values
        One per document: x but for the scale.
    discounts
        One per rank, down to the longest query: 0 past the cut-off. Of DISTANCE as many follow that
        are one per distance of ranks, E.
    scales
        One per query: what its values are multiplied by, NaN for an empty query.
    depth
        How many ranks the better-ranked document of a pair may have, for the pair to count.
    """

    kind: int
    values: Floats
    discounts: Floats
    scales: Floats
    depth: int

    @classmethod
    def of_ranks(
        cls, kind: int, values: Floats, discounts: Floats, scales: Floats, longest: int
    ) -> Form:
        """A form whose discounts are those down to the cut-off."""
        padded = np.zeros(longest)
        padded[: len(discounts)] = discounts
        return cls(kind, values, padded, scales, len(discounts))


@kernel
def prepare_deltas(kind, n, x, discounts, upper, lower):
    """What a ranking of n documents is weighed by: u, v; the chance to reach each rank; or E."""
    if kind == PRECISION:
        hits = 0
        sums = 0.0
        for i in range(n):
            relevant = x[i] > 0.0
            before = sums
            hits += relevant
            sums += discounts[i] if relevant else 0.0
            upper[i] = (hits + (0 if relevant else 1)) * discounts[i] - sums
            lower[i] = before - hits * discounts[i]
    elif kind == CASCADE:
        reach = 1.0
        for i in range(n):
            upper[i] = reach
            reach *= 1.0 - x[i]
    elif kind == DISTANCE:
        half = len(discounts) // 2
        for i in range(n):
            lower[i] = discounts[half + i]


@kernel
def split_deltas(kind, n, x, discounts, upper, lower, factor, after_sure):
    """What V of PRECISION and CASCADE is made of without a look at what stands between.

    OUT: u, v and g of each rank, with V = u_a + g_a v_b. For CASCADE, with C_p the sum of
    reach_k R_k D(k) over the ranks k >= p: u_a = reach_a D(a) - g_a C_(a+1), g_a = 1 / (1 - R_a)
    and v_b = C_b - reach_b D(b); sums from the bottom up lose no digits of a small chance. Nobody
    passes the first rank with R = 1, which is returned (-1 if there is none): V of it and of each
    rank below goes to `after_sure`.
    """
    if kind == PRECISION:
        prepare_deltas(kind, n, x, discounts, upper, lower)
        for i in range(n):
            factor[i] = 1.0
        return -1
    sure, sure_reach, reach = -1, 0.0, 1.0
    for i in range(n):
        if sure < 0 and x[i] >= 1.0:
            sure, sure_reach = i, reach
        upper[i] = reach
        reach *= 1.0 - x[i]
    below = 0.0
    for i in range(n - 1, -1, -1):
        own = upper[i] * discounts[i]
        factor[i] = 1.0 / (1.0 - x[i]) if x[i] < 1.0 else 0.0
        upper[i] = own - factor[i] * below
        below += x[i] * own
        lower[i] = below - own
    if sure >= 0:
        between, passing = 0.0, 1.0
        for i in range(sure + 1, n):
            after_sure[i] = sure_reach * (discounts[sure] - between - passing * discounts[i])
            between += passing * x[i] * discounts[i]
            passing *= 1.0 - x[i]
    return sure


@kernel
def weigh_row(kind, own, discount, above, values, places, below, out):
    """Weights of the pairs of one document with all below it.

    Parameters
    ----------
    own, discount, above
        Of the document: x, discount, and u or the chance to reach its rank.
    values, places, below
        Of those below: x, discounts, and v; or E of each distance, from 1 on.
    """
    if kind == PRODUCT:
        for i in range(len(out)):
            out[i] = (own - values[i]) * (discount - places[i])
    elif kind == SIGN:
        for i in range(len(out)):
            out[i] = np.float64(own > values[i]) - np.float64(own < values[i])
    elif kind == PRECISION:
        for i in range(len(out)):
            out[i] = (own - values[i]) * (above + below[i])
    elif kind == DISTANCE:
        for i in range(len(out)):
            out[i] = (own - values[i]) * (discount - places[i] + below[i])
    else:
        between = 0.0
        passing = 1.0
        for i in range(len(out)):
            stop = values[i]
            out[i] = above * (own - stop) * (discount - between - passing * places[i])
            between += passing * stop * places[i]
            passing *= 1.0 - stop


@kernel
def weigh_diagonal(kind, distance, depth, n, x, discounts, upper, lower, between, passing, out):
    """Weights of the pairs at ranks a and a + distance, for a below `depth`.

    Diagonals are taken from distance 1 on: CASCADE keeps S and Q of each a in between, passing.
    Returns how many pairs there are.
    """
    m = min(depth, n - distance)
    below, places = x[distance:n], discounts[distance:n]
    if kind == PRODUCT:
        for a in range(m):
            out[a] = (x[a] - below[a]) * (discounts[a] - places[a])
    elif kind == SIGN:
        for a in range(m):
            out[a] = np.float64(x[a] > below[a]) - np.float64(x[a] < below[a])
    elif kind == PRECISION:
        rest = lower[distance:n]
        for a in range(m):
            out[a] = (x[a] - below[a]) * (upper[a] + rest[a])
    elif kind == DISTANCE:
        for a in range(m):
            out[a] = (x[a] - below[a]) * (discounts[a] - places[a] + lower[distance - 1])
    else:
        if distance == 1:
            for a in range(m):
                between[a] = 0.0
                passing[a] = 1.0
        for a in range(m):
            stop, place = below[a], places[a]
            out[a] = upper[a] * (x[a] - stop) * (discounts[a] - between[a] - passing[a] * place)
            between[a] += passing[a] * stop * place
            passing[a] *= 1.0 - stop
    return m


@kernel
def fill_deltas(kind, x, discounts, out):
    """Minus the weights of all pairs of a ranking into the upper half: by how much it changes."""
    n = len(x)
    upper, lower = empty(n, np.float64), empty(n, np.float64)
    prepare_deltas(kind, n, x, discounts, upper, lower)
    for a in range(n - 1):
        below = slice(a + 1, n)
        weigh_row(
            kind, x[a], discounts[a], upper[a], x[below], discounts[below], lower[below],
            out[a, below]
        )  # fmt: skip
        for b in range(a + 1, n):
            out[a, b] = 0.0 - out[a, b]


@kernel
def neighbour_factors(kind, n, x, factors):
    """What V of neighbours is besides D(a) - D(b), at each rank, from the documents above."""
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

"""Forces of pairs that stand near each other in a ranking, diagonal by diagonal.

The pairs at ranks a and a + d are one vector loop for each distance d. The ranking may be that of
scores with noise, so that the upper document of a pair may have the lower score: the logistic term
takes the scores without noise, and e^x of each pair's own difference.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import by_address, kernel
from rankgrove._jit.elementary import (
    NO_NOISE,
    add,
    copy,
    draw_noise,
    exponential_of,
    log2_1p,
    subtract,
)
from rankgrove._jit.hashing import mix
from rankgrove.metrics.forms import prepare_deltas, weigh_diagonal
from rankgrove.objectives.leaf_pairs import add_diagonal, keep_pairs

# The rows of work space, each as long as a query: scores, x and the sums in rank order; parts of
# deltas; weights and what pairs contribute; 1 where a document is an anchor.
SCORES, X, FORCES, CURVATURES, DOCUMENT_WEIGHTS = range(5)
_UPPER, _LOWER, _BETWEEN, _PASSING, _WEIGHTS, _FORCE, _CURVATURE = range(5, 12)
ANCHORS = 12
N_WORK_ROWS = 13


@by_address
class Draws(NamedTuple):
    """How rankings are drawn.

    Attributes
    ----------
    noise, scale
        The kind of noise that is added to scores for ranking, and its scale.
    permutations
        How many rankings are averaged.
    in_margin
        Whether the logistic term takes the scores with their noise, too.
    key, numbers
        The number that they are drawn by, and that of each query among all queries.
    """

    noise: int
    scale: float
    permutations: int
    in_margin: bool
    key: np.uint64
    numbers: NDArray[np.int64]


@by_address
class Distances(NamedTuple):
    """How far the documents of a pair may be apart.

    Attributes
    ----------
    nearest, furthest
        The fewest and the most ranks.
    """

    nearest: int
    furthest: int


@kernel
def draw_scores(draws, number, scores, out):
    """Scores with the noise of the ranking of this number."""
    if draws.noise == NO_NOISE:
        copy(scores, out)
        return
    draw_noise(draws.noise, mix(draws.key ^ mix(np.uint64(number))), out)
    for i in range(len(out)):
        out[i] = scores[i] + draws.scale * out[i]


@kernel
def scale_of_query(size, sigma, rounds, normalise, weight):
    """What the forces of a query are multiplied by, besides sigma.

    `size` is the sum of the absolute forces of all pairs, without sigma, in so many rankings.
    """
    norm = weight / rounds
    size *= 2.0 * sigma / rounds
    if normalise and size > 0.0:
        norm *= log2_1p(size) / size
    return norm


@kernel
def _divide_by_distances(near, slope, scores, below, weights):
    """Divide the weights of a diagonal by how far the scores of each pair are apart."""
    for a in range(len(weights)):
        weights[a] /= near + slope * abs(scores[a] - below[a])


@kernel
def _push_pairs(sigma, scores, below, weights, force, curvature):
    """What each pair of a diagonal contributes to its upper document, without sigma.

    With E = e^(sigma (z_b - z_a)), rho is E / (1 + E) where the upper document a is the better one
    and 1 / (1 + E) where the lower one, b, is.
    """
    for a in range(len(weights)):
        e = exponential_of(sigma * (below[a] - scores[a]))
        share = 1.0 / (1.0 + e)
        weight = weights[a]
        force[a] = weight * (e * share if weight > 0.0 else share)
        curvature[a] = abs(weight) * (e * share) * share


@kernel
def push_neighbours(
    kind, n, depth, nearest, furthest, sigma, near, slope, normalise, discounts, weighed, anchors,
    leaves, between, kept, q, idx, work
):  # fmt: skip
    """Forces and curvatures of one ranked query into the work rows, without sigma.

    Of pairs whose ranks are `nearest` to `furthest` apart. `weighed` is None, or the work rows have
    the weights of documents; `anchors` is None, or they have which documents are anchors, whose
    pairs count wherever they stand. `leaves` is empty, or holds the leaf of each document in rank
    order: then only pairs whose documents are in different leaves have a curvature, and these are
    added to `between` if it is not None. If `kept` is not None, the pairs are kept as those of
    query q, with the places `idx` of its documents. Returns the sum of the absolute forces of all
    pairs if they are to be normalised.
    """
    scores, forces, curvatures = work[SCORES], work[FORCES], work[CURVATURES]
    upper, lower = work[_UPPER], work[_LOWER]
    for i in range(n):
        forces[i] = 0.0
        curvatures[i] = 0.0
    prepare_deltas(kind, n, work[X], discounts, upper, lower)
    deepest = depth if anchors is None else n
    size = 0.0
    for distance in range(1, min(furthest, n - 1) + 1):
        m = weigh_diagonal(
            kind, distance, deepest, n, work[X], discounts, upper, lower, work[_BETWEEN],
            work[_PASSING], work[_WEIGHTS]
        )  # fmt: skip
        if distance < nearest:
            continue
        if anchors is not None:
            marks = work[ANCHORS]
            for a in range(min(depth, m), m):
                work[_WEIGHTS, a] *= max(marks[a], marks[a + distance])
        if weighed is not None:
            of_documents = work[DOCUMENT_WEIGHTS]
            for a in range(m):
                work[_WEIGHTS, a] *= of_documents[a] * of_documents[a + distance]
        below, weights = scores[distance : distance + m], work[_WEIGHTS, :m]
        force, curvature = work[_FORCE, :m], work[_CURVATURE, :m]
        if slope > 0.0:
            _divide_by_distances(near, slope, scores[:m], below, weights)
        _push_pairs(sigma, scores[:m], below, weights, force, curvature)
        if len(leaves):
            for a in range(m):
                curvature[a] = curvature[a] if leaves[a] != leaves[a + distance] else 0.0
        if between is not None:
            add_diagonal(between, leaves, leaves[distance:], curvature)
        if kept is not None:
            keep_pairs(kept, q, idx, idx[distance:], curvature)
        add(force, forces[:m])
        subtract(force, forces[distance : distance + m])
        add(curvature, curvatures[:m])
        add(curvature, curvatures[distance : distance + m])
        if normalise:
            for a in range(m):
                size += abs(force[a])
    return size

"""What a tree is grown on: queries, rows and features, drawn by a hash of seed and iteration.

Nothing is kept from one draw to the next, so a run that goes on from a checkpoint draws the same,
whatever came before. Queries and rows are hashed by their numbers among those of all workers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, chunk_queries, empty, kernel, run_chunks
from rankgrove._jit.elementary import GAUSSIAN, draw_noise, exponentials, logarithms
from rankgrove._jit.exact import exact_sums
from rankgrove._jit.hashing import draw_array, mix, open_shares
from rankgrove._jit.selection import nth_largest, threshold_of_mean
from rankgrove.data.shard import Shard

Floats = NDArray[np.float64]

_QUERIES, _ROWS, _FEATURES, _ROUNDING, _LANGEVIN, _BOOTSTRAP, _SPLITS = range(7)

_CHUNK_ROWS = 1 << 14
_FIRST = np.zeros(1, dtype=np.int64)


def rounding_seed(seed: int, iteration: int) -> int:
    """Where the rounding of a tree's forces starts in the sequence of random numbers."""
    return int(draw_array(seed, iteration, _ROUNDING, _FIRST)[0])


def split_seed(seed: int, iteration: int) -> int:
    """What the noise in a tree's gains is drawn by."""
    return int(draw_array(seed, iteration, _SPLITS, _FIRST)[0] >> np.uint64(1))


@kernel
def _add_noise(forces, scale, key, offsets, numbers, first, last):
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    noise = empty(longest, np.float64)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        draw_noise(GAUSSIAN, mix(key + np.uint64(numbers[q])), noise[:n])
        for i in range(n):
            forces[start + i] += scale * noise[i]


def add_normal_noise(
    forces: Floats, shard: Shard, scale: float, seed: int, iteration: int,
    n_jobs: int | None = None,
) -> None:  # fmt: skip
    """Add independent normal noise of this scale to the forces."""
    key = draw_array(seed, iteration, _LANGEVIN, _FIRST)[0]
    offsets, numbers = as_input(shard.offsets, np.int64), as_input(shard.numbers, np.int64)
    bounds = chunk_queries(shard.offsets, _CHUNK_ROWS).tolist()

    def task(chunk: int) -> None:
        _add_noise(forces, scale, key, offsets, numbers, bounds[chunk], bounds[chunk + 1])

    run_chunks(task, len(bounds) - 1, n_jobs)


def _lowest(numbers: NDArray[np.uint64], count: int) -> NDArray[np.bool_]:
    """Which places have the lowest numbers."""
    chosen = np.zeros(len(numbers), dtype=np.bool_)
    chosen[np.argsort(numbers, kind="stable")[:count]] = True
    return chosen


def sample_features(n_features: int, share: float, seed: int, iteration: int) -> NDArray[np.bool_]:
    """Which features a tree may split by: a share of them, at least one."""
    if share == 1:
        return np.ones(n_features, dtype=np.bool_)
    count = max(1, round(share * n_features))
    return _lowest(draw_array(seed, iteration, _FEATURES, np.arange(n_features)), count)


class Sample(NamedTuple):
    """The rows that a tree is grown on, and what each counts, or None for 1."""

    rows: NDArray[np.int32]
    weights: Floats | None


def sample_queries(shard: Shard, share: float, seed: int, iteration: int) -> Sample:
    """All rows of a share of the queries, at least one query."""
    # Every worker draws for all queries, and so nothing is sent.
    drawn = draw_array(seed, iteration, _QUERIES, np.arange(shard.n_queries))
    chosen = _lowest(drawn, max(1, round(share * shard.n_queries)))[shard.numbers]
    return Sample(np.flatnonzero(np.repeat(chosen, np.diff(shard.offsets))).astype(np.int32), None)


def sample_documents(shard: Shard, share: float, seed: int, iteration: int) -> Sample:
    """A share of the rows, at least one."""
    # Hashes of different numbers differ, and the rows with the lowest are taken.
    drawn = ~draw_array(seed, iteration, _ROWS, shard.row_numbers)
    count = max(1, round(share * shard.n_documents))
    bound = nth_largest(drawn, count, shard.peers)
    return Sample(np.flatnonzero(drawn >= bound).astype(np.int32), None)


def sample_gradients(
    forces: Floats, shard: Shard, share: float, seed: int, iteration: int
) -> Sample:
    """The rows with the largest forces, and some of the others, which count for all of them.

    Two thirds of the share go to the largest; each other row is taken with the same probability p
    and then counts 1 / p, so that every sum over rows is right on average.
    """
    n_rows = shard.n_documents
    # The bits of floats that are not negative rise as the floats do.
    size = np.abs(forces).view(np.uint64)
    n_top = round(n_rows * share * 2 / 3)
    top = np.zeros(len(size), dtype=np.bool_)
    if n_top:
        top = size >= nth_largest(size, n_top, shard.peers)
    n_others = n_rows - shard.count(int(top.sum()))
    p = min(1.0, n_rows * share / 3 / max(n_others, 1))
    uniform = draw_array(seed, iteration, _ROWS, shard.row_numbers) * 2.0**-64
    rows = np.flatnonzero(top | (uniform < p)).astype(np.int32)
    return Sample(rows, np.where(top, 1.0, 1 / p if p > 0 else 0.0))


def variance_sizes(forces: Floats, curvatures: Floats, shard: Shard) -> Floats:
    """What leaving a row out would add to the variance of sums, as a root.

    That is sqrt(force^2 + (step curvature)^2), where step is the sum of all absolute forces by that
    of all curvatures.
    """
    columns = [forces, curvatures]
    force, curvature = exact_sums(columns, shard.n_documents, 1, shard.peers, sizes=True)
    step = force / curvature if curvature > 0 else 0.0
    return np.sqrt(forces * forces + (step * curvatures) ** 2)


def sample_by_variance(
    sizes: Floats, shard: Shard, by_query: bool, share: float, seed: int, iteration: int
) -> Sample:
    """Rows, or whole queries, by what leaving them out would add to the variance of sums.

    Each is taken with the probability p = min(1, size / mu) and then counts 1 / p, with mu such
    that a share is taken on average: of all samples that are right on average the one with the
    least variance (Ibragimov and Gusev 2019). Sizes of queries: roots of sums of squares.
    """
    numbers, purpose, n_all = shard.row_numbers, _ROWS, shard.n_documents
    if by_query:
        numbers, purpose, n_all = shard.numbers, _QUERIES, shard.n_queries
        if len(sizes):
            sizes = np.sqrt(np.add.reduceat(sizes * sizes, shard.offsets[:-1]))
    p = chances_of(sizes, share, n_all, shard)
    chosen = draw_array(seed, iteration, purpose, numbers) * 2.0**-64 < p
    if not shard.any(bool(chosen.any())):
        chosen = _likeliest(p, numbers, shard)
    weights = np.divide(1.0, p, out=np.zeros(len(p)), where=p > 0)
    if by_query:
        lengths = np.diff(shard.offsets)
        chosen, weights = (np.repeat(values, lengths) for values in (chosen, weights))
    return Sample(np.flatnonzero(chosen).astype(np.int32), weights)


def _likeliest(p: Floats, numbers: NDArray[np.int64], shard: Shard) -> NDArray[np.bool_]:
    """The one of all with the largest chance, the first of them."""
    largest = np.array([p.max(initial=0.0)])
    shard.peers.max(largest)
    first = np.array([-numbers[p == largest].min(initial=1 << 62)], dtype=np.float64)
    shard.peers.max(first)
    return np.asarray((p == largest) & (numbers == -first))


def chances_of(sizes: Floats, share: float, n_all: int, shard: Shard) -> Floats:
    """min(1, size / mu) with the mean `share` over all workers."""
    target = float(share) * n_all
    n_sized = shard.count(int(np.count_nonzero(sizes)))
    if n_sized <= target:
        # Fewer have a size than are to be taken: the others fill up the share.
        others = min(max((target - n_sized) / max(n_all - n_sized, 1), 0.0), 1.0)
        return np.asarray(np.where(sizes > 0, 1.0, others))
    bound = threshold_of_mean(sizes, target, n_all, shard.peers)
    return np.asarray(np.minimum(1.0, sizes / bound))


def bootstrap_weights(
    shard: Shard, by_query: bool, temperature: float, seed: int, iteration: int,
    n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Weights of the Bayesian bootstrap, (-ln u)^temperature, one per query or one per row."""
    numbers = shard.numbers if by_query else shard.row_numbers
    weights = np.empty(len(numbers))

    def task(chunk: int) -> None:
        part = slice(chunk * _CHUNK_ROWS, (chunk + 1) * _CHUNK_ROWS)
        out = weights[part]
        drawn = open_shares(draw_array(seed, iteration, _BOOTSTRAP, numbers[part]))
        logarithms(drawn, out)
        out *= -1.0
        if temperature != 1:
            # x^t = e^(t ln x).
            drawn[:] = out
            logarithms(drawn, out)
            drawn[:] = temperature * out
            exponentials(drawn, out)

    run_chunks(task, -(-len(numbers) // _CHUNK_ROWS), n_jobs)
    return np.repeat(weights, np.diff(shard.offsets)) if by_query else weights

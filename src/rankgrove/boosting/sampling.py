"""What a tree is grown on: queries, rows and features, drawn by a hash of seed and iteration.

Nothing is kept from one draw to the next, so a run that goes on from a checkpoint draws the same,
whatever came before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import run_chunks
from rankgrove._jit.elementary import GAUSSIAN, draw_noise
from rankgrove._jit.hashing import draw_array, open_share_of

Floats = NDArray[np.float64]

_QUERIES, _ROWS, _FEATURES, _ROUNDING, _LANGEVIN, _BOOTSTRAP, _SPLITS = range(7)

_CHUNK_ROWS = 1 << 14


def rounding_seed(seed: int, iteration: int) -> int:
    """Where the rounding of a tree's forces starts in the sequence of random numbers."""
    return int(draw_array(seed, iteration, _ROUNDING, 1)[0])


def split_seed(seed: int, iteration: int) -> int:
    """What the noise in a tree's gains is drawn by."""
    return int(draw_array(seed, iteration, _SPLITS, 1)[0] >> np.uint64(1))


def add_normal_noise(
    forces: Floats, scale: float, seed: int, iteration: int, n_jobs: int | None = None
) -> None:
    """Add independent normal noise of this scale to the forces."""
    n_chunks = -(-len(forces) // _CHUNK_ROWS)
    keys = draw_array(seed, iteration, _LANGEVIN, n_chunks)

    def task(chunk: int) -> None:
        own = forces[chunk * _CHUNK_ROWS : (chunk + 1) * _CHUNK_ROWS]
        bits, noise = np.empty(len(own), dtype=np.int64), np.empty(len(own))
        draw_noise(GAUSSIAN, keys[chunk], bits, bits.view(np.float64), noise)
        own += scale * noise

    run_chunks(task, n_chunks, n_jobs)


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
    return _lowest(draw_array(seed, iteration, _FEATURES, n_features), count)


class Sample(NamedTuple):
    """The rows that a tree is grown on, and what each counts, or None for 1."""

    rows: NDArray[np.int32]
    weights: Floats | None


def sample_queries(offsets: NDArray[np.int64], share: float, seed: int, iteration: int) -> Sample:
    """All rows of a share of the queries, at least one query."""
    n_queries = len(offsets) - 1
    chosen = _lowest(
        draw_array(seed, iteration, _QUERIES, n_queries), max(1, round(share * n_queries))
    )
    return Sample(np.flatnonzero(np.repeat(chosen, np.diff(offsets))).astype(np.int32), None)


def sample_gradients(forces: Floats, share: float, seed: int, iteration: int) -> Sample:
    """The rows with the largest forces, and some of the others, which count for all of them.

    Two thirds of the share go to the largest; each other row is taken with the same probability p
    and then counts 1 / p, so that every sum over rows is right on average.
    """
    n_rows = len(forces)
    size = np.abs(forces)
    n_top = round(n_rows * share * 2 / 3)
    bound = np.partition(size, n_rows - n_top)[n_rows - n_top] if n_top else np.inf
    top = size >= bound
    n_others = n_rows - int(top.sum())
    p = min(1.0, n_rows * share / 3 / max(n_others, 1))
    uniform = draw_array(seed, iteration, _ROWS, n_rows) * 2.0**-64
    rows = np.flatnonzero(top | (uniform < p)).astype(np.int32)
    return Sample(rows, np.where(top, 1.0, 1 / p if p > 0 else 0.0))


def sample_documents(n_rows: int, share: float, seed: int, iteration: int) -> Sample:
    """A share of the rows, at least one."""
    chosen = _lowest(draw_array(seed, iteration, _ROWS, n_rows), max(1, round(share * n_rows)))
    return Sample(np.flatnonzero(chosen).astype(np.int32), None)


def sample_by_variance(
    sizes: Floats, offsets: NDArray[np.int64] | None, share: float, seed: int, iteration: int
) -> Sample:
    """Rows, or whole queries, by what leaving them out would add to the variance of sums.

    Each is taken with the probability p = min(1, size / mu) and then counts 1 / p, with mu such
    that a share is taken on average: of all samples that are right on average the one with the
    least variance (Ibragimov and Gusev 2019). Sizes of queries: roots of sums of squares.
    """
    if offsets is not None:
        sizes = np.sqrt(np.add.reduceat(sizes * sizes, offsets[:-1]))
    p = _chances(sizes, share)
    purpose = _ROWS if offsets is None else _QUERIES
    chosen = draw_array(seed, iteration, purpose, len(sizes)) * 2.0**-64 < p
    if not chosen.any():
        chosen[int(np.argmax(p))] = True
    weights = np.divide(1.0, p, out=np.zeros(len(p)), where=p > 0)
    if offsets is not None:
        chosen, weights = (np.repeat(values, np.diff(offsets)) for values in (chosen, weights))
    return Sample(np.flatnonzero(chosen).astype(np.int32), weights)


def _chances(sizes: Floats, share: float) -> Floats:
    """min(1, size / mu) with the mean `share`."""
    target = float(share) * len(sizes)
    falling = np.sort(sizes)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]
    # With the k largest taken for sure, mu is the sum of the others by what is left to take.
    k = np.arange(len(sizes))
    mu = rest / np.maximum(target - k, 1e-300)
    fits = (k < target) & (falling <= mu)
    if not fits.any():
        return np.ones(len(sizes))
    bound = mu[int(np.argmax(fits))]
    if bound > 0:
        return np.asarray(np.minimum(1.0, sizes / bound))
    # Fewer have a size than are to be taken: the others fill up the share.
    has_size = sizes > 0
    n_others = max(len(sizes) - int(has_size.sum()), 1)
    others = np.clip((target - has_size.sum()) / n_others, 0.0, 1.0)
    return np.asarray(np.where(has_size, 1.0, others))


def bootstrap_weights(
    offsets: NDArray[np.int64] | None, n_rows: int, temperature: float, seed: int, iteration: int,
    n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Weights of the Bayesian bootstrap, (-ln u)^temperature, one per query or one per row."""
    n = n_rows if offsets is None else len(offsets) - 1
    weights = np.empty(n)

    def task(chunk: int) -> None:
        own = weights[chunk * _CHUNK_ROWS : (chunk + 1) * _CHUNK_ROWS]
        numbers = draw_array(seed, iteration, _BOOTSTRAP, len(own), chunk * _CHUNK_ROWS)
        own[:] = -np.log(open_share_of.py_func(numbers))
        if temperature != 1:
            own **= temperature

    run_chunks(task, -(-n // _CHUNK_ROWS), n_jobs)
    return weights if offsets is None else np.repeat(weights, np.diff(offsets))

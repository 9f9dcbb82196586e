r"""What each feature adds to the score of a network: integrated gradients.

Let u be the inputs of a document, u' those of the median document, which has the median of each
feature in the training data and nothing missing, and F the network. Input i adds

.. math:: c_i = (u_i - u'_i) \int_0^1 \frac{\partial F}{\partial u_i} (u' + t (u - u')) \, dt

(Sundararajan, Taly, Yan, "Axiomatic Attribution for Deep Networks", 2017, equation 1), so that all
of them add up to :math:`F(u) - F(u')`. A feature's contribution is that of its own input and that
of the input that says whether it is missing.

Edge policy: a feature at its median adds exactly 0. A missing value stands at the median, so it
adds what its being missing tells the network; nothing, if training saw none missing. An infinite
value adds what the largest or least finite one would.

The integral is taken by Gauss-Legendre on intervals that are divided until each accounts for the
change of F along it, which is known: a network of ReLU has kinks, where a fixed number of points
would be far off. An interval is divided where the lines at its two ends meet, which is the kink if
there is one, and in the next round in its middle. All is computed in float64.
"""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rankgrove._jit import run_chunks
from rankgrove.data.sparse_features import Features
from rankgrove.errors import ParameterError
from rankgrove.neural.networks import forward, one_thread
from rankgrove.neural.transform import Transform

Floats = NDArray[np.float64]

# Contributions add up to the score within this share of it, or within this where it is below 1;
# the score itself is computed in float32.
TOLERANCE = 1e-5

# The same for one interval: a path has some hundred of them at most, unless it is no network that
# changes continuously.
_OF_INTERVAL = 1e-8
_MOST_ROUNDS = 48
_MOST_INTERVALS = 4096

_CHUNK_ROWS = 64
_NODES, _NODE_WEIGHTS = (0.5 * values for values in np.polynomial.legendre.leggauss(4))
_NODES = _NODES + 0.5


def integrated_gradients(
    module: nn.Module, transform: Transform, features: Features, n_jobs: int | None
) -> Floats:
    """What each feature adds, one row per document, and in a last column the reference score."""
    n_rows, n_features = features.shape
    network = copy.deepcopy(module).double().eval().requires_grad_(False)
    reference = transform.median_inputs()
    out = np.zeros((n_rows, n_features + 1))

    def explain(chunk: int) -> None:
        rows = slice(chunk * _CHUNK_ROWS, min((chunk + 1) * _CHUNK_ROWS, n_rows))
        inputs = transform.apply(features[rows], 1).astype(np.float64)
        by_input = _integrate(network, reference, inputs)
        out[rows, :n_features] = by_input[:, :n_features]
        for column, feature in enumerate(transform.indicated, start=n_features):
            out[rows, feature] += by_input[:, column]

    try:
        with one_thread():
            out[:, -1] = _scores(network, reference[np.newaxis])
            run_chunks(explain, -(-n_rows // _CHUNK_ROWS), n_jobs)
    except RuntimeError as error:
        raise ParameterError(
            f"a network must run in float64, with gradients, to be explained. Got: {error}."
        ) from None
    return out


def _integrate(network: nn.Module, reference: Floats, inputs: Floats) -> Floats:
    """What each input adds to the score of each row."""
    steps = inputs - reference
    total = np.zeros_like(steps)
    ends = _scores(network, np.vstack([reference, inputs]))
    if not np.isfinite(ends).all():
        raise ParameterError("a network must give finite scores to be explained. Got others.")
    change = ends[1:] - ends[0]
    sizes = np.maximum(1.0, np.maximum(np.abs(ends[1:]), abs(ends[0])))
    # Intervals of the ways from the reference to each row: whose, from where to where, and F there.
    rows = np.arange(len(inputs))
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    low_scores, high_scores = np.full(len(rows), ends[0]), ends[1:]
    for turn in range(_MOST_ROUNDS):
        moved = (high - low)[:, np.newaxis] * steps[rows]
        starts = reference + low[:, np.newaxis] * steps[rows]
        added, slopes = _integrate_intervals(network, starts, moved)
        gaps = np.abs(high_scores - low_scores - added.sum(axis=1))
        is_last = turn == _MOST_ROUNDS - 1 or len(rows) > _MOST_INTERVALS * len(inputs)
        done = np.full(len(rows), True) if is_last else gaps <= _OF_INTERVAL * sizes[rows]
        np.add.at(total, rows[done], added[done])
        if done.all():
            break
        keep = partial(np.compress, ~done, axis=0)
        rows, low, high, slopes = keep(rows), keep(low), keep(high), keep(slopes)
        low_scores, high_scores = keep(low_scores), keep(high_scores)
        share = _meeting(high_scores - low_scores, slopes) if turn % 2 == 0 else 0.5
        middle = low + share * (high - low)
        middle_scores = _scores(network, reference + middle[:, np.newaxis] * steps[rows])
        rows = np.concatenate([rows, rows])
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        low_scores = np.concatenate([low_scores, middle_scores])
        high_scores = np.concatenate([middle_scores, high_scores])
    if not (np.abs(change - total.sum(axis=1)) <= 0.5 * TOLERANCE * sizes).all():
        raise ParameterError(
            "a network must change continuously with its inputs to be explained. Got one whose "
            "gradients do not add up to its scores."
        )
    return total


def _integrate_intervals(
    network: nn.Module, starts: Floats, moved: Floats
) -> tuple[Floats, Floats]:
    """What each input adds on the way from each start, and the slopes of F at its two ends."""
    n_rows, n_inputs = starts.shape
    points = starts[:, np.newaxis] + _NODES[:, np.newaxis] * moved[:, np.newaxis]
    inputs = torch.from_numpy(points.reshape(-1, n_inputs)).requires_grad_()
    scores = forward(network, inputs)
    if not scores.requires_grad:
        return np.zeros_like(starts), np.zeros((n_rows, 2))
    (gradients,) = torch.autograd.grad(scores.sum(), inputs)
    by_node = gradients.numpy().reshape(n_rows, len(_NODES), n_inputs)
    added = moved * np.einsum("rki,k->ri", by_node, _NODE_WEIGHTS)
    return added, np.einsum("rki,ri->rk", by_node[:, [0, -1]], moved)


def _meeting(change: Floats, slopes: Floats) -> Floats:
    """Where in an interval, from 0 to 1, the lines at its two ends meet; else its middle."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (change - slopes[:, 1]) / (slopes[:, 0] - slopes[:, 1])
    return np.where((share > 0) & (share < 1), share, 0.5)


def _scores(network: nn.Module, inputs: Floats) -> Floats:
    with torch.no_grad():
        return np.asarray(forward(network, torch.from_numpy(inputs)).numpy(), dtype=np.float64)

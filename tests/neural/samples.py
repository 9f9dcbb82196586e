"""Small data for networks, and costs and lambdas of pairs written out in PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from objectives.naive_objectives import mean_weights, pair_weights, stable_order
from rankgrove import make_web_search

GROUP = (7, 1, 12, 5)
OFFSETS = np.concatenate([[0], np.cumsum(GROUP)])


def make_labels(top=4, seed=0):
    return np.random.default_rng(seed).integers(0, top + 1, size=OFFSETS[-1]).astype(np.float64)


def make_scores(seed=1, dtype=torch.float64):
    drawn = np.random.default_rng(seed).normal(size=OFFSETS[-1])
    return torch.tensor(drawn, dtype=dtype, requires_grad=True)


def make_parts(n_queries=40, seed=2):
    return make_web_search(n_queries, 16, mean_documents=12, seed=seed).split(0.6, 0.4)


def queries():
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(OFFSETS)]


def pair_cost(scores, labels, weights_of, sigma=1.0):
    """The sum of w log(1 + exp(-sigma (z_i - z_j))) as a graph over all pairs, w held fixed."""
    total = scores.new_zeros(())
    for rows in queries():
        own = scores[rows]
        for (i, j), weight in weights_of(own.detach().numpy(), labels[rows]).items():
            total = total + weight * torch.nn.functional.softplus(-sigma * (own[i] - own[j]))
    return total


def all_ones(scores, labels):
    n = len(labels)
    return {(i, j): 1.0 for i in range(n) for j in range(n) if labels[i] > labels[j]}


def swap_weights(metric, **how):
    def weights_of(scores, labels):
        return pair_weights(metric, labels, stable_order(scores.tolist()), **how)

    return weights_of


def noisy_weights(metric, noise_of, **how):
    """As `swap_weights`, the mean over rankings with noise, of which a query has a row per draw."""
    asked = iter(range(len(GROUP)))

    def weights_of(scores, labels):
        noise = noise_of(next(asked), len(labels))
        orders = [stable_order((scores + row).tolist()) for row in noise]
        return mean_weights(metric, labels, orders, **how)

    return weights_of

"""The loss of networks against one of padded matrices: time of an epoch, peak memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from benchmarks.common import THREADS, alternate, in_own_process, medians, peak_megabytes, table
from benchmarks.scale import Times
from rankgrove.neural import RankingLoss, ranking_loss
from rankgrove.neural.networks import build_network

N_FEATURES, GRADES = 136, (0.52, 0.32, 0.13, 0.02, 0.01)
RATE, CUT_OFF = 1e-4, 10
LAYERS, N_QUERIES, N_DOCUMENTS, BATCH, PADDED_BATCHES = (64, 32), 64, 500, 16, (4, 16, 64)
MEMORY_SIZES, MEMORY_QUERIES = (125, 250, 500, 1000, 2000), 16
RANKNET, LAMBDARANK = "rankmart", "lambdamart, NDCG@10"
KINDS = (RANKNET, LAMBDARANK)


class Queries(NamedTuple):
    """Queries of one length each."""

    features: Tensor
    labels: Tensor
    length: int

    @property
    def n_queries(self) -> int:
        return len(self.labels) // self.length

    def rows(self, first: int, last: int) -> slice:
        return slice(first * self.length, last * self.length)


def make_queries(n_queries: int, length: int, seed: int = 0) -> Queries:
    rng = np.random.default_rng([seed, length])
    rows = n_queries * length
    features = rng.standard_normal((rows, N_FEATURES), dtype=np.float32)
    labels = rng.choice(len(GRADES), rows, p=GRADES).astype(np.float32)
    # Every query has two grades at least.
    labels[::length], labels[1::length] = 1.0, 0.0
    return Queries(torch.from_numpy(features), torch.from_numpy(labels), length)


def make_module(hidden: Sequence[int]) -> nn.Sequential:
    """The same weights each time."""
    torch.manual_seed(0)
    return build_network(N_FEATURES, hidden, "relu", 0.0)


def our_loss(kind: str, threads: int, cost: bool = False) -> RankingLoss:
    """RankNet, or LambdaRank with the pairs and weights of the padded loss, and no others."""
    if kind == RANKNET:
        return ranking_loss("rankmart", reduction="sum", cost=cost, n_jobs=threads)
    return ranking_loss(
        "lambdamart", metric=f"ndcg@{CUT_OFF}", truncation=None, normalise=False, sigma=1.0,
        reduction="sum", cost=cost, n_jobs=threads,
    )  # fmt: skip


def exponent(values: Mapping[int, float]) -> float:
    """The power of the size that values grow by: the slope of their logarithms."""
    slope, _ = np.polyfit(np.log(list(values)), np.log(list(values.values())), 1)
    return float(slope)


def padded_loss(kind: str, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The sum over pairs of all queries of (queries, longest) matrices, as allRank has it."""
    labels = labels.to(scores.dtype)
    with torch.no_grad():
        counted = (labels[:, :, None] > labels[:, None, :]) & (mask[:, :, None] & mask[:, None, :])
        weights = counted.to(scores.dtype)
        if kind != RANKNET:
            weights *= _swap_deltas(scores, labels, mask)
    differences = scores[:, None, :] - scores[:, :, None]
    return (softplus(differences) * weights).sum()


def _swap_deltas(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """|change of NDCG@k| of each swap."""
    gains = torch.where(mask, torch.exp2(labels) - 1, 0.0)
    order = scores.masked_fill(~mask, -torch.inf).argsort(dim=1, descending=True, stable=True)
    by_rank = torch.zeros(scores.shape[1], dtype=scores.dtype)
    by_rank[:CUT_OFF] = 1 / torch.log2(torch.arange(2, min(CUT_OFF, len(by_rank)) + 2))
    discounts = torch.empty_like(scores).scatter_(1, order, by_rank.expand_as(scores))
    best = gains.topk(min(CUT_OFF, gains.shape[1]), dim=1).values @ by_rank[:CUT_OFF]
    gains = gains / best[:, None].clamp_min(1e-12)
    deltas = gains[:, :, None] - gains[:, None, :]
    return deltas.mul_(discounts[:, :, None] - discounts[:, None, :]).abs_()


def padded_step(kind: str, scores: Tensor, queries: Queries, first: int, last: int) -> None:
    """Backward of the padded loss; all queries are of one length, so that no place is wasted."""
    shape = (last - first, queries.length)
    labels = queries.labels[queries.rows(first, last)].reshape(shape)
    mask = torch.ones(shape, dtype=torch.bool)
    padded_loss(kind, scores.reshape(shape), labels, mask).backward()


def our_step(loss: RankingLoss, scores: Tensor, queries: Queries, first: int, last: int) -> None:
    offsets = np.arange(0, (last - first + 1) * queries.length, queries.length)
    loss(scores, queries.labels[queries.rows(first, last)], offsets).backward()


Backward = Callable[[Tensor, Queries, int, int], None]


def run_epoch(backward: Backward, queries: Queries, batch: int, threads: int) -> None:
    """Forward, loss, backward and step over all queries."""
    torch.set_num_threads(threads)
    module = make_module(LAYERS)
    optimiser = torch.optim.Adam(module.parameters(), lr=RATE)
    for first in range(0, queries.n_queries, batch):
        last = min(first + batch, queries.n_queries)
        optimiser.zero_grad()
        backward(module(queries.features[queries.rows(first, last)]), queries, first, last)
        optimiser.step()


def run_losses(backward: Backward, queries: Queries, batch: int, threads: int) -> None:
    """The loss alone, at scores that are given."""
    torch.set_num_threads(threads)
    for first in range(0, queries.n_queries, batch):
        last = min(first + batch, queries.n_queries)
        scores = queries.features[queries.rows(first, last), :1].clone().requires_grad_()
        backward(scores, queries, first, last)


def run_network(queries: Queries, batch: int, threads: int) -> None:
    """The network alone: an epoch with a loss that costs nothing."""
    run_epoch(lambda scores, *_: scores.sum().backward(), queries, batch, threads)


def check_same_forces(queries: Queries, n_queries: int = 2) -> None:
    """Ours and the padded loss must have the same gradient."""
    for kind in KINDS:
        gradients = []
        for backward in (partial(our_step, our_loss(kind, 1)), partial(padded_step, kind)):
            rows = queries.rows(0, n_queries)
            scores = queries.features[rows, 0].double().requires_grad_()
            backward(scores, queries, 0, n_queries)
            gradients.append(scores.grad)
        ours, padded = gradients
        if ours is None or padded is None or not torch.allclose(ours, padded, rtol=1e-4, atol=1e-6):
            raise SystemExit(f"both losses must have the same gradient for {kind}. Got others.")


def time_epochs(queries: Queries, rounds: int) -> list[tuple[str, ...]]:
    """A row for each loss and number of threads."""
    rows = []
    for threads in (1, THREADS):
        for kind in KINDS:
            rows += _rows_of(kind, threads, queries, rounds)
    return rows


def _rows_of(kind: str, threads: int, queries: Queries, rounds: int) -> list[tuple[str, ...]]:
    forms: dict[str, tuple[Backward, int]] = {
        "ours": (partial(our_step, our_loss(kind, threads, cost=True)), BATCH)
    }
    if kind == RANKNET:
        forms["ours, `cost=False`"] = (partial(our_step, our_loss(kind, threads)), BATCH)
    for batch in PADDED_BATCHES:
        forms[f"padded, {batch} queries"] = (partial(padded_step, kind), batch)
    tasks: dict[str, Callable[[], None]] = {
        "network": partial(run_network, queries, BATCH, threads)
    }
    for name, (backward, batch) in forms.items():
        tasks[f"epoch {name}"] = partial(run_epoch, backward, queries, batch, threads)
        tasks[f"loss {name}"] = partial(run_losses, backward, queries, batch, threads)
    times = medians(alternate(tasks, rounds))
    padded = [name for name in forms if name.startswith("padded")]
    best = {part: min(times[f"{part} {name}"] for name in padded) for part in ("epoch", "loss")}
    rows: list[tuple[str, ...]] = []
    for name in forms:
        epoch, loss = times[f"epoch {name}"], times[f"loss {name}"]
        ratios = ("", "", "") if name in padded else (
            f"{best['loss'] / loss:.1f}", f"{best['epoch'] / epoch:.1f}",
            f"{best['epoch'] / times['network']:.1f}",
        )  # fmt: skip
        rows.append((kind, str(threads), name, f"{1e3 * epoch:.1f}", f"{1e3 * loss:.1f}",
                     f"{1e3 * times['network']:.1f}", *ratios))  # fmt: skip
    return rows


def epochs_section(queries: Queries, rounds: int) -> str:
    rows = time_epochs(queries, rounds)
    header = ("loss", "threads", "form", "epoch, ms", "loss alone, ms", "network alone, ms",
              "best padded / this: loss", "epoch", "epoch / network alone")  # fmt: skip
    return (
        f"### An epoch, against a padded loss\n\n"
        f"{queries.n_queries} queries of {queries.length} documents, {N_FEATURES} features, hidden "
        f"layers of {' and '.join(map(str, LAYERS))}, Adam, {BATCH} queries a step. The padded "
        f"loss is one of queries x longest x longest matrices in PyTorch, as allRank has them: "
        f"softplus of the differences times the weights of pairs, here without any padding that "
        f"is wasted, at several batch sizes, of which the best counts. Both have the same "
        f"gradient: for {LAMBDARANK} every pair weighs |swap delta|, without truncation and "
        f"normalising. The network alone is an epoch with a loss that costs nothing, so that "
        f"the last column is what the epoch of a loss that takes no time would have.\n\n"
        + table(header, rows)
    )


# Peak memory of the loss, in a process of its own.


def memory_of(form: str, kind: str, length: int) -> float:
    """Megabytes that a loss and its backward pass need above what stood before."""
    torch.set_num_threads(1)
    backward: Backward
    backward = partial(our_step, our_loss(kind, 1)) if form == "ours" else partial(
        padded_step, kind
    )  # fmt: skip
    # What is loaded and compiled at the first call is no part of it.
    run_losses(backward, make_queries(2, 20), 2, 1)
    queries = make_queries(MEMORY_QUERIES, length)
    scores = queries.features[:, :1].clone().requires_grad_()
    before = peak_megabytes_from_here()
    backward(scores, queries, 0, MEMORY_QUERIES)
    return peak_megabytes() - before


def peak_megabytes_from_here() -> float:
    """Forget what the peak was, where the system can; what it is now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_megabytes()


def measure_memory(sizes: Sequence[int]) -> dict[int, Times]:
    return {
        size: {
            f"{form}, {kind}": in_own_process(
                "benchmarks.neural", "--memory", form, kind, str(size)
            )["megabytes"]
            for form in ("ours", "padded")
            for kind in KINDS
        }
        for size in sizes
    }


def memory_section(found: Mapping[int, Times]) -> str:
    names = list(next(iter(found.values())))
    rows = [(f"{size:,}", *(f"{now[name]:.2f}" for name in names)) for size, now in found.items()]
    powers = [
        f"{exponent({size: max(now[name], 1e-3) for size, now in found.items()}):.2f}"
        for name in names
    ]
    rows.append(("power of the documents", *powers))
    return (
        f"### Memory\n\nPeak megabytes of the loss and its backward pass above what stood before, "
        f"{MEMORY_QUERIES} queries, each figure from a process of its own, one thread.\n\n"
        + table(("documents a query", *names), rows)
    )

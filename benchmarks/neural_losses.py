"""The loss of networks against one of padded matrices: time of an epoch, peak memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

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
# What allRank keeps chances above.
SMALLEST = 1e-10


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
    """The sum over pairs of all queries of (queries, longest) matrices, with the fewest steps."""
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


def stepwise_loss(kind: str, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The same sum by the steps of allRank's lambdaLoss.

    All is put in rank order; the weight of a pair is the exponent of its chance, a sigmoid, before
    the logarithm is taken; and pairs are picked by a mask in the end.
    """
    ranked, order = scores.masked_fill(~mask, -torch.inf).sort(dim=1, descending=True, stable=True)
    grades = labels.masked_fill(~mask, -torch.inf).gather(1, order)
    steps_down = grades[:, :, None] - grades[:, None, :]
    counted = torch.isfinite(steps_down) & (steps_down > 0)
    weights: Tensor | float = 1.0
    if kind != RANKNET:
        ranks = torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype)
        discounts = torch.where(ranks <= CUT_OFF, 1 / torch.log2(1 + ranks), 0.0)[None, :]
        ideal = torch.exp2(grades.clamp_min(0).sort(dim=1, descending=True).values) - 1
        best = (ideal * discounts).sum(dim=1).clamp_min(SMALLEST)
        gains = (torch.exp2(grades.clamp_min(0)) - 1) / best[:, None]
        weights = (discounts[:, :, None] - discounts[:, None, :]).abs()
        weights = weights * (gains[:, :, None] - gains[:, None, :]).abs()
    differences = (ranked[:, :, None] - ranked[:, None, :]).clamp(-1e8, 1e8)
    chances = (torch.sigmoid(differences).clamp_min(SMALLEST) ** weights).clamp_min(SMALLEST)
    return -torch.log(chances)[counted].sum()


PADDED = {"padded": padded_loss, "padded, allRank's steps": stepwise_loss}


def padded_step(
    form: str, kind: str, scores: Tensor, queries: Queries, first: int, last: int
) -> None:
    """Backward of a padded loss; all queries are of one length, so that no place is wasted."""
    shape = (last - first, queries.length)
    labels = queries.labels[queries.rows(first, last)].reshape(shape)
    mask = torch.ones(shape, dtype=torch.bool)
    PADDED[form](kind, scores.reshape(shape), labels, mask).backward()


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
    """Ours and the padded losses must have the same gradient."""
    for kind in KINDS:
        gradients = []
        padded = [partial(padded_step, form, kind) for form in PADDED]
        for backward in (partial(our_step, our_loss(kind, 1)), *padded):
            rows = queries.rows(0, n_queries)
            scores = queries.features[rows, 0].double().requires_grad_()
            backward(scores, queries, 0, n_queries)
            gradients.append(cast("Tensor", scores.grad))
        for other in gradients[1:]:
            if not torch.allclose(gradients[0], other, rtol=1e-4, atol=1e-6):
                raise SystemExit(f"all losses must have the same gradient for {kind}. Got others.")


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
    padded = {form: [f"{form}, {batch} queries" for batch in PADDED_BATCHES] for form in PADDED}
    for form, names in padded.items():
        for name, batch in zip(names, PADDED_BATCHES, strict=True):
            forms[name] = (partial(padded_step, form, kind), batch)
    tasks: dict[str, Callable[[], None]] = {
        "network": partial(run_network, queries, BATCH, threads)
    }
    for name, (backward, batch) in forms.items():
        tasks[f"epoch {name}"] = partial(run_epoch, backward, queries, batch, threads)
        tasks[f"loss {name}"] = partial(run_losses, backward, queries, batch, threads)
    times = medians(alternate(tasks, rounds))
    best = {
        (form, part): min(times[f"{part} {name}"] for name in names)
        for form, names in padded.items()
        for part in ("loss", "epoch")
    }
    rows: list[tuple[str, ...]] = []
    for name in forms:
        epoch, loss, network = times[f"epoch {name}"], times[f"loss {name}"], times["network"]
        own = {"loss": loss, "epoch": epoch}
        ratios = [""] * 5
        if name.startswith("ours"):
            ratios = [f"{best[form, part] / own[part]:.1f}" for form in PADDED for part in own]
            ratios.append(f"{best['padded', 'epoch'] / network:.1f}")
        cells = [f"{1e3 * time:.1f}" for time in (epoch, loss, network)]
        rows.append((kind, str(threads), name, *cells, *ratios))
    return rows


def epochs_section(queries: Queries, rounds: int) -> str:
    rows = time_epochs(queries, rounds)
    header = ("loss", "threads", "form", "epoch, ms", "loss alone, ms", "network alone, ms",
              "best padded / this: loss", "epoch", "best of allRank's steps / this: loss", "epoch",
              "best padded epoch / network alone")  # fmt: skip
    return (
        f"### An epoch, against a padded loss\n\n"
        f"{queries.n_queries} queries of {queries.length} documents, {N_FEATURES} features, hidden "
        f"layers of {' and '.join(map(str, LAYERS))}, Adam, {BATCH} queries a step. Padded losses "
        f"are of queries x longest x longest matrices in plain PyTorch, here without any padding "
        f"that is wasted, at several batch sizes, of which the best counts. `padded` has the "
        f"fewest steps that we know: softplus of the differences times the weights of pairs. "
        f"`allRank's steps` are those of its `lambdaLoss`: ranks first, a sigmoid to the power of "
        f"the weights, its logarithm, and a mask. All have the same gradient: for {LAMBDARANK} "
        f"every pair weighs |swap delta|, without truncation and normalising. The network alone "
        f"is an epoch with a loss that costs nothing, so that the last column is what the epoch of "
        f"a loss that takes no time would have.\n\n" + table(header, rows)
    )


# Peak memory of the loss, in a process of its own.


def memory_of(form: str, kind: str, length: int) -> float:
    """Megabytes that a loss and its backward pass need above what stood before."""
    torch.set_num_threads(1)
    backward: Backward
    backward = partial(our_step, our_loss(kind, 1)) if form == "ours" else partial(
        padded_step, form, kind
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

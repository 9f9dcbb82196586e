"""Networks: what one force a document saves, against pairs one by one and against padded losses.

The picture is docs/images/neural.svg. All forms have the same network, data and threads, take
turns, and must give the same gradient before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import alternate, limit_threads, medians, report, table

limit_threads()

import torch  # noqa: E402 (the thread limits must be set before)
from torch import Tensor, nn  # noqa: E402
from torch.nn.functional import softplus  # noqa: E402

from benchmarks.neural_losses import (  # noqa: E402
    BATCH,
    MEMORY_SIZES,
    N_DOCUMENTS,
    N_FEATURES,
    N_QUERIES,
    RANKNET,
    RATE,
    Queries,
    check_same_forces,
    epochs_section,
    exponent,
    make_module,
    make_queries,
    measure_memory,
    memory_of,
    memory_section,
    our_loss,
)
from benchmarks.scale import Times, growth_panel  # noqa: E402
from rankgrove.neural import RankingLoss  # noqa: E402
from rankgrove.pictures.chart import Chart  # noqa: E402
from rankgrove.pictures.svg import draw  # noqa: E402

COMMAND = "python -m benchmarks.neural"
PACKAGES = ("numpy", "numba", "torch")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "neural.svg"

ONE_LAYER, SIZES = (64,), (10, 20, 40, 80, 160, 320)
# Those of a query that pairs one by one would take too long for.
LONGER = (640, 1280)
PAIRS, GRAPH, FACTORED = "pair by pair", "graph over pairs", "one force a document"


def pairs_of(labels: Tensor) -> Tensor:
    """The pairs (better, worse), one a row."""
    return torch.nonzero(labels[:, None] > labels[None, :])


class Query(NamedTuple):
    """One query, its pairs and the offsets that our loss takes."""

    features: Tensor
    labels: Tensor
    pairs: Tensor
    offsets: Sequence[int]


def split_queries(queries: Queries) -> list[Query]:
    found = []
    for number in range(queries.n_queries):
        rows = queries.rows(number, number + 1)
        labels = queries.labels[rows]
        found.append(
            Query(queries.features[rows], labels, pairs_of(labels), (0, queries.length))
        )  # fmt: skip
    return found


Update = Callable[[], None]
Step = Callable[[nn.Module, Update, Query], None]


def make_update(module: nn.Module, rate: float = RATE) -> Update:
    """A step of SGD with the least work that PyTorch allows; it also forgets the gradient."""
    weights = list(module.parameters())

    @torch.no_grad()
    def update() -> None:
        for weight in weights:
            if weight.grad is not None:
                weight.sub_(weight.grad, alpha=rate)
                weight.grad = None

    return update


def step_by_pairs(module: nn.Module, update: Update, query: Query) -> None:
    """The first RankNet: for every pair two documents forward, a cost, backward and a step."""
    for pair in query.pairs:
        scores = module(query.features[pair])
        softplus(scores[1] - scores[0]).backward()
        update()


def step_by_graph(module: nn.Module, update: Update, query: Query) -> None:
    """One forward of the query, the cost of its pairs by autograd, one backward, one step."""
    scores = module(query.features)[:, 0]
    softplus(scores[query.pairs[:, 1]] - scores[query.pairs[:, 0]]).sum().backward()
    update()


def step_by_forces(loss: RankingLoss, module: nn.Module, update: Update, query: Query) -> None:
    """One forward of the query, one force a document, one backward, one step."""
    loss(module(query.features), query.labels, query.offsets).backward()
    update()


def make_steps() -> dict[str, Step]:
    return {
        PAIRS: step_by_pairs,
        GRAPH: step_by_graph,
        FACTORED: partial(step_by_forces, our_loss(RANKNET, 1)),
    }


def check_same_gradient(query: Query) -> None:
    """The three forms must move the weights alike, for a rate so small that steps add up."""
    moves = []
    for step in make_steps().values():
        module = make_module(ONE_LAYER).double()
        before = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        step(module, make_update(module, 1e-9), query._replace(features=query.features.double()))
        moves.append(nn.utils.parameters_to_vector(module.parameters()).detach() - before)
    for moved in moves[1:]:
        if not torch.allclose(moved, moves[0], rtol=1e-3, atol=1e-3 * float(moves[0].abs().max())):
            raise SystemExit("the forms must have the same gradient. Got others.")


def run_queries(step: Step, queries: list[Query]) -> None:
    module = make_module(ONE_LAYER)
    update = make_update(module)
    for query in queries:
        step(module, update, query)


def time_forms(sizes: Sequence[int], rounds: int, names: Sequence[str]) -> dict[int, Times]:
    """Seconds a query, on one thread."""
    torch.set_num_threads(1)
    found: dict[int, Times] = {}
    steps = make_steps()
    for size in sizes:
        # Pairs one by one go through fewer queries: each of them is many steps.
        numbers = {name: max(1, (40 if name == PAIRS else 3200) // size) for name in names}
        queries = split_queries(make_queries(max(numbers.values()), size))
        check_same_gradient(split_queries(make_queries(1, min(size, 40)))[0])
        tasks = {
            name: partial(run_queries, steps[name], queries[: numbers[name]]) for name in names
        }
        times = medians(alternate(tasks, rounds))
        found[size] = {name: seconds / numbers[name] for name, seconds in times.items()}
    return found


def forms_section(times: Mapping[int, Times]) -> str:
    names = (PAIRS, GRAPH, FACTORED)
    rows = []
    for size, now in times.items():
        cells = [f"{1e3 * now[name]:.3f}" if name in now else "not run" for name in names]
        pairs = pairs_of(make_queries(1, size).labels)
        ratio = f"{now[PAIRS] / now[FACTORED]:.0f}" if PAIRS in now else ""
        rows.append((f"{size:,}", f"{len(pairs):,}", *cells, ratio))
    small, large = min(times), max(times)
    for title, chosen in (
        (f"power of the documents, {small} to {large:,}", list(times)),
        (f"the same from {list(times)[len(times) // 2]} on", list(times)[len(times) // 2 :]),
    ):
        powers = []
        for name in names:
            own = {size: times[size][name] for size in chosen if name in times[size]}
            powers.append(f"{exponent(own):.2f}" if len(own) > 1 else "")
        rows.append((title, "", *powers, ""))
    header = ("documents a query", "pairs of one", *(f"{name}, ms" for name in names),
              "pair by pair / ours")  # fmt: skip
    return (
        f"### Pairs, or one force a document\n\n"
        f"RankNet with {N_FEATURES} features and one hidden layer of {ONE_LAYER[0]}, one thread, "
        f"milliseconds a query: forward, cost, backward and step of SGD. Pair by pair: for every "
        f"pair both documents forward, the cost, backward and a step, as RankNet was first "
        f"trained. Graph over pairs: one forward of the query, the costs of all its pairs by "
        f"autograd, one backward. One force a document: `ranking_loss`, as in section 2.1 of "
        f"Burges (2010), where the sum over pairs remains, and all else is linear. All three "
        f"give the same gradient. A call of `ranking_loss` has a fixed cost, which the queries of "
        f"a batch share; here it is for one. Pair by pair is not run where a query takes many "
        f"seconds.\n\n" + table(header, rows)
    )


def draw_picture(times: Mapping[int, Times], memory: Mapping[int, Times]) -> str:
    """Seconds a query and peak memory against documents a query, as SVG."""
    forms = (FACTORED, PAIRS, GRAPH)
    kept = {"our loss": f"ours, {RANKNET}", "padded loss": f"padded, {RANKNET}"}
    whole = {
        size: {name: now[name] for name in forms}
        for size, now in times.items()
        if set(forms) <= now.keys()
    }
    chosen = {
        size: {name: max(now[own], 0.01) for name, own in kept.items()}
        for size, now in memory.items()
    }
    names = [*forms, *kept]
    panels = [
        growth_panel("seconds a query", "documents a query", whole, names),
        growth_panel("megabytes of the loss", "documents a query", chosen, names),
    ]
    label = "Seconds a query and megabytes of the loss by documents a query"
    note = "RankNet by pairs and by one force a document; all axes are logarithmic"
    return draw(Chart(panels, label, note))


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        form, kind, length = sys.argv[2:]
        print(json.dumps({"megabytes": memory_of(form, kind, int(length))}))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    quick = arguments.quick
    rounds = 1 if quick else arguments.rounds
    times = time_forms(SIZES[:4] if quick else SIZES, rounds, (PAIRS, GRAPH, FACTORED))
    times |= time_forms(LONGER[:1] if quick else LONGER, rounds, (GRAPH, FACTORED))
    queries = make_queries(BATCH if quick else N_QUERIES, N_DOCUMENTS)
    check_same_forces(queries)
    epochs = epochs_section(queries, rounds)
    memory = measure_memory(MEMORY_SIZES[::2] if quick else MEMORY_SIZES)
    body = "\n\n".join([forms_section(times), epochs, memory_section(memory)])
    if quick:
        print(body)
        return
    PICTURE.write_text(draw_picture(times, memory), encoding="utf-8")
    report("neural", "Networks", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

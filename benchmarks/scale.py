"""How training grows with rows, features and long queries, and whether quantisation costs quality.

Rankgrove and LightGBM take turns on each data set; the picture is docs/images/scale.svg.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import Floats, paired_difference  # noqa: E402
from benchmarks.peers import (  # noqa: E402
    LightGBM,
    Rankgrove,
    Settings,
    Tool,
    grow_in_turns,
    make_rows,
    ndcg_of_queries,
)
from rankgrove.boosting.loop import Boosting  # noqa: E402
from rankgrove.data.dataset import Dataset  # noqa: E402
from rankgrove.data.synthetic import make_web_search  # noqa: E402
from rankgrove.pictures.chart import Axis, Chart, Line, Panel, Points  # noqa: E402
from rankgrove.pictures.palette import candidate  # noqa: E402
from rankgrove.pictures.svg import draw  # noqa: E402
from rankgrove.trees.ensemble import Tree  # noqa: E402

COMMAND = "python -m benchmarks.scale"
PACKAGES = ("numpy", "numba", "scipy", "lightgbm")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scale.svg"
ROWS, FEATURES = (100_000, 400_000, 1_600_000), (34, 136, 544)
N_FEATURES, ROWS_OF_FEATURES, LONG_QUERY = 136, 200_000, 10_000
FEW_ROWS, N_FEW_SETS, N_HELD_OUT = 1000, 20, 2000
TREES_A_ROUND, QUALITY_TREES = 2, 30
ROUNDINGS = (0, 10**6, 2 * 10**6)

Times = dict[str, float]


def time_tools(data: Dataset, rounds: int) -> Times:
    """Seconds a tree of 63 leaves."""
    settings = Settings()
    tools: dict[str, Tool] = {
        "rankgrove": Rankgrove(data, settings),
        "lightgbm": LightGBM(LightGBM.convert(data), settings),
    }
    times = grow_in_turns(tools, TREES_A_ROUND, rounds)
    return {name: statistics.median(values) for name, values in times.items()}


def growth_table(what: str, times: Mapping[int, Times]) -> str:
    """Seconds a tree by size, and by how much each step of 4 times multiplies them."""
    rows = []
    before: Times | None = None
    for size, now in times.items():
        steps = ["", ""] if before is None else [
            f"{now[name] / before[name]:.2f}" for name in now
        ]  # fmt: skip
        rows.append((f"{size:,}", f"{now['rankgrove']:.4f}", f"{now['lightgbm']:.4f}",
                     f"{now['lightgbm'] / now['rankgrove']:.2f}", *steps))  # fmt: skip
        before = now
    header = (what, "rankgrove, s a tree", "lightgbm, s a tree", "lightgbm / ours",
              "rankgrove, a step", "lightgbm, a step")  # fmt: skip
    return table(header, rows)


def with_queries_of(data: Dataset, length: int) -> Dataset:
    """The same documents in queries of this many each; what is left over is dropped."""
    n_queries = data.n_documents // length
    rows = n_queries * length
    return Dataset(
        features=data.features[:rows],
        labels=data.labels[:rows],
        offsets=np.arange(0, rows + 1, length),
        query_ids=np.arange(n_queries),
    )


class OtherRounding(Boosting):
    """A training run whose forces are rounded by other random numbers, and no more differs."""

    def __init__(self, *arguments: Any, first: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first = first

    def _grow_tree(self, iteration: int) -> Tree:
        # Without sampling and noise, the number of the tree is the seed of rounding only.
        return super()._grow_tree(iteration + self._first)


def with_heavy_weights(data: Dataset, seed: int) -> Dataset:
    """Query weights from a Pareto distribution without a mean: a few queries have most of it."""
    weights = 1 + np.random.default_rng(seed).pareto(1.0, data.n_queries)
    return Dataset(
        data.features, data.labels, data.offsets, data.query_ids, weights=weights / weights.mean()
    )


def splits_of(tree: Tree) -> list[tuple[Any, ...]]:
    """Feature, threshold and children of each split."""
    columns = (tree.feature, tree.threshold, tree.left, tree.right)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def first_difference(trees: Sequence[Tree], others: Sequence[Tree]) -> str:
    """The first tree of one run whose splits differ from those of another, and the two gains."""
    for number, (tree, other) in enumerate(zip(trees, others, strict=True), 1):
        pairs = zip(splits_of(tree), splits_of(other), strict=False)
        for split, (one, another) in enumerate(pairs):
            if one != another:
                gains = float(tree.gain[split]), float(other.gain[split])
                apart = abs(gains[0] - gains[1]) / max(gains)
                return (
                    f"tree {number}, split {split + 1}: feature {one[0]} at {one[1]:g} or feature "
                    f"{another[0]} at {another[1]:g}, whose gains are {apart:.1g} of them apart"
                )
        if tree.n_leaves != other.n_leaves:
            return f"tree {number}, which has fewer leaves in one of them"
    return "none"


def held_out_ndcg(
    data: Dataset, held_out: Dataset, n_trees: int, differences: list[str] | None = None
) -> dict[str, Floats]:
    """NDCG@10 of the held-out queries: of each rounding, and of LightGBM.

    To `differences` goes where each further rounding first differs from the first.
    """
    values: dict[str, Floats] = {}
    trees: list[Tree] = []
    for number, first in enumerate(ROUNDINGS, 1):
        tool = Rankgrove(data, Settings(), partial(OtherRounding, first=first))
        tool.grow(n_trees)
        values[f"rounding {number}"] = ndcg_of_queries(held_out, tool.scores(held_out))
        if differences is not None and number > 1:
            where = first_difference(trees, tool.training.trees)
            differences.append(f"rounding {number} in {where}")
        trees = trees or tool.training.trees
    peer = LightGBM(LightGBM.convert(data), Settings(), {"force_col_wise": True})
    peer.grow(n_trees)
    values["lightgbm"] = ndcg_of_queries(held_out, peer.scores(held_out))
    return values


def quantisation_row(title: str, values: Mapping[str, Floats]) -> Sequence[str]:
    roundings = [value for name, value in values.items() if name != "lightgbm"]
    first, mean = roundings[0], np.mean(roundings, axis=0)
    return (
        title,
        *(f"{np.nanmean(value):.4f}" for value in roundings),
        *(str(paired_difference(other, first)) for other in roundings[1:]),
        f"{np.nanmean(values['lightgbm']):.4f}",
        str(paired_difference(mean, values["lightgbm"])),
    )


def measure_quantisation(large: Dataset, held_out: Dataset, n_sets: int) -> str:
    """Whether rounding forces to whole units costs quality, with many rows and with few."""
    rows = []
    differences: list[str] = []
    for kind in ("usual", "heavy-tailed"):
        heavy = kind != "usual"
        data = with_heavy_weights(large, 0) if heavy else large
        told = None if heavy else differences
        values = held_out_ndcg(data, held_out, QUALITY_TREES, told)
        rows.append(quantisation_row(f"{data.n_documents:,}, {kind} forces", values))
    for kind in ("usual", "heavy-tailed"):
        runs = []
        for seed in range(n_sets):
            small = make_rows(FEW_ROWS, N_FEATURES, seed=100 + seed)
            small = with_heavy_weights(small, seed) if kind != "usual" else small
            runs.append(held_out_ndcg(small, held_out, QUALITY_TREES))
        # Between training sets a model differs more than between queries: these are the pairs.
        values = {
            name: np.array([np.nanmean(run[name]) for run in runs], dtype=np.float64)
            for name in runs[0]
        }
        rows.append(quantisation_row(f"{FEW_ROWS:,} ({n_sets} sets), {kind} forces", values))
    header = ("documents", "rounding 1", "rounding 2", "rounding 3", "2 less 1", "3 less 1",
              "lightgbm", "mean of ours less lightgbm")  # fmt: skip
    return (
        f"### Quantisation\n\nForces and curvatures are rounded at random to whole units before "
        f"they are summed. NDCG@10 of {held_out.n_queries:,} held-out queries after "
        f"{QUALITY_TREES} trees of 63 leaves, with three seeds of rounding and all else equal, "
        f"and with LightGBM at the same settings, whose histograms are floating-point. "
        f"`heavy-tailed`: queries have weights from a Pareto distribution (shape 1), so that a "
        f"few forces are thousands of times as large as the others. Standard errors are of "
        f"paired differences: over held-out queries for the many documents, over training sets "
        f"for the few. Roundings differ by chance alone, so a difference to LightGBM of their "
        f"size is none. On the many documents, usual forces, the models first differ from rounding "
        f"1 in a split whose two best cuts are all but equal: {'; '.join(differences)}. Trees "
        f"before it are the same, and those after it follow from it (docs/training.md).\n\n"
        + table(header, rows)
    )


def growth_panel(title: str, what: str, times: Mapping[int, Times], looks: Sequence[str]) -> Panel:
    """Seconds, or whatever else, by size; both axes are logarithmic, and `looks` are the names."""
    known = [math.log10(value) for now in times.values() for value in now.values()]
    low, high = math.floor(2 * min(known)) / 2, math.ceil(2 * max(known)) / 2
    steps = [low + step / 2 for step in range(round(2 * (high - low)) + 1)]
    sizes = [(math.log10(size), f"{size:,}") for size in times]
    marks: list[Line | Points] = []
    for name in next(iter(times.values())):
        look = candidate(looks.index(name))
        x, y = [size for size, _ in sizes], [math.log10(now[name]) for now in times.values()]
        marks.append(Line(x, y, name, look.colour, look.dash, 2.0))
        marks.append(Points(x, y, "", look.colour, look.shape, 4.0))
    across = Axis(what, ticks=sizes, margin=0.03)
    up = Axis("", low, high, ticks=[(step, f"{float(f'{10**step:.2g}'):,g}") for step in steps])
    return Panel(title, across, up, marks, 300)


def draw_picture(by_rows: Mapping[int, Times], by_features: Mapping[int, Times]) -> str:
    """Seconds a tree against rows and against features, as SVG."""
    tools = list(next(iter(by_rows.values())))
    panels = [
        growth_panel("", f"documents, {N_FEATURES} features", by_rows, tools),
        growth_panel("", f"features, {ROWS_OF_FEATURES:,} documents", by_features, tools),
    ]
    note = "Seconds a tree of 63 leaves, both axes logarithmic"
    return draw(Chart(panels, "Seconds a tree by documents and by features", note))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    divisor, rounds = (80, 2) if arguments.quick else (1, arguments.rounds)
    by_rows: dict[int, Times] = {}
    for size in ROWS:
        large = make_rows(size // divisor, N_FEATURES, seed=0)
        by_rows[size // divisor] = time_tools(large, rounds)
    held_out = make_web_search(N_HELD_OUT // (4 if divisor > 1 else 1), N_FEATURES, seed=1)
    quantisation = measure_quantisation(large, held_out, 3 if divisor > 1 else N_FEW_SETS)
    del large
    by_features: dict[int, Times] = {}
    for size in FEATURES:
        data = make_rows(ROWS_OF_FEATURES // divisor, size, seed=0)
        by_features[size] = time_tools(data, rounds)
        if size == N_FEATURES:
            long = with_queries_of(data, LONG_QUERY // divisor)
            long_times = time_tools(long, rounds)
    usual = by_features[N_FEATURES]
    rows = [
        (name, f"{usual[name]:.4f}", f"{value:.4f}", f"{value / usual[name]:.2f}")
        for name, value in long_times.items()
    ]
    body = "\n\n".join(
        [
            f"`make_web_search`, trees of 63 leaves, {THREADS} threads; medians of {rounds} "
            f"alternating rounds of {TREES_A_ROUND} trees; LightGBM in its fastest layout. A step "
            "is 4 times the rows or features: 4.00 would be linear.",
            growth_table(f"documents ({N_FEATURES} features)", by_rows),
            growth_table(f"features ({ROWS_OF_FEATURES // divisor:,} documents)", by_features),
            f"### Long queries\n\n{long.n_documents:,} documents in {long.n_queries} queries of "
            f"{LONG_QUERY // divisor:,} each, against about 120 each.\n\n"
            + table(("tool", "usual queries, s a tree", "long, s a tree", "ratio"), rows),
            quantisation,
        ]
    )
    if arguments.quick:
        print(body)
        return
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw_picture(by_rows, by_features), encoding="utf-8")
    report("scale", "Scaling", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

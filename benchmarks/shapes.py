"""Training on data of many shapes: Rankgrove against LightGBM, XGBoost and CatBoost.

    python -m benchmarks.shapes

For each shape the libraries take turns: in each round each of them adds the next trees to its own
model, from data that are already in its own format. Sparse data come to all of them as
scipy.sparse, dense data as a matrix of float32. Peak memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)
import scipy.sparse as sp  # noqa: E402

from benchmarks.common import in_own_process, peak_megabytes  # noqa: E402
from benchmarks.differences import Floats  # noqa: E402
from benchmarks.peers import (  # noqa: E402
    CatBoost,
    LightGBM,
    Rankgrove,
    Settings,
    Tool,
    XGBoost,
    grow_in_turns,
)
from rankgrove.data.dataset import Dataset  # noqa: E402
from rankgrove.pictures.chart import Axis, Chart, Panel, Points, Rule  # noqa: E402
from rankgrove.pictures.palette import candidate  # noqa: E402
from rankgrove.pictures.svg import draw  # noqa: E402

COMMAND = "python -m benchmarks.shapes"
MODULE = "benchmarks.shapes"
PACKAGES = ("numpy", "numba", "lightgbm", "xgboost-cpu", "catboost")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "shapes.svg"
QUERY_ROWS = 50
# A round has as many trees as take about a second, by how many numbers the data have.
MOST_TREES, NUMBERS_A_TREE = 40, 4e8
MEMORY_TREES = 10
TOOLS = ("rankgrove", "lightgbm", "xgboost", "catboost")
# From this density down data are handed over in a sparse form.
MOST_SPARSE = 0.2


class Shape(NamedTuple):
    """Rows, features, the share of values that are not 0, and how many values there are; 0: any."""

    rows: int
    features: int
    density: float = 1.0
    values: int = 0
    leaves: int = 63

    @property
    def n_trees(self) -> int:
        """How many trees a round has."""
        # Values that are added up, and cells of histograms that are searched.
        cells = 2 * self.leaves * self.features * 256
        work = self.rows * self.features * max(self.density, 0.1) + cells
        return int(np.clip(NUMBERS_A_TREE / work, 2, MOST_TREES))

    @property
    def is_sparse(self) -> bool:
        return self.density <= MOST_SPARSE

    def __str__(self) -> str:
        density = "" if self.density == 1 else f", {100 * self.density:g} % not 0"
        values = f", {self.values} values" if self.values else ""
        return f"{self.rows:,} x {self.features:,}{density}{values}"


SHAPES = (
    Shape(2_000, 20),
    Shape(2_000, 136),
    Shape(4_000, 46),
    Shape(10_000, 46, leaves=31),
    Shape(20_000, 136),
    Shape(20_000, 136, values=8),
    Shape(20_000, 5_000, 0.01),
    Shape(50_000, 3_000, 0.01),
    Shape(50_000, 3_000, 0.01, values=8),
    Shape(96_000, 700),
    Shape(96_000, 700, 0.2),
    Shape(96_000, 700, 0.05),
    Shape(96_000, 700, 0.05, values=8),
    Shape(200_000, 20),
    Shape(200_000, 136),
    Shape(200_000, 136, values=8),
    Shape(200_000, 136, 0.05),
    Shape(2_000_000, 20),
)
MEMORY_SHAPES = (
    Shape(96_000, 700),
    Shape(96_000, 700, 0.05),
    Shape(100_000, 3_000, 0.01),
    Shape(200_000, 136, 0.05),
)


def make_features(shape: Shape, rng: np.random.Generator) -> Any:
    """Features of a shape: a matrix, or CSR where few of them are not 0."""
    n_rows = max(1, shape.rows // QUERY_ROWS) * QUERY_ROWS
    size = (n_rows, shape.features)

    def values_of(drawn: Any) -> Any:
        if not shape.values:
            return drawn
        # From 1 on: 0 is what most have where the data are sparse.
        return np.clip(np.ceil(np.abs(drawn) * (shape.values / 3)), 1, shape.values)

    if not shape.is_sparse:
        features = values_of(rng.standard_normal(size, dtype=np.float32))
        if shape.density < 1:
            features[rng.random(size, dtype=np.float32) >= shape.density] = 0.0
        return features

    def draw(size: int) -> Any:
        return values_of(rng.standard_normal(size, dtype=np.float32))

    density, kind = shape.density, np.float32
    drawn = sp.random_array(
        size, density=density, format="csr", dtype=kind, rng=rng, data_sampler=draw
    )
    # (CatBoost does not know the newer class.)
    return sp.csr_matrix(drawn)


def make_arrays(shape: Shape, seed: int = 0) -> tuple[Any, Any]:
    """Features of a shape, and labels that depend on a third of them."""
    rng = np.random.default_rng(seed)
    features = make_features(shape, rng)
    weights = rng.normal(size=shape.features) * (rng.random(shape.features) < 1 / 3)
    scores = features @ weights.astype(np.float32)
    scores += scores.std() * rng.standard_normal(len(scores), dtype=np.float32)
    labels = np.digitize(scores, np.quantile(scores, [0.5, 0.75, 0.9, 0.97]))
    return features, labels.astype(np.float32)


class PeerData(NamedTuple):
    """What peers make their own data from: the features in the form that they came in."""

    features: Any
    labels: Any
    weights: None = None

    @property
    def n_queries(self) -> int:
        return len(self.labels) // QUERY_ROWS

    @property
    def group(self) -> Any:
        return np.full(self.n_queries, QUERY_ROWS)


def make_tool(name: str, features: Any, labels: Any, settings: Settings) -> Tool:
    """A library with data in its own format."""
    given: Any = PeerData(features, labels)
    if name == "rankgrove":
        return Rankgrove(Dataset.from_arrays(features, labels, group=given.group), settings)
    tool: Any = {"lightgbm": LightGBM, "xgboost": XGBoost, "catboost": CatBoost}[name]
    made: Tool = tool(tool.convert(given), settings)
    return made


class FewTrees:
    """A library that is asked for two trees at a time: for hundreds of them it would take hours."""

    every = 5

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    def grow(self, n_trees: int) -> float:
        return self.tool.grow(min(n_trees, 2))

    def scores(self, data: Dataset) -> Floats:
        return self.tool.scores(data)


def measure(shape: Shape, rounds: int) -> tuple[str, ...]:
    """A row of the table: the shape, milliseconds per tree, and those of others by ours."""
    arrays, settings = make_arrays(shape), Settings(max_leaves=shape.leaves)
    tools = {name: make_tool(name, *arrays, settings) for name in TOOLS}
    if shape.is_sparse:
        tools["catboost"] = FewTrees(tools["catboost"])
    times = grow_in_turns(tools, shape.n_trees, rounds)
    seconds = {name: statistics.median(taken) for name, taken in times.items()}
    ours = seconds.pop("rankgrove")
    row = (
        f"{shape.rows:,}", f"{shape.features:,}", f"{100 * shape.density:g} %",
        str(shape.values or "any"), str(shape.leaves), f"{1000 * ours:.2f}",
        *(f"{taken / ours:.2f}" for taken in seconds.values()),
    )  # fmt: skip
    print(*row, file=sys.stderr, flush=True)
    return row


def memory_child(tool: str, folder: str) -> None:
    """Load the arrays, bin them and train; without a folder only the imports."""
    if tool != "rankgrove":
        __import__(tool)
    if folder:
        dense = Path(folder, "features.npy")
        features = np.load(dense) if dense.exists() else sp.load_npz(f"{folder}/features.npz")
        runner = make_tool(tool, features, np.load(f"{folder}/labels.npy"), Settings())
        runner.grow(MEMORY_TREES)
    print(json.dumps({"peak": peak_megabytes()}))


def measure_memory(shape: Shape) -> tuple[str, ...]:
    """A row of the table: the peak of each library above its imports."""
    features, labels = make_arrays(shape)
    row = [str(shape)]
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/labels.npy", labels)
        if shape.is_sparse:
            sp.save_npz(f"{folder}/features.npz", features, compressed=False)
        else:
            np.save(f"{folder}/features.npy", features)
        for tool in TOOLS:
            imports = in_own_process(MODULE, "--child", tool)["peak"]
            peak = in_own_process(MODULE, "--child", tool, "--folder", folder)["peak"]
            row.append(f"{peak - imports:.0f}")
    print(*row, file=sys.stderr, flush=True)
    return tuple(row)


def draw_picture(ratios: dict[str, list[float]]) -> str:
    """How many times as long as ours the others take, a row of dots per shape, as SVG."""
    most = max(max(each) for each in ratios.values())
    octaves = range(-1, max(2, math.ceil(math.log2(most))) + 1)
    ticks = [(float(octave), f"{2.0**octave:g}") for octave in octaves]
    marks: list[Points | Rule] = [Rule(0.0, dash=())]
    for number, (name, values) in enumerate(ratios.items()):
        look = candidate(number)
        places = [math.log2(max(value, 0.5)) for value in values]
        marks.append(Points(places, range(len(SHAPES)), name, look.colour, look.shape, 4.0))
    across = Axis(low=octaves[0], high=octaves[-1], ticks=ticks)
    down = Axis(names=[str(shape) for shape in SHAPES], backwards=True)
    panel = Panel("", across, down, marks, 420, 20 * len(SHAPES))
    note = "Time per tree / Rankgrove's, logarithmic; 1 is the same"
    return draw(Chart([panel], "Time per tree of peers by ours, for data of many shapes", note))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="shapes whose name has this text in it")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        memory_child(options.child, options.folder)
        return
    rounds = 2 if options.quick else options.rounds
    chosen = [shape for shape in SHAPES if options.only in str(shape)]
    if options.quick:
        chosen = [shape for shape in chosen if shape.rows <= 4_000]
    # Compiling is measured apart.
    for shape in (Shape(1_000, 20), Shape(1_000, 100, 0.05)):
        make_tool("rankgrove", *make_arrays(shape), Settings(max_leaves=15)).grow(2)
    rows = [measure(shape, rounds) for shape in chosen]
    whole = len(rows) == len(SHAPES)
    memory = [measure_memory(shape) for shape in MEMORY_SHAPES] if whole else []
    body = describe(rows, rounds, memory)
    if not whole:
        print(body)
        return
    names = ("LightGBM", "XGBoost", "CatBoost")
    ratios = {name: [float(row[6 + k]) for row in rows] for k, name in enumerate(names)}
    PICTURE.write_text(draw_picture(ratios), encoding="utf-8")
    report("shapes", "Shapes of data", COMMAND, PACKAGES, body)


def describe(rows: Sequence[Sequence[str]], rounds: int, memory: Sequence[Sequence[str]]) -> str:
    """The section: both tables, and how they were made."""
    ratios = [float(row[6]) for row in rows]
    sparse = [float(row[6]) for row in rows if float(row[2].split()[0]) <= 100 * MOST_SPARSE]
    dense = [float(row[6]) for row in rows if float(row[2].split()[0]) > 100 * MOST_SPARSE]
    least = [f"{min(each):.2f} on {name} data" for name, each in
             (("dense", dense), ("sparse", sparse)) if each]  # fmt: skip
    header = (
        "rows", "features", "not 0", "values", "leaves", "ours, ms per tree", "LightGBM / ours",
        "XGBoost / ours", "CatBoost / ours",
    )  # fmt: skip
    body = (
        f"Milliseconds per tree of LambdaMART, and how many times as long the others take; medians "
        f"of {rounds} rounds in turns, {THREADS} threads, settings as in Training, LightGBM in the "
        f"layout that proves the fastest. Where at most a fifth of the values is not 0, all get "
        f"scipy.sparse, in which XGBoost takes what is left out for missing. CatBoost for "
        f"reference: QueryRMSE, oblivious trees. LightGBM / ours: {statistics.median(ratios):.2f} "
        f"in the median of all shapes, at the least {' and '.join(least)}.\n\n"
        f"{table(header, rows)}"
    )
    if not memory:
        return body
    return (
        f"{body}\n\n### Memory\n\nPeak above imports, MB: load the arrays, bin them and grow "
        f"{MEMORY_TREES} trees of 63 leaves.\n\n{table(('shape', *TOOLS), memory)}"
    )


if __name__ == "__main__":
    main()

"""Training on data of many shapes: Rankgrove against LightGBM, XGBoost and CatBoost.

    python -m benchmarks.shapes

For each shape the libraries take turns: in each round each of them adds the next trees to its own
model, from data that are already in its own format. All get the same dense matrix of float32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import NamedTuple

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

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

COMMAND = "python -m benchmarks.shapes"
PACKAGES = ("numpy", "numba", "lightgbm", "xgboost-cpu", "catboost")
QUERY_ROWS = 50
# A round has as many trees as take about a second, by how many numbers the data have.
MOST_TREES, NUMBERS_A_TREE = 40, 4e8


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
        work = self.rows * self.features * max(self.density, 0.1)
        return int(np.clip(NUMBERS_A_TREE / work, 2, MOST_TREES))


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


def make_shape(shape: Shape, seed: int = 0) -> Dataset:
    """Data of a shape, whose labels depend on a third of the features."""
    rng = np.random.default_rng(seed)
    n_queries = max(1, shape.rows // QUERY_ROWS)
    size = (n_queries * QUERY_ROWS, shape.features)
    features = rng.standard_normal(size, dtype=np.float32)
    if shape.values:
        # From 1 on: 0 is what most have where the data are sparse.
        features = np.clip(np.ceil(np.abs(features) * (shape.values / 3)), 1, shape.values)
    if shape.density < 1:
        features[rng.random(size, dtype=np.float32) >= shape.density] = 0.0
    weights = rng.normal(size=shape.features) * (rng.random(shape.features) < 1 / 3)
    scores = features @ weights.astype(np.float32)
    scores += scores.std() * rng.standard_normal(len(scores), dtype=np.float32)
    labels = np.digitize(scores, np.quantile(scores, [0.5, 0.75, 0.9, 0.97]))
    return Dataset.from_arrays(features, labels, group=[QUERY_ROWS] * n_queries)


def measure(shape: Shape, rounds: int) -> tuple[str, ...]:
    """A row of the table: the shape, milliseconds per tree, and those of others by ours."""
    data, settings = make_shape(shape), Settings(max_leaves=shape.leaves)
    tools: dict[str, Tool] = {
        "rankgrove": Rankgrove(data, settings),
        "lightgbm": LightGBM(LightGBM.convert(data), settings),
        "xgboost": XGBoost(XGBoost.convert(data), settings),
        "catboost": CatBoost(CatBoost.convert(data), settings),
    }
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most-rows", type=int, default=1 << 40, help="leave out larger shapes")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    options = parser.parse_args()
    most, rounds = (4_000, 2) if options.quick else (options.most_rows, options.rounds)
    # Compiling is measured apart.
    for density in (1.0, 0.05):
        Rankgrove(make_shape(Shape(1_000, 20, density)), Settings(max_leaves=15)).grow(2)
    rows = [measure(shape, rounds) for shape in SHAPES if shape.rows <= most]
    ratios = [float(row[6]) for row in rows]
    header = (
        "rows", "features", "not 0", "values", "leaves", "ours, ms per tree", "LightGBM / ours",
        "XGBoost / ours", "CatBoost / ours",
    )  # fmt: skip
    body = (
        f"Milliseconds per tree of LambdaMART, and how many times as long the others take; medians "
        f"of {rounds} rounds in turns, {THREADS} threads, settings as in Training, LightGBM in the "
        f"layout that proves the fastest. CatBoost for reference: QueryRMSE, oblivious trees. "
        f"LightGBM / ours: {statistics.median(ratios):.2f} in the median of all shapes, "
        f"{min(ratios):.2f} at the least.\n\n{table(header, rows)}"
    )
    if options.quick or most < max(shape.rows for shape in SHAPES):
        print(body)
    else:
        report("shapes", "Shapes of data", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

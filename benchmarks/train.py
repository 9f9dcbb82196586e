"""Training: Rankgrove against LightGBM, XGBoost and CatBoost on 710,000 documents.

The libraries take turns: in each round each of them adds the next trees to its own model, from
data that are already in its own format. Then all of them are measured on the same held-out
queries. Binning, peak memory and the first use with its compiling have tables of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from functools import partial

from benchmarks.common import (
    THREADS,
    Task,
    alternate,
    in_own_process,
    limit_threads,
    medians,
    peak_megabytes,
    report,
    table,
)

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import paired_difference  # noqa: E402
from benchmarks.peers import (  # noqa: E402
    CatBoost,
    LightGBM,
    Rankgrove,
    Settings,
    Tool,
    XGBoost,
    grow_in_turns,
    make_rows,
    ndcg_of_queries,
)
from rankgrove._jit import cycles, kernel  # noqa: E402
from rankgrove.data.dataset import Dataset  # noqa: E402
from rankgrove.data.queries import offsets_of  # noqa: E402
from rankgrove.data.synthetic import make_web_search  # noqa: E402

COMMAND = "python -m benchmarks.train"
PACKAGES = ("numpy", "numba", "lightgbm", "xgboost-cpu", "catboost")
MODULE = "benchmarks.train"
N_FEATURES, N_ROWS, N_FEW_ROWS, N_HELD_OUT = 136, 710_000, 20_000, 5000
# With few rows a round is short, and noise in it large: there are so many times as many.
MORE_ROUNDS = 4
TREES_A_ROUND, MEMORY_TREES = 5, 10
MEMORY_TOOLS = ("rankgrove", "lightgbm, by column", "lightgbm, by row", "xgboost")

# What the Grower's own clocks are called here.
_PARTS = {"sum": "histogram", "scan": "split", "divide": "partition"}


@kernel
def read_clock():
    return cycles()


def clock_rate() -> float:
    """Ticks a second of the clock that kernels read."""
    read_clock()
    start, ticks = time.perf_counter(), read_clock()
    time.sleep(0.2)
    return float(read_clock() - ticks) / (time.perf_counter() - start)


class Spent:
    """Where the time of a training run went since this was made, in seconds a tree."""

    def __init__(self, tool: Rankgrove) -> None:
        self._training = tool.training
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        return {
            "trees": len(self._training.trees),
            **self._training.phases.seconds,
            **self._training.cycles,
        }

    def table(self) -> str:
        now = self._now()
        spent = {name: now[name] - self._before.get(name, 0.0) for name in now}
        n_trees = spent.pop("trees")
        whole = {"forces": spent["forces"], "quantise": spent["quantise"]}
        parts = {word: spent[name] for name, word in _PARTS.items() if name in spent}
        if parts:
            # The kernels of all threads together: a part lasts a thread's share of it.
            rate = clock_rate() * THREADS
            whole |= {word: ticks / rate for word, ticks in parts.items()}
            inside = sum(ticks / rate for ticks in parts.values())
            whole["rest of growing: choosing, waiting"] = spent["grow"] - inside
        else:
            whole["grow (histogram, split, partition)"] = spent["grow"]
        whole |= {"update": spent["update"], "sample": spent["sample"]}
        total = sum(whole.values())
        rows = [
            (name, f"{1000 * seconds / n_trees:.2f}", f"{100 * seconds / total:.0f} %")
            for name, seconds in whole.items()
        ]
        rows.append(("all", f"{1000 * total / n_trees:.2f}", ""))
        return table(("part", "ms a tree", "share"), rows)


class Study:
    """Training data in the formats of all libraries, and held-out queries."""

    def __init__(self, rows: int, held_out: Dataset) -> None:
        self.data, self.held_out = make_rows(rows, N_FEATURES, seed=0), held_out
        self.for_lightgbm = LightGBM.convert(self.data)
        self.for_xgboost = XGBoost.convert(self.data)

    def __str__(self) -> str:
        return f"{self.data.n_documents:,} documents in {self.data.n_queries:,} queries"


def time_growth(study: Study, leaves: int, rounds: int, catboost: bool = False) -> str:
    """Seconds a tree, and NDCG of the same number of trees on held-out queries."""
    settings = Settings(max_leaves=leaves)
    ours, light = Rankgrove(study.data, settings), LightGBM(study.for_lightgbm, settings)
    tools: dict[str, Tool] = {
        "rankgrove": ours,
        "lightgbm": light,
        "xgboost": XGBoost(study.for_xgboost, settings),
    }
    if catboost:
        tools["catboost, QueryRMSE, depth 6"] = CatBoost(CatBoost.convert(study.data), settings)
    bin_seconds = ours.training.phases.seconds["bin"]
    spent = Spent(ours)
    seconds = {
        name: statistics.median(times)
        for name, times in grow_in_turns(tools, TREES_A_ROUND, rounds).items()
    }
    n_trees = TREES_A_ROUND * (rounds + 1)
    values = {
        name: ndcg_of_queries(study.held_out, tool.scores(study.held_out))
        for name, tool in tools.items()
        if not isinstance(tool, CatBoost)
    }
    rows = []
    for name, value in seconds.items():
        cells = [name, f"{value:.4f}", f"{value / seconds['rankgrove']:.2f}"]
        if name in values:
            difference = paired_difference(values["rankgrove"], values[name])
            cells += [f"{np.nanmean(values[name]):.4f}",
                      "" if name == "rankgrove" else str(difference)]  # fmt: skip
        else:
            cells += ["", ""]
        rows.append(cells)
    header = ("tool", "s a tree", "/ ours", f"NDCG@10, {n_trees} trees", "ours less theirs")
    return (
        f"### {leaves} leaves, {study}\n\n"
        f"Medians of {rounds} alternating rounds of {TREES_A_ROUND} trees; LightGBM's fastest "
        f"layout is {light.layout_name}. NDCG@10 of {study.held_out.n_queries:,} held-out "
        f"queries, differences with their standard error over queries; that other training data "
        f"would have given other trees comes on top.\n\n{table(header, rows)}"
        f"\n\nWhere Rankgrove's time goes, after {bin_seconds:.2f} s of binning:\n\n{spent.table()}"
    )


def time_binning(data: Dataset, rounds: int) -> str:
    """From the float32 matrix to each library's own binned format."""
    tasks: dict[str, Task] = {
        "rankgrove": partial(Rankgrove.convert, data),
        "lightgbm": partial(LightGBM.convert, data),
        "xgboost": partial(XGBoost.convert, data),
        "catboost": partial(CatBoost.convert, data),
    }
    seconds = medians(alternate(tasks, rounds))
    fastest = min(value for name, value in seconds.items() if name != "rankgrove")
    rows = [
        (name, f"{value:.2f}", f"{value / seconds['rankgrove']:.2f}")
        for name, value in seconds.items()
    ]
    return (
        f"### Binning\n\n{data.n_documents:,} documents from a float32 matrix into each library's "
        f"own format of 255 bins; medians of {rounds} alternating rounds. Fastest peer / ours: "
        f"{fastest / seconds['rankgrove']:.2f}.\n\n" + table(("tool", "s", "/ ours"), rows)
    )


def _load(folder: str) -> Dataset:
    offsets = offsets_of(np.load(f"{folder}/group.npy"))
    return Dataset(
        features=np.load(f"{folder}/features.npy"),
        labels=np.load(f"{folder}/labels.npy"),
        offsets=offsets,
        query_ids=np.arange(len(offsets) - 1),
    )


def _memory_child(tool: str, folder: str) -> None:
    """Load the matrix, bin it, let go of it where the library can, and train.

    Without a folder only the imports, of which every process has those of Rankgrove too.
    """
    if tool != "rankgrove":
        __import__(tool.split(",", maxsplit=1)[0])
    if folder:
        runner: Tool
        if tool == "rankgrove":
            runner = Rankgrove(_load(folder), Settings())
        elif tool == "xgboost":
            runner = XGBoost(XGBoost.convert(_load(folder)), Settings())
        else:
            layout = {"force_row_wise" if tool.endswith("row") else "force_col_wise": True}
            runner = LightGBM(LightGBM.convert(_load(folder)), Settings(), layout)
        runner.grow(MEMORY_TREES)
    print(json.dumps({"peak": peak_megabytes()}))


def measure_memory(data: Dataset) -> str:
    """Peak memory of loading, binning and training, each library in a process of its own."""
    matrix = data.features.nbytes / 2**20
    above = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("features", "labels", "group"):
            np.save(f"{folder}/{name}.npy", getattr(data, name))
        for tool in MEMORY_TOOLS:
            imports = in_own_process(MODULE, "--child", tool)["peak"]
            peak = in_own_process(MODULE, "--child", tool, "--folder", folder)["peak"]
            above[tool] = peak - imports
    rows = [
        (tool, f"{size:.0f}", f"{size / matrix:.2f}", f"{size / above['rankgrove']:.2f}")
        for tool, size in above.items()
    ]
    header = ("tool", "peak above imports, MB", "/ float32 matrix", "/ ours")
    return (
        f"### Memory\n\nLoad {data.n_documents:,} documents ({matrix:.0f} MB as float32), bin "
        f"them and grow {MEMORY_TREES} trees of 63 leaves. The peers let go of the matrix once "
        f"it is binned; Rankgrove's compiled kernels count as its memory.\n\n" + table(header, rows)
    )


def _first_use_child() -> None:
    """Import, fit and predict on a tiny data set made without any kernel."""
    start = time.perf_counter()
    from rankgrove import Ranker

    rng = np.random.default_rng(0)
    features = rng.normal(size=(800, 20)).astype(np.float32)
    features[rng.random(features.shape) < 0.01] = np.nan
    labels = (np.nan_to_num(features[:, 0]) > 0.5).astype(np.float32)
    ranker = Ranker("lambdamart", n_estimators=5).fit(features, labels, group=np.full(40, 20))
    ranker.predict(features)
    print(json.dumps({"s": time.perf_counter() - start}))


def measure_first_use(rounds: int) -> str:
    """The price of compiling, with an empty cache against one that has it all."""
    before = os.environ.get("NUMBA_CACHE_DIR")
    cold, warm = [], []
    try:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["NUMBA_CACHE_DIR"] = folder
                cold.append(in_own_process(MODULE, "--child", "first use")["s"])
                warm.append(in_own_process(MODULE, "--child", "first use")["s"])
    finally:
        del os.environ["NUMBA_CACHE_DIR"]
        if before is not None:
            os.environ["NUMBA_CACHE_DIR"] = before
    first, later = statistics.median(cold), statistics.median(warm)
    return (
        f"### First use\n\nA process that trains 5 trees on 800 documents and scores them takes "
        f"{first:.1f} s with an empty cache of compiled kernels and {later:.2f} s with a full "
        f"one: compiling takes {first - later:.1f} s, once (median of {rounds})."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--rounds", type=int, default=19, help="of 5 trees each, at 63 leaves")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    if arguments.child == "first use":
        _first_use_child()
        return
    if arguments.child:
        _memory_child(arguments.child, arguments.folder)
        return
    rows = 20_000 if arguments.quick else arguments.rows
    rounds = 3 if arguments.quick else arguments.rounds
    fewer = max(2, rounds // 4)
    held_out = make_web_search(N_HELD_OUT, N_FEATURES, seed=1, n_jobs=THREADS)
    # Compiling is measured apart.
    Rankgrove(make_rows(2000, N_FEATURES, seed=2), Settings(max_leaves=15)).grow(2)
    study = Study(rows, held_out)
    parts = [
        time_growth(study, 63, rounds, catboost=True),
        time_growth(study, 15, fewer),
        time_growth(study, 255, fewer),
        time_growth(Study(min(rows, N_FEW_ROWS), held_out), 63, MORE_ROUNDS * rounds),
        time_binning(study.data, min(5, rounds)),
        measure_memory(study.data),
        measure_first_use(1 if arguments.quick else 2),
    ]
    head = (
        f"{N_FEATURES} features of `make_web_search`, {THREADS} threads, learning rate 0.1, at "
        f"least 20 documents a leaf, 255 bins; truncation 30 (XGBoost: `topk` with 30 pairs a "
        f"document, lossguide, `lambda` 0 and `min_child_weight` 0.001 as the others have them, "
        f"which is not tuned for it; CatBoost for reference: other trees, other objective)."
    )
    body = "\n\n".join([head, *parts])
    if arguments.quick:
        print(body)
    else:
        report("train", "Training", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

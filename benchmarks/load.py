"""Reading LETOR text: Rankgrove against scikit-learn, LightGBM, XGBoost and CatBoost.

Every reading is a process of its own, so that its peak memory is its own too; the clock runs
for the reading alone, after imports and compilation. Tools take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.common import (
    THREADS,
    in_own_process,
    limit_threads,
    medians,
    peak_megabytes,
    report,
    table,
)

limit_threads()

COMMAND = "python -m benchmarks.load"
PACKAGES = ("numpy", "numba", "scikit-learn", "lightgbm", "xgboost-cpu", "catboost")
MODULES = {
    "rankgrove": "rankgrove.data.letor",
    "scikit-learn": "sklearn.datasets",
    "lightgbm": "lightgbm",
    "lightgbm, least binning": "lightgbm",
    "xgboost": "xgboost",
    "catboost": "catboost",
}
PEER_READERS = ("lightgbm", "lightgbm, least binning", "xgboost", "catboost")
MEGABYTE = 1_000_000
SLOW_SECONDS = 20  # a tool that takes longer is measured once, not in every round


def make_file(folder: Path, megabytes: int) -> Path:
    """MSLR-like text of about this size: 136 features, zeros written, six digits."""
    path = folder / f"mslr-like-{megabytes}.txt"
    if path.exists():
        return path
    import numpy as np

    from rankgrove import Dataset, make_web_search, write_letor

    # A block is made once and repeated under new query ids: the text is what counts.
    block = make_web_search(200, 136, seed=1)
    features = np.nan_to_num(np.round(block.features, 6))
    part = folder / "block.txt"
    data = Dataset(features, block.labels, block.offsets, block.query_ids)
    write_letor(data, part, absent="missing")
    lines = part.read_text(encoding="ascii").splitlines(keepends=True)
    with path.open("w", encoding="ascii") as file:
        for repeat in range(1, 10**9):
            text = "".join(line.replace("qid:", f"qid:{repeat}0000", 1) for line in lines)
            file.write(text)
            if file.tell() >= megabytes * MEGABYTE:
                break
    return path


def make_file_without_qid(path: Path) -> Path:
    """The same rows for LightGBM, which takes query sizes from a file beside."""
    bare = path.with_suffix(".noqid.txt")
    if bare.exists():
        return bare
    sizes: dict[str, int] = defaultdict(int)
    with path.open(encoding="ascii") as source, bare.open("w", encoding="ascii") as target:
        for line in source:
            label, query, rest = line.split(" ", 2)
            sizes[query] += 1
            target.write(f"{label} {rest}")
    Path(f"{bare}.query").write_text("\n".join(map(str, sizes.values())), encoding="ascii")
    return bare


def read(tool: str, path: str) -> Any:
    """Read the file with the tool's own reader, at its best settings for reading."""
    if tool == "rankgrove":
        from rankgrove import read_letor

        return read_letor(path, n_jobs=THREADS)
    if tool == "scikit-learn":
        import numpy as np
        from sklearn.datasets import load_svmlight_file

        return load_svmlight_file(path, dtype=np.float32, query_id=True)
    if tool.startswith("lightgbm"):
        import lightgbm

        params = {"verbose": -1, "num_threads": THREADS}
        if tool != "lightgbm":
            params |= {"max_bin": 2, "bin_construct_sample_cnt": 1000}
        return lightgbm.Dataset(path, params=params).construct()
    if tool == "xgboost":
        import xgboost

        return xgboost.DMatrix(f"{path}?format=libsvm", nthread=THREADS)
    import catboost

    return catboost.Pool(f"libsvm://{path}", thread_count=THREADS)


def _child(tool: str, path: str) -> None:
    """One reading; with an empty path only the imports."""
    __import__(MODULES[tool])
    seconds = rows = columns = ready = 0.0
    if path:
        if tool == "rankgrove":
            from rankgrove.data.letor import parse_letor

            parse_letor(b"1 qid:1 1:0.5\n0 qid:1 1:2\n")  # compile, or load what is compiled
        ready = peak_megabytes()
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = read(tool, path)
        seconds = time.perf_counter() - start
        if tool == "rankgrove":
            rows, columns = result.features.shape
    peak = peak_megabytes()
    print(
        json.dumps({"s": seconds, "peak": peak, "ready": ready, "rows": rows, "columns": columns})
    )


def _time_readers(path: Path, bare: Path, rounds: int) -> str:
    times: dict[str, list[float]] = {tool: [] for tool in MODULES}
    peaks: dict[str, float] = {}
    matrix = 0.0
    for _ in range(rounds):
        for tool in MODULES:
            if times[tool] and times[tool][0] > SLOW_SECONDS:
                continue
            source = bare if tool.startswith("lightgbm") else path
            done = in_own_process("benchmarks.load", "--child", tool, "--path", str(source))
            times[tool].append(done["s"])
            peaks[tool] = max(done["peak"], peaks.get(tool, 0.0))
            if done["rows"]:
                matrix = done["rows"] * done["columns"] * 4 / 2**20
    median = medians(times)
    size = path.stat().st_size / MEGABYTE
    rows = []
    for tool, value in median.items():
        imports = in_own_process("benchmarks.load", "--child", tool, "--path", "")["peak"]
        above = peaks[tool] - imports
        rows.append(
            (tool, f"{value:.2f}", f"{size / value:.0f}", f"{value / median['rankgrove']:.1f}",
             f"{above:.0f}", f"{above / matrix:.2f}")
        )  # fmt: skip
    fastest = min(median[tool] for tool in PEER_READERS)
    header = ("tool", "s", "MB/s", "/ ours", "peak above imports, MB", "/ float32 matrix")
    return (
        f"{size:.0f} MB of text, {matrix:.0f} MB as a float32 matrix; {THREADS} threads; medians "
        f"of {rounds} alternating rounds (one, if it took over {SLOW_SECONDS} s). Files are in the "
        "page cache. LightGBM bins while it "
        "reads; `least binning` (max_bin=2, 1,000 sampled rows) is as near to reading alone as it "
        f"comes.\n\n{table(header, rows)}\n\n"
        f"scikit-learn / ours: {median['scikit-learn'] / median['rankgrove']:.1f}. "
        f"Fastest of the boosting libraries' readers / ours: {fastest / median['rankgrove']:.2f}."
    )


def _memory_by_size(folder: Path, sizes: list[int]) -> str:
    imports = in_own_process("benchmarks.load", "--child", "rankgrove", "--path", "")["peak"]
    rows = []
    for megabytes in sizes:
        path = make_file(folder, megabytes)
        done = in_own_process("benchmarks.load", "--child", "rankgrove", "--path", str(path))
        matrix = done["rows"] * done["columns"] * 4 / 2**20
        above = [done["peak"] - base for base in (imports, done["ready"])]
        rows.append((megabytes, f"{done['s']:.2f}", f"{matrix:.0f}", f"{above[0]:.0f}",
                     f"{above[0] / matrix:.2f}", f"{above[1]:.0f}",
                     f"{above[1] / matrix:.2f}"))  # fmt: skip
    header = ("text, MB", "s", "matrix, MB", "peak above imports, MB", "/ float32 matrix",
              "above loaded kernels, MB", "/ float32 matrix")  # fmt: skip
    return (
        "Rankgrove's peak memory by file size: above a process that only imports the reader, and "
        "with it Numba; and above one that has also loaded its compiled kernels, which is a "
        "constant that weighs on small files.\n\n" + table(header, rows)
    )


def _import_cost(rounds: int) -> str:
    """Wall time of a fresh interpreter that imports, above one that imports NumPy."""
    everything = "numpy, rankgrove.data.files, rankgrove.metrics.evaluate"
    times: dict[str, list[float]] = {"numpy": [], "numpy, rankgrove": [], everything: []}
    for _ in range(rounds):
        for modules, values in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {modules}"], check=True)
            values.append(time.perf_counter() - start)
    median = medians(times)
    cost = {modules: value - median["numpy"] for modules, value in median.items()}
    return (
        f"`import rankgrove` on top of NumPy: {cost['numpy, rankgrove']:.3f} s (median of {rounds} "
        f"fresh interpreters, {median['numpy']:.3f} s with NumPy alone). Public names are imported "
        f"on first use; with every one of them, and so with Numba: {cost[everything]:.3f} s."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="where the text files are made and kept")
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.child, arguments.path)
        return
    folder = arguments.folder or Path(tempfile.gettempdir()) / "rankgrove-bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = make_file(folder, arguments.megabytes)
    body = "\n\n".join(
        [
            _time_readers(path, make_file_without_qid(path), arguments.rounds),
            _memory_by_size(folder, [arguments.megabytes // 4, arguments.megabytes,
                                     3 * arguments.megabytes]),
            _import_cost(10),
        ]
    )  # fmt: skip
    report("load", "Loading", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

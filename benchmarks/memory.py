"""What data larger than memory take: the peak of each tool, in a process of its own.

The rows stand in parts of Parquet and of NumPy files. Each tool bins them and grows some trees; the
peak is that of anonymous memory above what the tool has after its imports and a first fit, which
loads kernels: files that are mapped are not counted, for none of the tools.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

COMMAND = "python -m benchmarks.memory"
PACKAGES = ("numpy", "numba", "pyarrow", "lightgbm", "xgboost-cpu")
PART_ROWS, QUERY_ROWS, LEAVES = 50_000, 100, 63
# What the peak may be above the codes: a share of them, and a number of bytes.
SHARE, MORE = 0.2, 300e6
# The last run has twice the rows, which take so many times the memory that all of the process may.
# It has few trees, as codes that do not fit are read from the file for each leaf.
TIMES, LIMITED_TREES = 4, 2
# Below, the rows that quantiles are found from are too large a part of all rows to try it.
FEWEST_LIMITED = 1_500_000
CGROUPS = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
LIMIT_FILES = "memory.limit_in_bytes", "memory.max"

TOOLS = {
    "both": "Rankgrove from files, both layouts",
    "rows": "Rankgrove from files, rows only",
    "mapped": "Rankgrove from a .bins file, rows only",
    "memory": "Rankgrove in memory",
    "xgboost": "XGBoost ExtMemQuantileDMatrix",
    "lightgbm": "LightGBM Sequence",
}


def make_parts(
    folder: Path, n_rows: int, n_features: int, *, after: int = 0, parquet_only: bool = False
) -> None:
    """Write the rows after some of them as NumPy arrays and as Parquet."""
    from rankgrove import Dataset, write_data

    for first in range(after, n_rows, PART_ROWS):
        number = first // PART_ROWS
        rng = np.random.default_rng(number)
        n = min(PART_ROWS, n_rows - first)
        features = rng.standard_normal((n, n_features), dtype=np.float32)
        signal = features[:, :8].sum(axis=1) + 3 * rng.standard_normal(n)
        labels = np.digitize(signal, [0, 3, 6, 9]).astype(np.float32)
        ids = (first + np.arange(n)) // QUERY_ROWS
        if not parquet_only:
            np.save(folder / f"x{number:04d}.npy", features)
            np.save(folder / f"y{number:04d}.npy", labels)
        part = Dataset.from_arrays(features, labels, qid=ids)
        write_data(part, folder / f"part-{number:04d}.parquet")


class Watch:
    """The most anonymous memory since `start`, looked at every 5 ms."""

    def __init__(self) -> None:
        self.base = self.peak = 0

    def start(self) -> None:
        self.base = self.peak = _anonymous()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.peak = max(self.peak, _anonymous())
            time.sleep(0.005)


def _anonymous() -> int:
    return _status("RssAnon")


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]


def run_rankgrove(tool: str, folder: Path, n_trees: int, watch: Watch) -> Callable[[], Any]:
    from rankgrove import BinnedData, Dataset, Ranker, bin_files, make_web_search, write_data

    layout = "both" if tool in ("both", "memory") else "rows"
    how: dict[str, Any] = {"n_jobs": THREADS, "max_leaves": LEAVES, "layout": layout}
    with tempfile.TemporaryDirectory() as small:
        # The kernels of reading, binning and growing, loaded on few rows.
        write_data(make_web_search(30, 20), Path(small, "a.parquet"))
        few = bin_files(Path(small, "a.parquet"), n_jobs=THREADS)
        Ranker("lambdamart", n_estimators=2, **how).fit(few)
    watch.start()

    def run() -> Any:
        data: Any
        if tool == "memory":
            features = np.concatenate(list(_arrays(folder, "x")))
            labels = np.concatenate(list(_arrays(folder, "y")))
            ids = np.arange(len(labels)) // QUERY_ROWS
            data = Dataset.from_arrays(features, labels, qid=ids)
            del features
        elif tool == "mapped":
            bin_files(folder / "part-*.parquet", out=folder / "train.bins", n_jobs=THREADS)
            data = BinnedData.load(folder / "train.bins")
        else:
            data = bin_files(folder / "part-*.parquet", n_jobs=THREADS)
        return Ranker("lambdamart", n_estimators=n_trees, **how).fit(data)

    return run


def _arrays(folder: Path, name: str) -> Iterator[np.ndarray]:
    return (np.load(path) for path in sorted(folder.glob(f"{name}*.npy")))


def run_lightgbm(folder: Path, n_trees: int, watch: Watch) -> Callable[[], Any]:
    import lightgbm

    class Part(lightgbm.Sequence):
        batch_size = 4096

        def __init__(self, path: Path) -> None:
            self.rows = np.load(path, mmap_mode="r")

        def __getitem__(self, at: Any) -> np.ndarray:
            return np.asarray(self.rows[at], dtype=np.float64)

        def __len__(self) -> int:
            return len(self.rows)

    watch.start()

    def run() -> Any:
        labels = np.concatenate(list(_arrays(folder, "y")))
        sizes = np.bincount(np.arange(len(labels)) // QUERY_ROWS)
        options = {"objective": "lambdarank", "num_leaves": LEAVES, "verbose": -1,
                   "num_threads": THREADS, "force_row_wise": True}  # fmt: skip
        parts = [Part(path) for path in sorted(folder.glob("x*.npy"))]
        data = lightgbm.Dataset(parts, labels, group=sizes, params=options, free_raw_data=True)
        return lightgbm.train(options, data, n_trees)

    return run


def run_xgboost(folder: Path, n_trees: int, watch: Watch) -> Callable[[], Any]:
    import xgboost

    class Parts(xgboost.DataIter):
        def __init__(self) -> None:
            self.number = self.row = 0
            self.files = sorted(folder.glob("x*.npy"))
            super().__init__(cache_prefix=str(folder / "cache"))

        def next(self, take: Callable[..., None]) -> bool:
            if self.number == len(self.files):
                return False
            rows = np.load(self.files[self.number])
            labels = np.load(folder / self.files[self.number].name.replace("x", "y"))
            ids = (self.row + np.arange(len(rows))) // QUERY_ROWS
            take(data=rows, label=labels, qid=ids)
            self.number, self.row = self.number + 1, self.row + len(rows)
            return True

        def reset(self) -> None:
            self.number = self.row = 0

    watch.start()

    def run() -> Any:
        data = xgboost.ExtMemQuantileDMatrix(Parts(), max_bin=256, nthread=THREADS)
        options = {
            "objective": "rank:ndcg", "max_leaves": LEAVES, "max_depth": 0,
            "grow_policy": "lossguide", "nthread": THREADS, "tree_method": "hist",
        }  # fmt: skip
        return xgboost.train(options, data, n_trees)

    return run


def measure(tool: str, folder: Path, n_trees: int, group: Path | None) -> None:
    """Run a tool and print what it took, as JSON; as a member of a cgroup, if there is one."""
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    watch = Watch()
    peers = {"lightgbm": run_lightgbm, "xgboost": run_xgboost}
    if tool in peers:
        run = peers[tool](folder, n_trees, watch)
    else:
        run = run_rankgrove(tool, folder, n_trees, watch)
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    print(json.dumps({"peak": watch.peak - watch.base, "base": watch.base, "seconds": seconds}))


def call(tool: str, folder: Path, n_trees: int, group: Path | None = None) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.memory", "--tool", tool, "--folder", str(folder),
               "--trees", str(n_trees)]  # fmt: skip
    command += [] if group is None else ["--group", str(group)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tool} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(TOOLS[tool], found, file=sys.stderr, flush=True)
    return found


@contextmanager
def cgroup(limit: int) -> Iterator[Path | None]:
    """A cgroup with so many bytes of memory, of either version; None where none may be made."""
    for root, name in zip(CGROUPS, LIMIT_FILES, strict=True):
        group = root / f"rankgrove-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            try:
                (group / name).write_text(str(limit), encoding="ascii")
            except OSError:
                group.rmdir()
                continue
            try:
                yield group
            finally:
                group.rmdir()
            return
    yield None


def limited_run(folder: Path, n_rows: int, n_features: int) -> str:
    """What happens where the data are larger than memory by far."""
    make_parts(folder, 2 * n_rows, n_features, after=n_rows, parquet_only=True)
    limit = 4 * 2 * n_rows * n_features // TIMES
    with cgroup(limit) as group:
        if group is None:
            return "No cgroup could be made: a run with limited memory was not tried."
        found = call("mapped", folder, LIMITED_TREES, group)
    return (
        f"{2 * n_rows:,} rows, {TIMES * limit / 1e6:,.0f} MB as float32, in a cgroup with "
        f"{limit / 1e6:,.0f} MB of memory for the whole process, its libraries and what it has of "
        f"files: binning to a file and {LIMITED_TREES} trees end well, with "
        f"{found['base'] / 1e6:,.0f} MB before the data and {found['peak'] / 1e6:,.0f} MB more at "
        f"most, in {found['seconds']:.0f} s."
    )


# What must hold: the tool, and the share of a peer's peak that its own may be. XGBoost has its bins
# in a file as the first has, LightGBM in memory as the second.
AT_MOST = (("mapped", "xgboost", 2 / 3), ("rows", "lightgbm", 1 / 2))


def claims(peaks: dict[str, float], codes: int) -> list[str]:
    """Each claim with what was found."""
    lines = []
    for tool, copies in (("both", 2), ("rows", 1)):
        most = codes * (copies + SHARE) + MORE
        verdict = "holds" if peaks[tool] <= most else "DOES NOT HOLD"
        lines.append(
            f"{TOOLS[tool]}: at most {'twice ' * (copies - 1)}the codes + 20 % + 300 MB "
            f"({most / 1e6:,.0f} MB): {peaks[tool] / 1e6:,.0f} MB, {verdict}"
        )
    for tool, peer, share in AT_MOST:
        ratio = peaks[tool] / peaks[peer]
        verdict = "holds" if ratio <= share else "DOES NOT HOLD"
        lines.append(f"{TOOLS[tool]}: at most {share:.2f} of {TOOLS[peer]}: {ratio:.2f}, {verdict}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=220)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--tool", choices=TOOLS, help="run this one here, and print JSON")
    parser.add_argument("--folder", type=Path, help="where the parts are; by default made anew")
    parser.add_argument("--group", type=Path, help="a cgroup to be a member of")
    parser.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md as it is")
    chosen = parser.parse_args()
    if chosen.tool:
        measure(chosen.tool, chosen.folder, chosen.trees, chosen.group)
        return
    with tempfile.TemporaryDirectory() as folder:
        body = compare(Path(folder), chosen.rows, chosen.features, chosen.trees)
    if chosen.dry:
        print(body)
    else:
        command = f"{COMMAND} --rows {chosen.rows} --features {chosen.features}"
        report("memory", "Data larger than memory", command, PACKAGES, body)


def compare(folder: Path, n_rows: int, n_features: int, n_trees: int) -> str:
    make_parts(folder, n_rows, n_features)
    numbers, codes = 4 * n_rows * n_features, n_rows * (-(-n_features // 16) * 16)
    found = {tool: call(tool, folder, n_trees) for tool in TOOLS}
    rows = [
        (TOOLS[tool], f"{f['peak'] / 1e6:,.0f}", f"{f['peak'] / numbers:.2f}",
         f"{f['peak'] / codes:.2f}", f"{f['seconds']:.0f}")
        for tool, f in found.items()
    ]  # fmt: skip
    peaks = {tool: f["peak"] for tool, f in found.items()}
    lines = "\n".join(f"- {claim}" for claim in claims(peaks, codes))
    parts = [
        f"{n_rows:,} rows x {n_features} features, {numbers / 1e6:,.0f} MB as float32, "
        f"{codes / 1e6:,.0f} MB as codes; {n_trees} trees of {LEAVES} leaves, {THREADS} threads.",
        table(("tool", "peak, MB", "/ float32", "/ codes", "seconds"), rows),
        f"Claims:\n\n{lines}",
    ]
    if n_rows >= FEWEST_LIMITED:
        parts.append(limited_run(folder, n_rows, n_features))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()

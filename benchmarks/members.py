"""What several members cost, by the time of one fit: reading, binning and validation shared."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import THREADS, alternate, limit_threads, medians, report, table

limit_threads()

from rankgrove import Ranker, make_web_search, read_letor, write_letor  # noqa: E402 (after limits)

COMMAND = "python -m benchmarks.members"
PACKAGES = ("numpy", "numba")
N_FEATURES, N_MEMBERS = 136, 5
# Queries of about 120 documents, and the trees of a model.
SHAPES = ((20, 100), (170, 100), (1000, 100))
OPTIONS: dict[str, dict[str, Any]] = {
    "yetirank": {},
    "lambdamart, 63 leaves": {"objective": "lambdamart", "max_leaves": 63},
}


def measure(folder: Path, n_queries: int, n_trees: int, rounds: int) -> list[list[str]]:
    """For each objective the seconds of one model and of several, from the file to the model."""
    data = make_web_search(n_queries + n_queries // 4, N_FEATURES, seed=1)
    paths = {name: folder / f"{name}-{n_queries}.txt" for name in ("train", "vali")}
    share = n_queries / data.n_queries
    for path, part in zip(paths.values(), data.split(share, 1 - share), strict=True):
        write_letor(part, path)
    rows = []
    for name, options in OPTIONS.items():

        def fit(members: int, options: dict[str, Any] = options) -> None:
            train, vali = (read_letor(path, n_features=N_FEATURES) for path in paths.values())
            ranker = Ranker(**options, members=members, n_estimators=n_trees, n_jobs=THREADS)
            ranker.fit(train, valid=vali)

        times = alternate({"one": lambda: fit(1), "several": lambda: fit(N_MEMBERS)}, rounds)
        ratios = sorted(b / a for a, b in zip(times["one"], times["several"], strict=True))
        one, several = medians(times).values()
        rows.append([f"{int(data.n_documents * share):,}", name, f"{one:.2f}", f"{several:.2f}",
                     f"{ratios[len(ratios) // 2]:.2f}"])  # fmt: skip
        print(*rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    shapes = SHAPES[:1] if arguments.quick else SHAPES
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row
            for n_queries, n_trees in shapes
            for row in measure(Path(folder), n_queries, n_trees, arguments.rounds)
        ]
    header = ("documents", "objective", "one model, s", f"{N_MEMBERS} members, s", "ratio")
    body = (
        f"From two files of LETOR text to a model of 100 trees, measured on the second file after "
        f"each tree: one model, and {N_MEMBERS} members. {N_FEATURES} features, {THREADS} threads; "
        f"medians of {arguments.rounds} rounds in turns.\n\n{table(header, rows)}"
    )
    if not arguments.quick:
        report("members", "What members cost", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

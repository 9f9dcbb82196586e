"""The best alpha between two rankers: 6,000 queries of 120 documents, NDCG@10.

Beside it stands what people do instead: 101 alphas, one ranking of all queries each, in NumPy.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.common import THREADS, alternate, limit_threads, medians, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)
from numpy.typing import NDArray  # noqa: E402

from rankgrove import Dataset, combine_two  # noqa: E402

COMMAND = "python -m benchmarks.combine"
PACKAGES = ("numpy", "numba")
N_QUERIES, N_DOCUMENTS = 6000, 120
N_GRID = 101
GRADES = (0.52, 0.32, 0.13, 0.02, 0.01)
# Other metrics, each measured once.
OTHERS = ("ndcg@10(ties=expected)", "map@10", "mrr", "err@10", "precision@10", "ndcg", "map", "tau")

Floats = NDArray[np.float64]


def make_rankers(n_queries: int) -> tuple[Dataset, Floats, Floats]:
    """Judged documents and two rankers with an error in common: their scores correlate by 0.6."""
    rng = np.random.default_rng(0)
    shape = (n_queries, N_DOCUMENTS)
    labels = rng.choice(5, shape, p=GRADES)
    shared = 0.5 * labels + rng.normal(0, 1.0, shape)
    first, second = (shared + rng.normal(0, 0.9, shape) for _ in range(2))
    data = Dataset.from_arrays(
        np.zeros((n_queries * N_DOCUMENTS, 1), np.float32), labels.ravel(),
        group=[N_DOCUMENTS] * n_queries,
    )  # fmt: skip
    return data, first.ravel(), second.ravel()


def best_of_grid(labels: Floats, first: Floats, second: Floats, n_grid: int = N_GRID) -> float:
    """NDCG@10 of the best of a grid of alphas; ties, of which these scores have none, by row."""
    discounts = 1.0 / np.log2(np.arange(2, 12))
    gains = np.exp2(labels) - 1.0
    ideal = -np.sort(-gains, axis=1)[:, :10] @ discounts
    best = -np.inf
    for alpha in np.linspace(0.0, 1.0, n_grid):
        scores = alpha * first + (1.0 - alpha) * second
        top = np.argpartition(-scores, 10, axis=1)[:, :10]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1)
        ranked = np.take_along_axis(gains, np.take_along_axis(top, order, axis=1), axis=1)
        best = max(best, float(np.mean(ranked @ discounts / ideal)))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--dry", action="store_true", help="print only")
    arguments = parser.parse_args()
    n_queries = 300 if arguments.quick else N_QUERIES
    data, first, second = make_rankers(n_queries)
    # Queries without a gain have no NDCG, and are left out by both.
    kept = data.labels.reshape(n_queries, -1).max(axis=1) > 0
    grid = [part.reshape(n_queries, -1)[kept] for part in (data.labels, first, second)]
    found = combine_two(data, first, second, n_jobs=THREADS)
    tasks: dict[str, Any] = {
        "rankgrove, exact": lambda: combine_two(data, first, second, n_jobs=THREADS),
        f"NumPy, grid of {N_GRID}": lambda: best_of_grid(*grid),
    }
    times = medians(alternate(tasks, 1 if arguments.quick else arguments.rounds))
    values = (found.value, best_of_grid(*grid))
    alphas = (len(found.curve.x), N_GRID)
    rows = [
        (name, f"{seconds:.2f}", f"{tried:,}", f"{value:.6f}")
        for (name, seconds), tried, value in zip(times.items(), alphas, values, strict=True)
    ]
    others = []
    for metric in OTHERS:
        start = time.perf_counter()
        other = combine_two(data, first, second, metric, n_jobs=THREADS)
        others.append((metric, f"{time.perf_counter() - start:.2f}", f"{len(other.curve.x):,}"))
    body = "\n\n".join(
        [
            f"{n_queries:,} queries of {N_DOCUMENTS} documents, scores of two rankers that "
            f"correlate by {np.corrcoef(first, second)[0, 1]:.2f}; {THREADS} threads (NumPy sorts "
            f"on one); medians of alternating rounds. Alone the two rankers have NDCG@10 of "
            f"{found.first_value:.4f} and {found.second_value:.4f}.",
            table(("how", "seconds", "alphas", "NDCG@10"), rows),
            "Other metrics, one run each.",
            table(("metric", "seconds", "steps"), others),
        ]
    )
    if arguments.quick or arguments.dry:
        print(body)
    else:
        report("combine", "Combining two rankers", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

"""How often each significance test tells two rankings apart that are alike, and its speed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.common import THREADS, alternate, limit_threads, medians, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import Floats  # noqa: E402
from rankgrove.experiments.compare.significance import (  # noqa: E402
    bootstrap,
    paired_t,
    randomisation,
)

COMMAND = "python -m benchmarks.significance"
PACKAGES = ("numpy", "numba", "scipy")
LEVEL, ROUNDS, SEED = 0.05, 399, 21
TESTS: dict[str, Callable[..., float]] = {
    "t": paired_t, "randomisation": randomisation, "bootstrap": bootstrap,
}  # fmt: skip
SIDES = ("greater", "less", "two-sided")


def _some(generator: np.random.Generator, values: Floats) -> Floats:
    """The values with 30 % of them at 0, as of queries that two rankings order alike."""
    kept: Floats = values * (generator.random(len(values)) < 0.7)
    return kept


Draw = Callable[[np.random.Generator, int], Floats]

# All have a mean of 0.
DIFFERENCES: dict[str, Draw] = {
    "normal": lambda g, n: g.normal(0, 1, n),
    "bounded, 30 % equal": lambda g, n: _some(g, g.beta(2, 2, n) - g.beta(2, 2, n)),
    "heavy tails, 30 % equal": lambda g, n: _some(g, g.standard_t(4, n)),
    "skewed, skewness 1.4": lambda g, n: g.gamma(2.0, 1.0, n) - 2,
}


def rates(draw: Draw, n_queries: int, n_pairs: int) -> dict[str, list[float]]:
    """The share of pairs below the level, for each test by side."""
    generator, zeros = np.random.default_rng(SEED), np.zeros(n_queries)
    below = {name: np.zeros(len(SIDES)) for name in TESTS}
    for _ in range(n_pairs):
        values = draw(generator, n_queries)
        for name, test in TESTS.items():
            more: dict[str, Any] = {} if test is paired_t else {"rounds": ROUNDS, "n_jobs": 1}
            below[name] += [test(values, zeros, side, **more) <= LEVEL for side in SIDES]
    return {name: (count / n_pairs).tolist() for name, count in below.items()}


def measure(n_pairs: int, n_queries: int) -> str:
    rows = []
    for title, draw in DIFFERENCES.items():
        for size in (10, 30, 100):
            found = rates(draw, size, n_pairs)
            cells = [" / ".join(f"{rate:.3f}" for rate in each) for each in found.values()]
            rows.append([title, size, *cells])
            print(*rows[-1], sep="  ", flush=True)
    generator = np.random.default_rng(0)
    ours, theirs = generator.random(n_queries), generator.random(n_queries)
    tasks = {name: partial(test, ours, theirs) for name, test in TESTS.items()}
    times = medians(alternate(tasks, 3))
    error = (LEVEL * (1 - LEVEL) / n_pairs) ** 0.5
    return (
        f"How often two rankings that are alike are told apart at level {LEVEL}, "
        f"{' / '.join(SIDES)}, "
        f"in {n_pairs:,} simulated comparisons (standard error {error:.3f}); {ROUNDS} rounds.\n\n"
        + table(("differences", "queries", *TESTS), rows)
        + f"\n\nA test of {n_queries:,} queries, 10,000 rounds, {THREADS} threads:\n\n"
        + table(("test", "ms"), [(name, f"{1000 * time:.1f}") for name, time in times.items()])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    if parser.parse_args().quick:
        print(measure(100, 1000))
        return
    report("significance", "Significance tests", COMMAND, PACKAGES, measure(3000, 6000))


if __name__ == "__main__":
    main()

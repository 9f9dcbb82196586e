"""The page of a report: how large it is, how long it takes to make, and how fast it answers.

Pages are opened from a disk in the Chromium that is installed, several times each, and medians are
told. Times in the page are those of the browser's own clock, with layout.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import limit_threads, report, table

limit_threads()

COMMAND = "python -m benchmarks.report"
PACKAGES = ("numpy", "numba", "playwright")
FEATURES = 46
DOCUMENTS = 24
REASONS = 1000
MEGABYTE = 1_000_000
# Of study and issue: bytes by number of queries, seconds to the first view.
BUDGETS = {10_000: (2 * MEGABYTE, 0.6), 100_000: (8 * MEGABYTE, 1.5)}
MAKING_BUDGET = 15.0

# What one action takes, from the click until the page is laid out again.
TIMED = """(selector) => {
  const node = document.querySelector(selector);
  const begin = performance.now();
  node.click();
  document.body.getBoundingClientRect();
  return performance.now() - begin;
}"""


def _make(n_queries: int, n_trees: int, path: Path) -> dict[str, float]:
    """Write the page of two models on so many queries; what each step took."""
    import numpy as np

    from rankgrove import Ranker, make_report, make_web_search

    train = make_web_search(300, FEATURES, mean_documents=60, seed=1)
    test = make_web_search(n_queries, FEATURES, mean_documents=DOCUMENTS, seed=2)
    rankers = {
        name: Ranker(objective=objective, n_estimators=n_trees).fit(train)
        for name, objective in (("old", "regression"), ("new", "lambdamart"))
    }
    times: dict[str, float] = {}
    with _clock(times, "score"):
        for ranker in rankers.values():
            ranker.predict(test)
    small = test.take_queries(np.arange(100))
    # Compilation is apart.
    make_report(small, rankers, "ndcg@10", baseline="old", slices="length", train=train)
    with _clock(times, "make"):
        made = make_report(
            test, rankers, ["ndcg@10", "map"], baseline="old", slices="length", why=REASONS
        )
    with _clock(times, "write"):
        made.save(path)
    return times


@contextmanager
def _clock(times: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    times[name] = time.perf_counter() - begin


def _make_film(path: Path) -> None:
    """The page of a model trained on queries of 100 documents each."""
    from rankgrove import Dataset, Ranker, make_report, make_web_search

    wide = make_web_search(60, 20, mean_documents=100, seed=3)
    n_queries = wide.n_documents // 100
    rows = slice(0, 100 * n_queries)
    data = Dataset.from_arrays(wide.features[rows], wide.labels[rows], group=[100] * n_queries)
    ranker = Ranker(n_estimators=100).fit(data)
    make_report(data, {"model": ranker}, "ndcg@10", forces=1, why=0).save(path)


def _open(browser: Any, path: Path) -> dict[str, float]:
    """One visit: first view, all views, choosing a query, sorting, memory."""
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    page.goto(f"file://{path}")
    page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
    told = page.evaluate("({...document.documentElement.dataset})")
    found = {
        "first view": float(told["first"]) / 1000,
        "all views": float(told["ready"]) / 1000,
        "choose": page.evaluate(TIMED, ".list tbody tr:nth-child(5)") / 1000,
        "sort": page.evaluate(TIMED, ".list th:nth-child(4) button") / 1000,
        "heap": page.evaluate("performance.memory.usedJSHeapSize") / MEGABYTE,
    }
    page.close()
    return found


def _film_frame(browser: Any, path: Path) -> float:
    """Milliseconds of script per frame while a film of 100 documents plays."""
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    page.goto(f"file://{path}")
    page.wait_for_selector("html[data-ready]", state="attached")
    page.get_by_role("button", name="play", exact=True).click()
    page.wait_for_timeout(6000)
    frames, spent = page.evaluate("document.documentElement.dataset.frames").split()
    page.close()
    return float(spent) / float(frames)


def _visits(browser: Any, path: Path, rounds: int) -> dict[str, float]:
    found = [_open(browser, path) for _ in range(rounds)]
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def _page_rows(browser: Any, paths: dict[int, Path], rounds: int) -> str:
    rows = []
    for n_queries, path in paths.items():
        size, first = BUDGETS[n_queries]
        seen = _visits(browser, path, rounds)
        rows.append(
            (
                f"{n_queries:,}",
                f"{path.stat().st_size / MEGABYTE:.2f} ({size / MEGABYTE:.0f})",
                f"{seen['first view']:.2f} ({first})", f"{seen['all views']:.2f}",
                f"{1000 * seen['choose']:.0f} (50)", f"{1000 * seen['sort']:.0f} (300)",
                f"{seen['heap']:.0f} (150)",
            )
        )  # fmt: skip
    header = ("queries", "file, MB", "first view, s", "all views, s", "choose a query, ms",
              "sort, ms", "heap, MB")  # fmt: skip
    return table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        paths = {n_queries: Path(folder) / f"{n_queries}.html" for n_queries in BUDGETS}
        film = Path(folder) / "film.html"
        times = _make(10_000, 500, paths[10_000])
        _make(100_000, 60, paths[100_000])
        _make_film(film)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            pages = _page_rows(browser, paths, rounds)
            frame = statistics.median(_film_frame(browser, film) for _ in range(rounds))
            version = browser.version
            browser.close()
    beyond = times["make"] - times["score"] + times["write"]
    body = (
        f"Budgets are in brackets. Chromium {version}, medians of {rounds} visits; two models, "
        f"{FEATURES} features, reasons of {REASONS:,} queries.\n\n{pages}\n\n"
        f"Script per frame of a film of 100 documents: {frame:.1f} ms (4).\n\n"
        f"Making the page of 10,000 queries and two models of 500 trees: {beyond:.1f} s beyond "
        f"scoring ({MAKING_BUDGET:.0f}), of which {times['write']:.1f} s to write it; scoring "
        f"takes {times['score']:.1f} s."
    )
    report("report", "Report", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

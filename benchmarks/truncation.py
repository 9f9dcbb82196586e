"""What `truncation` of LambdaMART should be for a metric with a cut-off: docs/truncation.md.

Every model has a fixed number of trees and is judged by the test queries of its fold. Fits are kept
in a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import commit, limit_threads, table, write_page
from benchmarks.differences import Floats, mean_difference
from benchmarks.real_data import Split, add_data_option, as_five_folds, read_sets
from benchmarks.study import Fitted, Job, Store, fit_all, measured_by
from rankgrove.data.synthetic import make_web_search
from rankgrove.estimators.ranker import Ranker
from rankgrove.metrics.evaluate import evaluate

COMMAND = "python -m benchmarks.truncation"
PAGE = Path(__file__).parents[1] / "docs" / "truncation.md"
N_TREES, SYNTHETIC = 60, "synthetic"
MEASURED = ("ndcg@1", "ndcg@10", "ndcg")
# By metric: what is tried as truncation. The first is what the others are compared with.
TRUNCATIONS: dict[str, tuple[int | None, ...]] = {
    "ndcg@1": (30, None, 1, 2, 4, 10, 21),
    "ndcg@10": (30, None, 10, 13, 20),
    "ndcg": (30, None, 100),
}


def values_of(metric: str, truncation: int | None) -> dict[str, Any]:
    # With a truncation the cut-off of the metric has no part in the forces: one fit does for all.
    trained = metric if truncation is None else "ndcg"
    return {
        "objective": "lambdamart", "metric": trained, "truncation": truncation,
        "n_estimators": N_TREES, "eval_metric": "ndcg@10",
    }  # fmt: skip


_splits: dict[str, list[Split]] = {}


def read_all(folder: Path) -> dict[str, list[Split]]:
    """Five folds of each real set, and of synthetic data."""
    made = make_web_search(300, 46, mean_documents=60, seed=2, n_jobs=1)
    sets = {name: as_five_folds(splits) for name, splits in read_sets(folder).items()}
    sets[SYNTHETIC] = as_five_folds([Split(made, None, made)])
    return sets


def _read(folder: Path) -> None:
    _splits.update(read_all(folder))


def _fit(job: Job) -> tuple[Fitted, float]:
    """All measured metrics of the test queries, one after the other."""
    start = time.process_time()
    train, _, test = _splits[job.name][job.fold].with_vali()
    ranker = Ranker(**job.values, random_state=job.seed, n_jobs=1).fit(train)
    scores = np.asarray(ranker.predict(test))
    result = evaluate(test, scores, list(MEASURED), n_jobs=1)
    values = np.concatenate([result.per_query(metric) for metric in MEASURED])
    return Fitted(values, ranker.best_iteration_), time.process_time() - start


def jobs_of(values: Mapping[str, Any], folds: Mapping[str, int]) -> dict[str, list[Job]]:
    return {
        name: [Job(values, name, fold, 0) for fold in range(n_folds)]
        for name, n_folds in folds.items()
    }


def by_query(
    values: Mapping[str, Any], folds: Mapping[str, int], store: Store
) -> dict[str, dict[str, Floats]]:
    """For each measured metric, its value for each test query of each data set."""
    found: dict[str, dict[str, Floats]] = {metric: {} for metric in MEASURED}
    for name, jobs in jobs_of(values, folds).items():
        rows = [store(job).values.reshape(len(MEASURED), -1) for job in jobs]
        for metric, row in zip(MEASURED, np.concatenate(rows, axis=1), strict=True):
            found[metric][name] = row
    return found


def trained_table(metric: str, folds: Mapping[str, int], store: Store) -> str:
    """What each truncation comes to in models that are trained for one metric."""
    tried = {
        truncation: by_query(values_of(metric, truncation), folds, store)
        for truncation in TRUNCATIONS[metric]
    }
    first = tried[TRUNCATIONS[metric][0]]
    judges = list(dict.fromkeys((metric, *MEASURED[:2])))
    rows = []
    for truncation, found in tried.items():
        own = found[metric]
        cells = [f"`{truncation}`"]
        for name in folds:
            mean = float(np.nanmean(own[name]))
            base = float(np.nanmean(first[metric][name]))
            cells.append(f"{mean:.4f}" if found is first else f"{mean - base:+.4f}")
        for judge in judges:
            gain = mean_difference((found[judge][name], first[judge][name]) for name in folds)
            cells.append("" if found is first else f"{gain}, p {gain.p_value:.3f}")
        rows.append(cells)
    head = ("truncation", *folds, *(f"mean of the sets, {judge.upper()}" for judge in judges))
    return table(head, rows)


def gain(metric: str, truncation: int | None, folds: Mapping[str, int], store: Store) -> str:
    """What a truncation gains over 30 in the metric that models are trained for."""
    tried, first = (by_query(values_of(metric, t), folds, store)[metric] for t in (truncation, 30))
    return str(mean_difference((tried[name], first[name]) for name in folds))


def reading(folds: Mapping[str, int], store: Store) -> str:
    """What the tables say, and the default that follows."""
    own = {metric: gain(metric, None, folds, store) for metric in TRUNCATIONS}
    return (
        f"The cut-off of the metric itself, `None`, is as good as 30 for NDCG@10, which changes by "
        f"{own['ndcg@10']}, but too short for a small one: of the pairs of a query hardly any is "
        f"left, and NDCG@1 changes by {own['ndcg@1']}. A number near k is no better, for 10 as "
        f"for 1: what stands well below must still be pulled up. From some 20 ranks below k on "
        f"nothing more is gained: NDCG@1 changes by {gain('ndcg@1', 21, folds, store)} with 21 in "
        f"place of 30, and NDCG by {gain('ndcg', 100, folds, store)} with 100.\n\n"
        "So the default is `None` from a cut-off of 10 on, so that the metric means what it says; "
        "20 more than the cut-off below 10, 21 for `ndcg@1`; and 30 for a metric without one. For "
        "metrics other than DCG and NDCG a truncation only says which pairs count, and none counts "
        "whose better-ranked document is past the cut-off."
    )


def page(folds: Mapping[str, int], store: Store, command: str) -> str:
    tables = "\n\n".join(
        f"### Trained for {metric.upper()}\n\n{trained_table(metric, folds, store)}"
        for metric in TRUNCATIONS
    )
    return (
        "# How deep the pairs of LambdaMART go\n\n"
        "A `truncation` of T counts the pairs whose better-ranked document is among the first T, "
        "as LightGBM's lambdarank does: discounts go on below T, and the ideal DCG is that of the "
        "first T, whatever the cut-off of the metric. `truncation=None` takes the swap delta of "
        "the metric as it is, so that with `ndcg@10` two documents below rank 10 do not push each "
        "other.\n\n"
        f"{measured_by(command, commit())}\n\n"
        f"Models of {N_TREES} trees, all else at the defaults, each trained on the training part "
        "of a fold and measured on its test part; five folds of each data set. `synthetic` is "
        "`make_web_search`; the others are real. The line of 30 has the metric itself that the "
        "models of the table are trained for; the others have the difference to it, and at the "
        "end the mean difference over the data sets with its standard error over queries and the "
        f"p-value of Welch's test.\n\n"
        f"## What it says\n\n{reading(folds, store)}\n\n## The figures\n\n{tables}\n"
    )


def main() -> None:
    limit_threads()
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--fits", type=Path, help="a file that keeps fits")
    options = parser.parse_args()
    path = options.fits or Path(tempfile.gettempdir()) / "rankgrove-truncation.jsonl"
    store = Store(None if options.quick else path, commit())
    folds = {name: len(splits) for name, splits in read_all(options.data).items()}
    if options.quick:
        folds = dict.fromkeys(folds, 1)
    jobs = [
        job
        for metric, truncations in TRUNCATIONS.items()
        for truncation in truncations
        for of_set in jobs_of(values_of(metric, truncation), folds).values()
        for job in of_set
    ]
    fit_all(jobs, store, options.data, options.workers, _read, _fit)
    text = page(folds, store, COMMAND)
    print(text)
    if not options.quick:
        write_page(PAGE, text)


if __name__ == "__main__":
    main()

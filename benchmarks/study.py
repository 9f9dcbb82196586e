"""Rankgrove against itself: parameters are varied, and validation queries say what it comes to.

`python -m benchmarks.quality --defaults` writes docs/defaults.md with it. Studies of many fits have
a pool of processes here, and a file from which an interrupted run goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import THREADS, KeptLines, commit, machine, table
from benchmarks.differences import Difference, Floats, drawn_difference, mean_difference
from benchmarks.peers import METRIC, ndcg_of_queries
from benchmarks.real_data import Split, as_five_folds, read_sets
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.synthetic import make_web_search
from rankgrove.estimators.ranker import Ranker
from rankgrove.metrics.evaluate import evaluate

PACKAGES = ("numpy", "numba", "scipy")
PAGE = Path(__file__).parents[1] / "docs" / "defaults.md"
MOST_TREES, SHARE = 100, 0.8
# Of the training queries of a fold, those that say when to stop.
STOP_SHARE = 0.2
OTHER_SEEDS = "random_state"


@dataclass(frozen=True)
class Variant:
    """One parameter, or a few that belong together, at other values than the defaults."""

    factor: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    first_seed: int = 0


def _one(name: str, *values: Any) -> list[Variant]:
    return [Variant(name, repr(value), {name: value}) for value in values]


def other_seeds(*first: int) -> list[Variant]:
    """Nothing but noise: what it comes to is the yardstick for all other variants."""
    return [Variant(OTHER_SEEDS, f"from {seed}", first_seed=seed) for seed in first]


VARIANTS = [
    *other_seeds(0, 100),
    *_one("truncation", 10, 30, 100),
    *(
        Variant("truncation=None, metric", metric, {"truncation": None, "metric": metric})
        for metric in ("ndcg@10", "ndcg")
    ),
    *_one("normalise", True, False),
    *_one("sigma", 0.5, 1.0, 2.0),
    *_one("max_leaves", 15, 31, 63),
    *_one("learning_rate", 0.05, 0.1),
    *_one("min_samples_leaf", 5, 20, 50),
    *_one("min_child_weight", 1e-3, 1.0),
    *_one("l2", 0.0, 5.0, 20.0, 50.0),
]


# What is studied unless told.
BASE = {"objective": "lambdamart"}


def _settled(values: Mapping[str, Any]) -> dict[str, Any]:
    """What training does with these parameters, where `auto` is a value like any other."""
    return Parameters.from_names(values).resolve().as_json()


def is_default(variant: Variant, base: Mapping[str, Any] | None = None) -> bool:
    """Whether the variant trains as `base` does, by default as LambdaMART at its defaults."""
    base = base or BASE
    return variant.first_seed == 0 and _settled({**base, **variant.values}) == _settled(base)


class Job(NamedTuple):
    """One fit."""

    values: Mapping[str, Any]
    name: str
    fold: int
    seed: int

    def key(self, version: str) -> str:
        """The same text for the same fit by the same code; values at their default don't count."""
        plain = {entry.name: entry.default for entry in fields(Parameters)}
        given = {name: value for name, value in self.values.items() if plain[name] != value}
        return json.dumps(
            {"parameters": given, "set": self.name, "fold": self.fold, "seed": self.seed,
             "commit": version}, sort_keys=True,
        )  # fmt: skip


class Fitted(NamedTuple):
    """What a fit came to: the metric of each validation query, and the number of trees kept."""

    values: Floats
    n_trees: int


Fit = Callable[[Job], Fitted]


def mean_over_seeds(runs: Sequence[Sequence[Floats]]) -> Floats:
    """From the values of each query by seed and fold, one value a query of all folds."""
    mean: Floats = np.mean([np.concatenate(folds) for folds in runs], axis=0)
    return mean


class Outcome:
    """What a variant came to on one data set, from its fits by seed and fold."""

    def __init__(self, runs: Sequence[Sequence[Fitted]]) -> None:
        by_seed = [[fitted.values for fitted in folds] for folds in runs]
        self.values = mean_over_seeds(by_seed)
        self.by_seed: Floats = np.array([np.concatenate(folds) for folds in by_seed])
        self.n_trees = [fitted.n_trees for folds in runs for fitted in folds]


# For each data set, by seed and fold.
Jobs = dict[str, list[list[Job]]]


def in_one_list(jobs: Jobs) -> list[Job]:
    return [job for runs in jobs.values() for of_seed in runs for job in of_seed]


def jobs_of(
    base: Mapping[str, Any], variant: Variant, folds: Mapping[str, int], seeds: Iterable[int]
) -> Jobs:
    """The fits of a variant."""
    values = {**base, **variant.values}
    firsts = [variant.first_seed + seed for seed in seeds]
    return {
        name: [[Job(values, name, fold, seed) for fold in range(n_folds)] for seed in firsts]
        for name, n_folds in folds.items()
    }


class Reading(NamedTuple):
    """Which variants are better or worse by more than two standard errors, and which neither."""

    better: list[tuple[Variant, Difference]]
    worse: list[tuple[Variant, Difference]]
    within: list[tuple[Variant, Difference]]
    noise: float

    @property
    def n_tried(self) -> int:
        return len(self.better) + len(self.worse) + len(self.within)


class Study:
    """Every variant of a base model on every data set, and what can be said of it.

    With `over_seeds` the error of a difference has the variance over seeds in it, besides that over
    queries: base and variants have the same seeds, and there must be several.
    """

    def __init__(
        self,
        folds: Mapping[str, int],
        variants: Sequence[Variant],
        seeds: Sequence[int],
        fit: Fit,
        base: Mapping[str, Any] | None = None,
        *,
        quiet: bool = False,
        over_seeds: bool = False,
    ) -> None:
        self.folds, self.variants, self.seeds, self.fit = folds, variants, seeds, fit
        self.base, self.quiet, self.over_seeds = base or BASE, quiet, over_seeds
        self.default = self._run(Variant("the", "defaults"))
        self.outcomes = [
            self.default if self.is_default(variant) else self._run(variant) for variant in variants
        ]

    def is_default(self, variant: Variant) -> bool:
        return is_default(variant, self.base)

    def jobs_of(self, variant: Variant) -> Jobs:
        return jobs_of(self.base, variant, self.folds, self.seeds)

    def _run(self, variant: Variant) -> dict[str, Outcome]:
        jobs = self.jobs_of(variant)
        found = {
            name: Outcome([[self.fit(job) for job in folds] for folds in runs])
            for name, runs in jobs.items()
        }
        means = ", ".join(f"{name} {np.nanmean(out.values):.4f}" for name, out in found.items())
        if not self.quiet:
            print(f"{variant.factor} {variant.title}: {means}", flush=True)
        return found

    def overall(self, outcome: Mapping[str, Outcome]) -> Difference:
        """The mean over data sets of the difference to the defaults."""
        return self.less(outcome, self.default)

    def less(self, one: Mapping[str, Outcome], other: Mapping[str, Outcome]) -> Difference:
        """The mean over the data sets that the first has of it less the second."""
        if self.over_seeds:
            return drawn_difference((out.by_seed, other[name].by_seed) for name, out in one.items())
        return mean_difference((out.values, other[name].values) for name, out in one.items())

    def row(self, title: str, outcome: Mapping[str, Outcome]) -> list[str]:
        """A line of a table: NDCG@10 of the defaults, the difference to it of all else."""
        if outcome is self.default:
            means = [f"{np.nanmean(out.values):.4f}" for out in outcome.values()]
            return [f"{title} (default)", *means, ""]
        differences = [
            str(self.less({name: out}, {name: self.default[name]})) for name, out in outcome.items()
        ]
        return [title, *differences, str(self.overall(outcome))]

    def table_of(self, rows: Iterable[tuple[str, Mapping[str, Outcome]]]) -> str:
        header = ("value", *self.folds, "mean of the sets")
        return table(header, [self.row(title, outcome) for title, outcome in rows])

    def tables(self) -> str:
        """A table for each factor."""
        parts = []
        for factor in dict.fromkeys(variant.factor for variant in self.variants):
            rows = [
                (f"`{variant.title}`", outcome)
                for variant, outcome in zip(self.variants, self.outcomes, strict=True)
                if variant.factor == factor
            ]
            parts.append(f"### {factor}\n\n{self.table_of(rows)}")
        return "\n\n".join(parts)

    def read(self) -> Reading:
        reading, noise = Reading([], [], [], 0.0), 0.0
        for variant, outcome in zip(self.variants, self.outcomes, strict=True):
            if outcome is self.default:
                continue
            difference = self.overall(outcome)
            if variant.first_seed:
                noise = max(noise, abs(difference.mean))
            elif abs(difference.mean) <= 2 * difference.error:
                reading.within.append((variant, difference))
            else:
                side = reading.better if difference.mean > 0 else reading.worse
                side.append((variant, difference))
        return reading._replace(noise=noise)


def _name(variant: Variant) -> str:
    return f"`{variant.factor}={variant.title}`"


def reading_text(
    reading: Reading, what: str = "the defaults", name: Callable[[Variant], str] = _name
) -> str:
    """Which variants stand out, by the plain rule that a page states."""

    def listed(found: Iterable[tuple[Variant, Difference]]) -> str:
        return ", ".join(f"{name(variant)} ({by})" for variant, by in found) or "none"

    noise = (
        f"Other seeds alone move the mean over the data sets by up to {reading.noise:.4f}: a "
        f"smaller difference says nothing.\n\n"
    )
    return (
        f"{noise if reading.noise else ''}"
        f"Of {reading.n_tried} variants, {len(reading.within)} are within two standard errors of "
        f"{what}: these data can't tell them apart. With so many looks, at least "
        f"{0.05 * reading.n_tried:.1f} can be expected outside by chance alone.\n\n"
        f"Better by more than two: {listed(reading.better)}.\n\n"
        f"Worse by more than two: {listed(reading.worse)}."
    )


def measured_by(command: str, version: str) -> str:
    """The lines that stand beside figures."""
    return f"Command: `{command}`, commit {version}.\n\nMachine: {machine(PACKAGES)}."


def synthetic_split(n_queries: int) -> Split:
    train, vali, test = make_web_search(n_queries, 46, mean_documents=30, seed=2).split(
        0.4, 0.2, 0.4
    )
    return Split(train, vali, test)


def study_defaults(
    sets: Mapping[str, Sequence[Split]],
    variants: Sequence[Variant],
    most: int,
    seeds: Sequence[int],
) -> Study:
    """The study of the defaults, in models of `most` trees."""

    def fit(job: Job) -> Fitted:
        train, vali, _ = sets[job.name][job.fold].with_vali()
        ranker = Ranker(n_estimators=most, colsample=SHARE, random_state=job.seed, n_jobs=THREADS)
        ranker.set_params(**job.values).fit(train)
        values = ndcg_of_queries(vali, np.asarray(ranker.predict(vali)))
        return Fitted(values, ranker.best_iteration_)

    return Study({name: len(splits) for name, splits in sets.items()}, variants, seeds, fit)


def defaults_page(study: Study, command: str) -> str:
    return (
        "# How the defaults of LambdaMART were chosen\n\n"
        "Each parameter is varied alone, with all others at their defaults, in models of "
        f"{MOST_TREES} trees. What counts is NDCG@10 on the validation queries of each fold: "
        "the test queries, on which benchmarks/quality.py compares with other libraries, are "
        f"not looked at. The mean is over all folds and {len(study.seeds)} seeds; every tree "
        f"may split by {100 * SHARE:.0f} % of the features, so that the seed matters. "
        "`synthetic` is `make_web_search`; the others are real.\n\n"
        "The line of the default has its NDCG@10; the others have the difference to it with "
        "its standard error, from the differences query by query. The last column "
        "weighs all data sets equally. The standard errors are those over queries: that "
        "another training set, or another seed, would have given another model comes on top. "
        "The first table, where nothing but the seed differs, shows how much.\n\n"
        f"{measured_by(command, commit())}\n\n"
        f"## What it says\n\n{reading_text(study.read())}\n\n## The figures\n\n{study.tables()}\n"
    )


class Store:
    """Fits that are done, kept in a file, so that an interrupted run goes on."""

    def __init__(self, path: Path | None, version: str) -> None:
        self.version, self._done, self.seconds = version, dict[str, Fitted](), 0.0
        self._file = KeptLines(path, ("key", "n_trees", "seconds", "values"))
        for entry in self._file.records:
            values = np.array(entry["values"], dtype=np.float64)  # None becomes NaN
            self._keep(entry["key"], Fitted(values, entry["n_trees"]), entry["seconds"])

    def _keep(self, key: Mapping[str, Any], fitted: Fitted, seconds: float) -> None:
        if key["commit"] == self.version:
            self._done[json.dumps(key, sort_keys=True)] = fitted
            self.seconds += seconds

    def __call__(self, job: Job) -> Fitted:
        return self._done[job.key(self.version)]

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Those that are not done, each once."""
        wanted = {job.key(self.version): job for job in jobs}
        return [job for key, job in wanted.items() if key not in self._done]

    def add(self, job: Job, fitted: Fitted, seconds: float) -> None:
        key = json.loads(job.key(self.version))
        self._keep(key, fitted, seconds)
        values = [None if np.isnan(value) else float(value) for value in fitted.values]
        self._file.add({"key": key, "n_trees": fitted.n_trees, "seconds": round(seconds, 3),
                        "values": values})  # fmt: skip


def fit_and_stop(train: Dataset, vali: Dataset, values: Mapping[str, Any], seed: int) -> Fitted:
    """Train on most of the training queries, stop by the others, judge by the validation ones.

    What it is judged by is NDCG@10, or the metric that it is trained for.
    """
    own, watched = train.split(1 - STOP_SHARE, STOP_SHARE, seed=seed)
    ranker = Ranker(**{"eval_metric": METRIC, **values}, random_state=seed, n_jobs=1)
    ranker.fit(own, valid=watched)
    scores = np.asarray(ranker.predict(vali))
    judged = values.get("metric", METRIC)
    per_query = evaluate(vali, scores, judged, n_jobs=1).per_query(judged)
    return Fitted(per_query, ranker.best_iteration_)


# Of each fold of each data set what a process of the pool may see; test parts it never has.
_parts: dict[str, list[tuple[Dataset, Dataset]]] = {}


def _read_parts(folder: Path) -> None:
    for name, splits in read_sets(folder).items():
        _parts[name] = [split.with_vali()[:2] for split in as_five_folds(splits)]


def _timed(job: Job) -> tuple[Fitted, float]:
    """A fit, and the seconds that it kept a CPU busy."""
    start = time.process_time()
    fitted = fit_and_stop(*_parts[job.name][job.fold], job.values, job.seed)
    return fitted, time.process_time() - start


def fit_all(
    jobs: Iterable[Job], store: Store, folder: Path, workers: int,
    read: Callable[[Path], None] = _read_parts,
    fit: Callable[[Any], tuple[Fitted, float]] = _timed,
) -> None:  # fmt: skip
    """Do what the store has not yet, in a pool of processes of one thread each.

    `read` is called in each process with the folder before anything is fitted.
    """
    missing = store.missing(jobs)
    if not missing:
        return
    start = time.perf_counter()
    pool = ProcessPoolExecutor(workers, get_context("spawn"), read, (folder,))
    try:
        futures = {pool.submit(fit, job): job for job in missing}
        for done, future in enumerate(as_completed(futures), 1):
            store.add(futures[future], *future.result())
            if done % 100 == 0 or done == len(missing):
                passed = time.perf_counter() - start
                print(f"{done} of {len(missing)} fits, {passed:.0f} s", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)

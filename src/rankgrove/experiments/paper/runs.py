"""Running the cells of the paper's tables, and keeping them, so that a run goes on where it was.

A directory has `cells/`, one JSON file for each finished cell, written in one piece, and
`studies.db`, the finished trials of all cells. The name of a cell's file has a mark of all that
its result depends on: data, protocol and versions. What is found under its mark is not run again;
of a cell that is not finished, finished trials are not. So an interrupted run that is started
again gives what an uninterrupted one gives.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.benchmarks import (
    Benchmark,
    Fold,
    Split,
    check_sizes,
    choose_folds,
    find_folds,
    read_fold,
    recognise,
)
from rankgrove.data.dataset import Dataset
from rankgrove.data.sparse_features import dense_blocks
from rankgrove.data.streams import open_for_writing
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.paper.cells import (
    ALGORITHMS,
    FULL,
    Budget,
    Cell,
    Empty,
    convert_labels,
    metric_name,
)
from rankgrove.experiments.paper.tables import Figure, paper_figures
from rankgrove.experiments.tables import plain
from rankgrove.experiments.tune.spaces import default_space
from rankgrove.experiments.tune.studies import NUMBER, import_optuna, open_study
from rankgrove.experiments.tune.trials import Protocol, draw_next
from rankgrove.experiments.tune.tune import tune
from rankgrove.metrics.base import Floats
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.testing.peers import Watch, fit_peer, metric_of_scores, peer_settings

# Raised when cells are computed in another way than before.
_VERSION = 1


@dataclass(frozen=True)
class Source:
    """A data set to run on.

    Attributes
    ----------
    name
        What the tables call it.
    folds
        The ways to cut it that are run.
    benchmark
        The public set that it is, or None.
    """

    name: str
    folds: tuple[Fold, ...]
    benchmark: Benchmark | None = None

    @classmethod
    def open(
        cls,
        directory: str | PathLike[str],
        benchmark: Benchmark | None = None,
        folds: Iterable[int] | None = None,
    ) -> Source:
        """The data set of a directory; which public one it is, its name tells unless told."""
        known = benchmark or recognise(directory)
        found = choose_folds(find_folds(directory, known), folds)
        name = known.title if known else Path(directory).absolute().name
        return cls(name, tuple(found), known)

    @property
    def paper_name(self) -> str | None:
        """Its column in the paper, if it has one."""
        columns = paper_figures()["2"]["columns"]
        return self.name if self.benchmark and self.name in columns else None


class Progress(NamedTuple):
    """How a run is going: cells done of all, and what has just begun or ended."""

    done: int
    total: int
    what: str
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """All that is to be run.

    Attributes
    ----------
    sources, cells, budget, empty
        On what, what, how long, and how queries without a relevant document count.
    out
        Where results are kept.
    """

    sources: tuple[Source, ...]
    cells: tuple[Cell, ...]
    out: Path
    budget: Budget = FULL
    empty: Empty = "paper"
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        if len(set(names)) < len(names):
            raise ParameterError(
                f"directories must have different names. Got {', '.join(names)}: rename one."
            )

    @property
    def total(self) -> int:
        return sum(len(source.folds) for source in self.sources) * len(self.cells)


# By set, fold and key of the cell.
Records = dict[tuple[str, int, str], dict[str, Any]]


def run_plan(
    plan: Plan,
    tell: Callable[[Progress], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Records:
    """Run what is not there yet; the records of all cells.

    Parameters
    ----------
    plan
        What to run.
    tell
        Called when a cell begins and when it has ended.
    warn
        Called with what deserves a look: sizes that are not those of the public set.
    """
    cells = plan.out / "cells"
    _make_directory(cells)
    records: Records = {}
    for source in plan.sources:
        for fold in source.folds:
            split = read_fold(fold, source.benchmark, seed=plan.budget.seed, n_jobs=plan.n_jobs)
            known = source.benchmark
            if known and (wrong := check_sizes(known, fold.number, split)):
                warn(
                    f"{source.name}, fold {fold.number}: not as {known.title} was published: "
                    f"{'; '.join(wrong)}"
                )
            data = fingerprint(split)
            top = known.top_grade if known else float(max(p.labels.max() for p in split))
            for cell in plan.cells:
                what = f"{source.name}, fold {fold.number}, {cell.title}"
                one = _Run(plan, cell, split, top, data)
                path = cells / f"{_slug(source.name)}-fold{fold.number}-{one.slug}.json"
                record = _load(path, one.mark)
                if record is None:
                    tell(Progress(len(records), plan.total, what))
                    record = one.run()
                    _save(path, record)
                records[source.name, fold.number, cell.key] = record
                tell(Progress(len(records), plan.total, what, record))
    return records


def figures_of(plan: Plan, records: Records) -> dict[tuple[str, str], Figure]:
    """The cells of each set over all its folds: means over all test queries."""
    found = {}
    for source in plan.sources:
        for cell in plan.cells:
            own = [records[source.name, fold.number, cell.key] for fold in source.folds]
            values = np.concatenate([np.array(one["values"], dtype=float) for one in own])
            found[source.name, cell.key] = Figure(
                values, 100 * float(np.mean([one["train"] for one in own]))
            )
    return found


def sizes_of(sources: Iterable[Source], seed: int, n_jobs: int | None) -> dict[str, list[int]]:
    """What table 1 has of a data set, by set and fold: features, queries and documents."""
    sizes = {}
    for source in sources:
        for fold in source.folds:
            split = read_fold(fold, source.benchmark, seed=seed, n_jobs=n_jobs)
            name = source.name if len(source.folds) == 1 else f"{source.name}, fold {fold.number}"
            queries, documents = ([getattr(part, what) for part in split]
                                  for what in ("n_queries", "n_documents"))  # fmt: skip
            sizes[name] = [split.train.n_features, *queries, *documents]
    return sizes


def fingerprint(split: Split) -> str:
    """A check sum of the data of a fold."""
    total = 0
    for part in split:
        for array in (*dense_blocks(part.features), part.labels, part.offsets):
            total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return f"{total:08x}"


class Fitted(NamedTuple):
    """A trained model: its value on validation, the trees it keeps, and how it scores documents."""

    value: float
    n_trees: int
    predict: Callable[[Dataset], Floats]


class _Run:
    """One cell on one fold."""

    def __init__(self, plan: Plan, cell: Cell, split: Split, top: float, data: str) -> None:
        self.plan, self.cell, self.storage = plan, cell, plan.out / "studies.db"
        self.metric = metric_name(cell.metric, plan.empty)
        # For training too: some algorithms learn from the labels and not from the metric.
        self.split = Split(
            *(replace(p, labels=convert_labels(cell.metric, p.labels, top)) for p in split)
        )
        self.algorithm = ALGORITHMS[cell.row.algorithm]
        self.fixed = {**self.algorithm.fixed, **cell.row.changes}
        self.space, held = default_space(self.algorithm.objective, self.fixed)
        self.fixed = {**held, **self.fixed, "random_state": plan.budget.seed}
        told = {
            "version": _VERSION, "cell": cell.key, "metric": self.metric, "data": data,
            "budget": asdict(plan.budget), "fixed": self.fixed,
            "space": {name: str(entry) for name, entry in self.space.items()},
            "packages": {name: _installed_version(name) for name in ("optuna", cell.tool)},
        }  # fmt: skip
        self.mark = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def slug(self) -> str:
        return f"{_slug(self.cell.key)}-{self.mark}"

    def run(self) -> dict[str, Any]:
        """Tune, train with the best, measure: what is kept of a cell."""
        start = time.process_time()
        best, fitted = self._tune_ours() if self.cell.tool == "rankgrove" else self._tune_peer()
        train, test = (
            measure_dataset(data, fitted.predict(data), self.metric, n_jobs=self.plan.n_jobs)
            for data in (self.split.train, self.split.test)
        )
        return {
            "mark": self.mark,
            "cell": self.cell.key,
            "metric": self.metric,
            "parameters": best,
            "trees": fitted.n_trees,
            "vali": fitted.value,
            "train": train[self.metric],
            "test": test[self.metric],
            "values": [plain(value) for value in test.per_query(self.metric).tolist()],
            "seconds": round(time.process_time() - start, 2),
        }

    def _tune_ours(self) -> tuple[dict[str, Any], Fitted]:
        """The best parameters that were drawn, and the model that they give."""
        budget = self.plan.budget
        tuned = tune(
            self.split.train, self.split.vali, objective=self.algorithm.objective,
            metric=self.metric, space=self.space, fixed=self.fixed, n_random=budget.n_random,
            n_bayesian=budget.n_bayesian, prune=False, max_trees=budget.max_trees,
            early_stopping_rounds=budget.rounds, storage=self.storage, name=self.slug,
            seed=budget.seed, sampler=budget.sampler, n_jobs=self.plan.n_jobs,
        )  # fmt: skip
        if tuned.interrupted:
            raise KeyboardInterrupt
        with warnings.catch_warnings():
            # That nothing was found to split by shows in the numbers, and only if no trial did.
            warnings.simplefilter("ignore", UserWarning)
            # With the number of trees that validation chose.
            model = tuned.fit(self.split.train).model_
        best = {name: tuned.best_parameters[name] for name in self.space}
        return best, Fitted(
            tuned.best_value, model.n_trees,
            lambda data: model.predict(data, n_jobs=self.plan.n_jobs),
        )  # fmt: skip

    def _tune_peer(self) -> tuple[dict[str, Any], Fitted]:
        """The same with a peer: the same space, trials and, while they are random, draws."""
        budget = self.plan.budget
        about = {"paper": {"cell": self.cell.key, "mark": self.mark}}
        with open_study(self.storage, self.slug, about) as trials:
            while len(finished := trials.finished()) < budget.n_random + budget.n_bayesian:
                trials.add(self._try_peer(finished))
        best = max(finished, key=lambda trial: trial.value or 0.0)
        return dict(best.params), self._fit_peer(best.params)

    def _try_peer(self, finished: Sequence[Any]) -> Any:
        """One more trial, with parameters as `tune` would draw them after these."""
        budget = self.plan.budget
        protocol = Protocol(
            base=Parameters(), space=self.space, n_random=budget.n_random, sampler=budget.sampler,
            prune=False, rounds=None, seed=budget.seed,
        )  # fmt: skip
        trial = draw_next(protocol, finished)
        return import_optuna().trial.create_trial(
            value=self._fit_peer(trial.params).value, params=trial.params,
            distributions=trial.distributions, user_attrs={NUMBER: len(finished)},
        )  # fmt: skip

    def _fit_peer(self, parameters: Mapping[str, Any]) -> Fitted:
        """A peer with parameters in our words, stopped by our metric on validation."""
        budget, tool, objective = self.plan.budget, self.cell.tool, self.algorithm.objective
        given = {
            "objective": objective, "metric": self.cell.metric, "random_state": budget.seed,
            **({"l2_documents": 0.0} if objective == "stochasticrank" else {}), **parameters,
        }  # fmt: skip
        settings = peer_settings(tool, given, self.plan.n_jobs)
        if tool == "lightgbm":
            settings |= {"force_col_wise": True, "deterministic": True}
        value = metric_of_scores(self.split.vali, self.metric)
        watch = Watch(self.split.vali, value, budget.rounds)
        fitted = fit_peer(tool, settings, self.split.train, budget.max_trees, watch)
        return Fitted(value(fitted.predict(self.split.vali)), fitted.n_trees, fitted.predict)


def _installed_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _slug(text: str) -> str:
    """A name that any file system takes.

    >>> _slug("rankgrove,yetiloss,noise=gaussian,NDCG@10")
    'rankgrove-yetiloss-noise-gaussian-NDCG-10'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be made a directory: {error.strerror}.") from None


def _save(path: Path, record: Mapping[str, Any]) -> None:
    with open_for_writing(path) as stream:
        stream.write(json.dumps(record).encode() + b"\n")


def _load(path: Path, mark: str) -> dict[str, Any] | None:
    """A finished cell, or None; what is no such file is computed again."""
    try:
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    return record if isinstance(record, dict) and record.get("mark") == mark else None

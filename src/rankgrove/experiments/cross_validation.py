"""Cross-validation by query: every query is scored by a model that has not seen it."""

from __future__ import annotations

import inspect
import math
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import resolve_n_jobs
from rankgrove.data.dataset import with_numbers
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, ParameterError, parameter, refusal, word
from rankgrove.experiments import tables
from rankgrove.experiments.checks import check_dataset, check_one_of, check_share
from rankgrove.experiments.folds import make_folds
from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.evaluate import DEFAULT_METRICS, Evaluation, measure_dataset
from rankgrove.metrics.spec import parse_metrics
from rankgrove.pictures import html
from rankgrove.pictures.chart import Axis, Chart, Panel, Points
from rankgrove.pictures.display import Picture
from rankgrove.pictures.palette import CANDIDATES


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The table that `cross_validate` gives.

    Attributes
    ----------
    results
        For each estimator, its `Evaluation` over all queries: means, standard errors, per-query
        values.
    scores
        For each estimator, the score of each document by a model that has not seen its query; NaN
        in folds that were not done.
    fold_of
        The fold that tests each query, from 0.
    fold_means
        For each estimator and metric, the mean over the queries of each fold; NaN where none
        counts.
    query_ids, weights
        Of the queries that are measured, as the data have them.
    n_folds, folds_done
        How many folds there are, and which are done, from 0.
    """

    results: dict[str, Evaluation]
    scores: dict[str, Floats]
    fold_of: NDArray[np.int64]
    fold_means: dict[str, dict[str, list[float]]]
    query_ids: NDArray[Any]
    weights: Floats | None
    n_folds: int
    folds_done: tuple[int, ...]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: then only the queries of folds that are done are measured."""
        return len(self.folds_done) < self.n_folds

    def per_query(self, name: str, metric: str) -> Floats:
        """The value of each query for an estimator; NaN where it does not count."""
        return self.results[name].per_query(metric)

    def compare(self, **options: Any) -> Any:
        """Test the differences between the estimators: a `Comparison`, with its options."""
        from rankgrove.experiments.compare.comparison import Comparison  # noqa: PLC0415 (few need it)

        values = {
            metric: {name: table.per_query(metric) for name, table in self.results.items()}
            for metric in next(iter(self.results.values()))
        }
        options = {"query_ids": self.query_ids, "weights": self.weights, **options}
        return Comparison.from_values(values, **options)

    def to_dict(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Plain numbers by estimator and metric; what is not a number is None."""
        return {
            name: {
                metric: {**row, "folds": list(map(tables.plain, self.fold_means[name][metric]))}
                for metric, row in table.to_dict().items()
            }
            for name, table in self.results.items()
        }

    def to_markdown(self) -> str:
        """A Markdown table."""
        header, *rows = self.cells()
        return tables.markdown(header, rows, left=(0, 1))

    def to_csv(self) -> str:
        """The table as CSV, with all digits."""
        numbers = ("mean", "standard_error", "counted", "skipped")
        lines = [
            [name, metric, *(row[number] for number in numbers), *row["folds"]]
            for name, rows in self.to_dict().items()
            for metric, row in rows.items()
        ]
        return tables.csv_text(self.cells()[0], lines)

    def cells(self) -> list[list[str]]:
        """The table as text: a row of names, then one for each estimator and metric."""
        numbered = [f"fold {number}" for number in range(1, self.n_folds + 1)]
        lines = [["estimator", "metric", "mean", "std.error", "queries", "skipped", *numbered]]
        for name, table in self.results.items():
            for metric, row in table.results.items():
                means = map(_shown, (row.mean, row.standard_error))
                counts = f"{row.counted:,}", f"{row.skipped:,}"
                folds = map(_shown, self.fold_means[name][metric])
                lines.append([name, metric, *means, *counts, *folds])
        return lines

    def plot(self, metric: str | None = None, *, ax: Any = None) -> Picture:
        """The mean of each fold and of all queries: how far it depends on the fold.

        Parameters
        ----------
        metric
            One of those that were measured; by default the first.
        ax
            Axes of matplotlib to draw into.
        """
        measured = list(next(iter(self.results.values())))
        if metric is not None:
            check_one_of("metric", metric, measured)
        chosen = measured[0] if metric is None else metric
        names = list(self.results)
        folds = [(at, mean) for at, name in enumerate(names)
                 for mean in self.fold_means[name][chosen]]  # fmt: skip
        means = [self.results[name][chosen] for name in names]
        marks = [
            Points([mean for _, mean in folds], [at for at, _ in folds], "one fold",
                   CANDIDATES[0], "circle", 3.5, 0.6),
            Points(means, range(len(names)), "all queries", CANDIDATES[1], "diamond", 5.0),
        ]  # fmt: skip
        axes = Axis(chosen, margin=0.05), Axis(names=names, backwards=True)
        panel = Panel("", *axes, marks, 360, 24 + 28 * len(names))
        return Picture(Chart([panel], f"{chosen} of each fold")).drawn_into(ax)

    def _repr_html_(self) -> str:
        header, *rows = self.cells()
        return f"{html.table(header, rows, left=(0, 1))}\n{self.plot().to_svg()}"

    def __str__(self) -> str:
        header, *rows = self.cells()
        return tables.aligned(header, rows, left=(0, 1))


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def cross_validate(
    estimators: Any,
    data: Documents,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    folds: Any = 5,
    valid_share: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> CrossValidation:
    """Train on all folds but one, score that one, for each fold; then measure all scores.

    Parameters
    ----------
    estimators
        One, or a mapping of names to several, which then have the same folds. A `Ranker`, `RankNet`
        or `LambdaRank`; any estimator whose `fit` takes (X, y) and, if it wants, `qid`, `group` or
        `sample_weight`; a pipeline of scikit-learn whose last step is one of these. A classifier
        scores a document with its expected class. They are cloned, and stay as they are.
    data
        The data, all of them.
    metrics
        As in `evaluate`.
    folds
        A number: queries are shuffled by `seed` and dealt, as in `Dataset.folds`. Or a splitter of
        scikit-learn as `GroupKFold(5)`, which is given the query ids as groups; or what its `split`
        gives, pairs of row numbers (train, test). Each query must be tested once, and never be in
        both.
    valid_share
        Hold out this share of the training queries of each fold as `valid` of `fit`, for early
        stopping.
    n_jobs
        Threads, which folds share; the result has the same bits for any number where estimators
        have. An estimator with `n_jobs=None` is given its share.
    verbose
        Whether a line on stderr says which folds are done.

    Notes
    -----
    Ctrl-C ends it: the folds that are done for all estimators are returned, with `interrupted` set;
    if there is none, KeyboardInterrupt goes on to the caller.

    Examples
    --------
    >>> from rankgrove import Ranker, make_web_search
    >>> data = make_web_search(60, 16)
    >>> table = cross_validate(Ranker(n_estimators=5), data, "ndcg@10", folds=3)
    >>> print(table.cells()[0][:4], len(table.fold_means["Ranker"]["ndcg@10"]))
    ['estimator', 'metric', 'mean', 'std.error'] 3
    """
    check_dataset("data", data, binned=True)
    chosen = parse_metrics(metrics)
    # What cannot be measured is known before the work.
    measure_dataset(data, np.zeros(data.n_documents), chosen, n_jobs=n_jobs)
    named = _named(estimators)
    _check_share(valid_share, named)
    pairs = make_folds(data, folds, seed)
    tasks = [
        _Task(name, estimator, fold, *pairs[fold], data, valid_share, seed)
        for fold in range(len(pairs))
        for name, estimator in named.items()
    ]
    scores = {name: np.full(data.n_documents, np.nan) for name in named}
    done = _run(tasks, scores, resolve_n_jobs(n_jobs), len(pairs), verbose)
    fold_of = np.empty(data.n_queries, dtype=np.int64)
    for fold, (_, test) in enumerate(pairs):
        fold_of[test] = fold
    whole = [f for f in range(len(pairs)) if all((name, f) in done for name in named)]
    if not whole:
        raise KeyboardInterrupt
    return _measure(data, chosen, scores, fold_of, whole, len(pairs))


def _measure(
    data: Documents, metrics: Sequence[Metric], scores: dict[str, Floats],
    fold_of: NDArray[np.int64], whole: list[int], n_folds: int,
) -> CrossValidation:  # fmt: skip
    """Measure the queries of the folds that are done."""
    tested = np.isin(fold_of, whole)
    rows = np.repeat(tested, data.group)
    for own in scores.values():
        own[~rows] = np.nan
    part = data if tested.all() else data.take_queries(tested)
    results = {name: measure_dataset(part, own[rows], metrics) for name, own in scores.items()}
    chosen = [fold_of[tested] == fold for fold in range(n_folds)]
    means = {
        name: {
            metric: [_mean(row.values, part.query_weights, queries) for queries in chosen]
            for metric, row in table.results.items()
        }
        for name, table in results.items()
    }
    return CrossValidation(
        results, scores, fold_of, means, part.query_ids, part.weights, n_folds, tuple(whole)
    )


def _mean(values: Floats, weights: Floats, chosen: NDArray[np.bool_]) -> float:
    counted = chosen & ~np.isnan(values)
    total = weights[counted].sum()
    return float((values[counted] * weights[counted]).sum() / total) if total > 0 else math.nan


def _named(estimators: Any) -> dict[str, Any]:
    if not isinstance(estimators, Mapping):
        estimators = {type(estimators).__name__: estimators}
    if not estimators:
        raise ParameterError("estimators must be at least one. Got none.")
    for name, estimator in estimators.items():
        lacks = [m for m in ("fit", "predict") if not callable(getattr(estimator, m, None))]
        if lacks or isinstance(estimator, type):
            got = f"the class {estimator.__name__}" if isinstance(estimator, type) else (
                f"{type(estimator).__name__}, which has no {lacks[0]}"
            )  # fmt: skip
            raise ParameterError(f"estimator {name!r} must have fit and predict. Got {got}.")
    return {str(name): estimator for name, estimator in estimators.items()}


def _check_share(share: Any, named: Mapping[str, Any]) -> None:
    if share is not None:
        check_share("valid_share", share, f"be above 0 and below 1, or {word(None)}")
    for name, estimator in named.items():
        takes_valid = "valid" in _names_of_fit(estimator)
        stops = getattr(estimator, "early_stopping_rounds", None) is not None
        if share is None and stops and takes_valid:
            rounds = parameter("early_stopping_rounds", estimator.early_stopping_rounds)
            got = f"none, and estimator {name!r} has {rounds}"
            raise refusal("valid_share", "be given for early stopping", got=got)
        if share is not None and not takes_valid:
            rule = "be left out for an estimator whose fit takes no valid"
            raise refusal("valid_share", rule, got=f"it for {name!r}, {type(estimator).__name__}")


def _names_of_fit(estimator: Any) -> set[str]:
    return set(inspect.signature(estimator.fit).parameters)


@dataclass(frozen=True, eq=False)
class _Task:
    """One estimator on one fold."""

    name: str
    estimator: Any
    fold: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    data: Documents
    valid_share: float | None
    seed: int

    def scores(self, n_jobs: int, stop: Callable[[Any], bool]) -> Floats:
        """Those of the documents of the fold."""
        from sklearn.base import clone  # noqa: PLC0415 (a second, for who needs it)

        from rankgrove.estimators.base import RankingEstimator  # noqa: PLC0415

        is_known = hasattr(self.estimator, "get_params")
        estimator = clone(self.estimator) if is_known else deepcopy(self.estimator)
        if is_known and estimator.get_params(deep=False).get("n_jobs", 1) is None:
            estimator.set_params(n_jobs=n_jobs)
        train, test = self.data.take_queries(self.train), self.data.take_queries(self.test)
        options: dict[str, Any] = {}
        if self.valid_share is not None:
            train, options["valid"] = train.split(
                1 - self.valid_share, self.valid_share, seed=self.seed
            )
        if isinstance(estimator, RankingEstimator):
            estimator.fit(train, **options, callbacks=[stop])
            found = estimator.predict(test)
        else:
            rows, held_out = (
                np.asarray(with_numbers(part, "estimators").features) for part in (train, test)
            )
            estimator.fit(rows, train.labels, **_queries_of(estimator, train), **options)
            found = _predict(estimator, held_out)
        scores = np.asarray(found, dtype=np.float64)
        if scores.shape != (test.n_documents,) or np.isnan(scores).any():
            raise DataError(
                f"estimator {self.name!r} must give one score for each of {test.n_documents} "
                f"documents of fold {self.fold + 1}. Got an array of shape {scores.shape}"
                f"{' with NaN' if np.isnan(scores).any() else ''}."
            )
        return scores


def _queries_of(estimator: Any, train: Documents) -> dict[str, Any]:
    """The queries and weights, by the names under which `fit` takes them."""
    from sklearn import get_config  # noqa: PLC0415 (a second, for who needs it)
    from sklearn.pipeline import Pipeline  # noqa: PLC0415

    last, before = estimator, ""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        if not get_config()["enable_metadata_routing"]:
            before = f"{step}__"
    names = _names_of_fit(last)
    queries = {"qid": train.qid, "group": train.group, "group_id": train.qid}
    taken = [name for name in queries if name in names][:1]
    given: dict[str, Any] = {f"{before}{name}": queries[name] for name in taken}
    if train.weights is not None and "sample_weight" in names:
        # One per query for us and XGBoost, one per row for all others.
        repeats = 1 if "qid" in names else train.group
        given[f"{before}sample_weight"] = np.repeat(train.weights, repeats)
    return given


def _predict(estimator: Any, features: NDArray[np.float32]) -> Any:
    from sklearn.base import is_classifier  # noqa: PLC0415 (a second, for who needs it)

    if is_classifier(estimator) and hasattr(estimator, "predict_proba"):
        try:
            classes = np.asarray(estimator.classes_, dtype=np.float64)
        except (TypeError, ValueError):
            return estimator.predict(features)
        return estimator.predict_proba(features) @ classes
    return estimator.predict(features)


def _run(
    tasks: Sequence[_Task], scores: dict[str, Floats], n_jobs: int, n_folds: int, verbose: bool
) -> set[tuple[str, int]]:
    """Fill in the scores; which estimators and folds are done, all of them unless interrupted."""
    done: set[tuple[str, int]] = set()
    stop = threading.Event()
    workers = min(n_jobs, len(tasks))
    share = max(1, n_jobs // workers)

    def work(task: _Task) -> None:
        found = task.scores(share, lambda _: stop.is_set())
        if stop.is_set():
            return
        rows = np.repeat(np.isin(np.arange(task.data.n_queries), task.test), task.data.group)
        scores[task.name][rows] = found
        done.add((task.name, task.fold))
        if verbose:
            sys.stderr.write(
                f"{len(done)}/{len(tasks)}  fold {task.fold + 1} of {n_folds}  {task.name}\n"
            )

    try:
        if workers == 1:
            for task in tasks:
                work(task)
        else:
            _in_threads(work, tasks, workers, stop)
    except KeyboardInterrupt:
        stop.set()
    return done


def _in_threads(
    work: Callable[[_Task], None], tasks: Sequence[_Task], workers: int, stop: threading.Event
) -> None:
    """Run the tasks in threads; an error or an interrupt ends those that can be ended."""
    futures: list[Future[None]] = []
    with ThreadPoolExecutor(workers, thread_name_prefix="fold") as pool:
        try:
            futures += [pool.submit(work, task) for task in tasks]
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() and not future.exception() for future in futures):
                stop.set()
            for future in futures:
                future.cancel()
    for future in futures:
        if not future.cancelled():
            future.result()

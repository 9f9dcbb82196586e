"""The generalisation gap: how much better a model is on what it was trained on than on new queries.

As tables 22 to 25 of the paper, "train" is the mean of a metric over the training queries and
"gap" is that less the mean over the test queries: a smaller gap is better generalisation. The
learning curve has both after each number of trees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError, whole_number
from rankgrove.experiments import tables
from rankgrove.experiments.checks import check_dataset, check_one_of, naming
from rankgrove.experiments.compare import significance
from rankgrove.experiments.compare.compare import score_candidates
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import DEFAULT_METRICS, measure_dataset
from rankgrove.metrics.spec import parse_metrics
from rankgrove.model.base import load
from rankgrove.model.model import Model, prefix_scores
from rankgrove.pictures.chart import Axis, Chart, Line, Panel, Rule
from rankgrove.pictures.display import Picture
from rankgrove.pictures.palette import candidate

# A curve has about so many points where nothing else is asked for.
_POINTS = 50


class GapRow(NamedTuple):
    """One candidate under one metric: train less test, with the interval of that difference."""

    name: str
    metric: str
    train: float
    test: float
    gap: float
    low: float
    high: float


class LearningCurve(NamedTuple):
    """The means of one metric on train and on test after each number of trees."""

    n_trees: list[int]
    train: list[float]
    test: list[float]

    @property
    def peak(self) -> int:
        """The number of trees with the highest mean on test; the first of several."""
        return self.n_trees[int(np.argmax(self.test))]


@dataclass(frozen=True, eq=False, repr=False)
class Gap:
    """What `generalisation_gap` gives. Prints as a table.

    Attributes
    ----------
    rows
        One per candidate and metric.
    curves
        For each candidate that has trees, for each metric, its learning curve.
    confidence
        Of the intervals.
    """

    rows: list[GapRow]
    curves: dict[str, dict[str, LearningCurve]]
    confidence: float = 0.95

    def row(self, name: str, metric: str) -> GapRow:
        rows = {f"{row.name} by {row.metric}": row for row in self.rows}
        check_one_of("a row", f"{name} by {metric}", rows)
        return rows[f"{name} by {metric}"]

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The header and the rows of the table, as text."""
        header = ["metric", "candidate", "train", "test", "gap",
                  f"{100 * self.confidence:g} % interval", "trees", "test peaks at"]  # fmt: skip
        rows = []
        for row in sorted(self.rows, key=lambda row: self._metrics().index(row.metric)):
            curve = self.curves.get(row.name, {}).get(row.metric)
            trees = [str(curve.n_trees[-1]), str(curve.peak)] if curve else ["", ""]
            numbers = [f"{row.train:.4f}", f"{row.test:.4f}", f"{row.gap:+.4f}"]
            interval = tables.show_interval(row.low, row.high)
            rows.append([row.metric, row.name, *numbers, interval, *trees])
        return header, rows

    def _metrics(self) -> list[str]:
        return list(dict.fromkeys(row.metric for row in self.rows))

    def __str__(self) -> str:
        return tables.aligned(*self.cells(), left=(0, 1))

    def __repr__(self) -> str:
        return f"<Gap: {len(self.rows)} rows, {len(self.curves)} with curves>"

    def to_markdown(self, *, percent: bool = False) -> str:
        """A row per candidate, and "train" and "gap" for each metric, as the paper has it."""
        metrics = self._metrics()
        header = ["candidate", *(f"{m} {what}" for m in metrics for what in ("train", "gap"))]
        factor, digits = (100, 2) if percent else (1, 4)
        rows = []
        for name in dict.fromkeys(row.name for row in self.rows):
            found = [self.row(name, metric) for metric in metrics]
            values = [value for row in found for value in (row.train, row.gap)]
            rows.append([name, *(f"{factor * value:.{digits}f}" for value in values)])
        return tables.markdown(header, rows) + "\n"

    def to_csv(self) -> str:
        """A line per candidate and metric, with all digits."""
        return tables.csv_text(list(GapRow._fields), self.rows)

    def curves_csv(self) -> str:
        """A line per candidate, metric and number of trees: the means on train and on test."""
        lines = (
            (name, metric, *point)
            for name, curves in self.curves.items()
            for metric, curve in curves.items()
            for point in zip(*curve, strict=True)
        )
        return tables.csv_text(["name", "metric", "n_trees", "train", "test"], lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "confidence": self.confidence,
            "rows": [tables.plain_dict(row) for row in self.rows],
            "curves": {
                name: {metric: curve._asdict() for metric, curve in curves.items()}
                for name, curves in self.curves.items()
            },
        }

    def plot(self, metric: str | None = None, *, ax: Any = None) -> Picture:
        """The learning curves, one panel per metric: test drawn thick, train thin.

        Parameters
        ----------
        metric
            One of those that were measured; by default all.
        ax
            Axes of matplotlib to draw into, one for each panel.
        """
        if not self.curves:
            raise DataError(
                "a learning curve must be of a candidate with trees. Got none: give a Model, its "
                "file or a fitted Ranker."
            )
        if metric is not None:
            check_one_of("metric", metric, self._metrics())
        metrics = self._metrics() if metric is None else [metric]
        panels = [Panel(name, Axis("trees"), marks=list(self._marks(name))) for name in metrics]
        note = "thick: test, thin: train; the upright line is where test is best"
        return Picture(Chart(panels, "Learning curves", note)).drawn_into(ax)

    def _marks(self, metric: str) -> Iterator[Line | Rule]:
        for number, (name, curves) in enumerate(self.curves.items()):
            curve, look = curves[metric], candidate(number)
            yield Rule(curve.peak, colour=look.colour, dash=(2, 4))
            yield Line(curve.n_trees, curve.train, "", look.colour, look.dash, 1.0)
            yield Line(curve.n_trees, curve.test, name, look.colour, look.dash, 2.0)

    def to_svg(self) -> str:
        """The learning curves as a picture."""
        return self.plot().to_svg()

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if self.curves else None


def generalisation_gap(
    candidates: Any,
    train: Dataset,
    test: Dataset,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    every: int | None = None,
    confidence: float = 0.95,
    preset: str | None = None,
    n_jobs: int | None = None,
) -> Gap:
    """Measure candidates on what they were trained on and on new queries.

    Parameters
    ----------
    candidates
        One of, or a mapping from names to: a `Model` or the path of its file, a fitted `Ranker`,
        anything with `predict`, a function from features to scores, or a pair of scores
        (of train, of test).
    train, test
        The queries of training, and others.
    metrics, preset
        As for `evaluate`.
    every
        The learning curve has a point every so many trees and at the last one; by default about
        50 points. Candidates without trees have no curve.
    confidence
        Of the interval of the gap: train and test are independent samples of queries, so it is
        Welch's, (m1 - m2) -+ t sqrt(e1^2 + e2^2) with e the standard errors. Weights of queries
        count as in `evaluate`.
    n_jobs
        Threads; the result has the same bits for any number.

    Examples
    --------
    >>> from rankgrove import Ranker, make_web_search
    >>> train, test = make_web_search(60, 16).split(0.5, 0.5)
    >>> gap = generalisation_gap(Ranker(n_estimators=6).fit(train), train, test, "map", every=2)
    >>> gap.curves["model"]["map"].n_trees
    [0, 2, 4, 6]
    >>> gap.row("model", "map").gap > 0
    True
    """
    whole_number("every", every, 1, none=True)
    chosen = parse_metrics(metrics, preset=preset)
    named = candidates if isinstance(candidates, Mapping) else {"model": candidates}
    if not named:
        raise ParameterError("at least one candidate must be given. Got none.")
    parts = {"train": train, "test": test}
    for part, data in parts.items():
        check_dataset(part, data)
    loaded = {
        str(name): load(candidate) if isinstance(candidate, (str, PathLike)) else candidate
        for name, candidate in named.items()
    }
    scores = {
        part: score_candidates(data, {n: _side(n, c, part) for n, c in loaded.items()}, n_jobs)
        for part, data in parts.items()
    }
    rows = []
    for name in loaded:
        measured = {
            part: measure_dataset(data, scores[part][name], chosen, n_jobs=n_jobs)
            for part, data in parts.items()
        }
        for metric in map(str, chosen):
            samples = []
            for part, data in parts.items():
                with naming(f"{metric} on {part}"):
                    values = measured[part].per_query(metric)
                    samples.append(significance.sample_of(values, data.weights))
            rows.append(_gap_row(name, metric, samples[0], samples[1], confidence))
    curves = {
        name: _curves(model, parts, chosen, every, n_jobs)
        for name, candidate in loaded.items()
        if (model := _trees_of(candidate)) is not None
    }
    return Gap(rows, curves, confidence)


def _trees_of(candidate: Any) -> Model | None:
    model = getattr(candidate, "model_", candidate)
    return model if isinstance(model, Model) else None


def _side(name: str, candidate: Any, part: str) -> Any:
    """What scores a part: the candidate itself, or the scores that it is for this part."""
    if hasattr(candidate, "predict") or callable(candidate):
        return candidate
    if isinstance(candidate, tuple) and len(candidate) == 2:
        return candidate[part == "test"]
    raise ParameterError(
        f"{name} must be a model, a function or a pair of scores, of train and of test. Got "
        f"{type(candidate).__name__}."
    )


def _gap_row(
    name: str, metric: str, train: significance.Sample, test: significance.Sample,
    confidence: float,
) -> GapRow:  # fmt: skip
    """Train less test, with Welch's interval of that: the two are independent samples."""
    (mean_a, error_a, _), (mean_b, error_b, _) = map(significance.moments, (train, test))
    gap, reach = mean_a - mean_b, 0.0
    squares = error_a**2, error_b**2
    if sum(squares) > 0.0:
        parts = squares[0] ** 2 / (train.size - 1) + squares[1] ** 2 / (test.size - 1)
        reach = significance.t_quantile(confidence, sum(squares) ** 2 / parts)
        reach *= math.sqrt(sum(squares))
    return GapRow(name, metric, mean_a, mean_b, gap, gap - reach, gap + reach)


def _curves(
    model: Model, parts: Mapping[str, Dataset], metrics: Sequence[Metric], every: int | None,
    n_jobs: int | None,
) -> dict[str, LearningCurve]:  # fmt: skip
    step = every or max(1, math.ceil(model.n_trees / _POINTS))
    points = [*range(0, model.n_trees, step), model.n_trees]
    means = [
        [dict(measure_dataset(data, scores, metrics, n_jobs=n_jobs))
         for scores in prefix_scores(model, data, points, n_jobs)]
        for data in parts.values()
    ]  # fmt: skip
    return {
        metric: LearningCurve(points, *([table[metric] for table in part] for part in means))
        for metric in map(str, metrics)
    }

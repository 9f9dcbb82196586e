"""One query as several rankers order it, and the scores that they give to each label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.errors import refusal, unknown_name, whole_number
from rankgrove.experiments.checks import check_dataset
from rankgrove.experiments.compare.compare import score_candidates
from rankgrove.experiments.compare.displays import cumulative
from rankgrove.metrics.base import Floats, Metric, show_number
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.spec import parse_metric
from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Text
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import (
    AXIS,
    DOWN,
    TEXT,
    UP,
    Colour,
    candidate,
    label_colours,
    text_on,
)

IDEAL = "ideal"
_COLUMN, _ROW = 290, 24
# Where the lines between two columns begin, bend and end, as shares of the way. They are level at
# both ends, where the ranks of documents that come or go stand, so that none crosses a number.
_BENDS = (0.5, 0.64, 0.82, 0.95)
_LONGEST_NAME = 16
_MOST_GRADES = 12


@dataclass
class RankingDisplay(Display):
    """The first documents of one query, as several candidates rank them.

    Attributes
    ----------
    query
        Its id.
    metric, values
        What was measured, and the value of each candidate; NaN where the query is skipped.
    ranks
        For each candidate, the rank of every document of the query, from 1; "ideal" is the order
        of the labels. Of equal scores, the lower label stands first: ties count against the model.
    labels, document_names
        One per document.
    grades
        The labels that documents may have, rising: those of all queries, if they are few.
    top
        How many ranks are shown.
    """

    query: str
    metric: str
    values: dict[str, float]
    ranks: dict[str, NDArray[np.int64]]
    labels: Floats
    document_names: list[str]
    grades: Floats
    top: int

    def chart(self) -> Chart:
        colours = label_colours(len(self.grades))
        steps = dict(zip(self.grades.tolist(), colours, strict=True))
        marks: list[Mark] = []
        names = list(self.ranks)
        for column, name in enumerate(names):
            value = self.values.get(name, np.nan)
            text = name if np.isnan(value) else f"{name}: {self.metric} {value:.4f}"
            marks.append(Text(column, 0, text, TEXT, "start", (-8.0, 0.0), 12.0, True))
            marks += self._documents(column, self.ranks[name], steps)
            if column and name != IDEAL:
                marks += self._moves(column, self.ranks[names[column - 1]], self.ranks[name])
        shown = min(self.top, len(self.labels))
        panel = Panel(
            "",
            Axis(low=-0.08, high=len(names) - 0.45, shown=False),
            Axis(low=-0.5, high=shown + 0.5, backwards=True, shown=False),
            marks,
            round(_COLUMN * (len(names) - 0.37)),
            _ROW * (shown + 1),
            framed=False,
        )
        note = f"query {self.query}: the first {shown} of {len(self.labels)} documents"
        return Chart([panel], f"Query {self.query} as ranked by {', '.join(names)}", note)

    def _documents(
        self, column: int, ranks: NDArray[np.int64], steps: Mapping[float, Colour]
    ) -> Iterator[Text]:
        for row in np.argsort(ranks)[: self.top].tolist():
            rank, label = int(ranks[row]), float(self.labels[row])
            chip = steps[label]
            yield Text(column, rank, show_number(label), text_on(chip), chip=chip)
            name = self.document_names[row]
            short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
            yield Text(column, rank, f"{rank}  {short}", TEXT, "start", (14.0, 0.0))

    def _moves(
        self, column: int, before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> Iterator[Mark]:
        """Lines from a column to the next, and the ranks of those that come or go."""
        moved = after - before
        both = (before <= self.top) & (after <= self.top)
        looks: tuple[tuple[Any, str, Colour, tuple[float, ...]], ...] = (
            (both & (moved == 0), "same rank", AXIS, ()),
            (both & (moved < 0), "moved up", UP, ()),
            (both & (moved > 0), "moved down", DOWN, (5, 3)),
        )
        for chosen, name, colour, dash in looks:
            x, y = [], []
            for row in np.flatnonzero(chosen).tolist():
                x += [*(column - 1 + bend for bend in _BENDS), math.nan]
                y += [float(before[row])] * 2 + [float(after[row])] * 2 + [math.nan]
            if x:
                yield Line(x, y, name, colour, dash)
        for row in np.flatnonzero((before <= self.top) & (after > self.top)).tolist():
            place = column - 1 + _BENDS[0]
            yield Text(place, int(before[row]), f"▼ {after[row]}", DOWN, "start")
        for row in np.flatnonzero((before > self.top) & (after <= self.top)).tolist():
            place = column - 1 + _BENDS[-1]
            yield Text(place, int(after[row]), f"{before[row]} ▲", UP, "end")


def plot_ranking(
    data: Dataset,
    scores: Mapping[str, Any],
    query: Any,
    *,
    metric: str | Metric = "ndcg@10",
    top: int = 10,
    ideal: bool = True,
    ax: Any = None,
) -> RankingDisplay:
    """One query side by side as several candidates rank it, with lines between moved documents.

    Parameters
    ----------
    data
        Judged documents.
    scores
        From names to scores, models or whatever else `compare` takes.
    query
        The id of the query.
    metric
        What stands above each ranking.
    top
        How many ranks to show.
    ideal
        Whether the order of the labels stands beside them.
    ax
        Axes of matplotlib to draw into.

    Examples
    --------
    >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [2, 0, 1], qid=["a", "a", "a"])
    >>> display = plot_ranking(data, {"old": [3, 2, 1], "new": [1, 2, 3]}, "a")
    >>> {name: ranks.tolist() for name, ranks in display.ranks.items()}
    {'old': [1, 2, 3], 'new': [3, 2, 1], 'ideal': [1, 3, 2]}
    """
    check_dataset("data", data)
    if not isinstance(scores, Mapping) or not scores:
        raise refusal("scores", "be a mapping with at least one name", got="none")
    top = whole_number("top", top, 1)
    names = [str(name) for name in data.query_ids.tolist()]
    if str(query) not in names:
        raise unknown_name("query", str(query), names if len(names) <= 20 else [*names[:20], "…"])
    at = names.index(str(query))
    first, last = int(data.offsets[at]), int(data.offsets[at + 1])
    part, chosen = data.take_queries([at]), parse_metric(metric)
    labels = part.labels.astype(np.float64)
    made = {name: values[first:last] for name, values in score_candidates(data, scores).items()}
    measured = {
        name: float(measure_dataset(part, own, chosen).per_query(str(chosen))[0])
        for name, own in made.items()
    }
    ranks = {name: _ranks(own, labels) for name, own in made.items()}
    if ideal:
        ranks[IDEAL] = _ranks(labels, labels)
    ids = range(first, last) if part.document_ids is None else part.document_ids.tolist()
    documents = [f"row {one}" if part.document_ids is None else str(one) for one in ids]
    grades = np.unique(data.labels).astype(np.float64)
    if len(grades) > _MOST_GRADES:
        grades = np.unique(labels)
    return RankingDisplay(
        names[at], str(chosen), measured, ranks, labels, documents, grades, top
    ).drawn_into(ax)


@dataclass
class ScoresByLabelDisplay(Display):
    """How the scores of each label are spread.

    Attributes
    ----------
    labels
        Rising.
    scores
        For each label its documents' scores, rising.
    within_query
        Whether scores are less their mean in the query.
    """

    labels: list[float]
    scores: list[Floats]
    within_query: bool

    def chart(self) -> Chart:
        marks = []
        for number, (label, values) in enumerate(zip(self.labels, self.scores, strict=True)):
            x, y = cumulative(values)
            look = candidate(number)
            name = f"label {show_number(label)} ({len(values):,} documents)"
            marks.append(Line(x.tolist(), y.tolist(), name, look.colour, look.dash))
        title = "score less the mean of its query" if self.within_query else "score"
        axes = Axis(title), Axis("share of documents at or below", 0.0, 1.0)
        about = "The share of documents of each label up to each score"
        return Chart([Panel("", *axes, marks, 420, 260)], about)


def plot_scores_by_label(
    data: Dataset, scores: Any, *, within_query: bool = True, ax: Any = None
) -> ScoresByLabelDisplay:
    """Whether scores tell the labels apart: the cumulative distribution of each label's scores.

    Parameters
    ----------
    data
        Judged documents.
    scores
        One per document, or a model or whatever else `compare` takes.
    within_query
        Whether to take scores less their mean in the query, as only differences within a query
        count.
    ax
        Axes of matplotlib to draw into.

    Examples
    --------
    >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [1, 0, 0], qid=[1, 1, 1])
    >>> display = plot_scores_by_label(data, [5.0, 1.0, 3.0])
    >>> display.labels, [values.tolist() for values in display.scores]
    ([0.0, 1.0], [[-2.0, 0.0], [2.0]])
    """
    check_dataset("data", data)
    own = score_candidates(data, {"scores": scores})["scores"]
    if within_query:
        means = np.add.reduceat(own, data.offsets[:-1]) / data.group
        own = own - np.repeat(means, data.group)
    labels = np.unique(data.labels)
    parts = [np.sort(own[data.labels == label]) for label in labels]
    return ScoresByLabelDisplay(labels.astype(np.float64).tolist(), parts, within_query).drawn_into(
        ax
    )


def _ranks(scores: Floats, labels: Floats) -> NDArray[np.int64]:
    """The rank of each document, ties resolved against the model, then by row."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.lexsort((labels, -scores))] = np.arange(1, len(scores) + 1)
    return ranks

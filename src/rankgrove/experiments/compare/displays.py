"""Comparisons as pictures: query by query, by the size of the change, and by groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import DataError
from rankgrove.experiments.checks import check_one_of
from rankgrove.experiments.compare import significance
from rankgrove.experiments.tables import show_p
from rankgrove.metrics.base import Floats
from rankgrove.pictures.chart import (
    Axis,
    Band,
    Chart,
    Line,
    Mark,
    Panel,
    Points,
    Rule,
    Segments,
    Text,
)
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import AXIS, DOWN, TEXT, UP, candidate, density_colours

if TYPE_CHECKING:
    from rankgrove.experiments.compare.comparison import Comparison, Row

KINDS = ("scatter", "change", "distribution")

# More points than this are shown by how many fall into a cell, of so many each way.
_MOST_POINTS, _CELLS = 2_000, 40
# A curve of more steps than this is drawn through as many of them.
_MOST_STEPS = 400
# What a query must lose to be counted beside the picture.
_MUCH = 0.1
_SIDE = 300


class Change(NamedTuple):
    """One candidate against the one it is compared with.

    Attributes
    ----------
    name
        Of the candidate.
    values
        Those of the candidate, one per counted query.
    differences
        The candidate less the reference.
    row
        What the comparison says of it.
    """

    name: str
    values: Floats
    differences: Floats
    row: Row


@dataclass
class ComparisonDisplay(Display):
    """Candidates under one metric, query by query.

    Attributes
    ----------
    metric, kind
        What is shown and how: "scatter", "change" or "distribution".
    reference
        The name of what the candidates are compared with: the baseline, or the best.
    reference_values
        Its values, one per counted query.
    query_ids
        Of the counted queries.
    weights
        Of the counted queries; 1 where none were given.
    changes
        The other candidates.
    """

    metric: str
    kind: str
    reference: str
    reference_values: Floats
    query_ids: NDArray[Any]
    weights: Floats
    changes: list[Change]

    def chart(self) -> Chart:
        if self.kind == "distribution" or not self.changes:
            return self._distribution()
        make = self._scatter if self.kind == "scatter" else self._change
        panels = [make(change) for change in self.changes]
        names = ", ".join(change.name for change in self.changes)
        label = f"{self.metric} of {names} against {self.reference}, query by query"
        note = "; ".join(self._verdict(change.row) for change in self.changes)
        return Chart(panels, label, note)

    def _verdict(self, row: Row) -> str:
        p = show_p(row.adjusted)
        against = f"{row.name} less {self.reference}: {signed(row.difference)}"
        return f"{against}, p {p.replace('<', '< ') if '<' in p else f'= {p}'}" if p else against

    def _scatter(self, change: Change) -> Panel:
        x, y, gaps = self.reference_values, change.values, change.differences
        most = self._most()
        marks: list[Mark] = []
        if len(x) > _MOST_POINTS:
            # All panels have the same steps, which the legend tells once.
            highest = max(int(_counts(x, other.values, most).max()) for other in self.changes)
            marks += _cells(_counts(x, y, most), highest, most)
        else:
            sides = (("equal", gaps == 0, AXIS, "circle"), ("better", gaps > 0, UP, "triangle"),
                     ("worse", gaps < 0, DOWN, "down"))  # fmt: skip
            for name, chosen, colour, shape in sides:
                marks.append(Points(x[chosen].tolist(), y[chosen].tolist(), name, colour, shape,
                                    3.0, 0.8))  # fmt: skip
        marks.append(Line([0.0, most], [0.0, most], "", TEXT, (4, 4), 1.0))
        row = change.row
        title = f"better {row.wins:,}, equal {row.ties:,}, worse {row.losses:,}"
        across, up = (
            Axis(f"{self.metric} of {name}", 0.0, most) for name in (self.reference, change.name)
        )
        return Panel(title, across, up, marks, _SIDE, _SIDE)

    def _most(self) -> float:
        """Where the axes of the metric end."""
        highest = [self.reference_values, *(change.values for change in self.changes)]
        return max(1.0, *(float(values.max()) for values in highest))

    def _change(self, change: Change) -> Panel:
        gaps = np.sort(change.differences)[::-1]
        n = len(gaps)
        # The corners of the steps, or for many queries of so many of them.
        steps = np.unique(np.linspace(0, n - 1, min(n, _MOST_STEPS)).astype(int))
        x = np.column_stack([steps, np.append(steps[1:], n)]).ravel().tolist()
        y = np.repeat(gaps[steps], 2)
        zeros = [0.0] * len(x)
        much = int(np.count_nonzero(change.differences < -_MUCH))
        marks: list[Mark] = [
            Band(x, zeros, np.maximum(y, 0.0).tolist(), "better", UP, 0.85),
            Band(x, np.minimum(y, 0.0).tolist(), zeros, "worse", DOWN, 0.85),
            Rule(0.0, upright=False, dash=()),
        ]
        title = f"{much:,} of {n:,} queries lose more than {_MUCH:g}"
        across = Axis("queries, the largest gain first", 0, n)
        up = Axis(f"{self.metric}, {change.name} less {self.reference}", margin=0.05)
        return Panel(title, across, up, marks, 420, 240)

    def _distribution(self) -> Chart:
        marks: list[Mark] = []
        named = {self.reference: self.reference_values}
        named |= {change.name: change.values for change in self.changes}
        for number, (name, values) in enumerate(named.items()):
            look = candidate(number)
            x, y = cumulative(values, self.weights)
            marks.append(Line(x.tolist(), y.tolist(), name, look.colour, look.dash))
        label = f"The share of queries up to each value of {self.metric}"
        axes = Axis(self.metric), Axis("share of queries at or below", 0.0, 1.0)
        return Chart([Panel("", *axes, marks, 420, 260)], label)


class SliceRow(NamedTuple):
    """One candidate in one group of queries, against the reference: the interval is of the change.

    `slicing` is "" for all queries.
    """

    slicing: str
    group: str
    name: str
    queries: int
    difference: float
    low: float
    high: float
    adjusted: float


@dataclass
class SlicesDisplay(Display):
    """The change in each group of queries.

    Attributes
    ----------
    metric, reference, confidence, level
        What is shown, against which candidate, how wide the intervals are, and what a p-value must
        not be above to be called significant.
    rows
        One per group and candidate; the first ones are of all queries.
    """

    metric: str
    reference: str
    confidence: float
    level: float
    rows: list[SliceRow]

    def chart(self) -> Chart:
        names = list(dict.fromkeys(row.name for row in self.rows))
        groups = list(dict.fromkeys((row.slicing, row.group) for row in self.rows))
        most = max(row.queries for row in self.rows)
        marks: list[Mark] = [Rule(0.0, dash=())]
        for number, name in enumerate(names):
            look = candidate(number)
            chosen = [row for row in self.rows if row.name == name]
            shift = 0.6 * ((number + 0.5) / len(names) - 0.5)
            y = [groups.index((row.slicing, row.group)) + shift for row in chosen]
            marks.append(Segments([row.low for row in chosen], y, [row.high for row in chosen], y,
                                  "", look.colour))  # fmt: skip
            for at, row in zip(y, chosen, strict=True):
                size = 2.5 + 4.5 * math.sqrt(row.queries / most)
                marks.append(Points([row.difference], [at], name, look.colour, look.shape, size))
        titles = [f"{slicing} {group}" if slicing else group for slicing, group in groups]
        down = Axis(names=titles, backwards=True)
        height = 26 * max(1, len(names)) * len(groups)
        percent = f"{100 * self.confidence:g} % interval"
        across = Axis(f"{self.metric} less that of {self.reference}, with its {percent}",
                      margin=0.05)  # fmt: skip
        panel = Panel("", across, down, marks, 320, height)
        beside = Axis(names=[""], shown=False), replace(down, shown=False)
        numbers = list(self._numbers(groups, names))
        table = Panel("", *beside, numbers, 150, height, framed=False)
        label = f"{self.metric} of groups of queries, less that of {self.reference}"
        note = f"* p <= {self.level:g}, corrected for the number of groups"
        return Chart([panel, table], label, note)

    def _numbers(self, groups: Sequence[tuple[str, str]], names: Sequence[str]) -> Iterator[Text]:
        """What stands beside the picture: the size of each group and the change."""
        for row in self.rows:
            shift = 0.6 * ((names.index(row.name) + 0.5) / len(names) - 0.5)
            y = groups.index((row.slicing, row.group)) + shift
            star = " *" if row.adjusted <= self.level else ""
            yield Text(-0.5, y, f"{row.queries:,}", TEXT, "end", (58, 0))
            yield Text(-0.5, y, f"{signed(row.difference)}{star}", TEXT, "start", (74, 0))


def comparison_display(comparison: Comparison, metric: str | None, kind: str) -> ComparisonDisplay:
    """The values of a comparison by one metric, of the queries that count."""
    check_one_of("kind", kind, KINDS)
    chosen = _metric_of(comparison, metric)
    measured = comparison.measured[chosen]
    reference = comparison.reference(chosen)
    base = measured.values[reference]
    there = ~np.isnan(base)
    weights = np.ones(len(base)) if measured.weights is None else measured.weights
    changes = [
        Change(row.name, values[there], significance.differences(values, base).values, row)
        for row in comparison.summary(chosen)
        if row.name != reference
        for values in [measured.values[row.name]]
    ]
    return ComparisonDisplay(
        chosen, kind, reference, base[there], measured.query_ids[there], weights[there], changes
    )


def slices_display(
    comparison: Comparison, slicing: str | None, metric: str | None
) -> SlicesDisplay:
    """The change of a comparison in groups of queries: those of one slicing, or of all."""
    chosen = _metric_of(comparison, metric)
    if not comparison.slicings:
        raise DataError(
            "a comparison must have groups of queries to draw. Got none: give compare slices=, as "
            "slices='length'."
        )
    if slicing is not None:
        check_one_of("slicing", slicing, comparison.slicings)
    if len(comparison.measured[chosen].values) == 1:
        raise DataError("a change must be between two candidates. Got one.")
    measured, method = comparison.measured[chosen], comparison.method
    reference = comparison.reference(chosen)

    def rows(title: str, group: str, given: Sequence[Row], kept: NDArray[np.bool_]) -> Any:
        part = measured.take(kept)
        for row in given:
            if row.name == reference:
                continue
            low = high = math.nan
            if not math.isnan(row.difference):
                gaps = part.values[row.name] - part.values[reference]
                low, high = method.interval(gaps, part.weights)
            yield SliceRow(title, group, row.name, row.counted, row.difference, low, high,
                           row.adjusted)  # fmt: skip

    everything = np.ones(len(measured.query_ids), dtype=bool)
    found = list(rows("", "all queries", comparison.summary(chosen), everything))
    for title in comparison.slicings if slicing is None else [slicing]:
        group_of = comparison.slicings[title].group_of
        for number, group in enumerate(comparison.by_slice(title, chosen)):
            found += rows(title, group.name, group.rows, group_of == number)
    return SlicesDisplay(chosen, reference, method.confidence, method.level, found)


def cumulative(values: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """The corners of the share of weight at or below each value.

    >>> x, y = cumulative(np.array([2.0, 1.0, 2.0, 4.0]))
    >>> x.tolist(), y.tolist()
    ([1.0, 1.0, 2.0, 2.0, 4.0, 4.0], [0.0, 0.25, 0.25, 0.75, 0.75, 1.0])
    """
    known, place = np.unique(values, return_inverse=True)
    shares = np.cumsum(np.bincount(place, weights=weights)) / (
        len(values) if weights is None else weights.sum()
    )
    if len(known) > _MOST_STEPS:
        chosen = np.unique(np.linspace(0, len(known) - 1, _MOST_STEPS).astype(int))
        known, shares = known[chosen], shares[chosen]
    return np.repeat(known, 2), np.insert(np.repeat(shares, 2), 0, 0.0)[:-1]


def signed(value: float) -> str:
    """A difference in four places, with its sign."""
    return f"{value:+.4f}".replace("-", "−")  # noqa: RUF001 (a true minus sign)


def _metric_of(comparison: Comparison, metric: str | None) -> str:
    if metric is not None:
        check_one_of("metric", metric, comparison.metrics)
    return comparison.metrics[0] if metric is None else metric


def _counts(x: Floats, y: Floats, most: float) -> NDArray[np.int64]:
    """How many points fall into each cell of a grid from 0 to `most`."""
    edges = np.linspace(0.0, most, _CELLS + 1)
    return np.histogram2d(x, y, [edges, edges])[0].astype(np.int64)


def _cells(counts: NDArray[np.int64], highest: int, most: float) -> Iterator[Points]:
    """Squares that stand out the more, the more points fall into them, by five steps at most."""
    columns, rows = np.nonzero(counts)
    found = counts[columns, rows]
    bounds = np.unique(np.geomspace(1, highest + 1, 6).astype(int))
    middles = (np.arange(_CELLS) + 0.5) * most / _CELLS
    colours = density_colours(len(bounds) - 1)
    for colour, low, high in zip(colours, bounds[:-1], bounds[1:], strict=True):
        chosen = (found >= low) & (found < high)
        number = f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"
        name = f"{number} {'query' if number == '1' else 'queries'}"
        yield Points(middles[columns[chosen]].tolist(), middles[rows[chosen]].tolist(), name,
                     colour, "square", _SIDE / _CELLS / 1.8)  # fmt: skip

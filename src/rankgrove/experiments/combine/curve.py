"""A metric along a line: the numbers, a table of them, and a picture."""

from __future__ import annotations

from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from rankgrove.data.streams import format_and_compression, open_for_writing
from rankgrove.errors import ParameterError
from rankgrove.experiments.tables import csv_text
from rankgrove.metrics.base import Floats
from rankgrove.pictures.chart import Axis, Chart, Line, Panel, Rule
from rankgrove.pictures.display import Picture
from rankgrove.pictures.palette import DOWN

_COLUMNS, _HEIGHT = 624, 280


class Curve(NamedTuple):
    """The value of a metric along a line.

    Attributes
    ----------
    x
        Rising. Of a step function, where each step begins; the last one ends at `end`.
    values
        One for each x.
    names
        What x and the values are.
    end
        Where a step function ends; None for points that are joined by lines.
    mark
        The x that was chosen.
    """

    x: Floats
    values: Floats
    names: tuple[str, str]
    end: float | None = None
    mark: float | None = None

    def save(self, path: str | PathLike[str]) -> None:
        """Write a table, `.csv` or `.tsv`, or a picture, `.svg`; it appears whole or not at all."""
        kind, _ = format_and_compression(path)
        if kind == ".svg":
            content = self.to_svg()
        elif kind in (".csv", ".tsv"):
            rows = zip(self.x.tolist(), self.values.tolist(), strict=True)
            content = csv_text(self.names, rows, "," if kind == ".csv" else "\t")
        else:
            raise ParameterError(f"a curve must be saved as .csv, .tsv or .svg. Got '{path}'.")
        with open_for_writing(path) as stream:
            stream.write(content.encode())

    def plot(self, *, ax: Any = None) -> Picture:
        """A picture; `ax` are axes of matplotlib to draw into.

        Of a step function with more steps than pixels it has the range in each pixel.
        """
        x, y = self._points()
        marks: list[Line | Rule] = [Line(x.tolist(), y.tolist())]
        if self.mark is not None:
            marks.insert(0, Rule(self.mark, colour=DOWN))
        title = f"{self.names[1]} by {self.names[0]}"
        panel = Panel(title, Axis(self.names[0]), marks=marks, width=_COLUMNS, height=_HEIGHT)
        return Picture(Chart([panel], title)).drawn_into(ax)

    def to_svg(self) -> str:
        """The picture as SVG text."""
        return self.plot().to_svg()

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _points(self) -> tuple[Floats, Floats]:
        """The corners of the line to draw, a few for each pixel."""
        if self.end is None:
            return self.x, self.values
        if len(self.x) <= _COLUMNS:
            ends = np.append(self.x[1:], self.end)
            return np.column_stack([self.x, ends]).ravel(), np.repeat(self.values, 2)
        column = ((self.x - self.x[0]) / (self.end - self.x[0]) * _COLUMNS).astype(np.int64)
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        low = np.minimum.reduceat(self.values, starts)
        high = np.maximum.reduceat(self.values, starts)
        last = self.values[np.append(starts[1:], len(self.x)) - 1]
        heights = np.column_stack([self.values[starts], low, high, last]).ravel()
        x = np.repeat(self.x[starts], 4)
        return np.append(x, self.end), np.append(heights, self.values[-1])

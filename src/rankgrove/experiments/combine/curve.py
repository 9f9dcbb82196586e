"""A metric along a line: the numbers, a table of them, and a picture."""

from __future__ import annotations

import csv
import io
import math
from html import escape
from os import PathLike
from typing import NamedTuple

import numpy as np

from rankgrove.data.streams import format_and_compression, open_for_writing
from rankgrove.errors import ParameterError
from rankgrove.metrics.base import Floats

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 40, 50
_LINE, _MARK = "#2e7d32", "#c2571a"


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
            text = io.StringIO()
            rows = csv.writer(text, delimiter="," if kind == ".csv" else "\t", lineterminator="\n")
            rows.writerow(self.names)
            rows.writerows(zip(self.x.tolist(), self.values.tolist(), strict=True))
            content = text.getvalue()
        else:
            raise ParameterError(f"a curve must be saved as .csv, .tsv or .svg. Got '{path}'.")
        with open_for_writing(path) as stream:
            stream.write(content.encode())

    def to_svg(self) -> str:
        """A picture. Of a step function with more steps than pixels, the range in each pixel."""
        x, y = self._points()
        x_range, y_range = _range_of(x, 0.0), _range_of(y, 0.05)
        title = f"{self.names[1]} by {self.names[0]}"
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
            f'<text x="{_LEFT}" y="22">{escape(title)}</text>',
            f'<text x="{(_LEFT + _WIDTH - _RIGHT) // 2}" y="{_HEIGHT - 12}" '
            f'text-anchor="middle">{escape(self.names[0])}</text>',
        ]
        bottom = _HEIGHT - _BOTTOM
        for tick in _ticks(*y_range):
            at = _place(tick, y_range, bottom, _TOP)
            lines.append(
                f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/><text '
                f'x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:.6g}</text>'
            )
        for tick in _ticks(*x_range):
            at = _place(tick, x_range, _LEFT, _WIDTH - _RIGHT)
            lines.append(
                f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:.6g}</text>'
            )
        if self.mark is not None:
            at = _place(self.mark, x_range, _LEFT, _WIDTH - _RIGHT)
            lines.append(
                f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="{_MARK}" stroke-dasharray="4"/>'
            )
        places = zip(
            _place(x, x_range, _LEFT, _WIDTH - _RIGHT), _place(y, y_range, bottom, _TOP),
            strict=True,
        )  # fmt: skip
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        lines.append(f'<path d="M{path}" fill="none" stroke="{_LINE}" stroke-width="1.5"/>')
        return "\n".join([*lines, "</svg>", ""])

    def _points(self) -> tuple[Floats, Floats]:
        """The corners of the line to draw, a few for each pixel."""
        if self.end is None:
            return self.x, self.values
        columns = _WIDTH - _LEFT - _RIGHT
        if len(self.x) <= columns:
            ends = np.append(self.x[1:], self.end)
            return np.column_stack([self.x, ends]).ravel(), np.repeat(self.values, 2)
        column = ((self.x - self.x[0]) / (self.end - self.x[0]) * columns).astype(np.int64)
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        low = np.minimum.reduceat(self.values, starts)
        high = np.maximum.reduceat(self.values, starts)
        last = self.values[np.append(starts[1:], len(self.x)) - 1]
        heights = np.column_stack([self.values[starts], low, high, last]).ravel()
        x = np.repeat(self.x[starts], 4)
        return np.append(x, self.end), np.append(heights, self.values[-1])


def _range_of(values: Floats, margin: float) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = margin * (high - low)
    if high == low:
        room = 0.5 * abs(high) or 0.5
    return low - room, high + room


def _place(value: Floats | float, around: tuple[float, float], start: int, end: int) -> Floats:
    return np.asarray(start + (value - around[0]) / (around[1] - around[0]) * (end - start))


def _ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers in a range.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    unit = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(unit * factor for factor in (5, 2, 1) if (high - low) / (unit * factor) >= 4)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]

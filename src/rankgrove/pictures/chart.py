"""What a picture shows, as plain values: panels with axes, and marks at numbers.

A chart knows nothing of pixels or of a library: `svg` and `matplotlib_` draw the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from rankgrove.pictures.palette import AXIS, CANDIDATES, TEXT, Colour

Numbers = Sequence[float]
Dash = tuple[float, ...]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Line:
    """Points that are joined; where one is not finite, there is a gap.

    Attributes
    ----------
    name
        What the legend says; marks of one name have one entry, "" has none. So for all marks.
    dash
        Lengths of stroke and gap in pixels; () is drawn through.
    """

    x: Numbers
    y: Numbers
    name: str = ""
    colour: Colour = CANDIDATES[0]
    dash: Dash = ()
    width: float = 1.6

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return self.x, self.y


@dataclass(frozen=True)
class Points:
    """Points that are not joined.

    Attributes
    ----------
    shape
        "circle", "square", "triangle", "down" (a triangle that points down), "diamond" or "cross".
    size
        Half the width of one, in pixels.
    """

    x: Numbers
    y: Numbers
    name: str = ""
    colour: Colour = CANDIDATES[0]
    shape: str = "circle"
    size: float = 3.0
    opacity: float = 1.0

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return self.x, self.y


@dataclass(frozen=True)
class Bars:
    """Bars from `starts` to `ends`, upright or lying, each at its place on the other axis.

    Attributes
    ----------
    starts
        Where each begins; () is 0 for all. What stands on another bar begins at its end.
    thickness
        Of a bar, in the numbers of the axis that its place is on.
    errors
        How far the line at the end of each goes either way; () draws none.
    """

    places: Numbers
    ends: Numbers
    starts: Numbers = ()
    name: str = ""
    colour: Colour = CANDIDATES[0]
    thickness: float = 0.8
    lying: bool = False
    errors: Numbers = ()
    opacity: float = 1.0

    def begins(self) -> Numbers:
        return self.starts or [0.0] * len(self.ends)

    def error_lines(self) -> Segments:
        """The lines of the errors, at the ends of the bars."""
        low = [end - error for end, error in zip(self.ends, self.errors, strict=True)]
        high = [end + error for end, error in zip(self.ends, self.errors, strict=True)]
        sides = (low, self.places, high, self.places)
        x0, y0, x1, y1 = sides if self.lying else (self.places, low, self.places, high)
        return Segments(x0, y0, x1, y1, colour=TEXT, caps=True)

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        half = self.thickness / 2
        places = [place + side for place in self.places for side in (-half, half)]
        lengths = [*self.begins(), *self.ends]
        if self.errors:
            errors = self.error_lines()
            lengths += [*(errors.x0 if self.lying else errors.y0)]
            lengths += [*(errors.x1 if self.lying else errors.y1)]
        return (lengths, places) if self.lying else (places, lengths)


@dataclass(frozen=True)
class Band:
    """The area between two lines over the same x."""

    x: Numbers
    low: Numbers
    high: Numbers
    name: str = ""
    colour: Colour = CANDIDATES[0]
    opacity: float = 0.2

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return self.x, chain(self.low, self.high)


@dataclass(frozen=True)
class Segments:
    """Straight lines, each from (x0, y0) to (x1, y1); with `caps` there is a bar at both ends."""

    x0: Numbers
    y0: Numbers
    x1: Numbers
    y1: Numbers
    name: str = ""
    colour: Colour = CANDIDATES[0]
    dash: Dash = ()
    width: float = 1.5
    caps: bool = False

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return chain(self.x0, self.x1), chain(self.y0, self.y1)


@dataclass(frozen=True)
class Arrows:
    """Straight arrows, each from (x0, y0) to (x1, y1). The head grows with the length."""

    x0: Numbers
    y0: Numbers
    x1: Numbers
    y1: Numbers
    name: str = ""
    colour: Colour = CANDIDATES[0]
    dash: Dash = ()
    width: float = 2.0

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return chain(self.x0, self.x1), chain(self.y0, self.y1)


@dataclass(frozen=True)
class Text:
    """A text at a place.

    Attributes
    ----------
    anchor
        Which part of the text stands at x.
    shift
        By how many pixels it is moved, to the right and downwards.
    chip
        The colour of a chip under the text; None for none.
    """

    x: float
    y: float
    text: str
    colour: Colour = TEXT
    anchor: Anchor = "middle"
    shift: tuple[float, float] = (0.0, 0.0)
    size: float = 11.0
    bold: bool = False
    chip: Colour | None = None
    name: str = ""

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return (self.x,), (self.y,)


@dataclass(frozen=True)
class Rule:
    """A line across the whole panel at one number: of x if it is upright, else of y."""

    at: float
    upright: bool = True
    name: str = ""
    colour: Colour = AXIS
    dash: Dash = (4.0, 4.0)
    width: float = 1.0

    def reach(self) -> tuple[Iterable[float], Iterable[float]]:
        return ((self.at,), ()) if self.upright else ((), (self.at,))


Mark = Line | Points | Bars | Band | Segments | Arrows | Text | Rule


@dataclass(frozen=True)
class Axis:
    """One axis: linear.

    Attributes
    ----------
    title
        What its numbers are.
    low, high
        Where it begins and ends; None is what the marks need.
    names
        What stands in place of 0, 1, 2, …; () shows numbers. The axis then has room for all.
    margin
        The share of the range that is left free at both ends, where these are not given.
    backwards
        Whether it grows to the left or downwards: a rank of 1 stands above one of 2.
    shown
        Whether names or numbers stand along it.
    ticks
        Numbers with their texts, where round numbers will not do: those of a logarithm.
    """

    title: str = ""
    low: float | None = None
    high: float | None = None
    names: Sequence[str] = ()
    margin: float = 0.0
    backwards: bool = False
    shown: bool = True
    ticks: Sequence[tuple[float, str]] = ()

    def limits(self, values: Iterable[float]) -> tuple[float, float]:
        """The range: as given, or around the names or all finite values.

        >>> Axis(margin=0.5).limits([1.0, 3.0]), Axis(low=0).limits([1.0, 3.0])
        ((0.0, 4.0), (0.0, 3.0))
        >>> Axis(names=["a", "b"]).limits([])
        (-0.5, 1.5)
        """
        if self.names:
            low, high, room = -0.5, len(self.names) - 0.5, 0.0
        else:
            finite = [float(value) for value in values if math.isfinite(value)] or [0.0, 1.0]
            low, high = min(finite), max(finite)
            room = self.margin * (high - low)
            if high - low <= 1e-9 * max(abs(low), abs(high)):
                room = 0.5 * abs(high) or 0.5
        low = low - room if self.low is None else float(self.low)
        high = high + room if self.high is None else float(self.high)
        return (low, high) if low < high else (low - 0.5, low + 0.5)


@dataclass(frozen=True)
class Panel:
    """A title, two axes and what is between them; marks are drawn in their order.

    Attributes
    ----------
    width, height
        Of the room between the axes, in pixels.
    framed
        Whether the axes and the grid are drawn.
    """

    title: str = ""
    x: Axis = Axis()
    y: Axis = Axis(margin=0.05)
    marks: Sequence[Mark] = ()
    width: int = 320
    height: int = 220
    framed: bool = True

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Where x and y begin and end."""
        reaches = [mark.reach() for mark in self.marks]
        return (
            self.x.limits(chain.from_iterable(x for x, _ in reaches)),
            self.y.limits(chain.from_iterable(y for _, y in reaches)),
        )


@dataclass(frozen=True)
class Chart:
    """Panels side by side, in rows of so many, under one legend.

    Attributes
    ----------
    panels
        At least one.
    label
        What a screen reader says of the picture.
    note
        A line above the legend.
    """

    panels: Sequence[Panel]
    label: str
    note: str = ""
    columns: int = 3
    legend: bool = True

    def entries(self) -> dict[str, Mark]:
        """What the legend has: for each name the first mark that has it."""
        entries: dict[str, Mark] = {}
        for mark in self._marks():
            if mark.name and self.legend:
                entries.setdefault(mark.name, mark)
        return entries

    def _marks(self) -> Iterator[Mark]:
        return (mark for panel in self.panels for mark in panel.marks)


def stacked(
    places: Numbers,
    layers: Sequence[tuple[str, Numbers, Colour]],
    *,
    thickness: float = 0.8,
    lying: bool = False,
) -> list[Bars]:
    """Bars that stand on each other, from layers of name, lengths and colour.

    Lengths below 0 go down from 0, and stand on each other there.

    >>> one, two = stacked([0], [("a", [2.0], TEXT), ("b", [3.0], AXIS)])
    >>> one.ends, two.starts, two.ends
    ([2.0], [2.0], [5.0])
    """
    tops, bottoms = [0.0] * len(places), [0.0] * len(places)
    bars = []
    for name, lengths, colour in layers:
        starts = [
            bottom if length < 0 else top
            for length, top, bottom in zip(lengths, tops, bottoms, strict=True)
        ]
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        tops = [max(top, end) for top, end in zip(tops, ends, strict=True)]
        bottoms = [min(bottom, end) for bottom, end in zip(bottoms, ends, strict=True)]
        bars.append(Bars(places, ends, starts, name, colour, thickness, lying))
    return bars

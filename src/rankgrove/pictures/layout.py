"""Where panels stand in a picture, in pixels; there is no font to ask how wide a text is."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from typing import NamedTuple

from rankgrove.pictures.chart import Axis, Chart, Panel
from rankgrove.pictures.scales import Scale

FONT_SIZE = 12.0
# What is left free at the edges.
EDGE = 16
# What is left free above a panel, for its title, and below it, for numbers and the axis' title.
_ABOVE, _TITLE, _NUMBERS, _AXIS_TITLE = 14, 20, 24, 18


class Grid(NamedTuple):
    """The places of panels in columns and rows.

    Attributes
    ----------
    columns
        How many panels stand beside each other.
    widths, rooms
        Of each column: its width, and what of it is left free for names or numbers. What stands
        in one column begins at one place.
    heights, heads
        Of each row: its height, and what of it is left free above the panels.
    """

    columns: int
    widths: list[float]
    rooms: list[float]
    heights: list[float]
    heads: list[float]

    @classmethod
    def of(cls, chart: Chart) -> Grid:
        columns = min(chart.columns, len(chart.panels))
        by_column = [chart.panels[at::columns] for at in range(columns)]
        by_row = [chart.panels[at : at + columns] for at in range(0, len(chart.panels), columns)]
        rooms = [max(map(left_room, panels)) for panels in by_column]
        widths = [
            room + max(panel.width for panel in panels) + EDGE
            for room, panels in zip(rooms, by_column, strict=True)
        ]
        heads = [
            float(_ABOVE + (_TITLE if any(panel.title for panel in panels) else 0))
            for panels in by_row
        ]
        heights = [
            head + max(panel.height + below(panel) for panel in panels)
            for head, panels in zip(heads, by_row, strict=True)
        ]
        return cls(columns, widths, rooms, heights, heads)


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """About how wide a text is; signs of Chinese or Japanese and emoji take more room."""
    wide = sum(unicodedata.east_asian_width(sign) in "FW" for sign in text)
    return size * (0.56 * len(text) + 0.44 * wide)


def wrapped(text: str, width: float) -> list[str]:
    """A text in lines that a picture of this width has room for."""
    return textwrap.wrap(text, max(20, int((width - 2 * EDGE) / text_width("0"))))


def left_room(panel: Panel) -> float:
    """What is left free to the left of a panel: for names or numbers, and the title of the axis."""
    if not panel.framed and not panel.y.names:
        return EDGE
    texts = [text for _, text in ticks_of(panel.y, panel.limits()[1], panel.height, FONT_SIZE * 2)]
    widest = max([0.0, *map(text_width, texts)]) if panel.y.shown else 0.0
    return EDGE + widest + 8 + (_AXIS_TITLE if panel.y.title else 0)


def below(panel: Panel) -> float:
    """What is left free below a panel."""
    return (_NUMBERS if panel.x.shown else 4) + (_AXIS_TITLE if panel.x.title else 0)


def ticks_of(
    axis: Axis, limits: tuple[float, float], length: float, spacing: float
) -> list[tuple[float, str]]:
    """What stands along an axis of this length, with so much room for each."""
    if axis.ticks:
        return list(axis.ticks)
    if not axis.names:
        return Scale(*limits, 0, length).ticks(max(3, min(8, int(length / spacing))))
    step = max(1, math.ceil(len(axis.names) * spacing * 0.55 / length))
    return [(float(at), axis.names[at]) for at in range(0, len(axis.names), step)]

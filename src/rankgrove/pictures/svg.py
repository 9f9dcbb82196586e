"""A chart as SVG text: light, and dark where the reader prefers it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from html import escape

from rankgrove.pictures import layout, shapes
from rankgrove.pictures.chart import (
    Arrows,
    Band,
    Bars,
    Chart,
    Dash,
    Line,
    Mark,
    Panel,
    Points,
    Rule,
    Segments,
    Text,
)  # fmt: skip
from rankgrove.pictures.layout import EDGE, FONT_SIZE, text_width, ticks_of, wrapped
from rankgrove.pictures.palette import AXIS, GRID, GROUND, TEXT, Colour
from rankgrove.pictures.scales import Scale

# Control characters and halves of characters.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ROW = 18
_TICK = 4


@dataclass
class _Sheet:
    """The colours that a picture has used so far, each a class of its own."""

    classes: dict[tuple[str, Colour], str] = field(default_factory=dict)

    def stroke(self, colour: Colour) -> str:
        return self._of("stroke", colour)

    def fill(self, colour: Colour) -> str:
        return self._of("fill", colour)

    def _of(self, kind: str, colour: Colour) -> str:
        return self.classes.setdefault((kind, colour), f"{kind[0]}{len(self.classes)}")

    def style(self, scope: str) -> str:
        """The rules; each names the picture, so that they reach no other on the same page."""
        light, dark = (
            "\n".join(
                f".{scope} .{name} {{ {kind}: {colour[ground]} }}"
                for (kind, colour), name in self.classes.items()
            )
            for ground in (0, 1)
        )
        paths = f".{scope} path {{ fill: none; stroke-linejoin: round }}"
        dark = f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
        return f"<style>\n{paths}\n{light}\n{dark}\n</style>"


@dataclass(frozen=True)
class _Place:
    """Where a panel is: its two scales, from numbers to pixels."""

    x: Scale
    y: Scale

    def points(self, x: Iterable[float], y: Iterable[float]) -> Iterator[tuple[float, float]]:
        for a, b in zip(x, y, strict=True):
            yield self.x.place(a), self.y.place(b)


def draw(chart: Chart) -> str:
    """The picture as text.

    >>> text = draw(Chart([Panel(marks=[Line([0, 1], [2, 3])])], "A line"))
    >>> text.startswith("<svg "), 'aria-label="A line"' in text
    (True, True)
    """
    sheet = _Sheet()
    ground = sheet.fill(GROUND)
    grid = layout.Grid.of(chart)
    width = sum(grid.widths)
    parts, top = _legend(chart, sheet, width)
    for at, panel in enumerate(chart.panels):
        row, column = divmod(at, grid.columns)
        left = sum(grid.widths[:column]) + grid.rooms[column]
        above = top + sum(grid.heights[:row]) + grid.heads[row]
        parts += _panel(panel, left, above, sheet)
    top += sum(grid.heights)
    height = top + 6
    content = "".join(parts) + sheet.style("")
    scope = f"rg-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{scope}" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'style="max-width: 100%; height: auto" font-family="sans-serif" '
            f'font-size="{FONT_SIZE:g}" role="img" aria-label="{_sound(chart.label)}">',
            sheet.style(scope),
            f'<rect class="{ground}" width="{width:.0f}" height="{height:.0f}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _legend(chart: Chart, sheet: _Sheet, width: float) -> tuple[list[str], float]:
    """What stands above the panels, and where they may begin."""
    parts, y = [], 2.0
    for line in wrapped(chart.note, width):
        y += _ROW
        parts.append(_text(sheet, EDGE, y, line))
    x = math.inf
    for name, mark in chart.entries().items():
        if x + 34 + text_width(name) > width - EDGE:
            x, y = float(EDGE), y + _ROW
        parts += _sample(mark, x, y - 4, sheet)
        parts.append(_text(sheet, x + 30, y, name))
        x += 30 + text_width(name) + 20
    return parts, y + (6 if parts else 0)


def _sample(mark: Mark, x: float, y: float, sheet: _Sheet) -> Iterator[str]:
    """How a mark looks in the legend, 24 pixels wide."""
    place = _Place(Scale(0, 1, x, x + 24), Scale(0, 1, y + 5, y - 5))
    match mark:
        case Line() | Segments() | Arrows() | Rule():
            yield from _mark(
                Line([0, 1], [0.5, 0.5], "", mark.colour, mark.dash, mark.width), place, sheet
            )
        case Points():
            yield from _mark(replace(mark, x=[0.5], y=[0.5], opacity=1.0, size=4.0), place, sheet)
        case Bars() | Band():
            yield from _mark(Band([0.2, 0.8], [0, 0], [1, 1], "", mark.colour, mark.opacity),
                             place, sheet)  # fmt: skip
        case Text():
            yield from _mark(
                replace(mark, x=0.5, y=0.5, shift=(0, 0), anchor="middle"), place, sheet
            )


def _panel(panel: Panel, left: float, top: float, sheet: _Sheet) -> Iterator[str]:
    right, bottom = left + panel.width, top + panel.height
    x_limits, y_limits = panel.limits()
    across = Scale(*x_limits, *((right, left) if panel.x.backwards else (left, right)))
    up = Scale(*y_limits, *((top, bottom) if panel.y.backwards else (bottom, top)))
    if panel.title:
        yield _text(sheet, left, top - 10, panel.title, 'font-weight="bold"')
    yield from _axes(panel, across, up, (left, top, right, bottom), sheet)
    for mark in panel.marks:
        yield from _mark(mark, _Place(across, up), sheet)


def _axes(
    panel: Panel, across: Scale, up: Scale, box: tuple[float, float, float, float], sheet: _Sheet
) -> Iterator[str]:
    left, top, right, bottom = box
    axis, grid = sheet.stroke(AXIS), sheet.stroke(GRID)
    y_ticks = ticks_of(panel.y, (up.low, up.high), panel.height, FONT_SIZE * 2)
    widest = max([0.0, *(text_width(text) for _, text in y_ticks)]) if panel.y.shown else 0.0
    for value, text in y_ticks:
        y = up.place(value)
        if panel.framed and not panel.y.names:
            yield f'<path class="{grid}" d="M{left:.1f} {y:.1f}H{right:.1f}"/>'
        if panel.y.shown:
            yield _text(sheet, left - 6, y + 4, text, 'text-anchor="end"')
    longest = max([5, *map(len, panel.x.names)])
    spacing = text_width("0" * longest) / 0.55 + 12 if panel.x.names else 48.0
    for value, text in ticks_of(panel.x, (across.low, across.high), panel.width, spacing):
        x = across.place(value)
        if panel.framed and panel.y.names:
            yield f'<path class="{grid}" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>'
        elif panel.framed and panel.x.shown:
            yield f'<path class="{axis}" d="M{x:.1f} {bottom:.1f}v{_TICK}"/>'
        if panel.x.shown:
            yield _text(sheet, x, bottom + 18, text, 'text-anchor="middle"')
    if panel.framed:
        yield f'<path class="{axis}" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>'
    if panel.x.title:
        y = bottom + layout.below(panel) - 4
        yield _text(sheet, (left + right) / 2, y, panel.x.title, 'text-anchor="middle"')
    if panel.y.title:
        x, y = left - widest - 16, (top + bottom) / 2
        turned = f'text-anchor="middle" transform="rotate(-90 {x:.1f} {y:.1f})"'
        yield _text(sheet, x, y, panel.y.title, turned)


def _mark(mark: Mark, place: _Place, sheet: _Sheet) -> Iterator[str]:
    match mark:
        case Line():
            path = _joined(place.points(mark.x, mark.y))
            yield _stroke(sheet, path, mark.colour, mark.dash, mark.width)
        case Points():
            path = "".join(
                shapes.path(mark.shape, x, y, mark.size)
                for x, y in place.points(mark.x, mark.y)
                if math.isfinite(x) and math.isfinite(y)
            )
            yield _filled(sheet, path, mark.colour, mark.opacity)
        case Bars():
            yield from _bars(mark, place, sheet)
        case Band():
            upper = list(place.points(mark.x, mark.high))
            lower = list(place.points(mark.x, mark.low))
            path = "".join(map(_area, _runs(upper, lower)))
            yield _filled(sheet, path, mark.colour, mark.opacity)
        case Segments():
            ends = _ends(mark, place)
            path = "".join(shapes.segment(*end, caps=mark.caps) for end in ends)
            yield _stroke(sheet, path, mark.colour, mark.dash, mark.width)
        case Arrows():
            arrows = [shapes.arrow(*end, width=mark.width) for end in _ends(mark, place)]
            shafts = "".join(shaft for shaft, _ in arrows)
            yield _stroke(sheet, shafts, mark.colour, mark.dash, mark.width)
            yield _filled(sheet, "".join(head for _, head in arrows), mark.colour, 1.0)
        case Text():
            yield from _placed_text(mark, place, sheet)
        case Rule():
            (start, end), at = (
                ((place.y.start, place.y.end), place.x.place(mark.at))
                if mark.upright
                else ((place.x.start, place.x.end), place.y.place(mark.at))
            )
            path = (
                f"M{at:.1f} {start:.1f}V{end:.1f}" if mark.upright
                else f"M{start:.1f} {at:.1f}H{end:.1f}"
            )  # fmt: skip
            yield _stroke(sheet, path, mark.colour, mark.dash, mark.width)


def _bars(mark: Bars, place: _Place, sheet: _Sheet) -> Iterator[str]:
    half, paths = mark.thickness / 2, []
    for at, start, end in zip(mark.places, mark.begins(), mark.ends, strict=True):
        across, along = (place.y, place.x) if mark.lying else (place.x, place.y)
        a, b = across.place(at - half), across.place(at + half)
        c, d = along.place(start), along.place(end)
        if math.isfinite(c) and math.isfinite(d):
            paths.append(
                f"M{c:.1f} {a:.1f}H{d:.1f}V{b:.1f}H{c:.1f}Z" if mark.lying
                else f"M{a:.1f} {c:.1f}V{d:.1f}H{b:.1f}V{c:.1f}Z"
            )  # fmt: skip
    yield _filled(sheet, "".join(paths), mark.colour, mark.opacity)
    if mark.errors:
        yield from _mark(mark.error_lines(), place, sheet)


def _ends(mark: Segments | Arrows, place: _Place) -> Iterator[tuple[float, float, float, float]]:
    starts = place.points(mark.x0, mark.y0)
    for start, end in zip(starts, place.points(mark.x1, mark.y1), strict=True):
        if all(map(math.isfinite, (*start, *end))):
            yield (*start, *end)


def _joined(points: Iterable[tuple[float, float]]) -> str:
    """The commands of a path; after a gap the pen is set down anew."""
    commands, drawn = [], False
    for x, y in points:
        there = math.isfinite(x) and math.isfinite(y)
        if there:
            commands.append(f"{'L' if drawn else 'M'}{x:.1f} {y:.1f}")
        drawn = there
    return "".join(commands)


Pairs = list[tuple[float, float]]


def _runs(upper: Pairs, lower: Pairs) -> Iterator[tuple[Pairs, Pairs]]:
    """The stretches of a band in which both sides are finite."""
    start = 0
    for at in range(len(upper) + 1):
        there = at < len(upper) and all(map(math.isfinite, (*upper[at], *lower[at])))
        if not there:
            if at > start:
                yield upper[start:at], lower[start:at]
            start = at + 1


def _area(run: tuple[Pairs, Pairs]) -> str:
    return _joined([*run[0], *reversed(run[1])]) + "Z"


def _placed_text(mark: Text, place: _Place, sheet: _Sheet) -> Iterator[str]:
    x, y = place.x.place(mark.x) + mark.shift[0], place.y.place(mark.y) + mark.shift[1]
    if mark.chip is not None:
        wide = max(text_width(mark.text, mark.size) + 6, mark.size * 1.5)
        left = x - {"start": 3.0, "middle": wide / 2, "end": wide - 3.0}[mark.anchor]
        high = mark.size * 1.4
        yield (
            f'<rect class="{sheet.fill(mark.chip)} {sheet.stroke(AXIS)}" stroke-width="0.5" '
            f'x="{left:.1f}" y="{y - high / 2:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="3"/>'
        )
    attributes = f'text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    if mark.size != FONT_SIZE:
        attributes += f' font-size="{mark.size:g}"'
    if mark.bold:
        attributes += ' font-weight="bold"'
    yield _text(sheet, x, y + 0.35 * mark.size, mark.text, attributes.strip(), mark.colour)


def _stroke(sheet: _Sheet, path: str, colour: Colour, dash: Dash, width: float) -> str:
    dashes = f' stroke-dasharray="{" ".join(f"{part:g}" for part in dash)}"' if dash else ""
    return f'<path class="{sheet.stroke(colour)}" stroke-width="{width:g}" d="{path}"{dashes}/>'


def _filled(sheet: _Sheet, path: str, colour: Colour, opacity: float) -> str:
    seen = f' opacity="{opacity:g}"' if opacity < 1 else ""
    return f'<path class="{sheet.fill(colour)}" d="{path}"{seen}/>'


def _text(
    sheet: _Sheet, x: float, y: float, text: str, attributes: str = "", colour: Colour = TEXT
) -> str:
    space = " " if attributes else ""
    return (
        f'<text class="{sheet.fill(colour)}" x="{x:.1f}" y="{y:.1f}"{space}{attributes}>'
        f"{_sound(text)}</text>"
    )


def _sound(text: str) -> str:
    """Any text as XML takes it: what no XML may hold is shown as a question mark on a diamond."""
    return escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text))

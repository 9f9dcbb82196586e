"""Line charts as SVG: panels side by side, each with axes and ticks, and one legend above them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rankgrove.pictures.palette import N_COLOURS, style
from rankgrove.pictures.scales import Scale

# Room around a panel: for the numbers beside it, the title above it, the numbers below it.
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 32, 48
_ROW = 18
_DASHES = ("", "5 4", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Line:
    """Points that are joined; where one is not finite, there is a gap.

    Attributes
    ----------
    name
        What the legend says; lines of one name have one entry, "" has none.
    colour
        Which of the palette; past its end they come again, with other dashes.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A title, lines over a common x, and an x that is marked."""

    title: str
    x_title: str
    lines: Sequence[Line]
    mark: float | None = None
    width: int = 320
    height: int = 220


def draw(panels: Sequence[Panel], *, label: str, note: str = "") -> str:
    """The picture as text; `label` is what a screen reader says, `note` heads the legend."""
    named = {line.name: line for panel in panels for line in panel.lines if line.name}
    legend = [_text(16, 20, note)] if note else []
    for line in named.values():
        y = 20 + _ROW * len(legend)
        legend.append(f"{_stroke(f'M16 {y - 4}h22', line.colour)}{_text(44, y, line.name)}")
    top = _TOP + _ROW * len(legend) + (12 if legend else 0)
    parts, left = legend, 0
    for panel in panels:
        parts += _panel(panel, left + _LEFT, top)
        left += _LEFT + panel.width + _RIGHT
    height = top + max(panel.height for panel in panels) + _BOTTOM
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {left} {height}" '
            f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(label)}">',
            style(),
            f'<rect class="ground" width="{left}" height="{height}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, left: int, top: int) -> Iterator[str]:
    right, bottom = left + panel.width, top + panel.height
    across = Scale.around((x for line in panel.lines for x in line.x), left, right)
    values = (y for line in panel.lines for y in line.y)
    up = Scale.around(values, bottom, top, margin=0.05)
    yield _text(left, top - 12, panel.title, 'font-weight="bold"')
    yield _text(left + panel.width / 2, bottom + 38, panel.x_title, 'text-anchor="middle"')
    for value, text in up.ticks():
        y = up.place(value)
        yield f'<path class="grid" d="M{left} {y:.1f}H{right}"/>'
        yield _text(left - 6, y + 4, text, 'text-anchor="end"')
    for value, text in across.ticks(most=max(2, panel.width // 60)):
        x = across.place(value)
        yield f'<path class="axis" d="M{x:.1f} {bottom}v4"/>'
        yield _text(x, bottom + 18, text, 'text-anchor="middle"')
    yield f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>'
    if panel.mark is not None:
        x = across.place(panel.mark)
        yield f'<path class="c1" d="M{x:.1f} {top}V{bottom}" stroke-dasharray="4"/>'
    for line in panel.lines:
        yield _stroke(_path(line, across, up), line.colour, line.dashed)


def _path(line: Line, across: Scale, up: Scale) -> str:
    """The commands of a path; after a gap the pen is set down anew."""
    commands, drawn = [], False
    for x, y in zip(line.x, line.y, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            commands.append(f"{'L' if drawn else 'M'}{across.place(x):.1f} {up.place(y):.1f}")
        drawn = math.isfinite(x) and math.isfinite(y)
    return "".join(commands)


def _stroke(path: str, colour: int, dashed: bool = False) -> str:
    around, place = divmod(colour, N_COLOURS)
    dash = _DASHES[(2 * around + dashed) % len(_DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="line c{place}" d="{path}"{dashes}/>'


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'

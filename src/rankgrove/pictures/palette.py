"""The colours of all pictures, on a light and on a dark ground.

Lines are told apart by most people who are colour-blind, and stand out from the ground by 3 to 1 or
more, as WCAG asks of graphics. The light ones begin with those of Okabe and Ito (2008).
"""

from __future__ import annotations

from typing import NamedTuple


class Palette(NamedTuple):
    """Colours on one ground."""

    ground: str
    text: str
    axis: str
    grid: str
    lines: tuple[str, ...]


LIGHT = Palette(
    "#ffffff", "#1f1f1f", "#5f5f5f", "#dddddd",
    ("#0072b2", "#d55e00", "#009e73", "#882255", "#5a4a00", "#222222"),
)  # fmt: skip
DARK = Palette(
    "#161616", "#ececec", "#a0a0a0", "#3a3a3a",
    ("#56b4e9", "#ff8c42", "#2fd6a1", "#cc79a7", "#f0e442", "#ffffff"),
)  # fmt: skip
N_COLOURS = len(LIGHT.lines)


def style() -> str:
    """The style sheet of a picture: light, and dark where the reader prefers it."""
    dark = f"@media (prefers-color-scheme: dark) {{\n{_rules(DARK)}\n}}"
    shapes = ".chart .line { fill: none; stroke-width: 1.5; stroke-linejoin: round }"
    return f"<style>\n{shapes}\n{_rules(LIGHT)}\n{dark}\n</style>"


def _rules(palette: Palette) -> str:
    rules = [
        f".chart .ground {{ fill: {palette.ground} }}",
        f".chart text {{ fill: {palette.text} }}",
        f".chart .axis {{ fill: none; stroke: {palette.axis} }}",
        f".chart .grid {{ stroke: {palette.grid} }}",
    ]
    rules += [f".chart .c{at} {{ stroke: {name} }}" for at, name in enumerate(palette.lines)]
    return "\n".join(rules)

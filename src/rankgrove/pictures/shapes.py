"""Shapes in pixels, as commands of an SVG path."""

from __future__ import annotations

import math

from rankgrove.errors import unknown_name

# Half the width of the bar at the end of a segment.
_CAP = 3.0
# An arrow shorter than this has no head: it would look longer than it is.
_SHORTEST = 1.5

_CORNERS = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle": ((0.0, -1.15), (1.05, 0.8), (-1.05, 0.8)),
    "down": ((0.0, 1.15), (-1.05, -0.8), (1.05, -0.8)),
    "diamond": ((0.0, -1.25), (1.05, 0.0), (0.0, 1.25), (-1.05, 0.0)),
    "cross": (
        (-1.0, -0.35), (-0.35, -0.35), (-0.35, -1.0), (0.35, -1.0), (0.35, -0.35), (1.0, -0.35),
        (1.0, 0.35), (0.35, 0.35), (0.35, 1.0), (-0.35, 1.0), (-0.35, 0.35), (-1.0, 0.35),
    ),
}  # fmt: skip
NAMES = ("circle", *_CORNERS)


def path(shape: str, x: float, y: float, size: float) -> str:
    """One point of a shape.

    >>> path("square", 10.0, 10.0, 1.0)
    'M9.1 9.1L10.9 9.1L10.9 10.9L9.1 10.9Z'
    """
    if shape == "circle":
        return f"M{x - size:.1f} {y:.1f}a{size:g} {size:g} 0 1 0 {2 * size:g} 0a{size:g} {size:g} 0 1 0 {-2 * size:g} 0Z"  # noqa: E501
    if shape not in _CORNERS:
        raise unknown_name("the shape of points", shape, NAMES)
    return _polygon([(x + size * a, y + size * b) for a, b in _CORNERS[shape]])


def segment(x0: float, y0: float, x1: float, y1: float, *, caps: bool) -> str:
    """A line, with a bar across both ends where caps are asked for."""
    line = f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
    if not caps:
        return line
    length = math.hypot(x1 - x0, y1 - y0)
    across = (0.0, 1.0) if length == 0 else (-(y1 - y0) / length, (x1 - x0) / length)
    a, b = _CAP * across[0], _CAP * across[1]
    return line + "".join(
        f"M{x - a:.1f} {y - b:.1f}L{x + a:.1f} {y + b:.1f}" for x, y in ((x0, y0), (x1, y1))
    )


def head_size(length: float) -> float:
    """How long the head of an arrow is; it grows with the arrow, so that small ones look small."""
    return min(6.0, 1.5 + length / 8)


def arrow(x0: float, y0: float, x1: float, y1: float, *, width: float) -> tuple[str, str]:
    """An arrow as two paths: its shaft to stroke and its head to fill; a short one is a dash."""
    length = math.hypot(x1 - x0, y1 - y0)
    if length < _SHORTEST:
        return f"M{x0 - 2:.1f} {y0:.1f}L{x0 + 2:.1f} {y0:.1f}", ""
    ahead = (x1 - x0) / length, (y1 - y0) / length
    head = min(head_size(length), length)
    half = max(0.75 * head, 0.75 * width)
    neck = x1 - head * ahead[0], y1 - head * ahead[1]
    corners = [
        (x1, y1),
        (neck[0] - half * ahead[1], neck[1] + half * ahead[0]),
        (neck[0] + half * ahead[1], neck[1] - half * ahead[0]),
    ]
    return f"M{x0:.1f} {y0:.1f}L{neck[0]:.1f} {neck[1]:.1f}", _polygon(corners)


def _polygon(corners: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z"

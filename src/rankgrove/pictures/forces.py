"""A ranked list with the forces on its documents: one arrow per document, from its row.

Arrows stand in lanes, lane = rank modulo 6, and the longest is 5.4 rows long: so two arrows of one
lane that point the same way never meet. Those that point up stand in the left half of the lane and
those that point down in its right half, so that these do not meet either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rankgrove.pictures.chart import Arrows, Axis, Mark, Panel, Segments, Text
from rankgrove.pictures.palette import AXIS, DOWN, GRID, UP, label_colours, text_on

LANES = 6
# The length of the longest arrow, in rows.
LONGEST = 5.4
# How far from the middle of its lane an arrow stands, in lanes.
_HALF = 0.25

_LANE_PIXELS, _ROW_PIXELS = 20, 20
# How wide the list is, in lanes: ranks, chips, and names if there are any.
_RANKS, _CHIPS, _NAMES, _GAP = 1.5, 1.9, 5.0, 0.5
_NAME_LETTERS = 13


class Arrow(NamedTuple):
    """One arrow: its place across, in lanes, and the rows where it starts and ends."""

    x: float
    start: float
    end: float


@dataclass(frozen=True)
class Documents:
    """What the list shows of each document, the first rank first.

    Attributes
    ----------
    labels
        The grade of each.
    grades
        All grades that there are, rising: they share the steps of one colour.
    names
        What each is called; () shows none.
    """

    labels: Sequence[float]
    grades: Sequence[float]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Pushes:
    """The forces of one objective on the documents, the first rank first.

    Attributes
    ----------
    name
        The objective.
    longest
        The force that the longest arrow stands for.
    note
        What is said below, besides the scale.
    """

    name: str
    forces: Sequence[float]
    longest: float
    note: str = ""


def arrow_of(rank: int, force: float, longest: float) -> Arrow:
    """The arrow of a document.

    >>> arrow_of(7, 1.0, 2.0)
    Arrow(x=0.75, start=7, end=4.3)
    """
    length = LONGEST * force / longest if longest > 0 else 0.0
    side = _HALF if force > 0 else -_HALF
    return Arrow(rank % LANES - side, rank, rank - length)


def ranked_lists(
    titles: Sequence[str], lists: Sequence[tuple[Documents, Sequence[Pushes]]]
) -> list[Panel]:
    """A panel for each list; the same rank is at the same height in all of them."""
    arrows = [_arrows(pushes) for _, pushes in lists]
    ends = [arrow.end for blocks in arrows for block in blocks for arrow in block]
    n_rows = max(len(documents.labels) for documents, _ in lists)
    limits = min([0.0, *ends]) - 1.3, max([n_rows + 0.5, *ends]) + 1.6
    return [
        _ranked_list(title, documents, pushes, blocks, limits)
        for title, (documents, pushes), blocks in zip(titles, lists, arrows, strict=True)
    ]


def _arrows(pushes: Sequence[Pushes]) -> list[list[Arrow]]:
    return [
        [arrow_of(rank, force, push.longest) for rank, force in enumerate(push.forces, 1)]
        for push in pushes
    ]


def _ranked_list(
    title: str,
    documents: Documents,
    pushes: Sequence[Pushes],
    arrows: Sequence[Sequence[Arrow]],
    limits: tuple[float, float],
) -> Panel:
    """The list with the arrows of one objective at its right, or of several around it."""
    n_rows, n_left = len(documents.labels), int(len(pushes) > 1)
    start = n_left * (LANES + _GAP)
    wide = _RANKS + _CHIPS + (_NAMES if documents.names else 0.0)
    places = [at * (LANES + _GAP) + (0.0 if at < n_left else wide) for at in range(len(pushes))]
    across = len(pushes) * (LANES + _GAP) + wide
    marks: list[Mark] = [_guides(places, n_rows)]
    for x, push, block in zip(places, pushes, arrows, strict=True):
        marks += _block(x, push, block, limits)
    marks += _list(start, documents)
    top, bottom = limits
    return Panel(
        title, Axis(low=0.0, high=across, shown=False),
        Axis(low=top, high=bottom, backwards=True, shown=False), marks,
        round(across * _LANE_PIXELS), round((bottom - top) * _ROW_PIXELS), framed=False,
    )  # fmt: skip


def _guides(places: Sequence[float], n_rows: int) -> Segments:
    """A thin line for each row, from the list to its arrow."""
    rows = [rank for _ in places for rank in range(1, n_rows + 1)]
    starts = [x for x in places for _ in range(n_rows)]
    ends = [x + LANES for x in starts]
    return Segments(starts, rows, ends, rows, colour=GRID, width=0.7)


def _block(
    x: float, push: Pushes, arrows: Sequence[Arrow], limits: tuple[float, float]
) -> Iterable[Mark]:
    """The arrows of one objective, its name above and its scale below."""
    top, bottom = limits
    middle = x + LANES / 2
    yield Text(middle, top + 0.4, push.name, bold=True)
    for name, colour, going in (
        ("pushed up", UP, [arrow for arrow in arrows if arrow.end < arrow.start]),
        ("pushed down", DOWN, [arrow for arrow in arrows if arrow.end > arrow.start]),
    ):
        places = [x + 0.5 + arrow.x for arrow in going]
        starts, ends = [arrow.start for arrow in going], [arrow.end for arrow in going]
        if going:
            yield Arrows(places, starts, places, ends, name, colour)
    still = [arrow for arrow in arrows if arrow.end == arrow.start]
    if still:
        places, rows = [x + 0.5 + arrow.x for arrow in still], [arrow.start for arrow in still]
        yield Segments([at - 0.1 for at in places], rows, [at + 0.1 for at in places], rows,
                       colour=AXIS)  # fmt: skip
    yield Text(middle, bottom - 0.9, f"longest arrow: {push.longest:.3g}", AXIS)
    if push.note:
        yield Text(middle, bottom - 0.2, push.note, AXIS)


def _list(x: float, documents: Documents) -> Iterable[Mark]:
    """Rank, chip with the grade, and name of each document."""
    colours = dict(zip(documents.grades, label_colours(len(documents.grades)), strict=True))
    has_names = bool(documents.names)
    yield Text(x + _RANKS - 0.25, 0, "rank", AXIS, "end", size=9.0)
    yield Text(x + _RANKS + _CHIPS / 2 - 0.25, 0, "label", AXIS, size=9.0)
    for at, label in enumerate(documents.labels):
        colour = colours[label]
        yield Text(x + _RANKS - 0.25, at + 1, str(at + 1), AXIS, "end")
        yield Text(
            x + _RANKS + _CHIPS / 2 - 0.25, at + 1, f"{label:g}", text_on(colour), chip=colour
        )
        if has_names:
            name = documents.names[at]
            shown = name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "\u2026"
            yield Text(x + _RANKS + _CHIPS, at + 1, shown, anchor="start")

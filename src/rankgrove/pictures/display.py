"""What a plotting function gives: numbers that are computed once and drawn at will."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from rankgrove.errors import refusal
from rankgrove.pictures import matplotlib_, svg
from rankgrove.pictures.chart import Chart
from rankgrove.writing import open_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BY_MATPLOTLIB = (".png", ".pdf")
FORMATS = (".svg", *BY_MATPLOTLIB)


class Display(ABC):
    """A picture and its numbers. A notebook shows it; `plot` draws it by matplotlib.

    Attributes
    ----------
    ax_, figure_
        What `plot` has drawn into: axes, or a list of them where there are several panels.
    """

    ax_: Axes | list[Axes]
    figure_: Figure

    @abstractmethod
    def chart(self) -> Chart:
        """The picture as plain values."""

    def to_svg(self) -> str:
        """The picture as SVG text: light, and dark where the reader prefers it."""
        return svg.draw(self.chart())

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: `.svg`, or by matplotlib `.png` or `.pdf`; whole or not at all."""
        content = content_of(self.chart(), path)
        with open_whole(path) as stream:
            stream.write(content)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Self:
        """Draw by matplotlib, which the extra `plot` installs.

        Parameters
        ----------
        ax
            Axes to draw into, one for each panel; by default those of a new figure.
        """
        chart = self.chart()
        drawn = (
            matplotlib_.draw_figure(chart, managed=True) if ax is None
            else matplotlib_.draw(chart, ax)
        )  # fmt: skip
        self.ax_ = drawn[0] if len(drawn) == 1 else drawn
        self.figure_ = matplotlib_.figure_of(drawn[0])
        return self

    def drawn_into(self, ax: Axes | Sequence[Axes] | None) -> Self:
        """Itself, drawn into axes if there are any."""
        return self if ax is None else self.plot(ax)


class Picture(Display):
    """A picture whose numbers are kept by what it was made from."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart

    def chart(self) -> Chart:
        return self._chart


def check_format(path: str | os.PathLike[str]) -> str:
    """The suffix of a picture's file; refused if no such picture can be made."""
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in FORMATS:
        raise refusal("path", f"end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}", os.fspath(path))
    return suffix


def content_of(chart: Chart, path: str | os.PathLike[str]) -> bytes:
    """The bytes of a picture in the format that a path names; the same chart, the same bytes."""
    suffix = check_format(path)
    if suffix not in BY_MATPLOTLIB:
        return svg.draw(chart).encode()
    figure = matplotlib_.figure_of(matplotlib_.draw_figure(chart, managed=False)[0])
    stream = io.BytesIO()
    dated = {"CreationDate": None} if suffix == ".pdf" else {}
    figure.savefig(stream, format=suffix[1:], metadata=dated)
    return stream.getvalue()

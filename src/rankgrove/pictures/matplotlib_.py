"""The same chart by matplotlib, for those who lay out papers; it is imported when asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rankgrove.errors import need_extra, refusal
from rankgrove.pictures.chart import (
    Arrows,
    Axis,
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
from rankgrove.pictures.layout import EDGE, FONT_SIZE, Grid, text_width, wrapped
from rankgrove.pictures.palette import AXIS, GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 100
_POINTS_PER_PIXEL = 72 / _DOTS_PER_INCH
_MARKERS = {
    "circle": "o", "square": "s", "triangle": "^", "down": "v", "diamond": "D", "cross": "P",
}  # fmt: skip
_ALIGNMENT = {"start": "left", "middle": "center", "end": "right"}


def draw_figure(chart: Chart, *, managed: bool) -> list[Axes]:
    """Draw a figure of its own; a managed one is shown by notebooks and windows."""
    make: Callable[..., Figure]
    try:
        import matplotlib as mpl  # noqa: PLC0415 (an extra)

        if managed:
            from matplotlib import pyplot  # noqa: PLC0415

            make = pyplot.figure
        else:
            from matplotlib import figure  # noqa: PLC0415

            make = figure.Figure
    except ImportError:
        raise need_extra("matplotlib", "plot", "plot") from None
    grid = Grid.of(chart)
    width = sum(grid.widths)
    lines = math.ceil(len(chart.entries()) / _beside(chart, width))
    height = sum(grid.heights) + 20 * (lines + len(wrapped(chart.note, width)))
    with mpl.rc_context({"font.size": _POINTS_PER_PIXEL * FONT_SIZE}):
        made = make(
            figsize=(width / _DOTS_PER_INCH, height / _DOTS_PER_INCH), dpi=_DOTS_PER_INCH,
            layout="constrained",
        )  # fmt: skip
        places = made.add_gridspec(
            len(grid.heights), grid.columns,
            width_ratios=[w - room for w, room in zip(grid.widths, grid.rooms, strict=True)],
            height_ratios=grid.heights,
        )  # fmt: skip
        axes = [made.add_subplot(places[divmod(at, grid.columns)])
                for at in range(len(chart.panels))]  # fmt: skip
        return draw(chart, axes, own_figure=True)


def draw(chart: Chart, ax: Axes | Sequence[Axes], *, own_figure: bool = False) -> list[Axes]:
    """Draw into axes: one for each panel. In a figure of its own the legend stands above them."""
    axes: list[Any] = [ax] if hasattr(ax, "plot") else list(ax)
    if len(axes) != len(chart.panels):
        raise refusal("ax", f"be one for each panel, {len(chart.panels)}", got=str(len(axes)))
    handles: dict[str, Any] = {}
    for panel, one in zip(chart.panels, axes, strict=True):
        _panel(panel, one)
        drawn, names = one.get_legend_handles_labels()
        handles = dict(zip(names, drawn, strict=True)) | handles
    entries = {name: handles[name] for name in chart.entries() if name in handles}
    if not entries and not chart.note:
        return axes
    width = sum(Grid.of(chart).widths)
    title = "\n".join(wrapped(chart.note, width)) or None
    look = {"title": title, "fontsize": "medium", "title_fontsize": "medium", "alignment": "left"}
    if own_figure:
        place = {"loc": "outside upper left", "ncols": _beside(chart, width), "frameon": False}
        legend: Any = figure_of(axes[0]).legend
        legend(entries.values(), entries, **place, **look)
    else:
        axes[0].legend(entries.values(), entries, **look)
    return axes


def figure_of(ax: Any) -> Figure:
    """The whole figure that axes stand in, also those of a part of a figure."""
    figure: Figure = ax.figure.figure
    return figure


def _beside(chart: Chart, width: float) -> int:
    """How many names stand beside each other in a legend above the panels."""
    longest = max([1.0, *map(text_width, chart.entries())])
    return max(1, int((width - EDGE) / (longest + 60)))


def _panel(panel: Panel, ax: Axes) -> None:
    ax.set_title(panel.title, loc="left", fontsize="medium", fontweight="bold")
    named: set[str] = set()
    for mark in panel.marks:
        _mark(mark, ax, mark.name if mark.name and mark.name not in named else None)
        named.add(mark.name)
    for axis, limits, side in zip((panel.x, panel.y), panel.limits(), ("x", "y"), strict=True):
        _axis(axis, limits, side, ax)
    if not panel.framed:
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.tick_params(length=0)
    else:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(visible=True, axis="x" if panel.y.names else "y", color=GRID.light)
        ax.set_axisbelow(True)


def _axis(axis: Axis, limits: tuple[float, float], side: str, ax: Axes) -> None:
    getattr(ax, f"set_{side}lim")(*(reversed(limits) if axis.backwards else limits))
    getattr(ax, f"set_{side}label")(axis.title)
    if not axis.shown:
        getattr(ax, f"set_{side}ticks")([])
    elif axis.ticks:
        places, texts = zip(*axis.ticks, strict=True)
        getattr(ax, f"set_{side}ticks")(places, _plain(texts))
    elif axis.names:
        getattr(ax, f"set_{side}ticks")(range(len(axis.names)), _plain(axis.names))


def _plain(texts: Sequence[str]) -> list[str]:
    """Texts as they are: a dollar sign would begin a formula."""
    return [text.replace("$", r"\$") for text in texts]


def _line_style(dash: Dash) -> Any:
    return (0, dash) if dash else "-"


def _mark(mark: Mark, ax: Axes, label: str | None) -> None:
    colour = mark.colour.light
    match mark:
        case Line():
            ax.plot(mark.x, mark.y, color=colour, linestyle=_line_style(mark.dash),
                    linewidth=mark.width, label=label)  # fmt: skip
        case Points():
            ax.scatter(mark.x, mark.y, s=(1.5 * mark.size) ** 2, c=colour, alpha=mark.opacity,
                       marker=_MARKERS[mark.shape], linewidths=0, clip_on=False,
                       label=label)  # fmt: skip
        case Bars():
            _bars(mark, ax, label)
        case Band():
            ax.fill_between(mark.x, mark.low, mark.high, color=colour, alpha=mark.opacity,
                            linewidth=0, label=label)  # fmt: skip
        case Segments():
            _segments(mark, ax, label)
        case Arrows():
            for x0, y0, x1, y1 in zip(mark.x0, mark.y0, mark.x1, mark.y1, strict=True):
                style = {"arrowstyle": "-|>", "color": colour, "linewidth": mark.width}
                style |= {"linestyle": _line_style(mark.dash), "shrinkA": 0, "shrinkB": 0}
                ax.annotate("", (x1, y1), (x0, y0), arrowprops=style)
            if label:
                ax.plot([], [], color=colour, linewidth=mark.width, label=label)
        case Text():
            _text(mark, ax)
        case Rule():
            across = ax.axvline if mark.upright else ax.axhline
            across(mark.at, color=colour, linestyle=_line_style(mark.dash), linewidth=mark.width,
                   label=label)  # fmt: skip


def _bars(mark: Bars, ax: Axes, label: str | None) -> None:
    lengths = [end - start for start, end in zip(mark.begins(), mark.ends, strict=True)]
    draw_bars: Any = ax.barh if mark.lying else ax.bar
    side = {"left" if mark.lying else "bottom": mark.begins()}
    draw_bars(mark.places, lengths, mark.thickness, color=mark.colour.light, alpha=mark.opacity,
              label=label, **side)  # fmt: skip
    if mark.errors:
        _segments(mark.error_lines(), ax, None)


def _segments(mark: Segments, ax: Axes, label: str | None) -> None:
    from matplotlib.collections import LineCollection  # noqa: PLC0415 (an extra)

    ends = [
        ((x0, y0), (x1, y1))
        for x0, y0, x1, y1 in zip(mark.x0, mark.y0, mark.x1, mark.y1, strict=True)
    ]
    style = _line_style(mark.dash)
    ax.add_collection(LineCollection(ends, colors=mark.colour.light, linewidths=mark.width,
                                     linestyles=[style], label=label))  # fmt: skip
    if mark.caps:
        upright = all(start[0] == end[0] for start, end in ends)
        places = [place for pair in ends for place in pair]
        ax.plot([x for x, _ in places], [y for _, y in places], color=mark.colour.light,
                linestyle="", marker="_" if upright else "|", markersize=6)  # fmt: skip


def _text(mark: Text, ax: Axes) -> None:
    box = None
    if mark.chip is not None:
        box = {"boxstyle": "round,pad=0.25", "facecolor": mark.chip.light, "linewidth": 0.5,
               "edgecolor": AXIS.light}  # fmt: skip
    shift = _POINTS_PER_PIXEL * mark.shift[0], -_POINTS_PER_PIXEL * mark.shift[1]
    [text] = _plain([mark.text])
    ax.annotate(
        text, (mark.x, mark.y), xytext=shift, textcoords="offset points", va="center",
        ha=_ALIGNMENT[mark.anchor], fontsize=_POINTS_PER_PIXEL * mark.size,
        fontweight="bold" if mark.bold else "normal", color=mark.colour.light, bbox=box,
    )  # fmt: skip

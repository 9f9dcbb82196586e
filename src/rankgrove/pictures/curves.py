"""The learning curves of one run of training: what it measured after each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Points
from rankgrove.pictures.palette import candidate


def history_chart(
    history: Mapping[str, Mapping[str, Sequence[float]]],
    kept: int = 0,
    note: str = "",
    *,
    kept_name: str = "kept",
) -> Chart | None:
    """A panel per metric and a line per data set; None where nothing was measured.

    Parameters
    ----------
    history
        For each data set, for each metric, its value after each step.
    kept
        How many steps are kept: a point marks the last of them; 0 marks none.
    note
        A line above the curves.
    kept_name
        What the legend calls the point.

    Examples
    --------
    >>> chart = history_chart({"train": {"map": [0.1, 0.3]}, "valid": {"map": [0.1, 0.2]}}, kept=2)
    >>> [panel.y.title for panel in chart.panels], list(chart.entries())
    (['map'], ['train', 'valid', 'kept'])
    """
    metrics = dict.fromkeys(metric for values in history.values() for metric in values)
    panels = []
    for metric in metrics:
        lines: list[Mark] = []
        points: list[Mark] = []
        for number, (name, curves) in enumerate(history.items()):
            values = curves.get(metric, ())
            if not len(values):
                continue
            look = candidate(number)
            steps = range(1, len(values) + 1)
            lines.append(Line(steps, values, name, look.colour, look.dash))
            if 0 < kept <= len(values):
                at = [kept], [values[kept - 1]]
                points.append(Points(*at, kept_name, look.colour, look.shape, 4.5))
        if lines:
            axes = Axis("steps of training"), Axis(metric, margin=0.05)
            panels.append(Panel("", *axes, [*lines, *points], 300, 200))
    return Chart(panels, "Learning curves", note) if panels else None

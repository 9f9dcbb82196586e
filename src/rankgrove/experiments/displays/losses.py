"""The cost of one pair of documents, and how hard it pulls them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankgrove.errors import is_number, refusal
from rankgrove.metrics.base import Floats, show_number
from rankgrove.pictures.chart import Axis, Chart, Line, Panel, Rule
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import candidate

_REACH, _POINTS = 5.0, 101


@dataclass
class PairLossDisplay(Display):
    """The pairwise logistic loss, and its derivative, by sigma.

    Attributes
    ----------
    margins
        The score of the better document less that of the worse.
    losses
        For each sigma, log(1 + exp(-sigma margin)).
    derivatives
        For each sigma, the derivative by the score of the better document,
        -sigma / (1 + exp(sigma margin)): minus the force on it.
    """

    margins: Floats
    losses: dict[float, Floats]
    derivatives: dict[float, Floats]

    def chart(self) -> Chart:
        across = Axis("score of the better document less that of the worse")
        panels = []
        for title, curves in (("loss", self.losses), ("derivative", self.derivatives)):
            lines = [
                Line(self.margins.tolist(), values.tolist(), f"sigma {show_number(sigma)}",
                     *candidate(number)[:2])
                for number, (sigma, values) in enumerate(curves.items())
            ]  # fmt: skip
            panels.append(Panel(title, across, marks=[Rule(0.0), *lines], width=340))
        return Chart(panels, "The pairwise logistic loss and its derivative by sigma")


def plot_pair_loss(sigmas: Sequence[float] = (0.5, 1, 2), *, ax: Any = None) -> PairLossDisplay:
    """The cost of a pair and its derivative, by the difference of the two scores.

    Parameters
    ----------
    sigmas
        How steep the logistic function is, above 0.
    ax
        Two axes of matplotlib to draw into.

    Examples
    --------
    >>> display = plot_pair_loss([2.0])
    >>> middle = len(display.margins) // 2
    >>> float(display.losses[2.0][middle].round(4)), float(display.derivatives[2.0][middle])
    (0.6931, -1.0)
    """
    given = list(sigmas)
    if not given or not all(is_number(sigma) and 0 < sigma < np.inf for sigma in given):
        raise refusal("sigmas", "be numbers above 0", given)
    margins = np.linspace(-_REACH, _REACH, _POINTS)
    losses = {float(s): np.logaddexp(0.0, -s * margins) for s in given}
    derivatives = {float(s): -s / (1.0 + np.exp(s * margins)) for s in given}
    return PairLossDisplay(margins, losses, derivatives).drawn_into(ax)

"""What distilling gives: the small model, what it loses and what it gains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

from rankgrove.experiments.compare.comparison import Comparison, Pair
from rankgrove.experiments.tables import aligned
from rankgrove.model.model import Model

TEACHER, STUDENT = "teacher", "student"


@dataclass(frozen=True, eq=False)
class Distilled:
    """One small model that was fitted to the scores of a large one, and how the two compare.

    Prints as a table. All figures are of the documents held out.

    Attributes
    ----------
    model
        The student, a model of trees; its notes say what it was distilled from.
    comparison
        Metrics of both by labels, with a paired test; None where labels do not differ.
    agreement
        Kendall's tau between the student's ranking and the teacher's, in the mean of queries.
    explained
        The share of the variance of the teacher's scores within queries that the student's have.
    speed
        Microseconds a document of "teacher" and "student", one query at a time on one thread.
    sizes
        Trees, leaves and weights of networks of both.
    interrupted
        Whether Ctrl-C ended training before its last tree.
    """

    model: Model
    comparison: Comparison | None
    agreement: float
    explained: float
    speed: dict[str, float]
    sizes: dict[str, dict[str, int]]
    interrupted: bool = False

    def save(self, path: str | PathLike[str]) -> None:
        """Write the student to a model file."""
        self.model.save(path)

    @property
    def lost(self) -> dict[str, Pair]:
        """By metric, the student less its teacher: difference, interval and two-sided p-value."""
        if self.comparison is None:
            return {}
        found = {}
        for metric in self.comparison.metrics:
            (pair,) = self.comparison.pairs(metric)
            found[metric] = pair
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite is None."""
        comparison = None if self.comparison is None else self.comparison.to_dict(pairs=True)
        return {
            "comparison": comparison,
            "agreement": _finite(self.agreement),
            "explained": _finite(self.explained),
            "microseconds_a_document": dict(self.speed),
            "sizes": {name: dict(size) for name, size in self.sizes.items()},
            "interrupted": self.interrupted,
        }

    def __str__(self) -> str:
        metrics = () if self.comparison is None else self.comparison.metrics
        header = ["", *metrics, "µs a document", "trees", "leaves", "weights"]
        rows = [
            [name, *(f"{mean:.4f}" for mean in self._means(name)),
             f"{self.speed[name]:.3g}", *(f"{size:,}" for size in self.sizes[name].values())]
            for name in (TEACHER, STUDENT)
        ]  # fmt: skip
        return "\n".join([aligned(header, rows), "", *self._sentences()])

    def _means(self, name: str) -> list[float]:
        """The mean of each metric, of the teacher or the student."""
        if self.comparison is None:
            return []
        tables = map(self.comparison.summary, self.comparison.metrics)
        return [row.mean for rows in tables for row in rows if row.name == name]

    def _sentences(self) -> list[str]:
        lines = [
            f"{metric}: {pair.difference:+.4f}, 95 % interval {pair.low:+.4f} to {pair.high:+.4f}, "
            f"p {pair.p:.2g} (paired t-test)"
            for metric, pair in self.lost.items()
        ]
        if not lines:
            lines = ["No metric is measured: labels of the documents held out do not differ."]
        times = self.speed[TEACHER] / self.speed[STUDENT]
        return [
            *lines,
            f"The rankings agree by a tau of {self.agreement:.3f}; "
            f"{self.explained:.1%} of the variance of scores is explained.",
            f"The student takes 1/{times:.1f} of the time." if times >= 1
            else f"The student takes {1 / times:.1f} times as long.",
        ]  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

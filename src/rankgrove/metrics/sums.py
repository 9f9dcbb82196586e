"""Metrics made of others: a weighted sum of several, and one of a further label.

    term [+ term …]      term: [weight *] metric [of label]

"ndcg@10 + 0.3*map" is the value of the one and 0.3 times that of the other, query by query, and
"ndcg@10 of clicks" is NDCG with the labels that the data call clicks (`Dataset.more_labels`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankgrove.errors import ParameterError, is_number
from rankgrove.metrics.base import Floats, Metric, Rankings, show_number
from rankgrove.metrics.forms import Form

# A metric with its weight in a sum.
Part = tuple[Metric, float]


@dataclass(frozen=True, kw_only=True, repr=False)
class MetricSum(Metric):
    """A weighted sum of metrics (Svore et al. 2011): M = sum over parts of weight * M_part.

    The value of a query is the sum of its values. A part for which the query is empty adds 0, as it
    puts no force on its documents; a query that is empty for every part is left out. Ties, cut-offs
    and empty queries are those of each part.

    Build one with `parse_metric({"ndcg@10": 1, "map": 0.3})`.

    >>> import numpy as np
    >>> from rankgrove.metrics.spec import parse_metric
    >>> both = parse_metric("mrr + 0.5*precision@1")
    >>> both.per_query(Rankings([0, 1, 1, 0], [2.0, 1.0, 2.0, 1.0], [0, 2, 4])).tolist()
    [0.5, 1.5]
    """

    parts: tuple[Part, ...]

    name: ClassVar[str] = "sum"
    title: ClassVar[str] = "a weighted sum of metrics"
    formula: ClassVar[str] = "sum of weight * metric"
    reference: ClassVar[str] = "Svore, Volkovs and Burges 2011"
    has_cutoff: ClassVar[bool] = False
    expected_ties: ClassVar[str] = "those of its parts"

    def __post_init__(self) -> None:
        super().__post_init__()
        seen: set[Metric] = set()
        for metric, weight in self.parts:
            if not is_number(weight) or not math.isfinite(weight) or weight <= 0:
                raise ParameterError(
                    f"the weight of {metric} in a sum of metrics must be a finite number above 0. "
                    f"Got {weight!r}: leave the metric out, or give it a weight."
                )
            if metric in seen:
                raise ParameterError(
                    f"a sum of metrics must name each once. Got {metric} twice: add its weights."
                )
            seen.add(metric)
        by_labels = all(metric.skips_by_labels for metric, _ in self.parts)
        object.__setattr__(self, "skips_by_labels", by_labels)

    @classmethod
    def of(cls, weighted: Iterable[tuple[Metric, Any]]) -> Metric:
        """The sum of metrics with these weights; one alone that counts 1 is itself."""
        parts: list[Part] = []
        for metric, weight in weighted:
            if isinstance(metric, MetricSum) and is_number(weight):
                parts += [(inner, weight * factor) for inner, factor in metric.parts]
            else:
                parts.append((metric, weight))
        if not parts:
            raise ParameterError("a sum of metrics must name at least one. Got none.")
        checked = cls(parts=tuple(parts))
        (first, weight), *others = checked.parts
        return first if weight == 1 and not others else checked

    def per_query(self, rankings: Rankings) -> Floats:
        total = np.zeros(rankings.n_queries)
        counts = np.zeros(rankings.n_queries, dtype=np.bool_)
        for metric, weight in self.parts:
            values = metric.per_query(rankings)
            counts |= ~np.isnan(values)
            total += weight * np.nan_to_num(values)
        return np.where(counts, total, np.nan)

    def _compute(self, rankings: Rankings) -> Floats:
        return self.per_query(rankings)

    def plan(self, rankings: Rankings) -> None:
        for metric, _ in self.parts:
            metric.plan(rankings)

    def check_labels(self, rankings: Rankings) -> None:
        for metric, _ in self.parts:
            metric.check_labels(rankings)

    def check_grades(self, rankings: Rankings) -> None:
        for metric, _ in self.parts:
            metric.check_grades(rankings)

    def __str__(self) -> str:
        return " + ".join(
            str(metric) if weight == 1 else f"{show_number(weight)}*{metric}"
            for metric, weight in self.parts
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class OfLabel(Metric):
    """A metric of a further label: that of `metric`, with the labels that the data call `label`.

    Build one with `parse_metric("ndcg@10 of clicks")`.

    >>> from rankgrove.metrics.spec import parse_metric
    >>> rankings = Rankings([1, 0], [1.0, 2.0], [0, 2], more_labels={"clicks": [0, 1]})
    >>> parse_metric("mrr").per_query(rankings).tolist()
    [0.5]
    >>> parse_metric("mrr of clicks").per_query(rankings).tolist()
    [1.0]
    """

    metric: Metric
    label: str

    name: ClassVar[str] = "of"
    title: ClassVar[str] = "a metric of a further label"
    formula: ClassVar[str] = "metric of the label of this name"
    reference: ClassVar[str] = "that of the metric"
    expected_ties: ClassVar[str] = "those of the metric"

    def __post_init__(self) -> None:
        if isinstance(self.metric, (MetricSum, OfLabel)):
            raise ParameterError(
                f"a metric of a label must be a single one. Got {self.metric} of {self.label}: "
                f"write the label after each."
            )
        for name in ("k", "ties", "empty", "skips_by_labels"):
            object.__setattr__(self, name, getattr(self.metric, name))

    def per_query(self, rankings: Rankings) -> Floats:
        return self.metric.per_query(rankings.of_label(self.label))

    def _compute(self, rankings: Rankings) -> Floats:
        return self.per_query(rankings)

    def plan(self, rankings: Rankings) -> None:
        self.metric.plan(rankings.of_label(self.label))

    def check_labels(self, rankings: Rankings) -> None:
        self.metric.check_labels(rankings.of_label(self.label))

    def check_grades(self, rankings: Rankings) -> None:
        self.metric.check_grades(rankings.of_label(self.label))

    def form(self, rankings: Rankings) -> Form | None:
        return self.metric.form(rankings.of_label(self.label))

    def form_of_pairs(self, rankings: Rankings, truncation: int | None) -> Form | None:
        return self.metric.form_of_pairs(rankings.of_label(self.label), truncation)

    def of_orders(self, lists: Floats) -> Floats:
        return self.metric.of_orders(lists)

    def fill_deltas(self, labels: Floats, depth: int, neighbours: int, out: Floats) -> None:
        self.metric.fill_deltas(labels, depth, neighbours, out)

    def swap_deltas(self, ranked_labels: Any) -> Floats:
        return self.metric.swap_deltas(ranked_labels)

    def __str__(self) -> str:
        return f"{self.metric} of {self.label}"


def parts_of(metric: Metric) -> tuple[Part, ...]:
    """The metrics that a metric is the weighted sum of: itself alone, unless it is a sum."""
    return metric.parts if isinstance(metric, MetricSum) else ((metric, 1.0),)

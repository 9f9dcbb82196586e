"""Constraints of training: metrics that must not fall below a bound, as parameters have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankgrove.errors import is_number, refusal
from rankgrove.metrics.base import Metric
from rankgrove.metrics.spec import parse_metric, split_arguments
from rankgrove.metrics.sums import MetricSum, parts_of
from rankgrove.objectives.base import Objective
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.objectives.summed import by_metric
from rankgrove.rules import options_of

Bounds = dict[Metric, float]


def parse_constraints(text: str) -> dict[str, float]:
    """Bounds by metric.

    >>> parse_constraints("map(relevant>=2) >= 0.45, mrr >= 0.6")
    {'map(relevant>=2)': 0.45, 'mrr': 0.6}
    """
    bounds: dict[str, float] = {}
    for entry in split_arguments(text):
        name, _, number = entry.rpartition(">=")
        try:
            bound = float(number)
        except ValueError:
            name = ""
        if not name.strip() or name.strip() in bounds:
            rule = "be METRIC >= NUMBER, each metric once, with commas between"
            raise refusal("constraints", rule, got=repr(entry))
        bounds[name.strip()] = bound
    return bounds


def bounds_of(constraints: Any) -> Bounds:
    """The bounds of constraints by metric; what breaks a rule is refused.

    >>> bounds_of({"map": 0.45})
    {parse_metric('map'): 0.45}
    """
    if constraints is None:
        return {}
    if not isinstance(constraints, Mapping) or not constraints:
        rule = "be a mapping of metrics to the values that they must not fall below, or None"
        raise refusal("constraints", rule, constraints)
    bounds: Bounds = {}
    for spec, bound in constraints.items():
        metric = parse_metric(spec)
        if isinstance(metric, MetricSum):
            rule = "be of single metrics"
            raise refusal("constraints", rule, got=str(metric), advice="give each its own bound")
        if metric in bounds:
            raise refusal("constraints", "name each metric once", got=f"{metric} twice")
        if not is_number(bound) or not math.isfinite(bound):
            raise refusal(f"the bound of {metric} in constraints", "be a finite number", bound)
        bounds[metric] = float(bound)
    return bounds


def check_constraints(constraints: Any, objective: Objective) -> None:
    """Refuse constraints that an objective cannot optimise, or has as its metric already."""
    bounds = bounds_of(constraints)
    if bounds and "metric" not in options_of(type(objective)):
        able = [name for name, kind in OBJECTIVES.items() if "metric" in options_of(kind)]
        raise refusal(
            "constraints", f"be used with an objective of a metric: {', '.join(able)}",
            got=objective.name, advice="name one of them, or give a metric to maximise",
        )  # fmt: skip
    for metric in bounds:
        if metric in [part for part, _ in parts_of(objective.metric)]:  # type: ignore[attr-defined]
            rule = "name other metrics than the one that is maximised"
            raise refusal("constraints", rule, got=str(metric))
        by_metric(objective, metric)

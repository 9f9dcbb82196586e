"""What a notebook shows of a model: what it is, what it measured, the features that count most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankgrove.errors import is_number
from rankgrove.pictures import html, svg
from rankgrove.pictures.curves import history_chart

if TYPE_CHECKING:
    from rankgrove.model.base import ScoringModel

_FEATURES_SHOWN = 5


def model_html(model: ScoringModel, plan: Mapping[str, Any]) -> str:
    """The model as HTML: a table, and the learning curves if training measured something.

    Parameters
    ----------
    model
        Any model.
    plan
        What its parameters came to.
    """
    parts = [html.table((), _facts(model, plan.get("objective")), left=(0, 1))]
    measured = [
        [name, metric, f"{value:.4f}"]
        for name, values in model.final_metrics().items()
        for metric, value in values.items()
    ]
    if measured:
        parts.append(html.table(["measured on", "metric", "at the end"], measured, left=(0, 1)))
    chart = history_chart(model.history, model.n_kept_steps)
    if chart is not None:
        parts.append(svg.draw(chart))
    return "\n".join(parts)


def _facts(model: ScoringModel, objective: Any) -> Iterator[list[str]]:
    yield [model.noun.removeprefix("a "), f"by Rankgrove {model.version}"]
    if objective is not None:
        name = objective.get("name") if isinstance(objective, dict) else objective
        yield ["objective", str(name)]
    hidden = {"kind", "version", "feature_names", "needs_base_scores", "levels"}
    for name, value in model.describe().items():
        if name not in hidden and is_number(value) and value:
            yield [name.replace("_", " "), f"{value:,}"]
    if model.schema.needs_base_scores:
        yield ["base scores", "needed to score: it was trained on top of such"]
    if strongest := strongest_features(model):
        yield ["strongest features", ", ".join(strongest)]


def strongest_features(model: Any) -> list[str]:
    """The features with the largest share in the gain of a model of trees, with these shares."""
    if not hasattr(model, "ensemble"):
        return []
    gains = model.importance("gain")
    order = np.argsort(-gains, kind="stable")[:_FEATURES_SHOWN]
    names, total = model.feature_names, gains.sum()
    return [f"{names[at]} ({gains[at] / total:.0%})" for at in order if gains[at] > 0]

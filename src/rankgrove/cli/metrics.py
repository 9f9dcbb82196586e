# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove metrics`: what can be measured, from the registry of metrics."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from rankgrove.cli.console import DIM, make_table, show, show_json, titled
from rankgrove.cli.options import Json

if TYPE_CHECKING:
    from rankgrove.metrics.base import Metric

TIE_POLICIES = {
    "worst": "the less relevant document first: a tie counts against the model",
    "best": "the more relevant document first",
    "stable": "the order of the rows",
    "expected": "the exact mean over all orders of the tied documents",
    "document_id": "by document id, descending, as trec_eval; needs document ids",
}
EMPTY_POLICIES = {"skip": "left out of the mean", "zero": "counts as 0", "one": "counts as 1"}


def metrics(
    name: Annotated[str | None, typer.Argument(help="Show all of this one: ndcg.")] = None,
    json: Json = False,
) -> None:
    """List the metrics and their policies, or show all of one.

    Write them as: ndcg@10   map@100(ties=expected, relevant>=2)   err(r/4)
    ndcg@10 + 0.3*map   ndcg@10 of clicks
    """
    from rankgrove.metrics.spec import METRICS, PRESETS

    chosen = METRICS if name is None else {m.name: m for m in [_find(name)]}
    if json:
        presets = {
            preset: {m: p for m, p in known.items() if m in chosen}
            for preset, known in PRESETS.items()
        }
        policies = {"ties": TIE_POLICIES, "empty": EMPTY_POLICIES}
        described = [_describe(metric) for metric in chosen.values()]
        show_json({"metrics": described, **policies, "presets": presets})
    elif name is None:
        _show_all(list(chosen.values()))
    else:
        _show_one(next(iter(chosen.values())))


def _find(name: str) -> type[Metric]:
    """The metric of a name or alias, with or without cut-off and arguments."""
    from rankgrove.errors import unknown_name
    from rankgrove.metrics.spec import METRICS

    wanted = name.lower().partition("@")[0].partition("(")[0].strip()
    for metric in METRICS.values():
        if wanted in (metric.name, *metric.aliases):
            return metric
    raise unknown_name("metric", name, METRICS)


def _describe(metric: type[Metric]) -> dict[str, Any]:
    return {
        "name": metric.name,
        "aliases": list(metric.aliases),
        "title": metric.title,
        "formula": metric.formula,
        "has_cutoff": metric.has_cutoff,
        "parameters": {
            field.name: field.default
            for field in fields(metric)
            if metric.has_cutoff or field.name != "k"
        },
        "expected_ties": metric.expected_ties,
        "reference": metric.reference,
    }


def _parameters(metric: type[Metric], values: dict[str, Any]) -> str:
    shown = [metric.show_parameter(name, value) for name, value in values.items() if name != "k"]
    cutoff = [f"@{values['k'] or 'k'}"] if "k" in values else []
    return ", ".join(cutoff + shown)


def _show_all(metrics: list[type[Metric]]) -> None:
    from rankgrove.metrics.spec import PRESETS

    table = make_table("metric", "what it is, its formula, its parameters and their defaults")
    for metric in metrics:
        what = Text(metric.title)
        if metric.aliases:
            what.append(f" (also: {', '.join(metric.aliases)})")
        what.append(f"\n{metric.formula}", style=DIM)
        what.append(f"\n{_parameters(metric, _describe(metric)['parameters'])}", style=DIM)
        table.add_row(metric.name, what)
    rows = ([preset, ", ".join(known)] for preset, known in PRESETS.items())
    presets = make_table("preset", "metrics with the policies of that tool", rows=rows)
    show(table, "", *_policy_tables(), "", presets, "")
    show(
        "Write them as: ndcg@10   map@100(ties=expected, relevant>=2)   err(r/4)",
        "A weighted sum: ndcg@10 + 0.3*map   By a further label: ndcg@10 of clicks",
        "See all of one, and what a preset makes of it: rankgrove metrics ndcg",
    )


def _show_one(metric: type[Metric]) -> None:
    from rankgrove.metrics.spec import PRESETS

    rows = [
        *([("also", ", ".join(metric.aliases))] if metric.aliases else []),
        ("formula", metric.formula),
        ("parameters", _parameters(metric, _describe(metric)["parameters"])),
        ("ties=expected", metric.expected_ties),
        ("reference", metric.reference),
    ]
    for preset, known in PRESETS.items():
        if metric.name in known:
            rows.append((f"preset {preset}", _parameters(metric, known[metric.name])))
    table = make_table("", "", rows=rows)
    show(titled(metric.name, metric.title), "", table, "", *_policy_tables())


def _policy_tables() -> list[RenderableType]:
    ties = "what is done among documents of equal score"
    empty = "what a query without a relevant document (or pair) is worth"
    return [
        make_table("ties=", ties, rows=TIE_POLICIES.items()),
        "",
        make_table("empty=", empty, rows=EMPTY_POLICIES.items()),
    ]

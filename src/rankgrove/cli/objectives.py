# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove objectives`: what can be trained, from the registry of objectives."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from rankgrove.cli.console import DIM, heading, make_table, show, show_json
from rankgrove.cli.options import Json

if TYPE_CHECKING:
    from rankgrove.objectives.base import Objective


def objectives(
    name: Annotated[str | None, typer.Argument(help="Show all of this one: yetirank.")] = None,
    json: Json = False,
) -> None:
    """List the objectives with formula and reference, or show all of one."""
    from rankgrove.errors import unknown_name
    from rankgrove.objectives.registry import OBJECTIVES

    if name is not None and name.lower() not in OBJECTIVES:
        raise unknown_name("objective", name, OBJECTIVES)
    chosen = list(OBJECTIVES.values()) if name is None else [OBJECTIVES[name.lower()]]
    if json:
        show_json({"objectives": [_describe(objective) for objective in chosen]})
    elif name is None:
        table = make_table("objective", "what it is, its formula, its parameters and defaults")
        for objective in chosen:
            what = Text(objective.title)
            what.append(f"\n{objective.formula}", style=DIM)
            what.append(f"\n{objective.reference}", style=DIM)
            if own := _parameters(objective):
                what.append(f"\n{own}", style=DIM)
            table.add_row(objective.name, what)
        show(
            table,
            "",
            "Train with one: rankgrove train TRAIN --objective yetiloss --metric ndcg@10 -o MODEL",
            "See all of one, and what its parameters mean: rankgrove objectives yetirank",
        )
    else:
        _show_one(chosen[0])


def _describe(objective: type[Objective]) -> dict[str, Any]:
    # Some defaults follow from others.
    made = objective()
    return {
        "name": objective.name,
        "title": objective.title,
        "formula": objective.formula,
        "reference": objective.reference,
        "parameters": {
            field.name: field.default if field.name == "metric" else getattr(made, field.name)
            for field in fields(objective)
        },
    }


def _parameters(objective: type[Objective]) -> str:
    own = _describe(objective)["parameters"]
    return ", ".join(f"{name}={_shown(value)}" for name, value in own.items())


def _shown(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"{value}"


def _show_one(objective: type[Objective]) -> None:
    from rankgrove.cli.parameters import described

    table = make_table("", "")
    table.add_row("formula", objective.formula)
    table.add_row("reference", objective.reference)
    title = heading(objective.name)
    title.append(f"  {objective.title}", style="not bold")
    show(title, "", table)
    own = _describe(objective)["parameters"]
    if own:
        options = make_table("option", "default", "what it means")
        for name, value in own.items():
            options.add_row(f"--{name.replace('_', '-')}", _shown(value), described(name))
        show("", options)

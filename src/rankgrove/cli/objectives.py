# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove objectives`: what can be trained, from the registry of objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from rankgrove.cli.console import DIM, make_table, show, show_json, titled
from rankgrove.cli.options import Json
from rankgrove.cli.parameters import option_name, option_text

if TYPE_CHECKING:
    from rankgrove.rules import Option


def objectives(
    name: Annotated[str | None, typer.Argument(help="Show all of this one: yetirank.")] = None,
    json: Json = False,
) -> None:
    """List the objectives with formula and reference, or show all of one."""
    from rankgrove.errors import unknown_name
    from rankgrove.objectives.registry import OBJECTIVES
    from rankgrove.training.network_parameters import FORCES_OF

    known = (*OBJECTIVES, *FORCES_OF)
    if name is not None and name.lower() not in known:
        raise unknown_name("objective", name, known)
    described = [_describe(one) for one in (known if name is None else [name.lower()])]
    if json:
        show_json({"objectives": described})
    elif name is not None:
        _show_one(described[0])
    else:
        table = make_table("objective", "what it is, its formula, its parameters and defaults")
        for entry in described:
            lines = [entry["formula"], entry["reference"]]
            defaults = entry["parameters"].items()
            lines += [", ".join(f"{key}={_shown(value)}" for key, value in defaults)]
            text = Text(entry["title"])
            text.append("".join(f"\n{line}" for line in lines if line), style=DIM)
            table.add_row(entry["name"], text)
        show(
            table,
            "",
            "Train with one: rankgrove train TRAIN --objective yetiloss --metric ndcg@10 -o MODEL",
            "See all of one, and what its parameters mean: rankgrove objectives yetirank",
        )


def _describe(name: str) -> dict[str, Any]:
    from rankgrove.objectives.registry import OBJECTIVES
    from rankgrove.training.network_parameters import FORCES_OF

    kind = OBJECTIVES[FORCES_OF.get(name, name)]
    # Some defaults follow from others.
    made = kind()
    title = f"a network with the forces of {kind.title}" if name in FORCES_OF else kind.title
    return {
        "name": name,
        "title": title,
        "formula": kind.formula,
        "reference": kind.reference,
        "parameters": {
            key: entry.default if key == "metric" else getattr(made, key)
            for key, entry in _options(name).items()
        },
    }


def _options(name: str) -> dict[str, Option]:
    """The parameters of an objective; of a network those that it hands on."""
    from rankgrove.objectives.registry import OBJECTIVES
    from rankgrove.rules import options_of
    from rankgrove.training.network_parameters import FORCES_OF, NetworkParameters

    known = options_of(NetworkParameters)
    options = options_of(OBJECTIVES[FORCES_OF.get(name, name)])
    return {key: entry for key, entry in options.items() if name not in FORCES_OF or key in known}


def _shown(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"{value}"


def _show_one(entry: dict[str, Any]) -> None:
    table = make_table("", "", rows=[(key, entry[key]) for key in ("formula", "reference")])
    show(titled(entry["name"], entry["title"]), "", table)
    if options := _options(entry["name"]):
        rows = (
            [option_name(name), _shown(value), option_text(options[name].meaning, options)]
            for name, value in entry["parameters"].items()
        )
        show("", make_table("option", "default", "what it means", rows=rows))

# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove export`: a model as a file that another program scores with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from rankgrove.cli.console import make_table, show, show_json
from rankgrove.cli.files import check_outputs
from rankgrove.cli.models import load_model, read_for_model
from rankgrove.cli.options import Json, Reading, argument, option, takes, takes_reading
from rankgrove.errors import ParameterError

_PANEL = "Options of formats"


@dataclass(frozen=True)
class FormatOptions:
    """The options of all formats; None leaves one to the format."""

    operator: Annotated[
        str | None,
        option("3|5", "onnx: the operator for trees; 5 has scores of float64.", panel=_PANEL),
    ] = None
    dialect: Annotated[
        str | None, option("sqlite|postgres|duckdb", "sql: the database.", panel=_PANEL)
    ] = None
    table: Annotated[
        str | None, option("NAME", "sql: the table whose rows are scored.", panel=_PANEL)
    ] = None

    name: Annotated[
        str | None,
        option(
            "NAME",
            "elasticsearch-ltr, solr: what the model is called there; java: its class.",
            panel=_PANEL,
        ),
    ] = None
    feature_set: Annotated[
        str | None,
        option("NAME", "elasticsearch-ltr: the feature set that the model takes.", panel=_PANEL),
    ] = None
    store: Annotated[
        str | None,
        option("NAME", "solr: the feature store that the model takes.", panel=_PANEL),
    ] = None

    @property
    def chosen(self) -> dict[str, Any]:
        """Those that are given."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@takes_reading
@takes("options", FormatOptions)
def export(
    model: Annotated[Path | None, argument("MODEL", "A model file, from 'train'.")] = None,
    out: Annotated[Path | None, argument("OUT", "The file to write.")] = None,
    to: Annotated[
        str | None,
        option("FORMAT", "The format, as listed by --list, unless the name of OUT says it."),
    ] = None,
    check: Annotated[
        Path | None,
        option("DATA", "Check with this data file, not with documents made from the model."),
    ] = None,
    n_trees: Annotated[int | None, option("N", "Export the first trees only.")] = None,
    list_formats: Annotated[
        bool, option(None, "Show what each format is for, holds, rounds and refuses.", "--list")
    ] = False,
    json: Json = False,
    *,
    options: FormatOptions,
    reading: Reading,
) -> None:
    """Write a model as a file for another program, and check that it scores alike.

    rankgrove export model.safetensors model.onnx --check test.txt

    rankgrove export model.safetensors model.txt --to lightgbm

    rankgrove export --list
    """
    if list_formats:
        _show_formats(json)
        return
    if model is None or out is None:
        raise ParameterError("MODEL and OUT must be given. Got none: or see --list.")
    from rankgrove.export.check import check_table
    from rankgrove.export.export import export_model

    check_outputs([model, check], {"out": out})
    trained = load_model(model)
    data = None if check is None else read_for_model(trained, check, reading)
    made = export_model(trained, out, to, data, n_trees, **options.chosen)
    if json:
        show_json({"model": model, "data": check, **made.describe()})
        return
    header, rows = check_table(made.checks)
    show(made.summary, make_table(*header, rows=rows, numeric=1), *made.remarks)


def _show_formats(as_json: bool) -> None:
    from rankgrove.export.formats import EXPORT_FORMATS

    if as_json:
        show_json({"formats": [entry.describe() for entry in EXPORT_FORMATS.values()]})
        return
    rows = [
        (entry.name, f"for {entry.purpose}\nexact: {entry.exact}\nrounds: {entry.rounds}\n"
         f"refuses: {entry.refuses}")
        for entry in EXPORT_FORMATS.values()
    ]  # fmt: skip
    show(make_table("format", "what it is for, holds, rounds and refuses", rows=rows))

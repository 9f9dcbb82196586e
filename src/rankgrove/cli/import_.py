# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove import`: a model of LightGBM, XGBoost or CatBoost becomes one of Rankgrove."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, make_table, show, show_json
from rankgrove.cli.files import check_outputs
from rankgrove.cli.options import Json, Reading, argument, option, takes_reading
from rankgrove.errors import DataError

if TYPE_CHECKING:
    from rankgrove.importing.check import ImportCheck
    from rankgrove.model.model import Model


@takes_reading
def import_(
    source: Annotated[
        Path, argument("SOURCE", "A model of LightGBM (text), XGBoost or CatBoost (JSON).")
    ],
    out: Annotated[Path, option("MODEL", "The model file to write.", "--out", "-o")],
    kind: Annotated[
        str | None,
        option(
            "LIBRARY",
            "lightgbm, xgboost or catboost; by default the content of SOURCE tells.",
            "--from",
        ),
    ] = None,
    check: Annotated[
        Path | None,
        option(
            "DATA",
            "Compare the scores of these documents with those of the library; by default those of "
            "documents made from the thresholds of the model.",
        ),
    ] = None,
    no_check: Annotated[bool, option(None, "Compare nothing.", "--no-check")] = False,
    n_rounds: Annotated[
        int | None, option("N", "Take the trees of the first rounds only.", "--n-rounds")
    ] = None,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Turn a model of LightGBM, XGBoost or CatBoost into one of Rankgrove.

    Its scores are compared with those of the library, if that is installed.

    rankgrove import lightgbm.txt -o model.safetensors --check test.txt
    """
    from rankgrove.importing.foreign import IMPORTED
    from rankgrove.importing.importer import import_model

    check_outputs([source, check], {"out": out})
    model = import_model(source, kind, n_rounds=n_rounds)
    compared = None if no_check else _compared(model, source, check, reading)
    if compared is not None and not compared.passed:
        raise DataError(
            f"{source}: must score as {compared.library} does, within {compared.bound:.2g}. Got a "
            f"difference of {compared.difference:.2g}, so nothing was written: please report it."
        )
    model.save(out)
    origin = model.notes[IMPORTED]
    if json:
        checked = None if compared is None else asdict(compared)
        sizes = {"trees": model.n_trees, "leaves": len(model.ensemble.value)}
        show_json({"source": source, "out": out, **origin, **sizes, "check": checked})
        return
    leaves = count(len(model.ensemble.value), "leaf", "leaves")
    size = f"{count(model.n_trees, 'tree')}, {leaves}, {out.stat().st_size:,} bytes"
    show(f"Wrote {out}: {size}, from {_library(origin)}.")
    _show_remarks(origin, compared, check, no_check)


def _compared(
    model: Model, source: Path, data: Path | None, reading: Reading
) -> ImportCheck | None:
    """Both sides by score; None where the library is not there and nobody asked for it."""
    from rankgrove.cli.models import read_for_model
    from rankgrove.errors import need_extra
    from rankgrove.importing.check import check_import
    from rankgrove.importing.foreign import IMPORTED
    from rankgrove.testing.peers import PEERS, installed

    kind = model.notes[IMPORTED]["kind"]
    if not installed(kind):
        if data is not None:
            raise need_extra(PEERS[kind].package, None, "--check")
        return None
    return check_import(
        model, source, None if data is None else read_for_model(model, data, reading)
    )


def _library(origin: dict[str, Any]) -> str:
    from rankgrove.testing.peers import PEERS

    return f"{PEERS[origin['kind']].title} ({origin['version']}, {origin['objective']})"


def _show_remarks(
    origin: dict[str, Any], compared: ImportCheck | None, data: Path | None, no_check: bool
) -> None:
    """The table of the check, or why there is none; and what the file tells besides."""
    from rankgrove.testing.peers import PEERS

    title = PEERS[origin["kind"]].title
    if compared is not None:
        cells = compared.rows()
        show("", make_table(*cells, rows=[list(cells.values())], numeric=1))
        if data is None:
            show("The documents were made from the model: its thresholds, their neighbours, "
                 "missing values, every category.")  # fmt: skip
    elif not no_check:
        package = PEERS[origin["kind"]].package
        show(f"Not checked: {title} is not installed (pip install {package}).")
    best, rounds = origin.get("best_rounds"), origin.get("rounds")
    if best is not None and rounds is None:
        show(f"All rounds were taken. {title} stopped early: its estimators score with the first "
             f"{best:,}; --n-rounds {best} does the same.")  # fmt: skip

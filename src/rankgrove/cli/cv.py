# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove cv`: cross-validate parameters of training on a data file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, make_table, show, show_json
from rankgrove.cli.evaluate import choose_metrics
from rankgrove.cli.files import check_outputs, name_files, read_training, sizes_of, write_table
from rankgrove.cli.interrupts import interrupted, interruptible
from rankgrove.cli.options import DataFile, Json, Metrics, PerQuery, Preset, Reading, option
from rankgrove.cli.parameters import gather_parameters, takes_training
from rankgrove.errors import ParameterError, parameter, unknown_name

if TYPE_CHECKING:
    from rankgrove.data.documents import Documents
    from rankgrove.estimators.base import RankingEstimator
    from rankgrove.experiments.cross_validation import CrossValidation

_FORMATS = ("table", "markdown", "csv")


@takes_training
def cv(
    data: DataFile,
    folds: Annotated[int, option("K", "Parts; each query is tested in one of them.")] = 5,
    params: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Parameters, a .json or .toml file; with several, each is one line of the table.",
        ),
    ] = None,
    metrics: Metrics = None,
    preset: Preset = None,
    valid_share: Annotated[
        float | None, option("X", "Share of the training queries to hold out for early stopping.")
    ] = None,
    seed: Annotated[int, option("N", "Seed of the folds.", min=0)] = 0,
    per_query: PerQuery = None,
    format: Annotated[str, option("|".join(_FORMATS), "How the table is shown.")] = "table",
    json: Json = False,
    *,
    parameters: dict[str, Any],
    reading: Reading,
) -> None:
    """Cross-validate by query: each is scored by a model that has not seen it.

    rankgrove cv data.txt --folds 5 --n-estimators 100 -m ndcg@10,map

    rankgrove cv data.txt --params a.json --params b.json

    Ctrl-C ends it and keeps the folds that are done.
    """
    from rankgrove.experiments.cross_validation import cross_validate

    if format not in _FORMATS:
        raise unknown_name(parameter("format"), format, _FORMATS)
    check_outputs([data, *(params or [])], {"per_query": per_query}, compressed=True)
    rankers = _make_rankers(params or [], parameters, valid_share)
    chosen = choose_metrics(metrics or [], preset)
    with interruptible("before the first fold was done: nothing is known."):
        read = read_training(data, reading.with_ids(chosen), {"categorical": _categories(rankers)})
        table = cross_validate(
            rankers, read, chosen, folds=folds, valid_share=valid_share, seed=seed,
            n_jobs=reading.n_jobs, verbose=True,
        )  # fmt: skip
    if per_query is not None:
        _write_per_query(table, per_query)
    if json:
        show_json(_summary(data, read, table))
    else:
        _show(table, format)
        if per_query is not None and format == "table":
            show("", f"The values of each query are in {per_query}")
    if table.interrupted:
        done = f"{len(table.folds_done)} of {count(table.n_folds, 'fold')}"
        raise interrupted(f"after {done}: only these are measured.")


def _make_rankers(
    files: list[Path], options: dict[str, Any], valid_share: float | None
) -> dict[str, RankingEstimator]:
    """One for each file of parameters, named by it; without any, one named by its objective."""
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.experiments.registry import make_estimator

    rankers = {}
    named: dict[str, Path | None] = {**name_files("--params", files)}
    for name, file in (named or {"": None}).items():
        chosen = gather_parameters(options, file)
        if chosen.early_stopping_rounds is not None and valid_share is None:
            raise ParameterError(
                "--early-stopping-rounds must be used with --valid-share, the share of queries to "
                "watch. Got no --valid-share."
            )
        of_trees = isinstance(chosen, Parameters)
        label = name or (chosen.make_objective().name if of_trees else chosen.objective)
        rankers[str(label)] = make_estimator(
            {field.name: getattr(chosen, field.name) for field in fields(chosen)}
        )
    return rankers


def _categories(rankers: Mapping[str, RankingEstimator]) -> list[Any]:
    """The features that any of them takes as categories."""
    named = (getattr(ranker, "categorical", None) or () for ranker in rankers.values())
    return list(dict.fromkeys(feature for features in named for feature in features))


def _summary(path: Path, data: Documents, table: CrossValidation) -> dict[str, Any]:
    return {
        "data": path,
        **sizes_of(data),
        "folds": table.n_folds,
        "folds_done": len(table.folds_done),
        "interrupted": table.interrupted,
        "estimators": table.to_dict(),
    }


def _show(table: CrossValidation, format: str) -> None:
    if format == "csv":
        show(table.to_csv().rstrip("\n"))
    elif format == "markdown":
        show(table.to_markdown())
    else:
        header, *rows = table.cells()
        show(make_table(*header, rows=rows, numeric=2))


def _write_per_query(table: CrossValidation, path: Path) -> None:
    """A row per query: its id, its fold, and its value for each estimator and metric."""
    alone = len(table.results) == 1
    columns = {
        metric if alone else f"{name} {metric}": found.per_query(metric).tolist()
        for name, found in table.results.items()
        for metric in found
    }
    folds = [int(fold) + 1 for fold in table.fold_of if int(fold) in table.folds_done]
    rows = zip(table.query_ids.tolist(), folds, *columns.values(), strict=True)
    write_table(path, ["qid", "fold", *columns], rows)

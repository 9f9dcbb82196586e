# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove evaluate`: measure a model, or scores, on a data file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rankgrove.cli.console import count, make_table, show, show_json
from rankgrove.cli.files import check_outputs, write_table
from rankgrove.cli.models import load_scorer, predict, read_for_model
from rankgrove.cli.options import Json, Metrics, Preset, Reading, is_model_file, takes_reading
from rankgrove.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rankgrove.data.dataset import Dataset
    from rankgrove.metrics.base import Metric
    from rankgrove.metrics.evaluate import Evaluation

DEFAULT_METRICS = ("ndcg@10", "map", "mrr", "err")


@takes_reading
def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL|SCORES] DATA",
            help="A model, or a file of scores, one a line in the order of the data, unless "
            "--column is given; and the data.",
        ),
    ],
    column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|NUMBER", help="Take this feature as the score; numbers are from 1."
        ),
    ] = None,
    score_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="SCORES is a CSV or TSV file: take this column."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="SCORES is a TREC run, matched by document ids.")
    ] = False,
    metrics: Metrics = None,
    preset: Preset = None,
    per_query: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the value of each query, as CSV or TSV."),
    ] = None,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Measure a model or scores: the mean of each metric over the queries.

    rankgrove evaluate model.safetensors test.txt

    rankgrove evaluate scores.txt test.txt -m "ndcg@10,map(relevant>=2)"

    rankgrove evaluate test.txt --column 25
    """
    from rankgrove.metrics.evaluate import evaluate as measure

    chosen = choose_metrics(metrics or [], preset)
    scores_file, data_file = _sort_files(files, column, score_column, run)
    check_outputs(files, {"per_query": per_query}, compressed=True)
    source: dict[str, Any]
    if scores_file is not None and is_model_file(scores_file):
        source = {"model": str(scores_file)}
        model = load_scorer(scores_file)
        changes = _needs_ids(chosen, run)
        data = read_for_model(model, data_file, reading, with_labels=True, **changes)
        scores = predict(model, data, reading)
    else:
        source = {"scores": str(scores_file) if scores_file else {"column": column}}
        data = _read_data(data_file, reading, chosen, run, column is not None)
        scores = _scores(scores_file, data, column, score_column, run)
    table = measure(data, scores, chosen, n_jobs=reading.n_jobs)
    if per_query is not None:
        write_per_query(data, table, per_query)
    if json:
        show_json(
            {
                "data": str(data_file),
                **source,
                "documents": data.n_documents,
                "queries": data.n_queries,
                "metrics": table.to_dict(),
            }
        )
        return
    show(metrics_table(table))
    if per_query is not None:
        show("", f"The values of each query are in {per_query}")


def choose_metrics(lists: list[str], preset: str | None) -> list[Metric]:
    """The metrics named in these lists, or the default ones that the preset knows."""
    from rankgrove.metrics.spec import PRESETS, parse_metrics, split_arguments

    names = [name for part in lists for name in split_arguments(part) if name]
    if lists and not names:
        raise ParameterError("--metrics must name at least one metric. Got none.")
    if not lists:
        if preset is not None and preset not in PRESETS:
            raise unknown_name("preset", preset, PRESETS)
        known = PRESETS[preset] if preset else None
        names = [
            name for name in DEFAULT_METRICS if known is None or name.partition("@")[0] in known
        ]
    return parse_metrics(names, preset=preset)


def metrics_table(table: Evaluation) -> Table:
    """One row a metric."""
    numeric = ["mean", "std.error", "queries", "skipped"]
    shown = make_table("metric", *numeric, right=numeric)
    for name, result in table.results.items():
        error = result.standard_error
        shown.add_row(
            name,
            f"{result.mean:.4f}",
            "-" if math.isnan(error) else f"{error:.4f}",
            f"{result.counted:,}",
            f"{result.skipped:,}",
        )
    return shown


def write_per_query(data: Dataset, table: Evaluation, path: Path) -> None:
    """A row a query: its id, and its value under each metric, empty where it was skipped."""
    columns = [table.per_query(name).tolist() for name in table]
    write_table(path, ["qid", *table], zip(data.query_ids.tolist(), *columns, strict=True))


def _sort_files(
    files: list[Path], column: str | None, score_column: str | None, run: bool
) -> tuple[Path | None, Path]:
    """The model or the file of scores, if one is needed, and the data file."""
    if column is not None:
        if score_column is not None or run:
            raise ParameterError(
                "--column must not be used with --score-column or --run. Got both: scores come "
                "from a feature of DATA or from a file."
            )
        if len(files) != 1:
            raise ParameterError(f"--column must be used with DATA only. Got {len(files)} files.")
        return None, files[0]
    if score_column is not None and run:
        raise ParameterError("only one of --score-column and --run must be given. Got both.")
    if len(files) != 2:
        raise ParameterError(
            f"a model or a file of scores must be given, then a data file; or a data file and "
            f"--column. Got {count(len(files), 'file')}."
        )
    if is_model_file(files[1]) and not is_model_file(files[0]):
        raise ParameterError(
            f"MODEL must come first, then DATA. Got '{files[1]}', a model, in the second place."
        )
    if (score_column is not None or run) and is_model_file(files[0]):
        raise ParameterError(
            f"--score-column and --run must be used with a file of scores. Got '{files[0]}', a "
            f"model, which makes its own: leave them out."
        )
    return files[0], files[1]


def _read_data(
    path: Path, reading: Reading, metrics: list[Metric], run: bool, with_features: bool
) -> Dataset:
    """What measuring needs of the data: document ids and features only where they are used."""
    from rankgrove.data.files import format_of

    changes = _needs_ids(metrics, run)
    if not with_features and format_of(path) != "letor":
        changes["features"] = []
    return reading.read(path, **changes)


def _needs_ids(metrics: list[Metric], run: bool) -> dict[str, Any]:
    needed = run or any(metric.ties == "document_id" for metric in metrics)
    return {"document_ids": True} if needed else {}


def _scores(
    path: Path | None, data: Dataset, column: str | None, score_column: str | None, run: bool
) -> NDArray[np.float64]:
    from rankgrove.cli import scores

    if path is None:
        return scores.scores_from_feature(data, column or "")
    if run:
        return scores.scores_from_run(path, data)
    if score_column is not None:
        return scores.scores_from_table(path, score_column, data.n_documents)
    return scores.scores_from_lines(path, data.n_documents)

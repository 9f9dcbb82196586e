# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove evaluate`: measure a model, or scores, on a data file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rankgrove.cli.candidates import Inputs, ScoreFiles, Source
from rankgrove.cli.console import count, make_table, show, show_json
from rankgrove.cli.files import check_outputs, sizes_of, sort_files, write_table
from rankgrove.cli.options import (
    Json,
    Metrics,
    PerQuery,
    Preset,
    Reading,
    argument,
    is_model_file,
    option,
    takes,
    takes_reading,
)
from rankgrove.errors import ParameterError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rich.table import Table

    from rankgrove.metrics.base import Metric
    from rankgrove.metrics.evaluate import Evaluation


@takes_reading
@takes("scoring", ScoreFiles)
def evaluate(
    files: Annotated[
        list[str],
        argument(
            "[MODEL|SCORES] DATA",
            "A model, or a file of scores, one per line in the order of the data, unless --column "
            "is given; then the data.",
        ),
    ],
    column: Annotated[
        str | None,
        option("NAME|NUMBER", "Take this feature as the score; numbers are from 1."),
    ] = None,
    metrics: Metrics = None,
    preset: Preset = None,
    per_query: PerQuery = None,
    json: Json = False,
    *,
    scoring: ScoreFiles,
    reading: Reading,
) -> None:
    """Measure a model or scores: the mean of each metric over the queries.

    rankgrove evaluate model.safetensors test.txt

    rankgrove evaluate scores.txt test.txt -m "ndcg@10,map(relevant>=2)"

    rankgrove evaluate test.txt --column 25
    """
    from rankgrove.metrics.evaluate import evaluate as measure

    chosen = choose_metrics(metrics or [], preset)
    ranker, data_file = _sort_files(files, column, scoring, reading)
    check_outputs([ranker, data_file], {"per_query": per_query}, compressed=True)
    source = Source(ranker, column)
    inputs = Inputs(data_file, reading.with_ids(chosen, needed=scoring.run), {"ranker": source})
    data, [scores] = inputs.data, inputs.scores(scoring).values()
    table = measure(data, scores, chosen, n_jobs=reading.n_jobs)
    if per_query is not None:
        # Empty where a query was skipped.
        columns = [table.per_query(name).tolist() for name in table]
        rows = zip(data.query_ids.tolist(), *columns, strict=True)
        write_table(per_query, ["qid", *table], rows)
    if json:
        origin = {"model" if source.is_model else "scores": ranker or {"column": column}}
        sizes = sizes_of(data)
        show_json({"data": data_file, **origin, **sizes, "metrics": table.to_dict()})
        return
    show(metrics_table(table))
    if per_query is not None:
        show("", f"The values of each query are in {per_query}")


def choose_metrics(lists: list[str], preset: str | None) -> list[Metric]:
    """The metrics named in these lists, or the default ones that the preset knows."""
    from rankgrove.metrics.evaluate import DEFAULT_METRICS
    from rankgrove.metrics.spec import PRESETS, parse_metrics, split_arguments

    names = [name for part in lists for name in split_arguments(part) if name]
    if lists and not names:
        raise refusal("metrics", "name at least one metric", got="none")
    if not lists:
        if preset is not None and preset not in PRESETS:
            raise unknown_name(parameter("preset"), preset, PRESETS)
        known = PRESETS[preset] if preset else None
        names = [n for n in DEFAULT_METRICS if known is None or n.partition("@")[0] in known]
    return parse_metrics(names, preset=preset)


def metrics_table(table: Evaluation) -> Table:
    """One row per metric."""
    shown = make_table("metric", "mean", "std.error", "queries", "skipped", numeric=1)
    for name, result in table.results.items():
        error = "-" if math.isnan(result.standard_error) else f"{result.standard_error:.4f}"
        counts = (f"{result.counted:,}", f"{result.skipped:,}")
        shown.add_row(name, f"{result.mean:.4f}", error, *counts)
    return shown


def _sort_files(
    files: list[str], column: str | None, scoring: ScoreFiles, reading: Reading
) -> tuple[Path | None, Path]:
    """The model or the file of scores, if one is needed, and the data file."""
    if column is not None:
        if scoring.is_asked_for:
            rule = f"not be used with {parameter('score_column')} or {parameter('run')}"
            advice = "scores come from a feature of DATA or from a file"
            raise refusal("column", rule, got="both", advice=advice)
        if len(files) != 1:
            raise refusal("column", "be used with DATA only", got=f"{len(files)} files")
        return None, Path(files[0])
    scoring.check()
    if len(files) != 2:
        raise ParameterError(
            f"a model or a file of scores must be given, then DATA; or DATA and "
            f"{parameter('column')}. Got {count(len(files), 'file')}."
        )
    [ranker], data = sort_files(files, reading, "a model or a file of scores")
    if scoring.is_asked_for and is_model_file(Path(ranker)):
        raise ParameterError(
            f"{parameter('score_column')} and {parameter('run')} must be used with a file of "
            f"scores. Got '{ranker}', a model, which makes its own: leave them out."
        )
    return Path(ranker), data

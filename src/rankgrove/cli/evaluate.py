# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove evaluate`: measure a model, or scores, on a data file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rankgrove.cli.console import count, make_table, show, show_json
from rankgrove.cli.files import check_outputs, read_labels, sort_files, write_table
from rankgrove.cli.models import load_model, read_for_model
from rankgrove.cli.options import (
    Json,
    Metrics,
    PerQuery,
    Preset,
    Reading,
    is_model_file,
    takes,
    takes_reading,
)
from rankgrove.errors import ParameterError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rankgrove.data.dataset import Dataset
    from rankgrove.metrics.base import Metric
    from rankgrove.metrics.evaluate import Evaluation


_SCORES = "How files of scores are read"


@dataclass(frozen=True)
class ScoreFiles:
    """How files of scores are to be read: one a line, unless told."""

    score_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="They are CSV or TSV files: take this column.",
            rich_help_panel=_SCORES,
        ),
    ] = None
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="They are TREC runs, matched by document ids.", rich_help_panel=_SCORES
        ),
    ] = False

    def check(self) -> None:
        if self.score_column is not None and self.run:
            raise ParameterError(
                f"only one of {parameter('score_column')} and {parameter('run')} must be given. "
                f"Got both."
            )

    @property
    def is_asked_for(self) -> bool:
        return self.run or self.score_column is not None

    def read(self, path: Path, data: Dataset) -> NDArray[np.float64]:
        from rankgrove.cli import scores

        if self.run:
            return scores.scores_from_run(path, data)
        if self.score_column is not None:
            return scores.scores_from_table(path, self.score_column, data.n_documents)
        return scores.scores_from_lines(path, data.n_documents)


@takes_reading
@takes("scoring", ScoreFiles)
def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL|SCORES] DATA",
            help="A model, or a file of scores, one a line in the order of the data, unless "
            "--column is given; then the data.",
        ),
    ],
    column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|NUMBER", help="Take this feature as the score; numbers are from 1."
        ),
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
    needs_ids = scoring.run or any(metric.ties == "document_id" for metric in chosen)
    changes: dict[str, Any] = {"document_ids": True} if needs_ids else {}
    source: dict[str, Any]
    if ranker is None:
        from rankgrove.cli.scores import scores_from_feature

        source = {"scores": {"column": column}}
        data = reading.read(data_file, **changes)
        scores = scores_from_feature(data, column or "")
    elif is_model_file(ranker):
        source = {"model": str(ranker)}
        model = load_model(ranker)
        data = read_for_model(model, data_file, reading, with_labels=True, **changes)
        scores = model.predict(data, n_jobs=reading.n_jobs)
    else:
        source = {"scores": str(ranker)}
        data = read_labels(data_file, reading, **changes)
        scores = scoring.read(ranker, data)
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
    from rankgrove.metrics.evaluate import DEFAULT_METRICS
    from rankgrove.metrics.spec import PRESETS, parse_metrics, split_arguments

    names = [name for part in lists for name in split_arguments(part) if name]
    if lists and not names:
        raise refusal("metrics", "name at least one metric", got="none")
    if not lists:
        if preset is not None and preset not in PRESETS:
            raise unknown_name(parameter("preset"), preset, PRESETS)
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
    files: list[str], column: str | None, scoring: ScoreFiles, reading: Reading
) -> tuple[Path | None, Path]:
    """The model or the file of scores, if one is needed, and the data file."""
    if column is not None:
        if scoring.is_asked_for:
            raise refusal(
                "column",
                f"not be used with {parameter('score_column')} or {parameter('run')}",
                got="both",
                advice="scores come from a feature of DATA or from a file",
            )
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

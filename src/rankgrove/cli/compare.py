# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove compare`: models, score files and features on the same queries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rankgrove.cli.candidates import Inputs, able_to_score, name_sources
from rankgrove.cli.console import BOLD, heading, make_table, say, show, show_json
from rankgrove.cli.evaluate import choose_metrics
from rankgrove.cli.files import check_outputs, write_table
from rankgrove.cli.options import Json, Metrics, Preset, Reading, is_model_file, takes_reading
from rankgrove.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    from rankgrove.experiments.compare.compare import Comparison
    from rankgrove.experiments.compare.gap import Gap
    from rankgrove.metrics.base import Metric

FORMATS = ("table", "markdown", "latex", "csv", "json")
# Columns of text; all others hold numbers.
_TEXT = {"metric", "candidate", "a", "b", "query", "group"}


@takes_reading
def compare(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The data, with labels.")],
    candidates: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]CANDIDATE...",
            help="Model files, files of scores (one a line in the order of the data), and "
            "column:NAME for a feature of DATA. Named after their files unless NAME= is given.",
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare all candidates with this one; by default with the best of each metric.",
        ),
    ] = None,
    metrics: Metrics = None,
    preset: Preset = None,
    test: Annotated[
        str, typer.Option(metavar="t|randomisation|bootstrap", help="The paired test.")
    ] = "t",
    two_sided: Annotated[
        bool, typer.Option("--two-sided", help="Test both directions; one by default.")
    ] = False,
    correction: Annotated[
        str, typer.Option(metavar="holm|none", help="For many comparisons.")
    ] = "holm",
    level: Annotated[
        float, typer.Option(metavar="P", help="Significant is a p-value up to this.")
    ] = 0.05,
    confidence: Annotated[float, typer.Option(metavar="C", help="Of the intervals.")] = 0.95,
    rounds: Annotated[
        int, typer.Option(metavar="N", help="Rounds of randomisation and bootstrap.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Of those rounds.")] = 0,
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice",
            metavar="length|labels|relevant|column:NAME",
            help="Also compare groups of queries: by their number of documents, highest label, "
            "number of relevant documents, or a column. May be given several times.",
        ),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also show every pair.")] = False,
    changed: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Also show the N queries that differ most."),
    ] = 0,
    per_query: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the value of each query, as CSV or TSV."),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="TRAIN",
            help="Also show the generalisation gap: TRAIN, which models were trained on, "
            "against DATA.",
        ),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the learning curves on TRAIN and DATA, as a picture (.svg) or CSV.",
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="A point of the curve every N trees."),
    ] = None,
    score_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Files of scores are CSV or TSV files: take this column."
        ),
    ] = None,
    run: Annotated[
        bool,
        typer.Option("--run", help="Files of scores are TREC runs, matched by document ids."),
    ] = False,
    format: Annotated[
        str, typer.Option(metavar="|".join(FORMATS), help="How results are shown.")
    ] = "table",
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Compare models, files of scores and features on the same queries.

    A star marks the best of each metric and all that are not significantly worse.

    rankgrove compare test.txt old.safetensors new.safetensors

    rankgrove compare test.txt bm25=column:25 new.safetensors --baseline bm25 --slice length

    rankgrove compare test.txt new.safetensors --train train.txt --curve curve.svg
    """
    from rankgrove.experiments.compare.compare import compare as compare_candidates

    shown = "json" if json else format
    _check_call(data, shown, slices, pairs, changed, train, curve, score_column, run)
    chosen = choose_metrics(metrics or [], preset)
    sources = name_sources(candidates)
    read = [data, train, *(source.path for source in sources.values())]
    check_outputs(read, {"per_query": per_query, "curve": curve}, compressed=True)
    if baseline is not None and baseline not in sources:
        raise unknown_name("--baseline", baseline, sources)
    ids = run or any(metric.ties == "document_id" for metric in chosen)
    inputs = Inputs(data, reading, sources, ids)
    learned = None if train is None else Inputs(train, reading, able_to_score(sources), ids)
    scores = inputs.scores(score_column, run)
    comparison = compare_candidates(
        inputs.data, scores, chosen, baseline=baseline, test=test,
        alternative="two-sided" if two_sided else "greater",
        correction=None if correction == "none" else correction, level=level,
        confidence=confidence, slices=inputs.slices(slices or []), rounds=rounds, seed=seed,
        n_jobs=reading.n_jobs,
    )  # fmt: skip
    gap = None if learned is None else _gap(inputs, learned, chosen, every, confidence)
    if per_query is not None:
        _write_per_query(comparison, per_query)
    if curve is not None and gap is not None:
        _write(curve, gap.to_svg() if curve.suffix.lower() == ".svg" else gap.curves_csv())
    if shown == "json":
        show_json(_document(data, inputs, comparison, pairs, changed, train, gap))
    elif shown == "table":
        _show_tables(comparison, _sections(comparison, pairs, changed, gap))
    else:
        sys.stdout.write(_as_text(comparison, _sections(comparison, pairs, changed, gap), shown))
    for path, what in ((per_query, "the value of each query"), (curve, "the learning curves")):
        if path is not None:
            say(f"wrote {what} to {path}")


def _check_call(
    data: Path,
    shown: str,
    slices: list[str] | None,
    pairs: bool,
    changed: int,
    train: Path | None,
    curve: Path | None,
    score_column: str | None,
    run: bool,
) -> None:
    """Refuse what cannot work before anything is read."""
    from rankgrove.data.files import format_of

    if shown not in FORMATS:
        raise unknown_name("--format", shown, FORMATS)
    if is_model_file(data):
        raise ParameterError(
            f"DATA must come first, then the candidates. Got '{data}', a model, in its place."
        )
    if shown == "csv" and (slices or pairs or changed or train):
        raise ParameterError(
            "--format csv must be used without --slice, --pairs, --changed and --train, as it "
            "holds one table. Got one of them: choose json."
        )
    if score_column is not None and run:
        raise ParameterError("only one of --score-column and --run must be given. Got both.")
    if curve is not None and train is None:
        raise ParameterError("--curve must be used with --train. Got it without.")
    if curve is not None and curve.suffix.lower() != ".svg" and format_of(curve) != "csv":
        raise ParameterError(f"--curve must name a .svg or .csv file. Got '{curve}'.")


def _gap(
    inputs: Inputs, learned: Inputs, metrics: list[Metric], every: int | None, confidence: float
) -> Gap:
    from rankgrove.experiments.compare.gap import Gap, generalisation_gap

    options: dict[str, Any] = {"every": every, "confidence": confidence}
    options["n_jobs"] = inputs.reading.n_jobs
    rows: list[Any] = []
    curves: dict[str, Any] = {}
    for name, source in learned.sources.items():
        if source.column:
            from rankgrove.cli.scores import scores_from_feature

            train, test = learned.for_columns, inputs.for_columns
            candidate: Any = tuple(scores_from_feature(p, source.column) for p in (train, test))
        else:
            train, test = learned.for_models[name], inputs.for_models[name]
            candidate = inputs.models[name]
        own = generalisation_gap({name: candidate}, train, test, metrics, **options)
        rows += own.rows
        curves |= own.curves
    return Gap(rows, curves, confidence)


class Section(NamedTuple):
    """A table after the first one."""

    title: str
    header: list[str]
    rows: list[list[str]]


def _sections(comparison: Comparison, pairs: bool, changed: int, gap: Gap | None) -> list[Section]:
    from rankgrove.experiments.compare import tables

    found = []
    for slicing in comparison.slicings:
        header = ["metric", "group", "queries", "candidate", *tables.long_header(comparison)]
        rows = [
            [metric, group.name, f"{row.counted:,}", row.name, *tables.long_cells(row)]
            for metric in comparison.metrics
            for group in comparison.by_slice(slicing, metric)
            for row in group.rows
        ]
        found.append(Section(f"by {slicing}", header, rows))
    if pairs:
        found.append(_pairs_section(comparison))
    if changed:
        for metric in comparison.metrics:
            reference = comparison.reference(metric)
            for row in comparison.summary(metric):
                if row.reference:
                    changes = comparison.changed(metric, row.name, reference, changed)
                    found.append(
                        Section(
                            f"{metric}: where {row.name} and {reference} differ most",
                            ["query", row.name, reference, "difference"],
                            [[str(c.query), *(f"{v:.4f}" for v in c[1:3]), f"{c.difference:+.4f}"]
                             for c in changes],
                        )
                    )  # fmt: skip
    if gap is not None:
        found.append(Section("generalisation gap", *gap.cells()))
    return found


def _pairs_section(comparison: Comparison) -> Section:
    from rankgrove.experiments.compare import tables

    level = f"{100 * comparison.method.confidence:g} % interval"
    header = ["metric", "a", "b", "a - b", level, "p", "effect", "wins/ties/losses"]
    rows = [
        [
            metric, pair.a, pair.b, f"{pair.difference:+.4f}",
            tables.show_interval(pair.low, pair.high), tables.show_p(pair.adjusted),
            tables.show_number(pair.effect, 2, "+"), f"{pair.wins}/{pair.ties}/{pair.losses}",
        ]
        for metric in comparison.metrics
        for pair in comparison.pairs(metric)
    ]  # fmt: skip
    return Section("every pair, two-sided", header, rows)


def _show_tables(comparison: Comparison, sections: list[Section]) -> None:
    from rankgrove.experiments.compare import tables

    header = ["metric", "candidate", *tables.long_header(comparison)]
    table = make_table(*header, right=set(header) - _TEXT)
    for metric in comparison.metrics:
        for at, row in enumerate(comparison.summary(metric)):
            bold = BOLD if row.mark in ("best", "equal", "better") else None
            cells = ["" if at else metric, row.name, *tables.long_cells(row)]
            table.add_row(*cells, style=bold)
    show(table, "", tables.legend(comparison))
    for title, names, rows in sections:
        own = make_table(*names, right=set(names) - _TEXT)
        before = [""] * len(names)
        for cells in rows:
            # What stands in the row above is not repeated, as far as the text columns go.
            same = 0
            while names[same] in ("metric", "group", "queries") and cells[same] == before[same]:
                same += 1
            own.add_row(*([""] * same), *cells[same:])
            before = cells
        show("", heading(title), own)


def _as_text(comparison: Comparison, sections: list[Section], shown: str) -> str:
    from rankgrove.experiments.compare import tables

    if shown == "csv":
        return comparison.to_csv()
    if shown == "markdown":
        parts = [comparison.to_markdown()]
        for title, header, rows in sections:
            parts.append(f"## {title}\n\n{tables.markdown(header, rows)}\n")
    else:
        parts = [comparison.to_latex()]
        for title, header, rows in sections:
            escaped = [[tables.escape_latex(cell) for cell in row] for row in [header, *rows]]
            parts.append(f"% {title}\n{tables.latex(escaped[0], escaped[1:])}\n")
    return "\n".join(parts)


def _document(
    path: Path,
    inputs: Inputs,
    comparison: Comparison,
    pairs: bool,
    changed: int,
    train: Path | None,
    gap: Gap | None,
) -> dict[str, Any]:
    document = {
        "data": str(path),
        "documents": inputs.data.n_documents,
        "queries": inputs.data.n_queries,
        "files": {
            name: str(source.path) if source.path else {"column": source.column}
            for name, source in inputs.sources.items()
        },
        **comparison.to_dict(pairs=pairs, changed=changed),
    }
    if gap is not None:
        document["gap"] = {"train": str(train), **gap.to_dict()}
    return document


def _write_per_query(comparison: Comparison, path: Path) -> None:
    """A line a metric and query: the value of each candidate, empty where it was skipped."""
    rows = []
    for metric, measured in comparison.measured.items():
        columns = [values.tolist() for values in measured.values.values()]
        ids = measured.query_ids.tolist()
        rows += [[metric, *row] for row in zip(ids, *columns, strict=True)]
    write_table(path, ["metric", "qid", *comparison.names], rows)


def _write(path: Path, text: str) -> None:
    from rankgrove.data.streams import open_for_writing

    with open_for_writing(path) as stream:
        stream.write(text.encode())

# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove compare`: models, score files and features on the same queries."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from rankgrove.cli.candidates import Inputs, ScoreFiles, able_to_score, name_sources
from rankgrove.cli.console import BOLD, heading, make_table, say, show, show_json
from rankgrove.cli.evaluate import choose_metrics
from rankgrove.cli.files import check_outputs, sizes_of, sort_files, write_table, write_text
from rankgrove.cli.options import (
    Json,
    Metrics,
    PerQuery,
    Preset,
    Reading,
    argument,
    option,
    takes,
    takes_reading,
)
from rankgrove.errors import parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.experiments.compare.compare import Comparison
    from rankgrove.experiments.compare.gap import Gap
    from rankgrove.metrics.base import Metric

FORMATS = ("table", "markdown", "latex", "csv", "json")
# Columns of text; all others hold numbers.
_TEXT = {"metric", "candidate", "a", "b", "query", "group"}


_test = partial(option, panel="How differences are tested")
_detail = partial(option, panel="What else is shown")
_gap_option = partial(option, panel="Generalisation gap")


@dataclass(frozen=True)
class Testing:
    """How differences are tested."""

    test: Annotated[str, _test("t|randomisation|bootstrap", "The paired test.")] = "t"
    two_sided: Annotated[
        bool, _test(None, "Test both directions; one by default.", "--two-sided")
    ] = False
    correction: Annotated[str, _test("holm|none", "For many comparisons.")] = "holm"
    level: Annotated[float, _test("P", "Significant is a p-value up to this.")] = 0.05
    confidence: Annotated[float, _test("C", "Of the intervals.")] = 0.95
    rounds: Annotated[int, _test("N", "Of randomisation and bootstrap.")] = 10_000
    seed: Annotated[int, _test("N", "Of those rounds.")] = 0

    def options(self) -> dict[str, Any]:
        """The same, as the function `compare` takes it."""
        found = dict(vars(self))
        found["alternative"] = "two-sided" if found.pop("two_sided") else "greater"
        return found | {"correction": None if self.correction == "none" else self.correction}


@dataclass(frozen=True)
class Details:
    """What is shown besides the table of all candidates."""

    slices: Annotated[
        list[str] | None,
        _detail(
            "length|labels|relevant|column:NAME",
            "Groups of queries: by their number of documents, highest label, number of relevant "
            "documents, or a column. May be given several times.",
            "--slice",
        ),
    ] = None
    pairs: Annotated[bool, _detail(None, "Every pair.", "--pairs")] = False
    changed: Annotated[int, _detail("N", "The N queries that differ most.", min=0)] = 0


@dataclass(frozen=True)
class Learning:
    """What is shown of training data."""

    train: Annotated[
        Path | None, _gap_option("TRAIN", "What models were trained on, to be held against DATA.")
    ] = None
    curve: Annotated[
        Path | None,
        _gap_option("FILE", "Write learning curves on TRAIN and DATA: a picture (.svg) or CSV."),
    ] = None
    every: Annotated[int | None, _gap_option("N", "A point of the curve every N trees.", min=1)] = (
        None
    )


@takes_reading
@takes("scoring", ScoreFiles)
@takes("learning", Learning)
@takes("details", Details)
@takes("testing", Testing)
def compare(
    files: Annotated[
        list[str],
        argument(
            "[NAME=]CANDIDATE... DATA",
            "Model files, files of scores (one per line in the order of the data), and column:NAME "
            "for a feature of DATA, named after their files unless NAME= is given; then the data, "
            "with labels.",
        ),
    ],
    baseline: Annotated[
        str | None,
        option(
            "NAME",
            "Compare all candidates with this one; by default with the best of each metric.",
        ),
    ] = None,
    metrics: Metrics = None,
    preset: Preset = None,
    per_query: PerQuery = None,
    format: Annotated[str, option("|".join(FORMATS), "How results are shown.")] = "table",
    json: Json = False,
    *,
    testing: Testing,
    details: Details,
    learning: Learning,
    scoring: ScoreFiles,
    reading: Reading,
) -> None:
    """Compare models, files of scores and features on the same queries.

    A star marks the best of each metric and all that are not significantly worse.

    rankgrove compare old.safetensors new.safetensors test.txt

    rankgrove compare bm25=column:25 new.safetensors test.txt --baseline bm25 --slice length

    rankgrove compare new.safetensors test.txt --train train.txt --curve curve.svg
    """
    from rankgrove.experiments.compare.compare import compare as compare_candidates

    shown = "json" if json else format
    _check_call(shown, details, learning, scoring)
    chosen = choose_metrics(metrics or [], preset)
    candidates, data = sort_files(files, reading, "a candidate")
    sources = name_sources(candidates)
    read = [data, learning.train, *(source.path for source in sources.values())]
    check_outputs(read, {"per_query": per_query, "curve": learning.curve}, compressed=True)
    if baseline is not None and baseline not in sources:
        raise unknown_name(parameter("baseline"), baseline, sources)
    reading = reading.with_ids(chosen, needed=scoring.run)
    inputs, learned = Inputs(data, reading, sources), None
    if learning.train is not None:
        learned = Inputs(learning.train, reading, able_to_score(sources))
    comparison = compare_candidates(
        inputs.data, inputs.scores(scoring), chosen, baseline=baseline,
        slices=inputs.slices(details.slices or []), n_jobs=reading.n_jobs, **testing.options(),
    )  # fmt: skip
    gap = None if learned is None else _gap(inputs, learned, chosen, learning, testing)
    _write_files(comparison, gap, per_query, learning.curve)
    if shown == "json":
        show_json(_document(inputs, comparison, details, learned, gap))
    elif shown == "table":
        _show_tables(comparison, _sections(comparison, details, gap))
    else:
        sys.stdout.write(_as_text(comparison, _sections(comparison, details, gap), shown))


def _check_call(shown: str, details: Details, learning: Learning, scoring: ScoreFiles) -> None:
    """Refuse what cannot work before anything is read."""
    from rankgrove.data.files import format_of

    scoring.check()
    if shown not in FORMATS:
        raise unknown_name(parameter("format"), shown, FORMATS)
    several = {**vars(details), "train": learning.train}
    if shown == "csv" and any(several.values()):
        names = [parameter(name) for name in several]
        rule = f"be used without {', '.join(names[:-1])} and {names[-1]}, as it holds one table"
        raise refusal(parameter("format", "csv"), rule, got="one of them", advice="choose json")
    curve = learning.curve
    if curve is not None and learning.train is None:
        raise refusal("curve", f"be used with {parameter('train')}", got="it without")
    if curve is not None and curve.suffix.lower() != ".svg" and format_of(curve) != "csv":
        raise refusal("curve", "name a .svg or .csv file", str(curve))


def _gap(
    inputs: Inputs, learned: Inputs, metrics: list[Metric], learning: Learning, testing: Testing
) -> Gap:
    from rankgrove.experiments.compare.gap import Gap, generalisation_gap

    joined = Gap([], {}, testing.confidence)
    for name, source in learned.sources.items():
        if source.column is not None:
            from rankgrove.cli.scores import scores_from_feature

            train, test = learned.for_columns, inputs.for_columns
            candidate: Any = tuple(scores_from_feature(p, source.column) for p in (train, test))
        else:
            train, test = learned.for_models[name], inputs.for_models[name]
            candidate = inputs.models[name]
        found = generalisation_gap(
            {name: candidate}, train, test, metrics, every=learning.every,
            confidence=testing.confidence, n_jobs=inputs.reading.n_jobs,
        )  # fmt: skip
        joined.rows.extend(found.rows)
        joined.curves.update(found.curves)
    return joined


class Section(NamedTuple):
    """A table after the first one."""

    title: str
    header: list[str]
    rows: list[list[str]]


def _sections(comparison: Comparison, details: Details, gap: Gap | None) -> list[Section]:
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
    if details.pairs:
        found.append(_pairs_section(comparison))
    if details.changed:
        found += _changed_sections(comparison, details.changed)
    if gap is not None:
        found.append(Section("generalisation gap", *gap.cells()))
    return found


def _pairs_section(comparison: Comparison) -> Section:
    from rankgrove.experiments.tables import show_interval, show_number, show_p

    level = f"{100 * comparison.method.confidence:g} % interval"
    header = ["metric", "a", "b", "a - b", level, "p", "effect", "wins/ties/losses"]
    rows = [
        [
            metric, pair.a, pair.b, f"{pair.difference:+.4f}", show_interval(pair.low, pair.high),
            show_p(pair.adjusted), show_number(pair.effect, 2, "+"),
            f"{pair.wins}/{pair.ties}/{pair.losses}",
        ]
        for metric in comparison.metrics
        for pair in comparison.pairs(metric)
    ]  # fmt: skip
    return Section("every pair, two-sided", header, rows)


def _changed_sections(comparison: Comparison, number: int) -> list[Section]:
    found = []
    for metric in comparison.metrics:
        reference = comparison.reference(metric)
        for name in (row.name for row in comparison.summary(metric) if row.reference):
            title = f"{metric}: where {name} and {reference} differ most"
            rows = [
                [str(c.query), *(f"{value:.4f}" for value in c[1:3]), f"{c.difference:+.4f}"]
                for c in comparison.changed(metric, name, reference, number)
            ]
            found.append(Section(title, ["query", name, reference, "difference"], rows))
    return found


def _show_tables(comparison: Comparison, sections: list[Section]) -> None:
    from rankgrove.experiments.compare import tables

    header = ["metric", "candidate", *tables.long_header(comparison)]
    table = make_table(*header, numeric=set(header) - _TEXT)
    for metric in comparison.metrics:
        for at, row in enumerate(comparison.summary(metric)):
            bold = BOLD if row.mark in ("best", "equal", "better") else None
            cells = ["" if at else metric, row.name, *tables.long_cells(row)]
            table.add_row(*cells, style=bold)
    show(table, "", tables.legend(comparison))
    for title, names, rows in sections:
        section = make_table(*names, numeric=set(names) - _TEXT)
        before = [""] * len(names)
        for cells in rows:
            # What stands in the row above is not repeated, as far as the text columns go.
            same = 0
            while names[same] in ("metric", "group", "queries") and cells[same] == before[same]:
                same += 1
            section.add_row(*([""] * same), *cells[same:])
            before = cells
        show("", heading(title), section)


def _as_text(comparison: Comparison, sections: list[Section], shown: str) -> str:
    from rankgrove.experiments import tables

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
    inputs: Inputs, comparison: Comparison, details: Details, learned: Inputs | None,
    gap: Gap | None,
) -> dict[str, Any]:  # fmt: skip
    document = {
        "data": inputs.path,
        **sizes_of(inputs.data),
        "files": {
            name: source.path or {"column": source.column}
            for name, source in inputs.sources.items()
        },
        **comparison.to_dict(pairs=details.pairs, changed=details.changed),
    }
    if learned is not None and gap is not None:
        document["gap"] = {"train": learned.path, **gap.to_dict()}
    return document


def _write_files(
    comparison: Comparison, gap: Gap | None, per_query: Path | None, curve: Path | None
) -> None:
    """The value of each candidate for each metric and query, and the learning curves."""
    if per_query is not None:
        rows = []
        for metric, measured in comparison.measured.items():
            columns = [values.tolist() for values in measured.values.values()]
            ids = measured.query_ids.tolist()
            rows += [[metric, *row] for row in zip(ids, *columns, strict=True)]
        write_table(per_query, ["metric", "qid", *comparison.names], rows)
        say(f"wrote the value of each query to {per_query}")
    if curve is not None and gap is not None:
        write_text(curve, gap.to_svg() if curve.suffix.lower() == ".svg" else gap.curves_csv())
        say(f"wrote the learning curves to {curve}")

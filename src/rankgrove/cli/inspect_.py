# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove inspect`: what is in a file; of data, what in them is worth a look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from rankgrove.cli.console import bar, count, heading, make_table, percent, show, show_json
from rankgrove.cli.inspect_model import inspect_model
from rankgrove.cli.options import Json, Reading, is_model_file, takes_reading

if TYPE_CHECKING:
    from rankgrove.data.describe import Description

_NAMES_SHOWN = 8


@dataclass(frozen=True)
class Finding:
    """Something in the data that is worth a look."""

    kind: str
    count: int
    message: str


@takes_reading
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A data file of any format, or a model.")
    ],
    per_feature: Annotated[
        bool, typer.Option("--per-feature", help="Also list every feature.")
    ] = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Show what is in a model or in a data file, and what in the data is worth a look."""
    if is_model_file(file):
        inspect_model(file, json)
        return
    from rankgrove.data.describe import describe

    found = describe(reading.read(file), n_jobs=reading.n_jobs)
    findings = find_oddities(found)
    if json:
        noted = [asdict(finding) for finding in findings]
        show_json({"file": str(file), **found.to_dict(), "worth_a_look": noted})
        return
    show(heading(str(file)), "", _sizes(found), "", label_table(found), "", _lengths(found))
    if per_feature:
        show("", _features(found))
    show("")
    if not findings:
        show("Nothing else is worth a look.")
        return
    notes = make_table("", "")
    for finding in findings:
        notes.add_row("-", finding.message)
    show(heading("worth a look"), notes)


def find_oddities(found: Description) -> list[Finding]:
    """What in the data is often a mistake, or changes how numbers must be read."""
    return [*_query_oddities(found), *_value_oddities(found)]


def _query_oddities(found: Description) -> Iterator[Finding]:
    queries = found.queries
    if queries == 1 and found.documents > 1:
        yield Finding("one_query", 1, "there is only one query: are the query ids right?")
    if (alone := found.queries_with_one_document) == queries > 1:
        yield Finding(
            "one_document_each",
            alone,
            "every query has only one document, so there is nothing to rank: are the query ids "
            "right?",
        )
    elif alone:
        yield Finding(
            "one_document",
            alone,
            f"{_share(alone, queries)} {_have(alone)} only one document: no ranking gets that "
            "wrong.",
        )
    if empty := found.queries_without_relevant:
        yield Finding(
            "no_relevant",
            empty,
            f"{_share(empty, queries)} {_have(empty)} no relevant document: metrics leave them out "
            "(empty=skip) unless told otherwise.",
        )
    # Those of one document, and most without a relevant one, are among these.
    if (equal := found.queries_with_equal_labels) > max(alone, found.queries_without_relevant):
        yield Finding(
            "equal_labels",
            equal,
            f"{_share(equal, queries)} {_have(equal)} the same label on all documents: nothing to "
            "learn from.",
        )


def _value_oddities(found: Description) -> Iterator[Finding]:
    lowest, highest = found.label_quantiles[0.0], found.label_quantiles[1.0]
    if lowest < 0:
        yield Finding(
            "negative_label",
            1,
            f"the lowest label is {lowest:g}: metrics other than pair_accuracy and tau need 0 or "
            "more.",
        )
    if found.grades is None:
        yield Finding(
            "many_labels",
            found.distinct_labels,
            f"there are {found.distinct_labels:,} different labels: these look like measurements "
            "rather than grades.",
        )
    elif highest > 4:
        yield Finding(
            "high_label",
            1,
            f"the highest label is {highest:g}: tell err, as in err((2^r-1)/2^{highest:g}).",
        )
    if found.contradictions:
        yield Finding(
            "contradiction",
            found.contradictions,
            f"{count(found.contradictions, 'document')} contradict an equal one of their query: "
            "the same features, another label.",
        )
    if constant := len(found.constant_features):
        yield Finding(
            "constant_feature",
            constant,
            f"{count(constant, 'feature')} {_have(constant)} the same value in every document: "
            f"{_some(found.constant_features)}.",
        )
    infinite = [feature.name for feature in found.per_feature if feature.infinite]
    if infinite:
        yield Finding(
            "infinite_value",
            len(infinite),
            f"{count(len(infinite), 'feature')} {_have(len(infinite))} infinite values: "
            f"{_some(infinite)}.",
        )


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _share(part: int, queries: int) -> str:
    return f"{count(part, 'query', 'queries')} ({percent(part, queries)})"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _sizes(found: Description) -> Table:
    lengths = found.lengths
    table = make_table("", "number", "", right=["number"])
    table.show_header = False
    table.add_row("documents", f"{found.documents:,}")
    table.add_row(
        "queries",
        f"{found.queries:,}",
        f"of {lengths.min:,} to {lengths.max:,} documents, median {lengths.median:,g}, mean "
        f"{lengths.mean:,.1f}",
    )
    table.add_row("features", f"{found.features:,}", f"{len(found.constant_features)} constant")
    table.add_row(
        "missing",
        percent(found.missing_share, 1),
        f"of all values, in {count(len(found.missing_features), 'feature')}",
    )
    table.add_row(
        "repeated",
        f"{found.duplicates:,}",
        f"documents have the features of an earlier one, {found.contradictions:,} another label",
    )
    return table


def label_table(found: Description) -> Table:
    if found.grades is None:
        table = make_table("share of documents", "label at most", right=["label at most"])
        for quantile, label in found.label_quantiles.items():
            table.add_row(f"{100 * quantile:g} %", f"{label:g}")
        return table
    table = make_table("label", "documents", "share", "", right=["label", "documents", "share"])
    most = max(found.grades.values())
    for label, number in found.grades.items():
        share = percent(number, found.documents)
        table.add_row(f"{label:g}", f"{number:,}", share, bar(number, most))
    return table


def _lengths(found: Description) -> Table:
    table = make_table("documents", "queries", "share", "", right=["documents", "queries", "share"])
    most = max(number for _, _, number in found.lengths.histogram)
    for low, high, number in found.lengths.histogram:
        span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        table.add_row(span, f"{number:,}", percent(number, found.queries), bar(number, most))
    return table


def _features(found: Description) -> Table:
    numeric = ["min", "mean", "max", "zero", "missing"]
    table = make_table("feature", *numeric, right=numeric)
    for feature in found.per_feature:
        figures = (feature.min, feature.mean, feature.max)
        table.add_row(
            feature.name,
            *("-" if figure is None else f"{figure:.5g}" for figure in figures),
            percent(feature.zeros, found.documents),
            percent(feature.missing, found.documents),
        )
    return table

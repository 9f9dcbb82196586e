# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove inspect`: what is in a file; of data, what in them is worth a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rankgrove.cli.console import bar, count, heading, make_table, percent, show, show_json
from rankgrove.cli.files import categories_option
from rankgrove.cli.options import (
    Categorical,
    Json,
    Reading,
    argument,
    is_model_file,
    names_in,
    option,
    takes_reading,
)

if TYPE_CHECKING:
    from rich.table import Table

    from rankgrove.data.describe import Description

_NAMES_SHOWN = 8

_MESSAGES = {
    "one_query": "there is only one query: are the query ids right?",
    "one_document_each": "every query has only one document, so there is nothing to rank: are the "
    "query ids right?",
    "one_document": "{queries_have} only one document: no ranking gets that wrong.",
    "no_relevant": "{queries_have} no relevant document: metrics leave them out (empty=skip) "
    "unless told otherwise.",
    "equal_labels": "{queries_have} the same label on all documents: nothing to learn from.",
    "negative_label": "the lowest label is {detail}: metrics other than pair_accuracy and tau need "
    "0 or more.",
    "many_labels": "there are {number:,} different labels: these look like measurements rather "
    "than grades.",
    "high_label": "the highest label is {detail}: tell err, as in err((2^r-1)/2^{detail}).",
    "contradiction": "{documents} contradict an equal one of their query: the same features, "
    "another label.",
    "constant_feature": "{features_have} the same value in every document: {detail}.",
    "infinite_value": "{features_have} infinite values: {detail}.",
}


@dataclass(frozen=True)
class Finding:
    """Something in the data that is worth a look."""

    kind: str
    count: int
    message: str


@takes_reading
def inspect(
    file: Annotated[Path, argument("FILE", "A data file of any format, or a model.")],
    per_feature: Annotated[bool, option(None, "Also list every feature.", "--per-feature")] = False,
    card: Annotated[
        bool, option(None, "Of a model: a card for a hub, in Markdown.", "--card")
    ] = False,
    out: Annotated[
        Path | None, option("FILE", "With --card: the file to write, as README.md.", "--out", "-o")
    ] = None,
    categorical: Categorical = None,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Show what is in a model or in a data file, and what in the data is worth a look."""
    if card or out is not None:
        from rankgrove.cli.inspect_model import show_card

        show_card(file, out, asked=card)
        return
    if is_model_file(file):
        from rankgrove.cli.inspect_model import inspect_model

        inspect_model(file, json)
        return
    from rankgrove.data.describe import describe

    options = categories_option(file, names_in(categorical))
    found = describe(reading.read(file, **options), n_jobs=reading.n_jobs)
    findings = find_oddities(found)
    if json:
        noted = [asdict(finding) for finding in findings]
        show_json({"file": file, **found.to_dict(), "worth_a_look": noted})
        return
    show(heading(str(file)), "", _sizes(found), "", label_table(found), "", _lengths(found))
    if per_feature:
        show("", _features(found))
    show("")
    if not findings:
        show("Nothing else is worth a look.")
        return
    notes = make_table("", "", rows=(["-", finding.message] for finding in findings))
    show(heading("worth a look"), notes)


def find_oddities(found: Description) -> list[Finding]:
    """What in the data is often a mistake, or changes how numbers must be read."""
    highest = found.label_quantiles[1.0]
    infinite = [feature.name for feature in found.per_feature if feature.infinite]
    details = {
        "negative_label": f"{found.label_quantiles[0.0]:g}",
        "high_label": f"{highest:g}",
        "constant_feature": _some(found.constant_features),
        "infinite_value": _some(infinite),
    }
    counts = {
        **_query_oddities(found),
        "negative_label": int(found.label_quantiles[0.0] < 0),
        "many_labels": found.distinct_labels if found.grades is None else 0,
        "high_label": int(found.grades is not None and highest > 4),
        "contradiction": found.contradictions,
        "constant_feature": len(found.constant_features),
        "infinite_value": len(infinite),
    }
    return [
        Finding(kind, number, _message(kind, number, found.queries, details.get(kind, "")))
        for kind, number in counts.items()
        if number
    ]


def _query_oddities(found: Description) -> dict[str, int]:
    """How many queries are odd, by how; or 1 where the data are."""
    alone, empty = found.queries_with_one_document, found.queries_without_relevant
    equal = found.queries_with_equal_labels
    nothing_to_rank = alone == found.queries > 1
    return {
        "one_query": int(found.queries == 1 < found.documents),
        "one_document_each": alone if nothing_to_rank else 0,
        "one_document": 0 if nothing_to_rank else alone,
        "no_relevant": empty,
        # Those of one document, and most without a relevant one, are among these.
        "equal_labels": equal if equal > max(alone, empty) else 0,
    }


def _message(kind: str, number: int, queries: int, detail: str) -> str:
    share = f"{count(number, 'query', 'queries')} ({percent(number, queries)})"
    have = "has" if number == 1 else "have"
    return _MESSAGES[kind].format(
        number=number, detail=detail, queries_have=f"{share} {have}",
        documents=count(number, "document"), features_have=f"{count(number, 'feature')} {have}",
    )  # fmt: skip


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _sizes(found: Description) -> Table:
    lengths = found.lengths
    span = f"of {lengths.min:,} to {lengths.max:,} documents, median {lengths.median:,g}"
    same = f"documents have the features of an earlier one, {found.contradictions:,} another label"
    missing = f"of all values, in {count(len(found.missing_features), 'feature')}"
    rows = [
        ["documents", f"{found.documents:,}"],
        ["queries", f"{found.queries:,}", f"{span}, mean {lengths.mean:,.1f}"],
        ["features", f"{found.features:,}", f"{len(found.constant_features)} constant"],
        ["missing", percent(found.missing_share, 1), missing],
        ["repeated", f"{found.duplicates:,}", same],
    ]
    return make_table("", "number", "", rows=rows, numeric=1, header=False)


def label_table(found: Description) -> Table:
    if found.grades is None:
        quantiles = found.label_quantiles.items()
        rows = ([f"{100 * share:g} %", f"{label:g}"] for share, label in quantiles)
        return make_table("share of documents", "label at most", rows=rows, numeric=1)
    counts = [(f"{label:g}", number) for label, number in found.grades.items()]
    return _histogram("label", "documents", counts, found.documents)


def _lengths(found: Description) -> Table:
    counts = [
        (f"{low:,}" if low == high else f"{low:,} to {high:,}", number)
        for low, high, number in found.lengths.histogram
    ]
    return _histogram("documents", "queries", counts, found.queries)


def _histogram(name: str, counted: str, counts: list[tuple[str, int]], whole: int) -> Table:
    table = make_table(name, counted, "share", "", numeric=0)
    most = max(number for _, number in counts)
    for label, number in counts:
        table.add_row(label, f"{number:,}", percent(number, whole), bar(number, most))
    return table


def _features(found: Description) -> Table:
    table = make_table("feature", "min", "mean", "max", "zero", "missing", numeric=1)
    for feature in found.per_feature:
        figures = (feature.min, feature.mean, feature.max)
        shares = (percent(number, found.documents) for number in (feature.zeros, feature.missing))
        shown = ["-" if figure is None else f"{figure:.5g}" for figure in figures]
        if feature.levels is not None:
            shown[0] = f"{feature.levels:,} levels"
        table.add_row(feature.name, *shown, *shares)
    return table

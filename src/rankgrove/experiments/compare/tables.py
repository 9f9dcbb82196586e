"""Comparisons as text, Markdown, LaTeX, CSV and plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rankgrove.experiments.tables import (
    aligned,
    csv_text,
    escape_latex,
    latex,
    markdown,
    plain_dict,
    show_interval,
    show_number,
    show_p,
)
from rankgrove.pictures import html

if TYPE_CHECKING:
    from rankgrove.experiments.compare.comparison import Comparison, Row

STAR, PLUS, MINUS = "*", "+", "-"
_SIGNS = {"best": STAR, "equal": STAR, "better": PLUS, "worse": MINUS}
TEST_NAMES = {"t": "paired t-test", "randomisation": "randomisation", "bootstrap": "bootstrap"}


def long_header(comparison: Comparison) -> list[str]:
    """The columns of `long_cells`."""
    level = f"{100 * comparison.method.confidence:g} % interval"
    reference = "to best" if comparison.baseline is None else "to baseline"
    return ["mean", level, reference, "p", "effect", "wins/ties/losses"]


def long_cells(row: Row) -> list[str]:
    """One candidate under one metric: its mean with its mark, and how it compares."""
    compared = not math.isnan(row.adjusted)
    return [
        _SIGNS.get(row.mark, "") + show_number(row.mean),
        show_interval(row.low, row.high),
        show_number(row.difference, sign="+"),
        show_p(row.adjusted),
        show_number(row.effect, 2, "+"),
        f"{row.wins}/{row.ties}/{row.losses}" if compared else "",
    ]


def legend(comparison: Comparison) -> str:
    """What the marks mean, in one line."""
    method = comparison.method
    how = [TEST_NAMES[method.test]]
    if method.test != "t":
        how[0] += f" test of {method.rounds:,} rounds"
    how.append("one-tailed" if method.alternative == "greater" else "two-sided")
    if method.correction and len(comparison.names) > 2:
        how.append("Holm")
    counts = {row.counted for metric in comparison.metrics for row in comparison.summary(metric)}
    queries = f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}"
    by = ", ".join(how)
    if comparison.baseline is None:
        rule = f"{STAR} best, or not significantly worse: {by}, p > {method.level:g}"
    else:
        worse = f", {MINUS} worse" if method.alternative == "two-sided" else ""
        rule = (
            f"{PLUS} significantly better{worse} than {comparison.baseline}: {by}, "
            f"p <= {method.level:g}"
        )
    return f"{rule}; {queries} queries"


def comparison_text(comparison: Comparison) -> str:
    return aligned(*_long_rows(comparison), left=(0, 1)) + "\n\n" + legend(comparison)


def comparison_html(comparison: Comparison) -> str:
    """The table of `comparison_text` for a notebook."""
    return "\n".join(
        [
            html.table(*_long_rows(comparison), left=(0, 1)),
            html.paragraph(legend(comparison)),
        ]
    )


def _long_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    header = ["metric", "candidate", *long_header(comparison)]
    rows = [
        ["" if at else metric, row.name, *long_cells(row)]
        for metric in comparison.metrics
        for at, row in enumerate(comparison.summary(metric))
    ]
    return header, rows


def _wide_rows(
    comparison: Comparison, percent: bool, intervals: bool, bold: str, raised: str
) -> list[list[str]]:
    """A row per candidate and a column per metric; `bold` and `raised` are formats."""
    summaries = {
        metric: {row.name: row for row in comparison.summary(metric)}
        for metric in comparison.metrics
    }
    factor, digits = (100, 2) if percent else (1, 4)
    rows = []
    for name in comparison.names:
        cells = [name]
        for summary in summaries.values():
            row = summary.get(name)
            if row is None:
                cells.append("-")
                continue
            text = f"{factor * row.mean:.{digits}f}"
            top = max(other.mean for other in summary.values())
            if row.mark in ("best", "equal") or (comparison.baseline and row.mean == top):
                text = bold.format(text)
            if row.mark in ("better", "worse"):
                text += raised.format(_SIGNS[row.mark])
            if intervals:
                low, high = factor * row.low, factor * row.high
                text += f" [{low:.{digits}f}, {high:.{digits}f}]"
            cells.append(text)
        rows.append(cells)
    return rows


def comparison_markdown(comparison: Comparison, *, percent: bool, intervals: bool) -> str:
    rows = _wide_rows(comparison, percent, intervals, "**{}**", "<sup>{}</sup>")
    return markdown(["candidate", *comparison.metrics], rows) + f"\n\n{_note(comparison)}.\n"


def comparison_latex(comparison: Comparison, *, percent: bool, intervals: bool) -> str:
    rows = _wide_rows(comparison, percent, intervals, r"\textbf{{{}}}", "$^{{{}}}$")
    escaped = [[escape_latex(row[0]), *row[1:]] for row in rows]
    header = ["Candidate", *map(escape_latex, comparison.metrics)]
    return f"% {_note(comparison)}.\n" + latex(header, escaped) + "\n"


def _note(comparison: Comparison) -> str:
    """The legend of a table in which the best are bold."""
    note = legend(comparison)
    return note.replace(f"{STAR} ", "Bold: ", 1) if comparison.baseline is None else note


def comparison_csv(comparison: Comparison) -> str:
    lines = [
        {"metric": metric, **_as_dict(row)}
        for metric in comparison.metrics
        for row in comparison.summary(metric)
    ]
    header = ["candidate" if name == "name" else name for name in lines[0]]
    return csv_text(header, [list(line.values()) for line in lines])


def _as_dict(row: Row) -> dict[str, Any]:
    values = plain_dict(row)
    if values["p"] is None:
        values |= dict.fromkeys(("wins", "ties", "losses"))
    return values


def _by_name(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    return {row.name: {k: v for k, v in _as_dict(row).items() if k != "name"} for row in rows}


def comparison_dict(comparison: Comparison, *, pairs: bool, changed: int) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for metric in comparison.metrics:
        rows = comparison.summary(metric)
        entry: dict[str, Any] = {
            "reference": comparison.reference(metric),
            "marked": comparison.marked(metric),
            "candidates": _by_name(rows),
        }
        if pairs:
            entry["pairs"] = [plain_dict(pair) for pair in comparison.pairs(metric)]
        if changed:
            entry["changed"] = {
                row.name: [
                    plain_dict(change)
                    for change in comparison.changed(metric, row.name, row.reference, changed)
                ]
                for row in rows
                if row.reference
            }
        if comparison.slicings:
            entry["slices"] = {
                slicing: {
                    group.name: {"queries": group.queries, "candidates": _by_name(group.rows)}
                    for group in comparison.by_slice(slicing, metric)
                }
                for slicing in comparison.slicings
            }
        metrics[metric] = entry
    return {
        "candidates": list(comparison.names),
        "baseline": comparison.baseline,
        **{name: value for name, value in vars(comparison.method).items() if name != "n_jobs"},
        "metrics": metrics,
    }

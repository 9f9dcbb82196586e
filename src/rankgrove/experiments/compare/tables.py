"""Comparisons as text, Markdown, LaTeX, CSV and plain values."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankgrove.experiments.compare.comparison import Comparison, Row

STAR, PLUS, MINUS = "*", "+", "-"
_SIGNS = {"best": STAR, "equal": STAR, "better": PLUS, "worse": MINUS}
_TEST_NAMES = {"t": "paired t-test", "randomisation": "randomisation", "bootstrap": "bootstrap"}

Cells = Sequence[str]


def aligned(header: Cells, rows: Iterable[Cells], left: Iterable[int] = (0,)) -> str:
    """A table in plain text; numbers to the right, the columns in `left` to the left.

    >>> print(aligned(["name", "n"], [["a", "10"], ["bcdef", "2"]]))
    name    n
    a      10
    bcdef   2
    """
    lines = [header, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
    leading = set(left)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at in leading else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(header: Cells, rows: Iterable[Cells]) -> str:
    r"""A Markdown table; the first column to the left, the others to the right.

    >>> print(markdown(["name", "n"], [["a|b", "10"]]))
    | name | n |
    |:---|---:|
    | a\|b | 10 |
    """
    lines = [header, *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|:---" + "|---:" * (len(header) - 1) + "|", *text[1:]])


def latex(header: Cells, rows: Iterable[Cells]) -> str:
    r"""A LaTeX tabular with the rules of booktabs; cells must be escaped by `escape_latex`.

    >>> print(latex(["name", "n"], [["a", "10"]]))
    \begin{tabular}{lr}
    \toprule
    name & n \\
    \midrule
    a & 10 \\
    \bottomrule
    \end{tabular}
    """
    lines = [" & ".join(line) + r" \\" for line in rows]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            " & ".join(header) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escape_latex("a_b & 5 %"))
    a\_b \& 5 \%
    """
    special = {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}",
    }  # fmt: skip
    special |= {char: f"\\{char}" for char in "&%$#_{}"}
    return "".join(special.get(char, char) for char in text)


def csv_text(header: Cells, rows: Iterable[Sequence[Any]], separator: str = ",") -> str:
    """CSV with all digits; None and what is not finite become empty."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if plain(cell) is None else cell for cell in row])
    return text.getvalue()


def plain(value: Any) -> Any:
    """The value for JSON: None where it is a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_p(p: float) -> str:
    """A p-value in four places.

    >>> show_p(0.04321), show_p(1e-9), show_p(1.0), show_p(float("nan"))
    ('0.0432', '<.0001', '1.0000', '')
    """
    return "" if math.isnan(p) else "<.0001" if p < 0.0001 else f"{p:.4f}"


def show_number(value: float, digits: int = 4, sign: str = "") -> str:
    return "" if math.isnan(value) else f"{value:{sign}.{digits}f}"


def show_interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{low:.4f} to {high:.4f}"


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
    how = [_TEST_NAMES[method.test]]
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
    header = ["metric", "candidate", *long_header(comparison)]
    rows = [
        ["" if at else metric, row.name, *long_cells(row)]
        for metric in comparison.metrics
        for at, row in enumerate(comparison.summary(metric))
    ]
    return aligned(header, rows, left=(0, 1)) + "\n\n" + legend(comparison)


def _wide_rows(
    comparison: Comparison, percent: bool, intervals: bool, bold: str, raised: str
) -> list[list[str]]:
    """A row a candidate and a column a metric; `bold` and `raised` are formats."""
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
    note = legend(comparison)
    note = note.replace(f"{STAR} ", "Bold: ", 1) if comparison.baseline is None else note
    return markdown(["candidate", *comparison.metrics], rows) + f"\n\n{note}.\n"


def comparison_latex(comparison: Comparison, *, percent: bool, intervals: bool) -> str:
    rows = _wide_rows(comparison, percent, intervals, r"\textbf{{{}}}", "$^{{{}}}$")
    escaped = [[escape_latex(row[0]), *row[1:]] for row in rows]
    note = legend(comparison)
    note = note.replace(f"{STAR} ", "Bold: ", 1) if comparison.baseline is None else note
    header = ["Candidate", *map(escape_latex, comparison.metrics)]
    return f"% {note}.\n" + latex(header, escaped) + "\n"


def comparison_csv(comparison: Comparison) -> str:
    fields = ("name", *_ROW_FIELDS)
    rows = [
        [metric, *(_as_dict(row)[name] for name in fields)]
        for metric in comparison.metrics
        for row in comparison.summary(metric)
    ]
    return csv_text(["metric", "candidate", *_ROW_FIELDS], rows)


_ROW_FIELDS = (
    "mean", "low", "high", "counted", "skipped", "reference", "difference", "p", "adjusted",
    "effect", "wins", "ties", "losses", "mark",
)  # fmt: skip


def _as_dict(row: Row) -> dict[str, Any]:
    values = {name: plain(value) for name, value in row._asdict().items()}
    if values["p"] is None:
        values |= dict.fromkeys(("wins", "ties", "losses"))
    return values


def _by_name(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    found = {}
    for row in rows:
        values = _as_dict(row)
        found[str(values.pop("name"))] = values
    return found


def _plain_rows(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row._asdict().items()} for row in rows]


def comparison_dict(comparison: Comparison, *, pairs: bool, changed: int) -> dict[str, Any]:
    method = comparison.method
    metrics: dict[str, Any] = {}
    for metric in comparison.metrics:
        rows = comparison.summary(metric)
        entry: dict[str, Any] = {
            "reference": comparison.reference(metric),
            "marked": comparison.marked(metric),
            "candidates": _by_name(rows),
        }
        if pairs:
            entry["pairs"] = _plain_rows(comparison.pairs(metric))
        if changed:
            reference = comparison.reference(metric)
            entry["changed"] = {
                row.name: _plain_rows(comparison.changed(metric, row.name, reference, changed))
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
    head: Mapping[str, Any] = {
        "candidates": list(comparison.names),
        "baseline": comparison.baseline,
        **{name: value for name, value in vars(method).items() if name != "n_jobs"},
    }
    return {**head, "metrics": metrics}

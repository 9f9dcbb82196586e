"""Tables as text: aligned, Markdown, LaTeX, CSV; numbers as text; values for JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

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


def markdown(header: Cells, rows: Iterable[Cells], left: Iterable[int] = (0,)) -> str:
    r"""A Markdown table; numbers to the right, the columns in `left` to the left.

    >>> print(markdown(["name", "n"], [["a|b", "10"]]))
    | name | n |
    |:---|---:|
    | a\|b | 10 |
    """
    lines = [header, *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    leading = set(left)
    sides = ("|:---" if at in leading else "|---:" for at in range(len(header)))
    return "\n".join([text[0], "".join(sides) + "|", *text[1:]])


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


def plain_dict(row: Any) -> dict[str, Any]:
    """The fields of a named tuple for JSON."""
    return {name: plain(value) for name, value in row._asdict().items()}


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

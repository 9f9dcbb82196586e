"""What a notebook shows of a value: tables in HTML, without script, in the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Cells = Sequence[str]


def table(header: Cells, rows: Iterable[Cells], left: Iterable[int] = (0,)) -> str:
    """A table in HTML; numbers to the right, the columns in `left` to the left.

    Without names of columns there is no line for them.

    >>> print(table(["name"], [["a<b"]]))
    <table>
    <tr><th style="text-align: left">name</th></tr>
    <tr><td style="text-align: left">a&lt;b</td></tr>
    </table>
    """
    leading = set(left)

    def line(cells: Cells, tag: str) -> str:
        sides = ("left" if at in leading else "right" for at in range(len(cells)))
        parts = (
            f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>"

    lines = [line(header, "th")] if header else []
    return "\n".join(["<table>", *lines, *(line(row, "td") for row in rows), "</table>"])


def paragraph(text: str) -> str:
    """A line of text.

    >>> paragraph("5 < 6")
    '<p>5 &lt; 6</p>'
    """
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    """A text as it stands: its lines and spaces.

    >>> preformatted("f(x > 1)")
    '<pre>f(x &gt; 1)</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


def folded(title: str, content: str) -> str:
    r"""HTML that a click on its title unfolds.

    >>> folded("all", "<p>it</p>")
    '<details><summary>all</summary>\n<p>it</p>\n</details>'
    """
    return f"<details><summary>{escape(title)}</summary>\n{content}\n</details>"

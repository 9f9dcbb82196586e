# ruff: noqa: PLC0415 (Rich is imported when something is shown: `--version` and `--json` need none)
"""What every command prints with: results on stdout, messages on stderr, one JSON document."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

PROGRAM = "rankgrove"

# Exit codes.
FAILED, MISUSED, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

DIM = "dim"
BOLD = "bold"

# Without a terminal nothing is wrapped: what reads a pipe wants whole lines.
_PIPE_WIDTH = 10_000
_BAR_WIDTH = 40


def show(*parts: RenderableType) -> None:
    """Print to stdout: in colour and within its width on a terminal, plain otherwise."""
    from rich.console import Console

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(
        file=sys.stdout,
        width=_PIPE_WIDTH if piped else None,
        markup=False,  # metric names and paths have square brackets of their own
        highlight=False,
        emoji=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str))
    lines = captured.get().split("\n")
    sys.stdout.write("\n".join(line.rstrip() for line in lines))
    sys.stdout.flush()  # long work may follow


def show_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document to stdout; what is not finite becomes null, a path its text."""
    # ASCII only, as a path need not be valid Unicode.
    sys.stdout.write(json.dumps(_plain(document), indent=2, allow_nan=False) + "\n")


def warn(message: str) -> None:
    """Say on stderr what deserves a look, in one line."""
    print(f"{PROGRAM}: warning: {message}", file=sys.stderr)


def say(message: str) -> None:
    """Say on stderr what happened, in one line."""
    print(f"{PROGRAM}: {message}", file=sys.stderr)


def heading(text: str) -> Text:
    from rich.text import Text

    return Text(text, style=BOLD)


def titled(name: str, title: str) -> Text:
    """A name as a heading, and what it is."""
    return heading(name).append(f"  {title}", style="not bold")


def make_table(
    *columns: str,
    rows: Iterable[Iterable[RenderableType]] = (),
    numeric: int | Iterable[str] = (),
    header: bool = True,
) -> Table:
    """A table in the common style.

    `numeric` has the names of the columns that hold numbers, or the place of the first of them:
    from there on all do that have a name.
    """
    from rich import box
    from rich.table import Table

    right = set(columns[numeric:] if isinstance(numeric, int) else numeric) - {""}
    table = Table(
        box=box.SIMPLE_HEAD if sys.stdout.isatty() else None,
        pad_edge=False,
        show_edge=False,
        header_style="" if sys.stdout.isatty() else "none",
        show_header=header and any(columns),
    )
    for column in columns:
        side: Any = "right" if column in right else "left"
        table.add_column(column, justify=side, no_wrap=column in right, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def files_table(
    files: Mapping[str, Any], data: Mapping[str, Any], metrics: Mapping[str, Mapping[str, float]]
) -> Table:
    """Data files by name: their sizes, and their metrics where there are some."""
    names = list(next(iter(metrics.values()), {}))
    table = make_table("file", "documents", "queries", "features", *names, numeric=1)
    for name, path in files.items():
        part = data[name]
        sizes = (part.n_documents, part.n_queries, part.n_features)
        values = [f"{metrics[name][metric]:.4f}" if name in metrics else "" for metric in names]
        table.add_row(str(path), *(f"{size:,}" for size in sizes), *values)
    return table


def bar(count: int, most: int) -> Text:
    """A bar whose length is the share of `count` in `most`; never empty for a count above 0."""
    from rich.text import Text

    if not _draws_blocks():
        return Text("#" * math.ceil(_BAR_WIDTH * count / max(1, most)))
    eighths = math.ceil(8 * _BAR_WIDTH * count / max(1, most))
    full, rest = divmod(eighths, 8)
    return Text("█" * full + " ▏▎▍▌▋▊▉"[rest].strip(), style="cyan")


def _draws_blocks() -> bool:
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return sys.stdout.isatty() and encoding.startswith("utf")


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "query", "queries"), count(2000, "query", "queries"), count(2, "row")
    ('1 query', '2,000 queries', '2 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(part: float, whole: float) -> str:
    """A share in percent, one digit after the point.

    >>> percent(1, 3)
    '33.3 %'
    """
    return f"{100 * part / whole:.1f} %" if whole else "0.0 %"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value

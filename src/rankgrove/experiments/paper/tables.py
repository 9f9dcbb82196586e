"""The figures of Lyzhin et al. 2022, and our tables beside them: plain, Markdown, LaTeX, JSON.

The figures are in `paper_figures.json`, by table, metric and row, one per data set; of tables 22 to
25 pairs of train and gap. Values are metrics times 100, as the paper has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from rankgrove.experiments.paper.cells import ALGORITHMS, PEER_OF, TABLES, Cell, Row, Table
from rankgrove.experiments.tables import escape_latex, latex, markdown
from rankgrove.metrics.base import Floats

LEVEL = 0.05
# Tables 6 to 9 have the numbers behind figure 1, which shows bars only.
_BEHIND_FIGURE = {"NDCG@10": "6", "MRR": "7", "MAP": "8", "ERR": "9"}
_TITLES = {"figure1": "Effect of the number of neighbors, relative loss compared to YetiLoss"}


@cache
def paper_figures() -> dict[str, dict[str, Any]]:
    """For each table its `title`, the `columns`, data sets, and `rows`: metric, row, values.

    >>> figures = paper_figures()["2"]
    >>> figures["columns"][0], figures["rows"]["MAP"]["YetiLoss"][0]
    ('Web10K', 62.62)
    """
    text = files("rankgrove.experiments").joinpath("paper_figures.json").read_text("utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def paper_columns(table: Table) -> list[str]:
    """The data sets that a table of the paper has."""
    number = _BEHIND_FIGURE["MAP"] if table.kind == "relative" else table.name
    return list(paper_figures()[number]["columns"])


def paper_values(table: Table, metric: str, row: Row) -> dict[str, tuple[float, ...]]:
    """What the paper has for a row, by data set; nothing where it has no such row.

    One number per set; for the generalisation gap two, train and gap. Those of figure 1 are the
    losses 100 - M of tables 6 to 9 by that of the first row, less 1, in percent.
    """
    named = ALGORITHMS[row.algorithm].paper if table.compares_algorithms else None
    title = named or row.title
    found = paper_figures()[_BEHIND_FIGURE[metric] if table.kind == "relative" else table.name]
    rows = found["rows"].get(metric, {})
    values = rows.get(title, [])
    if table.kind == "relative":
        first = rows[table.rows[0].title]
        values = [relative_loss(v, f) for v, f in zip(values, first, strict=False)]
    pairs = zip(found["columns"], values, strict=False)
    return {name: tuple(v) if isinstance(v, list) else (v,) for name, v in pairs}


def relative_loss(value: float, reference: float) -> float:
    """By how many percent the loss 100 - M is above that of the reference.

    >>> round(relative_loss(52.0, 50.0), 9)
    -4.0
    """
    return 100 * ((100 - value) / (100 - reference) - 1)


class Figure(NamedTuple):
    """A cell over its folds: the values of all test queries, and the means on train."""

    values: Floats
    train: float

    @property
    def test(self) -> float:
        return 100 * float(np.nanmean(self.values))

    @property
    def gap(self) -> float:
        return self.train - self.test


# By set and key of the cell.
Figures = Mapping[tuple[str, str], Figure]


class Entry(NamedTuple):
    """What stands in one place: numbers, and whether it is among the best."""

    numbers: tuple[float, ...] = ()
    best: bool = False


class Line(NamedTuple):
    """A row of a grid."""

    title: str
    entries: tuple[Entry, ...]


class Grid(NamedTuple):
    """One metric of a table: columns of our sets, then of the paper's."""

    table: Table
    metric: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        about = _TITLES.get(self.table.name) or paper_figures()[self.table.name]["title"]
        return f"{self.table.title}: {about}" + (f". {self.metric}" if self.metric else "")

    @property
    def parts(self) -> tuple[str, ...]:
        """What the numbers of an entry are, where there are several."""
        return ("train", "gap") if self.table.kind == "gap" else ()


def make_grids(
    table: Table, cells: Sequence[Cell], figures: Figures, sets: Mapping[str, str | None]
) -> list[Grid]:
    """Our figures of a table beside the paper's.

    Parameters
    ----------
    table, cells
        What is shown, and what was run.
    figures
        By set and key of a cell.
    sets
        Our sets, each with its name in the paper, or None. If all are in the paper only their
        columns of it are shown, else all.
    """
    known = [name for name in paper_columns(table) if name in set(sets.values())]
    theirs = known if all(sets.values()) and known else paper_columns(table)
    grids = []
    for metric in table.metrics:
        run = {cell.key for cell in cells if cell.metric == metric}
        rows = [row for row in table.rows if Cell(row, metric).key in run]
        if not rows:
            continue
        tools = {"": [Cell(row, metric) for row in rows]}
        peers = [Cell(row, metric, PEER_OF[row.algorithm]) for row in rows]
        if table.compares_algorithms and any(cell.key in run for cell in peers):
            tools["peer"] = peers
        columns: list[list[Entry]] = []
        for name in sets:
            columns += _columns(table, figures, name, list(tools.values()))
        lines = []
        for at, row in enumerate(rows):
            printed = paper_values(table, metric, row)
            entries = [column[at] for column in columns]
            entries += [Entry(printed.get(name, ())) for name in theirs]
            lines.append(Line(row.title, tuple(entries)))
        titles = [f"{name}, {tool}" if tool else name for name in sets for tool in tools]
        titles += [f"paper: {name}" for name in theirs]
        grids.append(Grid(table, metric, tuple(titles), tuple(lines)))
    return grids


def size_grid(sizes: Mapping[str, Sequence[int]]) -> Grid:
    """Table 1: features, queries and documents of our sets, then of the paper's."""
    found = paper_figures()["1"]
    rows = {**sizes, **{f"paper: {name}": row for name, row in found["rows"][""].items()}}
    lines = [Line(name, tuple(Entry((n,)) for n in numbers)) for name, numbers in rows.items()]
    return Grid(TABLES["1"], "", tuple(found["columns"]), tuple(lines))


def _columns(
    table: Table, figures: Figures, name: str, tools: Sequence[Sequence[Cell]]
) -> list[list[Entry]]:
    """One set: the numbers of the cells of each tool, with those among the best of all marked."""
    keys = [cell.key for cells in tools for cell in cells]
    found = {key: figures[name, key] for key in keys if (name, key) in figures}
    best = among_best({key: figure.values for key, figure in found.items()})
    first = found.get(keys[0])

    def entry(key: str) -> Entry:
        figure = found.get(key)
        if figure is None:
            return Entry()
        if table.kind == "gap":
            return Entry((figure.train, figure.gap))
        if table.kind == "relative":
            return Entry(() if first is None else (relative_loss(figure.test, first.test),))
        return Entry((figure.test,), key in best)

    return [[entry(cell.key) for cell in cells] for cells in tools]


def among_best(values: Mapping[str, Floats], level: float = LEVEL) -> set[str]:
    """The best by its mean, and those that are not significantly below it.

    The paired one-tailed t-test over queries, as in section 4.2.

    >>> sorted(among_best({"a": np.array([1.0, 0.9, 0.8]), "b": np.array([0.1, 0.2, 0.15])}))
    ['a']
    """
    from rankgrove.experiments.compare.significance import paired_t  # noqa: PLC0415 (needs SciPy)

    if not values:
        return set()
    best = max(values, key=lambda key: float(np.nanmean(values[key])))
    return {
        key
        for key, own in values.items()
        if key == best or paired_t(values[best], own, alternative="greater") >= level
    }


def against_peers(
    cells: Sequence[Cell], figures: Figures, sets: Sequence[str]
) -> list[dict[str, Any]]:
    """For each cell that a peer ran too: both means, and the p-values of ours above and below."""
    from rankgrove.experiments.compare.significance import paired_t  # noqa: PLC0415 (needs SciPy)

    found = []
    for name, cell in product(sets, cells):
        ours = Cell(cell.row, cell.metric)
        keys = (name, ours.key), (name, cell.key)
        if cell.tool == ours.tool or any(key not in figures for key in keys):
            continue
        a, b = (figures[key] for key in keys)
        found.append({
            "set": name, "row": cell.row.key, "metric": cell.metric, "peer": cell.tool,
            "ours": a.test, "theirs": b.test,
            "p_above": paired_t(a.values, b.values, alternative="greater"),
            "p_below": paired_t(a.values, b.values, alternative="less"),
        })  # fmt: skip
    return found


def say_peers(pairs: Sequence[Mapping[str, Any]]) -> str:
    """One sentence on how often ours is above and below a peer."""
    above = sum(pair["p_above"] < LEVEL for pair in pairs)
    below = [pair for pair in pairs if pair["p_below"] < LEVEL]
    higher = sum(pair["ours"] > pair["theirs"] for pair in pairs)
    text = (
        f"Of {len(pairs)} cells that a peer ran too, ours is higher in {higher}; significantly "
        f"above in {above} and below in {len(below)}, where chance alone gives "
        f"{LEVEL * len(pairs):.1f} of each."
    )
    if below:
        worse = ", ".join(f"{pair['row']} {pair['metric']} on {pair['set']}" for pair in below)
        text += f" Below: {worse}."
    return text


def _texts(grid: Grid, entry: Entry, mark: Callable[[str], str]) -> list[str]:
    """The numbers of an entry, marked if it is among the best; dashes where there is none."""
    shape = ",d" if grid.table.kind == "sizes" else ".2f"
    texts = [f"{number:{shape}}" for number in entry.numbers] or ["-"] * (len(grid.parts) or 1)
    return [mark(text) for text in texts] if entry.best else texts


def plain_rows(grid: Grid) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text; the best have a star, and all others a blank in its place."""
    starred = any(entry.best for line in grid.lines for entry in line.entries)
    header, rows = _marked(grid, lambda text: f"{text}*")
    if starred:
        rows = [[row[0], *(c if c.endswith("*") else f"{c} " for c in row[1:])] for row in rows]
    return header, rows


def to_markdown(grid: Grid) -> str:
    """A table of Markdown; the best are bold."""
    return f"### {grid.title}\n\n{markdown(*_marked(grid, lambda text: f'**{text}**'))}"


def to_latex(grid: Grid) -> str:
    """A table for booktabs; the best are bold."""
    header, rows = _marked(grid, lambda text: rf"\textbf{{{text}}}")
    header = [escape_latex(cell) for cell in header]
    rows = [[escape_latex(title), *cells] for title, *cells in rows]
    caption = rf"\caption{{{escape_latex(grid.title)}}}"
    return "\n".join([r"\begin{table}", caption, latex(header, rows), r"\end{table}"])


def _marked(grid: Grid, mark: Callable[[str], str]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [line.title, *(text for entry in line.entries for text in _texts(grid, entry, mark))]
        for line in grid.lines
    ]
    parts = grid.parts or ("",)
    header = [f"{name}, {part}" if part else name for name in grid.columns for part in parts]
    return [grid.metric or "data set", *header], rows


def to_json(grid: Grid) -> dict[str, Any]:
    """Plain values."""
    return {
        "table": grid.table.name,
        "title": grid.title,
        "metric": grid.metric,
        "numbers": list(grid.parts) or [grid.table.kind],
        "columns": list(grid.columns),
        "rows": [
            {"title": line.title,
             "entries": [{"values": list(e.numbers), "best": e.best} for e in line.entries]}
            for line in grid.lines
        ],
    }  # fmt: skip

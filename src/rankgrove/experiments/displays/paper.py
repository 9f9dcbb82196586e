"""The figures of Lyzhin et al. 2022 as pictures: the paper's own, and ours beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from rankgrove.errors import DataError, refusal
from rankgrove.experiments.checks import check_one_of
from rankgrove.experiments.paper.cells import TABLES, Cell, Table
from rankgrove.experiments.paper.tables import make_grids, to_json
from rankgrove.pictures.chart import Axis, Bars, Chart, Mark, Panel, Points, Rule, Segments
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import AXIS, candidate

GAP_TABLES = tuple(name for name, table in TABLES.items() if table.kind == "gap")
_RELATIVE = "figure1"


class Cells(NamedTuple):
    """One metric of a table: for each column, a data set, for each row its numbers or None."""

    table: str
    metric: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    numbers: dict[tuple[str, str], tuple[float, ...]]


@dataclass
class RelativeDisplay(Display):
    """The relative loss of other numbers of neighbours: figure 1 of the paper.

    Attributes
    ----------
    cells
        One per metric. The numbers are percent by which 100 - M is above that of one neighbour;
        below 0 is better.
    """

    cells: list[Cells]

    def chart(self) -> Chart:
        panels = [self._panel(one) for one in self.cells]
        label = "Relative loss by the number of neighbours, compared with one neighbour"
        note = "percent by which 100 - M is above that of one neighbour; below 0 is better"
        return Chart(panels, label, note, columns=2)

    def _panel(self, one: Cells) -> Panel:
        rows = [row for row in one.rows[1:] if any((c, row) in one.numbers for c in one.columns)]
        width = 0.8 / max(1, len(rows))
        marks: list[Mark] = []
        for number, row in enumerate(rows):
            pairs = [(at, one.numbers[column, row][0]) for at, column in enumerate(one.columns)
                     if (column, row) in one.numbers]  # fmt: skip
            places = [at + width * (number + 0.5) - 0.4 for at, _ in pairs]
            name = "all pairs" if row == "all" else f"exactly {row} ranks apart"
            marks.append(Bars(places, [value for _, value in pairs], name=name,
                              colour=candidate(number).colour, thickness=width))  # fmt: skip
        marks.append(Rule(0.0, upright=False, dash=()))
        across = Axis(names=_columns(one.columns))
        return Panel(one.metric, across, Axis("%", margin=0.05), marks,
                     max(300, 84 * len(one.columns)), 180)  # fmt: skip


@dataclass
class TrainTestDisplay(Display):
    """Train against test: tables 22 to 25 of the paper.

    Attributes
    ----------
    cells
        One per metric; the numbers are the metric times 100 on train, and the gap to test.
    """

    cells: list[Cells]

    def chart(self) -> Chart:
        label = "The metric on the training queries against that on the test queries"
        note = "each line goes from test to train: the shorter, the better a ranker generalises"
        most = max(len(one.columns) for one in self.cells)
        panels = [panel for one in self.cells for panel in self._panels(one)]
        return Chart(panels, label, note, columns=min(3, most))

    def _panels(self, one: Cells) -> Iterator[Panel]:
        for column in one.columns:
            rows = [row for row in one.rows if (column, row) in one.numbers]
            if not rows:
                continue
            train = [one.numbers[column, row][0] for row in rows]
            test = [value - one.numbers[column, row][1]
                    for value, row in zip(train, rows, strict=True)]  # fmt: skip
            places = range(len(rows))
            marks: list[Mark] = [Segments(test, places, train, places, colour=AXIS)]
            for number, (name, values) in enumerate((("test", test), ("train", train))):
                look = candidate(number)
                marks.append(Points(values, places, name, look.colour, look.shape, 4.0))
            title = f"{one.metric}, {_column(column)}"
            across = Axis(margin=0.08)
            yield Panel(title, across, Axis(names=rows, backwards=True), marks, 220, 26 * len(rows))


def plot_relative(results: Any = None, *, ax: Any = None) -> RelativeDisplay:
    """Figure 1 of Lyzhin et al.: the relative loss of other numbers of neighbours.

    Parameters
    ----------
    results
        What `rankgrove paper DIR --table figure1 --json` printed, as a dict or the path of a file;
        the paper's own numbers stand beside ours. By default the paper's alone.
    ax
        Axes of matplotlib to draw into, one for each metric.

    Examples
    --------
    >>> display = plot_relative()
    >>> [cells.metric for cells in display.cells]
    ['NDCG@10', 'MRR', 'MAP', 'ERR']
    >>> round(display.cells[2].numbers["paper: Web10K", "all"][0], 2)
    0.8
    """
    return RelativeDisplay(_cells_of(results, [_RELATIVE])).drawn_into(ax)


def plot_train_test(
    results: Any = None, *, tables: Sequence[str] = GAP_TABLES, ax: Any = None
) -> TrainTestDisplay:
    """Train against test, as tables 22 to 25 of Lyzhin et al. have it.

    Parameters
    ----------
    results
        What `rankgrove paper DIR --table 22-25 --json` printed, as a dict or the path of a file; by
        default the paper's own numbers.
    tables
        Which of "22", "23", "24" and "25".
    ax
        Axes of matplotlib to draw into, one for each metric and data set.

    Examples
    --------
    >>> cells = plot_train_test(tables=["22"]).cells[0]
    >>> cells.metric, cells.numbers["paper: Web10K", "YetiRank"]
    ('NDCG@10', (56.88, 6.13))
    """
    for name in tables:
        check_one_of("tables", name, GAP_TABLES)
    return TrainTestDisplay(_cells_of(results, list(tables))).drawn_into(ax)


def _cells_of(results: Any, names: Sequence[str]) -> list[Cells]:
    given = [one for name in names for one in _of_paper(TABLES[name])]
    if results is not None:
        found = _read(results)
        given = [one for one in found if one.get("table") in names]
        if not given:
            raise DataError(
                f"results must have the table {' or '.join(names)}. Got none of these: run "
                f"'rankgrove paper DIR --table {','.join(names)} --json'."
            )
    try:
        return [_as_cells(one) for one in given]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError("results must be what 'rankgrove paper --json' printed. Got something "
                        "else.") from None  # fmt: skip


def _of_paper(table: Table) -> list[dict[str, Any]]:
    """The paper's own numbers, in the form that `rankgrove paper --json` has."""
    cells = [Cell(row, metric) for metric in table.metrics for row in table.rows]
    return [to_json(grid) for grid in make_grids(table, cells, {}, {})]


def _read(results: Any) -> list[dict[str, Any]]:
    if isinstance(results, (str, PathLike)):
        try:
            results = json.loads(Path(results).read_text("utf-8"))
        except OSError as error:
            raise DataError(f"{results}: cannot be read: {error.strerror}.") from None
        except ValueError:
            raise DataError(
                f"{results}: must be what 'rankgrove paper --json' printed. Got no JSON."
            ) from None
    if not isinstance(results, Mapping):
        raise refusal("results", "be a dict or the path of a file", got=type(results).__name__)
    tables = results.get("tables", [])
    return [one for one in tables if isinstance(one, dict)] if isinstance(tables, list) else []


def _as_cells(table: Mapping[str, Any]) -> Cells:
    columns = tuple(map(str, table["columns"]))
    rows = tuple(str(row["title"]) for row in table["rows"])
    numbers = {
        (column, row): tuple(float(value) for value in entry["values"])
        for row, line in zip(rows, table["rows"], strict=True)
        for column, entry in zip(columns, line["entries"], strict=True)
        if entry["values"]
    }
    return Cells(str(table["table"]), str(table["metric"]), columns, rows, numbers)


def _column(name: str) -> str:
    return name.removeprefix("paper: ") if name.startswith("paper: ") else f"{name} (ours)"


def _columns(names: Sequence[str]) -> list[str]:
    """The names of data sets for an axis: ours are told from the paper's where both are there."""
    if all(name.startswith("paper: ") for name in names):
        return [_column(name) for name in names]
    return list(names)

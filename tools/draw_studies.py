"""Draw the pictures that the study pages open with, from the figures on these pages.

python tools/draw_studies.py            # all
python tools/draw_studies.py networks   # those whose name has this text in it

Points have a line of two standard errors either way; a line that does not reach 0 is a difference
that the data tell apart from none.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Points, Rule, Segments
from rankgrove.pictures.display import Display, Picture
from rankgrove.pictures.palette import candidate

DOCS = Path(__file__).parents[1] / "docs"
IMAGES = DOCS / "images" / "studies"
_EFFECT = re.compile(r"([+-]\d+\.\d+) ± (\d+\.\d+)")
_ROW_HEIGHT = 19

Row = list[str]
Effect = tuple[str, float, float]


def table_of(page: str, heading: str, number: int = 0) -> list[Row]:
    """A table under a heading of a page: its rows as texts, the names of the columns first."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    below = text.split(f"# {heading}\n", 1)[1]
    lines = re.split(r"^#", below, maxsplit=1, flags=re.M)[0].splitlines()
    tables: list[list[Row]] = [[]]
    for line in lines:
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif tables[-1]:
            tables.append([])
    header, _, *rows = tables[number]
    return [header, *rows]


def effects_of(rows: Sequence[Row], column: int) -> list[Effect]:
    """Name, difference and standard error of each row that has them in a column."""
    found = []
    for row in rows:
        if match := _EFFECT.match(row[column]):
            found.append((_plain(row[0]), float(match[1]), float(match[2])))
    return found


def _plain(name: str) -> str:
    return name.replace("`", "").replace("'", "")


def effects_panel(
    title: str, effects: Sequence[Effect], measured: str = "difference in NDCG@10", *,
    named: bool = True, width: int = 320, ticks: Sequence[float] = (),
) -> Panel:  # fmt: skip
    """Differences with two standard errors either way, one below the other."""
    look, places = candidate(0), list(range(len(effects)))
    means = [mean for _, mean, _ in effects]
    marks: list[Mark] = [
        Rule(0.0),
        Segments(
            [mean - 2 * error for _, mean, error in effects], places,
            [mean + 2 * error for _, mean, error in effects], places, "", look.colour, caps=True,
        ),
        Points(means, places, "", look.colour, "circle", 3.5),
    ]  # fmt: skip
    names = Axis(names=[name for name, *_ in effects], backwards=True, shown=named)
    height = 14 + _ROW_HEIGHT * len(effects)
    across = Axis(measured, margin=0.05)
    if ticks:
        # The same for several panels, so that they can be compared.
        shown = [(t, f"{t:+g}".replace("-", "\N{MINUS SIGN}") if t else "0") for t in ticks]
        across = Axis(measured, 2 * ticks[0], 2 * ticks[-1], ticks=shown)
    return Panel(title, across, names, marks, width, height)


def defaults() -> Chart:
    text = (DOCS / "defaults.md").read_text(encoding="utf-8")
    effects = []
    for parameter in re.findall(r"^### (.+)$", text, re.M):
        _, *rows = table_of("defaults", parameter)
        short = parameter.replace("truncation=None, metric", "metric")
        effects += [
            (f"{short}={name}" if parameter != "random_state" else "another seed", mean, error)
            for name, mean, error in effects_of(rows, -1)
        ]
    return Chart([effects_panel("", effects, width=420)], "What other values of parameters come to")


def options() -> Chart:
    header, *rows = table_of("options", "Mean of the data sets")
    alone = [row for row in rows if not row[0].startswith("together")]
    panels = []
    # Two panels stand beside each other under one list of names: those that either has.
    for pair in ((1, 2), (3, 4)):
        shown = [row for row in alone if any(_EFFECT.match(row[column]) for column in pair)]
        for column in pair:
            found = {name: numbers for name, *numbers in effects_of(shown, column)}
            effects = [
                (_plain(row[0]), *found.get(_plain(row[0]), (math.nan, math.nan))) for row in shown
            ]
            panels.append(
                effects_panel(header[column], effects, named=column == pair[0], width=230,
                              ticks=(-0.01, 0, 0.01))
            )  # fmt: skip
    note = "no point: what the base model has by default"
    return Chart(panels, "What each option comes to alone, for four base models", note, columns=2)


def neighbours() -> Chart:
    header, *rows = table_of("neighbours", "Less the default, mean of the data sets")
    panels = [
        effects_panel(_plain(header[column]), effects_of(rows, column), "difference",
                      named=column == 2, width=190, ticks=(-0.015, 0, 0.015),)
        for column in (2, 3, 4)
    ]  # fmt: skip
    return Chart(panels, "Other numbers of neighbours and rankings, less the default")


def number_of_trees() -> Chart:
    header, *rows = table_of("number-of-trees", "On synthetic data: where the rule comes from")
    by_rate = [row for row in rows if row[0].endswith("/ rate")]
    factors = [float(row[0].split()[0]) for row in by_rate]
    x = [math.log2(factor) for factor in factors]
    marks: list[Mark] = [Rule(math.log2(10))]
    for number, column in enumerate((1, 2, 3, 4)):
        look = candidate(number)
        name = re.sub(r" \(\d+\)$", "", header[column])
        values = [float(row[column]) for row in by_rate]
        marks += [
            Line(x, values, name, look.colour, look.dash),
            Points(x, values, name, look.colour, look.shape, 3.0),
        ]
    ticks = [(place, f"{factor:g}") for place, factor in zip(x, factors, strict=True)]
    axes = Axis("trees times learning rate", ticks=ticks), Axis("short of the best NDCG@10", low=0)
    note = "the upright line is the rule: 10 / learning rate"
    return Chart([Panel("", *axes, marks, 520, 240)], "What rules fall short of the best", note)


def truncation() -> Chart:
    panels = []
    for metric in ("NDCG@1", "NDCG@10", "NDCG"):
        header, *rows = table_of("truncation", f"Trained for {metric}")
        column = header.index(f"mean of the sets, {metric}")
        panels.append(
            effects_panel(f"trained for {metric}", effects_of(rows, column),
                          f"{metric}, less that of 30", width=220)
        )  # fmt: skip
    return Chart(panels, "What other truncations come to, less that of 30")


def networks() -> Chart:
    _, *rows = table_of("networks", "The figures", 1)
    return Chart(
        [effects_panel("", effects_of(rows, -1), width=420)], "Networks and trees compared"
    )


PICTURES: dict[str, Callable[[], Chart]] = {
    "defaults": defaults,
    "options": options,
    "neighbours": neighbours,
    "number-of-trees": number_of_trees,
    "truncation": truncation,
    "networks": networks,
}


def draw(name: str) -> Display:
    """The picture of a page."""
    return Picture(PICTURES[name]())


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:] or [""]
    for name in PICTURES:
        if any(text in name for text in wanted):
            draw(name).save(IMAGES / f"{name}.svg")
            print(IMAGES / f"{name}.svg")


if __name__ == "__main__":
    main()

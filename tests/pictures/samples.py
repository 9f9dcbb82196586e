"""A chart that has every mark, and what one reads back from SVG."""

from __future__ import annotations

from xml.etree import ElementTree

from rankgrove.pictures.chart import (
    Arrows,
    Axis,
    Band,
    Bars,
    Chart,
    Line,
    Panel,
    Points,
    Rule,
    Segments,
    Text,
    stacked,
)  # fmt: skip
from rankgrove.pictures.palette import DOWN, UP, candidate, label_colours, text_on
from rankgrove.pictures.shapes import NAMES

SVG = "{http://www.w3.org/2000/svg}"


def parts(picture, tag):
    return list(ElementTree.fromstring(picture).iter(SVG + tag))


def texts(picture):
    return [node.text for node in parts(picture, "text")]


def points_of(path):
    """The places that a path of straight lines goes through."""
    return [tuple(map(float, point.split())) for point in path[1:].rstrip("Z").split("L")]


def chart_of(*marks, **options):
    return Chart([Panel(marks=marks, **options)], "l")


def every_mark():
    grades = label_colours(5)
    curves = Panel(
        "curves <&> bands",
        Axis("trees"),
        Axis("ndcg@10", margin=0.05),
        [
            Band([0, 1, 2], [0.1, 0.2, 0.3], [0.3, 0.5, 0.6], "interval"),
            Rule(1.0, name="best"),
            Rule(0.4, upright=False, dash=()),
            *(
                Line([0, 1, 2], [n / 10, n / 9, n / 8], f"candidate {n}", *candidate(n)[:2])
                for n in range(6)
            ),
        ],
    )
    bars = Panel(
        "bars",
        Axis("drop"),
        Axis(names=["clicks", "bm25", "a $ long_name$"], backwards=True),
        [Bars([0, 1, 2], [3.0, 2.0, -1.0], lying=True, errors=[0.5, 0.2, 0.1], colour=UP)],
    )
    layers = [(f"label {n}", [n + 1.0, 2.0], colour) for n, colour in enumerate(grades)]
    stacks = Panel("stacks", Axis(names=["1", "2"]), Axis("documents"), stacked([0, 1], layers))
    rest = Panel(
        "marks",
        Axis(low=-1, high=6),
        Axis(low=0, high=4, backwards=True),
        [
            *(Points([n], [1], n * "x", candidate(n).colour, s) for n, s in enumerate(NAMES)),
            Segments([0, 1], [2, 2], [1, 3], [3, 2.5], caps=True),
            Segments([3], [2], [5], [3], dash=(4, 4), colour=DOWN),
            Arrows([0, 2, 4], [4, 2, 3], [0, 2, 4], [3, 3.2, 2.999], colour=DOWN),
            *(Text(n, 3.6, str(n), text_on(c), chip=c) for n, c in enumerate(grades)),
            Text(5, 0.3, "$1", anchor="end", bold=True, size=14, shift=(4, 4)),
        ],
    )
    return Chart([curves, bars, stacks, rest], "every mark", "a note", columns=2)

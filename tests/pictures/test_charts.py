"""Pictures: sound SVG, with every line where its numbers say, and colours that can be seen."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree

import numpy as np
import pytest

from rankgrove.pictures.charts import Line, Panel, draw
from rankgrove.pictures.palette import DARK, LIGHT, N_COLOURS
from rankgrove.pictures.scales import Scale

SVG = "{http://www.w3.org/2000/svg}"


def parts(picture, tag):
    return list(ElementTree.fromstring(picture).iter(SVG + tag))


def paths(picture, name):
    return [node for node in parts(picture, "path") if name in node.get("class").split()]


def texts(picture):
    return [node.text for node in parts(picture, "text")]


def test_a_line_goes_through_its_points():
    line = Line([0.0, 5.0, 10.0], [1.0, 3.0, 2.0])
    [path] = paths(draw([Panel("t", "x", [line], width=100, height=100)], label="l"), "line")
    points = np.array([point.split() for point in path.get("d")[1:].split("L")], dtype=float)
    assert np.diff(points[:, 0]).tolist() == [50.0, 50.0]
    # The range of 2 has a margin of a twentieth at both ends; heights grow upwards.
    assert np.diff(points[:, 1]) == pytest.approx([-100 / 1.1, 50 / 1.1], abs=0.11)


def test_a_point_that_is_not_finite_leaves_a_gap():
    line = Line([0, 1, 2, 3], [1.0, 2.0, math.nan, 1.0])
    [path] = paths(draw([Panel("t", "x", [line])], label="l"), "line")
    assert path.get("d").count("M") == 2
    assert path.get("d").count("L") == 1


def test_panels_stand_side_by_side_under_one_legend():
    lines = [Line([0, 1], [0, 1], "a<b", 0), Line([0, 1], [1, 2], "a<b", 0, True),
             Line([0, 1], [2, 3], "c", 1)]  # fmt: skip
    picture = draw([Panel("one", "x", lines), Panel("two", "x", lines)], label="l", note="n")
    assert texts(picture).count("a<b") == 1
    assert texts(picture)[:3] == ["n", "a<b", "c"]
    drawn = paths(picture, "line")[2:]
    assert len(drawn) == 6
    assert [node.get("stroke-dasharray") for node in drawn[:3]] == [None, "5 4", None]
    firsts = [float(node.get("d")[1:].split()[0]) for node in (drawn[0], drawn[3])]
    width = float(parts(picture, "rect")[0].get("width"))
    assert firsts[1] - firsts[0] == width / 2


def test_lines_past_the_end_of_the_palette_have_the_same_colours_and_other_dashes():
    lines = [Line([0, 1], [n, n + 1], str(n), n) for n in range(2 * N_COLOURS)]
    drawn = paths(draw([Panel("t", "x", lines)], label="l"), "line")[2 * N_COLOURS :]
    looks = [(node.get("class"), node.get("stroke-dasharray")) for node in drawn]
    assert len(set(looks)) == 2 * N_COLOURS
    assert len({colour for colour, _ in looks}) == N_COLOURS


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0], [], [1e-300, 2e-300], [1e12, 1e12 + 1]])
def test_any_values_have_a_scale_with_ticks(values):
    scale = Scale.around(values, 0, 100, margin=0.05)
    assert scale.low < scale.high
    assert scale.ticks()


@pytest.mark.parametrize("seed", range(20))
def test_ticks_are_round_numbers_within_the_range_and_not_too_many(seed):
    rng = np.random.default_rng(seed)
    span = float(rng.random() * 10.0 ** rng.integers(-3, 5))
    low = float(10 * span * rng.normal())
    scale = Scale(low, low + span, 0, 100)
    ticks = [value for value, _ in scale.ticks()]
    assert 2 <= len(ticks) <= 8
    assert min(ticks) >= scale.low - 1e-6 * span
    assert max(ticks) <= scale.high + 1e-6 * span
    step = ticks[1] - ticks[0]
    assert round(step / 10.0 ** math.floor(math.log10(step) + 1e-6), 6) in (1, 2, 5)
    assert len({text for _, text in scale.ticks()}) == len(ticks)


def luminance(colour):
    """Of sRGB, as WCAG 2 defines it."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a, b):
    low, high = sorted(map(luminance, (a, b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_lines_and_text_stand_out_from_the_ground(palette):
    assert all(contrast(colour, palette.ground) >= 3 for colour in palette.lines)
    assert contrast(palette.text, palette.ground) >= 7


# What someone without one kind of cone sees of linear red, green and blue: Machado, Oliveira and
# Fernandes (2009), protanopia and deuteranopia of full severity.
MACHADO = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
}  # fmt: skip


def lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratios = (xyz @ linear) / [0.9505, 1.0, 1.089]
    f = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("kind", ["any", *MACHADO])
def test_colours_are_told_apart_by_the_colour_blind(palette, kind):
    matrix = np.array(MACHADO.get(kind, np.eye(3)))
    seen = []
    for colour in palette.lines:
        parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        seen.append(lab(np.clip(matrix @ linear, 0, 1)))
    nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    # A difference of 2.3 is just seen side by side (Mahy et al. 1994).
    assert nearest >= 20

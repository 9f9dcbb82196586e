"""Charts as SVG: sound, with every mark where its numbers say."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from pictures.samples import chart_of, every_mark, parts, points_of, texts
from rankgrove.errors import ParameterError
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
)  # fmt: skip
from rankgrove.pictures.palette import DOWN, UP
from rankgrove.pictures.scales import Scale
from rankgrove.pictures.svg import draw


def path_of(mark, **options):
    """The last path, that of the one mark, in a panel from 0 to 10 of 100 pixels."""
    fixed = {"x": Axis(low=0, high=10), "y": Axis(low=0, high=10), "width": 100, "height": 100}
    return parts(draw(chart_of(mark, **(fixed | options))), "path")[-1]


def origin():
    """Where 0, 0 is in that panel."""
    return points_of(path_of(Line([0, 0], [0, 0])).get("d"))[0]


def relative(points):
    return [(round(x - origin()[0], 1), round(origin()[1] - y, 1)) for x, y in points]


def test_a_line_goes_through_its_points():
    path = path_of(Line([0, 5, 10], [1, 3, 2]))
    assert relative(points_of(path.get("d"))) == [(0, 10), (50, 30), (100, 20)]


def test_a_point_that_is_not_finite_leaves_a_gap():
    path = path_of(Line([0, 1, 2, 3], [1.0, 2.0, math.nan, 1.0])).get("d")
    assert (path.count("M"), path.count("L")) == (2, 1)
    band = path_of(Band([0, 1, 2, 3, 4], [1, 1, 1, math.nan, 1], [2, 2, math.inf, 2, 2])).get("d")
    assert band.count("M") == band.count("Z") == 2
    assert path_of(Points([0, 1], [math.nan, 1], shape="square")).get("d").count("M") == 1


def test_bars_reach_from_start_to_end_across_their_place():
    upright = path_of(Bars([5], [8], [2], thickness=2)).get("d")
    lying = path_of(Bars([5], [8], [2], thickness=2, lying=True)).get("d")
    x, y = origin()
    assert upright == f"M{x + 40:.1f} {y - 20:.1f}V{y - 80:.1f}H{x + 60:.1f}V{y - 20:.1f}Z"
    assert lying == f"M{x + 20:.1f} {y - 40:.1f}H{x + 80:.1f}V{y - 60:.1f}H{x + 20:.1f}Z"


def test_errors_of_bars_go_both_ways_from_their_ends():
    path = path_of(Bars([5], [8], errors=[1])).get("d").split("M")[1]
    assert relative(points_of("M" + path)) == [(50, 70), (50, 90)]
    path = path_of(Bars([5], [8], errors=[1], lying=True)).get("d").split("M")[1]
    assert relative(points_of("M" + path)) == [(70, 50), (90, 50)]


def test_a_band_goes_along_one_side_and_back_along_the_other():
    path = path_of(Band([0, 10], [1, 2], [3, 4])).get("d")
    assert relative(points_of(path)) == [(0, 30), (100, 40), (100, 20), (0, 10)]


def test_segments_and_rules_stand_at_their_numbers():
    assert relative(points_of(path_of(Segments([1], [2], [3], [4])).get("d"))) == [
        (10, 20),
        (30, 40),
    ]
    x, y = origin()
    assert path_of(Rule(5)).get("d") == f"M{x + 50:.1f} {y:.1f}V{y - 100:.1f}"
    across = path_of(Rule(5, upright=False)).get("d")
    assert across == f"M{x:.1f} {y - 50:.1f}H{x + 100:.1f}"


def test_the_tip_of_an_arrow_is_where_it_ends_and_its_head_grows_with_its_length():
    heads = [points_of(path_of(Arrows([5], [0], [5], [end])).get("d")) for end in (0.5, 2, 10)]
    assert [relative(head)[0] for head in heads] == [(50, 5), (50, 20), (50, 100)]
    sizes = [head[1][1] - head[0][1] for head in heads]
    assert sizes == pytest.approx([1.5 + 5 / 8, 1.5 + 20 / 8, 6.0], abs=0.11)


def test_a_tiny_arrow_is_a_dash_without_a_head():
    assert path_of(Arrows([5], [0], [5], [0.1])).get("d") == ""


def test_an_axis_that_goes_backwards_has_small_numbers_on_top():
    path = path_of(Line([0, 0], [0, 10]), y=Axis(low=0, high=10, backwards=True))
    (_, first), (_, second) = points_of(path.get("d"))
    assert second - first == 100


def test_a_text_stands_at_its_place_and_on_its_chip():
    picture = draw(chart_of(Text(0, 0, "2", chip=UP), Text(1, 1, "3")))
    nodes = [node for node in parts(picture, "text") if node.text in "23" and node.get("font-size")]
    [_, chip] = parts(picture, "rect")
    middle = float(chip.get("x")) + float(chip.get("width")) / 2
    assert float(nodes[0].get("x")) == pytest.approx(middle, abs=0.1)


def test_panels_stand_in_rows_under_one_legend():
    lines = [Line([0, 1], [0, 1], "a<b"), Line([0, 1], [1, 2], "a<b"), Line([0, 1], [2, 3], "c")]
    chart = Chart([Panel(n, marks=lines) for n in ("one", "two", "three")], "l", "n", columns=2)
    picture = draw(chart)
    assert texts(picture)[:3] == ["n", "a<b", "c"]
    assert texts(picture).count("a<b") == 1
    one, two, three = (
        next(node for node in parts(picture, "text") if node.text == title)
        for title in ("one", "two", "three")
    )
    assert one.get("y") == two.get("y") != three.get("y")
    assert one.get("x") == three.get("x") != two.get("x")


def test_names_take_the_place_of_numbers():
    picture = draw(chart_of(Bars([0, 1], [1, 2]), x=Axis(names=["first", "second"])))
    assert {"first", "second"} <= set(texts(picture))
    ticked = draw(chart_of(Bars([0, 1], [1, 2]), x=Axis(ticks=[(0.5, "half")])))
    assert "half" in texts(ticked)


def test_a_picture_says_what_it_is_and_has_nothing_from_elsewhere():
    picture = draw(Chart(every_mark().panels, 'what "it" is & <does>'))
    root = ElementTree.fromstring(picture)
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'what "it" is & <does>'
    assert picture.count("http") == 1  # the name of SVG itself
    assert "nan" not in picture


def test_any_text_comes_back_whole_but_what_no_xml_may_hold():
    given = ["</svg><script>", "\"'&", "שלום", "日本語 🙂", "a\x00b\x1b\ud800", "x" * 10_000]
    picture = draw(Chart([Panel(marks=[Text(0, 0, text) for text in given])], given[4]))
    shown = texts(picture)
    assert all(text in shown for text in (*given[:4], given[5]))
    assert "a\ufffdb\ufffd\ufffd" in shown
    assert not parts(picture, "script")


def test_rules_of_one_picture_reach_no_other():
    pictures = [draw(chart_of(Line([0, 1], [0, 1], colour=colour))) for colour in (UP, DOWN)]
    scopes = []
    for picture in pictures:
        scope = ElementTree.fromstring(picture).get("class")
        rules = re.findall(r"^(.*) \{ ", parts(picture, "style")[0].text, re.MULTILINE)
        assert all(rule.startswith(f".{scope} ") for rule in rules if not rule.startswith("@media"))
        scopes.append(scope)
    # The same drawing with other colours has the same rules' names, and must not have its scope.
    assert scopes[0] != scopes[1]


def test_every_colour_has_a_light_and_a_dark_rule():
    style = parts(draw(every_mark()), "style")[0].text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    names = re.findall(r"\.([sf]\d+) ", light)
    assert names
    assert sorted(names) == sorted(re.findall(r"\.([sf]\d+) ", dark))


def test_the_same_chart_gives_the_same_text():
    assert draw(every_mark()) == draw(every_mark())


def test_a_shape_that_does_not_exist_is_refused():
    with pytest.raises(ParameterError, match=r"the shape of points must be one of circle.*'squar'"):
        draw(chart_of(Points([1], [1], shape="squar")))


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0], [], [1e-300, 2e-300], [1e12, 1e12 + 1]])
def test_any_values_have_a_range_with_ticks(values):
    low, high = Axis(margin=0.05).limits(values)
    assert low < high
    assert Scale(low, high, 0, 100).ticks()
    draw(chart_of(Line(values, values)))


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

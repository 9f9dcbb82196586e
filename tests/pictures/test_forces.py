"""Arrows on a ranked list: none meets another, and lengths are the forces."""

from __future__ import annotations

import itertools
import random

import pytest

from rankgrove.pictures.chart import Arrows, Chart, Text
from rankgrove.pictures.forces import (
    LANES,
    LONGEST,
    Documents,
    Pushes,
    arrow_of,
    ranked_lists,
)
from rankgrove.pictures.shapes import head_size
from rankgrove.pictures.svg import draw

ROW = LANE = 20


def panels_of(*lists, longest=2.0):
    many = [
        (
            Documents([float(at % 2) for at in range(len(forces))], [0.0, 1.0]),
            [Pushes("one", forces, longest), Pushes("two", forces[::-1], longest)],
        )
        for forces in lists
    ]
    return ranked_lists([f"list {at}" for at in range(len(lists))], many)


@pytest.mark.parametrize("seed", range(5))
def test_no_two_arrows_meet_whatever_the_forces(seed):
    chance = random.Random(seed)
    forces = [chance.choice([-1.0, 1.0, chance.uniform(-1, 1)]) for _ in range(40)]
    arrows = [arrow_of(rank, force, 1.0) for rank, force in enumerate(forces, 1)]
    for a, b in itertools.combinations(arrows, 2):
        # A head is as wide as 1.5 times its length.
        wide = 0.75 * sum(head_size(ROW * abs(arrow.end - arrow.start)) for arrow in (a, b))
        beside = LANE * abs(a.x - b.x) > wide
        (_, first_ends), (second_starts, _) = sorted(
            sorted((arrow.start, arrow.end)) for arrow in (a, b)
        )
        assert beside or first_ends < second_starts


def test_arrows_of_opposite_longest_forces_in_one_lane_stand_side_by_side():
    down, up = arrow_of(1, -1.0, 1.0), arrow_of(1 + LANES, 1.0, 1.0)
    assert down.end > up.end
    assert down.x - up.x == 0.5


def test_lengths_are_proportional_to_forces_and_the_longest_is_bounded():
    for force in (-2.0, -0.5, 0.25, 2.0):
        arrow = arrow_of(3, force, 2.0)
        assert arrow.start - arrow.end == pytest.approx(LONGEST * force / 2.0)
    assert arrow_of(3, 0.0, 0.0)[1:] == (3, 3)


def test_a_rank_is_at_the_same_height_in_every_list():
    one, two = panels_of([2.0, -0.1, -0.1], [-0.1, -2.0, 0.2])
    assert one.limits()[1] == two.limits()[1]
    assert one.height == two.height


def test_all_that_is_drawn_is_within_the_panel():
    (panel,) = panels_of([2.0, -2.0, 0.0, 1.0])
    (left, right), (top, bottom) = panel.limits()
    for mark in panel.marks:
        xs, ys = mark.reach()
        assert all(left <= x <= right for x in xs)
        assert all(top <= y <= bottom for y in ys)


def test_up_and_down_differ_in_colour_and_head():
    (panel,) = panels_of([2.0, -1.0])
    first, second = [mark for mark in panel.marks if isinstance(mark, Arrows)][:2]
    assert (first.name, second.name) == ("pushed up", "pushed down")
    assert first.colour != second.colour
    assert first.y1[0] < first.y0[0]
    assert second.y1[0] > second.y0[0]


def test_the_scale_is_printed():
    (panel,) = panels_of([2.0, -1.0], longest=2.5)
    texts = [mark.text for mark in panel.marks if isinstance(mark, Text)]
    assert texts.count("longest arrow: 2.5") == 2


def test_a_long_name_is_cut_and_foreign_text_stays_text():
    names = ["a" * 40, "<script>alert(1)</script>"]
    listed = Documents([0.0, 1.0], [0.0, 1.0], names)
    panels = ranked_lists(["<b>"], [(listed, [Pushes("one", [1.0, -1.0], 1.0)])])
    text = draw(Chart(panels, "forces"))
    assert "a" * 12 + "\u2026" in text
    assert "a" * 13 not in text
    assert "<script>" not in text
    assert "&lt;b&gt;" in text

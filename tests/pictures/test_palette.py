"""Colours that everyone can tell apart and read, computed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rankgrove.pictures import palette
from rankgrove.pictures.palette import (
    AXIS,
    CANDIDATES,
    DOWN,
    GROUND,
    LABEL_STEPS,
    TEXT,
    UP,
    Colour,
    candidate,
    label_colours,
    text_on,
)  # fmt: skip

# What someone without one kind of cone sees of linear red, green and blue: Machado, Oliveira and
# Fernandes (2009), of full severity.
SEEN = {
    "trichromacy": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
GROUNDS = pytest.mark.parametrize("ground", [0, 1], ids=["light", "dark"])
EYES = pytest.mark.parametrize("eyes", SEEN)


def linear(colour):
    shares = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(light):
    """CIE L*a*b* of linear sRGB under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratios = (xyz @ light) / [0.9505, 1.0, 1.089]
    f = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours, eyes):
    """The smallest distance of two of these colours, as such eyes see them."""
    seen = [lab(np.clip(np.array(SEEN[eyes]) @ linear(colour), 0, 1)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a, b):
    low, high = sorted(map(luminance, (a, b)))
    return (high + 0.05) / (low + 0.05)


# A distance of 2.3 is just seen side by side (Mahy et al. 1994). In a picture colours stand apart,
# so that more is asked.
@GROUNDS
@EYES
def test_up_and_down_are_far_apart(ground, eyes):
    assert nearest([UP[ground], DOWN[ground]], eyes) > 80


@GROUNDS
@EYES
def test_every_pair_of_candidates_is_told_apart_by_colour(ground, eyes):
    assert nearest([colour[ground] for colour in CANDIDATES], eyes) > 18
    assert nearest([colour[ground] for colour in CANDIDATES[:2]], eyes) > 70


def test_every_pair_of_candidates_but_the_first_is_told_apart_by_dashes_and_shapes_too():
    looks = [candidate(number) for number in range(3 * len(CANDIDATES))]
    first = looks[: len(CANDIDATES)]
    for a, b in itertools.combinations(first, 2):
        assert {a, b} == set(first[:2]) or a.dash != b.dash
    assert len({look.shape for look in first}) == len(first)
    # Past the end of the palette a colour comes again, its dashes and its shape do not.
    assert len({(look.colour, look.dash) for look in looks}) == len(looks)
    assert len({(look.colour, look.shape) for look in looks}) == len(looks)


@EYES
def test_neighbouring_grades_differ_and_the_outer_ones_are_far_apart(eyes):
    # Chips have the grade's number on them, and bars of grades stand in their order.
    assert nearest(LABEL_STEPS, eyes) > 12
    assert nearest([LABEL_STEPS[0], LABEL_STEPS[-1]], eyes) > 60


@pytest.mark.parametrize("number", [1, 2, 3, 5, 9, 31])
def test_grades_get_darker_step_by_step(number):
    steps = label_colours(number)
    assert len(steps) == number
    light = [luminance(colour.light) for colour in steps]
    assert all(a > b for a, b in itertools.pairwise(light))


def test_five_grades_have_the_five_steps():
    assert [colour.light for colour in label_colours(5)] == list(LABEL_STEPS)
    assert [colour.dark for colour in label_colours(5)] == list(LABEL_STEPS)


@pytest.mark.parametrize("number", [2, 5, 31])
def test_the_number_on_a_chip_can_be_read(number):
    for chip in label_colours(number):
        for ground in (0, 1):
            assert contrast(text_on(chip)[ground], chip[ground]) >= 4.5


@GROUNDS
def test_text_is_read_and_graphics_are_seen(ground):
    for colour in (TEXT, AXIS, UP, DOWN):
        assert contrast(colour[ground], GROUND[ground]) >= 4.5
    for colour in CANDIDATES:
        assert contrast(colour[ground], GROUND[ground]) >= 3


def test_contrast_is_that_of_wcag():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = ("#" + "".join(f"{n:02x}" for n in rng.integers(0, 256, 3)) for _ in range(2))
        assert palette.contrast(a, b) == pytest.approx(contrast(a, b))


def test_the_distance_sees_what_the_colour_blind_do_not():
    assert nearest(["#2e7d32", "#c2571a"], "protanopia") < 15
    assert nearest(["#2e7d32", "#c2571a"], "trichromacy") > 60
    assert isinstance(UP, Colour)

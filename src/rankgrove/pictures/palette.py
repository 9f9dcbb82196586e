"""The colours of all pictures, each on a light and on a dark ground.

Whatever has to be told apart is told apart by people of any kind of colour vision:
`tests/pictures/test_palette.py` computes it. Where two candidates come near for some, their dashes
and shapes differ as well.
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """One colour, as it is on a light and on a dark ground."""

    light: str
    dark: str


GROUND = Colour("#ffffff", "#161616")
TEXT = Colour("#1f1f1f", "#ececec")
AXIS = Colour("#5f5f5f", "#a0a0a0")
GRID = Colour("#dddddd", "#3a3a3a")

# Where something goes. They say nothing about good or bad, and always come with a second sign.
UP = Colour("#0072b2", "#56b4e9")
DOWN = Colour("#b34e00", "#e69f00")

# Those of candidates: the first of Okabe and Ito (2008), the others moved apart.
CANDIDATES = (
    Colour("#0072b2", "#56b4e9"),
    Colour("#d55e00", "#ff8c42"),
    Colour("#0da963", "#2ee88f"),
    Colour("#9a0f69", "#c878ac"),
    Colour("#5a4a00", "#ffda1d"),
    Colour("#222222", "#ffffff"),
)
# Lengths of stroke and gap. The first two candidates are far apart for all eyes.
DASHES: tuple[tuple[float, ...], ...] = ((), (), (7, 3), (2, 3), (9, 3, 2, 3), (4, 2))
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "down")

# The grade of a document, the lowest first: one blue, from light to dark, on any ground.
LABEL_STEPS = ("#cfd8dc", "#90caf9", "#42a5f5", "#1565c0", "#0d2f6b")
# Black and white: one of the two is always read, whatever the ground; greys are not.
_DARK_TEXT, _LIGHT_TEXT = "#000000", "#ffffff"


class Look(NamedTuple):
    """How a candidate is drawn: its colour, the dashes of its lines, the shape of its points."""

    colour: Colour
    dash: tuple[float, ...]
    shape: str


def candidate(number: int) -> Look:
    """The look of a candidate; past the end of the palette colours come again, dashes do not.

    >>> candidate(0).colour == candidate(6).colour, candidate(0).dash, candidate(6).dash
    (True, (), (3, 3))
    """
    again, place = divmod(number, len(CANDIDATES))
    dash: tuple[float, ...] = DASHES[place]
    if again:
        dash = (*dash, 2 * again + 1, 3)
    return Look(CANDIDATES[place], dash, SHAPES[(place + again) % len(SHAPES)])


def label_colours(number: int) -> tuple[Colour, ...]:
    """So many steps from the lowest grade to the highest; between the five they are mixed.

    >>> [colour.light for colour in label_colours(3)]
    ['#cfd8dc', '#42a5f5', '#0d2f6b']
    """
    last = len(LABEL_STEPS) - 1
    shares = [at / max(1, number - 1) * last for at in range(number)]
    mixed = [
        _mix(LABEL_STEPS[int(share)], LABEL_STEPS[min(int(share) + 1, last)], share % 1)
        for share in shares
    ]
    return tuple(Colour(colour, colour) for colour in mixed)


def density_colours(number: int) -> tuple[Colour, ...]:
    """So many steps from few to many: darker on a light ground, brighter on a dark one.

    >>> density_colours(5)[4] == Colour("#0d2f6b", "#cfd8dc")
    True
    """
    steps = [colour.light for colour in label_colours(number)]
    return tuple(Colour(*pair) for pair in zip(steps, reversed(steps), strict=True))


def text_on(ground: Colour) -> Colour:
    """Black or white, whichever is easier to read on a colour.

    >>> text_on(label_colours(2)[0]).light, text_on(label_colours(2)[1]).light
    ('#000000', '#ffffff')
    """
    light, dark = (
        max((_DARK_TEXT, _LIGHT_TEXT), key=lambda text: contrast(text, shade)) for shade in ground
    )
    return Colour(light, dark)


def contrast(a: str, b: str) -> float:
    """How far two colours stand apart in brightness, from 1 to 21, as WCAG 2 defines it.

    >>> contrast("#ffffff", "#000000")
    21.0
    """
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    shares = (part / 255 for part in _parts(colour))
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _mix(a: str, b: str, share: float) -> str:
    pairs = zip(_parts(a), _parts(b), strict=True)
    return "#" + "".join(f"{round(x + share * (y - x)):02x}" for x, y in pairs)


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))

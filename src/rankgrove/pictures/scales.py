"""From numbers to places in a picture, and the round numbers that stand along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps the numbers from `low` to `high` to the places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(
        cls, values: Iterable[float], start: float, end: float, margin: float = 0.0
    ) -> Scale:
        """One for all finite values, with a margin, a share of their range, at both ends.

        >>> Scale.around([1.0, 3.0], 0, 100, margin=0.5)
        Scale(low=0.0, high=4.0, start=0, end=100)
        """
        finite = [float(value) for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        room = margin * (high - low)
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            room = 0.5 * abs(high) or 0.5
        return cls(low - room, high + room, start, end)

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 8) -> list[tuple[float, str]]:
        """Round numbers in the range, at most so many, each with its text.

        >>> [text for _, text in Scale(0.0, 1.0, 0, 100).ticks()]
        ['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']
        """
        span = self.high - self.low
        power = 10.0 ** math.floor(math.log10(span / most))
        step = next(f * power for f in (1, 2, 5, 10, 20) if span / (f * power) <= most - 1)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(n * step, _text(n * step, digits)) for n in range(first, last + 1)]


def _text(value: float, digits: int) -> str:
    largest, most_digits = 1e7, 6
    plain = abs(value) < largest and digits <= most_digits
    return f"{value + 0.0:,.{digits}f}" if plain else f"{value:.6g}"

"""From numbers to places in a picture, and the round numbers that stand along an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps the numbers from `low` to `high` to the places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 8) -> list[tuple[float, str]]:
        """Round numbers in the range, at most so many, each with its text.

        >>> [text for _, text in Scale(-1.0, 1.0, 0, 100).ticks()]
        ['−1.0', '−0.5', '0.0', '0.5', '1.0']
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
    text = f"{value + 0.0:,.{digits}f}" if plain else f"{value:.6g}"
    return text.replace("-", "−")  # noqa: RUF001 (a true minus sign, as wide as the digits)

"""Features that parameters name, by name or number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rankgrove.data.documents import feature_numbers
from rankgrove.errors import refusal


def monotone_signs(
    monotone: Mapping[Any, int] | Collection[int] | None, feature_names: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.int8]]:
    """For each feature whether the score may only rise (1) or fall (-1) in it, or either (0)."""
    signs = np.zeros(len(feature_names), dtype=np.int8)
    if monotone is None:
        return signs
    if isinstance(monotone, Mapping):
        numbers = feature_numbers("monotone", list(monotone), feature_names)
        values = list(monotone.values())
    else:
        values = list(monotone)
        if len(values) != len(feature_names):
            rule = f"have one entry per feature, {len(feature_names)}, or be a mapping"
            raise refusal("monotone", rule, got=f"{len(values)} entries")
        numbers = list(range(len(values)))
    for number, sign in zip(numbers, values, strict=True):
        if sign not in (-1, 0, 1):
            got = f"{sign!r} for {feature_names[number]}"
            raise refusal("monotone", "be 1, -1 or 0", got=got)
        signs[number] = sign
    return signs

"""Parts of a JSON document of which nothing is known: each is what it must be, or is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.model.files import AGAIN, refuse


def parse_json(content: bytes) -> dict[str, Any]:
    """The object that a text holds."""
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        refuse(f"must be whole JSON. Got other text, or only the start of it. {AGAIN}")
    return as_object(found, "the model")


def as_object(value: Any, name: str) -> dict[str, Any]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        refuse(f"must have an object for {name}. Got {_kind(value)}. {AGAIN}")
    return value


def object_in(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in another one."""
    return as_object(parent.get(name), name)


def list_in(parent: dict[str, Any], name: str, length: int | None = None) -> list[Any]:
    """A list in an object, of a length if one is told."""
    value = parent.get(name)
    if not isinstance(value, list):
        refuse(f"must have a list for {name}. Got {_kind(value)}. {AGAIN}")
    if length is not None and len(value) != length:
        refuse(f"must have {length} entries in {name}. Got {len(value)}. {AGAIN}")
    return value


def text_in(parent: dict[str, Any], name: str) -> str:
    """A string in an object."""
    value = parent.get(name)
    if not isinstance(value, str):
        refuse(f"must have a string for {name}. Got {_kind(value)}. {AGAIN}")
    return value


def numbers_in(
    parent: dict[str, Any], name: str, dtype: type[Any], length: int | None = None
) -> NDArray[Any]:
    """A list of numbers as an array."""
    return as_numbers(list_in(parent, name, length), name, dtype)


def as_numbers(values: list[Any], name: str, dtype: type[Any]) -> NDArray[Any]:
    """Numbers as an array; those of a type of integers must be whole."""
    if any(type(value) not in (int, float, bool) for value in values):
        refuse(f"must have numbers in {name}. Got others. {AGAIN}")
    try:
        with np.errstate(over="ignore"):
            found = np.array(values, dtype)
    except (ValueError, OverflowError):
        refuse(f"must have numbers in {name}. Got some out of range. {AGAIN}")
    if np.issubdtype(dtype, np.integer) and any(value != int(value) for value in values):
        refuse(f"must have whole numbers in {name}. Got others. {AGAIN}")
    return found


def whole_in(parent: dict[str, Any], name: str, default: int | None = None) -> int:
    """A whole number in an object, which may stand there as text."""
    value = parent.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        refuse(f"must have a whole number for {name}. Got {_kind(value)}. {AGAIN}")
    return value


def _kind(value: Any) -> str:
    return "none" if value is None else f"a {type(value).__name__}"

"""The types of arguments that kernels are compiled for ahead, and how they are written down.

`signatures.json` lists them: those of the common commands, and all others. A type is a text, such
as `int64`, `readonly float32 2d` or `turned uint8 2d`, or for a tuple a list of its name and its
fields. `python tools/list_signatures.py` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import types

from rankgrove._jit.addresses import Addressed, tuple_type

_FILE = Path(__file__).with_name("signatures.json")
_TUPLE = "tuple"
# Words for an array: it is not written to; its first index counts fastest.
_READONLY, _TURNED = "readonly", "turned"


@dataclass(frozen=True)
class Listed:
    """A kernel and types of its arguments.

    Attributes
    ----------
    module, name
        Of the kernel.
    signature
        The types, as a text: see `signature_text`.
    is_common
        Whether a common command calls it so.
    """

    module: str
    name: str
    signature: str
    is_common: bool


def signature_text(signature: Iterable[Any]) -> str:
    """The types of arguments as a text that is the same in every process.

    >>> signature_text([types.int64, types.Array(types.float32, 2, "C", readonly=True)])
    '["int64","readonly float32 2d"]'
    """
    return json.dumps([_describe(each) for each in signature], separators=(",", ":"))


def parse_signature(text: str) -> tuple[Any, ...]:
    """The types that a text stands for.

    >>> signature_text(parse_signature('["int64","readonly float32 2d"]'))
    '["int64","readonly float32 2d"]'
    """
    return tuple(map(_make, json.loads(text)))


def read_list() -> list[Listed]:
    """All kernels that are compiled ahead, those that take longest first."""
    content = json.loads(_FILE.read_text("utf-8"))
    return [
        Listed(module, name, json.dumps(signature, separators=(",", ":")), is_common)
        for module, name, is_common, signature in content
    ]


def write_list(listed: Iterable[Listed]) -> None:
    """Write the list of kernels that are compiled ahead."""
    lines = [
        json.dumps([each.module, each.name, each.is_common, json.loads(each.signature)])
        for each in listed
    ]
    _FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def _describe(type_: Any) -> Any:
    """A type as JSON."""
    if isinstance(type_, types.Array):
        if type_.layout == "A" or not type_.aligned:
            raise TypeError(f"kernels take contiguous arrays, not {type_}")
        words = [] if type_.mutable else [_READONLY]
        words += [_TURNED] if type_.layout == "F" else []
        return " ".join([*words, str(type_.dtype), f"{type_.ndim}d"])
    if isinstance(type_, Addressed):
        return _describe(type_.plain)
    if isinstance(type_, types.BaseTuple):
        members: Any = type_
        fields = [_describe(each) for each in members]
        class_ = getattr(type_, "instance_class", None)
        return [_TUPLE if class_ is None else f"{class_.__module__}:{class_.__qualname__}", *fields]
    if isinstance(type_, (types.Number, types.Boolean, types.NoneType)):
        return str(type_)
    raise TypeError(f"kernels of the list take no {type_}")


def _make(description: Any) -> Any:
    """The type that JSON stands for."""
    if isinstance(description, list):
        name, members = description[0], [_make(each) for each in description[1:]]
        if name == _TUPLE:
            return types.BaseTuple.from_types(members)
        module, class_ = name.split(":")
        return tuple_type(members, getattr(import_module(module), class_))
    *words, last = description.split(" ")
    if not words:
        return types.none if last == "none" else getattr(types, last)
    dtype = getattr(types, words[-1])
    return types.Array(
        dtype, int(last[:-1]), "F" if _TURNED in words else "C", readonly=_READONLY in words
    )

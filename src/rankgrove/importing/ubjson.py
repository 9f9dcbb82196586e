"""Universal Binary JSON, as XGBoost writes it: the same documents as JSON, numbers as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankgrove.model.files import AGAIN, refuse

# The type of a number by its mark; all are big-endian.
_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_WHOLE = "iUIlL"
_CONSTANTS = {"Z": None, "T": True, "F": False}
_DEEPEST = 64


def parse_ubjson(content: bytes) -> Any:
    r"""The value that a text of bytes holds.

    >>> parse_ubjson(b"{i\x01aSi\x02ok}")
    {'a': 'ok'}
    """
    return _Reader(content).value(0)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def value(self, depth: int, mark: str | None = None) -> Any:
        """The value here; its mark comes first unless it is told."""
        mark = self._mark() if mark is None else mark
        if depth > _DEEPEST:
            refuse(f"must be nested less than {_DEEPEST} deep. Got more. {AGAIN}")
        if mark in _NUMBERS:
            return self._numbers(mark, 1)[0]
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark == "S":
            return self._text()
        if mark == "[":
            return self._list(depth)
        if mark == "{":
            return self._object(depth)
        return refuse(f"must be whole UBJSON. Got the mark {mark!r}. {AGAIN}")

    def _take(self, size: int) -> bytes:
        found = self._content[self._at : self._at + size]
        if size < 0 or len(found) != size:
            refuse(f"must be whole UBJSON. Got only the start of it. {AGAIN}")
        self._at += size
        return found

    def _mark(self) -> str:
        return self._take(1).decode("latin-1")

    def _numbers(self, mark: str, count: int) -> list[Any]:
        kind = np.dtype(_NUMBERS[mark])
        found: list[Any] = np.frombuffer(self._take(count * kind.itemsize), kind).tolist()
        return found

    def _length(self, mark: str) -> int:
        if mark not in _WHOLE:
            refuse(f"must have lengths that are whole numbers. Got the mark {mark!r}. {AGAIN}")
        return int(self._numbers(mark, 1)[0])

    def _text(self, mark: str | None = None) -> str:
        length = self._length(self._mark() if mark is None else mark)
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError:
            refuse(f"must have strings in UTF-8. Got other bytes. {AGAIN}")

    def _list(self, depth: int) -> list[Any]:
        mark = self._mark()
        kind = None
        if mark == "$":
            kind, mark = self._mark(), self._mark()
        if mark != "#":
            if kind is not None:
                refuse(f"must count the entries of a typed list. Got no count. {AGAIN}")
            found = []
            while mark != "]":
                found.append(self.value(depth + 1, mark))
                mark = self._mark()
            return found
        count = self._length(self._mark())
        if kind in _NUMBERS:
            return self._numbers(str(kind), count)
        # Every entry takes a byte, or a file of few bytes could ask for all memory.
        if not 0 <= count <= len(self._content) - self._at:
            refuse(f"must be whole UBJSON. Got a list of {count} entries. {AGAIN}")
        return [self.value(depth + 1, kind) for _ in range(count)]

    def _object(self, depth: int) -> dict[str, Any]:
        found = {}
        mark = self._mark()
        while mark != "}":
            name = self._text(mark)
            found[name] = self.value(depth + 1)
            mark = self._mark()
        return found

"""What goes wrong, by kind.

Every message has four parts: the name of the thing, the rule, the value got and what to do.
All errors derive from `RankgroveError`, so one `except` catches whatever Rankgrove raises on
purpose; anything else that escapes is a defect.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


class RankgroveError(Exception):
    """Base of every error that Rankgrove raises on purpose."""


class DataError(RankgroveError, ValueError):
    """The data break a rule: a label is NaN, a query is split, a file is empty."""


class ParseError(DataError):
    """A text file has a place that cannot be read.

    Attributes
    ----------
    path, line, column
        Where; line and column count from 1, the column in bytes.
    problem
        The message without its place.
    """

    def __init__(self, problem: str, path: str, line: int, column: int) -> None:
        super().__init__(f"{path}:{line}:{column}: {problem}")
        self.problem = problem
        self.path = path
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[type[ParseError], tuple[str, str, int, int]]:
        return type(self), (self.problem, self.path, self.line, self.column)


class ParameterError(RankgroveError, ValueError):
    """An argument breaks a rule, or a name does not exist."""


class MissingExtraError(RankgroveError, ImportError):
    """An optional package is needed for this and is not installed."""


def unknown_name(what: str, got: str, known: Iterable[str]) -> ParameterError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> print(unknown_name("tie policy", "wurst", ["worst", "best"]))
    tie policy must be one of worst, best. Got 'wurst'; did you mean 'worst'?
    """
    names = list(known)
    # Whatever the case: LambdaMART is near lambdamart.
    in_lower_case = {name.lower(): name for name in names}
    near = difflib.get_close_matches(got.lower(), in_lower_case, n=1)
    hint = f"; did you mean {in_lower_case[near[0]]!r}?" if near else "."
    return ParameterError(f"{what} must be one of {', '.join(names)}. Got {got!r}{hint}")


def is_number(value: Any) -> bool:
    """Whether a value is a real number, of Python or of NumPy; a bool is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole_number(
    name: str,
    value: Any,
    least: int,
    most: int | None = None,
    *,
    none: bool = False,
    also: str = "",
) -> Any:
    """A whole number as an int, refused if it is none or outside its range; or None, if it may be.

    `also` says what else would have been allowed.

    >>> whole_number("k", 0, 1)
    Traceback (most recent call last):
    rankgrove.errors.ParameterError: k must be a whole number, 1 or more. Got 0.
    """
    if none and value is None:
        return None
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        rule = f"{least} or more" if most is None else f"from {least} to {most}"
        also = f", or {also or None}" if none or also else ""
        raise ParameterError(f"{name} must be a whole number, {rule}{also}. Got {value!r}.")
    return int(value)


def need_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for an optional package that is not installed."""
    return MissingExtraError(
        f"{purpose} needs the package {package!r}, which is not installed. "
        f"Install it with: pip install 'rankgrove[{extra}]'"
    )

"""What goes wrong, by kind.

Every message has four parts: the name of the thing, the rule, the value got and what to do.
All errors derive from `RankgroveError`, so one `except` catches whatever Rankgrove raises on
purpose; anything else that escapes is a defect.

A parameter has one name in Python and another on the command line. Whoever writes a message marks
it with `parameter("n_features", 16)`, which reads `n_features=16` in the message; the command line
shows the same mark as `--n-features 16`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

# What stands between these is said in another way on the command line. No text has them.
_OPEN, _CLOSE = "\x02", "\x03"
_WORDS = ("None", "True", "False")
_MARKED = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


class RankgroveError(Exception):
    """Base of every error that Rankgrove raises on purpose.

    Attributes
    ----------
    marked
        The message with its marks; one that goes into another message goes there with them.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_MARKED.sub(r"\1", message))
        self.marked = message

    def told(self, render: Callable[[str, str | None], str]) -> str:
        """The message with each marked parameter, and its value if it has one, as `render` says.

        None, True and False, which are marked too, are in lower case: so one writes them in a file
        or on a command line.

        >>> error = ParameterError(f"pass {parameter('max_depth', 3)}, or {word(None)}.")
        >>> error.told(lambda name, value: f"{name} of {value}")
        'pass max_depth of 3, or none.'
        """

        def rendered(mark: re.Match[str]) -> str:
            name, _, value = mark[1].partition("=")
            return name.lower() if name in _WORDS else render(name, value or None)

        return _MARKED.sub(rendered, self.marked)


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
        self.problem = str(RankgroveError(problem))
        self.path = path
        self.line = line
        self.column = column

    def __reduce__(self) -> Any:
        return type(self), (self.problem, self.path, self.line, self.column), self.__dict__


class ParameterError(RankgroveError, ValueError):
    """An argument breaks a rule, or a name does not exist."""

    @property
    def name(self) -> str | None:
        """The parameter that it is about, the first one that is marked; None if there is none.

        >>> refusal("max_depth", "be 1 or more", 0).name
        'max_depth'
        """
        names = (mark.partition("=")[0] for mark in _MARKED.findall(self.marked))
        return next((name for name in names if name not in _WORDS), None)


class MissingExtraError(RankgroveError, ImportError):
    """An optional package is needed for this and is not installed."""


_NO_VALUE: Any = object()


def parameter(name: str, value: Any = _NO_VALUE) -> str:
    """A parameter for a message, alone or with a value.

    >>> print(DataError(f"Sort the rows, or pass {parameter('split_queries', 'group')}."))
    Sort the rows, or pass split_queries='group'.
    """
    return f"{_OPEN}{name}{'' if value is _NO_VALUE else f'={value!r}'}{_CLOSE}"


def word(value: Any) -> str:
    """None, True or False for a message."""
    return f"{_OPEN}{value!r}{_CLOSE}"


def refusal(
    name: str, rule: str, value: Any = None, *, got: str | None = None, advice: str = ""
) -> ParameterError:
    """The error of a parameter that breaks a rule, in its four parts.

    Parameters
    ----------
    name
        The parameter; or a text in which it is marked, as "a width in hidden".
    rule
        What goes on after "must".
    value, got
        What it is: the value, or words for it.
    advice
        What to do, where the rule does not say it.

    >>> print(refusal("resume", "be left out for a network", "run.safetensors"))
    resume must be left out for a network. Got 'run.safetensors'.
    >>> print(refusal("valid", "be given to stop early", got="none", advice="pass valid="))
    valid must be given to stop early. Got none: pass valid=.
    """
    subject = parameter(name) if name.isidentifier() else name
    shown = repr(value) if got is None else got
    return ParameterError(f"{subject} must {rule}. Got {shown}{advice and f': {advice}'}.")


def check_names(what: str, names: Iterable[Any], known: Iterable[str]) -> None:
    """Refuse the first name that does not exist."""
    for name in names:
        if name not in known:
            raise unknown_name(what, str(name), known)


def unknown_name(what: str, got: str, known: Iterable[str]) -> ParameterError:
    """The error for a name that does not exist, with the nearest one that does.

    `what` says what the name is one of; a parameter is marked in it.

    >>> print(unknown_name("tie policy", "wurst", ["worst", "best"]))
    tie policy must be one of worst, best. Got 'wurst'; did you mean 'worst'?
    """
    names = list(known)
    # Whatever the case: LambdaMART is near lambdamart.
    in_lower_case = {name.lower(): name for name in names}
    near = difflib.get_close_matches(got.lower(), in_lower_case, n=1)
    hint = f"; did you mean {in_lower_case[near[0]]!r}?" if near else "."
    return ParameterError(f"{what} must be one of {', '.join(names)}. Got {got!r}{hint}")


def refuse_repeats(subject: str, names: Iterable[str], advice: str = "") -> None:
    """Refuse names of which two are the same.

    >>> refuse_repeats("column names", ["a", "b", "a"], "Rename one.")
    Traceback (most recent call last):
    rankgrove.errors.DataError: column names must differ from each other. Got 'a' twice. Rename one.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            problem = f"{subject} must differ from each other. Got {name!r} twice. {advice}"
            raise DataError(problem.rstrip())
        seen.add(name)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, of Python or of NumPy; a bool is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole_number(value: Any) -> bool:
    """Whether a value is an integer, of Python or of NumPy; a bool is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


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
    if not is_whole_number(value) or value < least or (most is not None and value > most):
        rule = f"{least} or more" if most is None else f"from {least} to {most}"
        also = f", or {also or word(None)}" if none or also else ""
        raise refusal(name, f"be a whole number, {rule}{also}", value)
    return int(value)


def need_extra(package: str, extra: str | None, purpose: str) -> MissingExtraError:
    """The error for an optional package that is not installed, of an extra or by itself."""
    source = f"'rankgrove[{extra}]'" if extra else package
    return MissingExtraError(
        f"{purpose} needs the package {package!r}, which is not installed. "
        f"Install it with: pip install {source}"
    )

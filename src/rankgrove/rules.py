"""What a parameter may be, and what it is for: said once, at its field.

A parameter is a field of a dataclass that `option` makes. Its type says whether it is a number, a
whole one, a flag or one of some words, and whether it may be None; its `Rule` says the rest. All
checks, messages, `--help`, the parameters of estimators and docs/parameters.md are made from these.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, reduce
from numbers import Integral
from operator import or_
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from rankgrove.errors import is_number, parameter, refusal, unknown_name, word

# The value of a parameter that is left to training: `resolve` finds what it comes to.
AUTO: Literal["auto"] = "auto"
Auto = Literal["auto"]

_UNIONS = (Union, UnionType)
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class Rule:
    """What is said of a parameter at its field.

    Attributes
    ----------
    help
        What it is, in a sentence or two.
    more
        What a user should know besides: for the documents, not for `--help`.
    panel
        The heading that it stands under.
    least, above, most, below
        The bounds of a number: itself allowed or not.
    auto, none
        What `auto` comes to, and what None means.
    metavar
        What stands for the value in `--help`, where the type does not say it.
    check
        Refuses a value, by its name and itself, where the type and bounds do not say it all.
    parse
        What a text means that is no number, flag or word.
    settle
        What `auto` comes to, from the other parameters of the same value.
    drawn
        What `tune` draws it from unless told: low, high and, if evenly in the logarithm, "log".
    """

    help: str = ""
    more: str = ""
    panel: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    auto: str = ""
    none: str = ""
    metavar: str = ""
    check: Callable[[str, Any], None] | None = None
    parse: Callable[[str], Any] | None = None
    settle: Callable[[Any], Any] | None = None
    drawn: tuple[Any, ...] = ()


def option(default: Any, help: str = "", more: str = "", **rule: Any) -> Any:
    """A field with a default and a `Rule`; what it leaves out is that of the base class."""
    texts = {name: text for name, text in (("help", help), ("more", more)) if text}
    return field(default=default, metadata=texts | rule)


def is_auto(value: Any) -> bool:
    """Whether a value is left to training."""
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True)
class Option:
    """A parameter: its name, its type, its default and its rule."""

    name: str
    hint: Any
    default: Any
    rule: Rule

    @cached_property
    def types(self) -> tuple[Any, ...]:
        """What its type is one of."""
        return get_args(self.hint) if get_origin(self.hint) in _UNIONS else (self.hint,)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words that it may be, but for `auto`."""
        several = (get_args(part) for part in self.types if get_origin(part) is Literal)
        return tuple(name for names in several for name in names if name != AUTO)

    @property
    def takes_none(self) -> bool:
        return NoneType in self.types

    @property
    def is_number(self) -> bool:
        return int in self.types or float in self.types

    def check(self, value: Any) -> None:
        """Refuse a value that breaks the rule."""
        if (value is None and self.takes_none) or (is_auto(value) and self.default == AUTO):
            return
        if self.rule.check is not None:
            self.rule.check(self.name, value)
        elif isinstance(value, str) and value in self.words:
            return
        elif self.words and not self.is_number:
            none = [word(None)] if self.takes_none else []
            raise unknown_name(parameter(self.name), str(value), [*self.words, *none])
        elif (self.is_number or bool in self.types) and not self._is_allowed(value):
            raise refusal(self.name, f"be {self.allowed}", value)

    def _is_allowed(self, value: Any) -> bool:
        if bool in self.types:
            return isinstance(value, (bool, np.bool_))
        is_whole = isinstance(value, Integral)
        if not is_number(value) or not (is_whole or (float in self.types and math.isfinite(value))):
            return False
        rule = self.rule
        return (
            (rule.above is None or value > rule.above)
            and (rule.least is None or value >= rule.least)
            and (rule.most is None or value <= rule.most)
            and (rule.below is None or value < rule.below)
        )

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        rule = self.rule
        if bool in self.types:
            return f"{word(True)} or {word(False)}"
        none = [word(None)] if self.takes_none else []
        if not self.is_number:
            return f"one of {', '.join([*self.words, *none])}" if self.words else self.metavar
        bounds = [("above {:g}", rule.above), ("{:g} or more", rule.least),
                  ("at most {:g}", rule.most), ("below {:g}", rule.below)]  # fmt: skip
        if float in self.types:
            within = " and ".join(text.format(bound) for text, bound in bounds if bound is not None)
            text = f"a finite number {within}"
        elif rule.most is None:
            text = f"a whole number, {rule.least} or more"
        else:
            text = f"a whole number, from {rule.least} to {rule.most}"
        others = [*self.words, *(f"{name}{rule.none and f' for {rule.none}'}" for name in none)]
        return f"{text}, or {' or '.join(others)}" if others else text

    def parse(self, text: Any) -> Any:
        """What a text means; one that is no such value is left for `check` to refuse."""
        if not isinstance(text, str):
            return text
        if self.takes_none and text.lower() == "none":
            return None
        if self.rule.parse is not None:
            return self.rule.parse(text)
        if bool in self.types:
            return _FLAGS.get(text.lower(), text)
        if int in self.types and re.fullmatch(r"[+-]?\d+", text):
            return int(text)
        if float in self.types and "_" not in text:
            try:
                return float(text)
            except ValueError:
                pass
        return text

    @property
    def metavar(self) -> str:
        """What stands for its value in `--help`."""
        if self.rule.metavar:
            return self.rule.metavar
        if bool in self.types:
            return "|".join(_FLAGS)
        kind = "N" if int in self.types else "X" if float in self.types else "NAME"
        words = self.words if self.is_number else ()
        return "|".join([kind, *words, *(["none"] if self.takes_none else [])])

    @property
    def meaning(self) -> str:
        """What it is, and the words that it may be, in one line."""
        text = self.rule.help[:1].upper() + self.rule.help[1:]
        return (
            text if self.is_number or not self.words else f"{text} One of {', '.join(self.words)}."
        )

    @property
    def summary(self) -> str:
        """Its meaning and its default, in one line."""
        return f"{self.meaning} By default {self.default_text}."

    @property
    def default_text(self) -> str:
        """What it is by default, in words."""
        if is_auto(self.default):
            return self.rule.auto
        if self.default is None:
            return self.rule.none or "none"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ",".join(map(str, self.default))
        return f"{self.default:g}" if is_number(self.default) else str(self.default)


def options_of(kind: type) -> dict[str, Option]:
    """The parameters of a dataclass by name; what a field does not say, that of a base class does.

    >>> @dataclass
    ... class Cut:
    ...     k: int = option(10, "How deep.", least=1)
    >>> options_of(Cut)["k"].default_text
    '10'
    """
    any_kind: Any = kind
    return _options_of(any_kind)


@cache
def _options_of(kind: Any) -> dict[str, Option]:
    hints, found = get_type_hints(kind), {}
    for entry in fields(kind):
        rule: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            own = getattr(base, "__dataclass_fields__", {}).get(entry.name)
            rule |= {} if own is None else own.metadata
        found[entry.name] = Option(entry.name, hints[entry.name], entry.default, Rule(**rule))
    return found


def check_options(value: Any, but: Container[str] = ()) -> None:
    """Refuse a dataclass with a parameter that breaks its rule; settle what follows from others."""
    for name, entry in options_of(value.__class__).items():
        if name in but:
            continue
        if entry.rule.settle is not None and is_auto(getattr(value, name)):
            object.__setattr__(value, name, entry.rule.settle(value))
        entry.check(getattr(value, name))


def with_options(options: Mapping[str, Option]) -> Callable[[type], type]:
    """Give a class these parameters as fields, before it becomes a dataclass."""

    def add(kind: type) -> type:
        for name, entry in options.items():
            kind.__annotations__[name] = entry.hint
            setattr(kind, name, option(entry.default, **vars(entry.rule)))
        return kind

    return add


def union_of(kinds: Mapping[str, type], panel: str) -> dict[str, Option]:
    """The parameters that any of several dataclasses has, each left open by default.

    One that means something else to some of them says so.
    """
    found: dict[str, dict[str, Option]] = {}
    for owner, kind in kinds.items():
        for name, entry in options_of(kind).items():
            found.setdefault(name, {})[owner] = entry
    return {name: _merged(name, owners, panel) for name, owners in found.items()}


def _listed(names: list[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _merged(name: str, owners: Mapping[str, Option], panel: str) -> Option:
    first = next(iter(owners.values()))
    meanings: dict[str, list[str]] = {}
    for owner, entry in owners.items():
        meanings.setdefault(entry.rule.help, []).append(owner)
    usual, *others = meanings
    text = " ".join([usual, *(f"Of {_listed(meanings[other])}: {other}" for other in others)])
    defaults = {entry.default_text for entry in owners.values()}
    rule = dataclasses.replace(
        first.rule, help=text, panel=panel, settle=None,
        auto=defaults.pop() if len(defaults) == 1 else "the objective's own",
    )  # fmt: skip
    hints = [part for entry in owners.values() for part in entry.types]
    return Option(name, reduce(or_, [*hints, Auto]), AUTO, rule)

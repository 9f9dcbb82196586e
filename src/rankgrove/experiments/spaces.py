"""Search spaces: what `tune` draws parameters from, by default those of Lyzhin et al. (2022).

A space is a mapping of parameters to `Range`, from which numbers are drawn evenly, or evenly in
their logarithm, and `Choices`, values of any kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args, get_type_hints

from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError, is_number, unknown_name

# What decides how trials are run, or belongs to the data, is not drawn.
_NOT_DRAWN = {
    "objective": "give objective= to tune",
    "metric": "give metric= to tune",
    "eval_metric": "give metric= to tune",
    "n_estimators": "validation finds the number of trees, up to max_trees=",
    "early_stopping_rounds": "give early_stopping_rounds= to tune",
    "random_state": "hold it with fixed=",
    "monotone": "hold it with fixed=",
    "categorical": "hold it with fixed=",
}
_NOT_HELD = {
    "objective": "give objective= to tune",
    "eval_metric": "give metric= to tune",
    "n_estimators": "give max_trees= to tune",
    "early_stopping_rounds": "give early_stopping_rounds= to tune",
}


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included.

    Attributes
    ----------
    log
        Whether the logarithm is drawn evenly, not the number.
    whole
        Whether they are whole numbers.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def as_json(self) -> dict[str, Any]:
        """The form that a file has."""
        return {"low": self.low, "high": self.high, "log": self.log}

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', evenly in the logarithm' if self.log else ''}"


@dataclass(frozen=True)
class Choices:
    """One of these values."""

    values: tuple[Any, ...]

    def as_json(self) -> dict[str, Any]:
        """The form that a file has."""
        return {"choices": list(self.values)}

    def __str__(self) -> str:
        return f"one of {', '.join(str(value) for value in self.values)}"


Space = dict[str, Range | Choices]

_RATE = Range(1e-3, 1.0, log=True)
_L2 = Range(1e-3, 100.0, log=True)

# Section 4.1 has LightGBM's trees for its lambdarank, of which our LambdaMART is one, and oblivious
# trees, of CatBoost, for these.
_OBLIVIOUS = ("yetirank", "yetiloss", "queryrmse", "stochasticrank")


def default_space(objective: str, fixed: Mapping[str, Any]) -> tuple[Space, dict[str, Any]]:
    """The space of section 4.1 for an objective, and the parameters that it holds.

    What is fixed is not drawn. `grower` decides which trees are searched: `oblivious` gives those
    of CatBoost in the paper, others those of LightGBM. YetiRank, YetiLoss, QueryRMSE and
    StochasticRank have oblivious trees unless told, or unless features are monotone or categorical.

    >>> space, held = default_space("stochasticrank", {"mu": 1.0})
    >>> list(space), held["l2_documents"]
    (['learning_rate', 'max_depth', 'shrink_rate', 'temperature'], 0.0)
    >>> print(space["max_depth"])
    6 to 10
    """
    held: dict[str, Any] = {}
    space: Space = {"learning_rate": _RATE}
    plain = not any(_is_given(fixed.get(name)) for name in ("monotone", "categorical"))
    grower = fixed.get("grower", "auto")
    if grower == "auto":
        fixed = {name: value for name, value in fixed.items() if name != "grower"}
        grower = "oblivious" if objective in _OBLIVIOUS and plain else "leafwise"
        held["grower"] = grower
    oblivious = grower == "oblivious"
    if objective == "stochasticrank":
        held["l2_documents"] = 0.0
    elif objective == "lambdamart" and not oblivious:
        space["l2"] = replace(_L2, low=0.1)
    else:
        space["l2_documents"] = _L2
    if oblivious:
        space["max_depth"] = Range(6, 10 if objective == "stochasticrank" else 8, whole=True)
        held["min_samples_leaf"] = 10
    else:
        space["max_depth"] = Range(6, 16, whole=True)
        space["max_leaves"] = Range(16, 256, log=True, whole=True)
        space["min_samples_leaf"] = Range(1, 1000, log=True, whole=True)
    if objective == "stochasticrank":
        space["shrink_rate"] = Range(1e-5, 1e-2, log=True)
        space["temperature"] = Range(1e8, 1e11, log=True)
        space["mu"] = Range(1e-2, 10.0, log=True)
    # Who gives one of the two wants no other.
    own = {"l2", "l2_documents"} if fixed.keys() & {"l2", "l2_documents"} else set()
    own |= fixed.keys()
    return (
        {name: entry for name, entry in space.items() if name not in own},
        {name: value for name, value in held.items() if name not in own},
    )


def _is_given(value: Any) -> bool:
    return value is not None and len(value) > 0


def check_fixed(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are held; one that does not exist, or that `tune` sets, is refused."""
    if not isinstance(fixed, Mapping):
        raise ParameterError(
            f"fixed must be a mapping of parameters to values. Got {type(fixed).__name__}."
        )
    for name in fixed:
        _check_name("a fixed parameter", name, _NOT_HELD)
    return dict(fixed)


def parse_space(space: Mapping[str, Any], base: Parameters) -> Space:
    """A space of the user's own, checked: each entry must give values that training accepts.

    Parameters
    ----------
    space
        For each parameter a tuple (low, high) or (low, high, "log"), a list of values, or, as in a
        file, {"low": ..., "high": ..., "log": true} or {"choices": [...]}.
    base
        The parameters that are held.

    >>> base = Parameters()
    >>> parse_space({"max_leaves": (8, 64, "log"), "grower": ["leafwise", "depthwise"]}, base)[
    ...     "max_leaves"]
    Range(low=8, high=64, log=True, whole=True)
    >>> parse_space({"max_leafs": (8, 64)}, base)
    Traceback (most recent call last):
    rankgrove.errors.ParameterError: a parameter of the space must be one of ...
    """
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(
            f"space must be a mapping of parameters to ranges or choices. Got {space!r}."
        )
    found: Space = {}
    for name, given in space.items():
        _check_name("a parameter of the space", name, _NOT_DRAWN)
        entry = _parse_entry(name, given)
        ends = entry.values if isinstance(entry, Choices) else (entry.low, entry.high)
        for value in ends:
            try:
                replace(base, **{name: value})
            except ParameterError as error:
                raise ParameterError(f"the space of {name} must be of valid values. {error}") from (
                    None
                )
        found[name] = entry
    return found


def _check_name(what: str, name: Any, reserved: Mapping[str, str]) -> None:
    known = [field.name for field in fields(Parameters)]
    if name not in known:
        raise unknown_name(what, str(name), [word for word in known if word not in reserved])
    if name in reserved:
        raise ParameterError(f"{what} must not be {name}: {reserved[name]}. Got it.")


def _parse_entry(name: str, given: Any) -> Range | Choices:
    rule = (
        f"the space of {name} must be (low, high), (low, high, 'log') or a list of values; in a "
        f'file {{"low": ..., "high": ..., "log": true}} or {{"choices": [...]}}.'
    )
    if isinstance(given, (Range, Choices)):
        given = given.as_json()
    if isinstance(given, Mapping):
        if given.keys() == {"choices"} and isinstance(given["choices"], (list, tuple)):
            given = list(given["choices"])
        elif {"low", "high"} <= given.keys() <= {"low", "high", "log"}:
            if not isinstance(given.get("log", False), bool):
                raise ParameterError(f"log of {name} must be true or false. Got {given['log']!r}.")
            given = (given["low"], given["high"], *(["log"] if given.get("log") else []))
    if isinstance(given, list):
        return _choices(name, given)
    if not isinstance(given, tuple) or len(given) not in (2, 3) or given[2:] not in ((), ("log",)):
        raise ParameterError(f"{rule} Got {given!r}.")
    return _range(name, given)


def _choices(name: str, values: list[Any]) -> Choices:
    if not values:
        raise ParameterError(f"the choices of {name} must be at least one. Got none.")
    for value in values:
        if not (value is None or isinstance(value, (str, bool)) or is_number(value)):
            raise ParameterError(
                f"the choices of {name} must be numbers, words, True, False or None. Got {value!r}."
            )
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    if len({(type(value), value) for value in plain}) < len(plain):
        raise ParameterError(f"the choices of {name} must differ. Got one twice in {plain}.")
    return Choices(tuple(plain))


def _range(name: str, given: tuple[Any, ...]) -> Range:
    low, high, log = given[0], given[1], len(given) == 3
    hint = get_type_hints(Parameters)[name]
    parts = get_args(hint) or (hint,)
    if bool in parts or not {int, float} & set(parts):
        raise ParameterError(
            f"the space of {name}, which is no number, must be a list of values. Got {given!r}."
        )
    for end in (low, high):
        if not is_number(end) or not math.isfinite(end):
            raise ParameterError(f"the range of {name} must be of finite numbers. Got {end!r}.")
    whole = float not in parts
    if whole and (low != int(low) or high != int(high)):
        raise ParameterError(
            f"the range of {name} must be of whole numbers. Got {low!r} to {high!r}."
        )
    if not low <= high:
        raise ParameterError(f"the range of {name} must rise. Got {low!r} to {high!r}.")
    if log and low <= 0:
        raise ParameterError(
            f"the range of {name} must be above 0 for its logarithm. Got {low!r} to {high!r}."
        )
    number = int if whole else float
    return Range(number(low), number(high), log=log, whole=whole)

"""Search spaces: what `tune` draws parameters from, by default those of Lyzhin et al. (2022).

A space is a mapping of parameters to `Range`, from which numbers are drawn evenly, or evenly in
their logarithm, and `Choices`, values of any kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError, is_number, parameter, unknown_name
from rankgrove.objectives.base import Objective
from rankgrove.rules import AUTO, options_of

if TYPE_CHECKING:
    from rankgrove.training.starting import AnyParameters

_SPACE = parameter("space")

# What decides how trials are run is not held, and neither is that drawn, nor what belongs to data.
_NOT_HELD = {
    "objective": "give objective= to tune",
    "eval_metric": "give metric= to tune",
    "n_estimators": "give max_trees= to tune",
    "max_epochs": "give max_epochs= to tune",
    "early_stopping_rounds": "give early_stopping_rounds= to tune",
}
_NOT_DRAWN = {
    **_NOT_HELD,
    "metric": "give metric= to tune",
    "n_estimators": "validation finds the number of trees, up to max_trees=",
    "max_epochs": "validation finds the number of epochs, up to max_epochs=",
    **dict.fromkeys(("random_state", "monotone", "categorical", "device"), "hold it with fixed="),
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

# The one parameter whose values are widths of layers, which a study keeps as text.
HIDDEN = "hidden"


def as_drawn(value: Any) -> Any:
    """A choice in the form in which a study keeps it.

    >>> as_drawn((64, 32)), as_drawn(()), as_drawn("log1p")
    ('64,32', '', 'log1p')
    """
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def from_drawn(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a study keeps, as training takes them.

    >>> from_drawn({"hidden": "64,32", "dropout": 0.5})
    {'hidden': (64, 32), 'dropout': 0.5}
    """
    found = dict(drawn)
    if isinstance(found.get(HIDDEN), str):
        found[HIDDEN] = tuple(int(width) for width in found[HIDDEN].split(",") if width)
    return found


_RATE = Range(1e-3, 1.0, log=True)
_L2 = Range(1e-3, 100.0, log=True)

# What decides how trees grow where it is not told.
_SHAPE = ("grower", "max_leaves", "max_depth")


def default_space(
    objective: str | Objective, fixed: Mapping[str, Any]
) -> tuple[Space, dict[str, Any]]:
    """The space of section 4.1 for an objective, and the parameters that it holds.

    What is fixed is not drawn. `grower` decides which trees are searched: `oblivious` gives those
    of CatBoost in the paper, others those of LightGBM. Unless told, it is what training takes with
    the same parameters.

    >>> space, held = default_space("stochasticrank", {"mu": 1.0})
    >>> list(space), held["l2_documents"]
    (['learning_rate', 'max_depth', 'shrink_rate', 'temperature'], 0.0)
    >>> print(space["max_depth"])
    6 to 10
    """
    held: dict[str, Any] = {}
    space: Space = {"learning_rate": _RATE}
    shape = {name: fixed[name] for name in _SHAPE if name in fixed}
    plan = Parameters(objective=objective, **shape).resolve()
    grower, name = plan.trees.grower, plan.objective.name
    if fixed.get("grower", AUTO) == AUTO:
        fixed = {name: value for name, value in fixed.items() if name != "grower"}
        held["grower"] = grower
    oblivious = grower == "oblivious"
    if name == "stochasticrank":
        held["l2_documents"] = 0.0
    elif plan.trees.l2 > 0:
        space["l2"] = replace(_L2, low=0.1)
    else:
        space["l2_documents"] = _L2
    if oblivious:
        space["max_depth"] = Range(6, 10 if name == "stochasticrank" else 8, whole=True)
        held["min_samples_leaf"] = 10
    else:
        space["max_depth"] = Range(6, 16, whole=True)
        space["max_leaves"] = Range(16, 256, log=True, whole=True)
        space["min_samples_leaf"] = Range(1, 1000, log=True, whole=True)
    if name == "stochasticrank":
        space["shrink_rate"] = Range(1e-5, 1e-2, log=True)
        space["temperature"] = Range(1e8, 1e11, log=True)
    if not isinstance(objective, Objective):
        # What belongs to an objective that is given as a value is in it already.
        own_options = options_of(type(plan.objective)).items()
        space |= {key: _range(key, entry.rule.drawn, Parameters)
                  for key, entry in own_options if entry.rule.drawn}  # fmt: skip
    # Whoever gives one of the two wants no other.
    own = {"l2", "l2_documents"} if fixed.keys() & {"l2", "l2_documents"} else set()
    own |= fixed.keys()
    return (
        {name: entry for name, entry in space.items() if name not in own},
        {name: value for name, value in held.items() if name not in own},
    )


# Of networks: five of their shapes, and what else decides how closely they follow the data.
_NETWORK_SPACE: Space = {
    "learning_rate": Range(1e-4, 3e-2, log=True),
    "hidden": Choices(((), (32,), (128,), (64, 32), (128, 64))),
    "dropout": Range(0.0, 0.5),
    "weight_decay": Range(1e-4, 1.0, log=True),
    "batch_queries": Range(4, 64, log=True, whole=True),
    "transform": Choices(("quantile", "log1p", "standard")),
}


def network_space(fixed: Mapping[str, Any]) -> Space:
    """What is drawn for a network, but for what is fixed.

    >>> list(network_space({"hidden": (), "transform": "log1p"}))
    ['learning_rate', 'weight_decay', 'batch_queries']
    """
    # A linear model has no hidden values to drop.
    linear = "hidden" in fixed and len(fixed["hidden"]) == 0
    apart = {*fixed, *(["dropout"] if linear else [])}
    return {name: entry for name, entry in _NETWORK_SPACE.items() if name not in apart}


def check_fixed(fixed: Mapping[str, Any], kind: type[AnyParameters] = Parameters) -> dict[str, Any]:
    """The parameters that are held; one that does not exist, or that `tune` sets, is refused."""
    if not isinstance(fixed, Mapping):
        raise ParameterError(
            f"fixed must be a mapping of parameters to values. Got {type(fixed).__name__}."
        )
    for name in fixed:
        _check_name("a fixed parameter", name, _NOT_HELD, kind)
    return dict(fixed)


def parse_space(space: Mapping[str, Any], base: AnyParameters) -> Space:
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
        _check_name("a parameter of the space", name, _NOT_DRAWN, type(base))
        entry = _parse_entry(name, given, type(base))
        ends = entry.values if isinstance(entry, Choices) else (entry.low, entry.high)
        for value in ends:
            try:
                replace(base, **{name: value})
            except ParameterError as error:
                raise ParameterError(
                    f"the {_SPACE} of {name} must be of valid values. {error}"
                ) from (None)
        found[name] = entry
    return found


def _check_name(
    what: str, name: Any, reserved: Mapping[str, str], kind: type[AnyParameters]
) -> None:
    known = options_of(kind)
    if name not in known:
        raise unknown_name(what, str(name), [word for word in known if word not in reserved])
    if name in reserved:
        raise ParameterError(f"{what} must not be {name}: {reserved[name]}. Got it.")


def _parse_entry(name: str, given: Any, kind: type[AnyParameters]) -> Range | Choices:
    rule = (
        f"the {_SPACE} of {name} must be (low, high), (low, high, 'log') or a list of values; in a "
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
    return _range(name, given, kind)


def _choices(name: str, values: list[Any]) -> Choices:
    if not values:
        raise ParameterError(f"the choices of {name} must be at least one. Got none.")
    if name == HIDDEN:
        # Widths of layers; a file has lists.
        values = [tuple(value) if isinstance(value, list) else value for value in values]
    for value in values:
        plain_ones = value if name == HIDDEN and isinstance(value, tuple) else (value,)
        if not all(one is None or isinstance(one, (str, bool)) or is_number(one)
                   for one in plain_ones):  # fmt: skip
            raise ParameterError(
                f"the choices of {name} must be numbers, words, True, False or None. Got {value!r}."
            )
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    if len({(type(value), value) for value in plain}) < len(plain):
        raise ParameterError(f"the choices of {name} must differ. Got one twice in {plain}.")
    return Choices(tuple(plain))


def _range(name: str, given: tuple[Any, ...], kind: type[AnyParameters]) -> Range:
    low, high, log = given[0], given[1], len(given) == 3
    entry = options_of(kind)[name]
    if not entry.is_number:
        raise ParameterError(
            f"the {_SPACE} of {name}, which is no number, must be a list of values. Got {given!r}."
        )
    for end in (low, high):
        if not is_number(end) or not math.isfinite(end):
            raise ParameterError(f"the range of {name} must be of finite numbers. Got {end!r}.")
    whole = float not in entry.types
    rules = {
        "be of whole numbers": not whole or (low == int(low) and high == int(high)),
        "rise": low <= high,
        "be above 0 for its logarithm": not log or low > 0,
    }
    for rule, holds in rules.items():
        if not holds:
            raise ParameterError(f"the range of {name} must {rule}. Got {low!r} to {high!r}.")
    number = int if whole else float
    return Range(number(low), number(high), log=log, whole=whole)

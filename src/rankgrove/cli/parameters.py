# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""The parameters of training: options of a command, made from `Parameters`, and files."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from rankgrove.cli.options import add_options
from rankgrove.errors import DataError, ParameterError, unknown_name

if TYPE_CHECKING:
    from rankgrove.boosting.parameters import Parameters

PANEL = "How the model is trained"

# One line each. A parameter that has none here is described as in `Parameters`.
_HELP = {
    "objective": "What pushes documents up and down; ranknet and lambdarank train networks. Trees:",
    "metric": "What the objective optimises, with its cut-off.",
    "n_estimators": "Trees, at most.",
    "learning_rate": "The share of its step that each tree makes.",
    "grower": "Split next the node of the best gain, or the highest one:",
    "max_leaves": "Leaves of a tree, at most.",
    "max_depth": "Depth of a tree, at most.",
    "min_samples_leaf": "Documents of a leaf, at least.",
    "min_child_weight": "Sum of curvatures of a leaf, at least.",
    "l2": "Added to the curvature of a node: the larger, the smaller the steps.",
    "l2_documents": "As --l2, counted in documents of average curvature.",
    "leaf": "The value of a leaf:",
    "leaf_steps": "Newton steps in each leaf.",
    "noise": "Noise that rankings are drawn with:",
    "noise_scale": "Scale of that noise.",
    "neighbours": "How near the documents of a pair rank, or",
    "permutations": "Rankings that are drawn with noise.",
    "decay": "Base of YetiRank's discount.",
    "samples": "Draws of StochasticRank's noise.",
    "mu": "How far StochasticRank moves good documents down, in sigma a grade.",
    "nu": "Added to the length of scores in StochasticRank's scale-free step.",
    "projection": "How much of a step StochasticRank takes out along the scores.",
    "balanced": "Whether both classes of logistic weigh the same.",
    "temperature": "Langevin noise of scale sqrt(2 / (rate * X)) in the forces.",
    "shrink_rate": "Each iteration multiplies the model by 1 - rate * X.",
    "max_bins": "How finely a feature is cut, 2 to 255.",
    "subsample": "Share of the data that a tree is grown on.",
    "sampling": "What is sampled, and how:",
    "bootstrap": "Temperature of a Bayesian bootstrap, 0 for none.",
    "bootstrap_by": "What the bootstrap draws a weight for:",
    "split_noise": "Noise in what splits are compared by, which fades as trees are added.",
    "colsample": "Share of the features that a tree may split by.",
    "split_gain": "Weigh documents by their curvature, or count them (MART):",
    "sigma": "Steepness of the logistic curve of a pair.",
    "truncation": "How deep the better document of a pair may rank; none: the metric's cut-off.",
    "normalise": "Scale the forces of each query to a comparable size.",
    "monotone": "Features in which the score may only rise (1) or fall (-1).",
    "categorical": "Features whose values are categories.",
    "category_l2": "Added to --l2 for splits by categories.",
    "category_smoothing": "Added to the curvature of a category before sorting.",
    "max_categories": "Categories that may go left at a split, at most.",
    "eval_metric": "Measure validation by these of 'rankgrove metrics'; the first decides.",
    "early_stopping_rounds": "Stop when validation has not improved for so many trees.",
    "random_state": "Seed of everything random.",
}
_METAVARS = {
    "metric": "METRIC",
    "eval_metric": "METRIC,...",
    "monotone": "NAME=1,...",
    "categorical": "NAME,...",
}
_FLAGS = {"true": True, "false": False}


def takes_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each parameter; it takes those given as one `parameters`."""
    return add_options(
        command,
        "parameters",
        {name: _option(name, hint) for name, hint in _hints().items()},
        lambda values: {name: value for name, value in values.items() if value is not None},
    )


def takes_no_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """The same command without these options: quick to make, and enough to be listed."""
    return add_options(command, "parameters", {}, dict)


def gather_parameters(
    options: dict[str, Any], file: Path | None, earlier: dict[str, Any]
) -> Parameters:
    """The parameters: those of an earlier run, over them those of a file, over them options."""
    from rankgrove.boosting.parameters import Parameters

    known = _hints()
    values = known_parameters(earlier)
    if file is not None:
        values |= read_parameters(file)
    try:
        chosen = Parameters.from_json(values)
    except ParameterError as error:
        raise ParameterError(f"{file}: {error}" if file else str(error)) from None
    given = {name: parse_value(name, known[name], text) for name, text in options.items()}
    try:
        return replace(chosen, **given)
    except ParameterError as error:
        raise ParameterError(as_options(str(error))) from None


def known_parameters(values: dict[str, Any]) -> dict[str, Any]:
    """Of what a model file notes about its training, the parameters."""
    return {name: values[name] for name in _hints() if name in values}


def read_parameters(path: Path) -> dict[str, Any]:
    """The parameters in a JSON or TOML file; a name that does not exist is refused."""
    values, known = read_values(path), _hints()
    for name in values:
        if name not in known:
            raise ParameterError(f"{path}: {_unknown(name, known)}")
    return {name: parse_value(name, known[name], value) for name, value in values.items()}


def read_values(path: Path) -> dict[str, Any]:
    """The names and values in a JSON or TOML file, whatever they are."""
    from rankgrove.data.streams import open_for_reading, read_all

    suffix = path.suffix.lower()
    if suffix not in (".json", ".toml"):
        raise ParameterError(f"--params must be a file .json or .toml. Got '{path}'.")
    with open_for_reading(path) as source:
        text = read_all(source)
    try:
        values = json.loads(text) if suffix == ".json" else tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: must be sound {suffix[1:].upper()}. Got: {error}.") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: must be an object of names and values. Got another kind of JSON.")
    return values


def as_options(message: str) -> str:
    """A message about a parameter, in the words of the command line.

    >>> as_options("max_depth must be a whole number, 1 or more, or None. Got 0.")
    '--max-depth must be a whole number, 1 or more, or none. Got 0.'
    """
    match = re.match(r"(?P<of>a feature of )?(?P<name>\w+)( of \w+)?(?= must )", message)
    # A metric may be that of --metric or of --eval-metric.
    if match is None or match["name"] not in _hints() or match["name"] == "metric":
        return message
    rest = message[match.end() :].replace(", or None", ", or none")
    rest = rest.replace("must be True or False", "must be true or false")
    return f"{match['of'] or ''}--{match['name'].replace('_', '-')}{rest}"


def _hints() -> dict[str, Any]:
    """The type of each parameter, by its name."""
    from rankgrove.boosting.parameters import Parameters

    return get_type_hints(Parameters)


def _option(name: str, hint: Any) -> Any:
    """The annotation of the option for a parameter; all are taken as text."""
    from rankgrove.boosting.parameters import Parameters

    default = getattr(Parameters, name)
    text = described(name)
    if default == "auto":
        text = f"{text} By default the objective's own."
    elif default is not None:
        text = f"{text} By default {_shown(default)}."
    return Annotated[
        str | None,
        typer.Option(metavar=_metavar(name, hint), help=text, rich_help_panel=PANEL),
    ]


def described(name: str) -> str:
    """What a parameter means, in one line."""
    from rankgrove.boosting.parameters import Parameters

    text = _HELP.get(name) or _described(name, Parameters.__doc__ or "")
    choices = tuple(word for word in _choices(name, _hints()[name]) if word != "auto")
    return f"{text} {' or '.join(choices)}." if choices and name != "metric" else text


def _described(name: str, page: str) -> str:
    """What the docstring says of a parameter, in one line."""
    match = re.search(rf"^ +(?:\w+, )*{name}(?:, \w+)*\n((?: {{8,}}.*\n)+)", page, re.MULTILINE)
    return " ".join(match[1].split()) if match else ""


def _choices(name: str, hint: Any) -> tuple[str, ...]:
    """All values of a parameter, where they are few."""
    from rankgrove.objectives.registry import OBJECTIVES

    if name == "objective":
        return tuple(OBJECTIVES)
    return get_args(hint) if get_origin(hint) is Literal else _names(hint)


def _names(hint: Any) -> tuple[str, ...]:
    """The words that a parameter may be besides a number or a flag."""
    parts = get_args(hint)
    return tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _metavar(name: str, hint: Any) -> str:
    if name in _METAVARS:
        return _METAVARS[name]
    parts = get_args(hint) or (hint,)
    if bool in parts:
        return "|".join(_FLAGS)
    kind = "N" if int in parts else "X" if float in parts else "NAME"
    return f"{kind}|none" if NoneType in parts else kind


def _unknown(name: str, known: Iterable[str]) -> str:
    """That there is no such parameter; all are listed only if none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"there is no parameter '{name}'; did you mean '{near[0]}'?"
    return str(unknown_name("parameter", name, known))


def parse_value(name: str, hint: Any, text: Any) -> Any:
    """What a text means; one that is no such value is left for `Parameters` to refuse."""
    if not isinstance(text, str):
        return text
    parts = get_args(hint) or (hint,)
    if NoneType in parts and text.lower() == "none":
        return None
    if name == "monotone":
        return dict(_signs(text.split(",")))
    if name == "categorical":
        return [feature.strip() for feature in text.split(",")]
    if name == "eval_metric":
        from rankgrove.metrics.spec import split_arguments

        return [metric for metric in split_arguments(text) if metric]
    if bool in parts:
        return _FLAGS.get(text.lower(), text)
    if int in parts and re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if float in parts and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    return text


def _signs(entries: Iterable[str]) -> Iterable[tuple[str, int]]:
    for entry in entries:
        name, _, sign = entry.rpartition("=")
        if not name or sign.strip() not in ("1", "+1", "-1", "0"):
            raise ParameterError(
                f"--monotone must be NAME=1 or NAME=-1, with commas between. Got '{entry}'."
            )
        yield name.strip(), int(sign)

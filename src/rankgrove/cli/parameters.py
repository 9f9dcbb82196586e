# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""The parameters of training: options of a command, made from `Parameters`, and files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable
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
    "objective": "What pushes documents up and down.",
    "metric": "What the objective optimises, as 'rankgrove metrics' lists them.",
    "n_estimators": "Trees, at most.",
    "learning_rate": "The share of its step that each tree makes.",
    "grower": "Split next the node of the best gain, or the highest one.",
    "max_leaves": "Leaves of a tree, at most.",
    "max_depth": "Depth of a tree, at most.",
    "min_samples_leaf": "Documents of a leaf, at least.",
    "min_child_weight": "Sum of curvatures of a leaf, at least.",
    "l2": "Added to the curvature of a node: the larger, the smaller the steps.",
    "max_bins": "How finely a feature is cut, 2 to 255.",
    "subsample": "Share of the data that a tree is grown on.",
    "sampling": "Sample whole queries, or documents by the size of their gradients.",
    "colsample": "Share of the features that a tree may split by.",
    "split_gain": "Weigh documents by their curvature, or count them (MART).",
    "sigma": "Steepness of the logistic curve of a pair.",
    "truncation": "How deep the better-ranked document of a pair may stand.",
    "normalise": "Scale the forces of each query to a comparable size.",
    "monotone": "Features in which the score may only rise (1) or fall (-1).",
    "categorical": "Features whose values are categories.",
    "category_l2": "Added to --l2 for splits by categories.",
    "category_smoothing": "Added to the curvature of a category before sorting.",
    "max_categories": "Categories that may go left at a split, at most.",
    "eval_metric": "Measure validation by these; the first decides. By default --metric.",
    "early_stopping_rounds": "Stop when validation has not improved for so many trees.",
    "random_state": "Seed of everything random.",
}
_METAVARS = {
    "metric": "METRIC",
    "eval_metric": "LIST",
    "monotone": "NAME=1,NAME=-1",
    "categorical": "NAMES",
}
_SEVERAL: dict[str, tuple[type, ...]] = {
    "eval_metric": (list, NoneType),
    "monotone": (dict, list, NoneType),
    "categorical": (list, NoneType),
}


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
    values = {name: value for name, value in earlier.items() if name in known}
    if file is not None:
        values |= read_parameters(file)
        try:
            Parameters.from_names(values)
        except ParameterError as error:
            raise ParameterError(f"{file}: {error}") from None
    with_options = {name: _value(name, known[name], given) for name, given in options.items()}
    try:
        return Parameters.from_names(values | with_options)
    except ParameterError as error:
        raise ParameterError(as_options(str(error))) from None


def read_parameters(path: Path) -> dict[str, Any]:
    """The parameters in a JSON or TOML file; a name that does not exist is refused."""
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
    known = _hints()
    for name in values:
        if name not in known:
            raise ParameterError(f"{path}: {unknown_name('parameter', name, known)}")
    return {name: _from_file(path, name, known[name], value) for name, value in values.items()}


def as_options(message: str) -> str:
    """A message about a parameter, in the words of the command line.

    >>> as_options("max_depth must be a whole number, 1 or more, or None. Got 0.")
    '--max-depth must be a whole number, 1 or more, or none. Got 0.'
    """
    match = re.match(r"(a feature of )?(\w+)(?= must )", message)
    # A metric may be that of --metric or of --eval-metric.
    if match and match[2] in _hints() and match[2] != "metric":
        start = f"{match[1] or ''}--{match[2].replace('_', '-')}"
        return start + message[match.end() :].replace(", or None. Got", ", or none. Got")
    return message


def _hints() -> dict[str, Any]:
    """The type of each parameter, by its name."""
    from rankgrove.boosting.parameters import Parameters

    return get_type_hints(Parameters)


def _option(name: str, hint: Any) -> Any:
    """The annotation of the option for a parameter; all but flags are taken as text."""
    from rankgrove.boosting.parameters import Parameters

    default = getattr(Parameters, name)
    text = _HELP.get(name) or _described(name, Parameters.__doc__ or "")
    if hint is bool:
        dashed = name.replace("_", "-")
        usual = f"--{dashed}" if default else f"--no-{dashed}"
        return Annotated[
            bool | None,
            typer.Option(
                f"--{dashed}/--no-{dashed}",
                help=f"{text} By default {usual}.",
                rich_help_panel=PANEL,
                show_default=False,
            ),
        ]
    if default is not None:
        text = f"{text} By default {default}."
    return Annotated[
        str | None,
        typer.Option(metavar=_metavar(name, hint), help=text, rich_help_panel=PANEL),
    ]


def _described(name: str, page: str) -> str:
    """What the docstring says of a parameter, in one line."""
    match = re.search(rf"^ +(?:\w+, )*{name}(?:, \w+)*\n((?: {{8,}}.*\n)+)", page, re.MULTILINE)
    return " ".join(match[1].split()) if match else ""


def _metavar(name: str, hint: Any) -> str:
    from rankgrove.objectives.registry import OBJECTIVES

    if name == "objective":
        return "|".join(OBJECTIVES)
    if name in _METAVARS:
        return _METAVARS[name]
    parts = get_args(hint) or (hint,)
    if get_origin(hint) is Literal:
        return "|".join(parts)
    kind = "N" if int in parts else "X" if float in parts else "TEXT"
    return f"{kind}|none" if NoneType in parts else kind


def _from_file(path: Path, name: str, hint: Any, value: Any) -> Any:
    if isinstance(value, str):
        return _value(name, hint, value)
    if name in _SEVERAL and not isinstance(value, _SEVERAL[name]):
        raise ParameterError(
            f"{path}: {name} must be several, as {_METAVARS[name]} on the command line. "
            f"Got {value!r}."
        )
    return value


def _value(name: str, hint: Any, text: Any) -> Any:
    """What a text means; one that is no such value is left for `Parameters` to refuse."""
    parts = get_args(hint) or (hint,)
    if not isinstance(text, str):
        return text
    if NoneType in parts and text.lower() == "none":
        return None
    if name == "monotone":
        return dict(_signs(text.split(",")))
    if name == "categorical":
        return [feature.strip() for feature in text.split(",")]
    if name == "eval_metric":
        from rankgrove.metrics.spec import split_arguments

        return [metric for metric in split_arguments(text) if metric]
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

# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""The parameters of training: options of a command, made from their rules, and files."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rankgrove.cli.options import add_options, takes_reading
from rankgrove.errors import DataError, ParameterError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.rules import Option
    from rankgrove.training.network_parameters import NetworkParameters


def takes_training(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of training and reading; it takes `parameters` and `reading`."""
    return takes_reading(add_options(command, "parameters", _make_options(), _without_none))


def takes_student(command: Callable[..., None]) -> Callable[..., None]:
    """As `takes_training`; help shows what a student has, with its defaults."""
    from rankgrove.boosting.parameters import OF_OBJECTIVE, Parameters
    from rankgrove.experiments.distil.student import HELD, OBJECTIVE, STUDENT_DEFAULTS
    from rankgrove.objectives.registry import OBJECTIVES
    from rankgrove.rules import options_of

    own = options_of(OBJECTIVES[OBJECTIVE])
    foreign = {*HELD, *(name for name in OF_OBJECTIVE if name not in own)}
    shown = {
        name: replace(entry, default=STUDENT_DEFAULTS.get(name, entry.default))
        for name, entry in options_of(Parameters).items() if name not in foreign
    }  # fmt: skip
    # What is hidden is refused in words that say why.
    options = {
        name: annotation if name in shown else Annotated[str | None, typer.Option(hidden=True)]
        for name, annotation in {**_make_options(), **_annotations(shown, {})}.items()
    }
    return takes_reading(add_options(command, "parameters", options, _without_none))


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _make_options() -> dict[str, Any]:
    """The annotation of the option for each parameter; all are taken as text."""
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.rules import options_of
    from rankgrove.training.network_parameters import NetworkParameters

    of_trees, of_networks = options_of(Parameters), options_of(NetworkParameters)
    return _annotations({**of_trees, **of_networks, **of_trees}, of_networks)


def _annotations(
    options: Mapping[str, Option], of_networks: Mapping[str, Option]
) -> dict[str, Any]:
    return {
        name: Annotated[
            str | None,
            typer.Option(
                metavar=entry.metavar,
                help=escape(option_text(_summary(entry, of_networks.get(name)), options)),
                rich_help_panel=f"Training: {entry.rule.panel.lower()}",
            ),
        ]
        for name, entry in options.items()
    }


def _summary(entry: Option, of_networks: Option | None) -> str:
    if of_networks is None or entry.default_text == of_networks.default_text:
        return entry.summary
    # Networks are asked for by their objective.
    there = of_networks.meaning if entry.name == "objective" else of_networks.summary
    return f"{entry.summary} Of networks: {there[0].lower()}{there[1:]}"


def option_text(text: str, names: Iterable[str]) -> str:
    """A text about parameters, with those that are options as such.

    >>> option_text("As `l2`, of `newton` leaves.", ["l2"])
    'As --l2, of newton leaves.'
    """
    return re.sub(
        r"`(\w+)`", lambda match: option_name(match[1]) if match[1] in names else match[1], text
    )


def option_name(name: str) -> str:
    """How a parameter is spelled as an option."""
    return f"--{name.replace('_', '-')}"


def is_network(options: Mapping[str, Any], file: Path | None) -> bool:
    """Whether a network is asked for, by option or by file; an unknown objective is refused."""
    from rankgrove.training.network_parameters import NetworkParameters

    values = {} if file is None else read_values(file)
    return _kind_of(options.get("objective", values.get("objective"))) is NetworkParameters


def gather_parameters(
    options: dict[str, Any], file: Path | None = None, earlier: Mapping[str, Any] | None = None
) -> Parameters | NetworkParameters:
    """The parameters: those of an earlier run, over them those of a file, over them options.

    The objective says whether they are those of trees or of a network.
    """
    from rankgrove.rules import options_of
    from rankgrove.training.network_parameters import FORCES_OF

    values = {} if file is None else read_values(file)
    kind = _kind_of(options.get("objective", values.get("objective")))
    known = options_of(kind)
    for name in values:
        if name not in known:
            raise ParameterError(f"{file}: {_unknown(name, known)}")
    for name, text in options.items():
        if name not in known:
            rule = f"be used with --objective {' or '.join(FORCES_OF)}, which are networks"
            of_trees = name in options_of(_kind_of(None))
            rule = "be left out for a network, which has no trees" if of_trees else rule
            raise refusal(name, rule, got=f"'{text}'{'' if of_trees else ' for trees'}")
    try:
        read = {name: known[name].parse(value) for name, value in values.items()}
        chosen = kind.from_json({**(earlier or {}), **read})
    except ParameterError as error:
        raise ParameterError(f"{file}: {error}") if values else error from None
    return replace(chosen, **{name: known[name].parse(text) for name, text in options.items()})


def _kind_of(objective: Any) -> type[Parameters | NetworkParameters]:
    """The parameters that an objective has; an unknown objective is refused."""
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.objectives.registry import OBJECTIVES
    from rankgrove.rules import AUTO
    from rankgrove.training.network_parameters import FORCES_OF, NetworkParameters

    if isinstance(objective, str) and objective in FORCES_OF:
        import rankgrove.neural  # noqa: F401 (says what to install before data are read)

        return NetworkParameters
    if isinstance(objective, str) and objective not in (AUTO, *OBJECTIVES):
        raise unknown_name(parameter("objective"), objective, (AUTO, *OBJECTIVES, *FORCES_OF))
    return Parameters


def read_values(path: Path) -> dict[str, Any]:
    """The names and values in a JSON or TOML file, whatever they are."""
    suffix = path.suffix.lower()
    if suffix not in (".json", ".toml"):
        raise ParameterError(f"--params must be a file .json or .toml. Got '{path}'.")
    return read_object(path, suffix == ".toml", "names and values")


def read_object(path: Path, is_toml: bool, content: str) -> dict[str, Any]:
    """The object in a JSON or TOML file, whatever it holds."""
    from rankgrove.data.streams import read_all

    text = read_all(path)
    try:
        values = tomllib.loads(text.decode()) if is_toml else json.loads(text)
    except (ValueError, RecursionError) as error:
        language = "TOML" if is_toml else "JSON"
        raise DataError(f"{path}: must be sound {language}. Got: {error}.") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: must be an object of {content}. Got another kind of JSON.")
    return values


def _unknown(name: str, known: Iterable[str]) -> str:
    """That there is no such parameter; all are listed only if none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"there is no parameter '{name}'; did you mean '{near[0]}'?"
    return str(unknown_name("parameter", name, known))

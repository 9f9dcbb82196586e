"""The `rankgrove` command: its commands, and what its exit codes and errors look like.

0 done, 1 the work failed, 2 the call was wrong, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rankgrove.cli.console import BROKEN_PIPE, FAILED, INTERRUPTED, MISUSED, PROGRAM, say
from rankgrove.cli.interrupts import watch_interrupts
from rankgrove.errors import ParameterError, RankgroveError

# Every command and the first line of its help. Its function has this name, in a module of this name
# that is imported when it is called: so that no command waits for the imports of another.
COMMANDS = {
    "quickstart": "Start here: make a small data set, train a model on it and measure it.",
    "inspect": "Show what is in a model or in a data file, and what in the data is worth a look.",
    "train": "Train a model on a data file.",
    "tune": "Find the best parameters of training for a data file.",
    "cv": "Cross-validate by query: each is scored by a model that has not seen it.",
    "score": "Score documents with a model, in the order of the data.",
    "evaluate": "Measure a model or scores: the mean of each metric over the queries.",
    "compare": "Compare models, files of scores and features on the same queries.",
    "report": "Show in one page which queries changed, what moved in them, and why.",
    "combine": "Combine rankers: the weights that maximise a metric.",
    "distil": "Distil a model: one small model of trees from a large one, for serving.",
    "optimality": "Test whether a model is at a local maximum of a metric.",
    "explain": "Show what a model rests on, or why documents stand where they do.",
    "forces": "Show what an objective pushes documents by: up or down, and how hard.",
    "plot": "Draw a picture: of training, a comparison, one query, or what a model rests on.",
    "export": "Write a model as a file for another program, and check that it scores alike.",
    "import": "Turn a model of LightGBM, XGBoost or CatBoost into one of Rankgrove.",
    "serve": "Serve models over HTTP: scores and rankings for other programs.",
    "convert": "Write a data file in another format, chosen by the name of OUT.",
    "bin": "Bin data that may be larger than memory, for train, tune and cv.",
    "metrics": "List the metrics and their policies, or show all of one.",
    "objectives": "List the objectives with formula and reference, or show all of one.",
    "paper": 'Run the experiments of "Which Tricks are Important for Learning to Rank?".',
    "warmup": "Compile everything ahead, on all processors, so that no later command waits for it.",
}
# (Whose names others have already.)
_MODULES = {"inspect": "inspect_", "bin": "bin_", "import": "import_"}
_FUNCTIONS = {"import": "import_"}

# The base of all that is wrong with a command line; Typer does not export it by name.
_UsageError: Any = typer.BadParameter.__base__


class _Group(TyperGroup):
    """Turns errors into one line on stderr and an exit code, however the command is started."""

    # Of the command that is called: for each parameter the option that gives it.
    _options: Mapping[str, str] = {}

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        extra = {key: extra[key] for key in extra.keys() & {"obj"}}
        sys.exit(self._run(sys.argv[1:] if args is None else list(args), extra))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        command = None if command is None else _make_command(load_function(str(name)))
        self._options = {
            option.name: spelling
            for option in ([] if command is None else command.params)
            for spelling in option.opts
            if spelling.startswith("--")
        }
        return name, command, rest

    def _run(self, args: list[str], extra: dict[str, Any]) -> int:
        for stream in (sys.stdout, sys.stderr):
            # A terminal that lacks a character shows a question mark, not a traceback.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        with watch_interrupts() as interrupts:
            try:
                code = self._invoke(args, extra)
                sys.stdout.flush()
                return code
            except BaseException as error:
                if interrupts.seen or isinstance(error, KeyboardInterrupt):
                    say("interrupted")
                    return INTERRUPTED
                named = args[:1] if args and args[0] in self.commands else []
                return _explain(error, " ".join([PROGRAM, *named]), self._options)

    def _invoke(self, args: list[str], extra: dict[str, Any]) -> int:
        try:
            with self.make_context(PROGRAM, args, **extra) as context:
                self.invoke(context)
        except typer.Exit as end:
            return end.exit_code
        return 0


def load_function(name: str) -> Any:
    """The function of a command."""
    module = import_module(f"rankgrove.cli.{_MODULES.get(name, name)}")
    return getattr(module, _FUNCTIONS.get(name, name))


def _make_command(function: Any) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(function.__name__.rstrip("_"))(function)
    return typer.main.get_command(alone)


def _listed() -> None:
    """What stands for a command in the list of all."""


app = typer.Typer(cls=_Group, add_completion=False, pretty_exceptions_enable=False)
for command_name, summary in COMMANDS.items():
    app.command(command_name, help=summary)(_listed)


def _show_version(value: bool) -> None:
    if value:
        from rankgrove import __version__  # noqa: PLC0415 (--help does not need it)

        print(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Learning to rank: from a data file to numbers one can trust.

    New here? Run: rankgrove quickstart
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(MISUSED)


def run() -> None:
    """The entry point of the `rankgrove` command."""
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # An executor that is interrupted while it starts a thread does not know of it, and
            # Python would wait for that thread for ever. Nothing is left to do: files that were
            # being written are gone.
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _explain(error: BaseException, called: str, options: Mapping[str, str]) -> int:
    """Say what went wrong, if it is of a kind that is expected, and give the exit code."""
    if isinstance(error, _UsageError):
        message = " ".join(error.format_message().split())
        end = "" if message.endswith((".", "?")) else "."
        return _fail(f"{message}{end} See '{called} --help'.", MISUSED)
    if isinstance(error, RankgroveError):
        code = MISUSED if isinstance(error, ParameterError) else FAILED
        return _fail(error.told(lambda *marked: _in_options(options, *marked)), code)
    if isinstance(error, BrokenPipeError):
        # What is still buffered must not fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    if isinstance(error, MemoryError):
        return _fail("not enough memory for this. Use less data at a time.", FAILED)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}.", FAILED)
    raise error


def _fail(message: str, code: int) -> int:
    for line in message.splitlines():
        say(f"error: {line}")
    return code


def _in_options(options: Mapping[str, str], name: str, value: str | None) -> str:
    """A parameter that a message names, as the option that it is here: `--absent zero`."""
    if name not in options:
        return name if value is None else f"{name}={value}"
    return options[name] if value in (None, "True") else f"{options[name]} {value.strip(chr(39))}"

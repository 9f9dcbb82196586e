"""The `rankgrove` command: its commands, and what its exit codes and errors look like.

0 done, 1 the work failed, 2 the call was wrong, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rankgrove.cli.bin_ import bin
from rankgrove.cli.combine import combine
from rankgrove.cli.compare import compare
from rankgrove.cli.console import BROKEN_PIPE, FAILED, INTERRUPTED, MISUSED, PROGRAM, say
from rankgrove.cli.convert import convert
from rankgrove.cli.cv import cv
from rankgrove.cli.evaluate import evaluate
from rankgrove.cli.explain import explain
from rankgrove.cli.inspect_ import inspect
from rankgrove.cli.interrupts import watch_interrupts
from rankgrove.cli.metrics import metrics
from rankgrove.cli.objectives import objectives
from rankgrove.cli.optimality import optimality
from rankgrove.cli.paper import paper
from rankgrove.cli.quickstart import quickstart
from rankgrove.cli.score import score
from rankgrove.cli.train import train
from rankgrove.cli.tune import tune
from rankgrove.cli.warmup import warmup
from rankgrove.errors import ParameterError, RankgroveError

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
        # Some options come from the parameters of training, whose import --help does not wait for.
        whole = getattr(_COMMANDS.get(str(name)), "whole", None)
        command = command if whole is None else _make_command(whole())
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


def _make_command(function: Any) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(function.__name__)(function)
    return typer.main.get_command(alone)


_COMMANDS = {
    command.__name__: command
    for command in (
        quickstart, inspect, train, tune, cv, score, evaluate, compare, combine, optimality,
        explain, convert, bin, metrics, objectives, paper, warmup,
    )
}  # fmt: skip
app = typer.Typer(cls=_Group, add_completion=False, pretty_exceptions_enable=False)
for command_name, command in _COMMANDS.items():
    app.command(command_name)(command)


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

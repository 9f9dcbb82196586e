"""Ctrl-C: one line and one exit code, whatever code it happens to hit."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from rankgrove.cli.console import INTERRUPTED, say

# Long enough for the finaliser that swallowed an interrupt to end.
_SECONDS = 0.05


@dataclass
class Interrupts:
    """Whether Ctrl-C was pressed."""

    seen: bool = False


@contextmanager
def watch_interrupts() -> Iterator[Interrupts]:
    """Note an interrupt, which raises `KeyboardInterrupt` as ever.

    It is raised wherever the program happens to be. When that is a finaliser, or a method that a
    compiled library calls (as pyarrow calls the file it writes to), the exception is printed and
    dropped, and the library may fail with another one. Here it is not printed but raised once
    more, and the note tells why something else failed. Nor is anything printed that objects say
    which were being made and now go.
    """
    interrupts = Interrupts()
    # Not where someone else handles it, or where it is ignored, as in the background.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    show, show_ignored = sys.excepthook, sys.unraisablehook
    timer = threading.Timer(_SECONDS, _interrupt)

    def note(*_: Any) -> None:
        interrupts.seen = True
        raise KeyboardInterrupt

    def show_dropped(kind: type[BaseException], *rest: Any) -> None:
        if not interrupts.seen:
            show(kind, *rest)
        elif issubclass(kind, KeyboardInterrupt):
            again()

    def show_ignored_dropped(ignored: Any) -> None:
        if not interrupts.seen:
            show_ignored(ignored)
        elif issubclass(ignored.exc_type, KeyboardInterrupt):
            again()

    def again() -> None:
        nonlocal timer
        timer = threading.Timer(_SECONDS, _interrupt)
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGINT, note)
    sys.excepthook, sys.unraisablehook = show_dropped, show_ignored_dropped
    try:
        yield interrupts
    finally:
        timer.cancel()
        sys.excepthook, sys.unraisablehook = show, show_ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(message: str) -> typer.Exit:
    """The end of a command that was interrupted, having said what is there of its work."""
    say(f"interrupted {message}")
    return typer.Exit(INTERRUPTED)


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Work that Ctrl-C ends, with this message."""
    try:
        yield
    except KeyboardInterrupt:
        raise interrupted(message) from None


def _interrupt() -> None:
    if hasattr(signal, "pthread_kill"):
        # Unlike interrupt_main, this also wakes a thread that waits for a lock.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()

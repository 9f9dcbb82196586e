"""Ctrl-C: one line and one exit code, whatever code it happens to hit."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Interrupts:
    """Whether Ctrl-C was pressed."""

    seen: bool = False


@contextmanager
def watch_interrupts() -> Iterator[Interrupts]:
    """Note an interrupt, which raises `KeyboardInterrupt` as ever, and do not print it.

    It is raised wherever the program happens to be. When that is a method that a compiled
    library calls, as pyarrow calls the file it writes to, the library prints the exception and
    fails with another one: only the note then tells why. Objects that were being made print
    errors of their own when they go. None of that is for the user to see.
    """
    interrupts = Interrupts()
    # Not where someone else handles it, or where it is ignored, as in the background.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    show, show_ignored = sys.excepthook, sys.unraisablehook

    def note(*_: Any) -> None:
        interrupts.seen = True
        raise KeyboardInterrupt

    def show_before(*error: Any) -> None:
        if not interrupts.seen:
            show(*error)

    def show_ignored_before(ignored: Any) -> None:
        if not interrupts.seen:
            show_ignored(ignored)

    signal.signal(signal.SIGINT, note)
    sys.excepthook, sys.unraisablehook = show_before, show_ignored_before
    try:
        yield interrupts
    finally:
        sys.excepthook, sys.unraisablehook = show, show_ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)

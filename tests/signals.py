"""Signals as a terminal sends them, wherever the tests themselves run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def handle_interrupts(handler=signal.default_int_handler) -> Iterator[None]:
    """Have this process, and those that it starts in here, raise KeyboardInterrupt at Ctrl-C.

    Under nohup, and in the background of a shell without job control, SIGINT is ignored. A process
    that is started then ignores it too, and Python leaves it at that.
    """
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

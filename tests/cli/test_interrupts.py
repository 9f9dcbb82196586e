"""Ctrl-C is noticed even where a library swallows the exception."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

import pytest

from cli.samples import LETOR, held_pipe, interrupt
from rankgrove.cli.interrupts import watch_interrupts
from signals import handle_interrupts


@pytest.fixture(autouse=True)
def _terminal():
    """Ctrl-C arrives, also where the tests run in the background."""
    with handle_interrupts():
        yield


def test_interrupt_is_raised_and_noted():
    with watch_interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.seen


def test_handlers_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGINT), sys.excepthook, sys.unraisablehook
    with watch_interrupts():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), sys.excepthook, sys.unraisablehook) == before


def test_interrupt_that_compiled_code_swallows_is_raised_again_and_not_printed(capfd):
    @ctypes.CFUNCTYPE(None)
    def called_by_a_library():
        signal.raise_signal(signal.SIGINT)

    with watch_interrupts() as interrupts:
        called_by_a_library()
        assert interrupts.seen
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(10)
    assert capfd.readouterr().err == ""


def test_interrupt_that_a_finaliser_swallows_is_raised_again():
    class Noisy:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with watch_interrupts():
        noisy = Noisy()
        del noisy
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(10)


def test_other_swallowed_errors_are_still_printed(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: shown.append(ignored.exc_type))

    @ctypes.CFUNCTYPE(None)
    def called_by_a_library():
        raise ZeroDivisionError

    with watch_interrupts() as interrupts:
        called_by_a_library()
    assert shown == [ZeroDivisionError]
    assert not interrupts.seen


def test_ignored_interrupts_stay_ignored():
    with handle_interrupts(signal.SIG_IGN), watch_interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
    assert not interrupts.seen


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_command_that_ignores_interrupts_runs_to_its_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with handle_interrupts(signal.SIG_IGN):
        process = subprocess.Popen(
            [sys.executable, "-m", "rankgrove", "convert", "pipe", "out.csv"], cwd=tmp_path
        )
    # It can be opened once the command has opened it to be read.
    with process, pipe.open("w") as file:
        process.send_signal(signal.SIGINT)
        file.write(LETOR)
    assert process.returncode == 0
    assert (tmp_path / "out.csv").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_tests_can_interrupt_a_command_where_they_run_in_the_background(tmp_path):
    with handle_interrupts(signal.SIG_IGN), held_pipe(tmp_path) as is_read:
        code, said = interrupt(["convert", "pipe", "out.csv"], tmp_path, is_read)
    assert (code, said) == (130, "rankgrove: interrupted")


def test_other_threads_watch_nothing():
    results = []

    def work():
        with watch_interrupts() as interrupts:
            results.append(interrupts.seen)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]

"""Ctrl-C is noticed even where a library swallows the exception."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading

import pytest

from rankgrove.cli.interrupts import watch_interrupts


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


def test_ignored_interrupts_stay_ignored(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with watch_interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
        assert not interrupts.seen
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_watch_nothing():
    results = []

    def work():
        with watch_interrupts() as interrupts:
            results.append(interrupts.seen)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]

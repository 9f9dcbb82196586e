"""A small LETOR file and scores for it, data to train on, and how to press Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from rankgrove import make_web_search
from signals import handle_interrupts

LETOR = """\
2 qid:1 1:3 2:0.5 # a
0 qid:1 1:1 2:0.25 # b
1 qid:1 1:2 2:0.75 # c
0 qid:2 1:5 2:0.5 # d
1 qid:2 1:4 2:0.125 # e
0 qid:3 1:1 2:1 # f
0 qid:3 1:2 2:1 # g
"""

# The first feature as the score: query 1 is perfect, query 2 upside down, query 3 empty.
SCORES = "3\n1\n2\n5\n4\n1\n2\n"


def make_parts():
    """Train, vali and test, of 16 features and some 12 documents per query."""
    parts = make_web_search(60, 16, mean_documents=12, seed=5).split(0.6, 0.2, 0.2)
    return dict(zip(("train", "vali", "test"), parts, strict=True))


def error_line(result):
    """The one line that a failed call leaves on stderr; it must leave nothing on stdout."""
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("rankgrove: error: ")
    return lines[0].removeprefix("rankgrove: error: ")


def fails(result, code, *parts):
    """The call failed with this code, and with one line that has these parts."""
    assert result.exit_code == code, result.stderr
    line = error_line(result)
    for part in parts:
        assert part in line


def interrupt(args, directory, is_ready):
    """Call a command, send it Ctrl-C once it is ready; its exit code and last words."""
    command = [sys.executable, "-m", "rankgrove", *args]
    with handle_interrupts():
        process = subprocess.Popen(
            command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    with process:
        deadline = time.monotonic() + 120
        while not is_ready():
            assert process.poll() is None, "it ended before it could be interrupted"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().splitlines()
    assert not any("Traceback" in line for line in said), "\n".join(said)
    return process.returncode, "\n".join(said[-1:])


@contextmanager
def held_pipe(directory):
    """A pipe named `pipe` whose reader waits; it gives a function that tells whether one does."""
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    held = []

    def is_read():
        # Once it is opened to be read, keep it open, so that the reader waits.
        try:
            held.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    yield is_read
    for number in held:
        os.close(number)

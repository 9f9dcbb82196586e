"""Worker processes for the tests, each driven by lines on its standard input."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

from rankgrove.distributed import new_token

SCRIPT = Path(__file__).parent / "distributed" / "worker.py"
# Long enough for a busy machine; only a hang gets there.
LIMIT = 60


class Worker:
    """One process; `tell` gives it a command, `answer` waits for what comes of it."""

    def __init__(self, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.pid = self.process.pid
        self._answers = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def tell(self, command, **arguments):
        self.process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self, limit=LIMIT):
        answer = self._answers.get(timeout=limit)
        assert answer is not None, "the worker has ended"
        return answer

    def ask(self, command, **arguments):
        """The value of a command that must succeed."""
        self.tell(command, **arguments)
        answer = self.answer()
        assert "error" not in answer, answer
        return answer["value"]

    def is_busy(self):
        return self._answers.empty()

    def end(self):
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        self.process.stdin.close()
        self.process.stdout.close()


class Team:
    """Several workers, in the order of their ranks."""

    def __init__(self, size, prefixes=None, hosts=None, ports=None):
        prefixes = prefixes or [()] * size
        self.workers = [Worker(prefix) for prefix in prefixes]
        hosts = hosts or ["127.0.0.1"] * size
        for worker, host in zip(self.workers, hosts, strict=True):
            worker.tell("listen", host=host, ports=ports)
        self.addresses = [worker.answer()["value"] for worker in self.workers]
        self.token = new_token()

    def connect(self, **options):
        """Connect all; the answers."""
        for rank, worker in enumerate(self.workers):
            self.tell_to_connect(worker, rank, **options)
        return [worker.answer() for worker in self.workers]

    def tell_to_connect(self, worker, rank, **options):
        arguments = {"rank": rank, "addresses": self.addresses, "token": self.token, **options}
        worker.tell("connect", **arguments)

    def tell(self, command, **arguments):
        for worker in self.workers:
            worker.tell(command, **arguments)

    def answers(self, workers=None):
        return [worker.answer() for worker in workers or self.workers]

    def ask(self, command, **arguments):
        """The values of a command that must succeed on all."""
        self.tell(command, **arguments)
        answers = self.answers()
        assert not any("error" in answer for answer in answers), answers
        return [answer["value"] for answer in answers]

    def end(self):
        for worker in self.workers:
            worker.end()


def run_command(*command):
    """Run a program, and keep what it says."""
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)

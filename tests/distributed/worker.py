"""A worker process for the tests: does what it is told on its standard input, line by line.

A line is a JSON object: the command under "do", and its arguments. The answer is a line with
"value", or with "error", the name of its class, and its message, rank and address.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import sys
import threading
import time

import numpy as np

from rankgrove import distributed
from rankgrove.distributed import mesh


def numbers_of(rank, length):
    """Whole numbers of a worker, the same in every process."""
    return np.random.default_rng([rank, length]).integers(-(2**62), 2**62, length)


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


class Commands:
    def __init__(self):
        self.listener = self.peers = None
        self.lines = []

    def listen(self, host="127.0.0.1", ports=None):
        self.listener = distributed.listen(host, ports)
        return self.listener.address

    def connect(self, rank, addresses, token, stop_file=None, line=None, tls=None, **options):
        if stop_file is not None:
            options["should_stop"] = lambda: os.path.exists(stop_file)
        if line is not None:
            mesh._LINE = line
        if tls is not None:
            options["tls"] = self.contexts(tls)
        self.peers = distributed.connect(
            self.listener, rank, addresses, token, on_wait=self.lines.append, **options
        )

    def contexts(self, certificate):
        """Both sides show the certificate and ask for it."""
        contexts = []
        for side in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
            context = ssl.create_default_context(side, cafile=certificate)
            context.load_cert_chain(certificate)
            context.verify_mode = ssl.CERT_REQUIRED
            contexts.append(context)
        return tuple(contexts)

    def sum(self, length, times=1):
        for _ in range(times):
            numbers = numbers_of(self.peers.rank, length)
            self.peers.sum(numbers)
        return digest(numbers)

    def sum_forever(self, length):
        while True:
            self.sum(length)

    def max(self, length):
        values = numbers_of(self.peers.rank, length).view(np.float64)
        self.peers.max(values)
        return digest(values)

    def reduce_scatter(self, length, bounds):
        return digest(self.peers.reduce_scatter(numbers_of(self.peers.rank, length), bounds))

    def gather(self, length):
        every = self.peers.gather(numbers_of(self.peers.rank, length).tobytes())
        return [hashlib.sha256(each).hexdigest() for each in every]

    def broadcast(self, length, root):
        message = numbers_of(root, length).tobytes() if self.peers.rank == root else None
        return hashlib.sha256(self.peers.broadcast(message, root)).hexdigest()

    def abort(self, message):
        self.peers.abort(message)

    def raise_inside(self, message):
        with self.peers:
            raise ValueError(message)

    def send_raw(self, rank, text, channel="numbers"):
        """Bytes past the protocol."""
        getattr(self.peers._mesh._links[rank], channel).send(bytes.fromhex(text))

    def shut(self, rank, channel):
        """Close one connection, as if by accident."""
        getattr(self.peers._mesh._links[rank], channel).close()

    def sleep(self, seconds):
        time.sleep(seconds)

    def close(self):
        self.peers.close()

    def traffic(self):
        return vars(self.peers.traffic)

    def waiting_lines(self):
        return self.lines

    def open_things(self):
        """Sockets and threads that this process has."""
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in _file_numbers()]
        return {
            "sockets": sum(link.startswith("socket:") for link in links),
            "selectors": sum("eventpoll" in link for link in links),
            "threads": threading.active_count(),
        }


def _file_numbers():
    for number in os.listdir("/proc/self/fd"):
        if os.path.islink(f"/proc/self/fd/{number}"):
            yield number


def main():
    commands = Commands()
    for line in sys.stdin:
        order = json.loads(line)
        begun = time.perf_counter()
        try:
            answer = {"value": getattr(commands, order.pop("do"))(**order)}
        except Exception as error:
            answer = {
                "error": type(error).__name__,
                "message": str(error),
                "rank": getattr(error, "rank", None),
                "address": getattr(error, "address", None),
            }
        answer["seconds"] = time.perf_counter() - begun
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

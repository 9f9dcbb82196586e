"""Workers in threads of one process, which have the rows between them."""

import threading

import numpy as np


class Board:
    """Where threads leave numbers for each other, and wait until all have come."""

    def __init__(self, size):
        self.size, self.left, self.barrier = size, [None] * size, threading.Barrier(size)

    def exchange(self, rank, mine):
        self.left[rank] = mine
        self.barrier.wait(timeout=600)
        everybodys = list(self.left)
        self.barrier.wait(timeout=600)
        return everybodys


class ThreadPeers:
    """One of several workers, each in a thread of its own.

    `messages` are the calls that it has made, and how many bytes it gave to each.
    """

    def __init__(self, board, rank):
        self.board, self.rank, self.size = board, rank, board.size
        self.messages = []

    def sum(self, numbers):
        numbers[...] = np.sum(self._exchange("sum", numbers), axis=0)

    def max(self, values):
        values[...] = np.max(self._exchange("max", values), axis=0)

    def reduce_scatter(self, numbers, bounds):
        everybodys = self._exchange("reduce_scatter", numbers)
        part = slice(bounds[self.rank], bounds[self.rank + 1])
        everybodys[self.rank] = np.zeros_like(numbers)
        return np.sum([each[part] for each in everybodys], axis=0)

    def scatter(self, messages):
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.messages.append(("scatter", sum(messages[rank].nbytes for rank in others)))
        everybodys = self.board.exchange(self.rank, [each.copy() for each in messages])
        return [everybodys[rank][self.rank] for rank in others]

    def gather(self, message, lengths=None):
        self.messages.append(("gather", len(message)))
        everybodys = self.board.exchange(self.rank, message)
        assert lengths is None or [len(each) for each in everybodys] == list(lengths)
        return everybodys

    def _exchange(self, name, numbers):
        self.messages.append((name, numbers.nbytes))
        return self.board.exchange(self.rank, numbers.copy())


def run_workers(size, task, make_peers=ThreadPeers):
    """What `task(peers)` gives on each of so many workers, and these."""
    board = Board(size)
    peers = [make_peers(board, rank) for rank in range(size)]
    results, errors = [None] * size, []

    def work(rank):
        try:
            results[rank] = task(peers[rank])
        except BaseException as error:
            errors.append(error)
            board.barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What the first one met, not that it left the others waiting.
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return results, peers

"""What it takes workers to add up arrays over TCP, on one machine."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.common import report, table
from rankgrove.distributed import SocketPeers, connect, listen, new_token

COMMAND = "python -m benchmarks.transport"
PACKAGES = ("numpy",)
SIZES = (2, 4)
# One number; a histogram of 136 features; one of 700; all histograms of an oblivious tree of
# depth 6 on 136 features.
BYTES = (8, 294_912, 1_441_792, 9_437_184)
Result = dict[str, Any]


def measure(peers: SocketPeers, n_bytes: int, rounds: int) -> list[Result]:
    """Times of sums and reduce-scatters of an array, which take turns."""
    length = n_bytes // 8
    bounds = [length * rank // peers.size for rank in range(peers.size + 1)]
    results: list[Result] = []
    for name in ("sum", "reduce-scatter"):
        results.append({"name": name, "bytes": n_bytes, "wall": [], "processor": [], "sent": 0})
    for _ in range(rounds + 1):
        for result in results:
            numbers = np.ones(length, dtype=np.int64)
            peers.sum(np.zeros(1, dtype=np.int64))  # all begin at about the same time
            sent, processor = peers.traffic.bytes_sent, peers.traffic.processor_seconds
            start = time.perf_counter()
            if result["name"] == "sum":
                peers.sum(numbers)
            else:
                peers.reduce_scatter(numbers, bounds)
            result["wall"].append(time.perf_counter() - start)
            result["processor"].append(peers.traffic.processor_seconds - processor)
            result["sent"] = peers.traffic.bytes_sent - sent
    for result in results:
        # The first round is apart: memory is touched for the first time.
        result["wall"], result["processor"] = result["wall"][1:], result["processor"][1:]
    return results


def run_worker(rank: int, rounds: int, pipe: Connection) -> None:
    """One worker process: tells its address, is told all of them, sends its results."""
    listener = listen()
    pipe.send(listener.address)
    addresses, token = pipe.recv()
    with connect(listener, rank, addresses, token) as peers:
        pipe.send([each for n_bytes in BYTES for each in measure(peers, n_bytes, rounds)])


def run_workers(size: int, rounds: int) -> list[Result]:
    """The results of the first of several workers."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(size):
        ours, theirs = context.Pipe()
        pipes.append(ours)
        processes.append(context.Process(target=run_worker, args=(rank, rounds, theirs)))
        processes[-1].start()
    addresses, token = [pipe.recv() for pipe in pipes], new_token()
    for pipe in pipes:
        pipe.send((addresses, token))
    results: list[list[Result]] = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return results[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    rows = []
    load = os.getloadavg()[0]
    for size in SIZES:
        for result in run_workers(size, 5 if arguments.quick else arguments.rounds):
            milliseconds = [1000 * seconds for seconds in result["wall"]]
            processor = 1000 * statistics.median(result["processor"])
            rows.append(
                (size, result["name"], f"{result['bytes']:,}", f"{min(milliseconds):.3f}",
                 f"{statistics.median(milliseconds):.3f}", f"{processor:.3f}",
                 f"{result['sent']:,}")
            )  # fmt: skip
    header = (
        "workers", "operation", "bytes", "minimum, ms", "median, ms", "processor, ms", "bytes sent"
    )  # fmt: skip
    body = (
        f"Processes on one machine, over its loopback, which share {os.cpu_count()} CPUs; "
        f"{arguments.rounds} rounds, seen by worker 0. The load of the machine was {load:.1f} "
        "before: other programs ran beside, so minima say more than medians.\n\n"
        + table(header, rows)
    )
    if arguments.quick:
        print(body)
    else:
        report("transport", "Adding up over workers", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()

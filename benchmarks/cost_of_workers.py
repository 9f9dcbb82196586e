"""docs/cost-of-workers.md: a model of what a tree costs a worker, against all that was measured.

    seconds of a worker = fixed(W) + rows x rate + calls x per call + bytes x per byte

All four constants are measured without a run of several workers: fixed and rate with workers that
say nothing, one alone or some beside each other, the costs of a call and of a byte with calls only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import commit, machine, table
from benchmarks.distributed_tasks import Recorder, part_of, shard_of
from benchmarks.worker_bytes import Call, Growing, bytes_of, steps_of, tree_calls, waits_of
from rankgrove.boosting.memory import ROW_BYTES
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.distributed import connect, listen, new_token
from rankgrove.training.trees import start_trees
from rankgrove.trees.binning import BLOCK, padded_width

if TYPE_CHECKING:
    from benchmarks.distributed import Study

PAGE = Path(__file__).parents[1] / "docs" / "cost-of-workers.md"
WITHIN = 0.2
# What a message takes on its way between two machines of one room: the only number here that this
# machine cannot measure.
WIRE_LATENCY = 50e-6
GIGABITS = (1, 10, 25)
N_DOCUMENTS, N_WORKERS = 100_000_000, 64
MANY_THREADS = 16
THREAD_SIZES, THREAD_ROWS = (8, 16, 64), 400

_INTRODUCTION = """# What workers cost

What a tree costs each of W workers, on paper: a model whose constants are measured, beside every
point that was measured, and what it says of more machines than one can test with.

```text
seconds of a worker = fixed(W) + rows / W * rate
                    + calls * seconds per call + messages * latency of the network
                    + bytes * (seconds per byte + 1 / bandwidth)
```"""
_CONSTANTS = """## Constants

No training of several workers is used. Constants come from workers whose peers say nothing, or that
are alone: such a worker packs and unpacks, and searches its own blocks of features only. Its
seconds are fixed + rows * rate, by the least squares of relative errors over all numbers of rows.
On a machine of its own a worker has the rate of one process, and what is fixed with W workers. Here
W processes share cores and caches, so the points below are compared with constants "at once here":
W such workers, each on rows of its own, train beside each other without a word. The costs of a call
and of a byte come from calls between other work, without training. Everything was measured once in
each of several rounds, and what counts is the least of all trees, of calls the median."""
_PAPER = """The constants of 700 features come from fewer rows. Nothing that is sent overlaps with
work. Memory is `4 F + 2 F16 + 72` bytes per row, without `4 F` where a worker keeps bins only, and
65 histograms; see [Larger than memory](large-data.md)."""
_SCALE = """## From where on many machines pay

Seconds per tree at 10 Gb/s. With many threads only the work on rows is divided between them here,
which is the worst case for many machines: what is fixed and what is sent stay as they are."""


@dataclass(frozen=True)
class Constants:
    """The measured constants of one algorithm and number of features.

    Attributes
    ----------
    rate
        Seconds per row.
    fixed
        Seconds per tree, by the number of workers.
    beside
        Seconds per row and per tree of so many processes that share this machine.
    per_call, per_byte
        Seconds of a call, and of a byte that a worker sends, by the number of workers.
    growing
        The shape of a full tree.
    """

    rate: float
    fixed: dict[int, float]
    beside: dict[int, tuple[float, float]]
    per_call: dict[int, float]
    per_byte: dict[int, float]
    growing: Growing

    def compute(self, size: int, rows: float) -> float:
        """Processor seconds of a worker on a machine of its own, without those in calls."""
        return self.fixed[size] + self.rate * rows

    def compute_beside(self, size: int, rows: float) -> float:
        """Processor seconds of a worker where all of them share this machine."""
        rate, fixed = self.beside[size]
        return fixed + rate * rows

    def talk(self, size: int) -> float:
        """Processor seconds of a worker in calls."""
        if size == 1:
            return 0.0
        calls = tree_calls(self.growing, size)
        # Above 8 workers a call is as many steps between two.
        known = size if size in self.per_call else 2
        steps = 1 if size in self.per_call else steps_of(size)
        sent = bytes_of(calls, size) / size
        return len(calls) * steps * self.per_call[known] + sent * self.per_byte[known]

    def wire(self, size: int, gigabits: float) -> float:
        """Seconds per tree that messages are on their way between machines."""
        calls = tree_calls(self.growing, size)
        waits = sum(waits_of(call, size) for call in calls)
        return waits * WIRE_LATENCY + bytes_of(calls, size) / size / (gigabits * 1e9 / 8)


def growing_of(point: dict[str, Any], algorithm: str) -> Growing:
    oblivious = "oblivious" in algorithm
    leaves, depth = (64, 6) if oblivious else (63, None)
    return Growing(point["cells"], point["narrow bytes"], point["blocks"], leaves, depth)


def call_costs(study: Study) -> tuple[dict[int, float], dict[int, float]]:
    """Processor seconds of a call and of a byte sent, by the number of workers."""
    from benchmarks.distributed import LARGE_BYTES, SIZES

    per_call, per_byte = {}, {}
    for size in SIZES[1:]:
        times = study.calls(size)
        per_call[size] = times["processor small"]
        sent = LARGE_BYTES * (size - 1) / size
        per_byte[size] = (times["processor large"] - times["processor small"]) / sent
    return per_call, per_byte


def fit_line(points: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Seconds per row and per tree that have the least squares of relative errors."""
    seconds = np.array([point["processor"] for point in points])
    rows = np.array([point["rows"] for point in points])
    table = np.stack([rows, np.ones(len(points))], axis=1) / seconds[:, None]
    rate, fixed = np.linalg.lstsq(table, np.ones(len(points)), rcond=None)[0]
    return float(rate), float(fixed)


def constants_of(study: Study, algorithm: str) -> Constants:
    from benchmarks.distributed import SILENT_SIZES, SIZES

    beside = {
        size: fit_line(
            [study.silent(algorithm, size, rows, beside=size) for rows in study.rows]
        )
        for size in SIZES
    }  # fmt: skip
    rate, fixed_alone = beside[1]
    fixed = {1: fixed_alone}
    for size in SILENT_SIZES:
        silent = study.silent(algorithm, size, study.rows[0])
        fixed[size] = silent["processor"] - rate * silent["rows"]
    return Constants(rate, fixed, beside, *call_costs(study), growing_of(silent, algorithm))


def constants_of_many_features(study: Study, algorithm: str) -> Constants:
    from benchmarks.distributed import MANY_FEATURES, SILENT_SIZES

    few, more = (
        study.silent(algorithm, 1, rows, MANY_FEATURES) for rows in study.many_rows
    )  # fmt: skip
    size = SILENT_SIZES[-1]
    silent = study.silent(algorithm, size, study.many_rows[0], MANY_FEATURES)
    rate = (more["processor"] - few["processor"]) / (more["rows"] - few["rows"])
    fixed = {
        1: few["processor"] - rate * few["rows"], size: silent["processor"] - rate * silent["rows"]
    }  # fmt: skip
    return Constants(rate, fixed, {}, *call_costs(study), growing_of(few, algorithm))


def constants_table(study: Study) -> str:
    from benchmarks.distributed import ALGORITHMS

    rows = []
    for algorithm in ALGORITHMS:
        constants = constants_of(study, algorithm)
        rows.append((f"{algorithm}: µs per row", f"{1e6 * constants.rate:.3f}"))
        rows += [
            (f"{algorithm}: fixed ms per tree, W = {size}", f"{1000 * seconds:.1f}")
            for size, seconds in constants.fixed.items()
        ]
        for size, (rate, fixed) in constants.beside.items():
            name = f"{algorithm}, {size} at once here"
            rows.append((f"{name}: µs per row", f"{1e6 * rate:.3f}"))
            rows.append((f"{name}: fixed ms per tree", f"{1000 * fixed:.1f}"))
        many = constants_of_many_features(study, algorithm)
        rows.append((f"{algorithm}, 700 features: µs per row", f"{1e6 * many.rate:.3f}"))
        rows += [
            (f"{algorithm}, 700 features: fixed ms per tree, W = {size}", f"{1000 * each:.1f}")
            for size, each in many.fixed.items()
        ]
    per_call, per_byte = call_costs(study)
    for size in per_call:
        wall = study.calls(size)["wall small"]
        rows += [
            (f"processor µs per call, {size} workers", f"{1e6 * per_call[size]:.0f}"),
            (f"µs from call to result on the loopback, {size} workers", f"{1e6 * wall:.0f}"),
            (f"processor ns per byte sent, {size} workers", f"{1e9 * per_byte[size]:.2f}"),
        ]
    rows.append(("µs that a message is on its way between machines (assumed)", "50"))
    return table(("constant", "value"), rows)


def comparison(study: Study) -> tuple[list[tuple[Any, ...]], int]:
    """Every measured point beside the model, and how many are not within 20 %."""
    from benchmarks.distributed import ALGORITHMS, SIZES

    rows, n_off = [], 0
    for algorithm in ALGORITHMS:
        constants = constants_of(study, algorithm)
        for size in SIZES:
            for wanted in study.rows:
                point = study.point(algorithm, size, wanted)
                model = constants.compute_beside(size, point["rows"]) + constants.talk(size)
                ratio = model / point["processor"]
                is_off = abs(ratio - 1) > WITHIN
                n_off += is_off
                rows.append((
                    algorithm, size, f"{point['rows']:,.0f}", f"{1000 * point['processor']:.1f}",
                    f"{1000 * model:.1f}", f"{ratio:.2f}",
                    "**no**" if is_off else "yes",
                ))  # fmt: skip
    return rows, n_off


def count_in_threads(
    size: int, parameters: dict[str, Any], _: object = None
) -> tuple[int, list[Call]]:
    """The bytes that workers, threads of one process with sockets, send for a tree; its calls.

    No cluster of processes is needed.
    """
    listeners = [listen("127.0.0.1") for _ in range(size)]
    addresses, token = [listener.address for listener in listeners], new_token()
    data = part_of(0, THREAD_ROWS, 136, THREAD_ROWS)
    sent, calls = [0] * size, [list[Call]()] * size

    def work(rank: int) -> None:
        with connect(listeners[rank], rank, addresses, token) as peers:
            recorder = Recorder(peers)
            own = Dataset(
                data.features, data.labels, data.offsets, data.query_ids,
                shard=shard_of(data, recorder),
            )  # fmt: skip
            run = start_trees(own, {}, Parameters(n_estimators=2, **parameters), n_jobs=1)
            for _ in range(2):
                recorder.clear()
                before = peers.traffic.bytes_sent
                run.trainer.step()
                run.trainer.keep(None)  # type: ignore[arg-type]
                sent[rank], calls[rank] = peers.traffic.bytes_sent - before, recorder.calls

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = [(each[0][0], [call[1][0] for call in each]) for each in zip(*calls, strict=True)]
    return sum(sent), together


def thread_rows(study: Study) -> list[tuple[Any, ...]]:
    """Many workers in one process: bytes beside the formula, messages one after the other."""
    from benchmarks.distributed import ALGORITHMS

    rows = []
    for algorithm, parameters in ALGORITHMS.items():
        for size in THREAD_SIZES:
            sent, calls = study.measured(
                "threads", f"{algorithm}; {size}",
                partial(count_in_threads, size, parameters),
            )  # fmt: skip
            expected = bytes_of(calls, size)
            rows.append((
                algorithm, size, len(calls), sum(waits_of(call, size) for call in calls),
                f"{sent:,}", f"{expected:,}", "yes" if sent == expected else "**no**",
            ))  # fmt: skip
    return rows


def paper_table(study: Study) -> str:
    """What 64 workers and 100 million documents cost, on paper."""
    from benchmarks.distributed import ALGORITHMS, MANY_FEATURES, N_FEATURES

    header = (
        "", "features", "memory per worker, GB", "MB sent per tree and worker", "compute, s",
        *(f"at {gigabits} Gb/s, s per tree (communication)" for gigabits in GIGABITS),
    )  # fmt: skip
    rows_each, rows = N_DOCUMENTS / N_WORKERS, []
    for algorithm in ALGORITHMS:
        for n_features, constants in (
            (N_FEATURES, constants_of(study, algorithm)),
            (MANY_FEATURES, constants_of_many_features(study, algorithm)),
        ):
            sent = bytes_of(tree_calls(constants.growing, N_WORKERS), N_WORKERS) / N_WORKERS
            compute = constants.compute(N_WORKERS, rows_each)
            cells = []
            for gigabits in GIGABITS:
                talk = constants.talk(N_WORKERS) + constants.wire(N_WORKERS, gigabits)
                cells.append(f"{compute + talk:.2f} ({100 * talk / (compute + talk):.0f} %)")
            memory = [memory_of(rows_each, n_features, floats) / 1e9 for floats in (True, False)]
            rows.append((
                algorithm, n_features, f"{memory[0]:.1f}, in bins only {memory[1]:.1f}",
                f"{sent / 1e6:.1f}", f"{compute:.2f}", *cells,
            ))  # fmt: skip
    return table(header, rows)


def memory_of(rows: float, n_features: int, floats: bool) -> float:
    """Bytes of a worker: its rows, by the formula of docs/large-data.md, and 65 histograms."""
    width = padded_width(n_features)
    per_row = (4 * n_features if floats else 0) + 2 * width + ROW_BYTES
    return rows * per_row + 65 * (width // BLOCK) * 256 * BLOCK * 8


def seconds_per_tree(
    constants: Constants, size: int, documents: float, threads: int, gigabits: float = 10
) -> float:
    """On machines whose threads divide the work on rows between them, and nothing else."""
    seconds = constants.fixed[size] + constants.rate * documents / size / threads
    return seconds + (constants.talk(size) + constants.wire(size, gigabits) if size > 1 else 0.0)


def pays_from(constants: Constants, size: int, threads: int) -> float:
    """From how many documents on workers are twice as fast as one, in steps of a tenth."""
    documents = 1e4
    while seconds_per_tree(constants, 1, documents, threads) < 2 * seconds_per_tree(
        constants, size, documents, threads
    ):
        documents *= 1.1
        if documents > 1e10:
            return float("inf")
    return documents


def scale_tables(study: Study) -> str:
    from benchmarks.distributed import ALGORITHMS

    sizes, parts = (1, 4, 16, 64), []
    for algorithm in ALGORITHMS:
        constants, rows = constants_of(study, algorithm), []
        for threads in (1, MANY_THREADS):
            for documents in (1_000_000, 10_000_000, 100_000_000):
                seconds = [seconds_per_tree(constants, size, documents, threads) for size in sizes]
                rows.append((threads, f"{documents:,}", *(f"{each:.3f}" for each in seconds)))
        parts.append(f"**{algorithm}**")
        header = ("threads per worker", "documents", *(f"W = {size}" for size in sizes))
        parts.append(table(header, rows))
        words = [
            f"{pays_from(constants, 4, threads) / 1e6:.1f} million documents with {threads} "
            f"thread{'s' if threads > 1 else ''} each"
            for threads in (1, MANY_THREADS)
        ]
        parts.append(f"Four workers are twice as fast as one from {words[0]}, {words[1]} on.")
    return "\n\n".join(parts)


def page(study: Study) -> str:
    """The whole page."""
    from benchmarks.distributed import COMMAND, PACKAGES

    rows, n_off = comparison(study)
    header = ("", "workers", "rows per worker", "measured, ms", "model, ms", "ratio", "within 20 %")
    threads = ("", "workers", "calls", "messages in a row", "bytes sent", "by the formula", "same")
    verdict = f"{len(rows) - n_off} of {len(rows)} points are within 20 %."
    parts = [
        _INTRODUCTION,
        f"This page is made by `{COMMAND}`, commit {commit()}. {machine(PACKAGES)}. Seconds are "
        "processor seconds of one thread; other programs ran beside, so each is the least of many, "
        "or the median of many calls. Calls and bytes are those of the formula in "
        "[Many machines](distributed.md#how-workers-talk).",
        _CONSTANTS,
        constants_table(study),
        "## The model against measured points",
        verdict,
        table(header, rows),
        "Bytes and messages of many workers, threads of one process with real connections:",
        table(threads, thread_rows(study)),
        "## 64 workers, 100 million documents",
        f"{N_DOCUMENTS // N_WORKERS:,} documents for each worker, one thread each. {_PAPER}",
        paper_table(study),
        _SCALE,
        scale_tables(study),
    ]
    return "\n\n".join(parts) + "\n"


def write_page(study: Study) -> None:
    PAGE.write_text(page(study), encoding="utf-8")

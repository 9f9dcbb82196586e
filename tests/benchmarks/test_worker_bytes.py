"""The formula of bytes, against what workers send: in memory, and over sockets to the byte."""

import threading

import numpy as np
import pytest
from benchmarks.distributed_tasks import Recorder
from benchmarks.worker_bytes import (
    Growing,
    bytes_of,
    narrow_bytes_of,
    sent_by_all,
    tree_calls,
    waits_of,
)

from rankgrove._jit.exact import scales_of
from rankgrove._jit.peers import MOST_DIRECT
from rankgrove.distributed import connect, listen, new_token
from rankgrove.trees import exchange
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.grower import Grower, TreeOptions
from rankgrove.trees.leaves import leaf_values
from rankgrove.trees.quantise import quantise
from workers import run_workers

N_FEATURES, N_ROWS = 36, 600
OPTIONS = {
    "oblivious": TreeOptions(grower="oblivious", max_depth=4, max_leaves=16, min_samples_leaf=1),
    "leafwise": TreeOptions(max_leaves=9, min_samples_leaf=1, min_child_weight=0.0),
}


@pytest.fixture(autouse=True)
def growers_own_blocks(monkeypatch):
    monkeypatch.setattr(exchange, "LEAST_SHARED_BYTES", 0)


def make_rows(rank):
    rng = np.random.default_rng(rank)
    return rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32), rng.normal(size=N_ROWS)


BINS = Bins.fit(make_rows(0)[0], 60)


def grow(options, peers):
    """Grow a tree and give its leaves values, as an iteration does: its leaves."""
    features, noise = make_rows(peers.rank)
    matrix = encode(features, BINS, by_feature=True)
    forces = features[:, :6].sum(axis=1, dtype=np.float64) + noise
    n_all, curvatures = N_ROWS * peers.size, np.ones(N_ROWS)
    scales = scales_of([forces, curvatures] * 2, n_all, 1, peers)
    packed, units, _ = quantise(
        forces, curvatures, 7, 1, offsets=np.array([0, N_ROWS]),
        places=np.array([N_ROWS * peers.rank]), n_all=n_all, peers=peers, scales=scales[:2],
    )  # fmt: skip
    grower = Grower(matrix, BINS, options, n_jobs=1, peers=peers)
    rows = np.arange(N_ROWS, dtype=np.int32)
    grown = grower.grow(packed, units, rows, np.ones(N_FEATURES, np.bool_))
    leaf_values(
        grown, rows, forces, curvatures, l2=0.0, l2_documents=0.0, least=0.0,
        unit=units[0] / units[1], n_all=n_all, n_jobs=1, peers=peers, scales=scales[2:],
    )  # fmt: skip
    return grown.n_leaves


def growing_of(options):
    matrix = encode(make_rows(0)[0][:1], BINS)
    used = (matrix.features.reshape(-1, 16) >= 0).sum(axis=1)
    cells = int(((matrix.block_bins + 1) * used).sum())
    narrow = narrow_bytes_of(matrix.block_bins, used)
    return Growing(cells, narrow, matrix.n_blocks, options.max_leaves, options.max_depth)


@pytest.mark.parametrize("size", [2, 3, 16])
@pytest.mark.parametrize("grower", OPTIONS)
def test_the_calls_of_a_tree_are_those_that_workers_in_memory_make(grower, size):
    options = OPTIONS[grower]
    leaves, peers = run_workers(size, lambda peers: grow(options, peers))
    assert leaves == [options.max_leaves] * size
    expected = tree_calls(growing_of(options), size)
    for number, (name, lengths) in enumerate(expected):
        made = [each.messages[number] for each in peers]
        assert {called for called, _ in made} == {name}
        if name == "scatter":
            # So few rows are worth many units each: numbers do not fit, and take 8 bytes.
            assert sum(lengths) < sum(length for _, length in made) < 8 / 5 * sum(lengths)
            continue
        # Which workers own a block is not said by the formula, only how many do.
        assert sorted(length for _, length in made) == sorted(lengths)
    assert {len(each.messages) for each in peers} == {len(expected)}


def test_the_bytes_of_a_histogram_are_five_for_each_number_of_a_whole_block():
    # Whole: a word, 5 bytes for each of 16 x 60 numbers, 16 numbers of missing values.
    assert narrow_bytes_of(np.array([60, 30]), np.array([16, 4])) == (8 + 4800 + 128) + 8 * 31 * 4


@pytest.mark.parametrize("size", [2, 4, 16])
@pytest.mark.parametrize("grower", OPTIONS)
def test_workers_send_the_bytes_of_the_formula(grower, size):
    listeners = [listen() for _ in range(size)]
    addresses, token = [listener.address for listener in listeners], new_token()
    sent, made = [0] * size, [None] * size

    def work(rank):
        with connect(listeners[rank], rank, addresses, token) as peers:
            recorder = Recorder(peers)
            grow(OPTIONS[grower], recorder)
            sent[rank], made[rank] = peers.traffic.bytes_sent, recorder.calls

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = [(each[0][0], [call[1][0] for call in each]) for each in zip(*made, strict=True)]
    assert sum(sent) == bytes_of(calls, size) > 0
    if size > MOST_DIRECT:
        assert sum(sent) == bytes_of(tree_calls(growing_of(OPTIONS[grower]), size), size)


def test_the_default_tree_takes_six_exchanges_of_histograms():
    calls = tree_calls(Growing(136 * 256, 136 * 160, 9, 64, 6), 4)
    assert [name for name, _ in calls].count("scatter") == 6
    assert [name for name, _ in calls].count("gather") == 6


def test_one_worker_sends_nothing_and_odd_numbers_of_many_are_refused():
    assert bytes_of(tree_calls(Growing(100, 70, 2, 4), 1), 1) == 0
    with pytest.raises(ValueError, match=r"power of two\. Got 12"):
        sent_by_all(("sum", [8] * 12), 12)


def test_large_sums_wait_twice_and_everything_else_once():
    assert waits_of(("sum", [8] * 4), 4) == waits_of(("scatter", [10**6] * 4), 4) == 1
    assert waits_of(("sum", [10**6] * 4), 4) == 2
    assert waits_of(("gather", [72] * 64), 64) == 6

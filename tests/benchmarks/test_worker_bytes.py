"""The formula of bytes, against what workers send: in memory, and over sockets to the byte."""

import threading

import numpy as np
import pytest
from benchmarks.worker_bytes import Growing, bytes_of, sent_by_all, tree_calls, waits_of

from rankgrove._jit.exact import scales_of
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
    return Growing(cells, matrix.n_blocks, options.max_leaves, options.max_depth)


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
        # Which workers own a block is not said by the formula, only how many do.
        assert sorted(length for _, length in made) == sorted(lengths)
    assert {len(each.messages) for each in peers} == {len(expected)}


@pytest.mark.parametrize("size", [2, 4, 16])
@pytest.mark.parametrize("grower", OPTIONS)
def test_workers_send_the_bytes_of_the_formula(grower, size):
    listeners = [listen() for _ in range(size)]
    addresses, token = [listener.address for listener in listeners], new_token()
    sent = [0] * size

    def work(rank):
        with connect(listeners[rank], rank, addresses, token) as peers:
            grow(OPTIONS[grower], peers)
            sent[rank] = peers.traffic.bytes_sent

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(sent) == bytes_of(tree_calls(growing_of(OPTIONS[grower]), size), size) > 0


def test_the_default_tree_takes_six_exchanges_of_histograms():
    calls = tree_calls(Growing(136 * 256, 9, 64, 6), 4)
    assert [name for name, _ in calls].count("reduce_scatter") == 6
    assert [name for name, _ in calls].count("gather") == 6


def test_one_worker_sends_nothing_and_odd_numbers_of_many_are_refused():
    assert bytes_of(tree_calls(Growing(100, 2, 4), 1), 1) == 0
    with pytest.raises(ValueError, match=r"power of two\. Got 12"):
        sent_by_all(("sum", [8] * 12), 12)


def test_large_sums_wait_twice_and_everything_else_once():
    assert waits_of(("sum", [8] * 4), 4) == waits_of(("reduce_scatter", [10**6] * 4), 4) == 1
    assert waits_of(("sum", [10**6] * 4), 4) == 2
    assert waits_of(("gather", [72] * 64), 64) == 6

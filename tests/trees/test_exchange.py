"""Growers that have the rows between them grow the tree of one grower with all rows."""

import itertools

import numpy as np
import pytest

from rankgrove._jit.peers import ALONE
from rankgrove.errors import RankgroveError
from rankgrove.trees import exchange
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.grower import Grower, TreeOptions
from rankgrove.trees.quantise import quantise
from workers import Board, ThreadPeers, run_workers

N_ROWS, N_FEATURES = 1500, 20


class Data:
    """Rows in rising order of feature 0, so that a cut by it parts growers, not only rows."""

    def __init__(self, seed=0, n_rows=N_ROWS, categorical=(), signs=None):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(n_rows, N_FEATURES))
        features[:, 0] = np.sort(features[:, 0])
        features[:, 7] = np.where(rng.random(n_rows) < 0.3, np.nan, features[:, 7])
        features[:, 11] = np.where(rng.random(n_rows) < 0.7, np.nan, features[:, 11])
        features[:, 13] = rng.integers(0, 9, n_rows)
        features[:, 16] = rng.integers(0, 300, n_rows)
        wild = np.nan_to_num(features)
        forces = 2 * wild[:, 0] - wild[:, 7] + np.isnan(features[:, 11]) + (wild[:, 13] % 3 == 1)
        self.features = features.astype(np.float32)
        self.forces = forces + rng.normal(size=n_rows)
        self.curvatures = 10.0 ** rng.uniform(-2, 0, n_rows)
        self.bins = Bins.fit(self.features, 40, categorical=categorical)
        self.signs = np.zeros(N_FEATURES, np.int8)
        for feature, sign in (signs or {}).items():
            self.signs[feature] = sign

    def grow(self, options, rows, peers=None, n_jobs=1, noise=(0.0, 0), n_trees=1, unused=()):
        """The tree of some rows, and their numbers in the order of its leaves."""
        own = slice(rows.start, rows.stop)
        matrix = encode(self.features[own], self.bins, by_feature=True)
        packed, units, _ = quantise(
            self.forces[own], self.curvatures[own], 7, 1, offsets=np.array([0, len(rows)]),
            places=np.array([rows.start]), n_all=len(self.forces), peers=peers or ALONE,
        )  # fmt: skip
        grower = Grower(
            matrix, self.bins, options, signs=self.signs, n_jobs=n_jobs, peers=peers, part_rows=128
        )  # fmt: skip
        allowed = ~np.isin(np.arange(N_FEATURES), unused)
        for _ in range(n_trees):
            order = np.arange(len(rows), dtype=np.int32)
            grown = grower.grow(packed, units, order, allowed, 0.1, 1.0, noise)
        return grown, order + rows.start

    def grow_together(self, options, bounds, n_jobs=1, **more):
        """The trees and orders of growers that have the rows between these bounds."""
        shards = [range(*pair) for pair in itertools.pairwise(bounds)]
        return run_workers(
            len(shards), lambda peers: self.grow(options, shards[peers.rank], peers, n_jobs, **more)
        )


SAME = ("features", "bins", "tables", "gains", "left", "right", "count", "low", "high")


def assert_same_tree(alone, together):
    tree, order = alone
    for part, _ in together:
        for name in SAME:
            assert getattr(part, name).tobytes() == getattr(tree, name).tobytes(), name
    for leaf in range(tree.n_leaves):
        rows = [own[part.start[leaf] : part.end[leaf]] for part, own in together]
        expected = order[tree.start[leaf] : tree.end[leaf]]
        assert np.concatenate(rows).tolist() == expected.tolist()


def cells_of(data, unused=()):
    """The numbers in a histogram that are sent: a bin more for missing values."""
    matrix = encode(data.features[:1], data.bins)
    features = matrix.features.reshape(-1, 16)
    used = (features >= 0) & ~np.isin(features, unused)
    return int(((matrix.block_bins + 1) * used.sum(axis=1)).sum())


def first_of(peers, name):
    """How many bytes the first call of a name was given."""
    return next(length for called, length in peers.messages if called == name)


OPTIONS = {
    "leafwise": TreeOptions(max_leaves=25, min_samples_leaf=10),
    "depthwise": TreeOptions(grower="depthwise", max_leaves=25, min_samples_leaf=10),
    "oblivious": TreeOptions(
        grower="oblivious", max_depth=5, max_leaves=32, min_samples_leaf=3, l2=0.5
    ),
}

# One grower, two to four of them; one without any row, at the first, a middle and the last place.
SHARDS = {
    "1": [0, 1500],
    "2": [0, 700, 1500],
    "3": [0, 0, 900, 1500],
    "4": [0, 20, 400, 400, 1500],
    "4, the last empty": [0, 100, 800, 1500, 1500],
}


@pytest.fixture(scope="module")
def data():
    return Data()


@pytest.fixture(autouse=True)
def growers_own_blocks(monkeypatch):
    """Let growers own different blocks, also of histograms as small as these."""
    monkeypatch.setattr(exchange, "LEAST_SHARED_BYTES", 0)


@pytest.fixture
def as_many(monkeypatch):
    """Let growers send sums as more of them do than talk directly."""
    monkeypatch.setattr(exchange, "MOST_DIRECT", 1)


def packed(force, curvature):
    return (force << 32) + curvature


def naive_narrow(cells):
    """Cells as they are written, from the bits of each; and those that do not fit."""
    bits = [((cell >> 32) % 2**20 << 20) + cell % 2**20 for cell in cells]
    n = len(cells)
    words = [bits[i] % 2**32 + (bits[i + n // 2] % 2**32 << 32) for i in range(n // 2)]
    uppers = [
        sum((bits[i + n // 8 * eighth] >> 32) << 8 * eighth for eighth in range(8))
        for i in range(n // 8)
    ]
    more = []
    for place, cell in enumerate(cells):
        force, curvature = (bits[place] >> 20), bits[place] % 2**20
        missing = cell - packed(force - (force >= 2**19) * 2**20, curvature)
        more += [place, missing] if missing else []
    return [len(more) // 2, *words, *uppers, *more] if 8 * len(more) <= 3 * n else [-1, *cells]


LIMITS = [packed(f, c) for f in (0, 5, -5, 2**19 - 1, -(2**19)) for c in (0, 7, 2**20 - 1)]
BEYOND = [packed(2**19, 0), packed(-(2**19) - 1, 3), packed(1, 2**20), packed(-1, 2**32 - 1)]


@pytest.mark.parametrize("n_beyond", [0, 1, 11, 12, 13, 64])
def test_numbers_are_sent_in_five_bytes_and_more_where_they_do_not_fit(n_beyond):
    rng = np.random.default_rng(n_beyond)
    cells = np.array([*LIMITS, *rng.choice(LIMITS, 64 - len(LIMITS))], dtype=np.int64)
    cells[rng.choice(64, n_beyond, replace=False)] = rng.choice(BEYOND, n_beyond)
    message = np.full(100, 99, dtype=np.int64)
    end = exchange._pack_narrow(cells, message, 3)
    expected = naive_narrow(cells.tolist())
    assert message[3:end].view(np.uint64).tolist() == [each % 2**64 for each in expected]
    assert len(expected) == min(1 + 40 + 2 * n_beyond, 1 + 64)
    sums = np.arange(64)
    assert exchange._take_narrow(sums, message[:end], 3) == end
    assert (sums - np.arange(64)).tolist() == cells.tolist()
    # One that was cut is not read beyond its end.
    assert exchange._take_narrow(sums, message[: end - 1].copy(), 3) > end - 1


def test_a_message_of_another_length_is_an_error(data):
    class Other(ThreadPeers):
        def scatter(self, messages):
            return [each[:-1] for each in super().scatter(messages)]

    with pytest.raises(RankgroveError, match="as many numbers"):
        run_workers(2, lambda peers: data.grow(OPTIONS["leafwise"], range(10, 700), peers), Other)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("grower", OPTIONS)
def test_growers_with_the_rows_between_them_grow_the_tree_of_one(data, grower, shards):
    options = OPTIONS[grower]
    alone = data.grow(options, range(N_ROWS))
    together, _ = data.grow_together(options, SHARDS[shards])
    assert alone[0].n_leaves > 8
    assert_same_tree(alone, together)
    if len(together) > 2:
        # Some grower has no row of some leaf.
        assert min((tree.end - tree.start).min() for tree, _ in together) == 0


@pytest.mark.parametrize("grower", OPTIONS)
def test_small_histograms_are_summed_on_all_growers_and_cuts_not_compared(
    data, grower, monkeypatch
):
    monkeypatch.undo()
    alone = data.grow(OPTIONS[grower], range(N_ROWS))
    together, peers = data.grow_together(OPTIONS[grower], [0, 0, 900, 1500])
    assert_same_tree(alone, together)
    assert {operation for operation, _ in peers[0].messages[2:]} == {"sum"}


@pytest.mark.parametrize("grower", OPTIONS)
def test_growers_without_a_block_get_the_cuts_of_others(data, grower):
    alone = data.grow(OPTIONS[grower], range(N_ROWS))
    # Two blocks and five growers, of which the middle and the last one own a block.
    together, peers = data.grow_together(OPTIONS[grower], [0, 300, 600, 900, 1200, 1500])
    assert_same_tree(alone, together)
    assert [first_of(each, "gather") > 0 for each in peers] == [False, False, True, False, True]


@pytest.mark.parametrize("grower", OPTIONS)
def test_only_features_that_may_be_split_by_are_sent(data, grower, as_many):
    more = {"unused": (0, 3, 4, 5, 6, 8, 9, 10, 12, 19)}
    alone = data.grow(OPTIONS[grower], range(N_ROWS), **more)
    together, peers = data.grow_together(OPTIONS[grower], [0, 700, 1500], **more)
    assert_same_tree(alone, together)
    assert cells_of(data, **more) < 0.6 * cells_of(data)
    assert first_of(peers[0], "reduce_scatter") == 8 * (cells_of(data, **more) + 4)


@pytest.mark.parametrize("grower", OPTIONS)
def test_categories_and_monotone_features_are_as_with_one_grower(grower):
    data = Data(categorical=(13, 16), signs={0: 1, 7: -1, 5: 1})
    alone = data.grow(OPTIONS[grower], range(N_ROWS))
    together, _ = data.grow_together(OPTIONS[grower], [0, 300, 900, 1500], n_jobs=2)
    assert np.isfinite(alone[0].low).any()
    assert_same_tree(alone, together)


@pytest.mark.parametrize("fewest", [1, 100, 300])
@pytest.mark.parametrize("grower", OPTIONS)
def test_rows_of_all_growers_decide_whether_a_leaf_has_enough(data, grower, fewest):
    options = TreeOptions(**{**vars(OPTIONS[grower]), "min_samples_leaf": fewest, "l2": 0.0})
    alone = data.grow(options, range(N_ROWS))
    together, peers = data.grow_together(options, [0, 500, 1000, 1500])
    assert_same_tree(alone, together)
    assert alone[0].n_leaves > 1
    if grower == "leafwise" and fewest == 300:
        # Rows were counted, and the cut searched again: more than two messages for each split and
        # the root, and two for the units.
        assert len(peers[0].messages) > 2 + 2 * alone[0].n_leaves


@pytest.mark.parametrize("grower", OPTIONS)
def test_noise_and_memory_kept_from_tree_to_tree_change_nothing(data, grower):
    more = {"noise": (3.0, 17), "n_trees": 2}
    alone = data.grow(OPTIONS[grower], range(N_ROWS), **more)
    together, _ = data.grow_together(OPTIONS[grower], [0, 10, 1500], n_jobs=2, **more)
    assert_same_tree(alone, together)


def test_few_rows_leave_empty_nodes_as_with_one_grower():
    data = Data(n_rows=40)
    options = TreeOptions(
        grower="oblivious", max_depth=7, max_leaves=128, min_samples_leaf=1, min_child_weight=0.0
    )
    alone = data.grow(options, range(40))
    together, _ = data.grow_together(options, [0, 15, 16, 40])
    assert alone[0].count.min() == 0
    assert_same_tree(alone, together)


def test_one_leaf_has_the_rows_of_all_growers(data):
    for options in (TreeOptions(max_leaves=1), TreeOptions(min_samples_leaf=N_ROWS)):
        together, _ = data.grow_together(options, [0, 700, 1500])
        assert [tree.count.tolist() for tree, _ in together] == [[N_ROWS]] * 2


def test_an_oblivious_tree_takes_two_messages_per_level_and_one_for_the_rows_of_its_leaves(
    data, as_many
):
    options = TreeOptions(grower="oblivious", max_depth=6, max_leaves=64, min_samples_leaf=1)
    _, peers = data.grow_together(options, [0, 700, 1500])
    cells = cells_of(data)
    sent = peers[0].messages[2:]  # after the units
    assert [name for name, _ in sent] == ["reduce_scatter", "gather"] * 6 + ["sum"]
    # The root; of each later level one child of every two; two more numbers for every division,
    # to both growers.
    histograms = [length for name, length in sent if name == "reduce_scatter"]
    assert histograms[:3] == [8 * (cells + 4), 8 * (cells + 4), 8 * (2 * cells + 8)]
    # A cut, and what goes left in each node.
    cuts = [length for name, length in sent if name == "gather"]
    assert cuts == [72 + 8 * n_nodes for n_nodes in (1, 2, 4, 8, 16, 32)]
    assert sent[-1][1] <= 2 * 8 * 32


def test_a_tree_of_leaves_takes_two_messages_per_split_and_for_the_root(data, as_many):
    options = TreeOptions(max_leaves=20, min_samples_leaf=1, min_child_weight=0.0)
    together, peers = data.grow_together(options, [0, 700, 1500])
    assert together[0][0].n_leaves == 20
    histogram = ("reduce_scatter", 8 * (cells_of(data) + 4))
    # Two children are searched at once, and none after the last split.
    expected = [histogram, ("gather", 72), *[histogram, ("gather", 144)] * 18, ("sum", 16)]
    assert peers[0].messages[2:] == expected


def test_an_error_of_a_peer_is_raised_and_ends_the_tree(data):
    class Gone(ThreadPeers):
        def sum(self, numbers):
            raise ConnectionError("worker 1 is gone")

    with pytest.raises(ConnectionError, match="worker 1 is gone"):
        data.grow(OPTIONS["leafwise"], range(N_ROWS), Gone(Board(1), 0))

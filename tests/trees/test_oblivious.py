"""Oblivious trees, held to the plain grower, and noise in the gains of any tree."""

import numpy as np
import pytest

from boosting.samples import bits, make_data, train
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError
from rankgrove.trees.binning import CATEGORICAL, MISSING_CODE, PLAIN, Bins, encode
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.grower import Grower, TreeOptions
from rankgrove.trees.leaves import add_to_scores, leaf_values, to_tree, walk
from rankgrove.trees.predict import PreparedEnsemble
from rankgrove.trees.quantise import quantise
from trees import naive_grower, naive_oblivious

N_FEATURES = 20


def oblivious(depth, **options):
    return TreeOptions(grower="oblivious", max_depth=depth, max_leaves=1 << depth, **options)


class Case:
    """Data over two blocks of features, some with missing values, and their forces."""

    def __init__(
        self, seed=0, n_rows=700, max_bins=12, sample=None, allowed=None, categorical=(), signs=None
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(n_rows, N_FEATURES))
        features[:, 5] = rng.integers(0, 3, n_rows)
        features[:, 7] = np.where(rng.random(n_rows) < 0.3, np.nan, features[:, 7])
        features[:, 11] = np.where(rng.random(n_rows) < 0.7, np.nan, features[:, 11])
        features[:, 13] = rng.integers(0, 9, n_rows)
        features[:, 16] = rng.integers(0, 30, n_rows)
        # The same values in another block: every cut of it is as good as one of feature 0.
        features[:, 18] = features[:, 0]
        wild = np.nan_to_num(features)
        forces = wild[:, 0] - wild[:, 7] + 2 * np.isnan(features[:, 11]) + wild[:, 3] * wild[:, 5]
        for feature in categorical:
            forces += 2 * rng.normal(size=40)[features[:, feature].astype(int)]
        self.features = features.astype(np.float32)
        self.forces = forces + rng.normal(size=n_rows)
        self.curvatures = 10.0 ** rng.uniform(-2, 0, n_rows)
        self.bins = Bins.fit(self.features, max_bins, categorical=categorical)
        self.matrix = encode(self.features, self.bins, by_feature=True)
        self.codes = self.matrix.codes[:, self.matrix.slots]
        self.packed, self.units, _ = quantise(self.forces, self.curvatures, 7, 1)
        whole = np.arange(n_rows, dtype=np.int32)
        self.rows = whole if sample is None else np.sort(rng.choice(whole, sample, replace=False))
        self.allowed = np.ones(N_FEATURES, np.bool_) if allowed is None else allowed
        self.signs = np.zeros(N_FEATURES, np.int8)
        for feature, sign in (signs or {}).items():
            self.signs[feature] = sign

    def naive(self, options):
        return naive_oblivious.grow(
            self.codes, self.packed, self.rows, self.bins, options, self.units[1], self.allowed,
            self.signs,
        )  # fmt: skip

    def grow(self, options, n_jobs=2, sizes=None, **noise):
        """The engine's tree, and the rows in the order of its leaves."""
        order = self.rows.copy()
        engine = Grower(
            self.matrix, self.bins, options, signs=self.signs, n_jobs=n_jobs, **(sizes or {})
        )
        return engine.grow(self.packed, self.units, order, self.allowed, **noise), order

    @property
    def gain_unit(self):
        return self.units[0] ** 2 / self.units[1]


def leaves_of(grown):
    nodes = [0] if len(grown.features) else [~0]
    while nodes[0] >= 0:
        nodes = [child for at in nodes for child in (grown.left[at], grown.right[at])]
    return nodes


def rows_of_levels(grown, order):
    """The rows of all nodes, level by level and from left to right; all leaves are in the last."""
    levels, nodes = [], [0] if len(grown.features) else [~0]
    while nodes[0] >= 0:
        levels.append(nodes)
        nodes = [child for at in nodes for child in (grown.left[at], grown.right[at])]
    assert all(node < 0 for node in nodes)
    assert sorted(~node for node in nodes) == list(range(grown.n_leaves))
    return levels, [order[grown.start[~node] : grown.end[~node]] for node in nodes]


def assert_same_tree(case, options, grown, order):
    levels, leaves, bounds = case.naive(options)
    nodes_of, found = rows_of_levels(grown, order)
    assert len(nodes_of) == len(levels)
    for level, nodes in zip(levels, nodes_of, strict=True):
        assert {grown.features[at] for at in nodes} == {level.feature}
        if level.categories is not None:
            sets = {frozenset(np.flatnonzero(grown.tables[at]).tolist()) for at in nodes}
            assert sets == {level.categories}
        else:
            assert {grown.bins[at] for at in nodes} == {level.last_bin}
        missing_left = level.missing_left
        if case.bins.kinds[level.feature] == PLAIN:
            # What was never missing goes with the majority of the bins.
            missing_left = 2 * (level.last_bin + 1) >= case.bins.n_bins[level.feature]
        assert {grown.tables[at, MISSING_CODE] for at in nodes} == {missing_left}
        # The gain is divided by the number of nodes and multiplied by a unit: some roundings.
        total = grown.gains[nodes].sum()
        assert total == pytest.approx(level.gain * case.gain_unit, rel=1e-13)
        assert len(set(grown.gains[nodes])) == 1
    for rows, expected in zip(found, leaves, strict=True):
        assert rows.tolist() == expected.tolist()
    # Bounds are quotients of whole numbers: the same to the bit.
    order_of_leaves = [~node for node in leaves_of(grown)]
    assert list(zip(grown.low[order_of_leaves], grown.high[order_of_leaves], strict=True)) == bounds
    return leaves


OPTIONS = {
    "default": (4, {}),
    "shallow": (1, {}),
    "l2": (4, {"l2": 5.0}),
    "heavy children": (5, {"min_child_weight": 20.0}),
    "many rows a leaf": (5, {"min_samples_leaf": 60}),
    "one row per leaf": (5, {"min_samples_leaf": 1, "min_child_weight": 0.0}),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_tree_equals_the_plain_growers(name, seed):
    depth, more = OPTIONS[name]
    case, options = Case(seed), oblivious(depth, **more)
    grown, order = case.grow(options)
    assert len(assert_same_tree(case, options, grown, order)) > 1


FEATURES = {
    "categories": {"categorical": (13, 16)},
    "monotone": {"signs": {0: 1, 7: -1, 3: -1}},
    "against the data": {"signs": {0: -1, 7: 1, 11: 1}},
    "both": {"categorical": (13, 16), "signs": {0: 1, 7: -1, 3: 1, 5: -1}},
}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("fewest", [1, 25])
def test_tree_of_monotone_and_categorical_features_equals_the_plain_growers(name, fewest):
    case = Case(2, max_bins=30 if "categorical" in FEATURES[name] else 12, **FEATURES[name])
    options = oblivious(5, min_samples_leaf=fewest, l2=0.2, category_smoothing=3.0)
    grown, order = case.grow(options)
    assert len(assert_same_tree(case, options, grown, order)) > 8
    used = grown.features
    if "signs" in FEATURES[name] and name != "against the data":
        assert (case.signs[used] != 0).any()
        assert np.isfinite(grown.low).any()
        assert np.isfinite(grown.high).any()
    if "categorical" in FEATURES[name]:
        assert (case.bins.kinds[used] == CATEGORICAL).any()


@pytest.mark.parametrize("few", [{}, {"max_categories": 2}, {"category_l2": 0.0}], ids=str)
def test_deep_tree_of_few_rows_keeps_bounds_where_nodes_are_empty(few):
    # Few features, so that a monotone one is cut several times.
    allowed = np.isin(np.arange(N_FEATURES), (0, 7, 13))
    case = Case(n_rows=50, max_bins=8, allowed=allowed, **FEATURES["both"])
    options = oblivious(7, min_samples_leaf=1, min_child_weight=0.0, category_smoothing=1.0, **few)
    grown, order = case.grow(options)
    leaves = assert_same_tree(case, options, grown, order)
    assert min(len(rows) for rows in leaves) == 0
    assert np.all(grown.low <= grown.high)
    # A child without rows has but one value where its parent had a bound.
    assert np.any(grown.low == grown.high)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_tree_of_all_kinds_of_features_does_not_depend_on_how_work_is_cut(n_jobs):
    case, options = Case(max_bins=30, **FEATURES["both"]), oblivious(5, min_samples_leaf=4)
    whole, order = case.grow(options)
    cut, order_of_parts = case.grow(
        options, n_jobs, {"part_rows": 64, "few_rows": 50, "kept_rows": 40}
    )
    assert np.array_equal(order, order_of_parts)
    for name in ("features", "tables", "gains", "low", "high"):
        assert getattr(whole, name).tobytes() == getattr(cut, name).tobytes()


def test_of_two_equal_features_in_different_blocks_the_lower_one_is_cut():
    for seed in (0, 1):
        case = Case(seed)
        grown, _ = case.grow(oblivious(6))
        used = grown.features
        assert 0 in used
        assert 18 not in used


def test_cuts_by_missing_values_go_both_ways():
    directions = set()
    for seed in range(4):
        case = Case(seed)
        directions |= {(level.feature, level.missing_left) for level in case.naive(oblivious(4))[0]}
    assert {left for feature, left in directions if feature in (7, 11)} == {False, True}


def test_tree_on_a_sample_of_rows_and_features_equals_the_plain_growers():
    allowed = np.random.default_rng(3).random(N_FEATURES) < 0.5
    allowed[[0, 11]] = False, True
    case, options = Case(sample=400, allowed=allowed), oblivious(4, min_samples_leaf=10)
    grown, order = case.grow(options)
    assert_same_tree(case, options, grown, order)
    assert allowed[grown.features].all()


@pytest.mark.parametrize(("n_rows", "fewest"), [(60, 1), (60, 3), (17, 1), (3, 1)])
def test_deep_tree_of_few_rows_equals_the_plain_growers_empty_nodes_and_all(n_rows, fewest):
    case = Case(n_rows=n_rows, max_bins=6)
    options = oblivious(8, min_samples_leaf=fewest, min_child_weight=0.0)
    grown, order = case.grow(options)
    leaves = assert_same_tree(case, options, grown, order)
    assert len(leaves) > n_rows or n_rows == 3
    assert min(len(rows) for rows in leaves) == 0 or n_rows == 3


def test_fewer_rows_than_two_leaves_need_give_one_leaf():
    case = Case(n_rows=39)
    grown, order = case.grow(oblivious(3, min_samples_leaf=20))
    assert grown.n_leaves == 1
    assert_same_tree(case, oblivious(3, min_samples_leaf=20), grown, order)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize(("few_rows", "kept_rows"), [(0, 0), (50, 50), (100, 0), (100, 90)])
def test_tree_does_not_depend_on_threads_nor_on_how_work_is_cut(n_jobs, few_rows, kept_rows):
    case, options = Case(), oblivious(5, min_samples_leaf=4)
    whole, order = case.grow(options)
    sizes = {"part_rows": 64, "few_rows": few_rows, "kept_rows": kept_rows}
    cut, order_of_parts = case.grow(options, n_jobs, sizes)
    assert_same_tree(case, options, cut, order_of_parts)
    assert np.array_equal(order, order_of_parts)
    assert np.array_equal(whole.tables, cut.tables)
    assert np.array_equal(whole.gains, cut.gains)


def test_memory_that_is_kept_from_tree_to_tree_changes_nothing():
    case, options = Case(), oblivious(5, min_samples_leaf=4)
    engine = Grower(case.matrix, case.bins, options, n_jobs=2)
    trees = []
    for packed in (case.packed, case.packed[::-1].copy(), case.packed):
        order = case.rows.copy()
        trees.append((engine.grow(packed, case.units, order, case.allowed), order))
    assert trees[0][1].tolist() == trees[2][1].tolist() != trees[1][1].tolist()
    assert trees[0][0].tables.tobytes() == trees[2][0].tables.tobytes()
    assert_same_tree(case, options, *trees[2])


def test_rows_get_the_same_value_by_leaf_by_codes_and_by_features():
    case = Case()
    grown, order = case.grow(oblivious(6, min_samples_leaf=3))
    values = leaf_values(grown, order, case.forces, case.curvatures, l2=0.5, unit=1.0)
    by_leaf, by_code = np.zeros((2, len(case.rows)))
    add_to_scores(grown, order, values, by_leaf)
    walk(grown, case.matrix, values, by_code)
    assert np.array_equal(by_leaf, by_code)
    tree = to_tree(grown, case.bins, values)
    assert np.array_equal(
        PreparedEnsemble(Ensemble.from_trees([tree])).score(case.features), by_leaf
    )


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_all_nodes_of_a_level_have_the_same_split_in_a_trained_tree(missing):
    run = train(make_data(missing=missing), grower="oblivious", max_depth=4, max_leaves=2)
    for tree in run.trees:
        nodes, depth = [0], 0
        while nodes[0] >= 0:
            assert len({(tree.feature[at], tree.threshold[at]) for at in nodes}) == 1
            assert len({tree.missing_left[at] for at in nodes}) == 1
            nodes = [child for at in nodes for child in (tree.left[at], tree.right[at])]
            depth += 1
        assert tree.n_leaves == 1 << depth > 4


def test_depth_of_oblivious_trees_is_six_unless_told():
    assert (
        Parameters(grower="oblivious").resolve(1000).trees
        == Parameters(grower="oblivious", max_depth=6).resolve(10).trees
    )
    options = Parameters(grower="oblivious", max_depth=3, max_leaves=5).resolve(1000).trees
    assert (options.max_depth, options.max_leaves) == (3, 8)
    data = make_data()
    assert bits(train(data, grower="oblivious")) == bits(
        train(data, grower="oblivious", max_depth=6)
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_depth": 17}, "max_depth of oblivious trees must be"),
        ({"max_depth": 0}, "max_depth must be"),
    ],
    ids=str,
)
def test_what_oblivious_trees_cannot_do_is_refused(more, message):
    with pytest.raises(ParameterError, match=message):
        Parameters(grower="oblivious", **more)


@pytest.mark.parametrize(
    "grower",
    [
        "leafwise",
        "oblivious",
    ],
)
@pytest.mark.parametrize("n_rows", [64, 128])
def test_equal_forces_leave_nothing_to_gain(grower, n_rows):
    # So many rows get the same whole units of force and curvature each.
    features = np.random.default_rng(0).normal(size=(n_rows, 20)).astype(np.float32)
    bins = Bins.fit(features)
    matrix = encode(features, bins, by_feature=True)
    packed, units, _ = quantise(np.ones(n_rows), np.ones(n_rows), 0, 1)
    assert len(set(packed.tolist())) == 1
    options = TreeOptions(grower=grower, max_depth=3, max_leaves=8, min_samples_leaf=1)
    rows = np.arange(n_rows, dtype=np.int32)
    grown = Grower(matrix, bins, options).grow(packed, units, rows, np.ones(20, np.bool_))
    assert grown.n_leaves == 1


GROWERS = {
    "leafwise": TreeOptions(max_leaves=20, min_samples_leaf=10),
    "depthwise": TreeOptions(grower="depthwise", max_leaves=20, min_samples_leaf=10),
    "oblivious": oblivious(4, min_samples_leaf=10),
}


def noise_of(case, share):
    """So much of the root of what a split by chance gains."""
    return share * float(np.sqrt((case.forces**2).sum() / case.curvatures.sum()))


def shape_of(grown):
    return (grown.features.tolist(), grown.bins.tolist(), grown.gains.tolist())


@pytest.mark.parametrize("grower", GROWERS)
def test_noise_of_scale_0_changes_no_bit_and_any_other_changes_trees_with_its_key(grower):
    case, options = Case(), GROWERS[grower]
    plain, order = case.grow(options)
    for key in (0, 1, 2**62):
        same, same_order = case.grow(options, noise=(0.0, key))
        assert shape_of(same) == shape_of(plain)
        assert same_order.tolist() == order.tolist()
    share = noise_of(case, 5.0)
    shapes = [shape_of(case.grow(options, noise=(share, key))[0]) for key in range(4)]
    assert len({str(shape) for shape in [*shapes, shape_of(plain)]}) == 5
    for n_jobs in (1, 3):
        assert shape_of(case.grow(options, n_jobs, noise=(share, 2))[0]) == shapes[2]


def rows_below(grown, order, child):
    if child < 0:
        return order[grown.start[~child] : grown.end[~child]]
    return np.concatenate([rows_below(grown, order, side[child]) for side in sides(grown)])


def sides(grown):
    return grown.left, grown.right


@pytest.mark.parametrize("grower", ["leafwise", "depthwise"])
def test_gains_are_told_without_the_noise(grower):
    case = Case()
    grown, order = case.grow(GROWERS[grower], noise=(noise_of(case, 5.0), 5))
    assert len(grown.features) > 10
    for at in range(len(grown.features)):
        halves = [case.packed[rows_below(grown, order, side[at])] for side in sides(grown)]
        terms = [
            force * force / curvature
            for force, curvature in map(naive_grower.sums, [*halves, np.concatenate(halves)])
        ]
        # Terms are larger than their difference by some powers of ten.
        expected = (terms[0] + terms[1] - terms[2]) * case.gain_unit
        assert grown.gains[at] == pytest.approx(expected, rel=1e-10)
        assert grown.gains[at] > 0


def test_gains_of_levels_are_told_without_the_noise():
    case, options = Case(), GROWERS["oblivious"]
    grown, order = case.grow(options, noise=(noise_of(case, 5.0), 5))
    nodes, found = rows_of_levels(grown, order)
    rows, at_plain = [case.rows], case.naive(options)[0]
    assert len(nodes) == 4
    for level in nodes:
        at = level[0]
        feature = int(grown.features[at])
        missing_left = bool(grown.tables[at, MISSING_CODE])
        cut = naive_oblivious.Level(0.0, feature, int(grown.bins[at]), missing_left)
        gain = naive_oblivious.gain_of(
            cut, rows, case.codes, case.packed, options, case.units[1]
        )  # fmt: skip
        assert grown.gains[level].sum() == pytest.approx(gain * case.gain_unit, rel=1e-12)
        rows = naive_oblivious.divide(cut, rows, case.codes)
    assert [part.tolist() for part in rows] == [part.tolist() for part in found]
    assert grown.features.tolist() != [level.feature for level in at_plain]


def factorial():
    """Two features of which only the first gains anything, in any node, to the bit."""
    features = np.array([[i & 1, i >> 1 & 1] for i in range(64)], dtype=np.float32)
    bins = Bins.fit(features)
    packed = np.where(features[:, 0] > 0, 3000 << 32, 1000 << 32).astype(np.int64) + 1000
    return encode(features, bins, by_feature=True), bins, packed


@pytest.mark.parametrize("grower", ["leafwise", "oblivious"])
def test_noise_never_makes_a_split_of_one_that_gains_nothing(grower):
    matrix, bins, packed = factorial()
    options = TreeOptions(grower=grower, max_depth=2, max_leaves=4, min_samples_leaf=1)
    engine = Grower(matrix, bins, options, n_jobs=1)
    both = np.ones(2, np.bool_)
    counts = []
    for key in range(50):
        rows = np.arange(64, dtype=np.int32)
        grown = engine.grow(packed, (1.0, 1.0), rows, both, noise=(1e9, 977 * key))
        assert set(grown.features.tolist()) <= {0}
        counts.append(grown.n_leaves)
    assert max(counts) == 2


@pytest.mark.parametrize("grower", ["leafwise", "oblivious"])
def test_noise_in_the_gains_of_one_feature_has_nothing_to_decide(grower):
    data = make_data(n_features=1)
    for seed in range(4):
        options = {"grower": grower, "max_depth": 3, "random_state": seed}
        noisy = train(data, split_noise=1e3, **options)
        assert bits(noisy) == bits(train(data, **options))


@pytest.mark.parametrize("grower", ["leafwise", "oblivious"])
def test_noise_is_normal_and_of_the_scale_that_is_told(grower):
    allowed = np.zeros(N_FEATURES, np.bool_)
    allowed[[0, 7]] = True
    case, options = Case(allowed=allowed), TreeOptions(grower=grower, max_depth=1, max_leaves=2)
    gains = []
    for feature in (0, 7):
        case.allowed = np.arange(N_FEATURES) == feature
        gains.append(case.grow(options)[0].gains[0])
    case.allowed = allowed
    own = case.forces.sum() ** 2 / (case.curvatures.sum() + options.l2)
    roots = np.sqrt(own + np.array(gains))
    engine = Grower(case.matrix, case.bins, options, n_jobs=1)
    # The weaker one wins if the difference of two noises passes that of the roots: for noise of
    # this scale with the probability of a standard normal number above 1 / sqrt(2), 0.2398.
    noise, n_draws, wins = abs(roots[0] - roots[1]), 1500, 0
    assert min(roots) > 3 * noise
    weaker = (0, 7)[int(np.argmin(gains))]
    for key in range(n_draws):
        grown = engine.grow(
            case.packed, case.units, case.rows.copy(), allowed, noise=(noise, key << 20)
        )  # fmt: skip
        wins += grown.features[0] == weaker
    # Five deviations of a binomial number.
    assert abs(wins - 0.2398 * n_draws) < 5 * np.sqrt(n_draws * 0.2398 * 0.7602)


def test_split_noise_is_in_units_of_chance_and_fades_with_the_trees():
    data = make_data()
    run = train(
        data, split_noise=0.5, learning_rate=0.2, n_estimators=1, random_state=3, subsample=0.5
    )
    rng = np.random.default_rng(0)
    forces, curvatures = rng.normal(size=data.n_documents), rng.random(data.n_documents)
    rows = np.arange(0, data.n_documents, 3, dtype=np.int32)
    by_chance = np.mean(forces[rows] ** 2) / np.mean(curvatures[rows])

    def noise(by, at):
        # Only the rows of the sample count, not the sum over all.
        return run.trainer._average_and_noise(forces, by, 0.0, rows, at)[1]

    found = [noise(curvatures, at) for at in range(100)]
    for at, (scale, _) in enumerate(found):
        fade = 1 / (1 + np.exp(0.2 * at) / len(rows))
        assert scale == pytest.approx(0.5 * fade * np.sqrt(by_chance), rel=1e-12)
    scales = [scale for scale, _ in found]
    assert scales == sorted(scales, reverse=True)
    # Half of it is left where the rate times the number of trees is the logarithm of the rows.
    half = round(np.log(len(rows)) / 0.2)
    assert scales[half] == pytest.approx(0.25 * np.sqrt(by_chance), rel=0.1)
    assert len({key for _, key in found}) == 100
    assert noise(curvatures, 10**6)[0] < 1e-280
    assert noise(np.zeros_like(forces), 0)[0] == 0


@pytest.mark.parametrize("grower", ["leafwise", "depthwise", "oblivious"])
def test_training_with_split_noise_has_the_same_bits_on_any_number_of_threads(grower):
    data = make_data(missing=0.2, n_features=20)
    options = {"grower": grower, "max_depth": 3, "n_estimators": 4}
    plain = train(data, split_noise=0.0, **options)
    assert (bits(train(data, **options)) == bits(plain)) is (grower != "oblivious")
    one, two, three = (train(data, split_noise=5.0, n_jobs=n, **options) for n in (1, 2, 3))
    assert bits(one) == bits(two) == bits(three)
    other = train(data, split_noise=5.0, random_state=1, **options)
    assert len({str(bits(run)) for run in (one, other, plain)}) == 3

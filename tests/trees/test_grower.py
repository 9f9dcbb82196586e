"""Grown trees, held to the plain grower."""

import numpy as np
import pytest

from rankgrove.trees import grower as grower_module
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.grower import Grower, TreeOptions
from rankgrove.trees.leaves import add_to_scores, leaf_values, to_tree, walk
from rankgrove.trees.predict import PreparedEnsemble
from rankgrove.trees.quantise import quantise
from rankgrove.trees.team import TICKET
from trees import naive_grower

N_ROWS, N_FEATURES = 900, 20


def make_features(seed=0):
    """Continuous, few-valued, missing and categorical columns, over two blocks."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N_ROWS, N_FEATURES))
    features[:, 5] = rng.integers(0, 3, N_ROWS)
    features[:, 7] = np.where(rng.random(N_ROWS) < 0.3, np.nan, features[:, 7])
    features[:, 11] = np.where(rng.random(N_ROWS) < 0.7, np.nan, features[:, 11])
    features[:, 13] = rng.integers(0, 9, N_ROWS)
    features[:, 16] = rng.integers(0, 300, N_ROWS)
    return features.astype(np.float32)


def make_forces(features, seed=0):
    """Forces with a signal in several features, curvatures that differ by a factor of 100."""
    rng = np.random.default_rng(seed)
    wild = np.nan_to_num(features)
    forces = wild[:, 0] - wild[:, 7] + np.isnan(features[:, 11]) + (wild[:, 13] % 3 == 1)
    return forces + rng.normal(size=N_ROWS), 10.0 ** rng.uniform(-2, 0, N_ROWS)


def grow_both(
    options,
    *,
    signs=None,
    categorical=(13, 16),
    sample=None,
    allowed=None,
    seed=0,
    n_jobs=2,
    **sizes,
):
    features = make_features(seed)
    bins = Bins.fit(features, 40, categorical=categorical)
    matrix = encode(features, bins, by_feature=True)
    forces, curvatures = make_forces(features, seed)
    packed, unit, _ = quantise(forces, curvatures, 7, 1)
    rows = np.arange(N_ROWS, dtype=np.int32) if sample is None else sample.astype(np.int32)
    signs = np.zeros(N_FEATURES, np.int8) if signs is None else np.array(signs, np.int8)
    allowed = np.ones(N_FEATURES, np.bool_) if allowed is None else allowed
    codes = matrix.codes[:, matrix.slots]
    expected = naive_grower.grow(codes, packed, rows, bins, options, unit[1], signs, allowed)
    engine = Grower(matrix, bins, options, signs=signs, n_jobs=n_jobs, **sizes)
    order = rows.copy()
    grown = engine.grow(packed, unit, order, allowed)
    return expected, grown, order, (features, matrix, bins, forces, curvatures, unit)


def rows_below(grown, order, child):
    """The rows of a child: of a leaf, or of all leaves under a split."""
    if child < 0:
        return set(order[grown.start[~child] : grown.end[~child]])
    below = (rows_below(grown, order, side[child]) for side in (grown.left, grown.right))
    return set.union(*below)


def assert_same_tree(expected, grown, order, matrix):
    root, splits = expected
    assert len(grown.features) == len(splits)
    number = {id(node): at for at, node in enumerate(splits)}
    for at, naive in enumerate(splits):
        assert grown.features[at] == naive.feature
        # The cut is found among equal ones by the codes that occur; rows decide.
        for child, naive_child in zip(
            (grown.left[at], grown.right[at]), naive.children, strict=True
        ):
            assert rows_below(grown, order, child) == set(naive_child.rows)
            assert (child >= 0) == (id(naive_child) in number)
            if child >= 0:
                assert child == number[id(naive_child)]
    assert (grown.end - grown.start).sum() == len(root.rows)
    for start, end in zip(grown.start, grown.end, strict=True):
        assert np.all(np.diff(order[start:end]) > 0)


OPTIONS = {
    "default": {},
    "depthwise": {"grower": "depthwise"},
    "shallow": {"max_depth": 3},
    "many leaves": {"max_leaves": 60, "min_samples_leaf": 3},
    "l2": {"l2": 5.0},
    "heavy children": {"min_child_weight": 20.0},
    "one row per leaf": {"min_samples_leaf": 1, "min_child_weight": 0.0},
    "few categories": {"max_categories": 1, "category_l2": 0.0, "category_smoothing": 1.0},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_tree_equals_the_plain_growers(name, seed):
    options = TreeOptions(**{"max_leaves": 25, **OPTIONS[name]})
    expected, grown, order, parts = grow_both(options, seed=seed)
    assert len(grown.features) > 5
    assert_same_tree(expected, grown, order, parts[1])


def test_tree_on_a_sample_of_rows_and_features_equals_the_plain_growers():
    rng = np.random.default_rng(3)
    sample = np.sort(rng.choice(N_ROWS, 500, replace=False))
    allowed = rng.random(N_FEATURES) < 0.5
    options = TreeOptions(max_leaves=20, min_samples_leaf=10)
    expected, grown, order, parts = grow_both(options, sample=sample, allowed=allowed)
    assert_same_tree(expected, grown, order, parts[1])
    assert all(allowed[grown.features])


def test_monotone_tree_equals_the_plain_growers():
    signs = np.zeros(N_FEATURES)
    signs[[0, 7, 5]] = 1, -1, 1
    options = TreeOptions(max_leaves=25, min_samples_leaf=10)
    expected, grown, order, parts = grow_both(options, signs=signs)
    assert_same_tree(expected, grown, order, parts[1])
    assert np.isfinite(grown.low).any() or np.isfinite(grown.high).any()


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8])
@pytest.mark.parametrize(("few_rows", "kept_rows"), [(0, 0), (50, 50), (100, 0), (100, 90)])
def test_tree_does_not_depend_on_threads_nor_on_how_work_is_cut(n_jobs, few_rows, kept_rows):
    options = TreeOptions(max_leaves=25)
    _, whole, order, parts = grow_both(options)
    sizes = {"part_rows": 64, "few_rows": few_rows, "kept_rows": kept_rows}
    expected, cut, order_of_parts, _ = grow_both(options, n_jobs=n_jobs, **sizes)
    assert_same_tree(expected, cut, order_of_parts, parts[1])
    assert np.array_equal(order, order_of_parts)
    assert np.array_equal(whole.tables, cut.tables)
    assert np.array_equal(whole.gains, cut.gains)


def test_threads_take_part_only_where_a_tree_has_work_for_them(monkeypatch):
    matrix, bins = grow_both(TreeOptions())[3][1:3]
    # Bins that are searched, and rows that are added up, of two blocks.
    work = 2 * 25 * int(matrix.block_bins.sum()) + 6 * N_ROWS * 2
    for n_threads in (1, 2, 3):
        monkeypatch.setattr(grower_module, "WORK_A_THREAD", work // n_threads)
        grower = Grower(matrix, bins, TreeOptions(max_leaves=25), n_jobs=4)
        assert grower.n_jobs == n_threads
    monkeypatch.setattr(grower_module, "WORK_A_THREAD", work + 1)
    assert Grower(matrix, bins, TreeOptions(max_leaves=25), n_jobs=4).n_jobs == 1


def test_an_error_in_one_thread_ends_the_others_and_is_raised(monkeypatch):
    real = grower_module.grow

    def fail_as_helper(state, layout, others, settings, worker, *args):
        if worker == 1:
            # As if it had taken a task and never finished it.
            while state.team[TICKET] == 0:
                pass
            state.team[TICKET] += 1
            raise RuntimeError("no more")
        return real(state, layout, others, settings, worker, *args)

    monkeypatch.setattr(grower_module, "grow", fail_as_helper)
    with pytest.raises(RuntimeError, match="no more"):
        grow_both(TreeOptions(max_leaves=25))


def test_every_leaf_has_the_rows_that_it_must_though_curvatures_differ():
    for fewest in (1, 5, 40):
        options = TreeOptions(max_leaves=200, min_samples_leaf=fewest, min_child_weight=0.0)
        _, grown, _, _ = grow_both(options)
        assert (grown.end - grown.start).min() >= fewest


def test_leaf_values_are_newton_steps_of_the_unrounded_numbers():
    _, grown, order, (_, _, _, forces, curvatures, unit) = grow_both(TreeOptions(max_leaves=9))
    values = leaf_values(grown, order, forces, curvatures, l2=0.5, unit=unit[0] / unit[1])
    for start, end, value in zip(grown.start, grown.end, values, strict=True):
        rows = order[start:end]
        expected = forces[rows].sum() / (curvatures[rows].sum() + 0.5)
        assert value == pytest.approx(expected, rel=1e-12)


def test_rows_get_the_same_value_by_leaf_by_codes_and_by_features():
    _, grown, order, (features, matrix, bins, forces, curvatures, unit) = grow_both(
        TreeOptions(max_leaves=30), categorical=()
    )
    values = leaf_values(grown, order, forces, curvatures, l2=0.0, unit=unit[0] / unit[1])
    by_leaf, by_code = np.zeros(N_ROWS), np.zeros(N_ROWS)
    add_to_scores(grown, order, values, by_leaf)
    walk(grown, matrix, values, by_code)
    assert np.array_equal(by_leaf, by_code)
    tree = to_tree(grown, bins, values)
    assert np.array_equal(PreparedEnsemble(Ensemble.from_trees([tree])).score(features), by_leaf)


def test_nothing_to_split_gives_one_leaf():
    features = np.zeros((50, 2), dtype=np.float32)
    bins = Bins.fit(features)
    matrix = encode(features, bins, by_feature=True)
    packed, unit, _ = quantise(np.ones(50), np.ones(50), 0, 1)
    rows = np.arange(50, dtype=np.int32)
    grown = Grower(matrix, bins, TreeOptions()).grow(packed, unit, rows, np.ones(2, np.bool_))
    assert grown.n_leaves == 1
    values = leaf_values(grown, rows, np.ones(50), np.ones(50), l2=0.0, unit=1.0)
    assert values.tolist() == [1.0]
    scores = np.zeros(50)
    walk(grown, matrix, values, scores)
    assert np.all(scores == 1)


def test_rounding_is_unbiased_and_sums_stay_in_their_halves():
    rng = np.random.default_rng(0)
    forces = rng.standard_cauchy(5000) ** 3
    curvatures = np.abs(rng.standard_cauchy(5000)) ** 3
    _, (force_unit, curvature_unit), _ = quantise(forces, curvatures, 0)
    assert np.abs(forces).sum() / force_unit < 2**30
    totals = []
    for seed in range(200):
        packed, *_ = quantise(forces, curvatures, seed * 5000, 1)
        total = int(packed.sum())
        totals.append((total >> 32, total & 0xFFFFFFFF))
        assert np.abs(packed >> 32).sum() < 2**30
    force, curvature = np.mean(totals, axis=0)
    # The mean of 200 sums of 5000 roundings, each off by less than one unit.
    error = 5 * np.sqrt(5000 / 4 / 200)
    assert force == pytest.approx(forces.sum() / force_unit, abs=error)
    assert curvature == pytest.approx(curvatures.sum() / curvature_unit, abs=error)


def test_no_force_and_no_curvature_are_packed_as_zeros():
    packed, unit, _ = quantise(np.zeros(3), np.zeros(3), 0, 1)
    assert unit == (1.0, 1.0)
    assert packed.tolist() == [0, 0, 0]

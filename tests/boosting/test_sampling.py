"""Draws: whole queries, right on average, and a matter of seed and iteration only."""

from itertools import pairwise

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data, train
from rankgrove import Ranker
from rankgrove._jit.hashing import draw_array
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.sampling import (
    bootstrap_weights,
    chances_of,
    sample_by_variance,
    sample_documents,
    sample_features,
    sample_gradients,
    sample_queries,
)
from rankgrove.data.shard import Shard

OFFSETS = np.cumsum([0, 3, 1, 7, 2, 9, 4, 4, 1, 5, 6])
SHARD = Shard.whole(OFFSETS)


def single(n_rows):
    """Rows that make up one query."""
    return Shard.whole(np.array([0, n_rows]))


def chances(sizes, share):
    return chances_of(sizes, share, len(sizes), single(len(sizes)))


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.77, 0.99])
def test_query_sampling_takes_whole_queries_and_the_right_number(share):
    for iteration in range(20):
        sample = sample_queries(SHARD, share, 3, iteration)
        taken = np.isin(np.arange(OFFSETS[-1]), sample.rows)
        queries = [taken[a:b] for a, b in pairwise(OFFSETS)]
        assert all(part.all() or not part.any() for part in queries)
        assert sum(part.all() for part in queries) == max(1, round(share * 10))
        assert np.all(np.diff(sample.rows) > 0)
        assert sample.weights is None


def test_every_query_is_drawn_equally_often():
    counts = np.zeros(OFFSETS[-1])
    for iteration in range(2000):
        counts[sample_queries(SHARD, 0.3, 0, iteration).rows] += 1
    # Binomial with mean 600 and deviation 20.5: five deviations.
    assert np.all(np.abs(counts - 600) < 103)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_gradient_sampling_is_right_on_average(share):
    rng = np.random.default_rng(0)
    forces = rng.normal(size=900) ** 3
    other = rng.normal(size=900) + 2
    sums = []
    sizes = []
    for iteration in range(3000):
        rows, weights = sample_gradients(forces, single(len(forces)), share, 5, iteration)
        sums.append([(weights[rows] * column[rows]).sum() for column in (forces, other)])
        sizes.append(len(rows))
    sums = np.array(sums)
    # Five standard errors of the mean.
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert np.all(np.abs(sums.mean(axis=0) - [forces.sum(), other.sum()]) <= 5 * error + 1e-9)
    assert np.mean(sizes) == pytest.approx(900 * share, rel=0.01)


def test_gradient_sampling_keeps_all_of_the_largest_forces_at_weight_one():
    forces = np.random.default_rng(1).normal(size=600)
    rows, weights = sample_gradients(forces, single(len(forces)), 0.3, 0, 0)
    largest = np.argsort(-np.abs(forces))[:120]
    assert np.isin(largest, rows).all()
    assert np.all(weights[largest] == 1)
    assert np.all(np.diff(rows) > 0)
    rest = np.setdiff1d(rows, largest)
    assert np.allclose(weights[rest], 480 / 60)


@pytest.mark.parametrize(
    "forces", [np.zeros(50), np.ones(50), np.array([1.0]), np.array([0.0, 0.0, 5.0])]
)
@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_gradient_sampling_of_equal_or_few_forces_is_defined(forces, share):
    rows, weights = sample_gradients(forces, single(len(forces)), share, 0, 0)
    assert np.isfinite(weights).all()
    assert np.all(weights >= 0)
    assert np.all(np.diff(rows) > 0)


def test_draws_depend_on_seed_iteration_and_purpose_only():
    numbers = {
        (seed, iteration, purpose): draw_array(seed, iteration, purpose, np.arange(64)).tobytes()
        for seed in (0, 1, 2**63 - 1)
        for iteration in (0, 1, 2, 1000)
        for purpose in range(3)
    }
    assert len(set(numbers.values())) == len(numbers)
    for key, found in reversed(numbers.items()):
        assert draw_array(*key, np.arange(64)).tobytes() == found
    assert draw_array(3, 4, 1, np.arange(100))[5:9].tolist() == (
        draw_array(3, 4, 1, np.arange(5, 9)).tolist()
    )


def test_draws_of_neighbouring_iterations_have_no_number_in_common():
    seen = np.concatenate([draw_array(0, iteration, 0, np.arange(500)) for iteration in range(50)])
    assert len(np.unique(seen)) == len(seen)


@pytest.mark.parametrize(
    ("n_features", "share", "count"),
    [(1, 0.01, 1), (10, 0.01, 1), (10, 0.5, 5), (10, 0.96, 10), (7, 1.0, 7), (136, 0.3, 41)],
)
def test_share_of_features_is_drawn_at_least_one(n_features, share, count):
    drawn = np.array([sample_features(n_features, share, 0, at) for at in range(3000)])
    assert np.all(drawn.sum(axis=1) == count)
    # Binomial: five deviations.
    p = count / n_features
    assert np.all(np.abs(drawn.sum(axis=0) - 3000 * p) <= 5 * np.sqrt(3000 * p * (1 - p)))


def test_trees_split_by_the_drawn_features_only():
    data = make_data(n_features=8)
    run = train(data, colsample=0.25, random_state=4, n_estimators=12)
    for iteration, tree in enumerate(run.trees):
        allowed = np.flatnonzero(sample_features(8, 0.25, 4, iteration))
        assert set(tree.feature.tolist()) <= set(allowed.tolist())
        assert len(tree.feature) > 0


@pytest.mark.parametrize("sampling", ["query", "gradient"])
def test_trees_are_grown_on_the_drawn_share_of_the_documents(sampling):
    data = make_data(n_queries=100)
    run = train(data, subsample=0.3, sampling=sampling, n_estimators=10)
    sizes = [tree.count.sum() for tree in run.trees]
    assert np.mean(sizes) == pytest.approx(0.3 * data.n_documents, rel=0.05)


@pytest.mark.parametrize("sampling", ["query", "gradient"])
def test_sampling_still_learns(sampling):
    data, valid = make_data(n_queries=100), make_data(seed=0, n_queries=120)
    run = train(data, {"valid": valid}, subsample=0.3, sampling=sampling, n_estimators=40)
    curve = run.history["valid"]["ndcg@10"]
    assert curve[-1] > curve[0] + 0.05


def test_leaf_values_are_newton_steps_of_the_sample_with_its_weights():
    data = make_data(n_queries=100)
    forces, curvatures = np.empty((2, data.n_documents))
    Parameters(objective="lambdamart").make_objective().prepare(data, 1).compute(
        np.zeros(data.n_documents), 0, forces, curvatures
    )
    run = train(data, subsample=0.3, sampling="gradient", n_estimators=1, learning_rate=0.5)
    rows, weights = sample_gradients(forces, single(len(forces)), 0.3, 0, 0)
    assert weights[rows].max() > 1
    for value in np.unique(run.scores):
        inside = rows[run.scores[rows] == value]
        force, curvature = (
            (weights[inside] * part[inside]).sum() for part in (forces, curvatures)
        )  # fmt: skip
        assert value == pytest.approx(0.5 * force / curvature, rel=1e-12)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.5, 0.999])
def test_document_sampling_takes_the_right_number_and_all_equally_often(share):
    count = max(1, round(share * 90))
    taken = np.zeros(90)
    for iteration in range(2000):
        rows, weights = sample_documents(single(90), share, 1, iteration)
        assert len(rows) == count
        assert np.all(np.diff(rows) > 0)
        assert weights is None
        taken[rows] += 1
    # Binomial: five deviations.
    p = count / 90
    assert np.all(np.abs(taken - 2000 * p) <= 5 * np.sqrt(2000 * p * (1 - p)))


def squared_sizes_of_queries(sizes, offsets):
    return np.array([np.sum(sizes[a:b] ** 2) for a, b in pairwise(offsets)])


@pytest.mark.parametrize("by_query", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.95])
def test_variance_sampling_is_right_on_average(by_query, share):
    rng = np.random.default_rng(2)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 12, 100))])
    n = int(offsets[-1])
    sizes = np.abs(rng.normal(size=n)) ** 3 + 1e-3
    columns = np.array([sizes, rng.normal(size=n) + 2])
    sums, counts = [], []
    for iteration in range(1500):
        shard = Shard.whole(offsets)
        rows, weights = sample_by_variance(sizes, shard, by_query, share, 5, iteration)
        assert np.all(np.diff(rows) > 0)
        sums.append((weights[rows] * columns[:, rows]).sum(axis=1))
        taken = np.isin(np.arange(n), rows)
        if by_query:
            assert all(len(set(taken[a:b])) == len(set(weights[a:b])) == 1
                       for a, b in pairwise(offsets[:20]))  # fmt: skip
            taken = taken[offsets[:-1]]
        counts.append(taken.mean())
    sums = np.array(sums)
    # Five standard errors of the mean.
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert np.all(np.abs(sums.mean(axis=0) - columns.sum(axis=1)) <= 5 * error)
    assert np.mean(counts) == pytest.approx(share, abs=5 * np.std(counts) / np.sqrt(1500))


@pytest.mark.parametrize("by_query", [False, True])
def test_variance_sampling_takes_each_with_the_chance_that_its_weight_says(by_query):
    rng = np.random.default_rng(4)
    sizes = rng.random(int(OFFSETS[-1])) ** 2
    taken = np.zeros(len(sizes))
    for iteration in range(4000):
        rows, weights = sample_by_variance(sizes, SHARD, by_query, 0.5, 0, iteration)
        taken[rows] += 1
    own = np.sqrt(squared_sizes_of_queries(sizes, OFFSETS)) if by_query else sizes
    p = 1 / (weights[OFFSETS[:-1]] if by_query else weights)
    below = p < 1
    assert 0 < below.sum() < len(p)
    # One mu for all: those that are not sure have chances that are proportional to their sizes.
    mu = own[below] / p[below]
    assert mu == pytest.approx(mu[0], rel=1e-12)
    assert own[~below].min() >= mu[0] * (1 - 1e-12)
    chance = 1 / weights
    # Binomial: five deviations.
    assert np.all(np.abs(taken - 4000 * chance) <= 5 * np.sqrt(4000 * chance * (1 - chance)))


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("seed", range(3))
def test_chances_are_sizes_by_one_number_at_most_1_and_have_the_share_as_mean(share, seed):
    rng = np.random.default_rng(seed)
    for sizes in (
        np.exp(3 * rng.normal(size=200)),
        rng.integers(1, 4, 200).astype(float),
        np.full(7, 0.1),
        np.array([1e9, 1.0, 1.0, 1.0, 1e-9]),
        np.array([2.0]),
    ):
        p = chances(sizes, share)
        assert np.all((p > 0) & (p <= 1))
        # Sums of up to 200 numbers, of sizes that differ by many powers of ten.
        assert p.mean() == pytest.approx(share, rel=1e-9)
        below = p < 1
        mu = sizes[below] / p[below]
        assert mu == pytest.approx(np.full(below.sum(), mu[0]), rel=1e-12)
        assert np.all(sizes[~below] >= mu[0] * (1 - 1e-12))


def test_what_has_no_size_is_not_taken_while_others_are():
    sizes = np.array([0.0, 3.0, 0.0, 1.0, 2.0, 0.0, 4.0, 2.0])
    p = chances(sizes, 0.25)
    assert p == pytest.approx(sizes / 6)
    for iteration in range(200):
        rows, weights = sample_by_variance(sizes, single(8), False, 0.25, 0, iteration)
        assert len(rows) >= 1
        assert np.all(sizes[rows] > 0)
        assert np.isfinite(weights).all()


def test_equal_sizes_are_taken_with_equal_chances():
    for sizes in (np.zeros(40), np.ones(40), np.full(40, 1e-300)):
        assert chances(sizes, 0.3) == pytest.approx(np.full(40, 0.3), rel=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.75, 0.999])
def test_fewer_that_have_a_size_than_are_to_be_taken_are_taken_for_sure(share):
    sizes = np.array([5.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    assert np.all(chances(sizes, share)[sizes > 0] == 1)


@pytest.mark.parametrize("by_query", [False, True])
def test_bootstrap_weights_of_temperature_1_are_exponential(by_query):
    n = 60_000
    shard = Shard.whole(np.arange(0, 3 * n + 1, 3) if by_query else np.array([0, n]))
    weights = bootstrap_weights(shard, by_query, 1.0, 3, 8)
    if by_query:
        assert np.all(weights.reshape(-1, 3) == weights[::3, None])
        weights = weights[::3]
    assert len(weights) == n
    assert np.all(weights > 0)
    assert np.isfinite(weights).all()
    # Five standard errors; the fourth central moment of an exponential number is 9.
    assert abs(weights.mean() - 1) < 5 / np.sqrt(n)
    assert abs(weights.var() - 1) < 5 * np.sqrt(8 / n)
    assert abs(np.mean(weights > 2) - np.exp(-2)) < 5 * np.sqrt(np.exp(-2) / n)
    assert len(np.unique(weights)) == n


def test_bootstrap_weights_of_another_temperature_are_powers():
    one, half, double, none = (
        bootstrap_weights(single(40_000), False, temperature, 0, 0)
        for temperature in (1.0, 0.5, 2.0, 0.0)
    )
    assert half == pytest.approx(np.sqrt(one), rel=1e-14)
    assert double == pytest.approx(one**2, rel=1e-14)
    assert np.all(none == 1)
    # The mean of the root of an exponential number is that of Gamma at 1.5, sqrt(pi) / 2.
    mean = np.sqrt(np.pi) / 2
    assert abs(half.mean() - mean) < 5 * np.sqrt((1 - mean**2) / 40_000)


def test_bootstrap_weights_are_drawn_anew_by_seed_and_iteration():
    drawn = [
        bootstrap_weights(single(500), False, 1.0, seed, at) for seed in (0, 1) for at in (0, 1)
    ]
    assert len(np.unique(drawn)) == 2000


# A first tree whose documents, all of equal score, are ranked in the order of the rows.
BY_ROWS = "ndcg(ties=stable)"


@pytest.mark.parametrize("by", ["query", "document"])
def test_splits_are_the_best_with_the_weights_of_the_bootstrap(by):
    data = make_data(n_queries=60)
    forces, curvatures = np.empty((2, data.n_documents))
    Parameters(objective="lambdamart", metric=BY_ROWS).make_objective().prepare(data, 1).compute(
        np.zeros(data.n_documents), 0, forces, curvatures
    )
    weights = bootstrap_weights(data.shard, by == "query", 2.0, 0, 0)
    force, curvature = weights * forces, weights * curvatures

    def gain(left):
        sides = ((force[side].sum(), curvature[side].sum()) for side in (left, ~left))
        return sum(f * f / (c + 1.0) for f, c in sides)

    options = {"n_estimators": 1, "max_leaves": 2, "min_samples_leaf": 1, "l2": 1.0}
    options["metric"] = BY_ROWS
    found, plain = (
        train(data, bootstrap=temperature, bootstrap_by=by, **options).scores
        for temperature in (2.0, 0.0)
    )
    best = max(gain(column <= cut) for column in data.features.T for cut in np.unique(column)[:-1])
    # The sums of the engine are rounded.
    assert gain(found > 0) == pytest.approx(best, rel=5e-3)
    assert gain(plain > 0) < 0.98 * best


@pytest.mark.parametrize(
    "more", [{"bootstrap": 1.0, "metric": BY_ROWS}, {"objective": "yetirank"}], ids=str
)
def test_tree_that_finds_no_split_does_not_end_training_that_draws_anew(more):
    data = make_data(n_queries=6)
    run = train(data, n_estimators=12, min_child_weight=3.0, random_state=0, **more)
    assert 1 in [tree.n_leaves for tree in run.trees]
    assert len(run.trees) == 12


DRAWS = {
    "document": {"subsample": 0.5, "sampling": "document"},
    "variance": {"subsample": 0.4, "sampling": "variance"},
    "variance_query": {"subsample": 0.4, "sampling": "variance_query"},
    "bootstrap": {"bootstrap": 1.0},
    "bootstrap of documents": {"bootstrap": 0.5, "bootstrap_by": "document"},
    "bootstrap of a sample": {"bootstrap": 1.0, "subsample": 0.5, "sampling": "variance"},
    "split noise": {"split_noise": 1.0},
    "oblivious with noise": {"split_noise": 1.0, "grower": "oblivious", "max_depth": 3},
    "Langevin": {"temperature": 100.0},
}


@pytest.mark.parametrize("case", DRAWS)
def test_draws_have_the_same_bits_on_any_number_of_threads_and_after_a_checkpoint(case, tmp_path):
    options = {**QUICK, **DRAWS[case]}
    data, valid = make_data(missing=0.1), make_data(seed=1)
    whole = Ranker(**options, n_jobs=1).fit(data, valid=valid)
    assert whole.model_.n_trees == 6
    assert bits(whole.model_.ensemble) != bits(Ranker(**QUICK).fit(data).model_.ensemble)
    other = Ranker(**options, random_state=1).fit(data)
    assert bits(other.model_.ensemble) != bits(whole.model_.ensemble)
    for n_jobs in (2, 3):
        again = Ranker(**options, n_jobs=n_jobs).fit(data, valid=valid)
        assert bits(again.model_.ensemble) == bits(whole.model_.ensemble)
    path = tmp_path / "checkpoint.safetensors"
    Ranker(**{**options, "n_estimators": 4}).fit(
        data, valid=valid, checkpoint=path, checkpoint_every=3
    )
    resumed = Ranker(**options).fit(data, valid=valid, resume=path)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    assert resumed.history_ == whole.history_


@pytest.mark.parametrize("case", ["document", "variance", "variance_query"])
def test_trees_are_grown_on_the_share_of_documents_or_queries(case):
    data = make_data(n_queries=100)
    run = train(data, **{**DRAWS[case], "n_estimators": 10})
    sizes = [tree.count.sum() / data.n_documents for tree in run.trees]
    # Draws of 100 queries differ by some 0.05 each.
    assert np.mean(sizes) == pytest.approx(DRAWS[case]["subsample"], abs=0.05)

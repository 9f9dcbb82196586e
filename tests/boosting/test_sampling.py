"""Draws: whole queries, right on average, and a matter of seed and iteration only."""

from itertools import pairwise

import numpy as np
import pytest

from boosting.samples import make_data, train
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.sampling import draw, sample_features, sample_gradients, sample_queries

OFFSETS = np.cumsum([0, 3, 1, 7, 2, 9, 4, 4, 1, 5, 6])


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.77, 0.99])
def test_query_sampling_takes_whole_queries_and_the_right_number(share):
    for iteration in range(20):
        sample = sample_queries(OFFSETS, share, 3, iteration)
        taken = np.isin(np.arange(OFFSETS[-1]), sample.rows)
        queries = [taken[a:b] for a, b in pairwise(OFFSETS)]
        assert all(part.all() or not part.any() for part in queries)
        assert sum(part.all() for part in queries) == max(1, round(share * 10))
        assert np.all(np.diff(sample.rows) > 0)
        assert sample.weights is None


def test_every_query_is_drawn_equally_often():
    counts = np.zeros(OFFSETS[-1])
    for iteration in range(2000):
        counts[sample_queries(OFFSETS, 0.3, 0, iteration).rows] += 1
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
        rows, weights = sample_gradients(forces, share, 5, iteration)
        sums.append([(weights[rows] * column[rows]).sum() for column in (forces, other)])
        sizes.append(len(rows))
    sums = np.array(sums)
    # Five standard errors of the mean.
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert np.all(np.abs(sums.mean(axis=0) - [forces.sum(), other.sum()]) <= 5 * error + 1e-9)
    assert np.mean(sizes) == pytest.approx(900 * share, rel=0.01)


def test_gradient_sampling_keeps_all_of_the_largest_forces_at_weight_one():
    forces = np.random.default_rng(1).normal(size=600)
    rows, weights = sample_gradients(forces, 0.3, 0, 0)
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
    rows, weights = sample_gradients(forces, share, 0, 0)
    assert np.isfinite(weights).all()
    assert np.all(weights >= 0)
    assert np.all(np.diff(rows) > 0)


def test_draws_depend_on_seed_iteration_and_purpose_only():
    numbers = {
        (seed, iteration, purpose): draw(seed, iteration, purpose, 64).tobytes()
        for seed in (0, 1, 2**63 - 1)
        for iteration in (0, 1, 2, 1000)
        for purpose in range(3)
    }
    assert len(set(numbers.values())) == len(numbers)
    for key, found in reversed(numbers.items()):
        assert draw(*key, 64).tobytes() == found
    assert draw(3, 4, 1, 100)[:10].tolist() == draw(3, 4, 1, 10).tolist()


def test_draws_of_neighbouring_iterations_have_no_number_in_common():
    seen = np.concatenate([draw(0, iteration, 0, 500) for iteration in range(50)])
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
    Parameters().make_objective().prepare(data, 1).compute(
        np.zeros(data.n_documents), 0, forces, curvatures
    )
    run = train(data, subsample=0.3, sampling="gradient", n_estimators=1, learning_rate=0.5)
    rows, weights = sample_gradients(forces, 0.3, 0, 0)
    assert weights[rows].max() > 1
    for value in np.unique(run.scores):
        inside = rows[run.scores[rows] == value]
        force, curvature = (
            (weights[inside] * part[inside]).sum() for part in (forces, curvatures)
        )  # fmt: skip
        assert value == pytest.approx(0.5 * force / curvature, rel=1e-12)

"""Objectives that sample: StochasticRank against the smoothed metric, and XE-NDCG."""

import itertools
import math

import numpy as np
import pytest

from metrics import naive_metrics
from objectives.naive_objectives import (
    METRICS,
    PARSED,
    Formless,
    compute,
    derivatives,
    forces_of_iterations,
    log_softmax,
    same_draws,
    stochastic_draw,
    values_of_lists,
    xendcg_terms,
)
from rankgrove._jit.elementary import GAUSSIAN
from rankgrove._jit.hashing import iteration_key, mix
from rankgrove.metrics.average import MAP
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.listwise import XENDCG
from rankgrove.objectives.stochastic import StochasticRank

LABELS = np.array([0, 3, 1, 0, 2, 4])
SCORES = np.array([0.8, 0.1, 0.5, -0.6, -0.2, 0.0])
SMOOTHED = (
    "ndcg",
    "dcg",
    "mrr(relevant>=2)",
    "err",
    "map(relevant>=2)",
    "ndcg@3",
    "mrr@2(relevant>=2)",
)


def plain(metric, **how):
    """Only the estimate of the gradient: without the scale-free step; centred, as always."""
    return StochasticRank(metric=metric, projection=0.0, **how)


WITHOUT_FORM = Formless(relevant=2)


def second_and_last(labels):
    return labels[min(1, len(labels) - 1)] - 0.5 * labels[-1]


@pytest.mark.parametrize("mu", [0.0, 0.4])
@pytest.mark.parametrize("spec", [*METRICS, "tau", "pair_accuracy", WITHOUT_FORM])
def test_one_draw_equals_the_metric_with_each_document_above_and_below_each_other(spec, mu):
    metric = MAP(relevant=2) if spec is WITHOUT_FORM else parse_metric(spec)
    rng = np.random.default_rng(1)
    group, weights = [5, 1, 9, 2, 3, 4], np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    labels, scores = rng.integers(0, 5, size=24), np.round(rng.normal(size=24), 1)
    labels[-4:] = 0
    objective = plain(spec, sigma=0.7, mu=mu, samples=3)
    forces, curvatures = compute(objective, labels, scores, group, weights, seed=5, iteration=8)
    assert curvatures.tolist() == np.repeat(weights, group).tolist()
    start = 0
    for query, n in enumerate(group):
        rows = slice(start, start + n)
        noise = same_draws(GAUSSIAN, n, query, 3, seed=5, iteration=8)
        draws = [
            stochastic_draw(metric, scores[rows], labels[rows], row, sigma=0.7, mu=mu)
            for row in noise
        ]
        wanted = weights[query] * np.mean(draws, axis=0)
        # Rounding of two values of the metric, DCG below 60; documents more than 7 sigma away, of
        # a density below 2e-11 over sigma, do not count.
        assert np.abs(forces[rows] - (wanted - wanted.mean())).max() <= 1e-11
        start += n
    assert np.abs(forces).max() > 1e-2


def test_a_function_is_smoothed_as_any_metric():
    labels = np.array([0.0, 3, 1, 0, 2])
    scores = np.array([0.8, 0.1, 0.5, -0.6, -0.2])
    with pytest.warns(UserWarning, match="is slow"):
        forces, _ = compute(plain(second_and_last, samples=2), labels, scores, seed=5)
    draws = np.zeros((2, 5))
    for draw, noise in zip(draws, same_draws(GAUSSIAN, 5, 0, 2, seed=5, iteration=0), strict=True):
        noisy = scores + noise
        for i in range(5):
            rest = [j for j in np.argsort(-noisy) if j != i]
            for at, j in enumerate(rest):
                above, below = (
                    second_and_last(labels[[*rest[:cut], i, *rest[cut:]]]) for cut in (at, at + 1)
                )
                away = noisy[j] - scores[i]
                draw[i] += math.exp(-0.5 * away**2) / math.sqrt(2 * math.pi) * (above - below)
    wanted = draws.mean(axis=0)
    assert np.abs(forces).max() > 0.01
    assert forces == pytest.approx(wanted - wanted.mean(), abs=1e-12)


def test_documents_further_than_7_sigma_count_less_than_the_stated_density():
    rng = np.random.default_rng(2)
    labels, scores = rng.integers(0, 5, size=40), rng.normal(size=40)
    forces, _ = compute(plain("ndcg", sigma=0.05), labels, scores, seed=5)
    noise = same_draws(GAUSSIAN, 40, 0, 1, seed=5, iteration=0)[0]
    wanted = stochastic_draw(PARSED["ndcg"], scores, labels, noise, sigma=0.05)
    assert np.abs(wanted).max() > 0.01
    # 40 documents of a density below e^-24.5 / (sigma sqrt(2 pi)), and of deltas below 1.
    assert np.abs(forces - (wanted - wanted.mean())).max() <= 40 * 2e-11 * 8


@pytest.mark.parametrize("sigma", [0.1, 2.0])
@pytest.mark.parametrize(
    "spec", ["ndcg", "ndcg@10", "map(relevant>=2)", "mrr(relevant>=2)", "err", "err@7"]
)
def test_longer_queries_equal_the_metric_with_each_document_above_and_below_each_other(spec, sigma):
    rng = np.random.default_rng(9)
    metric, group = parse_metric(spec), [29, 34]
    # Grades of which most are 0, and then one document of each of many grades.
    labels = np.append(rng.choice(5, size=29, p=[0.5, 0.2, 0.1, 0.1, 0.1]), np.arange(34) / 8)
    if spec.startswith("ndcg"):
        metric = parse_metric(f"{spec}(gain=linear)")
    else:
        labels = np.floor(labels)
    scores = rng.normal(size=63)
    forces, _ = compute(plain(metric, sigma=sigma), labels, scores, group, seed=5)
    for query, rows in enumerate((slice(0, 29), slice(29, 63))):
        noise = same_draws(GAUSSIAN, group[query], query, 1, seed=5, iteration=0)[0]
        wanted = stochastic_draw(metric, scores[rows], labels[rows], noise, sigma=sigma)
        assert np.abs(wanted).max() > 1e-4
        # Up to 34 documents beyond 7 sigma, as above.
        assert np.abs(forces[rows] - (wanted - wanted.mean())).max() <= 34 * 2e-11 * 4


def smoothed_gradients(sigma, draws=60_000, step=0.2):
    """Gradients of E[metric] by differences with common random numbers, and standard errors.

    The differences of fourth order are off by step^4 / 30 of the fifth derivative.
    """
    eps = np.random.default_rng(3).standard_normal((draws, 6))
    found = {spec: ([], []) for spec in SMOOTHED}
    for i in range(6):
        slopes = {spec: np.zeros(draws) for spec in SMOOTHED}
        for places, factor in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = SCORES + places * step * sigma * (np.arange(6) == i)
            lists = LABELS[np.argsort(-(moved + sigma * eps), axis=1)]
            for spec in SMOOTHED:
                values = values_of_lists(parse_metric(spec), lists)
                slopes[spec] += factor * values / (12 * step * sigma)
        for spec in SMOOTHED:
            found[spec][0].append(slopes[spec].mean())
            found[spec][1].append(slopes[spec].std() / math.sqrt(draws))
    return {spec: (np.array(mean), np.array(error)) for spec, (mean, error) in found.items()}


@pytest.fixture(scope="module")
def gradients():
    return smoothed_gradients(sigma=0.8)


@pytest.mark.parametrize("spec", SMOOTHED)
def test_the_mean_force_is_the_gradient_of_the_smoothed_metric(spec, gradients):
    rows = forces_of_iterations(plain(spec, sigma=0.8, samples=20), LABELS, SCORES, 2_000)
    wanted, error = gradients[spec]
    # A shift of all scores changes no ranking: the gradient sums to 0, as the centred forces do.
    assert abs(wanted.sum()) <= 4 * math.sqrt(np.sum(error**2)) + 1e-3 * np.abs(wanted).max()
    combined = np.hypot(rows.std(axis=0) / math.sqrt(len(rows)), error)
    # 4 standard errors of both together, and the error of the difference.
    bias = 1e-3 * np.abs(wanted).max()
    assert np.all(np.abs(rows.mean(axis=0) - wanted) <= 4 * combined + bias)
    assert combined.max() <= 0.04 * np.abs(wanted).max()


@pytest.mark.parametrize("spec", METRICS)
def test_two_documents_have_the_closed_form_in_the_mean(spec):
    labels, scores, sigma = [1, 4], np.array([0.5, 0.2]), 0.6
    metric = PARSED[spec]
    best, worst = (naive_metrics.of_order(metric, order) for order in ([4, 1], [1, 4]))
    # E[M] = worst + (best - worst) Phi((z_1 - z_0) / (sigma sqrt(2))).
    away = (scores[1] - scores[0]) / (sigma * math.sqrt(2))
    slope = (best - worst) * math.exp(-(away**2) / 2) / math.sqrt(2 * math.pi)
    slope /= sigma * math.sqrt(2)
    rows = forces_of_iterations(plain(spec, sigma=sigma, samples=20), labels, scores, 1_000)
    error = rows.std(axis=0) / math.sqrt(len(rows))
    assert np.all(np.abs(rows.mean(axis=0) - [-slope, slope]) <= 4 * error + 1e-10)
    assert error.max() <= 0.01 * abs(slope)


def order_chances(means, sigma):
    """The chance of each order of three documents, by an integral over the middle one."""
    nodes, factors = np.polynomial.hermite_e.hermegauss(80)
    chances = {}
    for order in itertools.permutations(range(3)):
        top, middle, last = (means[i] for i in order)
        at = middle + sigma * nodes
        above, below = (
            np.array([0.5 * math.erfc(side / math.sqrt(2)) for side in sides])
            for sides in ((at - top) / sigma, (last - at) / sigma)
        )
        chances[order] = float(factors @ (above * below)) / math.sqrt(2 * math.pi)
    return chances


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("spec", METRICS)
def test_three_documents_have_the_gradient_of_the_exact_expectation(spec, mu):
    labels, scores, sigma = np.array([0, 2, 4]), np.array([0.4, 0.1, -0.1]), 0.7

    def mean_metric(z):
        chances = order_chances(z - sigma * mu * labels, sigma)
        assert sum(chances.values()) == pytest.approx(1.0, abs=1e-10)
        return sum(
            chance * naive_metrics.of_order(PARSED[spec], labels[list(order)])
            for order, chance in chances.items()
        )

    wanted, _ = derivatives(mean_metric, scores, 1e-4)
    rows = forces_of_iterations(plain(spec, sigma=sigma, mu=mu, samples=20), labels, scores, 2_000)
    error = rows.std(axis=0) / math.sqrt(len(rows))
    # 4 standard errors, and that of the central difference.
    assert np.all(np.abs(rows.mean(axis=0) - wanted) <= 4 * error + 1e-6)
    assert error.max() <= 0.01 * np.abs(wanted).max()


def test_the_variance_of_sampled_forces_falls_with_one_over_the_samples():
    one, many = (
        forces_of_iterations(plain("ndcg", samples=samples), LABELS, SCORES, 3_000)
        for samples in (1, 9)
    )
    # Each variance is known to some 3%.
    assert one.var(axis=0).sum() / many.var(axis=0).sum() == pytest.approx(9, rel=0.2)


@pytest.mark.parametrize("nu", [0.0, 0.5])
@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_the_scale_free_step_takes_its_part_along_the_centred_scores(part, nu):
    rng = np.random.default_rng(4)
    labels, scores = rng.integers(0, 5, size=20), 3 + rng.normal(size=20)
    free, _ = compute(plain("ndcg"), labels, scores)
    forces, _ = compute(StochasticRank(projection=part, nu=nu), labels, scores)
    centred = scores - scores.mean()
    length = np.linalg.norm(centred)
    wanted = free - part * (free @ centred) / (length + nu) ** 2 * centred
    assert forces == pytest.approx(wanted, rel=1e-11, abs=1e-14)
    assert abs(forces.sum()) <= 1e-13
    assert abs(free @ centred) > 1e-3
    if part == 1.0 and nu == 0.0:
        assert abs(forces @ centred) <= 1e-13 * length


@pytest.mark.parametrize("nu", [0.0, 0.01])
def test_equal_scores_have_nothing_to_project_on(nu):
    labels = [0, 1, 2, 0]
    forces, _ = compute(StochasticRank(nu=nu), labels, np.full(4, 0.25))
    free, _ = compute(plain("ndcg"), labels, np.full(4, 0.25))
    assert forces == pytest.approx(free, rel=1e-13)
    assert np.isfinite(forces).all()


def test_mu_moves_documents_down_by_their_labels():
    mu, sigma = 0.7, 0.5
    moved, _ = compute(plain("ndcg", mu=mu, sigma=sigma), LABELS, SCORES)
    by_hand, _ = compute(plain("ndcg", sigma=sigma), LABELS, SCORES - sigma * mu * LABELS)
    assert moved == pytest.approx(by_hand, rel=1e-12)
    assert moved != pytest.approx(compute(plain("ndcg", sigma=sigma), LABELS, SCORES)[0], rel=1e-2)


def test_samples_are_the_same_for_any_threads_and_others_for_iterations_and_seeds():
    rng = np.random.default_rng(5)
    group = rng.integers(1, 40, size=400)
    labels, scores = rng.integers(0, 5, size=group.sum()), rng.normal(size=group.sum())
    for objective in (StochasticRank(), StochasticRank(metric="err", samples=3), XENDCG()):

        def bits(objective=objective, **how):
            return compute(objective, labels, scores, group, **how)[0].tobytes()

        same = {bits(n_jobs=jobs, seed=1, iteration=2) for jobs in (1, 1, 2, 4)}
        assert len(same) == 1
        assert len({*same, bits(seed=1, iteration=3), bits(seed=2, iteration=2)}) == 3


def shares(n, query, seed, iteration):
    """The numbers between 0 and 1 that the kernel draws for XE-NDCG."""
    key = int(mix(iteration_key(seed, iteration) ^ np.uint64(mix(np.uint64(query)))))
    numbers = [mix(np.uint64((key + i) % 2**64)) for i in range(n)]
    return [(number >> 12) * 2.0**-52 for number in numbers]


def test_xendcg_equals_the_three_orders_of_lightgbm():
    rng = np.random.default_rng(6)
    group, weights = [6, 1, 9, 2, 30], [1.0, 2.0, 0.5, 3.0, 1.0]
    labels, scores = rng.integers(0, 5, size=48), rng.normal(size=48)
    forces, curvatures = compute(XENDCG(), labels, scores, group, weights, seed=4, iteration=3)
    start = 0
    for query, (n, weight) in enumerate(zip(group, weights, strict=True)):
        rows = slice(start, start + n)
        start += n
        if n == 1:
            assert forces[rows] == curvatures[rows] == 0
            continue
        draws = shares(n, query, 4, 3)
        first, second, third, bends = xendcg_terms(scores[rows], labels[rows], draws)
        wanted = -weight * (first + second + third)
        assert min(np.abs(first).max(), np.abs(second).max(), np.abs(third).max()) > 1e-3
        # Rounding of terms of the size of 1.
        assert forces[rows] == pytest.approx(wanted, abs=1e-13)
        assert curvatures[rows] == pytest.approx(weight * bends, rel=1e-13)


def test_the_first_order_of_xendcg_is_the_derivative_of_the_cross_entropy():
    draws = shares(6, 0, 0, 0)
    gains = 2.0**LABELS - draws
    first = xendcg_terms(SCORES, LABELS, draws)[0]
    slope, bend = derivatives(lambda z: -np.sum(gains / gains.sum() * log_softmax(z)), SCORES, 1e-4)
    assert first == pytest.approx(slope, abs=1e-8)
    assert compute(XENDCG(), LABELS, SCORES)[1] == pytest.approx(bend, abs=1e-6)


def test_the_draws_of_xendcg_are_uniform_between_0_and_1():
    drawn = np.array([shares(40, query, 1, 2) for query in range(500)]).ravel()
    # 4 standard errors of 20000 draws.
    assert abs(drawn.mean() - 0.5) <= 4 * math.sqrt(1 / 12 / len(drawn))
    assert abs(drawn.var() - 1 / 12) <= 4 * math.sqrt(1 / 180 / len(drawn))
    assert drawn.min() >= 0
    assert drawn.max() < 1


@pytest.mark.parametrize("scale", [1e3, 1e300])
@pytest.mark.parametrize("objective", [XENDCG(), StochasticRank(), StochasticRank(mu=2.0, nu=0.0)])
def test_sampled_forces_are_finite_at_extreme_scores(objective, scale):
    rng = np.random.default_rng(7)
    for _ in range(20):
        scores = scale * rng.choice([-1.0, 0.0, 0.5, 1.0], size=12)
        forces, curvatures = compute(objective, rng.integers(0, 5, size=12), scores)
        assert np.isfinite(forces).all()
        assert np.isfinite(curvatures).all()
        assert np.all(curvatures >= 0)

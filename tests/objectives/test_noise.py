"""The noise in rankings: what it is distributed as, and what it does to the forces."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from objectives.naive_objectives import (
    METRICS,
    PARSED,
    compute,
    forces_of_iterations,
    forces_of_weights,
    mean_weights,
    pair_weights,
    same_draws,
    stable_order,
)
from rankgrove._jit.elementary import (
    GAUSSIAN,
    LOGISTIC,
    draw_noise,
    exponentials,
    logarithms,
    mix,
    split_power,
)
from rankgrove._jit.hashing import iteration_key
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError
from rankgrove.metrics.discounted import ExpDCG
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss, YetiRank

KINDS = {"logistic": LOGISTIC, "gaussian": GAUSSIAN}
DISTRIBUTIONS = {"logistic": stats.logistic, "gaussian": stats.norm}

LABELS = [0, 3, 1, 0, 2]
SCORES = np.array([0.8, 0.1, 0.5, -0.6, -0.2])


def draw(kind, n, number):
    out = np.empty(n)
    draw_noise(KINDS[kind], np.uint64(mix(np.uint64(number))), out)
    return out


def test_exponentials_are_those_of_the_library():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-700, 700, 20_000), rng.normal(size=20_000), [0.0, -700, 700]])
    out = np.empty(len(x))
    exponentials(x, out)
    wanted = np.array([math.exp(value) for value in x])
    # 2 units of the last place of ours, and one of the library's.
    assert np.abs(out / wanted - 1).max() <= 3 * 2.0**-52
    assert out[-3] == 1.0


def test_exponentials_are_cut_at_700():
    x = np.array([-701.0, -1e308, -np.inf, 701.0, 1e308, np.inf])
    out = np.empty(6)
    exponentials(x, out)
    assert out == pytest.approx([math.exp(-700)] * 3 + [math.exp(700)] * 3, rel=1e-15)


def test_the_parts_of_a_power_of_2_multiply_to_that_of_the_library():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-1000, 1000, 5_000), rng.uniform(-1, 1, 5_000)])
    for value in (*x, 0.0, 0.5, -0.5, -1000.0, 1000.0):
        power, factor = split_power(value)
        found = factor * power
        # A unit of the last place of ours, and one of the library's.
        assert found == pytest.approx(2.0**value, rel=2 * 2.0**-52, abs=0.0)
    assert split_power(3.0) == (8.0, 1.0)


def test_logarithms_are_those_of_the_library():
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [
            np.exp(rng.uniform(-708, 709, 20_000)),
            rng.uniform(0.5, 2.0, 20_000),
            1 + rng.normal(size=2_000) * 1e-9,
            [2.0**-1022, 2.0**-53, 0.5, math.sqrt(0.5), 1.0, 2.0, 1.7e308],
        ]
    )
    out = np.empty(len(x))
    logarithms(x, out)
    wanted = np.array([math.log(value) for value in x])
    assert np.all(np.abs(out - wanted) <= 1e-15 * np.abs(wanted))
    assert out[-3] == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_the_distribution_that_it_is_named_after(kind):
    n = 100_000
    noise = draw(kind, n, 3)
    wanted = DISTRIBUTIONS[kind]
    variance, kurtosis = (float(value) for value in wanted.stats(moments="vk"))
    # The level of each check is some 1e-4: 4 standard errors, and p > 1e-4.
    assert abs(noise.mean()) <= 4 * math.sqrt(variance / n)
    assert abs(noise.var() - variance) <= 4 * variance * math.sqrt((kurtosis + 2) / n)
    assert stats.kstest(noise, wanted.cdf).pvalue > 1e-4
    assert len(np.unique(noise)) == n


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_independent_across_documents_queries_and_iterations(kind):
    n, draws = 8, 20_000
    own = same_draws(KINDS[kind], n, 0, draws, seed=5, iteration=0)
    # Documents of one draw; a draw and the next one; another iteration, seed and query.
    pairs = [(own[:, i], own[:, j]) for i, j in itertools.combinations(range(n), 2)]
    pairs.append((own[:-1, 0], own[1:, 0]))
    for query, seed, iteration in ((0, 5, 1), (0, 6, 0), (1, 5, 0)):
        other = same_draws(KINDS[kind], n, query, draws, seed=seed, iteration=iteration)
        pairs += [(own[:, 0], other[:, 0]), (own[:, 3], other[:, 3])]
    for a, b in pairs:
        # Ranks, and their distances from the middle: 4.5 standard errors of some 35 pairs.
        x, y = stats.rankdata(a) - len(a) / 2, stats.rankdata(b) - len(b) / 2
        assert abs(np.corrcoef(x, y)[0, 1]) <= 4.5 / math.sqrt(len(a))
        assert abs(np.corrcoef(np.abs(x), np.abs(y))[0, 1]) <= 4.5 / math.sqrt(len(a))


def test_noise_does_not_depend_on_the_length_that_is_drawn():
    for kind in KINDS:
        assert draw(kind, 5, 7).tobytes() == draw(kind, 11, 7)[:5].tobytes()


def test_iterations_and_seeds_have_different_keys():
    keys = {int(iteration_key(seed, i)) for seed in range(100) for i in range(100)}
    assert len(keys) == 10_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", [1, 2, "all"])
@pytest.mark.parametrize("spread", [1.0, 12.0, 40.0])
@pytest.mark.parametrize("spec", METRICS)
def test_forces_of_given_noise_equal_the_formulas(spec, spread, neighbours, kind):
    # All pairs of a query whose scores are more than 64 / sigma apart have a loop of their own.
    rng = np.random.default_rng(8)
    group = [5, 1, 9, 2, 3, 12]
    labels, scores = rng.integers(0, 5, size=32), spread * np.round(rng.normal(size=32), 1)
    objective = YetiLoss(
        metric=spec, sigma=1.3, noise=kind, noise_scale=0.7 * spread, neighbours=neighbours,
        permutations=4,
    )  # fmt: skip
    forces, curvatures = compute(objective, labels, scores, group, seed=11, iteration=6)
    start = 0
    for query, n in enumerate(group):
        rows = slice(start, start + n)
        noise = same_draws(KINDS[kind], n, query, 4, seed=11, iteration=6)
        orders = [stable_order(scores[rows] + 0.7 * spread * row) for row in noise]
        weights = mean_weights(PARSED[spec], labels[rows], orders, neighbours=neighbours)
        expected = forces_of_weights(scores[rows], weights, sigma=1.3, size=60.0)
        # As without noise; 60 is above the DCG of any of these queries.
        assert np.all(np.abs(forces[rows] - expected.forces) <= 1e-13 * 60)
        assert np.all(np.abs(curvatures[rows] - expected.curvatures) <= 1e-13 * 60)
        start += n


@pytest.mark.parametrize("neighbours", [2, "all"])
@pytest.mark.parametrize("truncation", [None, 2])
def test_normalised_forces_of_given_noise_take_the_mean_size_of_all_rankings(
    truncation, neighbours
):
    objective = YetiLoss(
        normalise=True, truncation=truncation, neighbours=neighbours, permutations=5
    )
    forces, curvatures = compute(objective, LABELS, SCORES, seed=2, iteration=9)
    noise = same_draws(LOGISTIC, 5, 0, 5, seed=2, iteration=9)
    weights = mean_weights(
        parse_metric("ndcg"), LABELS, [stable_order(SCORES + row) for row in noise],
        truncation=truncation, neighbours=neighbours,
    )  # fmt: skip
    expected = forces_of_weights(SCORES, weights, normalise=True)
    assert forces == pytest.approx(expected.forces, rel=1e-12, abs=1e-14)
    assert curvatures == pytest.approx(expected.curvatures, rel=1e-12, abs=1e-14)


def expectation(metric, kind, scale, neighbours, draws=400_000):
    """Forces on the query in the mean over rankings of NumPy's noise, and their standard errors."""
    rng = np.random.default_rng(13)
    noise = (rng.logistic if kind == "logistic" else rng.standard_normal)(size=(draws, 5))
    orders = np.argsort(-(SCORES + scale * noise), axis=1)
    codes = orders @ 5 ** np.arange(5)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    of_order = np.array(
        [
            forces_of_weights(
                SCORES, pair_weights(metric, LABELS, order.tolist(), neighbours=neighbours)
            ).forces
            for order in orders[first]
        ]
    )
    mean = counts @ of_order / draws
    return mean, np.sqrt(counts @ (of_order - mean) ** 2 / draws / draws)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("objective", "metric"),
    [
        (YetiRank(decay=0.8), ExpDCG(b=0.8)),
        (YetiLoss(metric="ndcg"), parse_metric("ndcg")),
        (YetiLoss(metric="map(relevant>=2)"), PARSED["map(relevant>=2)"]),
        (YetiLoss(metric="mrr(relevant>=2)"), PARSED["mrr(relevant>=2)"]),
        (YetiLoss(metric="err", neighbours=2), parse_metric("err")),
        (YetiLoss(metric="ndcg", neighbours="all"), parse_metric("ndcg")),
    ],
)
def test_the_mean_over_iterations_is_the_expectation_over_noise(objective, metric, kind):
    noisy = type(objective)(
        **{**vars(objective), "noise": kind, "noise_scale": 0.6, "permutations": 10}
    )
    rows = forces_of_iterations(noisy, LABELS, SCORES, 3_000)
    wanted, error = expectation(metric, kind, 0.6, objective.neighbours)
    # 4 standard errors of both means together, and rounding.
    combined = np.hypot(rows.std(axis=0) / math.sqrt(len(rows)), error)
    assert np.all(np.abs(rows.mean(axis=0) - wanted) <= 4 * combined + 1e-12)
    # The errors are small beside the forces, so that a wrong expectation would be seen.
    assert combined.max() <= 0.02 * np.abs(wanted).max()


def test_the_variance_falls_with_one_over_the_permutations():
    def variance(permutations):
        objective = YetiLoss(permutations=permutations)
        return forces_of_iterations(objective, LABELS, SCORES, 4_000).var(axis=0).sum()

    # Each variance is known to some 3%.
    one = variance(1)
    assert one / variance(4) == pytest.approx(4, rel=0.2)
    assert one / variance(16) == pytest.approx(16, rel=0.2)


NOISY = [
    YetiRank(),
    YetiLoss(),
    YetiLoss(metric="err", noise="gaussian", neighbours="all", permutations=3),
    LambdaMART(noise="gaussian", truncation=None),
]


@pytest.mark.parametrize("objective", NOISY)
def test_noise_is_the_same_for_any_threads_and_another_for_iterations_and_seeds(objective):
    rng = np.random.default_rng(14)
    group = rng.integers(1, 60, size=700)
    labels, scores = rng.integers(0, 5, size=group.sum()), rng.normal(size=group.sum())

    def bits(**how):
        return compute(objective, labels, scores, group, **how)[0].tobytes()

    same = {bits(n_jobs=jobs, seed=1, iteration=2) for jobs in (1, 1, 2, 4)}
    assert len(same) == 1
    assert len({*same, bits(seed=1, iteration=3), bits(seed=2, iteration=2)}) == 3


def test_two_queries_alike_have_different_noise():
    forces, _ = compute(YetiLoss(permutations=1), LABELS * 2, [*SCORES, *SCORES], [5, 5])
    later = compute(YetiLoss(permutations=1), LABELS * 2, [*SCORES, *SCORES], [5, 5], iteration=1)
    differ = [values[:5].tobytes() != values[5:].tobytes() for values in (forces, later[0])]
    assert any(differ)


@pytest.mark.parametrize("scale", [0.1, 1.0, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_moves_the_ranking_only_and_not_the_logistic_term(kind, scale):
    # Where the weight of a pair is the same in all rankings, noise must not show: two documents,
    # and pairs that all count the same.
    noisy, plain = (
        compute(YetiLoss(metric="dcg", noise=noise, noise_scale=scale), [0, 2], [0.3, -0.9])
        for noise in (kind, "none")
    )
    assert noisy[0] == pytest.approx(plain[0], rel=1e-14)
    assert noisy[1] == pytest.approx(plain[1], rel=1e-14)
    noisy, plain = (
        compute(RankMART(noise=noise, noise_scale=scale, permutations=3), LABELS, SCORES)
        for noise in (kind, "none")
    )
    assert noisy[0] == pytest.approx(plain[0], rel=1e-13, abs=1e-14)
    assert noisy[1] == pytest.approx(plain[1], rel=1e-13)


def test_without_noise_neither_the_seed_nor_permutations_matter():
    results = {
        compute(YetiLoss(noise="none", permutations=p), LABELS, SCORES, seed=p, iteration=p)[
            0
        ].tobytes()
        for p in (1, 7)
    }
    assert len(results) == 1


def first_grade(labels):
    return labels[0]


@pytest.mark.parametrize(
    ("given", "settled"),
    [
        ({}, ("sample", 3)),
        ({"metric": "map"}, ("sample", 3)),
        ({"metric": "err"}, ("sample", 3)),
        ({"neighbours": "all"}, ("all", 3)),
        ({"metric": first_grade}, (1, 10)),
        ({"metric": first_grade, "neighbours": "all"}, ("all", 3)),
        ({"neighbours": 1}, (1, 10)),
        ({"neighbours": 5}, (5, 10)),
        ({"neighbours": "auto", "permutations": 7}, ("sample", 7)),
    ],
)
def test_the_pairs_of_yetiloss_unless_told(given, settled):
    objective = YetiLoss(**given)
    assert (objective.neighbours, objective.permutations) == settled
    assert Parameters(objective="yetiloss", **given).make_objective() == objective


@pytest.mark.parametrize("wrong", [{"neighbours": 0}, {"permutations": 0}, {"permutations": "all"}])
def test_wrong_pairs_of_yetiloss_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        YetiLoss(**wrong)

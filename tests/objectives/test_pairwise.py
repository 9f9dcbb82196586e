"""The pair loop against the formulas, and the laws that forces obey."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectives.naive_forces import (
    cost,
    exponential,
    forces_of_query,
    linear,
    pair_weights,
    table,
)
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives import label_pairs, pairs
from rankgrove.objectives.pair_forces import PlainForces
from rankgrove.objectives.pairwise import LambdaMART, RankMART

# The kernel and the oracle differ by the rounding of each pair, a few units of the last place,
# and by the order of the sums, both relative to the absolute forces on a document. Scores far
# from one another add the rounding of the exponent, at most 64 * 2^-53 (see pairs.py), twice.
TOLERANCE = 1e-13
# Where they are further apart, the exponent is a difference of two scores times sigma, each rounded
# by 2^-53 of its size (see label_pairs.py). Larger scores are either equal or beyond the cut below.
ROUNDED, LARGEST_ROUNDED = 2.0**-52, 2e4
# Exponents below -700 are cut (see pairs.py): pairs so far apart weigh next to nothing.
TINY = 1e-270

GAINS = {
    "exponential": exponential,
    "linear": linear,
    "[0, 0, 2, 2.5, 11]": table(0, 0, 2, 2.5, 11),
    "[0, 0.01, 0.02, 0.02, 0.05]": table(0, 0.01, 0.02, 0.02, 0.05),
}


def dataset(labels, group, weights=None):
    return Dataset.from_arrays(np.zeros((len(labels), 1)), labels, group=group, weights=weights)


def compute(objective, labels, scores, group=None, weights=None, n_jobs=1):
    data = dataset(labels, [len(labels)] if group is None else group, weights)
    forces, curvatures = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    prepared = objective.prepare(data, n_jobs=n_jobs)
    prepared.compute(np.asarray(scores, dtype=float), 0, forces, curvatures)
    return forces, curvatures


def assert_equals_naive(forces, curvatures, expected, tolerance=TOLERANCE):
    wanted, bends, sizes = (np.array(values) for values in expected)
    assert np.all(np.abs(forces - wanted) <= tolerance * sizes + TINY)
    assert np.all(np.abs(curvatures - bends) <= tolerance * bends + TINY)


def random_queries(seed, n_queries, longest, grades=5):
    rng = np.random.default_rng(seed)
    group = rng.integers(1, longest, size=n_queries)
    labels = rng.integers(0, grades, size=group.sum())
    return labels, rng.normal(size=len(labels)), group


@st.composite
def queries(draw):
    n = draw(st.integers(1, 40))
    labels = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    values = draw(
        st.sampled_from(
            [
                st.floats(-3, 3),
                st.sampled_from([0.0, 0.5, 1.0]),
                st.just(0.25),
                st.floats(-50, 50),
                st.floats(-1e4, 1e4),
                st.sampled_from([-1e300, -800.0, -1e-300, 0.0, 31.9, 700.0, 1e300]),
            ]
        )
    )
    return labels, draw(st.lists(values, min_size=n, max_size=n))


@settings(max_examples=300, deadline=None)
@given(
    query=queries(),
    metric=st.sampled_from(["ndcg", "dcg"]),
    gain=st.sampled_from(list(GAINS)),
    k=st.sampled_from([None, 1, 3, 10, 100]),
    truncation=st.sampled_from([None, 1, 2, 10, 30, 100]),
    sigma=st.sampled_from([0.3, 1.0, 2.0]),
    normalise=st.booleans(),
    weight=st.sampled_from([1.0, 0.125, 7.5]),
)
def test_forces_equal_the_formulas(query, metric, gain, k, truncation, sigma, normalise, weight):
    labels, scores = query
    cutoff = "" if k is None else f"@{k}"
    objective = LambdaMART(
        metric=f"{metric}{cutoff}(gain={gain})",
        sigma=sigma,
        truncation=truncation,
        normalise=normalise,
    )
    # A second query, which nothing of the first may leak into.
    forces, curvatures = compute(
        objective, [*labels, 1, 0], [*scores, 0.0, 0.0], [len(labels), 2], [weight, 1.0]
    )
    expected = forces_of_query(
        scores,
        labels,
        gain=GAINS[gain],
        ideal=metric == "ndcg",
        k=k,
        truncation=truncation,
        sigma=sigma,
        normalise=normalise,
        weight=weight,
    )
    rounding = ROUNDED * min(sigma * max(map(abs, scores)), LARGEST_ROUNDED)
    if normalise:
        # A weight is divided by 0.01 and the distance of the scores, which the rounding moves by
        # 1 / sigma of it; and all forces by their sum, which is off by as much as each.
        pairs_of = itertools.combinations(zip(scores, labels, strict=True), 2)
        distances = [abs(a - b) for (a, x), (b, y) in pairs_of if x != y]
        rounding *= 2 * (1 + 1 / (sigma * (0.01 + min(distances, default=0.0))))
    tolerance = TOLERANCE + rounding
    assert_equals_naive(forces[:-2], curvatures[:-2], expected, tolerance)
    assert np.all(curvatures >= 0)
    assert forces[-2] == -forces[-1]


@pytest.mark.parametrize("n", [7, 8, 9, 127, 128, 129, 255, 256, 257, 400])
@pytest.mark.parametrize("decimals", [1, 15])
def test_queries_of_every_length_around_the_block_sizes_equal_the_formulas(n, decimals):
    rng = np.random.default_rng(n)
    labels = rng.integers(0, 5, size=n)
    scores = np.round(3 * rng.normal(size=n), decimals)
    for truncation, normalise in ((None, False), (30, True)):
        forces, curvatures = compute(
            LambdaMART(truncation=truncation, normalise=normalise), labels, scores
        )
        expected = forces_of_query(
            scores.tolist(), labels.tolist(), truncation=truncation, normalise=normalise
        )
        assert_equals_naive(forces, curvatures, expected)


def test_fractional_labels_equal_the_formulas():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 9, size=50) / 4
    scores = rng.normal(size=50)
    for gain in ("exponential", "linear"):
        forces, curvatures = compute(LambdaMART(metric=f"ndcg(gain={gain})"), labels, scores)
        expected = forces_of_query(scores, labels, gain=GAINS[gain], truncation=30, normalise=True)
        assert_equals_naive(forces, curvatures, expected)


def test_one_hundred_grades_equal_the_formulas():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 100, size=200)
    scores = rng.normal(size=200)
    for metric in ("ndcg", "ndcg@10", "dcg"):
        forces, curvatures = compute(LambdaMART(metric=metric, truncation=30), labels, scores)
        expected = forces_of_query(
            scores, labels.tolist(), ideal=metric != "dcg", truncation=30, normalise=True
        )
        assert_equals_naive(forces, curvatures, expected)


def test_a_query_of_12000_documents_equals_the_formulas_at_its_top():
    n = 12_000
    rng = np.random.default_rng(3)
    labels = np.zeros(n, dtype=int)
    labels[rng.permutation(n)[:40]] = rng.integers(1, 5, size=40)
    scores = rng.normal(size=n)
    forces, curvatures = compute(
        LambdaMART(metric="ndcg@10", truncation=None, normalise=False), labels, scores
    )
    # Two documents at ranks past the cut-off have no pair, so one of its own ranks suffices.
    order = np.argsort(-scores, kind="stable")
    gain = 2.0**labels - 1
    discount = np.zeros(n)
    discount[order[:10]] = 1 / np.log2(np.arange(2, 12))
    ideal = np.sum(np.sort(gain)[::-1][:10] / np.log2(np.arange(2, 12)))
    wanted, bends, sizes = np.zeros(n), np.zeros(n), np.zeros(n)
    for a in order[:10]:
        better = np.sign(gain[a] - gain)
        weight = np.abs((gain[a] - gain) * (discount[a] - discount)) / ideal
        rho = 1 / (1 + np.exp(better * (scores[a] - scores)))
        # A pair of two documents of the top is met from both sides.
        weight[discount > 0] /= 2
        wanted -= better * weight * rho
        wanted[a] += np.sum(better * weight * rho)
        bends += weight * rho * (1 - rho)
        bends[a] += np.sum(weight * rho * (1 - rho))
        sizes += weight * rho
        sizes[a] += np.sum(weight * rho)
    assert_equals_naive(forces, curvatures, (wanted, bends, sizes), tolerance=1e-12)


def test_all_pairs_of_a_query_of_12000_documents_are_computed_in_linear_memory():
    n = 12_000
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 5, size=n)
    forces, curvatures = compute(LambdaMART(truncation=None), labels, rng.normal(size=n))
    assert np.isfinite(forces).all()
    assert np.all(curvatures > 0)
    assert abs(forces.sum()) <= 1e-12 * np.abs(forces).sum()


def test_forces_are_minus_the_derivative_of_the_cost_with_fixed_weights():
    rng = np.random.default_rng(5)
    labels, scores = rng.integers(0, 5, size=20).tolist(), rng.normal(size=20)
    sigma, step = 1.5, 1e-4
    objective = LambdaMART(metric="ndcg@7", sigma=sigma, truncation=None, normalise=False)
    forces, curvatures = compute(objective, labels, scores)
    weights = pair_weights(scores, labels, gain=exponential, ideal=True, k=7)
    for i in range(20):
        up, down = scores.copy(), scores.copy()
        up[i] += step
        down[i] -= step
        costs = [cost(at, weights, sigma) for at in (down, scores, up)]
        assert forces[i] == pytest.approx(-(costs[2] - costs[0]) / (2 * step), abs=1e-7)
        second = (costs[2] - 2 * costs[1] + costs[0]) / step**2
        assert curvatures[i] == pytest.approx(second, abs=1e-6)


@pytest.mark.parametrize(
    "spec", ["ndcg", "ndcg@5", "dcg@5(gain=linear)", "ndcg@9(gain=[0, 0, 2, 2.5, 11])"]
)
def test_the_weight_of_a_pair_is_the_swap_delta_of_the_metric(spec):
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 5, size=25)
    deltas = np.abs(parse_metric(spec).swap_deltas(labels))
    # Scores so near to each other that every rho is one half, in the order of the rows.
    forces, _ = compute(
        LambdaMART(
            metric=replace(parse_metric(spec), ties="stable"), truncation=None, normalise=False
        ),
        labels,
        np.zeros(25),
    )
    sign = np.sign(labels[:, None] - labels[None, :])
    assert forces == pytest.approx((sign * deltas * 0.5).sum(axis=1), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("truncation", [None, 5, 30])
def test_forces_of_a_query_sum_to_zero(truncation, normalise):
    labels, scores, group = random_queries(7, 200, 150)
    objective = LambdaMART(truncation=truncation, normalise=normalise)
    forces, _ = compute(objective, labels, scores, group)
    starts = np.concatenate([[0], np.cumsum(group)[:-1]])
    sums = np.add.reduceat(forces, starts)
    assert np.all(np.abs(sums) <= 1e-13 * np.add.reduceat(np.abs(forces), starts))


def test_queries_without_a_pair_have_no_force():
    labels = [3, 0, 0, 0, 2, 2, 1, 0]
    forces, curvatures = compute(LambdaMART(), labels, [5, 1, 2, 3, 1, 2, 0, 0], [1, 3, 2, 2])
    assert forces[:6].tolist() == [0.0] * 6 == curvatures[:6].tolist()
    assert forces[6] > 0 > forces[7]


def test_different_labels_of_equal_gain_have_no_force():
    objective = LambdaMART(metric="ndcg(gain=[0, 0, 1])")
    forces, curvatures = compute(objective, [0, 1, 1], [0.0, 1.0, 2.0])
    assert forces.tolist() == curvatures.tolist() == [0.0] * 3


def test_forces_do_not_depend_on_a_shift_of_the_scores():
    labels, scores, group = random_queries(8, 30, 60)
    # Multiples of 1/1024, which a shift by 4 leaves exact.
    scores = np.round(scores * 1024) / 1024
    for normalise in (False, True):
        here, there = (
            compute(LambdaMART(normalise=normalise), labels, scores + shift, group)
            for shift in (0.0, 4.0)
        )
        assert here[0].tobytes() == there[0].tobytes()
        assert here[1].tobytes() == there[1].tobytes()


def test_forces_follow_a_permutation_of_documents_without_ties():
    rng = np.random.default_rng(9)
    labels, scores, order = rng.integers(0, 5, size=90), rng.normal(size=90), rng.permutation(90)
    forces, curvatures = compute(LambdaMART(), labels, scores)
    moved = compute(LambdaMART(), labels[order], scores[order])
    assert moved[0].tobytes() == forces[order].tobytes()
    assert moved[1].tobytes() == curvatures[order].tobytes()


def test_a_weight_of_two_doubles_forces_and_curvatures():
    labels, scores, group = random_queries(10, 20, 60)
    once = compute(LambdaMART(), labels, scores, group)
    twice = compute(LambdaMART(), labels, scores, group, weights=np.full(20, 2.0))
    for a, b in zip(once, twice, strict=True):
        assert (2 * a).tobytes() == b.tobytes()


def test_truncation_beyond_the_longest_query_is_no_truncation():
    labels, scores, group = random_queries(11, 50, 60)
    for metric in ("ndcg", "dcg"):
        whole = compute(LambdaMART(metric=metric, truncation=None), labels, scores, group)
        cut = compute(LambdaMART(metric=metric, truncation=60), labels, scores, group)
        # By label and by rank: the order of sums differs.
        np.testing.assert_allclose(whole, cut, rtol=1e-11, atol=1e-13)


def test_huge_score_gaps_give_finite_forces_and_a_full_push():
    forces, curvatures = compute(
        LambdaMART(truncation=None, normalise=False), [1, 0, 1, 0], [-1e308, 1e308, 1e308, -1e308]
    )
    assert np.isfinite(forces).all()
    assert curvatures.any()
    assert np.isfinite(curvatures).all()
    wrong_way, _ = compute(LambdaMART(truncation=None, normalise=False), [0, 1], [1e4, -1e4])
    assert wrong_way.tolist() == [-wrong_way[1], pytest.approx(1 - 1 / math.log2(3))]


@pytest.mark.parametrize("n_jobs", [2, 4])
@pytest.mark.parametrize("normalise", [False, True])
def test_any_number_of_threads_gives_the_same_bits(n_jobs, normalise):
    labels, scores, group = random_queries(12, 700, 120)
    objective = LambdaMART(normalise=normalise)
    one = compute(objective, labels, scores, group, n_jobs=1)
    many = compute(objective, labels, scores, group, n_jobs=n_jobs)
    assert one[0].tobytes() == many[0].tobytes()
    assert one[1].tobytes() == many[1].tobytes()


def test_a_query_has_the_same_bits_alone_and_among_others():
    labels, scores, group = random_queries(13, 40, 300)
    forces, curvatures = compute(LambdaMART(), labels, scores, group)
    start = 0
    for size in group:
        rows = slice(start, start + size)
        alone = compute(LambdaMART(), labels[rows], scores[rows])
        assert alone[0].tobytes() == forces[rows].tobytes()
        assert alone[1].tobytes() == curvatures[rows].tobytes()
        start += size


def test_prepared_forces_keep_nothing_from_one_call_to_the_next():
    labels, scores, group = random_queries(14, 40, 100)
    prepared = LambdaMART().prepare(dataset(labels, group))
    results = []
    for at in (scores, -scores, scores):
        forces, curvatures = np.empty(len(scores)), np.empty(len(scores))
        prepared.compute(at, len(results), forces, curvatures)
        results.append(forces.tobytes() + curvatures.tobytes())
    assert results[0] == results[2] != results[1]


def test_scores_are_not_changed():
    labels, scores, group = random_queries(15, 10, 50)
    before = scores.copy()
    compute(LambdaMART(), labels, scores, group)
    assert scores.tobytes() == before.tobytes()
    assert scores.flags.writeable


def test_two_threads_may_share_prepared_forces():
    labels, scores, group = random_queries(17, 300, 60)
    prepared = LambdaMART().prepare(dataset(labels, group))

    def bits(sign):
        forces, curvatures = np.empty(len(scores)), np.empty(len(scores))
        prepared.compute(sign * scores, 0, forces, curvatures)
        return forces.tobytes() + curvatures.tobytes()

    signs = [1.0, -1.0] * 10
    expected = [bits(sign) for sign in signs[:2]] * 10
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(bits, signs)) == expected


def test_negative_labels_are_refused():
    with pytest.raises(DataError, match=r"labels must be 0 or more for ndcg@10. Got -1"):
        LambdaMART(metric="ndcg@10").prepare(dataset([0, -1], [2]))


def test_labels_past_the_gain_table_are_refused():
    with pytest.raises(DataError, match="below 2 for the gain table"):
        LambdaMART(metric="ndcg(gain=[0, 1])").prepare(dataset([0, 2], [2]))


@pytest.mark.parametrize("metric", ["map", "mrr@3", "precision@5"])
def test_grades_without_a_threshold_are_refused_where_two_kinds_of_documents_count(metric):
    with pytest.raises(DataError, match=r"must be 0 or 1 to train for .*relevant>=1.* Got label 2"):
        LambdaMART(metric=metric).prepare(dataset([0, 1, 2], [3]))
    LambdaMART(metric=metric).prepare(dataset([0, 1, 1], [3]))
    told = metric.partition("@")
    LambdaMART(metric=f"{''.join(told)}(relevant>=2)").prepare(dataset([0, 1, 2], [3]))


@pytest.mark.parametrize(
    "parameters",
    [
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"sigma": math.inf},
        {"sigma": math.nan},
        {"sigma": True},
        {"sigma": "1"},
        {"truncation": 0},
        {"truncation": 1.5},
        {"truncation": True},
        {"normalise": 1},
    ],
)
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(ParameterError, match=f"{name} must be .* Got "):
        LambdaMART(**parameters)


def test_the_metric_may_be_a_name_or_a_value():
    by_name, by_value = LambdaMART(metric="NDCG @ 5"), LambdaMART(metric=parse_metric("ndcg@5"))
    assert by_name == by_value
    assert hash(by_name) == hash(by_value)


def test_the_kernels_have_a_signature_without_draws_one_of_all_pairs_and_one_of_neighbours():
    labels, scores, group = random_queries(16, 5, 20)
    for truncation in (None, 2):
        compute(LambdaMART(truncation=truncation), labels, scores, group)
        compute(LambdaMART(sigma=2, truncation=truncation), labels, scores, group, np.ones(5))
        noisy = LambdaMART(noise="logistic", truncation=truncation, permutations=2)
        compute(noisy, labels, scores, group)
    compute(LambdaMART(neighbours=1), labels, scores, group)
    compute(LambdaMART(noise="gaussian", neighbours=3), labels, scores, group)
    # Other tests of this process may have weighed documents, kept pairs or summed them by leaves.
    for kernel, count, others in (
        (pairs.push_queries, 3, (-8, -6, -4, -3)),
        (label_pairs.push_by_label, 2, (-5, -3)),
    ):
        plain = [
            entry
            for entry in kernel.signatures
            if all(str(entry[place]) == "none" for place in others)
        ]
        assert len(plain) == count


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e3, 1e300])
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_pairs_that_count_the_same_are_pushed_alike_with_and_without_a_ranking(spread, sigma):
    rng = np.random.default_rng(5)
    group = [1, 2, 40, 3, 17, 8, 1]
    labels = rng.integers(0, 4, sum(group)).astype(float)
    labels[-9:] = 2.0  # a query without pairs
    scores = np.round(rng.normal(size=len(labels)), 1) * spread
    weights = rng.uniform(0, 3, len(group))
    plain = RankMART(sigma=sigma)
    assert isinstance(plain.prepare(dataset(labels, group)), PlainForces)
    # Neighbours that leave nothing out are taken by the ranking.
    ranked = RankMART(sigma=sigma, neighbours=len(labels))
    assert not isinstance(ranked.prepare(dataset(labels, group)), PlainForces)
    found = compute(plain, labels, scores, group, weights)
    expected = compute(ranked, labels, scores, group, weights)
    sizes = sigma * np.repeat(np.multiply(group, weights), group)
    # Exponents are rounded to 100 * 2^-53 in both, for documents that may have 40 pairs.
    assert np.all(np.abs(found[0] - expected[0]) <= 1e-13 * sizes)
    assert np.all(np.abs(found[1] - expected[1]) <= 1e-13 * sigma * sizes)
    two = compute(plain, labels, scores, group, weights, n_jobs=2)
    assert [values.tobytes() for values in two] == [values.tobytes() for values in found]

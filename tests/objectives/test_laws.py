"""Forces and curvatures against the formulas, and laws that hold for every objective."""

import math

import numpy as np
import pytest

from metrics import naive_metrics
from objectives.naive_objectives import (
    METRICS,
    PARSED,
    Formless,
    compute,
    dataset,
    derivatives,
    forces_of_weights,
    lambdaloss_deltas,
    log_softmax,
    pair_cost,
    pair_weights,
    ranked_order,
    recomputed_draws,
    same_draws,
    stable_order,
    swap_deltas,
    values_of_lists,
)
from rankgrove._jit.elementary import NOISES
from rankgrove.data.dataset import Dataset
from rankgrove.errors import ParameterError
from rankgrove.metrics.average import MAP
from rankgrove.metrics.discounted import DCG, NDCG, ExpDCG
from rankgrove.metrics.pairs import Tau
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.listwise import ListMLE, ListNet, QueryRMSE, Softmax
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss, YetiRank
from rankgrove.objectives.pointwise import Logistic, Regression
from rankgrove.objectives.registry import OBJECTIVES

# A pair differs by the rounding of its e^x, at most 64 * 2^-53 twice, by that of two values of the
# metric, and by the order of sums: all far below this share of (weight + largest metric value).
TOLERANCE = 1e-13

NEIGHBOURS = (1, 2, 3, "all")
# sigma, normalise, truncation
FORMS = ((1.7, False, None), (0.6, True, None), (1.0, False, 3), (1.3, True, 2), (2.0, False, 40))


def _queries():
    rng = np.random.default_rng(1)
    queries = [
        ([3], [0.5]),
        ([0], [0.0]),
        ([0, 1], [0.25, -1.0]),
        ([4, 0], [0.25, -1.0]),
        ([2, 3], [1.0, 1.0]),
        ([0, 2, 4], [1.0, 1.0, 1.0]),
        ([2, 0, 1], [0.3, 0.4, -2.0]),
        ([2, 2, 2, 2], [0.1, 0.2, 0.3, 0.2]),
        ([0, 0, 0, 0, 0], [0.1, 0.2, 0.3, 0.2, 0.5]),
        ([1, 0, 1, 0], [0.5, 0.5, 0.25, 0.25]),
        ([0, 0, 0, 4, 0], [9.0, 8.0, 7.0, -30.0, 800.0]),
    ]
    for n in (4, 6, 9, 13, 17):
        scores = rng.normal(size=n)
        queries.append((rng.integers(0, 5, size=n).tolist(), scores.tolist()))
        queries.append((rng.integers(0, 5, size=n).tolist(), np.round(scores).tolist()))
    return queries


QUERIES = _queries()
WEIGHTS = np.resize([1.0, 0.25, 3.0], len(QUERIES))
ALL_LABELS = [label for labels, _ in QUERIES for label in labels]
ALL_SCORES = [score for _, scores in QUERIES for score in scores]
GROUP = [len(labels) for labels, _ in QUERIES]
STARTS = np.cumsum([0, *GROUP[:-1]])


def best_value(metric, labels):
    if metric is None:
        return 1.0
    return max(1.0, naive_metrics.of_order(metric, sorted(labels, reverse=True)) or 0.0)


def expected_of(query, metric, weight, sigma, normalise, truncation, neighbours):
    labels, scores = query
    weights = pair_weights(
        metric, labels, ranked_order(scores, labels), truncation=truncation,
        neighbours=neighbours,
    )  # fmt: skip
    return forces_of_weights(
        scores, weights, sigma=sigma, normalise=normalise, weight=weight,
        size=best_value(metric, labels),
    )  # fmt: skip


def assert_near(got, expected):
    forces, curvatures = got
    assert np.all(np.abs(forces - expected.forces) <= TOLERANCE * expected.force_room)
    assert np.all(np.abs(curvatures - expected.curvatures) <= TOLERANCE * expected.curvature_room)


def assert_equals_formulas(objective, metric):
    forces, curvatures = compute(objective, ALL_LABELS, ALL_SCORES, GROUP, WEIGHTS)
    for query, start, weight in zip(QUERIES, STARTS, WEIGHTS, strict=True):
        rows = slice(start, start + len(query[0]))
        expected = expected_of(
            query, metric, weight, objective.sigma, objective.normalise, objective.truncation,
            objective.neighbours,
        )  # fmt: skip
        # Pairs some 1600 sigma apart are cut to e^-700.
        rooms = [room + 1e-250 for room in expected[2:]]
        assert_near((forces[rows], curvatures[rows]), expected._replace(
            force_room=rooms[0], curvature_room=rooms[1]))  # fmt: skip
    return forces, curvatures


@pytest.mark.parametrize("spec", METRICS)
def test_metrics_of_many_lists_equal_the_definitions(spec):
    rng = np.random.default_rng(2)
    for n in (1, 2, 5, 12):
        lists = rng.integers(0, 5, size=(20, n))
        wanted = [naive_metrics.of_order(PARSED[spec], row) or 0.0 for row in lists]
        assert values_of_lists(PARSED[spec], lists) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("spec", METRICS)
def test_pair_forces_equal_the_metric_computed_again_after_each_swap(spec, neighbours, form):
    sigma, normalise, truncation = form
    how = {"sigma": sigma, "normalise": normalise, "truncation": truncation}
    how |= {"metric": spec, "neighbours": neighbours}
    forces, curvatures = assert_equals_formulas(LambdaMART(**how), PARSED[spec])
    loss = compute(YetiLoss(noise="none", **how), ALL_LABELS, ALL_SCORES, GROUP, WEIGHTS)
    assert loss[0].tobytes() == forces.tobytes()
    assert loss[1].tobytes() == curvatures.tobytes()


@pytest.mark.parametrize("neighbours", [2, "all"])
@pytest.mark.parametrize(
    "spec",
    [
        "ndcg@4(gain=linear)", "expdcg@2", "expdcg(gain=exponential)", "rbp@3(relevant>=2)",
        "err@2",
        "map@3(relevant>=2, norm=cutoff)", "precision@4(relevant>=2, norm=documents)",
        "recall@3(relevant>=2)",
    ],
)  # fmt: skip
def test_pair_forces_of_other_forms_of_metrics_equal_the_formulas(spec, neighbours):
    for truncation in (None, 3):
        objective = LambdaMART(
            metric=spec, normalise=False, truncation=truncation, neighbours=neighbours
        )
        assert_equals_formulas(objective, objective.metric)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_rankmart_and_yetirank_without_noise_equal_the_formulas(neighbours, form):
    sigma, normalise, truncation = form
    how = {"sigma": sigma, "normalise": normalise, "truncation": truncation}
    how |= {"neighbours": neighbours}
    assert_equals_formulas(RankMART(**how), None)
    assert_equals_formulas(YetiRank(noise="none", decay=0.7, **how), ExpDCG(b=0.7))


TIED_LABELS = [0, 3, 1, 0, 4, 2, 0, 1, 3, 0, 2]
TIED_SCORES = [0.5, 0.5, 0.1, 0.1, 0.1, -0.3, 0.5, -0.3, -0.3, 0.5, -0.3]


@pytest.mark.parametrize("scores", [TIED_SCORES, [0.0] * 11])
@pytest.mark.parametrize("ties", ["worst", "best", "stable"])
def test_equal_scores_are_ranked_by_the_tie_policy_of_the_metric(ties, scores):
    objectives = {
        LambdaMART(metric=f"ndcg@4(ties={ties})", normalise=False): NDCG(k=4),
        LambdaMART(metric=f"map(relevant>=2, ties={ties})", truncation=None, normalise=False):
            MAP(relevant=2),
        LambdaMART(metric=f"tau(ties={ties})", truncation=None, normalise=False): Tau(),
        YetiLoss(metric=f"err(ties={ties})", noise="none", neighbours=1): parse_metric("err"),
        YetiRank(ties=ties, noise="none"): ExpDCG(),
        RankMART(ties=ties, truncation=3): None,
    }  # fmt: skip
    order = ranked_order(scores, TIED_LABELS, ties)
    for objective, metric in objectives.items():
        weights = pair_weights(
            metric, TIED_LABELS, order, truncation=objective.truncation,
            neighbours=objective.neighbours,
        )  # fmt: skip
        size = best_value(metric, TIED_LABELS)
        got = compute(objective, TIED_LABELS, scores)
        assert np.abs(got[0]).max() > 0
        assert_near(got, forces_of_weights(scores, weights, size=size))


def test_ties_by_document_id_follow_the_ids():
    labels, ids = [0, 2, 1], np.array(["b", "a", "c"])
    data = Dataset.from_arrays(np.zeros((3, 1)), labels, group=[3], document_ids=ids)
    prepared = LambdaMART(metric="dcg(ties=document_id)", normalise=False).prepare(data)
    forces, curvatures = np.empty(3), np.empty(3)
    prepared.compute(np.zeros(3), 0, forces, curvatures)
    expected = forces_of_weights([0.0] * 3, pair_weights(DCG(), labels, [2, 0, 1]), size=4)
    assert_near((forces, curvatures), expected)


def test_the_mean_over_ties_is_refused_where_one_ranking_is_trained_by():
    with pytest.raises(ParameterError, match=r"ties=worst, .* Got ndcg.ties=expected"):
        LambdaMART(metric="ndcg(ties=expected)")
    assert YetiLoss(metric="ndcg(ties=expected)").is_random


def test_a_cut_off_of_the_metric_is_that_of_the_pairs_unless_a_truncation_is_given():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 5, 60), rng.normal(size=60)
    told, found = {"truncation": 30}, {}
    for spec in ("ndcg@1", "ndcg@10", "ndcg"):
        for how in ({}, told):
            forces, _ = compute(LambdaMART(metric=spec, **how), labels, scores, [60])
            found[spec, len(how)] = forces.tobytes()
    assert len({found[spec, 0] for spec in ("ndcg@1", "ndcg@10", "ndcg")}) == 3
    assert found["ndcg@1", 1] == found["ndcg@10", 1] == found["ndcg", 1] == found["ndcg", 0]


@pytest.mark.parametrize("exactly", [1, 2, 5, 20])
@pytest.mark.parametrize("spec", METRICS)
def test_pairs_exactly_so_far_apart_are_those_of_the_formula(spec, exactly):
    labels, scores = [2, 0, 4, 1, 0, 3, 1, 0], [-0.5, 2.0, 1.1, 1.5, 0.7, 0.0, -1.8, 0.4]
    objective = YetiLoss(metric=spec, noise="none", sigma=1.3, neighbours_exactly=exactly)
    weights = pair_weights(PARSED[spec], labels, ranked_order(scores, labels), exactly=exactly)
    expected = forces_of_weights(scores, weights, sigma=1.3, size=best_value(PARSED[spec], labels))
    got = compute(objective, labels, scores)
    assert_near(got, expected)
    assert (exactly > 7) == (not got[0].any())


def test_neighbours_and_neighbours_exactly_are_not_given_together():
    assert YetiRank(neighbours_exactly=2).n_rankings == 10
    assert YetiLoss(neighbours_exactly=2).n_rankings == 10
    with pytest.raises(ParameterError, match="neighbours must be left out with neighbours_exactly"):
        LambdaMART(neighbours=2, neighbours_exactly=3)


@pytest.mark.parametrize("neighbours", [2, "all"])
@pytest.mark.parametrize("gain", ["exponential", "linear"])
@pytest.mark.parametrize(("weighting", "factor"), [("ndcg_loss2", 1.0), ("ndcg_loss2++", 10.0),
                                                   ("ndcg_loss2++", 0.5)])  # fmt: skip
def test_lambdaloss_equals_the_formulas_and_its_forces_the_derivative(
    weighting, factor, gain, neighbours
):
    rng = np.random.default_rng(6)
    labels, scores = rng.integers(0, 5, size=19), rng.normal(size=19)
    metric = NDCG(gain=gain)
    objective = LambdaMART(
        metric=metric, weighting=weighting, loss2_factor=factor, truncation=None, normalise=False,
        neighbours=neighbours, sigma=1.2,
    )  # fmt: skip
    order = ranked_order(scores, labels)
    deltas = lambdaloss_deltas(
        metric, [float(labels[i]) for i in order], factor, weighting == "ndcg_loss2"
    )
    weights = pair_weights(metric, labels, order, neighbours=neighbours, deltas=deltas)
    got = compute(objective, labels, scores)
    assert_near(got, forces_of_weights(scores, weights, sigma=1.2, size=1 + factor))
    first, second = derivatives(lambda z: pair_cost(z, weights, 1.2), scores, 1e-4)
    assert got[0] == pytest.approx(-first, abs=1e-6)
    assert got[1] == pytest.approx(second, abs=1e-5)


def test_lambdaloss_without_its_second_part_is_lambdamart():
    how = {"metric": "ndcg@5", "normalise": True}
    plain = compute(LambdaMART(**how), ALL_LABELS, ALL_SCORES, GROUP, WEIGHTS)
    bound = LambdaMART(weighting="ndcg_loss2++", loss2_factor=0.0, **how)
    for a, b in zip(plain, compute(bound, ALL_LABELS, ALL_SCORES, GROUP, WEIGHTS), strict=True):
        assert a == pytest.approx(b, rel=1e-13, abs=1e-300)
    with pytest.raises(ParameterError, match=r"metric must be one with discounts.* Got err"):
        LambdaMART(metric="err", weighting="ndcg_loss2").prepare(dataset([0, 1], [2]))


@pytest.mark.parametrize("neighbours", [1, "all"])
@pytest.mark.parametrize("noise", ["gumbel", "gaussian"])
@pytest.mark.parametrize("metric", ["ndcg", "tau"])
def test_noise_in_the_margin_is_in_the_cost_too(metric, noise, neighbours):
    labels = [0, 4, 2, 0, 3, 1, 2]
    scores = np.array([1.7, 0.9, 0.1, 1.2, -0.4, 0.3, -2.0])
    objective = YetiLoss(
        metric=metric, noise=noise, noise_scale=0.8, noise_in_margin=True, sigma=1.5,
        neighbours=neighbours, permutations=4,
    )  # fmt: skip
    draws = same_draws(NOISES[noise], 7, 0, 4, seed=5, iteration=3)
    if metric == "tau":
        draws = recomputed_draws(NOISES[noise], 7, 4, seed=5, iteration=3)
    terms = []
    for draw in 0.8 * draws:
        weights = pair_weights(
            parse_metric(metric), labels, stable_order(scores + draw), neighbours=neighbours
        )
        terms.append((draw, weights))

    def cost(z):
        return sum(pair_cost(z + draw, weights, 1.5) for draw, weights in terms) / 4

    forces, curvatures = compute(objective, labels, scores, seed=5, iteration=3)
    first, second = derivatives(cost, scores, 1e-4)
    assert np.abs(forces).max() > 1e-2
    assert forces == pytest.approx(-first, abs=1e-7)
    assert curvatures == pytest.approx(second, abs=1e-6)
    with pytest.raises(ParameterError, match="noise_in_margin must be left out without noise"):
        LambdaMART(noise_in_margin=True)


@pytest.mark.parametrize("neighbours", [2, "all"])
@pytest.mark.parametrize("truncation", [None, 4])
@pytest.mark.parametrize("metric", ["tau", "pair_accuracy", Formless(relevant=2)])
def test_pair_forces_of_metrics_without_a_pair_loop_equal_the_formulas(
    metric, truncation, neighbours
):
    rng = np.random.default_rng(5)
    labels, scores = rng.integers(0, 5, size=12).tolist(), rng.normal(size=12).tolist()
    objective = LambdaMART(
        metric=metric, sigma=1.4, truncation=truncation, normalise=False, neighbours=neighbours
    )
    known = MAP(relevant=2) if isinstance(metric, Formless) else objective.metric
    expected = expected_of((labels, scores), known, 1.0, 1.4, False, truncation, neighbours)
    got = compute(objective, labels, scores)
    assert np.abs(got[0]).max() > 1e-3
    assert_near(got, expected)


@pytest.mark.parametrize("neighbours", [3, "all"])
@pytest.mark.parametrize(
    "spec", ["ndcg", "map(relevant>=2)", "mrr(relevant>=4)", "err", "err(r/4)"]
)
def test_pair_forces_of_300_documents_equal_the_formulas(spec, neighbours):
    rng = np.random.default_rng(3)
    labels = rng.choice(5, size=300, p=[0.6, 0.2, 0.1, 0.07, 0.03]).tolist()
    scores = np.round(rng.normal(size=300), 2).tolist()
    objective = LambdaMART(
        metric=spec, sigma=1.4, truncation=None, normalise=False, neighbours=neighbours
    )
    expected = expected_of((labels, scores), objective.metric, 1.0, 1.4, False, None, neighbours)
    assert_near(compute(objective, labels, scores), expected)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("neighbours", [2, "all"])
@pytest.mark.parametrize("spec", ["ndcg", "map(relevant>=2)", "err"])
def test_curvatures_across_leaves_count_only_pairs_in_different_leaves(spec, neighbours, normalise):
    rng = np.random.default_rng(4)
    labels, scores = rng.integers(0, 5, size=15), rng.normal(size=15)
    leaves = rng.integers(0, 2, size=15).astype(np.int32)
    objective = LambdaMART(
        metric=spec, sigma=1.7, normalise=normalise, truncation=None, neighbours=neighbours
    )
    got = objective.prepare(dataset(labels, [15])).cross_leaf_curvatures(scores, 0, leaves)
    weights = pair_weights(PARSED[spec], labels, stable_order(scores), neighbours=neighbours)
    across = {(i, j): w for (i, j), w in weights.items() if leaves[i] != leaves[j]}
    # A curvature is linear in the weights, but for the factor of the query that all pairs make.
    near = {(i, j): 0.01 + abs(scores[i] - scores[j]) if normalise else 1.0 for i, j in weights}
    plain, wanted = (
        forces_of_weights(scores, {p: w / near[p] for p, w in some.items()}, sigma=1.7).curvatures
        for some in (weights, across)
    )
    whole = forces_of_weights(scores, weights, sigma=1.7, normalise=normalise).curvatures
    wanted *= whole.sum() / plain.sum()
    assert got == pytest.approx(wanted, rel=1e-11, abs=1e-14)
    assert 0 < got.sum() < 0.95 * whole.sum()


@pytest.mark.parametrize("neighbours", [1, "all"])
@pytest.mark.parametrize("spec", METRICS)
def test_pair_forces_are_minus_the_derivative_of_the_cost_with_fixed_weights(spec, neighbours):
    # The two at the top are not relevant, the third is: every metric has a pair of neighbours.
    labels, sigma = [0, 4, 2, 0, 3, 1, 2], 1.5
    scores = np.array([1.7, 0.9, 0.1, 1.2, -0.4, 0.3, -2.0])
    weights = pair_weights(
        PARSED[spec], labels, stable_order(scores),
        neighbours=neighbours,
    )  # fmt: skip
    objective = YetiLoss(metric=spec, noise="none", sigma=sigma, neighbours=neighbours)
    forces, curvatures = compute(objective, labels, scores)
    first, second = derivatives(lambda z: pair_cost(z, weights, sigma), scores, 1e-4)
    # Central differences are off by step^2 and by the rounding of the cost over step or step^2.
    size = sum(weights.values())
    assert np.abs(forces).max() > 1e-3
    assert forces == pytest.approx(-first, abs=1e-7 * (1 + size))
    assert curvatures == pytest.approx(second, abs=1e-6 * (1 + size))


@pytest.mark.parametrize("neighbours", [1, 3, "all"])
@pytest.mark.parametrize("spec", METRICS)
def test_within_a_ranking_the_jacobian_of_forces_is_symmetric(spec, neighbours):
    labels = [2, 0, 4, 1, 0, 3, 1, 0]
    scores = np.array([-0.5, 2.0, 1.1, 1.5, 0.7, 0.0, -1.8, 0.4])
    objective = LambdaMART(
        metric=spec, sigma=1.2, truncation=None, normalise=False, neighbours=neighbours
    )
    step = 1e-4
    rows = []
    for i in range(8):
        move = step * (np.arange(8) == i)
        up, down = (compute(objective, labels, scores + sign * move)[0] for sign in (1, -1))
        rows.append((up - down) / (2 * step))
    jacobian = np.array(rows)
    size = np.abs(jacobian).max()
    # The rounding of a force over the step, some 1e-16 / 1e-4, and its third derivative by step^2.
    assert size > 1e-3
    assert np.abs(jacobian - jacobian.T).max() <= 1e-7 * size
    curvatures = compute(objective, labels, scores)[1]
    assert -np.diag(jacobian) == pytest.approx(curvatures, abs=1e-7 * size)


# Of single documents; and XE-NDCG, whose terms of higher order do not cancel.
SINGLE_DOCUMENTS = {"regression", "logistic"}
CANCEL = sorted(set(OBJECTIVES) - SINGLE_DOCUMENTS - {"xendcg"})


@pytest.mark.parametrize("name", CANCEL)
def test_forces_of_a_query_sum_to_zero(name):
    rng = np.random.default_rng(7)
    group = rng.integers(1, 60, size=80)
    labels, scores = rng.integers(0, 2, size=group.sum()), rng.normal(size=group.sum())
    forces, _ = compute(OBJECTIVES[name](), labels, scores, group)
    starts = np.cumsum([0, *group[:-1]])
    sums, sizes = np.add.reduceat(forces, starts), np.add.reduceat(np.abs(forces), starts)
    assert sizes.max() > 0.01
    assert np.all(np.abs(sums) <= 1e-12 * sizes)


def listwise_costs():
    """Objective, labels, and the cost of one query as a function of its scores."""
    graded, binary = np.array([0.0, 2, 1, 4, 0, 3]), np.array([0.0, 1, 0, 0, 1, 0])
    signs = 2 * binary - 1
    chances = np.exp(log_softmax(graded))

    def squares(z, mean=None):
        rest = graded - z
        return np.sum((rest - (rest.mean() if mean is None else mean)) ** 2) / 2

    def permutation(z):
        """Xia et al. 2008, with equal labels drawn out of all that are not better."""
        drawn = [i for i in range(6) if graded[i] > graded.min()]
        return -sum(
            z[i] - np.logaddexp.reduce([z[j] for j in range(6) if graded[j] <= graded[i]])
            for i in drawn
        )

    def two_classes(z, by):
        return np.sum(by * np.logaddexp(0.0, -1.4 * signs * z))

    return {
        "regression": (Regression(), graded, lambda z: squares(z, 0.0)),
        "softmax": (
            Softmax(sigma=1.4), graded,
            lambda z: -np.sum(graded * log_softmax(1.4 * z)),
        ),
        "listnet": (
            ListNet(sigma=0.7), graded, lambda z: -np.sum(chances * log_softmax(0.7 * z)),
        ),
        "listmle": (ListMLE(sigma=1.4), graded, lambda z: permutation(1.4 * z)),
        "logistic": (Logistic(sigma=1.4), binary, lambda z: two_classes(z, 1.0)),
        "balanced": (
            Logistic(sigma=1.4, balanced=True), binary,
            lambda z: two_classes(z, np.where(binary == 1, 6 / (2 * 2), 6 / (2 * 4))),
        ),
        "queryrmse": (QueryRMSE(), graded, squares),
    }  # fmt: skip


SCORES = np.array([0.4, -1.0, 2.0, 0.1, 0.0, 0.7])


@pytest.mark.parametrize("name", list(listwise_costs()))
def test_forces_and_curvatures_are_the_derivatives_of_the_cost(name):
    objective, labels, cost = listwise_costs()[name]
    forces, curvatures = compute(objective, labels, SCORES)
    first, second = derivatives(cost, SCORES, 1e-4)
    # Central differences: step^2 and the rounding of a cost of some 10 over step and step^2.
    assert forces == pytest.approx(-first, abs=1e-7)
    # QueryRMSE takes its constant as given: then the second derivative is 1, not 1 - 1/n.
    factor = 6 / 5 if name == "queryrmse" else 1.0
    assert curvatures == pytest.approx(factor * second, abs=1e-6)


@pytest.mark.parametrize("name", list(listwise_costs()))
def test_the_cost_of_prepared_forces_is_that_of_the_formula(name):
    objective, labels, cost = listwise_costs()[name]
    got = objective.prepare(dataset(labels, [6], [2.0])).cost(SCORES)
    assert got.tolist() == [pytest.approx(2 * cost(SCORES), rel=1e-13)]


def test_listmle_of_different_labels_is_the_chance_of_their_order():
    labels, scores = np.array([1.0, 3, 0, 2]), np.array([0.3, -0.2, 0.8, 0.1])
    order, left, chance = [1, 3, 0, 2], [0, 1, 2, 3], 1.0
    for i in order:
        chance *= math.exp(scores[i]) / sum(math.exp(scores[j]) for j in left)
        left.remove(i)
    cost = ListMLE().prepare(dataset(labels, [4])).cost(scores)
    assert cost.tolist() == [pytest.approx(-math.log(chance), rel=1e-13)]


@pytest.mark.parametrize("name", list(listwise_costs()))
def test_the_weight_of_a_query_multiplies_its_forces_and_curvatures(name):
    objective, labels, _ = listwise_costs()[name]
    group, weights = [6, 6, 6], np.array([1.0, 0.5, 4.0])
    forces, curvatures = compute(objective, np.tile(labels, 3), np.tile(SCORES, 3), group, weights)
    for values in (forces.reshape(3, 6), curvatures.reshape(3, 6)):
        assert np.abs(values[0]).max() > 0
        assert values == pytest.approx(weights[:, None] * values[0], rel=1e-14)


def test_balanced_classes_of_weighted_queries_weigh_the_same_in_all():
    labels, weights = np.array([1, 0, 0, 0, 1, 0, 0]), np.array([2.0, 0.5])
    forces, _ = compute(Logistic(balanced=True), labels, np.zeros(7), [3, 4], weights)
    assert forces[labels == 1].sum() == pytest.approx(-forces[labels == 0].sum(), rel=1e-14)
    assert np.abs(forces).sum() == pytest.approx(0.5 * (2.0 * 3 + 0.5 * 4), rel=1e-14)


@pytest.mark.parametrize("objective", [Softmax(), LambdaMART(), RankMART()])
def test_a_query_without_a_relevant_document_has_no_force(objective):
    forces, curvatures = compute(objective, [0, 0, 0, 1, 0], [1.0, 2, 3, 0, 1], [3, 2])
    assert forces[:3].tolist() == curvatures[:3].tolist() == [0.0] * 3
    assert forces[3] > 0 > forces[4]


def test_the_start_score_is_where_the_forces_of_single_documents_cancel():
    labels, weights = [1, 0, 0, 1, 1, 0, 0], [2.0, 0.5]
    for objective in (Regression(), Logistic(sigma=1.3), Logistic(sigma=1.3, balanced=True)):
        start = objective.start_score(dataset(labels, [3, 4], weights))
        forces, _ = compute(objective, labels, np.full(7, start), [3, 4], weights)
        assert math.fsum(forces) == pytest.approx(0.0, abs=1e-14)
        assert np.abs(forces).max() > 0.1


def test_swap_deltas_of_long_lists_equal_those_computed_one_by_one():
    ranked = tuple(float(label) for label in np.random.default_rng(8).integers(0, 5, size=24))
    for metric in (PARSED["map@3(relevant>=2)"], PARSED["err"]):
        wanted = np.abs(naive_metrics.swap_deltas(metric, ranked))
        assert swap_deltas(metric, ranked) == pytest.approx(wanted, abs=1e-14)


# Laws of every objective of the registry, with its defaults and labels of 0 and 1.


@pytest.fixture(params=list(OBJECTIVES))
def objective(request):
    return OBJECTIVES[request.param]()


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e160, 1e300])
def test_forces_are_finite_and_curvatures_not_negative(objective, scale):
    rng = np.random.default_rng(9)
    group = np.array([1, 2, 3, 5, 8, 40])
    labels = rng.integers(0, 2, size=group.sum())
    for draw in (rng.normal(size=len(labels)), rng.choice([-1.0, 0.0, 1.0], size=len(labels))):
        forces, curvatures = compute(objective, labels, scale * draw, group)
        assert np.isfinite(forces).all()
        assert np.isfinite(curvatures).all()
        assert np.all(curvatures >= 0)
    assert scale > 1 or np.abs(forces).max() > 0


def test_forces_have_the_same_bits_for_any_number_of_threads(objective):
    rng = np.random.default_rng(10)
    group = rng.integers(1, 60, size=700)
    labels, scores = rng.integers(0, 2, size=group.sum()), rng.normal(size=group.sum())
    results = {
        b"".join(part.tobytes() for part in compute(objective, labels, scores, group, n_jobs=jobs))
        for jobs in (1, 1, 2, 4)
    }
    assert len(results) == 1


def test_a_query_of_one_document_has_no_force_where_only_differences_count(objective):
    if objective.name in SINGLE_DOCUMENTS:
        pytest.skip("the cost is of single documents")
    forces, curvatures = compute(objective, [1, 0, 1, 0], [3.0, -2.0, 0.0, 0.5], [1, 1, 2])
    assert forces[:2].tolist() == [0.0, 0.0]
    assert np.isfinite(curvatures).all()
    assert forces[2] != 0


def test_a_query_does_not_see_the_scores_of_another(objective):
    rng = np.random.default_rng(11)
    labels, scores, other = rng.integers(0, 2, size=30), *rng.normal(size=(2, 30))
    moved = np.where(np.arange(30) < 20, scores, other)
    here, there = (compute(objective, labels, z, [12, 8, 10])[0] for z in (scores, moved))
    assert here[:20].tobytes() == there[:20].tobytes()
    assert here[20:].tobytes() != there[20:].tobytes()


@pytest.mark.parametrize("spec", ["ndcg@1", "ndcg@9", "ndcg@10", "ndcg", "map(relevant>=1)"])
def test_pairs_go_some_ranks_below_a_small_cut_off_unless_told(spec):
    cutoff = parse_metric(spec).k
    expected = 30 if cutoff is None else None if cutoff >= 10 else cutoff + 20
    assert LambdaMART(metric=spec).truncation == expected
    assert LambdaMART(metric=spec, truncation=None).truncation is None

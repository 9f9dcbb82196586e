"""The slips in the documents that Rankgrove follows: docs/slips.md, with numbers as the judge.

Every test computes what is printed and what is right, beside a number that depends on neither: a
numeric derivative, a metric computed after a swap, a sum over a table.
"""

from __future__ import annotations

import math
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from rankgrove.data.benchmarks import BENCHMARKS
from rankgrove.experiments.paper.tables import paper_figures

SIGMA = 1.7
SCORES = np.array([0.4, -0.3, 1.1, 0.2])
# Pairs (better, worse) of four documents, and a weight for each.
PAIRS = {(0, 1): 0.5, (0, 2): 1.5, (3, 1): 0.8, (3, 2): 0.3, (1, 2): 1.1}


def logistic(x):
    return 1 / (1 + np.exp(-x))


def derivative(function, x, step=1e-5):
    return (function(x + step) - function(x - step)) / (2 * step)


def second_derivative(function, x, step=1e-4):
    return (function(x + step) - 2 * function(x) + function(x - step)) / step**2


def with_score(i, value):
    scores = SCORES.copy()
    scores[i] = value
    return scores


def pair_cost(scores, pairs=PAIRS, sigma=SIGMA):
    """The sum of w log(1 + e^(-sigma (s_i - s_j))) over pairs with i better."""
    return sum(
        w * np.log1p(np.exp(-sigma * (scores[i] - scores[j]))) for (i, j), w in pairs.items()
    )


def rho(i, j):
    return logistic(-SIGMA * (SCORES[i] - SCORES[j]))


def pair_lambda(i, j):
    """-sigma w rho of a pair, whichever of the two is asked for first: as it is printed."""
    return -SIGMA * PAIRS.get((i, j), PAIRS.get((j, i), 0.0)) * rho(i, j)


# Burges 2010.


def test_second_sum_of_lambda_i_is_over_lambda_ji():
    for i in range(4):
        numeric = derivative(lambda value, i=i: pair_cost(with_score(i, value)), SCORES[i])
        better = sum(pair_lambda(a, b) for a, b in PAIRS if a == i)
        printed = better - sum(pair_lambda(b, a) for a, b in PAIRS if b == i)
        right = better - sum(pair_lambda(a, b) for a, b in PAIRS if b == i)
        assert right == pytest.approx(numeric, rel=1e-8)
        assert (abs(printed - numeric) > 0.1) == any(b == i for _, b in PAIRS)


def test_curvatures_of_the_pairs_of_a_document_are_added():
    def terms(side):
        return sum(
            SIGMA**2 * w * rho(*pair) * (1 - rho(*pair))
            for pair, w in PAIRS.items()
            if pair[side] == 1
        )

    numeric = second_derivative(lambda value: pair_cost(with_score(1, value)), SCORES[1])
    assert terms(0) + terms(1) == pytest.approx(numeric, rel=1e-6)
    assert abs(terms(0) - terms(1) - numeric) > 0.5


def test_step_along_plus_lambda_lowers_the_better_document():
    scores, pair = np.array([0.0, 0.5]), {(0, 1): 1.0}
    lambdas = [derivative(lambda v: pair_cost(np.array([v, 0.5]), pair), 0.0),
               derivative(lambda v: pair_cost(np.array([0.0, v]), pair), 0.5)]  # fmt: skip
    assert lambdas[0] < 0 < lambdas[1]
    before = pair_cost(scores, pair)
    assert pair_cost(scores + 0.1 * np.array(lambdas), pair) > before
    assert pair_cost(scores - 0.1 * np.array(lambdas), pair) < before


def test_rho_of_lambdamart_is_divided_by_the_change_of_the_metric():
    change, value, margin = 0.02, 0.7, 0.3  # |delta Z|, Z itself, s_i - s_j
    numeric = derivative(lambda s: change * np.log1p(np.exp(-SIGMA * s)), margin)
    assert -numeric / (SIGMA * change) == pytest.approx(logistic(-SIGMA * margin), rel=1e-8)
    assert abs(-numeric / (SIGMA * value) - logistic(-SIGMA * margin)) > 0.3


def test_log_odds_are_twice_sigma_times_the_score():
    score, label = 0.8, -1
    odds = logistic(2 * SIGMA * score) / logistic(-2 * SIGMA * score)
    assert np.log(odds) / (2 * SIGMA) == pytest.approx(score)
    assert abs(np.log(odds) / 2 - score) > 0.5
    # The pseudo-response as it is printed the second time, without sigma in the exponent.
    numeric = -derivative(lambda f: np.log1p(np.exp(-2 * label * SIGMA * f)), score)
    assert 2 * label * SIGMA * logistic(-2 * label * SIGMA * score) == pytest.approx(numeric)
    assert abs(2 * label * SIGMA * logistic(-2 * label * score) - numeric) > 0.1


# Tunys 2015.


def test_update_and_lambdas_of_a_linear_ranker():
    better, worse, w = np.array([1.0, 2.0]), np.array([0.5, -1.0]), np.array([0.3, -0.2])

    def cost(weights):
        return np.log1p(np.exp(-SIGMA * (better - worse) @ weights))

    gradient = np.array([derivative(lambda t, k=k: cost(w + t * np.eye(2)[k]), 0) for k in (0, 1)])
    chance = logistic(SIGMA * (better - worse) @ w)
    by_score = derivative(lambda s: np.log1p(np.exp(-SIGMA * s)), (better - worse) @ w)
    # The second line of the update; its third line as printed; its last with the factor alpha.
    np.testing.assert_allclose(by_score * (better - worse), gradient, rtol=1e-7)
    assert cost(w + 0.1 * by_score * (better - worse)) > cost(w)
    np.testing.assert_allclose(-SIGMA * (1 - chance) * (better - worse), gradient, rtol=1e-7)
    # lambda of the better document is minus alpha times its chance to be ranked below.
    assert by_score == pytest.approx(-SIGMA * (1 - chance), rel=1e-8)
    assert abs(by_score - (1 - chance)) > 0.01


def test_steps_of_leaves_stand_inside_the_cost():
    def cost(step_i, step_j, inside):
        margin = SCORES[1] - SCORES[0]
        if inside:
            return np.log1p(np.exp(SIGMA * (margin - step_i + step_j)))
        return np.log1p(np.exp(SIGMA * margin)) - step_i + step_j

    # Outside there is no minimum: any step gains the same again.
    assert cost(2e6, 0, False) - cost(1e6, 0, False) == pytest.approx(-1e6)
    assert cost(2e6, 0, True) == cost(1e6, 0, True) == 0


def test_second_derivative_by_a_leaf_has_a_factor_alpha():
    margin = SCORES[0] - SCORES[1]
    numeric = second_derivative(lambda g: np.log1p(np.exp(-SIGMA * (margin + g))), 0)
    found = -SIGMA * logistic(-SIGMA * margin)
    assert -SIGMA * found * (1 + found / SIGMA) == pytest.approx(numeric, rel=1e-5)
    assert -found * (1 + found / SIGMA) == pytest.approx(numeric / SIGMA, rel=1e-5)


# The inner workings of the lambdarank objective in LightGBM, 2021.


@pytest.mark.parametrize("y", [0, 1])
def test_log_likelihood_of_a_pair_loses_a_term(y):
    e = np.exp(-SIGMA * 0.3)
    likelihood = y * np.log(1 / (1 + e)) + (1 - y) * np.log(e / (1 + e))
    printed = (1 - y) * np.log(e) - y * np.log(1 + e)
    assert (1 - y) * np.log(e) - np.log(1 + e) == pytest.approx(likelihood)
    assert (printed == pytest.approx(likelihood)) == (y == 1)


def test_lambdarank_gradient_of_the_post_is_its_loss():
    s_i, s_j, weight = 0.7, 0.4, 0.3

    def loss(score):
        return weight * np.log1p(np.exp(-SIGMA * (score - s_j)))

    numeric = derivative(loss, s_i)
    assert -SIGMA * weight * logistic(-SIGMA * (s_i - s_j)) == pytest.approx(numeric, rel=1e-8)
    assert abs(loss(s_i) - numeric) > 0.1
    # The first line of the derivative, with the scores the wrong way round in the numerator.
    first = -SIGMA * np.exp(-SIGMA * (s_j - s_i)) / (1 + np.exp(-SIGMA * (s_i - s_j)))
    turned = -SIGMA * np.exp(-SIGMA * (s_i - s_j)) / (1 + np.exp(-SIGMA * (s_i - s_j)))
    assert turned == pytest.approx(numeric / weight, rel=1e-8)
    assert abs(first - numeric / weight) > 0.5
    # The sigmoid table has rho: lambda over |delta NDCG| is -sigma times that.
    assert numeric / weight == pytest.approx(-SIGMA * logistic(-SIGMA * (s_i - s_j)), rel=1e-8)
    # The hessian with |delta NDCG| is of the loss with it.
    curvature = second_derivative(loss, s_i)
    bend = SIGMA**2 * logistic(SIGMA * (s_i - s_j)) * logistic(-SIGMA * (s_i - s_j))
    assert weight * bend == pytest.approx(curvature, rel=1e-5)
    plain = second_derivative(lambda s: loss(s) / weight, s_i)
    assert abs(weight * bend - plain) > 0.3


def test_tree_of_newton_boosting_is_fitted_to_minus_gradient_by_hessian():
    gradients, hessians = np.array([0.5, -1.0, 0.2]), np.array([0.4, 0.9, 0.1])
    steps = np.linspace(-3, 3, 60001)
    squares = sum(h * (-g / h - steps) ** 2 for g, h in zip(gradients, hessians, strict=True))
    newton = -gradients.sum() / hessians.sum()
    assert steps[np.argmin(squares)] == pytest.approx(newton, abs=1e-4)


# Lyzhin et al. 2022.


def test_loss_of_yetirank_must_fall_where_a_pair_is_put_right():
    right, wrong = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    pair = {(0, 1): 1.0}
    assert pair_cost(right, pair) < pair_cost(wrong, pair)
    assert -pair_cost(right, pair) > -pair_cost(wrong, pair)  # as printed, with a minus


def exp_dcg(labels_in_order, b):
    return sum(b**rank * label for rank, label in enumerate(labels_in_order))


@pytest.mark.parametrize("better_first", [True, False])
def test_weight_of_yetirank_is_that_of_exp_dcg_only_where_the_better_one_is_above(better_first):
    b, rank = 0.85, 3  # ranks 3 and 4 of five documents
    order = [1, 0, 4, 2, 3] if better_first else [1, 0, 2, 4, 3]
    swapped = order.copy()
    swapped[rank - 1], swapped[rank] = swapped[rank], swapped[rank - 1]
    delta = abs(exp_dcg(order, b) - exp_dcg(swapped, b))
    of_better = rank if better_first else rank + 1
    printed = (4 - 2) * b ** (of_better - 1) * (1 - b)  # (11) times the constant
    assert printed == pytest.approx(delta if better_first else b * delta)


def reciprocal_rank(labels_in_order):
    return next((1 / (at + 1) for at, label in enumerate(labels_in_order) if label), 0.0)


def test_delta_mrr_looks_above_the_ranks_and_not_above_the_numbers_of_documents():
    n_apart, n_far = 0, 0
    for labels in ((1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 0, 1)):
        for order in permutations(range(4)):
            ranked = [labels[document] for document in order]
            place = {document: rank for rank, document in enumerate(order, start=1)}
            for i in range(4):
                for j in range(4):
                    if labels[i] != 1 - labels[j] or i >= j:
                        continue
                    a, b = sorted((place[i], place[j]))
                    swapped = ranked.copy()
                    swapped[a - 1], swapped[b - 1] = swapped[b - 1], swapped[a - 1]
                    exact = abs(reciprocal_rank(ranked) - reciprocal_rank(swapped))
                    term = abs(1 / place[i] - 1 / place[j])
                    by_ranks = term * all(label == 0 for label in ranked[: a - 1])
                    by_numbers = term * all(label == 0 for label in ranked[: min(i, j)])
                    if b == a + 1:
                        assert by_ranks == pytest.approx(exact)
                    else:
                        n_far += by_ranks != pytest.approx(exact)
                    n_apart += by_numbers != pytest.approx(exact)
    # Between far documents there may be a relevant one; the exact change has 1 / its rank.
    assert n_apart > n_far > 0


def test_coordinate_sampling_takes_the_noise_of_the_other_document_only():
    sigma, (z_i, z_j) = 0.6, (0.3, 0.1)
    noise = np.random.default_rng(0).normal(size=(2, 400_000))

    def normal(x, variance):
        return np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    def chance(score):
        """That i is above j: the metric is 1 then and 0 otherwise."""
        return 0.5 * (1 + math.erf((score - z_j) / (2 * sigma)))

    numeric = derivative(chance, z_i)
    right = normal(z_i - z_j - sigma * noise[1], sigma**2).mean()
    printed = normal(z_i - z_j + sigma * (noise[0] - noise[1]), sigma**2).mean()
    assert right == pytest.approx(numeric, rel=0.01)
    assert printed == pytest.approx(normal(z_i - z_j, 3 * sigma**2), rel=0.01)
    assert abs(printed - numeric) > 0.1 * numeric


def test_delta_ndcg_at_k_is_zero_below_the_cut_off():
    labels, k = np.array([0, 1, 0, 3, 2]), 3
    discounts = np.where(np.arange(5) < k, 1 / np.log2(np.arange(5) + 2), 0)
    best = np.sort(2.0**labels - 1)[::-1] @ discounts
    swapped = labels[[0, 1, 2, 4, 3]]
    exact = abs((2.0**labels - 2.0**swapped) @ discounts) / best
    printed = abs(2.0**3 - 2.0**2) / best * abs(1 / np.log2(5) - 1 / np.log2(6))
    assert exact == 0 < printed


def test_sizes_of_table_1_are_those_of_the_known_sets_but_for_two_slips():
    differing = []
    for one in BENCHMARKS.values():
        printed = paper_figures()["1"]["rows"][""].get(one.title)
        if printed is not None:
            known = [one.features, *one.queries, *one.documents]
            differing += [(p, k) for p, k in zip(printed, known, strict=True) if p != k]
    assert differing == [(2944, 2994), (19246, 19245)]


def test_validation_part_of_istella_is_no_random_draw_of_its_queries():
    rows = paper_figures()["1"]["rows"][""]["Istella"]
    _, train, vali, _, of_train, of_vali, _ = rows
    assert round(of_train / train) == 271
    assert round(of_vali / vali) == 628
    # Together they are the training part as it was published; a draw has about its share.
    share = (of_train + of_vali) * vali / (train + vali)
    assert of_vali > 1.9 * share


def test_train_less_gap_is_table_2_or_less_by_the_share_of_empty_queries():
    rounding = 0.0151  # of three figures to 0.01
    shares = {}
    for number, metric in zip(range(22, 26), ("NDCG@10", "MRR", "MAP", "ERR"), strict=True):
        found, table_2 = paper_figures()[str(number)], paper_figures()["2"]
        for row, pairs in found["rows"][metric].items():
            for column, (train, gap) in zip(found["columns"], pairs, strict=True):
                value = table_2["rows"][metric][row][table_2["columns"].index(column)]
                missed = value - (train - gap)
                if abs(missed) > rounding:
                    assert metric == "NDCG@10"
                    shares.setdefault(column, []).append(missed)
    assert sum(map(len, shares.values())) == 15
    assert set(shares) == set(paper_figures()["2"]["columns"])
    for found in shares.values():
        assert min(found) > 0
        assert max(found) - min(found) < rounding


# The page.


def test_every_test_here_is_named_on_the_page_and_every_name_there_is_a_test():
    page = (Path(__file__).parents[1] / "docs" / "slips.md").read_text(encoding="utf-8")
    own = {name for name in globals() if name.startswith("test_")}
    own.remove("test_every_test_here_is_named_on_the_page_and_every_name_there_is_a_test")
    assert set(re.findall(r"`(test_\w+)`", page)) == own

"""The loss: its gradient is that of the explicit cost of pairs, or the naive lambdas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from neural.samples import (
    GROUP,
    OFFSETS,
    all_ones,
    make_labels,
    make_scores,
    noisy_weights,
    pair_cost,
    queries,
    swap_weights,
)
from objectives.naive_objectives import (
    METRICS,
    PARSED,
    compute,
    forces_of_weights,
    pair_weights,
    same_draws,
    stable_order,
    xendcg_terms,
)
from rankgrove._jit.elementary import LOGISTIC
from rankgrove._jit.hashing import iteration_key, mix
from rankgrove.errors import DataError, ParameterError
from rankgrove.neural import RankingLoss, ranking_loss
from rankgrove.objectives.registry import OBJECTIVES

# Forces and autograd add the same float64 terms in other orders.
CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def gradient(loss, scores, *args, **named):
    """The gradient by the scores, and the value."""
    scores.grad = None
    value = loss(scores, *args, **named)
    value.backward()
    return scores.grad.numpy().copy(), value.item()


def autograd(cost, scores):
    (found,) = torch.autograd.grad(cost, scores)
    return found.numpy()


@pytest.mark.parametrize("sigma", [1.0, 2.5])
def test_ranknet_is_autograd_through_the_explicit_pairwise_cost(sigma):
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("ranknet", sigma=sigma, reduction="sum")
    found, value = gradient(loss, scores, labels, OFFSETS)
    cost = pair_cost(scores, labels, all_ones, sigma)
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)
    assert value == pytest.approx(cost.item(), rel=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 30.0, 400.0, 5000.0])
def test_the_cost_of_pairs_is_right_for_scores_of_any_spread(spread):
    labels, scores = make_labels(), make_scores()
    own = (scores.detach() * spread).requires_grad_()
    _, value = gradient(ranking_loss("ranknet", reduction="sum"), own, labels, OFFSETS)
    assert value == pytest.approx(pair_cost(own, labels, all_ones).item(), rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_lambdarank_is_autograd_through_the_cost_with_the_swap_deltas_as_weights(metric):
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss(
        "lambdarank", metric=metric, truncation=None, normalise=False, reduction="sum"
    )
    found, _ = gradient(loss, scores, labels, OFFSETS)
    cost = pair_cost(scores, labels, swap_weights(PARSED[metric]))
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)
    assert np.abs(found).max() > 1e-3


@pytest.mark.parametrize("normalise", [True, False])
def test_lambdarank_is_minus_the_naive_lambdas(normalise):
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("lambdarank", truncation=3, normalise=normalise, reduction="sum")
    found, _ = gradient(loss, scores, labels, OFFSETS)
    z = scores.detach().numpy()
    for rows in queries():
        weights = pair_weights(
            PARSED["ndcg"], labels[rows], stable_order(z[rows].tolist()), truncation=3
        )
        naive = forces_of_weights(z[rows], weights, normalise=normalise).forces
        np.testing.assert_allclose(found[rows], -naive, **CLOSE)


def test_yetiloss_without_noise_is_autograd_through_the_cost_of_neighbours():
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("yetiloss", noise="none", neighbours=1, reduction="sum")
    found, _ = gradient(loss, scores, labels, OFFSETS)
    cost = pair_cost(scores, labels, swap_weights(PARSED["ndcg"], neighbours=1))
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)


def test_yetiloss_is_autograd_through_the_cost_with_the_weights_of_the_same_draws():
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("yetiloss", neighbours=1, permutations=3, seed=5, reduction="sum")
    found, _ = gradient(loss, scores, labels, OFFSETS, iteration=2)
    weights = noisy_weights(
        PARSED["ndcg"], lambda query, n: same_draws(LOGISTIC, n, query, 3, 5, 2), neighbours=1
    )
    cost = pair_cost(scores, labels, weights)
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)


def listwise(name, own, labels):
    if name == "regression":
        return ((labels - own) ** 2).sum() / 2
    if name == "queryrmse":
        rest = labels - own
        return ((rest - rest.mean()) ** 2).sum() / 2
    if name == "logistic":
        return nn.functional.binary_cross_entropy_with_logits(own, labels, reduction="sum")
    targets = torch.softmax(labels, 0) if name == "listnet" else labels
    return -(targets * torch.log_softmax(own, 0)).sum()


@pytest.mark.parametrize("name", ["softmax", "listnet", "regression", "queryrmse", "logistic"])
def test_an_objective_of_lists_is_autograd_through_its_cost_and_has_its_value(name):
    labels, scores = make_labels(1 if name == "logistic" else 4), make_scores()
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    loss = ranking_loss(name, reduction="sum")
    found, value = gradient(loss, scores, labels, OFFSETS, weights=weights)
    cost = sum(
        weight * listwise(name, scores[rows], torch.tensor(labels[rows]))
        for rows, weight in zip(queries(), weights, strict=True)
    )
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)
    assert value == pytest.approx(cost.item(), rel=1e-12)


def test_xendcg_is_minus_the_terms_of_its_three_orders_at_the_same_draws():
    labels, scores = make_labels(), make_scores()
    found, _ = gradient(
        ranking_loss("xendcg", seed=3, reduction="sum"), scores, labels, OFFSETS, iteration=4
    )
    z = scores.detach().numpy()
    for query, rows in enumerate(queries()):
        n = GROUP[query]
        if n == 1:
            assert found[rows] == 0
            continue
        key = np.uint64(mix(iteration_key(3, 4) ^ np.uint64(mix(np.uint64(query)))))
        with np.errstate(over="ignore"):
            drawn = [int(mix(key + np.uint64(i))) >> 12 for i in range(n)]
        first, second, third, _ = xendcg_terms(z[rows], labels[rows], np.array(drawn) * 2.0**-52)
        # The library's e^x is a series of its own, to within two units of the last place.
        np.testing.assert_allclose(found[rows], first + second + third, rtol=1e-9, atol=1e-12)


PAIRS = [(0, 1), (1, 0, 0.3), (2, 0, 0.8), (9, 12), (10, 12, 0.5), (21, 24), (24, 22, 0.9)]


def preference_cost(scores, weights_of_pair=lambda i, j: 1.0):
    total = scores.new_zeros(())
    for i, j, *chance in PAIRS:
        wanted = chance[0] if chance else 1.0
        away = scores[i] - scores[j]
        softplus = nn.functional.softplus
        cost = wanted * softplus(-away) + (1 - wanted) * softplus(away)
        total = total + weights_of_pair(i, j) * cost
    return total


def test_preferences_are_autograd_through_the_cross_entropy_of_their_probabilities():
    scores = make_scores()
    loss = ranking_loss("ranknet", reduction="sum")
    found, value = gradient(loss, scores, offsets=OFFSETS, preferences=PAIRS)
    cost = preference_cost(scores)
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)
    assert value == pytest.approx(cost.item(), rel=1e-12)


def test_preferences_of_lambdarank_are_weighted_by_the_discounts_of_their_ranks():
    scores = make_scores()
    found, _ = gradient(
        ranking_loss("lambdarank", truncation=None, reduction="sum"), scores, offsets=OFFSETS,
        preferences=PAIRS,
    )  # fmt: skip
    discount = {}
    for rows in queries():
        for at, row in enumerate(stable_order(scores[rows].tolist()), start=1):
            discount[rows.start + row] = 1 / np.log2(1 + at)
    cost = preference_cost(scores, lambda i, j: abs(discount[i] - discount[j]))
    np.testing.assert_allclose(found, autograd(cost, scores), **CLOSE)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_gradient_of_any_objective_is_minus_its_forces(name):
    labels, scores = make_labels(1), make_scores()
    found, _ = gradient(ranking_loss(name, seed=7), scores, labels, OFFSETS, iteration=3)
    forces, _ = compute(
        OBJECTIVES[name](), labels, scores.detach().numpy(), GROUP, seed=7, iteration=3
    )
    np.testing.assert_array_equal(found, -(1 / len(GROUP)) * forces)


def test_a_mean_is_the_sum_by_the_number_of_queries():
    labels, scores = make_labels(), make_scores()
    total, value = gradient(ranking_loss("ranknet", reduction="sum"), scores, labels, OFFSETS)
    mean, mean_value = gradient(ranking_loss("ranknet"), scores, labels, OFFSETS)
    np.testing.assert_allclose(mean, total / len(GROUP), rtol=1e-15)
    assert mean_value == pytest.approx(value / len(GROUP), rel=1e-15)


def test_queries_may_be_given_by_offsets_group_or_qid_and_as_tensors():
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("lambdarank")
    expected, _ = gradient(loss, scores, labels, OFFSETS)
    qid = np.repeat(np.arange(len(GROUP)), GROUP)
    for given in (
        {"group": GROUP}, {"qid": qid}, {"offsets": torch.tensor(OFFSETS)},
        {"qid": torch.tensor(qid)},
    ):  # fmt: skip
        found, _ = gradient(loss, scores, torch.tensor(labels), **given)
        np.testing.assert_array_equal(found, expected)


def test_a_batch_has_the_gradients_that_its_queries_have_alone():
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("lambdarank", reduction="sum")
    together, _ = gradient(loss, scores, labels, OFFSETS)
    for rows, n in zip(queries(), GROUP, strict=True):
        own = scores[rows].detach().requires_grad_()
        alone, _ = gradient(loss, own, labels[rows], [0, n])
        np.testing.assert_allclose(together[rows], alone, rtol=1e-12)


def test_scores_of_float32_and_of_a_column_have_gradients_of_their_own_kind():
    labels = make_labels()
    loss = ranking_loss("ranknet")
    single = make_scores(dtype=torch.float32)
    expected, _ = gradient(loss, make_scores(), labels, OFFSETS)
    found, _ = gradient(loss, single, labels, OFFSETS)
    assert found.dtype == np.float32
    # Scores and gradients are rounded to float32.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    column = make_scores().detach()[:, None].requires_grad_()
    np.testing.assert_array_equal(gradient(loss, column, labels, OFFSETS)[0][:, 0], expected)


def test_where_there_is_no_cost_the_value_is_minus_force_times_score():
    labels, scores = make_labels(), make_scores()
    found, value = gradient(ranking_loss("lambdarank"), scores, labels, OFFSETS)
    assert value == pytest.approx(float(found @ scores.detach().numpy()), rel=1e-12)
    for loss in (ranking_loss("ranknet", cost=False), ranking_loss("ranknet", truncation=3)):
        found, value = gradient(loss, scores, labels, OFFSETS)
        assert value == pytest.approx(float(found @ scores.detach().numpy()), rel=1e-12)


def test_calls_are_counted_so_that_noise_is_drawn_anew():
    labels, scores = make_labels(), make_scores()
    loss = ranking_loss("yetiloss")
    first, second = (gradient(loss, scores, labels, OFFSETS)[0] for _ in range(2))
    assert (first != second).any()
    numbered = [
        gradient(loss, scores, labels, OFFSETS, iteration=number)[0] for number in (0, 1, 0)
    ]
    for found, expected in zip(numbered, (first, second, first), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_module_of_any_kind_learns_to_rank_by_it():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    features = torch.tensor(rng.normal(size=(60, 5)), dtype=torch.float32)
    labels = (features[:, 0] > 0).numpy() * 1.0
    module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    loss, step = ranking_loss("ranknet"), torch.optim.SGD(module.parameters(), lr=0.1)
    values = []
    for _ in range(30):
        step.zero_grad()
        value = loss(module(features), labels, group=[20, 40])
        value.backward()
        step.step()
        values.append(value.item())
    assert values[-1] < 0.3 * values[0]


def test_a_query_of_ten_thousand_documents_has_no_pair_in_memory():
    n = 10_000
    rng = np.random.default_rng(0)
    labels, drawn = rng.integers(0, 5, size=n), rng.normal(size=n)
    scores = torch.tensor(drawn, dtype=torch.float32, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.append(t.numel()) or t, lambda t: t
    ):
        value = ranking_loss("ranknet")(scores, labels, [0, n])
    value.backward()
    assert sum(saved) == n
    forces, _ = compute(OBJECTIVES["rankmart"](), labels, scores.detach().numpy())
    np.testing.assert_array_equal(scores.grad.numpy(), (-forces).astype(np.float32))


def test_queries_without_weight_leave_a_loss_of_zero():
    scores = make_scores()
    found, value = gradient(
        ranking_loss("ranknet"), scores, make_labels(), OFFSETS, weights=[0.0] * 4
    )
    assert value == 0
    assert not found.any()


def test_a_second_derivative_is_refused():
    scores = make_scores()
    value = ranking_loss("ranknet")(scores, make_labels(), OFFSETS)
    (first,) = torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"offsets": None}, "exactly one of offsets, group and qid"),
        ({"group": GROUP}, "Got 2 of them"),
        ({"offsets": [0, 7]}, "offsets must rise from 0 to the number of scores, 25. Got 0 to 7."),
        ({"offsets": []}, "offsets must rise"),
        ({"labels": None}, "labels must be given, one per document, or preferences"),
        ({"labels": [1, 0]}, "labels must be one per score, 25. Got 2"),
        ({"scores": torch.zeros(25, dtype=torch.int64)}, "scores must be a tensor of floats"),
        ({"scores": np.zeros(25)}, "scores must be a tensor of floats. Got ndarray"),
        ({"scores": torch.zeros(5, 5)}, r"Got \(5, 5\)"),
        ({"scores": torch.full((25,), torch.nan)}, "every score must be finite. Got nan at row 0"),
        ({"preferences": [(0, 24)]}, "documents of one query"),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(change, problem):
    given = {"scores": make_scores(), "labels": make_labels(), "offsets": OFFSETS, **change}
    with pytest.raises((DataError, ParameterError), match=problem):
        ranking_loss("ranknet")(**given)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"objective": "lambdrank"}, "did you mean"),
        ({"objective": "ranknet", "metrik": "map"}, "a parameter of rankmart"),
        ({"reduction": "max"}, "reduction must be one of mean, sum"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_what_is_wrong_with_a_loss_is_said(named, problem):
    with pytest.raises(ParameterError, match=problem):
        ranking_loss(**named)


def test_a_loss_takes_an_objective_and_shows_it():
    objective = OBJECTIVES["yetirank"](decay=0.5)
    loss = ranking_loss(objective, permutations=2)
    assert isinstance(loss, RankingLoss)
    assert loss.objective.decay == 0.5
    assert "permutations=2" in repr(loss)

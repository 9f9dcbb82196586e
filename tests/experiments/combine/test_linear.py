"""A linear LambdaRank on scores, held to the direct minimum of its cost and to the exact sweep."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from objectives.naive_objectives import pair_cost, pair_weights, stable_order
from rankgrove import Dataset, Ranker, evaluate, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.combine.combine import combine, combine_two
from rankgrove.experiments.combine.linear import centre, linear_steps
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.registry import make_objective

METRICS = ["ndcg@3", "dcg", "map(relevant>=2)", "mrr(relevant>=2)", "err", "expdcg"]


def make_scores(n_queries, n_rankers=2, seed=0, size=8):
    """Judged queries, and rankers that know the labels, each with noise of its own."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n_queries * size)
    data = Dataset.from_arrays(np.zeros((len(labels), 1)), labels, group=[size] * n_queries)
    noise = rng.normal(size=(n_rankers, len(labels))) * 2.0
    return data, labels * np.linspace(1.0, 0.5, n_rankers)[:, None] + noise


def value_of(data, scores, metric):
    return evaluate(data, scores, metric)[str(parse_metric(metric))]


def frozen_cost(data, columns, metric, weights_of_ranking):
    """The cost of weights, its pairs weighed by the ranking of some weights: from the formulas."""
    parts = []
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        labels, rows = data.labels[start:end].tolist(), columns[start:end]
        order = stable_order(rows @ weights_of_ranking)
        parts.append((rows, pair_weights(parse_metric(metric), labels, order)))
    return lambda w: sum(pair_cost(rows @ w, pairs, 1.0) for rows, pairs in parts)


def steps_of(data, columns, metric):
    objective = make_objective("lambdamart", metric=metric, truncation=None, normalise=False)
    return list(linear_steps(columns, objective.prepare(data), np.eye(columns.shape[1])[0]))


@pytest.mark.parametrize("metric", METRICS)
def test_each_step_goes_down_the_cost_of_the_ranking_at_hand(metric):
    data, scores = make_scores(6, 3, seed=2)
    columns = centre(scores.T, data)
    before, after = steps_of(data, columns, metric)[:2]
    cost = frozen_cost(data, columns, metric, before)
    assert cost(after) < cost(before)
    slope = approx_fprime(before, cost, 1e-6)
    # Where the slope is 0 there is no step: it is a matrix times the slope, and no more.
    assert slope @ (after - before) < -0.1 * np.linalg.norm(slope) * np.linalg.norm(after - before)


@pytest.mark.parametrize("metric", METRICS)
def test_steps_end_where_a_direct_search_finds_the_minimum_of_the_same_cost(metric):
    data, scores = make_scores(30, 3, seed=2)
    columns = centre(scores.T, data)
    last = steps_of(data, columns, metric)[-1]
    direct = minimize(frozen_cost(data, columns, metric, last), np.zeros(3), method="BFGS").x
    # Documents may trade ranks back and forth at the end, which moves the cost a little.
    assert last == pytest.approx(direct, rel=0.05, abs=0.05)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(2))
def test_two_rankers_are_combined_nearly_as_well_as_by_the_exact_sweep(metric, seed):
    data, scores = make_scores(200, 2, seed)
    exact = combine_two(data, *scores, metric)
    linear = combine(data, {"a": scores[0], "b": scores[1]}, metric, method="linear")
    assert max(linear.values.values()) <= linear.value <= exact.value + 1e-12
    gained = exact.value - max(exact.first_value, exact.second_value)
    assert linear.value >= exact.value - 0.5 * gained


def test_scores_and_weights_are_those_of_the_value():
    data, scores = make_scores(60, 4)
    found = combine(
        data, dict(zip("abcd", scores, strict=True)), "map(relevant>=2)", method="linear"
    )
    weights = np.array(list(found.weights.values()))
    assert weights.sum() == pytest.approx(1.0)
    assert np.array_equal(found.scores, weights @ scores)
    assert value_of(data, found.scores, "map(relevant>=2)") == found.value


def test_a_ranker_that_is_wrong_has_a_negative_weight_and_one_that_knows_nothing_none():
    data, (good, bad) = make_scores(100, 2)
    flat = np.repeat(np.arange(100.0), 8)
    found = combine(data, {"good": good, "bad": -bad, "flat": flat}, "ndcg@5", method="linear")
    assert found.weights["good"] + found.weights["bad"] == pytest.approx(1.0)
    assert found.weights["bad"] < -0.05
    assert found.weights["flat"] == 0.0
    turned = combine(data, {"good": -good, "bad": -bad}, "ndcg@5", method="linear")
    assert sum(turned.weights.values()) == pytest.approx(-1.0)
    assert turned.value > max(turned.values.values())


def test_scale_and_shift_of_scores_do_not_matter():
    data, (a, b) = make_scores(60)
    plain = combine(data, {"a": a, "b": b}, method="linear")
    other = combine(data, {"a": 1e3 * a + 7, "b": 1e-3 * b}, method="linear")
    assert other.value == plain.value
    ratio = plain.weights["a"] / plain.weights["b"]
    assert other.weights["a"] / other.weights["b"] == pytest.approx(1e-6 * ratio)


def test_rankers_that_are_perfect_or_the_same_end_well():
    data, (a, _) = make_scores(20)
    perfect = data.labels.astype(float)
    assert combine(data, {"p": perfect, "a": a}, method="linear").value == 1.0
    same = combine(data, {"a": a, "b": a.copy()}, method="linear")
    assert same.value == value_of(data, a, "ndcg@10")


@pytest.mark.parametrize("metric", ["ndcg@5", "err"])
def test_bits_are_the_same_for_any_number_of_threads(metric):
    data, scores = make_scores(300, 3)
    named = dict(zip("abc", scores, strict=True))
    one, two = (combine(data, named, metric, method="linear", n_jobs=n) for n in (1, 2))
    assert one.weights == two.weights


def test_models_become_one_model_that_scores_as_the_combination_does():
    data = make_web_search(60, 16, mean_documents=8)
    models = {n: Ranker(n_estimators=int(n), min_samples_leaf=2).fit(data).model_ for n in "248"}
    found = combine(data, models, "map(relevant>=2)", method="linear")
    assert found.model.n_trees == 14
    assert found.model.predict(data) == pytest.approx(found.scores, abs=1e-9)


def test_what_lambdarank_does_not_take_is_refused():
    data, (a, b) = make_scores(5)
    with pytest.raises(DataError, match="which are relevant"):
        combine(data, {"a": a, "b": b}, "mrr", method="linear")
    with pytest.raises(ParameterError, match="a parameter of lambdamart must be one of"):
        combine(data, {"a": a, "b": b}, method="linear", parameters={"n_estimators": 3})

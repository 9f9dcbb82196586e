"""What each kind of model adds to an average, found on held-out folds."""

import itertools

import numpy as np
import pytest

from rankgrove import evaluate, make_web_search
from rankgrove.boosting.parameters import Parameters
from rankgrove.metrics.spec import parse_metric
from rankgrove.model.members import centred, spread_of, standardised
from rankgrove.training.mixing import (
    FoldData,
    choose_weights,
    hold_out,
    select,
    values_of,
)
from rankgrove.training.recipe import Kind
from rankgrove.training.trees import start_trees

METRIC = parse_metric("ndcg@10")


@pytest.fixture(scope="module")
def data():
    return make_web_search(40, 16, mean_documents=10, seed=3)


def kind(name, **options):
    return Kind(name, Parameters(objective=name, **options))


def test_scores_are_centred_by_query_and_have_spread_1(data):
    scores = np.random.default_rng(0).normal(5, 3, data.n_documents)
    found = standardised(scores, data.offsets)
    for first, last in itertools.pairwise(data.offsets):
        assert found[first:last].mean() == pytest.approx(0, abs=1e-12)
        own = scores[first:last] - scores[first:last].mean()
        np.testing.assert_allclose(centred(scores, data.offsets)[first:last], own)
    assert spread_of(found, data.offsets) == pytest.approx(1)
    assert not standardised(np.repeat(1.0, data.n_documents), data.offsets).any()


def test_every_query_is_held_out_once_and_scored_in_its_place(data):
    folds = FoldData(data, 0)
    assert sorted(np.concatenate(folds.held_out)) == list(range(data.n_queries))
    rows = [np.arange(test.n_documents) + 1000.0 * n for n, (_, test) in enumerate(folds.parts)]
    joined = folds.joined(rows)
    for n, queries in enumerate(folds.held_out):
        place = 0
        for query in queries:
            own = joined[data.offsets[query] : data.offsets[query + 1]]
            np.testing.assert_array_equal(own, 1000.0 * n + place + np.arange(len(own)))
            place += len(own)


def test_folds_give_what_runs_on_each_fold_give(data):
    folds = FoldData(data, 0)
    found = hold_out(folds, kind("queryrmse", n_estimators=4), None)
    parts = []
    for train, test in folds.parts:
        parameters = Parameters(objective="queryrmse", n_estimators=4)
        model = start_trees(train, {}, parameters).run().make_model()
        parts.append(standardised(model.predict(test), test.offsets))
    assert found.n_steps == 4
    np.testing.assert_allclose(found.scores, folds.joined(parts), rtol=1e-12)
    assert found.mean == pytest.approx(evaluate(data, found.scores, ["ndcg@10"])["ndcg@10"])


def test_the_number_of_trees_is_best_in_the_mean_over_folds(data):
    folds = FoldData(data, 0)
    rounds, chosen = 5, kind("queryrmse", early_stopping_rounds=5, learning_rate=0.5)
    found = hold_out(folds, chosen, None)
    runs = folds.start(Parameters(objective="queryrmse", learning_rate=0.5, n_estimators=60), None)
    curves = np.array([run.run().validation.watched for run in runs])
    weights = [test.n_queries for _, test in folds.parts]
    mean = np.average(curves, axis=0, weights=weights)
    stop = next(t for t in range(len(mean)) if t - mean[: t + 1].argmax() >= rounds)
    assert found.n_steps == mean[: stop + 1].argmax() + 1


def test_a_kind_that_fails_gets_no_weight_and_equals_share(data):
    rng = np.random.default_rng(1)
    truth = data.labels.astype(float)
    noisy = [standardised(truth + rng.normal(0, 1.5, len(truth)), data.offsets) for _ in range(2)]
    candidates = {"a": noisy[0], "b": noisy[1], "noise": rng.normal(0, 1, len(truth))}
    candidates["upside down"] = -noisy[0]
    shares = choose_weights(
        candidates, lambda scores: values_of(data, scores, METRIC, None), data.query_weights
    )
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["upside down"] == 0
    assert shares["noise"] < 0.1
    assert min(shares["a"], shares["b"]) > 0.25


def naive_search(values, weights, n_candidates, n_additions=12):
    """Greedy forward selection with replacement, straight from its description."""
    chosen, best = [], None
    for _ in range(n_additions):
        means = []
        for added in range(n_candidates):
            own = values(tuple(sorted([*chosen, added])))
            counted = ~np.isnan(own)
            means.append(np.average(own[counted], weights=weights[counted]))
        chosen.append(int(np.argmax(means)))
        if best is None or max(means) > best[0] + 1e-12:
            best = max(means), list(chosen)
    return np.bincount(best[1], minlength=n_candidates)


def test_weights_are_those_of_the_naive_search_on_each_draw(data):
    rng = np.random.default_rng(2)
    truth = data.labels.astype(float)
    scores = [standardised(truth + rng.normal(0, s, len(truth)), data.offsets) for s in (1, 2, 3)]
    known = {}

    def values(members):
        if members not in known:
            known[members] = values_of(data, sum(scores[m] for m in members), METRIC, None)
        return known[members]

    generator, n = np.random.default_rng(5), data.n_queries
    shares = np.zeros(3)
    for _ in range(50):
        drawn = np.bincount(generator.integers(n, size=n), minlength=n)
        counts = naive_search(values, drawn * data.query_weights, 3)
        shares += counts / counts.sum() / 50
    shares[shares < 0.05] = 0
    found = choose_weights(
        dict(zip("abc", scores, strict=True)),
        lambda own: values_of(data, own, METRIC, None), data.query_weights, seed=5,
    )  # fmt: skip
    np.testing.assert_allclose(list(found.values()), shares / shares.sum(), atol=1e-9)


def test_select_has_the_same_bits_for_any_number_of_threads(data):
    kinds = [kind("queryrmse", n_estimators=3), kind("yetirank", n_estimators=3)]
    found = []
    for n_jobs in (1, 2, 4):
        held_out, shares = select(FoldData(data, 0), kinds, METRIC, n_jobs=n_jobs)
        found.append(([one.scores.tobytes() for one in held_out.values()], shares))
    assert found[0] == found[1] == found[2]

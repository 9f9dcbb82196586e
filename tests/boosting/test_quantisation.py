"""Whole-number sums cost nothing: trees are those of an exhaustive search in float64."""

import numpy as np
import pytest

from boosting.naive_boosting import Rules, boost, codes_of
from boosting.samples import make_data, train
from rankgrove import evaluate
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset


def compare(data, n_trees=6, max_leaves=12, min_samples_leaf=1, l2=0.0, seed=0):
    options = {
        "n_estimators": n_trees, "max_leaves": max_leaves, "min_samples_leaf": min_samples_leaf,
        "l2": l2, "max_bins": 31, "random_state": seed, "objective": "lambdamart",
    }  # fmt: skip
    run = train(data, **options)
    compute = Parameters(**options).make_objective().prepare(data, 1).compute
    rules = Rules(max_leaves, min_samples_leaf, l2=l2)
    codes = codes_of(run.trainer.matrix, data.n_features)
    scores, trees = boost(codes, run.trainer.bins, compute, n_trees, 0.1, rules)
    return run, scores, trees


def gains_agree(run, trees, rel=1e-6):
    """Trees gain as much as the best ones in float64, up to a millionth."""
    for tree, cuts in zip(run.trees, trees, strict=True):
        assert len(tree.gain) == len(cuts)
        assert tree.gain.sum() == pytest.approx(sum(cut.gain for cut in cuts), rel=rel)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("min_samples_leaf", [1, 20])
@pytest.mark.parametrize("l2", [0.0, 3.0])
def test_trees_of_a_thousand_documents_are_those_of_exact_sums(missing, min_samples_leaf, l2):
    data = make_data(n_queries=100, n_documents=10, n_features=4, missing=missing)
    run, scores, trees = compare(data, min_samples_leaf=min_samples_leaf, l2=l2)
    gains_agree(run, trees)
    # Equal up to the order of additions: every document is in the same leaf of every tree.
    assert np.abs(run.scores - scores).max() < 1e-12


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("min_samples_leaf", [1, 20])
@pytest.mark.parametrize("heavy", [1e3, 1e6])
def test_a_few_queries_that_weigh_a_million_cost_no_quality(missing, min_samples_leaf, heavy):
    light = make_data(n_queries=100, n_documents=10, n_features=4, missing=missing)
    weights = np.ones(100)
    weights[[3, 50]] = heavy
    data = Dataset.from_arrays(light.features, light.labels, group=light.group, weights=weights)
    differences = []
    for seed in range(5):
        run, scores, trees = compare(data, min_samples_leaf=min_samples_leaf, seed=seed)
        # The light documents are a few units each, and some of their splits are others.
        gains_agree(run, trees, rel=1e-5)
        for judged in (light, data):
            own, exact = (evaluate(judged, s, "ndcg@10")["ndcg@10"] for s in (run.scores, scores))
            differences.append(own - exact)
    assert np.mean(differences) == pytest.approx(0, abs=1e-3)
    assert np.abs(differences).max() < 1e-2


def test_trees_of_many_documents_are_those_of_exact_sums():
    data = make_data(n_queries=1000, n_documents=20, n_features=3)
    run, scores, trees = compare(data, n_trees=3, max_leaves=31, min_samples_leaf=20)
    gains_agree(run, trees)
    assert np.abs(run.scores - scores).max() < 1e-12

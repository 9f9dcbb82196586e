"""The same data, parameters and seed give the same model, bit for bit, on any number of threads."""

from functools import partial

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data, train
from rankgrove import Model, make_web_search
from rankgrove.boosting import loop
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.trees.grower import Grower

CASES = {
    "leafwise": ({}, {}),
    "depthwise": ({"grower": "depthwise", "max_depth": 3}, {}),
    "query sampling": ({"subsample": 0.4}, {}),
    "gradient sampling": ({"subsample": 0.4, "sampling": "gradient"}, {}),
    "colsample": ({"colsample": 0.5}, {}),
    "least squares": ({"split_gain": "least_squares"}, {}),
    "monotone": ({"monotone": {0: 1, 1: -1}}, {}),
    "categorical": ({"categorical": [5]}, {"n_categories": 9}),
    "missing values": ({}, {"missing": 0.3}),
    "missing categories": ({"categorical": [5]}, {"n_categories": 9, "missing": 0.3}),
    "weights": ({}, {"weighted": True}),
    "base scores": ({}, {"based": True}),
    "l2 and few bins": ({"l2": 1.0, "max_bins": 7, "min_child_weight": 0.1}, {}),
    "three blocks of features": ({}, {"n_features": 40}),
    "all at once": (
        {
            "subsample": 0.7,
            "sampling": "gradient",
            "colsample": 0.8,
            "monotone": {0: 1},
            "categorical": [5],
            "random_state": 11,
        },
        {"n_categories": 9, "missing": 0.2, "weighted": True, "based": True},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_threads_and_repetition_change_no_bit_and_scores_are_those_of_the_model(case):
    parameters, columns = CASES[case]
    data, valid = make_data(**columns), make_data(seed=1, **columns)
    runs = [train(data, {"valid": valid}, n_jobs=n_jobs, **parameters) for n_jobs in (1, 1, 2, 4)]
    first = runs[0]
    assert len(first.trees) == 6
    assert max(tree.n_leaves for tree in first.trees) > 4
    for other in runs[1:]:
        assert bits(other) == bits(first)
        assert other.scores.tobytes() == first.scores.tobytes()
        assert other.history == first.history
    model = first.make_model(6)
    assert model.predict(data).tobytes() == first.scores.tobytes()
    assert model.predict(valid).tobytes() == first.trainer.valid_scores()["valid"].tobytes()


# One or two of each way to come to forces, by the loops that compute them.
FAMILIES = {
    "yetirank": {"objective": "yetirank"},
    "yetiloss": {"objective": "yetiloss", "metric": "ndcg@5"},
    "yetiloss, neighbours": {
        "objective": "yetiloss",
        "metric": "map(relevant>=2)",
        "neighbours": 1,
    },
    "lambdamart": {"objective": "lambdamart"},
    "lambdamart, a cascade": {"objective": "lambdamart", "metric": "err", "normalise": False},
    "rankmart": {"objective": "rankmart", "leaf": "newton_cross_leaf"},
    "stochasticrank": {"objective": "stochasticrank", "temperature": 1e4, "shrink_rate": 0.1},
    "queryrmse": {"objective": "queryrmse"},
    "xendcg": {"objective": "xendcg"},
    "listnet": {"objective": "listnet", "leaf_steps": 2},
    "regression": {"objective": "regression", "leaf": "mean"},
}
GROWERS = {
    "leafwise": {"max_leaves": 8},
    "depthwise": {"max_leaves": 8, "max_depth": 3},
    "oblivious": {"max_leaves": "auto", "max_depth": 3},
}


def assert_same_on_all_threads(data, **parameters):
    runs = [train(data, n_jobs=n_jobs, **parameters) for n_jobs in (1, 2, 4)]
    assert max(tree.n_leaves for tree in runs[0].trees) > 4
    for other in runs[1:]:
        assert bits(other) == bits(runs[0])
        assert other.scores.tobytes() == runs[0].scores.tobytes()


@pytest.mark.parametrize("grower", GROWERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_objective_on_each_kind_of_tree_has_the_same_bits_on_any_number_of_threads(
    family, grower
):
    parameters = {"n_estimators": 3, **FAMILIES[family], "grower": grower, **GROWERS[grower]}
    assert_same_on_all_threads(make_data(missing=0.1), **parameters)


def test_what_is_trained_by_default_has_the_same_bits_on_any_number_of_threads(large):
    data = make_data(missing=0.1)
    defaults = {name: getattr(Parameters(), name) for name in QUICK}
    plan = Parameters().resolve(data.n_documents)
    assert (plan.objective.name, plan.trees.grower) == ("yetirank", "oblivious")
    for some in (data, large):
        assert_same_on_all_threads(some, **{**defaults, "n_estimators": 4})


@pytest.fixture(scope="module")
def large():
    """Enough rows for nodes that several threads divide, sum and score in parts."""
    rng = np.random.default_rng(5)
    n = 60_000
    features = rng.normal(size=(n, 3)).astype(np.float32)
    features[rng.random(n) < 0.1, 2] = np.nan
    signal = features[:, 0] + features[:, 1] ** 2 + rng.normal(size=n)
    return Dataset.from_arrays(features, np.digitize(signal, [1, 2, 4]), group=[100] * 600)


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_leaves": 255, "min_samples_leaf": 20},
        {"max_leaves": 31, "subsample": 0.8, "sampling": "gradient", "monotone": {0: 1}},
        {"max_leaves": 31, "subsample": 0.8, "split_gain": "least_squares"},
    ],
    ids=str,
)
def test_large_data_give_the_same_bits_on_any_number_of_threads(large, parameters):
    runs = [train(large, n_jobs=n, **{**parameters, "n_estimators": 3}) for n in (1, 2, 4)]
    assert all(tree.n_leaves == parameters["max_leaves"] for tree in runs[0].trees)
    for other in runs[1:]:
        assert bits(other) == bits(runs[0])
        assert other.scores.tobytes() == runs[0].scores.tobytes()
    assert runs[0].make_model(3).predict(large).tobytes() == runs[0].scores.tobytes()


def test_seed_decides_what_is_drawn():
    data = make_data()
    one, same, other = (train(data, subsample=0.5, random_state=seed) for seed in (1, 1, 2))
    assert bits(one) == bits(same) != bits(other)


def test_most_leaves_that_documents_allow_need_no_memory_for_more():
    data = make_data()
    enough = train(data, max_leaves=data.n_documents // 5)
    many = train(data, max_leaves=1_000_000_000)
    assert bits(many) == bits(enough)
    deep = train(data, max_leaves=1_000_000_000, max_depth=3, min_samples_leaf=1)
    assert max(tree.n_leaves for tree in deep.trees) <= 8


def test_model_of_a_run_shares_no_memory_that_the_run_still_writes():
    kept = []

    def keep(training):
        kept.append(training.make_model(training.n_steps))

    data = make_data()
    last = train(data, callbacks=[keep])
    assert [model.n_trees for model in kept] == [1, 2, 3, 4, 5, 6]
    for model in kept:
        assert isinstance(model, Model)
        assert bits(model.ensemble) == bits(last.trainer.ensemble.prefix(model.n_trees))


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4, 0.46])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_tree_does_not_depend_on_which_histograms_are_kept(monkeypatch, seed, share):
    # Leaves so large that nodes are searched again with their rows counted, the root among them.
    data = make_web_search(12, 16, mean_documents=18, seed=seed)
    least = int(share * data.n_documents)
    runs = []
    for kept_rows in (512, 0):
        monkeypatch.setattr(loop, "Grower", partial(Grower, kept_rows=kept_rows))
        runs.append(train(data, n_estimators=3, min_samples_leaf=least))
    assert bits(runs[0]) == bits(runs[1])
    assert runs[0].trees[0].n_leaves > 1

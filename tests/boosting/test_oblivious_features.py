"""Oblivious trees of monotone and categorical features: trained, scored, explained, saved."""

import numpy as np
import pytest

from boosting.samples import bits, make_data, train
from boosting.test_constraints import bumpy_data, sweep
from rankgrove import Model, Ranker
from rankgrove.boosting.parameters import Parameters
from rankgrove.trees.ensemble import NO_SET
from rankgrove.trees.predict import PreparedEnsemble

SIZE = {"grower": "oblivious", "n_estimators": 12, "max_depth": 5, "min_samples_leaf": 1}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    "options",
    [{}, {"split_gain": "least_squares"}, {"leaf": "mean", "leaf_steps": 2}, {"subsample": 0.5}],
    ids=str,
)
def test_scores_of_oblivious_trees_are_monotone_in_a_constrained_feature(sign, missing, options):
    data = bumpy_data(n=600, missing=missing)
    size = {**SIZE, "learning_rate": 0.3, **options}
    run = train(data, **size, monotone={0: sign})
    model = run.make_model(run.n_steps)
    steps = np.diff(sweep(model, data, 0), axis=0) * sign
    assert steps.min() >= 0
    assert steps.max() > 0
    free = train(data, **size)
    steps = np.diff(sweep(free.make_model(free.n_steps), data, 0), axis=0)
    assert steps.min() < 0 < steps.max()


def test_a_constraint_in_the_direction_of_the_data_costs_oblivious_trees_little():
    data = make_data(n_queries=60, n_features=3)
    slopes = [np.corrcoef(column, data.labels)[0, 1] for column in data.features.T]
    best = int(np.argmax(np.abs(slopes)))
    sign = int(np.sign(slopes[best]))
    ends = [
        train(data, {"train": data}, **SIZE, monotone=monotone).history["train"]["ndcg@10"][-1]
        for monotone in ({}, {best: sign}, {best: -sign})
    ]
    assert ends[1] > ends[0] - 0.05
    assert ends[2] < ends[1] - 0.05


def category_data(seed=0):
    return make_data(seed=seed, n_queries=60, n_categories=9, missing=0.2)


def test_all_nodes_of_a_level_send_one_set_of_categories_left():
    run = train(category_data(), **SIZE, categorical=[5])
    n_sets = 0
    for tree in run.trees:
        nodes = [0]
        while nodes[0] >= 0:
            used = tree.category_set[nodes]
            assert len(set(tree.feature[nodes].tolist())) == 1
            if used[0] != NO_SET:
                assert len({tree.category_sets[own].tobytes() for own in used}) == 1
                n_sets += 1
            nodes = [child for at in nodes for child in (tree.left[at], tree.right[at])]
    assert n_sets > 3


def test_categories_rank_better_as_categories_than_as_numbers():
    data = category_data()
    ends = [
        train(data, {"train": data}, **SIZE, categorical=chosen, category_l2=1.0).history["train"]
        for chosen in ([], [5])
    ]
    assert ends[1]["ndcg@10"][-1] > ends[0]["ndcg@10"][-1]


@pytest.fixture(scope="module")
def model():
    run = train(category_data(), **SIZE, monotone={0: 1, 2: -1}, categorical=[5])
    return run.make_model(run.n_steps), run


def test_scores_are_those_of_training_by_bits_of_the_leaf_and_document_by_document(model):
    model, run = model
    data = category_data()
    assert model.predict(data).tobytes() == run.scores.tobytes()
    assert np.all(PreparedEnsemble(model.ensemble)._oblivious)
    alone = [model.predict(data.features[row : row + 1])[0] for row in range(20)]
    assert alone == run.scores[:20].tolist()
    unknown = data.features[:5].copy()
    unknown[:, 5] = 12345.0
    assert np.isfinite(model.predict(unknown)).all()


def test_contributions_add_up_to_the_scores(model):
    model, run = model
    data = category_data()
    shares = model.contributions(data.features)
    assert np.abs(shares.sum(axis=1) - run.scores).max() < 1e-9
    assert np.abs(shares[:, 5]).max() > 0.01


def test_a_model_that_is_saved_and_loaded_scores_the_same(model, tmp_path):
    model, run = model
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    assert loaded.predict(category_data()).tobytes() == run.scores.tobytes()


@pytest.mark.parametrize("named", [{"monotone": {0: 1}}, {"categorical": [5]}], ids=str)
def test_naming_a_feature_does_not_change_the_family_of_the_trees(named):
    plan, plain = Parameters(**named).resolve(1000), Parameters().resolve(1000)
    assert plan.trees == plain.trees
    assert Parameters(**named, max_leaves=31).resolve(1000).trees.grower == "leafwise"
    assert Parameters(**named, grower="leafwise").resolve(1000).trees.grower == "leafwise"


def test_any_number_of_threads_gives_the_same_bits():
    runs = [
        train(category_data(), n_jobs=n, **SIZE, monotone={0: 1}, categorical=[5])
        for n in (1, 2, 4)
    ]
    assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])


def test_default_ranker_takes_both_and_says_oblivious():
    data = category_data()
    ranker = Ranker(n_estimators=5, monotone={0: 1}, categorical=[5]).fit(data)
    assert np.all(PreparedEnsemble(ranker.model_.ensemble)._oblivious)
    assert ranker.model_.ensemble.category_sets.shape[0] > 0

"""Langevin boosting: normal noise in the forces, and a model that shrinks at each iteration."""

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data, train
from rankgrove import Ranker, evaluate
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.sampling import add_normal_noise
from rankgrove.data.shard import Shard
from rankgrove.errors import ParameterError

# Several chunks, the last one not full.
N_DRAWS = 150_000


# Queries of 100 documents.
SHARD = Shard.whole(np.arange(0, N_DRAWS + 1, 100))


def draw(scale=1.0, seed=0, iteration=0, shard=SHARD, n_jobs=1):
    noise = np.zeros(shard.n_documents)
    add_normal_noise(noise, shard, scale, seed, iteration, n_jobs)
    return noise


@pytest.mark.parametrize("scale", [1.0, 37.5])
def test_noise_is_normal_with_mean_0_and_the_given_deviation(scale):
    noise = draw(scale) / scale
    # Five standard errors of the first four moments of a normal number.
    root = np.sqrt(N_DRAWS)
    assert abs(noise.mean()) < 5 / root
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2) / root
    assert abs((noise**3).mean()) < 5 * np.sqrt(15) / root
    assert abs((noise**4).mean() - 3) < 5 * np.sqrt(96) / root
    # Neighbours, and places of different queries and chunks, have nothing to do with each other.
    for lag in (1, 2, 100, 1 << 14):
        assert abs((noise[lag:] * noise[:-lag]).mean()) < 5 / np.sqrt(N_DRAWS - lag)


def test_noise_is_added_to_what_is_there():
    forces = np.linspace(-3, 3, N_DRAWS)
    noisy = forces.copy()
    add_normal_noise(noisy, SHARD, 2.0, 1, 4)
    assert np.array_equal(noisy, forces + draw(2.0, 1, 4))


def test_noise_depends_on_seed_and_iteration_and_not_on_threads():
    first = draw()
    for n_jobs in (2, 3):
        assert np.array_equal(draw(n_jobs=n_jobs), first)
    for other in (draw(seed=1), draw(iteration=1)):
        assert abs((first * other).mean()) < 5 / np.sqrt(N_DRAWS)
        assert len(np.intersect1d(first, other)) < 10


@pytest.mark.parametrize(("rate", "temperature"), [(0.5, 100.0), (0.1, 1.0), (0.25, 1e6)])
def test_forces_of_a_tree_have_noise_of_the_scale_of_the_temperature(rate, temperature):
    data = make_data()
    run = train(
        data, n_estimators=1, learning_rate=rate, temperature=temperature, random_state=5, l2=3.0
    )
    forces, curvatures = np.empty((2, data.n_documents))
    Parameters(objective="lambdamart").make_objective().prepare(data, 1).compute(
        np.zeros(data.n_documents), 0, forces, curvatures
    )
    forces += draw(np.sqrt(2 / (rate * temperature)), 5, 0, data.shard)
    assert run.trees[0].n_leaves > 4
    for value in np.unique(run.scores):
        inside = run.scores == value
        expected = rate * forces[inside].sum() / (curvatures[inside].sum() + 3.0)
        # Sums in another order; with much noise they nearly cancel.
        assert value == pytest.approx(expected, rel=1e-9)


def test_noise_is_drawn_anew_for_each_tree_and_is_the_same_on_any_number_of_threads():
    data = make_data()
    options = {"temperature": 10.0, "shrink_rate": 0.3}
    runs = [train(data, n_jobs=n_jobs, **options) for n_jobs in (1, 2, 3)]
    for other in runs[1:]:
        assert bits(other) == bits(runs[0])
        assert other.scores.tobytes() == runs[0].scores.tobytes()
    assert bits(train(data, random_state=1, **options)) != bits(runs[0])
    assert bits(train(data, temperature=None)) == bits(train(data))
    # Without any signal but noise, trees of one noise would have the same splits.
    noise_only = train(data, temperature=1e-9)
    assert len({tree.threshold.tobytes() for tree in noise_only.trees}) == 6


CASES = {
    "plain": ({}, {}),
    "noise": ({"temperature": 50.0}, {}),
    "query sampling": ({"subsample": 0.5}, {}),
    "oblivious": ({"grower": "oblivious", "max_depth": 3}, {}),
    "start score": ({"objective": "regression"}, {}),
    "missing values": ({}, {"missing": 0.3}),
    "categories": ({"categorical": [5]}, {"n_categories": 7}),
    "base scores": ({}, {"based": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_scores_of_training_are_those_of_the_model_after_each_tree(case):
    parameters, columns = CASES[case]
    data, valid = make_data(**columns), make_data(seed=1, **columns)
    n_seen = 0

    def compare(training):
        nonlocal n_seen
        n_seen += 1
        model = training.make_model(training.n_steps)
        for part, scores in (
            (data, training.scores),
            (valid, training.trainer.valid_scores()["valid"]),
            (data, training.trainer.valid_scores()["train"]),
        ):
            # Products of powers against repeated products: some roundings a tree.
            error = np.abs(model.predict(part) - scores).max()
            assert error <= 1e-12 * np.abs(scores).max()

    train(
        data, {"valid": valid, "train": data}, callbacks=[compare], learning_rate=0.4,
        shrink_rate=0.7, n_estimators=8, **parameters,
    )  # fmt: skip
    assert n_seen == 8


def test_each_later_iteration_shrinks_a_tree_once_more():
    rate, shrink = 0.3, 0.5
    data = make_data()
    options = {"learning_rate": rate, "shrink_rate": shrink}
    whole = train(data, n_estimators=7, **options).trainer.ensemble
    for at in range(7):
        # The same tree, as it was when it was the last one.
        last = train(data, n_estimators=at + 1, **options).trainer.ensemble.tree(at)
        tree = whole.tree(at)
        assert np.array_equal(tree.feature, last.feature)
        assert np.array_equal(tree.threshold, last.threshold)
        expected = last.value * (1 - rate * shrink) ** (7 - 1 - at)
        assert tree.value == pytest.approx(expected, rel=1e-14)


def test_a_tree_follows_the_forces_at_the_scores_before_they_shrink():
    data = make_data()
    after = []

    def keep(training):
        after.append(training.scores.copy())

    run = train(data, callbacks=[keep], n_estimators=3, learning_rate=0.5, shrink_rate=0.5, l2=1.0)
    forces, curvatures = np.empty((2, data.n_documents))
    prepared = Parameters(objective="lambdamart").make_objective().prepare(data, 1)
    for at in (1, 2):
        prepared.compute(after[at - 1], at, forces, curvatures)
        step = after[at] - 0.75 * after[at - 1]
        for value in run.trees[at].value:
            inside = np.isclose(step, value, rtol=0, atol=1e-12)
            expected = 0.5 * forces[inside].sum() / (curvatures[inside].sum() + 1.0)
            assert value == pytest.approx(expected, rel=1e-8)


def test_no_shrinking_changes_no_bit():
    data = make_data()
    run = train(data, shrink_rate=0.0)
    assert bits(run) == bits(train(data))
    assert [tree.value.tobytes() for tree in run.trees] == [
        run.trainer.ensemble.tree(at).value.tobytes() for at in range(6)
    ]


@pytest.mark.parametrize("temperature", [None, 1000.0])
def test_model_that_early_stopping_keeps_has_the_metric_of_its_iteration(temperature):
    data, valid = make_data(), make_data(seed=1)
    options = {
        **QUICK, "n_estimators": 80, "learning_rate": 0.6, "shrink_rate": 0.4,
        "temperature": temperature, "early_stopping_rounds": 5,
    }  # fmt: skip
    ranker = Ranker(**options).fit(data, valid=valid)
    curve = ranker.history_["valid"]["ndcg@10"]
    best = ranker.best_iteration_
    assert 1 <= best == len(curve) - 5 < 75
    assert ranker.model_.n_trees == best
    found = evaluate(valid, ranker.predict(valid), "ndcg@10")["ndcg@10"]
    assert found == pytest.approx(curve[best - 1], rel=1e-12)
    assert curve[best - 1] == max(curve)
    # The prefix is not a prefix of the longer model: its trees have been shrunk less.
    run = train(data, {"valid": valid}, **options)
    assert len(run.trees) == best + 5
    assert bits(run.trainer.ensemble_of(best)) == bits(ranker.model_.ensemble)
    assert bits(run.trainer.ensemble_of(best)) != bits(run.trainer.ensemble.prefix(best))


def test_checkpoint_holds_the_model_as_it_was_and_going_on_from_it_is_refused(tmp_path):
    data = make_data()
    path = tmp_path / "checkpoint.safetensors"
    options = {**QUICK, "shrink_rate": 0.5, "temperature": 100.0}
    Ranker(**{**options, "n_estimators": 5}).fit(data, checkpoint=path, checkpoint_every=3)
    short = Ranker(**{**options, "n_estimators": 3}).fit(data)
    assert Ranker.load(path).predict(data).tobytes() == short.predict(data).tobytes()
    for earlier in (path, short.model_):
        with pytest.raises(ParameterError, match="shrink_rate must run in one go"):
            Ranker(**options).fit(data, resume=earlier)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learning_rate": 0.5, "shrink_rate": 2.0}, "shrink_rate must be below 1 / learning_rate"),
        ({"learning_rate": 0.1, "shrink_rate": 50.0}, r"1 / learning_rate, 10\. Got 50"),
        ({"shrink_rate": -0.1}, "shrink_rate must be a finite number 0 or more"),
        ({"shrink_rate": float("nan")}, "shrink_rate must be a finite number"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0"),
        ({"temperature": -1.0}, "temperature must be a finite number above 0"),
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        Parameters(**parameters)
    Parameters(learning_rate=0.5, shrink_rate=1.999, temperature=1e-3)

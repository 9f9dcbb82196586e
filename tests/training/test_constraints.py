"""Training under constraints: the bound holds for the model that is kept, or the run says so."""

import warnings

import numpy as np
import pytest

from boosting.samples import bits
from rankgrove import Dataset, Ranker, evaluate
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.model import Model
from rankgrove.training.constraints import Multipliers

QUICK = {"objective": "lambdamart", "n_estimators": 24, "max_leaves": 6, "min_samples_leaf": 5}
GOAL, OTHER = "ndcg@5", "ndcg@5 of clicks"


def make_problem(seed, n_queries=30, n_documents=10):
    """Two labels that want different rankings, by how much is drawn."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    features = rng.normal(size=(n, 4)).astype(np.float32)
    wanted = features[:, 0] + 0.5 * features[:, 1] + 0.5 * rng.normal(size=n)
    clicked = rng.uniform(-0.8, 0.8) * features[:, 0] + features[:, 2] + 0.5 * rng.normal(size=n)
    grades = [np.digitize(signal, [0.3, 1.0, 1.8]) for signal in (wanted, clicked)]
    return Dataset.from_arrays(
        features, grades[0], group=[n_documents] * n_queries, more_labels={"clicks": grades[1]}
    )


def fit(data, valid=None, **parameters):
    """A ranker and whether it warned that a bound is missed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranker = Ranker(**{**QUICK, "metric": GOAL, **parameters}).fit(data, valid=valid)
    return ranker, [str(w.message) for w in caught if "constraints" in str(w.message)]


def measured(ranker, data):
    return tuple(evaluate(data, ranker.predict(data), [GOAL, OTHER]).values())


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_on_the_training_data_or_the_run_says_that_it_cannot(seed):
    data = make_problem(seed)
    free, other = (measured(fit(data, metric=metric)[0], data) for metric in (GOAL, OTHER))
    # From far below what is possible to beyond what any of these runs reaches.
    share = np.random.default_rng(100 + seed).uniform(-0.2, 1.3)
    bound = min(0.999, free[1] + share * (other[1] - free[1]))
    ranker, told = fit(data, constraints={OTHER: bound})
    met = measured(ranker, data)[1] >= bound
    assert met or (len(told) == 1 and f"{OTHER} >= {bound:g}" in told[0])
    assert not (met and told)
    # What training for the other metric alone reaches with ease is not given up.
    assert met or share > 0.9
    assert ranker.model_.notes["constraints"] == ("met on all sets" if met else told[0])


@pytest.mark.parametrize("objective", ["lambdamart", "yetiloss", "stochasticrank"])
def test_a_bound_between_the_two_metrics_is_met_at_a_price(objective):
    data = make_problem(0)
    free, other = (
        measured(fit(data, metric=metric, objective=objective)[0], data) for metric in (GOAL, OTHER)
    )
    bound = (free[1] + other[1]) / 2
    assert free[1] < bound - 0.1
    ranker, told = fit(data, constraints={OTHER: bound}, objective=objective)
    goal, value = measured(ranker, data)
    assert not told
    assert value >= bound
    assert other[0] < goal <= free[0]


def test_a_bound_that_holds_anyway_changes_nothing():
    data = make_problem(1)
    constrained, told = fit(data, constraints={OTHER: 0.01})
    assert not told
    kept = constrained.model_.ensemble
    free = fit(data, n_estimators=kept.n_trees)[0].model_.ensemble
    assert bits(kept) == bits(free)


def test_what_is_kept_is_the_best_step_that_meets_the_bounds_on_all_sets():
    data, valid = make_problem(2), make_problem(2, n_queries=60).take_queries(range(30, 60))
    ranker, told = fit(data, valid, constraints={OTHER: 0.5})
    assert not told
    history = ranker.history_
    assert list(history) == ["valid", "train"]
    meets = np.all([np.array(history[name][OTHER]) >= 0.5 for name in history], axis=0)
    watched = np.where(meets, history["valid"][GOAL], -np.inf)
    assert ranker.best_iteration_ == watched.argmax() + 1
    assert measured(ranker, valid)[1] >= 0.5


def test_a_bound_that_validation_misses_is_told_and_holds_in_training():
    data, valid = make_problem(3), make_problem(3)
    valid = Dataset.from_arrays(
        valid.features, valid.labels, group=valid.group,
        more_labels={"clicks": valid.more_labels["clicks"].max() - valid.more_labels["clicks"]},
    )  # fmt: skip
    ranker, told = fit(data, valid, constraints={OTHER: 0.7})
    assert measured(ranker, data)[1] >= 0.7
    assert "on the set 'valid'" in told[0]
    assert "training data" not in told[0]


def test_training_does_not_stop_early_before_the_bound_is_met():
    data, valid = make_problem(4), make_problem(5)
    how = {"early_stopping_rounds": 2, "n_estimators": 40}
    free, other = (measured(fit(data, metric=metric)[0], data) for metric in (GOAL, OTHER))
    bound = (free[1] + other[1]) / 2
    ranker, _ = fit(data, valid, constraints={OTHER: bound}, **how)
    met = np.array(ranker.history_["train"][OTHER]) >= bound
    assert met.any()
    assert len(met) > met.argmax() + 1


def test_several_bounds_hold_at_once():
    data = make_problem(6)
    bounds = {OTHER: 0.55, "mrr(relevant>=2)": 0.6}
    ranker, told = fit(data, constraints=bounds)
    found = evaluate(data, ranker.predict(data), list(bounds))
    assert not told
    assert all(found[name] >= bound for name, bound in bounds.items())


def test_the_same_bits_for_any_number_of_threads():
    data = make_problem(7, n_queries=200)
    first, *others = (
        bits(fit(data, constraints={OTHER: 0.6}, n_jobs=n)[0].model_.ensemble) for n in (1, 2, 4)
    )
    assert all(other == first for other in others)


def test_a_run_that_goes_on_from_a_checkpoint_has_the_same_bits(tmp_path):
    data, valid = make_problem(8, n_queries=60).split(0.5, 0.5)
    how = {**QUICK, "metric": GOAL, "constraints": {OTHER: 0.2}}
    whole = Ranker(**how).fit(data, valid=valid)
    path = tmp_path / "checkpoint.safetensors"
    Ranker(**how).fit(
        data, valid=valid, checkpoint=path, checkpoint_every=7,
        callbacks=[lambda run: run.n_steps == 9],
    )  # fmt: skip
    assert Model.load(path).n_trees == 7
    resumed = Ranker(**how).fit(data, valid=valid, resume=path)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    assert resumed.history_ == whole.history_
    with pytest.raises(ParameterError, match="n_estimators must be the 24 of the checkpoint"):
        Ranker(**{**how, "n_estimators": 30}).fit(data, valid=valid, resume=path)


def test_saved_parameters_round_trip(tmp_path):
    ranker, _ = fit(make_problem(10), constraints={OTHER: 0.3, "MRR(relevant>=2)": 0.2})
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.constraints == {OTHER: 0.3, "mrr(relevant>=2)": 0.2}
    assert loaded.parameters().as_json() == ranker.parameters().as_json()


def test_multipliers_rise_below_the_target_and_fall_above_it():
    multipliers = Multipliers([0.5], n_trees=10)
    multipliers.see([0.1])
    low = multipliers.weights[1]
    for _ in range(5):
        multipliers.see([0.1])
    high = multipliers.weights[1]
    multipliers.see([0.9])
    assert 0 < low < high
    assert multipliers.weights[1] < high
    assert sum(multipliers.weights) == pytest.approx(1)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"constraints": {"mapp": 0.5}}, "did you mean 'map'"),
        ({"constraints": {"map": float("nan")}}, "be a finite number"),
        ({"constraints": {"map": "0.5"}}, "be a finite number"),
        ({"constraints": {"map": 0.5, "MAP": 0.6}}, "name each metric once"),
        ({"constraints": {"map + mrr": 0.5}}, "be of single metrics"),
        ({"constraints": {GOAL: 0.5}}, "other metrics than the one that is maximised"),
        ({"constraints": {}}, "be a mapping"),
        ({"constraints": [0.5]}, "be a mapping"),
        ({"constraints": {"map": 0.5}, "objective": "queryrmse"}, "an objective of a metric"),
        ({"constraints": {"map(ties=expected)": 0.5}}, "say ties=worst, best or stable"),
        ({"constraints": {"mrr(relevant>=1)": 1.01}}, "be at most 1, that of the best possible"),
        ({"constraints": {"precision@9(relevant>=3)": 0.9}}, "be at most 0."),
    ],
)
def test_a_bad_constraint_is_refused_before_training_starts(parameters, words):
    with pytest.raises(ParameterError) as caught:
        fit(make_problem(11), **parameters)
    assert words in str(caught.value)
    assert "constraints" in str(caught.value) or "did you mean" in words or "ties" in words


def test_labels_that_data_lack_and_preferences_are_refused():
    data = make_problem(11)
    with pytest.raises(DataError, match="must have labels 'sales'"):
        fit(data, constraints={"ndcg of sales": 0.5})
    with pytest.raises(ParameterError, match="constraints must be left out with preferences"):
        Ranker(**QUICK, metric="dcg", constraints={"ndcg": 0.5}).fit(data, preferences=[(0, 1)])
    with pytest.raises(ParameterError, match="be the training data where there are constraints"):
        Ranker(**QUICK, metric=GOAL, constraints={OTHER: 0.5}).fit(
            data, valid={"train": make_problem(12)}
        )

"""Parameters: every rule, one clear error each, and the same names everywhere."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data
from rankgrove import Ranker
from rankgrove.boosting import parameters as parameters_module
from rankgrove.boosting.features import feature_numbers, monotone_signs
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.function import FunctionObjective
from rankgrove.objectives.pairwise import LambdaMART, RankMART
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.rules import AUTO, options_of
from rankgrove.training.recipe import Recipe

NAN, INF = float("nan"), float("inf")

BAD = {
    "objective": ["lambdamat", "", None, 3],
    "metric": ["ndgc@10", "", None, 3, {"ndcg": 0}],
    "constraints": [{}, 0.5, {"map": None}],
    "n_estimators": [0, -1, 2.5, "10", None, True],
    "learning_rate": [0, -0.1, NAN, INF, "0.1", None, True],
    "grower": ["leafwis", "", None, 3],
    "max_leaves": [1, 0, 31.5, None, True],
    "max_depth": [0, -3, 2.5, "6", True],
    "min_samples_leaf": [0, -1, 1.5, None, True],
    "min_child_weight": [-1e-9, NAN, INF, None, "1"],
    "l2": [-1, NAN, INF, None],
    "l2_documents": [-1, NAN, INF, None],
    "max_bins": [1, 256, 64.5, None, True],
    "subsample": [0, -0.5, 1.5, NAN, None, True],
    "sampling": ["goss", None],
    "bootstrap": [-1, NAN, None, 11],
    "bootstrap_by": ["row", None],
    "split_noise": [-1, NAN, None],
    "colsample": [0, 1.01, NAN, None],
    "layout": ["columns", None],
    "split_gain": ["newtn", None],
    "leaf": ["newtn", None],
    "leaf_steps": [0, 1.5, None],
    "leaf_noise": ["newer", None, True],
    "sigma": [0, -1, NAN, INF, None, "1"],
    "truncation": [0, -1, 2.5, "10", True],
    "normalise": [1, "yes", None],
    "noise": ["logstic", None, 1],
    "noise_scale": [0, -1, NAN, None],
    "neighbours": [0, -1, 1.5, None, "al"],
    "neighbours_exactly": [0, -1, 1.5, "all"],
    "noise_in_margin": [1, "yes", None],
    "ties": ["expected", "wors", None],
    "weighting": ["ndcg_loss1", None, 2],
    "truncation_anchors": ["best", None, 2],
    "loss2_factor": [-1, NAN, INF, None],
    "permutations": [0, 2.5, None],
    "decay": [0, 1, 1.5, NAN, None],
    "samples": [0, 2.5, None],
    "mu": [-1, NAN, None],
    "nu": [-1, NAN, None],
    "projection": [-1, NAN, None],
    "balanced": [1, "yes", None],
    "temperature": [0, -1, NAN, INF, "1"],
    "shrink_rate": [-0.1, NAN, None, 10, 11],
    "monotone": [1, "up", {1}],
    "categorical": [1, "language", {1: 1}],
    "category_l2": [-1, NAN, None],
    "category_smoothing": [-1, NAN, None],
    "max_categories": [0, 1.5, None],
    "eval_metric": [[], 3, "ndgc", ["ndcg", "mapp"]],
    "early_stopping_rounds": [0, -1, 2.5, True],
    "random_state": [-1, 1 << 63, 0.5, None, True],
}


@pytest.mark.parametrize(("name", "value"), [(name, bad) for name in BAD for bad in BAD[name]])
def test_bad_value_is_refused_and_the_message_names_the_parameter(name, value):
    # Where it is not LambdaMART's.
    owner = {"decay": "yetirank", "balanced": "logistic", "ties": "rankmart"}
    owner |= dict.fromkeys(("samples", "mu", "nu", "projection"), "stochasticrank")
    owner |= dict.fromkeys(("weighting", "loss2_factor"), "lambdamart")
    others = {"objective": owner[name]} if name in owner else {}
    with pytest.raises(ParameterError) as caught:
        Parameters(**{name: value, **others})
    assert name.removeprefix("eval_") in str(caught.value)
    assert "Got" in str(caught.value)


def test_every_parameter_has_a_rule_that_is_tested():
    assert set(BAD) == {field.name for field in fields(Parameters)}


def test_misspelt_name_is_refused_with_the_nearest_one():
    with pytest.raises(ParameterError, match="did you mean 'learning_rate'"):
        Parameters.from_names({"learning_rat": 0.1})
    with pytest.raises(ParameterError, match="did you mean 'leafwise'"):
        Parameters(grower="leafwis")
    with pytest.raises(ParameterError, match="did you mean 'lambdamart'"):
        Parameters(objective="lambdamat")


def test_ranker_has_the_parameters_and_the_recipe_with_the_same_defaults_and_two_of_its_own():
    signature = inspect.signature(Ranker.__init__).parameters
    own = {name: p.default for name, p in signature.items() if name not in ("self", "unknown")}
    assert own.pop("n_jobs") is None
    assert own.pop("verbose") is False
    known = [*fields(Parameters), *fields(Recipe)]
    assert own == {field.name: field.default for field in known}
    assert list(own) == [field.name for field in known]
    ranker = Ranker()
    assert all(getattr(ranker, name) == default for name, default in own.items())


def test_numpy_numbers_are_taken_as_python_ones():
    given = Parameters(
        objective="lambdamart",
        n_estimators=np.int64(7), learning_rate=np.float32(0.5), truncation=np.int64(5),
        normalise=np.bool_(False), sigma=np.float64(2), max_depth=np.int32(3),
    )  # fmt: skip
    assert given.make_objective() == LambdaMART(truncation=5, normalise=False, sigma=2.0)
    written = given.as_json()
    assert written["n_estimators"] == 7
    assert type(written["n_estimators"]) is int
    assert type(written["learning_rate"]) is float


ROUND_TRIPS = [
    {},
    {"objective": LambdaMART(metric="dcg@5", sigma=2.0, truncation=None, normalise=False)},
    {"metric": parse_metric("ndcg@5(gain=linear)"), "truncation": None},
    {"eval_metric": ["map", parse_metric("err")], "max_depth": 4, "grower": "depthwise"},
    {"eval_metric": "mrr", "subsample": 0.5, "sampling": "gradient", "split_gain": "least_squares"},
    {"monotone": {0: 1, "f3": -1}, "categorical": np.array([5])},
    {"monotone": [0, 1, -1, 0, 0, 0], "categorical": ["f6"]},
    {"monotone": (0, 1, -1, 0, 0, 0), "categorical": ("f6", 4)},
    {"random_state": np.int64(7), "learning_rate": np.float64(0.25)},
]


@pytest.mark.parametrize("given", ROUND_TRIPS, ids=str)
def test_parameters_survive_a_file_and_train_the_same_again(given, tmp_path):
    data = make_data(n_categories=5)
    ranker = Ranker(**{**QUICK, **given}).fit(data)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.parameters().as_json() == ranker.parameters().as_json()
    again = Ranker(**{**QUICK, **loaded.get_params()}).fit(data)
    assert bits(again.model_.ensemble) == bits(ranker.model_.ensemble)


def test_features_are_named_or_numbered_and_an_unknown_one_is_refused():
    names = ["a", "b", "c"]
    assert feature_numbers("categorical", ["c", np.int64(0)], names) == [2, 0]
    assert monotone_signs({"b": -1}, names).tolist() == [0, -1, 0]
    assert monotone_signs([1, 0, -1], names).tolist() == [1, 0, -1]
    for chosen in (["d"], [3], [-1], [1.5], [True], ["a", 0]):
        with pytest.raises(ParameterError, match="categorical"):
            feature_numbers("categorical", chosen, names)
    for monotone in ({"d": 1}, {"a": 2}, {"a": None}, [1, 0], [1, 0, 5], {5: 1}):
        with pytest.raises(ParameterError, match="monotone"):
            monotone_signs(monotone, names)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0.0, 0.0)),
        ({"objective": "softmax"}, (1.0, 1.0)),
        ({"objective": "lambdamart"}, (0.0, 0.0)),
        ({"objective": "lambdamart", "grower": "oblivious"}, (1.0, 1.0)),
        ({"objective": "yetiloss", "noise": "none"}, (1.0, 1.0)),
        ({"objective": "softmax", "temperature": 1e8}, (0.0, 0.0)),
        ({"objective": "softmax", "subsample": 0.5}, (0.0, 1.0)),
        ({"objective": "softmax", "bootstrap": 0.5, "split_noise": 0.0}, (0.5, 0.0)),
        ({"bootstrap": 0.5, "split_noise": 2.0}, (0.5, 2.0)),
        ({"objective": "softmax", "max_leaves": 15}, (0.0, 0.0)),
    ],
    ids=str,
)
def test_oblivious_trees_draw_by_default_where_their_forces_are_not_drawn(given, expected):
    plan = Parameters(**given).resolve(1000)
    assert (plan.bootstrap, plan.split_noise) == expected


def test_oblivious_trees_have_leaves_of_one_document_and_an_l2_of_their_own():
    for objective in ("yetirank", "lambdamart", "queryrmse"):
        for grower, fewest in (("oblivious", 1), ("leafwise", 20), ("depthwise", 20)):
            plan = Parameters(objective=objective, grower=grower).resolve(1000)
            assert plan.trees.min_samples_leaf == fewest
            if grower == "oblivious":
                assert (plan.trees.l2, plan.l2_documents) == (0.0, 20.0)
    assert Parameters(min_samples_leaf=7).resolve(1000).trees.min_samples_leaf == 7


GIVEN = [
    {}, {"metric": "map"}, {"max_leaves": 15}, {"l2": 3}, {"subsample": 0.5, "max_depth": 4},
    {"metric": parse_metric("ndcg@5(gain=linear)"), "grower": "depthwise", "temperature": 1e8},
    {"eval_metric": ["map", "err"], "min_samples_leaf": np.int64(7), "categorical": ["f1"]},
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("objective", [AUTO, *OBJECTIVES])
def test_plan_leaves_nothing_open_and_comes_to_itself(objective, given):
    plan = Parameters(objective=objective, **given).resolve(1000)
    written = json.loads(json.dumps(plan.as_json()))
    assert AUTO not in written.values()
    assert Parameters.from_json(written).resolve(1000).as_json() == written
    known = options_of(OBJECTIVES[written["objective"]])
    assert {name for name in written if name in parameters_module.OF_OBJECTIVE} == set(known)


def test_plan_names_the_objective_that_preferences_are_trained_by():
    assert Parameters().resolve(9, has_preferences=True).objective == LambdaMART()
    assert Parameters(sigma=2.0).resolve(9, has_preferences=True).objective.sigma == 2.0
    chosen = Parameters(objective="rankmart").resolve(9, has_preferences=True)
    assert (chosen.objective.name, chosen.trees.grower) == ("rankmart", "oblivious")


def test_plan_of_a_function_names_it():
    def push(scores, labels, offsets, weights, forces, curvatures):
        """Never called."""

    plan = Parameters(objective=push).resolve(9)
    assert isinstance(plan.objective, FunctionObjective)
    assert plan.as_json()["objective"]["function"].endswith("push")


def test_objective_is_made_once_for_a_fit(monkeypatch):
    made = []
    make = parameters_module.make_objective
    monkeypatch.setattr(
        parameters_module, "make_objective",
        lambda *args, **options: made.append(args) or make(*args, **options),
    )  # fmt: skip
    Ranker(**{**QUICK, "n_estimators": 2}).fit(make_data())
    assert len(made) == 1


@pytest.mark.parametrize(
    ("objective", "option"),
    [
        (LambdaMART(), {"sigma": 2}),
        (LambdaMART(sigma=2.0), {"sigma": 1.0}),
        (LambdaMART(), {"metric": "map"}),
        (LambdaMART(), {"decay": 0.5}),
        (FunctionObjective(function=len), {"sigma": 1.0}),
        (len, {"truncation": None}),
    ],
)
def test_an_option_beside_an_objective_that_is_a_value_is_refused(objective, option):
    ((name, value),) = option.items()
    with pytest.raises(ParameterError) as error:
        Parameters(objective=objective, **option)
    assert str(error.value) == (
        f"{name} must be left out where the objective is a value. Got {value!r}: give it to the "
        f"objective itself."
    )


def test_an_option_beside_an_objective_that_says_the_same_is_taken():
    objective = LambdaMART(sigma=2.0, metric="ndcg@5", truncation=7)
    told = {"sigma": np.float64(2), "metric": "NDCG@5", "truncation": 7}
    assert Parameters(objective=objective, **told).make_objective() == objective
    # Validation may watch a metric that the objective has no choice of.
    parameters = Parameters(objective=RankMART(), metric="map")
    assert (parameters.make_objective(), str(parameters.metrics()[0])) == (RankMART(), "map")

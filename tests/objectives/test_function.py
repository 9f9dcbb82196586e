"""Objectives that are functions: trained by, checked, saved by name."""

from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np
import pytest

from objectives.naive_objectives import dataset
from rankgrove import Model, Ranker, check_objective, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.objectives.base import Objective
from rankgrove.objectives.function import AbsentObjective, FunctionObjective, function_name
from rankgrove.objectives.pointwise import Regression
from rankgrove.objectives.registry import OBJECTIVES

TREES = {"n_estimators": 5, "grower": "leafwise", "max_leaves": 7, "min_samples_leaf": 2}


@pytest.fixture(scope="module")
def data():
    return make_web_search(30, 16)


def residuals(scores, labels, offsets, weights, forces, curvatures):
    forces[:] = weights * (labels - scores)
    curvatures[:] = weights


@numba.njit
def compiled_residuals(scores, labels, offsets, weights, forces, curvatures):
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            forces[i] = weights[i] * (labels[i] - scores[i])
            curvatures[i] = weights[i]


def squared_error(scores, labels, offsets, weights):
    return float((weights * (labels - scores) ** 2).sum() / 2)


@dataclass(frozen=True, kw_only=True)
class Own(Objective):
    """A class of a user's own, which no registry knows."""

    scale: float = 2.0

    name: ClassVar[str] = "own"

    def prepare(self, data, n_jobs=None, seed=0):
        return Regression().prepare(data, n_jobs, seed)


@pytest.mark.parametrize("function", [residuals, compiled_residuals])
def test_a_function_trains_the_same_trees_as_the_objective_that_it_computes(data, function):
    # A start of its own is what only the objective has.
    base = np.zeros(data.n_documents)
    fitted = [
        Ranker(objective, l2=1.0, l2_documents=0, bootstrap=0, split_noise=0, **TREES).fit(
            data.features, data.labels, group=data.group, base_scores=base
        )
        for objective in (function, "regression")
    ]
    scores = [ranker.predict(data.features, base_scores=base) for ranker in fitted]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert np.ptp(scores[0]) > 0


@pytest.mark.parametrize("own", [residuals, Own(scale=3.0)], ids=["function", "class"])
def test_a_model_of_an_objective_that_is_not_in_the_file_loads_scores_and_says_what_is_missing(
    data, tmp_path, own
):
    path = tmp_path / "model.safetensors"
    ranker = Ranker(own, **TREES).fit(data)
    ranker.save(path)
    loaded = Ranker.load(path)
    assert loaded.predict(data).tobytes() == ranker.predict(data).tobytes()
    name = function_name(residuals) if own is residuals else "own"
    assert name in str(Model.load(path).parameters["objective"])
    assert isinstance(loaded.objective, AbsentObjective)
    with pytest.raises(ParameterError, match=f"^objective must be given again .*{name}"):
        loaded.fit(data)
    # Saved once more, the file says the same.
    loaded.save(path)
    assert Ranker.load(path).objective == loaded.objective
    assert loaded.set_params(objective=own).fit(data).predict(data).tobytes() == (
        ranker.predict(data).tobytes()
    )


def test_training_by_a_function_goes_on_from_a_checkpoint(data, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    Ranker(residuals, **TREES | {"n_estimators": 3}).fit(data, checkpoint=path, checkpoint_every=3)
    whole = Ranker(residuals, **TREES).fit(data)
    resumed = Ranker(residuals, **TREES).fit(data, resume=path)
    assert resumed.predict(data).tobytes() == whole.predict(data).tobytes()
    with pytest.raises(ParameterError, match="parameters of the checkpoint"):
        Ranker(compiled_residuals, **TREES).fit(data, resume=path)


def test_a_function_gets_the_weight_of_the_document_times_that_of_its_query(data):
    seen = []

    def record(scores, labels, offsets, weights, forces, curvatures):
        seen.append(weights.copy())

    weighed = dataset([0, 1, 0], [2, 1], weights=[2.0, 3.0], document_weights=[1.0, 0.5, 2.0])
    objective = FunctionObjective(function=record)
    objective.prepare(weighed).compute(np.zeros(3), 0, np.empty(3), np.empty(3))
    assert seen[0].tolist() == [2.0, 1.0, 6.0]


@pytest.mark.parametrize(
    ("force", "curvature", "rule"),
    [
        (np.nan, 1.0, "must write finite forces and curvatures"),
        (1.0, np.inf, "must write finite forces and curvatures"),
        (1.0, -1.0, "must write curvatures of 0 or more"),
    ],
)
def test_what_cannot_be_trained_by_is_refused_with_its_row(data, force, curvature, rule):
    def wrong(scores, labels, offsets, weights, forces, curvatures):
        forces[offsets[1]], curvatures[offsets[1]] = force, curvature

    with pytest.raises(DataError, match=f"{rule}. Got others at row {data.offsets[1]} of query"):
        Ranker(wrong, **TREES).fit(data)


def test_what_is_no_function_is_refused():
    with pytest.raises(ParameterError, match=r"^function must be a function .* Got 3"):
        FunctionObjective(function=3)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_passes_the_check(name):
    data = dataset([0, 1, 0, 1, 1], [3, 2]) if name == "logistic" else None
    found = check_objective(name, data)
    assert found.ok, str(found)


def test_forces_that_are_the_derivative_of_the_cost_pass(data):
    assert str(check_objective(residuals, cost=squared_error)) == (
        "forces and curvatures are as they should be"
    )


def test_forces_of_the_wrong_sign_are_a_problem():
    def wrong(scores, labels, offsets, weights, forces, curvatures):
        forces[:], curvatures[:] = weights * (scores - labels), weights

    found = check_objective(wrong, cost=squared_error)
    assert not found.ok
    assert "forces are not minus the derivative of the cost" in found.problems[0]


def test_a_query_that_feels_another_is_a_problem():
    def wrong(scores, labels, offsets, weights, forces, curvatures):
        forces[:], curvatures[:] = labels - scores - scores.mean(), 1.0

    assert "changes with the score of document" in check_objective(wrong).problems[0]


def test_forces_that_change_by_themselves_are_a_problem():
    calls = []

    def wrong(scores, labels, offsets, weights, forces, curvatures):
        calls.append(1)
        forces[:], curvatures[:] = labels - scores + len(calls), 1.0

    assert "the same scores give other forces" in check_objective(wrong).problems[0]


def test_forces_without_a_cost_are_a_note():
    def odd(scores, labels, offsets, weights, forces, curvatures):
        first, last = offsets[:-1], offsets[1:] - 1
        forces[first] += scores[last]
        curvatures[:] = 0.0

    found = check_objective(odd)
    assert found.ok
    assert any("not symmetric" in note for note in found.notes)

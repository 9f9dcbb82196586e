"""Forces of a model: those that training used, laws of pairs, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankgrove import (
    CombinedModel,
    Dataset,
    ForceTotals,
    Model,
    Ranker,
    bin_files,
    force_totals,
    forces_at,
    forces_over_trees,
    labels_by_rank,
    make_web_search,
    write_letor,
)
from rankgrove.boosting.loop import Boosting
from rankgrove.errors import DataError, ParameterError
from rankgrove.objectives.pairwise import LambdaMART
from rankgrove.objectives.registry import OBJECTIVES

PAIRWISE = ("rankmart", "lambdamart", "yetirank", "yetiloss")


def small_data(**changes):
    return replace(make_web_search(12, 16, mean_documents=9), **changes)


def weighted_data():
    data = small_data()
    chance = np.random.default_rng(5)
    return replace(
        data,
        weights=chance.uniform(0.5, 2.0, data.n_queries),
        base_scores=chance.normal(size=data.n_documents),
    )


class Recorder:
    """Forces that keep a copy of what they gave, by the number of the tree."""

    def __init__(self, forces):
        self._forces, self.given = forces, {}

    def compute(self, scores, iteration, forces, curvatures):
        self._forces.compute(scores, iteration, forces, curvatures)
        kept = scores.copy(), forces.copy(), curvatures.copy()
        self.given.setdefault(iteration, kept)

    def __getattr__(self, name):
        return getattr(self._forces, name)


@pytest.fixture
def recorded(monkeypatch):
    """The forces of each training, as they were used."""
    recorders = []
    prepare = Boosting._prepare_forces

    def record(self, objective):
        recorders.append(Recorder(prepare(self, objective)))
        return recorders[-1]

    monkeypatch.setattr(Boosting, "_prepare_forces", record)
    return recorders


def assert_as_recorded(field, recorder, iteration):
    scores, forces, curvatures = recorder.given[iteration]
    np.testing.assert_array_equal(field.scores, scores)
    np.testing.assert_array_equal(field.forces, forces)
    np.testing.assert_array_equal(field.curvatures, curvatures)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_forces_of_a_tree_are_those_that_training_used_bit_for_bit(objective, recorded):
    data = small_data()
    data = replace(data, labels=np.minimum(data.labels, 1)) if objective == "logistic" else data
    ranker = Ranker(objective=objective, n_estimators=4, random_state=3).fit(data)
    for tree in range(4):
        assert_as_recorded(ranker.forces(data, tree=tree), recorded[0], tree)
    for field in forces_over_trees(ranker, data, [0, 1, 3]):
        assert_as_recorded(field, recorded[0], field.tree)


def test_weights_and_base_scores_count_as_in_training(recorded):
    data = weighted_data()
    ranker = Ranker(objective="lambdamart", n_estimators=3).fit(data)
    for tree in range(3):
        assert_as_recorded(ranker.forces(data, tree=tree), recorded[0], tree)
    plain = ranker.model_.forces(replace(data, weights=None), tree=1)
    weights = np.repeat(data.weights, data.group)
    np.testing.assert_allclose(recorded[0].given[1][1], plain.forces * weights)


def test_document_weights_count_as_in_training(recorded):
    data = small_data()
    weights = np.random.default_rng(5).uniform(0.5, 2.0, data.n_documents)
    data = replace(data, document_weights=weights)
    ranker = Ranker(objective="rankmart", n_estimators=2).fit(data)
    assert_as_recorded(ranker.forces(data, tree=1), recorded[0], 1)


def test_trees_on_a_base_model_draw_as_the_first_of_their_own(recorded):
    data = small_data()
    base = Ranker(objective="lambdamart", n_estimators=2).fit(data)
    ranker = Ranker(objective="yetirank", n_estimators=2).fit(data, base_model=base)
    assert_as_recorded(ranker.forces(data, tree=2), recorded[1], 0)
    assert_as_recorded(ranker.forces(data, tree=3), recorded[1], 1)


def test_parameters_of_the_objective_are_those_of_training():
    data = small_data()
    options = {"sigma": 2.0, "truncation": 5, "metric": "ndcg@5"}
    ranker = Ranker(objective="lambdamart", n_estimators=2, **options).fit(data)
    assert ranker.forces(data).objective == LambdaMART(**options)


def test_auto_objective_is_what_training_made_of_it():
    data = small_data()
    assert Ranker(n_estimators=1).fit(data).forces(data).objective.name == "yetirank"


def test_a_file_gives_the_same_forces(tmp_path):
    data = small_data()
    ranker = Ranker(n_estimators=2, random_state=7).fit(data)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.forces(data, 1).forces, ranker.forces(data, 1).forces)


def test_another_objective_pushes_at_the_scores_of_the_model():
    data = small_data()
    model = Ranker(objective="lambdamart", n_estimators=3).fit(data).model_
    found = model.forces(data, 2, "rankmart")
    expected = forces_at(data, model.predict(data, n_trees=2), "rankmart")
    np.testing.assert_array_equal(found.forces, expected.forces)
    regression = model.forces(data, 0, "regression")
    np.testing.assert_array_equal(regression.scores, 0.0)


def test_the_objective_of_training_may_be_named(recorded):
    data = small_data()
    ranker = Ranker(objective="regression", n_estimators=1).fit(data)
    assert_as_recorded(ranker.forces(data, 0, "regression"), recorded[0], 0)


def test_binned_data_have_the_forces_of_their_features(tmp_path):
    data = small_data()
    write_letor(data, tmp_path / "data.txt")
    ranker = Ranker(objective="lambdamart", n_estimators=3).fit(data)
    binned = bin_files(tmp_path / "data.txt", n_features=data.n_features)
    expected = ranker.forces(data, tree=2)
    np.testing.assert_array_equal(ranker.forces(binned, tree=2).forces, expected.forces)
    (found,) = forces_over_trees(ranker, binned, [2])
    np.testing.assert_array_equal(found.forces, expected.forces)


@pytest.mark.parametrize("objective", PAIRWISE)
def test_forces_of_pairs_add_up_to_zero_in_each_query(objective):
    data = weighted_data()
    scores = np.random.default_rng(1).normal(size=data.n_documents)
    found = forces_at(data, scores, objective, seed=2, iteration=4)
    assert np.abs(found.forces).max() > 0.01
    sums = np.add.reduceat(found.forces, data.offsets[:-1])
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_noise_is_drawn_by_seed_and_iteration():
    data, scores = small_data(), np.linspace(0, 1, small_data().n_documents)
    first = forces_at(data, scores, "yetirank", iteration=1, seed=1).forces
    again = forces_at(data, scores, "yetirank", iteration=1, seed=1).forces
    np.testing.assert_array_equal(first, again)
    for other in ({"iteration": 2, "seed": 1}, {"iteration": 1, "seed": 2}):
        assert not np.array_equal(first, forces_at(data, scores, "yetirank", **other).forces)


def test_ranks_are_those_of_a_stable_sort():
    data = small_data()
    scores = np.random.default_rng(2).integers(0, 4, data.n_documents).astype(float)
    found = forces_at(data, scores, "rankmart")
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        order = np.argsort(-scores[first:last], kind="stable")
        np.testing.assert_array_equal(found.ranks[first:last][order], np.arange(1, len(order) + 1))
        np.testing.assert_array_equal(found.rows_by_rank()[first:last], first + order)


def test_a_query_is_taken_by_its_id_or_its_text():
    data = small_data(query_ids=np.arange(100, 112))
    field = forces_at(data, np.arange(data.n_documents), "lambdamart")
    rows = slice(data.offsets[3], data.offsets[4])
    for name in (103, "103"):
        part = field.of_query(name)
        np.testing.assert_array_equal(part.forces, field.forces[rows])
        np.testing.assert_array_equal(part.labels, data.labels[rows])
        assert part.offsets.tolist() == [0, rows.stop - rows.start]
        assert part.query_ids.tolist() == [103]
    with pytest.raises(DataError, match=r"one of its 12 queries, 100, 101, .* Got '13'"):
        field.of_query(13)


def naive_totals(model, data, trees, objective):
    labels = sorted(set(data.labels.tolist()))
    up = np.zeros((len(trees), len(labels)))
    down = np.zeros_like(up)
    for row, tree in enumerate(trees):
        forces = forces_at(data, model.predict(data, n_trees=tree), objective).forces
        for force, label in zip(forces, data.labels.tolist(), strict=True):
            (up if force > 0 else down)[row, labels.index(label)] += force
    return labels, up, down


def test_force_totals_are_those_of_a_plain_loop():
    data, trees = weighted_data(), [0, 1, 4]
    ranker = Ranker(objective="lambdamart", n_estimators=4).fit(data)
    labels, up, down = naive_totals(ranker.model_, data, trees, "lambdamart")
    found = force_totals(ranker, data, trees)
    assert (found.trees, found.labels) == (trees, labels)
    np.testing.assert_allclose(found.up, up)
    np.testing.assert_allclose(found.down, down)
    np.testing.assert_allclose((found.up + found.down).sum(axis=1), 0.0, atol=1e-10)
    assert found.documents.sum() == data.n_documents


def test_labels_by_rank_are_those_of_a_plain_loop():
    data, trees, top = small_data(), [0, 2, 4], 6
    ranker = Ranker(n_estimators=4).fit(data)
    labels = sorted(set(data.labels.tolist()))
    counts = np.zeros((3, top, len(labels)))
    for row, tree in enumerate(trees):
        scores = ranker.predict(data, n_trees=tree)
        for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            order = first + np.argsort(-scores[first:last], kind="stable")
            for rank, document in enumerate(order[:top]):
                counts[row, rank, labels.index(data.labels[document])] += 1
    found = labels_by_rank(ranker, data, trees, top=top)
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.shares.sum(axis=2), 1.0)
    assert labels_by_rank(ranker, data, [4], top=1000).counts.shape[1] == data.group.max()


def test_values_for_json_are_plain():
    data = small_data()
    ranker = Ranker(objective="rankmart", n_estimators=2).fit(data)
    totals, labels = force_totals(ranker, data, [2]), labels_by_rank(ranker, data, [2], top=2)
    assert totals.to_dict()["up"] == totals.up.tolist()
    assert totals.to_dict()["objective"] == "rankmart"
    assert labels.to_dict()["counts"] == labels.counts.tolist()


def test_a_combined_model_has_the_forces_of_the_trees_on_top():
    data = small_data()
    a, b = (Ranker(objective="lambdamart", n_estimators=n).fit(data).model_ for n in (1, 2))
    scores = np.column_stack([a.predict(data), b.predict(data)]).astype(np.float32)
    names = {"features": scores, "feature_names": ("a", "b")}
    top = Ranker(objective="rankmart", n_estimators=2).fit(replace(data, **names)).model_
    combined = CombinedModel((a, b), top)
    found = combined.forces(data, tree=1)
    assert found.objective.name == "rankmart"
    np.testing.assert_array_equal(found.scores, combined.predict(data, n_trees=1))
    weighted = CombinedModel((a, b), weights=(0.5, 0.5))
    with pytest.raises(ParameterError, match="objective must be given for a model that does not"):
        weighted.forces(data)
    assert weighted.forces(data, objective="rankmart").tree is None
    with pytest.raises(ParameterError, match="tree must be left out for"):
        weighted.forces(data, tree=1, objective="rankmart")


def push_nothing(scores, labels, offsets, weights, forces, curvatures):
    forces[:] = labels - scores
    curvatures[:] = 1.0


def first_label(labels):
    return float(labels[0] > 0)


def test_what_a_model_does_not_hold_must_be_given_again():
    data = small_data()
    own = Ranker(objective=push_nothing, n_estimators=1).fit(data)
    with pytest.raises(ParameterError, match=r"its name only. Got '.*push_nothing': pass obj"):
        own.forces(data)
    np.testing.assert_array_equal(own.forces(data, 0, push_nothing).forces, data.labels)
    by_metric = Ranker(objective="lambdamart", metric=first_label, n_estimators=1)
    with pytest.warns(UserWarning, match="plain Python function"):
        by_metric.fit(data)
    with pytest.raises(ParameterError, match="trained by a function as metric"):
        by_metric.forces(data)


def test_a_model_of_an_older_file_goes_by_its_parameters():
    data = small_data()
    model = Ranker(objective="lambdamart", sigma=2.0, n_estimators=1).fit(data).model_
    old = replace(model, notes={})
    assert old.forces(data).objective.sigma == 2.0
    silent = replace(model, notes={}, parameters={"objective": "auto"})
    with pytest.raises(ParameterError, match="objective must be given for a model"):
        silent.forces(data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree": 3}, "tree must be a whole number, from 0 to 2. Got 3"),
        ({"tree": -1}, "tree must be a whole number"),
        ({"objective": "ranknet"}, "objective must be one of lambdamart, .*Got 'ranknet'"),
    ],
)
def test_what_a_model_cannot_give_is_refused(arguments, message):
    data = small_data()
    ranker = Ranker(objective="lambdamart", n_estimators=2).fit(data)
    with pytest.raises(ParameterError, match=message):
        ranker.forces(data, **arguments)


@pytest.mark.parametrize("trees", [[], [2, 1], [1, 1], [0, 3]])
def test_trees_must_rise_and_be_there(trees):
    data = small_data()
    ranker = Ranker(objective="lambdamart", n_estimators=2).fit(data)
    with pytest.raises(ParameterError, match="trees"):
        forces_over_trees(ranker, data, trees)


def test_data_must_have_labels_and_scores_must_be_finite():
    data = small_data()
    ranker = Ranker(objective="lambdamart", n_estimators=1).fit(data)
    with pytest.raises(ParameterError, match="data must be a Dataset, for its labels"):
        ranker.forces(data.features)
    with pytest.raises(DataError, match=r"scores must be finite\. Got inf at row 2"):
        forces_at(data, np.where(np.arange(data.n_documents) == 2, np.inf, 0), "rankmart")
    with pytest.raises(DataError, match="scores must be one per document"):
        forces_at(data, [1.0], "rankmart")
    with pytest.raises(ParameterError, match="model must be one of trees"):
        labels_by_rank(object(), data)
    with pytest.raises(ParameterError, match="data must be a Dataset, for its labels"):
        labels_by_rank(ranker, data.features)
    with pytest.raises(ParameterError, match="at least one tree"):
        ForceTotals.of([])


def test_real_labels_are_too_many_for_totals():
    rows = np.zeros((100, 1))
    data = Dataset.from_arrays(rows, np.linspace(0, 1, 100), group=[100])
    ranker = Ranker(objective="lambdamart", n_estimators=1)
    with pytest.warns(UserWarning, match="nothing to split"):
        ranker.fit(data)
    with pytest.raises(DataError, match="at most 64 grades"):
        force_totals(ranker, data)


def test_arrays_refuse_writes():
    data = small_data()
    found = forces_at(data, np.zeros(data.n_documents), "rankmart")
    with pytest.raises(ValueError, match="read-only"):
        found.forces[0] = 1.0

"""Forces of several metrics at once: the weighted sum of the forces of each, and its laws."""

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data, train
from objectives.naive_objectives import forces_of_weights, pair_weights, ranked_order
from rankgrove import Dataset, Ranker
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.pairwise import LambdaMART, YetiLoss
from rankgrove.objectives.registry import make_objective

OBJECTIVES = ("lambdamart", "yetiloss", "stochasticrank")
SUM = {"ndcg@5": 1.0, "map(relevant>=2)": 0.3, "ndcg of clicks": 2.0}


def clicked(seed=0, **how):
    """Data with a further label."""
    data = make_data(seed, **how)
    clicks = np.random.default_rng(seed).integers(0, 3, data.n_documents)
    return Dataset.from_arrays(
        data.features, data.labels, group=data.group, weights=data.weights,
        more_labels={"clicks": clicks},
    )  # fmt: skip


def compute(objective, data, scores, n_jobs=1, iteration=3):
    forces, curvatures = np.full((2, data.n_documents), np.nan)
    objective.prepare(data, n_jobs, 7).compute(scores, iteration, forces, curvatures)
    return forces, curvatures


def some_scores(data):
    return np.round(np.random.default_rng(5).normal(size=data.n_documents), 1)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_forces_of_a_sum_are_the_weighted_sum_of_the_forces_of_each(name):
    data = clicked(weighted=True)
    scores = some_scores(data)
    found = compute(make_objective(name, metric=SUM), data, scores)
    parts = [
        compute(make_objective(name, metric="ndcg@5"), data, scores),
        compute(make_objective(name, metric="map(relevant>=2)"), data, scores),
        compute(make_objective(name, metric="ndcg"), data.with_label("clicks"), scores),
    ]
    expected = sum(
        weight * np.array(part) for weight, part in zip(SUM.values(), parts, strict=True)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert abs(found[0].sum()) < 1e-9


def test_forces_of_a_sum_equal_those_of_the_weighted_sum_of_swap_deltas():
    # Straight from the formula: one weight per pair, the sum of the weights of each metric.
    labels, scores = [0, 2, 1, 0, 4, 1], np.array([0.5, 0.1, -1.0, 2.0, 0.3, 0.5])
    data = Dataset.from_arrays(np.zeros((6, 1)), labels, group=[6])
    weights = {}
    for name, weight in {"ndcg@3": 1.0, "map(relevant>=1)": 0.3}.items():
        order = ranked_order(scores, labels)
        for pair, delta in pair_weights(parse_metric(name), labels, order).items():
            weights[pair] = weights.get(pair, 0.0) + weight * delta
    expected = forces_of_weights(scores, weights)
    both = {"ndcg@3": 1.0, "map(relevant>=1)": 0.3}
    objective = LambdaMART(metric=both, truncation=None, normalise=False)
    forces, curvatures = compute(objective, data, scores)
    np.testing.assert_allclose(forces, expected.forces, atol=1e-14)
    np.testing.assert_allclose(curvatures, expected.curvatures, atol=1e-14)


def test_a_pair_within_a_leaf_has_no_curvature_across_leaves_in_a_sum_either():
    data = clicked()
    scores, leaves = some_scores(data), np.arange(data.n_documents) % 3
    of_sum = LambdaMART(metric=SUM).prepare(data, 1, 0)
    found = of_sum.cross_leaf_curvatures(scores, 0, leaves)
    parts = {"ndcg@5": data, "map(relevant>=2)": data, "ndcg": data.with_label("clicks")}
    expected = sum(
        weight * LambdaMART(metric=m).prepare(d, 1, 0).cross_leaf_curvatures(scores, 0, leaves)
        for weight, (m, d) in zip(SUM.values(), parts.items(), strict=True)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_one_metric_of_weight_1_gives_the_trees_of_the_metric_alone(name):
    data = make_data()
    alone = train(data, objective=name, metric="ndcg@5")
    summed = train(data, objective=name, metric={"ndcg@5": 1})
    assert bits(alone) == bits(summed)


def without_gains(run):
    return {name: array for name, array in bits(run).items() if name != "gain"}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_twice_the_weights_with_twice_the_regularisation_give_the_same_trees_of_twice_the_gain(
    name,
):
    data = clicked()
    twice = {metric: 2 * weight for metric, weight in SUM.items()}
    # What counts in documents of average curvature means the same for any weights.
    for first, second in (({"l2": 4.0}, {"l2": 8.0}), ({"l2_documents": 5.0},) * 2):
        how = {"objective": name, "min_child_weight": 0.0, "l2": 0.0}
        once, again = (
            train(data, metric=metric, **how | regularisation)
            for metric, regularisation in ((SUM, first), (twice, second))
        )
        assert without_gains(once) == without_gains(again)
        gains = [np.concatenate([tree.gain for tree in run.trees]) for run in (once, again)]
        assert (2 * gains[0] == gains[1]).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_trees_of_a_sum_have_the_same_bits_for_any_number_of_threads(name):
    data = clicked(n_queries=300)
    first, *others = (
        bits(train(data, objective=name, metric=SUM, n_jobs=n_jobs)) for n_jobs in (1, 2, 4)
    )
    assert all(other == first for other in others)


def test_what_auto_comes_to_is_that_of_each_metric():
    objective = LambdaMART(metric="ndcg@5 + ndcg@10 + map")
    assert objective.truncation == "auto"
    data, scores = make_data(), some_scores(make_data())
    data = Dataset.from_arrays(data.features, data.labels > 1, group=data.group)
    parts = [LambdaMART(metric=name) for name in ("ndcg@5", "ndcg@10", "map")]
    assert [part.truncation for part in parts] == [25, None, 30]
    expected = sum(compute(part, data, scores)[0] for part in parts)
    np.testing.assert_allclose(compute(objective, data, scores)[0], expected, atol=1e-12)
    assert YetiLoss(metric="ndcg + map").permutations == "auto"
    assert YetiLoss(metric="ndcg + map", neighbours=1).permutations == 10


def test_a_function_may_be_part_of_a_sum():
    def first(labels):
        return labels[0]

    data = make_data(n_queries=5)
    with pytest.warns(UserWarning, match="plain Python function"):
        ranker = Ranker(metric={"ndcg@5": 1, first: 0.1}, **QUICK | {"n_estimators": 2}).fit(data)
    assert str(parse_metric({"ndcg@5": 1, first: 0.1})) == "ndcg@5 + 0.1*custom(first)"
    assert ranker.model_.parameters["metric"] == "ndcg@5 + 0.1*custom(first)"


def test_validation_watches_the_sum_with_its_parts_beside_it():
    data = clicked()
    run = train(data, {"valid": clicked(1)}, metric="ndcg@5 + 0.3*ndcg of clicks")
    names = ["ndcg@5 + 0.3*ndcg of clicks", "ndcg@5", "ndcg of clicks"]
    assert list(run.history["valid"]) == names
    of_sum, first, second = run.history["valid"].values()
    assert run.validation.watched == of_sum
    np.testing.assert_allclose(of_sum, np.array(first) + 0.3 * np.array(second), rtol=1e-12)
    assert run.validation.beside == [("ndcg@5", first[-1]), ("ndcg of clicks", second[-1])]


def test_a_loaded_ranker_has_the_sum_that_it_was_trained_with(tmp_path):
    data = clicked()
    ranker = Ranker(metric=SUM, **QUICK).fit(data)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert parse_metric(loaded.metric) == parse_metric(SUM)
    assert bits(loaded.fit(data).model_.ensemble) == bits(ranker.model_.ensemble)


def test_a_sum_that_cannot_be_trained_for_is_refused_before_training():
    data = make_data()
    with pytest.raises(DataError, match="must have labels 'clicks'"):
        train(data, metric="ndcg + ndcg of clicks")
    with pytest.raises(ParameterError, match="say ties=worst, best or stable"):
        LambdaMART(metric="ndcg + map(ties=expected)")
    with pytest.raises(DataError, match="labels must be 0 or 1 to train for map"):
        train(data, metric="ndcg + map")
    pairs = Preferences.from_rows(data, [(0, 1)])
    with pytest.raises(ParameterError, match="must be a single one"):
        Ranker(objective="lambdamart", metric="ndcg + dcg").fit(data, preferences=pairs)

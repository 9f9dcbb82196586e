"""Weights of documents in forces: against the formulas, and laws for every objective."""

import numpy as np
import pytest

from objectives.naive_objectives import dataset
from rankgrove import Ranker, evaluate, make_web_search
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss, YetiRank
from rankgrove.objectives.registry import OBJECTIVES, make_objective

WITHOUT = ("stochasticrank", "xendcg", "listmle")
WITH = [name for name in OBJECTIVES if name not in WITHOUT]
OF_PAIRS = (
    RankMART(),
    RankMART(sigma=1.5),
    LambdaMART(metric="map(relevant>=1)", normalise=False),
    LambdaMART(metric="ndcg@3", truncation=4, normalise=False),
    LambdaMART(metric="err", neighbours=2, normalise=False),
    LambdaMART(metric=lambda labels: float(labels[0] / 4), normalise=False),
    YetiRank(),
    YetiLoss(metric="mrr(relevant>=1)"),
)


def compute(objective, data, scores):
    forces, curvatures = np.full((2, data.n_documents), np.nan)
    objective.prepare(data, 1, 0).compute(np.asarray(scores, float), 0, forces, curvatures)
    return forces, curvatures


def sample(name="rankmart", seed=0):
    rng = np.random.default_rng(seed)
    group = [7, 1, 4, 12]
    labels = rng.integers(0, 2 if name == "logistic" else 5, sum(group))
    return labels, group, rng.normal(size=sum(group)), rng.integers(0, 4, sum(group)) / 2


@pytest.mark.filterwarnings("ignore:custom")
@pytest.mark.parametrize("objective", OF_PAIRS, ids=repr)
def test_a_pair_counts_the_product_of_the_weights_of_its_documents(objective):
    # Forces are linear in the weight of each pair, so those of single pairs, asked for one after
    # the other by weights of 0 and 1, add up to the whole.
    labels, _, scores, weights = (values[:7] for values in sample())
    whole = compute(objective, dataset(labels, [7], None, weights), scores)
    wanted = np.zeros((2, 7))
    for i in range(7):
        for j in range(i):
            alone = np.zeros(7)
            alone[[i, j]] = 1.0
            got = compute(objective, dataset(labels, [7], None, alone), scores)
            wanted += weights[i] * weights[j] * np.array(got)
    np.testing.assert_allclose(whole, wanted, rtol=0, atol=1e-12)
    assert np.abs(whole[0]).max() > 0


def test_normalised_forces_of_a_query_are_scaled_by_their_weighed_size():
    labels, _, scores, weights = (values[:7] for values in sample())
    data = dataset(labels, [7], None, weights)
    normalised, _ = compute(LambdaMART(metric="ndcg"), data, scores)
    twice, _ = compute(LambdaMART(metric="ndcg"), dataset(labels, [7], None, 2 * weights), scores)
    # With S the sum of sizes, forces are a multiple of log2(1 + S) / S, and S is 4 times as large.
    ratio = twice[normalised != 0] / normalised[normalised != 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert 1 < ratio[0] < 4


@pytest.mark.parametrize("name", WITH)
def test_weights_of_one_change_nothing_and_weights_of_zero_take_a_document_out(name):
    labels, group, scores, weights = sample(name)
    objective = make_objective(name)
    without = compute(objective, dataset(labels, group), scores)
    ones = compute(objective, dataset(labels, group, None, np.ones(len(labels))), scores)
    np.testing.assert_allclose(ones, without, rtol=1e-12, atol=1e-14)
    forces, curvatures = compute(objective, dataset(labels, group, None, weights), scores)
    if name not in ("softmax", "listnet"):
        # Softmax still pushes down what has no target.
        assert np.all(forces[weights == 0] == 0)
        assert np.all(curvatures[weights == 0] == 0)
    assert np.isfinite(forces).all()
    assert forces.any()


@pytest.mark.parametrize("name", [n for n in WITH if n not in ("regression", "logistic")])
def test_forces_of_weighed_documents_still_sum_to_zero_in_each_query(name):
    labels, group, scores, weights = sample(name)
    forces, _ = compute(make_objective(name), dataset(labels, group, None, weights), scores)
    sums = np.add.reduceat(forces, np.cumsum([0, *group[:-1]]))
    np.testing.assert_allclose(sums, 0, atol=1e-12)


@pytest.mark.parametrize("name", ["rankmart", "queryrmse", "regression", "logistic"])
def test_a_document_of_weight_two_counts_as_the_document_given_twice(name):
    labels, group, scores, _ = sample(name)
    n = group[0]
    labels, scores = labels[:n], scores[:n]
    weights = np.array([1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    repeats = weights.astype(int)
    forces, curvatures = compute(make_objective(name), dataset(labels, [n], None, weights), scores)
    twice = compute(
        make_objective(name),
        dataset(np.repeat(labels, repeats), [repeats.sum()]),
        np.repeat(scores, repeats),
    )
    starts = np.cumsum(repeats) - repeats
    np.testing.assert_allclose(forces, np.add.reduceat(twice[0], starts), atol=1e-12)
    np.testing.assert_allclose(curvatures, np.add.reduceat(twice[1], starts), atol=1e-12)


@pytest.mark.parametrize("name", ["queryrmse", "regression", "logistic", "softmax", "listnet"])
def test_forces_of_weighed_documents_are_minus_the_derivative_of_their_cost(name):
    labels, group, scores, weights = sample(name)
    data = dataset(labels, group, [1.0, 2.0, 0.5, 1.0], weights)
    prepared = make_objective(name).prepare(data, 1)
    forces, _ = compute(make_objective(name), data, scores)
    for row in range(len(scores)):
        step = np.zeros(len(scores))
        step[row] = 1e-5
        slope = (prepared.cost(scores + step).sum() - prepared.cost(scores - step).sum()) / 2e-5
        assert forces[row] == pytest.approx(-slope, abs=1e-8)


@pytest.mark.parametrize("name", WITHOUT)
def test_an_objective_that_documents_cannot_weigh_refuses_their_weights(name):
    labels, group, _, weights = sample()
    with pytest.raises(DataError, match=f"^{name} must be trained without document weights"):
        make_objective(name).prepare(dataset(labels, group, None, weights))


def test_two_classes_may_be_minus_one_and_one():
    labels, group, scores, _ = sample("logistic")
    objective = make_objective("logistic", balanced=True)
    signs = compute(objective, dataset(2 * labels - 1, group), scores)
    plain = compute(objective, dataset(labels, group), scores)
    assert signs[0].tobytes() == plain[0].tobytes()
    assert objective.start_score(dataset(2 * labels - 1, group)) == (
        objective.start_score(dataset(labels, group))
    )
    with pytest.raises(DataError, match=r"0 and 1, or -1 and 1. Got 0 beside -1"):
        objective.prepare(dataset([-1, 0, 1], [3]))
    with pytest.raises(DataError, match=r"0 and 1, or -1 and 1. Got 2\."):
        objective.prepare(dataset([0, 2, 1], [3]))


def test_training_on_weighed_documents_has_the_same_bits_for_any_threads_and_learns_from_them():
    data = make_web_search(60, 16)
    noisy = data.labels.copy()
    wrong = np.random.default_rng(0).random(len(noisy)) < 0.5
    noisy[wrong] = np.random.default_rng(1).permutation(noisy[wrong])
    weighed = Dataset.from_arrays(
        data.features, noisy, group=data.group, document_weights=np.where(wrong, 0.0, 1.0)
    )
    options = {"n_estimators": 20, "objective": "lambdamart", "min_samples_leaf": 5}
    fits = [Ranker(n_jobs=n, **options).fit(weighed).predict(data) for n in (1, 2, 4)]
    assert fits[0].tobytes() == fits[1].tobytes() == fits[2].tobytes()
    arrays = Ranker(**options).fit(
        data.features, noisy, group=data.group, document_weights=weighed.document_weights
    )
    assert arrays.predict(data).tobytes() == fits[0].tobytes()
    misled = Ranker(**options).fit(data.features, noisy, group=data.group).predict(data)
    value, misled_value = (evaluate(data, s, "ndcg@10")["ndcg@10"] for s in (fits[0], misled))
    assert value > misled_value

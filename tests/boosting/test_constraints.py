"""What trees may do with a feature: monotone, categorical, with missing values."""

import numpy as np
import pytest

from boosting.samples import QUICK, make_data, train
from rankgrove import Ranker
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError


def bumpy_data(seed=0, n=1500, missing=0.0):
    """Grades that rise and fall in feature 0, together with feature 1."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, size=(n, 3))
    wave = np.sin(5 * features[:, 0]) * (1 + features[:, 1])
    labels = np.digitize(wave + rng.normal(size=n) / 3, [-0.5, 0, 0.5, 1])
    features[rng.random(features.shape) < missing] = np.nan
    return Dataset.from_arrays(features, labels, group=[15] * (n // 15))


def sweep(model, data, feature, n_rows=60):
    """Scores of some rows with a feature put to each of many values, rising."""
    rows = data.features[:n_rows].copy()
    scores = []
    for value in np.linspace(-1.2, 1.2, 101):
        rows[:, feature] = value
        scores.append(model.predict(rows))
    return np.array(scores)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"grower": "depthwise"},
        {"split_gain": "least_squares"},
        {"subsample": 0.5, "sampling": "gradient"},
        {"subsample": 0.5, "l2": 1.0, "colsample": 0.7},
    ],
    ids=str,
)
def test_scores_are_monotone_in_a_constrained_feature(sign, missing, options):
    data = bumpy_data(missing=missing)
    size = {"n_estimators": 25, "max_leaves": 31, "learning_rate": 0.3}
    run = train(data, **size, **options, monotone={0: sign})
    model = run.make_model(run.n_steps)
    steps = np.diff(sweep(model, data, 0), axis=0) * sign
    assert steps.min() >= 0
    assert steps.max() > 0
    free = train(data, **size, **options)
    steps = np.diff(sweep(free.make_model(25), data, 0), axis=0)
    assert steps.min() < 0 < steps.max()
    missing_rows = data.features[:40].copy()
    missing_rows[:, 0] = np.nan
    assert np.isfinite(model.predict(missing_rows)).all()


def test_two_features_are_constrained_each_its_own_way():
    data = bumpy_data()
    run = train(data, n_estimators=25, max_leaves=31, monotone=[1, -1, 0])
    model = run.make_model(25)
    assert np.diff(sweep(model, data, 0), axis=0).min() >= 0
    assert np.diff(sweep(model, data, 1), axis=0).max() <= 0


def test_constraint_in_the_direction_of_the_data_costs_little():
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, size=(3000, 2))
    labels = np.digitize(3 * features[:, 0] + rng.normal(size=3000), [-1, 0, 1, 2])
    data = Dataset.from_arrays(features, labels, group=[30] * 100)
    ends = [
        train(data, {"train": data}, n_estimators=25, monotone=monotone).history["train"]["ndcg@10"]
        for monotone in ({}, {0: 1})
    ]
    assert ends[1][-1] > ends[0][-1] - 0.02


def test_feature_cannot_be_both_monotone_and_categorical():
    with pytest.raises(ParameterError, match="monotone features must not be categorical"):
        train(make_data(), monotone={1: 1}, categorical=[1])


def category_data(n_categories, seed=0, n=1200):
    """The category alone decides relevance, and its number says nothing."""
    rng = np.random.default_rng(seed)
    good = rng.random(n_categories) < 0.5
    good[:2] = [True, False]
    category = rng.integers(0, n_categories, n)
    features = np.column_stack([rng.normal(size=n), 100.0 + category])
    labels = 2 * good[category]
    data = Dataset.from_arrays(
        features, labels, group=[12] * (n // 12), feature_names=["noise", "shop"]
    )
    return data, good


@pytest.mark.parametrize("named", ["shop", 1])
@pytest.mark.parametrize("n_categories", [2, 12, 60])
def test_category_that_decides_relevance_is_learnt(n_categories, named):
    data, good = category_data(n_categories)
    options = {"n_estimators": 10, "learning_rate": 0.3, "category_l2": 0.0,
               "category_smoothing": 1.0}  # fmt: skip
    run = train(data, {"train": data}, categorical=[named], **options)
    assert run.history["train"]["ndcg@10"][-1] == pytest.approx(1, abs=0.005)
    model = run.make_model(10)
    probe = np.column_stack([np.zeros(n_categories), 100.0 + np.arange(n_categories)])
    scores = model.predict(probe)
    assert scores[good].mean() > scores[~good].mean() + 0.5
    used = model.ensemble.category_set[model.ensemble.feature == 1]
    assert len(used) > 0
    assert np.all(used >= 0)


def test_unknown_and_missing_categories_take_the_right_branch_alike():
    data, _ = category_data(12)
    model = train(data, categorical=["shop"]).make_model(6)
    odd = [np.nan, 5.0, -1.0, 1e9, 100.5, 99.0]
    scores = model.predict(np.column_stack([np.zeros(len(odd)), odd]))
    assert len(np.unique(scores)) == 1
    assert np.isfinite(scores).all()
    assert not model.ensemble.missing_left[model.ensemble.category_set >= 0].any()


def test_more_than_255_categories_keep_the_most_frequent():
    rng = np.random.default_rng(0)
    rare = np.arange(400, 800)
    category = np.append(rng.integers(0, 200, 2000), rare)
    labels = np.append((category[:2000] % 2) * 2, rng.integers(0, 3, 400))
    features = np.column_stack([category, rng.normal(size=2400)])
    data = Dataset.from_arrays(features, labels, group=[12] * 200)
    run = train(data, {"train": data}, categorical=[0], n_estimators=20, category_l2=0.0,
                category_smoothing=0.0, max_categories=255, max_leaves=31)  # fmt: skip
    model = run.make_model(20)
    assert len(model.schema.categories[0]) == 255
    assert set(range(200)) <= set(model.schema.categories[0])
    assert model.predict(data).tobytes() == run.scores.tobytes()
    assert run.history["train"]["ndcg@10"][-1] > 0.85


def test_missing_value_counts_as_no_category_and_trains():
    data, _ = category_data(12)
    features = data.features.copy()
    features[::5, 1] = np.nan
    holed = Dataset.from_arrays(features, data.labels, group=data.group)
    run = train(holed, categorical=[1])
    assert run.make_model(6).predict(holed).tobytes() == run.scores.tobytes()


@pytest.mark.parametrize("value", [7.0, np.nan])
def test_categorical_feature_of_one_value_or_none_is_never_split_by(value):
    data = make_data(names=["a", "b", "c", "d", "e", "f"])
    features = data.features.copy()
    features[:, 2] = value
    flat = Dataset.from_arrays(features, data.labels, group=data.group)
    run = train(flat, categorical=[2])
    model = run.make_model(6)
    assert 2 not in model.ensemble.feature
    features[:, 2] = 12.0
    assert model.predict(features).tobytes() == run.scores.tobytes()


def test_infinite_category_is_refused_before_training():
    data = make_data()
    features = data.features.copy()
    features[3, 4] = np.inf
    with pytest.raises(DataError, match="Got infinity in feature 'f5'"):
        train(Dataset.from_arrays(features, data.labels, group=data.group), categorical=["f5"])


def test_max_categories_holds():
    data, _ = category_data(60)
    for most in (1, 3):
        run = train(data, categorical=[1], max_categories=most, category_smoothing=0.0)
        sizes = np.bitwise_count(run.trainer.ensemble.category_sets).sum(axis=1)
        assert 1 <= sizes.max() <= most


@pytest.mark.parametrize("good", [True, False])
def test_direction_of_missing_values_is_learnt_both_ways(good):
    rng = np.random.default_rng(0)
    n = 1200
    features = rng.uniform(0, 1, size=(n, 1)).repeat(2, axis=1)
    features[:, 1] = rng.normal(size=n)
    absent = rng.random(n) < 0.3
    labels = np.where(absent, 2 if good else 0, np.where(features[:, 0] > 0.8, 2, 0))
    features[absent, 0] = np.nan
    data = Dataset.from_arrays(features, labels, group=[20] * 60)
    options = {"metric": "ndcg(ties=stable)", "eval_metric": "ndcg@10", "n_estimators": 10}
    run = train(data, {"train": data}, **options)
    assert run.history["train"]["ndcg@10"][-1] == pytest.approx(1, abs=0.001)
    first = run.trees[0]
    assert first.feature[0] == 0
    assert first.missing_left[0] == (not good)
    scores = run.make_model(10).predict([[np.nan, 0.0], [0.4, 0.0], [0.9, 0.0]])
    assert scores[0] == (scores[2] if good else scores[1])


def test_whether_a_value_is_missing_can_be_all_that_matters():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 2))
    absent = rng.random(600) < 0.4
    features[absent, 0] = np.nan
    data = Dataset.from_arrays(features, absent.astype(int), group=[12] * 50)
    run = train(data, {"train": data}, n_estimators=5)
    assert run.history["train"]["ndcg@10"][-1] == 1
    assert np.isinf(run.trees[0].threshold[0])


def test_missing_value_where_training_had_none_goes_with_the_majority():
    data = make_data()
    run = train(data, n_estimators=1, max_leaves=2)
    tree = run.trees[0]
    row = np.zeros((1, 6))
    row[0, tree.feature[0]] = np.nan
    assert run.make_model(1).predict(row)[0] == tree.value[np.argmax(tree.count)]


def test_infinities_are_values_beyond_all_others():
    data = make_data()
    features = data.features.copy()
    features[features > 1.5] = np.inf
    features[features < -1.5] = -np.inf
    ends = Dataset.from_arrays(features, data.labels, group=data.group)
    run = train(ends)
    model = run.make_model(6)
    assert model.predict(ends).tobytes() == run.scores.tobytes()
    # A cut may stand below the lowest finite value, at -inf itself, but not above the highest one.
    clipped = np.minimum(features, 1e30)
    assert model.predict(clipped).tobytes() == run.scores.tobytes()


def test_ranker_takes_a_category_by_the_name_of_its_column():
    import pandas as pd

    data, _ = category_data(12)
    frame = pd.DataFrame(data.features, columns=["noise", "shop"])
    ranker = Ranker(**QUICK, categorical=["shop"]).fit(frame, data.labels, qid=data.qid)
    assert list(ranker.model_.schema.categories) == [1]
    with pytest.raises(ParameterError, match="did you mean 'shop'"):
        Ranker(**QUICK, categorical=["shops"]).fit(frame, data.labels, qid=data.qid)

"""MARTRegressor and MARTClassifier: regression and two classes by scikit-learn's rules."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from boosting.samples import bits
from rankgrove import MARTClassifier, MARTRegressor, Ranker
from rankgrove.errors import DataError, ParameterError

QUICK = {"n_estimators": 15, "max_leaves": 8, "learning_rate": 0.2, "min_samples_leaf": 5}
BOTH = pytest.mark.parametrize("kind", [MARTRegressor, MARTClassifier])
FOLDS = KFold(5, shuffle=True, random_state=0)


def sample(kind, n_rows=400, seed=0):
    """Features, and labels of the kind that an estimator takes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, (y if kind is MARTRegressor else np.where(y > 0.5, "yes", "no"))


def output(estimator, rows):
    is_classifier = isinstance(estimator, MARTClassifier)
    return estimator.decision_function(rows) if is_classifier else estimator.predict(rows)


# No check is expected to fail. The data of the checks are small: few trees are enough.
@parametrize_with_checks([MARTRegressor(n_estimators=20), MARTClassifier(n_estimators=20)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# Folds of these small sets differ by 0.03 and more in R^2, and by 0.02 in log loss: the margins are
# below that, and far below what a defect costs.
@pytest.mark.parametrize("data", [
    load_diabetes(return_X_y=True), make_friedman1(600, noise=1.0, random_state=0),
], ids=["diabetes", "friedman"])  # fmt: skip
def test_regression_is_as_good_as_histogram_boosting(data):
    own = cross_val_score(MARTRegressor(), *data, cv=FOLDS).mean()
    other = cross_val_score(HistGradientBoostingRegressor(random_state=0), *data, cv=FOLDS).mean()
    assert own > other - 0.01


def test_classification_is_as_good_as_histogram_boosting():
    data = load_breast_cancer(return_X_y=True)
    for scoring, margin in (("neg_log_loss", 0.01), ("accuracy", 0.01)):
        own, other = (
            cross_val_score(estimator, *data, cv=FOLDS, scoring=scoring).mean()
            for estimator in (MARTClassifier(), HistGradientBoostingClassifier(random_state=0))
        )
        assert own > other - margin


@pytest.mark.parametrize("sigma", [1.0, 2.5])
def test_chances_are_the_logistic_function_of_the_scores_and_add_up_to_one(sigma):
    X, y = sample(MARTClassifier)
    classifier = MARTClassifier(**QUICK, sigma=sigma).fit(X, y)
    chances = classifier.predict_proba(X)
    scores = classifier.decision_function(X)
    # Two roundings of numbers below 1.
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=0, atol=4e-16)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-sigma * scores)), rtol=1e-12)
    assert classifier.predict(X).tolist() == np.where(scores > 0, "yes", "no").tolist()
    # The classes have the chances that they have in the data, on average, as the start has.
    assert chances[:, 1].mean() == pytest.approx((y == "yes").mean(), abs=0.02)


def test_chances_are_those_of_the_sigma_of_training():
    X, y = sample(MARTClassifier)
    classifier = MARTClassifier(**QUICK, sigma=2.0).fit(X, y)
    before = classifier.predict_proba(X)
    assert classifier.set_params(sigma=1.0).predict_proba(X).tobytes() == before.tobytes()


@pytest.mark.parametrize("labels", [
    np.array(["ham", "spam"]), np.array(["ham", "spam"], dtype=object), np.array([False, True]),
    np.array([-1, 1], dtype=np.int32), np.array([3, 7], dtype=np.uint8), np.array([1.0, 2.0]),
], ids=lambda labels: labels.dtype.str)  # fmt: skip
def test_classes_of_any_kind_come_back_also_from_a_file(labels, tmp_path):
    X, y = sample(MARTClassifier)
    y = labels[(y == "yes").astype(int)]
    classifier = MARTClassifier(**QUICK).fit(X, y)
    classifier.save(tmp_path / "model.safetensors")
    for one in (classifier, MARTClassifier.load(tmp_path / "model.safetensors")):
        assert one.classes_.dtype == labels.dtype
        assert one.classes_.tolist() == labels.tolist()
        assert one.predict(X).dtype == labels.dtype
        assert one.score(X, y) > 0.85


def test_classes_that_a_file_cannot_hold_are_refused_when_saving_only(tmp_path):
    X, y = sample(MARTClassifier)
    days = np.array(["2024-01-01", "2025-01-01"], dtype="M8[D]")[(y == "yes").astype(int)]
    classifier = MARTClassifier(**QUICK).fit(X, days)
    assert (classifier.predict(X) == days).mean() > 0.85
    with pytest.raises(DataError, match=r"classes must be text.*Got datetime64"):
        classifier.save(tmp_path / "model.safetensors")


@pytest.mark.parametrize(("labels", "problem"), [
    ([0, 1, 2], "Only binary classification is supported.*3 classes"),
    ([1, 1, 1], "y must have two classes. Got one class only"),
    ([0.1, 0.2, 0.3], "Unknown label type: continuous"),
    ([0.0, np.nan, 1.0], "contains NaN"),
])  # fmt: skip
def test_labels_that_are_not_two_classes_are_refused(labels, problem):
    X, _ = sample(MARTClassifier, 60)
    with pytest.raises(ValueError, match=problem):
        MARTClassifier(**QUICK).fit(X, np.tile(labels, 20))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(wrong):
    X, y = sample(MARTRegressor)
    y[7] = wrong
    with pytest.raises(ValueError, match="y contains"):
        MARTRegressor(**QUICK).fit(X, y)


def test_values_past_float32_are_refused():
    X, y = sample(MARTRegressor)
    with pytest.raises(DataError, match=r"y must be within 3\.4e38 of its mean"):
        MARTRegressor(**QUICK).fit(X, y * 1e39)


@BOTH
def test_the_bits_are_the_same_for_any_number_of_threads_and_for_weights_of_one(kind):
    # More than one block of rows.
    X, y = sample(kind, 9000)
    fits = [kind(**QUICK, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2, 3)]
    fits.append(kind(**QUICK, n_jobs=2).fit(X, y, sample_weight=np.ones(len(y))))
    assert all(bits(fit.model_.ensemble) == bits(fits[0].model_.ensemble) for fit in fits)
    assert len({output(fit, X).tobytes() for fit in fits}) == 1


def test_classifier_has_the_trees_of_the_ranker():
    X, y = sample(MARTClassifier)
    ranker = Ranker("logistic", **QUICK, l2=1.0).fit(X, y == "yes", group=[len(y)])
    classifier = MARTClassifier(**QUICK).fit(X, y)
    assert bits(classifier.model_.ensemble) == bits(ranker.model_.ensemble)


def test_regressor_has_the_trees_of_the_ranker():
    X, y = sample(MARTRegressor)
    ranker = Ranker("regression", **QUICK, l2=5.0).fit(X, y, group=[len(y)])
    # Labels are rounded to float32 before or after their mean is taken out, and sums of forces to
    # 2^-15 or so of the largest: a split between equals may fall otherwise.
    difference = MARTRegressor(**QUICK).fit(X, y).predict(X) - ranker.predict(X)
    assert np.sqrt(np.mean(difference**2)) < 0.02 * y.std()


def test_what_all_values_have_in_common_costs_no_precision():
    X, y = sample(MARTRegressor)
    near = MARTRegressor(**QUICK).fit(X, y).predict(X)
    # float32 has steps of 64 at 1e9, float64 of 1e-7.
    far = MARTRegressor(**QUICK).fit(X, y + 1e9).predict(X) - 1e9
    assert np.sqrt(np.mean((far - near) ** 2)) < 0.02 * y.std()


@BOTH
def test_a_weight_of_two_is_a_row_twice(kind):
    # Leaves of any number of rows.
    own = {**QUICK, "n_estimators": 3, "min_samples_leaf": 1, "min_child_weight": 2.0}
    apart, without = [], []
    for seed in range(5):
        X, y = sample(kind, 300, seed)
        # Few distinct values, so that the cuts are the same.
        X = np.nan_to_num(X).round()
        twice = np.arange(len(y)) % 3 == 0
        repeated = kind(**own).fit(np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]))
        weighted = kind(**own).fit(X, y, sample_weight=np.where(twice, 2.0, 1.0))
        plain = kind(**own).fit(X, y)
        expected = output(repeated, X)
        for fit, found in ((weighted, apart), (plain, without)):
            found.append(np.sqrt(np.mean((output(fit, X) - expected) ** 2)) / expected.std())
    # For the choice of splits forces are rounded at random, by row, so that a near tie may go
    # otherwise in some data. Where none does, only the order of sums differs.
    assert np.median(apart) < 1e-9
    assert min(without) > 0.05


@BOTH
def test_rows_of_weight_zero_do_not_count(kind):
    X, y = sample(kind)
    spoilt = np.where(np.arange(len(y)) % 4 == 0, y[::-1], y)
    weights = (np.arange(len(y)) % 4 != 0).astype(float)
    kept = weights > 0
    fits = [kind(**QUICK).fit(X, labels, sample_weight=weights) for labels in (y, spoilt)]
    assert output(fits[0], X).tobytes() == output(fits[1], X).tobytes()
    assert fits[0].score(X[kept], y[kept]) > 0.7


def test_balanced_moves_the_balance_to_the_middle():
    X, y = sample(MARTClassifier, 2000)
    rare = (y == "no") | (np.arange(len(y)) % 8 == 0)
    X, y = X[rare], y[rare]
    share = (y == "yes").mean()
    assert share < 0.1
    plain = MARTClassifier(**QUICK).fit(X, y)
    balanced = MARTClassifier(**QUICK, balanced=True).fit(X, y)
    found = [(fit.predict(X[y == "yes"]) == "yes").mean() for fit in (plain, balanced)]
    assert found[1] > found[0] + 0.1
    assert plain.predict_proba(X)[:, 1].mean() == pytest.approx(share, abs=0.02)
    # Balanced chances are those of data where both classes are as many.
    chances = balanced.predict_proba(X)[:, 1]
    weights = np.where(y == "yes", 0.5 / share, 0.5 / (1 - share))
    assert np.average(chances, weights=weights) == pytest.approx(0.5, abs=0.05)


@BOTH
@pytest.mark.parametrize("more", [{}, {"shrink_rate": 0.2}, {"categorical": [4]}], ids=str)
def test_early_stopping_keeps_the_trees_of_least_loss(kind, more):
    X, y = sample(kind)
    X[:, 4] = np.arange(len(y)) % 7
    valid = sample(kind, 300, seed=1)
    valid[0][:, 4] = np.arange(300) % 9
    own = {**QUICK, "n_estimators": 200, "learning_rate": 0.5, **more}
    fitted = kind(**own, early_stopping_rounds=5).fit(X, y, eval_set=[valid, (X, y)])
    name = "squared error" if kind is MARTRegressor else "log loss"
    assert {key: list(curves) for key, curves in fitted.history_.items()} == {
        "valid_1": [name], "valid_2": [name],
    }  # fmt: skip
    curve = fitted.history_["valid_1"][name]
    assert fitted.best_iteration_ == np.argmin(curve) + 1 == len(curve) - 5
    assert len(curve) < 200
    assert fitted.model_.n_trees == fitted.best_iteration_
    for number, (features, labels) in enumerate([valid, (X, y)], 1):
        if kind is MARTRegressor:
            loss = mean_squared_error(labels, fitted.predict(features))
        else:
            loss = log_loss(labels, fitted.predict_proba(features))
        measured = fitted.history_[f"valid_{number}"][name][fitted.best_iteration_ - 1]
        assert measured == pytest.approx(loss, rel=1e-9)


def test_a_balanced_classifier_watches_a_balanced_loss():
    X, y = sample(MARTClassifier)
    fitted = MARTClassifier(**QUICK, balanced=True).fit(X, y, eval_set=[(X, y)])
    weights = 1 / np.where(y == "yes", (y == "yes").sum(), (y == "no").sum())
    loss = log_loss(y, fitted.predict_proba(X), sample_weight=weights)
    assert fitted.history_["valid"]["log loss"][-1] == pytest.approx(loss, rel=1e-9)


@BOTH
def test_what_fit_cannot_use_is_refused(kind):
    X, y = sample(kind)
    with pytest.raises(ParameterError, match="early_stopping_rounds must have a validation set"):
        kind(**QUICK, early_stopping_rounds=3).fit(X, y)
    for wrong in (3, [X], [(X, y, y)]):
        with pytest.raises(ParameterError, match="eval_set must be a list of tuples"):
            kind(**QUICK).fit(X, y, eval_set=wrong)
    with pytest.raises(ValueError, match="3 features"):
        kind(**QUICK).fit(X, y, eval_set=[(X[:, :3], y)])
    with pytest.raises(ValueError, match=r"[Nn]egative values"):
        kind(**QUICK).fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="sample_weight"):
        kind(**QUICK).fit(X, y, sample_weight=np.ones(3))


def test_unknown_classes_of_validation_are_refused():
    X, y = sample(MARTClassifier)
    with pytest.raises(DataError, match=r"validation set must be of the classes.*'perhaps'"):
        MARTClassifier(**QUICK).fit(X, y, eval_set=[(X, np.full(len(y), "perhaps"))])


@BOTH
def test_a_parameter_that_does_not_exist_is_refused_with_the_nearest(kind):
    expected = f"a parameter of {kind.__name__} .*did you mean 'learning_rate'"
    with pytest.raises(ParameterError, match=expected):
        kind(learning_rat=0.1)
    with pytest.raises(ParameterError, match=expected):
        kind().set_params(learning_rat=0.1)
    for of_ranking in ("objective", "metric", "eval_metric", "truncation"):
        with pytest.raises(ParameterError, match=of_ranking):
            kind(**{of_ranking: "auto"})
    with pytest.raises(ParameterError, match="n_estimators must be a whole number"):
        kind(n_estimators=0).fit(*sample(kind))


@BOTH
def test_clones_pickles_and_files_score_the_same(kind, tmp_path):
    X, y = sample(kind)
    frame = pd.DataFrame(X, columns=list("abcde"))
    fitted = kind(**QUICK, monotone={"a": 1}, early_stopping_rounds=4).fit(
        frame, y, eval_set=[(frame, y)]
    )
    expected = output(fitted, frame).tobytes()
    fitted.save(tmp_path / "model.safetensors")
    loaded = kind.load(tmp_path / "model.safetensors")
    for copy in (pickle.loads(pickle.dumps(fitted)), loaded):
        assert output(copy, frame).tobytes() == expected
        assert copy.get_params() == fitted.get_params()
        assert copy.feature_names_in_.tolist() == list("abcde")
        assert copy.history_ == fitted.history_
    assert output(clone(loaded).fit(frame, y, eval_set=[(frame, y)]), frame).tobytes() == expected
    with pytest.raises(sklearn.exceptions.NotFittedError):
        clone(fitted).predict(frame)


@BOTH
def test_a_file_of_another_objective_is_refused_and_one_of_the_ranker_taken(kind, tmp_path):
    X, y = sample(MARTRegressor)
    y = (y > 0).astype(int)
    own, other = ("regression", "logistic")[:: 1 if kind is MARTRegressor else -1]
    for objective in (own, other):
        Ranker(objective, **QUICK).fit(X, y, group=[len(y)]).save(tmp_path / objective)
    with pytest.raises(DataError, match=f"must be trained by {own}. Got one by {other}"):
        kind.load(tmp_path / other)
    loaded = kind.load(tmp_path / own)
    assert output(loaded, X).tobytes() == Ranker.load(tmp_path / own).predict(X).tobytes()
    assert loaded.score(X, y) > 0.5


@BOTH
def test_sparse_matrices_give_what_dense_ones_give(kind):
    X, y = sample(kind)
    X = np.where(np.abs(X) < 0.5, 0, X)
    dense, sparse = kind(**QUICK).fit(X, y), kind(**QUICK).fit(scipy.sparse.csc_array(X), y)
    assert bits(dense.model_.ensemble) == bits(sparse.model_.ensemble)
    assert output(sparse, scipy.sparse.coo_array(X)).tobytes() == output(dense, X).tobytes()


@BOTH
def test_pipelines_and_searches_take_them(kind):
    X, y = sample(kind)
    pipeline = make_pipeline(StandardScaler(), kind(**QUICK))
    step = kind.__name__.lower()
    search = GridSearchCV(pipeline, {f"{step}__max_leaves": [2, 8]}, cv=3, error_score="raise")
    search.fit(X, y)
    assert search.best_params_ == {f"{step}__max_leaves": 8}
    assert search.score(X, y) > 0.7
    assert search.best_estimator_[-1].feature_importances_.sum() == pytest.approx(1)


@BOTH
def test_samples_are_of_rows(kind):
    X, y = sample(kind)
    half = kind(**QUICK, subsample=0.5).fit(X, y)
    counts = half.model_.ensemble.count[: half.model_.ensemble.split_offsets[1] + 1]
    assert counts.sum() == pytest.approx(200, abs=1)
    assert half.score(X, y) > 0.6


@BOTH
def test_nothing_to_split_by_is_warned_of(kind):
    X, y = sample(kind, 30)
    with pytest.warns(UserWarning, match="nothing to split by.*min_samples_leaf, which is 20"):
        fitted = kind(min_samples_leaf=20).fit(X, y)
    assert len(np.unique(output(fitted, X))) == 1


@BOTH
def test_ctrl_c_leaves_the_trees_so_far(kind):
    X, y = sample(kind)

    def interrupt(training):
        if len(training.trees) == 4:
            raise KeyboardInterrupt

    estimator = kind(**QUICK)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, y, callbacks=[interrupt])
    whole = kind(**QUICK).fit(X, y)
    assert estimator.best_iteration_ == 4
    assert output(estimator, X).tobytes() == whole.model_.predict(X, n_trees=4).tobytes()

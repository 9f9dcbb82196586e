"""Training that starts from another model: its trees come first, and the new ones follow."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from boosting.samples import QUICK, bits, make_data, trees_of
from rankgrove import CombinedModel, Model, Ranker
from rankgrove.boosting.loop import Boosting
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.files import ModelFileError
from rankgrove.trees.ensemble import Ensemble


def make_ranker(**parameters):
    return Ranker(**{**QUICK, **parameters})


def with_scores(data, scores):
    """The data with other base scores."""
    return Dataset.from_arrays(
        data.features, data.labels, group=data.group, weights=data.weights, base_scores=scores
    )


def part(ensemble, first, last):
    """Some of the trees of an ensemble, as bits."""
    return bits(Ensemble.from_trees(trees_of(ensemble)[first:last]))


class Watch:
    """Keeps the last training that it was called with."""

    def __call__(self, training):
        self.training = training


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def valid():
    return make_data(seed=1)


@pytest.fixture(scope="module")
def base(data):
    return make_ranker(n_estimators=4, learning_rate=0.3).fit(data)


@pytest.mark.parametrize("kind", ["model", "path", "text", "ranker"])
def test_base_trees_come_first_and_the_model_scores_alone(data, valid, base, kind, tmp_path):
    path = tmp_path / "base.safetensors"
    base.save(path)
    given = {"model": base.model_, "path": path, "text": str(path), "ranker": base}[kind]
    watch = Watch()
    ranker = make_ranker().fit(data, valid=valid, base_model=given, callbacks=[watch])
    model = ranker.model_
    assert (model.n_trees, model.n_base_trees, ranker.best_iteration_) == (10, 4, 6)
    assert part(model.ensemble, 0, 4) == bits(base.model_.ensemble)
    assert not model.schema.needs_base_scores
    assert model.predict(valid, n_trees=4).tobytes() == base.predict(valid).tobytes()
    path.unlink(missing_ok=True)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.predict(data).tobytes() == watch.training.scores.tobytes()
    assert loaded.best_iteration_ == 6
    assert loaded.model_.n_base_trees == loaded.model_.notes["n_base_trees"] == 4
    assert loaded.history_ == ranker.history_


def test_history_measures_the_model_with_the_trees_of_the_base(data, valid, base):
    ranker = make_ranker().fit(data, valid=[valid, data], base_model=base)
    for name, part_of in (("valid_1", valid), ("valid_2", data)):
        curve = ranker.history_[name]["ndcg@10"]
        assert len(curve) == 6
        for own, value in enumerate(curve, start=1):
            again = Ranker().set_params(**base.get_params())
            again._keep(Model(ranker.model_.ensemble.prefix(4 + own), ranker.model_.schema, {}, {}))
            # The same scores to the bit, so the same value.
            assert again.score(part_of) == value


@pytest.mark.parametrize(
    "options", [{}, {"subsample": 0.5, "sampling": "gradient"}, {"objective": "rankmart"}], ids=str
)
def test_new_trees_have_the_bits_of_training_on_the_scores_of_the_base(data, valid, base, options):
    ranker = make_ranker(**options).fit(data, valid=valid, base_model=base)
    on_scores = make_ranker(**options).fit(
        with_scores(data, base.predict(data)), valid=with_scores(valid, base.predict(valid))
    )
    assert part(ranker.model_.ensemble, 4, None) == bits(on_scores.model_.ensemble)
    assert ranker.history_ == on_scores.history_
    assert bits(on_scores.model_.ensemble) != bits(make_ranker(**options).fit(data).model_.ensemble)


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rate": 0.9, "max_leaves": 3, "max_bins": 15, "random_state": 9},
        {"objective": "rankmart"},
        {"objective": "queryrmse"},
        {"objective": "regression"},
        {"objective": "lambdamart", "metric": "dcg@3"},
        {"monotone": {0: 1}, "grower": "depthwise"},
    ],
    ids=str,
)
def test_parameters_and_objective_may_be_others(data, base, options):
    model = make_ranker(**options).fit(data, base_model=base).model_
    assert (model.n_trees, model.n_base_trees) == (10, 4)
    assert part(model.ensemble, 0, 4) == bits(base.model_.ensemble)
    assert model.parameters.items() >= {k: v for k, v in options.items() if k != "monotone"}.items()


def test_objective_with_a_start_adds_it_to_no_base(data):
    base = make_ranker(objective="regression", n_estimators=150, learning_rate=0.3).fit(data)
    more = make_ranker(objective="regression", n_estimators=1).fit(data, base_model=base)
    # The base has the mean of the labels already; one small step more must not move all scores.
    moved = np.mean(more.predict(data)) - np.mean(base.predict(data))
    assert abs(moved) < 0.01 < 0.5 < np.mean(data.labels)


def test_base_may_itself_have_a_base(data, base):
    second = make_ranker(n_estimators=3).fit(data, base_model=base)
    third = make_ranker(n_estimators=2).fit(data, base_model=second)
    assert (third.model_.n_trees, third.model_.n_base_trees, third.best_iteration_) == (9, 7, 2)
    assert part(third.model_.ensemble, 0, 7) == bits(second.model_.ensemble)


def test_base_is_left_as_it_was(data):
    base = make_ranker().fit(data)
    before, parameters = bits(base.model_.ensemble), dict(base.model_.parameters)
    make_ranker(shrink_rate=0.5).fit(data, base_model=base)
    assert bits(base.model_.ensemble) == before
    assert base.model_.parameters == parameters


def test_early_stopping_cuts_new_trees_only(data, valid, base):
    options = {"early_stopping_rounds": 3, "learning_rate": 0.6, "n_estimators": 100}
    ranker = make_ranker(**options).fit(data, valid=valid, base_model=base)
    curve = ranker.history_["valid"]["ndcg@10"]
    best = int(np.argmax(curve)) + 1
    assert len(curve) == best + 3 < 100
    assert ranker.best_iteration_ == best
    assert (ranker.model_.n_trees, ranker.model_.n_base_trees) == (4 + best, 4)
    assert ranker.score(valid) == max(curve)


@pytest.mark.parametrize("options", [{}, {"early_stopping_rounds": 4, "learning_rate": 0.6}])
def test_resumed_run_with_a_base_has_the_bits_of_an_uninterrupted_one(
    data, valid, base, options, tmp_path
):
    options = {"n_estimators": 11, "subsample": 0.7, **options}
    whole = make_ranker(**options).fit(data, valid=valid, base_model=base)
    path = tmp_path / "checkpoint.safetensors"
    make_ranker(**options).fit(
        data, valid=valid, base_model=base, checkpoint=path, checkpoint_every=3,
        callbacks=[lambda training: len(training.trees) == 5],
    )  # fmt: skip
    checkpoint = Model.load(path)
    assert (checkpoint.n_trees, checkpoint.n_base_trees) == (7, 4)
    assert checkpoint.notes["n_base_trees"] == 4
    resumed = make_ranker(**options).fit(data, valid=valid, resume=path)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    assert resumed.history_ == whole.history_
    assert resumed.best_iteration_ == whole.best_iteration_
    assert resumed.model_.parameters == whole.model_.parameters


def test_fewer_trees_than_the_checkpoint_has_of_its_own_are_refused(data, base):
    model = make_ranker(n_estimators=5).fit(data, base_model=base).model_
    with pytest.raises(ParameterError, match=r"at least the 5 trees of the checkpoint. Got 4"):
        make_ranker(n_estimators=4).fit(data, resume=model)
    assert make_ranker(n_estimators=7).fit(data, resume=model).model_.n_trees == 11


def test_run_interrupted_before_its_first_own_tree_can_go_on(data, valid, base, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    ranker = make_ranker()
    step = Boosting.step
    monkeypatch.setattr(Boosting, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(data, valid=valid, base_model=base)
    monkeypatch.setattr(Boosting, "step", step)
    assert (ranker.model_.n_trees, ranker.best_iteration_) == (4, 0)
    resumed = make_ranker().fit(data, valid=valid, resume=ranker.model_)
    whole = make_ranker().fit(data, valid=valid, base_model=base)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)


def test_resume_and_base_model_together_are_refused(data, base):
    model = make_ranker().fit(data, base_model=base).model_
    with pytest.raises(ParameterError, match=r"base_model must be left out .* Got both"):
        make_ranker(n_estimators=9).fit(data, resume=model, base_model=base)


def test_other_features_are_refused_before_any_tree(data, base):
    for other, got in (
        (
            make_data(n_features=5),
            "5 features of the training data in the same order. Got 6",
        ),
        (make_data(names=list("abcdef")), "in the same order. Got 'f1' in place of 'a'"),
    ):
        with pytest.raises(DataError, match=got):
            make_ranker().fit(other, base_model=base, callbacks=[pytest.fail])


@pytest.mark.parametrize("given", [7, ["model"], np.zeros(480)], ids=["number", "list", "array"])
def test_what_is_no_model_is_refused_by_its_type(data, given):
    with pytest.raises(ParameterError, match=f"base_model must be .* Got {type(given).__name__}"):
        make_ranker().fit(data, base_model=given)


def test_bad_file_and_unfitted_ranker_are_refused(data, tmp_path):
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ModelFileError):
        make_ranker().fit(data, base_model=tmp_path / "text")
    with pytest.raises(NotFittedError):
        make_ranker().fit(data, base_model=make_ranker())


def test_base_that_needs_base_scores_needs_them_again(data):
    based = make_data(based=True)
    base = make_ranker().fit(based)
    with pytest.raises(DataError, match=r"training data must have base scores.* Got none"):
        make_ranker().fit(data, base_model=base)
    watch = Watch()
    model = make_ranker().fit(based, base_model=base, callbacks=[watch]).model_
    assert model.schema.needs_base_scores
    assert model.predict(based).tobytes() == watch.training.scores.tobytes()
    with pytest.raises(DataError, match="base_scores"):
        model.predict(based.features)


def first_feature(features):
    return np.asarray(features)[:, 0].astype(float)


def test_function_gives_the_scores_that_training_and_validation_start_from(data, valid):
    ranker = make_ranker().fit(data, valid=valid, base_model=first_feature)
    on_scores = make_ranker().fit(
        with_scores(data, first_feature(data.features)),
        valid=with_scores(valid, first_feature(valid.features)),
    )
    assert bits(ranker.model_.ensemble) == bits(on_scores.model_.ensemble)
    assert ranker.history_ == on_scores.history_
    assert (ranker.model_.n_trees, ranker.model_.n_base_trees) == (6, 0)


def test_model_on_a_function_needs_base_scores_to_predict_and_says_so(data):
    watch = Watch()
    model = make_ranker().fit(data, base_model=first_feature, callbacks=[watch]).model_
    assert model.schema.needs_base_scores
    with pytest.raises(DataError, match="base_scores"):
        model.predict(data.features)
    scores = model.predict(data.features, base_scores=first_feature(data.features))
    assert scores.tobytes() == watch.training.scores.tobytes()


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (lambda features: np.zeros(3), r"each of 480 documents. Got an array of shape \(3,\)"),
        (lambda features: np.zeros((480, 1)), r"shape \(480, 1\)"),
        (lambda features: 0.0, r"shape \(\)"),
        (lambda features: np.full(480, np.nan), "finite"),
        (lambda features: np.r_[np.inf, np.zeros(479)], "finite"),
    ],
    ids=["few", "column", "one number", "nan", "infinite"],
)
def test_function_that_gives_no_scores_is_refused(data, function, got):
    with pytest.raises(DataError, match=f"base_model must give one .*{got}"):
        make_ranker().fit(data, base_model=function)


@pytest.mark.parametrize(
    "function",
    [lambda features: "scores", lambda features: [[1.0], [1.0, 2.0]], lambda features: {}],
    ids=["text", "ragged", "mapping"],
)
def test_function_that_gives_no_numbers_is_refused_as_data(data, function):
    with pytest.raises(DataError, match="base_model"):
        make_ranker().fit(data, base_model=function)


def test_run_on_a_function_goes_on_from_its_checkpoint_with_its_scores_in_the_data(data):
    whole = make_ranker().fit(data, base_model=first_feature)
    first = make_ranker(n_estimators=3).fit(data, base_model=first_feature)
    based = with_scores(data, first_feature(data.features))
    resumed = make_ranker().fit(based, resume=first.model_)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    with pytest.raises(DataError, match="with the data of the checkpoint"):
        make_ranker().fit(data, resume=first.model_)


def test_function_on_data_that_have_base_scores_is_refused(data, valid):
    with pytest.raises(DataError, match=r"from the data or from base_model. Got both"):
        make_ranker().fit(make_data(based=True), base_model=first_feature)
    with pytest.raises(DataError, match="Got both"):
        make_ranker().fit(data, valid=make_data(seed=1, based=True), base_model=first_feature)


@pytest.mark.filterwarnings("ignore:training found nothing to split by")
def test_objective_with_a_start_adds_it_to_no_scores_of_a_function(data):
    labels = dict(zip(data.features[:, 0].tolist(), data.labels.tolist(), strict=True))

    def exact(features):
        return np.array([labels[value] for value in features[:, 0].tolist()], dtype=float)

    model = make_ranker(objective="regression", n_estimators=1).fit(data, base_model=exact).model_
    # Nothing is left to learn, so every leaf is 0 up to rounding.
    assert np.abs(model.ensemble.value).max() < 1e-6


def test_same_categories_go_on(tmp_path):
    data, valid = make_data(n_categories=7), make_data(seed=1, n_categories=7)
    base = make_ranker(categorical=[5], n_estimators=4).fit(data)
    watch = Watch()
    ranker = make_ranker(categorical=[5]).fit(data, valid=valid, base_model=base, callbacks=[watch])
    model = ranker.model_
    assert any((tree.category_set >= 0).any() for tree in trees_of(base.model_.ensemble))
    assert (model.n_trees, model.n_base_trees) == (10, 4)
    assert model.predict(valid, n_trees=4).tobytes() == base.predict(valid).tobytes()
    assert model.predict(data).tobytes() == watch.training.scores.tobytes()
    on_scores = make_ranker(categorical=[5]).fit(with_scores(data, base.predict(data)))
    of_valid = on_scores.predict(with_scores(valid, base.predict(valid)))
    assert model.predict(valid).tobytes() == of_valid.tobytes()
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    assert loaded.predict(valid).tobytes() == model.predict(valid).tobytes()


def test_other_categories_are_refused():
    data = make_data(n_categories=7)
    base = make_ranker(categorical=[5]).fit(data)
    refused = r"with the same categories. Got others"
    with pytest.raises(DataError, match=refused):
        make_ranker(categorical=[5]).fit(make_data(n_categories=8), base_model=base)
    with pytest.raises(DataError, match=refused):
        make_ranker().fit(data, base_model=base)


def test_base_that_knows_a_feature_as_numbers_keeps_its_scores_or_is_refused():
    data = make_data(n_categories=7)
    base = make_ranker(n_estimators=4).fit(data)
    assert any((tree.feature == 5).any() for tree in trees_of(base.model_.ensemble))
    try:
        model = make_ranker(categorical=[5]).fit(data, base_model=base).model_
    except DataError:
        return
    assert model.predict(data, n_trees=4).tobytes() == base.predict(data).tobytes()


def test_shrinking_shrinks_base_trees_once_an_iteration(data, base):
    watch = Watch()
    options = {"shrink_rate": 0.5, "learning_rate": 0.2, "n_estimators": 3}
    model = make_ranker(**options).fit(data, base_model=base, callbacks=[watch]).model_
    shrunk, whole = trees_of(model.ensemble)[:4], trees_of(base.model_.ensemble)
    for tree, before in zip(shrunk, whole, strict=True):
        # Within the rounding of a product or two.
        np.testing.assert_allclose(tree.value, before.value * 0.9**3, rtol=1e-14)
    # Sums of ten numbers in another order.
    np.testing.assert_allclose(model.predict(data), watch.training.scores, atol=1e-13)


@pytest.mark.parametrize("given", ["function", "data"])
def test_shrinking_on_base_scores_gives_a_model_of_the_trained_scores(given):
    data = make_data(based=given == "data")
    watch = Watch()
    model = make_ranker(shrink_rate=0.5, learning_rate=0.2).fit(
        data, base_model=first_feature if given == "function" else None, callbacks=[watch]
    ).model_  # fmt: skip
    scores = first_feature(data.features) if given == "function" else data.base_scores
    got = model.predict(data.features, base_scores=scores)
    np.testing.assert_allclose(got, watch.training.scores, atol=1e-12)


def test_a_base_model_may_be_the_file_of_a_combined_model(data, valid, base, tmp_path):
    other = make_ranker(n_estimators=2).fit(data)
    both = CombinedModel((base.model_, other.model_), weights=(0.25, 0.75))
    both.save(tmp_path / "both.safetensors")
    ranker = make_ranker().fit(data, base_model=tmp_path / "both.safetensors")
    same = make_ranker().fit(data, base_model=both.predict)
    assert ranker.model_.schema.needs_base_scores
    assert bits(ranker.model_.ensemble) == bits(same.model_.ensemble)
    start = both.predict(valid)
    np.testing.assert_array_equal(
        ranker.predict(valid, base_scores=start), same.predict(valid, base_scores=start)
    )

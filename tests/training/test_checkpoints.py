"""Checkpoints: a run that goes on from one has the same bits as one that was never interrupted."""

from dataclasses import replace

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data
from rankgrove import Model, Ranker
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.files import ModelFileError

CASES = {
    "plain": ({}, {}),
    "query sampling": ({"subsample": 0.5, "colsample": 0.7}, {}),
    "gradient sampling": ({"subsample": 0.5, "sampling": "gradient"}, {}),
    "categories, missing, base scores, weights": (
        {"categorical": [5], "monotone": {0: 1}},
        {"n_categories": 7, "missing": 0.2, "based": True, "weighted": True},
    ),
}


def interrupt_after(n_trees):
    def callback(training):
        if len(training.trees) == n_trees:
            raise KeyboardInterrupt

    return callback


def make_ranker(**parameters):
    return Ranker(**{**QUICK, "n_estimators": 11, **parameters})


@pytest.mark.parametrize("as_path", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_resumed_run_has_the_bits_of_one_that_was_never_interrupted(case, as_path, tmp_path):
    parameters, columns = CASES[case]
    data, valid = make_data(**columns), make_data(seed=1, **columns)
    whole = make_ranker(**parameters).fit(data, valid=valid)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        make_ranker(**parameters).fit(
            data, valid=valid, callbacks=[interrupt_after(8)], checkpoint=path, checkpoint_every=3
        )
    assert Model.load(path).n_trees == 6
    resumed = make_ranker(**parameters).fit(
        data, valid=valid, resume=path if as_path else Model.load(path)
    )
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    assert resumed.history_ == whole.history_
    assert resumed.predict(valid).tobytes() == whole.predict(valid).tobytes()


@pytest.mark.parametrize("n_trees", [1, 3, 9])
def test_resume_with_early_stopping_stops_where_the_whole_run_does(n_trees, tmp_path):
    data, valid = make_data(), make_data(seed=1)
    options = {"early_stopping_rounds": 4, "learning_rate": 0.6, "n_estimators": 100}
    whole = make_ranker(**options).fit(data, valid=[valid, data])
    n_measured = len(whole.history_["valid_1"]["ndcg@10"])
    assert n_trees <= n_measured < 100
    path = tmp_path / "checkpoint.safetensors"
    make_ranker(**options).fit(
        data, valid=[valid, data], checkpoint=path, checkpoint_every=n_trees,
        callbacks=[lambda training: len(training.trees) == n_trees],
    )  # fmt: skip
    resumed = make_ranker(**options).fit(data, valid=[valid, data], resume=path)
    assert resumed.history_ == whole.history_
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)


def test_resume_of_a_run_that_has_stopped_adds_nothing(tmp_path):
    data, valid = make_data(), make_data(seed=1)
    options = {"early_stopping_rounds": 2, "learning_rate": 0.6, "n_estimators": 100}
    path = tmp_path / "checkpoint.safetensors"
    whole = make_ranker(**options).fit(data, valid=valid, checkpoint=path, checkpoint_every=1)
    assert Model.load(path).n_trees == whole.best_iteration_ + 2
    resumed = make_ranker(**options).fit(data, valid=valid, resume=path)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    assert resumed.history_ == whole.history_


def test_resume_of_a_run_that_found_nothing_to_split_adds_nothing(tmp_path):
    data = make_data()
    flat = Dataset.from_arrays(data.features, data.labels * 0, group=data.group)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.warns(UserWarning, match="nothing to split by"):
        whole = make_ranker().fit(flat, checkpoint=path, checkpoint_every=1)
    with pytest.warns(UserWarning, match="nothing to split by"):
        resumed = make_ranker().fit(flat, resume=path)
    assert resumed.model_.n_trees == whole.model_.n_trees == 1


def test_finished_model_can_be_given_more_trees():
    data = make_data()
    first = make_ranker(n_estimators=4).fit(data)
    more = make_ranker(n_estimators=9).fit(data, resume=first.model_)
    assert bits(more.model_.ensemble) == bits(make_ranker(n_estimators=9).fit(data).model_.ensemble)
    assert first.model_.n_trees == 4
    same = make_ranker(n_estimators=4).fit(data, resume=first.model_)
    assert bits(same.model_.ensemble) == bits(first.model_.ensemble)


def test_model_of_no_trees_is_a_start():
    data = make_data()
    model = make_ranker().fit(data).model_
    empty = replace(model, ensemble=model.ensemble.prefix(0), history={})
    resumed = make_ranker().fit(data, resume=empty)
    assert bits(resumed.model_.ensemble) == bits(model.ensemble)


@pytest.mark.parametrize(
    "other",
    [{"learning_rate": 0.2}, {"max_leaves": 9}, {"random_state": 1}, {"metric": "ndcg@5"}],
    ids=str,
)
def test_other_parameters_are_refused_by_name(other):
    data = make_data()
    model = make_ranker().fit(data).model_
    with pytest.raises(ParameterError, match=next(iter(other))):
        make_ranker(**other, n_estimators=20).fit(data, resume=model)


def test_fewer_trees_than_the_checkpoint_has_are_refused():
    data = make_data()
    model = make_ranker(n_estimators=8).fit(data).model_
    with pytest.raises(ParameterError, match="n_estimators must be at least the 8 trees"):
        make_ranker(n_estimators=5).fit(data, resume=model)


def changed(data, **changes):
    columns = {
        "features": data.features, "labels": data.labels, "group": data.group,
        "weights": data.weights, "base_scores": data.base_scores,
    }  # fmt: skip
    columns.update(changes)
    features, labels = columns.pop("features"), columns.pop("labels")
    return Dataset.from_arrays(features, labels, **columns)


def test_other_training_data_are_refused():
    data = make_data()
    model = make_ranker().fit(data).model_
    one_value = data.features.copy()
    one_value[5, 2] += 1
    labels = data.labels.copy()
    labels[3] += 1
    others = {
        "a value": changed(data, features=one_value),
        "the scale": changed(data, features=data.features * 2),
        "a label": changed(data, labels=labels),
        "queries": changed(data, group=[24] * 20),
        "weights": changed(data, weights=np.arange(1, 41)),
        "a name": changed(data, feature_names=["a", "b", "c", "d", "e", "f"]),
        "fewer features": changed(data, features=data.features[:, :5]),
        "base scores": changed(data, base_scores=np.ones(data.n_documents)),
    }
    more = make_ranker(n_estimators=20)
    for other in others.values():
        with pytest.raises(DataError, match="with the data of the checkpoint"):
            more.fit(other, resume=model)


def test_other_validation_sets_are_refused():
    data, valid = make_data(), make_data(seed=1)
    model = make_ranker().fit(data, valid=valid).model_
    more = make_ranker(n_estimators=20)
    with pytest.raises(DataError, match=r"validation sets of the checkpoint, \['valid'\]"):
        more.fit(data, resume=model)
    with pytest.raises(DataError, match=r"Got \['other'\]"):
        more.fit(data, valid={"other": valid}, resume=model)
    with pytest.raises(DataError, match="other validation data"):
        more.fit(data, valid=make_data(seed=2), resume=model)
    with pytest.raises(ParameterError, match="eval_metric"):
        make_ranker(n_estimators=20, eval_metric="map").fit(data, valid=valid, resume=model)
    unwatched = make_ranker().fit(data).model_
    with pytest.raises(DataError, match="validation sets"):
        more.fit(data, valid=valid, resume=unwatched)


def test_model_that_early_stopping_has_cut_is_refused():
    data, valid = make_data(), make_data(seed=1)
    options = {"early_stopping_rounds": 2, "learning_rate": 0.6, "n_estimators": 100}
    ranker = make_ranker(**options).fit(data, valid=valid)
    with pytest.raises(DataError, match="early stopping has cut"):
        make_ranker(**options).fit(data, valid=valid, resume=ranker.model_)


def test_an_option_that_a_checkpoint_does_not_know_yet_has_had_its_default():
    data = make_data()
    whole = make_ranker().fit(data)
    model = make_ranker(n_estimators=6).fit(data).model_
    known = {name: value for name, value in model.parameters.items() if name != "category_l2"}
    assert len(known) == len(model.parameters) - 1
    earlier = replace(model, parameters=known)
    resumed = make_ranker().fit(data, resume=earlier)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    with pytest.raises(ParameterError, match=r"Got category_l2=3\.0 in place of 10\.0\."):
        make_ranker(category_l2=3.0).fit(data, resume=earlier)


def test_bad_resume_and_checkpoint_are_refused_before_any_tree(tmp_path):
    data = make_data()

    def fail(training):
        pytest.fail("a tree was grown")

    def fit(**options):
        make_ranker().fit(data, callbacks=[fail], **options)

    with pytest.raises(ParameterError, match="resume must be a file or a Model"):
        fit(resume=7)
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ModelFileError):
        fit(resume=tmp_path / "text")
    for every in (0, -1, 2.5, True, None):
        with pytest.raises(ParameterError, match="checkpoint_every"):
            fit(checkpoint=tmp_path / "file", checkpoint_every=every)
    with pytest.raises(ParameterError, match="checkpoint must be in a folder that exists"):
        fit(checkpoint=tmp_path / "absent" / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]

"""One run, whatever it trains: what it measures, when it refuses, what callbacks see."""

import io
import zlib
from dataclasses import replace

import numpy as np
import pytest

from boosting.samples import QUICK, bits, make_data, train
from rankgrove import MARTClassifier, MARTRegressor, Ranker
from rankgrove.boosting import binned
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import DataError, ParameterError
from rankgrove.training import measures
from rankgrove.training.measures import LossMeasure
from rankgrove.training.progress import Progress
from rankgrove.training.trees import start_trees
from rankgrove.training.validation import Validation


@pytest.fixture
def no_bins(monkeypatch):
    """Fails the test as soon as data are binned."""

    def fit(*_, **__):
        pytest.fail("the data were binned")

    return lambda: monkeypatch.setattr(binned.Bins, "fit", fit)


def test_labels_of_a_validation_set_are_prepared_once(monkeypatch):
    made, prepare = [], measures.prepare_metrics
    monkeypatch.setattr(
        measures, "prepare_metrics", lambda data, *args: made.append(data) or prepare(data, *args)
    )
    sets = {"a": make_data(1), "b": make_data(2)}
    run = train(make_data(), sets, eval_metric=["ndcg@5", "err"])
    assert made == list(sets.values())
    assert len(run.history["b"]["err"]) == run.n_steps == 6


def test_a_metric_that_is_named_twice_is_measured_once():
    run = train(make_data(), {"v": make_data(1)}, eval_metric=["err", "ndcg@5", "err"])
    assert {name: len(values) for name, values in run.history["v"].items()} == {
        "err": 6, "ndcg@5": 6,
    }  # fmt: skip


def test_of_a_loss_the_lowest_value_is_the_best():
    loss = LossMeasure("loss", lambda targets, scores: np.mean(targets - scores), {"v": np.ones(1)})
    validation = Validation({"v": None}, loss, 2)
    for score, best, stops in ((0.0, 1, False), (0.5, 2, False), (0.5, 2, False), (0.1, 2, True)):
        validation.measure({"v": np.array([score])})
        assert (validation.best, validation.should_stop) == (best, stops)
    validation.cut(1)
    assert validation.history == {"v": {"loss": [1.0]}}


@pytest.mark.parametrize("kind", [MARTRegressor, MARTClassifier])
def test_progress_of_single_rows_shows_the_least_loss(kind, monkeypatch):
    data, stream = make_data(), io.StringIO()
    with Progress(stream) as progress:
        fitted = kind(n_estimators=3).fit(
            data.features, data.labels > 0, eval_set=[(data.features, data.labels > 0)],
            callbacks=[progress],
        )  # fmt: skip
    name, values = next(iter(fitted.history_["valid"].items()))
    assert f"3/3 trees  {name} {values[-1]:.4f}  best {min(values):.4f} at 3" in stream.getvalue()


def test_a_run_goes_on_step_by_step():
    data = make_data()
    run = start_trees(data, {}, Parameters(**QUICK), n_jobs=1)
    seen = []
    while run.advance():
        seen.append(run.n_steps)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert run.is_over
    assert bits(run) == bits(train(data))


def test_other_data_than_the_checkpoint_had_are_refused_before_they_are_binned(no_bins):
    data, valid = make_data(), make_data(1)
    model = Ranker(**QUICK).fit(data, valid=valid).model_
    more = Ranker(**{**QUICK, "n_estimators": 9})
    no_bins()
    changed = data.features.copy()
    changed[5, 2] += 1
    for train_data, valid_data, problem in (
        (replace(data, features=changed), valid, "other training data"),
        (replace(data, document_weights=np.full(480, 2.0)), valid, "other training data"),
        (data, make_data(2), "other validation data"),
    ):
        with pytest.raises(DataError, match=problem):
            more.fit(train_data, valid=valid_data, resume=model)


def test_a_base_model_of_other_categories_is_refused_before_data_are_binned(no_bins):
    data = make_data(n_categories=7)
    base = Ranker(**QUICK, categorical=[5]).fit(data)
    no_bins()
    with pytest.raises(DataError, match="with the same categories"):
        Ranker(**QUICK, categorical=[5]).fit(make_data(n_categories=8), base_model=base)


def fingerprint_of_bins(run):
    """The number that files of Rankgrove 0.1 note, from its formula."""
    data, bins = run.trainer.train, run.trainer.bins
    number = zlib.crc32("\n".join(data.feature_names).encode())
    for array in (
        data.labels, data.offsets, data.weights, data.base_scores, bins.edges,
        *(np.array(values, np.float32) for values in bins.categories.values()),
        run.trainer.matrix.codes,
    ):  # fmt: skip
        part = np.empty(0) if array is None else np.ascontiguousarray(array)
        number = zlib.crc32(str(part.shape).encode(), number)
        number = zlib.crc32(part.reshape(-1).view(np.uint8).data, number)
    return number


def test_a_checkpoint_that_notes_a_number_made_from_bins_is_gone_on_from():
    data, valid = make_data(n_categories=5, missing=0.1), make_data(1, n_categories=5)
    options = {**QUICK, "categorical": [5]}
    first = train(data, {"valid": valid}, categorical=[5])
    model = first.make_model()
    old = replace(model, notes={"data_fingerprint": fingerprint_of_bins(first)})
    more = Ranker(**{**options, "n_estimators": 9})
    resumed = more.fit(data, valid=valid, resume=old)
    whole = Ranker(**{**options, "n_estimators": 9}).fit(data, valid=valid)
    assert bits(resumed.model_.ensemble) == bits(whole.model_.ensemble)
    changed = data.features.copy()
    changed[5, 2] += 1
    with pytest.raises(DataError, match="other training data"):
        more.fit(replace(data, features=changed), valid=valid, resume=old)


def test_early_stopping_of_single_rows_without_validation_says_what_to_give():
    with pytest.raises(ParameterError, match=r"Got none: give fit a validation set, or early_st"):
        MARTRegressor(early_stopping_rounds=3).fit(np.zeros((30, 1)), np.arange(30.0))

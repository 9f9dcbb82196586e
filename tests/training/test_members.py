"""Several models that become one: averages, files, interrupts, checkpoints."""

import io
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

from rankgrove import Ranker, evaluate, load, make_web_search
from rankgrove.boosting import binned
from rankgrove.data.joined import join_datasets
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.combined import CombinedModel
from rankgrove.model.members import centred, members_of, standardised
from rankgrove.model.model import Model

QUICK = {"n_estimators": 4, "min_samples_leaf": 2}


@pytest.fixture(scope="module")
def parts():
    return make_web_search(60, 16, mean_documents=10, seed=4).split(0.5, 0.25, 0.25)


@pytest.fixture(scope="module")
def network():
    pytest.importorskip("torch")
    return {"objective": "lambdarank", "hidden": (8,), "max_epochs": 2}


def naive_average(models, shares, train, data):
    """The sum of scores, each divided by its spread on the training data, as the rule says."""
    total = np.zeros(data.n_documents)
    for model, share in zip(models, shares, strict=True):
        spread = np.sqrt(np.mean(centred(model.predict(train), train.offsets) ** 2))
        total += share * model.predict(data) / spread
    return total


def test_members_are_single_models_of_rising_seeds(parts):
    train, _, test = parts
    ranker = Ranker(members=3, random_state=5, **QUICK).fit(train)
    alone = [Ranker(random_state=5 + m, **QUICK).fit(train).model_ for m in range(3)]
    assert isinstance(ranker.model_, Model)
    assert ranker.model_.n_trees == 12
    expected = naive_average(alone, [1 / 3] * 3, train, test)
    np.testing.assert_allclose(ranker.predict(test), expected, rtol=1e-9, atol=1e-12)


def test_a_mix_weighs_kinds_alike_and_keeps_networks_as_parts(parts, network):
    train, _, test = parts
    mix = ["yetirank", "queryrmse", network]
    ranker = Ranker(mix=mix, **QUICK).fit(train)
    assert isinstance(ranker.model_, CombinedModel)
    assert [type(part).__name__ for part in ranker.model_.parts] == ["Model", "NetworkModel"]
    from rankgrove import LambdaRank

    alone = [
        Ranker(objective=name, **QUICK).fit(train).model_ for name in ("yetirank", "queryrmse")
    ]
    alone.append(LambdaRank(hidden=(8,), max_epochs=2).fit(train).model_)
    expected = naive_average(alone, [1 / 3] * 3, train, test)
    np.testing.assert_allclose(ranker.predict(test), expected, rtol=1e-6, atol=1e-7)
    # Contributions add up to the score, and why answers, whatever the parts.
    contributions = ranker.model_.contributions(test)
    np.testing.assert_allclose(contributions.sum(axis=1), ranker.predict(test), atol=1e-6)
    assert "document" in str(ranker.model_.why(test, 0, 1)) or ranker.model_.why(test, 0, 1)


def test_data_are_binned_once_for_all_members(parts, monkeypatch):
    made, fit = [], binned.Bins.fit
    monkeypatch.setattr(binned.Bins, "fit", lambda *a, **k: made.append(1) or fit(*a, **k))
    Ranker(members=3, mix="yetirank,queryrmse", **QUICK).fit(parts[0], valid=parts[1])
    assert len(made) == 1


def test_members_differ_though_the_objective_draws_nothing(parts):
    ranker = Ranker("lambdamart", grower="leafwise", members=2, **QUICK).fit(parts[0])
    first, second = (member.model.predict(parts[2]) for member in members_of(ranker.model_))
    assert not np.allclose(first, second)


@pytest.mark.parametrize("mix", [None, "yetirank,queryrmse"])
def test_the_model_has_the_same_bytes_for_any_number_of_threads(parts, tmp_path, mix):
    files = []
    for n_jobs in (1, 2, 3, 12):
        path = tmp_path / f"{n_jobs}.safetensors"
        Ranker(members=2, mix=mix, n_jobs=n_jobs, **QUICK).fit(parts[0], valid=parts[1]).save(path)
        files.append(path.read_bytes())
    assert files[0] == files[1] == files[2]


def test_history_has_the_average_after_each_member(parts):
    train, valid, _ = parts
    metric = "map(relevant>=1)"
    ranker = Ranker(members=3, metric=metric, **QUICK).fit(train, valid=valid)
    members = members_of(ranker.model_)
    curve = ranker.history_["valid"][metric]
    assert len(curve) == ranker.best_iteration_ == 3
    for number in range(3):
        scores = sum(member.model.predict(valid) for member in members[: number + 1])
        assert curve[number] == pytest.approx(
            evaluate(valid, scores, ["map(relevant>=1)"])["map(relevant>=1)"]
        )
    assert ranker.model_.final_metrics() == {"valid": {metric: curve[-1]}}


def test_each_member_stops_early_by_itself(parts):
    train, valid, _ = parts
    options = {"early_stopping_rounds": 3, "learning_rate": 0.3, "min_samples_leaf": 2}
    ranker = Ranker(members=3, **options).fit(train, valid=valid)
    alone = [Ranker(random_state=m, **options).fit(train, valid=valid) for m in range(3)]
    kept = [note["trees"] for note in ranker.model_.notes["members"]]
    assert kept == [one.best_iteration_ for one in alone]


def test_refit_with_a_given_number_of_trees_is_training_on_all_data(parts):
    train, valid, test = parts
    ranker = Ranker(refit=True, **QUICK).fit(train, valid=valid)
    whole = Ranker(**QUICK).fit(join_datasets([train, valid]))
    np.testing.assert_allclose(
        standardised(ranker.predict(test), test.offsets),
        standardised(whole.predict(test), test.offsets), atol=1e-9,
    )  # fmt: skip
    assert ranker.history_ == {}


def test_refit_finds_the_number_of_trees_on_folds_and_keeps_further_sets_apart(parts):
    train, valid, test = parts
    ranker = Ranker(refit=True, learning_rate=0.5, early_stopping_rounds=3, min_samples_leaf=2)
    ranker.fit(train, valid={"valid": valid, "test": test})
    held_out = ranker.model_.notes["held_out"]["yetirank"]
    assert ranker.model_.n_trees == held_out["steps"]
    assert list(ranker.history_) == ["test"]
    value = evaluate(test, ranker.predict(test), ["ndcg@10"])["ndcg@10"]
    assert ranker.history_["test"]["ndcg@10"] == [pytest.approx(value)]


def test_auto_leaves_out_what_fails_and_notes_what_folds_said(parts):
    train, valid, test = parts
    lines = []
    from rankgrove.training.members import start_members
    from rankgrove.training.recipe import Recipe

    recipe = Recipe(mix="auto")
    parameters = Ranker(n_estimators=8, min_samples_leaf=2).parameters()
    run = start_members(train, {"valid": valid}, parameters, recipe, say=lines.append)
    model = run.run().make_model()
    said = model.notes["held_out"]
    assert sum(one["share"] for one in said.values()) == pytest.approx(1)
    kinds = {note["objective"] for note in model.notes["members"]}
    assert kinds == {name for name, one in said.items() if one["share"] > 0}
    assert lines[-1].startswith("mix: ")
    assert any(line.startswith("yetirank: ndcg@10 ") for line in lines)
    assert np.isfinite(model.predict(test)).all()


def test_networks_that_the_data_do_not_allow_are_left_out_with_a_line(parts, monkeypatch):
    from rankgrove.training import members, recipe

    monkeypatch.setattr(members, "why_no_network", lambda train: "PyTorch is not installed")
    lines = []
    parameters = Ranker(n_estimators=2).parameters()
    run = members.start_members(
        parts[0], {}, parameters, recipe.Recipe(mix="auto"), say=lines.append
    )
    assert lines[0] == "lambdarank is left out of the mix: PyTorch is not installed"
    assert "lambdarank" not in run.trainer.plan.held_out
    with pytest.raises(ParameterError, match="mix must be of trees here"):
        Ranker(mix="yetirank,lambdarank").fit(parts[0])


def test_a_file_keeps_members_recipe_and_scores(parts, tmp_path, network):
    train, valid, test = parts
    for mix in (None, ["queryrmse", network]):
        ranker = Ranker(members=2, mix=mix, **QUICK).fit(train, valid=valid)
        path = tmp_path / "model.safetensors"
        ranker.save(path)
        again = Ranker.load(path)
        assert again.members == 2
        assert again.n_estimators == 4
        np.testing.assert_array_equal(again.predict(test), ranker.predict(test))
        np.testing.assert_array_equal(again.model_.spread(test), ranker.model_.spread(test))
        assert again.history_ == ranker.history_
        assert load(path).n_members == ranker.model_.n_members


def test_spread_is_the_deviation_over_members(parts):
    train, _, test = parts
    model = Ranker(members=4, **QUICK).fit(train).model_
    scores = [
        centred(member.model.predict(test) / member.share, test.offsets)
        for member in members_of(model)
    ]
    np.testing.assert_allclose(model.spread(test), np.std(scores, axis=0), atol=1e-12)
    one_query = model.spread(np.asarray(test.features))
    assert one_query.shape == (test.n_documents,)
    assert model.spread(np.empty((0, 16))).shape == (0,)


def test_spread_of_a_model_that_was_trained_alone_is_refused(parts):
    model = Ranker(**QUICK).fit(parts[0]).model_
    with pytest.raises(ParameterError, match="trained with several"):
        model.spread(parts[2])


def interrupting(after):
    """A callback of members that presses Ctrl-C after so many."""

    def press(run):
        if run.n_steps == after:
            raise KeyboardInterrupt

    return press


def test_ctrl_c_keeps_the_finished_members(parts):
    ranker = Ranker(members=3, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(parts[0], valid=parts[1], callbacks=[interrupting(2)])
    assert ranker.model_.n_members == 2
    two = Ranker(members=2, **QUICK).fit(parts[0]).model_
    assert ranker.model_.n_trees == two.n_trees == 8


def test_ctrl_c_within_a_member_keeps_those_before(parts, monkeypatch):
    from rankgrove.training.trees import TreeTrainer

    steps, step = [], TreeTrainer.step

    def pressed(trainer):
        steps.append(1)
        if len(steps) == 7:
            raise KeyboardInterrupt
        step(trainer)

    monkeypatch.setattr(TreeTrainer, "step", pressed)
    ranker = Ranker(members=3, n_jobs=1, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(parts[0])
    assert ranker.model_.n_members == 1


def test_members_in_training_end_when_a_callback_says_stop(parts):
    before = threading.active_count()
    options = {"n_estimators": 3000, "members": 4, "n_jobs": 2}
    first = []

    def stop(run):
        # The next one is in training by now.
        first.append(run.n_steps)
        return True

    ranker = Ranker(**options, early_stopping_rounds=2)
    ranker.fit(parts[0], valid=parts[1], callbacks=[stop])
    assert first == [1]
    assert ranker.model_.n_members == 1
    assert threading.active_count() <= before + 1  # (that of our own pool may have come)


def test_an_error_in_a_member_that_is_trained_beside_others_comes_out(parts, monkeypatch):
    from rankgrove.training.trees import TreeTrainer

    def fail(trainer):
        raise RuntimeError("no more")

    monkeypatch.setattr(TreeTrainer, "step", fail)
    with pytest.raises(RuntimeError, match="no more"):
        Ranker(members=3, n_jobs=2, **QUICK).fit(parts[0])


@pytest.mark.parametrize("with_network", [False, True])
def test_going_on_from_a_checkpoint_gives_the_same_bytes(parts, tmp_path, network, with_network):
    train, valid, _ = parts
    mix = ["yetirank", network, "queryrmse"] if with_network else None
    options = {"members": 2, "mix": mix, **QUICK}
    checkpoint, paths = tmp_path / "c.safetensors", [tmp_path / f"{n}.safetensors" for n in "ab"]
    Ranker(**options).fit(train, valid=valid).save(paths[0])
    with pytest.raises(KeyboardInterrupt):
        Ranker(**options).fit(
            train, valid=valid, checkpoint=checkpoint, callbacks=[interrupting(1)]
        )
    Ranker(**options).fit(train, valid=valid, checkpoint=checkpoint, callbacks=[lambda run: True])
    Ranker(**options).fit(train, valid=valid, resume=checkpoint).save(paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_checkpoint_of_auto_is_not_asked_folds_again(parts, tmp_path, monkeypatch):
    from rankgrove.training import members

    train, valid, test = parts
    options = {"mix": "auto", "n_estimators": 3, "min_samples_leaf": 2}
    checkpoint = tmp_path / "c.safetensors"
    whole = Ranker(**options).fit(train, valid=valid)
    Ranker(**options).fit(train, valid=valid, checkpoint=checkpoint, callbacks=[lambda run: True])
    monkeypatch.setattr(members, "_ask_folds", lambda *_: pytest.fail("folds were asked"))
    again = Ranker(**options).fit(train, valid=valid, resume=checkpoint)
    np.testing.assert_array_equal(whole.predict(test), again.predict(test))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"members": 3}, ParameterError, "must go on with the recipe of the checkpoint"),
        ({"learning_rate": 0.5}, ParameterError, "Got learning_rate=0.5 in place of 0.1"),
        ({"other_data": True}, DataError, "must go on with the data of the checkpoint"),
        ({"no_valid": True}, DataError, "validation sets of the checkpoint"),
    ],
)
def test_other_recipes_parameters_and_data_are_refused(parts, tmp_path, options, error, message):
    train, valid, test = parts
    checkpoint, given = tmp_path / "c.safetensors", {"members": 2, **QUICK}
    Ranker(**given).fit(train, valid=valid, checkpoint=checkpoint, callbacks=[lambda run: True])
    data = test if options.pop("other_data", False) else train
    sets = None if options.pop("no_valid", False) else valid
    with pytest.raises(error, match=message):
        Ranker(**{**given, **options}).fit(data, valid=sets, resume=checkpoint)


def test_progress_says_which_member(parts, capsys):
    Ranker(members=2, verbose=True, n_jobs=1, **QUICK).fit(parts[0], valid=parts[1])
    told = capsys.readouterr().err
    assert "member 1 of 2, yetirank:  4/4 trees" in told
    assert "2/2 members  ndcg@10" in told


def test_members_that_learn_nothing_warn_and_score_alike(parts):
    train = parts[0]
    flat = replace(train, labels=np.zeros_like(train.labels))
    with pytest.warns(UserWarning, match="nothing to split by"):
        ranker = Ranker(members=2, **QUICK).fit(flat)
    assert len(set(ranker.predict(flat))) == 1


def test_estimators_of_scikit_learn_clone_with_their_recipe(parts):
    from sklearn.base import clone

    ranker = Ranker(members=2, mix="yetirank,queryrmse", refit=True, effort="medium")
    assert clone(ranker).get_params() == ranker.get_params()


def test_trees_of_members_are_explained_exported_and_served_as_any(parts, tmp_path):
    train, _, test = parts
    model = Ranker(members=2, mix="yetirank,queryrmse", **QUICK).fit(train).model_
    np.testing.assert_allclose(model.contributions(test).sum(axis=1), model.predict(test))
    assert model.importance("gain").sum() > 0
    features = np.asarray(test.features)
    np.testing.assert_array_equal(model.scorer()(features), model.predict(features))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.export(tmp_path / "model.py").format.name == "python"
    stream = io.StringIO()
    print(model, file=stream)
    assert "16 trees" in stream.getvalue()

"""Tuning: the protocol, the same result however it is interrupted, and studies that are refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest

from rankgrove import Ranker, evaluate, make_web_search
from rankgrove.boosting import binned
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import DataError, MissingExtraError, ParameterError
from rankgrove.experiments.tune import tune as tune_module
from rankgrove.experiments.tune.trials import Protocol, grow, is_hopeless, make_parts, run_trial
from rankgrove.experiments.tune.tune import tune
from rankgrove.metrics.spec import parse_metric

HELD = {"min_samples_leaf": 1}
SMALL = {"n_random": 4, "n_bayesian": 4, "max_trees": 20, "early_stopping_rounds": 5, "n_jobs": 1,
         "fixed": HELD}  # fmt: skip


def make_sets():
    return make_web_search(40, 16, mean_documents=10, seed=1).split(0.6, 0.4)


@pytest.fixture(scope="module")
def sets():
    return make_sets()


@pytest.fixture(scope="module")
def whole(sets):
    """A run that was never interrupted."""
    return tune(*sets, **SMALL)


def outcome(tuned):
    """All of the trials but their time."""
    columns = tuned.trials.to_dict()
    del columns["seconds"]
    return columns


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_first_trials_are_random_and_the_others_bayesian(whole):
    assert [trial.drawn_by for trial in whole.trials] == ["random"] * 4 + ["tpe"] * 4
    assert [trial.number for trial in whole.trials] == list(range(8))
    assert len({trial.parameters["learning_rate"] for trial in whole.trials}) == 8


def test_a_value_is_that_of_a_model_trained_alone(sets, whole):
    train, valid = sets
    for trial in whole.trials[:3]:
        # With nothing said of objective, metric and trees, as in tuning.
        ranker = Ranker(**HELD, **trial.parameters, n_estimators=20, early_stopping_rounds=5)
        ranker.fit(train, valid=valid)
        assert ranker.best_iteration_ == trial.n_trees
        assert max(ranker.history_["valid"]["ndcg@10"]) == trial.value
        assert len(ranker.history_["valid"]["ndcg@10"]) == trial.n_grown


def test_the_best_parameters_give_the_best_value(sets, whole):
    train, valid = sets
    best = whole.trials.best
    assert whole.best_value == best.value == max(trial.value for trial in whole.trials)
    assert whole.best_parameters["n_estimators"] == best.n_trees
    ranker = whole.fit(train)
    found = evaluate(valid, ranker.predict(valid), "ndcg@10")["ndcg@10"]
    assert found == whole.best_value


def test_saved_parameters_are_those_that_train_takes(whole, tmp_path):
    whole.save(tmp_path / "best.json")
    values = json.loads((tmp_path / "best.json").read_text())
    assert values == whole.best_parameters
    assert Parameters.from_json(values) == Parameters(**whole.best_parameters)


def test_data_are_binned_once_for_all_trials(sets, monkeypatch):
    made = []
    fit = binned.Bins.fit
    monkeypatch.setattr(
        binned.Bins, "fit", lambda *args, **options: made.append(1) or fit(*args, **options)
    )
    tune(*sets, **{**SMALL, "n_bayesian": 0})
    assert len(made) == 1


def test_the_result_is_the_same_for_any_number_of_threads(sets, whole):
    assert outcome(tune(*sets, **{**SMALL, "n_jobs": 3})) == outcome(whole)


def test_another_seed_draws_others(sets, whole):
    other = tune(*sets, **{**SMALL, "n_bayesian": 0}, seed=1)
    assert other.trials[0].parameters != whole.trials[0].parameters


def test_folds_give_the_mean_over_the_queries_of_all(sets):
    train = sets[0]
    metric = parse_metric("ndcg@10")
    parts = make_parts(train, None, 3, metric, 0)
    chosen = {"objective": "xendcg", "n_estimators": 3, "metric": "ndcg@10", "min_samples_leaf": 1}
    parameters = Parameters(**chosen)
    curve = list(grow(parts, parameters, 1))
    for n_trees in (1, 3):
        values = []
        for learn, test in train.folds(3):
            ranker = Ranker(**chosen).fit(learn)
            scores = ranker.predict(test, n_trees=n_trees)
            values.extend(evaluate(test, scores, metric).per_query("ndcg@10").tolist())
        # The mean of means, weighted, is that of all up to rounding.
        assert curve[n_trees - 1] == pytest.approx(np.nanmean(values), abs=1e-12)


def test_folds_choose_one_number_of_trees(sets):
    tuned = tune(sets[0], folds=2, **{**SMALL, "n_random": 2, "n_bayesian": 0})
    assert len(tuned.trials) == 2
    assert 1 <= tuned.best_parameters["n_estimators"] <= 20


@pytest.mark.parametrize("given", [{}, {"metric": "ndcg@5"}])
def test_an_objective_that_is_left_open_is_searched_as_what_it_comes_to(sets, given):
    tuned = tune(*sets, **given, **{**SMALL, "n_random": 1, "n_bayesian": 0})
    name = Parameters(**given).make_objective().name
    assert tuned.best_parameters["objective"] == name
    assert tuned.best_parameters["grower"] == Parameters(**given).resolve().trees.grower
    expected = tune(*sets, objective=name, **given, **{**SMALL, "n_random": 1, "n_bayesian": 0})
    assert outcome(tuned) == outcome(expected)


def test_without_a_metric_the_objective_has_its_own_and_ndcg_10_is_measured(sets, tmp_path):
    options = {**SMALL, "n_random": 1, "n_bayesian": 0, "objective": "lambdamart"}
    tuned = tune(*sets, **options, storage=tmp_path / "s.db")
    assert tuned.metric == "ndcg@10"
    assert "metric" not in tuned.best_parameters
    # The objective's own is NDCG of all ranks: to go on with another is refused.
    with pytest.raises(DataError, match="must go on with the parameters"):
        tune(*sets, **options, metric="ndcg@10", storage=tmp_path / "s.db")


def test_without_validation_there_are_five_folds(sets):
    parts = make_parts(sets[0], None, None, parse_metric("ndcg@10"), 0)
    assert len(parts) == 5


def test_metric_is_what_the_objective_optimises_unless_it_has_another(sets):
    options = {**SMALL, "n_random": 1, "n_bayesian": 0}
    one = tune(*sets, metric="map(relevant>=2)", **options)
    assert one.best_parameters["metric"] == "map(relevant>=2)"
    assert one.metric == "map(relevant>=2)"
    two = tune(*sets, metric="mrr(relevant>=2)", **{**options, "fixed": {"metric": "ndcg@5"}})
    assert two.best_parameters["metric"] == "ndcg@5"
    assert two.best_parameters["eval_metric"] == "mrr(relevant>=2)"
    assert two.metric == "mrr(relevant>=2)"


@pytest.mark.parametrize("objective", ["yetirank", "stochasticrank", "xendcg"])
def test_every_kind_of_objective_can_be_tuned(sets, objective, tmp_path):
    tuned = tune(*sets, objective=objective, **{**SMALL, "n_random": 2, "n_bayesian": 1})
    assert tuned.best_parameters["objective"] == objective
    Ranker(**tuned.best_parameters)
    tuned.save(tmp_path / "best.json")


def test_spaces_of_ones_own_are_drawn_from(sets):
    space = {"learning_rate": (0.1, 0.2), "grower": ["leafwise", "oblivious"], "max_depth": (2, 4)}
    tuned = tune(*sets, space=space, **{**SMALL, "n_bayesian": 2, "fixed": {"l2": 1.0}})
    for trial in tuned.trials:
        assert trial.parameters.keys() == space.keys()
        assert 0.1 <= trial.parameters["learning_rate"] <= 0.2
        assert trial.parameters["max_depth"] in (2, 3, 4)
    assert {trial.parameters["grower"] for trial in tuned.trials} == {"leafwise", "oblivious"}
    assert tuned.best_parameters["l2"] == 1.0


class Done:
    """A complete trial as pruning sees it."""

    def __init__(self, value, steps, state="COMPLETE"):
        self.state = type("State", (), {"name": state})
        self.user_attrs = {"value": value, "steps": list(steps.items())}


def test_a_trial_is_hopeless_if_it_would_have_to_gain_more_than_any_did():
    finished = [Done(0.8, {10: 0.7, 20: 0.79}), Done(0.6, {10: 0.3})]
    # From tree 10 on, 0.3 were gained at most; from tree 20 on, 0.01.
    assert not is_hopeless(10, 0.51, finished)
    assert is_hopeless(10, 0.49, finished)
    assert not is_hopeless(20, 0.795, finished)
    assert is_hopeless(20, 0.78, finished)
    # Nothing is gained after a trial has ended; pruned ones do not count.
    assert is_hopeless(30, 0.79, finished)
    assert not is_hopeless(10, 0.0, [Done(0.8, {10: 0.7}, "PRUNED")])


def test_hopeless_trials_are_pruned_and_are_never_the_best(sets):
    space = {"learning_rate": [1e-6, 0.3]}
    options = {**SMALL, "n_bayesian": 4, "early_stopping_rounds": None}
    tuned = tune(*sets, space=space, **options)
    pruned = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert all(trial.n_grown < 20 and trial.number >= 4 for trial in pruned)
    assert tuned.trials.best.state == "complete"
    without = tune(*sets, space=space, prune=False, **options)
    assert all(trial.state == "complete" and trial.n_grown == 20 for trial in without.trials)
    assert without.best_value == tuned.best_value


def test_a_trial_depends_on_the_finished_ones_only(sets, whole):
    metric = parse_metric("ndcg@10")
    drawn, _, base = tune_module._make_space("auto", "auto", None, HELD, 20)
    protocol = Protocol(base, drawn, 4, "tpe", True, 5, 0)
    parts = make_parts(*sets, None, metric, 0)
    finished = []
    for number in range(6):
        for _ in range(2):
            trial = run_trial(protocol, finished, parts, lambda *_: None, 1)
            assert dict(trial.params) == whole.trials[number].parameters
        finished.append(trial)


def test_the_table_of_trials_has_every_form(whole):
    assert len(whole.trials.to_frame("pandas")) == 8
    assert whole.trials.to_frame("polars").columns[:3] == ["number", "state", "value"]
    assert len(whole.trials.to_markdown().splitlines()) == 10
    assert f"{whole.trials.best.number}*" in str(whole.trials)
    assert str(whole).startswith(f"ndcg@10 {whole.best_value:.4f} with")
    with pytest.raises(ParameterError, match="did you mean 'pandas'"):
        whole.trials.to_frame("panda")


# Going on.


@pytest.mark.parametrize("n_done", [1, 4, 6])
def test_going_on_after_any_trial_gives_what_one_run_gives(sets, whole, tmp_path, n_done):
    class CrashError(Exception):
        pass

    def crash(trial):
        if trial.number == n_done - 1:
            raise CrashError

    path = tmp_path / "study.db"
    with pytest.raises(CrashError):
        tune(*sets, **SMALL, storage=path, callbacks=[crash])
    assert outcome(tune(*sets, **SMALL, storage=path)) == outcome(whole)


def test_more_trials_can_be_asked_for(sets, whole, tmp_path):
    path = tmp_path / "study.db"
    few = tune(*sets, **{**SMALL, "n_random": 2, "n_bayesian": 0}, storage=path)
    assert len(few.trials) == 2
    assert outcome(tune(*sets, **SMALL, storage=path)) == outcome(whole)
    # And fewer are the first ones.
    fewer = tune(*sets, **{**SMALL, "n_bayesian": 1}, storage=path)
    assert outcome(fewer)["value"] == outcome(whole)["value"][:5]


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from experiments.tune.test_tune import SMALL, make_sets
from rankgrove.experiments.tune.tune import tune
tune(*make_sets(), **SMALL, storage={path!r})
"""


def trials_in(path):
    try:
        with sqlite3.connect(path) as base:
            return base.execute("SELECT COUNT(*) FROM trials").fetchone()[0]
    except sqlite3.Error:
        return 0
    finally:
        if "base" in locals():
            base.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_killing_it_at_any_moment_and_running_it_again_gives_what_one_run_gives(
    sets, whole, tmp_path
):
    path = tmp_path / "study.db"
    tests = str(Path(__file__).parents[2])
    moments = [path.exists, lambda: trials_in(path) >= 3]
    for is_ready in moments:
        command = [sys.executable, "-c", SCRIPT.format(tests=tests, path=str(path))]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 120
            while not is_ready() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            assert process.stderr.read() == ""
        assert process.returncode == -signal.SIGKILL
    assert 3 <= trials_in(path) < 8
    assert outcome(tune(*sets, **SMALL, storage=path)) == outcome(whole)
    assert trials_in(path) == 8


def test_interrupt_keeps_the_trials_so_far(sets, whole, tmp_path):
    def interrupt(trial):
        if trial.number == 2:
            raise KeyboardInterrupt

    tuned = tune(*sets, **SMALL, storage=tmp_path / "s.db", callbacks=[interrupt])
    assert tuned.interrupted
    assert outcome(tuned)["value"] == outcome(whole)["value"][:3]
    again = tune(*sets, **SMALL, storage=tmp_path / "s.db")
    assert not again.interrupted
    assert outcome(again) == outcome(whole)


def test_interrupt_just_after_a_trial_was_kept_counts_it(sets, whole, monkeypatch, tmp_path):
    add = tune_module.Trials.add

    def add_and_interrupt(trials, trial):
        add(trials, trial)
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_module.Trials, "add", add_and_interrupt)
    tuned = tune(*sets, **SMALL, storage=tmp_path / "s.db")
    assert tuned.interrupted
    assert outcome(tuned)["value"] == outcome(whole)["value"][:1]


def test_interrupt_within_a_trial_drops_it(sets, whole, monkeypatch):
    def interrupt(progress, n_trees, best):
        if n_trees == 2 and len(seen) == 2:
            raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr(tune_module.TrialProgress, "grown", interrupt)
    tuned = tune(*sets, **SMALL, callbacks=[seen.append])
    assert tuned.interrupted
    assert outcome(tuned)["value"] == outcome(whole)["value"][:2]


def test_interrupt_before_the_first_trial_is_passed_on(sets, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_module.TrialProgress, "grown", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tune(*sets, **SMALL)


def test_a_callback_ends_tuning(sets):
    tuned = tune(*sets, **SMALL, callbacks=[lambda trial: trial.number == 1])
    assert len(tuned.trials) == 2
    assert not tuned.interrupted


def test_any_storage_of_optuna_will_do(sets, whole, tmp_path):
    options = {**SMALL, "n_bayesian": 1}
    storages = [
        optuna.storages.InMemoryStorage(),
        f"sqlite:///{tmp_path}/by_url.db",
        optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal"))
        ),
    ]
    for storage in storages:
        few = tune(*sets, **{**options, "n_random": 2, "n_bayesian": 0}, storage=storage)
        assert len(few.trials) == 2
        done = tune(*sets, **options, storage=storage)
        assert outcome(done)["value"] == outcome(whole)["value"][:5]


def test_paths_of_any_characters_are_files(sets, tmp_path):
    path = tmp_path / "a {b} #c? %20.db"
    tune(*sets, **{**SMALL, "n_random": 1, "n_bayesian": 0}, storage=str(path))
    assert trials_in(path) == 1


def test_two_studies_in_one_file_are_kept_apart(sets, whole, tmp_path):
    path, options = tmp_path / "s.db", {**SMALL, "n_bayesian": 0}
    tune(*sets, **options, storage=path)
    other = tune(*sets, **options, storage=path, name="other", metric="err")
    assert other.metric == "err"
    assert outcome(tune(*sets, **options, storage=path))["value"] == outcome(whole)["value"][:4]


# What is refused.


ONE = {**SMALL, "n_random": 1, "n_bayesian": 0}


@pytest.fixture(scope="module")
def first_study(sets, tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.db"
    tune(*sets, **ONE, storage=path)
    return path


@pytest.fixture
def study(first_study, tmp_path):
    return Path(shutil.copy(first_study, tmp_path / "study.db"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"metric": "err"}, "must go on with the metric it was made with. Got 'err' in place of"),
        ({"objective": "xendcg"}, "must go on with the objective"),
        ({"fixed": {**HELD, "max_bins": 15}}, "the parameters .* Got max_bins 15 in place of 255"),
        ({"space": {"learning_rate": (0.1, 0.2)}}, "must go on with the space"),
        ({"seed": 1}, "the protocol .* Got seed 1 in place of 0"),
        ({"max_trees": 30}, "Got max_trees 30 in place of 20"),
        ({"early_stopping_rounds": None}, "early_stopping_rounds None in place of 5"),
        ({"prune": False}, "prune False in place of True"),
        ({"n_random": 0, "n_bayesian": 2}, "n_random and sampler .* drawn by 'random'"),
    ],
)
def test_a_study_about_something_else_is_refused_and_left_alone(sets, study, change, problem):
    before = digest(study)
    with pytest.raises(DataError, match=problem) as caught:
        tune(*sets, **{**ONE, **change}, storage=study)
    assert str(study) in str(caught.value)
    assert digest(study) == before


def test_other_data_are_refused(sets, study):
    train, valid = sets
    weighed = replace(train, document_weights=np.full(train.n_documents, 2.0))
    for others in [(valid, train), (train, train), (train,), (weighed, valid)]:
        with pytest.raises(DataError, match="must go on with the data"):
            tune(*others, **ONE, storage=study)


def test_another_version_is_refused(sets, study, monkeypatch):
    monkeypatch.setattr("rankgrove.experiments.tune.tune.__version__", "9.9")
    with pytest.raises(DataError, match=r"the versions .* Got rankgrove '9.9' in place of"):
        tune(*sets, **ONE, storage=study)


def test_a_file_that_is_no_data_base_is_refused_and_left_alone(sets, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which are longer than sixteen bytes")
    with pytest.raises(DataError, match=r"notes.txt: must be a study .* Got another kind of file"):
        tune(*sets, **ONE, storage=path)
    assert path.read_text().startswith("my notes")


def test_a_damaged_data_base_is_refused_and_left_alone(sets, tmp_path):
    path = tmp_path / "damaged.db"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 4000)
    before = digest(path)
    with pytest.raises(DataError, match=r"damaged.db: must be a sound data base"):
        tune(*sets, **ONE, storage=path)
    assert digest(path) == before


def test_a_data_base_of_something_else_is_refused_and_left_alone(sets, tmp_path):
    path = tmp_path / "books.db"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE books (title TEXT)")
    base.commit()
    base.close()
    before = digest(path)
    with pytest.raises(
        DataError, match=r"books.db: .* Got another data base, with a table 'books'"
    ):
        tune(*sets, **ONE, storage=path)
    assert digest(path) == before


@pytest.mark.parametrize("name", ["rankgrove", "mine"])
def test_a_study_of_another_program_is_refused_and_left_alone(sets, tmp_path, name):
    path = tmp_path / "mine.db"
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    study = optuna.create_study(storage=storage, study_name=name)
    study.add_trial(optuna.trial.create_trial(value=1.0))
    storage.remove_session()
    storage.engine.dispose()
    before = digest(path)
    with pytest.raises(DataError, match=f"mine.db: .* Got study {name!r} of another program"):
        tune(*sets, **ONE, storage=path)
    assert digest(path) == before
    if name == "rankgrove":
        with pytest.raises(DataError, match="study 'rankgrove' must be one of rankgrove tune"):
            tune(*sets, **ONE, storage=f"sqlite:///{path}")
        assert digest(path) == before


def test_places_that_cannot_be_written_are_refused(sets, tmp_path):
    with pytest.raises(DataError, match=r"nowhere/s.db: cannot be written: No such file"):
        tune(*sets, **ONE, storage=tmp_path / "nowhere" / "s.db")
    with pytest.raises(DataError, match="is a directory"):
        tune(*sets, **ONE, storage=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes anywhere")
def test_a_file_or_folder_without_permission_is_refused(sets, study, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(DataError, match="cannot be written: Permission denied"):
        tune(*sets, **ONE, storage=tmp_path / "closed" / "s.db")
    study.chmod(0o400)
    with pytest.raises(DataError, match="cannot be written: Permission denied"):
        tune(*sets, **ONE, storage=study)


def test_a_storage_that_fails_later_says_that_nothing_is_lost(sets, tmp_path):
    path = tmp_path / "s.db"

    def lock(_):
        base = sqlite3.connect(path)
        base.execute("DROP TABLE trial_values")
        base.commit()
        base.close()

    with pytest.raises(DataError, match=r"s.db: cannot be .*trial_values"):
        tune(*sets, **SMALL, storage=path, callbacks=[lock])


@pytest.mark.parametrize("url", ["nonsense://x", "postgresql://me:secret@nowhere.invalid/x"])
def test_urls_that_cannot_be_opened_are_refused_without_their_password(sets, url):
    with pytest.raises(DataError, match="cannot be opened as a storage") as caught:
        tune(*sets, **ONE, storage=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sampler": "tep"}, "did you mean 'tpe'"),
        ({"objective": "lamdamart"}, "did you mean 'lambdamart'"),
        ({"metric": "ndgc@10"}, "did you mean 'ndcg'"),
        ({"metric": ["map", "err"]}, "metric must be"),
        ({"n_random": -1}, "n_random must be a whole number"),
        ({"n_random": 0, "n_bayesian": 0}, "must be 1 or more together"),
        ({"max_trees": 0}, "max_trees must be a whole number"),
        ({"early_stopping_rounds": 0}, "early_stopping_rounds must be"),
        ({"folds": 3}, "by valid= or by folds=. Got both"),
        ({"storage": 3}, "storage must be a file"),
        ({"name": ""}, "name must be"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"callbacks": 3}, "callbacks must be a list"),
        ({"space": {"l2": (0, 1)}, "fixed": {"l2": 1}}, "l2 must be held or drawn. Got it in"),
        (
            {"fixed": {"learning_rate": 1, "l2": 1, "max_depth": 3, "max_leaves": 3,
                       "min_samples_leaf": 3}},
            "must leave something to draw",
        ),
        (
            {"space": {"learning_rate": [0.1, 0.9], "shrink_rate": [0.5, 1.2]},
             "fixed": {"l2": 1.0}, "n_random": 30},
            "Trial .* drew some that do not: shrink_rate",
        ),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(sets, options, problem):
    with pytest.raises(ParameterError, match=problem):
        tune(*sets, **{**ONE, "max_trees": 1, **options})


def test_data_that_are_wrong_are_refused(sets):
    train, valid = sets
    with pytest.raises(ParameterError, match=r"train must be a Dataset. Got ndarray"):
        tune(train.features, valid)
    with pytest.raises(ParameterError, match="valid must be a Dataset"):
        tune(train, {"valid": valid})
    with pytest.raises(ParameterError, match="folds must be a whole number, from 2 to 24"):
        tune(train, folds=25)
    empty = make_web_search(2, 16).__class__.from_arrays(
        np.zeros((4, 16), np.float32), [0, 0, 0, 0], group=[4]
    )
    with pytest.raises(DataError, match="the validation set: ndcg@10 must have at least one query"):
        tune(train, empty)


def test_without_optuna_one_error_says_what_to_install(sets, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankgrove\[tune\]'"):
        tune(*sets, **ONE)


def test_the_gaussian_process_draws_where_its_needs_are_installed(sets, tmp_path):
    pytest.importorskip("torch")
    options = {**SMALL, "n_random": 2, "n_bayesian": 2, "sampler": "gp"}
    once = tune(*sets, **options)
    assert [trial.drawn_by for trial in once.trials] == ["random"] * 2 + ["gp"] * 2
    tune(*sets, **{**options, "n_bayesian": 1}, storage=tmp_path / "s.db")
    assert outcome(tune(*sets, **options, storage=tmp_path / "s.db")) == outcome(once)
    with pytest.raises(DataError, match="a trial 2 drawn by 'gp' in place of 'tpe'"):
        tune(*sets, **{**options, "sampler": "tpe"}, storage=tmp_path / "s.db")


def test_the_gaussian_process_without_its_needs_is_refused(sets, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install torch; or take sampler 'tpe'"):
        tune(*sets, **ONE, sampler="gp")


def test_progress_says_the_best_so_far_and_where_it_goes_on(sets, tmp_path, capsys):
    for _ in range(2):
        tune(*sets, **{**ONE, "n_random": 2}, storage=tmp_path / "s.db", verbose=True)
    said = capsys.readouterr().err
    assert "2/2 trials  best ndcg@10 0." in said
    assert "going on after 2 trials" in said


def test_optuna_logs_as_before_afterwards(sets, capsys):
    before = optuna.logging.get_verbosity()
    tune(*sets, **ONE)
    assert optuna.logging.get_verbosity() == before
    assert capsys.readouterr().err == ""

"""Tuning of networks: the protocol of trees, with epochs; studies that go on; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("torch")
pytest.importorskip("optuna")

from typer.testing import CliRunner

from neural.samples import make_parts
from rankgrove import LambdaRank, RankNet, Tuned, evaluate, tune, write_letor
from rankgrove.cli.main import app
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.tune.spaces import Choices, network_space, parse_space
from rankgrove.neural import NetworkModel
from rankgrove.training.network_parameters import FORCES_OF, Network, NetworkParameters

SMALL = {"objective": "lambdarank", "n_random": 3, "n_bayesian": 2, "max_epochs": 4,
         "early_stopping_rounds": 2, "n_jobs": 1}  # fmt: skip
ONE = {**SMALL, "n_random": 1, "n_bayesian": 0}


@pytest.fixture(scope="module")
def sets():
    return make_parts(30)


@pytest.fixture(scope="module")
def whole(sets):
    """A run that was never interrupted."""
    return tune(*sets, **SMALL)


def outcome(tuned):
    """All of the trials but their time."""
    columns = tuned.trials.to_dict()
    del columns["seconds"]
    return columns


def test_the_names_of_networks_are_the_same_everywhere():
    assert tuple(FORCES_OF) == get_args(Network)


def test_the_default_space_is_of_parameters_that_training_accepts():
    space = network_space({})
    assert parse_space(space, NetworkParameters()) == space
    for at in (0, -1):
        drawn = {
            name: entry.values[at] if isinstance(entry, Choices) else (entry.low, entry.high)[at]
            for name, entry in space.items()
        }
        NetworkParameters(**drawn)
    # The defaults are among what is drawn.
    plain = NetworkParameters()
    assert plain.hidden in space["hidden"].values
    assert plain.transform in space["transform"].values
    for name in ("learning_rate", "dropout", "batch_queries"):
        assert space[name].low <= getattr(plain, name) <= space[name].high


def test_a_value_is_that_of_a_network_trained_alone(sets, whole):
    train, valid = sets
    assert [trial.drawn_by for trial in whole.trials] == ["random"] * 3 + ["tpe"] * 2
    for trial in whole.trials[:3]:
        ranker = LambdaRank(
            **trial.parameters, eval_metric="ndcg@10", max_epochs=4, early_stopping_rounds=2
        ).fit(train, valid=valid)
        curve = ranker.history_["valid"]["ndcg@10"]
        assert (ranker.best_iteration_, len(curve)) == (trial.n_trees, trial.n_grown)
        assert max(curve) == trial.value


def test_the_best_parameters_give_the_best_value(sets, whole):
    train, valid = sets
    assert isinstance(whole, Tuned)
    assert whole.best_parameters["max_epochs"] == whole.trials.best.n_trees
    ranker = whole.fit(train)
    assert isinstance(ranker, LambdaRank)
    assert evaluate(valid, ranker.predict(valid), "ndcg@10")["ndcg@10"] == whole.best_value
    assert isinstance(tune(*sets, **{**ONE, "objective": "ranknet"}).fit(train), RankNet)


def test_what_is_shown_counts_epochs(whole):
    assert " epoch" in str(whole).splitlines()[0]
    assert "epochs" in str(whole.trials).splitlines()[0]
    assert len(whole.trials.to_frame("pandas")) == 5


def test_saved_parameters_are_those_of_a_network(whole, tmp_path):
    whole.save(tmp_path / "best.json")
    values = json.loads((tmp_path / "best.json").read_text())
    assert NetworkParameters.from_json(values) == NetworkParameters(**whole.best_parameters)
    assert values.keys() == whole.best_parameters.keys()


@pytest.mark.parametrize("n_done", [1, 4])
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


def test_interrupt_within_a_trial_drops_it(sets, whole, monkeypatch):
    def interrupt(progress, n_epochs, best):
        if n_epochs == 2 and len(seen) == 2:
            raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr("rankgrove.experiments.tune.tune.TrialProgress.grown", interrupt)
    tuned = tune(*sets, **SMALL, callbacks=[seen.append])
    assert tuned.interrupted
    assert outcome(tuned)["value"] == outcome(whole)["value"][:2]


def test_folds_choose_one_number_of_epochs(sets):
    tuned = tune(sets[0], folds=2, **ONE)
    assert 1 <= tuned.best_parameters["max_epochs"] <= 4


def test_spaces_of_ones_own_are_drawn_from(sets):
    space = {"hidden": [[4], [], [8, 4]], "learning_rate": (0.001, 0.01, "log")}
    tuned = tune(*sets, **{**SMALL, "n_bayesian": 0}, space=space, fixed={"dropout": 0.1})
    assert {trial.parameters["hidden"] for trial in tuned.trials} <= {(4,), (), (8, 4)}
    assert tuned.best_parameters["dropout"] == 0.1


def test_a_network_that_diverges_is_a_bad_trial_and_no_error(sets):
    # A step of 1e30 makes scores infinite in the second batch.
    space = {"learning_rate": [1e30, 0.01]}
    held = {"optimiser": "sgd", "hidden": (4, 4), "transform": None, "batch_queries": 4}
    tuned = tune(*sets, **{**SMALL, "n_random": 6, "n_bayesian": 0}, space=space, fixed=held)
    assert tuned.best_parameters["learning_rate"] == 0.01
    lost = [trial for trial in tuned.trials if trial.parameters["learning_rate"] == 1e30]
    assert lost
    assert all(trial.value < tuned.best_value for trial in lost)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"objective": "ranknet"}, "must go on with the objective"),
        ({"max_epochs": 5}, "Got max_epochs 5 in place of 4"),
        ({"fixed": {"activation": "tanh"}}, "Got activation 'tanh' in place of 'relu'"),
        ({"fixed": {"hidden": (4,)}}, "must go on with the space"),
    ],
)
def test_a_study_about_something_else_is_refused(sets, tmp_path, change, problem):
    path = tmp_path / "study.db"
    tune(*sets, **ONE, storage=path)
    with pytest.raises(DataError, match=problem):
        tune(*sets, **{**ONE, **change}, storage=path)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_trees": 3}, "max_trees must be left out .* by epochs. Got 3: give max_epochs"),
        ({"max_epochs": 0}, "max_epochs must be a whole number"),
        ({"fixed": {"max_leaves": 3}}, "a fixed parameter must be one of"),
        ({"fixed": {"max_epochs": 3}}, "give max_epochs= to tune"),
        ({"fixed": {"dropout": 2}}, "dropout must be .* below 1"),
        ({"space": {"max_epochs": (1, 3)}}, "validation finds the number of epochs"),
        ({"space": {"device": ["cpu"]}}, "device: hold it with fixed="),
        ({"space": {"hidden": (8, 16)}}, "hidden, which is no number, must be a list"),
        ({"space": {"hidden": [[0]]}}, "the space of hidden must be of valid values"),
        ({"space": {"hidden": [[4], (4,)]}}, "must differ"),
        ({"objective": "lambdamart"}, "max_epochs must be left out .* by trees"),
    ],
)
def test_wrong_calls_are_refused(sets, options, problem):
    with pytest.raises(ParameterError, match=problem):
        tune(*sets, **{**ONE, **options})


@pytest.fixture
def cli(monkeypatch, tmp_path, sets):
    monkeypatch.chdir(tmp_path)
    for name, part in zip(("train", "vali"), sets, strict=True):
        write_letor(part, tmp_path / f"{name}.txt")

    def call(*args):
        result = CliRunner().invoke(app, list(args))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


COMMAND = ("tune", "train.txt", "--valid", "vali.txt", "--objective", "lambdarank", "--random", "2",
           "--max-epochs", "3", "--activation", "tanh", "--json")  # fmt: skip


def test_the_command_goes_on_and_train_takes_its_file(cli):
    once = json.loads(cli(*COMMAND, "--trials", "3", "-o", "once.json").stdout)
    assert cli(*COMMAND, "--trials", "1").exit_code == 0
    again = json.loads(cli(*COMMAND, "--trials", "3", "--model", "m.safetensors").stdout)
    for key in ("value", "parameters", "epochs", "epochs_run", "drawn_by"):
        assert [t[key] for t in again["trials"]] == [t[key] for t in once["trials"]]
    best = json.loads(Path("best.json").read_text())
    assert best == again["best"]["parameters"]
    assert best["activation"] == "tanh"
    assert (
        best["max_epochs"] == again["best"]["epochs"] == NetworkModel.load("m.safetensors").n_epochs
    )
    done = cli("train", "train.txt", "--valid", "vali.txt", "--params", "best.json", "-o",
               "t.safetensors")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    history = NetworkModel.load("t.safetensors").history["vali"]["ndcg@10"]
    assert history[-1] == again["best"]["value"]


def test_the_command_shows_epochs_and_refuses_trees(cli):
    shown = cli(*COMMAND[:-1], "--trials", "2", "--hidden", "none")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines()[0].split()[:3] == ["trial", "ndcg@10", "epochs"]
    assert "dropout" not in shown.stdout
    refused = cli(*COMMAND, "--n-estimators", "5")
    assert refused.exit_code == 2
    assert "--n-estimators must be left out for a network" in refused.stderr
    refused = cli("tune", "train.txt", "--max-epochs", "5")
    assert "--max-epochs must be used with --objective ranknet or lambdarank" in refused.stderr

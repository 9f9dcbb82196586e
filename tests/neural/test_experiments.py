"""Networks take part in the experiments: by file and as estimators."""

from __future__ import annotations

from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("torch")

from typer.testing import CliRunner

from rankgrove import LambdaRank, Ranker, make_web_search, write_letor
from rankgrove.cli.main import app
from rankgrove.experiments.combine.combine import combine
from rankgrove.experiments.compare.compare import compare
from rankgrove.experiments.cross_validation import cross_validate
from rankgrove.experiments.optimality import is_local_maximum


@pytest.fixture(scope="module")
def data():
    return make_web_search(40, 16, mean_documents=15, seed=3)


@pytest.fixture(scope="module")
def network(data):
    return LambdaRank(hidden=(), max_epochs=3, random_state=1).fit(data)


@pytest.fixture(scope="module")
def trees(data):
    return Ranker(n_estimators=3).fit(data)


def test_a_network_file_is_compared_as_the_network_is(data, network, trees, tmp_path):
    network.save(tmp_path / "network.safetensors")
    found = compare(
        data,
        {"file": str(tmp_path / "network.safetensors"), "network": network, "trees": trees},
        "ndcg@10",
    )
    means = {row.name: row.mean for row in found.summary("ndcg@10")}
    assert means["file"] == means["network"] != means["trees"]


def test_a_network_and_trees_are_combined(data, network, trees):
    found = combine(data, {"network": network, "trees": trees}, "ndcg@10")
    alone = compare(data, {"network": network, "trees": trees}, "ndcg@10").summary("ndcg@10")
    assert found.value >= max(row.mean for row in alone)


def test_a_network_is_cross_validated_on_top_of_base_scores(data):
    based = replace(data, base_scores=data.features[:, 0].astype(float))
    # Values that are dropped at random must not depend on what other threads draw.
    network = LambdaRank(hidden=(8,), dropout=0.5, batch_queries=2, max_epochs=4)
    found = [
        cross_validate(network, based, "ndcg@10", folds=2, n_jobs=n_jobs).scores["LambdaRank"]
        for n_jobs in (1, 2)
    ]
    expected = np.empty(data.n_documents)
    for train, test in based.folds(2):
        rows = np.isin(data.qid, test.query_ids)
        expected[rows] = clone(network).fit(train).predict(test)
    assert found[0].tobytes() == found[1].tobytes() == expected.tobytes()


def test_cross_validation_of_networks_is_stopped_by_an_error_elsewhere(data):
    class Broken:
        def fit(self, X, y):  # noqa: N803
            began.wait(60)
            raise ArithmeticError

        def predict(self, X):  # noqa: N803
            raise AssertionError

    began, epochs = Event(), []

    class Watched(LambdaRank):
        def fit(self, *args, callbacks, **options):
            watched = [lambda run: began.set() or epochs.append(run.n_steps), *callbacks]
            return super().fit(*args, callbacks=watched, **options)

    endless = Watched(hidden=(), max_epochs=1_000_000)
    with pytest.raises(ArithmeticError):
        cross_validate({"a": endless, "b": Broken()}, data, "ndcg@10", folds=2, n_jobs=2)
    assert 1 <= len(epochs) < 1_000_000


def test_the_weights_of_a_network_are_tried_for_a_local_maximum(data, network):
    found = is_local_maximum(network, data, delta=0.3, p0=0.3)
    assert found.n_directions == 4
    again = is_local_maximum(network.model_.weights_and_scorer(data), data, delta=0.3, p0=0.3)
    assert (found.values == again.values).all()


def test_commands_take_the_file_of_a_network(data, network, trees, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_letor(data, "data.txt")
    network.save("network.safetensors")
    trees.save("trees.safetensors")
    for args in (
        ["compare", "data.txt", "network.safetensors", "trees.safetensors"],
        ["combine", "data.txt", "network.safetensors", "trees.safetensors"],
        ["optimality", "network.safetensors", "data.txt", "--delta", "0.3", "--p0", "0.3"],
    ):
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0, (args, result.stderr)

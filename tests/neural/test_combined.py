"""Networks and trees as one model: made by `combine`, in one file, scored and explained."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from model.file_samples import unpack
from model.test_file_mutations import check_bytes, mutate_content, run
from neural.samples import make_parts
from rankgrove import CombinedModel, Model, Ranker, RankNet, combine, combine_two, load, write_letor
from rankgrove.cli.main import app
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.combined import weigh_models
from rankgrove.neural import NetworkModel
from rankgrove.neural.gradients import TOLERANCE

QUICK = {"max_epochs": 2, "batch_queries": 8, "dropout": 0.0}


@pytest.fixture(scope="module")
def parts():
    return make_parts()


@pytest.fixture(scope="module")
def network(parts):
    return RankNet(hidden=(4,), **QUICK).fit(parts[0]).model_


@pytest.fixture(scope="module")
def trees(parts):
    return Ranker(n_estimators=3).fit(parts[0]).model_


def test_two_rankers_of_either_kind_become_one_model_in_one_file(parts, network, trees, tmp_path):
    _, test = parts
    found = combine_two(test, network, trees)
    assert 0 < found.alpha < 1
    model = found.to_model()
    assert isinstance(model, CombinedModel)
    expected = found.alpha * network.predict(test) + (1 - found.alpha) * trees.predict(test)
    np.testing.assert_array_equal(model.predict(test), expected)
    path = tmp_path / "both.safetensors"
    model.save(path)
    loaded = load(path)
    assert [type(part) for part in loaded.parts] == [NetworkModel, Model]
    np.testing.assert_array_equal(loaded.predict(test, n_jobs=1), expected)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    assert unpack(first)[0]["format_version"] == "2"


@pytest.mark.parametrize("method", ["sweep", "lambdamart"])
def test_several_rankers_with_a_network_become_one_by_either_method(
    parts, network, trees, tmp_path, method
):
    _, test = parts
    other = RankNet(hidden=(), **QUICK, random_state=1).fit(parts[0])
    options = {"parameters": {"n_estimators": 3}} if method == "lambdamart" else {}
    candidates = {"a": network, "b": trees, "c": other}
    found = combine(test, candidates, method=method, **options)
    found.model.save(tmp_path / "m.safetensors")
    scores = load(tmp_path / "m.safetensors").predict(test)
    np.testing.assert_allclose(scores, found.scores, rtol=1e-12, atol=1e-12)


def test_a_network_on_trees_may_be_a_part(parts, trees, tmp_path):
    train, test = parts
    on_trees = RankNet(hidden=(3,), **QUICK).fit(train, base_model=trees).model_
    model = weigh_models([on_trees, trees], [0.5, 0.25])
    model.save(tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    assert loaded.parts[0].base.n_trees == 3
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))


def test_contributions_of_trees_and_networks_add_up_with_their_weights(parts, network, trees):
    _, test = parts
    model = weigh_models([network, trees], [0.75, 0.25])
    found, scores = model.contributions(test), model.predict(test)
    wanted = 0.75 * network.contributions(test) + 0.25 * trees.contributions(test)
    np.testing.assert_array_equal(found, wanted)
    gaps = np.abs(found.sum(axis=1) - scores)
    assert (gaps <= TOLERANCE * np.maximum(1, np.abs(scores))).all()
    comparison = model.why(test, 4, 2)
    total = comparison.differences[-1].total
    assert total == pytest.approx(scores[4] - scores[2], abs=1e-4)
    drops = model.permutation_importance(test, repeats=1)
    assert len(drops.mean) == test.n_features


def test_weighted_sums_are_taken_apart_when_they_are_weighed_again(parts, network, trees):
    _, test = parts
    first = weigh_models([network, trees], [0.5, 0.5])
    again = weigh_models([first, trees], [0.5, 0.5])
    assert again.weights == (0.25, 0.25, 0.5)
    expected = 0.25 * network.predict(test) + 0.75 * trees.predict(test)
    np.testing.assert_allclose(again.predict(test), expected, rtol=1e-12)


def test_a_network_without_weight_leaves_trees_alone(parts, network, trees):
    model = weigh_models([network, trees], [0.0, 1.0])
    assert isinstance(model, Model)
    np.testing.assert_array_equal(model.predict(parts[1]), trees.predict(parts[1]))


def test_what_cannot_be_one_model_is_refused(parts, network, trees, tmp_path):
    train, test = parts
    stacked = combine(
        test, {"a": network, "b": trees}, method="lambdamart", parameters={"n_estimators": 2}
    ).model
    with pytest.raises(DataError, match="must be models of trees or networks"):
        weigh_models([stacked, trees], [0.5, 0.5])
    assert combine(test, {"a": stacked, "b": trees}).model is None
    own = RankNet(module=lambda n: network.module, **QUICK).fit(train).model_
    both = weigh_models([own, trees], [0.5, 0.5])
    assert len(both.predict(test)) == test.n_documents
    with pytest.raises(ParameterError, match="Got a module of one's own"):
        both.save(tmp_path / "m.safetensors")


# Damaged files.


def two_mixtures(network, trees):
    return [
        CombinedModel((network, trees), weights=(0.25, 0.75)),
        CombinedModel((trees, network), weights=(0.5, 0.5)),
    ]


def test_a_damaged_file_with_a_network_is_refused_or_scores_the_same(
    parts, network, trees, tmp_path
):
    features = parts[1].features[:8]
    check_bytes(0, 300, two_mixtures(network, trees), features, tmp_path)


def test_unsound_content_with_a_network_is_refused_or_scores_safely(
    parts, network, trees, tmp_path
):
    features = parts[1].features[:3]

    seen = []

    def sound(model, where):
        seen.append(model)
        some = np.resize(features, (len(features), model.n_features))
        with np.errstate(all="ignore"):
            scores = model.predict(some, base_scores=0.0, n_jobs=1)
            assert scores.shape == (len(some),), where
            # Weights of any size: they are explained or, where they cannot be, refused.
            if len(seen) % 8 == 1:
                with contextlib.suppress(ParameterError):
                    found = model.contributions(some, base_scores=0.0, n_jobs=1)
                    assert found.shape == (len(some), model.n_features + 1), where
        assert model.describe()["kind"] == "combined", where

    loaded = run(mutate_content, 0, 300, two_mixtures(network, trees), tmp_path, sound)
    assert loaded == len(seen)
    assert 15 < loaded < 285


# The command line.


@pytest.fixture
def cli(monkeypatch, tmp_path, parts, network, trees):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    write_letor(parts[1], "vali.txt")
    network.save("m0.5.safetensors")
    trees.save("m0.7.safetensors")
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


def test_combine_writes_a_network_and_trees_as_one(cli, parts):
    call = ("combine", "m0.5.safetensors", "m0.7.safetensors", "vali.txt", "-m", "ndcg@10")
    result = cli(*call, "-o", "both.safetensors", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [row["name"] for row in found["rankers"]] == ["m0.5", "m0.7"]
    model = load("both.safetensors")
    assert list(model.weights) == [row["weight"] for row in found["rankers"]]
    value = json.loads(
        cli("evaluate", "both.safetensors", "vali.txt", "-m", "ndcg@10", "--json").stdout
    )
    assert value["metrics"]["ndcg@10"]["mean"] == pytest.approx(found["value"], abs=1e-12)
    scored = cli("score", "both.safetensors", "vali.txt")
    np.testing.assert_array_equal(
        [float(line) for line in scored.stdout.splitlines()], model.predict(parts[1].features)
    )
    page = cli("inspect", "both.safetensors").stdout
    assert "the weighted sum of their scores" in page
    rows = [line.split() for line in page.splitlines()]
    assert ["2", "3", "trees", f"{model.weights[1]:.6g}"] in rows
    query = str(parts[1].query_ids[0])
    why = cli("explain", "both.safetensors", "vali.txt", "--query", query, "--why", "1", "2")
    assert why.exit_code == 0, why.stderr
    assert "stands above" in why.stdout


def test_combine_refuses_before_the_work_what_cannot_be_one_model(cli):
    call = ("combine", "m0.5.safetensors", "m0.7.safetensors", "vali.txt", "-o", "top.safetensors")
    made = cli(*call, "--method", "lambdamart")
    assert made.exit_code == 0, made.stderr
    again = cli("combine", "top.safetensors", "m0.7.safetensors", "vali.txt", "-o", "x.safetensors")
    assert again.exit_code == 1
    assert "parts of a combined model must be models of trees or networks" in again.stderr

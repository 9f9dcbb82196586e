"""`rankgrove train` from a base model and from preferences: what it gives and what it refuses."""

from __future__ import annotations

import gzip
import itertools
import re

import numpy as np
import pytest

from cli.samples import fails, make_parts
from rankgrove import Ranker, read_data
from rankgrove.data.preferences import read_preferences
from rankgrove.model.model import Model

QUICK = ["--n-estimators", "3", "-o", "m.safetensors"]


def lines_of_pairs(data, every=1):
    """Lines of pairs from the labels of data, by the places of documents in their queries."""
    lines = []
    for query, (lo, hi) in zip(data.query_ids, itertools.pairwise(data.offsets), strict=True):
        better, worse = np.nonzero(data.labels[lo:hi, None] > data.labels[None, lo:hi])
        lines += [f"{query} {i + 1} {j + 1}" for i, j in zip(better, worse, strict=True)]
    return lines[::every]


@pytest.fixture(scope="module")
def base(trained, tmp_path_factory):
    """A model of 5 trees with the names of features that its data file gives."""
    path = tmp_path_factory.mktemp("base") / "base.safetensors"
    Ranker(n_estimators=5).fit(read_data(trained / "train.txt")).save(path)
    return path


@pytest.fixture
def pairs(trained, write):
    data = read_data(trained / "train.txt")
    return write("pairs.txt", "\n".join([*lines_of_pairs(data), ""]))


@pytest.fixture
def train(cli, trained):
    """Calls train on the sample with these options."""
    return lambda *args: cli("train", trained / "train.txt", *QUICK, *args)


def test_base_model_gives_the_model_of_the_library(train, trained, base):
    result = train("--base-model", base, "--valid", trained / "vali.txt", "--objective", "rankmart")
    assert result.exit_code == 0, result.stderr
    model = Model.load("m.safetensors")
    data, vali = (read_data(trained / f"{part}.txt") for part in ("train", "vali"))
    ranker = Ranker("rankmart", n_estimators=3).fit(data, valid={"vali": vali}, base_model=base)
    np.testing.assert_array_equal(model.predict(vali), ranker.predict(vali))
    assert model.history == ranker.history_
    assert model.parameters == ranker.model_.parameters
    assert (model.n_trees, model.n_base_trees) == (8, 5)


def test_summary_counts_new_trees_as_grown_and_all_as_written(train, trained, base):
    lines = train("--base-model", base, "--valid", trained / "vali.txt").stdout.splitlines()
    curve = Model.load("m.safetensors").history["vali"]["ndcg@10"]
    assert lines[2].split()[-1] == f"{curve[2]:.4f}"
    assert re.fullmatch(r"Grew 3 trees in \S+ s\.", lines[4])
    assert re.fullmatch(r"Wrote m.safetensors: 8 trees, \d+ leaves, [\d,]+ bytes\.", lines[5])


def test_json_counts_new_trees_as_grown_and_all_as_the_models(cli_json, trained, base):
    got = cli_json(
        "train", trained / "train.txt", "--valid", trained / "vali.txt", *QUICK,
        "--base-model", base,
    )  # fmt: skip
    model = Model.load("m.safetensors")
    assert (got["trees"], got["trees_grown"], got["leaves"]) == (8, 3, len(model.ensemble.value))
    assert got["valid"]["vali"]["metrics"] == {"ndcg@10": model.history["vali"]["ndcg@10"][2]}
    assert got["parameters"]["n_estimators"] == 3


def test_early_stopping_keeps_the_trees_of_the_base(cli_json, trained, base):
    got = cli_json(
        "train", trained / "train.txt", "--valid", trained / "vali.txt", "-o", "m.safetensors",
        "--base-model", base, "--early-stopping-rounds", "3", "--learning-rate", "0.6",
    )  # fmt: skip
    curve = Model.load("m.safetensors").history["vali"]["ndcg@10"]
    best = int(np.argmax(curve)) + 1
    assert got["stopped_early"]
    assert (got["trees"], got["trees_grown"]) == (5 + best, best + 3)
    assert got["valid"]["vali"]["metrics"]["ndcg@10"] == max(curve)


def test_checkpoint_of_a_run_with_a_base_is_gone_on_from(train, cli, trained, base):
    assert train("--base-model", base, "--n-estimators", "6").exit_code == 0
    whole = Model.load("m.safetensors")
    checkpoint = ["--checkpoint", "c.safetensors", "--checkpoint-every", "2"]
    assert train("--base-model", base, *checkpoint).exit_code == 0
    assert Model.load("c.safetensors").n_trees == 7
    result = train("--resume", "c.safetensors", "--n-estimators", "6")
    assert result.exit_code == 0, result.stderr
    assert "Grew 4 trees after the first 2 in" in result.stdout
    resumed = Model.load("m.safetensors")
    data = read_data(trained / "test.txt")
    assert resumed.predict(data).tobytes() == whole.predict(data).tobytes()
    assert (resumed.n_trees, resumed.n_base_trees) == (11, 5)


def test_model_with_a_base_is_inspected_and_scores_alone(train, cli, cli_json, trained, base):
    train("--base-model", base)
    assert cli_json("inspect", "m.safetensors")["trees"] == 8
    assert cli("score", "m.safetensors", trained / "test.txt", "-o", "s.txt").exit_code == 0
    wanted = Model.load("m.safetensors").predict(read_data(trained / "test.txt"))
    np.testing.assert_allclose(np.loadtxt("s.txt"), wanted, rtol=1e-6)


@pytest.mark.parametrize("stops", [False, True])
def test_inspect_shows_validation_after_the_last_tree_beyond_the_base(
    train, cli, cli_json, trained, base, stops
):
    stopping = ("--n-estimators", "60", "--learning-rate", "0.5", "--early-stopping-rounds", "20")
    train("--base-model", base, "--valid", trained / "vali.txt", *(stopping if stops else ()))
    model = Model.load("m.safetensors")
    curve = model.history["vali"]["ndcg@10"]
    # There is a value at the number of all trees, which is that of another one.
    assert (len(curve) >= model.n_trees) == stops
    (entry,) = cli_json("inspect", "m.safetensors")["validation"]
    assert entry["last"] == curve[model.n_trees - 5 - 1]
    assert entry["best"] == max(curve)
    shown = ["vali", "ndcg@10", f"{entry['last']:.4f}"]
    page = cli("inspect", "m.safetensors").stdout
    assert shown in [line.split()[:3] for line in page.splitlines()]


def test_base_model_and_resume_together_are_refused(train, base):
    train("--checkpoint", "c.safetensors", "--checkpoint-every", "3")
    result = train("--base-model", base, "--resume", "c.safetensors")
    fails(result, 2, "must be left out where training goes on. Got both")


def test_base_model_of_other_features_is_refused(cli, base, write):
    narrow = write("narrow.txt", "1 qid:1 1:1\n0 qid:1 1:2\n")
    result = cli("train", narrow, *QUICK, "--base-model", base)
    fails(result, 1, "the base model must have the 1 features of the training data", "Got 16")


@pytest.mark.parametrize("content", [None, "no model"], ids=["absent", "text"])
def test_base_model_that_is_none_is_refused_and_named(train, write, content):
    path = "base.safetensors" if content is None else write("base.safetensors", content)
    fails(train("--base-model", path), 1, "base.safetensors")


def test_files_that_are_read_are_not_written_over(cli, trained, base, pairs, write):
    own = write("own.safetensors", base.read_bytes())
    for option, path in (("--base-model", own), ("--preferences", pairs)):
        before = path.read_bytes()
        args = ["train", trained / "train.txt", option, path]
        fails(cli(*args, "-o", path), 2, "--out must not be a file that is read", path.name)
        result = cli(*args, *QUICK, "--checkpoint", path)
        fails(result, 2, "--checkpoint must not be a file that is read", path.name)
        assert path.read_bytes() == before


@pytest.mark.parametrize("objective", ["rankmart", "lambdamart"])
def test_preferences_give_the_model_of_the_library(train, trained, pairs, objective):
    result = train("--preferences", pairs, "--objective", objective)
    assert result.exit_code == 0, result.stderr
    data, test = (read_data(trained / f"{part}.txt") for part in ("train", "test"))
    ranker = Ranker(objective, n_estimators=3)
    ranker.fit(data, preferences=read_preferences(pairs, data))
    got = Model.load("m.safetensors").predict(test)
    assert got.tobytes() == ranker.predict(test).tobytes()
    assert got.tobytes() != Ranker(objective, n_estimators=3).fit(data).predict(test).tobytes()


def test_preferences_rank_held_out_queries_as_well_as_labels_do(cli, cli_json, trained, pairs):
    metrics = []
    for more in ([], ["--preferences", pairs]):
        got = cli_json(
            "train", trained / "train.txt", "--valid", trained / "test.txt", "--n-estimators",
            "20", "--max-leaves", "6", "--objective", "rankmart", "-o", "m.safetensors", *more,
        )  # fmt: skip
        metrics.append(got["valid"]["test"]["metrics"]["ndcg@10"])
    # The same pairs: sums in another order may at most change a split of almost equal gain.
    assert metrics[1] == pytest.approx(metrics[0], abs=0.02)


def test_compressed_preferences_and_json(cli_json, trained, pairs, write):
    packed = write("pairs.gz", gzip.compress(pairs.read_bytes()))
    got = cli_json("train", trained / "train.txt", *QUICK, "--preferences", packed)
    first = Model.load("m.safetensors")
    cli_json("train", trained / "train.txt", *QUICK, "--preferences", pairs)
    assert first.parameters == Model.load("m.safetensors").parameters
    assert (got["trees"], got["train"]["queries"]) == (3, make_parts()["train"].n_queries)


def test_base_model_and_preferences_go_together(train, base, pairs):
    assert train("--base-model", base, "--preferences", pairs).exit_code == 0
    assert Model.load("m.safetensors").n_base_trees == 5


def first_query(trained):
    data = read_data(trained / "train.txt")
    return data.query_ids[0], int(data.group[0])


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("{q} 1 {past}", ["pairs.txt, line 2", "document must be a number from 1 to", "'{past}'"]),
        ("none 1 2", ["pairs.txt, line 2", "query must be one of the data", "'none'"]),
        ("{q} 1", ["pairs.txt, line 2", "Got 2 words"]),
        ("{q} 1 2 0.5 9 7", ["pairs.txt, line 2", "Got 6 words"]),
        ("{q} 1 2 much", ["pairs.txt, line 2", "probability must be a number", "'much'"]),
        ("{q} 2 2", ["Got one twice", "line 2 of", "pairs.txt"]),
        ("{q} 1 2 1.5", ["probability from 0 to 1", "line 2 of", "pairs.txt"]),
    ],
)
def test_bad_line_of_preferences_is_refused_with_file_and_line(train, trained, write, line, parts):
    query, n_documents = first_query(trained)
    names = {"q": query, "past": n_documents + 1}
    path = write("pairs.txt", f"{query} 1 2\n{line.format(**names)}\n")
    fails(train("--preferences", path), 1, *(part.format(**names) for part in parts))


def test_preferences_that_are_none_are_refused(train, write):
    fails(train("--preferences", write("pairs.txt", "# none\n")), 1, "at least one pair")
    fails(train("--preferences", write("pairs.txt", b"\xff\xfe")), 1, "pairs.txt", "UTF-8")
    fails(train("--preferences", "absent.txt"), 1, "absent.txt", "no such file")


def test_preferences_without_pairs_are_named(train, write):
    fails(train("--preferences", write("pairs.txt", "# none\n")), 1, "pairs.txt")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--objective", "queryrmse"], "must be rankmart or lambdamart"),
        (["--objective", "yetirank"], "must be rankmart or lambdamart"),
        (["--metric", "map"], "must be one with discounts"),
    ],
)
def test_preferences_with_another_objective_are_refused(train, pairs, options, problem):
    fails(train("--preferences", pairs, *options), 2, problem)

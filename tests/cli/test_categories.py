"""Categories that are strings, on the command line: training, scoring, and what is shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from boosting.samples import bits
from cli.samples import fails
from rankgrove import Ranker, evaluate, from_frame, load

QUICK = ("--n-estimators", "4", "--max-leaves", "6", "--min-samples-leaf", "2")
OPTIONS = {"n_estimators": 4, "max_leaves": 6, "min_samples_leaf": 2}
GENRES = np.array(["western", "NA", "drama", "[red]comedy", "7"])


def make_frame(seed=0, n_queries=30, n_documents=8):
    rng = np.random.default_rng(seed)
    n_rows = n_queries * n_documents
    genre, x = rng.integers(0, len(GENRES), n_rows), rng.normal(size=n_rows).astype(np.float32)
    labels = np.array([0, 2, 1, 0, 2])[genre] + (x > 0.5)
    words = pd.Series(GENRES[genre], dtype=object)
    words[rng.random(n_rows) < 0.1] = None
    qid = np.repeat(np.arange(n_queries), n_documents)
    return pd.DataFrame({"label": labels, "qid": qid, "x": x, "genre": words})


@pytest.fixture
def files(cli):
    """Train and test as CSV, as Parquet and as Parquet with the type of categories."""
    for name, seed in (("train", 0), ("test", 1)):
        frame = make_frame(seed)
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_parquet(f"{name}.parquet")
        typed = frame.assign(genre=frame["genre"].astype("category"))
        typed.to_parquet(f"{name}.typed.parquet")
    return cli


def trained(cli, *args):
    result = cli("train", *args, *QUICK, "-o", "model.safetensors")
    assert result.exit_code == 0, result.stderr
    return result, load("model.safetensors")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "typed.parquet"])
def test_every_kind_of_file_trains_the_model_of_the_frame(files, suffix):
    data = from_frame(make_frame(), categorical=["genre"])
    expected = Ranker(**OPTIONS).fit(data).model_
    named = () if suffix == "typed.parquet" else ("--categorical", "genre")
    result, model = trained(files, f"train.{suffix}", *named, "--valid", f"test.{suffix}")
    assert bits(model.ensemble) == bits(expected.ensemble)
    assert model.schema == expected.schema
    assert model.schema.levels_by_name == {"genre": tuple(sorted(GENRES))}
    of_type = ", by its type" if suffix == "typed.parquet" else ""
    assert f"categories: genre (5 levels{of_type})\n" in result.stderr
    valid = from_frame(make_frame(1), categorical=["genre"])
    fitted = Ranker(**OPTIONS, eval_metric="ndcg@10").fit(data, valid=valid)
    shown = f"{fitted.history_['valid']['ndcg@10'][-1]:.4f}"
    assert shown in result.stdout


@pytest.mark.parametrize("suffix", ["csv", "parquet", "typed.parquet"])
def test_every_kind_of_file_is_scored_and_judged_by_the_model(files, suffix, cli_json):
    _, model = trained(files, "train.parquet", "--categorical", "genre")
    expected = model.predict(make_frame(1)).tolist()
    scores = cli_json("score", "model.safetensors", f"test.{suffix}")["scores"]
    assert scores == expected
    judged = cli_json("evaluate", "model.safetensors", f"test.{suffix}", "-m", "ndcg@10")
    data = from_frame(make_frame(1), categorical=["genre"])
    mean = judged["metrics"]["ndcg@10"]["mean"]
    assert mean == evaluate(data, model.predict(data), ["ndcg@10"])["ndcg@10"]
    result = files("compare", "model.safetensors", "column:x", f"test.{suffix}")
    assert result.exit_code == 0, result.stderr


def test_a_table_without_labels_is_scored(files, cli_json):
    _, model = trained(files, "train.csv", "--categorical", "genre")
    frame = make_frame(1).drop(columns="label")
    only_digits = frame.assign(genre="7")
    for table in (frame, only_digits):
        table.to_csv("new.csv", index=False)
        table.to_parquet("new.parquet")
        expected = model.predict(table).tolist()
        assert cli_json("score", "model.safetensors", "new.csv")["scores"] == expected
        assert cli_json("score", "model.safetensors", "new.parquet")["scores"] == expected


def test_binned_files_train_the_same_trees(files):
    _, whole = trained(files, "train.parquet", "--categorical", "genre")
    result = files("bin", "train.csv", "-o", "train.bins", "--categorical", "genre", "--valid",
                   "test.csv")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    _, model = trained(files, "train.bins", "--categorical", "genre", "--valid", "test.bins")
    assert bits(model.ensemble) == bits(whole.ensemble)
    assert model.schema == whole.schema
    pattern = "train.[p]arquet"
    _, model = trained(files, pattern, "--categorical", "genre", "--valid", "test.csv")
    assert bits(model.ensemble) == bits(whole.ensemble)
    assert model.schema == whole.schema


def test_codes_in_a_csv_file_stay_numbers(files):
    frame = make_frame()
    codes = frame["genre"].map({genre: n for n, genre in enumerate(sorted(GENRES))})
    frame.assign(genre=codes).to_csv("codes.csv", index=False)
    _, whole = trained(files, "train.csv", "--categorical", "genre")
    _, model = trained(files, "codes.csv", "--categorical", "genre")
    assert bits(model.ensemble) == bits(whole.ensemble)
    assert model.schema.levels == {}


def test_models_and_data_are_shown_with_the_names_of_categories(files, cli_json):
    trained(files, "train.csv", "--categorical", "genre")
    shown = files("inspect", "model.safetensors").stdout
    assert "'[red]comedy', 'drama', 'western'" in shown
    assert cli_json("inspect", "model.safetensors")["levels"] == {"genre": sorted(GENRES)}
    result = files("explain", "model.safetensors", "--tree", "0")
    assert result.exit_code == 0, result.stderr
    assert "genre in {" in result.stdout
    assert any(f"'{genre}'" in result.stdout for genre in GENRES)
    result = files("inspect", "train.csv", "--categorical", "genre", "--per-feature")
    assert result.exit_code == 0, result.stderr
    assert "5 levels" in result.stdout


def test_conversion_keeps_categories_where_the_format_can(files):
    assert files("convert", "train.csv", "again.parquet", "--categorical", "genre").exit_code == 0
    assert pd.read_parquet("again.parquet")["genre"].dtype == "category"
    result = files("convert", "again.parquet", "again.txt")
    assert "LETOR has no place for categories (genre)" in result.stderr


@pytest.mark.parametrize("command", ["cv", "tune"])
def test_other_commands_that_train_take_categories(files, command):
    pytest.importorskip("optuna")
    more = (
        ("--folds", "2") if command == "cv" else ("--trials", "2", "--random", "2", "-o", "t.json")
    )
    result = files(command, "train.csv", "--categorical", "genre", "--n-estimators", "3", *more)
    assert result.exit_code == 0, result.stderr


def test_text_that_is_not_named_and_names_that_do_not_exist_are_refused(files):
    result = files("train", "train.csv", "-o", "m.safetensors")
    fails(result, 1, "train.csv", "'genre' (String, as", "in --categorical, drop others")
    result = files("train", "train.csv", "--categorical", "gendre", "-o", "m.safetensors")
    fails(result, 2, "--categorical", "did you mean 'genre'?")
    trained(files, "train.csv", "--categorical", "genre")
    make_frame(1).assign(genre=np.arange(240.0)).to_parquet("numbers.parquet")
    result = files("score", "model.safetensors", "numbers.parquet")
    fails(result, 1, "feature 'genre' must have the categories of training, which are strings")
    make_frame(1).assign(x="much").to_parquet("words.parquet")
    result = files("score", "model.safetensors", "words.parquet")
    fails(result, 1, "'x' (String): convert them, as they were numbers in training.")

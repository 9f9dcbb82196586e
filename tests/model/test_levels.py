"""A schema with levels: trees in words, and files, sound and damaged."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pytest

from model.file_samples import unpack
from model.samples import NAMES, make_features, make_model, naive_scores
from model.test_file_mutations import FEATURES, mutate_bytes, mutate_content
from rankgrove.errors import DataError
from rankgrove.model.base import load
from rankgrove.model.combined import CombinedModel
from rankgrove.model.files import ModelFileError
from rankgrove.model.schema import Schema

CODES = {2: (2.0, 0.0, 3.0, 1.0)}
LEVELS = ("a\0b", "drama", "x" * 10_000, "Ä\ud800")


def make_words(seed=0, n_trees=6, levels=LEVELS, **options):
    return make_model(seed, n_trees, categories=CODES, levels={2: levels}, **options)


def frame_of(features, levels=LEVELS):
    """The features as a frame with words in the place of their numbers."""
    words = [levels[int(v)] if 0 <= v < len(levels) else None for v in features[:, 2]]
    columns = {name: features[:, number] for number, name in enumerate(NAMES)}
    return pd.DataFrame(columns | {"language": pd.Series(words, dtype=object)})


FEATURES_WITH_CODES = make_features(categories=CODES)


def test_words_are_scored_as_the_numbers_that_stand_for_them():
    model = make_words()
    expected = naive_scores(model, FEATURES_WITH_CODES)
    np.testing.assert_array_equal(model.predict(frame_of(FEATURES_WITH_CODES)), expected)


def test_a_model_with_levels_comes_back_from_its_file_in_the_newer_format(tmp_path):
    model = make_words()
    model.save(tmp_path / "m.safetensors")
    assert unpack((tmp_path / "m.safetensors").read_bytes())[0]["format_version"] == "2"
    again = load(tmp_path / "m.safetensors")
    assert again.schema == model.schema
    assert again.schema.levels == {2: LEVELS}
    frame = frame_of(FEATURES_WITH_CODES)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_a_model_without_levels_keeps_the_older_format(tmp_path):
    make_model().save(tmp_path / "m.safetensors")
    metadata, _ = unpack((tmp_path / "m.safetensors").read_bytes())
    assert metadata["format_version"] == "1"
    assert "levels" not in metadata["schema"]


def test_a_combined_model_with_levels_comes_back_in_its_newest_format(tmp_path):
    parts = (make_words(0), make_words(1))
    for model in (
        CombinedModel(parts, weights=(0.5, 2.0)),
        CombinedModel(parts, make_model(3, names=("a", "b"), categories={})),
    ):
        model.save(tmp_path / "m.safetensors")
        assert unpack((tmp_path / "m.safetensors").read_bytes())[0]["format_version"] == "3"
        frame = frame_of(FEATURES_WITH_CODES)
        again = load(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_trees_and_comparisons_show_levels_and_not_their_numbers():
    model = make_words(levels=("app", "drama", "tv", "web"), n_trees=20)
    text = "\n".join(model.describe_tree(number) for number in range(model.n_trees))
    shown = {word for word in ("app", "drama", "tv", "web") if f"'{word}'" in text}
    assert len(shown) >= 2
    assert "language in {" in text
    rules = [model.tree_as_dict(number) for number in range(model.n_trees)]
    found = set()
    while rules:
        node = rules.pop()
        found |= set(node.get("categories", ()))
        rules += [node[side] for side in ("left", "right") if side in node]
    assert found <= {"app", "drama", "tv", "web"}
    assert found >= shown
    frame = frame_of(np.zeros((2, 5), np.float32), ("app", "drama", "tv", "web"))
    frame.loc[1, "language"] = "web"
    rows = model.why(frame, 0, 1).differences
    assert {row.feature: (row.value_a, row.value_b) for row in rows}["language"] == ("app", "web")
    assert "'app'" in str(model.why(frame, 0, 1))
    assert model.describe()["levels"] == {"language": ["app", "drama", "tv", "web"]}


def test_a_long_level_is_shortened_in_text():
    model = make_words(n_trees=20)
    text = "\n".join(model.describe_tree(number) for number in range(model.n_trees))
    assert "x" * 30 in text
    assert "x" * 50 not in text


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({0: ("a",)}, "levels must be the categories of a feature. Got others for 0"),
        ({1: ("b", "a")}, "levels must differ and rise. Got others for feature 1"),
        ({1: ("a",)}, "levels must be the categories of a feature"),
        ({1: ("a", "b", "c")}, "levels must be the categories of a feature"),
        ({1: ("a", 1)}, "must be all strings, all whole numbers or all booleans. Got int and str"),
        ({1: (1.5, 2.5)}, "must be all strings, all whole numbers or all booleans. Got float"),
        ({2: ()}, "levels must be of one of 2 features. Got 2"),
    ],
)
def test_levels_that_do_not_fit_are_refused(levels, message):
    with pytest.raises(DataError, match=message):
        Schema(("x", "kind"), {1: (1.0, 0.0)}, levels=levels)


def frame_for(model):
    """Values of the types that a mutant asks for."""
    columns = {}
    for number, name in enumerate(model.feature_names):
        levels = model.schema.levels.get(number, ())
        texts = levels and isinstance(levels[0], str)
        values = FEATURES[:, number % FEATURES.shape[1]]
        columns[name] = pd.Categorical(["drama", "?"] * (len(FEATURES) // 2)) if texts else values
    return pd.DataFrame(columns)


@pytest.mark.parametrize("mutate", [mutate_bytes, mutate_content])
def test_damaged_files_with_levels_are_refused_or_score_safely(mutate, tmp_path):
    rng = random.Random(7)
    files = []
    models = [make_words(number, 3, levels=("a\0b", "drama", "tv", "Ä")) for number in range(2)]
    for model in models:
        model.save(tmp_path / "m.safetensors")
        files.append((tmp_path / "m.safetensors").read_bytes())
    whole = [model.predict(frame_for(model)) for model in models]
    path, n_refused = tmp_path / "mutant.safetensors", 0
    for number in range(1500):
        path.write_bytes(mutate(rng, files[number % 2], files[1 - number % 2]))
        try:
            model = load(path)
        except ModelFileError:
            n_refused += 1
            continue
        scores = model.predict(frame_for(model), base_scores=0.0, n_jobs=1)
        assert not np.isnan(scores).any(), number
        if mutate is mutate_bytes:
            assert any(np.array_equal(scores, known) for known in whole), number
    assert n_refused > 300

"""Explanations: contributions, comparisons and trees as text."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from model.golden import golden_model
from model.samples import CATEGORIES, NAMES, make_dataset, make_features, make_model
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.explain import BASE_SCORE
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.pictures.chart import Bars
from rankgrove.trees.ensemble import Ensemble
from trees.naive_trees import random_tree


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("base", [None, 2.5])
def test_contributions_sum_to_the_score(seed, base):
    model, features = make_model(seed), make_features(seed)
    parts = model.contributions(features, base_scores=base)
    assert parts.shape == (60, 6)
    assert np.allclose(parts.sum(axis=1), model.predict(features, base_scores=base), atol=1e-12)


def test_contributions_of_frames_and_datasets_equal_those_of_arrays():
    model, data = make_model(), make_dataset()
    parts = model.contributions(data.features)
    frame = pd.DataFrame(data.features, columns=NAMES)[list(reversed(NAMES))]
    assert np.array_equal(model.contributions(data), parts)
    assert np.array_equal(model.contributions(frame, n_jobs=2), parts)


def test_a_feature_that_no_tree_uses_contributes_nothing():
    parts = make_model(used=3).contributions(make_features())
    assert not parts[:, 3:5].any()


def test_base_scores_are_in_the_last_column():
    model = make_model(needs_base_scores=True)
    base = np.linspace(-1, 1, 120)
    data = make_dataset(base_scores=base)
    bare = model.contributions(data, base_scores=0.0)
    parts = model.contributions(data)
    assert np.array_equal(parts[:, :-1], bare[:, :-1])
    assert np.array_equal(parts[:, -1], bare[:, -1] + base)
    with pytest.raises(DataError, match="base_scores"):
        model.contributions(data.features)


@pytest.mark.parametrize("pair", [(0, 1), (5, 40), (59, 3)])
def test_why_is_antisymmetric(pair):
    model, features = make_model(), make_features()
    there, back = model.why(features, *pair), model.why(features, *pair[::-1])
    assert (there.score_a, there.score_b) == (back.score_b, back.score_a)
    assert len(there.differences) == len(back.differences)
    for one, other in zip(there.differences, back.differences, strict=True):
        assert one.feature == other.feature
        assert np.array_equal(
            [one.value_a, one.value_b, one.difference, one.total],
            [other.value_b, other.value_a, -other.difference, -other.total],
            equal_nan=True,
        )


def test_why_is_the_difference_of_contributions_strongest_first():
    model, features = make_model(), make_features()
    parts = model.contributions(features)
    scores = model.predict(features)
    found = model.why(features, np.int64(7), 31)
    assert (found.score_a, found.score_b) == (scores[7], scores[31])
    sizes = [abs(row.difference) for row in found.differences]
    assert sizes == sorted(sizes, reverse=True)
    for row in found.differences:
        number = NAMES.index(row.feature)
        assert row.difference == pytest.approx(parts[7, number] - parts[31, number], abs=1e-12)
        values = features[[7, 31], number]
        assert np.array_equal([row.value_a, row.value_b], values, equal_nan=True)
    assert found.differences[-1].total == pytest.approx(scores[7] - scores[31])


def test_why_leaves_out_features_that_tell_nothing():
    found = golden_model().why([[2.0, 33.0, -1.0], [2.0, 33.0, 0.5]], 0, 1)
    assert [(r.feature, r.value_a, r.value_b) for r in found.differences] == [("âge", -1, 0.5)]
    assert found.differences[0].difference == pytest.approx(0.75)


def test_why_counts_base_scores_as_one_more_feature():
    model = make_model(needs_base_scores=True)
    base = np.linspace(100, 200, 120)
    found = model.why(make_dataset(base_scores=base), 3, 90)
    first = found.differences[0]
    assert (first.feature, first.value_a, first.value_b) == (BASE_SCORE, base[3], base[90])
    assert first.difference == base[3] - base[90]
    assert found.differences[-1].total == pytest.approx(found.score_a - found.score_b)


def test_why_prints_the_verdict_and_a_table():
    rows = [[np.nan, 33.0, 0.5], [2.0, 7.0, 0.5]]
    assert str(golden_model().why(rows, 0, 1)) == (
        "document 0 (a) stands above document 1 (b): "
        "the score of a is 0.8125, that of b -1.6875.\n"
        "feature         in a        in b       a - b       total\n"
        "language          33           7       +1.75       +1.75\n"
        "f1           missing           2       +0.75        +2.5"
    )


def test_why_says_plainly_when_a_does_not_stand_above_b():
    rows = [[2.0, 33.0, 0.5], [2.0, 7.0, 0.5]]
    assert "document 1 (a) does not stand above document 0 (b), but below it: " in str(
        golden_model().why(rows, 1, 0)
    )
    tied = str(golden_model().why(rows, 1, 1))
    assert "does not stand above document 1 (b), they are tied" in tied
    assert tied.endswith("\nNo feature tells them apart.")


def test_a_long_comparison_prints_its_end_in_one_line():
    names = tuple(f"f{i}" for i in range(1, 41))
    model = make_model(names=names, categories={}, n_trees=40)
    found = model.why(np.random.default_rng(0).normal(size=(2, 40)), 0, 1)
    lines = str(found).splitlines()
    assert len(lines) == 2 + 12 + 1
    assert lines[-1].startswith(f"{len(found.differences) - 12} more")
    assert lines[-1].endswith(f"{found.differences[-1].total:+.4g}")


@pytest.mark.parametrize("row", [-1, 60, 1.0, True, None])
def test_a_row_that_does_not_exist_is_refused(row):
    with pytest.raises(ParameterError, match=r"row b must be a whole number, from 0 to 59\. Got"):
        make_model().why(make_features(), 0, row)


def test_a_tree_reads_as_text():
    assert golden_model().describe_tree(0) == (
        "tree 0: 3 leaves, 100 documents\n"
        "f1 <= 1.5? (missing: no, gain 8.5, 100 documents)\n"
        "  yes: leaf 0: +0.5 (60 documents)\n"
        "  no: language in {49, 7}? (missing: yes, gain 2.25, 40 documents)\n"
        "    yes: leaf 1: -1.5 (30 documents)\n"
        "    no: leaf 2: +1 (10 documents)"
    )
    assert golden_model().describe_tree(2) == (
        "tree 2: 1 leaf, 100 documents\nleaf 0: +0.0625 (100 documents)"
    )


def walk_dict(node, names, row):
    while "leaf" not in node:
        value = row[names.index(node["feature"])]
        unknown = "categories" in node and value not in CATEGORIES[2]
        if np.isnan(value) or unknown:
            side = node["missing"]
        elif "categories" in node:
            side = "left" if value in node["categories"] else "right"
        else:
            side = "left" if value <= node["threshold"] else "right"
        node = node[side]
    return node


def test_a_tree_as_a_dict_is_json_and_scores_as_the_model():
    model, features = make_model(), make_features()
    trees = [json.loads(json.dumps(model.tree_as_dict(number))) for number in range(6)]
    scores = [sum(walk_dict(tree, NAMES, row)["value"] for tree in trees) for row in features]
    assert np.allclose(scores, model.predict(features), atol=1e-12)
    for number, tree in enumerate(trees):
        assert tree["count"] == model.ensemble.tree(number).count.sum()


def test_a_tree_as_deep_as_it_has_splits_can_be_read():
    chain = random_tree(np.random.default_rng(0), 5000, 1, chain=True)
    model = Model(Ensemble.from_trees([chain]), Schema(("a",)), {}, {})
    assert model.tree_as_dict(0)["count"] == chain.count.sum()
    assert len(model.describe_tree(0).splitlines()) == 1 + 4999 + 5000


@pytest.mark.parametrize("number", [-1, 6, "0", 0.0])
def test_a_tree_that_does_not_exist_is_refused(number):
    for ask in (make_model().describe_tree, make_model().tree_as_dict):
        with pytest.raises(ParameterError, match=r"number of a tree .* from 0 to 5\. Got"):
            ask(number)


def test_a_model_without_trees_has_none_to_show():
    with pytest.raises(ParameterError, match="must be asked of a model with trees"):
        Model(Ensemble.from_trees([]), Schema(("a",)), {}, {}).describe_tree(0)


def test_the_waterfall_goes_from_nothing_to_the_difference_of_the_scores():
    model, features = make_model(3), make_features(3)
    found = model.why(features, 7, 31)
    [panel] = found.plot().chart().panels
    up, down = (mark for mark in panel.marks if isinstance(mark, Bars))
    steps = {
        place: (start, end)
        for bars in (up, down)
        for place, start, end in zip(bars.places, bars.starts, bars.ends, strict=True)
    }
    assert [steps[n][1] for n in range(len(steps))] == [row.total for row in found.differences]
    assert steps[0][0] == 0.0
    assert all(steps[n + 1][0] == steps[n][1] for n in range(len(steps) - 1))
    assert all(end > start for start, end in zip(up.starts, up.ends, strict=True))
    assert all(end < start for start, end in zip(down.starts, down.ends, strict=True))
    assert [name.split(":")[0] for name in panel.y.names] == [r.feature for r in found.differences]
    assert found._repr_svg_() == found.plot().to_svg()


def test_a_waterfall_of_equal_documents_is_empty_and_still_a_picture():
    model, features = make_model(3), make_features(3)
    assert model.why(features, 7, 7).plot().to_svg().startswith("<svg")

"""The generalisation gap: train less test, Welch's interval, learning curves tree by tree."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

from rankgrove import Ranker, evaluate, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.compare.gap import generalisation_gap, prefix_scores

METRICS = ["ndcg@10", "map"]


@pytest.fixture(scope="module")
def parts():
    return make_web_search(80, 16, mean_documents=12, seed=5).split(0.5, 0.5)


@pytest.fixture(scope="module")
def ranker(parts):
    return Ranker(n_estimators=7, max_leaves=6).fit(parts[0])


@pytest.fixture(scope="module")
def gap(parts, ranker):
    return generalisation_gap({"a<b": ranker, "f": feature}, *parts, METRICS, every=3)


def feature(features):
    return features[:, 0]


def test_train_test_and_gap_are_those_of_evaluate(parts, ranker, gap):
    train, test = parts
    for metric in METRICS:
        row = gap.row("a<b", metric)
        values = [evaluate(part, ranker.predict(part), metric) for part in (train, test)]
        assert row.train == pytest.approx(values[0][metric], rel=1e-12)
        assert row.test == pytest.approx(values[1][metric], rel=1e-12)
        assert row.gap == row.train - row.test
        kept = [own.per_query(metric) for own in values]
        a, b = (own[~np.isnan(own)] for own in kept)
        expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
        assert (row.low, row.high) == pytest.approx((expected.low, expected.high))


def test_scores_by_prefixes_have_the_bits_of_predict(parts, ranker):
    numbers = [0, 1, 4, 4, 7]
    got = list(prefix_scores(ranker.model_, parts[1], numbers))
    for number, scores in zip(numbers, got, strict=True):
        assert np.array_equal(scores, ranker.model_.predict(parts[1], n_trees=number))


def test_scores_by_prefixes_take_categories_and_base_scores(parts):
    train = parts[0]
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 6, (train.n_documents, 1))
    features = np.hstack([kinds, train.features[:, :3]])
    base = rng.normal(0, 1, train.n_documents)
    ranker = Ranker(n_estimators=5, categorical=[0], min_samples_leaf=5, grower="leafwise")
    ranker.fit(features, train.labels, group=train.group, base_scores=base)
    model = ranker.model_
    assert len(model.ensemble.category_sets) > 0
    data = type(train).from_arrays(features, train.labels, group=train.group, base_scores=base)
    for number, scores in zip([2, 5], prefix_scores(model, data, [2, 5]), strict=True):
        assert np.array_equal(scores, model.predict(data, n_trees=number))


def test_the_curve_has_a_point_every_so_many_trees_and_ends_with_the_model(parts, ranker, gap):
    curve = gap.curves["a<b"]["map"]
    assert curve.n_trees == [0, 3, 6, 7]
    for number, on_train, on_test in zip(*curve, strict=True):
        for part, mean in zip(parts, (on_train, on_test), strict=True):
            scores = ranker.model_.predict(part, n_trees=number)
            assert mean == evaluate(part, scores, "map")["map"]
    assert curve.peak == curve.n_trees[int(np.argmax(curve.test))]
    # A function has no trees.
    assert list(gap.curves) == ["a<b"]


def test_any_form_of_a_candidate_gives_the_same_gap(parts, ranker, tmp_path):
    path = tmp_path / "model.safetensors"
    ranker.save(path)
    pair = tuple(ranker.predict(part) for part in parts)
    forms = {"ranker": ranker, "model": ranker.model_, "path": path, "pair": pair}
    got = generalisation_gap(forms, *parts, "map")
    assert len({row[1:] for row in got.rows}) == 1
    assert generalisation_gap(ranker, *parts, "map").rows[0][1:] == got.rows[0][1:]


def test_outputs_bring_back_the_numbers(gap):
    rows = list(csv.DictReader(io.StringIO(gap.to_csv())))
    assert [float(row["gap"]) for row in rows] == [row.gap for row in gap.rows]
    points = list(csv.DictReader(io.StringIO(gap.curves_csv())))
    assert [int(point["n_trees"]) for point in points] == [0, 3, 6, 7] * 2
    assert json.loads(json.dumps(gap.to_dict(), allow_nan=False))["rows"][0]["name"] == "a<b"
    row = gap.row("f", "map")
    assert f"{100 * row.train:.2f} | {100 * row.gap:.2f}" in gap.to_markdown(percent=True)
    assert f"{row.gap:+.4f}" in str(gap)


def test_the_picture_has_the_curves_of_each_candidate_and_metric(gap):
    chart = gap.plot().chart()
    assert [panel.title for panel in chart.panels] == list(gap.curves["a<b"])
    for panel in chart.panels:
        peak, train, test = panel.marks
        curve = gap.curves["a<b"][panel.title]
        assert (train.x, train.y) == (curve.n_trees, curve.train)
        assert (test.x, test.y, test.name) == (curve.n_trees, curve.test, "a<b")
        assert peak.at == curve.peak
    [panel] = gap.plot("map").chart().panels
    assert panel.title == "map"
    assert "a&lt;b" in gap.to_svg()
    assert gap._repr_svg_() == gap.to_svg()
    with pytest.raises(ParameterError, match="metric must be one of"):
        gap.plot("mapp")


def test_bad_input_is_refused(parts, ranker):
    train, test = parts
    with pytest.raises(DataError, match="map on test: at least two queries"):
        generalisation_gap(ranker, train, test.take_queries([0]), "map")
    with pytest.raises(ParameterError, match="test must be a Dataset"):
        generalisation_gap(ranker, train, [1, 2])
    with pytest.raises(ParameterError, match="pair of scores"):
        generalisation_gap({"a": [1.0, 2.0]}, train, test)
    with pytest.raises(DataError, match="a: must have one score per document"):
        generalisation_gap({"a": (np.zeros(3), np.zeros(3))}, train, test)
    with pytest.raises(ParameterError, match="every must be"):
        generalisation_gap(ranker, train, test, every=0)
    with pytest.raises(ParameterError, match="at least one candidate"):
        generalisation_gap({}, train, test)
    with pytest.raises(DataError, match="with trees"):
        generalisation_gap({"f": feature}, train, test, "map").to_svg()
    assert generalisation_gap({"f": feature}, train, test, "map")._repr_svg_() is None

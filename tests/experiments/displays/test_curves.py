"""Learning curves of several runs."""

from __future__ import annotations

import pytest

from rankgrove import Ranker, evaluate, plot_learning_curves, plot_shrinkage
from rankgrove.errors import DataError, ParameterError
from rankgrove.pictures.chart import Line, Points


def test_curves_are_those_of_the_history_with_the_kept_step_marked(ranker, tmp_path):
    path = tmp_path / "model.safetensors"
    ranker.model_.save(path)
    history = ranker.model_.history
    runs = {"ranker": ranker, "model": ranker.model_, "file": path, "history": history}
    display = plot_learning_curves(runs, "ndcg@5")
    for run in runs:
        assert display.curves[run] == {name: history[name]["ndcg@5"] for name in ("a", "b")}
    kept = ranker.model_.n_kept_steps
    assert display.kept == {"ranker": kept, "model": kept, "file": kept}
    first, second = display.chart().panels
    assert (first.title, second.title) == ("a", "b")
    lines = [mark for mark in second.marks if isinstance(mark, Line)]
    assert [line.name for line in lines] == list(runs)
    assert list(lines[0].x) == list(range(1, len(lines[0].y) + 1))
    [*marks] = [mark for mark in second.marks if isinstance(mark, Points)]
    assert [(mark.x, mark.y) for mark in marks] == [([kept], [lines[0].y[kept - 1]])] * 3


def test_the_first_metric_is_the_default_and_sets_may_differ(ranker):
    display = plot_learning_curves({"r": ranker, "h": {"c": {"map": [0.5]}}})
    assert display.metric == "map"
    assert [panel.title for panel in display.chart().panels] == ["a", "b", "c"]


def test_shrinkage_trains_at_each_rate_and_measures_train_and_valid(parts):
    train, valid = parts
    display = plot_shrinkage(train, valid, (1, 0.1), n_estimators=4, eval_metric="map")
    assert list(display.curves) == ["1", "0.1"]
    alone = Ranker(objective="lambdamart", n_estimators=4, learning_rate=0.1).fit(train)
    for name, data in (("train", train), ("valid", valid)):
        scores = alone.predict(data)
        last = evaluate(data.labels, scores, "map", group=data.group)["map"]
        assert display.curves["0.1"][name][-1] == pytest.approx(last)
    assert display.kept == {}
    assert "by learning rate" in display.chart().note


def test_bad_runs_are_refused(ranker, parts):
    with pytest.raises(ParameterError, match="runs must be a mapping"):
        plot_learning_curves({})
    with pytest.raises(ParameterError, match=r"runs must be fitted models.*list for 'a'"):
        plot_learning_curves({"a": [1, 2]})
    with pytest.raises(DataError, match="Got no history"):
        plot_learning_curves({"a": Ranker(n_estimators=1).fit(parts[0])})
    with pytest.raises(DataError, match="one and the same metric"):
        plot_learning_curves({"a": ranker, "b": {"x": {"mrr": [1.0]}}})
    with pytest.raises(ParameterError, match="metric must be one of map, ndcg@5"):
        plot_learning_curves({"a": ranker}, "mrr")
    with pytest.raises(ParameterError, match="learning_rates must be numbers above 0"):
        plot_shrinkage(parts[0], learning_rates=(0.1, 0))
    with pytest.raises(ParameterError, match="data must be a Dataset"):
        plot_shrinkage([1])

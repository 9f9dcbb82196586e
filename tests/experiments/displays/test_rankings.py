"""One query side by side, and scores by label."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove import Dataset, evaluate, plot_ranking, plot_scores_by_label
from rankgrove.errors import ParameterError
from rankgrove.pictures.chart import Line, Text


def small():
    labels = [2, 0, 1, 0, 0, 1]
    ids = ["a", "b", "c", "d", "e", "f"]
    return Dataset.from_arrays(
        np.zeros((6, 1)), labels, qid=["x"] * 4 + ["y"] * 2, document_ids=ids
    )


OLD, NEW = [4, 3, 2, 1, 1, 2], [1, 4, 2, 3, 2, 1]


def test_values_are_those_of_evaluate(ranker, parts):
    data = parts[1]
    scores = {"model": ranker, "feature": np.asarray(data.features)[:, 0]}
    at = 3
    display = plot_ranking(data, scores, data.query_ids[at], metric="ndcg@5")
    for name, values in (("model", ranker.predict(data)), ("feature", scores["feature"])):
        table = evaluate(data.labels, np.nan_to_num(values), "ndcg@5", group=data.group)
        assert display.values[name] == pytest.approx(table.per_query("ndcg@5")[at])


def test_ranks_are_by_score_and_ties_go_against_the_model():
    display = plot_ranking(small(), {"old": OLD, "tied": [1] * 6}, "x")
    assert display.ranks["old"].tolist() == [1, 2, 3, 4]
    assert display.ranks["tied"].tolist() == [4, 1, 3, 2]
    assert display.ranks["ideal"].tolist() == [1, 3, 2, 4]
    assert display.document_names == ["a", "b", "c", "d"]


def test_lines_join_the_documents_of_both_lists_and_others_say_where_they_went():
    display = plot_ranking(small(), {"old": OLD, "new": NEW}, "x", top=2, ideal=False)
    marks = display.chart().panels[0].marks
    lines = {mark.name: mark.y[:4] for mark in marks if isinstance(mark, Line)}
    assert lines == {"moved up": [2.0, 2.0, 1.0, 1.0]}
    texts = [mark.text for mark in marks if isinstance(mark, Text)]
    assert "▼ 4" in texts  # a leaves
    assert "4 ▲" in texts  # d enters
    whole = plot_ranking(small(), {"old": OLD, "new": NEW}, "x", ideal=False).chart()
    lines = {m.name: len(m.y) / 5 for m in whole.panels[0].marks if isinstance(m, Line)}
    assert lines == {"same rank": 1, "moved up": 2, "moved down": 1}


def test_chips_have_the_label_and_the_colour_of_the_grade_in_all_data():
    display = plot_ranking(small(), {"old": OLD}, "y")
    assert display.grades.tolist() == [0.0, 1.0, 2.0]
    chips = [m for m in display.chart().panels[0].marks if isinstance(m, Text) and m.chip]
    assert [chip.text for chip in chips] == ["1", "0", "1", "0"]
    assert len({chip.chip for chip in chips}) == 2


def test_without_ids_documents_are_named_by_row():
    data = Dataset.from_arrays(np.zeros((3, 1)), [0, 1, 0], qid=[1, 2, 2])
    display = plot_ranking(data, {"s": [1, 2, 3]}, 2)
    assert display.document_names == ["row 1", "row 2"]


def test_scores_of_each_label_are_all_there(ranker, parts):
    data = parts[1]
    scores = ranker.predict(data)
    display = plot_scores_by_label(data, ranker, within_query=False)
    assert display.labels == np.unique(data.labels).tolist()
    for label, values in zip(display.labels, display.scores, strict=True):
        assert values.tolist() == sorted(scores[data.labels == label])
    centred = plot_scores_by_label(data, scores)
    assert sum(values.sum() for values in centred.scores) == pytest.approx(0, abs=1e-9)
    assert "less the mean of its query" in centred.to_svg()


def test_bad_calls_are_refused(parts):
    with pytest.raises(ParameterError, match=r"query must be one of x, y\. Got 'z'"):
        plot_ranking(small(), {"old": OLD}, "z")
    with pytest.raises(ParameterError, match="scores must be a mapping"):
        plot_ranking(small(), OLD, "x")
    with pytest.raises(ParameterError, match="top must be"):
        plot_ranking(small(), {"old": OLD}, "x", top=0)
    with pytest.raises(ParameterError, match="data must be a Dataset"):
        plot_scores_by_label([1], [1])

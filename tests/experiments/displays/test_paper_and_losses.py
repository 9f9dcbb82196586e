"""The paper's figures, and the loss of a pair."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rankgrove import Dataset, plot_pair_loss, plot_relative, plot_train_test
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.paper.tables import paper_figures, relative_loss
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.pictures.chart import Bars, Points


def test_the_papers_figure_is_made_of_its_tables():
    display = plot_relative()
    rows = paper_figures()["7"]["rows"]["MRR"]
    columns = paper_figures()["7"]["columns"]
    cells = display.cells[1]
    for at, column in enumerate(columns):
        expected = relative_loss(rows["3"][at], rows["1"][at])
        assert cells.numbers[f"paper: {column}", "3"] == (pytest.approx(expected),)
    bars = [mark for mark in display.chart().panels[1].marks if isinstance(mark, Bars)]
    assert [mark.name for mark in bars] == [
        "exactly 2 ranks apart",
        "exactly 3 ranks apart",
        "all pairs",
    ]
    assert bars[1].ends[0] == cells.numbers[f"paper: {columns[0]}", "3"][0]


def results(table, parts):
    entry = {"values": [52.0] * parts, "best": False}
    nothing = {"values": [], "best": False}
    rows = [{"title": title, "entries": [entry, nothing]} for title in ("1", "2")]
    columns = ["mine", "paper: Web10K"]
    return {"tables": [{"table": table, "metric": "MAP", "columns": columns, "rows": rows}]}


def test_results_of_the_command_stand_beside_the_papers(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(results("figure1", 1)))
    for given in (path, str(path), results("figure1", 1)):
        [cells] = plot_relative(given).cells
        assert cells.numbers == {("mine", "1"): (52.0,), ("mine", "2"): (52.0,)}
    assert "mine" in plot_relative(path).to_svg()


def test_train_and_test_are_train_and_train_less_the_gap():
    display = plot_train_test(results("23", 2), tables=["23"])
    [panel] = display.chart().panels
    points = {mark.name: mark.x for mark in panel.marks if isinstance(mark, Points)}
    assert points == {"test": [0.0, 0.0], "train": [52.0, 52.0]}
    assert len(plot_train_test().cells) == 4


def test_what_is_no_result_is_refused(tmp_path):
    path = tmp_path / "r.json"
    with pytest.raises(DataError, match="cannot be read"):
        plot_relative(path)
    path.write_text("x")
    with pytest.raises(DataError, match="Got no JSON"):
        plot_relative(path)
    with pytest.raises(DataError, match="must have the table figure1"):
        plot_relative(results("2", 1))
    with pytest.raises(DataError, match="Got something else"):
        plot_relative({"tables": [{"table": "figure1", "metric": "MAP"}]})
    with pytest.raises(ParameterError, match="results must be a dict or the path"):
        plot_relative(3)
    with pytest.raises(ParameterError, match="tables must be one of 22, 23, 24, 25"):
        plot_train_test(tables=["2"])


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_the_derivative_is_minus_the_force_of_a_pair_and_the_slope_of_the_loss(sigma):
    display = plot_pair_loss([sigma])
    x, loss, slope = display.margins, display.losses[sigma], display.derivatives[sigma]
    assert np.gradient(loss, x)[1:-1] == pytest.approx(slope[1:-1], abs=2e-3)
    objective = OBJECTIVES["rankmart"](sigma=sigma)
    data = Dataset.from_arrays(np.zeros((2, 1)), [1, 0], qid=[1, 1])
    prepared = objective.prepare(data)
    for margin, derivative in zip(x[::20], slope[::20], strict=True):
        forces, curvatures = np.empty(2), np.empty(2)
        prepared.compute(np.array([margin, 0.0]), 0, forces, curvatures)
        assert forces[0] == pytest.approx(-derivative, rel=1e-5)


def test_bad_sigmas_are_refused():
    with pytest.raises(ParameterError, match="sigmas must be numbers above 0"):
        plot_pair_loss([1, 0])
    with pytest.raises(ParameterError, match="sigmas must be numbers above 0"):
        plot_pair_loss([])

"""Comparisons as pictures: the numbers are those of the comparison."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from rankgrove import Comparison, compare, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.compare.displays import cumulative, signed
from rankgrove.pictures.chart import Points, Segments


@pytest.fixture(scope="module")
def compared():
    data = make_web_search(80, 16, mean_documents=8, seed=2)
    candidates = {
        name: np.asarray(data.features)[:, at] for name, at in (("old", 0), ("new", 1), ("x<y", 2))
    }
    candidates = {name: np.nan_to_num(values) for name, values in candidates.items()}
    weights = np.random.default_rng(0).integers(1, 4, data.n_queries).astype(float)
    return compare(
        data, candidates, ["ndcg@10", "map"], baseline="old", slices=["length", "labels"],
        weights=weights,
    )  # fmt: skip


def test_a_scatter_has_each_counted_query_once_for_each_other_candidate(compared):
    display = compared.plot("map")
    values = compared.per_query("map")
    there = ~np.isnan(values["old"])
    assert display.reference == "old"
    assert display.reference_values.tolist() == values["old"][there].tolist()
    assert display.query_ids.tolist() == compared.measured["map"].query_ids[there].tolist()
    assert [change.name for change in display.changes] == ["new", "x<y"]
    for change, panel in zip(display.changes, display.chart().panels, strict=True):
        assert change.values.tolist() == values[change.name][there].tolist()
        points = {m.name: len(m.x) for m in panel.marks if isinstance(m, Points)}
        row = next(r for r in compared.summary("map") if r.name == change.name)
        assert points == {"equal": row.ties, "better": row.wins, "worse": row.losses}
        assert f"better {row.wins:,}, equal {row.ties:,}, worse {row.losses:,}" in panel.title
        assert signed(row.difference) in display.chart().note


def test_many_queries_are_counted_in_cells_and_none_is_lost():
    rng = np.random.default_rng(0)
    values = {"map": {"a": rng.random(5000), "b": rng.random(5000), "c": rng.random(5000) ** 3}}
    chart = Comparison.from_values(values, baseline="a").plot().chart()
    panel, other = chart.panels
    steps = [[m.name for m in p.marks if isinstance(m, Points)] for p in (panel, other)]
    assert steps[0] == steps[1] == list(chart.entries())
    cells = [mark for mark in panel.marks if isinstance(mark, Points)]
    assert 1 < len(cells) <= 5
    counts = np.histogram2d(values["map"]["a"], values["map"]["b"], 40, [[0, 1], [0, 1]])[0]
    assert sum(len(mark.x) for mark in cells) == np.count_nonzero(counts)
    # The name of each step says how many queries its cells have.
    for mark in cells:
        bounds = [int(n) for n in mark.name.rsplit(" ", 1)[0].split(" to ")]
        low, high = bounds[0], bounds[-1]
        assert len(mark.x) == np.count_nonzero((counts >= low) & (counts <= high))


def test_the_change_is_sorted_and_counts_large_losses(compared):
    display = compared.plot(kind="change")
    values = compared.per_query("ndcg@10")
    for change, panel in zip(display.changes, display.chart().panels, strict=True):
        gaps = values[change.name] - values["old"]
        gaps = gaps[~np.isnan(gaps)]
        assert change.differences == pytest.approx(gaps, abs=1e-12)
        up, down, _ = panel.marks
        heights = np.array(up.high) + np.array(down.low)
        assert heights[::2] == pytest.approx(np.sort(gaps)[::-1], abs=1e-12)
        lost = int((gaps < -0.1).sum())
        assert panel.title == f"{lost} of {len(gaps)} queries lose more than 0.1"


def test_a_distribution_is_the_weighted_share_of_queries_up_to_each_value(compared):
    display = compared.plot("map", kind="distribution")
    [panel] = display.chart().panels
    measured = compared.measured["map"]
    for line in panel.marks:
        values = measured.values[line.name]
        there = ~np.isnan(values)
        for x, y in list(zip(line.x, line.y, strict=True))[1::2]:
            share = measured.weights[there & (values <= x)].sum() / measured.weights[there].sum()
            assert y == pytest.approx(share)


def test_long_distributions_are_drawn_through_a_part_of_their_steps():
    x, y = cumulative(np.random.default_rng(0).random(5000))
    assert len(x) <= 800
    assert np.all(np.diff(x) >= 0)
    assert np.all(np.diff(y) >= 0)
    assert y[-1] == 1.0


def test_slices_have_the_numbers_of_by_slice_and_intervals_of_the_change(compared):
    display = compared.plot_slices(metric="map")
    rows = {(row.slicing, row.group, row.name): row for row in display.rows}
    for slicing in ("length", "labels"):
        group_of = compared.slicings[slicing].group_of
        for number, group in enumerate(compared.by_slice(slicing, "map")):
            part = compared.measured["map"].take(group_of == number)
            for row in group.rows[1:]:
                shown = rows[slicing, group.name, row.name]
                assert shown.queries == row.counted
                assert shown.difference == pytest.approx(row.difference, nan_ok=True)
                assert shown.adjusted == pytest.approx(row.adjusted, nan_ok=True)
                if not np.isnan(row.difference):
                    gaps = part.values[row.name] - part.values["old"]
                    interval = compared.method.interval(gaps, part.weights)
                    assert (shown.low, shown.high) == interval
                    assert shown.low < shown.difference < shown.high
    assert rows["", "all queries", "new"].difference == compared.summary("map")[1].difference
    panel = display.chart().panels[0]
    lines = [mark for mark in panel.marks if isinstance(mark, Segments)]
    assert len(lines) == 2
    assert len(lines[0].x0) == len(display.rows) // 2


def test_one_slicing_alone_can_be_shown(compared):
    assert {row.slicing for row in compared.plot_slices("length").rows} == {"", "length"}


def test_a_notebook_shows_the_table_and_the_picture(compared):
    shown = compared._repr_html_()
    assert "x&lt;y" in shown
    assert "x<y" not in shown
    assert compared._repr_svg_() in shown
    ElementTree.fromstring(compared._repr_svg_())


def test_one_candidate_alone_has_a_distribution():
    alone = Comparison.from_values({"map": {"a": [0.1, 0.2, 0.3]}})
    [panel] = alone.plot().chart().panels
    assert [mark.name for mark in panel.marks] == ["a"]
    with pytest.raises(DataError, match="groups of queries"):
        alone.plot_slices()


def test_bad_calls_are_refused(compared):
    with pytest.raises(ParameterError, match="kind must be one of scatter, change, distribution"):
        compared.plot(kind="scater")
    with pytest.raises(ParameterError, match="metric must be one of"):
        compared.plot("mrr")
    with pytest.raises(ParameterError, match="slicing must be one of length, labels"):
        compared.plot_slices("lenght")


def test_matplotlib_draws_every_kind(compared):
    Figure = pytest.importorskip("matplotlib.figure").Figure
    for kind in ("scatter", "change"):
        compared.plot(kind=kind, ax=Figure().subplots(1, 2))
    compared.plot(kind="distribution", ax=Figure().subplots())
    display = compared.plot_slices(ax=Figure().subplots(1, 2))
    assert len(display.ax_) == 2

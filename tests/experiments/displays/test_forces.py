"""Pictures of forces have the numbers of what they are made from."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankgrove import (
    Ranker,
    force_totals,
    forces_at,
    labels_by_rank,
    make_web_search,
    plot_burges,
    plot_force_totals,
    plot_forces,
    plot_labels_by_rank,
)
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.burges import burges_example
from rankgrove.pictures.chart import Arrows, Band, Bars, Text
from rankgrove.pictures.forces import LONGEST


@pytest.fixture(scope="module")
def data():
    return make_web_search(20, 16, mean_documents=12)


@pytest.fixture(scope="module")
def ranker(data):
    return Ranker(objective="lambdamart", n_estimators=6).fit(data)


def arrow_lengths(panel):
    """By lane and row, how far each arrow goes up."""
    return {
        (x, start): start - end
        for mark in panel.marks
        if isinstance(mark, Arrows)
        for x, start, end in zip(mark.x0, mark.y0, mark.y1, strict=True)
    }


def test_arrows_are_the_forces_of_the_query_by_rank(data, ranker):
    scores = ranker.predict(data, n_trees=3)
    display = plot_forces(data, scores, "lambdamart", query=data.query_ids[2], top=6)
    expected = forces_at(data, scores, "lambdamart").of_query(data.query_ids[2])
    forces = expected.forces[expected.rows_by_rank()][:6]
    (panel,) = display.chart().panels
    got = arrow_lengths(panel)
    by_row = {row: length for (_, row), length in got.items()}
    longest = np.abs(forces).max()
    assert display.longest() == [longest]
    pushed = {rank: LONGEST * f / longest for rank, f in enumerate(forces, 1) if f}
    assert by_row == pytest.approx(pushed)
    chips = [mark.text for mark in panel.marks if isinstance(mark, Text) and mark.chip]
    labels = expected.labels[expected.rows_by_rank()][:6]
    assert chips == [f"{label:g}" for label in labels]


def test_a_common_scale_is_that_of_the_largest_force(data, ranker):
    scores, query = ranker.predict(data), data.query_ids[2]
    names = ["rankmart", "lambdamart"]
    own = plot_forces(data, scores, names, query=query).longest()
    common = plot_forces(data, scores, names, query=query, scale="common").longest()
    assert own[0] != own[1]
    assert common == [max(own)] * 2


def test_a_draw_of_noise_is_called_so(data, ranker):
    picture = plot_forces(data, ranker.predict(data), "yetirank", query=data.query_ids[0])
    assert "one draw of its noise" in picture.to_svg()


def test_one_query_needs_no_name_and_several_do(data):
    alone = data.take_queries([3])
    display = plot_forces(alone, np.zeros(alone.n_documents), "rankmart")
    assert display.lists[0][0].query_ids.tolist() == alone.query_ids.tolist()
    with pytest.raises(ParameterError, match="query must be given for data of several queries"):
        plot_forces(data, np.zeros(data.n_documents))
    with pytest.raises(DataError, match="must be one of its 20 queries"):
        plot_forces(data, np.zeros(data.n_documents), query="none of them")
    with pytest.raises(ParameterError, match=r"scale must be one of own, common\."):
        plot_forces(alone, np.zeros(alone.n_documents), scale="wide")
    with pytest.raises(ParameterError, match="objectives must be at least one"):
        plot_forces(alone, np.zeros(alone.n_documents), [])


def test_burges_figure_has_the_numbers_of_its_caption_and_the_arrows_of_its_text():
    before, after = burges_example()
    assert (before.wrong_pairs, after.wrong_pairs) == (13, 11)
    assert (round(before.ndcg, 3), round(after.ndcg, 3)) == (0.766, 0.441)
    ranknet, lambdarank = plot_burges().lists[1]
    assert ranknet.forces[[3, 9]].round(2).tolist() == [5.46, 7.42]
    assert lambdarank.forces[[3, 9]].round(2).tolist() == [0.87, 0.50]
    for forces in (ranknet.forces, lambdarank.forces):
        assert forces.sum() == pytest.approx(0.0, abs=1e-12)


def test_the_figure_in_the_documents_is_that_of_today():
    page = Path(__file__).parents[3] / "docs" / "images" / "burges.svg"
    assert page.read_text(encoding="utf-8") == plot_burges().to_svg()


def test_a_label_has_one_colour_in_every_query(data):
    queries = [data.take_queries([q]) for q in range(data.n_queries)]
    colours = {}
    for part in queries:
        display = plot_forces(data, np.zeros(data.n_documents), query=part.query_ids[0])
        for mark in display.chart().panels[0].marks:
            if isinstance(mark, Text) and mark.chip:
                colours.setdefault(mark.text, set()).add(mark.chip)
    assert len(colours) > 2
    assert all(len(found) == 1 for found in colours.values())


def test_areas_are_the_sums_of_forces_on_each_other(data, ranker):
    trees = [0, 3, 6]
    display = plot_force_totals(ranker, data, trees=trees)
    totals = force_totals(ranker, data, trees)
    (panel,) = display.chart().panels
    bands = [mark for mark in panel.marks if isinstance(mark, Band)]
    n_labels = len(totals.labels)
    assert bands[0].name == f"label {totals.labels[-1]:g}"
    np.testing.assert_allclose(bands[n_labels - 1].high, totals.up.sum(axis=1))
    np.testing.assert_allclose(bands[-1].low, totals.down.sum(axis=1))
    for band, sums in zip(bands, totals.up.T[::-1], strict=False):
        np.testing.assert_allclose(np.subtract(band.high, band.low), sums)


def test_several_models_share_one_scale(data, ranker):
    other = Ranker(objective="lambdamart", n_estimators=2, learning_rate=0.01).fit(data)
    panels = plot_force_totals({"a": ranker, "b": other}, data).chart().panels
    assert [panel.title for panel in panels] == ["a", "b"]
    assert panels[0].limits()[1] == panels[1].limits()[1]
    with pytest.raises(ParameterError, match="at least one model"):
        plot_force_totals({}, data)


def test_bars_are_the_shares_of_labels_by_rank(data, ranker):
    display = plot_labels_by_rank(ranker, data, [0, 6], top=5)
    shares = labels_by_rank(ranker, data, [0, 6], top=5).shares
    panels = display.chart().panels
    assert [panel.title for panel in panels] == ["0 trees", "6 trees"]
    for panel, expected in zip(panels, shares, strict=True):
        bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
        lengths = np.array([np.subtract(bar.ends, bar.begins()) for bar in bars])
        np.testing.assert_allclose(lengths[::-1].T, expected, atol=1e-12)
        assert bars[-1].ends == pytest.approx([1.0] * 5)


def test_defaults_show_the_start_and_the_end_of_training(data, ranker):
    assert plot_labels_by_rank(ranker, data).labels[""].trees == [0, 1, 6]
    assert plot_force_totals(ranker, data).totals[""].trees == list(range(7))


def test_every_picture_is_sound_and_the_same_each_time(data, ranker):
    named = replace(data, document_ids=np.arange(data.n_documents))
    made = [
        plot_burges,
        lambda: plot_force_totals(ranker, data),
        lambda: plot_labels_by_rank({"a": ranker}, data),
        lambda: plot_forces(named, ranker.predict(data), query=data.query_ids[1]),
    ]
    for make in made:
        text = make().to_svg()
        assert text == make().to_svg()
        assert ET.fromstring(text).get("aria-label")


def test_matplotlib_draws_every_picture(data, ranker, tmp_path):
    pytest.importorskip("matplotlib")
    for number, picture in enumerate(
        (plot_burges(), plot_force_totals(ranker, data), plot_labels_by_rank(ranker, data))
    ):
        picture.save(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")

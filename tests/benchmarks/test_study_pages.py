"""The pictures that study pages open with have the numbers of the pages."""

import sys
from pathlib import Path

import pytest
from benchmarks.common import write_page

ROOT = Path(__file__).parents[2]


@pytest.fixture
def studies(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    import draw_studies

    return draw_studies


def test_each_picture_is_that_of_the_figures_on_its_page(studies):
    for name in studies.PICTURES:
        drawn = studies.draw(name).to_svg()
        assert (studies.IMAGES / f"{name}.svg").read_text(encoding="utf-8") == drawn, name


def test_a_point_is_the_difference_and_its_line_two_standard_errors(studies):
    header, *rows = studies.table_of("networks", "The figures", 1)
    assert header[-1] == "mean of the sets"
    assert rows[0][-1].startswith("+0.0104 ± 0.0029")
    _, lines, points = studies.networks().panels[0].marks
    assert points.x[0] == 0.0104
    assert (lines.x0[0], lines.x1[0]) == pytest.approx((0.0046, 0.0162))


def test_a_table_ends_where_the_next_heading_begins(studies):
    tables = [studies.table_of("defaults", name) for name in ("sigma", "max_leaves")]
    assert [row[0] for row in tables[0][1:]] == ["`0.5`", "`1.0` (default)", "`2.0`"]
    assert [row[0] for row in tables[1][1:]] == ["`15`", "`31` (default)", "`63`"]


def test_a_page_that_is_measured_again_keeps_its_answer(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# T\n\n<!-- answer -->\n\n**Yes.**\n\n<!-- /answer -->\n\nold\n")
    write_page(page, "# T\n\nnew\n")
    assert page.read_text() == "# T\n\n<!-- answer -->\n\n**Yes.**\n\n<!-- /answer -->\n\nnew\n"
    write_page(tmp_path / "other.md", "# T\n\nnew\n")
    assert (tmp_path / "other.md").read_text() == "# T\n\nnew\n"

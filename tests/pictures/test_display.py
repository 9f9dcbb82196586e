"""Displays: numbers that are kept, and drawn as SVG or by matplotlib."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pictures.samples import every_mark
from rankgrove.errors import DataError, MissingExtraError, ParameterError
from rankgrove.pictures.chart import Bars, Chart, Line, Panel
from rankgrove.pictures.display import Picture

pytest.importorskip("matplotlib")


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots(2, 2)


def test_a_display_shows_itself_as_svg():
    display = Picture(every_mark())
    assert display._repr_svg_() == display.to_svg()
    assert display.to_svg().startswith("<svg")


def test_plot_draws_every_mark_into_the_axes_of_each_panel(axes):
    display = Picture(every_mark())
    assert display.plot(axes.ravel()) is display
    curves, bars, stacks, marks = display.ax_
    assert display.figure_ is axes[0, 0].figure
    assert len(curves.lines) == 6 + 2
    assert curves.lines[-1].get_ydata().tolist() == [0.5, 5 / 9, 5 / 8]
    assert [bar.get_width() for bar in bars.patches] == [3.0, 2.0, -1.0]
    assert [text.get_text() for text in bars.get_yticklabels()][2] == r"a \$ long_name\$"
    assert bars.yaxis_inverted()
    heights = [bar.get_y() + bar.get_height() for bar in stacks.patches]
    assert heights[-2:] == [15.0, 10.0]
    assert len(marks.collections) == 6 + 2
    assert {text.get_text() for text in curves.get_legend().get_texts()} == set(
        every_mark().entries()
    ) - {""}
    display.figure_.canvas.draw()


def test_one_panel_takes_one_axes_and_limits_are_those_of_the_svg(axes):
    panel = Panel("t", marks=[Line([0, 4], [1, 3])])
    display = Picture(Chart([panel], "l")).plot(axes[0, 0])
    assert display.ax_ is axes[0, 0]
    assert (display.ax_.get_xlim(), display.ax_.get_ylim()) == panel.limits()


def test_axes_in_a_part_of_a_figure_tell_the_whole_figure():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subfigures(1, 2)[1].subplots()
    panel = Panel("t", marks=[Line([0, 4], [1, 3], "a")])
    assert Picture(Chart([panel], "l")).plot(axes).figure_ is figure


def test_the_wrong_number_of_axes_is_refused(axes):
    with pytest.raises(ParameterError, match="ax must be one for each panel, 4"):
        Picture(every_mark()).plot(axes[0, 0])


def test_plot_makes_a_figure_where_none_is_given():
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    display = Picture(every_mark()).plot()
    assert len(display.ax_) == 4
    assert plt.fignum_exists(display.figure_.number)
    plt.close(display.figure_)


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")],
)
def test_save_writes_what_the_name_says_and_the_same_bytes_again(tmp_path, name, start):
    display = Picture(every_mark())
    display.save(tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert first.startswith(start)
    display.save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_picture_of_no_known_kind_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"path must end in .svg, .png or .pdf. Got 'x.gif'"):
        Picture(every_mark()).save("x.gif")
    with pytest.raises(DataError, match="cannot be written"):
        Picture(every_mark()).save(tmp_path / "nowhere" / "x.svg")


def test_without_matplotlib_svg_works_and_the_error_names_the_extra(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    display = Picture(Chart([Panel(marks=[Bars([0], [1])])], "l"))
    display.save(tmp_path / "a.svg")
    for call in (display.plot, lambda: display.save(tmp_path / "a.png")):
        with pytest.raises(MissingExtraError, match=r"pip install 'rankgrove\[plot\]'"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


def test_displays_import_matplotlib_only_when_they_draw():
    code = (
        "import sys; from rankgrove.pictures.display import Picture; "
        "from rankgrove.pictures.chart import *; "
        "Picture(Chart([Panel(marks=[Bars([0], [1])])], 'l')).to_svg(); "
        "print({'matplotlib', 'numpy'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"

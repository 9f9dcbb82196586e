"""The Python in README and docs runs, in the order in which it stands on the page."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from rankgrove import make_web_search, write_letor
from rankgrove.cli.plot import KINDS
from rankgrove.data.frames import write_table

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def test_there_are_pages_with_python():
    assert sum(bool(python_blocks(page)) for page in PAGES) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = make_web_search(12, 20, mean_documents=10, seed=3)
    for part in ("train", "vali", "test"):
        write_letor(data, f"{part}.txt")
        write_table(data, f"{part}.csv")
    names = {"data": data, "scores": np.linspace(1, 0, data.n_documents)}
    for block in python_blocks(page):
        exec(compile(block, page.name, "exec"), names)


DRAWN = runpy.run_path(str(ROOT / "tools" / "draw_pictures.py"))


def test_the_page_of_pictures_has_each_that_the_script_draws():
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(images/pictures/([\w-]+)\.svg\)", page)
    assert sorted(shown) == sorted(DRAWN["PICTURES"])
    assert sorted(path.stem for path in DRAWN["IMAGES"].glob("*.svg")) == sorted(shown)
    assert all(f"\nrankgrove plot {kind} " in page for kind in KINDS)


@pytest.mark.parametrize("name", ["pair-loss", "paper-relative", "train-test"])
def test_a_picture_that_needs_no_training_is_as_it_would_be_drawn_now(name):
    kept = (DRAWN["IMAGES"] / f"{name}.svg").read_text(encoding="utf-8")
    assert kept == DRAWN["PICTURES"][name]().to_svg(), "run: python tools/draw_pictures.py"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name in navigation

"""The Python in README and docs runs, in the order in which it stands on the page."""

import re
from pathlib import Path

import numpy as np
import pytest

from rankgrove import make_web_search, write_letor
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


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name in navigation

"""The Python in README and docs runs, in the order in which it stands on the page."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import rankgrove
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


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: rankgrove\.(\w+)$", reference, re.M)
    assert sorted(set(rankgrove.__all__) - set(listed)) == []
    assert len(listed) == len(set(listed))


def pictures_on(page):
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_every_picture_of_the_page_is_there(page):
    assert [name for name in pictures_on(page) if not (page.parent / name).exists()] == []


def test_the_gallery_has_every_picture():
    images = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs" / "images").rglob("*.svg")
    }
    assert images - set(pictures_on(ROOT / "docs" / "gallery.md")) == set()


STUDIES = ["defaults", "options", "leaves", "neighbours", "number-of-trees", "truncation",
           "networks"]  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_opens_with_its_answer_and_a_picture(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    title, answer, rest = re.split(r"<!-- /?answer -->", text)
    assert title.count("\n") == 2
    assert answer.count("](images/") == 1
    # The answer says what the figures say.
    numbers = re.findall(r"\d\.\d{4}", answer)
    assert numbers
    assert [number for number in numbers if number not in rest] == []


def test_what_the_tutorial_says_is_what_its_commands_print():
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    printed = "\n".join(re.findall(r"^```console\n(.*?)^```", text, re.M | re.S))
    said = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    numbers = re.findall(r"(?<![\w.])[+-]?\d\.\d{4}", said)
    assert len(numbers) >= 3
    assert [number for number in numbers if number not in printed] == []
    assert "144/2/48" in printed
    assert "144 are better, 2 equal and 48 worse" in said


def test_the_report_in_the_documents_is_small_whole_and_that_of_the_tutorial():
    page = (ROOT / "docs" / "example-report.html").read_text(encoding="utf-8")
    assert len(page) < 400_000
    assert not re.search(r"(?:src|href)=[\"']?https?:", page)
    assert "ndcg@10 0.6388 to 0.7264, +0.0876" in page
    assert "144 queries better, 2 equal, 48 worse" in page

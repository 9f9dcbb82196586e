"""What a release states in several places is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from rankgrove import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_changelog_and_citation_have_the_version_of_the_package():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = re.search(r"^## (.*)$", changelog, re.MULTILINE)[1]
    number = __version__.removesuffix(".dev0")
    assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", heading)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {number}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation


def test_installation_names_the_pythons_that_are_tested():
    pattern = r"Programming Language :: Python :: 3\.(\d+)"
    tested = [
        int(found[1]) for each in PROJECT["classifiers"] if (found := re.match(pattern, each))
    ]
    assert tested == list(range(min(tested), max(tested) + 1))
    assert PROJECT["requires-python"] == f">=3.{min(tested)}"
    page = (ROOT / "docs" / "installation.md").read_text("utf-8")
    assert f"Python 3.{min(tested)} to 3.{max(tested)}" in page


def test_every_dependency_has_a_lowest_version_that_can_be_tested():
    assert all(re.match(r"[\w.-]+>=\d", each) for each in PROJECT["dependencies"])


def test_every_extra_is_on_the_page_of_installation():
    page = (ROOT / "docs" / "installation.md").read_text("utf-8")
    for extra in set(PROJECT["optional-dependencies"]) - {"test", "bench", "dev"}:
        assert f"`rankgrove[{extra}]`" in page

"""Formulas of the documents become MathML when these are built."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

markdown = pytest.importorskip("markdown", reason="documents are built with the extra dev")
pytest.importorskip("latex2mathml", reason="documents are built with the extra dev")


@pytest.fixture
def html(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    from formulas import Formulas

    names = ["tables", "pymdownx.superfences"]
    return lambda text: markdown.markdown(text, extensions=[*names, Formulas()])


def test_a_formula_in_a_line_is_mathml_in_the_line(html):
    found = html(r"The force $\lambda_i$ pushes.")
    assert "<math" in found
    assert 'display="inline"' in found
    assert "<msub><mi>&#x003BB;</mi><mi>i</mi></msub>" in found
    assert found.startswith("<p>The force ")


def test_a_block_named_math_is_a_formula_of_its_own(html):
    found = html("Before\n\n```math\nx^2\n```\n\nafter")
    assert '<div class="formula"><math' in found
    assert 'display="block"' in found
    assert "```" not in found


@pytest.mark.parametrize(
    "text", ["`$x$`", "costs $5 or $6", "a $ sign", "```\n$x$\n```", "~~~~\n```math\nx\n```\n~~~~"]
)
def test_code_and_money_stay_as_they_are(html, text):
    assert "<math" not in html(text)


@pytest.mark.parametrize("text", [r"$\frac{1$", r"$\lamda_i$"])
def test_what_cannot_be_typeset_is_an_error(html, text):
    with pytest.raises(ValueError, match="must be LaTeX that can be typeset"):
        html(text)


def test_formulas_stand_in_tables(html):
    assert "<td><math" in html("| a |\n|---|\n| $x$ |")


@pytest.mark.parametrize("page", ["objectives", "metrics", "forces"])
def test_pages_with_mathematics_have_formulas_that_can_be_typeset(html, page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = html(text)
    assert found.count("<math") >= 5
    assert "merror" not in found

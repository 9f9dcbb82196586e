r"""Formulas of the documents, typeset when they are built: MathML, which browsers draw.

A page has them as GitHub reads them: `$\lambda_i$` in a line, or a block of code named `math`. This
is an extension of Python-Markdown; mkdocs.yml names it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

if TYPE_CHECKING:
    from re import Match

# No digit or letter touches the signs from outside: an amount of money is no formula.
INLINE = r"(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<![\s\\])\$(?![\w$])"
_FENCE = re.compile(r"^(`{3,}|~{3,})\s*(\w*)")


def to_mathml(formula: str, *, block: bool = False) -> str:
    r"""A formula of LaTeX as MathML.

    >>> to_mathml("x^2").endswith("</math>")
    True
    """
    content = str(convert(formula, display="block" if block else "inline"))
    # What the converter does not know it passes on as it is.
    if formula.count("{") != formula.count("}") or "\\" in content:
        raise ValueError(f"a formula must be LaTeX that can be typeset. Got {formula!r}.")
    return content


class _Blocks(Preprocessor):  # type: ignore[misc]
    """Turns blocks of code named `math` into formulas; those inside other blocks stay."""

    def run(self, lines: list[str]) -> list[str]:
        found: list[str] = []
        fence = ""
        formula: list[str] | None = None
        for line in lines:
            match = _FENCE.match(line)
            if not fence and match:
                fence = match[1]
                formula = [] if match[2] == "math" else None
                if formula is None:
                    found.append(line)
            elif fence and line.strip() == fence:
                if formula is None:
                    found.append(line)
                else:
                    content = to_mathml("\n".join(formula), block=True)
                    stored = self.md.htmlStash.store(f'<div class="formula">{content}</div>')
                    found += ["", stored, ""]
                fence = ""
            elif fence and formula is not None:
                formula.append(line)
            else:
                found.append(line)
        return found


class _Inline(InlineProcessor):  # type: ignore[misc]
    def handleMatch(  # noqa: N802 (Python-Markdown calls it so)
        self, m: Match[str], data: str
    ) -> tuple[str, int, int]:
        return self.md.htmlStash.store(to_mathml(m[1])), m.start(0), m.end(0)


class Formulas(Extension):  # type: ignore[misc]
    """The extension itself."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Python-Markdown calls it so)
        # Before fences are read (25), and before backslashes are (180) but after code is (190).
        md.preprocessors.register(_Blocks(md), "formula_blocks", 27)
        md.inlinePatterns.register(_Inline(INLINE, md), "formulas", 185)


def makeExtension(**options: Any) -> Formulas:  # noqa: N802 (Python-Markdown calls it so)
    return Formulas(**options)

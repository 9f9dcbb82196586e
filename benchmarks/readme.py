"""Fills README with the figures of RESULTS.md, of speed and quality: the two cannot differ.

    python -m benchmarks.readme

A figure that cannot be found, or is there twice, is an error that names it, and nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, table

README = Path(__file__).parents[1] / "README.md"
INDENT = "    "
# What README tells of the comparison with other libraries: rows of RESULTS.md, and words for them.
OTHERS = {
    "catboost YetiRank, common": "one CatBoost YetiRank",
    "catboost YetiRank, 9 averaged": "nine of them averaged",
    "lightgbm lambdarank, common": "one LightGBM",
    "xgboost topk, common": "one XGBoost",
}
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Table:
    """A table of a section, and the heading that it stands under."""

    heading: str
    header: list[str]
    rows: list[list[str]]


class Results:
    """The sections of RESULTS.md, whose cells are looked up by the names of row and column."""

    def __init__(self, text: str) -> None:
        found = re.findall(r"<!-- (\S+) -->\n(.*?)<!-- /\1 -->", text, re.DOTALL)
        self._texts = dict(found)
        self._tables = {name: _tables_of(body) for name, body in found}

    def has(self, section: str) -> bool:
        return section in self._texts

    def cell(self, section: str, row: str, column: str, *, under: str = "") -> str:
        """The cell of the row whose first cells are `row`, with bars between them, and of a column.

        A name of a column that ends in … is the start of one; `under` is that of a heading.
        """
        first = [part.strip() for part in row.split("|")]
        cells = [
            cells[place]
            for each in self._tables.get(section, [])
            if each.heading.startswith(under)
            for place, name in enumerate(each.header)
            if name == column or (column[-1] == "…" and name.startswith(column[:-1]))
            for cells in each.rows
            if cells[: len(first)] == first
        ]
        if len(cells) != 1 or not all(cells):
            raise SystemExit(
                f"RESULTS.md must have one cell of section {section!r}, heading {under!r}, row "
                f"{row!r}, column {column!r}. Got {len(cells)}: {cells}."
            )
        return cells.pop()

    def number(self, section: str, row: str, column: str, *, under: str = "") -> float:
        return float(self.cell(section, row, column, under=under))

    def text(self, section: str, pattern: str) -> str:
        """What the group of a pattern matches in a section; the first time that it is there."""
        match = re.search(pattern, self._texts.get(section, ""))
        if match is None:
            raise SystemExit(f"RESULTS.md must have {pattern!r} in section {section!r}. Got none.")
        return match[1]


def _tables_of(text: str) -> list[Table]:
    found: list[Table] = []
    heading, inside = "", False
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if not inside:
                found.append(Table(heading, cells, []))
            elif set(line) - set("|-"):
                found[-1].rows.append(cells)
        elif line.startswith("#"):
            heading = line.lstrip("# ")
        inside = line.startswith("|")
    return found


def short(value: float) -> str:
    """Two significant digits, or all digits before the point.

    >>> short(0.1712), short(1.02), short(23.36), short(215.44)
    ('0.17', '1.0', '23', '215')
    """
    if value >= 100:
        return f"{value:.0f}"
    text = f"{value:#.2g}"
    return text.rstrip(".")


def rounded(count: str) -> str:
    """A number of documents to the next ten thousand: 709,992 is 710,000."""
    return f"{round(int(count.replace(',', '')), -4):,}"


def speed_rows(results: Results) -> list[tuple[str, str, str]]:
    """Job, Rankgrove's time, and that of others."""
    return [
        *_training_rows(results),
        *_scoring_rows(results),
        _reading_row(results),
        *_metric_rows(results),
        *(_start_rows(results) if results.has("start-wheel") else []),
    ]


def _training_rows(results: Results) -> list[tuple[str, str, str]]:
    # (The first table of trees of 63 leaves is that of many documents.)
    documents = results.text("train", r"### 63 leaves, ([\d,]+) documents")
    under = f"63 leaves, {documents} documents"

    def tree(tool: str) -> str:
        return short(results.number("train", tool, "s a tree", under=under))

    theirs = results.cell("train", "lightgbm", "NDCG@10…", under=under)
    ours = results.cell("train", "rankgrove", "NDCG@10…", under=under)
    error = results.cell("train", "lightgbm", "ours less theirs", under=under).split()[-1]
    binned = {
        tool: short(results.number("train", tool, "s", under="Binning"))
        for tool in ("rankgrove", "catboost", "lightgbm", "xgboost")
    }
    features = results.text("train", r"(\d+) features")
    return [
        (
            f"one LambdaMART tree of 63 leaves, {rounded(documents)} documents, "
            f"{features} features",
            f"{tree('rankgrove')} s",
            f"LightGBM {tree('lightgbm')} s (NDCG@10 {theirs}, ours {ours} ± {error}), XGBoost "
            f"{tree('xgboost')} s",
        ),
        (
            "one YetiRank iteration on them, oblivious trees of depth 6",
            f"{short(results.number('objectives', 'yetirank', 'ours, s'))} s",
            f"CatBoost {short(results.number('objectives', 'yetirank', 'CatBoost, s'))} s",
        ),
        (
            "bin those documents",
            f"{binned['rankgrove']} s",
            f"CatBoost {binned['catboost']} s, LightGBM {binned['lightgbm']} s, XGBoost "
            f"{binned['xgboost']} s",
        ),
    ]


def _scoring_rows(results: Results) -> list[tuple[str, str, str]]:
    def batch(tool: str) -> str:
        return short(results.number("score", tool, "us a document, batch, 2 thr."))

    def shap(tool: str) -> str:
        return short(results.number("score", f"{tool} | 200 | 2", "ms a document"))

    trees = results.text("score", r"(\d+ trees of \d+ leaves)")
    return [
        (
            f"score a document with {trees}, in a batch",
            f"{batch('rankgrove')} µs",
            f"LightGBM {batch('lightgbm')} µs on the same trees; others on their own: CatBoost "
            f"{batch('catboost (other trees)')} µs, XGBoost {batch('xgboost (other trees)')} µs",
        ),
        (
            "explain a score by TreeSHAP, the same trees",
            f"{shap('rankgrove')} ms",
            f"LightGBM {shap('lightgbm')} ms",
        ),
    ]


def _reading_row(results: Results) -> tuple[str, str, str]:
    def seconds(tool: str) -> str:
        return short(results.number("load", tool, "s"))

    size = results.text("load", r"(\d+ MB) of text")
    return (
        f"read {size} of LETOR text",
        f"{seconds('rankgrove')} s",
        f"LightGBM {seconds('lightgbm, least binning')} s with least binning "
        f"({seconds('lightgbm')} s by default), XGBoost {seconds('xgboost')} s, CatBoost "
        f"{seconds('catboost')} s, scikit-learn {seconds('scikit-learn')} s",
    )


def _metric_rows(results: Results) -> list[tuple[str, str, str]]:
    def whole(tool: str) -> str:
        parts = (results.number("metrics", tool, column) for column in ("convert, s", "measure, s"))
        return short(sum(parts))

    def alone(tool: str) -> str:
        return short(results.number("metrics", tool, "ms"))

    documents = results.text("metrics", r"of ([\d,]+ documents)")
    return [
        (
            f"NDCG@10, MAP, MRR, ERR of {documents}, from arrays",
            f"{whole('rankgrove')} s",
            f"three of the four: pytrec_eval {whole('pytrec_eval')} s, ir-measures "
            f"{whole('ir-measures')} s, ranx {whole('ranx')} s; all four: CatBoost "
            f"{whole('catboost')} s",
        ),
        (
            f"NDCG@10 of {documents}",
            f"{alone('rankgrove')} ms",
            f"LightGBM {alone('lightgbm')} ms, XGBoost {alone('xgboost')} ms, during training",
        ),
    ]


def _start_rows(results: Results) -> list[tuple[str, str, str]]:
    def cold(tool: str) -> str:
        row = f"{tool}: import, train, predict"
        return short(results.number("start-wheel", row, "cold, s"))

    documents = results.text("start-wheel", r"([\d,]+ documents)")
    trees = results.text("start-wheel", r"(\d+ trees)")
    return [
        (
            f"import, train {trees} on {documents} and predict, the first time after installing",
            f"{cold('Rankgrove')} s",
            ", ".join(f"{tool} {cold(tool)} s" for tool in ("LightGBM", "XGBoost", "CatBoost")),
        )
    ]


def quality_rows(results: Results) -> list[tuple[str, str, str, str]]:
    """The recipe beside models of other libraries; a difference that may be chance is an error."""
    recipe = "rankgrove, effort high"

    def cells(row: str) -> tuple[str, str]:
        found = [
            results.cell("quality", row, column, under="All rows")
            for column in ("NDCG@10", "CPU s a fold")
        ]
        return found[0], found[1]

    rows = [("`--effort high`", *cells(recipe), "")]
    for name, words in OTHERS.items():
        row = f"{name} | NDCG@10"
        chance = results.cell("quality", row, "p, Holm", under="The family")
        if float(chance.strip("< ")) >= SIGNIFICANT:
            raise SystemExit(f"README claims only what survives Holm. Got {name}: p {chance}.")
        difference = results.cell("quality", row, "difference", under="The family")
        rows.append((words, *cells(name), difference))
    return rows


def filled(readme: str, results: Results) -> str:
    """README with the tables of these results between their marks."""
    tables: tuple[tuple[str, Sequence[str], Callable[[Results], Sequence[Any]]], ...] = (
        ("speed", ("job", "Rankgrove", "others"), speed_rows),
        ("quality", ("", "NDCG@10", "CPU s", "effort high less it"), quality_rows),
    )
    for name, header, rows_of in tables:
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if readme.count(start) != 1 or readme.count(end) != 1:
            raise SystemExit(f"README must have {start} and {end} once each. Got another number.")
        before, rest = readme.split(start)
        lines = table(header, rows_of(results)).splitlines()
        indented = "".join(f"{INDENT}{line}\n" for line in lines)
        readme = f"{before}{start}\n\n{indented}\n{INDENT}{end}{rest.split(end)[1]}"
    return readme


if __name__ == "__main__":
    results = Results(RESULTS.read_text("utf-8"))
    README.write_text(filled(README.read_text("utf-8"), results), "utf-8")
    print(README.name)

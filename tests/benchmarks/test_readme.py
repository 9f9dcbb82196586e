"""README's tables are those of RESULTS.md."""

import pytest
from benchmarks.common import RESULTS
from benchmarks.readme import OTHERS, README, Results, filled, quality_rows

TEXT = """<!-- a -->
## First

12 MB of text

| tool | threads | s | s, warm |
|---|---|---|---|
| ours | 1 | 0.5 | |
| ours | 2 | 0.25 | |

### Second

| tool | s |
|---|---|
| ours | 7 |
<!-- /a -->
"""


def test_readme_agrees_with_results():
    text = README.read_text("utf-8")
    assert filled(text, Results(RESULTS.read_text("utf-8"))) == text


def test_a_cell_is_found_by_section_heading_row_and_column():
    results = Results(TEXT)
    assert results.cell("a", "ours | 2", "s", under="First") == "0.25"
    assert results.number("a", "ours", "s", under="Second") == 7
    assert results.text("a", r"(\d+ MB)") == "12 MB"


@pytest.mark.parametrize(
    ("section", "row", "column", "under"),
    [
        ("b", "ours", "s", "Second"),
        ("a", "theirs", "s", "Second"),
        ("a", "ours", "ms", "Second"),
        ("a", "ours", "s", "Third"),
        ("a", "ours", "s", "First"),  # two cells
        ("a", "ours | 2", "s, warm", "First"),  # an empty one
    ],
)
def test_a_figure_that_is_not_there_once_is_an_error_that_names_it(section, row, column, under):
    with pytest.raises(SystemExit, match=rf"section '{section}'.*row '{row.replace('|', '.')}'"):
        Results(TEXT).cell(section, row, column, under=under)
    with pytest.raises(SystemExit, match="11 MB"):
        Results(TEXT).text("a", "(11 MB)")


def test_a_readme_without_the_marks_is_refused():
    with pytest.raises(SystemExit, match="once each"):
        filled("<!-- speed -->", Results(TEXT))


def quality_text(chance):
    rows = "\n".join(f"| {name} | 0.5 | 2 |" for name in ("rankgrove, effort high", *OTHERS))
    family = "\n".join(f"| {name} | NDCG@10 | +0.1 ± 0.2 | {chance} |" for name in OTHERS)
    return (
        f"<!-- quality -->\n### The family\n\n| less | metric | difference | p, Holm |\n"
        f"|---|---|---|---|\n{family}\n\n### All rows, mean of the sets\n\n"
        f"|  | NDCG@10 | CPU s a fold |\n|---|---|---|\n{rows}\n<!-- /quality -->\n"
    )


def test_readme_claims_of_quality_only_what_survives_holm():
    rows = quality_rows(Results(quality_text("< 0.001")))
    assert [row[1:] for row in rows] == [("0.5", "2", ""), *[("0.5", "2", "+0.1 ± 0.2")] * 4]
    with pytest.raises(SystemExit, match=r"only what survives Holm.*YetiRank, common: p 0\.0512"):
        quality_rows(Results(quality_text("0.0512")))

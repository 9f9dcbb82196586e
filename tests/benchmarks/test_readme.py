"""README's table of speed is that of RESULTS.md."""

import pytest
from benchmarks.common import RESULTS
from benchmarks.readme import MARKS, README, Results, filled

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
        filled(MARKS[0], Results(TEXT))

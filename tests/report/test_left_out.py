"""What a report leaves out, by which rule, and that it stays within its size."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest

from rankgrove import Report, make_report
from rankgrove.errors import ParameterError
from rankgrove.report import tops as tops_section
from rankgrove.report.limits import PAGE_BYTES, choose_queries, fit, parse_size, section_size
from rankgrove.report.page import make_page
from report.samples import METRICS, check_schema, rows_of_tops


def section(contents, name):
    return next(entry for entry in contents["left_out"] if entry["section"] == name)


def test_half_of_the_chosen_queries_changed_most_and_the_others_are_spread():
    change = np.zeros(100)
    change[[7, 50, 93]] = 0.5, 0.9, 0.1
    chosen, rule = choose_queries(change, 10)
    rest = [query for query in range(100) if query not in (7, 50, 93, 0, 1)]
    spread = rest[::19]
    assert {7, 50, 93, 0, 1} | set(spread) == set(chosen.tolist())
    assert chosen.tolist() == sorted(chosen.tolist())
    assert len(chosen) == 10
    assert rule == "the largest changes, then every 19th of the rest"


def test_what_the_spread_leaves_free_goes_to_the_next_largest_changes():
    chosen, _ = choose_queries(np.arange(10) / 10, 6)
    # 9, 8, 7 changed most; of 0 to 6 every 3rd is 0, 3, 6.
    assert chosen.tolist() == [0, 3, 6, 7, 8, 9]
    chosen, _ = choose_queries(np.arange(9) / 10, 8)
    # 8, 7, 6, 5; of 0 to 4 every 2nd is 0, 2, 4; 3 is the next.
    assert chosen.tolist() == [0, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("most", [None, 5, 9])
def test_all_queries_are_chosen_where_there_is_room(most):
    assert choose_queries(np.zeros(5), most) == (pytest.approx(np.arange(5)), "all")


def test_reasons_of_some_queries_are_said_to_be_of_some(parts, models):
    contents = make_report(parts["test"], models, METRICS, why=6, forces=0).to_dict()
    check_schema(contents)
    n_queries = parts["test"].n_queries
    assert len(contents["why"]["queries"]) == len(contents["shares"]["queries"]) == 6
    for name in ("why", "shares"):
        assert section(contents, name) == {
            "section": name, "kept": 6, "of": n_queries,
            "rule": "the largest changes, then every 11th of the rest",
        }  # fmt: skip
    values = np.array(contents["queries"]["values"]["ndcg@10"], float)
    largest = np.argsort(-np.nan_to_num(np.abs(values[0] - values[1])), kind="stable")[:2]
    assert set(largest.tolist()) <= set(contents["why"]["queries"])
    counts = np.array(contents["tops"]["counts"])[contents["why"]["queries"]]
    assert contents["why"]["counts"] == counts.tolist()


def test_reasons_of_some_queries_are_those_of_all(contents, parts, models):
    few = make_report(
        parts["test"], models, METRICS, baseline="old", top=5, why=6, forces=0
    ).to_dict()["why"]
    whole, n = contents["why"], contents["why"]["features"]
    places = list(rows_of_tops(whole))
    rows = [row for query in few["queries"] for row in places[query]]
    cells = [n * row + at for row in rows for at in range(n)]
    assert few["value"] == [whole["value"][cell] for cell in cells]
    assert few["rest"][0] == pytest.approx([whole["rest"][0][row] for row in rows], abs=0.01)


def test_all_reasons_and_none(parts, models):
    every = make_report(parts["test"], models, METRICS, why="all", forces=0).to_dict()
    assert len(every["why"]["queries"]) == parts["test"].n_queries
    assert every["left_out"] == []
    none = make_report(parts["test"], models, METRICS, why=0, forces=0).to_dict()
    assert none["why"] is None
    assert none["absent"]["why"] == "No reasons were asked for: say of how many queries with why."
    assert none["shares"]["queries"] == []


def test_scores_are_left_out_where_very_many_documents_are_shown(parts, models, monkeypatch):
    monkeypatch.setattr(tops_section, "MOST_SCORES", 100)
    contents = make_report(parts["test"], models, METRICS, forces=0).to_dict()
    assert contents["tops"]["score"] is None
    shown = len(contents["tops"]["document"])
    assert section(contents, "scores")["of"] == shown > 100


def change_of(contents):
    values = np.array(contents["queries"]["values"]["ndcg@10"], float)
    return np.nan_to_num(np.abs(values[0] - values[1]))


def cut_to(contents, limit):
    """The contents with what fits; those given stay as they are."""
    got = copy.deepcopy(contents)
    fit(got, change_of(contents), limit)
    return got


def least_size(contents):
    """The smallest limit that is enough, as the error of one that is not says it."""
    with pytest.raises(ParameterError, match="max_size must be") as caught:
        cut_to(contents, 1)
    return int(re.search(r"must be ([0-9,]+) bytes", str(caught.value))[1].replace(",", ""))


def test_the_page_itself_is_no_larger_than_is_allowed_for(contents):
    sizes = sum(map(section_size, contents.values()))
    assert sizes < len(make_page(contents).encode()) < sizes + PAGE_BYTES


def test_what_does_not_fit_goes_in_a_fixed_order_and_is_said(contents):
    most = PAGE_BYTES + sum(map(section_size, contents.values()))
    assert cut_to(contents, most) == contents
    kept = []
    for limit in np.linspace(most, least_size(contents), 40).astype(int).tolist():
        got = cut_to(contents, limit)
        check_schema(got)
        assert len(make_page(got).encode()) <= limit
        kept.append(
            (
                got["tops"]["score"] is not None,
                0 if got["why"] is None else len(got["why"]["queries"]),
                0 if got["shares"] is None else len(got["shares"]["queries"]),
                got["forces"] is not None,
                got["features"] is not None,
                len(got["tops"]["counts"]),
            )
        )
        for name in ("why", "shares", "forces", "features"):
            assert (got[name] is None) == (name in got["absent"])
        if got["tops"]["queries"] is not None:
            assert section(got, "tops")["kept"] == len(got["tops"]["counts"])
    # Each comes before the next: none is cut while one before it has something left.
    assert kept == sorted(kept, reverse=True)
    assert len(set(kept)) > 8
    assert kept[-1] == (False, 0, 0, False, False, 1)


def test_queries_that_are_left_changed_most_and_show_what_they_showed_before(contents):
    got = cut_to(contents, least_size(contents) + 500)
    tops, whole = got["tops"], contents["tops"]
    assert 0 < len(tops["queries"]) < len(whole["counts"])
    largest = np.argsort(-change_of(contents), kind="stable")[: len(tops["queries"])]
    assert tops["queries"] == sorted(largest.tolist())
    places = list(rows_of_tops(whole))
    rows = [row for query in tops["queries"] for row in places[query]]
    for column in ("document", "label", "ideal"):
        assert tops[column] == [whole[column][row] for row in rows]
    assert tops["rank"] == [[ranks[row] for row in rows] for ranks in whole["rank"]]


def test_halved_reasons_are_those_of_the_queries_that_are_left(contents):
    most = PAGE_BYTES + sum(map(section_size, contents.values()))
    got = cut_to(contents, most - section_size(contents["why"]) // 2)
    why, whole, n = got["why"], contents["why"], contents["why"]["features"]
    assert 0 < len(why["queries"]) < len(whole["queries"])
    places = list(rows_of_tops(whole))
    rows = [row for query in why["queries"] for row in places[query]]
    cells = [n * row + at for row in rows for at in range(n)]
    assert why["value"] == [whole["value"][cell] for cell in cells]
    assert why["adds"] == [[adds[cell] for cell in cells] for adds in whole["adds"]]
    assert why["rest"] == [[rest[row] for row in rows] for rest in whole["rest"]]
    assert why["feature"] == [
        whole["feature"][n * query + at] for query in why["queries"] for at in range(n)
    ]


def test_a_limit_that_is_too_small_is_an_error(parts, models):
    with pytest.raises(ParameterError, match="give more, or report on fewer queries"):
        make_report(parts["test"], models, METRICS, forces=0, max_size="10KB")


@pytest.mark.parametrize(
    ("size", "n_bytes"),
    [("20MB", 20_000_000), ("1.5 kb", 1500), ("7", 7), (9, 9), ("2G", 2 * 10**9)],
)
def test_a_size_is_bytes_or_has_a_unit(size, n_bytes):
    assert parse_size(size) == n_bytes


@pytest.mark.parametrize("size", ["", "MB", "1.2.3MB", "-5", "5 bananas", None, True, 0.5])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ParameterError, match="max_size must be"):
        parse_size(size)


def test_the_same_input_gives_the_same_contents(contents, parts, models):
    again = make_report(
        parts["test"], models, METRICS, baseline="old", slices=["length", "relevant"], top=5,
        train=parts["train"], valid=parts["vali"], forces=2, n_jobs=1,
    )  # fmt: skip
    assert again.to_json() == Report(contents).to_json()

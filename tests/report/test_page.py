"""The file of a page, without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from importlib.resources import files

import pytest

from rankgrove.errors import DataError
from rankgrove.report.page import make_page, write_page
from report import contracts


def sections_of(page):
    """The unpacked sections by name."""
    found = re.findall(r'<script type="application/octet-stream" id="data-(\w+)">([^<]*)<', page)
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in found}


def test_every_section_comes_back_as_it_was_given():
    contract = contracts.of_foreign_text()
    found = sections_of(make_page(contract))
    outline = found.pop("outline")
    assert found | {name: outline[name] for name in contract if name not in found} == contract


def test_a_section_that_is_none_is_not_in_the_file():
    assert "why" not in sections_of(make_page(contracts.without("why")))


def test_the_same_contract_gives_the_same_page():
    assert make_page(contracts.full()) == make_page(contracts.full())


def test_the_policy_names_script_and_style_by_their_hashes_and_allows_nothing_else():
    page = make_page(contracts.full())
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none'; ")
    for kind, begin, end in (
        ("script-src", '<script type="module">', "</script>"), ("style-src", "<style>", "</style>"),
    ):  # fmt: skip
        content = page.split(begin)[1].split(end)[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_page_without_data_takes_at_most_120_kilobytes():
    page = make_page(contracts.full())
    for data in (r'<script type="application/octet.*?</script>', r"<p class=.headline.*?</table>"):
        page = re.sub(data, "", page, flags=re.DOTALL)
    assert 50_000 < len(page.encode()) <= 120_000


def test_the_page_names_no_address_but_the_name_of_svg():
    found = set(re.findall(r"https?://[^\s\"'<]+", make_page(contracts.full())))
    assert found == {"http://www.w3.org/2000/svg"}


def test_foreign_text_is_escaped_in_the_part_that_needs_no_script():
    page = make_page(contracts.of_foreign_text())
    seen = page.split("<body>")[1].split('<script type="application')[0]
    assert "<script" not in seen.replace("<noscript>", "")
    assert "<img" not in seen
    assert html.escape(contracts.FOREIGN["script"]) in seen


def test_the_verdict_in_the_html_is_that_of_the_last_candidate_against_the_baseline():
    contract = contracts.of_three_candidates() | {"baseline": 1}
    entries = contract["verdicts"]["ndcg@10"]
    expected = next(one for one in entries if (one["a"], one["b"]) == ("newest", "new"))
    assert html.escape(expected["sentence"]) in make_page(contract)


def test_one_candidate_has_its_mean_in_the_html():
    contract = contracts.of_one_candidate()
    row = contract["comparison"]["metrics"]["ndcg@10"]["candidates"]["new"]
    assert f"new: ndcg@10 {row['mean']:.4f} (95 % interval {row['low']:.4f}" in make_page(contract)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(DataError, match="not a regular file"):
        write_page(contracts.full(), tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_every_sentence_of_the_sources_is_in_the_page_as_it_was_written():
    page = make_page(contracts.full())
    folder = files("rankgrove.report") / "static"
    sources = "".join(path.read_text("utf-8") for path in folder.iterdir() if path.suffix == ".js")
    sentences = re.findall(r'"([A-Z][^"\n]{20,})"', sources)
    assert len(sentences) > 10
    assert [sentence for sentence in sentences if sentence not in page] == []

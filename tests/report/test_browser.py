"""The page in a real browser: what it shows is what the contract has, and nothing goes wrong."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.resources import files
from itertools import pairwise

import pytest

from rankgrove.report.page import write_page
from report import contracts

pytestmark = pytest.mark.browser

SECTIONS = (
    "slices", "by_rank", "labels", "data", "looks", "tops", "shares", "why", "features", "training",
    "forces",
)  # fmt: skip
# Of the scatter plot, in pixels: left, right, top, bottom.
MARGINS = (50, 12, 12, 42)


def point_of(opened, contract, query):
    """Where a query stands on the screen."""
    box = opened.page.locator(".plot canvas").bounding_box()
    left, right, top, bottom = MARGINS
    old, new = (column[query] / 10_000 for column in contract["queries"]["values"]["ndcg@10"])
    x = left + old * (box["width"] - left - right)
    y = box["height"] - bottom - new * (box["height"] - top - bottom)
    return box["x"] + x, box["y"] + y


def settle(page):
    """Wait until what was scrolled has been drawn: rows are made for what is in sight."""
    frames = "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))"
    page.evaluate(f"() => new Promise(done => {frames})")


def middle_of(page, selector):
    """Where an element is: a click by selector would scroll first, which makes rows anew."""
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def rows_of(opened):
    """The queries in sight in the table, in order."""
    return [
        int(number)
        for number in opened.page.locator(".list tbody tr").evaluate_all(
            "rows => rows.map(row => row.dataset.query)"
        )
    ]


def test_the_page_opens_from_a_disk_with_one_request_and_no_error(open_page):
    opened = open_page(contracts.full(), offline=True)
    assert opened.problems == []
    assert len(opened.requests) == 1
    assert opened.page.locator(".absent").count() == 0


def test_the_verdict_is_that_of_python_and_follows_the_metric(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    for metric in contracts.METRICS:
        opened.page.get_by_label("metric", exact=True).select_option(metric)
        entries = contract["verdicts"][metric]
        expected = next(one for one in entries if (one["a"], one["b"]) == ("new", "old"))
        assert opened.text("#verdict-sentence") == expected["sentence"]
        for name in ("wins", "ties", "losses", "skipped"):
            assert opened.text(f"#verdict-{name}") == f"{expected[name]:,}"
        words = {"better": "Better", "worse": "Worse", "unclear": "No clear difference"}
        assert opened.text("#verdict-word") == words[expected["word"]]
    assert f"m={metric}" in opened.address


def test_without_javascript_the_verdict_and_the_worst_queries_are_readable(open_page):
    contract = contracts.full()
    opened = open_page(contract, wait=False, java_script_enabled=False)
    page = opened.page
    sentence = page.locator("#verdict-sentence")
    assert sentence.is_visible()
    assert contract["verdicts"]["ndcg@10"][1]["sentence"] == sentence.text_content()
    names = page.locator("#worst tbody th").all_text_contents()
    assert names == [contract["queries"]["id"][q] for q in contracts.worst(contract)]
    assert page.locator("#worst").is_visible()


def test_the_worst_query_is_the_same_by_click_by_row_and_by_keyboard(open_page):
    contract = contracts.full()
    query = contracts.worst(contract)[0]
    chosen = f"q={contract['queries']['id'][query]}&"
    opened = open_page(contract)
    assert rows_of(opened)[:10] == contracts.worst(contract)
    page = opened.page

    page.locator(".list").focus()
    page.keyboard.press("End")
    assert chosen not in opened.address
    page.keyboard.press("Home")
    assert chosen in opened.address

    page.keyboard.press("End")
    page.mouse.click(*point_of(opened, contract, query))
    assert chosen in opened.address

    page.locator(".list").focus()
    page.keyboard.press("End")
    assert chosen not in opened.address
    settle(page)
    page.locator(".scroller").evaluate("box => (box.scrollTop = 0)")
    settle(page)
    page.mouse.click(*middle_of(page, f"#row-{query}"))
    assert chosen in opened.address
    assert f"query {contract['queries']['id'][query]}" == opened.text("#query .name")


def test_keys_step_through_queries_find_one_and_explain_themselves(open_page):
    contract = contracts.full()
    order = contracts.worst(contract)
    opened = open_page(contract)
    page = opened.page
    ids = contract["queries"]["id"]
    for key, place in (("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        assert f"q={ids[order[place]]}&" in opened.address
    page.keyboard.press("/")
    page.keyboard.type(ids[order[3]])
    assert order[3] in rows_of(opened)
    assert f"find={ids[order[3]]}" in opened.address
    page.keyboard.press("Escape")
    assert rows_of(opened)[:10] == order
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog").count() == 0
    page.locator(".list").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "query-title"


def test_an_area_of_the_plot_filters_the_table(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    old, new = contract["queries"]["values"]["ndcg@10"]
    box = opened.page.locator(".plot canvas").bounding_box()
    left, right, top, bottom = MARGINS

    def pixels(a, b):
        x = left + a * (box["width"] - left - right)
        return box["x"] + x, box["y"] + box["height"] - bottom - b * (box["height"] - top - bottom)

    mouse = opened.page.mouse
    mouse.move(*pixels(0.35, 0.2))
    mouse.down()
    mouse.move(*pixels(0.6, 0.5))
    mouse.move(*pixels(0.8, 0.7))
    mouse.up()
    inside = [
        q for q, (a, b) in enumerate(zip(old, new, strict=True))
        if a is not None and 3500 <= a <= 8000 and 2000 <= b <= 7000
    ]  # fmt: skip
    assert 0 < len(inside) < len(old)
    assert opened.text("#queries [role=status]") == f"{len(inside)} of {len(old)} queries"
    assert set(rows_of(opened)) <= set(inside)
    opened.page.keyboard.press("Escape")
    assert rows_of(opened)[:10] == contracts.worst(contract)


def test_a_slice_filters_the_table_and_a_column_sorts_it(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    of = contract["queries"]["groups"]["intent"]["of"]
    opened.page.get_by_role("button", name="go", exact=True).click()
    values = contracts.changes(contract)
    counted = [q for q, value in enumerate(values) if value is not None and of[q] == 1]
    assert opened.text("#queries [role=status]").startswith(f"{len(counted)} of")
    assert "s=intent=go" in opened.address
    opened.page.locator(".list th button", has_text="docs").click()
    documents = contract["queries"]["documents"]
    expected = sorted(counted, key=lambda q: -documents[q])
    assert rows_of(opened) == expected[: len(rows_of(opened))]


def test_a_link_names_one_query(open_page):
    contract = contracts.full()
    query = contracts.worst(contract)[5]
    opened = open_page(contract, f"#q={contract['queries']['id'][query]}&m=map")
    assert opened.text("#query .name") == f"query {contract['queries']['id'][query]}"
    assert opened.page.locator(f"#row-{query}").get_attribute("aria-selected") == "true"
    assert opened.page.get_by_label("metric", exact=True).input_value() == "map"


def test_both_lists_and_the_ideal_order_are_those_of_the_contract(open_page):
    contract = contracts.full()
    query = contracts.worst(contract)[0]
    opened = open_page(contract)
    tops = contract["tops"]
    start = sum(tops["counts"][:query])
    places = range(start, start + tops["counts"][query])
    ranks = {"left": tops["rank"][0], "right": tops["rank"][1], "ideal": tops["ideal"]}
    for column, rank in ranks.items():
        shown = sorted((p for p in places if rank[p] <= tops["k"]), key=lambda p: rank[p])
        buttons = opened.page.locator(f"#query .{column} .doc")
        assert buttons.locator(".title").all_text_contents() == [
            f"document {tops['document'][p]}" for p in shown
        ]
        assert buttons.locator(".chip").all_text_contents() == [
            str(tops["label"][p]) for p in shown
        ]
    shares = contract["shares"]
    assert shares["queries"] == list(range(len(tops["counts"])))
    old, new = shares["values"]["ndcg@10"]
    told = opened.page.locator("#query .adds").all_text_contents()
    expected = {p: new[p] - old[p] for p in places if new[p] != old[p]}
    shown = {p for p in expected if tops["rank"][1][p] <= 10 or tops["rank"][0][p] <= 10}
    numbers = sorted(round(number(text) * 10_000) for text in told if text)
    assert numbers == sorted(expected[p] for p in shown)
    assert abs(sum(numbers) - contracts.changes(contract)[query]) <= len(numbers)


def test_reasons_are_the_contributions_of_the_chosen_documents(open_page):
    contract = contracts.full()
    query = contracts.worst(contract)[0]
    opened = open_page(contract)
    page = opened.page
    page.locator("#why .tick input").uncheck()
    page.locator("#query .right .doc").nth(2).click()
    page.locator("#query .right .doc").nth(0).click(modifiers=["Shift"])
    start = sum(contract["tops"]["counts"][:query])
    rank = contract["tops"]["rank"][1]
    places = range(start, start + contract["tops"]["counts"][query])
    third, first = (next(p for p in places if rank[p] == wanted) for wanted in (3, 1))
    why = contract["why"]
    n = why["features"]
    names = [why["names"][number] for number in why["feature"][query * n : (query + 1) * n]]

    rows = page.locator("#why table").nth(0).locator("tbody tr")
    shown = {cells[0]: cells[3:5] for cells in rows.evaluate_all(CELLS)}
    for at, name in enumerate(names):
        expected = [why["adds"][candidate][third * n + at] for candidate in (0, 1)]
        assert [number(text) for text in shown[name]] == pytest.approx(expected, abs=6e-4)

    rows = page.locator("#why table").nth(1).locator("tbody tr").evaluate_all(CELLS)
    gaps = {cells[0]: number(cells[4]) for cells in rows}
    for at, name in enumerate(names):
        expected = why["adds"][1][first * n + at] - why["adds"][1][third * n + at]
        assert gaps[name] == pytest.approx(expected, abs=1.1e-3)
    scores = contract["tops"]["score"][1]
    total = scores[first] - scores[third]
    assert number(rows[-1][5]) == pytest.approx(total, abs=2e-3)


CELLS = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"


def number(text):
    return float(text.replace("\N{MINUS SIGN}", "-"))


def test_ranks_add_up_to_the_change_of_the_metric(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    entries = contract["verdicts"]["ndcg@10"]
    expected = next(one for one in entries if (one["a"], one["b"]) == ("new", "old"))
    told = opened.page.locator("#ranks tfoot tr").last.locator("td").first.text_content()
    assert number(told) == pytest.approx(expected["difference"], abs=5e-5)


def test_foreign_text_runs_no_script_and_is_shown_whole(open_page):
    contract = contracts.of_foreign_text()
    opened = open_page(contract)
    page = opened.page
    texts = contract["queries"]["text"]
    for query in contracts.worst(contract):
        page.locator(f"#row-{query}").click()
        assert opened.text("#query .name") == texts[query]
        assert page.locator(f"#row-{query} td").first.text_content() == texts[query]
    titles = set(page.locator("#query .right .title").all_text_contents())
    assert titles <= set(contract["tops"]["title"])
    assert opened.text("#title") == " against ".join(
        (contracts.FOREIGN["image"], contracts.FOREIGN["script"])
    )
    assert page.evaluate("window.hacked") is None
    assert opened.problems == []
    assert page.locator("img, script:not([type])").count() == 0


def test_script_that_gets_into_the_page_is_refused_by_its_policy(open_page):
    opened = open_page(contracts.full())
    opened.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')"
    )
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in problem for problem in opened.problems)


PAINTED = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let painted = 0;
  for (let at = 3; at < data.length; at += 4) if (data[at] > 0) painted += 1;
  return painted / (data.length / 4);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("times", [20, 80])
def test_the_plot_is_painted_as_points_and_as_density(open_page, scheme, times):
    opened = open_page(contracts.repeated(times), color_scheme=scheme)
    assert 0.1 < opened.page.locator(".plot canvas").evaluate(PAINTED) < 0.6


@pytest.mark.parametrize(("scheme", "width"), [("light", 1240), ("dark", 1240), ("light", 390)])
def test_axe_finds_no_violation_and_nothing_is_wider_than_the_window(open_page, scheme, width):
    opened = open_page(
        contracts.full(), color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page = opened.page
    for tool in page.get_by_role("button", name="Change, sorted: as table").all():
        tool.click()
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document).then(result => result.violations)")
    told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_has_the_verdict_and_the_ten_worst_queries(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    page = opened.page
    page.get_by_label("metric", exact=True).select_option("map")
    assert not page.locator("#worst").is_visible()
    page.emulate_media(media="print")
    assert page.locator("#verdict-sentence").is_visible()
    assert page.locator("#worst").is_visible()
    assert not page.locator("#queries").is_visible()
    rows = page.locator("#worst tbody tr").evaluate_all(CELLS)
    ids = contract["queries"]["id"]
    worst = contracts.worst(contract, "map")
    assert [row[0] for row in rows] == [ids[q] for q in worst]
    losses = contracts.changes(contract, "map")
    assert [round(number(row[3]) * 10_000) for row in rows] == [losses[q] for q in worst]


def test_100_000_queries_take_at_most_2_000_elements(open_page):
    contract = contracts.repeated(1250)
    opened = open_page(contract)
    page = opened.page
    assert len(contract["queries"]["id"]) == 100_000
    assert rows_of(opened)[:10] == contracts.worst(contract)
    page.locator(".list").focus()
    page.keyboard.press("End")
    values = contracts.changes(contract)
    best = max(value for value in values if value is not None)
    assert values[rows_of(opened)[-1]] == best
    assert page.locator(".list tbody tr").last.get_attribute("aria-selected") == "true"
    assert page.evaluate("document.querySelectorAll('*').length") <= 2000
    assert opened.problems == []


def arrows_of(opened):
    """For left and right, by document: the line across, where the arrow begins, and its length."""
    paths = opened.page.locator(".forces-stage path").evaluate_all(
        "paths => paths.map(path => [path.getAttribute('d'), path.getAttribute('class')])"
    )
    found = []
    for path, kind in paths:
        moved = re.match(r"M([\d.-]+) ([\d.-]+)(?:v([\d.-]+))?", path)
        length = 0.0 if moved[3] is None else -float(moved[3])
        assert kind == ("arrow none" if length == 0 else f"arrow {'up' if length > 0 else 'down'}")
        found.append((float(moved[1]), float(moved[2]), length))
    return found[::2], found[1::2]


def test_arrows_are_as_long_as_forces_and_never_meet(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    films = contract["forces"]
    at = next(at for at, film in enumerate(films) if film["name"] == "new")
    film = films[at]
    sides = next(name for name in film["forces"] if name != film["objective"]), film["objective"]
    slider = opened.page.get_by_label("Tree", exact=True)
    for frame in (0, len(film["trees"]) // 2, len(film["trees"]) - 1):
        slider.fill(str(frame))
        for side, arrows in zip(sides, arrows_of(opened), strict=True):
            forces = film["forces"][side]
            largest = max(abs(force) for row in forces for force in row)
            row = max(14, min(22, 640 // len(film["labels"])))
            for force, (_, _, length) in zip(forces[frame], arrows, strict=True):
                expected = force / largest * 5.4 * row
                assert length == pytest.approx(expected if abs(expected) >= 1.5 else 0, abs=0.02)
            lines: dict[float, list[tuple[float, float]]] = {}
            for x, y, length in arrows:
                lines.setdefault(x, []).append((min(y, y - length), max(y, y - length)))
            for spans in lines.values():
                spans.sort()
                assert all(a[1] < b[0] for a, b in pairwise(spans))


def test_documents_stand_in_the_order_of_their_scores(open_page):
    contract = contracts.full()
    opened = open_page(contract)
    film = next(film for film in contract["forces"] if film["name"] == "new")
    last = len(film["trees"]) - 1
    opened.page.get_by_label("Tree", exact=True).fill(str(last))
    _, right = arrows_of(opened)
    scores = film["scores"][last]
    by_place = sorted(range(len(scores)), key=lambda at: right[at][1])
    assert by_place == sorted(range(len(scores)), key=lambda at: (-scores[at], at))


def test_the_film_plays_to_its_end_and_stops(open_page):
    opened = open_page(contracts.full())
    page = opened.page
    before = page.locator(".forces-stage").inner_html()
    page.get_by_role("button", name="play", exact=True).click()
    page.wait_for_selector("html[data-frames]", state="attached")
    page.get_by_role("button", name="pause").click()
    assert page.locator(".forces-stage").inner_html() != before
    assert page.get_by_role("button", name="play", exact=True).is_visible()


def test_reduced_motion_has_no_moving_frame(open_page):
    opened = open_page(contracts.full(), reduced_motion="reduce")
    page = opened.page
    page.get_by_role("button", name="play", exact=True).click()
    seen = page.locator(".forces-stage").evaluate(
        """async stage => {
          const seen = new Set();
          const begin = performance.now();
          while (performance.now() - begin < 1500) {
            seen.add(stage.innerHTML);
            await new Promise(requestAnimationFrame);
          }
          return seen.size;
        }"""
    )
    assert seen == 2
    assert page.locator("html[data-frames]").count() == 0


@pytest.mark.parametrize("section", SECTIONS)
def test_a_view_without_its_section_says_why(open_page, section):
    contract = contracts.without(section)
    opened = open_page(contract)
    assert opened.problems == []
    views = {
        "by_rank": "ranks", "labels": None, "data": None, "tops": "query", "shares": None,
    }  # fmt: skip
    view = views.get(section, section)
    if view is not None:
        assert opened.text(f"#{view} .picture") == contract["absent"][section]
        assert opened.page.locator(f"#{view} .tools button").count() == 0


def test_one_candidate_is_held_against_the_ideal_order(open_page):
    contract = contracts.of_one_candidate()
    opened = open_page(contract)
    assert opened.problems == []
    assert not opened.page.locator("#verdict-word").is_visible()
    values = contract["queries"]["values"]["ndcg@10"][0]
    lowest = min((value, q) for q, value in enumerate(values) if value is not None)[1]
    assert rows_of(opened)[0] == lowest
    assert opened.page.locator("#query .lists h3").all_text_contents() == ["new", "ideal order"]


def test_any_two_of_three_candidates_can_be_compared(open_page):
    contract = contracts.of_three_candidates()
    opened = open_page(contract)
    page = opened.page
    for new, old in (("newest", "new"), ("old", "new"), ("old", "newest")):
        page.get_by_label("compare", exact=True).select_option(label=new)
        page.get_by_label("with", exact=True).select_option(label=old)
        entries = contract["verdicts"]["ndcg@10"]
        expected = next(one for one in entries if (one["a"], one["b"]) == (new, old))
        assert opened.text("#verdict-sentence") == expected["sentence"]
        assert page.locator("#query .lists h3").all_text_contents()[:2] == [old, new]
    page.get_by_label("with", exact=True).select_option(label="old")
    assert page.get_by_label("compare", exact=True).input_value() == "2"
    assert opened.problems == []


@pytest.mark.parametrize("make", [contracts.of_scores, contracts.of_ratings])
def test_other_candidates_and_labels_are_shown_without_error(open_page, make):
    opened = open_page(make())
    for metric in (
        opened.page.get_by_label("metric", exact=True).locator("option").all_text_contents()
    ):
        opened.page.get_by_label("metric", exact=True).select_option(metric)
    assert opened.problems == []


def test_a_query_without_a_relevant_document_is_called_skipped(open_page):
    contract = contracts.of_few_queries()
    opened = open_page(contract, f"#q={contract['queries']['id'][2]}")
    assert "skipped" in opened.text("#query .query-head")
    assert rows_of(opened) == [q for q in contracts.worst(contract) if q != 2]
    assert opened.problems == []


def test_a_table_and_the_csv_have_the_numbers_of_the_picture(open_page):
    contract = contracts.full()
    opened = open_page(contract, permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    page.get_by_role("button", name="Queries: copy as CSV").click()
    text = page.evaluate("navigator.clipboard.readText()")
    rows = list(csv.DictReader(io.StringIO(text)))
    ids = contract["queries"]["id"]
    assert [row["query"] for row in rows[:10]] == [ids[q] for q in contracts.worst(contract)]
    by_id = {row["query"]: row for row in rows}
    for q, change in enumerate(contracts.changes(contract)):
        if change is not None:
            assert round(float(by_id[ids[q]]["change"]) * 10_000) == change
    page.get_by_role("button", name="Slices: as table").click()
    table = page.locator("#slices .sheet tbody tr").evaluate_all(CELLS)
    groups = [group for slicing in contract["slices"].values() for group in slicing["ndcg@10"]]
    assert sorted((row[1], int(row[2])) for row in table) == sorted(
        (group["name"], group["queries"]) for group in groups
    )
    assert not page.locator("#slices .picture").is_visible()


def test_the_colours_can_be_switched(open_page):
    opened = open_page(contracts.full(), color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(ground)
    opened.page.get_by_role("button", name="Colours: auto").click()
    assert opened.page.evaluate(ground) != light
    opened.page.get_by_role("button", name="Colours: dark").click()
    assert opened.page.evaluate(ground) == light


def test_the_page_works_inside_of_another_one(open_page, tmp_path):
    write_page(contracts.full(), tmp_path / "inner.html")
    opened = open_page(contracts.full())
    page = opened.page
    outer = "data:text/html,<iframe sandbox='allow-scripts' width=900 height=700></iframe>"
    page.goto(outer)
    page.locator("iframe").evaluate(
        "(frame, text) => (frame.srcdoc = text)", (tmp_path / "inner.html").read_text("utf-8")
    )
    inner = page.frame_locator("iframe")
    inner.locator("html[data-ready]").wait_for(state="attached")
    inner.locator(".list tbody tr").nth(3).click()
    assert inner.locator(".list tbody tr").nth(3).get_attribute("aria-selected") == "true"
    assert json.dumps(opened.problems) == "[]"

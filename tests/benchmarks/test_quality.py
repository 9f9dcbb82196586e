"""The comparison with other libraries, without the real data: draws, fits, averages, claims."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.kept_fits import Results
from benchmarks.quality import fit_missing, frame_of
from benchmarks.quality_hypotheses import FAMILY, N_AVERAGED, PEERS, RECIPE, TREATMENTS
from benchmarks.quality_table import (
    BY_HAND,
    Comparison,
    Measured,
    Measuring,
    Members,
    Row,
    all_rows,
    average,
    body_of,
    claims,
    refit_rows,
    refits_body,
)
from benchmarks.real_data import Split

from benchmarks import quality_draws as draws
from rankgrove import evaluate, make_web_search

LIGHTGBM = "lightgbm lambdarank, 80 % of the features"


@pytest.fixture(scope="module")
def sets():
    parts = make_web_search(60, 16, mean_documents=12, seed=3).split(0.5, 0.25, 0.25)
    return {"web": [Split(*parts)]}


def frame(sets, n_draws=2, most=6):
    return frame_of(sets, n_draws, "code", most)


def fitted(sets, *wanted):
    found = Results(None, draws.Task)
    for each in wanted:
        for task in draws.tasks_of(each, frame(sets), found.found):
            found.add(draws.fit(sets[task.set_name], task))
    return found.found


def test_a_draw_is_nine_tenths_of_the_queries_and_a_function_of_draw_and_query(sets):
    train = sets["web"][0].train
    drawn = [draws.draw_queries(train, draw).query_ids.tolist() for draw in range(5)]
    assert {len(each) for each in drawn} == {round(0.9 * train.n_queries)}
    assert len({tuple(each) for each in drawn}) == 5
    order = train.query_ids.tolist()
    assert all(each == [query for query in order if query in set(each)] for each in drawn)
    # Whatever the order of the queries.
    turned = train.take_queries(np.arange(train.n_queries)[::-1])
    again = draws.draw_queries(turned, 3).query_ids.tolist()
    assert sorted(again) == sorted(drawn[3])


def test_over_many_draws_each_query_is_left_out_about_as_often(sets):
    train = sets["web"][0].train
    times = dict.fromkeys(train.query_ids.tolist(), 0)
    for draw in range(300):
        for query in draws.draw_queries(train, draw).query_ids.tolist():
            times[query] += 1
    assert 240 < min(times.values()) < max(times.values()) < 298


def test_every_peer_treatment_and_every_average_is_in_the_family_and_a_row_of_the_table():
    names = {row.name for row in all_rows()}
    assert len(FAMILY) == len(set(FAMILY)) == 2 * len(PEERS) * len(TREATMENTS) + len(PEERS)
    assert {name for each in FAMILY for name in (each.ours, each.theirs)} <= names
    assert {each.ours for each in FAMILY} == {RECIPE}
    assert len(names) == len(all_rows())


def test_what_the_table_needs_is_what_is_fitted():
    wanted = draws.order_of_fits(recipe=True)
    fits = {(each.candidate, each.kind, seed) for each in wanted for seed in each.seeds}
    for row in all_rows():
        for each in row.members:
            seeds = {(each.candidate, each.kind, seed) for seed in range(each.n_seeds)}
            assert seeds <= fits, row.name
    assert not any("effort" in each.candidate for each in draws.order_of_fits(recipe=False))


@pytest.mark.parametrize("key", [key for key, one in draws.SINGLES.items() if "effort" not in key])
def test_a_fit_is_the_same_again_and_follows_the_seed_only_where_it_is_said_to(sets, key):
    one = draws.SINGLES[key]
    pytest.importorskip("torch" if key == draws.NETWORKS else one.tool)
    wanted = draws.Wanted(key, draws.STOP, range(2))
    tasks = draws.tasks_of(wanted, frame(sets, 1), {})
    assert len(tasks) == 1 + one.random
    first = draws.fit(sets["web"], tasks[0])
    again = draws.fit(sets["web"], tasks[0])
    assert first["models"] == again["models"]
    other = draws.fit(sets["web"], tasks[0]._replace(seed=1))
    same = first["models"][draws.STOP]["scores"] == other["models"][draws.STOP]["scores"]
    assert same is not one.random


def test_a_refit_gives_first_trees_of_one_model_of_train_and_vali(sets):
    lightgbm = pytest.importorskip("lightgbm")
    assert lightgbm
    stop = draws.Wanted(LIGHTGBM, draws.STOP, range(1))
    again = draws.Wanted(LIGHTGBM, draws.AGAIN, range(1))
    assert draws.tasks_of(again, frame(sets), {}) == []
    found = fitted(sets, stop, again)
    for task, record in found.items():
        if task.kind == draws.AGAIN:
            kept = found[task._replace(kind=draws.STOP, stop=0)]["models"][draws.STOP]["trees"]
            models = record["models"]
            assert models[draws.STOP]["trees"] == kept == task.stop
            assert models[draws.GIVEN]["trees"] == 6
            assert (models[draws.STOP]["scores"] == models[draws.GIVEN]["scores"]) is (kept == 6)


def test_a_mark_follows_settings_and_data_and_for_ours_the_code():
    ours = draws.SINGLES["rankgrove yetirank, common"]
    theirs = draws.SINGLES["lightgbm lambdarank, common"]
    pytest.importorskip("lightgbm")
    assert draws.mark_of(ours, 1, "a") != draws.mark_of(ours, 1, "b")
    assert draws.mark_of(theirs, 1, "a") == draws.mark_of(theirs, 1, "b")
    assert draws.mark_of(theirs, 1, "") != draws.mark_of(theirs, 2, "")
    mean, topk = (draws.SINGLES[f"xgboost {name}, common"] for name in ("mean", "topk"))
    assert draws.mark_of(mean, 1, "") != draws.mark_of(topk, 1, "")


def test_an_average_weighs_members_by_their_spread_and_not_by_the_level_of_a_query(sets):
    test = sets["web"][0].test
    rng = np.random.default_rng(0)
    scores = [rng.standard_normal(test.n_documents) for _ in range(2)]
    shift = np.repeat(rng.standard_normal(test.n_queries), test.group)
    members = [draws.Kept(each, draws.spread_of(each, test.offsets), 1) for each in scores]
    moved = [
        draws.Kept(7 * scores[0] + shift, draws.spread_of(7 * scores[0], test.offsets), 1),
        members[1],
        draws.Kept(np.zeros(test.n_documents), 0.0, 1),
    ]
    total = average(members, test)
    np.testing.assert_allclose(average(moved, test), total, atol=1e-9)
    by_hand = sum(
        (each - np.repeat([part.mean() for part in np.split(each, test.offsets[1:-1])], test.group))
        / draws.spread_of(each, test.offsets)
        for each in scores
    )
    np.testing.assert_allclose(total, by_hand, atol=1e-9)


def test_a_row_is_measured_at_every_draw_and_left_out_while_a_fit_is_missing(sets):
    key = "rankgrove queryrmse, common"
    found = fitted(sets, draws.Wanted(key, draws.STOP, range(2)))
    test, single = sets["web"][0].test, Row("one", [Members(key, 2)], averages=False)
    measured = Measuring(sets, frame(sets), found).measure(single)
    for draw in range(2):
        values = [
            evaluate(test, draws.from_text(record["models"][draws.STOP]["scores"]), "ndcg@10")
            .per_query("ndcg@10")
            for task, record in found.items() if task.draw == draw
        ]  # fmt: skip
        np.testing.assert_array_equal(measured.values["web", "NDCG@10"][draw], np.mean(values, 0))
    total = sum(record["seconds"] for record in found.values())
    assert measured.seconds == pytest.approx(total / 4)
    both = Row("both", [Members(key, 2)], averages=True)
    assert Measuring(sets, frame(sets), found).measure(both).seconds == pytest.approx(total / 2)
    assert Measuring(sets, frame(sets), found).measure(
        Row("more", [Members(key, 3)], averages=True)
    ) is None  # fmt: skip


def comparison(above):
    """All rows of the family made up: the recipe so much above the others, with noise."""
    rng = np.random.default_rng(1)
    base = {name: rng.normal(0.5, 0.1, (1, 80)) for name in ("one", "two")}
    rows = {}
    for name in {each.ours for each in FAMILY} | {each.theirs for each in FAMILY}:
        values = {
            (of_set, metric): own + above * (name == RECIPE) + rng.normal(0, 0.005, (5, 80))
            for of_set, own in base.items() for metric in ("NDCG@10", "MAP", "MRR", "ERR")
        }  # fmt: skip
        rows[name] = Measured(values, 1.0)
    return Comparison(rows, list(base))


@pytest.mark.parametrize(("above", "shown"), [(0.03, 3), (0.0, 0), (-0.03, 0), (0.0075, 2)])
def test_a_claim_is_shown_only_if_all_its_differences_reach_the_target_beyond_holm(above, shown):
    text = claims(comparison(above).test())
    assert text.count("**shown**") == shown
    assert text.count("**not shown**") == 3 - shown


def test_a_hypothesis_that_was_not_tested_counts_in_holm_and_shows_nothing():
    whole = comparison(0.03)
    gone = f"{PEERS[0]}, {N_AVERAGED} averaged"
    less = Comparison({k: v for k, v in whole.measured.items() if k != gone}, whole.sets)
    tested = less.test()
    (missing,) = [each for each in tested if each.difference is None]
    assert missing.hypothesis.theirs == gone
    assert missing.adjusted == 1.0
    assert not missing.holds
    # The smallest p-value is multiplied by the whole family, as with nothing missing.
    smallest = min(each.difference.p_value for each in tested if each.difference)
    assert min(each.adjusted for each in tested) == pytest.approx(smallest * len(FAMILY))
    assert "1 could not be tested" in claims(tested)


def test_the_table_says_what_is_missing_and_that_nothing_was_tested_without_the_recipe(sets):
    key = "rankgrove queryrmse, common"
    found = fitted(sets, draws.Wanted(key, draws.STOP, range(3)))
    text = body_of(sets, frame(sets), found, recipe=False)
    assert f"| {key} | 1 |" in text
    assert BY_HAND in text.split("Left out, as fits are missing:")[1].split("\n\n")[0]
    assert "nothing of the family could be tested" in text
    assert text.count("not tested |") == len(FAMILY)


def test_fits_go_on_where_they_were_and_refits_follow_their_stops(sets, tmp_path):
    pytest.importorskip("lightgbm")
    wanted = [draws.Wanted(LIGHTGBM, kind, range(1)) for kind in (draws.STOP, draws.AGAIN)]
    path = tmp_path / "fits.jsonl"
    results = Results(path, draws.Task)
    assert fit_missing(wanted, frame(sets), sets, results, 1) == []
    assert [task.kind for task in results.found] == ["stop", "stop", "refit", "refit"]
    size = path.stat().st_size
    again = Results(path, draws.Task)
    assert again.found == results.found
    assert fit_missing(wanted, frame(sets), sets, again, 1) == []
    assert path.stat().st_size == size


def test_refits_of_a_peer_stand_beside_its_average_and_the_recipe(sets):
    names = [row.name for row in refit_rows("catboost YetiRank")]
    assert names[:2] == [RECIPE, "catboost YetiRank, 3 averaged"]
    assert sum("refit" in name for name in names) == 3
    assert sum("with our 3 networks" in name for name in names) == 2
    # XGBoost is averaged with no network.
    assert [row.name for row in refit_rows("xgboost mean")][2:] == [
        "xgboost mean, 3 averaged, refit on train and vali, 200 trees",
        "xgboost mean, 3 averaged, refit on train and vali, trees of the stop",
    ]
    with pytest.raises(SystemExit, match="fits are missing: rankgrove, effort high"):
        refits_body("catboost YetiRank", sets, frame(sets), {}, 0.0)

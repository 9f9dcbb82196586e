"""The comparison of objectives on real data, without the data: what is fitted, kept and said."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from rankgrove import Ranker, evaluate, make_web_search


@pytest.fixture(scope="module")
def benchmark():
    """The module; it sets limits of threads, and stands outside the package."""
    before, path = dict(os.environ), list(sys.path)
    sys.path.insert(0, str(Path(__file__).parents[2]))
    yield importlib.import_module("benchmarks.quality_objectives")
    os.environ.clear()
    os.environ.update(before)
    sys.path[:] = path


@pytest.fixture(scope="module")
def sets(benchmark):
    from benchmarks.real_data import Split

    parts = make_web_search(60, 16, mean_documents=12, seed=3).split(0.5, 0.25, 0.25)
    return {"web": [Split(*parts)]}


def task(benchmark, key, seed=0, n_trees=8):
    return benchmark.fits.Task(key, "web", 0, seed, n_trees, "")


def test_every_pair_of_twins_is_fitted_and_optimises_the_metric_it_is_compared_by(benchmark):
    fits = benchmark.fits
    for ours, theirs, metric in fits.TWINS:
        assert fits.CANDIDATES[ours].ours
        assert not fits.CANDIDATES[theirs].ours
        for key in (ours, theirs):
            assert fits.CANDIDATES[key].metric in (metric, None)


def test_seeds_are_the_outermost_loop_and_what_draws_nothing_has_the_first_only(benchmark, sets):
    candidates = benchmark.choose(None)
    tasks = benchmark.tasks_of(candidates, sets, (5, 6), 10)
    seeds = [one.seed for one in tasks]
    assert seeds == sorted(seeds)
    drawing = {one.key for one in candidates if one.random}
    assert {one.candidate for one in tasks if one.seed == 5} == {one.key for one in candidates}
    assert {one.candidate for one in tasks if one.seed == 6} == drawing
    assert "StochasticRank" in tasks[-2].candidate
    assert "PairLogitPairwise" in tasks[-1].candidate
    assert len(set(tasks)) == len(tasks)


def test_mark_follows_settings_data_and_for_ours_the_code(benchmark):
    fits = benchmark.fits
    pytest.importorskip("lightgbm")
    ours = fits.CANDIDATES["rankgrove yetirank, leafwise"]
    theirs = fits.CANDIDATES["lightgbm lambdarank"]
    assert fits.mark_of(ours, 10, 1, "a") != fits.mark_of(ours, 10, 1, "b")
    assert fits.mark_of(theirs, 10, 1, "a") == fits.mark_of(theirs, 10, 1, "b")
    for one in (ours, theirs):
        marks = {fits.mark_of(one, trees, data, "") for trees, data in ((9, 1), (10, 1), (10, 2))}
        assert len(marks) == 3


def test_results_go_on_after_a_line_that_was_cut_short(benchmark, tmp_path):
    path = tmp_path / "results.jsonl"
    first, second = (task(benchmark, key) for key in ("a", "b"))
    results = benchmark.Results(path, benchmark.Task)
    results.add({**first._asdict(), "values": {}})
    with path.open("a") as file:
        file.write(json.dumps({**second._asdict(), "values": {}})[:20])
    again = benchmark.Results(path, benchmark.Task)
    assert list(again.found) == [first]
    again.add({**second._asdict(), "values": {}})
    assert list(benchmark.Results(path, benchmark.Task).found) == [first, second]


@pytest.mark.filterwarnings("ignore:lambdamart with mrr")  # it is one of the candidates
@pytest.mark.parametrize("tool", ["rankgrove", "lightgbm", "xgboost"])
def test_what_is_said_to_draw_nothing_does_not_depend_on_the_seed(benchmark, sets, tool):
    if tool != "rankgrove":
        pytest.importorskip(tool)
    fits = benchmark.fits
    for one in fits.CANDIDATES.values():
        if one.tool == tool and not one.random:
            values = [fits.fit(sets["web"], task(benchmark, one.key, seed)) for seed in (0, 7)]
            assert values[0]["values"] == values[1]["values"], one.key
            assert values[0]["trees"] == values[1]["trees"], one.key


@pytest.mark.parametrize(
    "key",
    ["catboost QueryRMSE", "catboost YetiRank:mode=MAP", "lightgbm lambdarank", "xgboost rank:map",
     "rankgrove yetiloss MRR, oblivious", "rankgrove queryrmse, leafwise"],
)  # fmt: skip
def test_a_fit_goes_on_until_no_metric_improves_and_keeps_the_trees_up_to_the_best_by_each(
    benchmark, sets, key, monkeypatch
):
    fits, patience, most, kept = benchmark.fits, 5, 40, []
    one = fits.CANDIDATES[key]
    pytest.importorskip(one.tool)

    class Kept(fits.Stops):
        def __init__(self, metrics):
            super().__init__(metrics)
            kept.append(self)

    monkeypatch.setattr(fits, "Stops", Kept)
    monkeypatch.setattr(fits, "PATIENCE", patience)
    found = fits.fit(sets["web"], task(benchmark, key, n_trees=most))
    (stops,) = kept
    wanted = ["NDCG@10"] if one.metric in (None, "NDCG@10") else ["NDCG@10", one.metric]
    assert list(found["trees"]) == list(found["values"]) == wanted
    best = [int(np.argmax(values)) + 1 for values in stops.values.values()]
    assert list(found["trees"].values()) == best
    assert {len(values) for values in stops.values.values()} == {min(most, max(best) + patience)}


def test_values_at_a_stop_are_those_of_the_model_that_this_metric_alone_would_have_stopped(
    benchmark, sets
):
    fits = benchmark.fits
    key = "rankgrove yetiloss MRR, oblivious"
    found = fits.fit(sets["web"], task(benchmark, key, n_trees=60))
    train, vali, test = sets["web"][0]
    names = fits.metric_names(4)
    for stop in ("NDCG@10", "MRR"):
        ranker = Ranker(
            n_estimators=60, learning_rate=fits.LEARNING_RATE, early_stopping_rounds=fits.PATIENCE,
            eval_metric=names[stop], metric=names["MRR"], objective="yetiloss", grower="oblivious",
            random_state=0, n_jobs=1,
        ).fit(train, valid=vali)  # fmt: skip
        values = evaluate(test, ranker.predict(test), names["MRR"]).per_query(names["MRR"])
        kept = np.array(found["values"][stop]["MRR"], dtype=float)
        np.testing.assert_allclose(kept, values, atol=1e-7)
        assert found["trees"][stop] == ranker.best_iteration_


def test_the_table_has_the_own_stop_and_that_of_ndcg_beside_it(benchmark, tmp_path, sets):
    key = "catboost YetiRank:mode=MAP"
    pytest.importorskip("catboost")
    tasks = benchmark.tasks_of([benchmark.fits.CANDIDATES[key]], sets, (0,), 10)
    results = benchmark.Results(tmp_path / "made_up.jsonl", benchmark.Task)
    for one in tasks:
        values = {stop: {metric: [level, level] for metric in benchmark.fits.METRICS}
                  for stop, level in (("NDCG@10", 0.25), ("MAP", 0.75))}  # fmt: skip
        results.add({**one._asdict(), "values": values, "trees": {"NDCG@10": 3, "MAP": 9},
                     "seconds": 1.0})  # fmt: skip
    figures = benchmark.Figures(tasks, results, sets)
    (row,) = [line for line in figures.table_of("MAP").splitlines() if key in line]
    assert row.endswith("| **0.7500** | 0.2500 |")
    assert f"| `{key}` | 9 | 3 | 1 |" in benchmark.body_of(figures, (0,), 10, 1)


def made_up(benchmark, tmp_path, sets, shift):
    """Results in which ours is `shift` above theirs, with noise of 0.05 a query."""
    keys = ["rankgrove queryrmse, oblivious", "catboost QueryRMSE"]
    candidates = [benchmark.fits.CANDIDATES[key] for key in keys]
    tasks = benchmark.tasks_of(candidates, sets, (0,), 10)
    results = benchmark.Results(tmp_path / "made_up.jsonl", benchmark.Task)
    draw = np.random.default_rng(0)
    for one in tasks:
        ours = one.candidate.startswith("rankgrove")
        values = (0.5 + shift * ours + draw.normal(0, 0.05, 200)).tolist()
        record = {"values": {"NDCG@10": {key: [*values, None] for key in benchmark.fits.METRICS}}}
        results.add({**one._asdict(), **record, "trees": {"NDCG@10": 1}, "seconds": 1.0})
    return benchmark.Figures(tasks, results, sets)


@pytest.mark.parametrize(("shift", "word"), [(-0.1, "fails"), (0.1, "holds")])
def test_verdicts_follow_from_the_numbers(benchmark, tmp_path, sets, shift, word):
    figures = made_up(benchmark, tmp_path, sets, shift)
    twins = benchmark.say_twins(figures)[1]
    assert f"no mean is below {word}" in twins
    n_sets = len(sets)
    surely = f"ours is below in {n_sets * (shift < 0)} and above in {n_sets * (shift > 0)}, by"
    assert surely in twins
    said = benchmark.say_best(figures)[1]
    assert f"MAP {'+' if shift > 0 else '-'}0." in said
    assert "MRR" not in said
    assert "ERR" not in said
    body = benchmark.body_of(figures, (0,), 10, 1)
    bold = [line for line in body.splitlines() if "| **" in line]
    winner = "rankgrove" if shift > 0 else "catboost"
    assert len(bold) == 4
    assert all(winner in line for line in bold)
    assert " °" not in body.partition("### NDCG@10")[2]


def test_a_seed_that_is_not_whole_is_left_out_and_said(benchmark, tmp_path, sets):
    draws, plain = "rankgrove yetirank, oblivious", "rankgrove queryrmse, leafwise"
    candidates = [benchmark.fits.CANDIDATES[key] for key in (draws, plain)]
    tasks = benchmark.tasks_of(candidates, sets, (0, 1), 10)
    results = benchmark.Results(tmp_path / "made_up.jsonl", benchmark.Task)
    last = [one for one in tasks if one.seed == 1][-1]

    def add(one):
        values = {key: [one.seed - 0.5, one.seed + 0.5] for key in benchmark.fits.METRICS}
        results.add({**one._asdict(), "values": {"NDCG@10": values}, "trees": {"NDCG@10": 1},
                     "seconds": 1.0})  # fmt: skip

    for one in tasks:
        if one != last:
            add(one)
    figures = benchmark.Figures(tasks, results, sets)
    assert figures.fewer_seeds == {draws: 1}
    assert figures.mean(draws, "MAP") == 0.0
    assert f"`{draws}` (1)" in benchmark.body_of(figures, (0, 1), 10, 1)
    add(last)
    figures = benchmark.Figures(tasks, results, sets)
    assert not figures.fewer_seeds
    assert figures.mean(draws, "MAP") == 0.5


def test_one_tailed_p_value_is_small_only_on_its_side(benchmark):
    lower = benchmark.Difference(-0.1, 0.01, -0.12, -0.08, 0.02)
    assert benchmark.below(lower) == pytest.approx(0.01)
    assert benchmark.above(lower) == pytest.approx(0.99)


def test_labels_of_a_loss_are_those_of_its_metric(benchmark, sets):
    fits, data = benchmark.fits, sets["web"][0].train
    top = fits.top_grade(sets["web"])
    assert top == 4
    np.testing.assert_array_equal(fits.relabel(data, "binary", top).labels, data.labels > 0)
    np.testing.assert_array_equal(fits.relabel(data, "chances", top).labels, data.labels / 4)
    np.testing.assert_array_equal(fits.relabel(data, "grades", top).labels, data.labels)

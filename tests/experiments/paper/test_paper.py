"""The paper as a recipe: its figures, what is run for its tables, and that a run goes on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rankgrove import evaluate, make_web_search, parse_metric, write_letor
from rankgrove.data.benchmarks import BENCHMARKS, find_folds, read_fold
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.paper.cells import (
    ALGORITHMS,
    ALL_METRICS,
    FULL,
    METRICS,
    QUICK,
    TABLES,
    Budget,
    Cell,
    Row,
    cells_of,
    convert_labels,
    metric_name,
    parse_tables,
    parse_trials,
)
from rankgrove.experiments.paper.runs import Plan, Source, figures_of, run_plan, sizes_of
from rankgrove.experiments.paper.tables import (
    Figure,
    against_peers,
    among_best,
    make_grids,
    paper_figures,
    paper_values,
    plain_rows,
    relative_loss,
    say_peers,
    size_grid,
    to_json,
    to_latex,
    to_markdown,
)
from rankgrove.experiments.tune.spaces import default_space
from rankgrove.experiments.tune.studies import import_optuna
from rankgrove.objectives.registry import make_objective

SMALL = Budget(n_random=2, n_bayesian=1, max_trees=3)


def figure_of(table, metric, row, column):
    found = paper_figures()[table]
    return found["rows"][metric][row][found["columns"].index(column)]


# The figures of the paper.


def test_tables_have_as_many_figures_as_printed():
    counts = {
        name: sum(len(values) for rows in found["rows"].values() for values in rows.values())
        for name, found in paper_figures().items()
    }
    expected = {"1": 42, "2": 120, "3": 27, "4": 9, "5": 9, "22": 30, "23": 24, "24": 18, "25": 24}
    expected |= {str(n): 12 for n in range(6, 10)} | {str(n): 9 for n in range(10, 20)}
    assert counts == expected | {"20": 6, "21": 6}


def test_known_figures_are_in_their_places():
    assert figure_of("2", "NDCG@10", "LightGBM", "Web10K") == 50.39
    assert figure_of("2", "ERR", "YetiLoss", "Istella-S") == 86.59
    assert figure_of("3", "MAP", "No smoothing", "Yahoo S2") == 88.13
    assert figure_of("4", "NDCG@1", "all", "Istella-S") == 70.93
    assert figure_of("9", "ERR", "2", "Web10K") == 57.91
    assert figure_of("14", "NDCG@10", "Gaussian", "Yahoo S2") == 78.07
    assert figure_of("25", "ERR", "LambdaMART", "Istella") == [87.82, 3.11]


def test_ablations_start_from_the_figures_of_table_2():
    for number in range(4, 22):
        found = paper_figures()[str(number)]
        ((metric, rows),) = found["rows"].items()
        if metric not in METRICS:
            continue
        own = rows["1" if number < 10 else "Logistic"]
        name = "YetiRank" if number >= 10 and number % 2 == 0 else "YetiLoss"
        assert own == [figure_of("2", metric, name, column) for column in found["columns"]]


def test_table_3_repeats_tables_15_17_and_19():
    for metric, number in (("NDCG@10", "15"), ("MRR", "17"), ("MAP", "19")):
        assert paper_figures()["3"]["rows"][metric] == paper_figures()[number]["rows"][metric]


# What is run.


def test_every_table_of_the_paper_can_be_asked_for():
    assert [one.name for one in parse_tables("1-3, Figure 1, 4 to 9,10-21,22..25")] == list(TABLES)
    assert set(paper_figures()) == set(TABLES) - {"figure1"}


def test_rows_and_metrics_of_a_table_cover_those_of_the_paper():
    for name, found in paper_figures().items():
        if name == "1":
            continue
        table = TABLES[name]
        assert set(found["rows"]) == set(table.metrics)
        for metric, rows in found["rows"].items():
            shown = [row for row in table.rows if paper_values(table, metric, row)]
            assert len(shown) == len(rows)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("26", "table must be one of"), ("", "at least one table"), ("0", "table must be one of"),
     ("figur1", "did you mean 'figure1'")],
)  # fmt: skip
def test_other_tables_are_refused(text, problem):
    with pytest.raises(ParameterError, match=problem):
        parse_tables(text)


@pytest.mark.parametrize("text", ["0", "0+5", "many", "4+", "-1", "1+2+3"])
def test_wrong_numbers_of_trials_are_refused(text):
    with pytest.raises(ParameterError, match="trials must be a number, 1 or more"):
        parse_trials(text)


def test_budgets_are_those_of_the_paper_and_a_small_one():
    assert (FULL.n_random, FULL.n_bayesian, FULL.max_trees) == (20, 80, 1000)
    assert FULL.rounds == 1000  # no tree is left out: the best of all is taken
    assert QUICK.rounds < QUICK.max_trees <= 200
    with pytest.raises(ParameterError, match="max_trees must be a whole number"):
        Budget(max_trees=0)


def test_spaces_are_those_of_section_4_1():
    spaces = {}
    for one in ALGORITHMS.values():
        space, held = default_space(one.objective, one.fixed)
        spaces[one.name] = {name: (r.low, r.high, r.log) for name, r in space.items()}
        assert spaces[one.name].pop("learning_rate") == (1e-3, 1.0, True)
        oblivious = one.fixed["grower"] == "oblivious"
        assert held.get("min_samples_leaf") == (10 if oblivious else None)
    plain = {"l2_documents": (1e-3, 100.0, True), "max_depth": (6, 8, False)}
    for name in ("queryrmse", "lambdamart", "yetirank", "yetiloss"):
        assert spaces[name] == plain
    assert spaces["stochasticrank"] == {
        "max_depth": (6, 10, False), "shrink_rate": (1e-5, 1e-2, True),
        "temperature": (1e8, 1e11, True), "mu": (1e-2, 10.0, True),
    }  # fmt: skip
    assert spaces["lambdamart-leafwise"] == {
        "l2": (0.1, 100.0, True), "max_depth": (6, 16, False),
        "max_leaves": (16, 256, True), "min_samples_leaf": (1, 1000, True),
    }  # fmt: skip


def test_cells_of_table_2_are_all_algorithms_by_all_metrics():
    cells = cells_of(parse_tables("2"))
    assert len(cells) == 6 + 3 * 5
    peers = cells_of(parse_tables("2"), peers=["catboost", "lightgbm"])
    assert len(peers) == len(cells) + 20  # all but StochasticRank for MAP
    assert [cell.key for cell in peers if cell.tool == "lightgbm"] == [
        "lightgbm,lambdamart-leafwise,NDCG@10"
    ]


def test_cells_that_tables_share_are_run_once():
    cells = cells_of(parse_tables("3,figure1,4-21"), peers=["catboost"])
    assert len({cell.key for cell in cells}) == len(cells)
    assert all(cell.tool == "rankgrove" for cell in cells)
    # YetiLoss: 3 neighbours and 2 noises besides its own; NDCG@1 and NDCG@5 without 3 neighbours.
    assert len(cells) == 4 * 6 + 2 * 5 + 6 * 3


def test_pairs_of_the_tables_of_neighbours_are_exactly_so_many_ranks_apart():
    for name in ("figure1", *map(str, range(4, 10))):
        for row in TABLES[name].rows:
            one = ALGORITHMS[row.algorithm]
            objective = make_objective(one.objective, **_of_objective({**one.fixed, **row.changes}))
            apart = (1, 50) if row.title == "all" else (int(row.title), int(row.title))
            assert objective.distances(50) == apart


def _of_objective(fixed):
    return {name: value for name, value in fixed.items() if name != "grower"}


def test_cells_can_be_chosen_by_algorithm_and_metric_in_any_case():
    cells = cells_of(parse_tables("2"), ["YetiRank"], ["map", "NDCG@10"])
    assert [cell.key for cell in cells] == ["rankgrove,yetirank,NDCG@10", "rankgrove,yetirank,MAP"]
    with pytest.raises(ParameterError, match="did you mean 'yetirank'"):
        cells_of(parse_tables("2"), ["yetirnk"])
    with pytest.raises(ParameterError, match="metric must be one of NDCG@1,"):
        cells_of(parse_tables("2"), None, ["precision"])
    with pytest.raises(ParameterError, match="must leave something of the tables"):
        cells_of(parse_tables("3"), ["yetirank"])


def naive_mrr(labels):
    relevant = [rank for rank, label in enumerate(labels, start=1) if label > 0]
    return 1 / relevant[0] if relevant else 0.0


def naive_map(labels):
    relevant = [rank for rank, label in enumerate(labels, start=1) if label > 0]
    precisions = [(at + 1) / rank for at, rank in enumerate(relevant)]
    return sum(precisions) / len(relevant) if relevant else 0.0


def naive_err(labels):
    total, reach = 0.0, 1.0
    for rank, label in enumerate(labels, start=1):
        total += reach * label / 4 / rank
        reach *= 1 - label / 4
    return total


def naive_ndcg(labels):
    def dcg(ranked):
        return sum((2**r - 1) / np.log2(p + 1) for p, r in enumerate(ranked[:10], start=1))

    best = dcg(sorted(labels, reverse=True))
    return dcg(labels) / best if best else 1.0


def test_metrics_are_those_of_section_2_2_with_the_labels_of_section_4_1():
    naive = {"NDCG@10": naive_ndcg, "MRR": naive_mrr, "MAP": naive_map, "ERR": naive_err}
    data = make_web_search(40, 16, mean_documents=12, seed=2)
    labels = np.where(np.repeat(np.arange(40) % 8 == 0, data.group), 0, data.labels)
    data = replace(data, labels=labels.astype(np.float32))
    scores = np.random.default_rng(0).integers(0, 4, data.n_documents).astype(float)
    for metric, expected in naive.items():
        name = metric_name(metric)
        converted = replace(data, labels=convert_labels(metric, data.labels, 4))
        found = evaluate(converted, scores, name).per_query(name)
        for q in range(data.n_queries):
            rows = slice(data.offsets[q], data.offsets[q + 1])
            # Of equal scores the less relevant first.
            order = np.lexsort((labels[rows], -scores[rows]))
            assert found[q] == pytest.approx(expected(labels[rows][order].tolist()), abs=1e-12)


@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
def test_another_policy_for_empty_queries_can_be_chosen(empty):
    for metric in ALL_METRICS:
        assert parse_metric(metric_name(metric, empty)).empty == empty
    with pytest.raises(ParameterError, match="empty must be one of paper"):
        metric_name("MAP", "none")


def test_labels_are_converted_as_section_4_1_says():
    labels = np.arange(5, dtype=np.float32)
    assert convert_labels("NDCG@5", labels, 4) is labels
    for metric in ("MRR", "MAP"):
        assert convert_labels(metric, labels, 4).tolist() == [0, 1, 1, 1, 1]
    assert convert_labels("ERR", labels, 4).tolist() == [0, 0.25, 0.5, 0.75, 1]
    for metric in ALL_METRICS:
        assert convert_labels(metric, labels, 4).dtype == np.float32


# Our tables.


def figure(mean, spread=0.1, train=0.9, seed=0):
    noise = np.random.default_rng(seed).normal(0, 1, 200)
    noise = spread * (noise - noise.mean())
    return Figure(mean + noise, 100 * train)


def table_2_figures(peers=False):
    cells = cells_of(parse_tables("2"), metrics=["NDCG@10"], peers=["catboost"] if peers else ())
    values = {"rankgrove": (0.5, 0.7, 0.6, 0.69, 0.4, 0.3), "catboost": (0.2, 0.3, 0.4, 0.5, 0.6)}
    found = {}
    for tool, means in values.items():
        own = [cell for cell in cells if cell.tool == tool]
        for at, (cell, mean) in enumerate(zip(own, means, strict=False)):
            found["mine", cell.key] = figure(mean, seed=at)
    return cells, found


def test_best_and_what_is_not_significantly_below_are_marked():
    rng = np.random.default_rng(0)
    best = rng.normal(0.6, 0.1, 50)
    near, far = best + rng.normal(-0.001, 0.1, 50), best - 0.05
    skipped = best.copy()
    skipped[:5] = np.nan
    found = among_best({"best": best, "near": near, "far": far, "skipped": skipped - 0.05})
    assert found == {"best", "near"}
    assert among_best({}) == set()


def test_grid_has_ours_then_the_paper_and_only_the_column_of_a_known_set():
    cells, figures = table_2_figures()
    (grid,) = make_grids(TABLES["2"], cells, figures, {"mine": None})
    assert grid.columns[0] == "mine"
    assert len(grid.columns) == 1 + 6
    known = {("Web10K", key): value for (_, key), value in figures.items()}
    (grid,) = make_grids(TABLES["2"], cells, known, {"Web10K": "Web10K"})
    assert grid.columns == ("Web10K", "paper: Web10K")
    assert [line.entries[0].numbers[0] for line in grid.lines] == pytest.approx(
        [50, 70, 60, 69, 40, 30]
    )
    assert grid.lines[0].entries[1].numbers == (50.39,)
    assert [line.entries[0].best for line in grid.lines] == [False, True, False, True, False, False]


def test_grid_of_peers_has_them_beside_ours_and_says_who_is_above():
    cells, figures = table_2_figures(peers=True)
    (grid,) = make_grids(TABLES["2"], cells, figures, {"mine": None})
    assert grid.columns[:2] == ("mine", "mine, peer")
    assert grid.lines[0].entries[1].numbers == ()  # LightGBM was not run
    pairs = against_peers(cells, figures, ["mine"])
    assert len(pairs) == 5
    said = say_peers(pairs)
    assert "ours is higher in 3; significantly above in 3 and below in 2" in said
    assert "Below: yetirank NDCG@10 on mine, yetiloss NDCG@10 on mine." in said


def test_grid_is_shown_as_text_markdown_latex_and_values():
    cells, figures = table_2_figures()
    (grid,) = make_grids(TABLES["2"], cells, figures, {"my_set": None})
    header, rows = plain_rows(grid)
    assert header[:2] == ["NDCG@10", "my_set"]
    assert rows[0][:3] == ["Leaf-wise LambdaMART", "-", "50.39"]
    (grid,) = make_grids(TABLES["2"], cells, figures, {"mine": None})
    assert plain_rows(grid)[1][1][:3] == ["QueryRMSE", "70.00*", "50.55 "]
    assert "| QueryRMSE | **70.00** | 50.55 |" in to_markdown(grid)
    assert r"QueryRMSE & \textbf{70.00} & 50.55 &" in to_latex(grid)
    values = json.loads(json.dumps(to_json(grid)))
    assert values["rows"][1]["entries"][1] == {"values": [50.55], "best": False}


def test_gap_tables_have_train_and_train_less_test():
    cells = cells_of(parse_tables("23"), ["yetirank"])
    figures = {("Web10K", cells[0].key): figure(0.84, train=0.87)}
    (grid,) = make_grids(TABLES["23"], cells, figures, {"Web10K": "Web10K"})
    assert plain_rows(grid) == (
        ["MRR", "Web10K, train", "Web10K, gap", "paper: Web10K, train", "paper: Web10K, gap"],
        [["YetiRank", "87.00", "3.00", "87.02", "2.80"]],
    )


def test_figure_1_is_the_relative_loss_to_one_neighbour():
    cells = cells_of(parse_tables("figure1"), metrics=["MAP"])
    means = (0.60, 0.62, 0.59, 0.60)
    figures = {("x", c.key): figure(mean) for c, mean in zip(cells, means, strict=True)}
    (grid,) = make_grids(TABLES["figure1"], cells, figures, {"x": None})
    ours = [line.entries[0].numbers[0] for line in grid.lines]
    assert ours == pytest.approx([0.0, -5.0, 2.5, 0.0])
    printed = grid.lines[2].entries[1].numbers[0]
    assert printed == pytest.approx(relative_loss(62.54, 62.62))
    assert grid.lines[0].entries[1].numbers == (0.0,)


# Runs.


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two folds of a tiny data set."""
    directory = tmp_path_factory.mktemp("data") / "tiny"
    data = make_web_search(40, 16, mean_documents=8, seed=4)
    for fold in (1, 2):
        folder = directory / f"Fold{fold}"
        folder.mkdir(parents=True)
        for part, of in zip(("train", "vali", "test"), data.split(0.5, 0.25, 0.25, seed=fold),
                            strict=True):  # fmt: skip
            write_letor(of, folder / f"{part}.txt")
    return directory


def make_plan(place, out, cells, folds=None, **changes):
    return Plan(
        (Source.open(place, folds=folds),), tuple(cells), out, **{"budget": SMALL, **changes}
    )


def without_time(records):
    return {key: {k: v for k, v in one.items() if k != "seconds"} for key, one in records.items()}


def test_run_gives_a_cell_a_fold_and_means_over_all_test_queries(place, tmp_path):
    cells = cells_of(parse_tables("2"), ["queryrmse", "stochasticrank"], ["ERR"])
    plan = make_plan(place, tmp_path, cells, n_jobs=1)
    records = run_plan(plan)
    assert len(records) == plan.total == 4
    figures = figures_of(plan, records)
    for cell in cells:
        own = [records["tiny", fold, cell.key] for fold in (1, 2)]
        test = [read_fold(fold).test for fold in find_folds(place)]
        assert [len(one["values"]) for one in own] == [part.n_queries for part in test]
        assert own[0]["metric"] == "err(r/1, empty=zero)"
        values = np.concatenate([one["values"] for one in own])
        assert figures["tiny", cell.key].test == pytest.approx(100 * values.mean(), rel=1e-12)
        train = np.mean([one["train"] for one in own])
        assert figures["tiny", cell.key].train == pytest.approx(100 * train, rel=1e-12)
        assert all(1 <= one["trees"] <= 3 for one in own)
    assert set(own[0]["parameters"]) == {
        "learning_rate", "max_depth", "shrink_rate", "temperature", "mu"
    }  # fmt: skip


@pytest.mark.parametrize("tool", ["rankgrove", "catboost"])
@pytest.mark.parametrize("algorithm", ["stochasticrank", "yetirank", "queryrmse"])
def test_err_cells_train_on_chances_and_not_on_grades(place, tmp_path, algorithm, tool):
    if tool == "catboost":
        pytest.importorskip(tool)
    cell = Cell(Row("", algorithm), "ERR", tool)
    budget = Budget(n_random=1, n_bayesian=0, max_trees=3)
    (fold,) = find_folds(place)[:1]
    records = []
    for top in (1, 4):
        folder = tmp_path / f"top{top}"
        folder.mkdir()
        for part, data in zip(("train", "vali", "test"), read_fold(fold), strict=True):
            labels = top * (data.labels > 2).astype(np.float32)
            write_letor(replace(data, labels=labels), folder / f"{part}.txt")
        plan = make_plan(folder, tmp_path / "out", [cell], budget=budget, n_jobs=1)
        records += run_plan(plan).values()
    # Grade 4 of 4 and grade 1 of 1 are the same chance.
    for name in ("parameters", "trees", "values"):
        assert records[0][name] == records[1][name]


def test_what_is_finished_is_not_run_again_and_what_is_lost_comes_back_the_same(place, tmp_path):
    cells = cells_of(parse_tables("3"), metrics=["MAP"])
    plan = make_plan(place, tmp_path, cells, folds=[1])
    told = []
    first = run_plan(plan, told.append)
    assert [p.record is None for p in told] == [True, False] * 3
    told.clear()
    assert run_plan(plan, told.append) == first
    assert [p.record is None for p in told] == [False] * 3
    files = sorted((tmp_path / "cells").iterdir())
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:50])
    told.clear()
    assert without_time(run_plan(plan, told.append)) == without_time(first)
    assert sum(p.record is None for p in told) == 2


def test_another_budget_or_other_data_are_not_mixed_up(place, tmp_path):
    cells = cells_of(parse_tables("2"), ["queryrmse"], ["MAP"])
    run_plan(make_plan(place, tmp_path, cells, folds=[1]))
    for changes in ({"folds": [2]}, {"budget": replace(SMALL, max_trees=2)}, {"empty": "skip"}):
        told = []
        run_plan(make_plan(place, tmp_path, cells, **{"folds": [1], **changes}), told.append)
        assert told[0].record is None


def test_table_1_has_the_sizes_of_our_sets_and_then_those_of_the_paper(place):
    source = Source.open(place)
    grid = size_grid(sizes_of([source, replace(source, name="one", folds=source.folds[:1])], 0, 1))
    header, rows = plain_rows(grid)
    assert header[:3] == ["data set", "features", "queries train"]
    assert [row[0] for row in rows[:4]] == ["tiny, fold 1", "tiny, fold 2", "one", "paper: Web10K"]
    split = read_fold(source.folds[0])
    assert rows[0][1:] == [
        "16", *(str(part.n_queries) for part in split), *(str(part.n_documents) for part in split)
    ]  # fmt: skip
    assert rows[3][5] == "723,412"
    assert "| paper: Web10K | 136 | 6,000 |" in to_markdown(grid)
    assert to_json(grid)["rows"][3]["entries"][4]["values"] == [723412]


@pytest.mark.parametrize("tool", ["rankgrove", "catboost"])
def test_bayesian_trials_are_drawn_by_the_sampler_that_is_named(place, tmp_path, tool):
    pytest.importorskip("torch")
    pytest.importorskip(tool)
    optuna = import_optuna()
    for sampler in ("tpe", "gp"):
        budget = Budget(n_random=1, n_bayesian=3, max_trees=2, sampler=sampler)
        cells = [Cell(Row("", "queryrmse"), "MAP", tool)]
        run_plan(make_plan(place, tmp_path, cells, folds=[1], budget=budget, n_jobs=1))
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    first, second = (
        [trial.params for trial in optuna.load_study(study_name=name, storage=url).trials]
        for name in optuna.get_all_study_names(url)
    )
    assert len(first) == len(second) == 4
    assert first[0] == second[0]
    assert first[1:] != second[1:]


def test_another_sampler_is_refused():
    with pytest.raises(ParameterError, match="sampler must be one of tpe, gp"):
        Budget(sampler="random")


def test_two_directories_of_one_name_are_refused(place, tmp_path):
    source = Source.open(place)
    with pytest.raises(ParameterError, match=r"must have different names. Got tiny, tiny"):
        Plan((source, source), (), tmp_path)


def test_sizes_that_are_not_those_of_the_set_are_warned_of(place, tmp_path):
    source = Source.open(place, BENCHMARKS["mq2008"], [1])
    cells = cells_of(parse_tables("2"), ["queryrmse"], ["MAP"])
    said = []
    plan = Plan((replace(source, folds=source.folds[:1]),), tuple(cells), tmp_path, SMALL)
    run_plan(plan, warn=said.append)
    assert len(said) == 1
    assert said[0].startswith("MQ2008, fold 1: not as MQ2008 was published: labels up to 4 in")


def test_results_are_refused_where_they_cannot_be_kept(place, tmp_path):
    (tmp_path / "file").touch()
    cells = cells_of(parse_tables("2"), ["queryrmse"], ["MAP"])
    with pytest.raises(DataError, match="cannot be made a directory"):
        run_plan(make_plan(place, tmp_path / "file" / "x", cells))


@pytest.mark.parametrize(("algorithm", "tool"), [("yetiloss", "catboost"),
                                                 ("lambdamart-leafwise", "lightgbm")])  # fmt: skip
def test_peer_is_given_the_random_draws_of_ours(place, tmp_path, algorithm, tool):
    pytest.importorskip(tool)
    row = Row("", algorithm)
    cells = [Cell(row, "NDCG@10"), Cell(row, "NDCG@10", tool)]
    # A seed that draws leaves small enough for so few documents.
    budget = Budget(n_random=1, n_bayesian=0, max_trees=2, seed=1)
    records = run_plan(make_plan(place, tmp_path, cells, folds=[1], budget=budget, n_jobs=1))
    ours, theirs = (records["tiny", 1, cell.key] for cell in cells)
    assert ours["parameters"] == theirs["parameters"]
    assert 1 <= theirs["trees"] <= 2
    assert theirs["values"] != ours["values"]

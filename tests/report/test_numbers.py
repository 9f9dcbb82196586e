"""Every number of a report is what the function gives that the library has for it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankgrove import compare, evaluate, generalisation_gap, make_report, parse_metric
from rankgrove.data.describe import describe
from rankgrove.metrics.base import Rankings
from rankgrove.model.forces import forces_over_trees
from report.samples import METRICS, check_schema, rows_of_tops


@pytest.fixture
def comparison(parts, models):
    return compare(
        parts["test"], models, METRICS, baseline="old", slices=["length", "relevant"]
    )  # fmt: skip


def ranks_of(data, scores, ties="worst"):
    """The rank of each row, one query at a time."""
    ranks = np.empty(data.n_documents, int)
    for lo, hi in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        rows = sorted(range(lo, hi), key=lambda row: (-scores[row], data.labels[row], row))
        for rank, row in enumerate(rows, 1):
            ranks[row] = rank
    return ranks


def row_of(data, query, document):
    return int(data.offsets[query]) + document - 1


def test_the_contents_are_as_the_schema_says(contents):
    check_schema(contents)


def test_the_comparison_and_the_description_are_those_of_the_library(contents, comparison, parts):
    assert contents["comparison"] == comparison.to_dict(pairs=True)
    assert contents["data"] == describe(parts["test"]).to_dict()


def test_values_of_queries_are_those_of_evaluate_in_ten_thousandths(contents, parts, models):
    data, queries = parts["test"], contents["queries"]
    assert queries["id"] == [str(query) for query in data.query_ids]
    assert queries["documents"] == data.group.tolist()
    for at, model in enumerate(models.values()):
        table = evaluate(data, model.predict(data), METRICS)
        for metric in METRICS:
            for got, value in zip(
                queries["values"][metric][at], table.per_query(metric), strict=True
            ):
                assert got is None if math.isnan(value) else got == round(value / queries["unit"])


def test_groups_are_those_of_the_slicings(contents, comparison):
    for name, slicing in comparison.slicings.items():
        groups = contents["queries"]["groups"][name]
        assert groups == {"names": list(slicing.groups), "of": slicing.group_of.tolist()}


def test_verdicts_are_the_pairs_in_both_directions(contents, comparison):
    for metric in METRICS:
        pair = comparison.pairs(metric)[0]
        there, back = contents["verdicts"][metric]
        assert (there["a"], there["b"], back["a"], back["b"]) == ("old", "new", "new", "old")
        assert [there[name] for name in ("difference", "low", "high", "p", "wins", "losses")] == [
            pair.difference, pair.low, pair.high, pair.p, pair.wins, pair.losses,
        ]  # fmt: skip
        assert [back[name] for name in ("difference", "low", "high", "p", "wins", "losses")] == [
            -pair.difference, -pair.high, -pair.low, pair.p, pair.losses, pair.wins,
        ]  # fmt: skip
        values = comparison.per_query(metric)
        gains = values["new"] - values["old"]
        assert back["skipped"] == np.isnan(gains).sum()
        for harm in back["harm"]:
            assert harm["losses"] == (gains < -harm["threshold"]).sum()
            assert harm["wins"] == (gains > harm["threshold"]).sum()


def test_a_verdict_is_a_sentence_with_its_numbers(contents):
    verdict = contents["verdicts"]["ndcg@10"][1]
    means = contents["comparison"]["metrics"]["ndcg@10"]["candidates"]
    assert verdict["word"] in ("better", "unclear")
    for part in (
        f"ndcg@10 {means['old']['mean']:.4f} to {means['new']['mean']:.4f}",
        f"{verdict['difference']:+.4f} ({verdict['low']:+.4f} to {verdict['high']:+.4f})",
        f"{verdict['wins']} queries better, {verdict['ties']} equal, {verdict['losses']} worse",
        "two-sided",
    ):
        assert part in verdict["sentence"]


def test_slices_are_pairs_over_the_queries_of_a_group_with_holm_over_all(
    contents, comparison, parts, models
):
    data = parts["test"]
    slicing = comparison.slicings["length"]
    groups = contents["slices"]["length"]["ndcg@10"]
    found = []
    for number, group in enumerate(groups):
        part = data.take_queries(slicing.group_of == number)
        alone = compare(part, models, "ndcg@10").pairs("ndcg@10")[0]
        found.append(alone.p)
        got = group["pairs"][0]
        assert group["queries"] == part.n_queries
        assert got["difference"] == pytest.approx(alone.difference, rel=1e-12)
        assert (got["low"], got["high"]) == pytest.approx((alone.low, alone.high), rel=1e-12)
        assert got["wins"] == alone.wins
    adjusted = comparison.method.adjust(found)
    assert [group["pairs"][0]["adjusted"] for group in groups] == pytest.approx(adjusted, rel=1e-9)


def test_shown_documents_are_the_first_of_any_candidate_and_of_the_ideal_order(
    contents, parts, models
):
    data, tops = parts["test"], contents["tops"]
    ranks = [ranks_of(data, model.predict(data)) for model in models.values()]
    shown = []
    for query, places in enumerate(rows_of_tops(tops)):
        rows = [row_of(data, query, tops["document"][place]) for place in places]
        shown += rows
        lo, hi = data.offsets[query], data.offsets[query + 1]
        by_label = sorted(
            range(lo, hi), key=lambda row: (-data.labels[row], min(r[row] for r in ranks), row)
        )
        first = {row for row in range(lo, hi) if min(r[row] for r in ranks) <= tops["k"]}
        assert sorted(rows) == sorted(first | set(by_label[: tops["k"]]))
        ideal = [min(by_label.index(row) + 1, tops["k"] + 1) for row in rows]
        assert [tops["ideal"][place] for place in places] == ideal
    assert tops["label"] == data.labels[shown].tolist()
    assert tops["rank"] == [rank[shown].tolist() for rank in ranks]
    for scores, model in zip(tops["score"], models.values(), strict=True):
        assert scores == pytest.approx(model.predict(data)[shown], abs=1e-4)


def test_gains_by_rank_and_the_rest_add_up_to_the_mean(contents):
    gains = contents["by_rank"]["gains"]
    for metric in ("ndcg@10", "map"):
        means = contents["comparison"]["metrics"][metric]["candidates"]
        for at, name in enumerate(("old", "new")):
            total = math.fsum(gains[metric]["by_rank"][at]) + gains[metric]["rest"][at]
            assert total == pytest.approx(means[name]["mean"], abs=1e-9)
    assert gains["pair_accuracy"] == {
        "by_rank": None, "rest": None, "reason": "pair_accuracy does not add up over ranks.",
    }  # fmt: skip


def test_the_share_of_a_document_is_what_its_rank_gives(contents, parts, models):
    data, tops, shares = parts["test"], contents["tops"], contents["shares"]
    assert shares["queries"] == list(range(data.n_queries))
    assert shares["values"]["pair_accuracy"] is None
    ndcg = parse_metric("ndcg@10")
    for query, places in enumerate(rows_of_tops(tops)):
        rows = slice(*data.offsets[query : query + 2])
        best = Rankings(data.labels[rows], data.labels[rows], [0, data.group[query]])
        ideal = parse_metric("dcg@10").per_query(best)[0]
        for place in places:
            rank, label = tops["rank"][1][place], tops["label"][place]
            share = (2**label - 1) / math.log2(1 + rank) / ideal if rank <= ndcg.k else 0.0
            assert shares["values"]["ndcg@10"][1][place] == round(np.nan_to_num(share) * 1e4)


def test_labels_by_rank_count_the_documents_there(contents, parts, models):
    data, by_rank = parts["test"], contents["by_rank"]
    for at, model in enumerate(models.values()):
        ranks = ranks_of(data, model.predict(data))
        for rank in range(1, by_rank["ranks"] + 1):
            there = data.labels[ranks == rank]
            counts = [(there == grade).sum() for grade in by_rank["grades"]]
            assert by_rank["labels"][at][rank - 1] == counts
            assert by_rank["mean_label"][at][rank - 1] == pytest.approx(there.mean(), abs=1e-6)
            assert by_rank["queries"][rank - 1] == len(there)


def test_pairs_of_labels_are_counted_one_by_one(contents, parts, models):
    data, labels = parts["test"], contents["labels"]
    n_grades = len(labels["grades"])
    for at, model in enumerate(models.values()):
        scores = model.predict(data)
        pairs, wrong, tied = np.zeros((3, n_grades, n_grades), int)
        for lo, hi in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            for i in range(lo, hi):
                for j in range(lo, hi):
                    if data.labels[i] > data.labels[j]:
                        cell = (
                            labels["grades"].index(data.labels[i]),
                            labels["grades"].index(data.labels[j]),
                        )
                        pairs[cell] += 1
                        wrong[cell] += scores[i] < scores[j]
                        tied[cell] += scores[i] == scores[j]
        assert labels["pairs"] == pairs.tolist()
        assert labels["wrong"][at] == wrong.tolist()
        assert labels["tied"][at] == tied.tolist()


def test_scores_by_label_are_quantiles_of_the_score_less_the_mean_of_its_query(
    contents, parts, models
):
    data, labels = parts["test"], contents["labels"]
    scores = models["new"].predict(data)
    means = [
        scores[lo:hi].mean() for lo, hi in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]
    centred = scores - np.repeat(means, data.group)
    for grade, got in zip(labels["grades"], labels["scores"][1], strict=True):
        quantiles = np.quantile(centred[data.labels == grade], labels["quantiles"])
        assert got == pytest.approx(quantiles, abs=1e-4)


def test_reasons_are_the_contributions_of_the_models(contents, parts, models):
    data, tops, why = parts["test"], contents["tops"], contents["why"]
    n = why["features"]
    assert why["queries"] == list(range(data.n_queries))
    assert why["counts"] == tops["counts"]
    for at, model in enumerate(models.values()):
        parts_of_scores, scores = model.contributions(data), model.predict(data)
        unit = 10.0 ** -(2 - math.floor(math.log10(np.abs(why["adds"][at]).max())))
        for query, places in enumerate(rows_of_tops(tops)):
            named = [why["names"][one] for one in why["feature"][n * query : n * (query + 1)]]
            columns = [model.feature_names.index(name) for name in named]
            for place in places:
                row = row_of(data, query, tops["document"][place])
                adds = why["adds"][at][n * place : n * (place + 1)]
                assert adds == pytest.approx(parts_of_scores[row, columns], abs=0.51 * unit)
                score = why["start"][at] + sum(adds) + why["rest"][at][place]
                assert score == pytest.approx(scores[row], abs=(n + 1) * unit)
                values = np.array(why["value"][n * place : n * (place + 1)], float)
                assert values == pytest.approx(data.features[row, columns], rel=1e-3, nan_ok=True)


def test_what_parts_two_documents_is_what_why_says(contents, parts, models):
    data, tops, why = parts["test"], contents["tops"], contents["why"]
    n = why["features"]
    first, second = 0, 1
    rows = [row_of(data, 0, tops["document"][place]) for place in (first, second)]
    told = {row.feature: row.difference for row in models["new"].why(data, *rows).differences}
    for number in range(n):
        name = why["names"][why["feature"][number]]
        adds = why["adds"][1]
        gap = adds[n * first + number] - adds[n * second + number]
        assert gap == pytest.approx(told.get(name, 0.0), abs=2e-3)


def test_importances_are_those_of_the_models(contents, parts, models):
    features = contents["features"]
    names = features["names"]
    for at, model in enumerate(models.values()):
        own = [model.feature_names.index(name) for name in names]
        found = features["candidates"][at]
        gains = [0.0 if gain is None else gain for gain in found["gain"]]
        assert gains == pytest.approx(model.importance("gain")[own], rel=1e-4)
        splits = [0 if split is None else split for split in found["split"]]
        assert splits == model.importance("split")[own].tolist()
        drops = model.permutation_importance(parts["test"].take_queries(
            [q for q, v in enumerate(contents["queries"]["values"]["ndcg@10"][0]) if v is not None]
        ), "ndcg@10", repeats=features["repeats"])  # fmt: skip
        assert found["permutation"]["baseline"] == drops.baseline
        for place, column in enumerate(own):
            if found["permutation"]["mean"][place] is not None:
                mean = found["permutation"]["mean"][place], found["permutation"]["std"][place]
                assert mean == pytest.approx((drops.mean[column], drops.std[column]), abs=1e-6)


def test_dependence_is_the_mean_effect_within_the_query(contents, parts, models):
    data, dependence = parts["test"], contents["features"]["dependence"][0]
    feature = models["new"].feature_names.index(
        contents["features"]["names"][dependence["feature"]]
    )
    column = models["new"].contributions(data)[:, feature]
    means = [
        column[lo:hi].mean() for lo, hi in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]
    effects = column - np.repeat(means, data.group)
    # All documents of this sample are looked at.
    assert contents["features"]["documents"] == data.n_documents
    assert sum(dependence["density"]) + dependence["missing"] == data.n_documents
    weighted = np.dot(dependence["y"][1], dependence["density"])
    weighted += dependence["missing"] * (dependence["y_missing"][1] or 0.0)
    assert weighted == pytest.approx(effects.sum(), abs=0.02)
    assert np.all(np.diff(dependence["x"]) > 0)
    lowest = data.features[:, feature] <= dependence["x"][0]
    assert dependence["density"][0] >= lowest.sum()


def test_training_has_the_history_the_gap_and_the_curves(contents, parts, models):
    training = contents["training"]
    assert [one["history"] for one in training["candidates"]] == [
        m.history for m in models.values()
    ]
    gap = generalisation_gap(models, parts["train"], parts["test"], METRICS)
    assert {(row["name"], row["metric"]): row["gap"] for row in training["gap"]} == {
        (row.name, row.metric): row.gap for row in gap.rows
    }
    for name, model in models.items():
        curve = training["curves"][name]["map"]
        assert curve["train"] == gap.curves[name]["map"].train
        assert curve["test"] == gap.curves[name]["map"].test
        after = [
            evaluate(parts["vali"], model.predict(parts["vali"], n_trees=n), "map")["map"]
            for n in curve["n_trees"]
        ]
        assert curve["valid"] == after


def test_forces_are_those_through_training(contents, parts, models):
    films = contents["forces"]
    assert [(film["name"], film["part"]) for film in films] == [
        ("old", "train"), ("old", "train"), ("new", "train"), ("new", "train"),
    ]  # fmt: skip
    film = films[-1]
    assert film["objective"] == "lambdamart"
    assert sorted(film["forces"]) == ["lambdamart", "rankmart"]
    for field, scores, forces in zip(
        forces_over_trees(models["new"], parts["train"], film["trees"]),
        film["scores"],
        film["forces"]["lambdamart"],
        strict=True,
    ):
        of_query = field.of_query(film["query"])
        assert of_query.labels.tolist() == film["labels"]
        assert scores == pytest.approx(of_query.scores, abs=2e-3)
        assert forces == pytest.approx(of_query.forces, abs=2e-3)


def test_ties_are_told_with_the_best_and_the_worst_they_can_come_to(parts):
    data = parts["test"]
    scores = np.round(data.labels / 2)
    looks = make_report(data, {"half": scores}, "ndcg@10").to_dict()["looks"]
    look = next(look for look in looks if look["what"] == "ties")
    low = evaluate(data, scores, "ndcg@10(ties=worst)")
    high = evaluate(data, scores, "ndcg@10(ties=best)")
    assert [look["low"]] == list(low.values())
    assert [look["high"]] == list(high.values())
    assert len(look["queries"]) == min(10, look["count"])

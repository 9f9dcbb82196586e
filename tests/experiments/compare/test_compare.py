"""Comparisons: every candidate on the same queries, marks by the test, bad input refused."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from scipy import stats

from rankgrove import Dataset, Ranker, evaluate, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.compare import significance
from rankgrove.experiments.compare.compare import Comparison, compare
from rankgrove.experiments.compare.slices import make_slicings


@pytest.fixture(scope="module")
def parts():
    return make_web_search(80, 16, mean_documents=12, seed=5).split(0.5, 0.5)


@pytest.fixture(scope="module")
def ranker(parts):
    return Ranker(n_estimators=5).fit(parts[0])


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    base = rng.random(60)
    return {
        "ndcg": {
            "low": base - 0.2 + rng.normal(0, 0.05, 60),
            "near": base + rng.normal(0, 0.05, 60),
            "top": base + 0.002 + rng.normal(0, 0.05, 60),
        }
    }


def test_values_of_queries_are_those_of_evaluate(parts, ranker):
    test = parts[1]
    scores = ranker.predict(test)
    got = compare(test, {"a": scores, "b": test.features[:, 0]}, ["ndcg@10", "map"])
    for metric in ("ndcg@10", "map"):
        expected = evaluate(test, scores, metric)
        assert np.array_equal(
            got.per_query(metric)["a"], expected.per_query(metric), equal_nan=True
        )
        row = got.summary(metric)[0]
        assert row.mean == pytest.approx(expected[metric], rel=1e-12)
        assert (row.counted, row.skipped) == (
            expected.results[metric].counted,
            expected.results[metric].skipped,
        )


def test_any_form_of_a_candidate_gives_the_same_values(parts, ranker, tmp_path):
    class Foreign:
        def predict(self, features):
            assert isinstance(features, np.ndarray)
            return ranker.predict(features)

    test = parts[1]
    path = tmp_path / "model.safetensors"
    ranker.save(path)
    forms = {
        "scores": ranker.predict(test).tolist(), "model": ranker.model_, "ranker": ranker,
        "path": path, "text": str(path), "foreign": Foreign(), "function": ranker.predict,
    }  # fmt: skip
    got = compare(test, forms, "map")
    first, *others = got.per_query("map").values()
    assert all(np.array_equal(first, other, equal_nan=True) for other in others)
    assert got.marked("map") == list(forms)
    assert all(row.adjusted == 1.0 for row in got.summary("map") if row.reference)


def test_marks_are_of_the_best_and_of_all_not_significantly_worse(values):
    got = Comparison.from_values(values)
    marks = {row.name: row.mark for row in got.summary("ndcg")}
    means = {name: own.mean() for name, own in values["ndcg"].items()}
    best = max(means, key=means.get)
    assert marks[best] == "best"
    assert marks["low"] == ""
    assert got.marked("ndcg") == ["near", "top"]
    for row in got.summary("ndcg"):
        if row.reference:
            pair = values["ndcg"][best], values["ndcg"][row.name]
            assert row.p == pytest.approx(stats.ttest_rel(*pair, alternative="greater").pvalue)


def test_p_values_of_a_summary_are_corrected_for_all_candidates_but_the_reference(values):
    got = Comparison.from_values(values).summary("ndcg")
    tested = [row for row in got if row.reference]
    assert [row.adjusted for row in tested] == significance.holm([r.p for r in tested]).tolist()
    plain = Comparison.from_values(values, correction=None).summary("ndcg")
    assert all(row.adjusted == row.p for row in plain if row.reference)


def test_a_baseline_is_compared_with_all_in_the_direction_of_better(values):
    got = Comparison.from_values(values, baseline="low")
    marks = {row.name: row.mark for row in got.summary("ndcg")}
    assert marks == {"low": "baseline", "near": "better", "top": "better"}
    one = {r.name: r for r in Comparison.from_values(values, baseline="top").summary("ndcg")}
    assert (one["low"].mark, one["low"].p > 0.99) == ("", True)
    both = Comparison.from_values(values, baseline="top", alternative="two-sided")
    assert {row.name: row.mark for row in both.summary("ndcg")}["low"] == "worse"


@pytest.mark.parametrize("test", ["t", "randomisation", "bootstrap"])
def test_each_test_gives_its_own_p_value(values, test):
    options = {} if test == "t" else {"rounds": 500, "seed": 3}
    got = Comparison.from_values(values, baseline="near", test=test, **options).summary("ndcg")
    function = getattr(significance, "paired_t" if test == "t" else test)
    expected = function(values["ndcg"]["top"], values["ndcg"]["near"], **options)
    assert {row.name: row.p for row in got}["top"] == expected


def test_pairs_are_all_pairs_two_sided_and_one_family(values):
    got = Comparison.from_values(values).pairs("ndcg")
    own = values["ndcg"]
    assert [(p.a, p.b) for p in got] == [("low", "near"), ("low", "top"), ("near", "top")]
    for pair in got:
        difference = own[pair.a] - own[pair.b]
        assert pair.difference == pytest.approx(difference.mean())
        assert pair.p == pytest.approx(stats.ttest_rel(own[pair.a], own[pair.b]).pvalue)
        assert pair.low < pair.difference < pair.high
        assert pair.wins + pair.ties + pair.losses == 60
    assert [p.adjusted for p in got] == significance.holm([p.p for p in got]).tolist()


def test_changed_queries_come_with_the_largest_difference_first():
    values = {"map": {"a": [0.5, 0.9, np.nan, 0.1], "b": [0.5, 0.8, np.nan, 0.6]}}
    got = Comparison.from_values(values, query_ids=["p", "q", "r", "s"])
    changes = got.changed("map", "a", "b")
    assert [change.query for change in changes] == ["s", "q"]
    assert changes[0][1:] == (0.1, 0.6, -0.5)
    assert len(got.changed("map", "a", "b", 1)) == 1


def test_slices_take_the_queries_of_each_group(parts, ranker):
    test = parts[1]
    candidates = {"model": ranker, "feature": test.features[:, 0]}
    got = compare(test, candidates, "ndcg@10", slices=["length", "labels", "relevant"])
    for name in ("length", "labels", "relevant"):
        groups = got.by_slice(name, "ndcg@10")
        assert sum(group.queries for group in groups) == test.n_queries
        slicing = got.slicings[name]
        for number, group in enumerate(groups):
            own = got.per_query("ndcg@10")["model"][slicing.group_of == number]
            mean = np.nanmean(own) if group.rows[0].counted else math.nan
            assert group.rows[0].mean == pytest.approx(mean, nan_ok=True)
    tested = [r for g in got.by_slice("length", "ndcg@10") for r in g.rows if r.p == r.p]
    assert [r.adjusted for r in tested] == significance.holm([r.p for r in tested]).tolist()


def test_groups_without_two_counted_queries_are_shown_and_not_tested():
    labels, group = [1, 0] * 4, [2] * 4
    slices = {"kind": ["x", "y", "y", "y"]}
    scores = {"a": [1, 0] * 4, "b": [0, 1] * 4}
    x, y = compare(labels, scores, "mrr", group=group, slices=slices).by_slice("kind", "mrr")
    assert (x.queries, y.queries) == (1, 3)
    assert [row.mean for row in x.rows] == [1.0, 0.5]
    assert math.isnan(x.rows[1].p)
    assert y.rows[1].p < 0.05


def test_slices_by_values_of_queries_documents_and_columns():
    data = Dataset.from_arrays(
        [[1, 9], [1, 8], [2, 7], [2, 6], [3, 5]], [0, 1, 0, 2, 0], group=[2, 2, 1],
        feature_names=["kind", "score"],
    )  # fmt: skip
    assert make_slicings(data, "column:kind")["kind"].groups == ("1", "2", "3")
    got = make_slicings(data, {"text": ["b", "b", "a", "a", None], "n": [7, 7, np.nan]})
    assert (got["text"].groups, got["text"].group_of.tolist()) == (("a", "b", "missing"), [1, 0, 2])
    assert (got["n"].groups, got["n"].group_of.tolist()) == (("7", "missing"), [0, 0, 1])
    with pytest.raises(DataError, match=r"same for all documents of a query\. Got 9.0 and 8.0"):
        make_slicings(data, "column:score")
    with pytest.raises(DataError, match="per query, 3, or per document, 5"):
        make_slicings(data, {"n": [1, 2]})
    with pytest.raises(ParameterError, match="did you mean 'length'"):
        make_slicings(data, "lenght")
    with pytest.raises(ParameterError, match="did you mean 'kind'"):
        make_slicings(data, "column:kinds")


def test_numbers_of_many_values_become_ranges_of_about_equal_size():
    data = Dataset.from_arrays(np.zeros((100, 1)), np.zeros(100), group=np.ones(100, int))
    slicing = make_slicings(data, {"n": np.arange(100)})["n"]
    assert slicing.groups == ("0 to 24", "25 to 49", "50 to 74", "75 to 99")
    assert np.bincount(slicing.group_of).tolist() == [25] * 4
    with pytest.raises(DataError, match="at most 50 groups"):
        make_slicings(data, {"n": [f"q{n}" for n in range(100)]})


def test_weights_of_queries_count_in_the_mean_and_in_the_test(parts):
    test = parts[1]
    weights = np.arange(1.0, test.n_queries + 1)
    scores = {"a": test.features[:, 0], "b": test.features[:, 1]}
    got = compare(test, scores, "map", weights=weights, baseline="b")
    row = got.summary("map")[0]
    assert row.mean == pytest.approx(evaluate(test, scores["a"], "map", weights=weights)["map"])
    own = got.per_query("map")
    assert row.p == significance.paired_t(own["a"], own["b"], weights=weights)
    assert row.p != significance.paired_t(own["a"], own["b"])


def test_same_bits_for_any_number_of_threads(parts, ranker):
    candidates = {"model": ranker, "feature": parts[1].features[:, 0]}
    options = {"test": "bootstrap", "rounds": 1200, "slices": "length"}
    one, two = (
        compare(parts[1], candidates, ["map", "mrr"], n_jobs=n, **options).to_dict(pairs=True)
        for n in (1, 3)
    )
    assert one == two


def test_columns_may_differ_in_queries_and_candidates():
    values = {"small": {"a": [0.1, 0.2, 0.4], "b": [0.3, 0.2, 0.5]}, "large": {"b": [0.5] * 5}}
    got = Comparison.from_values(values)
    assert got.names == ("a", "b")
    assert [row.name for row in got.summary("large")] == ["b"]
    assert got.to_markdown().splitlines()[2].endswith("| - |")


def test_markdown_and_latex_have_the_marked_in_bold_and_escape_names(values):
    own = {"ndcg": {"low_1|x": values["ndcg"]["low"], "top": values["ndcg"]["top"]}}
    got = Comparison.from_values(own)
    mean = values["ndcg"]["top"].mean()
    assert f"| top | **{mean:.4f}** |" in got.to_markdown()
    assert "| low_1\\|x |" in got.to_markdown()
    assert f"**{100 * mean:.2f}**" in got.to_markdown(percent=True)
    assert f"top & \\textbf{{{mean:.4f}}} \\\\" in got.to_latex()
    assert "low\\_1|x & " in got.to_latex()
    assert "[" in got.to_latex(intervals=True)


def test_csv_and_dict_bring_back_the_numbers(values):
    got = Comparison.from_values(values)
    rows = list(csv.DictReader(io.StringIO(got.to_csv())))
    assert [row["candidate"] for row in rows] == ["low", "near", "top"]
    for row, expected in zip(rows, got.summary("ndcg"), strict=True):
        assert float(row["mean"]) == expected.mean
        assert (float(row["adjusted"]) if row["adjusted"] else None) == (
            expected.adjusted if expected.reference else None
        )
    document = json.loads(json.dumps(got.to_dict(pairs=True, changed=2), allow_nan=False))
    assert document["metrics"]["ndcg"]["marked"] == ["near", "top"]
    assert len(document["metrics"]["ndcg"]["pairs"]) == 3
    assert len(document["metrics"]["ndcg"]["changed"]["low"]) == 2


def test_text_says_how_it_was_tested(values):
    text = str(Comparison.from_values(values, test="randomisation", rounds=99))
    assert "randomisation test of 99 rounds, one-tailed, Holm, p > 0.05; 60 queries" in text
    text = str(Comparison.from_values(values, baseline="low"))
    assert "+ significantly better than low" in text


def test_scores_of_another_length_are_refused_before_any_candidate_scores():
    def never(features):
        raise AssertionError("it was called")

    with pytest.raises(DataError, match=r"b: must have one score per document, 4\. Got 3"):
        compare([1, 0, 1, 0], {"a": never, "b": [1, 2, 3]}, group=[2, 2])


def test_what_a_candidate_gives_is_checked():
    data = Dataset.from_arrays(np.zeros((4, 2)), [1, 0, 1, 0], group=[2, 2])
    with pytest.raises(DataError, match=r"a: must have one score per document, 4\. Got shape"):
        compare(data, {"a": lambda features: features})
    with pytest.raises(DataError, match=r"a: scores must not be NaN.*row 1"):
        compare(data, {"a": [0, np.nan, 0, 0]})


def test_a_query_that_one_candidate_lacks_is_refused_or_dropped_for_all():
    values = {"map": {"a": {"p": 0.1, "q": 0.2, "r": 0.4}, "b": {"p": 0.2, "r": 0.3}}}
    with pytest.raises(DataError, match=r"map: all candidates.* Got none of 'b' for query q"):
        Comparison.from_values(values)
    got = Comparison.from_values(values, missing="drop")
    assert [(row.counted, row.skipped) for row in got.summary("map")] == [(2, 1), (2, 1)]
    assert got.summary("map")[0].mean == pytest.approx(0.25)
    with pytest.raises(DataError, match=r"'b' must be one per query, 3.* Got 2"):
        Comparison.from_values({"map": {"a": [0.1, 0.2, 0.3], "b": [0.1, 0.2]}})
    with pytest.raises(DataError, match=r"must be of queries in query_ids. Got query z"):
        Comparison.from_values({"map": {"a": {"z": 1.0}}}, query_ids=["p"])


def test_fewer_than_two_queries_are_refused():
    with pytest.raises(DataError, match=r"mrr: at least two queries.* Got 1"):
        compare([1, 0], {"a": [1, 0], "b": [0, 1]}, "mrr", group=[2])
    # The second has no relevant document, so it is skipped.
    with pytest.raises(DataError, match=r"mrr: at least two queries.* Got 1 of 2"):
        compare([1, 0, 0], {"a": [1, 0, 0], "b": [0, 1, 0]}, "mrr", group=[2, 1])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"baseline": "c"}, "baseline must be one of a, b"),
        ({"test": "wilcoxon"}, "test must be one of t, randomisation, bootstrap"),
        ({"correction": "bonferroni"}, "correction must be one of holm"),
        ({"alternative": "less"}, "alternative must be one of greater, two-sided"),
        ({"level": 0}, "level must be a number above 0"),
        ({"confidence": 95}, "confidence must be a number above 0"),
        ({"rounds": 0}, "rounds must be"),
        ({"metrics": "ndgc"}, "did you mean 'ndcg'"),
        ({"candidates": {}}, "at least one name"),
    ],
)
def test_wrong_calls_are_refused(change, problem):
    call = {"candidates": {"a": [1, 0] * 2, "b": [0, 1] * 2}, "group": [2, 2], **change}
    with pytest.raises(ParameterError, match=problem):
        compare([1, 0] * 2, **call)


def test_names_that_a_comparison_does_not_have_are_refused(values):
    got = Comparison.from_values(values)
    with pytest.raises(ParameterError, match="did you mean 'ndcg'"):
        got.summary("ndgc")
    with pytest.raises(ParameterError, match="did you mean 'near'"):
        got.changed("ndcg", "nea", "top")
    with pytest.raises(ParameterError, match="a slicing"):
        got.by_slice("length", "ndcg")

"""Laws that hold for every registered metric, in one place."""

import dataclasses

import numpy as np
import pytest

from metrics import naive_metrics as naive
from rankgrove import evaluate, parse_metric
from rankgrove.errors import DataError
from rankgrove.metrics.base import Rankings
from rankgrove.metrics.spec import METRICS, PRESETS

# Every metric in several forms. A new metric in the registry fails
# test_every_registered_metric_is_under_these_laws until it is listed here.
SPECS = [
    "ndcg", "ndcg@3", "ndcg@10(gain=linear)", "ndcg@5(gain=[0, 0, 1, 5, 5])",
    "dcg", "dcg@4", "dcg@2(gain=[0, 1, 2, 4, 100])",
    "map", "map@3", "map@3(norm=cutoff)", "map@100(relevant>=2)",
    "mrr", "mrr@2", "mrr(relevant>=3)",
    "err", "err@3", "err(r/4)", "err@2(r/4)", "err((2^r-1)/2^5)",
    "precision@3", "precision@20(relevant>=2)", "precision@9(norm=documents)",
    "recall@3", "recall@20",
    "expdcg", "expdcg@3(gain=exponential, b=0.5)", "rbp", "rbp@4(relevant>=2, p=0.3)",
    "pair_accuracy", "tau",
]  # fmt: skip
POLICIES = ["worst", "best", "stable", "expected"]


def with_ties(spec, ties):
    return dataclasses.replace(parse_metric(spec), ties=ties)


def random_query(rng, longest=7):
    """A small query: few score levels, so ties are common; sometimes empty or flat labels."""
    n = int(rng.integers(1, longest + 1))
    labels = rng.integers(0, 5, n) * (rng.random() > 0.15)
    if rng.random() < 0.1:
        labels[:] = labels[0]
    scores = rng.integers(0, 4, n) / 2 if rng.random() < 0.8 else rng.normal(size=n)
    return labels.astype(float), scores


def as_rankings(queries, n_jobs=None):
    labels = np.concatenate([labels for labels, _ in queries])
    scores = np.concatenate([scores for _, scores in queries])
    offsets = np.cumsum([0] + [len(labels) for labels, _ in queries])
    return Rankings(labels, scores, offsets, n_jobs=n_jobs)


def assert_equals_definition(metric, queries):
    values = metric.per_query(as_rankings(queries))
    for value, (labels, scores) in zip(values, queries, strict=True):
        expected = naive.of_scores(metric, labels, scores)
        if expected is naive.EMPTY:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_every_registered_metric_is_under_these_laws():
    assert {parse_metric(spec).name for spec in SPECS} == set(METRICS)


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", SPECS)
def test_metric_equals_its_definition(spec, ties):
    metric = with_ties(spec, ties)
    rng = np.random.default_rng(7)
    # Expected ties average over all orders: 6! at most for a query of 6.
    queries = [random_query(rng, longest=6 if ties == "expected" else 30) for _ in range(60)]
    assert_equals_definition(metric, queries)


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", [spec for spec in SPECS if "gain=[" not in spec])
def test_metric_of_fractional_or_very_many_grades_equals_its_definition(spec, ties):
    metric = with_ties(spec, ties)
    rng = np.random.default_rng(17)
    fractions = [(np.float32(rng.random(5) * 4), rng.integers(0, 3, 5) / 2) for _ in range(20)]
    grades = [(np.array([40.0, 0, 33, 7, 2]), rng.integers(0, 3, 5) / 2) for _ in range(20)]
    for queries in (fractions, grades):
        if metric.name == "err" and queries is grades:
            metric = dataclasses.replace(metric, r_max=40.0)
        assert_equals_definition(metric, queries)


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", SPECS)
def test_metric_stays_between_its_worst_and_best_order(spec, ties):
    rng = np.random.default_rng(8)
    rankings = as_rankings([random_query(rng, longest=40) for _ in range(200)])
    worst, value, best = (
        with_ties(spec, policy).per_query(rankings) for policy in ("worst", ties, "best")
    )
    counted = ~np.isnan(value)
    slack = 1e-12
    assert np.all(worst[counted] <= value[counted] + slack)
    assert np.all(value[counted] <= best[counted] + slack)
    assert np.array_equal(np.isnan(worst), np.isnan(value))


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", SPECS)
def test_only_the_order_of_scores_counts(spec, ties):
    rng = np.random.default_rng(9)
    queries = [random_query(rng, longest=30) for _ in range(50)]
    moved = [(labels, np.exp(scores / 3) - 5) for labels, scores in queries]
    metric = with_ties(spec, ties)
    before = metric.per_query(as_rankings(queries))
    assert np.array_equal(before, metric.per_query(as_rankings(moved)), equal_nan=True)


@pytest.mark.parametrize("ties", ["worst", "best", "expected"])
@pytest.mark.parametrize("spec", SPECS)
def test_order_of_rows_does_not_matter(spec, ties):
    rng = np.random.default_rng(10)
    queries = [random_query(rng, longest=30) for _ in range(50)]
    shuffled = []
    for labels, scores in queries:
        order = rng.permutation(len(labels))
        shuffled.append((labels[order], scores[order]))
    metric = with_ties(spec, ties)
    before = metric.per_query(as_rankings(queries))
    after = metric.per_query(as_rankings(shuffled))
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", SPECS)
def test_same_bits_for_1_2_and_4_threads(spec, ties):
    rng = np.random.default_rng(11)
    n_queries = 1500
    group = rng.integers(1, 120, n_queries)
    labels = rng.integers(0, 5, group.sum())
    scores = np.round(rng.normal(size=group.sum()), 1)
    metric = with_ties(spec, ties)
    one, two, four = (
        evaluate(labels, scores, metric, group=group, n_jobs=jobs) for jobs in (1, 2, 4)
    )
    assert one[str(metric)] == two[str(metric)] == four[str(metric)]
    name = str(metric)
    assert np.array_equal(one.per_query(name), two.per_query(name), equal_nan=True)
    assert np.array_equal(one.per_query(name), four.per_query(name), equal_nan=True)


@pytest.mark.parametrize("spec", SPECS)
def test_weight_two_is_the_query_twice(spec):
    rng = np.random.default_rng(12)
    queries = [random_query(rng, longest=20) for _ in range(30)]
    weights = rng.integers(1, 3, len(queries))
    twice = [query for query, weight in zip(queries, weights, strict=True) for _ in range(weight)]

    def mean(queries, weights):
        labels = np.concatenate([labels for labels, _ in queries])
        scores = np.concatenate([scores for _, scores in queries])
        group = [len(labels) for labels, _ in queries]
        return evaluate(labels, scores, spec, group=group, weights=weights)[str(parse_metric(spec))]

    assert mean(queries, weights) == pytest.approx(mean(twice, None), rel=1e-12)


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("labels", [[0], [3], [0, 0, 0], [2, 2, 2], [0] * 12 + [1]])
def test_one_document_flat_labels_and_long_cutoffs_are_defined(spec, ties, labels):
    metric = with_ties(spec, ties)
    for scores in (np.zeros(len(labels)), np.arange(len(labels))):
        rankings = Rankings(labels, scores, np.array([0, len(labels)]))
        value = metric.per_query(rankings)[0]
        assert np.isnan(value) == (naive.of_order(metric, labels) is naive.EMPTY)
        for policy, expected in (("zero", 0.0), ("one", 1.0)):
            counted = dataclasses.replace(metric, empty=policy).per_query(rankings)[0]
            assert counted == (expected if np.isnan(value) else value)


@pytest.mark.parametrize("spec", SPECS)
def test_perfect_order_is_not_beaten_and_normalised_metrics_give_it_one(spec):
    rng = np.random.default_rng(13)
    queries = [random_query(rng, longest=25) for _ in range(100)]
    metric = parse_metric(spec)
    values = metric.per_query(as_rankings(queries))
    perfect = metric.per_query(as_rankings([(labels, labels) for labels, _ in queries]))
    counted = ~np.isnan(values)
    assert np.all(values[counted] <= perfect[counted] + 1e-12)
    if metric.name in ("ndcg", "pair_accuracy") or spec in ("map", "mrr", "map@3(norm=cutoff)"):
        np.testing.assert_allclose(perfect[counted], 1.0, rtol=1e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_long_tied_query_is_exact_where_all_orders_are_too_many(spec):
    """2,000 tied documents: the expectation by a Monte Carlo mean within its own error."""
    rng = np.random.default_rng(14)
    labels = rng.integers(0, 5, 2000).astype(float)
    scores = np.round(rng.normal(size=2000), 0)
    rankings = Rankings(labels, scores, np.array([0, 2000]))
    exact = with_ties(spec, "expected").per_query(rankings)[0]
    stable = with_ties(spec, "stable")
    draws = []
    for _ in range(300):
        order = rng.permutation(2000)
        shuffled = Rankings(labels[order], scores[order], np.array([0, 2000]))
        draws.append(stable.per_query(shuffled)[0])
    # Six standard errors: one false alarm in 500 million.
    assert abs(np.mean(draws) - exact) <= 6 * np.std(draws) / np.sqrt(len(draws)) + 1e-12


@pytest.mark.parametrize("spec", SPECS)
def test_swap_delta_equals_the_metric_computed_again(spec):
    metric = parse_metric(spec)
    rng = np.random.default_rng(15)
    for n in [1, 2, 3, 4, 6, 9, 14]:
        for _ in range(6):
            labels = rng.integers(0, 5, n) * (rng.random() > 0.1)
            np.testing.assert_allclose(
                metric.swap_deltas(labels), naive.swap_deltas(metric, labels), atol=1e-13
            )


@pytest.mark.parametrize("spec", SPECS)
def test_name_parses_back_to_an_equal_value(spec):
    for ties in (*POLICIES, "document_id"):
        for empty in ("skip", "zero", "one"):
            metric = dataclasses.replace(parse_metric(spec), ties=ties, empty=empty)
            again = parse_metric(str(metric))
            assert again == metric
            assert hash(again) == hash(metric)
            assert eval(repr(metric), {"parse_metric": parse_metric}) == metric


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_is_only_a_set_of_defaults(preset):
    for name in PRESETS[preset]:
        cutoff = "@5" if name in ("precision", "recall") else ""
        metric = parse_metric(name + cutoff, preset=preset)
        assert parse_metric(str(metric)) == metric
        override = parse_metric(f"{name}{cutoff}(ties=best)", preset=preset)
        assert override == dataclasses.replace(metric, ties="best")


@pytest.mark.parametrize("spec", SPECS)
def test_negative_labels_are_refused_unless_only_order_counts(spec):
    metric = parse_metric(spec)
    rankings = Rankings([-1.0, 2.0], [0.0, 1.0], np.array([0, 2]))
    if metric.name in ("pair_accuracy", "tau"):
        assert metric.per_query(rankings)[0] == 1.0
    else:
        with pytest.raises(DataError, match="must be 0 or more"):
            metric.per_query(rankings)


def test_swap_deltas_are_right_where_the_ideal_is_below_1():
    metric = parse_metric("ndcg(gain=[0, 0.1])")
    # The best order has DCG 0.1, and the swap moves its gain from rank 1 to rank 2.
    assert metric.swap_deltas([1, 0])[0, 1] == pytest.approx(1 / np.log2(3) - 1)

"""Combining rankers: against brute force and grids, with ties, and as one model."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrove import Dataset, Model, Ranker, evaluate, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.combine.alpha_steps import TwoRankers
from rankgrove.experiments.combine.combine import combine, combine_two
from rankgrove.metrics.custom import Custom
from rankgrove.metrics.spec import parse_metric
from rankgrove.model.base import load
from rankgrove.model.combined import CombinedModel, weigh_models
from rankgrove.model.files import ModelFileError
from rankgrove.model.schema import Schema

# Sums of some hundred terms of at most 1, each rounded once.
CLOSE = 1e-12

METRICS = [
    "ndcg@3", "ndcg", "dcg@2", "expdcg", "rbp", "precision@2", "recall@2", "map", "map@2",
    "map@2(norm=cutoff)", "mrr", "mrr@2", "err", "err@2(r/4)", "pair_accuracy", "tau",
]  # fmt: skip
TIES = ["worst", "best", "stable", "expected", "document_id"]


def make_data(groups, weights=None):
    """Groups of (label, first score, second score), a query each."""
    rows = np.array([row for group in groups for row in group], dtype=float)
    data = Dataset.from_arrays(
        np.zeros((len(rows), 1)), rows[:, 0], group=[len(group) for group in groups],
        weights=weights, document_ids=[f"d{n * 7 % len(rows)}" for n in range(len(rows))],
    )  # fmt: skip
    return data, rows[:, 1], rows[:, 2]


def with_ties(metric, ties):
    return metric.replace(")", f", ties={ties})") if ")" in metric else f"{metric}(ties={ties})"


def mean_of(data, scores, metric):
    return evaluate(data, scores, metric)[str(parse_metric(metric))]


def exact_value(data, first, second, metric, alpha):
    """The metric at a fraction alpha: documents are ranked by fractions, which never round."""
    mixed = [
        alpha * Fraction(float(a)) + (1 - alpha) * Fraction(float(b))
        for a, b in zip(first, second, strict=True)
    ]
    places = {score: place for place, score in enumerate(sorted(set(mixed)))}
    return mean_of(data, [places[score] for score in mixed], metric)


def crossings(data, first, second):
    """All alphas from 0 to 1 where two documents of a query have the same mixed score."""
    found = {Fraction(0), Fraction(1)}
    for lo, hi in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        for i, j in combinations(range(lo, hi), 2):
            by_first = Fraction(float(first[i])) - Fraction(float(first[j]))
            by_second = Fraction(float(second[i])) - Fraction(float(second[j]))
            if by_first != by_second and 0 <= by_second / (by_second - by_first) <= 1:
                found.add(by_second / (by_second - by_first))
    return sorted(found)


def brute_force(data, first, second, metric):
    """The best value between crossings, and the best at crossings, 0 and 1."""
    points = crossings(data, first, second)
    middles = [(a + b) / 2 for a, b in pairwise(points)]
    best = [
        max(exact_value(data, first, second, metric, alpha) for alpha in alphas)
        for alphas in (middles, points)
    ]
    return best[0], best[1], middles


def grid_best(data, first, second, metric, n=10_001):
    """The best of a grid of alphas, all of them measured in one call."""
    alphas = np.linspace(0.0, 1.0, n)[:, None]
    table = evaluate(
        np.tile(data.labels, n), (alphas * first + (1 - alphas) * second).ravel(), metric,
        group=np.tile(data.group, n), document_ids=np.tile(data.document_ids, n),
    )  # fmt: skip
    values = table.per_query(str(parse_metric(metric))).reshape(n, -1)
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    counted = ~np.isnan(values[0])
    return (values[:, counted] @ weights[counted]).max() / weights[counted].sum()


def judged(score):
    document = st.tuples(st.integers(0, 3), score, score)
    return st.lists(st.lists(document, min_size=1, max_size=6), min_size=1, max_size=3).filter(
        lambda groups: any(len({row[0] for row in group}) > 1 for group in groups)
    )


few_scores = judged(st.integers(0, 1))
whole_scores = judged(st.integers(-3, 4))
decimal_scores = judged(st.integers(-12, 12).map(lambda n: n / 10))


@given(few_scores, st.sampled_from(METRICS), st.sampled_from(TIES))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_value_is_that_of_brute_force_with_ties_at_steps_and_everywhere(groups, metric, ties):
    # Scores of 0 and 1 tie at 0, 1/2 and 1 only, where float64 does not round.
    spec = with_ties(metric, ties)
    data, first, second = make_data(groups)
    between, at_points, _ = brute_force(data, first, second, spec)
    found = combine_two(data, first, second, spec)
    assert found.value == pytest.approx(max(between, at_points), abs=CLOSE)
    assert mean_of(data, found.alpha * first + (1 - found.alpha) * second, spec) == found.value


@given(whole_scores, st.sampled_from(METRICS))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_value_and_curve_are_those_of_brute_force(groups, metric):
    data, first, second = make_data(groups, weights=[1.0, 2.5, 0.5][: len(groups)])
    try:
        between, at_points, middles = brute_force(data, first, second, metric)
    except DataError:
        return  # only empty queries
    found = combine_two(data, first, second, metric)
    # By worst ties a point never has more than the intervals around it, but for rounding.
    assert at_points <= between + CLOSE
    assert found.value >= between - CLOSE
    if found.interval[0] < found.interval[1]:
        assert found.value == pytest.approx(between, abs=CLOSE)
        assert found.interval[0] < found.alpha < found.interval[1]
    for alpha in middles:
        at = np.searchsorted(found.curve.x, float(alpha), side="right") - 1
        expected = exact_value(data, first, second, metric, alpha)
        assert found.curve.values[at] == pytest.approx(expected, abs=CLOSE)


@given(decimal_scores, st.sampled_from(METRICS), st.sampled_from(TIES))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_alpha_of_a_grid_is_better(groups, metric, ties):
    # Tenths are rounded, and their crossings are where the grid has its points.
    spec = with_ties(metric, ties)
    data, first, second = make_data(groups, weights=[1.0, 2.5, 0.5][: len(groups)])
    try:
        best = grid_best(data, first, second, spec)
    except DataError:
        return  # only empty queries
    found = combine_two(data, first, second, spec)
    assert found.value >= best - CLOSE
    assert mean_of(data, found.alpha * first + (1 - found.alpha) * second, spec) == found.value


def two_rankers(n_queries=40, seed=1, digits=None):
    data, best = make_web_search(n_queries, 16, mean_documents=30, seed=seed, best_scores=True)
    rng = np.random.default_rng(seed)
    scores = [best + rng.normal(0, best.std(), len(best)) for _ in range(3)]
    if digits is not None:
        scores = [np.round(row, digits) for row in scores]
    data = Dataset.from_arrays(
        data.features, data.labels, group=data.group, document_ids=np.arange(len(best))
    )
    return data, *scores


@pytest.mark.parametrize("metric", ["ndcg@10", "map", "err@5", "pair_accuracy"])
@pytest.mark.parametrize("digits", [None, 1, 0])
def test_no_alpha_of_a_grid_is_better_on_long_queries(metric, digits):
    data, first, second, _ = two_rankers(digits=digits)
    found = combine_two(data, first, second, metric)
    assert found.value >= grid_best(data, first, second, metric, n=1001) - CLOSE
    assert found.value >= max(found.first_value, found.second_value)


@pytest.mark.parametrize("metric", [*METRICS, "ndcg@10(ties=expected)", "map(ties=stable)"])
def test_following_steps_gives_what_measuring_between_them_gives(metric):
    data, first, second, _ = two_rankers(4)
    two = TwoRankers(data, first, second, parse_metric(metric), 1)
    shares = np.full(data.n_queries, 1 / data.n_queries)
    followed, measured = two.find_steps(shares), two._find_by_measuring(shares)
    for points in (0.1, 0.25, 0.5, 0.77, 1.0):
        sums = [steps.change[steps.alpha < points].sum() for steps in (followed, measured)]
        assert sums[0] == pytest.approx(sums[1], abs=CLOSE)


def test_metric_of_the_users_own_is_swept():
    def two_at_the_top(labels):
        return float(labels[0] >= 1) + float(labels[:2].min() >= 1)

    data, first, second, _ = two_rankers(20)
    found = combine_two(data, first, second, Custom(function=two_at_the_top))
    alphas = np.linspace(0, 1, 101)
    metric = Custom(function=two_at_the_top)
    grid = [mean_of(data, a * first + (1 - a) * second, metric) for a in alphas]
    assert found.value >= max(grid) - CLOSE
    assert found.value > min(grid)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_metric_that_is_nan_for_some_orders_is_refused(wrong):
    # The first query has the orders 1 2 0, 2 1 0 and 2 0 1 one after the other.
    groups = [[(1, 0, 2), (2, 3, 1), (0, 1, 0)], [(3, 1, 0), (0, 0, 1)]]
    orders = [[1, 2, 0], [2, 1, 0], [2, 0, 1]]
    data, first, second = make_data(groups)
    picky = Custom(function=lambda row: np.nan if row.tolist() == orders[wrong] else row[0])
    with pytest.raises(DataError, match="must be a number for all orders of a query or for none"):
        combine_two(data, first, second, picky)


def test_the_example_of_the_paper_is_beaten_by_neither_ranker_alone():
    # Each ranker has one of two relevant documents on top, and the other last.
    data, first, second = make_data([[(1, 5, 1), (1, 1, 5), (0, 4, 0), (0, 0, 4)]])
    found = combine_two(data, first, second, "ndcg")
    assert (found.value, found.first_value < 1, found.second_value < 1) == (1.0, True, True)
    assert found.interval[0] < 0.5 < found.interval[1]


@pytest.mark.parametrize("ties", TIES)
def test_best_value_at_a_single_point_is_found(ties):
    # The two queries trade at 1/2, one for the better and one for the worse.
    data, first, second = make_data([[(1, 1, 0), (0, 0, 1)], [(0, 1, 0), (1, 0, 1)]])
    found = combine_two(data, first, second, f"mrr(ties={ties})")
    assert found.value == (1.0 if ties == "best" else 0.75)
    if ties == "best":
        assert (found.alpha, found.interval) == (0.5, (0.5, 0.5))


def test_among_equal_values_the_widest_interval_is_taken():
    data, first, second = make_data([[(1, 0, 8), (0, 1, 7), (0, 5, 0)]])
    found = combine_two(data, first, second, "mrr")
    # The relevant document leads until it meets the second one at 1/2.
    assert found.interval == pytest.approx((0.0, 0.5), abs=1e-9)
    assert found.alpha == pytest.approx(0.25, abs=1e-9)


def test_rankers_that_agree_have_one_interval():
    data, first, _, _ = two_rankers(5)
    found = combine_two(data, first, 2 * first + 1)
    assert (found.interval, found.alpha) == ((0.0, 1.0), 0.5)
    assert found.value == found.first_value == found.second_value
    assert len(found.curve.x) == 1


def test_empty_queries_and_weights_count_as_evaluate_counts_them():
    groups = [[(1, 1, 0), (0, 0, 1)], [(0, 1, 0), (0, 0, 1)], [(0, 2, 0), (1, 0, 1)]]
    data, first, second = make_data(groups, weights=[1.0, 5.0, 3.0])
    for spec, low, high in (("ndcg", 0.25, 0.75), ("ndcg(empty=zero)", 1 / 9, 3 / 9)):
        found = combine_two(data, first, second, spec)
        loss = (1 - 1 / np.log2(3)) * 1.0
        total = 1.0 if spec == "ndcg" else 4 / 9
        # Between 1/3 and 1/2 both are wrong; below, the first query is wrong, above the third.
        assert found.first_value == pytest.approx(total - high * loss, abs=CLOSE)
        assert found.second_value == pytest.approx(total - low * loss, abs=CLOSE)
        assert found.value == found.second_value


@pytest.mark.parametrize("metric", ["ndcg@5", "map", "mrr(ties=expected)"])
def test_bits_are_the_same_for_any_number_of_threads(metric):
    data, first, second, _ = two_rankers(300, digits=1)
    one, two = (combine_two(data, first, second, metric, n_jobs=n) for n in (1, 2))
    assert (one.alpha, one.value, one.interval) == (two.alpha, two.value, two.interval)
    assert np.array_equal(one.curve.x, two.curve.x)
    assert np.array_equal(one.curve.values, two.curve.values)


@pytest.mark.parametrize("shift", [0.0, 1e6, 1e12])
def test_scores_far_from_zero_lose_nothing_but_their_digits(shift):
    data, first, second, _ = two_rankers(10)
    first, second = first + shift, second - shift
    found = combine_two(data, first, second)
    assert mean_of(data, found.alpha * first + (1 - found.alpha) * second, "ndcg@10") == found.value
    # At 1e12 scores are 1e-4 apart, and neighbours within that tie or trade by rounding.
    slack = CLOSE if shift < 1e9 else 1e-3
    assert found.value >= grid_best(data, first, second, "ndcg@10", n=501) - slack


def test_curve_is_saved_as_table_and_picture(tmp_path):
    data, first, second, _ = two_rankers(60)
    curve = combine_two(data, first, second).curve
    assert len(curve.x) > 700
    curve.save(tmp_path / "curve.csv")
    header, *rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert header == "alpha,ndcg@10"
    assert [tuple(map(float, row.split(","))) for row in rows] == list(
        zip(curve.x.tolist(), curve.values.tolist(), strict=True)
    )
    curve.save(tmp_path / "curve.svg")
    picture = (tmp_path / "curve.svg").read_text()
    assert picture.startswith("<svg")
    assert "ndcg@10 by alpha" in picture
    assert curve.plot().to_svg() == curve._repr_svg_() == picture
    rule, line = curve.plot().chart().panels[0].marks
    assert rule.at == curve.mark
    # Of each pixel the whole range is there.
    assert max(line.y) == curve.values.max()
    assert min(line.y) == curve.values.min()
    with pytest.raises(ParameterError, match=r"must be saved as \.csv, \.tsv or \.svg"):
        curve.save(tmp_path / "curve.png")


# Several rankers.


def test_sweep_of_several_is_better_than_each_and_no_single_share_makes_it_better():
    data, *scores = two_rankers(60)
    named = dict(zip("abc", scores, strict=True))
    found = combine(data, named)
    assert found.value > max(found.values.values())
    weights = np.array(list(found.weights.values()))
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() >= 0
    assert mean_of(data, found.scores, "ndcg@10") == found.value
    matrix = np.array(scores)
    for ranker in range(3):
        rest = weights.copy()
        rest[ranker] = 0.0
        line = rest / rest.sum() @ matrix
        assert found.value >= grid_best(data, matrix[ranker], line, "ndcg@10", n=501) - CLOSE


def test_sweep_of_two_is_combine_two():
    data, first, second, _ = two_rankers()
    both = combine(data, {"first": first, "second": second}, "map")
    assert both.value == pytest.approx(combine_two(data, first, second, "map").value, abs=CLOSE)


def test_ranker_of_no_use_gets_no_weight():
    data, first, _, _ = two_rankers()
    found = combine(data, {"good": first, "constant": np.zeros(len(first))})
    assert found.value == found.values["good"]


def test_lambdamart_on_scores_is_trained_on_them():
    data, *scores = two_rankers(60)
    named = dict(zip("abc", scores, strict=True))
    few = {"n_estimators": 30}
    found = combine(data, named, method="lambdamart", parameters=few)
    assert found.weights is None
    assert found.model is None
    assert found.value > max(found.values.values())
    again = combine(data, named, method="lambdamart", parameters=few, n_jobs=1)
    assert np.array_equal(found.scores, again.scores)


# Models.


@pytest.fixture(scope="module")
def parts():
    data = make_web_search(120, 16, mean_documents=12, seed=3)
    train, test = data.split(0.5, 0.5)
    halves = [train.take_queries(range(start, 60, 2)) for start in (0, 1)]
    models = [
        Ranker(n_estimators=8, min_samples_leaf=5, learning_rate=rate).fit(half).model_
        for half, rate in zip(halves, (0.1, 0.3), strict=True)
    ]
    return test, models


def test_combined_trees_are_one_model_that_scores_saves_and_explains(parts, tmp_path):
    test, (a, b) = parts
    found = combine_two(test, a, b)
    model = found.to_model()
    expected = found.alpha * a.predict(test) + (1 - found.alpha) * b.predict(test)
    # One rounding a tree.
    np.testing.assert_allclose(model.predict(test), expected, rtol=1e-12, atol=1e-12)
    assert mean_of(test, model.predict(test), "ndcg@10") == pytest.approx(found.value, abs=CLOSE)
    model.save(tmp_path / "m.safetensors")
    loaded = Model.load(tmp_path / "m.safetensors")
    assert np.array_equal(loaded.predict(test), model.predict(test))
    assert [part["weight"] for part in loaded.notes["combined"]] == [
        found.alpha, 1 - found.alpha,
    ]  # fmt: skip
    rows = loaded.contributions(test)
    np.testing.assert_allclose(rows.sum(axis=1), model.predict(test), atol=1e-9)


def test_combined_trees_keep_their_categories():
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.integers(0, 9, 600), rng.normal(size=600)])
    labels = (features[:, 0] % 3).astype(int)
    data = Dataset.from_arrays(features, labels, group=[20] * 30)
    a, b = (
        Ranker(n_estimators=n, categorical=[0], min_samples_leaf=5).fit(data).model_ for n in (3, 4)
    )
    assert len(a.ensemble.category_sets) > 1
    both = weigh_models([a, b], [0.4, 0.6])
    expected = 0.4 * a.predict(data) + 0.6 * b.predict(data)
    np.testing.assert_allclose(both.predict(data), expected, rtol=1e-12, atol=1e-12)


def test_several_models_become_one_by_either_method(parts, tmp_path):
    test, (a, b) = parts
    swept = combine(test, {"a": a, "b": b})
    assert isinstance(swept.model, Model)
    np.testing.assert_allclose(swept.model.predict(test), swept.scores, rtol=1e-12, atol=1e-12)
    trees = combine(test, {"a": a, "b": b}, method="lambdamart", parameters={"n_estimators": 5})
    assert isinstance(trees.model, CombinedModel)
    assert np.array_equal(trees.model.predict(test), trees.scores)
    path = tmp_path / "c.safetensors"
    trees.model.save(path)
    for loaded in (CombinedModel.load(path), load(path)):
        assert repr(loaded) == repr(trees.model)
        assert np.array_equal(loaded.predict(test, n_jobs=1), trees.scores)
    content = path.read_bytes()
    trees.model.save(path)
    assert path.read_bytes() == content
    with pytest.raises(ModelFileError, match=r"Got a combined model: load it with rankgrove\.load"):
        Model.load(path)
    a.save(path)
    assert isinstance(load(path), Model)
    with pytest.raises(ModelFileError, match=r"must be a combined model\. Got a model of trees"):
        CombinedModel.load(path)


def test_damaged_files_of_combined_models_are_refused(parts, tmp_path):
    test, (a, b) = parts
    found = combine(test, {"a": a, "b": b}, method="lambdamart", parameters={"n_estimators": 2})
    path = tmp_path / "c.safetensors"
    found.model.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 60).tolist():
        broken = bytearray(content)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with pytest.raises(ModelFileError):
            CombinedModel.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError):
        CombinedModel.load(path)


# Refusals.


def test_scores_that_cannot_be_combined_are_refused():
    data, first, second, _ = two_rankers(3)
    with pytest.raises(DataError, match=r"scores of the second ranker must be one per document"):
        combine_two(data, first, second[:-1])
    for wrong in (np.nan, np.inf, 1e301):
        broken = second.copy()
        broken[4] = wrong
        with pytest.raises(DataError, match=r"scores of the second ranker must be finite"):
            combine_two(data, first, broken)
        with pytest.raises(DataError, match=r"scores of b must be finite.* at row 4"):
            combine(data, {"a": first, "b": broken})


def test_calls_that_make_no_sense_are_refused():
    data, first, second, _ = two_rankers(3)
    both = {"a": first, "b": second}
    with pytest.raises(ParameterError, match="data must be a Dataset"):
        combine_two(data.labels, first, second)
    with pytest.raises(ParameterError, match="method must be one of sweep, linear, lambdamart"):
        combine(data, both, method="lambda")
    with pytest.raises(ParameterError, match="candidates must be two or more"):
        combine(data, {"a": first})
    with pytest.raises(ParameterError, match="rounds must be a whole number"):
        combine(data, both, rounds=0)
    with pytest.raises(ParameterError, match="parameters must be used with method='linear'"):
        combine(data, both, parameters={"n_estimators": 3})
    with pytest.raises(ParameterError, match="metric must be one of"):
        combine_two(data, first, second, "nddcg")
    with pytest.raises(ParameterError, match=r"must be made of two models, .* Got scores"):
        combine_two(data, first, second).to_model()
    only_empty = Dataset.from_arrays(data.features, data.labels * 0, group=data.group)
    with pytest.raises(DataError, match="at least one query"):
        combine_two(only_empty, first, second)


def test_models_of_different_features_are_not_made_one(parts):
    _, (a, b) = parts
    other = Schema(tuple(f"g{n}" for n in range(16)), b.schema.categories)
    stranger = Model(b.ensemble, other, {}, {})
    with pytest.raises(DataError, match=r"same features to be combined into one\. Got model 2"):
        weigh_models([a, stranger], [0.5, 0.5])
    on_base = Schema(b.feature_names, b.schema.categories, needs_base_scores=True)
    with pytest.raises(DataError, match="same need of base scores"):
        weigh_models([a, Model(b.ensemble, on_base, {}, {})], [0.5, 0.5])
    with pytest.raises(ParameterError, match="must add up to 1"):
        weigh_models([Model(b.ensemble, on_base, {}, {})] * 2, [0.5, 0.6])
    with pytest.raises(ParameterError, match="weights must be a finite number a model"):
        weigh_models([a, b], [0.5])
    grouped = Schema(b.feature_names, {0: (1.0, 2.0)})
    with pytest.raises(DataError, match="same categories"):
        weigh_models([a, Model(b.ensemble, grouped, {}, {})], [0.5, 0.5])


def test_models_with_default_names_go_with_named_ones(parts):
    test, (a, b) = parts
    numbered = Model(a.ensemble, Schema(tuple(f"f{n}" for n in range(1, 17))), {}, {})
    both = weigh_models([numbered, b], [0.5, 0.5])
    assert both.feature_names == b.feature_names
    assert np.array_equal(both.predict(test), weigh_models([a, b], [0.5, 0.5]).predict(test))


def test_models_that_cannot_become_one_are_combined_all_the_same(parts):
    test, (a, b) = parts
    grouped = Model(b.ensemble, Schema(b.feature_names, {3: (1.0, 2.0)}), {}, {})
    found = combine(test, {"a": a, "b": grouped})
    assert found.model is None
    assert found.value >= max(found.values.values())

"""Weights of documents in metrics: pairs count them, positions refuse them, training goes on."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from boosting.samples import QUICK, make_data
from metrics.naive_metrics import weighted_pair_accuracy
from rankgrove import Ranker, combine_two, cross_validate, evaluate
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.spec import METRICS

OF_POSITIONS = ["ndcg@10", "dcg", "map", "mrr", "err", "precision@3", "recall@3", "expdcg", "rbp",
                "tau"]  # fmt: skip
GROUP = [7, 1, 4, 12, 3]


def sample(seed=0):
    """Labels, scores with ties, and weights, some of them 0; the last query has none."""
    rng = np.random.default_rng(seed)
    n = sum(GROUP)
    weights = rng.integers(0, 5, n) * rng.random(n)
    weights[-GROUP[-1] :] = 0.0
    return rng.integers(0, 4, n), rng.integers(0, 5, n) / 2, weights


def with_document_weights(data, seed=3):
    weights = np.random.default_rng(seed).uniform(0.1, 3.0, data.n_documents)
    return replace(data, document_weights=weights)


@pytest.mark.parametrize("ties", ["worst", "best", "stable", "expected", "document_id"])
@pytest.mark.parametrize("seed", range(5))
def test_pair_accuracy_counts_a_pair_by_the_product_of_its_weights(ties, seed):
    labels, scores, weights = sample(seed)
    ids = [f"{(7 * row) % 29:03}" for row in range(len(labels))]
    options = {"group": GROUP, "document_weights": weights, "document_ids": ids}
    table = evaluate(labels, scores, f"pair_accuracy(ties={ties})", **options)
    (got,) = (row.values for row in table.results.values())
    bounds = np.cumsum([0, *GROUP])
    for query, (lo, hi) in enumerate(pairwise(bounds)):
        own = (values[lo:hi] for values in (labels, scores, weights, np.array(ids)))
        wanted = weighted_pair_accuracy(ties, *own)
        assert np.isnan(got[query]) if wanted is None else got[query] == pytest.approx(wanted)
    assert np.isnan(got[[1, 4]]).all()


def test_a_document_of_weight_2_is_two_documents():
    labels, scores, _ = sample()
    times = np.random.default_rng(1).integers(0, 4, len(labels))
    query = np.repeat(np.arange(len(GROUP)), GROUP)
    weighed = evaluate(labels, scores, "pair_accuracy", qid=query, document_weights=times)
    rows = np.repeat(np.arange(len(labels)), times)
    twice = evaluate(labels[rows], scores[rows], "pair_accuracy", qid=query[rows])
    assert weighed["pair_accuracy"] == pytest.approx(twice["pair_accuracy"], rel=1e-12)


def test_weights_of_one_give_the_bits_of_no_weights():
    labels, scores, weights = sample()
    plain = evaluate(labels, scores, "pair_accuracy", group=GROUP).per_query("pair_accuracy")
    ones = evaluate(
        labels, scores, "pair_accuracy", group=GROUP, document_weights=np.ones(len(weights))
    ).per_query("pair_accuracy")
    assert plain.tobytes() == ones.tobytes()


def test_a_perfect_ranking_is_1_and_the_worst_0_whatever_the_weights():
    labels, _, weights = sample()
    for scores, value in ((labels, 1.0), (-labels, 0.0)):
        options = {"group": GROUP, "document_weights": weights + 1 / 3}
        assert evaluate(labels, scores, "pair_accuracy", **options)["pair_accuracy"] == value


def test_weights_follow_their_documents_where_the_rows_of_a_query_are_brought_together():
    labels, scores, weights = sample()
    query = np.repeat(np.arange(len(GROUP)), GROUP)
    order = np.random.default_rng(2).permutation(len(labels))
    together = evaluate(labels, scores, "pair_accuracy", qid=query, document_weights=weights)
    apart = evaluate(
        labels[order], scores[order], "pair_accuracy", qid=query[order], split_queries="group",
        document_weights=weights[order],
    )  # fmt: skip
    assert apart["pair_accuracy"] == pytest.approx(together["pair_accuracy"], rel=1e-12)


def test_every_metric_either_counts_document_weights_or_refuses_them():
    counts = {name for name, metric in METRICS.items() if metric.weighs_documents}
    assert counts == {"pair_accuracy"}
    assert {name.partition("@")[0] for name in OF_POSITIONS} == set(METRICS) - counts


@pytest.mark.parametrize("metric", OF_POSITIONS)
@pytest.mark.parametrize("of_data", [False, True])
def test_metrics_of_positions_refuse_document_weights(metric, of_data):
    labels, scores, weights = sample()
    data = Dataset.from_arrays(np.zeros((len(labels), 1)), labels, group=GROUP)
    problem = rf"^{metric} must be measured without document weights: a position has none\. Got som"
    options = {} if of_data else {"document_weights": weights}
    data = replace(data, document_weights=weights) if of_data else data
    with pytest.raises(DataError, match=problem):
        evaluate(data, scores, ["pair_accuracy", metric], **options)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ([1.0], "document_weights must be one per document, 27. Got 1."),
        (np.full(27, -1.0), "document_weights must be finite and 0 or more."),
        (np.full(27, np.nan), "document_weights must be finite and 0 or more."),
    ],
)
def test_bad_document_weights_are_refused(weights, problem):
    labels, scores, _ = sample()
    with pytest.raises(DataError) as error:
        evaluate(labels, scores, "pair_accuracy", group=GROUP, document_weights=weights)
    assert str(error.value) == problem


def test_validation_counts_document_weights_in_pairs_and_not_in_positions():
    data, plain = make_data(), make_data(seed=1)
    weighed = with_document_weights(plain)
    options = {**QUICK, "eval_metric": ["ndcg@5", "pair_accuracy"], "early_stopping_rounds": 3}
    ranker = Ranker(**options).fit(data, valid={"weighed": weighed, "plain": plain})
    history = ranker.history_
    assert history["weighed"]["ndcg@5"] == history["plain"]["ndcg@5"]
    assert history["weighed"]["pair_accuracy"] != history["plain"]["pair_accuracy"]
    last = evaluate(weighed, ranker.model_.predict(weighed), "pair_accuracy")["pair_accuracy"]
    assert history["weighed"]["pair_accuracy"][ranker.best_iteration_ - 1] == last
    assert ranker.score(weighed) == ranker.score(plain)


def test_data_to_train_on_are_measured_in_cross_validation_whatever_their_weights():
    data = with_document_weights(make_data())
    found = cross_validate({"ranker": Ranker(**QUICK)}, data, ["ndcg@5"], folds=2)
    assert 0 < found.results["ranker"]["ndcg@5"] < 1


def test_data_that_are_measured_so_have_the_bits_of_data_without_document_weights():
    data, metrics = make_data(), [name for name in OF_POSITIONS if name != "err"]
    scores = data.features[:, 0]
    plain = evaluate(data, scores, metrics)
    assert dict(measure_dataset(with_document_weights(data), scores, metrics)) == dict(plain)


def test_the_best_weights_of_two_rankers_are_not_found_for_weighed_pairs():
    data = with_document_weights(make_data(n_queries=3))
    with pytest.raises(DataError, match="combined for pair_accuracy without document weights"):
        combine_two(data, data.features[:, 0], data.features[:, 1], "pair_accuracy")
    combine_two(data, data.features[:, 0], data.features[:, 1], "ndcg@5")

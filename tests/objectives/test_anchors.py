"""Pairs of documents of the ideal first ranks, against the formula pair by pair."""

import numpy as np
import pytest

from objectives.naive_objectives import (
    compute,
    forces_of_weights,
    pair_weights,
    stable_order,
)
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import ParameterError
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss, YetiRank


def query(n, seed=0):
    """Labels and scores that know little of each other, so that good documents stand low."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, size=n, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return labels, rng.normal(size=n) - 0.3 * labels


@pytest.mark.parametrize("truncation", [1, 3, 8, 60])
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("neighbours", ["all", 4])
@pytest.mark.parametrize("spec", ["ndcg", "dcg", "err"])
def test_pairs_with_documents_of_the_ideal_first_ranks_count_wherever_these_stand(
    spec, neighbours, normalise, truncation
):
    labels, scores = query(40)
    metric = parse_metric(f"{spec}(ties=stable)")
    how = {"truncation": truncation, "neighbours": neighbours}
    objective = LambdaMART(
        metric=metric, normalise=normalise, truncation_anchors="ideal", sigma=1.3, **how
    )
    weights = pair_weights(metric, labels, stable_order(scores), anchors="ideal", **how)
    expected = forces_of_weights(scores, weights, sigma=1.3, normalise=normalise)
    got = compute(objective, labels, scores)
    assert got[0] == pytest.approx(expected.forces, rel=1e-9, abs=1e-12)
    assert got[1] == pytest.approx(expected.curvatures, rel=1e-9, abs=1e-12)
    ranked = pair_weights(metric, labels, stable_order(scores), **how)
    assert len(weights) > len(ranked) or truncation == 60


def test_a_metric_that_is_a_function_has_the_same_anchors():
    labels, scores = query(20)

    def linear(ranked):
        return float(sum(label / np.log2(2 + rank) for rank, label in enumerate(ranked)))

    how = {"truncation": 3, "normalise": False, "truncation_anchors": "ideal"}
    known = LambdaMART(metric="dcg(gain=linear, ties=stable)", **how)
    with pytest.warns(UserWarning, match="plain Python"):
        got = compute(LambdaMART(metric=linear, **how), labels, scores)
    for found, wanted in zip(got, compute(known, labels, scores), strict=True):
        assert found == pytest.approx(wanted, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("kind", [RankMART, YetiRank, YetiLoss])
def test_a_good_document_below_the_truncation_is_pushed_by_those_beside_it(kind):
    labels = np.array([0] * 6 + [4, 0])
    scores = -10.0 * np.arange(8.0)
    ranked = kind(truncation=2, neighbours=1)
    ideal = kind(truncation=2, neighbours=1, truncation_anchors="ideal")
    assert compute(ranked, labels, scores)[0][6] == 0
    assert compute(ideal, labels, scores)[0][6] > 0


def test_without_a_truncation_anchors_are_refused_with_what_to_do():
    with pytest.raises(ParameterError, match=r"truncation_anchors must be ranked.*give a trunc"):
        LambdaMART(metric="ndcg@10", truncation_anchors="ideal")
    with pytest.raises(ParameterError, match="truncation_anchors"):
        Parameters(objective="yetirank", truncation_anchors="ideal")
    assert LambdaMART(metric="ndcg", truncation_anchors="ideal").truncation == 30


def test_anchored_forces_have_the_same_bits_on_any_number_of_threads():
    labels, scores = query(3000, seed=1)
    objective = LambdaMART(truncation=5, truncation_anchors="ideal")
    group = [60] * 50
    one = compute(objective, labels, scores, group)
    for n_jobs in (2, 4):
        assert np.array_equal(one, compute(objective, labels, scores, group, n_jobs=n_jobs))

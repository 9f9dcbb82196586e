"""Shares of documents: their sum, what each is without the others, and metrics that have none."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from metrics.test_laws import POLICIES, SPECS, as_rankings, random_query, with_ties
from rankgrove import parse_metric
from rankgrove.metrics.base import Rankings
from rankgrove.metrics.shares import document_shares, why_no_shares

ADDS_UP = [spec for spec in SPECS if spec not in ("pair_accuracy", "tau")]


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("spec", ADDS_UP)
def test_shares_of_a_query_add_up_to_its_value(spec, ties):
    metric = with_ties(spec, ties)
    rng = np.random.default_rng(7)
    rankings = as_rankings([random_query(rng) for _ in range(60)])
    if why_no_shares(metric, rankings) is not None:
        assert ties == "expected"
        assert spec.startswith(("map", "mrr", "err"))
        return
    sums = np.add.reduceat(document_shares(metric, rankings), rankings.offsets[:-1])
    assert sums == pytest.approx(np.nan_to_num(metric.per_query(rankings)), rel=1e-12, abs=1e-12)


def test_a_share_is_what_the_formula_gives_at_the_rank_of_the_document():
    # Ranked: grades 0, 2, 1; rows are in another order.
    rankings = Rankings([1, 0, 2], [0.1, 0.9, 0.5], [0, 3])
    dcg = [1 / math.log2(4), 0.0, 3 / math.log2(3)]
    assert document_shares(parse_metric("dcg"), rankings) == pytest.approx(dcg)
    precisions = [2 / 3 / 2, 0.0, 1 / 2 / 2]
    assert document_shares(parse_metric("map"), rankings) == pytest.approx(precisions)
    stops = 3 / 16, 1 / 16
    err = [(1 - stops[0]) * stops[1] / 3, 0.0, stops[0] / 2]
    assert document_shares(parse_metric("err"), rankings) == pytest.approx(err)


def test_tied_documents_share_their_ranks_where_the_metric_is_a_mean_over_orders():
    metric = parse_metric("dcg(ties=expected, gain=linear)")
    shares = document_shares(metric, Rankings([1, 1, 0], [0.5, 0.5, 0.1], [0, 3]))
    assert shares == pytest.approx([(1 + 1 / math.log2(3)) / 2] * 2 + [0.0])


def test_an_empty_query_has_shares_of_zero_whatever_it_counts_as():
    metric = dataclasses.replace(parse_metric("ndcg"), empty="one")
    assert document_shares(metric, Rankings([0, 0], [1.0, 2.0], [0, 2])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("spec", ["pair_accuracy", "tau"])
def test_a_metric_of_pairs_says_that_it_has_none(spec):
    rankings = Rankings([1, 0], [1.0, 2.0], [0, 2])
    assert why_no_shares(parse_metric(spec), rankings) == f"{spec} does not add up over ranks."

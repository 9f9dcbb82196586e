"""Queries all of whose pairs count: by label, without a look at pairs of equal labels."""

import itertools
import math
import warnings

import numpy as np
import pytest

from objectives.naive_objectives import METRICS, compute, dataset, forces_of_iterations
from rankgrove.metrics.forms import CASCADE, PRECISION, fill_deltas, split_deltas
from rankgrove.objectives import pair_forces
from rankgrove.objectives.label_pairs import _draw_block
from rankgrove.objectives.pair_forces import MOST_PAIRS
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss

# More than any query here has documents: such neighbours are all pairs, which go by rank.
MANY = 1_000


def queries(seed, spread=1.0):
    rng = np.random.default_rng(seed)
    group = [1, 40, 2, 137, 8, 9, 300]
    labels, scores = rng.integers(0, 5, sum(group)), spread * rng.normal(size=sum(group))
    labels[-300:-150] = 0
    return labels, np.round(scores, 1), group


def assert_near(got, wanted, size):
    # The rounding of each pair, of which a document has up to 300 that weigh up to `size`.
    for one, other in zip(got, wanted, strict=True):
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13 * size)


@pytest.mark.parametrize("spread", [1.0, 50.0])
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("spec", METRICS)
def test_pairs_are_pushed_alike_by_label_and_by_rank(spec, normalise, spread):
    labels, scores, group = queries(1, spread)
    weights = np.linspace(0.5, 2, len(group))
    how = {"metric": spec, "normalise": normalise, "truncation": None, "sigma": 1.4}
    by_label = compute(LambdaMART(**how), labels, scores, group, weights)
    by_rank = compute(LambdaMART(neighbours=MANY, **how), labels, scores, group, weights)
    assert_near(by_label, by_rank, 300 if spec in ("dcg", "expdcg") else 1)


@pytest.mark.parametrize("permutations", [1, 4, 9])
@pytest.mark.parametrize("spec", ["ndcg", "map(relevant>=2)", "mrr(relevant>=2)", "err"])
def test_rankings_with_noise_are_weighed_alike_by_label_and_by_rank(spec, permutations):
    labels, scores, group = queries(2)
    how = {"metric": spec, "permutations": permutations, "normalise": permutations == 9}
    by_label = compute(YetiLoss(**how), labels, scores, group, seed=5, iteration=3)
    by_rank = compute(YetiLoss(neighbours=MANY, **how), labels, scores, group, seed=5, iteration=3)
    assert_near(by_label, by_rank, 1)


@pytest.mark.parametrize("objective", [RankMART(), LambdaMART(metric="err", truncation=None)])
def test_weights_of_documents_and_leaves_count_alike_by_label_and_by_rank(objective):
    labels, scores, group = queries(3)
    rng = np.random.default_rng(4)
    data = dataset(labels, group, None, rng.uniform(0, 2, len(labels)))
    leaves = rng.integers(0, 3, len(labels)).astype(np.int32)
    found = []
    for form in (objective, type(objective)(**{**vars(objective), "neighbours": MANY})):
        prepared = form.prepare(data, n_jobs=1)
        forces, curvatures = np.empty(len(labels)), np.empty(len(labels))
        prepared.compute(scores, 0, forces, curvatures)
        across = prepared.cross_leaf_curvatures(scores, 0, leaves)
        assert np.all(across <= curvatures * (1 + 1e-12))
        found.append((forces, curvatures, across))
    assert_near(found[0], found[1], 300)


def test_only_pairs_of_different_labels_are_looked_at():
    labels, _, group = queries(6)
    starts = np.cumsum([0, *group])
    for spec, seen in (("ndcg", labels), ("map(relevant>=2)", labels >= 2)):
        counted = sum(
            int((seen[lo:hi, None] < seen[None, lo:hi]).sum())
            for lo, hi in itertools.pairwise(starts)
        )
        objective = LambdaMART(metric=spec, truncation=None)
        assert objective.prepare(dataset(labels, group)).n_pairs == counted
    # A truncation counts all pairs of its ranks.
    cut = LambdaMART(truncation=30).prepare(dataset(labels[1:41], [40])).n_pairs
    assert cut == 30 * 40


@pytest.mark.parametrize("highest", [15 / 16, 1.0])
@pytest.mark.parametrize("kind", [PRECISION, CASCADE])
def test_split_deltas_make_up_those_of_all_pairs(kind, highest):
    rng = np.random.default_rng(7)
    for n in (1, 2, 7, 60, 400):
        x = rng.choice([0.0, 1 / 16, 7 / 16, highest], n, p=[0.9, 0.05, 0.03, 0.02])
        if kind == PRECISION:
            x = (x > 0) / max((x > 0).sum(), 1)
        discounts = 1 / np.arange(1, n + 1)
        wanted = np.zeros((n, n))
        fill_deltas(kind, x, discounts, wanted)
        upper, lower, factor, after_sure = np.full((4, n), np.nan)
        sure = split_deltas(kind, n, x, discounts, upper, lower, factor, after_sure)
        assert (sure >= 0) == (kind == CASCADE and 1.0 in x)
        reach = 1.0
        for a in range(n):
            rows = slice(a + 1, n)
            values = after_sure[rows] if a == sure else upper[a] + factor[a] * lower[rows]
            got = -(x[a] - x[rows]) * values
            # Both differ by the rounding of what a user gets who reaches the upper rank.
            room = 1e-14 * (1.0 if kind == PRECISION else reach)
            np.testing.assert_allclose(got, wanted[a, rows], rtol=1e-12, atol=room)
            reach *= 1.0 - x[a]


def long_query(n, n_relevant, seed=8):
    rng = np.random.default_rng(seed)
    labels = np.zeros(n, dtype=int)
    labels[rng.permutation(n)[:n_relevant]] = 1
    return labels


def test_auto_bounds_the_pairs_of_a_query_of_20000_documents_and_says_so():
    labels = [*long_query(20_000, 4_000), 0, 1]
    with pytest.warns(UserWarning, match="1 of 2 queries have more than 8,388,608 pairs") as said:
        prepared = YetiLoss(metric="map").prepare(dataset(labels, [20_000, 2]))
    assert len(said) == 1
    assert prepared.n_pairs == MOST_PAIRS + 1 < 4_000 * 16_000
    # What the loop goes over: a block for each of the better documents.
    lengths = [_draw_block(16_000, MOST_PAIRS / 64e6, np.uint64(key))[1] for key in range(4_000)]
    assert MOST_PAIRS * 0.9 < sum(lengths) <= MOST_PAIRS


def test_pairs_are_all_counted_where_there_are_few_or_where_a_user_says_so():
    labels, rare = long_query(20_000, 4_000), long_query(20_000, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        all_pairs = YetiLoss(metric="map", neighbours="all").prepare(dataset(labels, [20_000]))
        few_pairs = YetiLoss(metric="map").prepare(dataset(rare, [20_000]))
        cut = YetiLoss(metric="ndcg@10").prepare(dataset(labels, [20_000]))
    assert all_pairs.n_pairs == 4_000 * 16_000
    assert few_pairs.n_pairs == 100 * 19_900
    assert cut.n_pairs == 10 * 20_000


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2, 1e-9])
@pytest.mark.parametrize("n_worse", [1, 7, 8, 9, 40, 1001])
def test_blocks_of_a_sample_cover_all_documents_once(n_worse, share):
    blocks = {_draw_block(n_worse, share, np.uint64(key)) for key in range(3_000)}
    covered = sorted(place for start, length, _ in blocks for place in range(start, start + length))
    assert covered == list(range(n_worse))
    assert {count for _, _, count in blocks} == {len(blocks)}
    assert max(length for _, length, _ in blocks) <= max(8, share * n_worse)


@pytest.mark.filterwarnings("ignore:1 of 1 queries")
@pytest.mark.parametrize("spec", ["ndcg", "map(relevant>=2)", "err"])
def test_forces_of_samples_are_those_of_all_pairs_in_the_mean(spec, monkeypatch):
    rng = np.random.default_rng(9)
    labels, scores = rng.integers(0, 5, 60), rng.normal(size=60)
    how = {"metric": spec, "noise": "none"}
    wanted, _ = compute(YetiLoss(neighbours="all", **how), labels, scores)
    monkeypatch.setattr(pair_forces, "MOST_PAIRS", 200)
    rows = forces_of_iterations(YetiLoss(**how), labels, scores, 4_000)
    # Of 60 documents: 5 standard errors.
    error = rows.std(axis=0) / math.sqrt(len(rows))
    assert np.all(np.abs(rows.mean(axis=0) - wanted) <= 5 * error + 1e-15)
    assert np.all(np.abs(rows.sum(axis=1)) <= 1e-12)
    assert len(np.unique(rows, axis=0)) > 3_900

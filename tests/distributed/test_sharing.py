"""Rows that workers have read become one data set, of which each has whole queries."""

from itertools import pairwise

import numpy as np
import pytest

from rankgrove import Dataset
from rankgrove.distributed.parts import deal_parts
from rankgrove.distributed.sharing import ReadPart, share
from rankgrove.errors import DataError
from workers import run_workers

EXTRAS = ("weights", "base_scores", "document_weights")


def make_rows(seed, n_rows, n_ids, with_extras):
    rng = np.random.default_rng(seed)
    qid = np.sort(rng.integers(0, n_ids, n_rows))
    more = {}
    if with_extras:
        more = {
            "weights": rng.random(n_ids)[qid],
            "base_scores": rng.random(n_rows),
            "document_weights": rng.random(n_rows),
        }
    return rng.normal(size=(n_rows, 3)).astype(np.float32), rng.integers(0, 3, n_rows), qid, more


def cut(features, labels, qid, more, bounds, split_queries="error"):
    """The parts between some rows, each a Dataset."""
    return [
        Dataset.from_arrays(
            features[a:b], labels[a:b], qid=qid[a:b], split_queries=split_queries,
            **{name: values[a:b] for name, values in more.items()},
        )
        for a, b in pairwise(bounds)
    ]  # fmt: skip


def share_all(parts, owners, size, **options):
    """What each worker has of parts that some have read."""

    def task(peers):
        mine = [
            ReadPart(number, f"part {number}", data)
            for number, data in enumerate(parts)
            if owners[number] == peers.rank
        ]
        return share(reversed(mine), peers, **options)

    return run_workers(size, task)[0]


def assert_same_queries(shares, whole):
    seen = []
    for data in shares:
        shard = data.shard
        assert (shard.n_queries, shard.n_documents) == (whole.n_queries, whole.n_documents)
        assert data.feature_names == whole.feature_names
        for place, number in enumerate(shard.numbers.tolist()):
            seen.append(number)
            mine = slice(*data.offsets[place : place + 2])
            wanted = slice(*whole.offsets[number : number + 2])
            assert shard.places[place] == wanted.start
            assert str(data.query_ids[place]) == str(whole.query_ids[number])
            np.testing.assert_array_equal(data.features[mine], whole.features[wanted])
            np.testing.assert_array_equal(data.labels[mine], whole.labels[wanted])
            for name in EXTRAS[1:]:
                if getattr(whole, name) is not None:
                    expected = getattr(whole, name)[wanted]
                    np.testing.assert_array_equal(getattr(data, name)[mine], expected)
            if whole.weights is not None:
                assert data.weights[place] == whole.weights[number]
    assert sorted(seen) == list(range(whole.n_queries))


@pytest.mark.parametrize("with_extras", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("deal", ["in order", "at random"])
def test_queries_at_the_borders_of_parts_go_to_one_worker(size, deal, with_extras):
    rows = make_rows(size, 200, 12, with_extras)
    whole = Dataset.from_arrays(*rows[:2], qid=rows[2], **rows[3])
    # Some parts are all of one query, which then reaches over three.
    rng = np.random.default_rng(0)
    bounds = [0, *np.sort(rng.choice(np.arange(1, 200), 30, replace=False)), 200]
    parts = cut(*rows, bounds)
    owners = deal_parts([part.n_documents for part in parts], size)
    if deal == "at random":
        owners = rng.integers(0, size, len(parts))
    assert_same_queries(share_all(parts, owners, size), whole)


@pytest.mark.parametrize("with_extras", [False, True])
def test_rows_of_queries_anywhere_are_brought_together_on_request(with_extras):
    features, labels, qid, more = make_rows(3, 150, 20, with_extras)
    order = np.random.default_rng(1).permutation(150)
    rows = (features[order], labels[order], qid[order], {k: v[order] for k, v in more.items()})
    whole = Dataset.from_arrays(*rows[:2], qid=rows[2], split_queries="group", **rows[3])
    parts = cut(*rows, [0, 40, 41, 90, 150], "group")
    shares = share_all(parts, [0, 2, 1, 0], 3, split_queries="group")
    assert_same_queries(shares, whole)


@pytest.mark.parametrize("as_id", [int, "q{:03d}".format])
def test_queries_are_in_the_order_of_their_ids_on_request(as_id):
    features, labels, qid, more = make_rows(4, 150, 20, with_extras=True)
    ids = np.array([as_id(query) for query in qid.tolist()])
    whole = Dataset.from_arrays(features, labels, qid=ids, **more)
    # Parts have whole queries, in the order of ids, as the worker of each query is drawn.
    parts, workers = [], np.random.default_rng(0).integers(0, 3, 20)[qid]
    for rank in range(3):
        rows = np.flatnonzero(workers == rank)
        extras = {name: values[rows] for name, values in more.items()}
        parts.append((features[rows], labels[rows], ids[rows], extras))
    half = len(parts[0][0]) // 2
    cuts = [cut(*part, [0, half, len(part[0])] if place == 0 else [0, len(part[0])])
            for place, part in enumerate(parts)]  # fmt: skip
    shares = share_all(
        [part for several in cuts for part in several], [0, 0, 1, 2], 4,
        split_queries="group", sort_queries=True,
    )  # fmt: skip
    assert shares[3].n_documents == 0
    assert_same_queries(shares, whole)


def test_a_query_that_comes_back_later_is_refused_by_name():
    several = (["a", "b"], ["b", "c"], ["a", "d"])
    parts = [Dataset.from_arrays([[0.0]] * 2, [0, 1], qid=ids) for ids in several]
    with pytest.raises(DataError, match=r"query 'a' must be in one part.*part 0 and part 2.*group"):
        share_all(parts, [0, 1, 1], 2)


def test_ids_that_are_numbers_in_one_part_and_texts_in_another_are_compared_as_texts():
    parts = [Dataset.from_arrays([[0.0]] * 2, [0, 1], qid=ids) for ids in ([6, 7], ["7", "x"])]
    shares = share_all(parts, [0, 1], 2)
    assert [data.group.tolist() for data in shares] == [[1, 2], [1]]


def test_queries_without_ids_stay_apart():
    parts = [Dataset.from_arrays([[0.0]] * 2, [0, 1], group=[1, 1]) for _ in range(2)]

    def task(peers):
        part = ReadPart(peers.rank, str(peers.rank), parts[peers.rank], has_query_ids=False)
        return share([part], peers)

    assert [data.shard.n_queries for data in run_workers(2, task)[0]] == [4, 4]


def test_numbered_features_that_a_text_does_not_reach_are_absent():
    parts = [
        Dataset.from_arrays(np.ones((1, width)), [0], qid=[width]) for width in (1, 3, 2)
    ]  # fmt: skip
    shares = share_all(parts, [0, 1, 1], 2, absent=np.nan)
    assert shares[0].features.tolist()[0][0] == 1
    assert np.isnan(shares[0].features).tolist() == [[False, True, True]]
    assert np.isnan(shares[1].features).tolist() == [[False] * 3, [False, False, True]]


def test_parts_of_other_columns_are_refused_by_name():
    def of(*names):
        return Dataset.from_arrays(np.ones((1, 2)), [0], qid=[names[0]], feature_names=names)

    with pytest.raises(
        DataError, match=r"part 1: must have the 2 features of part 0.*'c' in place"
    ):
        share_all([of("a", "b"), of("c", "b")], [0, 1], 2)
    weighted = Dataset.from_arrays(np.ones((1, 2)), [0], qid=["z"], weights=[1.0])
    plain = Dataset.from_arrays(np.ones((1, 2)), [0], qid=["y"])
    with pytest.raises(DataError, match=r"part 1 and part 0 must have the same columns.*weights"):
        share_all([weighted, plain], [0, 1], 2)


def test_two_weights_of_one_query_are_refused():
    parts = [
        Dataset.from_arrays(np.ones((1, 2)), [0], qid=["z"], weights=[weight])
        for weight in (1.0, 2.0)
    ]
    with pytest.raises(DataError, match="weight of query 'z' must be the same"):
        share_all(parts, [0, 1], 2)


def test_parts_are_dealt_in_order_by_their_size():
    dealt = deal_parts([1] * 12, 3)
    assert dealt == sorted(dealt)
    assert [dealt.count(worker) for worker in range(3)] == [4, 4, 4]
    assert deal_parts([7], 4) == [2]

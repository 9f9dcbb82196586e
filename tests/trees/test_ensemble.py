"""Parts of an ensemble: some of its trees, and trees alone."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove.trees.ensemble import Ensemble, Tree
from trees.naive_trees import random_ensemble, random_features, scores_of

LEAVES = [5, 1, 9, 3, 12]


@pytest.fixture
def ensemble():
    return random_ensemble(np.random.default_rng(0), LEAVES, 4, categorical=(1, 3))


def test_trees_between_two_numbers_score_as_those_trees(ensemble):
    features = random_features(np.random.default_rng(1), 50, 4)
    features[:, [1, 3]] = np.random.default_rng(2).integers(0, 20, (50, 2))
    for first in range(len(LEAVES) + 1):
        for last in range(first, len(LEAVES) + 1):
            part = ensemble.between(first, last)
            assert part.n_trees == last - first
            part.check(4)
            own = [ensemble.tree(number) for number in range(first, last)]
            whole = scores_of(Ensemble.from_trees(own), features)
            np.testing.assert_array_equal(scores_of(part, features), whole)


def test_trees_between_share_the_memory_of_the_ensemble(ensemble):
    part = ensemble.between(1, 4)
    assert np.shares_memory(part.value, ensemble.value)
    assert np.shares_memory(part.threshold, ensemble.threshold)


def test_trees_alone_make_the_same_ensemble_again(ensemble):
    assert len(ensemble.category_sets) > 2
    again = Ensemble.from_trees(ensemble.trees())
    for name, array in ensemble.arrays().items():
        np.testing.assert_array_equal(getattr(again, name), array, err_msg=name)


def test_a_tree_alone_has_each_set_that_it_uses_once():
    tree = Tree(
        feature=np.zeros(4, np.int32),
        threshold=np.zeros(4, np.float32),
        missing_left=np.zeros(4, np.uint8),
        left=np.array([1, 2, 3, ~0], np.int32),
        right=np.array([~4, ~3, ~2, ~1], np.int32),
        category_set=np.array([5, -1, 2, 5], np.int32),
        gain=np.zeros(4),
        value=np.zeros(5),
        count=np.ones(5, np.int64),
        category_sets=np.arange(64, dtype=np.uint32).reshape(8, 8),
    )
    alone = tree.alone()
    assert alone.category_set.tolist() == [1, -1, 0, 1]
    np.testing.assert_array_equal(alone.category_sets, tree.category_sets[[2, 5]])
    assert tree.depth == 4

"""The forms in which writers take trees."""

from __future__ import annotations

import numpy as np

from export.ensembles import ANY, random_documents, random_model
from rankgrove.export.tables import WalkTables, fold_tree, memberships


def walk(tables, document):
    """The score of one document, as the docstring of the tables says."""
    score = 0.0
    for root in tables.roots.tolist():
        node = root
        while node >= 0:
            feature = int(tables.feature[node])
            value = document[feature]
            code = value
            if feature in tables.categories:
                codes = np.flatnonzero(tables.categories[feature] == value)
                code = int(codes[0]) if len(codes) else np.nan
            row = int(tables.category_set[node])
            if np.isnan(code):
                left = bool(tables.missing_left[node])
            elif row < 0:
                left = bool(value <= tables.threshold[node])
            else:
                left = bool(int(tables.category_sets[row, code // 32]) >> (code % 32) & 1)
            node = int((tables.left if left else tables.right)[node])
        score += tables.value[~node]
    return score


def test_a_walk_through_the_tables_gives_the_score():
    for seed in range(30):
        model = random_model(seed, ANY)
        documents = random_documents(seed, model, 20)
        tables = WalkTables.of(model)
        assert [walk(tables, row) for row in documents] == model.predict(documents).tolist()


def test_each_set_of_categories_is_kept_once():
    for seed in range(20):
        sets = WalkTables.of(random_model(seed)).category_sets
        assert len(np.unique(sets, axis=0)) == len(sets)


def test_a_tree_is_folded_from_its_leaves_up_whatever_its_depth():
    model = random_model(9, leaves=[5000])
    tree = model.ensemble.tree(0)
    assert tree.depth > 1000  # deeper than Python would recurse
    splits = []

    def split(number, left, right):
        splits.append(number)
        return left | right

    assert fold_tree(tree, lambda leaf: frozenset([leaf]), split) == set(range(5000))
    assert sorted(splits) == list(range(4999))


def test_every_split_of_a_categorical_feature_and_no_other_is_a_test_of_membership():
    for seed in range(9):
        model = random_model(seed)
        for number in range(model.n_trees):
            tree = model.ensemble.tree(number)
            tests = memberships(tree, model.schema)
            categorical = [int(f) in model.schema.categories for f in tree.feature]
            assert [test is not None for test in tests] == categorical

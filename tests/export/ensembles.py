"""Models that are hard to export, made at random, and documents that find what is wrong."""

from __future__ import annotations

import numpy as np

from rankgrove.model.combined import CombinedModel
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import NO_SET, Ensemble
from trees.naive_trees import random_ensemble

LARGEST = np.finfo(np.float32).max
# Where floats end, begin and change their step.
HARD_THRESHOLDS = np.float32(
    [0.0, -0.0, 1e-45, -1e-45, 1e-36, -1e-36, LARGEST, -LARGEST, np.inf, -np.inf, 0.1, 2.0**24]
)
# Thresholds that stay clear of the values that LightGBM takes for 0.
NO_TINY = HARD_THRESHOLDS[(HARD_THRESHOLDS == 0) | (np.abs(HARD_THRESHOLDS) > 1e-30)]

# What the categories of a model are.
NONE, WHOLE, ANY = "none", "whole", "any"
ODD_CATEGORIES = np.float32([-3.0, 0.5, 3.7, 1e30, -0.1, 1e-40, 7e6])

N_NUMBERS = 4


def random_schema(random, kind=WHOLE, needs_base_scores=False):
    """Some numbers, then two categorical features unless there are to be none."""
    categories = {}
    for feature, most in ((N_NUMBERS, 8), (N_NUMBERS + 1, 256)):
        if kind == NONE:
            break
        known = random.permutation(400)[: random.integers(1, most + 1)].astype(np.float32)
        if kind == ANY:
            is_odd = random.random(len(known)) < 0.3
            known = np.unique(np.where(is_odd, random.choice(ODD_CATEGORIES, len(known)), known))
        categories[feature] = tuple(random.permutation(known).tolist())
    names = tuple(f"feature {number}" for number in range(N_NUMBERS + len(categories)))
    return Schema(names, categories, needs_base_scores)


def random_model(seed, kind=WHOLE, *, schema=None, thresholds=HARD_THRESHOLDS, leaves=None,
                 base_scores=False):  # fmt: skip
    """A few trees of 1 to 12 leaves, one in fifty of 300; sets of categories full and empty."""
    random = np.random.default_rng(seed)
    schema = schema or random_schema(random, kind, base_scores)
    near = np.float32(random.normal(size=6))
    cuts = np.concatenate([thresholds, near, np.nextafter(near, np.float32(np.inf))])
    if leaves is None:
        leaves = random.integers(1, 13, size=random.integers(1, 6)).tolist()
        leaves += [300] if seed % 50 == 0 else []
    known = tuple(schema.categories)
    trees = random_ensemble(
        random, leaves, schema.n_features, categorical=known, thresholds=cuts, chain=seed % 9 == 0
    )
    arrays = trees.arrays()
    fill = random.random(len(trees.category_sets))[:, np.newaxis]
    arrays["category_sets"] = np.where(
        fill < 0.1, np.uint32(0), np.where(fill > 0.9, np.uint32(2**32 - 1), trees.category_sets)
    )
    if seed % 3 == 0:
        # A category may also be split by a threshold on its code.
        by_code = random.random(len(trees.feature)) < 0.3
        arrays["category_set"] = np.where(by_code, NO_SET, trees.category_set).astype(np.int32)
    arrays["value"] = trees.value * 10.0 ** random.integers(-3, 2, size=len(trees.value))
    return Model(Ensemble(**arrays), schema, {}, {})


def random_documents(seed, model, n_documents=60):
    """On thresholds, beside them, missing, infinite; known, unknown and missing categories."""
    random = np.random.default_rng(seed)
    cuts = np.unique(np.append(model.ensemble.threshold, HARD_THRESHOLDS))
    with np.errstate(over="ignore", under="ignore"):
        beside = [np.nextafter(cuts, np.float32(end)) for end in (np.inf, -np.inf)]
    values = np.concatenate([cuts, *beside, np.float32([np.nan, np.inf, -np.inf])])
    features = random.choice(values, size=(n_documents, model.n_features))
    for feature, known in model.schema.categories.items():
        some = np.float32([*known, *known, np.nan, np.nan, 999.0, -1.0, 3.5, np.inf])
        features[:, feature] = random.choice(some, size=n_documents)
    features[random.random(features.shape) < 0.1] = np.nan
    return features


def combined_models(seed, kind=ANY):
    """Trees on the scores of two models, at thresholds that these scores reach; a weighted sum."""
    random = np.random.default_rng(seed)
    schema = random_schema(random, kind)
    parts = tuple(random_model(2 * seed + n, schema=schema, leaves=[5, 1, 7]) for n in (0, 1))
    documents = random_documents(seed, parts[0])
    scores = np.concatenate([part.predict(documents) for part in parts]).astype(np.float32)
    trees = random_ensemble(random, [4, 6, 1], 2, thresholds=scores)
    on_scores = CombinedModel(parts, Model(trees, Schema(("first", "second")), {}, {}))
    return on_scores, CombinedModel(parts, weights=(0.3, -1.7))

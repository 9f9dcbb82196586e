"""Models made to be exported wrongly, and documents that find out."""

from __future__ import annotations

import numpy as np

from rankgrove.model.combined import CombinedModel
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import NO_SET, Ensemble
from trees.naive_trees import leaf_of, random_ensemble

N_FEATURES = 6
N_DOCUMENTS = 24
LARGEST = np.finfo(np.float32).max

# Adjacent numbers, both zeros, the smallest and the largest ones, infinity.
THRESHOLDS = np.float32(
    [0.0, -0.0, 1e-45, -1e-45, 1e-36, -1e-36, LARGEST, -LARGEST, np.inf, -np.inf, 0.1, -2.5, 7.0]
)
THRESHOLDS = np.concatenate([THRESHOLDS, np.nextafter(np.float32([0.1, -2.5, 7.0]), np.float32(9))])

# Of whole, negative, fractional and huge categories.
CATEGORIES = (
    (3.0,),
    (0.0, 1.0, 2.0, 3.0, 4.0),
    (-1.0, 0.5, 1e30, 7.0, -0.25, 3.7),
    tuple(float(value) for value in range(-128, 128)),
)


def make_model(seed: int, *, categories: bool = True, infinite: bool = True) -> Model:
    """A model of a few trees of 1 to 300 leaves; some need base scores where categories may be."""
    rng = np.random.default_rng(seed)
    leaves = rng.choice([1, 2, 3, 8, 20], size=rng.integers(1, 6)).tolist()
    leaves += [300] if seed % 50 == 0 else []
    thresholds = np.concatenate([THRESHOLDS, rng.normal(size=8).astype(np.float32)])
    if not infinite:
        thresholds = thresholds[thresholds < LARGEST]
    known = {1: CATEGORIES[seed % 4], 4: CATEGORIES[seed // 4 % 4]} if categories else {}
    ensemble = random_ensemble(
        rng, leaves, N_FEATURES, categorical=tuple(known), thresholds=thresholds,
        chain=seed % 100 == 0,
    )  # fmt: skip
    if categories and seed % 3 == 0:
        # A category may also be split by a threshold on its code.
        by_code = (ensemble.category_set != NO_SET) & (rng.random(len(ensemble.feature)) < 0.5)
        arrays = ensemble.arrays()
        arrays["category_set"] = np.where(by_code, NO_SET, ensemble.category_set).astype(np.int32)
        ensemble = Ensemble(**arrays)
    if seed % 5 == 0:
        # Leaves of any size, down to those that float32 hardly has.
        sizes = 10.0 ** rng.uniform(-44, 30, size=len(ensemble.value))
        ensemble = Ensemble(**ensemble.arrays() | {"value": ensemble.value * sizes})
    names = tuple(f"f{number}" for number in range(N_FEATURES))
    return Model(ensemble, Schema(names, known, categories and seed % 7 == 0), {}, {})


def make_combined(seed: int) -> CombinedModel:
    """A weighted sum of three models, or trees on their scores."""
    rng = np.random.default_rng(seed)
    parts = [make_model(4 * (seed + number) + 1) for number in range(3)]
    schema = Schema(parts[0].feature_names, parts[0].schema.categories, seed % 4 == 3)
    parts = [
        Model(random_ensemble(rng, [8, 1, 5], N_FEATURES, categorical=(1, 4)), schema, {}, {})
        for _ in parts
    ]
    if seed % 2:
        weights = (0.3, 0.6, 0.1) if schema.needs_base_scores else (0.3, -1.7, 0.1)
        return CombinedModel(tuple(parts), weights=weights)
    # Thresholds on scores that parts give, so that their rounding to float32 counts.
    scores = parts[0].predict(make_documents(parts[0], seed)).astype(np.float32)
    top = random_ensemble(rng, [6, 6, 1], 3, thresholds=scores)
    return CombinedModel(tuple(parts), Model(top, Schema(("a", "b", "c")), {}, {}))


def make_documents(model: Model, seed: int, n_documents: int = N_DOCUMENTS) -> np.ndarray:
    """Documents on and beside the thresholds of a model, with odd values and odd categories."""
    rng = np.random.default_rng(seed)
    trees, schema = model.ensemble, model.schema
    columns = []
    for feature in range(model.n_features):
        if feature in schema.categories:
            known = np.float32(schema.categories[feature])
            odd = np.float32([np.nan, np.inf, -np.inf, 3.5, 12345.0, -0.0, known[0]])
        else:
            known = trees.threshold[trees.feature == feature]
            odd = np.float32([np.nan, np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
        with np.errstate(over="ignore"):
            beside = [np.nextafter(known, np.float32(end)) for end in (np.inf, -np.inf)]
        values = np.concatenate([known, known, *beside, odd])
        columns.append(rng.choice(values, size=n_documents))
    return np.column_stack(columns).astype(np.float32)


def make_base(model: Model | CombinedModel, seed: int) -> np.ndarray | None:
    """Base scores for the documents of a model that needs them."""
    if not model.schema.needs_base_scores:
        return None
    return np.random.default_rng(seed).normal(size=N_DOCUMENTS)


def naive_leaf_values(model: Model, features: np.ndarray) -> np.ndarray:
    """One row per tree: the value of the leaf that each document reaches."""
    encoded = np.asarray(model.schema.encode(features))
    trees = [model.ensemble.tree(number) for number in range(model.n_trees)]
    return np.array([[tree.value[leaf_of(tree, row)] for row in encoded] for tree in trees])

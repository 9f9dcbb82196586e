"""Data with missing values and categories, and models that each library trains on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import PreparedEnsemble

N_QUERIES, QUERY_SIZE = 40, 15
N_DOCUMENTS = N_QUERIES * QUERY_SIZE
GROUP = np.full(N_QUERIES, QUERY_SIZE)
QUERY = np.repeat(np.arange(N_QUERIES), QUERY_SIZE)
# The last two columns are categories.
N_FEATURES, CATEGORICAL = 7, (5, 6)


def make_data(seed, *, missing=0.1, zeros=0.2, categories=(6, 40)):
    """Features of float32 and labels from 0 to 3."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(N_DOCUMENTS, N_FEATURES)).astype(np.float32)
    features[:, 1] = np.exp(3 * features[:, 1])
    features[:, 2] = np.rint(2 * features[:, 2])
    features[draw.random(features.shape) < zeros] = 0
    for column, number in zip(CATEGORICAL, categories, strict=True):
        features[:, column] = draw.integers(0, number, N_DOCUMENTS)
    odd = features[:, 5] % 2 + (features[:, 6] % 3 == 0)
    target = features[:, 0] + odd + 0.3 * draw.normal(size=N_DOCUMENTS)
    labels = np.digitize(target, [0.0, 1.0, 2.0]).astype(np.float32)
    features[draw.random(features.shape) < missing] = np.nan
    return features, labels


def probes(model, seed=0, n_documents=1500, least_category=-1):
    """Documents on the thresholds of a model, beside them, missing, tiny, of any category."""
    draw = np.random.default_rng(seed)
    documents = np.empty((n_documents, model.n_features), np.float32)
    tiny = np.float32([0, -0.0, 1e-35, -1e-35, 1.1e-35, -1.1e-35, 1e-45, -1e-45, 9e-36])
    for feature in range(model.n_features):
        if feature in model.schema.categories:
            pool = np.arange(least_category, 60, dtype=np.float32)
        else:
            on = np.unique(model.ensemble.threshold[model.ensemble.feature == feature])
            with np.errstate(over="ignore"):
                beside = [np.nextafter(on, np.float32(side)) for side in (-np.inf, np.inf)]
            pool = np.concatenate([on, *beside, tiny])
        pool = pool[np.isfinite(pool)]
        documents[:, feature] = draw.choice(np.append(pool, np.float32(np.nan)), n_documents)
    return documents


def leaves_by_tree(model, features):
    """What each tree gives each document, one column per tree."""
    encoded = model.schema.encode(features)
    trees: Ensemble = model.ensemble
    columns = [
        PreparedEnsemble(trees.between(number, number + 1)).score(encoded, n_jobs=1)
        for number in range(trees.n_trees)
    ]
    return np.column_stack(columns)


def lightgbm_booster(seed=0, rounds=8, data=None, **settings):
    import lightgbm

    features, labels = make_data(seed) if data is None else data
    chosen = {
        "objective": "lambdarank", "num_leaves": 15, "min_data_in_leaf": 5, "verbosity": -1,
        "num_threads": 1, "seed": seed, "min_data_per_group": 5, "cat_smooth": 1.0, "cat_l2": 1.0,
    } | settings  # fmt: skip
    categorical = chosen.pop("categorical_feature", list(CATEGORICAL))
    data = lightgbm.Dataset(
        features, labels, group=GROUP, categorical_feature=categorical, params=chosen
    )
    return lightgbm.train(chosen, data, rounds)


def xgboost_booster(seed=0, rounds=8, data=None, types=None, **settings):
    import xgboost

    features, labels = make_data(seed) if data is None else data
    types = ["float"] * 5 + ["c"] * 2 if types is None else types
    matrix = xgboost.DMatrix(
        features, labels, group=GROUP, feature_types=types, enable_categorical=True, nthread=1
    )
    chosen = {"objective": "rank:ndcg", "max_depth": 4, "nthread": 1, "seed": seed} | settings
    return xgboost.train(chosen, matrix, rounds)


def xgboost_margins(booster, features, types=None):
    import xgboost

    types = ["float"] * 5 + ["c"] * 2 if types is None else types
    rows = xgboost.DMatrix(features, feature_types=types, enable_categorical=True, nthread=1)
    return (
        booster.predict(rows, output_margin=True),
        np.atleast_2d(booster.predict(rows, pred_leaf=True)),
    )


def catboost_model(seed=0, rounds=8, data=None, **settings):
    import catboost

    features, labels = make_data(seed) if data is None else data
    chosen = {
        "loss_function": "YetiRank", "depth": 4, "iterations": rounds, "random_seed": seed,
        "thread_count": 1, "verbose": False, "allow_writing_files": False,
    } | settings  # fmt: skip
    model = catboost.CatBoost(chosen)
    model.fit(catboost.Pool(features, labels, group_id=QUERY))
    return model


def catboost_text(model, directory):
    path = Path(directory) / "catboost.json"
    model.save_model(str(path), format="json")
    return path.read_text(encoding="utf-8")

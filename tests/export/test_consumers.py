"""What the programs that a file is for make of it, on ensembles that are hard to hold.

Each format is held against at least 500 ensembles: to the bit, to the float32 of the score, or leaf
by leaf, as the format says.
"""

from __future__ import annotations

import numpy as np
import pytest

from export.agreement import assert_agrees, documents_held, with_numbered_leaves
from export.ensembles import (
    ANY,
    NO_TINY,
    WHOLE,
    combined_models,
    random_documents,
    random_model,
    random_schema,
)
from rankgrove.export.format import Exportable, Rows
from rankgrove.export.formats import EXPORT_FORMATS
from rankgrove.export.lightgbm_text import LIGHTGBM
from rankgrove.export.onnx_graph import ONNX
from rankgrove.export.sql import SQL
from rankgrove.export.xgboost_json import XGBOOST
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import Ensemble

N_ENSEMBLES = 500


def consumer_of(written, name):
    return next(consumer for consumer in written.consumers if name in consumer.name)


def there_and_here(written, name, model, features, base=None, **options):
    """The scores of a consumer and those of Rankgrove, of documents that the format holds."""
    source = Exportable.of(model)
    chosen = written.checked_options(options)
    rows = Rows(features, base, model.feature_names)
    there = consumer_of(written, name).score(written.write(source, chosen), rows, chosen)
    inside = documents_held(written, model, features, base, **options)
    return there[inside], model.predict(features, base_scores=base)[inside]


def held(written, name, seeds, kind, **options):
    """Hold a consumer to what the format states, on ensembles of these seeds."""
    compared = 0
    for seed in seeds:
        model = random_model(seed, kind)
        there, here = there_and_here(written, name, model, random_documents(seed, model), **options)
        assert_agrees(written, model, there, here, f"seed {seed}", **options)
        compared += len(here)
    assert compared > 10 * len(seeds)


def join(models):
    """All trees of models of one schema in one, and where those of each begin and end."""
    trees = [tree for model in models for tree in model.ensemble.trees()]
    ends = np.cumsum([0, *(model.n_trees for model in models)])
    return Model(Ensemble.from_trees(trees), models[0].schema, {}, {}), ends


def test_lightgbm_gives_the_same_bits():
    lightgbm = pytest.importorskip("lightgbm")
    for group in range(N_ENSEMBLES // 50):
        schema = random_schema(np.random.default_rng(group), WHOLE)
        models = [
            random_model(50 * group + number, schema=schema, thresholds=NO_TINY)
            for number in range(50)
        ]
        joined, ends = join(models)
        source = Exportable.of(joined)
        features = random_documents(group, joined)
        outside = LIGHTGBM.outside(source, {}, Rows(features, None, joined.feature_names))
        features = features[~np.logical_or(*outside.values())]
        assert len(features) > 10
        booster = lightgbm.Booster(model_str=LIGHTGBM.write(source, {}).decode())
        for model, first, last in zip(models, ends, ends[1:], strict=False):
            there = booster.predict(
                features, start_iteration=int(first), num_iteration=int(last - first),
                num_threads=1,
            )  # fmt: skip
            np.testing.assert_array_equal(there, model.predict(features))


def test_treelite_gives_the_same_bits():
    pytest.importorskip("treelite")
    held(LIGHTGBM, "treelite", range(N_ENSEMBLES), WHOLE)


@pytest.mark.parametrize("operator", [3, 5])
def test_onnxruntime_gives_the_float32_of_the_score_or_the_same_bits(operator):
    pytest.importorskip("onnxruntime")
    held(ONNX, "onnxruntime", range(N_ENSEMBLES), ANY, operator=operator)


def test_xgboost_sends_every_document_to_the_same_leaf():
    xgboost = pytest.importorskip("xgboost")
    for group in range(N_ENSEMBLES // 50):
        schema = random_schema(np.random.default_rng(group), WHOLE)
        seeds = range(50 * group, 50 * group + 50)
        models = [
            with_numbered_leaves(random_model(s, schema=schema, leaves=[1 + s % 40])) for s in seeds
        ]
        joined, _ = join(models)
        source = Exportable.of(joined)
        features = random_documents(group, joined)
        outside = XGBOOST.outside(source, {}, Rows(features, None, joined.feature_names))
        features = features[~np.logical_or.reduce(list(outside.values()))]
        assert len(features) > 10
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(XGBOOST.write(source, {})))
        matrix = xgboost.DMatrix(
            features, feature_names=booster.feature_names, feature_types=booster.feature_types,
            enable_categorical=True, nthread=1,
        )  # fmt: skip
        for tree, model in enumerate(models):
            there = booster.predict(matrix, output_margin=True, iteration_range=(tree, tree + 1))
            np.testing.assert_array_equal(there, model.predict(features))


def test_xgboost_stays_within_the_bound_of_float32_sums():
    pytest.importorskip("xgboost")
    held(XGBOOST, "xgboost", range(60), WHOLE)


def test_sqlite_gives_the_same_bits():
    held(SQL, "sqlite", range(N_ENSEMBLES), ANY, dialect="sqlite")


def test_duckdb_gives_the_same_bits():
    pytest.importorskip("duckdb")
    held(SQL, "duckdb", range(N_ENSEMBLES), ANY, dialect="duckdb")


@pytest.mark.parametrize(
    ("written", "name", "kind", "options"),
    [
        (LIGHTGBM, "rules of LightGBM", WHOLE, {}),
        (XGBOOST, "rules of XGBoost", WHOLE, {}),
        (ONNX, "rules of ONNX", ANY, {"operator": 3}),
        (ONNX, "rules of ONNX", ANY, {"operator": 5}),
        (SQL, "rules of PostgreSQL", ANY, {"dialect": "postgres"}),
        (SQL, "rules of DuckDB", ANY, {"dialect": "duckdb"}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_written_rules_agree_too(written, name, kind, options):
    if written is ONNX:
        pytest.importorskip("onnx")
    held(written, name, range(80), kind, **options)


@pytest.mark.parametrize("name", ["onnxruntime", "rules of ONNX"])
def test_onnx_chains_combined_models(name):
    pytest.importorskip("onnxruntime")
    for seed in range(60):
        on_scores, weighted = combined_models(seed)
        documents = random_documents(seed, on_scores.parts[0])
        for operator in (3, 5):
            there, here = there_and_here(ONNX, name, on_scores, documents, operator=operator)
            np.testing.assert_array_equal(there, here.astype(there.dtype))
        there, here = there_and_here(ONNX, name, weighted, documents, operator=5)
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_sql_nests_combined_models(dialect):
    name = {"sqlite": "sqlite", "postgres": "PostgreSQL"}[dialect]
    for seed in range(60):
        for model in combined_models(seed):
            documents = random_documents(seed, model.parts[0])
            there, here = there_and_here(SQL, name, model, documents, dialect=dialect)
            np.testing.assert_array_equal(there, here)


def test_sql_starts_from_base_scores():
    for seed in range(30):
        model = random_model(seed, ANY, base_scores=True)
        documents = random_documents(seed, model)
        base = np.random.default_rng(seed).normal(size=len(documents))
        there, here = there_and_here(SQL, "sqlite", model, documents, base)
        np.testing.assert_array_equal(there, here)


def float64_documents(model, seed):
    """Numbers that no float32 holds, on and beside the middle between two floats."""
    random = np.random.default_rng(seed)
    cuts = model.ensemble.threshold[np.isfinite(model.ensemble.threshold)].astype(np.float64)
    with np.errstate(over="ignore"):
        above = np.nextafter(cuts.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    middles = ((cuts + above) / 2)[np.isfinite(above)]
    some = [middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), cuts]
    values = np.append(np.concatenate(some), [np.nan, 0.3])
    return random.choice(values, size=(80, model.n_features))


def test_lightgbm_and_treelite_are_exact_for_features_of_float64():
    lightgbm, treelite = pytest.importorskip("lightgbm"), pytest.importorskip("treelite")
    off_if_not_widened = 0
    for seed in range(20):
        near = np.float32(np.random.default_rng(seed).normal(size=8))
        model = random_model(seed, "none", thresholds=near, leaves=[20] * 10)
        features = float64_documents(model, seed)
        here = model.predict(features)
        content = LIGHTGBM.write(Exportable.of(model), {})
        booster = lightgbm.Booster(model_str=content.decode())
        np.testing.assert_array_equal(booster.predict(features, num_threads=1), here)
        rows = Rows(features, None, model.feature_names)
        there = consumer_of(LIGHTGBM, "treelite").score(content, rows, {})
        np.testing.assert_array_equal(there, here)
        off_if_not_widened += (model.predict(np.nextafter(features, np.inf)) != here).sum()
    assert treelite
    assert off_if_not_widened


def test_sql_is_exact_for_columns_of_float64():
    for seed in range(20):
        near = np.float32(np.random.default_rng(seed).normal(size=8))
        model = random_model(seed, "none", thresholds=near, leaves=[20] * 5)
        features = float64_documents(model, seed)
        there, here = there_and_here(SQL, "sqlite", model, features)
        np.testing.assert_array_equal(there, here)


def test_the_formats_of_these_tests_are_registered():
    assert {"onnx", "lightgbm", "xgboost", "sql"} <= set(EXPORT_FORMATS)

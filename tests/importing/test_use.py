"""What is done with a model works on an imported one; and the check finds what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from importing.samples import (
    GROUP,
    catboost_model,
    catboost_text,
    lightgbm_booster,
    make_data,
    xgboost_booster,
)
from rankgrove import (
    Dataset,
    Ranker,
    check_import,
    combine,
    compare,
    import_model,
    load,
)
from rankgrove.errors import DataError
from rankgrove.importing.check import make_documents
from rankgrove.testing.peer_scores import score_by_peer

for library in ("lightgbm", "xgboost", "catboost"):
    pytest.importorskip(library)

KINDS = ["lightgbm", "xgboost", "catboost"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sources")
    return {
        "lightgbm": lightgbm_booster().model_to_string(),
        "xgboost": bytes(xgboost_booster(num_parallel_tree=2).save_raw("ubj")),
        "catboost": catboost_text(catboost_model(), directory),
    }


@pytest.fixture(scope="module")
def data():
    features, labels = make_data(9)
    return Dataset.from_arrays(features, labels, group=GROUP)


@pytest.mark.parametrize("kind", KINDS)
def test_an_imported_model_is_explained(sources, data, kind):
    model = import_model(sources[kind])
    scores = model.predict(data)
    assert np.allclose(model.contributions(data).sum(axis=1), scores, atol=1e-9)
    assert model.importance("split").sum() > 0
    assert model.permutation_importance(data, repeats=1).mean.max() > 0
    a, b = np.argsort(-scores)[[0, -1]]
    assert "stands above" in str(model.why(data, int(a), int(b)))
    assert "leaves" in model.describe_tree(model.n_trees - 1)
    assert model.describe()["trees"] == model.n_trees


def test_imported_models_are_compared_with_each_other(sources, data):
    models = {kind: import_model(source) for kind, source in sources.items()}
    table = compare(data, models, "ndcg@10", baseline="lightgbm")
    assert all(kind in str(table) for kind in KINDS)


def test_imported_models_of_the_same_features_are_combined(sources, data, tmp_path):
    numeric = xgboost_booster(types=["float"] * 7, max_depth=2)
    models = {
        "xgboost": import_model(bytes(numeric.save_raw("json"))),
        "catboost": import_model(sources["catboost"]),
    }
    combined = combine(data, models, "ndcg@10").model
    combined.save(tmp_path / "combined.safetensors")
    loaded = load(tmp_path / "combined.safetensors")
    assert np.array_equal(loaded.predict(data), combined.predict(data))


def test_an_imported_model_is_trained_further(sources, data):
    model = import_model(sources["catboost"])
    longer = Ranker(n_estimators=3).fit(data, base_model=model).model_
    assert longer.n_base_trees == model.n_trees
    assert np.array_equal(longer.predict(data, n_trees=model.n_trees), model.predict(data))


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_scores_by_the_library_itself(sources, data, kind):
    model = import_model(sources[kind])
    for documents in (None, data, np.asarray(data.features)):
        check = check_import(model, sources[kind], documents)
        assert check.passed
        assert check.library.lower().startswith(kind)
    assert check_import(model, sources[kind], data).queries == data.n_queries
    if kind == "lightgbm":
        assert (check.same, check.difference, check.bound) == (check.documents, 0.0, 0.0)


def test_the_check_of_the_first_rounds_takes_these(sources):
    for source in sources.values():
        model = import_model(source, n_rounds=2)
        assert check_import(model, source).passed


@pytest.mark.parametrize("change", ["threshold", "missing_left", "value"])
def test_the_check_finds_a_model_that_scores_otherwise(sources, change):
    model = import_model(sources["lightgbm"])
    arrays = {name: array.copy() for name, array in model.ensemble.arrays().items()}
    if change == "threshold":
        arrays["threshold"] = np.nextafter(arrays["threshold"], np.float32(-np.inf))
    elif change == "missing_left":
        arrays["missing_left"] ^= np.uint8(1)
    else:
        arrays["value"][0] += 1e-12
    wrong = replace(model, ensemble=type(model.ensemble)(**arrays))
    check = check_import(wrong, sources["lightgbm"])
    assert not check.passed
    assert check.same < check.documents


def test_made_documents_stand_on_every_threshold(sources):
    model = import_model(sources["lightgbm"])
    documents = np.asarray(make_documents(model).features)
    numeric = model.ensemble.category_set < 0
    splits = zip(model.ensemble.feature[numeric], model.ensemble.threshold[numeric], strict=True)
    for feature, threshold in splits:
        assert not np.isfinite(threshold) or threshold in documents[:, feature]


def test_a_library_that_cannot_read_its_model_is_one_error(sources):
    model = import_model(sources["xgboost"])
    with pytest.raises(DataError, match="must be able to score by its own model"):
        score_by_peer("xgboost", b'{"learner": 3}', np.zeros((1, 7), np.float32))
    with pytest.raises(DataError, match="must be an imported one"):
        check_import(replace(model, notes={}), sources["xgboost"])

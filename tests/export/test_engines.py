"""Formats of search engines, held against the written rules of each engine.

The rules read the exported file only. That they can tell a right file from a wrong one is shown
too: each of them refutes the exporter that one would write first.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from export.engine_models import (
    LARGEST,
    N_FEATURES,
    make_combined,
    make_documents,
    make_model,
    naive_leaf_values,
)
from rankgrove.export import elasticsearch_ltr, solr, vespa
from rankgrove.export.elasticsearch import ELASTICSEARCH
from rankgrove.export.elasticsearch_ltr import ELASTICSEARCH_LTR
from rankgrove.export.exact import Slackened
from rankgrove.export.format import Exportable, ExportError, Format, Rows
from rankgrove.export.ranklib import RANKLIB
from rankgrove.export.rules import elasticsearch as elasticsearch_rules
from rankgrove.export.rules import elasticsearch_ltr as elasticsearch_ltr_rules
from rankgrove.export.rules import ranklib as ranklib_rules
from rankgrove.export.rules import solr as solr_rules
from rankgrove.export.rules import vespa as vespa_rules
from rankgrove.export.solr import SOLR
from rankgrove.export.vespa import VESPA
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble
from trees.naive_trees import random_ensemble

FORMATS = [ELASTICSEARCH_LTR, ELASTICSEARCH, SOLR, VESPA, RANKLIB]
RULES = {
    "elasticsearch-ltr": elasticsearch_ltr_rules,
    "elasticsearch": elasticsearch_rules,
    "solr": solr_rules,
    "vespa": vespa_rules,
    "ranklib": ranklib_rules,
}
WHOLE_FLOAT64 = (ELASTICSEARCH, VESPA)
N_MODELS = 500

each_format = pytest.mark.parametrize("written", FORMATS, ids=lambda written: written.name)


def exported(written: Format, model: Model, **options: str) -> str:
    """The text of a model in a format."""
    chosen = written.checked_options(options)
    return written.write(Exportable.of(model), chosen).decode()


def leaf_values_there(written: Format, text: str, model: Model, features: np.ndarray) -> np.ndarray:
    rules = RULES[written.name]
    return np.array(list(rules.leaf_values(text, features, model.feature_names)))


def inside(written: Format, model: Model, features: np.ndarray) -> np.ndarray:
    """Which documents a format says that it scores alike."""
    options = written.checked_options({})
    rows = Rows(features, None, model.feature_names)
    masks = written.outside(Exportable.of(model), options, rows).values()
    return ~np.logical_or.reduce([np.zeros(len(features), dtype=bool), *masks])


def expected_leaves(written: Format, model: Model, features: np.ndarray) -> np.ndarray:
    values = naive_leaf_values(model, features)
    return values if written in WHOLE_FLOAT64 else values.astype(np.float32)


def differs(written: Format, text: str, model: Model, features: np.ndarray) -> bool:
    """Whether a document that the format holds reaches another leaf there."""
    kept = features[inside(written, model, features)]
    there = leaf_values_there(written, text, model, kept)
    return bool((there != expected_leaves(written, model, kept)).any())


def models_for(written: Format, numbers: range) -> list[tuple[Model, np.ndarray]]:
    """Models without categories, with documents; for RankLib without splits at infinity."""
    found = []
    for seed in numbers:
        model = make_model(seed, categories=False, infinite=written is not RANKLIB)
        found.append((model, make_documents(model, seed)))
    return found


def check_models(written: Format, numbers: range) -> int:
    """Compare leaves and scores of some models; how many documents were compared."""
    n_compared = 0
    for model, features in models_for(written, numbers):
        text = exported(written, model)
        kept = features[inside(written, model, features)]
        there = leaf_values_there(written, text, model, kept)
        np.testing.assert_array_equal(there, expected_leaves(written, model, kept))
        scores = RULES[written.name].score(text, kept, model.feature_names)
        agreement, here = written.agreement({}), model.predict(kept)
        if agreement.words:
            np.testing.assert_array_equal(scores, agreement.rounded(here))
        else:
            bound = agreement.bound(Exportable.of(model))
            assert np.abs(scores - here).max(initial=0.0) <= bound
        n_compared += len(kept)
    return n_compared


@each_format
def test_every_document_reaches_the_same_leaf_and_the_score_keeps_its_bound(written):
    # Enough of the documents must be left that the format says it scores alike.
    assert check_models(written, range(N_MODELS)) > 2 * N_MODELS


@pytest.mark.long
@each_format
def test_every_document_reaches_the_same_leaf_in_ten_thousand_models(written):
    check_models(written, range(N_MODELS, 10_000))


@each_format
def test_a_document_is_left_out_only_for_a_reason_that_the_format_names(written):
    for model, features in models_for(written, range(50)):
        left_out = ~inside(written, model, features)
        if written is SOLR:
            small = np.abs(features) < 1e-3
            assert not left_out[~small.any(axis=1)].any()
        elif written is RANKLIB:
            assert not left_out[~np.isnan(features).any(axis=1)].any()
        else:
            assert not left_out[~np.isinf(features).any(axis=1)].any()


@each_format
def test_the_same_model_gives_the_same_bytes_also_from_its_file(written, tmp_path):
    model = make_model(50, categories=False, infinite=False)
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    texts = {exported(written, m) for m in (model, model, loaded)}
    assert len(texts) == 1


@each_format
@pytest.mark.parametrize("n_trees", [0, 1])
def test_models_of_no_tree_and_of_one_leaf_are_scored(written, n_trees):
    model = Model(
        random_ensemble(np.random.default_rng(0), [1] * n_trees, 2), Schema(("a", "b")), {}, {}
    )
    features = np.float32([[1, np.nan]])
    score = RULES[written.name].score(exported(written, model), features, model.feature_names)
    assert score.tolist() == np.float32(model.predict(features)).tolist() or written is VESPA
    assert score == pytest.approx(model.predict(features), rel=1e-7)


@each_format
def test_names_of_features_may_have_any_characters(written):
    names = ('say "hi"', "back\\slash\n", "日本*/", "</feature>", "x", "\ud800")
    rng = np.random.default_rng(1)
    model = Model(random_ensemble(rng, [30], N_FEATURES), Schema(names), {}, {})
    features = rng.normal(size=(50, N_FEATURES)).astype(np.float32)
    assert not differs(written, exported(written, model), model, features)


# The exporters that one would write first, each refuted by the rules of its engine.


def refuted(written: Format, export, numbers: range = range(30)) -> bool:
    """Whether the rules find a document that such an exporter sends to another leaf."""
    return any(
        differs(written, export(model), model, features)
        for model, features in models_for(written, numbers)
    )


def without_directions(model: Model) -> Model:
    """The model of an exporter that takes no notice of missing values: they all go right."""
    arrays = model.ensemble.arrays()
    arrays["missing_left"] = np.zeros_like(arrays["missing_left"])
    return Model(Ensemble(**arrays), model.schema, {}, {})


@pytest.mark.parametrize(
    "written", [f for f in FORMATS if f is not RANKLIB], ids=lambda written: written.name
)
def test_an_exporter_that_ignores_missing_values_is_refuted(written):
    assert refuted(written, lambda model: exported(written, without_directions(model)))


def test_elasticsearch_ltr_refutes_thresholds_taken_over_as_they_are(monkeypatch):
    assert not refuted(ELASTICSEARCH_LTR, lambda model: exported(ELASTICSEARCH_LTR, model))
    monkeypatch.setattr(
        elasticsearch_ltr, "next_float32", lambda thresholds: thresholds.clip(-LARGEST, LARGEST)
    )
    assert refuted(ELASTICSEARCH_LTR, lambda model: exported(ELASTICSEARCH_LTR, model))


def test_elasticsearch_refutes_less_than_in_place_of_at_most():
    def naive(model: Model) -> str:
        as_they_are = exported(ELASTICSEARCH, model).replace('"lte"', '"lt"')
        return _with_thresholds(as_they_are, lambda t: float(np.float32(t)))

    assert refuted(ELASTICSEARCH, naive)


def test_elasticsearch_and_vespa_decide_as_rankgrove_for_float64_documents():
    for seed in range(100):
        model = make_model(seed, categories=False, infinite=False)
        features = _between_floats(model, seed)
        wanted = naive_leaf_values(model, features.astype(np.float32))
        for written in WHOLE_FLOAT64:
            there = leaf_values_there(written, exported(written, model), model, features)
            np.testing.assert_array_equal(there, wanted)


def test_elasticsearch_refutes_thresholds_that_are_not_widened():
    model = make_model(3, categories=False, infinite=False)
    features = _between_floats(model, 3)
    plain = _with_thresholds(exported(ELASTICSEARCH, model), lambda t: float(np.float32(t)))
    there = leaf_values_there(ELASTICSEARCH, plain, model, features)
    assert (there != naive_leaf_values(model, features.astype(np.float32))).any()


def test_solr_refutes_thresholds_that_keep_the_slack(monkeypatch):
    monkeypatch.setattr(solr, "without_slack", lambda t: Slackened(t, t))
    assert refuted(SOLR, lambda model: exported(SOLR, model))


def test_solr_refuses_numbers_of_json_and_a_flag_that_is_a_string():
    model = make_model(3, categories=False)
    text, features = exported(SOLR, model), make_documents(model, 3)
    for wrong in (
        text.replace('"isNullSameAsZero":false', '"isNullSameAsZero":"false"'),
        text.replace('"weight":"1"', '"weight":1'),
    ):
        with pytest.raises(ValueError, match="mismatch"):
            solr_rules.score(wrong, features, model.feature_names)


def test_solr_reads_missing_as_zero_unless_it_is_told_otherwise():
    def naive(model: Model) -> str:
        return exported(SOLR, model).replace('"isNullSameAsZero":false,', "")

    assert refuted(SOLR, naive)


def test_vespa_refutes_the_thresholds_of_lightgbm(monkeypatch):
    monkeypatch.setattr(vespa, "after_widened", lambda t: t.astype(np.float64).clip(-1e300))
    assert refuted(VESPA, lambda model: exported(VESPA, model))


def test_ranklib_refutes_features_counted_from_zero_and_thresholds_of_six_digits():
    model = make_model(3, categories=False, infinite=False)
    right = exported(RANKLIB, model)
    first = f"<feature> {int(model.ensemble.feature[0]) + 1} </feature>"
    with pytest.raises(ValueError, match="feature"):
        list(ranklib_rules.leaf_values(
            right.replace(first, "<feature> 0 </feature>"), make_documents(model, 3),
            model.feature_names,
        ))  # fmt: skip

    def naive(model: Model) -> str:
        text = exported(RANKLIB, model)
        for threshold in np.unique(model.ensemble.threshold):
            text = text.replace(f"> {threshold!s} <", f"> {threshold:.6g} <")
        return text

    assert refuted(RANKLIB, naive)


def test_ranklib_sends_documents_with_missing_values_elsewhere_and_says_so():
    arrays = random_ensemble(np.random.default_rng(0), [2], 1).arrays()
    arrays |= {"threshold": np.float32([0.5]), "missing_left": np.uint8([0])}
    model = Model(Ensemble(**arrays), Schema(("a",)), {}, {})
    missing, zero = np.float32([[np.nan]]), np.float32([[0.0]])
    assert not inside(RANKLIB, model, missing).any()
    assert inside(RANKLIB, model, zero).all()
    there = leaf_values_there(RANKLIB, exported(RANKLIB, model), model, missing)
    assert there != expected_leaves(RANKLIB, model, missing)
    assert there == expected_leaves(RANKLIB, model, zero)


def _between_floats(model: Model, seed: int) -> np.ndarray:
    """float64 documents halfway between a threshold and its neighbours, and just beside that."""
    rng = np.random.default_rng(seed)
    known = np.append(model.ensemble.threshold, np.float32(1))
    low = rng.choice(known, size=(60, N_FEATURES))
    with np.errstate(over="ignore"):
        high = np.nextafter(low, np.float32(np.inf)).astype(np.float64)
    middle = np.where(np.isfinite(low), (low.astype(np.float64) + high) / 2, 0.0)
    side = rng.integers(-1, 2, size=middle.shape)
    return np.where(side == 0, middle, np.nextafter(middle, side * 1e300))


def _with_thresholds(text: str, change) -> str:
    """The text for Elasticsearch with changed thresholds."""
    body = json.loads(text)
    for entry in body["definition"]["trained_model"]["ensemble"]["trained_models"]:
        for node in entry["tree"]["tree_structure"]:
            if "threshold" in node:
                with np.errstate(over="ignore"):
                    node["threshold"] = change(node["threshold"])
    return json.dumps(body)


# What a format cannot hold.


@each_format
def test_categories_are_refused_by_the_name_of_the_feature(written):
    model = next(m for m in map(make_model, range(1, 50)) if 1 in m.ensemble.feature)
    with pytest.raises(ExportError, match=f"{written.name} has no categories. Feature 'f[14]'"):
        exported(
            written,
            Model(model.ensemble, Schema(model.feature_names, model.schema.categories), {}, {}),
        )


@each_format
def test_base_scores_are_refused(written):
    trees = random_ensemble(np.random.default_rng(0), [3], 2)
    model = Model(trees, Schema(("a", "b"), needs_base_scores=True), {}, {})
    with pytest.raises(ExportError, match=f"{written.name} has no place for base scores"):
        exported(written, model)


@each_format
@pytest.mark.parametrize("seed", [4, 5])
def test_combined_models_are_refused(written, seed):
    with pytest.raises(ExportError, match=f"{written.name} holds one model of trees"):
        exported(written, make_combined(seed))


@pytest.mark.parametrize(
    "written", [ELASTICSEARCH_LTR, SOLR, VESPA], ids=lambda written: written.name
)
def test_trees_that_readers_of_json_give_up_on_are_refused(written):
    rng = np.random.default_rng(0)
    schema = Schema(("a", "b"))
    deepest = Model(random_ensemble(rng, [301], 2, chain=True), schema, {}, {})
    features = rng.normal(size=(10, 2)).astype(np.float32)
    assert not differs(written, exported(written, deepest), deepest, features)
    deeper = Model(random_ensemble(rng, [302], 2, chain=True), schema, {}, {})
    with pytest.raises(ExportError, match=r"at most 300 levels. Got 301 in tree 0"):
        exported(written, deeper)


@pytest.mark.parametrize(
    "written", [f for f in FORMATS if f not in WHOLE_FLOAT64], ids=lambda written: written.name
)
def test_leaves_past_all_of_float32_are_refused(written):
    arrays = random_ensemble(np.random.default_rng(0), [2], 2).arrays()
    arrays["value"] = np.array([1.0, -1e39])
    with pytest.raises(ExportError, match=f"{written.name} has leaves of float32.*-1e"):
        exported(written, Model(Ensemble(**arrays), Schema(("a", "b")), {}, {}))


def test_ranklib_refuses_a_split_by_whether_a_value_is_missing():
    arrays = random_ensemble(np.random.default_rng(0), [2], 2).arrays()
    arrays["threshold"] = np.float32([np.inf])
    arrays["missing_left"] = np.uint8([0])
    arrays["feature"] = np.int32([1])
    with pytest.raises(ExportError, match=r"ranklib has no missing values\. Feature 'b'"):
        exported(RANKLIB, Model(Ensemble(**arrays), Schema(("a", "b")), {}, {}))


# What else a file says.


def test_the_name_and_the_store_of_a_model_are_those_of_the_options():
    model = make_model(3, categories=False)
    body = json.loads(exported(SOLR, model, name="mine", store="shop"))
    assert (body["name"], body["store"]) == ("mine", "shop")
    assert json.loads(exported(ELASTICSEARCH_LTR, model, name="mine"))["model"]["name"] == "mine"
    headline = ELASTICSEARCH_LTR.headline({"feature_set": "shop"})
    assert "_ltr/_featureset/shop/_createmodel" in headline


def test_elasticsearch_wants_a_query_for_each_feature_that_trees_use_and_no_other():
    rng = np.random.default_rng(0)
    model = Model(random_ensemble(rng, [3], 1), Schema(("used", "unused")), {}, {})
    body = json.loads(exported(ELASTICSEARCH, model))
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    assert extractors == [{"query_extractor": {"feature_name": "used", "query": {"FILL_IN": {}}}}]
    assert body["metadata"]["rankgrove"]["model"] == Exportable.of(model).checksum


def test_solr_counts_thresholds_that_are_out_of_its_reach():
    arrays = random_ensemble(np.random.default_rng(0), [3], 2).arrays()
    arrays["threshold"] = np.float32([1e-45, 0.5])
    model = Model(Ensemble(**arrays), Schema(("a", "b")), {}, {})
    (note,) = SOLR.notes(Exportable.of(model), {})
    assert note.startswith("1 of 2 thresholds")
    arrays["threshold"] = np.float32([0.0, 0.5])
    reachable = Model(Ensemble(**arrays), Schema(("a", "b")), {}, {})
    assert SOLR.notes(Exportable.of(reachable), {}) == []

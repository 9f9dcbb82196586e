"""`export_model`: what is written, what is refused, and that nothing wrong is left behind."""

from __future__ import annotations

import builtins
import json
from dataclasses import replace

import numpy as np
import pytest

import rankgrove
from export.ensembles import NONE, combined_models, random_documents, random_model
from rankgrove import Dataset, Ranker, export_model, make_web_search
from rankgrove.errors import DataError, MissingExtraError, ParameterError
from rankgrove.export import export as export_module
from rankgrove.export import lightgbm_text
from rankgrove.export.check import check_table, consumers_at_hand, reordered_queries
from rankgrove.export.format import Exportable, ExportError, FormatOption
from rankgrove.export.formats import EXPORT_FORMATS, find_format
from rankgrove.export.made_documents import make_documents
from rankgrove.model.combined import CombinedModel
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble
from trees.naive_trees import leaf_of

HERE = ("onnx", "lightgbm", "xgboost", "sql")


@pytest.fixture(scope="module")
def data():
    return make_web_search(20, 16, mean_documents=8)


@pytest.fixture(scope="module")
def trained(data):
    return Ranker(n_estimators=6).fit(data).model_


def with_schema(model, **changes):
    return replace(model, schema=replace(model.schema, **changes))


@pytest.mark.parametrize("to", HERE)
def test_the_same_model_gives_the_same_bytes(to, tmp_path):
    model = random_model(3)
    for name in ("a", "b"):
        export_model(model, tmp_path / name, to, check=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("to", HERE)
def test_a_file_holds_the_checksum_of_the_model_and_the_version(to, tmp_path, trained):
    made = export_model(trained, tmp_path / "out", to)
    content = (tmp_path / "out").read_bytes()
    trained.save(tmp_path / "model.safetensors")
    assert made.checksum.encode() in (tmp_path / "model.safetensors").read_bytes()
    assert made.checksum.encode() in content
    assert rankgrove.__version__.encode() in content
    assert made.n_bytes == len(content)


@pytest.mark.parametrize("to", HERE)
def test_a_trained_model_passes_on_its_own_data(to, tmp_path, trained, data):
    made = export_model(trained, tmp_path / "out", to, data)
    assert (made.n_trees, made.n_leaves) == (6, len(trained.ensemble.value))
    for check in made.checks:
        assert check.holds
        assert not check.is_emulated
        assert (check.n_documents, check.n_queries) == (data.n_documents, data.n_queries)
        assert check.metric == "ndcg@10"
        assert check.n_reordered == 0
        assert check.here == pytest.approx(check.there, abs=1e-6)
    text = str(made)
    assert text.startswith(f"Wrote {tmp_path / 'out'}: 6 trees, ")
    assert "queries in another order" in text
    assert made.checks[0].checked_by in text


@pytest.mark.parametrize("to", HERE)
def test_the_first_trees_are_exported_alone(to, tmp_path, trained):
    made = export_model(trained, tmp_path / "out", to, n_trees=2)
    assert made.n_trees == 2
    first = replace(trained, ensemble=trained.ensemble.prefix(2))
    rows = make_documents(Exportable.of(first))
    consumer, _ = consumers_at_hand(made.format, made.options)[0]
    there = consumer.score((tmp_path / "out").read_bytes(), rows, made.options)
    np.testing.assert_allclose(there, trained.predict(rows.features, n_trees=2), atol=1e-6)


def test_an_estimator_is_exported_as_its_model(tmp_path, data):
    ranker = Ranker(n_estimators=2).fit(data)
    assert export_model(ranker, tmp_path / "a.sql").n_trees == 2


@pytest.mark.parametrize(
    ("name", "format_name"), [("m.onnx", "onnx"), ("M.ONNX", "onnx"), ("dir.x/m.sql", "sql")]
)
def test_the_name_of_a_file_says_its_format(name, format_name):
    assert find_format(None, name).name == format_name


def test_a_name_that_says_nothing_needs_a_format(tmp_path, trained):
    with pytest.raises(ParameterError, match=r"to must be one of .*onnx.* Got none for"):
        export_model(trained, tmp_path / "m.json")
    with pytest.raises(ParameterError, match="did you mean 'lightgbm'"):
        export_model(trained, tmp_path / "m", "lightgmb")
    assert list(tmp_path.iterdir()) == []


def test_options_are_checked(tmp_path, trained):
    with pytest.raises(ParameterError, match=r"operator must be one of 3, 5\. Got 4"):
        export_model(trained, tmp_path / "m.onnx", operator=4)
    with pytest.raises(ParameterError, match="dialect must be left out for onnx, whose options"):
        export_model(trained, tmp_path / "m.onnx", dialect="sqlite")
    with pytest.raises(ParameterError, match="operator must be left out for lightgbm"):
        export_model(trained, tmp_path / "m", "lightgbm", operator=3)
    with pytest.raises(ParameterError, match="table must be a str, not empty"):
        export_model(trained, tmp_path / "m.sql", table="")
    assert FormatOption(3, "", (3, 5)).checked("operator", "5") == 5
    assert list(tmp_path.iterdir()) == []


def test_paths_that_cannot_be_written_are_refused_before_the_work(tmp_path, trained):
    with pytest.raises(DataError, match="is a directory"):
        export_model(trained, tmp_path, "onnx")
    with pytest.raises(DataError, match="cannot be written"):
        export_model(trained, tmp_path / "none" / "m.onnx")
    with pytest.raises(ParameterError, match=r"path must not end in \.gz"):
        export_model(trained, tmp_path / "m.sql.gz", "sql")
    with pytest.raises(ParameterError, match="n_trees must be a whole number, from 1 to 6"):
        export_model(trained, tmp_path / "m.sql", n_trees=7)
    with pytest.raises(ParameterError, match=r"model must be a model. Got str"):
        export_model("model.safetensors", tmp_path / "m.sql")


def test_a_model_without_trees_is_refused(tmp_path):
    model = Model(Ensemble.from_trees([]), Schema(("a",)), {}, {})
    with pytest.raises(ExportError, match="must have trees"):
        export_model(model, tmp_path / "m.sql")


@pytest.mark.parametrize("to", ["onnx", "lightgbm", "xgboost"])
def test_base_scores_are_refused_where_they_have_no_place(to, tmp_path):
    model = with_schema(random_model(1), needs_base_scores=True)
    with pytest.raises(ExportError, match=f"{to} has no place for base scores"):
        export_model(model, tmp_path / "m", to)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["lightgbm", "xgboost"])
def test_combined_models_are_refused_by_formats_of_one_model(to, tmp_path):
    for model in combined_models(0, NONE):
        with pytest.raises(ExportError, match=f"{to} holds one model of trees"):
            export_model(model, tmp_path / "m", to)


def test_a_weighted_sum_needs_operator_5(tmp_path):
    weighted = combined_models(0)[1]
    with pytest.raises(ExportError, match="Export with operator 5"):
        export_model(weighted, tmp_path / "m.onnx")
    assert export_model(weighted, tmp_path / "m.onnx", operator=5).checks[0].holds
    with pytest.raises(ParameterError, match="n_trees must be left out for a weighted sum"):
        export_model(weighted, tmp_path / "m.onnx", operator=5, n_trees=1)


def test_networks_are_refused(tmp_path, data):
    pytest.importorskip("torch")
    network = rankgrove.RankNet(max_epochs=1, hidden=(4,)).fit(data).model_
    trees = Ranker(n_estimators=2).fit(data).model_
    for model in (network, CombinedModel((network, trees), weights=(0.5, 0.5))):
        with pytest.raises(ExportError, match="must be made of trees to be exported"):
            export_model(model, tmp_path / "m.onnx")


@pytest.mark.parametrize("to", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("odd", [3.7, -1.0, 65_536.0, 1e30])
def test_categories_that_a_set_of_bits_cannot_hold_are_refused_by_feature(to, odd, tmp_path):
    model = random_model(1, leaves=[40])
    feature = max(model.schema.categories)
    values = (*model.schema.categories[feature][:5], odd)
    model = with_schema(model, categories=model.schema.categories | {feature: values})
    name = model.feature_names[feature]
    with pytest.raises(ExportError, match=f"whole numbers from 0 to 65,535. Feature '{name}' has"):
        export_model(model, tmp_path / "m", to)
    assert list(tmp_path.iterdir()) == []


def test_a_leaf_that_float32_cannot_hold_is_refused_by_xgboost(tmp_path):
    model = random_model(2, NONE)
    huge = np.where(np.arange(len(model.ensemble.value)) == 0, 1e39, model.ensemble.value)
    model = replace(model, ensemble=replace(model.ensemble, value=huge))
    with pytest.raises(ExportError, match=r"leaves of float32. Got a leaf of 1e\+39"):
        export_model(model, tmp_path / "m", "xgboost")


def test_names_that_a_database_does_not_tell_apart_are_refused(tmp_path):
    model = random_model(2, NONE)
    pairs = {
        "sqlite": (("a", "A", "b", "c"), "differ in case only. Got features 'a' and 'A'"),
        "duckdb": (("a", "b", "B", "c"), "differ in case only. Got features 'b' and 'B'"),
        "postgres": (("a", "b", "c", "d" * 64), "names of at most 63 bytes"),
    }
    for dialect, (names, message) in pairs.items():
        odd = with_schema(model, feature_names=names)
        with pytest.raises(ExportError, match=message):
            export_model(odd, tmp_path / "m.sql", dialect=dialect)
    with pytest.raises(ExportError, match="column names that are empty"):
        export_model(with_schema(model, feature_names=("", "b", "c", "d")), tmp_path / "m.sql")


def test_more_trees_than_a_database_adds_up_are_refused(tmp_path):
    model = random_model(4, NONE, leaves=[2] * 901)
    with pytest.raises(ExportError, match=r"at most 900 trees. Got 901: export the first"):
        export_model(model, tmp_path / "m.sql")
    assert export_model(model, tmp_path / "m.sql", n_trees=900).checks[0].holds


@pytest.mark.parametrize("to", HERE)
def test_odd_names_of_features_do_no_harm(to, tmp_path):
    names = ('a "b"; DROP', "title bm25", "title_bm25", "x=[1]<2,{3}:ü", "1e-5", "--comment")
    model = with_schema(random_model(5), feature_names=names)
    made = export_model(model, tmp_path / "m", to)
    assert made.checks[0].holds
    if to == "lightgbm":
        assert any("changed: 4" in note for note in made.notes)


def test_without_onnx_the_extra_is_named(tmp_path, trained, monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name == "onnx":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"rankgrove\[onnx\]"):
        export_model(trained, tmp_path / "m.onnx")


@pytest.mark.parametrize("to", ["onnx", "lightgbm", "xgboost"])
def test_without_the_program_its_written_rules_check_and_the_answer_says_so(
    to, tmp_path, trained, data, monkeypatch
):
    written = EXPORT_FORMATS[to]
    absent = tuple(
        consumer if consumer.is_emulated else replace(consumer, version=lambda: None)
        for consumer in written.consumers
    )
    alone = replace(written, consumers=absent)
    monkeypatch.setattr(export_module, "find_format", lambda to, path: alone)
    made = export_model(trained, tmp_path / "m", to, data)
    (check,) = made.checks
    assert check.is_emulated
    assert check.holds
    assert check.checked_by.startswith("the rules of ")
    assert check.checked_by.endswith("(emulated)")


@pytest.mark.parametrize("given", [True, False])
def test_a_file_that_scores_otherwise_is_not_written(given, tmp_path, trained, data, monkeypatch):
    # As if `<` were meant: every threshold is the number below.
    monkeypatch.setattr(
        lightgbm_text, "widened", lambda cuts: np.nextafter(cuts, np.float32(-np.inf)) * 1.0
    )
    on_cuts = np.where(np.isfinite(trained.ensemble.threshold[0]), trained.ensemble.threshold[0], 0)
    features = np.full_like(data.features, on_cuts)
    features[:, trained.ensemble.feature[0]] = trained.ensemble.threshold[0]
    wrong = Dataset.from_arrays(features, data.labels, group=np.diff(data.offsets))
    path = tmp_path / "m.txt"
    path.write_text("older")
    with pytest.raises(ExportError, match=r"must give every document the same bits. Got"):
        export_model(trained, path, "lightgbm", wrong if given else None)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_score_beyond_the_bound_is_refused(tmp_path, trained, monkeypatch):
    from rankgrove.export import xgboost_json

    monkeypatch.setattr(xgboost_json, "next_float32", lambda cuts: cuts)
    with pytest.raises(ExportError, match=r"must stay within .* Got a difference of"):
        export_model(trained, tmp_path / "m", "xgboost")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_its_program_cannot_read_is_not_written(tmp_path, trained, monkeypatch):
    broken = replace(EXPORT_FORMATS["xgboost"], write=lambda source, options: b"{]")
    monkeypatch.setattr(export_module, "find_format", lambda to, path: broken)
    with pytest.raises(ExportError, match=r"xgboost must read what was written. Got XGBoostError"):
        export_model(trained, tmp_path / "m", "xgboost")
    assert list(tmp_path.iterdir()) == []


def test_levels_are_explained(tmp_path):
    schema = Schema(
        ("a", "language"), {1: (0.0, 1.0, 2.0, 3.0)}, levels={1: ("de", "en", "fr", "it")}
    )
    model = random_model(7, schema=schema, leaves=[9])
    made = export_model(model, tmp_path / "m", "lightgbm")
    assert made.notes[0] == (
        "Feature 'language' is given as the number of its category: 0 is 'de', 1 is 'en', "
        "2 is 'fr', … up to 3."
    )


def test_tiny_thresholds_are_counted_and_tiny_values_left_out(tmp_path):
    near = np.float32([1e-36, -1e-36, 1e-45])
    model = random_model(8, NONE, thresholds=near, leaves=[30])
    made = export_model(model, tmp_path / "m", "lightgbm")
    assert any("Thresholds within 1e-35 of 0" in note for note in made.notes)
    (left_out,) = made.checks[0].left_out.values()
    assert left_out > 0
    assert any("takes for 0" in remark for remark in made.remarks)


def test_an_export_without_a_check_says_so(tmp_path, trained):
    made = export_model(trained, tmp_path / "m.sql", check=False)
    assert made.checks == ()
    assert "Not checked: anything" in str(made)


def test_documents_may_come_without_labels_and_queries(tmp_path, trained, data):
    made = export_model(trained, tmp_path / "m.sql", check=np.asarray(data.features))
    assert made.checks[0].n_documents == data.n_documents
    assert made.checks[0].n_queries is None
    header, _ = check_table(made.checks)
    assert header == ["checked by", "documents", "same score", "largest difference"]


def test_made_documents_come_to_most_leaves_that_documents_of_training_come_to(trained, data):
    made = make_documents(Exportable.of(trained)).features
    assert np.isin(trained.ensemble.threshold, made).all()
    for number in range(trained.n_trees):
        tree = trained.ensemble.tree(number)
        wanted, reached = ({leaf_of(tree, row) for row in rows} for rows in (data.features, made))
        assert len(wanted & reached) >= 0.9 * len(wanted)


def test_made_documents_are_the_same_for_the_same_model():
    model = random_model(1)
    first, second = (make_documents(Exportable.of(model)).features for _ in range(2))
    np.testing.assert_array_equal(first, second)
    known = set(model.schema.categories[4])
    assert known <= set(first[:, 4].tolist())
    assert np.isnan(first).any(axis=0).all()


def test_queries_in_another_order_are_counted_by_document_order_among_ties():
    offsets = np.array([0, 3, 6, 6, 7])
    here = np.array([3.0, 2.0, 1.0, 1.0, 1.0, 2.0, 5.0])
    assert reordered_queries(offsets, here, here) == 0
    # Ties of the second query go the other way; the first only comes closer.
    there = np.array([3.0, 2.9, 1.0, 1.0, 1.1, 2.0, 9.0])
    assert reordered_queries(offsets, here, there) == 1


def test_an_export_describes_itself_in_plain_values(tmp_path, trained, data):
    made = export_model(trained, tmp_path / "m.onnx", check=data, operator=5)
    described = json.loads(json.dumps(made.describe()))
    assert described["options"] == {"operator": 5}
    assert described["checks"][0]["n_same"] == data.n_documents


def test_every_format_says_what_it_is():
    for name, written in EXPORT_FORMATS.items():
        described = json.loads(json.dumps(written.describe()))
        assert described["name"] == name
        assert all(described[key] for key in ("purpose", "exact", "rounds", "refuses"))
        assert written.extension.startswith(".")
        # One that is always at hand, whatever is installed.
        options = written.checked_options({})
        assert any(c.version() is not None for c in written.consumers if c.reads(options))


def test_the_exported_documents_are_never_written_to(tmp_path, trained):
    features = random_documents(0, trained, 30)
    kept = features.copy()
    for to in HERE:
        export_model(trained, tmp_path / "m", to, check=features)
    np.testing.assert_array_equal(features, kept)

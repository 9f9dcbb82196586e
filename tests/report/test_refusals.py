"""What a report cannot be made of: one clear error, or a section that says why it is not there."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from rankgrove import Dataset, Model, Report, make_report
from rankgrove.errors import DataError, ParameterError, RankgroveError
from rankgrove.model.schema import Schema
from rankgrove.report import report as report_function
from rankgrove.report.build import Candidate
from rankgrove.trees.ensemble import Ensemble
from report.samples import METRICS, check_schema

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"double\" 'single' `back` \\ & ; \x00 \x1b \u2028 tab\t",
    "\u202eright to left\u202c שלום مرحبا",
    "👩\u200d👩\u200d👧 emoji",
    "x" * 10_000,
    "",
]


def test_the_package_has_the_function_by_its_short_name():
    assert report_function is make_report


def test_foreign_text_comes_back_whole(parts, models):
    data = parts["test"]
    names = [HOSTILE[query % len(HOSTILE)] for query in range(data.n_queries)]
    titles = [HOSTILE[row % len(HOSTILE)] for row in range(data.n_documents)]
    report = make_report(
        data, {HOSTILE[1]: models["new"], "b": models["old"]}, "map", names=names, titles=titles,
    )  # fmt: skip
    back = json.loads(report.to_json())
    assert back["queries"]["text"] == names
    assert set(back["tops"]["title"]) == set(HOSTILE)
    assert back["candidates"][0]["name"] == HOSTILE[1]
    assert back == report.to_dict()


def test_half_of_a_surrogate_pair_becomes_a_question_mark(parts, models):
    names = ["\ud83d"] * parts["test"].n_queries
    report = make_report(parts["test"], models, "map", names=names, forces=0)
    assert set(report.to_dict()["queries"]["text"]) == {"?"}


def test_texts_are_found_by_id(parts, models):
    data = parts["test"]
    ids = [f"d{row}" for row in range(data.n_documents)]
    named = Dataset.from_arrays(
        data.features, data.labels, group=data.group, document_ids=ids,
        feature_names=data.feature_names,
    )  # fmt: skip
    report = make_report(
        named, models, "map", names={0: "first", "5": "sixth"}, titles={"d0": "a shoe"}, forces=0
    ).to_dict()
    assert report["queries"]["text"][:6] == ["first", "1", "2", "3", "4", "sixth"]
    for one, title in zip(report["tops"]["id"], report["tops"]["title"], strict=True):
        assert title == ("a shoe" if one == "d0" else one)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"names": {"none": "x"}}, "names must be by query id"),
        ({"names": ["x"]}, "names must be one per query, 36. Got 1"),
        ({"names": "x"}, "names must be a mapping from ids"),
        ({"titles": {"d1": "x"}}, "titles must be of data with document ids"),
        ({"titles": ["x"]}, "titles must be one per document"),
        ({"top": 0}, "top must be a whole number, 1 or more"),
        ({"why": -1}, "why must be a whole number, 0 or more, or 'all'"),
        ({"forces": 1.5}, "forces must be a whole number"),
        ({"baseline": "odl"}, "did you mean 'old'"),
        ({"max_size": "huge"}, "max_size must be"),
        ({"train": [1, 2]}, "train must be a Dataset"),
        ({"metrics": "ndgc"}, "did you mean 'ndcg'"),
        ({"slices": "size"}, "a slice must be one of length"),
    ],
)
def test_a_parameter_that_breaks_a_rule_is_refused(parts, models, options, problem):
    with pytest.raises(RankgroveError, match=problem):
        make_report(parts["test"], models, **options)


def test_scores_of_other_data_are_refused(parts, models):
    with pytest.raises(DataError, match="other: must have one score per document, 660"):
        make_report(parts["test"], {"new": models["new"], "other": np.zeros(5)})


def test_a_candidate_on_other_documents_is_refused(parts, models):
    scores = models["new"].predict(parts["test"])
    other = Candidate(scores, "model", models["new"], parts["train"])
    with pytest.raises(DataError, match="new: must be of the documents of the report"):
        make_report(parts["test"], {"new": other})


def test_a_model_of_other_features_is_refused(parts):
    model = Model(Ensemble.from_trees([]), Schema(("a", "b")), {}, {})
    with pytest.raises(DataError, match="must have the 2 features of the model"):
        make_report(parts["test"], {"other": model})


def test_a_score_that_is_no_number_is_refused(parts):
    scores = np.zeros(parts["test"].n_documents)
    scores[3] = np.nan
    with pytest.raises(DataError, match="broken: scores must not be NaN"):
        make_report(parts["test"], {"broken": scores})


def test_no_candidates_and_no_data_are_refused(parts):
    with pytest.raises(ParameterError, match="candidates must be a mapping"):
        make_report(parts["test"], {})
    with pytest.raises(ParameterError, match="data must be a Dataset"):
        make_report([1, 2], {"a": [1, 2]})


def test_data_without_a_relevant_document_are_refused(parts):
    data = parts["test"]
    empty = Dataset.from_arrays(data.features, np.zeros(data.n_documents), group=data.group)
    with pytest.raises(DataError, match="at least one query"):
        make_report(empty, {"a": np.arange(data.n_documents)})


def test_scores_alone_say_why_views_of_models_are_absent(parts):
    data = parts["test"]
    scores = {"a": data.features[:, 0], "b": -np.nan_to_num(data.features[:, 1])}
    contents = make_report(
        data, {k: np.nan_to_num(v) for k, v in scores.items()}, METRICS
    ).to_dict()
    check_schema(contents)
    assert [one["kind"] for one in contents["candidates"]] == ["scores", "scores"]
    for name in ("why", "features", "training"):
        assert contents[name] is None
        assert contents["absent"][name].startswith("No candidate is a model")
    assert "forces" in contents["absent"]
    assert contents["shares"] is not None


def test_one_model_alone_has_no_verdict_and_says_so(parts, models):
    contents = make_report(parts["test"], {"new": models["new"]}, METRICS).to_dict()
    check_schema(contents)
    assert contents["verdicts"] == {metric: [] for metric in METRICS}
    assert contents["absent"]["verdicts"].startswith("There is one candidate")
    assert contents["absent"]["slices"].startswith("No groups of queries were asked for")
    assert contents["why"] is not None
    assert contents["features"]["candidates"][0]["split"] is not None


def test_three_candidates_are_compared_two_by_two(parts, models):
    random = np.random.default_rng(0).random(parts["test"].n_documents)
    mixed = {"random": random, **models}
    contents = make_report(parts["test"], mixed, METRICS, slices="length").to_dict()
    check_schema(contents)
    pairs = [(pair["a"], pair["b"]) for pair in contents["verdicts"]["map"]]
    assert len(set(pairs)) == len(pairs) == 6
    assert "Holm over 3 pairs" in contents["verdicts"]["map"][0]["sentence"]
    assert contents["why"]["adds"][0] is None
    assert contents["features"]["candidates"][0] is None
    assert contents["training"]["candidates"][0] is None
    assert all(entry["y"][0] is None for entry in contents["features"]["dependence"])


def test_a_model_without_history_or_objective_says_so(parts, models):
    bare = Model(models["new"].ensemble, models["new"].schema, {}, {})
    contents = make_report(parts["test"], {"bare": bare}, METRICS).to_dict()
    check_schema(contents)
    assert contents["absent"]["training.history"] == "No model was validated while it was trained."
    assert "does not say by which objective" in contents["absent"]["forces"]
    assert contents["candidates"][0]["objective"] is None


def test_a_model_without_trees_is_no_error(parts):
    empty = Model(Ensemble.from_trees([]), Schema(parts["test"].feature_names), {}, {})
    contents = make_report(parts["test"], {"empty": empty}, METRICS).to_dict()
    check_schema(contents)
    assert contents["why"]["features"] == 0
    assert contents["features"]["names"] == []
    look = next(look for look in contents["looks"] if look["what"] == "constant_scores")
    assert look["count"] == (parts["test"].group > 1).sum()


def test_real_valued_labels_have_no_counts_by_grade(parts, models):
    data = parts["test"]
    labels = data.labels + np.random.default_rng(0).random(data.n_documents)
    real = Dataset.from_arrays(
        data.features, labels, group=data.group, feature_names=data.feature_names
    )
    contents = make_report(real, models, "ndcg@10").to_dict()
    check_schema(contents)
    assert (
        contents["labels"] is contents["by_rank"]["labels"] is contents["by_rank"]["grades"] is None
    )
    assert contents["training"]["force_totals"] is contents["training"]["labels_by_rank"] is None
    assert "labels" in contents["absent"]
    assert contents["tops"]["label"][0] == pytest.approx(labels.max(), abs=5)


def test_an_unwritable_place_is_refused_and_nothing_is_left(contents, tmp_path):
    with pytest.raises(DataError, match="is a directory"):
        Report(contents).save(tmp_path)
    with pytest.raises(DataError, match="cannot be written"):
        Report(contents).save(tmp_path / "none" / "report.html")
    assert os.listdir(tmp_path) == []


def test_a_report_that_cannot_be_drawn_leaves_the_old_file(contents, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("old")
    broken = contents | {"queries": contents["queries"] | {"id": object()}}
    with pytest.raises(TypeError):
        Report(broken).save(page)
    assert page.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_report_shows_itself_in_a_notebook_behind_a_sandbox(contents):
    shown = Report(contents)._repr_html_()
    assert shown.startswith('<iframe srcdoc="')
    assert 'sandbox="allow-scripts"' in shown
    assert shown.count("<") == 2
    assert repr(Report(contents)) == "<Report: old, new on 36 queries>"

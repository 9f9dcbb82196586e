"""What values show of themselves in a notebook, and a notebook that is really run."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankgrove import (
    Dataset,
    MARTRegressor,
    Ranker,
    compare,
    cross_validate,
    generalisation_gap,
    load,
    make_web_search,
    tune,
)

FOREIGN = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def data():
    return make_web_search(40, 16, mean_documents=8, seed=2)


@pytest.fixture(scope="module")
def foreign(data):
    """Data whose features have names that would run a script."""
    names = [f"{FOREIGN}{number}" for number in range(data.n_features)]
    return Dataset.from_arrays(data.features, data.labels, group=data.group, feature_names=names)


@pytest.fixture(scope="module")
def ranker(foreign):
    return Ranker(n_estimators=4, eval_metric=["ndcg@5", "map"]).fit(
        foreign, valid={FOREIGN: foreign}
    )


def shown(ranker, data):
    """Everything that shows itself, with foreign text wherever it can be."""
    return {
        "Ranker": ranker,
        "Model": ranker.model_,
        "Comparison": compare(data, {FOREIGN: ranker, "labels": data.labels}, "ndcg@5"),
        "CrossValidation": cross_validate({FOREIGN: Ranker(n_estimators=2)}, data, folds=2),
        "Tuned": tune(data, data, n_random=2, n_bayesian=0, max_trees=3),
        "Description": data.describe(),
    }


def test_all_results_are_shown_as_a_table_and_a_picture_without_script(ranker, foreign):
    for name, value in shown(ranker, foreign).items():
        content = value._repr_html_()
        assert "<table>" in content, name
        assert "<img" not in content, name
        assert "<script" not in content, name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", content), name
        picture = re.search(r"<svg .*?</svg>", content, re.S)
        assert picture, name
        ElementTree.fromstring(picture.group())
        assert "prefers-color-scheme: dark" in picture.group(), name


def test_foreign_text_is_shown_as_it_is(ranker, foreign):
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;" in foreign.describe()._repr_html_()
    assert "&lt;img src=x onerror=" in ranker.model_._repr_html_()


def test_a_fitted_ranker_shows_its_model_and_one_that_is_not_scikit_learns_diagram(ranker):
    content = ranker._repr_mimebundle_()
    assert content["text/plain"] == repr(ranker)
    assert content["text/html"] == ranker._repr_html_()
    assert "n_estimators=4" in content["text/html"]
    assert content["text/html"].endswith(ranker.model_._repr_html_())
    diagram = Ranker(n_estimators=4)._repr_mimebundle_()["text/html"]
    assert "sk-estimator" in diagram
    assert "sk-estimator" in make_pipeline(StandardScaler(), ranker)._repr_html_()


def test_scikit_learns_choice_of_text_is_kept(ranker):
    with config_context(display="text"):
        assert list(ranker._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(ranker, "_repr_html_")


def test_a_model_says_what_it_measured_and_which_features_count(ranker):
    content = ranker.model_._repr_html_()
    value = ranker.history_[FOREIGN]["ndcg@5"][-1]
    assert f">{value:.4f}</td>" in content
    assert ">strongest features</td>" in content
    assert content.count(">steps of training</text>") == len(ranker.history_[FOREIGN])


def test_a_model_without_history_has_no_curve(data, tmp_path):
    Ranker(n_estimators=1).fit(data).save(tmp_path / "m.safetensors")
    assert "<svg" not in load(tmp_path / "m.safetensors")._repr_html_()


def test_single_rows_show_their_model_too():
    rows = np.arange(40.0).reshape(-1, 1)
    fitted = MARTRegressor(n_estimators=2, min_samples_leaf=1).fit(rows, rows[:, 0])
    assert "<td" in fitted._repr_html_()


def test_folds_and_trials_are_drawn_with_their_numbers(data):
    found = cross_validate({"a": Ranker(n_estimators=2)}, data, "map", folds=2)
    folds, mean = found.plot("map").chart().panels[0].marks
    assert folds.x == found.fold_means["a"]["map"]
    assert mean.x == [found.results["a"]["map"]]
    tuned = tune(data, data, n_random=3, n_bayesian=0, max_trees=3)
    best, complete = tuned.plot().chart().panels[0].marks
    assert complete.y == [trial.value for trial in tuned.trials]
    assert best.y[-1] == tuned.best_value


def test_the_gap_shows_its_curves(data, ranker, foreign):
    gap = generalisation_gap({"a": ranker}, foreign, foreign, "map")
    assert gap._repr_svg_().startswith("<svg ")


SETUP = """
from rankgrove import Ranker, make_web_search
train, valid = make_web_search(60, 16, mean_documents=8).split(0.5, 0.5)
"""
CELLS = [
    SETUP,
    "ranker = Ranker(n_estimators=8, verbose=True).fit(train, valid=valid)",
    "Ranker(n_estimators=8, verbose=True).fit(train);",
    "ranker",
    "Ranker()",
    "ranker.model_",
    "train.describe()",
]


@pytest.fixture(scope="module")
def outputs():
    """What the cells above put out in a kernel."""
    nbformat = pytest.importorskip("nbformat", reason="a notebook is run where nbclient is there")
    nbclient = pytest.importorskip("nbclient", reason="a notebook is run where nbclient is there")
    pytest.importorskip("ipykernel", reason="a notebook is run where ipykernel is there")
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    updates = []

    class Client(nbclient.NotebookClient):
        def process_message(self, message, cell, cell_index):
            if message["msg_type"] == "update_display_data":
                updates.append((cell_index, message["content"]["data"]))
            return super().process_message(message, cell, cell_index)

    Client(notebook, timeout=300, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells], updates


def data_of(outputs, mime_type):
    return [output.data[mime_type] for output in outputs if mime_type in output.get("data", {})]


def test_a_curve_grows_in_one_display_while_a_ranker_is_fitted(outputs):
    cells, updates = outputs
    displays = data_of(cells[1], "image/svg+xml")
    assert len(displays) == 1
    ElementTree.fromstring(displays[0])
    lines = data_of(cells[1], "text/plain")
    assert lines[0].startswith("8/8 trees  ndcg@10 0.")
    assert lines[0].split("  ")[0] in displays[0]
    # Other updates depend on the clock; the last one is what stays.
    assert next(data for at, data in reversed(updates) if at == 1)["image/svg+xml"] == displays[0]
    assert not [output for output in cells[1] if output.output_type == "stream"
                and "8/8" in output.text]  # fmt: skip


def test_without_validation_the_display_is_a_line(outputs):
    (line,) = data_of(outputs[0][2], "text/plain")
    assert line.startswith("8/8 trees")
    assert data_of(outputs[0][2], "image/svg+xml") == []


def test_values_show_themselves_in_a_notebook(outputs):
    for cell in outputs[0][3:]:
        assert "<table" in data_of(cell, "text/html")[0]
    for cell in (outputs[0][3], outputs[0][5]):
        assert "<svg" in data_of(cell, "text/html")[0]
    assert "sk-estimator" in data_of(outputs[0][4], "text/html")[0]


def test_elsewhere_progress_is_text(data, capsys):
    Ranker(n_estimators=3, verbose=True).fit(data, valid=data)
    assert capsys.readouterr().err.startswith("3/3 trees")

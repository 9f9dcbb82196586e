"""Models in MLflow: the same bits by every way back, and nothing pickled."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rankgrove
from rankgrove import Ranker, from_frame, make_web_search
from rankgrove.errors import MissingExtraError
from rankgrove.mlflow import load_model, log_model, save_model, signature_of

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own


@pytest.fixture(scope="module")
def mlflow():
    return pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")


@pytest.fixture(scope="module")
def frame():
    pd = pytest.importorskip("pandas")
    data = make_web_search(30, 16, mean_documents=8, seed=1)
    table = pd.DataFrame(np.asarray(data.features)[:, :4], columns=["a", "b c", "d", "e"])
    table = table.astype(np.float64)
    table["place"] = np.where(np.arange(len(table)) % 3 == 0, "web", "app")
    table["label"] = data.labels.astype(int) + (table["place"] == "web")
    table["qid"] = np.repeat(np.arange(data.n_queries), data.group)
    return table


@pytest.fixture(scope="module")
def model(frame):
    data = from_frame(frame, categorical=["place"])
    return Ranker(n_estimators=5, categorical=["place"]).fit(data).model_


def test_a_saved_model_scores_as_a_pyfunc_bit_for_bit(mlflow, model, frame, tmp_path):
    import mlflow.pyfunc

    save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    inputs = frame.drop(columns=["label", "qid"])
    assert np.array_equal(loaded.predict(inputs), model.predict(inputs))
    again = load_model(str(tmp_path / "saved"))
    assert np.array_equal(again.predict(inputs), model.predict(inputs))


def test_a_folder_holds_the_model_file_and_no_pickle(mlflow, model, tmp_path):
    save_model(model, tmp_path / "saved")
    names = {path.name for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert "model.safetensors" in names
    assert not {name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))}
    requirements = (tmp_path / "saved" / "requirements.txt").read_text(encoding="utf-8")
    assert f"rankgrove=={rankgrove.__version__}" in requirements.splitlines()


def test_the_signature_is_the_schema(mlflow, model):
    inputs = signature_of(model).inputs
    assert inputs.input_names() == ["a", "b c", "d", "e", "place"]
    assert [str(kind) for kind in inputs.input_types()][-1] == "DataType.string"


def test_a_missing_column_is_refused_by_the_signature(mlflow, model, frame, tmp_path):
    import mlflow.pyfunc

    save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    with pytest.raises(Exception, match="missing inputs"):
        loaded.predict(frame[["a", "d"]])


def test_a_logged_model_comes_back_from_its_run(mlflow, model, frame, tmp_path, monkeypatch):
    # The small MLflow has no database, and keeps runs in files only if it is told to.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    try:
        with mlflow.start_run():
            logged = log_model(model, "ranker")
        inputs = frame.drop(columns=["label", "qid"])
        again = load_model(logged.model_uri)
        assert np.array_equal(again.predict(inputs), model.predict(inputs))
    finally:
        mlflow.set_tracking_uri(None)


def test_without_mlflow_the_error_says_how_to_get_it(monkeypatch, model, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankgrove\[mlflow\]'"):
        save_model(model, tmp_path / "saved")

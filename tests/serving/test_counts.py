"""What `/metrics` counts, and what a shadow finds out unseen."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from rankgrove import Ranker, make_web_search
from rankgrove.errors import DataError, ParameterError
from rankgrove.serving import app as application
from rankgrove.serving import create_app
from serving.samples import binary_tensor, documents_of, train, value_of


@pytest.fixture
def fresh(model_file):
    with TestClient(create_app({"web": model_file}), raise_server_exceptions=False) as client:
        yield client


def test_requests_documents_and_missing_values_are_counted(fresh, model, query):
    body = {"documents": documents_of(query, model.feature_names)}
    for _ in range(3):
        fresh.post("/rank", json=body)
    fresh.post("/rank", content=b"?")
    fresh.get("/nowhere")
    text = fresh.get("/metrics").text
    assert value_of(text, "rankgrove_requests_total", model="web", route="rank", code="200") == 3
    assert value_of(text, "rankgrove_requests_total", model="web", route="rank", code="400") == 1
    assert value_of(text, "rankgrove_requests_total", model="", route="other", code="404") == 1
    assert value_of(text, "rankgrove_documents_total", model="web") == 3 * len(query)
    assert value_of(text, "rankgrove_request_seconds_count", model="web", route="rank") == 4
    assert value_of(text, "rankgrove_score_seconds_count", model="web") == 3
    missing = np.isnan(query).sum(axis=0)
    assert missing.any()
    for name, number in zip(model.feature_names, missing.tolist(), strict=True):
        found = value_of(text, "rankgrove_missing_values_total", model="web", feature=name)
        assert (found or 0) == 3 * number


def test_the_model_that_is_served_is_shown(fresh, model):
    checksum = fresh.get("/models/web/schema").json()["checksum"]
    text = fresh.get("/metrics").text
    labels = {"model": "web", "checksum": checksum, "version": model.version}
    assert value_of(text, "rankgrove_model_info", **labels) == 1


def test_names_from_requests_do_not_become_labels(fresh):
    for number in range(20):
        fresh.post(f"/rank/stranger{number}", content=b"{}")
    text = fresh.get("/metrics").text
    assert "stranger" not in text
    assert value_of(text, "rankgrove_requests_total", model="", route="rank", code="404") == 20


@pytest.fixture(scope="module")
def other_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("other") / "other.safetensors"
    train(2).save(path)
    return path


def test_a_shadow_is_counted_and_not_seen(model, model_file, other_file, query):
    models = {"web": model_file, "new": other_file}
    with TestClient(create_app(models, shadow={"web": "new"})) as client:
        body, headers = binary_tensor(query)
        for _ in range(2):
            answer = client.post("/v2/models/web/infer", content=body, headers=headers).json()
            assert answer["outputs"][0]["data"] == model.predict(query).tolist()
        alone = query[:1]
        body, headers = binary_tensor(alone)
        client.post("/v2/models/web/infer", content=body, headers=headers)
        text = client.get("/metrics").text
    ours, theirs = model.predict(query), train(2).predict(query)
    orders = [np.argsort(-scores, kind="stable").tolist() for scores in (ours, theirs)]
    pair = {"model": "web", "shadow": "new"}
    assert value_of(text, "rankgrove_shadow_requests_total", **pair, result="scored") == 3
    assert value_of(text, "rankgrove_shadow_order_changes_total", **pair) == 2 * (
        orders[0] != orders[1]
    )
    assert orders[0] != orders[1]
    largest = value_of(text, "rankgrove_shadow_largest_difference", **pair)
    assert largest == np.abs(ours - theirs).max()
    assert value_of(text, "rankgrove_documents_total", model="new") is None


def test_a_shadow_that_fails_leaves_the_answer_alone(
    model, model_file, other_file, query, monkeypatch
):
    def fail(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr(application, "_difference", fail)
    with TestClient(create_app({"a": model_file, "b": other_file}, shadow={"a": "b"})) as client:
        answer = client.post("/rank", json={"documents": documents_of(query, model.feature_names)})
        assert answer.status_code == 200
        text = client.get("/metrics").text
    labels = {"model": "a", "shadow": "b", "result": "failed"}
    assert value_of(text, "rankgrove_shadow_requests_total", **labels) == 1


def test_a_shadow_must_be_another_model_that_is_served(model_file, other_file):
    models = {"a": model_file, "b": other_file}
    with pytest.raises(ParameterError, match="name models that are served"):
        create_app(models, shadow={"a": "c"})
    with pytest.raises(ParameterError, match="another model than the one that answers"):
        create_app(models, shadow={"a": "a"})


def test_a_shadow_must_have_the_same_features(model_file, tmp_path):
    wide = tmp_path / "wide.safetensors"
    Ranker(n_estimators=1).fit(make_web_search(20, 20, mean_documents=8)).save(wide)
    with pytest.raises(DataError, match="must have the features of the model that answers"):
        create_app({"a": model_file, "b": wide}, shadow={"a": "b"})


def test_a_defect_is_a_500_that_tells_the_client_nothing(fresh, model, query, monkeypatch):
    def fail(*_):
        raise RuntimeError("a secret")

    monkeypatch.setattr(application, "read_rank_call", fail)
    answer = fresh.post("/rank", json={"documents": []})
    assert answer.status_code == 500
    assert "secret" not in answer.text

"""The Open Inference Protocol: the same bits as `predict`, and what is refused."""

import json

import numpy as np
import pytest

from rankgrove import __version__
from serving.samples import N_FEATURES, binary_tensor, make_query, running, tensor_of

INFER = "/v2/models/web/infer"


def scores_of(answer):
    length = answer.headers.get("inference-header-content-length")
    if length is None:
        output = answer.json()["outputs"][0]
        assert output["name"] == "score"
        assert output["shape"] == [len(output["data"])]
        return np.array(output["data"])
    head = json.loads(answer.content[: int(length)])
    output = head["outputs"][0]
    numbers = answer.content[int(length) :]
    assert output["parameters"]["binary_data_size"] == len(numbers)
    return np.frombuffer(numbers, {"FP32": "<f4", "FP64": "<f8"}[output["datatype"]])


def test_the_server_and_the_model_describe_themselves(client):
    server = client.get("/v2").json()
    assert server == {
        "name": "rankgrove", "version": __version__, "extensions": ["binary_tensor_data"],
    }  # fmt: skip
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/web/ready").json() == {"name": "web", "ready": True}
    described = client.get("/v2/models/web").json()
    assert described["inputs"] == [
        {"name": "features", "datatype": "FP32", "shape": [-1, N_FEATURES]}
    ]
    assert described["outputs"] == [{"name": "score", "datatype": "FP64", "shape": [-1]}]


@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_json_gives_the_bits_of_predict(client, model, query, datatype):
    assert np.isnan(query).any()
    answer = client.post(INFER, json=tensor_of(query, datatype, id="q7"))
    assert answer.status_code == 200
    assert answer.json()["id"] == "q7"
    assert scores_of(answer).tolist() == model.predict(query).tolist()
    assert answer.headers["x-rankgrove-model"] == f"web@{answer.json()['model_version']}"


def test_nested_lists_are_taken_too(client, model, query):
    body = tensor_of(query)
    flat = body["inputs"][0]["data"]
    rows = [flat[at : at + N_FEATURES] for at in range(0, len(flat), N_FEATURES)]
    body["inputs"][0]["data"] = rows
    assert scores_of(client.post(INFER, json=body)).tolist() == model.predict(query).tolist()


@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
@pytest.mark.parametrize("padding", [0, 1, 2, 3])
def test_bytes_give_the_bits_of_predict_wherever_they_start(
    client, model, query, datatype, padding
):
    body, headers = binary_tensor(query, datatype, padding, parameters={"binary_data_output": True})
    answer = client.post(INFER, content=body, headers=headers)
    assert answer.status_code == 200
    assert scores_of(answer).tolist() == model.predict(query).tolist()


def test_values_that_no_float32_holds_are_rounded_as_predict_rounds_them(client, model, query):
    doubles = query.astype(np.float64) * (1 + 1e-12)
    answer = client.post(INFER, json=tensor_of(doubles))
    assert scores_of(answer).tolist() == model.predict(doubles).tolist()


def test_infinities_are_values_in_bytes(client, model, query):
    extreme = query.copy()
    extreme[0], extreme[1] = np.inf, -np.inf
    body, headers = binary_tensor(extreme)
    answer = client.post(INFER, content=body, headers=headers)
    assert scores_of(answer).tolist() == model.predict(extreme).tolist()


@pytest.mark.parametrize("place", ["request", "output"])
def test_scores_are_float32_if_asked(client, model, query, place):
    wanted = {"datatype": "FP32"}
    extra = {"parameters": wanted} if place == "request" else {
        "outputs": [{"name": "score", "parameters": wanted}]
    }  # fmt: skip
    answer = client.post(INFER, json=tensor_of(query, **extra))
    assert answer.json()["outputs"][0]["datatype"] == "FP32"
    assert scores_of(answer).tolist() == model.predict(query).astype(np.float32).tolist()


def test_no_documents_have_no_scores(client):
    answer = client.post(INFER, json=tensor_of(np.empty((0, N_FEATURES))))
    assert scores_of(answer).tolist() == []


def test_many_documents_are_scored_in_a_thread_with_the_same_bits(client, model):
    many = np.tile(make_query(), (400, 1))[:4500]
    body, headers = binary_tensor(many, parameters={"binary_data_output": True})
    answer = client.post(INFER, content=body, headers=headers)
    assert scores_of(answer).tolist() == model.predict(many).tolist()


def changed(**changes):
    """A request whose one input is changed."""
    body = tensor_of(np.zeros((2, N_FEATURES)))
    body["inputs"][0] |= changes
    return body


REFUSED = {
    "no inputs": ({"inputs": []}, 422, "inputs must be one, named 'features'"),
    "another name": (changed(name="X"), 422, "named 'features'"),
    "another type": (changed(datatype="INT64"), 422, "datatype must be FP32 or FP64"),
    "other width": (changed(shape=[2, 3]), 422, f"[documents, {N_FEATURES}]"),
    "one dimension": (changed(shape=[32]), 422, f"[documents, {N_FEATURES}]"),
    "negative shape": (changed(shape=[-2, N_FEATURES]), 422, "shape of 'features'"),
    "too few numbers": (changed(data=[1.0]), 422, "must have 32 numbers"),
    "rows too short": (changed(data=[[1.0], [2.0]]), 422, "rows of other lengths"),
    "strings": (changed(data=["1"] * 32), 422, "Expected `float | null`"),
    "too large for float32": (changed(data=[1e39] * 32), 422, "float32"),
    "nothing": (changed(data=None), 422, "Expected `array`"),
    "too many documents": (changed(shape=[10_001, N_FEATURES]), 413, "at most 10,000 documents"),
    "another output": (
        tensor_of(np.zeros((1, N_FEATURES)), outputs=[{"name": "y"}]), 422, "outputs must be",
    ),
    "another output type": (
        tensor_of(np.zeros((1, N_FEATURES)), parameters={"datatype": "BF16"}), 422, "datatype",
    ),
    "another output form": (
        tensor_of(np.zeros((1, N_FEATURES)), parameters={"binary_data_output": 3}), 422,
        "binary_data must be true or false",
    ),
    "a list": ([], 422, "follow its schema"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_is_refused_with(client, case):
    body, status, message = REFUSED[case]
    answer = client.post(INFER, json=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_json_has_no_nan_and_no_infinity(client, number):
    body = json.dumps(changed(data=[0.5] * 32)).replace("0.5", number).encode()
    answer = client.post(INFER, content=body)
    assert answer.status_code in (400, 422)
    assert "JSON has no NaN" in answer.text or "out of range" in answer.text


@pytest.mark.parametrize("body", [b"garbage", b'{"inputs": [}', b'{"inputs": [], }', b"\xff\xfe"])
def test_what_has_nothing_to_do_with_nan_is_refused_without_a_word_of_it(client, body):
    answer = client.post(INFER, content=body)
    assert answer.status_code == 400
    assert "must be JSON" in answer.json()["error"]
    assert "NaN" not in answer.text


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (lambda body, headers: (body[:-1], headers), 422, "binary_data_size and the bytes"),
        (lambda body, headers: (body + b"\0", headers), 422, "binary_data_size and the bytes"),
        (lambda body, _: (body, {"inference-header-content-length": "x"}), 400, "whole number"),
        (lambda body, _: (body, {"inference-header-content-length": "-1"}), 400, "whole number"),
        (lambda body, _: (body, {"inference-header-content-length": "9999999"}), 400, "at most"),
        (lambda body, _: (body, {}), 400, "must be JSON"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(client, query, change, status, message):
    body, headers = change(*binary_tensor(query))
    answer = client.post(INFER, content=body, headers=headers)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_bytes_behind_json_numbers_are_refused(client, query):
    text = json.dumps(tensor_of(query)).encode()
    headers = {"inference-header-content-length": str(len(text))}
    answer = client.post(INFER, content=text + b"\0\0\0\0", headers=headers)
    assert "no bytes may follow" in answer.json()["error"]


def test_an_unknown_model_is_not_found(client, query):
    for answer in (
        client.post("/v2/models/other/infer", json=tensor_of(query)),
        client.get("/v2/models/other"),
        client.get("/models/other/schema"),
        client.post("/rank/other", json={"documents": []}),
    ):
        assert answer.status_code == 404
        assert "one that is served: web. Got 'other'" in answer.json()["error"]


@pytest.mark.parametrize("binary", [True, False])
def test_the_client_of_triton_gets_the_bits_of_predict(model, model_file, query, binary):
    http = pytest.importorskip("tritonclient.http")
    known = np.nan_to_num(query) if not binary else query  # (it writes NaN, which is no JSON)
    with running({"web": model_file}) as address:
        triton = http.InferenceServerClient(address.removeprefix("http://"))
        assert triton.is_server_live()
        assert triton.is_server_ready()
        assert triton.is_model_ready("web")
        assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
        given = http.InferInput("features", list(known.shape), "FP32")
        given.set_data_from_numpy(known, binary_data=binary)
        wanted = http.InferRequestedOutput("score", binary_data=binary)
        answer = triton.infer("web", [given], outputs=[wanted])
        triton.close()
    assert answer.as_numpy("score").tolist() == model.predict(known).tolist()

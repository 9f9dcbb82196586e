"""Whatever bytes come, the service answers, and never with a 500."""

import asyncio
import json
import random
import resource

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rankgrove.serving import create_app
from serving.samples import N_FEATURES, binary_tensor, columns_of, documents_of, tensor_of

PATHS = ("/rank", "/rank/web", "/v2/models/web/infer")
ODD = [None, True, False, 0, -1, 1e308, 2**63, 2**70, "", "x", "features", [], [[]], {}, [None],
       {"": None}, "\x00", "\ud800", 0.1, -0.0, "NaN", 10_001]  # fmt: skip


@pytest.fixture(scope="module")
def app(model_file):
    return create_app({"web": model_file})


def seeds(model, query):
    """Bodies that are fine, with their headers."""
    plain = [
        {"documents": documents_of(query[:3], model.feature_names), "top": 2, "id": "q"},
        {"documents": columns_of(query[:3], model.feature_names), "explain": 2},
        tensor_of(query[:3], parameters={"binary_data_output": True}, id="x"),
        tensor_of(query[:3], "FP32", outputs=[{"name": "score", "parameters": {}}]),
    ]
    return [*((json.dumps(body).encode(), {}) for body in plain), binary_tensor(query[:3])]


def change_value(value, chance):
    """A JSON value with one place of it changed."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        kind = chance.randrange(6)
        changed = dict(value)
        if kind == 0:
            del changed[name]
        elif kind == 1:
            changed[str(chance.choice(ODD))] = changed.pop(name)
        else:
            changed[name] = change_value(value[name], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        kind = chance.randrange(6)
        if kind == 0:
            return value[:at]
        if kind == 1:
            return value + value[at:]
        return [*value[:at], change_value(value[at], chance), *value[at + 1 :]]
    return chance.choice(ODD)


def change_bytes(body, chance):
    """Bytes with some of them changed, cut out, doubled or put in."""
    changed = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at : at + chance.randint(1, 50)]
        elif kind == 2:
            changed[at:at] = changed[at : at + chance.randint(1, 50)]
        else:
            changed[at:at] = chance.choice(
                [b'"', b"[", b"{", b":", b"\\u", b"\0", b"NaN", b"1e999"]
            )
    return bytes(changed)


def make_request(bodies, chance):
    body, headers = chance.choice(bodies)
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randint(0, 300)), headers
    if kind == 1 or headers:
        if headers and chance.random() < 0.3:
            headers = {name: str(chance.randint(0, 2 * len(body))) for name in headers}
        return change_bytes(body, chance), headers
    value = json.loads(body)
    for _ in range(chance.randint(1, 3)):
        value = change_value(value, chance)
    text = json.dumps(value)
    return text.encode("utf-8", "replace"), headers


async def ask(app, path, body, headers):
    """Status and content of an answer, from the application itself."""
    sent = []
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def fuzz(app, model, query, number, seed):
    chance = random.Random(seed)
    bodies = seeds(model, query)

    async def run():
        statuses = set()
        for _ in range(number):
            body, headers = make_request(bodies, chance)
            status, content = await ask(app, chance.choice(PATHS), body, headers)
            assert status in (200, 400, 413, 422), (content, body, headers)
            assert status == 200 or json.loads(content)["error"].endswith((".", "?"))
            statuses.add(status)
        assert {200, 400, 422} <= statuses
        good = json.dumps(tensor_of(query)).encode()
        _, content = await ask(app, PATHS[2], good, {})
        assert json.loads(content)["outputs"][0]["data"] == model.predict(query).tolist()

    asyncio.run(run())


def test_three_thousand_fuzzed_bodies_are_answered(app, model, query):
    fuzz(app, model, query, 3000, seed=1)


@pytest.mark.long
def test_fifty_thousand_fuzzed_bodies_are_answered_in_bounded_memory(app, model, query):
    fuzz(app, model, query, 5000, seed=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fuzz(app, model, query, 45_000, seed=3)
    # In kilobytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_requests_made_from_the_openapi_document_are_answered(app):
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [result.ok() for result in schema.get_all_operations()]
    labels = {operation.label for operation in operations}
    assert {"POST /rank", "POST /rank/{name}", "POST /v2/models/{name}/infer"} <= labels
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
        def ask(case):
            assert case.call().status_code < 500

        ask()


def test_the_openapi_document_names_every_route(client):
    document = client.get("/openapi.json").json()
    named = {(path, method.upper()) for path, entry in document["paths"].items()
             for method in entry if method != "parameters"}  # fmt: skip
    routes = {
        (route.path, method) for route in client.app.routes for method in route.methods - {"HEAD"}
    }
    assert named == routes


def test_answers_have_the_form_that_the_openapi_document_states(client, model, query):
    schema = client.get("/openapi.json").json()["paths"]["/rank"]["post"]
    answer = client.post("/rank", json={
        "documents": documents_of(query, model.feature_names), "explain": True
    }).json()  # fmt: skip
    stated = schema["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(answer) == set(stated["required"]) == set(stated["properties"])
    document = stated["properties"]["documents"]["items"]
    assert set(answer["documents"][0]) == set(document["properties"])
    assert np.isfinite([each["score"] for each in answer["documents"]]).all()
    assert model.n_features == N_FEATURES

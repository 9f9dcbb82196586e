"""Nobody gets in: tokens, addresses that look like paths, and files that would run code."""

import builtins
import hmac
import os

import pytest
from starlette.testclient import TestClient

from rankgrove.errors import ParameterError
from rankgrove.model.files import ModelFileError
from rankgrove.serving import app as application
from rankgrove.serving import create_app
from serving.samples import value_of

TOKEN = "a-token-of-some-length"
ROUTES = [
    ("GET", "/v2"), ("GET", "/v2/models/web"), ("GET", "/v2/models/web/ready"),
    ("POST", "/v2/models/web/infer"), ("POST", "/rank"), ("POST", "/rank/web"),
    ("GET", "/models/web/schema"), ("GET", "/metrics"), ("GET", "/openapi.json"),
    ("GET", "/nowhere"), ("DELETE", "/rank"),
]  # fmt: skip


@pytest.fixture(scope="module")
def guarded(model_file):
    with TestClient(create_app({"web": model_file}, token=TOKEN)) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "given",
    [None, "Bearer", "Bearer ", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", TOKEN],
)
def test_nothing_is_answered_without_the_token(guarded, method, path, given):
    headers = {} if given is None else {"authorization": given}
    answer = guarded.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_token_opens(guarded, scheme):
    headers = {"authorization": f"{scheme} {TOKEN}"}
    assert guarded.get("/v2/models/web", headers=headers).status_code == 200
    assert guarded.post("/rank", json={"documents": []}, headers=headers).status_code == 200


def test_requests_without_the_token_are_counted(guarded):
    guarded.get("/v2")
    text = guarded.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    assert value_of(text, "rankgrove_requests_total", route="other", code="401") >= 1


def test_probes_need_no_token(guarded):
    assert guarded.get("/v2/health/live").status_code == 200
    assert guarded.get("/v2/health/ready").status_code == 200


def test_the_token_is_compared_in_constant_time(guarded, monkeypatch):
    compared = []

    class Watched:
        @staticmethod
        def compare_digest(a, b):
            compared.append((a, b))
            return hmac.compare_digest(a, b)

    monkeypatch.setattr(application, "hmac", Watched)
    guarded.get("/v2", headers={"authorization": "Bearer wrong"})
    guarded.get("/v2")
    assert compared == [(b"wrong", TOKEN.encode()), (b"", TOKEN.encode())]


def test_a_blank_token_is_refused(model_file):
    with pytest.raises(ParameterError, match="at least one character"):
        create_app({"web": model_file}, token=" \n")


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%2e%2e/web", "web%00", "/etc/passwd",
        "web.safetensors", "{path}", "file:%2f%2f%2fetc%2fpasswd", "%c0%ae%c0%ae",
    ],
)  # fmt: skip
def test_no_path_of_a_request_reaches_the_file_system(client, model_file, monkeypatch, name):
    def refuse(*args, **_):
        raise AssertionError(f"a request opened {args}")

    for method, path in (
        ("POST", f"/rank/{name}"), ("POST", f"/v2/models/{name}/infer"),
        ("GET", f"/v2/models/{name}"), ("GET", f"/models/{name}/schema"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            for module, function in ((builtins, "open"), (os, "open"), (os, "stat")):
                patch.setattr(module, function, refuse)
            answer = client.request(method, path, content=b"{}")
        assert answer.status_code in (404, 405), path


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "é", "x" * 65, "a\n", "-a"])
def test_a_name_that_would_not_stand_in_an_address_is_refused(model_file, name):
    with pytest.raises(ParameterError, match="the name of a model must be"):
        create_app({name: model_file})


def test_a_file_that_would_run_code_is_none(tmp_path):
    import pickle

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(ModelFileError):
        create_app({"web": path})
    assert not (tmp_path / "harm").exists()


def test_bad_limits_are_refused(model_file):
    for option in ("max_documents", "max_body", "timeout", "watch"):
        with pytest.raises(ParameterError, match=option):
            create_app({"web": model_file}, **{option: 0})
    with pytest.raises(ParameterError, match="at least one model"):
        create_app({})

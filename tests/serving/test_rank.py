"""`/rank`: documents by name in, the same documents in order out, and what is refused."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from rankgrove import Ranker, from_frame
from rankgrove.serving import create_app
from serving.samples import columns_of, documents_of, scores_by_row


@pytest.fixture(scope="module")
def names(model):
    return model.feature_names


@pytest.fixture(params=["documents", "columns"])
def documents(request, query, names):
    make = documents_of if request.param == "documents" else columns_of
    return make(query, names)


def test_documents_come_back_in_the_order_of_their_scores(client, model, query, documents):
    answer = client.post("/rank", json={"id": "q1", "documents": documents})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["id"], body["model"]) == ("q1", "web")
    assert answer.headers["x-rankgrove-model"] == f"web@{body['version']}"
    assert scores_by_row(body) == model.predict(query).tolist()
    scores = [document["score"] for document in body["documents"]]
    assert scores == sorted(scores, reverse=True)
    assert [document["rank"] for document in body["documents"]] == list(range(1, len(query) + 1))


def test_a_model_can_be_named(client, documents):
    one, other = (
        client.post(path, json={"documents": documents}) for path in ("/rank", "/rank/web")
    )
    assert one.json()["documents"] == other.json()["documents"]


def test_equal_scores_keep_the_order_of_the_request(client, query, names):
    same = documents_of(query[[0] * 5], names)
    answer = client.post("/rank", json={"documents": same}).json()
    assert [document["id"] for document in answer["documents"]] == [f"d{at}" for at in range(5)]


def test_top_gives_the_first_ones_only(client, documents):
    every = client.post("/rank", json={"documents": documents}).json()["documents"]
    for top in (0, 3, 1000):
        some = client.post("/rank", json={"documents": documents, "top": top}).json()["documents"]
        assert some == every[:top]


def test_documents_without_ids_go_by_their_place(client, query, names):
    with_ids = documents_of(query, names)
    without = [{"features": document["features"]} for document in with_ids]
    columns = {"columns": columns_of(query, names)["columns"]}
    wanted = client.post("/rank", json={"documents": with_ids}).json()["documents"]
    for given in (without, columns):
        found = client.post("/rank", json={"documents": given}).json()["documents"]
        assert [f"d{d['id']}" for d in found] == [d["id"] for d in wanted]


def test_explain_gives_the_contributions_of_the_model(client, model, query, documents):
    body = {"documents": documents, "top": 4, "explain": 3}
    found = client.post("/rank", json=body).json()["documents"]
    for document in found:
        row = int(document["id"][1:])
        parts = model.contributions(query[row : row + 1])[0, :-1]
        strongest = np.argsort(-np.abs(parts), kind="stable")[:3]
        wanted = [(model.feature_names[f], parts[f]) for f in strongest if parts[f] != 0]
        assert [(why["feature"], why["contribution"]) for why in document["why"]] == wanted
        for why in document["why"]:
            value = query[row, model.feature_names.index(why["feature"])]
            assert why["value"] == (None if np.isnan(value) else value)


def test_absent_features_are_missing_on_request(client, model, query, names):
    blanked = query.copy()
    blanked[:, 2] = np.nan
    rows = documents_of(query, names)
    for row in rows:
        del row["features"][names[2]]
    columns = columns_of(query, names)
    del columns["columns"][names[2]]
    for given in (rows, columns):
        refused = client.post("/rank", json={"documents": given})
        assert refused.status_code == 422
        assert f"Got none for {names[2]!r}" in refused.json()["error"]
        taken = client.post("/rank", json={"documents": given, "absent": "missing"})
        assert scores_by_row(taken.json()) == model.predict(blanked).tolist()


def test_unknown_features_are_refused_or_ignored_on_request(client, model, query, names):
    rows = documents_of(query, names)
    rows[3]["features"]["pagerank"] = 0.5
    columns = columns_of(query, names)
    columns["columns"]["pagerank"] = [0.5] * len(query)
    for given in (rows, columns):
        refused = client.post("/rank", json={"documents": given})
        assert refused.status_code == 422
        assert "'pagerank', which it does not have" in refused.json()["error"]
        taken = client.post("/rank", json={"documents": given, "unknown": "ignore"})
        assert scores_by_row(taken.json()) == model.predict(query).tolist()


def doubled(names, value="1"):
    every = ",".join(f'"{name}":{value}' for name in names)
    return f'{{{every},"{names[0]}":2}}'


@pytest.mark.parametrize(
    "text",
    [
        '{{"documents":[{{"features":{features}}}]}}',
        '{{"documents":[{{"id":"a:b","features":{features}}}]}}',
        '{{"documents":[{{"id":"\\u003a","features":{features}}}]}}',
        '{{"documents":[{{"features":{features}}}],"absent":"missing"}}',
        '{{"documents":{{"columns":{columns}}}}}',
        '{{"documents":{{"ids":["a:b"],"columns":{columns}}}}}',
    ],
)
def test_a_name_that_stands_twice_is_refused(client, names, text):
    body = text.format(
        features=doubled(names), columns=doubled(names, "[1]").replace(":2}", ":[2]}")
    )
    answer = client.post("/rank", content=body.encode())
    assert answer.status_code == 422
    assert f"Got {names[0]!r} twice" in answer.json()["error"]


def test_an_entry_that_stands_twice_is_refused(client):
    answer = client.post("/rank", content=b'{"documents":[],"top":1,"top":2}')
    assert answer.status_code == 422
    assert "Got 'top' twice" in answer.json()["error"]


@pytest.mark.parametrize("identity", ["a:b", 'a":"b', "\\u003a", "ü:"])
def test_colons_and_quotes_in_ids_are_no_names(client, query, names, identity):
    rows = documents_of(query, names)
    rows[0]["id"] = identity
    answer = client.post("/rank", json={"documents": rows})
    assert answer.status_code == 200
    assert identity in [document["id"] for document in answer.json()["documents"]]


def test_an_empty_request_has_an_empty_answer(client):
    for documents in ([], {"columns": {}, "ids": []}):
        body = {"documents": documents, "absent": "missing", "explain": True}
        answer = client.post("/rank", json=body)
        assert answer.status_code == 200
        assert answer.json()["documents"] == []


def test_documents_of_which_nothing_is_known_are_scored(client, model):
    nothing = np.full((2, model.n_features), np.nan, dtype=np.float32)
    for documents in ([{"id": "d0", "features": {}}, {"id": "d1", "features": {}}],
                      {"ids": ["d0", "d1"], "columns": {}}):  # fmt: skip
        answer = client.post("/rank", json={"documents": documents, "absent": "missing"})
        assert scores_by_row(answer.json()) == model.predict(nothing).tolist()


ONE = '{{"documents":[{{"features":{{"{name}":{value}}}}}],"absent":"missing"}}'


@pytest.mark.parametrize(
    ("value", "status", "message"),
    [
        ("NaN", 400, "JSON has no NaN"),
        ("Infinity", 400, "JSON has no NaN"),
        ("1e400", 422, "out of range"),
        ("1e39", 422, "must fit into float32"),
        ('"7"', 422, "must be a number, or null"),
        ("true", 422, "must be a number, or null"),
        ("[1]", 422, "follow its schema"),
        ("{}", 422, "follow its schema"),
    ],
)
def test_a_value_that_is_no_number_is_refused(client, names, value, status, message):
    body = ONE.format(name=names[0], value=value)
    answer = client.post("/rank", content=body.encode())
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]
    columns = {"documents": {"columns": {names[0]: ["VALUE"]}}, "absent": "missing"}
    text = json.dumps(columns).replace('"VALUE"', value)
    assert client.post("/rank", content=text.encode()).status_code == status


REFUSED = {
    "nothing": (b"", 400, "must be JSON"),
    "no documents": (b"{}", 422, "`documents`"),
    "a misspelt entry": (b'{"documents":[],"tpo":3}', 422, "`tpo`"),
    "a misspelt entry of a document": (b'{"documents":[{"feature":{}}]}', 422, "`feature`"),
    "documents that are a number": (b'{"documents":3}', 422, "Expected `array`"),
    "a negative top": (b'{"documents":[],"top":-1}', 422, "top must be 0 or more"),
    "a top that is a truth": (b'{"documents":[],"top":true}', 422, "follow its schema"),
    "another word for absent": (b'{"documents":[],"absent":"zero"}', 422, "`$.absent`"),
    "no features to explain": (b'{"documents":[],"explain":0}', 422, "explain must be true"),
    "columns of two lengths": (
        b'{"documents":{"ids":[1],"columns":{"a":[1,2]}}}', 422, "one entry per document",
    ),
    "no columns": (b'{"documents":{"columns":{}}}', 422, "one entry per document"),
    "other bytes": (b"\xff\xfe\x00", 400, "must be JSON"),
    "deep lists": (b'{"documents":' + b"[" * 100_000, 400, "must be JSON"),
    "too many documents": (
        b'{"documents":[' + b",".join([b'{"features":{}}'] * 10_001) + b"]}", 413, "10,000",
    ),
    "too many columns' documents": (
        b'{"documents":{"ids":[' + b",".join([b"1"] * 10_001) + b'],"columns":{}}}', 413, "10,000",
    ),
    "too many to explain": (
        b'{"documents":[' + b",".join([b'{"features":{}}'] * 101)
        + b'],"absent":"missing","explain":true}', 422, "at most 100 documents",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_is_refused_with(client, case):
    body, status, message = REFUSED[case]
    answer = client.post("/rank", content=body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]


@pytest.fixture(scope="module")
def with_categories(tmp_path_factory):
    """A model with a category that is a string, in a service; and its data."""
    pandas = pytest.importorskip("pandas")
    rows = 60
    frame = pandas.DataFrame(
        {
            "label": [row % 3 for row in range(rows)],
            "qid": [row // 6 for row in range(rows)],
            "length": [float(row * 7 % 11) for row in range(rows)],
            "language": [("de", "en", "fr")[row % 3] for row in range(rows)],
        }
    )
    data = from_frame(frame, label="label", qid="qid", categorical=["language"])
    ranker = Ranker(n_estimators=4, min_samples_leaf=2, categorical=["language"]).fit(data)
    path = tmp_path_factory.mktemp("categories") / "shop.safetensors"
    ranker.save(path)
    with TestClient(create_app({"shop": path})) as client:
        yield client, ranker.model_


def test_categories_are_given_as_what_they_are(with_categories):
    client, model = with_categories
    rows = [{"length": 3.0, "language": language} for language in ("en", "fr", "de", "xx", None)]
    wanted = model.predict(rows).tolist()
    documents = [{"id": f"d{at}", "features": row} for at, row in enumerate(rows)]
    assert scores_by_row(client.post("/rank", json={"documents": documents}).json()) == wanted
    columns = {name: [row[name] for row in rows] for name in ("length", "language")}
    body = {
        "documents": {"ids": [f"d{at}" for at in range(5)], "columns": columns},
        "explain": True,
    }
    answer = client.post("/rank", json=body).json()
    assert scores_by_row(answer) == wanted
    shown = {
        why["value"]
        for d in answer["documents"]
        for why in d["why"]
        if why["feature"] == "language"
    }
    assert shown <= {"en", "fr", "de", None}
    assert shown & {"en", "fr", "de"}
    schema = client.get("/models/shop/schema").json()
    assert schema["feature_names"] == ["length", "language"]
    assert set(schema["categories"]["language"]) == {"de", "en", "fr"}


def test_categories_that_are_strings_have_no_place_in_a_tensor(with_categories):
    client, _ = with_categories
    data = {"name": "features", "shape": [1, 2], "datatype": "FP64", "data": [1.0, 1.0]}
    answer = client.post("/v2/models/shop/infer", json={"inputs": [data]})
    assert answer.status_code == 422
    assert "which are strings" in answer.json()["error"]

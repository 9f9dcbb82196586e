"""Files that change while a service runs: good ones replace a model, bad ones never do."""

import json
import threading
import urllib.request

import pytest

from rankgrove import Ranker, make_web_search
from rankgrove.model.base import load_with_checksum
from serving.samples import (
    binary_tensor,
    make_query,
    post,
    running,
    train,
    value_of,
    wait_until,
)

WATCH = {"watch": 0.02}


def get(address, path):
    with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
        return answer.read().decode()


def replace(path, content):
    """As a careful writer does: whole or not at all."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of two models, and of each its checksum and scores of a query."""
    folder = tmp_path_factory.mktemp("two")
    found = []
    for n_trees in (2, 5):
        path = folder / f"{n_trees}.safetensors"
        train(n_trees).save(path)
        model, checksum = load_with_checksum(path)
        found.append((path.read_bytes(), checksum, model.predict(make_query()).tolist()))
    return found


def reloads(address, result):
    text = get(address, "/metrics")
    return value_of(text, "rankgrove_reloads_total", model="web", result=result) or 0


def damaged(content):
    """What may stand in the place of a model: by name, its bytes."""
    flipped = bytearray(content)
    flipped[-20] ^= 4
    newer = content.replace(b'"format_version":"1"', b'"format_version":"9"')
    assert newer != content
    return {"truncated": content[: len(content) // 2], "flipped": bytes(flipped), "newer": newer,
            "empty": b"", "another file": b"<html>" * 100}  # fmt: skip


def test_a_changed_file_is_served_and_a_bad_one_is_not(contents, tmp_path):
    (first, old, old_scores), (second, new, new_scores) = contents
    path = tmp_path / "web.safetensors"
    path.write_bytes(first)
    body, headers = binary_tensor(make_query())

    def check(checksum, scores):
        status, got, answer = post(f"{address}/v2/models/web/infer", body, headers)
        assert status == 200
        assert got["x-rankgrove-model"] == f"web@{checksum}"
        assert json.loads(answer)["outputs"][0]["data"] == scores

    with running({"web": path}, WATCH) as address:
        check(old, old_scores)
        for number, (kind, content) in enumerate(damaged(second).items(), start=1):
            if kind == "truncated":
                path.write_bytes(content)  # as a careless writer does
            else:
                replace(path, content)
            wait_until(lambda wanted=number: reloads(address, "refused") == wanted)
            check(old, old_scores)
        path.unlink()
        check(old, old_scores)
        replace(path, second)
        wait_until(lambda: reloads(address, "loaded") == 1)
        check(new, new_scores)
        replace(path, second)
        wait_until(lambda: reloads(address, "unchanged") == 1)
        text = get(address, "/metrics")
    assert value_of(text, "rankgrove_model_info", checksum=new) == 1
    assert value_of(text, "rankgrove_model_info", checksum=old) == 0


def test_a_model_of_other_features_does_not_replace_one(contents, tmp_path):
    (first, old, _), _ = contents
    path, other = tmp_path / "web.safetensors", tmp_path / "other.safetensors"
    path.write_bytes(first)
    data = make_web_search(20, 20, mean_documents=8)
    Ranker(n_estimators=1).fit(data).save(other)
    with running({"web": path}, WATCH) as address:
        replace(path, other.read_bytes())
        wait_until(lambda: reloads(address, "refused") == 1)
        assert json.loads(get(address, "/models/web/schema"))["checksum"] == old


def reload_under_load(contents, path, n_reloads, n_clients):
    """Replace a model again and again while clients ask; every answer is all of one model."""
    path.write_bytes(contents[0][0])
    allowed = {checksum: scores for _, checksum, scores in contents}
    body, headers = binary_tensor(make_query())
    seen, problems = set(), []
    is_done = threading.Event()

    def ask():
        while not is_done.is_set():
            try:
                status, got, answer = post(f"{address}/v2/models/web/infer", body, headers)
                found = json.loads(answer)
                checksum = found["model_version"]
                seen.add(checksum)
                if (
                    status != 200
                    or got["x-rankgrove-model"] != f"web@{checksum}"
                    or found["outputs"][0]["data"] != allowed[checksum]
                ):
                    problems.append((status, answer))
            except Exception as error:
                problems.append(error)

    with running({"web": path}, WATCH) as address:
        clients = [threading.Thread(target=ask) for _ in range(n_clients)]
        for client in clients:
            client.start()
        try:
            for number in range(1, n_reloads + 1):
                replace(path, contents[number % 2][0])
                wait_until(lambda wanted=number: reloads(address, "loaded") == wanted)
        finally:
            is_done.set()
            for client in clients:
                client.join()
    assert problems == []
    assert seen == set(allowed)


def test_reloads_under_load_fail_no_request_and_mix_no_answer(contents, tmp_path):
    reload_under_load(contents, tmp_path / "web.safetensors", 8, 2)


@pytest.mark.long
def test_two_hundred_reloads_under_load(contents, tmp_path):
    reload_under_load(contents, tmp_path / "web.safetensors", 200, 4)

"""Clients that are slow, send too much, or never read: they are cut off, and others are served."""

import json
import socket
import time
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from rankgrove.serving import create_app
from serving.samples import documents_of, post, running

SECONDS = 0.3


@pytest.fixture(scope="module")
def address(model_file):
    options = {"timeout": SECONDS, "max_body": 200_000}
    with running({"web": model_file}, options) as address:
        yield address


@contextmanager
def connected(address):
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        yield client


def read_all(client):
    """What comes until the service closes the connection."""
    parts = []
    try:
        while part := client.recv(65_536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def test_a_client_that_says_nothing_is_cut_off(address):
    with connected(address) as client:
        assert read_all(client) == b""


def test_a_client_that_never_ends_its_headers_is_cut_off(address):
    def trickle(client):
        for number in range(1000):
            client.sendall(b"X-%d: y\r\n" % number)
            time.sleep(SECONDS / 5)

    with connected(address) as client:
        client.sendall(b"POST /rank HTTP/1.1\r\nHost: x\r\n")
        with pytest.raises(ConnectionError):
            trickle(client)


@pytest.mark.parametrize("wish", [b"h2c", b"websocket"])
def test_a_wish_for_another_protocol_is_left_out(address, wish):
    """As Java's client asks, with the body in a packet of its own."""
    with connected(address) as client:
        client.sendall(
            b"POST /rank HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"upgrade: " + wish + b"\r\nHTTP2-Settings: AAEA\r\nContent-Length: 16\r\n\r\n"
        )
        time.sleep(0.05)
        client.sendall(b'{"documents":[]}')
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_body_that_nobody_wants_is_not_taken_for_the_next_request(address):
    with connected(address) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 404")
        client.sendall(b"x" * 20 + b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_second_request_has_its_own_time(address):
    with connected(address) as client:
        for _ in range(3):
            time.sleep(SECONDS / 2)
            client.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in client.recv(65_536)
        client.sendall(b"GET /v2 HT")
        assert read_all(client) == b""


def test_headers_without_end_are_cut_off(address):
    with connected(address) as client:
        try:
            for _ in range(100):
                client.sendall(b"X-Y: " + b"z" * 10_000)
        except ConnectionError:
            return
        assert b"200" not in read_all(client)


def test_a_body_that_comes_too_slowly_is_cut_off(address):
    with connected(address) as client:
        client.sendall(b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"must arrive within" in answer


def test_a_body_that_is_said_to_be_too_large_is_not_read(address):
    with connected(address) as client:
        client.sendall(b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: 200001\r\n\r\n")
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"at most 200,000 bytes" in answer


def test_a_body_in_chunks_that_becomes_too_large_is_cut_off(address):
    with connected(address) as client:
        client.sendall(b"POST /rank HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"%x\r\n" % 50_000 + b" " * 50_000 + b"\r\n"
        sent = 0
        try:
            while sent < 100:
                client.sendall(chunk)
                sent += 1
        except ConnectionError:
            pass
        answer = read_all(client)
    assert sent < 100 or answer.startswith(b"HTTP/1.1 413")


def test_a_compressed_body_is_refused(client):
    answer = client.post("/rank", content=b"{}", headers={"content-encoding": "gzip"})
    assert answer.status_code == 415


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 30])
def test_a_length_that_is_none_is_refused(client, length):
    answer = client.post("/rank", content=b"{}", headers={"content-length": length})
    assert answer.status_code in (400, 413)


def test_bodies_on_their_way_have_a_limit_together(address):
    """Many bodies that are nearly whole are not all kept."""
    head = b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    clients = []
    host, port = address.removeprefix("http://").split(":")
    try:
        for _ in range(12):
            client = socket.create_connection((host, int(port)), timeout=60)
            clients.append(client)
            client.sendall(head + b" " * 199_000)
        answers = [read_all(client) for client in clients]
    finally:
        for client in clients:
            client.close()
    statuses = {answer[:12] for answer in answers if answer}
    assert b"HTTP/1.1 503" in statuses
    assert statuses <= {b"HTTP/1.1 503", b"HTTP/1.1 408"}


def test_more_connections_than_allowed_are_told_to_come_again(model_file, query, model):
    with running({"web": model_file}, {}, max_connections=2) as address, connected(address):
        time.sleep(0.2)
        status, _, _ = post(f"{address}/rank", {"documents": []})
        assert status == 503


def test_an_answer_that_nobody_takes_is_given_up(model_file, model, query):
    documents = [{"id": "x" * 4000, "features": {}}] * 5000
    body = json.dumps({"documents": documents, "absent": "missing"}).encode()
    head = b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running({"web": model_file}, {"timeout": 1.0}) as address:
        with connected(address) as client:
            client.sendall(head + body)
            time.sleep(2.5)
            # What the system has kept can be read, and then the connection is gone.
            assert len(read_all(client)) < len(body)
        status, _, _ = post(
            f"{address}/rank", {"documents": documents_of(query, model.feature_names)}
        )
        assert status == 200


def test_a_small_limit_of_documents_holds(model_file):
    with TestClient(create_app({"web": model_file}, max_documents=2)) as client:
        few, many = ({"documents": [{"features": {}}] * n, "absent": "missing"} for n in (2, 3))
        assert client.post("/rank", json=few).status_code == 200
        assert client.post("/rank", json=many).status_code == 413

"""The service as a process: how it starts, how it ends, and its workers."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from serving.samples import documents_of, post, serving, value_of, wait_until
from signals import handle_interrupts


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_a_request_that_is_under_way_is_finished_after_sigterm(model, model_file, query):
    """Half of a body is sent, the service is told to end, and the other half is still answered."""
    body = json.dumps({"documents": documents_of(query, model.feature_names)}).encode()
    head = b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with serving(model_file) as (address, process):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(head + body[:100])
            wait_until(lambda: b"200" in _ask_live(host, port))
            process.send_signal(signal.SIGTERM)

            def is_closed():
                try:
                    socket.create_connection((host, int(port)), timeout=5).close()
                except ConnectionRefusedError:
                    return True
                return False

            wait_until(is_closed)
            client.sendall(body[100:])
            answer = b""
            while part := client.recv(65_536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        found = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert len(found["documents"]) == len(query)
        assert process.wait(60) == 0
        assert process.stderr.read() == "rankgrove: stopped\n"


def test_ctrl_c_ends_the_service_with_the_code_of_an_interrupt(model_file):
    with handle_interrupts(), serving(model_file) as (_, process):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "rankgrove: interrupted\n"


def _ask_live(host, port):
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        return client.recv(1000)


def test_workers_share_the_port_and_their_counts(model, model_file, query):
    body = {"documents": documents_of(query, model.feature_names)}
    with serving(model_file, "--workers", 2) as (address, process):

        def ask():
            for _ in range(20):
                assert post(f"{address}/rank", body)[0] == 200

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

        def counted():
            text = get(f"{address}/metrics")
            n_requests = value_of(text, "rankgrove_requests_total", route="rank", code="200")
            return n_requests == 80 and value_of(text, "rankgrove_model_info", model="web") == 2

        wait_until(counted)
        children = _children(process.pid)
        assert len(children) >= 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        wait_until(lambda: not any(map(is_alive, children)))


def test_a_worker_that_dies_is_replaced_and_none_outlives_the_service(model_file):
    with serving(model_file, "--workers", 2) as (address, process):
        workers = _workers(process.pid)
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: len(set(_workers(process.pid)) - set(workers)) == 1)
        replaced = _workers(process.pid)
        wait_until(lambda: '"ready":true' in get(f"{address}/v2/health/ready"))
        process.kill()
        process.wait(60)
        wait_until(lambda: not any(map(is_alive, replaced)))


def _children(parent):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                state, number = file.read().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(number) == parent and state != "Z":
            found.append(int(name))
    return found


def _workers(parent):
    """The children that serve; another one tracks shared resources."""
    found = []
    for number in _children(parent):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                if b"spawn_main" in file.read():
                    found.append(number)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_logs_are_json_on_request(model_file, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    options = ("--json-logs", "--log-requests", "--token-file", token)
    with serving(model_file, *options) as (address, process):
        status, _, _ = post(
            f"{address}/rank", {"documents": []}, {"authorization": "Bearer secret"}
        )
        assert status == 200
        assert post(f"{address}/rank", {"documents": []})[0] == 401
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        lines = process.stderr.read().splitlines()
    first = json.loads(lines[0])
    assert (first["route"], first["code"]) == ("rank", 200)
    assert {"time", "level", "message", "model", "ms"} <= first.keys()
    assert "secret" not in "".join(lines)


WITHOUT = """
import sys
sys.modules["{package}"] = None
try:
    import rankgrove.serving
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "msgspec", "prometheus_client"])
def test_without_the_extra_one_error_names_it(package):
    code = WITHOUT.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == (
        f"rankgrove.serving needs the package '{package}', which is not installed. Install it "
        f"with: pip install 'rankgrove[serve]'"
    )

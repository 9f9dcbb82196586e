"""Small models and requests for them, and services that run for the length of a test."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import numpy as np

from rankgrove import Ranker, make_web_search
from rankgrove.serving.server import Settings, Worker, address_of, open_socket

N_FEATURES = 16
QUERY = 12


def make_data():
    return make_web_search(30, N_FEATURES, mean_documents=12, seed=3)


def train(n_trees):
    return Ranker(n_estimators=n_trees, min_samples_leaf=2).fit(make_data()).model_


def make_query(n_documents=QUERY):
    return make_data().features[:n_documents]


def plain(value):
    """A feature as JSON has it."""
    return None if np.isnan(value) else float(value)


def documents_of(query, names):
    return [
        {"id": f"d{row}", "features": dict(zip(names, map(plain, values), strict=True))}
        for row, values in enumerate(query)
    ]


def columns_of(query, names):
    columns = {name: [plain(v) for v in query[:, at]] for at, name in enumerate(names)}
    return {"ids": [f"d{row}" for row in range(len(query))], "columns": columns}


def tensor_of(query, datatype="FP64", **extra):
    data = [plain(value) for value in query.ravel()]
    shape = list(query.shape)
    return {"inputs": [{"name": "features", "shape": shape, "datatype": datatype, "data": data}],
            **extra}  # fmt: skip


def binary_tensor(query, datatype="FP32", padding=0, **extra):
    """The body of a binary request and its headers."""
    numbers = query.astype({"FP32": "<f4", "FP64": "<f8"}[datatype]).tobytes()
    head = {
        "inputs": [{"name": "features", "shape": list(query.shape), "datatype": datatype,
                    "parameters": {"binary_data_size": len(numbers)}}],
        **extra,
    }  # fmt: skip
    text = json.dumps(head).encode() + b" " * padding
    return text + numbers, {"inference-header-content-length": str(len(text))}


def scores_by_row(answer):
    """The scores of a `/rank` answer in the order of the request, ids being d0, d1, …"""
    found = {int(document["id"][1:]): document["score"] for document in answer["documents"]}
    return [found[row] for row in range(len(found))]


def value_of(text, name, **labels):
    """A value of Prometheus' text; None if it is not there."""
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
            return float(line.rpartition(" ")[2])
    return None


@contextmanager
def running(models, options=None, **settings):
    """A service in a thread of this process; gives its address."""
    ready = threading.Event()
    with open_socket("127.0.0.1", 0) as opened:
        address = address_of(opened)
        full = Settings({k: str(v) for k, v in models.items()}, options or {}, **settings)
        worker = Worker(full, ready.set)
        thread = threading.Thread(target=worker.run, args=([opened],))
        thread.start()
        try:
            assert ready.wait(60)
            yield address
        finally:
            worker.should_exit = True
            thread.join(60)
    assert not thread.is_alive()


@contextmanager
def serving(*args, **environment):
    """`rankgrove serve` as a process; gives its address and the process."""
    command = [sys.executable, "-m", "rankgrove", "serve", *map(str, args), "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        lines = []
        while not lines or lines[-1] != "}\n":
            line = process.stdout.readline()
            assert line, process.stderr.read()
            lines.append(line)
        yield json.loads("".join(lines))["address"], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def post(url, body, headers=None):
    """Status, headers and content of an answer, whatever it is."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    request = urllib.request.Request(url, body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def wait_until(is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)

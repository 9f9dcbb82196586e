"""The scoring service beside MLServer: the same trees, the same client, the same run.

LightGBM trains the trees; `rankgrove serve` scores a copy of them and MLServer the text of
LightGBM. Both are one process and must give the same scores to the bit. The client is one process
that sends requests which are made ahead and looks at nothing but the length of an answer: on one
connection for the times, on eight for the throughput. Services take turns. At last each is asked at
a fixed rate, 80 % of its own best, where a time counts from the moment that a request was due.

MLServer needs an environment of its own, which is made in a temporary folder unless `--mlserver`
names the Python of one.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from rankgrove import make_web_search  # noqa: E402
from rankgrove.model.model import Model  # noqa: E402
from rankgrove.model.schema import Schema  # noqa: E402
from rankgrove.testing.lightgbm_trees import ensemble_of  # noqa: E402
from rankgrove.testing.peers import fit_peer, peer_settings  # noqa: E402

COMMAND = "python -m benchmarks.serve"
PACKAGES = ("numpy", "starlette", "uvicorn", "msgspec", "lightgbm")
PEERS = ("mlserver==1.7.1", "mlserver-lightgbm==1.7.1")
N_FEATURES, N_TREES, N_LEAVES, QUERY = 136, 500, 63, 100
N_CONNECTIONS = 8
LOAD = 0.8
NAME = "ranker"


@dataclass
class Target:
    """One way to ask a service."""

    title: str
    address: tuple[str, int]
    request: bytes


class Connection:
    """A connection that sends a request and waits for the whole answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.start = 0.0
        self._missing = -1
        self._head = b""

    def send(self, request: bytes, start: float) -> None:
        self.start, self._missing, self._head = start, -1, b""
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Take what has come; whether that was the end of the answer."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the service closed a connection")
        if self._missing < 0:
            self._head += data
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                return False
            if not head.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(self._head[:500].decode(errors="replace"))
            lines = head.lower().split(b"\r\n")
            length = next(line for line in lines if line.startswith(b"content-length:"))
            self._missing = int(length.partition(b":")[2]) - len(rest)
        else:
            self._missing -= len(data)
        return self._missing == 0


def ask(target: Target, seconds: float, connections: int, rate: float | None = None) -> Any:
    """The times of requests, as many as fit into so many seconds; at a rate, if one is given."""
    selector = selectors.DefaultSelector()
    idle = [Connection(target.address) for _ in range(connections)]
    for connection in idle:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    times: list[float] = []
    n_sent = 0
    begin = time.perf_counter()
    end = begin + seconds
    while (now := time.perf_counter()) < end or len(idle) < connections:
        due = now if rate is None else begin + n_sent / rate
        while idle and due <= now < end:
            idle.pop().send(target.request, due)
            n_sent += 1
            due = now if rate is None else begin + n_sent / rate
        wait = 0.05 if rate is None or not idle else max(0.0, min(0.05, due - now))
        for key, _ in selector.select(wait):
            if key.data.receive():
                times.append(time.perf_counter() - key.data.start)
                idle.append(key.data)
    for connection in idle:
        connection.socket.close()
    selector.close()
    return np.array(times)


def http(path: str, body: bytes, **headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def make_requests(query: Any, names: tuple[str, ...]) -> dict[str, bytes]:
    """Requests for the same documents in each form; in JSON with the digits that float32 has."""
    rows = [[float(str(value)) for value in row] for row in query]
    tensor = {"name": "features", "shape": list(query.shape), "datatype": "FP32"}
    flat = [value for row in rows for value in row]
    numbers = query.tobytes()
    head = json.dumps(
        {
            "inputs": [{**tensor, "parameters": {"binary_data_size": len(numbers)}}],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    documents = [
        {"id": f"d{at}", "features": dict(zip(names, row, strict=True))}
        for at, row in enumerate(rows)
    ]
    columns = {
        name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    by_column = {"documents": {"ids": [d["id"] for d in documents], "columns": columns}}
    infer, kind = f"/v2/models/{NAME}/infer", "application/json"
    return {
        "binary": http(infer, head + numbers, Inference_Header_Content_Length=str(len(head))),
        "json": http(
            infer, json.dumps({"inputs": [{**tensor, "data": flat}]}).encode(), Content_Type=kind
        ),
        "columns": http("/rank", json.dumps(by_column).encode(), Content_Type=kind),
        "documents": http(
            "/rank", json.dumps({"documents": documents}).encode(), Content_Type=kind
        ),
    }


def train(folder: Path) -> tuple[Model, Any]:
    """The same trees as a model of Rankgrove and as LightGBM's text, in files; and a query."""
    data = make_web_search(80, N_FEATURES, seed=1)
    # Without missing values, which MLServer does not take in JSON.
    data = type(data)(np.nan_to_num(data.features), data.labels, data.offsets, data.query_ids)
    given = {"objective": "lambdamart", "max_leaves": N_LEAVES, "learning_rate": 0.05}
    booster = fit_peer("lightgbm", peer_settings("lightgbm", given, 1), data, N_TREES).model
    booster.save_model(str(folder / "model.txt"))
    model = Model(ensemble_of(booster), Schema(data.feature_names), {}, {})
    model.save(folder / f"{NAME}.safetensors")
    return model, np.ascontiguousarray(data.features[:QUERY])


@contextmanager
def ours(folder: Path) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "rankgrove", "serve", str(folder / f"{NAME}.safetensors"),
               "--port", "0", "--json"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())  # type: ignore[union-attr]
        host, port = json.loads("".join(lines))["address"].removeprefix("http://").split(":")
        yield host, int(port)
    finally:
        process.terminate()
        process.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


@contextmanager
def mlserver(folder: Path, python: Path) -> Iterator[tuple[str, int]]:
    ports = {f"{name}_port": free_port() for name in ("http", "grpc", "metrics")}
    settings = {"host": "127.0.0.1", "parallel_workers": 0, "debug": False, **ports}
    (folder / "settings.json").write_text(json.dumps(settings))
    implementation = "mlserver_lightgbm.LightGBMModel"
    parameters = {"uri": str(folder / "model.txt")}
    described = {"name": NAME, "implementation": implementation, "parameters": parameters}
    (folder / "model-settings.json").write_text(json.dumps(described))
    with (folder / "mlserver.log").open("w") as log:
        process = subprocess.Popen(
            [str(python.with_name("mlserver")), "start", str(folder)], stdout=log, stderr=log
        )
    try:
        url = f"http://127.0.0.1:{ports['http_port']}/v2/models/{NAME}/ready"
        deadline = time.monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "mlserver.log").read_text()[-2000:]) from None
                time.sleep(0.5)
        yield "127.0.0.1", ports["http_port"]
    finally:
        process.terminate()
        process.communicate()


def environment_of_mlserver(folder: Path) -> Path:
    """The Python of a new environment that has MLServer."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", *PEERS], check=True)
    return python


def check_scores(target: Target, wanted: list[float]) -> None:
    """The service gives the bits of the model, or this ends here."""
    path = target.request.split(b" ", 2)[1].decode()
    body = target.request.partition(b"\r\n\r\n")[2]
    url = f"http://{target.address[0]}:{target.address[1]}{path}"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        got = json.loads(answer.read())["outputs"][0]["data"]
    if got != wanted:
        raise RuntimeError(f"{target.title} does not give the scores of the model")


def measure(targets: list[Target], rounds: int, seconds: float) -> str:
    single: dict[str, list[Any]] = {target.title: [] for target in targets}
    top: dict[str, list[float]] = {target.title: [] for target in targets}
    for target in targets:
        ask(target, 0.5, 1)
    for _ in range(rounds):
        for target in targets:
            single[target.title].append(ask(target, seconds, 1))
            top[target.title].append(len(ask(target, seconds, N_CONNECTIONS)) / seconds)
    rows = []
    peer = max(top[targets[-1].title])
    for target in targets:
        times = 1000 * np.concatenate(single[target.title])
        best = max(top[target.title])
        held = 1000 * ask(target, 2 * seconds, N_CONNECTIONS, LOAD * best)
        p50, p90, p99 = np.percentile(times, [50, 90, 99])
        rows.append(
            (target.title, len(target.request), f"{p50:.2f}", f"{p90:.2f}", f"{p99:.2f}",
             f"{best:.0f}", f"{best / peer:.1f}",
             " / ".join(f"{v:.2f}" for v in np.percentile(held, [50, 99])))
        )  # fmt: skip
    header = (
        "service and form", "bytes", "p50, ms", "p90", "p99",
        f"requests/s, {N_CONNECTIONS} connections", "/ MLServer", "p50 / p99 at 80 %, ms",
    )  # fmt: skip
    return table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--mlserver", type=Path, help="the Python of an environment with MLServer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = options.mlserver or environment_of_mlserver(folder / "mlserver")
        model, query = train(folder)
        requests = make_requests(query, model.feature_names)
        with ours(folder) as own, mlserver(folder, python) as other:
            targets = [
                Target("Rankgrove, binary tensor", own, requests["binary"]),
                Target("Rankgrove, JSON tensor", own, requests["json"]),
                Target("Rankgrove, /rank by columns", own, requests["columns"]),
                Target("Rankgrove, /rank by documents", own, requests["documents"]),
                Target("MLServer, JSON tensor", other, requests["json"]),
            ]
            wanted = model.predict(query).tolist()
            check_scores(targets[1], wanted)
            check_scores(targets[-1], wanted)
            body = measure(targets, options.rounds, options.seconds)
    text = (
        f"{QUERY} documents of {N_FEATURES} features, {N_TREES} trees of {N_LEAVES} leaves, one "
        f"process for each service, {options.rounds} alternating rounds of {options.seconds:g} s; "
        f"the client runs on the same machine. Both give the same scores, bit for bit. MLServer "
        f"is {', '.join(PEERS)} with parallel_workers=0.\n\n{body}"
    )
    report("serve", "Serving", COMMAND, PACKAGES, text)


if __name__ == "__main__":
    main()

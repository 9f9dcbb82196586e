"""Running the service: its socket, its workers, and how it ends."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from typing import Any

import uvicorn
from prometheus_client import disable_created_metrics

from rankgrove.errors import RankgroveError, refusal, whole_number
from rankgrove.serving.app import create_app
from rankgrove.serving.counters import SHARED_FOLDER
from rankgrove.serving.limits import Limits, PatientProtocol
from rankgrove.serving.logs import LOGGER, configure_logging
from rankgrove.serving.models import ModelStore

# How long requests that are under way may still take when the service is told to end.
_SECONDS_TO_END = 30
_SECONDS_BETWEEN_LOOKS = 0.5

log = logging.getLogger(LOGGER)


class ServiceError(RankgroveError):
    """The service cannot start or go on."""


@dataclass(frozen=True)
class Settings:
    """All that a worker needs to know.

    Attributes
    ----------
    models
        The file of each model by name.
    options
        Further arguments of `create_app`.
    workers
        How many processes serve.
    max_connections
        Of one worker; what comes beyond is told to come again.
    json_logs, log_requests
        How to log, and whether each request has a line.
    """

    models: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    workers: int = 1
    max_connections: int = 1000
    json_logs: bool = False
    log_requests: bool = False

    def __post_init__(self) -> None:
        whole_number("workers", self.workers, 1, 256)
        whole_number("max_connections", self.max_connections, 1)


class Worker(uvicorn.Server):
    """A server that says when it is ready, and that it is not any more once it is to end."""

    def __init__(self, settings: Settings, ready: Callable[[], None]) -> None:
        app: Any = create_app(settings.models, **settings.options)
        self._service = app.state.service
        self._ready = ready
        self._parent = multiprocessing.parent_process()
        super().__init__(_configuration(app, settings))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        if self._parent is not None and not self._parent.is_alive():
            self.should_exit = True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._service.stopping = True
        super().handle_exit(sig, frame)


def _configuration(app: Any, settings: Settings) -> uvicorn.Config:
    seconds = settings.options.get("timeout", Limits.seconds)
    protocol = type("Protocol", (PatientProtocol,), {"seconds": seconds})
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=settings.max_connections,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 lets the system choose."""
    whole_number("port", port, 0, 65_535)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise refusal("host", "be an address of this machine", host) from error
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(2048)
    except OSError as error:
        opened.close()
        raise ServiceError(
            f"port {port} of {host} must be free. Got: {error.strerror or error}. Choose another "
            f"with --port; 0 takes any that is free."
        ) from None
    return opened


def address_of(opened: socket.socket) -> str:
    """The address that a client is given."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(settings: Settings, opened: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve until the process is told to end; then finish what is under way.

    Parameters
    ----------
    settings
        What to serve, and how.
    opened
        Where to listen, from `open_socket`. It is closed in the end.
    announce
        Called with the address once requests are taken.
    """
    configure_logging(settings.json_logs, settings.log_requests)
    with opened:
        address = address_of(opened)
        if settings.workers == 1:
            disable_created_metrics()
            _serve(settings, opened, lambda: announce(address))
        else:
            # Before any worker starts: what is wrong is said once, and by this process.
            ModelStore(settings.models, settings.options.get("shadow") or {})
            with tempfile.TemporaryDirectory() as folder, _shared_counts(folder):
                _Supervisor(settings, opened).run(lambda: announce(address))


@contextmanager
def _ended_by_signal(end: Callable[[], None]) -> Iterator[None]:
    """Take SIGTERM as a wish: the default would end the process at once, or after uvicorn."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shared_counts(folder: str) -> Iterator[None]:
    """Have workers that start meanwhile keep their counts in a folder."""
    os.environ[SHARED_FOLDER] = folder
    try:
        yield
    finally:
        del os.environ[SHARED_FOLDER]


def _work(settings: Settings, opened: socket.socket, ready: Event) -> None:
    """The life of a worker process."""
    configure_logging(settings.json_logs, settings.log_requests)
    with suppress(KeyboardInterrupt):
        _serve(settings, opened, ready.set)


def _serve(settings: Settings, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Serve in this process until it is told to end."""
    with _ended_by_signal(lambda: None):
        worker = Worker(settings, ready)
        # All that is loaded by now stays: the garbage collector would look through it, for some
        # tenths of a second, while requests wait.
        gc.collect()
        gc.freeze()
        worker.run(sockets=[opened])


class _Supervisor:
    """Keeps so many worker processes alive, and ends them."""

    def __init__(self, settings: Settings, opened: socket.socket) -> None:
        self._settings = settings
        self._socket = opened
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[SpawnProcess, Event] = {}
        self._is_to_end = False

    def run(self, announce: Callable[[], None]) -> None:
        with _ended_by_signal(self._end):
            try:
                for _ in range(self._settings.workers):
                    self._start()
                is_announced = False
                while not self._is_to_end:
                    self._replace_dead()
                    if not is_announced and all(map(Event.is_set, self._workers.values())):
                        announce()
                        is_announced = True
                    wait([each.sentinel for each in self._workers], _SECONDS_BETWEEN_LOOKS / 5)
            finally:
                self._stop()

    def _end(self) -> None:
        self._is_to_end = True

    def _start(self) -> None:
        ready = self._context.Event()
        worker = self._context.Process(target=_work, args=(self._settings, self._socket, ready))
        worker.start()
        self._workers[worker] = ready

    def _replace_dead(self) -> None:
        for worker, ready in list(self._workers.items()):
            if worker.is_alive():
                continue
            del self._workers[worker]
            if not ready.is_set():
                raise ServiceError("a worker must come up. Got one that ended: see its messages.")
            log.error("worker %s ended with code %s: starting another", worker.pid, worker.exitcode)
            self._start()

    def _stop(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.join(_SECONDS_TO_END + 5)
            if worker.is_alive():
                worker.kill()
                worker.join()

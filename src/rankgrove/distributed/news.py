"""The connection over which the first worker tells its trees to whoever started the workers.

It is one of `SocketPeers` between two: the listening side is number 0, the first worker number 1.
Messages are plain values and arrays, so that reading them runs no code.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from rankgrove.distributed.addresses import Listener, listen
from rankgrove.distributed.failures import WorkersError
from rankgrove.distributed.following import SetSize, Start, Step
from rankgrove.distributed.joining import connect
from rankgrove.distributed.sharing import pack, unpack
from rankgrove.distributed.sockets import SocketPeers, new_token
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import Tree

_LISTENER, _TELLER = range(2)


class NoDriverError(WorkersError):
    """The first worker has found nobody to tell its trees to."""


def pack_news(news: Start | Step | list[str]) -> bytes:
    """News for a message: a start, a tree, or the addresses of all workers."""
    if isinstance(news, Start):
        metadata, arrays = news.model._to_file()
        sizes = {name: asdict(size) for name, size in news.sizes.items()}
        return pack({"model": metadata, "sizes": sizes}, **arrays)
    if isinstance(news, Step):
        arrays = {field.name: getattr(news.tree, field.name) for field in fields(Tree)}
        return pack({"number": news.number, "values": news.values}, **arrays)
    return pack({"addresses": news})


def unpack_news(message: bytes) -> Start | Step | list[str]:
    """What `pack_news` has packed."""
    meta, arrays = unpack(message)
    if "model" in meta:
        sizes = {name: SetSize(**size) for name, size in meta["sizes"].items()}
        return Start(Model._from_file(meta["model"], arrays), sizes)
    if "number" in meta:
        return Step(meta["number"], Tree(**arrays), meta["values"])
    return list(meta["addresses"])


class Teller:
    """The end of the first worker."""

    def __init__(self, address: str, token: str) -> None:
        # Nobody comes to this port: the side with the lower number is the one that listens.
        listener = listen()
        try:
            self._peers: SocketPeers = connect(
                listener, _TELLER, [address, listener.address], token
            )
        except WorkersError as error:
            raise NoDriverError(
                f"the first worker must reach the driver at {address}. Got: {error} See whether a "
                f"firewall is between, and pass ports= that are open."
            ) from None

    def tell(self, news: Start | Step | list[str]) -> None:
        """Send news."""
        self._peers.broadcast(pack_news(news), _TELLER)

    def __enter__(self) -> Teller:
        return self

    def __exit__(self, error_type: Any, error: BaseException | None, _: object) -> None:
        with self._peers:
            if error is not None:
                self._peers.abort(f"{error_type.__name__}: {error}")
            else:
                self._peers.broadcast(b"", _TELLER)


class Hearing:
    """The end of whoever started the workers, in a thread of its own.

    `put` gets all news, and the error if the first worker leaves before its end.

    Attributes
    ----------
    has_begun
        Whether the first worker has connected.
    """

    def __init__(self, host: str, put: Callable[[Any], None]) -> None:
        self.has_begun = False
        self._host, self._put, self._stop = host, put, threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, ports: str | None) -> tuple[str, str]:
        """Open a port: its address, and the token that opens the connection."""
        listener, token = listen(self._host, ports), new_token()
        self._thread = threading.Thread(
            target=self._hear, args=(listener, token), name="rankgrove-news", daemon=True
        )
        self._thread.start()
        return listener.address, token

    def _hear(self, listener: Listener, token: str) -> None:
        try:
            with connect(
                listener, _LISTENER, [listener.address, "the driver's end"], token,
                timeout=math.inf, should_stop=self._stop.is_set, on_wait=lambda _: None,
            ) as peers:  # fmt: skip
                self.has_begun = True
                while message := peers.broadcast(None, _TELLER):
                    self._put(unpack_news(message))
        except Exception as error:
            if not self._stop.is_set():
                self._put(error)

    def close(self) -> None:
        """Hang up: the first worker, and by it all others, end at the next tree."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

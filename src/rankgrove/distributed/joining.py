"""Workers find each other: every one gets a connection to every other one.

A worker connects to those of lower rank and waits for those of higher rank, all at once. Whoever
else comes to its port is let go without harm to the others.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial

from rankgrove.distributed.addresses import Listener, read_address, write_address
from rankgrove.distributed.callers import Caller
from rankgrove.distributed.failures import (
    NoConnectionError,
    WorkersError,
    lost,
    worker_at,
)
from rankgrove.distributed.handshake import (
    CHANNELS,
    NUMBERS,
    WORDS,
    Identity,
    answer_call,
    call_on,
)
from rankgrove.distributed.links import Link
from rankgrove.distributed.mesh import Mesh, Waiting
from rankgrove.distributed.sockets import SocketPeers
from rankgrove.errors import refusal

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
# Seconds that somebody who has come to the port has for saying who he is, and how many may be
# at it at once besides workers.
_PATIENCE = 10.0
_MOST_STRANGERS = 256
_ON_ITS_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR, errno.EALREADY)

# For the side that accepts connections, and for the one that makes them.
TlsContexts = tuple[ssl.SSLContext, ssl.SSLContext]


class Joining:
    """Setting up all connections of one worker."""

    def __init__(
        self,
        me: Identity,
        addresses: list[str],
        listener: Listener,
        silence: float,
        tls: TlsContexts | None,
    ) -> None:
        self.me, self.addresses, self.silence, self.tls = me, addresses, silence, tls
        self.links: dict[int, Link] = {}
        self.connections: dict[tuple[int, int], socket.socket] = {}
        self.refused: list[str] = []
        self.callers: list[Caller] = []
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener.socket, _READ)

    @property
    def missing(self) -> list[int]:
        """The ranks without a connection."""
        return [r for r in range(self.me.size) if r != self.me.rank and r not in self.links]

    def run(self, timeout: float, waiting: Waiting) -> None:
        """Make all links."""
        until = time.perf_counter() + timeout
        for rank in range(self.me.rank):
            for channel in CHANNELS:
                self._call(rank, channel)
        while self.missing:
            for key, _ in self.selector.select(0.2):
                if key.fileobj is self.listener.socket:
                    self._accept()
                elif isinstance(key.data, Link):
                    key.data.hear()  # whether it has gone or failed
                    if key.data.left:
                        self.selector.unregister(key.data.words)
                else:
                    self._advance(key.data)
            now = time.perf_counter()
            for caller in list(self.callers):
                if caller.rank is None and now - caller.begun > _PATIENCE:
                    self._refuse(caller, f"it has said nothing for {_PATIENCE:.0f} s")
            if now > until:
                raise self._too_late(timeout)
            waiting.look((rank, self.addresses[rank]) for rank in self.missing)

    def close(self) -> None:
        """Close what is unfinished."""
        self.selector.close()
        for caller in self.callers:
            caller.socket.close()
        for (rank, _), connection in self.connections.items():
            if rank not in self.links:
                connection.close()

    def _call(self, rank: int, channel: int) -> None:
        address = self.addresses[rank]
        host, port = read_address(address)
        try:
            family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise lost(rank, address, f"the address is not known ({error})") from None
        connection = socket.socket(family, kind)
        connection.setblocking(False)
        error_number = connection.connect_ex(place)
        if error_number not in _ON_ITS_WAY:
            connection.close()
            raise lost(rank, address, _no_way(OSError(error_number, os.strerror(error_number))))
        encrypt = None
        if self.tls is not None:
            encrypt = partial(
                self.tls[1].wrap_socket, do_handshake_on_connect=False, server_hostname=host
            )
        conversation = call_on(self.me, rank, address, channel)
        self._add(Caller(connection, conversation, address, rank, encrypt))

    def _accept(self) -> None:
        try:
            connection, place = self.listener.socket.accept()
        except OSError:
            return  # it has gone again
        connection.setblocking(False)
        address = write_address(place[0], place[1])
        visitors = [caller for caller in self.callers if caller.rank is None]
        if len(visitors) >= len(CHANNELS) * self.me.size + _MOST_STRANGERS:
            self._refuse(visitors[0], "too many others came")
        encrypt = None
        if self.tls is not None:
            encrypt = partial(
                self.tls[0].wrap_socket, do_handshake_on_connect=False, server_side=True
            )
        conversation = answer_call(self.me, address, self._is_wanted)
        self._add(Caller(connection, conversation, address, None, encrypt))

    def _is_wanted(self, rank: int, channel: int) -> bool:
        is_expected = self.me.rank < rank < self.me.size and channel in CHANNELS
        return is_expected and (rank, channel) not in self.connections

    def _add(self, caller: Caller) -> None:
        self.callers.append(caller)
        self.selector.register(caller.socket, _READ | _WRITE, caller)

    def _advance(self, caller: Caller) -> None:
        try:
            end = caller.advance()
        except WorkersError as error:
            self._refuse(caller, str(error))
            if caller.rank is not None:
                raise
        except OSError as error:
            self._refuse(caller, str(error))
            if caller.rank is not None:
                raise lost(caller.rank, caller.address, _no_way(error)) from None
        else:
            if end is None:
                mask = _READ | (_WRITE if caller.is_sending else 0)
                self.selector.modify(caller.socket, mask, caller)
            elif end in self.connections:
                self._refuse(caller, f"worker {end[0]} is connected already")
            else:
                self._keep(caller, *end)

    def _keep(self, caller: Caller, rank: int, channel: int) -> None:
        self.callers.remove(caller)
        self.selector.unregister(caller.socket)
        self.connections[rank, channel] = caller.socket
        numbers, words = (self.connections.get((rank, each)) for each in (NUMBERS, WORDS))
        if numbers is not None and words is not None:
            link = Link(rank, self.addresses[rank], numbers, words, self.silence)
            self.links[rank] = link
            self.selector.register(words, _READ, link)

    def _refuse(self, caller: Caller, reason: str) -> None:
        self.refused.append(f"{caller.address} ({reason})")
        self.callers.remove(caller)
        self.selector.unregister(caller.socket)
        caller.socket.close()

    def _too_late(self, timeout: float) -> NoConnectionError:
        rank = self.missing[0]
        others = [worker_at(r, self.addresses[r]) for r in self.missing]
        words = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        message = f"{words} must connect with worker {self.me.rank} within {timeout:.0f} s."
        message += " Got no connection: see whether they run, and whether a firewall is between."
        if self.refused:
            message += f" Refused meanwhile: {', '.join(self.refused[:5])}."
        return NoConnectionError(message, rank, self.addresses[rank])


def _no_way(error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return "nobody listens there, or a firewall has closed the port"
    return f"no connection can be made ({error.strerror or error})"


def connect(
    listener: Listener,
    rank: int,
    addresses: Sequence[str],
    token: str | bytes,
    *,
    timeout: float = 60.0,
    should_stop: Callable[[], bool] | None = None,
    on_wait: Callable[[str], None] | None = None,
    tls: TlsContexts | None = None,
    silence: float = 20.0,
) -> SocketPeers:
    """Connect this worker with all others. The port of the listener is closed then.

    Parameters
    ----------
    listener
        The port of this worker, from `listen`.
    rank
        The place of this worker in `addresses`.
    addresses
        Those of all workers, the same list on each.
    token
        What opens the connections, the same on all workers: `new_token()`. It is never sent.
    timeout
        Seconds after which those who have not connected are an error.
    should_stop
        Looked at once a second while this worker waits, now and in calls: True ends waiting with
        an error.
    on_wait
        Gets a line every 30 seconds of waiting that says for whom; None for a warning of the
        logger "rankgrove.distributed".
    tls
        Two contexts of `ssl`, for connections that are accepted and for those that are made: all
        connections are encrypted then.
    silence
        Seconds without an answer of a machine after which its worker is taken for lost. A worker
        that is busy is not: its machine answers.
    """
    with listener:
        if not addresses:
            raise refusal("addresses", "be one per worker", got="none")
        if not 0 <= rank < len(addresses):
            raise refusal("rank", f"be from 0 to {len(addresses) - 1}, one per address", rank)
        secret = token.encode() if isinstance(token, str) else bytes(token)
        if len(secret) < 16:
            got = f"{len(secret)}"
            raise refusal("token", "be 16 bytes or more", got=got, advice="use new_token()")
        me, every = Identity(rank, len(addresses), secret), list(addresses)
        waiting = Waiting(should_stop, on_wait)
        joining = Joining(me, every, listener, silence, tls)
        try:
            joining.run(timeout, waiting)
        except BaseException as error:
            mesh = Mesh(rank, every, list(joining.links.values()), waiting)
            failure = mesh.fail(error)
            mesh.close()
            raise failure from None
        finally:
            joining.close()
        return SocketPeers(Mesh(rank, every, list(joining.links.values()), waiting))

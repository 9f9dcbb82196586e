"""Addresses of workers: where one listens, and how an address is written."""

from __future__ import annotations

import errno
import os
import socket

from rankgrove.distributed.failures import NoPortError
from rankgrove.errors import refusal

_WILDCARDS = ("", "0.0.0.0", "::", "*")
_TAKEN = (errno.EADDRINUSE, errno.EACCES)


class Listener:
    """A port of this worker at which the others find it; bound already, and not yet in use.

    Attributes
    ----------
    socket
        The listening socket.
    address
        What to tell the other workers: "10.0.0.7:41233".
    """

    def __init__(self, listening: socket.socket, host: str) -> None:
        self.socket = listening
        self.address = write_address(host, listening.getsockname()[1])

    def close(self) -> None:
        """Give the port back."""
        self.socket.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listen(host: str = "127.0.0.1", ports: str | None = None) -> Listener:
    """Open a port for the other workers, and say its address.

    The port is bound before its address is told, so nobody else can take it in between.

    Parameters
    ----------
    host
        The address of this machine at which the other workers reach it; only that interface is
        opened.
    ports
        A port or a range of them, "9000-9100", of which the first free one is taken; None for any
        that is free.
    """
    if host in _WILDCARDS:
        raise refusal(
            "host", "be the address of one interface, at which the other workers find this one",
            host, advice="take the address of the network between the workers",
        )  # fmt: skip
    try:
        family, _, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise refusal("host", "be an address or a name that is known", host) from error
    candidates = [0] if ports is None else _ports_of(ports)
    for port in candidates:
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                # A port whose connections have just been closed is free.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((place[0], port, *place[2:]))
            listening.listen(1024)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            if error.errno not in _TAKEN:
                raise refusal("host", "be an address of this machine", host) from error
        else:
            return Listener(listening, host)
    raise NoPortError(
        f"ports must have a free one on {host}. Got {ports!r}, {len(candidates)} of them, none of "
        "which can be opened: pass a larger range."
    )


def _ports_of(ports: str) -> range:
    first, _, last = ports.partition("-")
    try:
        candidates = range(int(first), int(last or first) + 1)
    except ValueError:
        candidates = range(0)
    if not candidates or candidates[0] < 1 or candidates[-1] > 65535:
        raise refusal("ports", "be a port from 1 to 65535, or a range such as '9000-9100'", ports)
    return candidates


def write_address(host: str, port: int) -> str:
    """An address in words.

    >>> write_address("10.0.0.7", 41233), write_address("::1", 41233)
    ('10.0.0.7:41233', '[::1]:41233')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_address(address: str) -> tuple[str, int]:
    """Host and port of an address.

    >>> read_address("[::1]:41233")
    ('::1', 41233)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise refusal("addresses", "be like '10.0.0.7:41233'", address)
    return host.removeprefix("[").removesuffix("]"), int(port)
